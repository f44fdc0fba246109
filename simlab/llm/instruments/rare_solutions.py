"""Follow rare correct behaviour: F-GRPO's rare-correct trajectories, and the tail-miss rate of tracked solutions."""

import functools
import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from simlab.errors import InputError, check_range, check_whole
from simlab.llm.batch_layout import rounded_up
from simlab.llm.completions import CompletionBatch, filled_up, longest, target_logp
from simlab.llm.config import ModelConfig
from simlab.llm.instruments.batch_metrics import Solutions
from simlab.llm.instruments.pass_at_k import log_missed
from simlab.llm.model import Parameters
from simlab.theory.tail_miss import tail_miss

SHARE = 0.01  # as in the paper
AT_ONCE = 8
SLACK = 1e-9  # of a whole number that rounding has left just short


class Trajectories(NamedTuple):
    """Prompts with a completion of each, as lists that JSON holds: ``Trajectories(**json.loads(...))`` reads them back.

    Attributes:
        prompts: n lists of tokens.
        completions: n lists of tokens, each with the token that ended it.
    """

    prompts: list[list[int]]
    completions: list[list[int]]


def rarest_trajectories(trajectories: Trajectories, nll: Float[np.ndarray, " n"], share: float = SHARE) -> Trajectories:
    """Return the share of correct trajectories with the highest NLL under the base model ``[f-grpo:sec-5.4-nll]``.

    The share is rounded down, to one trajectory at least; of equal NLLs the earlier ones are taken. As in the paper the
    share is that of all trajectories together, so that problems with many correct and long-winded samples give more.

    Args:
        trajectories: correct ones, sampled from the base model; one that was sampled twice counts twice.
        nll: the nll of each, from ``length_normalised_nll``.
        share: in (0, 1].

    Raises:
        InputError: for no trajectory, or a share outside its range.
    """
    check_range("share", share, 0, 1, open_low=True)
    count = len(trajectories.completions)
    if not count:
        raise InputError("there is no correct trajectory to choose rare ones from; allowed: one or more")
    order = np.argsort(-nll, kind="stable")[: max(1, math.floor(share * count + SLACK))]
    return Trajectories(
        [trajectories.prompts[index] for index in order], [trajectories.completions[index] for index in order]
    )


def length_normalised_nll(
    parameters: Parameters, config: ModelConfig, trajectories: Trajectories, *, at_once: int = AT_ONCE
) -> Float[np.ndarray, " n"]:
    """Return -(1 / |y|) sum over t of log pi(y_t | x, y before t), at temperature 1 ``[f-grpo:sec-5.4-nll]``.

    The paper reports its mean over the rare-correct trajectories; it rises as the policy leaves them.

    Args:
        parameters: the parameters of the model.
        config: its config.
        trajectories: n of them.
        at_once: trajectories that are evaluated together.

    """
    count = len(trajectories.prompts)
    rows = min(at_once, rounded_up(max(count, 1)))
    (prompts, lengths), (tokens, sizes) = (
        filled_up(sequences, rows * math.ceil(count / rows), rounded_up(longest(sequences)))
        for sequences in trajectories
    )
    mask = np.arange(tokens.shape[1]) < sizes[:, None]
    nll = np.zeros(len(tokens))
    for start in range(0, count, rows):
        chunk = slice(start, start + rows)
        batch = CompletionBatch(prompts[chunk], lengths[chunk], tokens[chunk, None], mask[chunk, None])
        nll[chunk] = _nll(parameters, config, batch)
    return nll[:count]


@functools.partial(jax.jit, static_argnames="config")
def _nll(parameters: Parameters, config: ModelConfig, batch: CompletionBatch) -> Float[Array, " P"]:
    logp = target_logp(parameters, config, batch, jnp.asarray(batch.tokens)[..., None])[..., 0]
    present = jnp.asarray(batch.mask)
    return -jnp.sum(jnp.where(present, logp, 0), axis=(1, 2)) / jnp.sum(present, axis=(1, 2))


# Tracked solutions: how often a group updates the policy without a rare solution in it. Solutions are in canonical
# form: for each problem a list of n, one for each sample, with None for a wrong answer.

TWICE = 2


class Tracked(NamedTuple):
    """The solutions to track, as lists that JSON holds: ``Tracked(**json.loads(...))`` reads them back.

    Attributes:
        problems: K indices of problems among all of them.
        solutions: the tracked solution of each.
        correct_mass: mu at the start, the share of samples that were correct.
        solution_mass: tau at the start, the share of samples that were the tracked solution.
    """

    problems: list[int]
    solutions: list[str]
    correct_mass: list[float]
    solution_mass: list[float]


