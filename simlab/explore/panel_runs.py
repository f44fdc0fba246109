"""Simulate the panels that need a server: one policy, a tree, a bank of prompts, and interfering prompts.

Each ``simulate_...`` takes the settings of its panel by name, and the first of ``BLOCK_SEEDS`` seeds. It returns
``step`` (R + 1,), the number of ``seeds``, and ``metrics``: of each metric its ``moments`` over the seeds, (R + 1,).
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float

from simlab.errors import InputError
from simlab.estimators import Estimator, advantages, estimator
from simlab.estimators.registry import REGISTRY
from simlab.explore.answers import BINS, bank_of
from simlab.explore.block import ACTIONS, BLOCK_SEEDS, Block, Say, fill_up, moments, record_steps
from simlab.explore.controls import hold_panel, rounded
from simlab.explore.masses import MOVES, POLICY_KS, expected_path, group_masses, is_of_rewards, with_pass_at_k
from simlab.explore.presets import WARM
from simlab.explore.weights import arm_text, read_weight
from simlab.problems import Categorical, Problem, anchored, tree
from simlab.problems.exact import correct_mass, pass_at_k
from simlab.problems.interference import interference, overlap_edge
from simlab.simulator.metrics import POLICY, JointView, Metric, PolicyView
from simlab.simulator.runner import check
from simlab.simulator.settings import Settings
from simlab.simulator.storage import EMPTY
from simlab.theory import tail_miss

RECORDS = {"run": 50, "tree": 20, "bank": 20, "interference": 40}
BANK_KS = (1, 4, 16, 64, 256, 1024, 4096)
INTERFERENCE_KS = tuple(2**power for power in range(13))
LOST = 0.1  # of the base model's rare modes: a prompt that has less of them has lost them

PanelSettings = dict[str, Any]  # the settings of a panel, by their names there
Result = dict[str, Any]


def _run_of(settings: PanelSettings, method: str = "", **more: Any) -> Settings:
    return Settings(
        method or f"{arm_text(settings['weight'])}+{settings.get('surrogate', 'reinforce')}",
        settings["group_size"],
        settings.get("optimizer", "sgd"),
        {"learning_rate": settings["learning_rate"]},
        storage="dense",
        **more,
    )


def _block(panel: str, settings: PanelSettings, problem: Problem, run: Settings, *metrics: str | Metric) -> Block:
    check(problem, run)
    steps = record_steps(settings["steps"], RECORDS[panel])
    names = tuple(metric for metric in metrics if isinstance(metric, str))
    return Block(problem, run, steps, names, tuple(metric for metric in metrics if isinstance(metric, Metric)))


def _result(panel: str, settings: PanelSettings, **more: Any) -> Result:
    return {"step": [0, *record_steps(settings["steps"], RECORDS[panel]).tolist()], "seeds": BLOCK_SEEDS, **more}


def _rare_rates(whole: JointView) -> Float[Array, " P"]:
    learner = whole.learner
    policies = learner.policies_at(whole.state.parameters, whole.state.slots)
    rates: Float[Array, " P"] = jax.vmap(lambda policy, target: correct_mass(policy.shares, target, policy.sum))(
        policies, learner.target
    )
    return rates


RARE_RATES = Metric("rare_rates", "probability of the target set", POLICY, _rare_rates, ("prompt",), joint=True)


# One policy


def panel_policy(settings: PanelSettings) -> Categorical:
    """Return the policy that the panel trains."""
    actions = settings["actions"]
    correct = min(max(round(settings["correct"] * actions), 2), actions - 1)
    logits = {name: settings[name] for name in ("anchor_logit", "correct_logit")}
    return anchored(actions, correct, **logits)


def policy_block(settings: PanelSettings) -> Block:
    """Return the seeds of the policy, its actions filled up to one of a few numbers by some that are never drawn."""
    run = _run_of(settings, **{name: settings[name] for name in ("epochs", "lag", "false_positive")})
    policy = panel_policy(settings)
    check(policy, run)
    missing = 0, fill_up(policy.actions, ACTIONS) - policy.actions
    policy = policy.listed()
    filled = policy.replaced(
        logits=np.pad(policy.logits, missing, constant_values=EMPTY),
        correct=np.pad(policy.correct, missing),
        target=np.pad(policy.target, missing),
    )
    names = ("q_pos", "retained_mass", "entropy", "tail_miss_rate")
    return Block(filled, run, record_steps(settings["steps"], RECORDS["run"]), names, (RARE_RATES,))


def simulate_policy(settings: PanelSettings, first: int, say: Say) -> Result:
    """Simulate the policy; ``theory`` is what ``drift`` returns."""
    rows = policy_block(settings).rows(first, say)
    mass = np.clip(rows["q_pos"].astype(np.float64), 0, 1)
    target = np.clip(rows.pop("rare_rates")[..., 0].astype(np.float64), 0, mass)
    missed = np.asarray(tail_miss(settings["group_size"], mass, target))
    if _is_on_policy_and_true(settings):
        rows["tail_miss_expected"] = np.concatenate([missed[:, :1], (missed[:, 1:] + missed[:, :-1]) / 2], axis=1)
    rows |= {f"pass_at_{k}": 1 - (1 - mass) ** k for k in POLICY_KS}
    metrics = {name: moments(values) for name, values in rows.items()}
    return _result("run", settings, metrics=metrics, theory=drift(settings))


def _is_on_policy_and_true(settings: PanelSettings) -> bool:
    """Return True if the policy itself draws its groups, and the verifier does not err."""
    return bool(settings["lag"] == 0 and settings["false_positive"] == 0)


def drift(settings: PanelSettings) -> dict[str, list[float]] | None:
    """Return metrics along expected steps, see ``expected_path``; None unless a weight of rewards alone takes them.

    Adam's are without the noise of the groups.
    """
    name, parameters = read_weight(settings["weight"])
    parameters = REGISTRY[name].parameters | parameters
    plain = settings["optimizer"] in MOVES and settings["epochs"] == 1
    if not (is_of_rewards(estimator(name, **parameters)) and plain and _is_on_policy_and_true(settings)):
        return None
    try:
        masses = group_masses(name, settings["group_size"], parameters)
    except InputError:  # it reads the order of the rollouts
        return None
    steps = record_steps(settings["steps"], RECORDS["run"])
    move = MOVES[settings["optimizer"]](settings["learning_rate"])
    return with_pass_at_k(rounded(expected_path(panel_policy(settings), masses, move, steps)))


# A tree


def _policies(one: PolicyView) -> Float[Array, "nodes B"]:
    policies: Float[Array, "nodes B"] = jax.vmap(lambda node: node.p)(one.token_policy.nodes)
    return policies


NODE_POLICIES = Metric("policies", "probability of each action at each node", POLICY, _policies, ("node", "action"))


def tree_blocks(settings: PanelSettings) -> dict[str, Block]:
    """Return the seeds of the tree, by the name of the method."""
    gate = ",".join(f"{name}={settings[name]}" for name in ("alpha", "candidates", "quantile", "top_penalty"))
    runs = {
        "GRPO": _run_of(settings, "grpo@constant"),
        "GRPO + entropy": _run_of(settings, "grpo@constant", entropy_bonus=settings["entropy_bonus"]),
        "CaSP": _run_of(settings, f"grpo+casp({gate})@constant"),
    }
    recorded = ("q_pos", "modes_held", "mode_coverage", NODE_POLICIES)
    return {name: _block("tree", settings, tree(), run, *recorded) for name, run in runs.items()}


def simulate_tree(settings: PanelSettings, first: int, say: Say) -> Result:
    """Simulate the tree under its ``methods``, each with the first seed's ``policies`` (R + 1, nodes, B)."""
    methods = {}
    for name, block in tree_blocks(settings).items():
        rows = block.rows(first, say)
        policies = np.round(rows.pop("policies")[0], 5).tolist()
        methods[name] = {"metrics": {metric: moments(row) for metric, row in rows.items()}, "policies": policies}
    return _result("tree", settings, methods=methods)


