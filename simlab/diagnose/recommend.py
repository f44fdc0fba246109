"""Recommend a split of a step's rollouts into prompts x G, and a difficulty weight, in the words of the trainer.

For every split, groups that teach a step are (R / G) Pr(active), and of these the share Pr(missed | active) teaches
against the typical solution ``[f-grpo:lemma-3.1]``. A recommendation goes by the others, the groups that teach and hold
the solution: more groups that only teach against it are no gain.

It is advice for pass@1. Where it was tested by training, the recommended split raised pass@1 and lowered pass@64:
what prompts share is not in a log (``benchmarks/results/diagnose_recommendation.md``).
"""

import dataclasses
import math
from collections.abc import Callable, Iterator

import numpy as np
from scipy.special import stdtrit

from simlab.arms import parse
from simlab.diagnose.dead_groups import dead_share
from simlab.diagnose.estimate import IntervalEstimate
from simlab.diagnose.mixture import components
from simlab.diagnose.solve_rates import Population
from simlab.diagnose.subsets import Range, Sums, exact
from simlab.diagnose.tail_misses import SolutionKind, Typical
from simlab.errors import InputError, check_whole

SMALLEST, LARGEST = 2, 256  # group sizes of the splits


@dataclasses.dataclass(frozen=True)
class BudgetSplit:
    """One way to spend the rollouts of a step, beside the group size in use at the same cost.

    Attributes:
        prompts, group_size: their product is the budget, or just below it.
        teaching: groups of a step that teach, and ``gain``, how many more than at the size in use.
        against: groups of a step that teach against the typical solution, and ``loss``, how many more.
        holding: groups that teach and hold it, and ``net``, how many more.
        The last four are None where the log has no answers.
    """

    prompts: int
    group_size: int
    teaching: IntervalEstimate
    gain: IntervalEstimate
    against: IntervalEstimate | None
    loss: IntervalEstimate | None
    holding: IntervalEstimate | None
    net: IntervalEstimate | None


@dataclasses.dataclass(frozen=True)
class Recommendation:
    """The splits of a budget, and the recommended one.

    Attributes:
        rollouts: the rollouts of a step.
        group_size: in use.
        splits: by group size.
        recommended: None where the intervals leave open which split is better, or disagree.
        reason: in one line.
    """

    rollouts: int
    group_size: int
    splits: tuple[BudgetSplit, ...]
    recommended: BudgetSplit | None
    reason: str


def recommend(now: Population, solution: SolutionKind | None, group_size: int, rollouts: int) -> Recommendation:
    """Compare the splits of a budget.

    Args:
        now: the prompts.
        solution: the typical one; None where the log has no answers.
        group_size: in use.
        rollouts: the rollouts of a step.

    Raises:
        InputError: for fewer than two rollouts.
    """
    check_whole("rollouts", rollouts, SMALLEST)
    powers = [2**power for power in range(1, LARGEST.bit_length())]
    sizes = sorted({size for size in (*powers, group_size) if 2 <= size <= rollouts})
    splits = tuple(evaluate_split(now, solution, size, group_size, rollouts) for size in sizes)
    best, reason = _choose_split(splits, group_size)
    return Recommendation(rollouts, group_size, splits, best, reason)


def evaluate_split(
    now: Population, solution: SolutionKind | None, size: int, in_use: int, rollouts: int
) -> BudgetSplit:
    """Estimate groups of one size, beside the size in use.

    Groups that hold the solution are those that teach, times 1 - ``Typical.against``: never more than those that teach.
    Values are those of the fitted population, intervals those of the resampled prompts.
    """
    groups, base = rollouts / size, rollouts / in_use
    teaching, usual = groups * (1 - dead_share(size)), base * (1 - dead_share(in_use))
    teach = now.estimate(f"groups that teach at G = {size}", teaching)
    gain = now.estimate(f"more groups that teach at G = {size}", teaching - usual)
    if solution is None:
        return BudgetSplit(int(groups), size, teach, gain, None, None, None, None)
    estimates: list[IntervalEstimate] = []
    for kind, share, teaching_share in SHARES:
        value = teach.value * float(teaching_share(solution.sums, size).value[0])
        more = value - float(usual @ now.mixture.weights) * float(teaching_share(solution.sums, in_use).value[0])

        def count(sums: Sums, share: Share = share) -> Range:
            return share(sums, size).scale(groups)

        def count_more(sums: Sums, share: Share = share) -> Range:
            here = share(sums, size).scale(groups)
            if size == in_use:
                return exact(here.value - here.value)
            return here.subtract(share(sums, in_use).scale(base))

        name = f"{kind} at G = {size}"
        estimates += [solution.estimate(name, count, value), solution.estimate(f"more {name}", count_more, more)]
    return BudgetSplit(int(groups), size, teach, gain, *estimates)


Share = Callable[[Sums, int], Range]
# Kinds of groups: their share of all groups, and of the groups that teach
SHARES: tuple[tuple[str, Share, Share], ...] = (
    ("groups against", Typical.teaching_against, Typical.against),
    ("groups holding it", Typical.teaching_holding, Typical.holding),
)


def _choose_split(splits: tuple[BudgetSplit, ...], in_use: int) -> tuple[BudgetSplit | None, str]:
    others = [split for split in splits if split.group_size != in_use]
    if any(split.net is None for split in others):
        return (
            None,
            "without answers the log does not tell which groups teach against a solution: only curves are given",
        )
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
    pass_at_1: IntervalEstimate
    pass_at_k: IntervalEstimate


