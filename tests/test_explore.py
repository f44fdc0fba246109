"""The explorer without its page: settings held to their ranges, estimators as text, presets, the drift."""

import itertools
import json
import math

import numpy as np
import pytest
import scipy.stats

import simlab
from simlab.constructors import estimator_constructor
from simlab.errors import InputError
from simlab.estimators import REGISTRY, registry
from simlab.explore.answers import answer
from simlab.explore.controls import BY_NAME, CONTROLS, PANELS, hold, hold_panel
from simlab.explore.formula import TAG, has_g, python_lines, read
from simlab.explore.in_advance import LINKED_SIZES, LINKED_TABLES, table_in_advance, tables_in_advance
from simlab.explore.masses import expected_path, group_masses, has_masses, push_of
from simlab.explore.page import description, palette
from simlab.explore.presets import PRESETS
from simlab.explore.weights import _PARAMETERS, hold_weight, parameters_of, read_weight, write_weight
from simlab.problems import anchored
from simlab.theory import CLOSED_FORMS


@pytest.fixture(autouse=True)
def _registry_as_before():
    yield
    for name in [name for name, entry in REGISTRY.items() if entry.tag == TAG]:
        registry._REGISTRY.pop(name)


# Settings


def test_every_control_has_a_panel_a_label_and_a_default_that_it_would_keep():
    for control in CONTROLS:
        assert control.name.partition(".")[0] in PANELS
        assert control.label
        assert hold(control, control.default) == (control.default, "")


@pytest.mark.parametrize(
    ("name", "asked", "held", "note"),
    [
        ("miss.correct_mass", -math.inf, 1e-6, "correct mass μ = -inf is outside [1e-06, 1]; held at 1e-06"),
        ("miss.group_size", 0, 1, "group size G = 0 is outside [1, 131072]; held at 1"),
        ("masses.weight", "pkpo(k=2.6)", "pkpo(k=3)", "pkpo: k = 2.6 is not whole; held at 3"),
        ("miss.group_size", 7.6, 8, "group size G = 7.6 is not whole; held at 8"),
        ("miss.group_size", 7.0, 7, ""),
        ("run.weight", "= (r - p)/s", "=(r - p)/s", ""),
        ("run.weight", "=p^g@g=0.50", "=p^g@g=0.5", ""),
    ],
)
def test_a_value_outside_its_range_is_held_at_the_bound_and_says_so(name, asked, held, note):
    assert hold(BY_NAME[name], asked) == (held, note)


@pytest.mark.parametrize(
    ("name", "asked", "reason"),
    [
        ("miss.correct_mass", "half", "'half' is not a number"),
        ("miss.correct_mass", math.nan, "nan is not a number"),
        ("masses.show", "everything", "allowed: masses, peak 1"),
        ("masses.weight", 3, "is no text"),
        ("masses.weight", "grop", r"unknown \(did you mean 'grpo'\?\); allowed: a_grae, "),
        ("masses.weight", "grpo(gamma=1)", "allowed: ddof"),
        ("masses.weight", "grpo(ddof=2)", "allowed: 0, 1"),
        ("masses.weight", "asym_grpo(delta=x)", "'x' is not a number"),
        ("run.weight", "=p^g@g=99", "g = '99' is not allowed; allowed: \\[0, 8\\]"),
    ],
)
def test_a_value_that_cannot_be_read_is_refused(name, asked, reason):
    with pytest.raises(InputError, match=reason):
        hold(BY_NAME[name], asked)


def test_a_panel_has_all_its_settings_the_others_at_their_defaults():
    settings, notes = hold_panel("run", {"group_size": 10**6, "actions": 64})
    assert settings["group_size"] == 512
    assert settings["actions"] == 64
    assert settings["steps"] == BY_NAME["run.steps"].default
    assert notes == ["group size G = 1e+06 is outside [2, 512]; held at 512"]

    with pytest.raises(InputError, match="allowed: "):
        hold_panel("run", {"group_sizes": 3})


# Estimators as text


def test_every_estimator_is_written_read_and_built_at_its_defaults_and_its_bounds_with_help_for_each_parameter():
    used = set()
    for name in sorted(REGISTRY):
        parameters = parameters_of(name)
        defaults = {key: parameter.default for key, parameter in parameters.items()}
        assert set(defaults) == set(REGISTRY[name].parameters) - {"eps", "target_entropy"}
        text = write_weight(name, defaults)
        assert read_weight(text) == (name, defaults)
        assert hold_weight(text, closed=name in CLOSED_FORMS) == (text, "")
        for key, parameter in parameters.items():
            used |= {key, f"{name}.{key}"}
            assert 10 < len(parameter.help) < 90, (name, key)
            for value in parameter.choices or (parameter.low, parameter.high):
                REGISTRY[name].build(**{key: value})
    assert _PARAMETERS.keys() <= used
    of_buttons = ("step.sampled_correct", "step.sampled_incorrect")  # they say what they do
    assert [control.name for control in CONTROLS if not control.help and control.name not in of_buttons] == []