# A bank of prompts

SOLVE_RATES = Metric("solve_rates", "solve rate", POLICY, lambda whole: whole.each["q_pos"], ("prompt",), joint=True)


def bank_block(settings: PanelSettings) -> Block:
    """Return the seeds of the bank."""
    return _block("bank", settings, bank_of(settings), _run_of(settings), "q_pos", SOLVE_RATES, RARE_RATES)


def simulate_bank(settings: PanelSettings, first: int, say: Say) -> Result:
    """Simulate the bank.

    Its metrics are ``pass_at_K`` and ``rare_at_K``, means over prompts of any correct answer and of a rare mode in K
    samples; ``share_I``, the share of prompts whose solve rate is in bin I of ``BINS``; and ``lost``, the share whose
    rare modes have less than ``LOST`` of the base model's.
    """
    rows = bank_block(settings).rows(first, say)
    solved, rare = (np.clip(rows[name].astype(np.float64), 0, 1) for name in ("solve_rates", "rare_rates"))
    bins = np.minimum((solved * BINS).astype(int), BINS - 1)
    of_prompts = {f"pass_at_{k}": pass_at_k(solved, k) for k in BANK_KS}
    of_prompts |= {f"rare_at_{k}": pass_at_k(rare, k) for k in BANK_KS}
    of_prompts |= {f"share_{index}": bins == index for index in range(BINS)}
    of_prompts["lost"] = rare < LOST * rare[:, :1]
    metrics = {name: moments(values.mean(axis=-1)) for name, values in of_prompts.items()}
    return _result("bank", settings, k=BANK_KS, metrics=metrics)


