"""Estimators as the page and the address write them, ``asym_grpo(delta=0.5)``, and the bounds of their parameters."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from simlab import grammar
from simlab.errors import InputError, check_choice
from simlab.estimators import REGISTRY, estimator
from simlab.estimators.biased import MC_SCALES
from simlab.estimators.likelihood import RANKINGS
from simlab.estimators.links import BASELINES, EASY_TERMS
from simlab.estimators.pass_at_k import SUBSET_BASELINES
from simlab.estimators.tokens import SCOPES
from simlab.explore import formula
from simlab.explore.mass_table import has_table
from simlab.explore.parameter_help import help_of
from simlab.text import shortened
from simlab.theory import CLOSED_FORMS

MOST_PINNED = 12
SEPARATOR = ";"


@dataclass(frozen=True)
class Parameter:
    """A parameter of an estimator on the page: a number from ``low`` to ``high`` or a choice, and what it does."""

    default: Any
    low: float = 0.0
    high: float = 1.0
    whole: bool = False
    scale: str = "linear"
    choices: tuple[Any, ...] = ()
    help: str = ""


# Bounds by parameter, or by estimator and parameter where they differ. The page shows neither eps, which only guards
# against rounding, nor FADE's target_entropy, which an entropy of 0 does not reach.
_BOUNDS: Mapping[str, tuple[float, float, str]] = {
    "gamma": (0, 8, "linear"),
    "power_norm.gamma": (0, 1, "linear"),
    "alpha": (1, 8, "linear"),
    "t2t.alpha": (0, 1, "linear"),
    "a_grae.alpha": (0.05, 4, "linear"),
    "entropy_advantage.alpha": (0, 2, "linear"),
    "advantage_reweighting.alpha": (0, 1, "linear"),
    "strength": (0, 4, "linear"),
    "least_spread": (0.01, 1, "log"),
    "alpha_success": (1, 8, "linear"),
    "alpha_failure": (1, 8, "linear"),
    "alpha_max": (1, 8, "linear"),
    "delta": (0.05, 20, "log"),
    "asym_rl.delta": (-1, 1, "linear"),
    "delta_min": (0.01, 1, "linear"),
    "tau": (0, 1, "linear"),
    "threshold": (0, 1, "linear"),
    "factor": (0.1, 100, "log"),
    "success": (0, 2, "linear"),
    "failure": (0, 2, "linear"),
    "k": (1, 64, "log"),
    "beta": (0.01, 50, "log"),
    "fade.beta": (0, 1, "linear"),
    "fade_entropy.beta": (0, 1, "linear"),
    "last": (1, 20_000, "log"),
    "unlikeliness.beta": (0, 1, "linear"),
    "kappa": (0.1, 20, "log"),
    "scale": (0, 4, "linear"),
    "decay": (0, 1, "linear"),
    "initial": (0, 1, "linear"),
    "most": (1, 1e6, "log"),
    "grpo_lead.alpha": (0, 1, "linear"),
    "penalty": (0, 4, "linear"),
    "low": (0, 2, "linear"),
    "high": (0, 4, "linear"),
    "midpoint": (0, 1, "linear"),
    "steepness": (0, 40, "linear"),
}
_CHOICES: Mapping[str, tuple[Any, ...]] = {
    "ddof": (0, 1),
    "base": tuple(sorted(name for name in CLOSED_FORMS if "base" not in REGISTRY[name].parameters)),
    "scope": SCOPES,
    "easy_term": EASY_TERMS,
    "ranking": RANKINGS,
    "mc_grpo.scale": MC_SCALES,
    "pkpo.baseline": SUBSET_BASELINES,
    "fade.baseline": ("mean", "batch_mean"),
    "linked.baseline": BASELINES,
    "linked.scale": ("none", "std", "mean", "times_std", "pass_at_k"),
    "linked.difficulty": ("none", "focal", "easy", "asymmetric", "sqrt_hard", "sqrt_easy", "shift", "history"),
    "linked.sign": ("none", "divide_failures", "relu", "attenuate"),
}


def parameters_of(name: str) -> dict[str, Parameter]:
    """The parameters of an estimator that the page shows, in the estimator's order: those with bounds."""
    found = {key: _parameter(name, key, default) for key, default in REGISTRY[name].parameters.items()}
    return {key: parameter for key, parameter in found.items() if parameter is not None}


