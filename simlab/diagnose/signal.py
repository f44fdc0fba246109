"""Answer whether a loss or a reward_std of 0 is a fault: the groups without signal, why, and what helps."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from simlab.diagnose.components import reward_weights
from simlab.diagnose.dead_groups import dead_share
from simlab.diagnose.diagnosis import Diagnosis, Finding, Rows
from simlab.diagnose.estimate import IntervalEstimate, percent, share
from simlab.diagnose.log import Log
from simlab.diagnose.mixture import components, fit_likelihood
from simlab.diagnose.reading import LoggedRollouts, Reading
from simlab.diagnose.solve_rates import share_over_prompts
from simlab.text import plain_number

QUESTION = "loss or reward_std is 0: is it broken?"
FILTER_QUESTION = "were prompts filtered (dynamic sampling)?"
ROUNDING = 1e-6  # of the largest reward: sums of equal parts in another order differ by float32's rounding
CALM = 0.16  # concern where nothing is wrong: the question is asked most often
FILTERED = 0.45  # concern: all other answers are of what the filter keeps
NAMED = 0.05  # share of all groups from which a reason is named
FEWER = 0.75  # of the share without signal now, which a larger G must reach to be called a help
LARGER = 4  # times the size in use: the largest that is looked at
DOUBT = 0.01  # chance of no dead group below which a log is called filtered
MOST_DRAWS = 50.0  # prompts for a group that is kept, beyond which rarer solutions count as this: a bound from below


class GroupSignal(NamedTuple):
    """The groups of the last window that hold two rollouts or more, (groups,) each.

    Attributes:
        prompt: number of the prompt.
        silent: rewards are equal up to float32's rounding, so that a centred advantage is 0.
        residue: of these, those whose rewards are not equal to the last bit.
        wrong, right: no rollout, or every rollout, is correct.
        cancel: silent, though a part of the reward varies.
    """

    prompt: Int[np.ndarray, " groups"]
    silent: Bool[np.ndarray, " groups"]
    residue: Bool[np.ndarray, " groups"]
    wrong: Bool[np.ndarray, " groups"]
    right: Bool[np.ndarray, " groups"]
    cancel: Bool[np.ndarray, " groups"]


def group_signal(reading: Reading, first_step: int) -> GroupSignal:
    """Find the groups without signal from a step on, and why they have none."""
    log, rollouts = reading.log, reading.rollouts
    varies = spreads(rollouts, len(log.step), rollouts.reward)
    silent, cancel = ~varies, np.zeros(len(log.step), bool)
    for name in reward_weights(reading):
        cancel |= silent & spreads(rollouts, len(log.step), rollouts.components[name])
    residue = silent & ~log.equal if log.equal is not None else np.zeros(len(silent), bool)
    counted = (log.step >= first_step) & (log.group_size > 1)
    columns = (log.prompt, silent, residue, log.correct == 0, log.correct == log.group_size, cancel)
    return GroupSignal(*(column[counted] for column in columns))


def spreads(rollouts: LoggedRollouts, groups: int, values: Float[np.ndarray, " N"]) -> Bool[np.ndarray, " groups"]:
    """Return True for groups in which values differ by more than rounding; an empty cell counts as 0."""
    values = np.nan_to_num(values)
    high, low = np.full(groups, -np.inf), np.full(groups, np.inf)
    np.maximum.at(high, rollouts.group, values)
    np.minimum.at(low, rollouts.group, values)
    return np.asarray(high - low > ROUNDING * np.maximum(np.abs(high), np.abs(low)))


def is_the_loss_broken(reading: Reading, result: Diagnosis) -> Finding | None:
    """Answer whether a loss of 0 is a fault; None where every group is of one rollout."""
    groups = group_signal(reading, result.solve_rates.windows[-1].first)
    if not len(groups.prompt):
        return None
    silent, wrong, right = groups.silent, groups.silent & groups.wrong, groups.silent & groups.right
    graded = ~silent & (groups.wrong | groups.right)
    masks = {
        "groups without signal": silent,
        "of equal rewards, all wrong": wrong,
        "of equal rewards, all right": right,
        "of equal rewards, though verdicts differ": silent & ~groups.wrong & ~groups.right,
        "of parts that cancel": groups.cancel,
        "all wrong or all right, but graded": graded,
        "equal up to rounding alone": groups.residue,
    }
    _, index = np.unique(groups.prompt, return_inverse=True)
    shares = {
        name: share_over_prompts(name, np.bincount(index, mask), np.bincount(index), result.level)
        for name, mask in masks.items()
        if mask.any() or mask is silent
    }
    rows = tuple(shares.items())
    none, logged = shares["groups without signal"], reading.rollouts.advantage
    # Advantages of 0 are another fault, which the check of the trainer names.
    verdict = "Not broken" if logged is None or np.nan_to_num(logged).any() else "Not for want of signal"
    if not silent.any():
        calm = f"{verdict}: {share(none)} of groups lack signal. A loss near 0 is right even so: the advantages of a "
        return Finding(QUESTION, f"{calm}group sum to 0, while their gradient does not vanish.", CALM, rows)
    if silent.all():
        return Finding(QUESTION, _nothing_learned(groups), 1.0, rows)
    parts = [f"{percent(float(mask.mean()))} {name}" for name, mask in (("all wrong", wrong), ("all right", right))]
    if groups.cancel.mean() >= NAMED:
        cancelled = share(shares["of parts that cancel"])
        sentence = f"Partly: {share(none)} of groups lack signal, and in {cancelled} parts of the reward vary "
        sentence += "but cancel in the sum. Weigh them apart, or normalise each (GDPO)."
        return Finding(QUESTION, sentence, max(none.value, 0.5), rows)
    sentence = f"{verdict}: {share(none)} of groups have equal rewards and teach nothing ({', '.join(parts)})."
    if graded.mean() >= NAMED:
        sentence += f" {share(shares['all wrong or all right, but graded'])} more fail or pass whole, yet "
        return Finding(QUESTION, sentence + "their graded rewards teach.", max(CALM, none.value**2), rows)
    sentence += f" {_help(result, none, harder=bool(right.sum() > wrong.sum()))}"
    return Finding(QUESTION, sentence, max(CALM, none.value**2), rows)


def _nothing_learned(groups: GroupSignal) -> str:
    number = f"all {len(groups.prompt):,} groups have equal rewards"
    if groups.cancel.mean() > 0.5:
        return f"Yes: {number} although parts of the reward vary: they cancel in the sum. Change their weights."
    if groups.wrong.all():
        why = f"Yes, nothing is learned: {number}, and no rollout is right. First run the verifier on a known right "
        return f"{why}answer in the model's own format; if it passes, use easier prompts."
    if groups.right.all():
        return f"Nothing is left to learn: {number}, and every rollout is right. Use harder prompts."
    if (groups.wrong | groups.right).all():
        why = f"Nothing is learned: {number}, each prompt being always right or always wrong."
        return f"{why} Use prompts between them."
    return f"Yes, nothing is learned: {number} although verdicts differ. The reward ignores them: check its function."


def _help(result: Diagnosis, now: IntervalEstimate, *, harder: bool) -> str:
    """Name what helps: a group size, where one leaves surely and clearly fewer, else other prompts."""
    assert result.groups is not None  # a group of two rollouts is there
    size, prompts = result.groups.observed.group_size, f"{'harder' if harder else 'easier'} prompts"
    larger = [sizes for sizes in result.groups.at_sizes if size < sizes.group_size <= LARGER * size]
    if not larger or now.value < NAMED:
        return "That is little."
    fewer = [sizes for sizes in larger if sizes.dead.value <= FEWER * now.value and sizes.dead.high < now.low]
    if fewer:
        return f"G = {fewer[0].group_size} leaves {share(fewer[0].dead)}; {prompts} or dynamic sampling help too."
    return f"G = {larger[-1].group_size} would leave {share(larger[-1].dead)}: {prompts} or dynamic sampling help more."


def were_prompts_filtered(reading: Reading, result: Diagnosis) -> Finding | None:
    """Answer whether dead groups were left out of a log, and how many prompts fill its batches.

    Solve rates of a log without a filter make groups dead with a probability of at least d, the lower end of its
    interval. Then no prompt's first group is dead with probability (1 - d)^prompts, and where that is below ``DOUBT``
    the log is filtered: else this is said wrongly as often as the interval is wrong, or with that probability.
    """
    if result.groups is None:
        return None
    log = reading.log.select(reading.log.step >= result.solve_rates.windows[-1].first)
    size = result.groups.observed.group_size
    if log.group_size.max() < 2 or (log.correct == 0).any() or (log.correct == log.group_size).any():
        return None
    count, prompts = len(log.step), len(np.unique(log.prompt))
    expected = next(sizes.dead for sizes in result.groups.at_sizes if sizes.group_size == size)
    rows: Rows = (("dead groups expected without a filter", expected),)
    if (1 - expected.low) ** prompts > DOUBT:
        sentence = f"It cannot be told: none of {count:,} groups is all right or all wrong, but so few groups may have "
        return Finding(FILTER_QUESTION, f"{sentence}none by chance ({share(expected)} expected).", 0.0, rows)
    draws = least_draws(log, size, result.level)
    batch = result.groups.observed.groups_per_step
    rows += (("prompts drawn for a group that is kept", f"at least {plain_number(draws)}"),)
    sentence = f"Filtered: none of {count:,} groups is all right or all wrong; {share(expected)} would be. Filling "
    sentence += f"{batch:g} groups took at least {np.ceil(batch * draws):g} prompts "
    sentence += f"({(1 + result.level) / 2:.0%} sure), more if some are never solved."
    return Finding(FILTER_QUESTION, sentence, FILTERED, rows)


def least_draws(log: Log, group_size: int, level: float) -> float:
    """Return the lower end of the interval of the prompts drawn for each group that a filter keeps.

    Of a prompt under component k, a group of G is kept with probability a_k = 1 - E p^G - E (1 - p)^G. Among kept
    groups components have weights v, and x of G have the probability sum_k v_k E p^x (1 - p)^(G - x) C(G, x) / a_k.
    That is a mixture whose v are fitted like those of solve rates, to the first group of each prompt, and the draws
    for a kept group are sum_k v_k / a_k. They have no upper bound: prompts that are never or always solved are in no
    such log, and rare ones hardly; 1 / a_k is cut at ``MOST_DRAWS``.
    """
    usual = np.flatnonzero(log.group_size == group_size)
    _, first = np.unique(log.prompt[usual], return_index=True)
    right, prompts = np.unique(log.correct[usual[first]], return_counts=True)
    mixed = 1 - dead_share(group_size)
    possible = mixed > 0
    likelihood = np.where(possible, components().moment(right, group_size - right) / np.where(possible, mixed, 1), 0)
    mixture = fit_likelihood(likelihood / likelihood.max(axis=1, keepdims=True), prompts)
    draws = np.minimum(1 / np.maximum(mixed, 1 / MOST_DRAWS), MOST_DRAWS)
    return max(1.0, mixture.bounds(draws, level)[0])
