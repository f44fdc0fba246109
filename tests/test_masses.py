"""The masses of every estimator equal their closed forms at every number of successes."""

import inspect
import math
from typing import Any

import numpy as np
import pytest

from simlab.errors import InputError
from simlab.estimators import REGISTRY, Link, center, chain, estimator, stateless
from simlab.theory import CLOSED_FORMS, closed_form, masses

# Estimators whose masses the number of successes does not fix, and why. `masses` computes them all the same.
WITHOUT_FORM = {
    "ds_grpo": "adds a multiple of each rollout's log-probability",
    "fade_entropy": "chooses its exponent by the entropy of the batch alone",
    "fade_logarithmic": "chooses its exponent by the number of steps taken alone",
    "linked": "is any chain of links: each has the form of the named one that it equals, if any",
    "remax": "compares with the greedy answer, which the number of successes does not tell",
    "unlikeliness": "ranks rollouts by their log-probability",
}

# Other parameters than the defaults, which are tested for every estimator. Every parameter that exists is varied.
PARAMETERS: dict[str, list[dict[str, Any]]] = {
    "grpo": [{"eps": 0.0}, {"ddof": 1}, {"eps": 0.0, "ddof": 1}, {"eps": 0.5}],
    "skew_r": [{"ddof": 1}],
    "power_norm": [{"gamma": 0.0}, {"gamma": 1.0}, {"gamma": 1.75}],
    "power_alpha": [{"alpha": 1.0}, {"alpha": 3.5}],
    "easy_power": [{"alpha": 1.0}, {"alpha": 3.5}],
    "f_grpo": [
        *({"gamma": gamma} for gamma in (0.0, 0.5, 2.0)),
        {"base": "asym_rl"},
        {"base": "f_grpo", "gamma": 0.5},
        {"base": "pkpo"},
        {"base": "log_mean_exp"},
    ],
    "reject_easy": [
        *({"threshold": threshold} for threshold in (0.0, 0.25, 1 / 13, 1.0)),
        {"base": "asym_rl"},
        {"base": "psr", "threshold": 0.75},
    ],
    "hard_focused": [{"gamma": 2.0}, {"eps": 0.25, "ddof": 1}],
    "easy_focused": [{"gamma": 2.0}, {"eps": 0.25, "ddof": 1}],
    "t2t": [{"alpha": 0.0}, {"alpha": 1.0}, {"alpha": 0.7, "ddof": 1, "eps": 0.1}, {"alpha": 1.0, "eps": 0.0}],
    "cw_grpo": [{"scope": "batch"}, {"base": "maxrl"}],
    "entropy_advantage": [{"alpha": 3.0, "kappa": 0.5}, {"base": "asym_power"}],
    "reinforce_pp": [{"ddof": 1}, {"eps": 0.3}],
    "reinforce_pp_baseline": [{"ddof": 1}, {"eps": 0.3}],
    "gpg": [{}],
    "opo": [{}],
    "bnpo": [{"most": 0.25}],
    "grpo_lead": [
        {"alpha": 2.0, "penalty": 0.0, "eps": 0.25},
        {"low": 1.0, "high": 0.0, "midpoint": 0.25, "steepness": 2.0},
        {"penalty": 3.0, "ddof": 1, "eps": 0.5},
    ],
    "advantage_reweighting": [{"alpha": 0.7}, {"base": "psr"}],
    "aem": [{"strength": 3.0, "least_spread": 0.01}, {"base": "nsr"}],
    "pass_at_k_chen": [{"k": k} for k in (1, 2, 8, 40)],
    "mix": [{"k": k} for k in (1, 2, 8, 40)],
    "softmax": [{"beta": beta} for beta in (1e-3, 5.0, 2000.0)],
    "rs_grpo": [{"beta": beta} for beta in (1e-3, 5.0, 2000.0)],
    "running_mean": [{"initial": 0.25, "decay": 0.5}, {"initial": 1.0}, {"initial": -1.5}],
    "asym_rl": [{"delta": 0.37}, {"delta": -2.0}, {"delta": 0.0}],
    "quantile": [{"tau": tau} for tau in (0.0, 0.25, 1 / 3, 0.8, 1.0)],
    "mc_grpo": [{"scale": "mad"}, {"scale": "mad", "eps": 0.0}, {"eps": 0.0}],
    "asym_power": [{"alpha_success": 1.0}, {"alpha_failure": 3.5}, {"alpha_success": 1.5, "alpha_failure": 1.0}],
    "asym_grpo": [{"delta": 0.3}, {"delta": 4.0}],
    "positive_dominant": [{"factor": 0.0}, {"factor": 2.0, "eps": 0.25, "ddof": 1}],
    "negative_dominant": [{"factor": 0.1}, {"factor": 2.0, "eps": 0.25, "ddof": 1}],
    "w_reinforce": [{"success": -1.0}, {"success": 3.0}],
    "a_grae": [{"eps": 0.0}, {"alpha": 0.5}, {"easy_term": "code"}, {"ddof": 1, "eps": 0.25}],
    "fade": [
        {"beta": 0.98},
        {"beta": 0.0},
        {"beta": 1.0, "alpha_max": 1.2},
        {"target_entropy": 0.25},
        {"target_entropy": 0.9, "delta_min": 0.4, "alpha_max": 9.0},
        {"baseline": "batch_mean"},
    ],
    "ha_dw": [
        {"scale": 0.0},
        {"initial": 0.9, "decay": 0.1, "scale": 3.0},
        {"base": "dr_grpo"},
        {"base": "asym_rl"},
        {"base": "f_grpo"},
    ],
    "pkpo": [{"k": k, "baseline": baseline} for k in (1, 2, 8, 40) for baseline in ("none", "leave_one_out")],
    "log_mean_exp": [{"beta": beta} for beta in (0.05, 5.0, 50.0, 700.0)],
}
CASES = [(name, values) for name in CLOSED_FORMS for values in [{}, *PARAMETERS.get(name, [])]]


