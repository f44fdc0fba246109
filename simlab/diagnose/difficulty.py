"""Would a difficulty weight change anything? The simulator's answer, on prompts that the log's solve rates stand for.

The bank has the quantiles of the fitted distribution as its prompts. It is simulated three times: as fitted, and as
the two distributions that explain the data as well with the fewest and with the most hard prompts. An interval holds
those of all three, so that it is an answer only where they agree. Every update has the same norm, so that a weight
changes the direction of a step and not its size. What prompts share is not in a log: they are simulated apart, and
with features that overlap, as a bracket.
"""

import dataclasses
import math
from collections.abc import Iterator

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
    """A weight against the estimator in use, where features overlap so much.

    Attributes:
        weight: as it is written on the command line.
        overlap: of features; 0 for prompts that share nothing.
        pass_at_1, pass_at_k: how much higher at the last step.
        verdict: what both intervals say.
    """

    weight: str
    overlap: float
    pass_at_1: Estimate
    pass_at_k: Estimate
    verdict: str


def weight_effects(
    now: Population,
    estimator: str,
    group_size: int,
    weights: tuple[str, ...] = WEIGHTS,
    overlaps: tuple[float, ...] = OVERLAPS,
) -> tuple[WeightEffect, ...]:
    """Simulate weights on the fitted bank; it takes minutes.

    Raises:
        InputError: for an estimator that the simulator cannot run, or a group size of one.
    """
    if group_size < 2:
        raise InputError(f"group_size = {group_size} teaches nothing in a simulation; allowed: whole numbers from 2 up")
    banks = [own.quantiles(PROMPTS) for own in _as_likely(now, group_size)]
    compared = [own for own in weights if own != estimator]

    def runs(overlap: float) -> list[dict[str, Curves]]:
        return [{own: _simulated(bank, overlap, own, group_size) for own in (estimator, *compared)} for bank in banks]

    return tuple(
        _effect(weight, overlap, [(own[weight], own[estimator]) for own in found], now.level)
        for overlap, found in ((overlap, runs(overlap)) for overlap in overlaps)
        for weight in compared
    )


def _as_likely(now: Population, group_size: int) -> Iterator[Population]:
    """The fitted distribution, and those with the fewest and the most prompts unsolved at four times the size."""
    hard = components().moment(np.array(0), np.array(4 * group_size))
    yield now
    for weights in now.mixture.ends(hard, now.level):
        yield now._replace(mixture=now.mixture._replace(weights=weights))


def _effect(weight: str, overlap: float, pairs: list[tuple[Curves, Curves]], level: float) -> WeightEffect:
    """A weight against the estimator in use, on each bank."""
    first = _hull("pass@1", [own[0] - usual[0] for own, usual in pairs], level)
    many = _hull(f"pass@{PASS_AT}", [own[1] - usual[1] for own, usual in pairs], level)
    return WeightEffect(weight, overlap, first, many, _verdict(first, many))


def _simulated(rates: np.ndarray, overlap: float, method: str, group_size: int) -> Curves:
    """Pass@1 and pass@k of each seed at the last step."""
    from simlab.problems import interference, prompt_bank  # noqa: PLC0415  # loads JAX
    from simlab.simulator.api import simulate  # noqa: PLC0415

    listed = np.clip(rates, MARGIN, 1 - MARGIN).tolist()
    problem = (
        interference(solve_rates=listed, overlap=overlap, rare_modes=1) if overlap else prompt_bank(solve_rates=listed)
    )
    found = simulate(
        problem,
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
    return Estimate(f"change of {name}", float(differences[0].mean()), low, high, level, method)


def _verdict(first: Estimate, many: Estimate) -> str:
    words = {1: "higher", -1: "lower", 0: "open"}
    return f"{words[first.sign]} pass@1, {words[many.sign]} pass@{PASS_AT}"