# Presets


def test_every_preset_is_a_view_that_its_panel_would_keep():
    for view in PRESETS.values():
        settings, notes = hold_panel(view.panel, dict(view.settings))
        assert notes == []
        assert {key: settings[key] for key in view.settings} == view.settings


# The page's description


def test_the_page_is_told_the_colours_of_the_figures_every_estimator_and_which_have_closed_forms():
    assert palette()[:2] == ["#0072B2", "#D55E00"]
    told = description(server=False)["estimators"]
    assert set(told) == set(REGISTRY)
    assert {name for name, entry in told.items() if entry["success"] is not None} == set(CLOSED_FORMS)


# The expected drift


def naive_expected_step(logits, correct, group_size, learning_rate):
    """One step of mean GRPO, averaged over every group by enumeration."""
    p = np.exp(logits) / np.exp(logits).sum()
    mean_gradient = np.zeros_like(p)
    for group in itertools.product(range(len(p)), repeat=group_size):
        rewards = [1.0 if correct[action] else 0.0 for action in group]
        gradient = np.zeros_like(p)
        for action, reward in zip(group, rewards, strict=True):
            score = -p.copy()
            score[action] += 1
            gradient += (reward - sum(rewards) / group_size) * score / group_size
        mean_gradient += math.prod(p[action] for action in group) * gradient
    return logits + learning_rate * mean_gradient


@pytest.mark.parametrize("group_size", [2, 5])
def test_the_drift_takes_the_expected_step_over_all_groups(group_size):
    problem = anchored(5, 3, anchor_logit=1.0, correct_logit=0.5)
    logits, correct = problem.listed().logits, problem.listed().correct
    start = np.exp(logits) / np.exp(logits).sum()
    expected = {"q_pos": [], "retained_mass": [], "entropy": []}
    for _ in range(3):
        p = np.exp(logits) / np.exp(logits).sum()
        retained = sum(min(share, was) for share, was, right in zip(p, start, correct, strict=True) if right)
        expected["q_pos"].append(p[correct].sum())
        expected["retained_mass"].append(retained / start[correct].sum())
        expected["entropy"].append(-sum(share * math.log(share) for share in p))
        logits = naive_expected_step(logits, correct, group_size, 2.0)
    path = expected_path(problem, group_masses("dr_grpo", group_size, {}), "sgd", 2.0, np.array([1, 2]))
    for name, values in expected.items():
        np.testing.assert_allclose(path[name], values, rtol=1e-12)


def test_adam_takes_expected_gradients_as_it_takes_any_others():
    problem = anchored(5, 3, anchor_logit=1.0, correct_logit=0.5)
    logits, correct = problem.listed().logits, problem.listed().correct
    mean, square, expected = [0.0] * 5, [0.0] * 5, []
    for step in range(1, 5):
        expected.append((np.exp(logits) / np.exp(logits).sum())[correct].sum())
        gradient = naive_expected_step(logits, correct, 3, 1.0) - logits
        logits = logits.copy()
        for action in range(5):
            mean[action] = 0.9 * mean[action] + 0.1 * gradient[action]
            square[action] = 0.999 * square[action] + 0.001 * gradient[action] ** 2
            scale = math.sqrt(square[action] / (1 - 0.999**step)) + 1e-8
            logits[action] += 0.1 * mean[action] / (1 - 0.9**step) / scale
    path = expected_path(problem, group_masses("dr_grpo", 3, {}), "adam", 0.1, np.array([1, 2, 3]))
    np.testing.assert_allclose(path["q_pos"], expected, rtol=1e-9)


# Masses


def naive_masses(name, size, **parameters):
    """Sums of the advantages of s successes and of the failures beside them, over G, for s = 0 to G."""
    sides = []
    for successes in range(size + 1):
        weights = simlab.advantages(name, [1.0] * successes + [0.0] * (size - successes), **parameters)
        sides.append([sum(weights[:successes]) / size, -sum(weights[successes:]) / size])
    return np.array(sides).T


def test_masses_are_sums_over_the_group_and_meet_their_limit():
    for weight, parameters, limit in (
        ("grpo", {}, True),
        ("asym_grpo(delta=0.5)", {"delta": 0.5}, True),
        ("pass_at_k_tang", {}, False),  # its k is the group size
        ("linked(scale=mean,sign=divide_failures)", {"scale": "mean", "sign": "divide_failures"}, False),
    ):
        curves = answer("masses", {"weight": weight, "group_size": 8})
        sides = np.array([curves["success"], curves["failure"]])
        np.testing.assert_allclose(sides, naive_masses(weight.partition("(")[0], 8, **parameters), atol=1e-9)
        assert (curves["limit"] is not None) == limit
        if limit:
            rates = np.array(curves["limit"]["rates"])
            success, failure = (np.interp(0.25, rates, curves["limit"][side]) for side in ("success", "failure"))
            assert (success, failure) == pytest.approx(sides[:, 2], abs=1e-5)
    assert answer("masses", {"weight": "softmax"})["limit"] is None  # its masses vanish as groups grow


