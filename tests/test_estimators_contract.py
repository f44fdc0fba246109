"""What every registered estimator promises. One that is registered tomorrow is held to it without a new test.

Each test takes an estimator built from its defaults, and batches that carry every field of ``Rollouts``.
"""

import math
import re
from collections.abc import Iterator
from typing import Any

import array_api_strict
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from simlab import Rollouts, estimator
from simlab.errors import InputError
from simlab.estimators import REGISTRY, Estimator
from simlab.rollouts import FIELDS

PROMPTS, GROUP = 4, 6

# Advantages in groups that are all right and all wrong. Comparing equal rewards teaches nothing, so they are exactly 0
# in every formula that subtracts something of the group; these four weigh a rollout by its own outcome alone.
UNIFORM_GROUPS = {"reinforce": (1.0, 0.0), "psr": (1.0, 0.0), "nsr": (0.0, -1.0), "w_reinforce": (0.1, -1.0)}

PARAMETERS = [(name, *parameter) for name, entry in REGISTRY.items() for parameter in entry.parameters.items()]


@pytest.fixture(autouse=True)
def double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@pytest.fixture(params=REGISTRY)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def chosen(name: str) -> Estimator:
    return REGISTRY[name].build()


def batch(seed: int = 0, rewards: Any = None, group: int = GROUP, tokens: int = 3) -> Rollouts:
    """A NumPy float64 batch with every field; rewards are random zeros and ones unless given."""
    draw = np.random.default_rng(seed)
    rewards = draw.integers(0, 2, (PROMPTS, group)) if rewards is None else np.asarray(rewards)
    return Rollouts(
        rewards=rewards.astype(float),
        old_logp=-draw.exponential(size=(*rewards.shape, tokens)),
        entropy=draw.exponential(size=(*rewards.shape, tokens)),
        topn_logp=-draw.exponential(size=(*rewards.shape, tokens, 2)),
    )


def advantages_of(chosen: Estimator, record: Rollouts) -> np.ndarray:
    return np.asarray(chosen.update(record, chosen.init())[0])


def run(chosen: Estimator, batches: list[Rollouts]) -> tuple[list[Any], Any]:
    """Advantages of each batch in turn, and the state after the last."""
    state, history = chosen.init(), []
    for record in batches:
        advantages, state = chosen.update(record, state)
        history.append(advantages)
    return history, state


def stack(batches: list[Rollouts]) -> Rollouts:
    return jax.tree.map(lambda *fields: jnp.stack(fields), *batches)


def assert_close(actual: Any, expected: Any) -> None:
    """Trees of arrays agree to float64 rounding."""
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-15), actual, expected)


@pytest.mark.parametrize("entry", REGISTRY.values(), ids=REGISTRY)
def test_its_entry_names_a_source_and_its_defaults_suffice(entry: Any) -> None:
    assert re.fullmatch(r"[a-z-]+:[a-z0-9.-]+", entry.tag)
    assert entry.summary.endswith(".")
    assert {"rewards"} <= entry.build().needs <= FIELDS


@pytest.mark.parametrize(("name", "parameter", "default"), PARAMETERS)
def test_a_parameter_that_is_no_value_is_refused(name: str, parameter: str, default: Any) -> None:
    nonsense = {str: "no such choice", int: -1}.get(type(default), math.nan)
    with pytest.raises(InputError, match=rf"{nonsense}.*(allowed|range)") as refusal:
        estimator(name, **{parameter: nonsense})
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("name", "parameter", "default"), [entry for entry in PARAMETERS if isinstance(entry[-1], float)]
)
def test_a_float_parameter_may_be_traced(name: str, parameter: str, default: float) -> None:
    """One compiled simulator then serves a whole grid of values."""

    def with_value(value: Any) -> Any:
        return run(estimator(name, **{parameter: value}), [jax.tree.map(jnp.asarray, batch())])

    assert_close(jax.jit(with_value)(default), with_value(default))


def test_jit_changes_nothing(chosen: Estimator) -> None:
    batches = [batch(seed) for seed in range(2)]
    assert_close(jax.jit(lambda given: run(chosen, given))(batches), run(chosen, batches))


def test_vmap_treats_each_batch_alone(chosen: Estimator) -> None:
    batches = [batch(seed) for seed in range(3)]
    together = jax.vmap(lambda record: chosen.update(record, chosen.init())[0])(stack(batches))
    assert_close(list(together), [advantages_of(chosen, record) for record in batches])


def test_scan_carries_the_state(chosen: Estimator) -> None:
    def step(state: Any, record: Rollouts) -> tuple[Any, Any]:
        advantages, state = chosen.update(record, state)
        return state, advantages

    batches = [batch(seed) for seed in range(3)]
    state, history = jax.lax.scan(step, chosen.init(), stack(batches))
    assert_close((list(history), state), run(chosen, batches))