@pytest.mark.parametrize(("name", "parameters"), CASES)
def test_masses_equal_the_closed_forms(name: str, parameters: dict[str, Any]) -> None:
    for size in (1, 2, 9):
        computed = masses(name, size, **parameters)
        np.testing.assert_array_equal(computed.successes, range(size + 1))
        expected = closed_form(name, computed.successes / size, size, **parameters)
        for mass, form in zip(computed[1:], expected, strict=True):
            np.testing.assert_allclose(mass, form, rtol=1e-12, atol=0)


def test_every_estimator_has_a_closed_form_or_a_reason_to_have_none() -> None:
    assert set(CLOSED_FORMS) | set(WITHOUT_FORM) == set(REGISTRY)
    assert not set(CLOSED_FORMS) & set(WITHOUT_FORM)


def test_a_form_takes_what_its_estimator_takes_and_every_parameter_is_varied() -> None:
    for name, form in CLOSED_FORMS.items():
        _, *parameters = inspect.signature(form.masses).parameters.values()
        assert [parameter.name for parameter in parameters] == list(REGISTRY[name].parameters)
        varied = {parameter for values in PARAMETERS.get(name, []) for parameter in values}
        assert varied == set(REGISTRY[name].parameters)


# By hand, from the definitions: G, s, m_S and m_F. The mean over G of A on the s successes, and of -A on the rest.
ROOT3, LOG3 = math.sqrt(3), math.log(3)
BY_HAND: list[tuple[str, dict[str, Any], int, int, tuple[float, float]]] = [
    ("reinforce", {}, 4, 3, (3 / 4, 0)),
    ("psr", {}, 4, 4, (1, 0)),
    ("nsr", {}, 4, 1, (0, 3 / 4)),
    ("w_reinforce", {}, 2, 1, (1 / 20, 1 / 2)),
    ("running_mean", {"initial": 0.25}, 2, 1, (3 / 8, 1 / 8)),
    ("dr_grpo", {}, 4, 1, (3 / 16, 3 / 16)),
    ("rloo", {}, 3, 1, (1 / 3, 1 / 3)),
    ("grpo", {"eps": 0.0}, 5, 1, (2 / 5, 2 / 5)),  # std 2/5, A 2 and -1/2
    ("grpo", {"eps": 0.5, "ddof": 1}, 4, 1, (3 / 16, 3 / 16)),  # std 1/2
    ("skew_r", {}, 5, 1, (8 / 125, 8 / 125)),
    ("power_norm", {"gamma": 1.0}, 4, 1, (1, 1)),
    ("maxrl", {}, 4, 1, (3 / 4, 3 / 4)),
    ("power_alpha", {}, 4, 1, (9 / 64, 9 / 64)),
    ("easy_power", {}, 4, 3, (9 / 64, 9 / 64)),
    ("asym_power", {}, 4, 1, (9 / 64, 3 / 64)),
    ("f_grpo", {"base": "dr_grpo"}, 4, 1, (9 / 64, 9 / 64)),
    ("reject_easy", {"base": "dr_grpo"}, 4, 2, (1 / 4, 1 / 4)),
    ("reject_easy", {"base": "dr_grpo"}, 4, 3, (0, 0)),
    ("hard_focused", {"eps": 0.0}, 4, 1, (ROOT3 / 4, ROOT3 / 4)),
    ("easy_focused", {"eps": 0.0}, 4, 3, (ROOT3 / 4, ROOT3 / 4)),
    ("t2t", {"eps": 0.4}, 2, 1, (1 / 4, 1 / 4)),  # rewards .9 and .1, std .4
    ("cw_grpo", {"base": "dr_grpo"}, 4, 1, (3 / 16, 3 / 16)),
    ("entropy_advantage", {"base": "dr_grpo"}, 4, 1, (3 / 16, 3 / 16)),
    ("advantage_reweighting", {"base": "dr_grpo"}, 4, 1, (3 / 16, 3 / 16)),
    ("gpg", {}, 4, 1, (3 / 16, 3 / 16)),
    ("opo", {}, 4, 1, (3 / 16, 3 / 16)),
    ("bnpo", {}, 4, 1, (3 / 16, 3 / 16)),
    ("bnpo", {"most": 0.5}, 2, 1, (1 / 8, 1 / 8)),
    ("grpo_lead", {"low": 0.0, "high": 2.0, "midpoint": 0.5, "eps": 0.0}, 2, 1, (1 / 2, 1 / 2)),  # A 1 and -1, w 1
    ("grpo_lead", {"low": 1.0, "high": 4.0, "steepness": 0.0, "penalty": 0.0, "eps": 0.5}, 2, 1, (5 / 8, 5 / 8)),
    ("reinforce_pp", {"eps": 0.0}, 2, 1, (1 / 2, 1 / 2)),
    ("reinforce_pp_baseline", {"eps": 0.0}, 2, 1, (1 / 2, 1 / 2)),
    ("aem", {"base": "dr_grpo"}, 4, 1, (3 / 16, 3 / 16)),
    ("asym_rl", {"delta": 0.25}, 2, 1, (1 / 8, 3 / 8)),
    ("asym_grpo", {"delta": 0.5}, 2, 1, (1 / 4, 1 / 2)),
    ("positive_dominant", {"eps": 0.0}, 2, 1, (5, 1 / 2)),
    ("negative_dominant", {"eps": 0.0}, 2, 1, (1 / 20, 1 / 2)),
    ("relu", {}, 4, 3, (3 / 16, 0)),
    ("binary_contrastive", {}, 4, 3, (3 / 4, 3 / 4)),
    ("binary_contrastive", {}, 4, 4, (1, 0)),
    ("quantile", {"tau": 0.25}, 4, 3, (3 / 4, 0)),
    ("quantile", {"tau": 0.5}, 4, 3, (0, 1 / 4)),
    ("mc_grpo", {"scale": "mad", "eps": 0.5}, 4, 3, (0, 1 / 2)),
    ("softmax", {"beta": LOG3}, 2, 1, (1 / 8, 1 / 8)),
    ("rs_grpo", {"beta": LOG3}, 2, 1, (1 / (4 * LOG3), 1 / (4 * LOG3))),
    ("log_mean_exp", {"beta": LOG3}, 2, 1, (math.log(2) / (2 * LOG3), (1 - math.log(2) / LOG3) / 2)),
    ("pass_at_k_chen", {"k": 2}, 4, 1, (1 / 4, 1 / 4)),  # R = 1/2
    ("mix", {"k": 2}, 4, 1, ((1 + 3 * ROOT3) / 16, (1 + 3 * ROOT3) / 16)),
    ("pass_at_k_tang", {}, 4, 1, (1 / 4, 0)),
    ("pass_at_k_tang", {}, 4, 2, (0, 0)),
    ("pkpo", {"k": 2}, 4, 2, (2 / 3, 0)),  # of 6 pairs, 2 hold a given success and no other
    ("pkpo", {"k": 2, "baseline": "none"}, 4, 1, (1 / 2, -1 / 2)),  # of 6 pairs, 1 joins a given failure to the success
    ("a_grae", {"eps": 0.0}, 2, 1, (1 / (4 * math.sqrt(2)), 1 / (2 * math.sqrt(2)))),
    ("fade", {"target_entropy": 0.5}, 2, 1, (0.5**2.5, 0.5**1.5)),  # alpha 3/2, delta 1/2
    ("ha_dw", {"base": "dr_grpo"}, 4, 1, (3 / 16 * math.exp(1 / 4), 3 / 16 * math.exp(-1 / 4))),
]


