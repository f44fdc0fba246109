"""Estimate from rollouts how far the update of each prompt moves the solve rate of every other, to first order.

With s the gradient of a rollout's log-probability, c = 1 for a correct rollout and w its weight in the loss,

    K_ij = <u_j, M g_i>,   u_j = grad Q_j = E[c s],   g_i = E[sum over the group of w s],

so that a step of learning rate eta moves Q_j by eta sum_i K_ij (M is the optimiser's preconditioner). The kernel is the
neural tangent kernel (Jacot et al., arXiv:1806.07572) between what j is asked and what i learns; one entry is TracIn's
influence (Pruthi et al., arXiv:2002.08484) in units of the solve rate, and one below 0 is what gradient surgery calls a
conflict (PCGrad, Yu et al., arXiv:2001.06782).

Nothing is biased by noise. Groups of two prompts are independent, so that estimates of u_j and g_i multiply. A prompt's
own group is not: |s|^2 of one rollout in both factors would always look like help. There rollout l is paired with the
update of the group without l, whose weights are those of a group of G - 1. Two estimates of one entry never share a
rollout, and the expectation is exact. All follows from the inner products of all rollouts' ``features``: vectors whose
inner product is <s, M s'>, or random projections of them.

Axes: N prompts, R rollouts of each, F numbers a rollout; ``i`` is the source (row), ``j`` the target (column).
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Num

from simlab.errors import InputError

FEWEST = 3  # rollouts of a prompt, for a standard error
Kernel = Float[np.ndarray, "N N"]
PerPrompt = Float[np.ndarray, " N"]


class Push(NamedTuple):
    """Change of each solve rate by a batch, per learning rate: by the prompt itself, by all others, and together.

    ``own`` of a prompt outside of the batch is what its update would do; ``net`` leaves it out.
    """

    own: PerPrompt
    others: PerPrompt
    net: PerPrompt


class Interference(NamedTuple):
    """The kernel, the pushes of a batch, and their standard errors.

    Attributes:
        kernel: K, source by target; its diagonal is a prompt's own push.
        halves: (2, N) the net push on even and on odd rollouts of each target, given the sources.
        own_layers, net_layers: (layers, N) which sum over the layers to ``own`` and ``net``.
    """

    kernel: Kernel
    kernel_error: Kernel
    push: Push
    error: Push
    halves: Float[np.ndarray, "2 N"]
    own_layers: Float[np.ndarray, "L N"]
    net_layers: Float[np.ndarray, "L N"]


def push(kernel: Kernel, members: Num[np.ndarray, " N"] | Bool[np.ndarray, " N"]) -> Push:
    """Sum the kernel over the sources of a batch, each as often as ``members`` says; 0 leaves a prompt outside.

    >>> push(np.array([[2.0, -1.0], [0.5, 1.0]]), np.array([1, 0]))
    Push(own=array([2., 1.]), others=array([ 0., -1.]), net=array([ 2., -1.]))
    """
    share, own = members.astype(float), np.diagonal(kernel).copy()
    others = share @ kernel - share * own
    return Push(own, others, others + share * own)


def danger(net: PerPrompt, error: PerPrompt) -> PerPrompt:
    """Chance that a net push is below 0, by the normal distribution; NaN where nothing is known of it (error 0).

    >>> danger(np.array([-1.0, 0.0, 0.0]), np.array([1.0, 1.0, 0.0])).round(2)
    array([0.84, 0.5 ,  nan])
    """
    known = error > 0
    ratio = net / np.where(known, error, 1.0)
    chance = np.array([0.5 * math.erfc(value / math.sqrt(2)) for value in ratio])
    return np.where(known, chance, np.nan)


def log_odds(change: Num[np.ndarray, "... N"], solve_rates: PerPrompt) -> Float[np.ndarray, "... N"]:
    """Turn changes of solve rates into changes of log(Q / (1 - Q)); NaN at 0 and 1."""
    spread = solve_rates * (1 - solve_rates)
    return np.asarray(change / np.where(spread > 0, spread, np.nan))


def measure(
    features: Sequence[Float[np.ndarray, "N R _"]],
    correct: Bool[np.ndarray, "N R"],
    weights: Float[np.ndarray, "N R"],
    without: Float[np.ndarray, "N R R"],
    batch: Bool[np.ndarray, " N"] | None = None,
    *,
    present: Bool[np.ndarray, "N R"] | None = None,
    sketch: int = 0,
) -> Interference:
    """Estimate the kernel, pushes and errors.

    Args:
        features: of each layer, with <z_k, z_l> = <s_k, M s_l> in the layer; layers add up.
        correct: c.
        weights: w, such that the update of prompt i is the sum over k of w_ik s_ik.
        without: [i, l, k] is the weight of rollout k where rollout l is left out, as ``rollout_weights`` gives it; the
            entries k = l are not read.
        batch: true for prompts that the step learns from; all by default.
        present: true for rollouts that exist; all by default. Nothing is read of the others.
        sketch: numbers onto which a layer's features are projected, for the error that this adds; 0 for exact ones.

    Standard errors are jackknives over the rollouts of target and source, without what both count twice, plus the
    projection's: each layer adds a variance of (|u|^2 |g|^2 + K^2) / sketch.

    Raises: InputError: for fewer than three rollouts of a prompt.
    """
    rollouts = _rollouts(correct, weights, without, batch, present)
    members = rollouts.members
    layers = [_Layer.of(rollouts, np.asarray(layer)) for layer in features]
    pairs = np.sum([layer.pairs for layer in layers], axis=0)
    drawn, *variances = _variances(rollouts, features, pairs)
    for layer in layers if sketch else ():
        added = layer.projection_variances(members)
        variances = [own + more / sketch for own, more in zip(variances, added, strict=True)]
    kernels = [layer.kernel() for layer in layers]
    kernel, (kernel_error, *errors) = np.sum(kernels, axis=0), [np.sqrt(variance) for variance in variances]
    by_layer = [push(each, members) for each in kernels]
    return Interference(
        kernel,
        kernel_error,
        push(kernel, members),
        Push(*errors),
        _halves(rollouts, drawn, pairs),
        np.array([each.own for each in by_layer]),
        np.array([each.net for each in by_layer]),
    )


def kernel_alone(
    features: Sequence[Float[np.ndarray, "N R _"]],
    correct: Bool[np.ndarray, "N R"],
    weights: Float[np.ndarray, "N R"],
    without: Float[np.ndarray, "N R R"],
    *,
    present: Bool[np.ndarray, "N R"] | None = None,
) -> Kernel:
    """Estimate the kernel as ``measure`` does, without standard errors, which take most of its time."""
    rollouts = _rollouts(correct, weights, without, None, present)
    return np.asarray(np.sum([_Layer.of(rollouts, np.asarray(layer)).kernel() for layer in features], axis=0))


def solve_rate_gradients(
    features: Sequence[Float[np.ndarray, "N R _"]], correct: Bool[np.ndarray, "N R"], present: Bool[np.ndarray, "N R"]
) -> list[Float[np.ndarray, "N _"]]:
    """Estimate u of each prompt in each layer, as ``measure`` does: to ask how far a given step moves solve rates."""
    nothing, exists = np.zeros(correct.shape), present.astype(float)
    rollouts = _Rollouts(correct * exists, nothing, nothing[..., None], exists, np.ones(len(correct), bool))
    return [np.einsum("nr,nrf->nf", rollouts.target, layer) for layer in features]


def solve_rate_weights(correct: Any, present: Any) -> Any:
    """(c - mean) / (R - 1): the weights (N, R) of scores in u, from numbers 1 or 0, in NumPy, torch or JAX.

    ``correct`` is 0 where ``present`` is. All are 0 where all rollouts are right or wrong: they tell nothing of u.

    >>> solve_rate_weights(np.array([[1.0, 0.0, 0.0]]), np.ones((1, 3))).round(3)
    array([[ 0.333, -0.167, -0.167]])
    """
    size = present.sum(axis=1)[:, None]
    return (correct - correct.sum(axis=1)[:, None] / size) * present / (size - 1)


def _rollouts(
    correct: Bool[np.ndarray, "N R"],
    weights: Float[np.ndarray, "N R"],
    without: Float[np.ndarray, "N R R"],
    batch: Bool[np.ndarray, " N"] | None,
    present: Bool[np.ndarray, "N R"] | None,
) -> "_Rollouts":
    """Check rollouts, and put 0 for those that do not exist."""
    exists = np.ones(correct.shape, bool) if present is None else present
    if (fewest := int(exists.sum(axis=1).min())) < FEWEST:
        raise InputError(f"rollouts of a prompt = {fewest}; allowed: {FEWEST} or more")
    members = np.ones(len(correct), bool) if batch is None else np.asarray(batch, bool)
    return _Rollouts(
        np.where(exists, correct, 0.0),
        np.where(exists, weights, 0.0),
        np.where(exists[:, :, None] & exists[:, None], without, 0.0),
        exists.astype(float),
        members,
    )


class _Rollouts(NamedTuple):
    correct: Float[np.ndarray, "N R"]
    weights: Float[np.ndarray, "N R"]
    without: Float[np.ndarray, "N R R"]
    present: Float[np.ndarray, "N R"]
    members: Bool[np.ndarray, " N"]

    @property
    def size(self) -> Float[np.ndarray, "N 1"]:
        """Rollouts of each prompt."""
        return np.asarray(self.present.sum(axis=1, keepdims=True))

    @property
    def target(self) -> Float[np.ndarray, "N R"]:
        """Weights by which a prompt's rollouts give the gradient of its solve rate."""
        return np.asarray(solve_rate_weights(self.correct, self.present))

    def centred(self, values: Float[np.ndarray, "... N R"]) -> Float[np.ndarray, "... N R"]:
        """Subtract the mean over the rollouts of each prompt."""
        mean = (values * self.present).sum(axis=-1, keepdims=True) / self.size
        return np.asarray((values - mean) * self.present)


