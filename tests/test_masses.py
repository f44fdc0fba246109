"""The masses of every estimator equal FADE's closed forms at every number of successes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from simlab.errors import InputError
from simlab.estimators import REGISTRY, Link, center, chain, stateless
from simlab.theory import masses

Form = Callable[[float, float, int], float]


def alike(form: Form) -> tuple[Form, Form]:
    """A sign-balanced weight: the same mass on successes and failures."""
    return form, form


def maxrl(p: float, q: float, size: int) -> float:
    return q if p > 0 else 0.0


def a_grae(p: float, q: float, size: int) -> float:
    """Eq. 12 in a batch of this one group, where omega = p."""
    return (p * q) ** 0.5 * (p / (2 * p**0.5) + q / (2 * q**0.5)) if 0 < p < 1 else 0.0


def fade(p: float, q: float, size: int) -> float:
    """p q^alpha, alpha from the first update of the running average that starts at one half."""
    p_hat = 0.02 * 0.5 + 0.98 * p
    return p * q ** min(max(3 * (1 - p_hat) / (2 * p_hat), 1), 3)


# m_S and m_F as functions of p = s / G, q = 1 - p and G: FADE Table 1, and A-GRAE Eq. 12 and 13 derived likewise.
FORMS: list[tuple[str, dict[str, Any], tuple[Form, Form]]] = [
    ("reinforce", {}, (lambda p, q, size: p, lambda p, q, size: 0.0)),
    ("dr_grpo", {}, alike(lambda p, q, size: p * q)),
    ("grpo", {"eps": 0.0}, alike(lambda p, q, size: (p * q) ** 0.5)),
    ("grpo", {"eps": 0.0, "ddof": 1}, alike(lambda p, q, size: (p * q * (size - 1) / size) ** 0.5)),
    ("maxrl", {}, alike(maxrl)),
    ("power_alpha", {}, alike(lambda p, q, size: p * q**2)),
    ("power_alpha", {"alpha": 3.5}, alike(lambda p, q, size: p * q**3.5)),
    ("asym_grpo", {"delta": 0.5}, (lambda p, q, size: p * q, lambda p, q, size: p * q / 0.5)),
    ("rloo", {}, alike(lambda p, q, size: p * q * size / (size - 1) if size > 1 else 0.0)),
    ("psr", {}, (lambda p, q, size: p, lambda p, q, size: 0.0)),
    ("nsr", {}, (lambda p, q, size: 0.0, lambda p, q, size: q)),
    ("w_reinforce", {}, (lambda p, q, size: 0.1 * p, lambda p, q, size: q)),
    ("f_grpo", {"gamma": 0.5, "base": "dr_grpo"}, alike(lambda p, q, size: p * q**1.5)),
    ("a_grae", {"eps": 0.0}, (lambda p, q, size: a_grae(p, q, size) * p, a_grae)),
    ("a_grae", {"eps": 0.0, "alpha": 0.5}, (lambda p, q, size: a_grae(p, q, size) * min(1, 2 * p), a_grae)),
    ("fade", {}, alike(fade)),
]


def test_no_estimator_is_without_its_forms() -> None:
    assert {name for name, *_ in FORMS} == set(REGISTRY)


@pytest.mark.parametrize(("name", "parameters", "forms"), FORMS)
@pytest.mark.parametrize("size", [1, 2, 8, 13])
def test_masses_equal_the_closed_forms(
    name: str, parameters: dict[str, Any], forms: tuple[Form, Form], size: int
) -> None:
    found = masses(name, size, **parameters)
    np.testing.assert_array_equal(found.successes, range(size + 1))
    for mass, form in zip(found[1:], forms, strict=True):
        expected = [form(s / size, 1 - s / size, size) for s in range(size + 1)]
        np.testing.assert_allclose(mass, expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 2.0])
def test_f_grpo_is_grpo_times_the_share_of_failures_to_the_gamma(gamma: float) -> None:
    base = REGISTRY["grpo"].build(eps=0.0)
    p = np.arange(9) / 8
    for mass in masses("f_grpo", 8, gamma=gamma, base=base)[1:]:
        np.testing.assert_allclose(mass, np.sqrt(p * (1 - p)) * (1 - p) ** gamma, rtol=1e-12, atol=0)


def test_old_logp_reaches_the_estimator() -> None:
    """Entropy 0.5 below the target 1 gives delta = 1 + 0.5 - 1."""
    found = masses("fade", 8, old_logp=np.full((8, 1), -0.5), target_entropy=1.0)
    np.testing.assert_allclose(found.success, found.failure * 0.5, rtol=1e-12, atol=0)
    assert found.success.max() > 0


def test_an_own_estimator_needs_no_registration() -> None:
    own = chain(center(), lambda advantages, rollouts: 2 * advantages)
    np.testing.assert_array_equal(masses(own, 2).success, [0, 0.5, 0])


def test_every_count_of_successes_is_a_batch_of_its_own_and_starts_afresh() -> None:
    def number_of_the_batch(advantages: Any, rollouts: Any, state: Any) -> tuple[Any, Any]:
        assert rollouts.rewards.shape == (1, 3)
        return advantages * 0 + 1 + state, state + 1

    found = masses(chain(Link(number_of_the_batch, init=lambda: 0)), 3)
    np.testing.assert_array_equal(found.success + -found.failure, np.ones(4))


@pytest.mark.parametrize("needed", ["entropy", "topn_logp"])
def test_an_estimator_of_tokens_has_no_masses(needed: str) -> None:
    of_tokens = chain(stateless(lambda advantages, rollouts: advantages, needs=frozenset({needed})))
    with pytest.raises(InputError, match=f"rollouts carry no {needed}, which this estimator needs$"):
        masses(of_tokens, 4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"group_size": 0}, "group_size = 0 is outside its range [1, inf]"),
        ({"old_logp": np.zeros((3, 1))}, "old_logp has shape (3, 1); allowed: (4, 1)"),
        ({"name": "ppo"}, "estimator = 'ppo' is unknown; allowed: "),
    ],
)
def test_bad_input(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as refusal:
        masses(**{"name": "dr_grpo", "group_size": 4, **arguments})
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)