def test_both_equal_what_comes_out_by_hand() -> None:
    for name, parameters, size, successes, by_hand in BY_HAND:
        computed = masses(name, size, **parameters)
        assert (computed.success[successes], computed.failure[successes]) == pytest.approx(by_hand, rel=1e-14), name
        assert closed_form(name, successes / size, size, **parameters) == pytest.approx(by_hand, rel=1e-14), name
    assert {name for name, *_ in BY_HAND} == set(CLOSED_FORMS)


# The population limit

LIMITS = [(name, values) for name, values in CASES if name != "pass_at_k_tang" and values.get("k", 1) <= 8]


def test_large_groups_come_to_the_limit_as_one_over_g() -> None:
    size, p = 2**14, np.arange(17) / 16
    for name, parameters in LIMITS:
        limit = closed_form(name, p, **parameters)
        for mass, end in zip(closed_form(name, p, size, **parameters), limit, strict=True):
            np.testing.assert_allclose(mass, end, rtol=0, atol=12 / size, err_msg=name)


@pytest.mark.parametrize(
    ("name", "parameters", "success", "failure"),
    [
        ("pass_at_k_chen", {"k": 2}, 1 / (2 * ROOT3), 1 / (2 * ROOT3)),
        ("pkpo", {"k": 3}, 3 / 8, 0),
        ("pkpo", {"k": 3, "baseline": "none"}, 3 / 2, -9 / 8),
        ("rloo", {}, 1 / 4, 1 / 4),
        ("grpo", {"eps": 0.0, "ddof": 1}, 1 / 2, 1 / 2),
        ("softmax", {}, 0, 0),
        ("log_mean_exp", {}, 0, 0),
    ],
)
def test_limits_at_one_half(name: str, parameters: dict[str, Any], success: float, failure: float) -> None:
    assert closed_form(name, 0.5, **parameters) == pytest.approx((success, failure), rel=1e-14)


