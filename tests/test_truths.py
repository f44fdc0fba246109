"""Ask of many truth values whether all are true: against NumPy's own answer."""

import jax.numpy as jnp
import numpy as np

from simlab.truths import all_true


def test_all_are_true_where_none_is_false():
    random = np.random.default_rng(0)
    for shape in ((), (0,), (5,), (3, 4), (2, 0, 3), (2, 3, 2)):
        for values in (np.ones(shape, bool), random.random(shape) < 0.8):
            assert bool(all_true(jnp.asarray(values))) == values.all()
            axes = tuple(range(1, values.ndim))
            np.testing.assert_array_equal(all_true(jnp.asarray(values), axes), values.all(axes))
    for index in (0, 70_000, 131_071):
        assert not bool(all_true(jnp.ones(131_072, bool).at[index].set(False)))
