"""Follow rare correct behaviour: F-GRPO's rare-correct trajectories, and the tail-miss rate of tracked solutions."""

import functools
import math
from collections import Counter
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

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
    """Prompts with a completion of each, n lists of tokens, the one that ended it included; JSON holds them."""

    prompts: list[list[int]]
    completions: list[list[int]]


def rarest_trajectories(trajectories: Trajectories, nll: Float[np.ndarray, " n"]) -> Trajectories:
    """Return the ``SHARE`` (rounded down, at least 1) of trajectories of highest NLL ``[f-grpo:sec-5.4-nll]``."""
    order = np.argsort(-nll, kind="stable")[: max(1, math.floor(SHARE * len(nll) + SLACK))]
    return Trajectories(*([sequences[index] for index in order] for sequences in trajectories))


def length_normalised_nll(
    parameters: Parameters, config: ModelConfig, trajectories: Trajectories
) -> Float[np.ndarray, " n"]:
    """Return -(1 / |y|) sum_t log pi(y_t | x, y before t) of one trajectory or more ``[f-grpo:sec-5.4-nll]``."""
    count = len(trajectories.prompts)
    rows = min(AT_ONCE, rounded_up(count))
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
    """The K solutions to track, as lists that JSON holds; the masses are the shares mu and tau of samples at the
    start."""

    problems: list[int]
    solutions: list[str]
    correct_mass: list[float]
    solution_mass: list[float]


def choose_tracked(solutions: Solutions) -> Tracked:
    """Choose each problem's rarest solution of two samples or more; compare later masses with new samples."""
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


TRACKED_METRICS = (
    "tracked_active", "tail_miss", "tail_miss_expected", "tail_miss_lemma", "tracked_correct_mass",
    "tracked_solution_mass", "tracked_lost",
)  # fmt: skip


def tracked_metrics(tracked: Tracked, solutions: Solutions, group_size: int) -> dict[str, float]:
    """Return how often groups are active and miss a tracked solution, and Lemma 3.1's rate ``[f-grpo:lemma-3.1]``.

    Each is a mean over the tracked solutions, NaN without any. G is at most the n samples of a problem.

    - ``tracked_active``, ``tail_miss``: shares of the groups with both outcomes, and of those among them without the
      tracked solution. The n samples of a problem are split, in their order, into groups of G; a remainder is in none.
    - ``tail_miss_expected``: the share of all C(n, G) groups, from binomials: unbiased for the probability of the
      current policy, as ``tail_miss`` is, and with less noise.
    - ``tail_miss_lemma``: the lemma at the shares mu and tau of the n samples (``tracked_correct_mass`` and
      ``tracked_solution_mass``), so for G draws *with* replacement from these samples. That is biased, of order G^2 / n
      and of either sign; for G near n it is not to be read.
    - ``tracked_lost``: the share of the tracked solutions that no sample has.

    All three treat the samples of a problem as independent draws of one policy; that they agree says nothing on it.
    """
    rows = []
    for problem, solution in zip(tracked.problems, tracked.solutions, strict=True):
        samples, count = solutions[problem], len(solutions[problem])
        correct = np.array([sample is not None for sample in samples])
        target = np.array([sample == solution for sample in samples])
        in_groups = slice(count - count % group_size), (-1, group_size)
        successes = correct[in_groups[0]].reshape(in_groups[1]).sum(axis=1)
        active = (successes > 0) & (successes < group_size)
        missed = active & ~target[in_groups[0]].reshape(in_groups[1]).any(axis=1)
        rights, targets = int(correct.sum()), int(target.sum())
        # As in the lemma: no target, less nothing but correct ones without it, less nothing but wrong ones.
        avoided = np.exp(log_missed(count, group_size))
        expected = max(0.0, avoided[targets] - avoided[count - rights + targets] - avoided[rights])
        mu, tau = rights / count, targets / count
        lemma = float(tail_miss(group_size, mu, tau))
        rows.append((active.mean(), missed.mean(), expected, lemma, mu, tau, tau == 0))
    if not rows:
        return dict.fromkeys(TRACKED_METRICS, np.nan)
    columns = np.array(rows, float).T
    return {name: float(column.mean()) for name, column in zip(TRACKED_METRICS, columns, strict=True)}
