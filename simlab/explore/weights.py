"""Estimators as the page and the address write them, ``asym_grpo(delta=0.5)``, and the bounds of their parameters."""

import inspect
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from simlab import grammar
from simlab.arms import parse
from simlab.constructors import estimator_constructor
from simlab.errors import InputError, check_choice
from simlab.estimators import REGISTRY, Estimator, estimator, register
from simlab.estimators.links import BASELINES, EASY_TERMS
from simlab.estimators.named import MC_SCALES
from simlab.estimators.parts import CODES
from simlab.estimators.pass_at_k import SUBSET_BASELINES
from simlab.estimators.tokens import RANKINGS, SCOPES
from simlab.explore import formula
from simlab.explore.masses import has_masses
from simlab.text import shortened
from simlab.theory import CLOSED_FORMS

MOST_PINNED = 12
SEPARATOR = ";"


@dataclass(frozen=True)
class WeightParameter:
    """A parameter of an estimator on the page: a slider from ``low`` to ``high`` or a choice, with a line of help."""

    low: float = 0.0
    high: float = 1.0
    help: str = ""
    scale: str = "linear"
    choices: tuple[Any, ...] = ()
    whole: bool = False
    default: Any = None


_slider = WeightParameter


def _choice(choices: Iterable[Any], help_text: str) -> WeightParameter:
    return WeightParameter(help=help_text, choices=tuple(choices))


def _has_speed(name: str) -> bool:
    try:
        return bool(estimator("least_variance", base=name))
    except InputError:
        return False


