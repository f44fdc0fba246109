"""A surrogate's coefficient is the derivative of its written objective by log pi; aggregation weighs the tokens."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import array_api_strict
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from simlab import Rollouts
from simlab.errors import InputError
from simlab.surrogates import AGGREGATIONS, SURROGATES, Surrogate, aggregation_weights, cispo, ppo_clip, surrogate

# On each side of every bound below, and far beyond; none lies on a bound, where min and clip have no derivative.
RATIOS = [1e-3, 0.3, 0.75, 0.85, 1.0, 1.1, 1.25, 1.5, 2.9, 5.5, 7.0, 1e3]
ADVANTAGES = [-2.0, -0.5, 0.0, 0.25, 3.0]
ROLLOUTS = Rollouts(np.zeros((1, 1)))

Objective = Callable[[Any, Any, Any], Any]


@pytest.fixture(autouse=True)
def double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def reinforce_objective(logp: Any, old_logp: Any, advantage: Any) -> Any:
    return advantage * logp


def clip_objective(eps_low: float, eps_high: float) -> Objective:
    def objective(logp: Any, old_logp: Any, advantage: Any) -> Any:
        ratio = jnp.exp(logp - old_logp)
        return jnp.minimum(ratio * advantage, jnp.clip(ratio, 1 - eps_low, 1 + eps_high) * advantage)

    return objective


def cispo_objective(eps_low: float, eps_high: float) -> Objective:
    def objective(logp: Any, old_logp: Any, advantage: Any) -> Any:
        weight = jnp.clip(jnp.exp(logp - old_logp), 1 - eps_low, 1 + eps_high)
        return jax.lax.stop_gradient(weight) * advantage * logp

    return objective


# The defaults are checked against the papers' constants: PPO's .2 and CISPO's [0, 6].
OBJECTIVES: list[tuple[str, dict[str, float], Objective]] = [
    ("reinforce", {}, reinforce_objective),
    ("ppo_clip", {}, clip_objective(0.2, 0.2)),
    ("ppo_clip", {"eps_high": 0.28}, clip_objective(0.2, 0.28)),
    ("ppo_clip", {"eps_low": 1.0, "eps_high": 2.0}, clip_objective(1.0, 2.0)),
    ("cispo", {}, cispo_objective(1.0, 5.0)),
    ("cispo", {"eps_low": 0.2, "eps_high": 0.28}, cispo_objective(0.2, 0.28)),
]
each_objective = pytest.mark.parametrize(("name", "parameters", "objective"), OBJECTIVES)


def test_no_surrogate_is_without_an_objective() -> None:
    assert {name for name, *_ in OBJECTIVES} == set(SURROGATES)


@each_objective
@pytest.mark.parametrize("candidates", [(), (2,)], ids=["tokens", "candidates"])
def test_coefficient_is_the_derivative_of_the_objective(
    name: str, parameters: dict[str, float], objective: Objective, candidates: tuple[int, ...]
) -> None:
    shape = (len(RATIOS), len(ADVANTAGES), 1, *candidates)
    ratio = np.broadcast_to(np.reshape(RATIOS, (-1, 1, 1, *(1 for _ in candidates))), shape)
    advantages = np.broadcast_to(np.reshape(ADVANTAGES, (1, -1, 1, *(1 for _ in candidates))), shape)
    old_logp = np.full(shape, -3.0)
    expected = jax.grad(lambda logp: objective(logp, old_logp, advantages).sum())(np.log(ratio) + old_logp)
    actual = surrogate(name, **parameters).coefficient(ratio, advantages, ROLLOUTS)
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=0)


@each_objective
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("xp", [np, jnp, array_api_strict], ids=["numpy", "jax", "strict"])
def test_dtype_is_kept_and_advantages_broadcast(
    name: str, parameters: dict[str, float], objective: Objective, xp: Any, dtype: str
) -> None:
    real = getattr(xp, dtype)
    ratio, advantages = xp.ones((2, 3, 4), dtype=real), xp.full((2, 3, 1), 0.5, dtype=real)
    coefficient = surrogate(name, **parameters).coefficient(ratio, advantages, ROLLOUTS)
    assert coefficient.dtype == real
    np.testing.assert_array_equal(np.asarray(coefficient), np.full((2, 3, 4), 0.5))


@pytest.mark.parametrize(("chosen", "expected"), [("reinforce", 2.0), ("ppo_clip", 0.0), ("cispo", 12.0)])
def test_a_ratio_that_overflowed_stays_bounded(chosen: str, expected: float) -> None:
    coefficient = surrogate(chosen).coefficient(np.full((1, 1, 1), np.inf), np.full((1, 1, 1), 2.0), ROLLOUTS)
    np.testing.assert_array_equal(coefficient, [[[expected]]])


@pytest.mark.parametrize("build", [ppo_clip, cispo])
@pytest.mark.parametrize(
    ("parameter", "value", "allowed"),
    [
        ("eps_low", -0.1, "[0, 1]"),
        ("eps_low", 1.1, "[0, 1]"),
        ("eps_high", -0.1, "[0, inf]"),
        ("eps_high", math.nan, "[0, inf]"),
    ],
)
def test_bounds_outside_their_range(
    build: Callable[..., Surrogate], parameter: str, value: float, allowed: str
) -> None:
    with pytest.raises(InputError) as refusal:
        build(**{parameter: value})
    assert str(refusal.value) == f"{parameter} = {value} is outside its range {allowed}"


def test_unknown_surrogate_and_unknown_need() -> None:
    with pytest.raises(InputError, match=r"surrogate = 'gspo' is unknown; allowed: cispo, ppo_clip, reinforce$"):
        surrogate("gspo")
    with pytest.raises(InputError, match=r"a surrogate needs \['value'\]; allowed: "):
        Surrogate(lambda ratio, advantages, rollouts: ratio, needs=frozenset({"value"}))


def naive_weights(token_mask: np.ndarray, aggregation: str, normaliser: float) -> np.ndarray:
    """The three losses as loops: a token's weight is what its own term is divided by."""
    rollouts = [[int(t) for t in tokens] for group in token_mask for tokens in group]
    written = [tokens for tokens in rollouts if sum(tokens) > 0]
    weights = []
    for tokens in rollouts:
        divisor = {
            "token_mean": sum(sum(other) for other in written),
            "sequence_mean": len(written) * sum(tokens),
            "constant": len(written) * normaliser,
        }[aggregation]
        weights.append([1 / divisor if exists else 0.0 for exists in tokens])
    return np.reshape(weights, token_mask.shape)


