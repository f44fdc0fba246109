"""Would a difficulty weight change anything? The simulator's answer, on prompts that the log's solve rates stand for.

The bank has the quantiles of the fitted distribution as its prompts. It is simulated three times: as fitted, and as
the two distributions that explain the data as well with the fewest and with the most hard prompts. What prompts share
is not in a log, so that each bank is simulated with features of several overlaps, among them none. An interval holds
those of all banks, and a bracket those of all overlaps too: a weight is recommended only where they agree. Every
update has the same norm, so that a weight changes the direction of a step and not its size.
"""

import dataclasses
import math
from collections.abc import Callable, Iterator

import numpy as np
from scipy.special import stdtrit

from simlab.diagnose.estimate import Estimate
from simlab.diagnose.mixture import components
from simlab.diagnose.solve_rates import Population
from simlab.errors import InputError

PROMPTS = 32
SEEDS, STEPS, RECORD_EVERY = 12, 120, 20
UPDATE_NORM = 0.1  # of all logits: in these steps, grpo then solves 60 % of what a uniform bank fails at first
MARGIN = 1e-4  # of solve rates from 0 and 1, which no softmax policy has
OVERLAPS = (0.0, 0.1, 0.3)
WEIGHTS = ("f_grpo(gamma=1)", "power_alpha(alpha=2)", "easy_power(alpha=2)")
PASS_AT = 64
Curves = tuple[np.ndarray, np.ndarray]  # pass@1 and pass@k of each seed


@dataclasses.dataclass(frozen=True)
class WeightEffect:
    """A weight against the estimator in use.

    Attributes:
        weight: as it is written on the command line.
        overlap: of features; 0 for prompts that share nothing, None for the bracket of all overlaps.
        pass_at_1, pass_at_k: how much higher at the last step.
    """

    weight: str
    overlap: float | None
    pass_at_1: Estimate
    pass_at_k: Estimate


@dataclasses.dataclass(frozen=True)
class Weighing:
    """What weights would change.

    Attributes:
        effects: the effects of each weight at each overlap.
        brackets: the bracket of each weight, whatever the overlap.
        for_pass_at_1, for_pass_at_k: the bracket of the weight that surely raises it, the most surely if there are
            several; None where the brackets of all hold 0 or less.
    """

    effects: tuple[WeightEffect, ...]
    brackets: tuple[WeightEffect, ...]
    for_pass_at_1: WeightEffect | None
    for_pass_at_k: WeightEffect | None


def weigh(
    now: Population,
    estimator: str,
    group_size: int,
    weights: tuple[str, ...] = WEIGHTS,
    overlaps: tuple[float, ...] = OVERLAPS,
) -> Weighing:
    """Simulate weights on the fitted bank; it takes a minute or two.

    Raises:
        InputError: for an estimator that the simulator cannot run, or a group size of one.
    """
    if group_size < 2:
        raise InputError(
            f"a group of {group_size} cannot be simulated: it teaches nothing; allowed: 2 rollouts or more"
        )
    banks = [own.quantiles(PROMPTS) for own in _as_likely(now, group_size)]
    compared = [own for own in weights if own != estimator]
    effects = []
    for overlap in overlaps:
        found = [{own: _simulated(bank, overlap, own, group_size) for own in (estimator, *compared)} for bank in banks]
        effects += [
            _effect(weight, overlap, [(own[weight], own[estimator]) for own in found], now.level) for weight in compared
        ]
    brackets = tuple(_bracket(weight, effects) for weight in compared)
    return Weighing(
        tuple(effects),
        brackets,
        _surest(brackets, lambda own: own.pass_at_1.low),
        _surest(brackets, lambda own: own.pass_at_k.low),
    )


def _bracket(weight: str, effects: list[WeightEffect]) -> WeightEffect:
    """The hull of a weight's intervals over all overlaps, about the value of the first, where prompts share least."""
    own = [effect for effect in effects if effect.weight == weight]

    def hull(name: str, parts: list[Estimate]) -> Estimate:
        low, high = min(part.low for part in parts), max(part.high for part in parts)
        method = f"{parts[0].method}, {len(parts)} overlaps"
        return Estimate(_name(name, weight, None), parts[0].value, low, high, parts[0].level, method)

    return WeightEffect(
        weight,
        None,
        hull("pass@1", [effect.pass_at_1 for effect in own]),
        hull(f"pass@{PASS_AT}", [effect.pass_at_k for effect in own]),
    )


def _surest(brackets: tuple[WeightEffect, ...], low: Callable[[WeightEffect], float]) -> WeightEffect | None:
    best = max(brackets, key=low, default=None)
    return best if best is not None and low(best) > 0 else None


def _name(measure: str, weight: str, overlap: float | None) -> str:
    return f"change of {measure} by {weight} at {'all overlaps' if overlap is None else f'overlap {overlap:g}'}"


def _as_likely(now: Population, group_size: int) -> Iterator[Population]:
    """The fitted distribution, and those with the fewest and the most prompts unsolved at four times the size."""
    hard = components().moment(np.array(0), np.array(4 * group_size))
    yield now
    for weights in now.mixture.ends(hard, now.level):
        yield now._replace(mixture=now.mixture._replace(weights=weights))


def _effect(weight: str, overlap: float, pairs: list[tuple[Curves, Curves]], level: float) -> WeightEffect:
    """A weight against the estimator in use, on each bank."""
    first, many = ([own[place] - usual[place] for own, usual in pairs] for place in (0, 1))
    return WeightEffect(
        weight,
        overlap,
        _hull(_name("pass@1", weight, overlap), first, level),
        _hull(_name(f"pass@{PASS_AT}", weight, overlap), many, level),
    )


def _simulated(rates: np.ndarray, overlap: float, method: str, group_size: int) -> Curves:
    """Pass@1 and pass@k of each seed at the last step."""
    from simlab.problems import interference  # noqa: PLC0415  # loads JAX
    from simlab.simulator.api import simulate  # noqa: PLC0415

    listed = np.clip(rates, MARGIN, 1 - MARGIN).tolist()
    found = simulate(
        interference(solve_rates=listed, overlap=overlap, rare_modes=1),
        method,
        seeds=SEEDS,
        steps=STEPS,
        record_every=RECORD_EVERY,
        group_size=group_size,
        optimizer="sgd",
        update_norm=UPDATE_NORM,
        pass_at_k=(1, PASS_AT),
    )
    last = found.pass_at_k.isel(step=-1)
    return last.sel(k=1).values, last.sel(k=PASS_AT).values


def _hull(name: str, differences: list[np.ndarray], level: float) -> Estimate:
    """The mean of the fitted bank's seeds, and an interval that holds Student's of every bank."""
    ends = []
    for own in differences:
        half = float(stdtrit(len(own) - 1, (1 + level) / 2)) * float(own.std(ddof=1)) / math.sqrt(len(own))
        ends.append((float(own.mean()) - half, float(own.mean()) + half))
    low, high = min(end[0] for end in ends), max(end[1] for end in ends)
    method = f"simulation of {len(differences)} banks x {len(differences[0])} seeds"
    return Estimate(name, float(differences[0].mean()), low, high, level, method)
