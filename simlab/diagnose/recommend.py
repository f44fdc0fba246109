"""Recommend a split of a step's rollouts into prompts x G, and a difficulty weight, in the words of the trainer.

Of a step's groups, (R / G) Pr(active) teach, and the share Pr(missed | active) of these against the typical solution
``[f-grpo:lemma-3.1]``. The others decide. It is advice for pass@1: tested by training, the recommended split raised
pass@1 and lowered pass@64 (``benchmarks/results/diagnose_recommendation.md``).
"""

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from simlab.arms import parse
from simlab.diagnose.dead_groups import GroupEstimates, PredictedGroups, dead_share
from simlab.diagnose.estimate import IntervalEstimate
from simlab.diagnose.mixture import components
from simlab.diagnose.solve_rates import Population
from simlab.diagnose.tail_misses import Range, Sums, Typical, TypicalSolution
from simlab.errors import InputError, check_whole
from simlab.intervals import half_width

SMALLEST = 2  # rollouts of a group that teaches
BARE = "without answers the log does not tell which groups teach against a solution: only curves are given"
GRADED = "rewards are graded, so that groups that are all right or all wrong teach too: only curves are given"


class BudgetSplit(NamedTuple):
    """One way to spend the rollouts of a step, beside the group size in use at the same cost.

    Attributes:
        teaching, gain: groups of a step that teach, and how many more than at the size in use.
        against, loss: groups of a step that teach against the typical solution, and how many more.
        holding, net: groups that teach and hold it, and how many more.
        The last four are None where the log has no answers.
    """

    prompts: int
    group_size: int
    teaching: IntervalEstimate
    gain: IntervalEstimate
    against: IntervalEstimate | None = None
    loss: IntervalEstimate | None = None
    holding: IntervalEstimate | None = None
    net: IntervalEstimate | None = None


class Recommendation(NamedTuple):
    """The splits of a budget of rollouts a step; none is recommended where the intervals leave open which is better."""

    rollouts: int
    group_size: int
    splits: tuple[BudgetSplit, ...]
    recommended: BudgetSplit | None
    reason: str


def recommend(
    now: Population, groups: GroupEstimates, solution: TypicalSolution | None, rollouts: int
) -> Recommendation:
    """Compare the splits of a budget of rollouts a step, at least a group, into groups of the sizes of ``groups``.

    ``solution`` is the typical one, if the log has answers.
    """
    group_size = groups.observed.group_size
    check_whole("rollouts", rollouts, max(group_size, SMALLEST))
    in_use = next(predicted for predicted in groups.at_sizes if predicted.group_size == group_size)
    compared = [predicted for predicted in groups.at_sizes if SMALLEST <= predicted.group_size <= rollouts]
    splits = tuple(evaluate_split(now, solution, predicted, in_use, rollouts) for predicted in compared)
    best, reason = (None, GRADED) if groups.observed.is_graded else _choose_split(splits, group_size)
    return Recommendation(rollouts, group_size, splits, best, reason)


def evaluate_split(
    now: Population,
    solution: TypicalSolution | None,
    predicted: PredictedGroups,
    in_use: PredictedGroups,
    rollouts: int,
) -> BudgetSplit:
    """Estimate groups of one size beside the size in use; ``holding`` is ``teaching`` times 1 - ``against``."""
    size, usual_size = predicted.group_size, in_use.group_size
    groups, base = rollouts / size, rollouts / usual_size
    teach = predicted.dead.linear(f"groups that teach at G = {size}", groups, -groups)
    usual = base * (1 - in_use.dead.value)
    gained = groups * (1 - dead_share(size)) - base * (1 - dead_share(usual_size))
    gain = now.estimate(f"more groups that teach at G = {size}", gained, teach.value - usual)
    if solution is None:
        return BudgetSplit(int(groups), size, teach, gain)
    estimates: list[IntervalEstimate] = []
    for kind, share in (("groups against", Typical.against), ("groups holding it", Typical.holding)):
        here, there = (partial(_count, share=share, size=each, rollouts=rollouts) for each in (size, usual_size))
        value, in_use_share = (float(share(solution.sums, each)[1, 0]) for each in (size, usual_size))
        value *= teach.value
        more = value - usual * in_use_share
        name = f"{kind} at G = {size}"
        difference = partial(_subtract, here=here, there=here if size == usual_size else there)
        estimates += [solution.estimate(name, here, value), solution.estimate(f"more {name}", difference, more)]
    return BudgetSplit(int(groups), size, teach, gain, *estimates)