def choose_tracked(solutions: Solutions) -> Tracked:
    """Choose the rarest solution of each problem that the starting policy's samples hold at least twice.

    Twice, because a solution found once would be estimated to have tau = 1 / n whatever its probability is: most of
    those are far rarer, and were lucky. Still the choice favours solutions that were drawn too rarely or too often for
    what they are; so compare later masses with those in new samples of the starting policy, not with ``solution_mass``.
    Of equally rare ones the first found is taken. A problem without such a solution is left out, and so is one whose
    correct samples are all one solution: a group with a correct rollout cannot miss it.
    """
    tracked = Tracked([], [], [], [])
    for problem, samples in enumerate(solutions):
        counts = Counter(solution for solution in samples if solution is not None)
        often = {solution: count for solution, count in counts.items() if count >= TWICE}
        if len(counts) < 2 or not often:
            continue
        rarest = min(often, key=often.__getitem__)
        tracked.problems.append(problem)
        tracked.solutions.append(rarest)
        tracked.correct_mass.append(counts.total() / len(samples))
        tracked.solution_mass.append(often[rarest] / len(samples))
    return tracked


class TrackedTailMiss(NamedTuple):
    """The tail-miss rate of K tracked solutions in n samples of each problem.

    Attributes:
        active: (K,) share of the groups with both outcomes.
        missed: (K,) share of the groups with both outcomes and without the tracked solution.
        expected: (K,) the mean of ``missed`` over all orders of the samples.
        lemma: (K,) the lemma's value at ``correct_mass`` and ``solution_mass``.
        correct_mass: (K,) mu, the share of correct samples.
        solution_mass: (K,) tau, the share of samples that are the tracked solution.
    """

    active: Float[np.ndarray, " K"]
    missed: Float[np.ndarray, " K"]
    expected: Float[np.ndarray, " K"]
    lemma: Float[np.ndarray, " K"]
    correct_mass: Float[np.ndarray, " K"]
    solution_mass: Float[np.ndarray, " K"]


def tracked_tail_miss(tracked: Tracked, solutions: Solutions, group_size: int) -> TrackedTailMiss:
    """Return the rate at which groups are active and miss the tracked solution, and Lemma 3.1's ``[f-grpo:lemma-3.1]``.

    ``missed`` splits the n samples, in their order, into groups of G; a remainder is in none. ``expected`` is
    the share of all C(n, G) groups, from binomials: unbiased for the probability of the current policy, as ``missed``
    is, and with less noise. ``lemma`` puts the shares mu and tau of the n samples into the lemma: the probability for G
    draws *with* replacement from these samples. That is biased, of order G^2 / n and of either sign: (1 - tau)^G is too
    large on average, and so are the two terms taken off. Above all, for G near n it is not to be read. All three
    treat the samples of a problem as independent draws of one policy; that they agree says nothing on the policy.

    Args:
        tracked: from ``choose``.
        solutions: the new samples of all problems, the tracked ones among them.
        group_size: G, up to n.

    Raises:
        InputError: for a tracked problem of fewer samples than G.
    """
    check_whole("group_size", group_size, 1)
    rows = []
    for problem, solution in zip(tracked.problems, tracked.solutions, strict=True):
        samples = solutions[problem]
        if len(samples) < group_size:
            raise InputError(
                f"problem {problem} has {len(samples)} samples; allowed: {group_size} or more, the group size"
            )
        rows.append(_problem_tail_miss(samples, solution, group_size))
    return TrackedTailMiss(*np.array(rows, float).reshape(len(rows), len(TrackedTailMiss._fields)).T)


def _problem_tail_miss(samples: Sequence[str | None], solution: str, group_size: int) -> tuple[float, ...]:
    count = len(samples)
    correct = np.array([sample is not None for sample in samples])
    target = np.array([sample == solution for sample in samples])
    grouped = count - count % group_size
    successes = correct[:grouped].reshape(-1, group_size).sum(axis=1)
    active = (successes > 0) & (successes < group_size)
    missed = active & ~target[:grouped].reshape(-1, group_size).any(axis=1)
    rights, targets = int(correct.sum()), int(target.sum())
    # As in the lemma: no target, less nothing but correct ones without it, less nothing but wrong ones.
    avoided = np.exp(log_missed(count, group_size))
    expected = avoided[targets] - avoided[count - rights + targets] - avoided[rights]
    mu, tau = rights / count, targets / count
    return (
        float(active.mean()),
        float(missed.mean()),
        max(0.0, float(expected)),
        float(tail_miss(group_size, mu, tau)),
        mu,
        tau,
    )


def tracked_metrics(tracked: Tracked, solutions: Solutions, group_size: int) -> dict[str, float]:
    """Return ``tracked_tail_miss`` for the metrics of a step: means over the tracked problems, NaN if there are none.

    ``tracked_active``, ``tail_miss``, ``tail_miss_expected``, ``tail_miss_lemma``, ``tracked_correct_mass``,
    ``tracked_solution_mass``, and ``tracked_lost``, the share of tracked solutions that no sample holds any more.

    Raises:
        InputError: as there.
    """
    rates = tracked_tail_miss(tracked, solutions, group_size)
    if not tracked.problems:
        rates = TrackedTailMiss(*[np.array([np.nan])] * len(TrackedTailMiss._fields))
    lost = np.where(np.isnan(rates.solution_mass), np.nan, rates.solution_mass == 0)
    names = ("tracked_active", "tail_miss", "tail_miss_expected", "tail_miss_lemma", "tracked_correct_mass")
    named = dict(zip((*names, "tracked_solution_mass", "tracked_lost"), (*rates, lost), strict=True))
    return {name: float(values.mean()) for name, values in named.items()}