class _Layer(NamedTuple):
    """The term that one layer adds to the kernel.

    Attributes:
        target, source: u of each prompt, and g.
        pairs: [j, l, k] of one prompt: what rollout l, as the target's, has of k, as the source's; 0 for k = l.
        batch: the update of the batch.
    """

    target: Float[np.ndarray, "N F"]
    source: Float[np.ndarray, "N F"]
    pairs: Float[np.ndarray, "N R R"]
    batch: Float[np.ndarray, " F"]

    @classmethod
    def of(cls, rollouts: _Rollouts, features: Float[np.ndarray, "N R F"]) -> "_Layer":
        target, source = (np.einsum("nr,nrf->nf", weights, features) for weights in (rollouts.target, rollouts.weights))
        # c_l less the mean of the others is R / (R - 1) times c_l less the mean of all, and l has a share of 1 / R.
        inner = (features @ features.swapaxes(1, 2)).astype(float)
        pairs = rollouts.target[:, :, None] * rollouts.without * inner
        pairs[:, np.arange(pairs.shape[1]), np.arange(pairs.shape[1])] = 0
        return cls(target, source, pairs, rollouts.members.astype(float) @ source)

    def kernel(self) -> Kernel:
        """K: the covariance of c and s of the target along the source's update; on the diagonal the sum of pairs."""
        kernel = self.source @ self.target.T
        np.fill_diagonal(kernel, self.pairs.sum(axis=(1, 2)))
        return np.asarray(kernel)

    def projection_variances(self, members: Bool[np.ndarray, " N"]) -> list[np.ndarray]:
        """Times the sketch's size: what a random projection adds to the variances of kernel, own, others and net."""
        kernel, square = self.kernel(), (self.target**2).sum(axis=1)
        each = np.outer((self.source**2).sum(axis=1), square) + kernel**2
        batch = (self.batch @ self.batch) * square + push(kernel, members).net ** 2
        return [each, np.diagonal(each), batch, batch]