_BASES = sorted(name for name in CLOSED_FORMS if "base" not in REGISTRY[name].parameters)
_DIFFICULTIES = ("none", "focal", "easy", "asymmetric", "sqrt_hard", "sqrt_easy", "shift", "history")
# By parameter, or by estimator and parameter where they differ. The page shows neither eps, which only guards against
# rounding, nor FADE's target_entropy, which an entropy of 0 does not reach.
_PARAMETERS: Mapping[str, WeightParameter] = {
    "gamma": _slider(0, 8, "exponent of the focal weight (1 − p)^γ; 0 leaves the base as it is"),
    "power_norm.gamma": _slider(0, 1, "exponent of the variance that divides; 0.5 is GRPO, 0 is Dr. GRPO"),
    "alpha": _slider(1, 8, "α − 1 is the exponent of the difficulty weight; 1 favours no difficulty"),
    "t2t.alpha": _slider(0, 1, "how much length counts in the reward; 0 is GRPO"),
    "a_grae.alpha": _slider(0.05, 4, "mean reward of the batch below which successes are attenuated"),
    "entropy_advantage.alpha": _slider(0, 2, "what a token gains for each nat of its entropy; 0 is the base"),
    "advantage_reweighting.alpha": _slider(0, 1, "how much less unlikely tokens weigh; 0 is the base"),
    "opd.gamma": _slider(0, 4, "how much more the tokens before the gap to the teacher weigh; 0 weighs all alike"),
    "bound": _slider(0.1, 20, "a teacher counts at most this many nats at a token", "log"),
    "tempered_grpo.beta": _slider(0, 4, "above 1, likely rollouts weigh more; 1 is GRPO, below 1 unlikely ones do"),
    "strength": _slider(0, 4, "how much less rollouts of high entropy weigh; 0 is the base"),
    "least_spread": _slider(0.01, 1, "entropies of a group that differ by less change nothing", "log"),
    "alpha_success": _slider(1, 8, "α − 1 is the exponent of 1 − p on successes"),
    "alpha_failure": _slider(1, 8, "α − 1 is the exponent of p on failures"),
    "alpha_max": _slider(1, 8, "the largest exponent that the schedule takes"),
    "delta": _slider(0.05, 20, "negative advantages are divided by it: below 1, failures weigh more", "log"),
    "asym_rl.delta": _slider(-1, 1, "shift of the baseline; above 0, successes weigh less and failures more"),
    "delta_min": _slider(0.01, 1, "the smallest divisor of failures that the schedule takes"),
    "tau": _slider(0, 1, "share of the group whose rewards lie below the baseline"),
    "threshold": _slider(0, 1, "solve rate above which a group is left out"),
    "factor": _slider(0.1, 100, "how many times one sign weighs as much as the other", "log"),
    "success": _slider(0, 2, "what a success weighs, beside 1 for a failure"),
    "k": _slider(1, 64, "of the pass@k whose weight this is; 1 is pass@1", "log"),
    "beta": _slider(0.01, 50, "inverse temperature of exp(β r): large values favour rare successes", "log"),
    "bbg.tau": _slider(0, 0.2, "groups of a smaller share of what pass@k has to gain are left out"),
    "a_star_po.beta": _slider(0.02, 50, "temperature of the soft value: small values favour failures", "log"),
    "fade.beta": _slider(0, 1, "share of the past in the running average of the solve rate"),
    "fade_entropy.beta": _slider(0, 1, "share of the past in the running average of the entropy"),
    "last": _slider(1, 20_000, "step at which the schedule has come to its end", "log"),
    "unlikeliness.beta": _slider(0, 1, "how much the likeliest rollout's reward is discounted; 0 is GRPO"),
    "scale": _slider(0, 4, "factor of all advantages"),
    "decay": _slider(0, 1, "share of the past in the running mean"),
    "initial": _slider(0, 1, "the running mean before the first batch"),
    "most": _slider(1, 1e6, "the largest factor 1 / f that a group may get", "log"),
    "grpo_lead.alpha": _slider(0, 1, "how much a success loses with its length; 0 lets no length count"),
    "penalty": _slider(0, 4, "what a failure costs"),
    "low": _slider(0, 2, "the least weight, that of easy prompts on success"),
    "high": _slider(0, 4, "the greatest weight, that of hard prompts on success"),
    "midpoint": _slider(0, 1, "solve rate at which the weight lies midway"),
    "steepness": _slider(0, 40, "how fast the weight falls there"),
    "hard_focused.gamma": _slider(0, 8, "factor of γ / sqrt(p), which favours prompts that are seldom solved"),
    "easy_focused.gamma": _slider(0, 8, "factor of γ / sqrt(1 − p), which favours prompts that are often solved"),
    "linked.gamma": _slider(0, 8, "exponent of the difficulty focal, easy or asymmetric"),
    "kappa": _slider(0.1, 20, "a token gains at most a share 1 / κ of its advantage", "log"),
    "ds_grpo.success": _slider(0, 2, "how much less likely successes weigh, for each nat"),
    "failure": _slider(0, 2, "how much more likely failures weigh, for each nat"),
    "linked.k": _slider(1, 64, "of the pass@k whose standard deviation divides, by the scale pass_at_k", "log"),
    "ddof": _choice((0, 1), "0: the standard deviation of the rewards themselves; 1: the unbiased one"),
    "base": _choice(_BASES, "the estimator whose advantages are weighed; 0 where that gives 0"),
    "least_variance.base": _choice(filter(_has_speed, _BASES), "the estimator whose speed is kept"),
    "successes": _slider(0, 20, "x of the law Beta(x, y) that solve rates have"),
    "failures": _slider(0, 20, "y of the law Beta(x, y) that solve rates have"),
    "scope": _choice(SCOPES, "whether means run over the tokens of a group, or of the batch"),
    "easy_term": _choice(EASY_TERMS, "the weight of easy prompts: as the paper prints it, or as its code has it"),
    "roles": _slider(1, 8, "how many roles a prompt may have, each with a baseline of its own"),
    "code": _choice(CODES, "the trainer whose published code it follows"),
    "ranking": _choice(RANKINGS, "how likeliness is ranked: as the paper writes it, or as its code does"),
    "mc_grpo.scale": _choice(MC_SCALES, "what divides: nothing, or the published code's median absolute deviation"),
    "pkpo.baseline": _choice(SUBSET_BASELINES, "what a subset's maximum is compared with: nothing, or the others'"),
    "fade.baseline": _choice(("mean", "batch_mean"), "what is subtracted: the mean of the group, or of the batch"),
    "linked.baseline": _choice(BASELINES, "what is subtracted from the rewards"),
    "linked.scale": _choice(("none", "std", "mean", "times_std", "pass_at_k"), "what divides or multiplies afterwards"),
    "linked.difficulty": _choice(_DIFFICULTIES, "which prompts weigh more"),
    "linked.sign": _choice(("none", "divide_failures", "relu", "attenuate"), "how successes and failures differ"),
}


