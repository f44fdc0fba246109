"""Everything a log tells: each estimate with its interval, what to try, what comes next, and what cannot be told."""

import dataclasses

import numpy as np

from simlab.diagnose.commands import commands
from simlab.diagnose.confidence import Confidence, confidence
from simlab.diagnose.difficulty import Weighing, weigh
from simlab.diagnose.estimate import LEVEL
from simlab.diagnose.groups import OTHERS, Groups, groups, total_mass
from simlab.diagnose.log import Log
from simlab.diagnose.pass_at_k import PassAtK, pass_at_k
from simlab.diagnose.predict import Prediction, predict
from simlab.diagnose.recommend import SMALLEST, Recommendation, recommend
from simlab.diagnose.solutions import solutions
from simlab.diagnose.solve_rates import WINDOWS, SolveRates, of_prompts, population, solve_rates, split
from simlab.diagnose.typical import typical
from simlab.diagnose.unseen import Unseen, unseen
from simlab.errors import InputError, check_range, check_whole

ROLLOUTS = 2048


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """What a log tells; ``simlab.diagnose.estimate.as_json`` makes JSON of it.

    Attributes:
        level: the level of all intervals.
        estimator: in use.
        steps: the first and the last step.
        solve_rates, groups, pass_at_k: the estimates of the last window of steps.
        unseen: None where the log has no answers.
        confidence: None where it has no log-probabilities.
        prediction: the prediction for the next steps.
        recommendation: for a budget of rollouts.
        weights: what they would change, by simulation; None unless asked for.
        commands: what to run next, as the log's own trainer takes it; empty where nothing is recommended.
        untold: what cannot be told from this log, a sentence each.
    """

    level: float
    estimator: str
    steps: tuple[int, int]
    solve_rates: SolveRates
    groups: Groups
    pass_at_k: PassAtK
    unseen: Unseen | None
    confidence: Confidence | None
    prediction: Prediction
    recommendation: Recommendation
    weights: Weighing | None
    commands: tuple[str, ...]
    untold: tuple[str, ...]


def diagnosis(
    log: Log,
    *,
    estimator: str = "grpo",
    others: tuple[str, ...] = OTHERS,
    rollouts: int = ROLLOUTS,
    level: float = LEVEL,
    windows: int = WINDOWS,
    holdout: float = 0.0,
    simulate: bool = False,
    seed: int = 0,
) -> Diagnosis:
    """Make all estimates of a log.

    Args:
        log: of at least one group.
        estimator: in use, as it is written on the command line.
        others: whose gradient masses are compared with its own.
        rollouts: the rollouts of a step; the budget to split into prompts x G.
        level: the level of the intervals.
        windows: into how many parts the steps are split; the present is the last.
        holdout: share of the steps against which predictions from the others are scored; 0 for none.
        simulate: whether difficulty weights are simulated on the fitted bank, which takes a minute or two.
        seed: the seed of the bootstrap.

    Raises:
        InputError: for an empty log, a number outside its range, or an estimator that is unknown or whose masses depend
            on more than rewards.
    """
    check_options(estimator, others, rollouts=rollouts, level=level, holdout=holdout, seed=seed)
    parts = split(log, windows)
    last = parts[-1]
    now = population(last, level)
    of_groups = groups(last, now, estimator, others)
    seen = solutions(last)
    size = of_groups.observed.group_size
    sizes = tuple(own.group_size for own in of_groups.at_sizes)
    solution = typical(seen, level, seed, sizes) if seen is not None else None
    advice = recommend(now, solution, size, rollouts)
    weights = weigh(now, estimator, size) if simulate else None
    return Diagnosis(
        level,
        estimator,
        (int(log.step.min()), int(log.step.max())),
        solve_rates(parts, now, seed),
        of_groups,
        pass_at_k(of_prompts(last), now),
        unseen(parts, level, seed, sizes),
        confidence(last, estimator, level),
        predict(log, level, share=holdout),
        advice,
        weights,
        commands(log.format, advice, weights),
        tuple(_untold(log, last)),
    )


def check_options(
    estimator: str = "grpo",
    others: tuple[str, ...] = OTHERS,
    *,
    rollouts: int = ROLLOUTS,
    level: float = LEVEL,
    holdout: float = 0.0,
    seed: int = 0,
) -> None:
    """Refuse what ``diagnosis`` would, before a log is read for minutes.

    Raises:
        InputError: for a number outside its range, or an estimator that is unknown or whose masses depend on more than
            rewards.
    """
    check_range("level", level, 0.5, 0.999)
    check_whole("seed", seed, 0)
    check_whole("rollouts", rollouts, SMALLEST)
    if not 0 <= holdout < 1:
        raise InputError(f"holdout = {holdout} is not allowed; allowed: [0, 1)")
    for name in (estimator, *others):
        total_mass(name, SMALLEST)


def _untold(log: Log, last: Log) -> list[str]:
    """What this log lacks."""
    largest = int(of_prompts(last).trials.max())
    found = [
        f"solve rates below about 1 / {largest} are not told from 0, nor those above 1 - 1 / {largest} from 1",
        "what prompts share, and so whether learning one helps or harms another",
    ]
    if log.answers is None:
        found.append("which solutions were never drawn, and which groups teach against them: the log has no answers")
    if log.confidence is None:
        found.append("entropy and its drift: the log has no log-probabilities")
    if len(np.unique(log.step)) == 1:
        found.append("drift and the next steps: all groups are of one step")
    if int(last.group_size.max()) == 1:
        found.append("anything about groups, and how much prompts differ: every group is of one rollout")
    return found + _assumed(log)


def _assumed(log: Log) -> list[str]:
    """What estimates assume, and no log tells."""
    found = [
        "whether the policy stands still within a window of steps, as is assumed",
        "whether the prompts of a window are a sample of those to come, as is assumed",
        "whether the next steps go on along the line of the last, as is assumed",
    ]
    if log.answers is not None:
        found.append("whether answers of one canonical form, and only those, are one solution, as is assumed")
    return found