def _target_terms(rollouts: _Rollouts, drawn: Float[np.ndarray, "... N R"]) -> Float[np.ndarray, "... N R"]:
    """Return the change of a covariance as each rollout of the target is left out."""
    count = rollouts.size
    return np.asarray(count / (count - 2) * rollouts.centred(rollouts.target * rollouts.centred(drawn)))


def _variances(rollouts: _Rollouts, features: Sequence[np.ndarray], pairs: np.ndarray) -> list[np.ndarray]:
    """Draws of each rollout in the batch, and the variances of kernel, own, others and net.

    Rollouts of the target, or of the source, are left out one by one. A product of two noisy numbers has a part that
    only both together explain; it is in each of the two jackknives, and twice in that of a prompt's own group. Each
    part is at least 0.
    """
    count, jackknife = rollouts.size, ((rollouts.size - 1) / rollouts.size)[:, 0]
    prompts, width = rollouts.correct.shape
    kernel, drawn = np.zeros((prompts, prompts)), np.zeros((prompts, width))
    from_sources, shared = np.zeros(prompts), np.zeros(prompts)
    rows = [layer[rollouts.present > 0] for layer in features]
    for source, member in enumerate(rollouts.members):
        gram = _inner_products(rollouts, rows, source)
        along = np.einsum("k,kjl->jl", rollouts.weights[source], gram)
        in_target = jackknife * (_target_terms(rollouts, along) ** 2).sum(axis=1)
        left = np.tensordot(rollouts.without[source], gram, 1)
        moved = (left - left[rollouts.present[source] > 0].mean(axis=0)) * rollouts.present[source][:, None, None]
        in_source = jackknife[source] * (np.einsum("jl,mjl->mj", rollouts.target, moved) ** 2).sum(axis=0)
        both = jackknife[source] * jackknife * (_target_terms(rollouts, moved) ** 2).sum(axis=(0, 2))
        kernel[source] = np.maximum(in_target - both, 0) + np.maximum(in_source, both)
        others = member * (np.arange(len(kernel)) != source)
        from_sources += others * np.maximum(in_source, both)
        shared += others * both
        drawn += others[:, None] * along
    symmetric = pairs + pairs.swapaxes(1, 2)
    own_terms = count / (count - 2) * rollouts.centred(symmetric.sum(axis=2))
    of_pairs = (_interaction(rollouts, symmetric) ** 2).sum(axis=(1, 2)) / 2
    own = np.maximum(jackknife * (own_terms**2).sum(axis=1) - 2 * of_pairs, 0) + of_pairs
    np.fill_diagonal(kernel, own)
    terms = _target_terms(rollouts, drawn)

    def together(share: np.ndarray) -> np.ndarray:
        in_both = jackknife * ((terms + share[:, None] * own_terms) ** 2).sum(axis=1)
        alone = np.maximum(in_both - shared - 2 * share * of_pairs, 0)
        return np.asarray(alone + share * of_pairs + from_sources)

    return [drawn, kernel, own, together(np.zeros(len(kernel))), together(rollouts.members.astype(float))]