def test_the_array_api_is_enough(chosen: Estimator) -> None:
    batches = [batch(seed) for seed in range(2)]
    strict = jax.tree.map(array_api_strict.asarray, batches)
    for actual, expected in zip(run(chosen, strict)[0], run(chosen, batches)[0], strict=True):
        assert_close(np.asarray(actual), expected)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("xp", [np, jnp, array_api_strict], ids=["numpy", "jax", "strict"])
def test_the_dtype_is_kept(chosen: Estimator, xp: Any, dtype: str) -> None:
    real = getattr(xp, dtype)
    batches = jax.tree.map(lambda field: xp.asarray(field, dtype=real), [batch(seed) for seed in range(2)])
    history, state = run(chosen, batches)
    assert all(array.dtype == real for array in [*history, *jax.tree.leaves(state)])


def test_absent_rollouts_and_prompts_are_not_there(chosen: Estimator) -> None:
    """Padding a batch with masked nonsense leaves its advantages and the state as they are."""
    present = batch(group=GROUP - 2)
    spare = [(0, 1), (0, 2)]
    padded = Rollouts(
        *(np.pad(field, spare + [(0, 0)] * (field.ndim - 2), constant_values=np.nan) for field in present[:4]),
        mask=np.pad(np.ones_like(present.rewards, dtype=bool), spare),
    )
    (advantages,), state = run(chosen, [padded])
    (expected,), expected_state = run(chosen, [present])
    assert_close((advantages[:-1, :-2], state), (expected, expected_state))
    assert not advantages[-1].any()
    assert not advantages[:, -2:].any()


@pytest.mark.parametrize("axis", [0, 1], ids=["prompts", "rollouts"])
def test_order_does_not_matter(chosen: Estimator, axis: int) -> None:
    record = batch()
    order = np.random.default_rng(1).permutation(record.rewards.shape[axis])
    reordered = jax.tree.map(lambda field: np.take(field, order, axis=axis), record)
    assert_close(advantages_of(chosen, reordered), np.take(advantages_of(chosen, record), order, axis=axis))


@pytest.mark.parametrize("size", [1, 2, GROUP])
def test_uniform_groups_get_what_the_formula_says(name: str, chosen: Estimator, size: int) -> None:
    """Exactly, in a batch that holds a mixed group too; a single rollout is a uniform group."""
    mixed = [1] + [0] * (size - 1)
    all_right, all_wrong, _ = advantages_of(chosen, batch(rewards=[[1] * size, [0] * size, mixed]))
    right, wrong = UNIFORM_GROUPS.get(name, (0.0, 0.0))
    np.testing.assert_array_equal(all_right, np.full_like(all_right, right))
    np.testing.assert_array_equal(all_wrong, np.full_like(all_wrong, wrong))


def test_update_is_pure(chosen: Estimator) -> None:
    record, state = batch(), chosen.init()
    for field in record[:4]:
        field.flags.writeable = False
    first, second = chosen.update(record, state), chosen.update(record, state)
    jax.tree.map(np.testing.assert_array_equal, first, second)


def test_the_policy_gradient_is_the_advantage_times_the_score(chosen: Estimator) -> None:
    """Under ``jax.grad`` of a softmax policy's loss, uniform groups included: no NaN, and A is a constant."""
    draw = np.random.default_rng(2)
    logits, actions = draw.normal(size=(PROMPTS, 3)), draw.integers(0, 3, (PROMPTS, GROUP))
    record = batch(rewards=[[1] * GROUP, [0] * GROUP, [1, 0, 0, 1, 0, 0], [0, 1, 1, 1, 1, 1]], tokens=1)

    def objective(logits: Any) -> Any:
        logp = jnp.take_along_axis(jax.nn.log_softmax(logits), actions, axis=1)
        sampled = record._replace(old_logp=jax.lax.stop_gradient(logp)[..., None])
        return jnp.sum(chosen.update(sampled, chosen.init())[0].reshape(logp.shape) * logp)

    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    sampled = record._replace(old_logp=np.log(np.take_along_axis(probabilities, actions, axis=1))[..., None])
    advantages = advantages_of(chosen, sampled).reshape(actions.shape)
    expected = np.zeros_like(logits)
    for p in range(PROMPTS):
        for g in range(GROUP):
            expected[p] += advantages[p, g] * (np.eye(3)[actions[p, g]] - probabilities[p])
    np.testing.assert_allclose(jax.grad(objective)(logits), expected, rtol=1e-12, atol=1e-12)