def _parameter(name: str, key: str, default: Any) -> Parameter | None:
    for place in (f"{name}.{key}", key):
        if place in _CHOICES:
            return Parameter(default, choices=_CHOICES[place], help=help_of(name, key))
        if place in _BOUNDS:
            low, high, scale = _BOUNDS[place]
            return Parameter(default, low, high, isinstance(default, int), scale, help=help_of(name, key))
    return None


def read_weight(text: str) -> tuple[str, dict[str, Any]]:
    """Name and parameters of an estimator written as text: in the language of ``simlab.grammar``, or as a formula.

    Raises:
        InputError: for a text that cannot be read, and for one of more than an estimator.

    >>> read_weight("asym_grpo(delta=0.5)")
    ('asym_grpo', {'delta': 0.5})
    """
    if formula.is_formula(text):
        return formula.registered(text)
    written = grammar.read(text)
    if written.added or written.aggregation is not None:
        raise InputError(f"{shortened(text)} is more than an estimator; allowed: such as grpo, asym_grpo(delta=0.5)")
    return written.base.name, dict(written.base.parameters)


def has_masses(name: str) -> bool:
    """Whether an estimator has masses: in closed form, or because it weighs a group by its rewards alone."""
    return name in CLOSED_FORMS or has_table(name)


def write_weight(name: str, parameters: Mapping[str, Any]) -> str:
    """The text of an estimator, its numbers of up to 12 digits; ``read_weight`` reads it.

    >>> write_weight("asym_grpo", {"delta": 0.5})
    'asym_grpo(delta=0.5)'
    """
    pairs = ((key, float(f"{value:.12g}") if isinstance(value, float) else value) for key, value in parameters.items())
    return grammar.write(grammar.Term(name, tuple(pairs)))


def hold_weight(text: str, *, closed: bool) -> tuple[str, str]:
    """An estimator whose parameters are held to the page's bounds, and what is to be said if one had to be.

    Raises:
        InputError: for an unknown name, parameter or choice, a parameter that is no number, or, if it must be
            ``closed``, an estimator without masses.
    """
    if formula.is_formula(text):
        return _hold_formula(text), ""
    name, given = read_weight(text)
    check_choice("estimator", name, sorted(filter(has_masses, REGISTRY) if closed else REGISTRY))
    known, held, said = parameters_of(name), {}, []
    for key, value in given.items():
        check_choice(f"parameter of {name}", key, known)
        held[key], note = _hold_parameter(key, known[key], value)
        said += [f"{name}: {note}"] if note else []
    estimator(name, **held)
    return write_weight(name, held), "; ".join(said)


def _hold_formula(text: str) -> str:
    _, parameters = formula.registered(text)
    own = formula.SIGN + formula.split(text)[0]
    return own + "".join(f"{formula.GIVEN}{value:.12g}" for value in parameters.values())


def _hold_parameter(key: str, known: Parameter, value: Any) -> tuple[Any, str]:
    if known.choices:
        check_choice(key, value, known.choices)
        return value, ""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or math.isnan(value):
        raise InputError(f"{key} = {value!r} is not a number; allowed: [{known.low:g}, {known.high:g}]")
    held = min(max(value, known.low), known.high)
    if known.whole:
        held = round(held)
    note = f"{key} = {value:g} is outside [{known.low:g}, {known.high:g}]; held at {held:g}" if held != value else ""
    return (held if known.whole else float(held)), note


def arm_text(weight: str) -> str:
    """A weight as ``simlab.arms`` reads it; a formula is named by the name under which it is registered."""
    return write_weight(*read_weight(weight)) if formula.is_formula(weight) else weight


def hold_weights(text: str) -> tuple[str, str]:
    """Several estimators, separated by semicolons, each as ``hold_weight`` has it; at most ``MOST_PINNED``."""
    listed = [item for item in text.split(SEPARATOR) if item]
    held = [hold_weight(item, closed=True) for item in listed[:MOST_PINNED]]
    said = [note for _, note in held if note]
    if len(listed) > MOST_PINNED:
        said.append(f"{len(listed)} estimators are pinned; held at {MOST_PINNED}")
    return SEPARATOR.join(weight for weight, _ in held), "; ".join(said)