@dataclasses.dataclass(frozen=True)
class WeightEffects:
    """The simulated effects of several weights.

    Attributes:
        effects: of each weight at each overlap.
        brackets: of each weight, whatever the overlap.
        for_pass_at_1, for_pass_at_k: the bracket of the weight that surely raises it, the most surely if there are
            several; None where the brackets of all hold 0 or less.
    """

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
    """Simulate weights on the fitted bank; it takes a minute or two.

    Raises:
        InputError: for an estimator that the simulator cannot run, or a group size of one.
    """
    if group_size < 2:
        raise InputError(
            f"a group of {group_size} cannot be simulated: it teaches nothing; allowed: 2 rollouts or more"
        )
    banks = [population.quantiles(PROMPTS) for population in _plausible_populations(now, group_size)]
    compared = [weight for weight in weights if weight != estimator]
    effects = []
    for overlap in overlaps:
        curves = [
            {method: _simulate(bank, overlap, method, group_size) for method in (estimator, *compared)}
            for bank in banks
        ]
        for weight in compared:
            pairs = [(by_method[weight], by_method[estimator]) for by_method in curves]
            first, many = ([curve[k] - base[k] for curve, base in pairs] for k in (0, 1))
            effects.append(
                WeightEffect(
                    weight,
                    overlap,
                    _seed_interval(_effect_name("pass@1", weight, overlap), first, now.level),
                    _seed_interval(_effect_name(f"pass@{PASS_AT}", weight, overlap), many, now.level),
                )
            )
    brackets = tuple(_bracket(weight, effects) for weight in compared)
    return WeightEffects(
        tuple(effects),
        brackets,
        _surest(brackets, lambda effect: effect.pass_at_1.low),
        _surest(brackets, lambda effect: effect.pass_at_k.low),
    )


def _bracket(weight: str, effects: list[WeightEffect]) -> WeightEffect:
    """Return the hull of a weight's intervals over all overlaps, about the value of the first overlap."""
    chosen = [effect for effect in effects if effect.weight == weight]

    def hull(measure: str, estimates: list[IntervalEstimate]) -> IntervalEstimate:
        first = estimates[0]
        low, high = min(estimate.low for estimate in estimates), max(estimate.high for estimate in estimates)
        method = f"{first.method}, {len(estimates)} overlaps"
        return IntervalEstimate(_effect_name(measure, weight, None), first.value, low, high, first.level, method)

    return WeightEffect(
        weight,
        None,
        hull("pass@1", [effect.pass_at_1 for effect in chosen]),
        hull(f"pass@{PASS_AT}", [effect.pass_at_k for effect in chosen]),
    )


def _surest(brackets: tuple[WeightEffect, ...], low: Callable[[WeightEffect], float]) -> WeightEffect | None:
    best = max(brackets, key=low, default=None)
    return best if best is not None and low(best) > 0 else None


def _effect_name(measure: str, weight: str, overlap: float | None) -> str:
    return f"change of {measure} by {weight} at {'all overlaps' if overlap is None else f'overlap {overlap:g}'}"


def _plausible_populations(now: Population, group_size: int) -> Iterator[Population]:
    """Return the fitted population, and those with the fewest and the most prompts unsolved at four times the size."""
    hard = components().moment(0, 4 * group_size)
    yield now
    for weights in now.mixture.ends(hard, now.level):
        yield now._replace(mixture=now.mixture._replace(weights=weights))


def _simulate(rates: np.ndarray, overlap: float, method: str, group_size: int) -> Curves:
    """Return pass@1 and pass@k of each seed at the last step."""
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
        half = float(stdtrit(len(values) - 1, (1 + level) / 2)) * float(values.std(ddof=1)) / math.sqrt(len(values))
        ends.append((float(values.mean()) - half, float(values.mean()) + half))
    low, high = min(end[0] for end in ends), max(end[1] for end in ends)
    method = f"simulation of {len(differences)} banks x {len(differences[0])} seeds"
    return IntervalEstimate(name, float(differences[0].mean()), low, high, level, method)


# What to run next, as the trainer takes it


def trainer_commands(form: str, advice: Recommendation, weights: WeightEffects | None = None) -> tuple[str, ...]:
    """Return options for TRL's, verl's or simlab's trainer, one string each; none where nothing is recommended.

    A weight is included if the simulation surely finds it better in pass@1, which is what the split is advice for.

    Args:
        form: the trainer that wrote the log, ``Log.format``; for any but ``trl`` and ``verl`` the options are simlab's.
        advice: the recommended split.
        weights: simulated effects; None for none.
    """
    weight = weights.for_pass_at_1.weight if weights and weights.for_pass_at_1 else None
    split, options = advice.recommended, []
    if form == "trl":
        if split is not None:
            batch = split.prompts * split.group_size
            options.append(f"GRPOConfig(num_generations={split.group_size}, generation_batch_size={batch})")
        if weight is not None:
            options.append(f'SimlabGRPOTrainer(..., method="{weight}")')
        return tuple(options)
    if form == "verl":
        if split is not None:
            options += [f"data.train_batch_size={split.prompts}", f"actor_rollout_ref.rollout.n={split.group_size}"]
        if weight is not None:
            base = parse(weight).base
            options.append(f"algorithm.adv_estimator=simlab_{base.name}")
            options += [f"+algorithm.simlab.{name}={value}" for name, value in dict(base.parameters).items()]
        return (" ".join(options),) if options else ()
    if split is not None:
        options += [f"--prompts {split.prompts}", f"--group-size {split.group_size}"]
    if weight is not None:
        options.append(f'--arms "{weight}"')
    return (f"simlab train {' '.join(options)}",) if options else ()
