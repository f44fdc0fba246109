"""Every registered estimator gives the numbers of its paper: in NumPy, by the array API alone, and compiled."""

from itertools import groupby

import array_api_strict
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference_cases import CASES, assert_close, check_against_reference, record, sequences
from references import REFERENCES

from simlab import estimator
from simlab.estimators import REGISTRY


def test_no_estimator_is_without_a_reference():
    assert {name for name, _ in CASES} == set(REFERENCES) == set(REGISTRY)


@pytest.mark.parametrize(("name", "parameters"), CASES)
def test_arrays(name, parameters):
    check_against_reference(name, parameters, "ragged", np, "float64")
    check_against_reference(name, parameters, "full", np, "float64")
    check_against_reference(name, parameters, "ragged", array_api_strict, "float32")


# One program serves all cases of an estimator that differ in floats alone.


def floats_of(name, parameters):
    values = REGISTRY[name].parameters | parameters
    return {key: value for key, value in values.items() if isinstance(value, float)}


def choices_of(case):
    name, parameters = case
    return name, *((key, value) for key, value in parameters.items() if key not in floats_of(name, parameters))


PROGRAMS = [list(cases) for _, cases in groupby(sorted(CASES, key=lambda case: str(choices_of(case))), choices_of)]
FIRST = {cases[0][0]: cases for cases in reversed(PROGRAMS)}


@pytest.mark.parametrize(
    "cases", [cases if cases in FIRST.values() else pytest.param(cases, marks=pytest.mark.slow) for cases in PROGRAMS]
)
def test_compiled_programs(cases):
    """Under jit: sequences side by side (vmap), their ragged steps in turn (scan), and floats that are traced."""
    name, choices = cases[0][0], dict(choices_of(cases[0])[1:])

    @jax.jit
    def program(batches, floats):
        chosen = estimator(name, **choices, **floats)

        def step(state, record):
            advantages, state = chosen.update(record, state)
            return state, advantages

        return jax.vmap(lambda batches: jax.lax.scan(step, chosen.init(), batches)[1])(batches)

    several = sequences(name, "ragged")
    stacked = [
        jax.tree.map(lambda *steps: jnp.stack(steps), *(record(step, "ragged", jnp, "float32") for step in sequence))
        for sequence in several
    ]
    stacked = jax.tree.map(lambda *batches: jnp.stack(batches), *stacked)
    for _, parameters in cases:
        histories = program(stacked, floats_of(name, parameters))
        assert histories.dtype == "float32"
        for history, sequence in zip(histories, several, strict=True):
            assert_close(name, parameters, list(history), sequence, "float32")
    assert program._cache_size() == 1