def test_a_jump_of_a_mass_is_a_gap():
    limit = answer("masses", {"weight": "maxrl"})["limit"]
    gap = limit["success"].index(None)
    assert limit["success"][:gap] == [0, 0]
    assert limit["success"][gap + 1] == pytest.approx(1)
    assert limit["rates"][gap + 1] < 1e-9
    for name in ("grpo", "pass_at_k_chen", "easy_power", "=(1 - p)^g * (r - p)/s"):
        assert None not in answer("masses", {"weight": name})["limit"]["success"]


def test_half_of_what_a_weight_pushes_lies_below_a_solve_rate():
    rates = np.linspace(0, 1, 201)
    for success, failure in ((rates * 0 + 1, rates * 0), (rates * (1 - rates) ** 3, -rates), (rates**2, 1 - rates)):
        push = np.abs(success) + np.abs(failure)
        below = np.concatenate([[0], np.cumsum((push[1:] + push[:-1]) / 2 * np.diff(rates))])
        result = push_of(rates, success, failure)
        assert result["half"] == pytest.approx(np.interp(below[-1] / 2, below, rates), abs=1e-4)
        assert result["peak"] == rates[push.argmax()]
    assert push_of(np.array([0.0, 1.0]), np.zeros(2), np.zeros(2)) is None


def test_a_formula_has_the_masses_of_the_estimator_that_it_is():
    formula, named = (answer("masses", {"weight": weight, "group_size": 6})
                      for weight in ("=(1 - p)^g * (r - p)/s@g=0.5", "f_grpo(gamma=0.5,base=grpo)"))  # fmt: skip
    for side in ("success", "failure"):
        np.testing.assert_allclose(formula[side], named[side], atol=1e-5)  # grpo adds eps to s
        np.testing.assert_allclose(formula["limit"][side], named["limit"][side], atol=1e-5)


def test_what_reads_more_than_rewards_has_no_masses():
    assert has_masses("linked")
    assert all(map(has_masses, CLOSED_FORMS))
    assert not has_masses("ds_grpo")
    for name in ("unlikeliness", "ds_grpo"):
        with pytest.raises(InputError, match=name):
            group_masses(name, 3, {})


def test_a_bank_has_the_quantiles_of_its_betas():
    settings = {"prompts": 40, "beta_a": 0.3, "beta_b": 4.0, "second_share": 0.25, "second_a": 6.0, "second_b": 2.0,
                "modes": 5, "rare_modes": 2, "rare_ratio": 0.05}  # fmt: skip
    bank = answer("bank", settings)
    first, second = (scipy.stats.beta(*ab).ppf((np.arange(n) + 0.5) / n) for ab, n in (((0.3, 4), 30), ((6, 2), 10)))
    rates = np.clip(np.concatenate([first, second]), 1e-6, 1 - 1e-6)
    share = 2 * 0.05 / (3 + 2 * 0.05)
    for k in (1, 16, 2**20):
        index = bank["k"].index(k)
        assert bank["any"][index] == pytest.approx(np.mean(1 - (1 - rates) ** k), rel=1e-8)
        assert bank["rare"][index] == pytest.approx(np.mean(1 - (1 - share * rates) ** k), rel=1e-8)
    np.testing.assert_allclose(bank["shares"], np.histogram(rates, 20, (0, 1))[0] / 40)
    assert answer("bank", {"modes": 3, "rare_modes": 9})["rare_modes"] == 2


def test_answers_in_advance_are_the_answers_to_a_few_digits():
    stored = list(json.loads(LINKED_TABLES.read_text()))
    table = next(table for table in stored if table["parameters"]["scale"] == "mean")
    assert table == table_in_advance("linked", table["parameters"], LINKED_SIZES)
    assert not any(table["parameters"]["difficulty"] == "history" for table in stored)  # it reads the batches before
    tables = {tuple(entry["parameters"].values()): entry for entry in tables_in_advance("f_grpo")}
    assert (8.0, "grpo") in tables
    for table in (tables[0.5, "grpo"], tables[1.0, "maxrl"]):
        curves = answer("masses", {"weight": write_weight("f_grpo", table["parameters"]), "group_size": 16})
        np.testing.assert_allclose(table["groups"]["16"]["success"], curves["success"], rtol=1e-3)
        limit = table["limit"]["success"]
        np.testing.assert_allclose(np.array(limit, float), np.array(curves["limit"]["success"], float), rtol=1e-3)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("masses", {"weight": "ds_grpo"}), ("masses", {"group_size": 0}), ("formula", {"weight": "grpo"}),
        ("formula", {"weight": "=p +"}), ("bank", {"q": 3}),
    ],
)  # fmt: skip
def test_a_question_that_cannot_be_read_is_refused_in_one_line(path, body):
    with pytest.raises(InputError) as caught:
        answer(path, body)
    assert "\n" not in str(caught.value)