def _count(sums: Sums, *, share: Callable[[Sums, int], Range], size: int, rollouts: int) -> Range:
    return np.asarray(rollouts / size * (Typical.teaching(sums, size) * share(sums, size)))


def _subtract(sums: Sums, *, here: Callable[[Sums], Range], there: Callable[[Sums], Range]) -> Range:
    """Return a difference, as wide as both; of the same groups it is 0."""
    first, second = here(sums), there(sums)
    return np.asarray(first - (second if here is there else second[::-1]))


def _choose_split(splits: tuple[BudgetSplit, ...], in_use: int) -> tuple[BudgetSplit | None, str]:
    others = [split for split in splits if split.group_size != in_use]
    if any(split.net is None for split in others):
        return None, BARE
    better = [split for split in others if split.net is not None and split.net.sign > 0]
    agreed = [split for split in better if split.gain.sign > 0]
    if agreed:
        best = max(agreed, key=lambda split: split.net.low if split.net else 0.0)
        why = "more groups teach, and more of them hold the typical solution"
        return best, f"G = {best.group_size}, for pass@1 alone: {why}"
    if better:
        sizes = ", ".join(str(split.group_size) for split in better)
        return None, f"G = {sizes}: more groups would hold the typical solution, but not surely more would teach"
    return None, f"no split has surely more groups that teach and hold the typical solution than G = {in_use}"


# Difficulty weights, by simulation. The bank has the quantiles of the fitted distribution as its prompts. It is
# simulated three times: as fitted, and as the two distributions that explain the data as well with the fewest and with
# the most hard prompts. What prompts share is not in a log, so that each bank is simulated with features of several
# overlaps, among them none. An interval holds those of all banks, and a bracket those of all overlaps too: a weight is
# recommended only where they agree. Every update has the same norm, so that a weight changes the direction of a step
# and not its size.

PROMPTS = 32
SEEDS, SIMULATED_STEPS, RECORD_EVERY = 12, 120, 20
UPDATE_NORM = 0.1  # of all logits: in these steps, grpo then solves 60 % of the prompts of a uniform bank that failed
MARGIN = 1e-4  # of solve rates from 0 and 1, which no softmax policy has
OVERLAPS = (0.0, 0.1, 0.3)
WEIGHTS = ("f_grpo(gamma=1)", "power_alpha(alpha=2)", "easy_power(alpha=2)")
PASS_AT = 64


class WeightEffect(NamedTuple):
    """The rise of pass@1 and pass@k by a weight over those of the one in use; the overlap None brackets all."""

    weight: str
    overlap: float | None
    pass_at_1: IntervalEstimate
    pass_at_k: IntervalEstimate


class WeightEffects(NamedTuple):
    """The effects of weights at each overlap, and the bracket that surely raises pass@1, or pass@k, most."""

    effects: tuple[WeightEffect, ...]
    brackets: tuple[WeightEffect, ...]
    for_pass_at_1: WeightEffect | None
    for_pass_at_k: WeightEffect | None


def simulate_weights(
    now: Population,
    estimator: str,
    group_size: int,
    weights: tuple[str, ...] = WEIGHTS,
    overlaps: tuple[float, ...] = OVERLAPS,
) -> WeightEffects:
    """Simulate weights on the fitted bank; it takes a minute or two."""
    if group_size < 2:
        why = f"a group of {group_size} cannot be simulated: it teaches nothing"
        raise InputError(f"{why}; allowed: 2 rollouts or more")
    # The fitted bank, and those with the fewest and the most prompts unsolved at four times the size.
    ends = now.mixture.ends(components().moment(0, 4 * group_size), now.level)
    populations = [now, *(now._replace(mixture=now.mixture._replace(weights=end)) for end in ends)]
    banks = [population.quantiles(PROMPTS) for population in populations]
    compared = [weight for weight in weights if weight != estimator]
    effects = []
    for overlap in overlaps:
        curves = [
            {method: _simulate(bank, overlap, method, group_size) for method in (estimator, *compared)}
            for bank in banks
        ]
        for weight in compared:
            changes = []
            for k, measure in enumerate(("pass@1", f"pass@{PASS_AT}")):
                name = f"change of {measure} by {weight} at overlap {overlap:g}"
                differences = [of_method[weight][k] - of_method[estimator][k] for of_method in curves]
                changes.append(_seed_interval(name, differences, now.level))
            effects.append(WeightEffect(weight, overlap, *changes))
    brackets = []
    for weight in compared:
        same_weight = [effect for effect in effects if effect.weight == weight]
        hulls = [_hull([getattr(effect, measure) for effect in same_weight]) for measure in ("pass_at_1", "pass_at_k")]
        brackets.append(WeightEffect(weight, None, *hulls))
    first, many = (_find_surest(brackets, measure) for measure in ("pass_at_1", "pass_at_k"))
    return WeightEffects(tuple(effects), tuple(brackets), first, many)