def test_any_share_in_any_shape_is_a_population() -> None:
    p = np.array([[0.0, 1 / math.pi], [0.9, 1.0]], dtype=np.float32)
    success, failure = closed_form("maxrl", p)
    assert success.dtype == failure.dtype == np.float64
    np.testing.assert_array_equal(success, [[0, 1 - float(p[0, 1])], [1 - float(p[1, 0]), 0]])


# Where FADE prints other masses than its own definitions give: section 8 of the paper


def test_the_printed_masses_of_log_mean_exp_are_not_its_own() -> None:
    """FADE: p e^beta / (p e^beta + q), [fade:log-mean-exp]; at beta 1 and p 1/2, 0.731 on success and 0.269."""
    printed = math.e / (math.e + 1)
    computed = masses("log_mean_exp", 8, beta=1.0)
    assert computed.success[4] == pytest.approx(0.0341, abs=1e-4)
    assert computed.failure[4] == pytest.approx(0.0320, abs=1e-4)
    assert printed == pytest.approx(0.7311, abs=1e-4)
    nearly_none = masses("log_mean_exp", 8, beta=1e-6)
    rloo = masses("rloo", 8)
    np.testing.assert_allclose(nearly_none.success, rloo.success / 8, rtol=1e-5)
    np.testing.assert_allclose(nearly_none.failure, rloo.failure / 8, rtol=1e-5)


def test_the_printed_masses_of_softmax_are_sums_over_the_group() -> None:
    """FADE: (e^beta - 1) p q / (1 + p (e^beta - 1)), [fade:softmax], without the 1 / G of its other masses."""
    p = np.arange(9) / 8
    printed = (math.e - 1) * p * (1 - p) / (1 + p * (math.e - 1))
    np.testing.assert_allclose(masses("softmax", 8, beta=1.0).success * 8, printed, rtol=1e-12)


def test_the_printed_quantile_is_the_one_of_the_other_tail() -> None:
    """FADE: p 1[p <= tau], [fade:quantile]; the quarter quantile of a group that is half right is a failure."""
    assert masses("quantile", 4, tau=0.25).success[2] == 0.5
    printed = np.where(np.arange(5) / 4 <= 0.25, np.arange(5) / 4, 0)
    np.testing.assert_array_equal(masses("quantile", 4, tau=0.75).success, printed)


def test_the_printed_masses_of_binary_contrastive_part_in_solved_groups() -> None:
    """FADE: m_S = m_F = p, [fade:binary-contrastive]; at p = 1 there is no failure."""
    assert closed_form("binary_contrastive", 1.0) == (1.0, 0.0)


