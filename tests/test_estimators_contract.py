"""What every registered estimator promises. One that is registered tomorrow is held to it without a new test."""

import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from contract import CHECKS, GROUP, advantages_of, assert_close, batch, run

from simlab import Rollouts, estimator
from simlab.errors import InputError
from simlab.estimators import DOMAINS, REGISTRY
from simlab.rollouts import FIELDS

PARAMETERS = [(name, *parameter) for name, entry in REGISTRY.items() for parameter in entry.parameters.items()]


@pytest.fixture(autouse=True)
def double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", REGISTRY)
def test_the_contract_is_kept(name: str, check: str) -> None:
    CHECKS[check](REGISTRY[name].build())


@pytest.mark.parametrize("entry", REGISTRY.values(), ids=REGISTRY)
def test_its_entry_names_a_source_and_its_defaults_suffice(entry: Any) -> None:
    assert re.fullmatch(r"[a-z-]+:[a-z0-9.-]+", entry.tag)
    assert entry.summary.endswith(".")
    assert entry.formula
    assert ">>> simlab.advantages" in entry.build.__doc__
    assert {"rewards"} <= entry.build().needs <= FIELDS
    assert entry.build().domain in DOMAINS


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


def smoothing(record: Rollouts) -> np.ndarray:
    """DS-GRPO without its GRPO: rows all right, all wrong."""
    return np.array([[-0.05], [0.05]]) * record.old_logp[:2].mean(axis=-1)


def discounted(record: Rollouts) -> np.ndarray:
    """The unlikeliness reward's GRPO of a group that is all right; 0 where it is all wrong."""
    size = record.rewards.shape[1]
    rank = np.argsort(np.argsort(record.old_logp[0].sum(axis=-1))) + 1
    rewards = 1 - 0.25 * rank / size
    return np.stack([(rewards - rewards.mean()) / (rewards.std() + 1e-6), np.zeros(size)])


def lone(record: Rollouts) -> np.ndarray:
    """A single rollout's reward, the best of nobody being 0; 0 in larger groups."""
    return record.rewards[:2] * (record.rewards.shape[1] == 1)


def constants(right: float, wrong: float) -> Callable[[Rollouts], np.ndarray]:
    return lambda record: np.full_like(record.rewards[:2], 1) * [[right], [wrong]]


def standardised(record: Rollouts) -> np.ndarray:
    """The first two groups, by mean and std of the whole batch."""
    return ((record.rewards - record.rewards.mean()) / (record.rewards.std() + 1e-8))[:2]


# Advantages in groups that are all right and all wrong. Comparing equal rewards teaches nothing, so they are exactly 0
# in every formula that subtracts something of the group; the others say here what they give.
UNIFORM_GROUPS: dict[str, Callable[[Rollouts], np.ndarray]] = {
    "reinforce": constants(1, 0),
    "remax": lambda record: record.rewards[:2] - record.greedy_reward[:2],
    "running_mean": constants(1, 0),
    "reinforce_pp": standardised,
    "asym_rl": constants(-0.01, -0.01),
    "binary_contrastive": constants(1, 0),
    "psr": constants(1, 0),
    "nsr": constants(0, -1),
    "w_reinforce": constants(0.1, -1),
    "pass_at_k_tang": lone,
    "pkpo": lone,
    "ds_grpo": smoothing,
    "unlikeliness": discounted,
}


@pytest.mark.parametrize("size", [1, 2, GROUP])
@pytest.mark.parametrize("name", REGISTRY)
def test_uniform_groups_get_what_the_formula_says(name: str, size: int) -> None:
    """In a batch that holds a mixed group too; a single rollout is a uniform group. Zeros are exact."""
    record = batch(rewards=[[1] * size, [0] * size, [1] + [0] * (size - 1)])
    actual = advantages_of(REGISTRY[name].build(), record)[:2]
    expected = UNIFORM_GROUPS.get(name, constants(0, 0))(record)
    np.testing.assert_allclose(actual, expected if actual.ndim == 2 else expected[..., None] + 0 * actual, rtol=1e-12)


@pytest.mark.parametrize("name", [name for name in REGISTRY if name not in UNIFORM_GROUPS])
def test_what_compares_a_group_gives_a_batch_without_a_correct_rollout_nothing(name: str) -> None:
    assert not advantages_of(REGISTRY[name].build(), batch(rewards=np.zeros((3, 5)))).any()