def _find_surest(brackets: list[WeightEffect], measure: str) -> WeightEffect | None:
    best = max(brackets, key=lambda effect: float(getattr(effect, measure).low), default=None)
    return best if best is not None and getattr(best, measure).low > 0 else None


def _hull(estimates: list[IntervalEstimate]) -> IntervalEstimate:
    """Return the hull of a weight's intervals over all overlaps, about the value of the first overlap."""
    first = estimates[0]
    low, high = min(estimate.low for estimate in estimates), max(estimate.high for estimate in estimates)
    name, method = f"{first.name.partition(' at ')[0]} at all overlaps", f"{first.method}, {len(estimates)} overlaps"
    return first._replace(name=name, low=low, high=high, method=method)


def _simulate(rates: np.ndarray, overlap: float, method: str, group_size: int) -> tuple[np.ndarray, np.ndarray]:
    from simlab.problems import interference  # noqa: PLC0415  # loads JAX
    from simlab.simulator.runner import simulate  # noqa: PLC0415

    solve_rates = np.clip(rates, MARGIN, 1 - MARGIN).tolist()
    result = simulate(
        interference(solve_rates=solve_rates, overlap=overlap, rare_modes=1),
        method,
        seeds=SEEDS,
        steps=SIMULATED_STEPS,
        record_every=RECORD_EVERY,
        group_size=group_size,
        optimizer="sgd",
        update_norm=UPDATE_NORM,
        pass_at_k=(1, PASS_AT),
    )
    last = result.pass_at_k.isel(step=-1)
    return last.sel(k=1).values, last.sel(k=PASS_AT).values


def _seed_interval(name: str, differences: list[np.ndarray], level: float) -> IntervalEstimate:
    """Return the mean of the fitted bank's seeds, in an interval that holds Student's of every bank."""
    ends = []
    for values in differences:
        half = float(half_width(float(values.std(ddof=1)) / math.sqrt(len(values)), len(values), level))
        ends += [float(values.mean()) - half, float(values.mean()) + half]
    method = f"simulation of {len(differences)} banks x {len(differences[0])} seeds"
    return IntervalEstimate(name, float(differences[0].mean()), min(ends), max(ends), level, method)


def trainer_commands(form: str, advice: Recommendation | None, weights: WeightEffects | None = None) -> tuple[str, ...]:
    """Return options for the log's trainer, with a weight if it surely raises pass@1; none without advice.

    Of another trainer, whose options are not known, it is said what changes.
    """
    weight = weights.for_pass_at_1.weight if weights and weights.for_pass_at_1 else None
    options: list[str] = []
    if advice is not None and (split := advice.recommended) is not None:
        prompts, size = split.prompts, split.group_size
        options += {
            "trl": [f"GRPOConfig(num_generations={size}, generation_batch_size={prompts * size})"],
            "verl": [f"data.train_batch_size={prompts}", f"actor_rollout_ref.rollout.n={size}"],
            "simlab": [f"--prompts {prompts}", f"--group-size {size}"],
        }.get(form, [f"{prompts} prompts a step with {size} rollouts each, in your trainer"])
    if weight is not None:
        base = parse(weight).base
        parameters = [f"+algorithm.simlab.{name}={value}" for name, value in dict(base.parameters).items()]
        options += {
            "trl": [f'SimlabGRPOTrainer(..., method="{weight}")'],
            "verl": [f"algorithm.adv_estimator=simlab_{base.name}", *parameters],
            "simlab": [f'--arms "{weight}"'],
        }.get(form, [f'simlab.advantages("{weight}", rewards), in place of your trainer\'s advantages'])
    if form not in ("verl", "simlab") or not options:
        return tuple(options)
    return (" ".join(options if form == "verl" else ["simlab train", *options]),)