# Interfering prompts


def interference_block(settings: PanelSettings) -> Block:
    """Return the seeds of interfering prompts."""
    run = _run_of(settings, temperature=settings["temperature"], pass_at_k=INTERFERENCE_KS)
    problem = interference(**{name: settings[name] for name in ("overlap", "conflict", "hard_rate")}).listed()
    return _block("interference", settings, problem, run, "pass_at_k")


def simulate_interference(settings: PanelSettings, first: int, say: Say) -> Result:
    """Simulate interfering prompts: pass@k at each of the ``k``, and the ``edge``; step 0 is the base model."""
    passed = interference_block(settings).rows(first, say)["pass_at_k"]
    metrics = {f"pass_at_{k}": moments(passed[:, :, index]) for index, k in enumerate(INTERFERENCE_KS)}
    return _result("interference", settings, k=INTERFERENCE_KS, metrics=metrics, edge=edge(settings))


def edge(settings: PanelSettings) -> list[float | None] | None:
    """Return the overlaps, below and above 0, beyond which the first step harms a hard prompt; None for no such one.

    The whole is None where the theory does not apply.
    """
    name, parameters = read_weight(settings["weight"])
    weight = estimator(name, **parameters)
    if settings["optimizer"] != "sgd" or not _reads_its_group_alone(weight, settings["group_size"]):
        return None
    shared = {name: settings[name] for name in ("group_size", "temperature", "conflict", "hard_rate")}
    return list(rounded([sign * float(overlap_edge(sign, weight, **shared)) for sign in (-1, 1)]))


def _reads_its_group_alone(weight: Estimator, group_size: int) -> bool:
    """Return True if advantages follow from the group's rewards alone, neither from other groups nor from the past."""
    if not is_of_rewards(weight):
        return False
    group = (np.arange(group_size) < 1).astype(float)
    beside = (advantages(weight, np.stack([group, np.full(group_size, other)]))[0] for other in (0.0, 1.0))
    return bool(np.array_equal(*beside))


SIMULATIONS: Mapping[str, Callable[[PanelSettings, int, Say], Result]] = {
    "run": simulate_policy,
    "tree": simulate_tree,
    "interference": simulate_interference,
    "bank": simulate_bank,
}
BLOCKS: Mapping[str, Callable[[PanelSettings], list[Block]]] = {
    "run": lambda settings: [policy_block(settings)],
    "tree": lambda settings: [*tree_blocks(settings).values()],
    "interference": lambda settings: [interference_block(settings)],
    "bank": lambda settings: [bank_block(settings)],
}


def compile_presets() -> Iterator[int]:
    """Compile the programs of the presets, one after another; yield how many are left."""
    for remaining, (panel, settings) in zip(reversed(range(len(WARM))), WARM, strict=True):
        for block in BLOCKS[panel](hold_panel(panel, settings)[0]):
            block.compile()
        yield remaining
