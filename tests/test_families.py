"""Families of weights in figures: by what they need, the signs of their masses, and where these peak."""

import pytest

from figures.shared.families import COLOURS, family
from simlab.estimators import REGISTRY


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("pkpo", "pass@k"),
        ("maxrl", "looks at hard prompts"),  # m = q
        ("dr_grpo", "looks at the middle"),  # m = p q
        ("easy_power", "looks at easy prompts"),  # m = p^2 q
        ("psr", "more on successes"),  # m_F = 0
        ("nsr", "more on failures"),  # m_S = 0
        ("ha_dw", "looks at the middle"),  # its two sides peak apart, symmetrically
        ("cw_grpo", "reads more than rewards"),
    ],
)
def test_a_family_follows_from_the_masses(name, expected):
    assert family(name) == expected


def test_every_estimator_has_a_family_with_a_colour_of_its_own():
    assert {family(name) for name in REGISTRY} == set(COLOURS)
    assert len(set(COLOURS.values())) == len(COLOURS)
