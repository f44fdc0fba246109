"""Easy and hard prompts whose features overlap, so that what one kind learns helps or harms the other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from simlab.errors import InputError, check_range, check_whole
from simlab.estimators import Estimator
from simlab.problems.base import LARGEST_COUNT, AnyArray, numbers
from simlab.problems.linear_softmax import LinearSoftmax
from simlab.problems.prompt_bank import LARGEST_BANK, Rates, choose_rates, midpoints, mixed_rates
from simlab.theory.interference import expected_speed, log_odds_drift, transfer

KINDS = ("easy", "hard")
USUAL_PROMPTS = 32
DISTRIBUTIONS = ("beta", "log-uniform")  # of solve rates
OWN, RANDOM = "own", "random"  # features of prompts beside the direction that they share


@dataclass(frozen=True, eq=False)
class InterferingPrompts(LinearSoftmax):
    """M easy and hard prompts whose logits are those of a base model plus W h_i, with one head W for all, 0 at first.

    A gradient step on prompt i moves the logits of prompt j by h_i . h_j times what it moves its own by: the
    linearisation of a network whose tangent kernel is h_i . h_j. The base logits stand in columns of the head that are
    not learned (but AdamW shrinks them), one for each prompt: ``weights`` are [0, base] and ``features`` [h, 1].

    Attributes:
        learned: (d,) true for the columns of the head that are learned.
        hard: (M,) true for hard prompts, the others being easy.
    """

    learned: Bool[np.ndarray, " d"]
    hard: Bool[np.ndarray, " M"]

    metrics_at = "simlab.simulator.head_metrics:INTERFERENCE_METRICS"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, length in (("learned", self.features.shape[1]), ("hard", self.prompts)):
            mask = getattr(self, name)
            if mask.shape != (length,) or mask.dtype != bool:
                raise InputError(f"{name} is {mask.dtype} of shape {mask.shape}; allowed: bool of shape ({length},)")

    @property
    def teaching(self) -> Float[AnyArray, "M d"]:
        """The features of the columns that are learned, and 0 for the others."""
        teaching: AnyArray = self.features * self.learned
        return teaching

    def labels(self) -> Mapping[str, Sequence[Any]]:
        """Labels of a bank, and of the kinds of prompts: those that are moved, and those that move them."""
        return {**self.tabular.labels(), "kind": KINDS, "source": KINDS}

    @property
    def kernel(self) -> Float[np.ndarray, "M M"]:
        """h_i . h_j of all pairs of prompts."""
        teaching = np.asarray(self.teaching)
        kernel: Float[np.ndarray, "M M"] = teaching @ teaching.T
        return kernel


def interference(
    prompts: int = 0,
    actions: int = 64,
    *,
    overlap: float = 0.3,
    conflict: float = 1.0,
    features: str = OWN,
    dimension: int = 0,
    feature_seed: int = 0,
    easy_share: float = 0.5,
    easy_rate: float = 0.3,
    hard_rate: float = 0.01,
    solve_rates: Sequence[float] | str = (),
    beta_a: float = 0.5,
    beta_b: float = 0.5,
    second_a: float = 1.0,
    second_b: float = 1.0,
    second_share: float = 0.0,
    margin: float = 0.0,
    rare_modes: int = 0,
    rare_ratio: float = 0.01,
    distractor_share: float = 0.3,
    reward_correct: float = 1.0,
    reward_incorrect: float = 0.0,
) -> InterferingPrompts:
    """Easy prompts that one answer solves, and hard ones for which it is wrong, with features that overlap.

    The feature of a prompt is h = sqrt(1 - abs(c)) f + sqrt(abs(c)) s u, with c = ``overlap``, a direction u that no f
    holds, and s = -1 for hard prompts if c is negative, else 1. With orthonormal f, ``features = "own"``, the cosine of
    an easy and a hard prompt is c, and that of two of one kind abs(c).

    Action 0 is the shared answer: right for all easy prompts, and wrong for round(``conflict`` n) of the n hard ones,
    each of which has a correct answer of its own; for the other hard prompts it is right too. A prompt may have rare
    correct modes beside, which no other prompt has. All other actions are wrong and alike.

    Args:
        prompts: M; 0 for as many as solve rates are listed, and 32 if none are.
        actions: A.
        overlap: c, from -1 to 1.
        conflict: share of the hard prompts for which the shared answer is wrong, spread evenly among them.
        features: of f: "own" for orthonormal ones; "random" for random ones of length 1; or the path of a ``.npy`` or
            text file with a row for each prompt.
        dimension, feature_seed: of random f, whose cosines have a standard deviation of 1 / sqrt(dimension).
        easy_share: share of the prompts that are easy: those with the highest solve rates.
        easy_rate, hard_rate: initial solve rates of easy and hard prompts.
        solve_rates: in place of these two, numbers or the path of a file of them; "log-uniform" for quantiles of the
            log-uniform distribution between them; "beta" for the quantiles of a Beta, or of two: ``beta_a`` to
            ``second_share``, and ``margin``, are as in ``prompt_bank``.
        rare_modes: correct actions that each prompt has beside its main answer: the target set, if there are any.
        rare_ratio: probability of a rare mode over that of the main answer.
        distractor_share: share of the probability of failing that is on the shared answer where it is wrong.

    >>> problem = interference(prompts=4, overlap=-0.25)
    >>> problem.solve_rates.round(12)
    array([0.3 , 0.3 , 0.01, 0.01])
    >>> problem.kernel.round(12)[0]
    array([ 1.  ,  0.25, -0.25, -0.25])
    """
    check_whole("prompts", prompts, 0, LARGEST_BANK)
    check_range("easy_share", easy_share, 0, 1)
    check_range("conflict", conflict, 0, 1)
    check_whole("rare_modes", rare_modes, 0)
    check_range("rare_ratio", rare_ratio, 0, 1, open_low=True)
    check_range("distractor_share", distractor_share, 1e-6, 1 - 1e-6)
    count = prompts or USUAL_PROMPTS

    def unlisted() -> Rates:
        if solve_rates == "beta":
            return mixed_rates(count, (beta_a, beta_b), (second_a, second_b), second_share)
        if solve_rates == "log-uniform":
            return np.asarray(hard_rate * (easy_rate / hard_rate) ** midpoints(count))
        return np.repeat([easy_rate, hard_rate], [easy := round(easy_share * count), count - easy])

    rates = choose_rates(prompts, () if solve_rates in DISTRIBUTIONS else solve_rates, unlisted, margin)
    # The last ones where rates are equal; the shared answer is wrong for some, spread as evenly as possible.
    order = np.argsort(rates[::-1], kind="stable")[: len(rates) - round(easy_share * len(rates))]
    hard = np.isin(np.arange(len(rates))[::-1], order)
    number = round(conflict * len(order))
    wrong = np.flatnonzero(hard)[np.arange(number) * len(order) // max(number, 1)]
    main, rare, counts = answers(np.isin(np.arange(len(rates)), wrong), actions, rare_modes)
    base = base_logits(rates, np.where(main, 1, rare_ratio * rare), distractor_share, counts)
    check_range("overlap", overlap, -1, 1)
    signs = np.where(hard & (overlap < 0), -1, 1)[:, None]
    separate = separate_features(features, len(rates), dimension, feature_seed)
    teaching = np.hstack([np.sqrt(abs(overlap)) * signs, np.sqrt(1 - abs(overlap)) * separate])
    return InterferingPrompts(
        np.hstack([np.zeros((len(counts), teaching.shape[1])), base.T]),
        np.hstack([teaching, np.eye(len(rates))]),
        main | rare,
        rare if rare_modes else main,
        learned=np.arange(teaching.shape[1] + len(rates)) < teaching.shape[1],
        hard=hard,
        counts=counts,
        reward_correct=reward_correct,
        reward_incorrect=reward_incorrect,
    )


def answers(
    conflicting: Bool[np.ndarray, " M"], actions: int, rare_modes: int
) -> tuple[Bool[np.ndarray, "M C"], Bool[np.ndarray, "M C"], Int[np.ndarray, " C"]]:
    """Masks of each prompt's main answer and of its rare ones, and the number of actions of each class."""
    prompts, separate = len(conflicting), int(conflicting.sum())
    answered = 1 + separate + prompts * rare_modes
    check_whole("actions", actions, answered + 1, LARGEST_COUNT)
    check_range("prompts x answers", prompts * answered, 1, LARGEST_BANK)
    action, prompt = np.arange(answered + 1), np.arange(prompts)[:, None]
    main = action == np.where(conflicting, np.cumsum(conflicting), 0)[:, None]
    first = 1 + separate + rare_modes * prompt
    rare = (first <= action) & (action < first + rare_modes)
    return main, rare, np.array([1] * answered + [actions - answered])


