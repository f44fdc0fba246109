"""Whether all of many truth values are true: against NumPy's own answer."""

import hypothesis.extra.numpy as arrays
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simlab.truths import all_true


@given(arrays.arrays(bool, arrays.array_shapes(max_dims=3, min_side=0, max_side=4)))
def test_all_are_true_where_none_is_false(values):
    assert bool(all_true(jnp.asarray(values))) == values.all()


@given(st.data())
def test_each_row_is_asked_by_itself(data):
    values = data.draw(arrays.arrays(bool, arrays.array_shapes(min_dims=2, max_dims=3, max_side=4)))
    axes = range(1, values.ndim)
    np.testing.assert_array_equal(all_true(jnp.asarray(values), axes), values.all(tuple(axes)))


@pytest.mark.parametrize("place", [0, 70_000, 131_071])
def test_one_that_is_false_is_found_among_many(place):
    assert bool(all_true(jnp.ones(131_072, bool)))
    assert not bool(all_true(jnp.ones(131_072, bool).at[place].set(False)))
