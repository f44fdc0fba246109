"""Every registered estimator gives the numbers of its paper's formula, in every array library and dtype."""

from typing import Any

import array_api_strict
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference_cases import CASES, SHAPES, assert_close, check_against_reference, record, run, sequences
from references import REFERENCES

from simlab import Rollouts, estimator
from simlab.estimators import REGISTRY

each_case = pytest.mark.parametrize(("name", "parameters"), CASES)
each_shape = pytest.mark.parametrize("shape", SHAPES)


def test_no_estimator_is_without_a_reference() -> None:
    assert {name for name, _ in CASES} == set(REFERENCES) == set(REGISTRY)


@each_case
@each_shape
@pytest.mark.parametrize(
    ("xp", "dtype"),
    [(np, "float32"), (np, "float64"), (array_api_strict, "float64")],
    ids=["numpy-float32", "numpy-float64", "strict-float64"],
)
def test_arrays(name: str, parameters: dict[str, Any], shape: str, dtype: str, xp: Any) -> None:
    check_against_reference(name, parameters, shape, xp, dtype)


FIRST = {name: parameters for name, parameters in reversed(CASES)}
# Compiling takes a second a case: one of each estimator, the others by hand.
ONE_EACH = [
    (name, parameters) if parameters is FIRST[name] else pytest.param(name, parameters, marks=pytest.mark.slow)
    for name, parameters in CASES
]


@pytest.mark.parametrize(("name", "parameters"), ONE_EACH)
def test_under_jit_and_vmap(name: str, parameters: dict[str, Any]) -> None:
    """Whole sequences of ragged steps, compiled together and batched along a new leading axis.

    The contract holds batches without masks to NumPy's numbers under ``jit``, in float64.
    """
    chosen, several, dtype = estimator(name, **parameters), sequences(name, "ragged"), "float32"
    records = [[record(step, "ragged", jnp, dtype) for step in sequence] for sequence in several]
    stacked: list[Rollouts] = jax.tree.map(lambda *arrays: jnp.stack(arrays), *records)
    histories = jax.jit(jax.vmap(lambda batches: run(chosen, batches)))(stacked)
    assert all(advantages.dtype == dtype for advantages in histories)
    for index, sequence in enumerate(several):
        history = [advantages[index] for advantages in histories]
        assert_close({name, parameters.get("base")}, history, REFERENCES[name](sequence, **parameters), dtype)
