"""List the page's controls, with values and defaults, and hold settings to them, as ``page/settings.js`` does."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from simlab.errors import InputError, check_choice
from simlab.explore.weights import hold_number, hold_weight
from simlab.problems.interference import USUAL_PROMPTS


class MapAxis(NamedTuple):
    """An axis of the map: a setting of the panel whose runs the cells are, ``weight`` for its gamma, and its values."""

    setting: str
    values: tuple[float, ...]  # increasing; every second one is in the coarse map
    scale: str = "linear"


AXES = {
    "group size": MapAxis("group_size", (2, 4, 8, 16, 32, 64, 128, 256, 512), "log"),
    "gamma": MapAxis("weight", (0, 0.25, 0.5, 1, 2)),
    "learning rate": MapAxis("learning_rate", (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1), "log"),
    "learning rate (sgd)": MapAxis("learning_rate", (4, 16, 64, 256), "log"),
    "actions": MapAxis("actions", (64, 128, 256, 512, 1024, 1536, 2048), "log"),
    "correct share": MapAxis("correct", (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64), "log"),
    "lag": MapAxis("lag", (0, 1, 2, 4, 8, 16, 32)),
    "false positives": MapAxis("false_positive", (0, 0.02, 0.05, 0.1, 0.2)),
    "epochs": MapAxis("epochs", (1, 2, 4, 6, 8)),
    "overlap": MapAxis("overlap", (-0.3, -0.1, 0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7)),
    "conflict": MapAxis("conflict", (0, 0.25, 0.5, 0.75, 1)),
    "hard rate": MapAxis("hard_rate", (0.001, 0.003, 0.01, 0.03, 0.1), "log"),
    "hard share": MapAxis("hard_share", (0.1, 0.25, 0.5, 0.75, 0.9)),
}

LARGEST_SEED = 2**31 - 1
SURROGATES = ("reinforce", "unclipped", "ppo_clip", "clip_higher", "dual_clip", "cispo")  # of rewards and ratios
QUANTITIES = ("correct mass", "retained mass", "entropy", "tail misses", "pass@16", "pass@256")
MAPPED = {"one policy": "run", "interfering prompts": "interference"}  # the panel whose runs a map shows
PROMPTS = {"run": 1, "interference": USUAL_PROMPTS}  # of a step of such a run
LENGTHS = EQUAL_STEPS, EQUAL_ROLLOUTS = ("equal steps", "equal rollouts")  # of the runs of a map
MOST_CELLS = 12
COMPARISONS = ("runs", "difference", "at equal correct mass", "difference at equal correct mass")
READINGS = ("runs", "at equal correct mass")
MOST_RUNS = 12  # that are pinned
REPRESENTATIONS = ("linear head", "network")
MAPS = ("conflict", "group-size", "hard-rate", "temperature", "learning-rate", "adam")


@dataclass(frozen=True)
class Control:
    """One control.

    Attributes:
        name: panel and setting, such as ``"miss.group_size"``; also its name in the address.
        kind: ``number``, ``whole``, ``choice``, ``weight`` (an estimator with parameters), ``weights`` (several,
            pinned), ``runs`` (settings of the same panel, pinned), ``cells`` (pairs of numbers), or ``bits`` (a 0 or
            1 for each action).
        low, high: the bounds of a number, or of the length of bits.
        closed: True if a weight must have masses.
    """

    name: str
    kind: str
    label: str
    default: Any
    low: float = -math.inf
    high: float = math.inf
    scale: str = "linear"
    choices: tuple[str, ...] = ()
    help: str = ""
    closed: bool = True


_GROUP = "rollouts that are drawn for one prompt"
_RATE = "how far one step of the optimiser goes"
_OPTIMIZER = "sgd takes gradients as they are, adam divides them by their recent size"
_STEPS = "updates, each by one group of every prompt"
_HARD_SHARE = "of 32 prompts; the others are easy"

CONTROLS: tuple[Control, ...] = (
    # Which G and gamma?
    Control("map.problem", "choice", "trained", "one policy", choices=tuple(MAPPED), help="what every cell trains"),
    Control("map.across", "choice", "across", "group size", choices=tuple(AXES),
            help="what differs between the columns of the map; overlap, conflict, hard rate and hard share are of "
                 "interfering prompts"),
    Control("map.down", "choice", "down", "gamma", choices=tuple(AXES), help="what differs between its rows"),
    Control("map.quantity", "choice", "colour", "retained mass", choices=QUANTITIES, help="what the map shows"),
    Control("map.length", "choice", "compared at", EQUAL_STEPS, choices=LENGTHS,
            help="at equal rollouts, twice the group size takes half the steps"),
    Control("map.rollouts", "whole", "rollouts of a run", 2**14, 2**9, 2**18, "octaves",
            help="what each cell may spend, over all prompts and steps"),
    Control("map.hard_share", "number", "share of hard prompts", 0.5, 1 / 32, 31 / 32, help=_HARD_SHARE),
    Control("map.at", "number", "time", 1.0, 0, 1, help="from the base model to the last step"),
    Control("map.weight", "weight", "estimator", "grpo", closed=False,
            help="with gamma on an axis: its own gamma, or the focal weight (1 − p)^γ on it"),
    Control("map.group_size", "whole", "group size G", 16, 2, 512, "log", help="where it is on no axis"),
    Control("map.learning_rate", "number", "learning rate", 0.01, 1e-4, 256, "log", help="where it is on no axis"),
    Control("map.optimizer", "choice", "optimiser", "adam", choices=("adam", "sgd"), help=_OPTIMIZER),
    Control("map.actions", "whole", "actions", 1280, 8, 2048, "log", help="of one policy, where they are on no axis"),
    Control("map.correct", "number", "correct share", 0.08, 0.001, 0.9, "log", help="of the actions of one policy"),
    Control("map.steps", "whole", "steps", 400, 50, 400, help=_STEPS),
    Control("map.seeds", "whole", "seeds of a cell", 8, 4, 64, "log", help="the map is refined while they come"),
    Control("map.seed", "whole", "first seed", 0, 0, LARGEST_SEED, help="seeds are counted up from here"),
    Control("map.cell", "cells", "cell", "16,1", help="whose training is drawn: across, down"),
    Control("map.pinned", "cells", "pinned cells", "16,0", help="cells whose training stays to compare"),
    # What is the chance that a group teaches, and yet holds nothing of a rare target?
    Control("miss.group_size", "whole", "group size G", 16, 1, 2**17, "log", help=_GROUP),
    Control("miss.correct_mass", "number", "correct mass μ", 0.5, 1e-6, 1,
            help="probability that a rollout is correct"),
    Control("miss.target_mass", "number", "target mass τ", 0.02, 1e-6, 1, "log",
            help="probability that a rollout is one of a rare part of the correct ones; at most μ"),
    # What does an estimator weigh, at every solve rate?
    Control("masses.weight", "weight", "estimator", "grpo", help="its masses are drawn in the first colour"),
    Control("masses.group_size", "whole", "group size G", 8, 1, 256, "log", help=_GROUP),
    Control("masses.show", "choice", "show", "masses", choices=("masses", "peak 1", "m_S − m_F"),
            help="the masses, the masses with the largest scaled to 1, or their difference"),
    Control("masses.pinned", "weights", "pinned", "", help="estimators that stay for comparison"),
    # Where does one step move probability?
    Control("step.correct_modes", "whole", "correct actions", 5, 1, 8, help="actions with reward R_c"),
    Control("step.incorrect_modes", "whole", "incorrect actions", 5, 1, 8, help="actions with reward R_w"),
    Control("step.correct_mass", "number", "correct mass", 0.5, 0.001, 0.999, help="what the correct actions share"),
    Control("step.correct_ratio", "number", "ratio of correct ones", 0.5, 0.01, 1,
            help="each next action is so many times as likely as the one before"),
    Control("step.incorrect_ratio", "number", "ratio of incorrect ones", 0.7, 0.01, 1,
            help="each next action is so many times as likely as the one before"),
    Control("step.sampled_correct", "bits", "correct actions in the group", "10000", 1, 8),
    Control("step.sampled_incorrect", "bits", "incorrect actions in the group", "10000", 1, 8),
    Control("step.group_size", "whole", "group size G", 8, 1, 1024, "log", help=_GROUP),
    Control("step.rewards", "choice", "rewards from", "the sliders",
            choices=("the sliders", "the estimator", "graded rewards"),
            help="an estimator gives what a rollout weighs at the policy's solve rate, or by its graded reward"),
    Control("step.weight", "weight", "estimator", "grpo", help="whose rewards are taken, where it is chosen"),
    Control("step.correct_reward", "number", "reward if correct", 1.0, 0, 4, help="of a sampled correct action"),
    Control("step.incorrect_reward", "number", "reward if incorrect", -1.0, -4, 0,
            help="of a sampled incorrect action"),
    *(Control(f"step.{side}{number}", "number", f"reward of {side}{number}", float(side == "c"), -3, 3,
              help="of this rollout; estimators for 0 and 1 alone say so")
      for side in "cw" for number in range(1, 9)),
    Control("step.learning_rate", "number", "learning rate η", 1.0, 0.001, 100, "log", help=_RATE),
    Control("step.seed", "whole", "seed of the draw", 0, 0, 9999, help="a group drawn with this seed"),
    # What does training do to a policy?
    Control("run.weight", "weight", "estimator", "f_grpo(gamma=1,base=grpo)", closed=False,
            help="f_grpo puts a focal weight (1 − p)^γ on its base"),
    Control("run.group_size", "whole", "group size G", 16, 2, 512, "log", help=_GROUP),
    Control("run.learning_rate", "number", "learning rate", 0.01, 1e-4, 256, "log", help=_RATE),
    Control("run.optimizer", "choice", "optimiser", "adam", choices=("adam", "sgd"), help=_OPTIMIZER),
    Control("run.surrogate", "choice", "surrogate", "reinforce", choices=SURROGATES,
            help="they differ from the second epoch on, where the policy is no longer the one that drew the group"),
    Control("run.epochs", "whole", "epochs", 1, 1, 8, help="gradient steps by each group"),
    Control("run.lag", "whole", "lag of the sampler", 0, 0, 32,
            help="the policy of so many steps ago draws the groups, as in asynchronous training"),
    Control("run.false_positive", "number", "false positives", 0.0, 0, 0.5,
            help="probability that the verifier accepts a wrong rollout"),
    Control("run.actions", "whole", "actions", 1280, 8, 32768, "log", help="of the policy, correct and incorrect"),
    Control("run.correct", "number", "correct share", 0.08, 0.001, 0.9, "log",
            help="of the actions; the first is the likely one (the anchor), the others start rare"),
    Control("run.anchor_logit", "number", "anchor logit", 5.0, 0, 12, help="of the likely correct action"),
    Control("run.correct_logit", "number", "rare correct logit", 3.0, -4, 12, help="of the others; incorrect ones: 0"),
    Control("run.steps", "whole", "steps", 400, 1, 2**14, "log", help=_STEPS),
    Control("run.seeds", "whole", "seeds", 32, 4, 256, "log", help="the band narrows while they are simulated"),
    Control("run.seed", "whole", "first seed", 0, 0, LARGEST_SEED, help="seeds are counted up from here"),
    Control("run.compare", "choice", "show", "runs", choices=COMPARISONS,
            help="differences are to the first pinned run, by seed; at equal correct mass, each seed is read where "
                 "it first reaches that mass"),
    Control("run.pinned", "runs", "pinned runs", "weight=f_grpo(gamma=0,base=grpo)", help="runs that stay to compare"),
    # What is pass@k of many prompts?
    Control("bank.prompts", "whole", "prompts", 64, 1, 512, "log", help="each with a solve rate of its own"),
    Control("bank.beta_a", "number", "Beta a", 0.5, 0.05, 20, "log", help="small: many prompts that are hardly solved"),
    Control("bank.beta_b", "number", "Beta b", 0.5, 0.05, 20, "log",
            help="small: many prompts that are nearly always solved"),
    Control("bank.second_share", "number", "share of a second Beta", 0.0, 0, 1, help="of the prompts; 0: none has it"),
    Control("bank.second_a", "number", "second Beta a", 8.0, 0.05, 20, "log", help="where the second has a share"),
    Control("bank.second_b", "number", "second Beta b", 2.0, 0.05, 20, "log", help="where the second has a share"),
    Control("bank.modes", "whole", "correct modes of a prompt", 4, 2, 16, help="different answers that are right"),
    Control("bank.rare_modes", "whole", "of these rare", 3, 1, 15, help="fewer than the modes"),
    Control("bank.rare_ratio", "number", "a rare mode is ×", 0.01, 1e-4, 1, "log", help="as likely as a common one"),
    Control("bank.k", "whole", "samples k", 16, 1, 2**20, "log", help="at which pass@k is read"),
    Control("bank.weight", "weight", "estimator", "grpo", closed=False, help="that the bank is trained by"),
    Control("bank.group_size", "whole", "group size G", 8, 2, 512, "log", help=_GROUP),
    Control("bank.learning_rate", "number", "learning rate", 10.0, 1e-3, 100, "log", help=_RATE),
    Control("bank.optimizer", "choice", "optimiser", "sgd", choices=("sgd", "adam"), help=_OPTIMIZER),
    Control("bank.steps", "whole", "steps", 200, 20, 1000, help=_STEPS),
    Control("bank.at", "number", "time", 1.0, 0, 1, help="from the base model to the last step"),
    Control("bank.seeds", "whole", "seeds", 8, 4, 64, "log", help="the band narrows while they are simulated"),
    Control("bank.seed", "whole", "first seed", 0, 0, LARGEST_SEED, help="seeds are counted up from here"),
    Control("bank.compare", "choice", "show", "runs", choices=COMPARISONS,
            help="over the training; differences are to the first pinned bank, by seed; at equal correct mass, each "
                 "seed is read where it first reaches that pass@1"),
    Control("bank.pinned", "runs", "pinned banks", "", help="banks that stay to compare"),
    # When does a weight matter, and where does pass@k fall below the base model?
    Control("interference.weight", "weight", "estimator", "grpo", closed=False, help="under the plain policy gradient"),
    Control("interference.second", "weight", "second estimator", "maxrl", closed=False,
            help="drawn over the first, all else being equal"),
    Control("interference.representation", "choice", "prompts share", "linear head", choices=REPRESENTATIONS,
            help="one linear head, or a network with a hidden layer of 64 units; sets the learning rate"),
    Control("interference.optimizer", "choice", "optimiser", "sgd", choices=("sgd", "adam"),
            help=f"{_OPTIMIZER}; sets the learning rate"),
    Control("interference.group_size", "whole", "group size G", 8, 2, 512, "log", help=_GROUP),
    Control("interference.hard_rate", "number", "solve rate of hard prompts", 0.01, 1e-4, 0.2, "log",
            help="of the base model; easy prompts have 0.3"),
    Control("interference.hard_share", "number", "share of hard prompts", 0.5, 1 / 32, 31 / 32, help=_HARD_SHARE),
    Control("interference.k", "choice", "pass@k at k", "256", choices=tuple(f"{4**power}" for power in range(1, 7)),
            help="that is drawn against pass@1"),
    Control("interference.level", "number", "pass@1 compared at", 0.4, 0.05, 0.95,
            help="pass@k is read where pass@1 first reaches this level"),
    Control("interference.overlap", "number", "overlap of features", 0.3, -0.5, 0.9,
            help="the cosine of the features of an easy and a hard prompt"),
    Control("interference.conflict", "number", "conflict", 1.0, 0, 1,
            help="share of the hard prompts for which the answer of the easy ones is wrong"),
    Control("interference.temperature", "number", "temperature", 1.0, 0.3, 2, "log", help="of the sampled policy"),
    Control("interference.learning_rate", "number", "learning rate", 1.0, 1e-4, 256, "log", help=_RATE),
    Control("interference.steps", "whole", "steps", 400, 1, 2**12, "log", help=_STEPS),
    Control("interference.seeds", "whole", "seeds", 8, 4, 64, "log", help="the band narrows while they are simulated"),
    Control("interference.seed", "whole", "first seed", 0, 0, LARGEST_SEED, help="seeds are counted up from here"),
    Control("interference.map", "choice", "map: overlap and", "conflict", choices=MAPS,
            help="what differs between the rows of the map"),
    # What does training do to a tree?
    Control("tree.group_size", "whole", "group size G", 16, 2, 32, "log", help=_GROUP),
    Control("tree.learning_rate", "number", "learning rate", 1.0, 0.01, 10, "log", help=_RATE),
    Control("tree.steps", "whole", "steps", 500, 50, 2000, help=_STEPS),
    Control("tree.entropy_bonus", "number", "entropy bonus", 1.0, 0, 2, help="of GRPO + entropy"),
    Control("tree.alpha", "number", "CaSP α", 0.5, 0, 1, help="what a success gives to its likeliest candidates"),
    Control("tree.top_penalty", "number", "CaSP λ", 1.1, 1, 3,
            help="what a failure of the likeliest candidate costs more"),
    Control("tree.candidates", "choice", "CaSP candidates N", "4", choices=("2", "3", "4"),
            help="the likeliest letters of a node, which share what it gives and takes"),
    Control("tree.quantile", "number", "CaSP entropy gate q", 0.0, 0, 1, help="0 opens it for every token"),
    Control("tree.seed", "whole", "seed shown", 0, 0, LARGEST_SEED, help="seeds are counted up from here"),
    Control("tree.at", "number", "time", 1.0, 0, 1, help="from the start to the last step"),
    Control("tree.compare", "choice", "show", "runs", choices=READINGS,
            help="at equal correct mass, each method is shown where it first has the least accurate one's accuracy"),
    Control("tree.pinned", "runs", "pinned runs", "", help="runs that stay to compare"),
)  # fmt: skip
BY_NAME: Mapping[str, Control] = {control.name: control for control in CONTROLS}
PANELS = ("map", "miss", "masses", "step", "run", "bank", "interference", "tree")
SIMULATED = ("run", "interference", "tree", "bank")  # panels whose runs are simulated
PICTURE_SETTINGS = ("second", "seeds", "compare", "pinned", "level", "map", "at", "k")  # they change no run


def controls_of_panel(panel: str) -> dict[str, Control]:
    """Return the controls of a panel by their names without it."""
    start = f"{panel}."
    return {name.removeprefix(start): control for name, control in BY_NAME.items() if name.startswith(start)}


def run_settings(panel: str) -> list[str]:
    """Return the names of the settings that the runs of a panel depend on."""
    return [name for name in controls_of_panel(panel) if name not in PICTURE_SETTINGS]


def hold(control: Control, value: Any) -> tuple[Any, str]:
    """Return the value that a control takes when it is set to ``value``, and a note if that is another one.

    >>> hold(controls_of_panel("miss")["correct_mass"], 2)
    (1, 'correct mass μ = 2 is outside [1e-06, 1]; held at 1')
    """
    if control.kind in ("number", "whole"):
        return hold_number(control.label, value, control.low, control.high, whole=control.kind == "whole")
    if control.kind == "choice":
        check_choice(control.name, value, control.choices)
    elif not isinstance(value, str):
        raise InputError(f"{control.name} = {value!r} is no text")
    return hold_weight(value, closed=control.closed) if control.kind == "weight" else (value, "")


def hold_panel(panel: str, settings: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return all settings of a panel, held to their ranges or at their defaults, and notes on those bounded."""
    controls = controls_of_panel(panel)
    for name in settings:
        check_choice("setting", name, controls)
    bounded = {name: hold(control, settings.get(name, control.default)) for name, control in controls.items()}
    return {name: value for name, (value, _) in bounded.items()}, [note for _, note in bounded.values() if note]


def rounded(value: Any, digits: int = 6) -> Any:
    """Return numbers as JSON can hold them: to a few digits, None for one that is not finite."""
    if isinstance(value, dict):
        return {key: rounded(item, digits) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [rounded(item, digits) for item in value]
    if isinstance(value, float | np.floating):
        return float(f"{value:.{digits}g}") if np.isfinite(value) else None
    return value
