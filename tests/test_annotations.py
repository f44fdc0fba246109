"""The shapes in the library's signatures are checked while these tests run: see conftest."""

import array_api_strict
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Float, TypeCheckError
from shape_checks import checked

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


def test_axes_of_one_name_have_one_size_in_arguments_and_result() -> None:
    @checked
    def first(a: Float[np.ndarray, " n"], b: Float[np.ndarray, " n"], scale: float = 1.0) -> Float[np.ndarray, " n"]:
        return a[: int(scale)] if scale > 1 else a

    assert first(np.ones(3), np.ones(3), scale=1).shape == (3,)  # an int stands for a float
    for wrong in ((np.ones(3), np.ones(2)), (np.ones(3), np.ones(3), 2.0), (np.ones(3), np.ones(3), "1")):
        with pytest.raises(TypeCheckError, match="first"):
            first(*wrong)
    with pytest.raises(TypeError, match="'b'"):
        first(np.ones(3))
