"""The shapes in the library's signatures are checked while these tests run: see conftest."""

import array_api_strict
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import TypeCheckError

from simlab import Rollouts
from simlab.rollouts import group_mean


@pytest.mark.parametrize("xp", [np, jnp, array_api_strict], ids=["numpy", "jax", "strict"])
def test_an_array_of_the_wrong_shape_or_dtype_is_caught(xp: object) -> None:
    rollouts = Rollouts(xp.ones((2, 3)))
    assert group_mean(xp.ones((2, 3)), rollouts).shape == (2, 1)
    with pytest.raises(TypeCheckError, match="'P G'"):
        group_mean(xp.ones((2, 3, 4)), rollouts)
    with pytest.raises(TypeCheckError, match="Float"):
        group_mean(xp.ones((2, 3), dtype=xp.int32), rollouts)
