"""Compute the moments of a step's gradient under another sampler, exactly, and how much data is left.

The outcomes of one prompt are enumerated, and so are the numbers c of correct rollouts that a group may have. Given c,
the rollouts of a group are independent, and a weight that reads rewards alone is A+(c) or A-(c), so that with G
rollouts from the sampler q, whose chance of a correct one is Q, and with g(i, A) what rollout i at advantage A adds::

    mean      = sum_c Binomial(c; G, Q) m(c)
    m(c)      = (c / G) E_q[g(i, A+(c)) | correct] + (1 - c / G) E_q[g(i, A-(c)) | wrong]
    variance  = sum_c Binomial(c; G, Q) (m(c)^2 + Var(c)) - mean^2
    Var(c)    = (c Var_q[g(i, A+(c)) | correct] + (G - c) Var_q[g(i, A-(c)) | wrong]) / G^2

g(i, A) is the sum over the tokens of the rollout of surrogate(ratio, A) w grad log p, with the ratio and the weight w
of ``simlab.simulator.mismatch``, at the first gradient step on a batch. What the policy itself would teach is the same
with q = p. A weight w of the whole rollout makes E_p of E_q; yet c stays that of the sampler, so that a group's
advantages are those of its solve rate, which no such weight mends.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from simlab.errors import InputError
from simlab.methods import Method
from simlab.problems.base import Problem
from simlab.rollouts import Rollouts
from simlab.simulator.mismatch import importance_weights
from simlab.simulator.policy import Listed
from simlab.simulator.storage import DENSE, EMPTY

LARGEST_GROUP = 128  # so that float32 holds all binomial coefficients


class Correction(NamedTuple):
    """A correction for a sampler, see ``simlab.simulator.mismatch``."""

    name: str = "none"
    unit: str = "token"
    bound: float = 2.0


class Outcomes(NamedTuple):
    """All N outcomes of one prompt, each a rollout of T tokens.

    Attributes:
        p, q: (N,) probabilities under the policy that learns and under the sampler.
        log_ratio: (N, T) log(p / q) of each token; 0 where the sampler never draws the outcome.
        scores: (N, T, L) grad log p of each token with respect to the L logits.
        correct: (N,) mask of the correct ones.
    """

    p: Float[Array, " N"]
    q: Float[Array, " N"]
    log_ratio: Float[Array, "N T"]
    scores: Float[Array, "N T L"]
    correct: Bool[Array, " N"]


class GradientMoments(NamedTuple):
    """The law of a step's gradient, up to its second moments.

    Attributes:
        mean: (L,) of the gradient of the logits.
        variance: the sum of the variances of its entries.
        effective_share: (E w)^2 / E w^2 of what tokens weigh (Kish), at advantage 1 if they are correct and -1 if not.
    """

    mean: Float[Array, " L"]
    variance: Float[Array, ""]
    effective_share: Float[Array, ""]


def enumerate_outcomes(
    problem: Problem, logits: Float[Array, "..."], sampled: Float[Array, "..."], prompt: int = 0, temperature: Any = 1.0
) -> Outcomes:
    """Enumerate the outcomes of a prompt whose policy has some logits and whose sampler has others.

    Args:
        problem: its actions listed.
        logits: the logits of the prompt, (A,) or (nodes, B) of a tree.
        sampled: the sampler's logits, ``EMPTY`` where it never draws; see ``mismatch.sampler_logits``.
        prompt: its index.
        temperature: the temperature of both.
    """
    everything, warmth = Listed(jnp.arange(problem.actions, dtype=jnp.int32)), jnp.asarray(temperature, logits.dtype)

    def logp(logits: Float[Array, "..."]) -> Float[Array, "N T"]:
        values: Array = problem.policy(logits, warmth, DENSE, None).token_logp(everything)
        return values

    now, then = logp(logits), logp(sampled)
    drawn = jnp.all(then > EMPTY / 2 / temperature, axis=1)
    q = jnp.where(drawn, jnp.exp(jnp.sum(then, axis=1)), 0)
    scores = jax.jacfwd(logp)(logits).reshape(*now.shape, -1)
    correct = jnp.atleast_2d(jnp.asarray(problem.correct))[prompt]
    return Outcomes(jnp.exp(jnp.sum(now, axis=1)), q, jnp.where(drawn[:, None], now - then, 0), scores, correct)


def on_policy(outcomes: Outcomes) -> Outcomes:
    """The same outcomes, sampled on-policy."""
    return outcomes._replace(q=outcomes.p, log_ratio=jnp.zeros_like(outcomes.log_ratio))


def check_method(method: Method, group_size: int) -> None:
    """Raise ``InputError`` for a method whose coefficients depend on more than a rollout and its group's rewards."""
    remembered = method.estimator.init(), method.surrogate.init()
    if method.needs != {"rewards"} or method.surrogate.candidates or jax.tree.leaves(remembered):
        raise InputError(
            f"this method needs {sorted(method.needs)}, candidates or a memory; "
            "allowed for exact moments: estimators and surrogates of rewards alone"
        )
    if not 1 <= group_size <= LARGEST_GROUP:
        raise InputError(f"group_size = {group_size} is outside its range [1, {LARGEST_GROUP}]")


