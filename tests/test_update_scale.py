"""App. N's learning-rate multiplier, against the average it stands for."""

import math

import numpy as np
import pytest

from simlab.errors import InputError
from simlab.theory.update_scale import focal_scale


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 2.0, 3.7])
def test_it_is_the_average_reduction_of_the_advantages_over_the_solve_rate(gamma):
    """A midpoint sum over p of sqrt(p (1 - p)) (1 - p)^gamma, over that without the focal weight."""
    p = (np.arange(200_000) + 0.5) / 200_000
    size = np.sqrt(p * (1 - p))
    assert focal_scale(gamma) == pytest.approx((size * (1 - p) ** gamma).sum() / size.sum(), rel=1e-6)


def test_the_value_that_the_paper_takes_for_gamma_one_half():
    assert focal_scale(0.5) == pytest.approx(32 / (15 * math.pi), rel=1e-12)


def test_a_focal_weight_does_not_grow_with_success():
    with pytest.raises(InputError, match="gamma = -1"):
        focal_scale(-1.0)
