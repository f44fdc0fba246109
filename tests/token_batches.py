"""A ragged batch of tokens for surrogates and methods, and its tokens as a list, for references written as loops."""

import math
from typing import Any, NamedTuple

import array_api_strict
import jax
import jax.numpy as jnp
import numpy as np

from simlab import Rollouts

PROMPTS, GROUP, LONGEST, CANDIDATES = 3, 4, 6, 4
MASK = np.array([[1, 1, 1, 1], [1, 1, 0, 0], [1, 1, 1, 0]], dtype=bool)
# One rollout is without tokens; rollouts that do not exist claim some, which are not to be believed.
LENGTHS = np.array([[6, 3, 1, 0], [5, 6, 4, 2], [2, 4, 6, 6]])
TOKEN_MASK = np.arange(LONGEST) < LENGTHS[..., None]
PRESENT = TOKEN_MASK & MASK[..., None]
REWARDS = np.array([[1.0, 0.0, 0.0, 1.0], [1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]])
# On each side of the bounds .8, 1.2, 1.28 and 6. All that is drawn is a 64th, exact in float32.
RATIOS = [0.25, 0.5, 0.75, 0.875, 1.0, 1.0, 1.0, 1.125, 1.25, 1.5, 2.0, 7.0]
TOLERANCE = {"float32": 2e-5, "float64": 1e-10}

Rows = list[float] | list[list[float]]


class Batch(NamedTuple):
    """The arguments of a surrogate's coefficient."""

    ratio: Any
    advantages: Any
    rollouts: Rollouts


class Token(NamedTuple):
    """One token that exists, as Python numbers."""

    prompt: int
    rollout: int
    ratio: float
    advantage: float
    old_logp: float
    entropy: float
    topn_logp: tuple[float, ...]
    ref_logp: float
    noise: float

    @property
    def logp(self):
        """log pi under the policy being updated."""
        return self.old_logp + math.log(self.ratio)


def ragged(filler=math.nan, seed=5):
    """A NumPy batch of 64-bit numbers, ``filler`` standing wherever no rollout or token exists."""
    generator = np.random.default_rng(seed)
    shape = (PROMPTS, GROUP, LONGEST)

    def sixtyfourths(low, high, *more):
        return generator.integers(low, high, (*shape, *more)) / 64

    topn = -np.sort(sixtyfourths(1, 320, CANDIDATES), axis=-1)
    is_top = generator.random(shape) < 0.5
    fields = {
        "ratio": generator.choice(RATIOS, shape),
        "old_logp": np.where(is_top, topn[..., 0], topn[..., 0] - sixtyfourths(1, 320)),
        "entropy": np.floor(sixtyfourths(0, 192) * 4) / 4,  # few values, so that tokens of a response tie
        "ref_logp": -sixtyfourths(1, 320),
        "noise": generator.permutation(math.prod(shape)).reshape(shape) / 128,
    }
    padded = {name: np.where(PRESENT, values, filler) for name, values in fields.items()}
    padded["topn_logp"] = np.where(PRESENT[..., None], topn, filler)
    advantages = np.where(MASK, generator.choice([-2.0, -1.0, -0.5, 0.0, 0.75, 1.5, 2.5], (PROMPTS, GROUP)), filler)
    rewards = np.where(MASK, REWARDS, filler)
    ratio = padded.pop("ratio")
    return Batch(ratio, advantages[..., None], Rollouts(rewards, mask=MASK, token_mask=TOKEN_MASK, **padded))


def on_policy(batch):
    return batch._replace(ratio=np.where(PRESENT, 1.0, batch.ratio))


def converted(batch, xp, dtype="float64"):
    """The batch as arrays of another library; masks stay Boolean."""
    real = getattr(xp, dtype)

    def convert(values):
        return xp.asarray(values) if values.dtype == np.bool_ else xp.asarray(values, dtype=real)

    return jax.tree.map(convert, batch)


def tokens_of(batch):
    """The tokens that exist, prompt by prompt and rollout by rollout."""
    record, tokens = batch.rollouts, []
    for p in range(PROMPTS):
        for g in range(GROUP):
            for t in range(LENGTHS[p, g] if MASK[p, g] else 0):
                first = (
                    float(x[p, g, t]) for x in (batch.ratio, batch.advantages[..., [0] * LONGEST], record.old_logp)
                )
                topn = tuple(float(x) for x in record.topn_logp[p, g, t])
                others = (float(x[p, g, t]) for x in (record.ref_logp, record.noise))
                tokens.append(Token(p, g, *first, float(record.entropy[p, g, t]), topn, *others))
    return tokens


def responses_of(tokens):
    """The tokens of each rollout that has any, in order."""
    rollouts = dict.fromkeys((token.prompt, token.rollout) for token in tokens)
    return [[token for token in tokens if (token.prompt, token.rollout) == rollout] for rollout in rollouts]


def clip_objective(ratio, advantage, eps_low=0.2, eps_high=0.2):
    return jnp.minimum(ratio * advantage, jnp.clip(ratio, 1 - eps_low, 1 + eps_high) * advantage)


def slopes(objective, tokens):
    """The derivative by log pi of each token of an objective of the list of their log pi."""
    return [float(slope) for slope in jax.grad(objective)([token.logp for token in tokens])]


def at_tokens(coefficients):
    """The coefficients, or rows of them, of the tokens that exist, in the order of ``tokens_of``."""
    return np.asarray(coefficients)[PRESENT]


def check_equals(chosen, expected):
    """On the ragged batch, padded with NaN: in NumPy, by the array API alone, and compiled; the dtype is kept."""
    for xp, dtype in ((np, "float64"), (array_api_strict, "float32"), (jnp, "float32")):
        coefficient = jax.jit(chosen.coefficient) if xp is jnp else chosen.coefficient
        actual, tolerance = coefficient(*converted(ragged(), xp, dtype)), TOLERANCE[dtype]
        assert actual.dtype == getattr(xp, dtype)
        np.testing.assert_allclose(at_tokens(actual), expected, rtol=tolerance, atol=tolerance / 100)


def check_padding_is_irrelevant(chosen):
    """Check that values at absent tokens change no digit of a token's coefficient."""
    expected = at_tokens(chosen.coefficient(*ragged(math.nan)))
    assert np.isfinite(expected).all()
    for filler in (3.0, 1e30):
        np.testing.assert_array_equal(at_tokens(chosen.coefficient(*ragged(filler))), expected)