def advantages(method: Method, group_size: int, rewards: tuple[float, float]) -> Float[Array, "c 2"]:
    """A+(c) and A-(c) of groups with c correct rollouts, 0 to G; 0 for an outcome that a group has not."""
    number = jnp.arange(group_size + 1)[:, None]
    correct = jnp.arange(group_size) < number
    groups = jnp.where(correct, *jnp.asarray(rewards, float))
    estimator = method.estimator
    values = jax.vmap(lambda group: estimator.update(Rollouts(group[None]), estimator.init())[0][0])(groups)
    ends = jnp.stack([values[:, 0], values[:, -1]], axis=1)
    return jnp.where(jnp.concatenate([number > 0, number < group_size], axis=1), ends, 0)


def coefficients(
    method: Method, outcomes: Outcomes, of_outcomes: Float[Array, " N"], correction: Correction
) -> Float[Array, "N T"]:
    """Return the factor of grad log p of each token of each outcome, at the advantage of the outcome."""
    log_ratio = outcomes.log_ratio[None]
    ratio = jnp.exp(log_ratio) if correction.name == "ratio" else jnp.ones_like(log_ratio)
    each = method.surrogate(ratio, of_outcomes[None, :, None], Rollouts(of_outcomes[None]))
    weight = importance_weights(log_ratio, *correction)
    factors: Array = jnp.broadcast_to(each if weight is None else each * weight, ratio.shape)[0]
    return factors


def gradient_moments(
    outcomes: Outcomes,
    method: Method,
    group_size: int,
    correction: Correction,
    rewards: tuple[float, float] = (1.0, 0.0),
) -> GradientMoments:
    """The law of the gradient of one group from the sampler.

    The gradient is (1 / G) times the sum over the rollouts, and over the tokens of each.

    Raises:
        InputError: for a method that reads more than rewards, or a group size that is not from 1 to 128.
    """
    check_method(method, group_size)
    of_numbers = advantages(method, group_size, rewards)
    correct, q = outcomes.correct, outcomes.q

    def at(pair: Float[Array, " 2"]) -> tuple[Float[Array, "2 L"], Float[Array, " 2"]]:
        """Return the mean and variance of what a rollout adds, for correct rollouts and for the others."""
        each = coefficients(method, outcomes, jnp.where(correct, pair[0], pair[1]), correction)
        added = jnp.einsum("nt,ntl->nl", each, outcomes.scores)
        moments = [_moments(jnp.where(members, q, 0), added) for members in (correct, ~correct)]
        means, variances = zip(*moments, strict=True)
        return jnp.stack(means), jnp.stack(variances)

    means, variances = jax.vmap(at)(of_numbers)
    shares = jnp.arange(group_size + 1) / group_size
    shares = jnp.stack([shares, 1 - shares], axis=1)
    chance = _binomial(group_size, jnp.sum(jnp.where(correct, q, 0)))
    of_groups = jnp.einsum("co,col->cl", shares, means)
    mean = chance @ of_groups
    within = jnp.sum(shares * variances, axis=1) / group_size
    between = jnp.sum((of_groups - mean) ** 2, axis=1)
    return GradientMoments(mean, chance @ (within + between), effective_share(outcomes, method, correction))


def effective_share(outcomes: Outcomes, method: Method, correction: Correction) -> Float[Array, ""]:
    """(E w)^2 / E w^2 of what tokens weigh; 0 where none weighs anything."""
    signs = jnp.where(outcomes.correct, 1.0, -1.0)
    weights = coefficients(method, outcomes, signs, correction) * signs[:, None]
    first, second = (outcomes.q @ jnp.mean(values, axis=1) for values in (weights, weights**2))
    return jnp.where(second > 0, first**2 / jnp.where(second > 0, second, 1), 0)


def speed(outcomes: Outcomes, members: Bool[Array, " N"], direction: Float[Array, " L"]) -> Float[Array, ""]:
    """The change of the probability of some outcomes along a direction of the logits, to first order."""
    moved = jnp.einsum("ntl,l->n", outcomes.scores, direction)
    return jnp.sum(jnp.where(members, outcomes.p * moved, 0))


def _moments(q: Float[Array, " N"], added: Float[Array, "N L"]) -> tuple[Float[Array, " L"], Float[Array, ""]]:
    """The mean and the variance of what is added by outcomes of these unnormalised probabilities; 0 of none."""
    total = jnp.sum(q)
    q = q / jnp.where(total > 0, total, 1)
    mean = q @ added
    return mean, jnp.sum(q @ (added - mean) ** 2)


def _binomial(group_size: int, rate: Float[Array, ""]) -> Float[Array, " c"]:
    """The probability of each number of correct rollouts, 0 to G."""
    number = jnp.arange(group_size + 1)
    ways = np.array([math.comb(group_size, c) for c in range(group_size + 1)], float)
    chances: Array = jnp.asarray(ways) * rate**number * (1 - rate) ** (group_size - number)
    return chances