# Formulas: read, evaluated and refused by Python, without running anything as code

# The same numbers by hand: a rollout of reward r in a group of G, X of them correct.
FORMULAS = {
    "r - p": lambda r, X, G, g: r - X / G,
    "(1 - p)^g * (r - p)/s": lambda r, X, G, g: (1 - X / G) ** g * (r - X / G) / math.sqrt(X / G * (1 - X / G)),
    "-2^2": lambda r, X, G, g: -4.0,
    "2^3^2 / 8": lambda r, X, G, g: 64.0,
    "1 - 2 - 3": lambda r, X, G, g: -4.0,
    "8 / 4 / 2": lambda r, X, G, g: 1.0,
    "min(G, 3) + max(p, q)": lambda r, X, G, g: min(G, 3) + max(X / G, 1 - X / G),
    "sqrt(abs(r - p)) * exp(-p) + log(G)": lambda r, X, G, g: (
        math.sqrt(abs(r - X / G)) * math.exp(-X / G) + math.log(G)
    ),
    "r*1.5e0 - .5": lambda r, X, G, g: 1.5 * r - 0.5,
    "--r": lambda r, X, G, g: float(r),
}
GROUPS = [[1.0, 0.0], [1.0, 0.0, 0.0, 0.0, 1.0], [1.0] * 3 + [0.0] * 13]


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("g", [0.0, 0.5, 2.0])
def test_a_formula_weighs_every_rollout_as_by_hand(formula, g):
    weight = f"={formula}@g={g}" if has_g(read(formula)) else f"={formula}"
    name, parameters = read_weight(weight)
    for group in GROUPS:
        expected = [FORMULAS[formula](r, sum(group), len(group), g) for r in group]
        np.testing.assert_allclose(simlab.advantages(name, np.array(group), **parameters), expected, rtol=1e-13)


def test_what_is_not_finite_counts_as_nothing():
    for formula in ("(r - p)/s", "log(p - 1)", "1/0", "(p - 2)^0.5", "exp(exp(99))"):
        name, parameters = read_weight(f"={formula}")
        with np.errstate(all="ignore"):
            assert simlab.advantages(name, np.ones(4), **parameters).tolist() == [0.0] * 4


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "formula '' cannot be read; allowed: p, q, r, s, G, g, numbers, "),
        ("p +", "formula 'p +' cannot be read"),
        ("__import__('os').system('true')", "cannot be read at character 1"),
        ("p.__class__", "cannot be read at character 2"),
        ("sqrt(p, q)", "cannot be read"),
        ("min(p)", "cannot be read"),
        ("p//q", "cannot be read"),
        ("(p", "cannot be read"),
        ("1e999", "cannot be read"),
        ("p" + "+p" * 200, "is too long; allowed: up to 200 characters"),
    ],
)
def test_what_is_no_formula_is_refused_in_one_line(text, reason):
    with pytest.raises(InputError) as caught:
        read(text)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_the_text_of_a_formula_is_kept_and_its_number_held_to_what_is_allowed():
    assert hold_weight("=  p^g@g=1.50", closed=True) == ("=p^g@g=1.5", "")
    assert hold_weight("=p@g=3", closed=False) == ("=p", "")
    assert write_weight(*read_weight("=p^g@g=1.5")).endswith("(g=1.5)")
    with pytest.raises(InputError, match=r"g = '-1' is not allowed; allowed: \[0, 8\]"):
        hold_weight("=p^g@g=-1", closed=True)


@pytest.mark.parametrize(
    "formula", ["(1 - p)^g * (r - p)/s", "min(G, 3) + max(p, q)", "sqrt(abs(r - p)) * exp(-p) + log(G)"]
)
def test_the_python_lines_of_a_formula_make_the_estimator_that_it_is(formula, tmp_path):
    weight = f"={formula}@g=0.5" if has_g(read(formula)) else f"={formula}"
    (tmp_path / "mine.py").write_text(python_lines(weight))
    built = estimator_constructor(f"{tmp_path}/mine.py:weight")()
    for group in GROUPS:
        expected = [FORMULAS[formula](r, sum(group), len(group), 0.5) for r in group]
        np.testing.assert_allclose(simlab.advantages(built, np.array(group)), expected, rtol=1e-12)