MASKS = {
    "full": np.ones((2, 3, 4), dtype=bool),
    "ragged": np.arange(4) < np.array([[4, 1, 2], [3, 3, 1]])[..., None],
    "with empty rollouts": np.arange(4) < np.array([[0, 1, 2], [4, 0, 0]])[..., None],
    "empty": np.zeros((2, 3, 4), dtype=bool),
}


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("xp", [np, jnp, array_api_strict], ids=["numpy", "jax", "strict"])
def test_aggregation_equals_the_loops(aggregation: str, mask: str, xp: Any) -> None:
    actual = aggregation_weights(xp.asarray(MASKS[mask]), aggregation, normaliser=8.0)
    np.testing.assert_allclose(np.asarray(actual), naive_weights(MASKS[mask], aggregation, 8.0), rtol=1e-15, atol=0)


@pytest.mark.parametrize("aggregation", ["token_mean", "sequence_mean"])
@pytest.mark.parametrize("mask", ["full", "ragged", "with empty rollouts"])
def test_means_have_weights_that_sum_to_one(aggregation: str, mask: str) -> None:
    assert aggregation_weights(MASKS[mask], aggregation).sum() == pytest.approx(1, rel=1e-15)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"aggregation": "median"}, "aggregation = 'median' is unknown; allowed: token_mean, sequence_mean, constant"),
        ({"normaliser": 0.0}, "normaliser = 0.0 is outside its range (0, inf]"),
    ],
)
def test_aggregation_refuses(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as refusal:
        aggregation_weights(MASKS["full"], **arguments)
    assert str(refusal.value) == message