def parameters_of(name: str) -> dict[str, WeightParameter]:
    """Return the parameters of an estimator that the page shows, in the estimator's order."""
    shown = {}
    for key, default in REGISTRY[name].parameters.items():
        parameter = _PARAMETERS.get(f"{name}.{key}", _PARAMETERS.get(key))
        if parameter is not None:
            help_text = "a parameter of your own estimator" if ":" in name else parameter.help
            whole = isinstance(default, int) and not parameter.choices
            shown[key] = replace(parameter, default=default, help=help_text, whole=whole)
    return shown


def read_weight(text: str) -> tuple[str, dict[str, Any]]:
    """Return name and parameters of an estimator written as text, in ``simlab.grammar`` or as a formula.

    >>> read_weight("asym_grpo(delta=0.5)")
    ('asym_grpo', {'delta': 0.5})
    """
    if formula.is_formula(text):
        return formula.register_formula(text)
    arm = grammar.read(text)
    if arm.added or arm.aggregation is not None:
        raise InputError(f"{shortened(text)} is more than an estimator; allowed: such as grpo, asym_grpo(delta=0.5)")
    return arm.base.name, dict(arm.base.parameters)


def write_weight(name: str, parameters: Mapping[str, Any]) -> str:
    """Return the text of an estimator, its numbers of up to 12 digits; ``read_weight`` reads it.

    >>> write_weight("asym_grpo", {"delta": 0.5})
    'asym_grpo(delta=0.5)'
    """
    pairs = ((key, float(f"{value:.12g}") if isinstance(value, float) else value) for key, value in parameters.items())
    return grammar.write(grammar.Term(name, tuple(pairs)))


def hold_weight(text: str, *, closed: bool) -> tuple[str, str]:
    """Hold the parameters of an estimator to the page's bounds; return its text, and a note if one was changed."""
    name, parameters = read_weight(text)
    if formula.is_formula(text):
        g = "".join(f"{formula.G_SIGN}{value:.12g}" for value in parameters.values())
        return f"{formula.SIGN}{formula.split(text)[0]}{g}", ""
    check_choice("estimator", name, sorted(filter(has_masses, REGISTRY) if closed else REGISTRY))
    allowed, bounded, notes = parameters_of(name), {}, []
    for key, value in parameters.items():
        check_choice(f"parameter of {name}", key, allowed)
        parameter = allowed[key]
        if parameter.choices:
            check_choice(key, value, parameter.choices)
            bounded[key] = value
            continue
        number, note = hold_number(key, value, parameter.low, parameter.high, whole=parameter.whole)
        bounded[key] = round(number) if parameter.whole else float(number)
        notes += [f"{name}: {note}"] if note else []
    estimator(name, **bounded)
    return write_weight(name, bounded), "; ".join(notes)


def hold_number(name: str, value: Any, low: float, high: float, *, whole: bool) -> tuple[float, str]:
    """Hold a number to its bounds, and round it if it is to be whole; return it, and a note if it was changed."""
    allowed = f"[{low:g}, {high:g}]"
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise InputError(f"{name} = {value!r} is not a number; allowed: {allowed}")
    bounded = min(max(value, low), high)
    if bounded != value:
        return bounded, f"{name} = {value:g} is outside {allowed}; held at {bounded:g}"
    number = round(value) if whole else value
    return number, "" if number == value else f"{name} = {value:g} is not whole; held at {number}"


def register_files(references: Iterable[str]) -> None:
    """Register estimators of the user's files, ``FILE.py:NAME``; texts of a request are looked up and open no file."""
    for text in references:
        arm = parse(text)
        if arm.files != (str(arm),):
            raise InputError(f"--estimator {text!r} is no estimator of a file; allowed: FILE.py:NAME")
        if arm.base.name not in REGISTRY:
            _register_file(arm.base.name)


def _register_file(name: str) -> None:
    constructor = estimator_constructor(name)
    defaults = constructor.defaults.items()
    plain = {key: value for key, value in defaults if isinstance(value, bool | int | float | str | None)}  # as in JSON
    constructor(**plain)  # raises now if something is wrong with it

    def build(**parameters: Any) -> Estimator:
        """Build an estimator of the user's own."""
        own_estimator: Estimator = constructor(**parameters)
        return own_estimator

    build.__name__ = name
    build.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=default) for key, default in plain.items()]
    )
    register("own", name)(build)