def base_logits(
    rates: Rates, likelihoods: Float[np.ndarray, "M C"], distractor_share: float, counts: Int[np.ndarray, " C"]
) -> Float[np.ndarray, "M C"]:
    """Compute the logits of the base model from likelihoods of correct actions; wrong ones but the shared have 0."""
    wrong = likelihoods == 0
    others = wrong[:, 1:] @ counts[1:]
    shared = distractor_share / (1 - distractor_share) * others
    weights = np.where(wrong, 1.0, likelihoods)
    weights[:, 0] = np.where(wrong[:, 0], shared, weights[:, 0])
    failing = others + np.where(wrong[:, 0], shared, 0)
    odds = np.log(rates) - np.log1p(-rates) + np.log(failing) - np.log(likelihoods @ counts)
    logits: Float[np.ndarray, "M C"] = np.log(weights) + np.where(wrong, 0, odds[:, None])
    return logits


def separate_features(features: str, prompts: int, dimension: int, seed: int) -> Float[np.ndarray, "M d"]:
    """The part f of each prompt's feature that is not shared."""
    check_whole("dimension", dimension, 0)
    check_whole("feature_seed", seed, 0)
    if features != RANDOM and (dimension or seed):
        raise InputError(f"dimension = {dimension} and feature_seed = {seed} are of random features, not {features!r}")
    if features == OWN:
        return np.eye(prompts)
    if features == RANDOM:
        drawn = np.random.default_rng(seed).standard_normal((prompts, dimension or prompts))
        return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True))
    rows = numbers("features", features, 2)
    if len(rows) != prompts:
        raise InputError(f"features of {features!r} are {len(rows)} rows; allowed: one for each of {prompts} prompts")
    return rows


