"""Make all estimates of a log, each with its interval: rates, groups, solutions, advice, and what comes next."""

from typing import NamedTuple

import numpy as np

from simlab.diagnose import dead_groups, recommend, solve_rates
from simlab.diagnose.dead_groups import OTHERS, GroupEstimates, ObservedGroups
from simlab.diagnose.estimate import LEVEL, IntervalEstimate
from simlab.diagnose.log import Log
from simlab.diagnose.predict import Prediction, predict
from simlab.diagnose.recommend import SMALLEST, Recommendation, WeightEffects
from simlab.diagnose.solve_rates import WINDOWS, PassAtK, Population, SolveRates
from simlab.diagnose.tail_misses import UnseenSolutions, estimate_unseen, typical_solution
from simlab.diagnose.unseen import count_solutions
from simlab.errors import InputError, check_range, check_whole

Rows = tuple[tuple[str, IntervalEstimate | str], ...]  # label and value
NO_PROBE = "the trainer recorded no probe (docs/how-to/interference.md)"


class Diagnosis(NamedTuple):
    """All estimates of a log; ``simlab.diagnose.estimate.as_json`` makes JSON of it.

    Attributes:
        estimator: in use.
        steps: the first and the last step; ``solve_rates``, ``groups`` and ``pass_at_k`` are of the last window.
        groups, recommendation: None where every prompt has one rollout: only pass@1 can be said.
        unseen: None where the log has no answers, or one rollout a prompt.
        weights: None unless they were simulated.
        commands: what to run next, as the log's own trainer takes it; empty where nothing is recommended.
        untold: what this log cannot tell, a sentence each.
    """

    level: float
    estimator: str
    steps: tuple[int, int]
    solve_rates: SolveRates
    groups: GroupEstimates | None
    pass_at_k: PassAtK
    unseen: UnseenSolutions | None
    prediction: Prediction
    recommendation: Recommendation | None
    weights: WeightEffects | None
    commands: tuple[str, ...]
    untold: tuple[str, ...]


class Finding(NamedTuple):
    """The answer to one question about a log.

    Attributes:
        question: as people ask it, such as "is the loss broken?".
        sentence: the answer in plain words: what is wrong or fine, why, what to do, how sure.
        concern: from 0, fine, to 1, the run is broken; it orders the answers.
        rows: each number behind the sentence, for the table.
    """

    question: str
    sentence: str
    concern: float
    rows: Rows = ()


def diagnose(
    log: Log,
    *,
    estimator: str = "grpo",
    others: tuple[str, ...] = OTHERS,
    rollouts: int | None = None,
    level: float = LEVEL,
    windows: int = WINDOWS,
    holdout: float = 0.0,
    simulate: bool = False,
    seed: int = 0,
    probed: bool = False,
) -> Diagnosis:
    """Make all estimates of a log.

    Args:
        log: of at least one group.
        estimator: in use, as it is written on the command line.
        others: estimators whose gradient masses are compared with its own.
        rollouts: the budget of a step, to split into prompts x G; None for the median of the log's last window.
        level: the level of the intervals.
        windows: windows of steps; the last is the present.
        holdout: share of the steps against which predictions from the others are scored; 0 for none.
        simulate: simulate difficulty weights on the fitted bank, which takes a minute or two.
        seed: the seed of the bootstrap.
        probed: the trainer measured how prompts move one another, which is then told.

    Raises: InputError: for an empty log, a number outside its range, and an estimator that reads more than rewards.
    """
    check_range("level", level, 0.5, 0.999)
    check_options(estimator, others, rollouts=rollouts, holdout=holdout, seed=seed)
    parts = solve_rates.split_windows(log, windows)
    last = parts[-1]
    now = solve_rates.fit_population(last, level)
    observed = dead_groups.observe_groups(last)
    weights = recommend.simulate_weights(now, estimator, observed.group_size) if simulate else None
    groups = advice = unseen = None
    if not now.is_single:
        groups = dead_groups.estimate_groups(observed, now, estimator, others)
        sizes = tuple(predicted.group_size for predicted in groups.at_sizes)
        counts = count_solutions(last)
        solution = typical_solution(counts, level, seed, sizes) if counts is not None else None
        _, step = np.unique(last.step, return_inverse=True)
        usual = max(round(np.median(np.bincount(step, last.group_size))), observed.group_size, SMALLEST)
        advice = recommend.recommend(now, groups, solution, rollouts or usual)
        unseen = estimate_unseen(parts, level, seed, sizes)
    return Diagnosis(
        level=level,
        estimator=estimator,
        steps=(int(log.step.min()), int(log.step.max())),
        solve_rates=solve_rates.estimate_solve_rates(parts, now, seed),
        groups=groups,
        pass_at_k=solve_rates.estimate_pass_at_k(now),
        unseen=unseen,
        prediction=predict(log, level, share=holdout),
        recommendation=advice,
        weights=weights,
        commands=recommend.trainer_commands(log.format, advice, weights),
        untold=tuple(_list_gaps(log, observed, now, probed)),
    )


def check_options(
    estimator: str, others: tuple[str, ...] = (), *, rollouts: int | None, holdout: float, seed: int
) -> None:
    """Check the options of ``diagnose``, before a log is read for minutes."""
    check_whole("seed", seed, 0)
    if rollouts is not None:
        check_whole("rollouts", rollouts, SMALLEST)
    if not 0 <= holdout < 1:
        raise InputError(f"holdout = {holdout} is not allowed; allowed: [0, 1)")
    for name in (estimator, *others):
        dead_groups.total_mass(name, SMALLEST)


def _list_gaps(log: Log, observed: ObservedGroups, now: Population, probed: bool) -> list[str]:
    """List the questions that this log leaves open, and the assumptions of the estimates."""
    largest, bare = int(now.pairs[:, 0].max()), log.answers is None
    gaps = {
        "how prompts and groups differ: one rollout a prompt: only pass@1 can be said": now.is_single,
        "groups without signal at other sizes: of graded rewards, a group all wrong may have one": observed.is_graded,
        f"solve rates below about 1 / {largest} are not told from 0, nor those above 1 - 1 / {largest} from 1": True,
        f"what prompts share, and so whether learning one helps or harms another: {NO_PROBE}": not probed,
        "which solutions were never drawn, and which groups teach against them: the log has no answers": bare,
        "drift and the next steps: all groups are of one step": len(np.unique(log.step)) == 1,
        "whether the policy stands still within a window of steps, as is assumed": True,
        "whether the prompts of a window are a sample of those to come, as is assumed": True,
        "whether the next steps go on along the line of the last, as is assumed": True,
        "whether answers of one canonical form, and only those, are one solution, as is assumed": not bare,
    }
    return [sentence for sentence, is_open in gaps.items() if is_open]