def _inner_products(
    rollouts: _Rollouts, rows: Sequence[Float[np.ndarray, "M F"]], source: int
) -> Float[np.ndarray, "R N R"]:
    """Inner products of one prompt's rollouts with all, over all layers; 0 for rollouts that do not exist."""
    exists = rollouts.present > 0
    first, number = int(exists[:source].sum()), int(exists[source].sum())
    found = np.zeros((exists.size, exists.shape[1]))
    products = sum(layer @ layer[first : first + number].T for layer in rows)
    found[np.ix_(np.flatnonzero(exists), np.flatnonzero(exists[source]))] = products
    return np.asarray(found.T.reshape(-1, *exists.shape))


def _interaction(rollouts: _Rollouts, pairs: Float[np.ndarray, "N R R"]) -> Float[np.ndarray, "N R R"]:
    """Take from pairs of different rollouts what either of them has with all others."""
    apart = rollouts.present[:, :, None] * rollouts.present[:, None] * ~np.eye(pairs.shape[1], dtype=bool)
    count = rollouts.size[:, :, None]
    mean = pairs.sum(axis=(1, 2), keepdims=True) / (count * (count - 1))
    each = (pairs.sum(axis=2, keepdims=True) - (count - 1) * mean) / (count - 2)
    return np.asarray((pairs - mean - each - each.swapaxes(1, 2)) * apart)


def _halves(rollouts: _Rollouts, drawn: np.ndarray, pairs: np.ndarray) -> Float[np.ndarray, "2 N"]:
    """The net push on each half of the target's rollouts; a prompt's own by the pairs within the half."""
    count, halves = rollouts.size[:, 0], []
    for parity in (0, 1):
        half = rollouts._replace(present=rollouts.present * (np.arange(drawn.shape[1]) % 2 == parity))
        size = half.size[:, 0]
        others = (half.centred(rollouts.correct) * drawn).sum(axis=1) / np.maximum(size - 1, 1)
        within = np.einsum("jlk,jl,jk->j", pairs, half.present, half.present)
        own = within * count * (count - 1) / np.maximum(size * (size - 1), 1)
        halves.append(others + rollouts.members * own)
    return np.array(halves)