def test_ha_dw_weighs_failures_too() -> None:
    """FADE: m_F = q p for a Dr. GRPO base, [fade:ha-dw]; by its own definition failures get exp(p - C) q p."""
    failure = masses("ha_dw", 4, base="dr_grpo").failure[1]
    assert failure == pytest.approx(0.1460, abs=1e-4)
    assert masses("dr_grpo", 4).failure[1] == 0.1875


# What the estimator is shown


def test_old_logp_reaches_the_estimator() -> None:
    """Entropy 0.5 below the target 1 gives delta = 1 + 0.5 - 1."""
    computed = masses("fade", 8, old_logp=np.full((8, 1), -0.5), target_entropy=1.0)
    np.testing.assert_allclose(computed.success, computed.failure * 0.5, rtol=1e-12, atol=0)
    assert computed.success.max() > 0


@pytest.mark.parametrize(("greedy", "same"), [(1.0, "nsr"), (0.0, "psr")])
def test_remax_learns_from_one_outcome_alone(greedy: float, same: str) -> None:
    """From failures where the greedy answer is right, and from successes where it is wrong."""
    np.testing.assert_array_equal(masses("remax", 5, greedy_reward=greedy), masses(same, 5))


def test_entropy_reaches_the_estimator() -> None:
    """The advantages 0.5 and -0.5 gain 0.4 times the entropy 0.5."""
    computed = masses("entropy_advantage", 2, entropy=np.full((2, 1), 0.5), base="dr_grpo")
    np.testing.assert_allclose([computed.success[1], computed.failure[1]], [0.35, 0.15], rtol=1e-12)


def test_an_own_estimator_needs_no_registration() -> None:
    own = chain(center(), lambda advantages, rollouts: 2 * advantages)
    np.testing.assert_array_equal(masses(own, 2).success, [0, 0.5, 0])


def test_every_count_of_successes_is_a_batch_of_its_own_and_starts_afresh() -> None:
    def number_of_the_batch(advantages: Any, rollouts: Any, state: Any) -> tuple[Any, Any]:
        assert rollouts.rewards.shape == (1, 3)
        return advantages * 0 + 1 + state, state + 1

    computed = masses(chain(Link(number_of_the_batch, init=lambda: 0)), 3)
    np.testing.assert_array_equal(computed.success + -computed.failure, np.ones(4))


# Bad input


def test_an_estimator_of_candidates_has_no_masses() -> None:
    of_candidates = chain(stateless(lambda advantages, rollouts: advantages, needs=frozenset({"topn_logp"})))
    with pytest.raises(InputError, match=r"rollouts carry no topn_logp, which this method needs$"):
        masses(of_candidates, 4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"group_size": 0}, "group_size = 0 is outside its range [1, inf)"),
        ({"old_logp": np.zeros((3, 1))}, "old_logp has shape (3, 1); allowed: (4, 1)"),
        ({"name": "ppo"}, "estimator = 'ppo' is unknown (did you mean 'pkpo'?); allowed: "),
    ],
)
def test_bad_input_to_masses(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as refusal:
        masses(**{"name": "dr_grpo", "group_size": 4, **arguments})
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "ppo"}, "estimator = 'ppo' is unknown (did you mean 'pkpo'?); allowed: "),
        ({"name": "ds_grpo"}, "'ds_grpo' has no closed form; allowed: a_grae, "),
        ({"name": "f_grpo", "base": "ds_grpo"}, "'ds_grpo' has no closed form; allowed: a_grae, "),
        ({"name": "f_grpo", "base": estimator("grpo")}, "an estimator without a name has no closed form; allowed: "),
        ({"name": "grpo", "epsilon": 0.1}, "grpo has no parameter 'epsilon'"),
        ({"name": "log_mean_exp", "beta": 701}, "beta = 701 is outside its range (0, 700]"),
        ({"name": "pass_at_k_tang"}, "group_size = inf is not allowed for pass_at_k_tang"),
        ({"p": 1.5}, "p = 1.5 is outside its range [0, 1]"),
        ({"p": 0.3, "group_size": 4}, "p = 0.3 is no share of 4 rollouts; allowed: s / 4"),
        ({"group_size": 2.5}, "group_size = 2.5 is not allowed; allowed: whole numbers from 1 up, infinity"),
    ],
)
def test_bad_input_to_closed_forms(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as refusal:
        closed_form(**{"name": "dr_grpo", "p": 0.5, **arguments})
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)