def overlap_edge(
    sign: int, estimator: str | Estimator = "grpo", *, group_size: int = 8, temperature: float = 1.0, **problem: Any
) -> float:
    """Find the least size of an overlap of one sign at which a hard prompt falls ``[simlab:interference-threshold]``.

    It may lie beyond 1, and is infinity where overlap of this sign harms no hard prompt; the learning rate does not
    matter. ``problem`` are arguments of ``interference``, but ``overlap``.

    >>> round(overlap_edge(1), 4), overlap_edge(-1)
    (0.0143, inf)
    """
    size = 0.5  # any other gives the same edge: the effect of other prompts is proportional to the overlap
    example = interference(overlap=sign * size, **problem)
    bank = example.tabular
    counts, correct = np.asarray(bank.counts), np.asarray(bank.correct)
    logits = np.asarray(bank.logits) / temperature + np.log(counts)
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    policies = weights / weights.sum(axis=1, keepdims=True) / counts
    rates = np.where(correct, policies, 0) @ counts
    speeds = expected_speed(estimator, group_size, rates)
    effects = transfer(
        policies, correct, example.kernel, speeds, learning_rate=1.0, temperature=temperature, counts=counts
    )
    turned = log_odds_drift(effects, rates).threshold[example.hard]
    return float(size * np.min(turned[np.isfinite(turned)], initial=np.inf))
