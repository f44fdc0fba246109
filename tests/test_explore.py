"""What the explorer knows without its page: settings held to their ranges, estimators as text, presets, the drift."""

import itertools
import math

import numpy as np
import pytest

import simlab
from simlab.cli import main
from simlab.errors import InputError
from simlab.estimators import REGISTRY, chain, estimator
from simlab.estimators.registry import forget
from simlab.explore import parameter_help
from simlab.explore.controls import BY_NAME, CONTROLS, MOST_CELLS, MOST_RUNS, PANELS, SIMULATED
from simlab.explore.description import as_html, description, palette
from simlab.explore.drift import adam_steps, expected_path, plain_steps
from simlab.explore.formula import TAG
from simlab.explore.linked_tables import SIZES, computed_tables, linked_tables
from simlab.explore.mass_table import computed_masses, group_masses, has_table
from simlab.explore.presets import PRESETS, WARM, preset
from simlab.explore.settings import hold, hold_panel
from simlab.explore.weights import hold_weight, parameters_of, read_weight, write_weight
from simlab.plotting import LABELS
from simlab.problems import anchored
from simlab.theory import CLOSED_FORMS


@pytest.fixture(autouse=True)
def _registry_as_before():
    """Other tests go through all registered estimators."""
    yield
    for name in [name for name, entry in REGISTRY.items() if entry.tag == TAG]:
        forget(name)


# Settings


def test_every_control_has_a_panel_a_label_and_a_default_that_it_would_keep():
    for control in CONTROLS:
        assert control.name.partition(".")[0] in PANELS
        assert control.label
        assert hold(control, control.default) == (control.default, "")


@pytest.mark.parametrize(
    ("name", "asked", "held", "said"),
    [
        ("miss.correct_mass", -math.inf, 1e-6, "correct mass μ = -inf is outside [1e-06, 1]; held at 1e-06"),
        ("miss.group_size", 0, 1, "group size G = 0 is outside [1, 131072]; held at 1"),
        ("masses.weight", "pkpo(k=2.6)", "pkpo(k=3)", "pkpo: k = 2.6 is outside [1, 64]; held at 3"),
        ("masses.pinned", ";".join(["grpo"] * 13), ";".join(["grpo"] * 12), "13 estimators are pinned; held at 12"),
        ("miss.group_size", 7.6, 8, "group size G = 7.6 is not whole; held at 8"),
        ("miss.group_size", 7.0, 7, ""),
        ("masses.weight", "grpo", "grpo", ""),
        ("run.pinned", "", "", ""),
        ("run.pinned", "weight=grpo&group_size=64;steps=99", "weight=grpo&group_size=64;steps=99", ""),
        ("run.pinned", "steps=1e4", "steps=2000", "steps = 10000 is outside [50, 2000]; held at 2000"),
        ("run.pinned", ";" * MOST_RUNS, ";" * (MOST_RUNS - 1), "13 runs are pinned; held at 12"),
        ("map.cell", "16,0.50", "16,0.5", ""),
        ("map.pinned", ";".join(["1,2"] * 13), ";".join(["1,2"] * MOST_CELLS), "13 cells are pinned; held at 12"),
        ("run.weight", "= (r - p)/s", "=(r - p)/s", ""),
        ("run.weight", "=p^g@g=0.50", "=p^g@g=0.5", ""),
        ("masses.weight", "t2t(alpha=9)", "t2t(alpha=1)", "t2t: alpha = 9 is outside [0, 1]; held at 1"),
    ],
)
def test_a_value_outside_its_range_is_held_at_the_bound_and_says_so(name, asked, held, said):
    assert hold(BY_NAME[name], asked) == (held, said)


@pytest.mark.parametrize(
    ("name", "asked", "reason"),
    [
        ("miss.correct_mass", "half", "'half' is not a number"),
        ("miss.correct_mass", math.nan, "nan is not a number"),
        ("miss.correct_mass", True, "True is not a number"),
        ("masses.show", "everything", "allowed: masses, peak 1"),
        ("masses.weight", 3, "is no text"),
        ("masses.weight", "grpo(", "cannot be read"),
        ("masses.weight", "grop", r"unknown \(did you mean 'grpo'\?\); allowed: a_grae, "),
        ("masses.weight", "unlikeliness", "unknown; allowed: a_grae, "),
        ("masses.weight", "grpo(gamma=1)", "allowed: ddof"),
        ("masses.weight", "grpo(ddof=2)", "allowed: 0, 1"),
        ("masses.weight", "asym_grpo(delta=x)", "'x' is not a number"),
        ("run.pinned", "pinned=x", "run.pinned has a run with 'pinned'; allowed: settings of the panel run"),
        ("run.pinned", "nothing=1", "run.pinned has a run with 'nothing'"),
        ("run.pinned", "group_size=many", "'many' is not a number"),
        ("map.cell", "16", "allowed: pairs of numbers such as 16,0.5"),
        ("map.cell", "16,nan", "allowed: pairs of numbers"),
        ("run.weight", "=p +", "formula 'p \\+' cannot be read at its end"),
        ("run.weight", "=p^g@g=99", "g = '99' is not allowed; allowed: \\[0, 8\\]"),
        ("step.sampled_correct", "102", "0 or 1 for each action"),
        ("step.sampled_correct", "1" * 9, "0 or 1 for each action"),
    ],
)
def test_a_value_that_cannot_be_read_is_refused(name, asked, reason):
    with pytest.raises(InputError, match=reason):
        hold(BY_NAME[name], asked)


def test_a_panel_has_all_its_settings_the_others_at_their_defaults():
    settings, said = hold_panel("run", {"group_size": 10**6, "actions": 64})
    assert settings["group_size"] == 512
    assert settings["actions"] == 64
    assert settings["steps"] == BY_NAME["run.steps"].default
    assert said == ["group size G = 1e+06 is outside [2, 512]; held at 512"]

    for bad in ([], None, {"group_sizes": 3}):
        with pytest.raises(InputError, match="allowed: "):
            hold_panel("run", bad)


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
    assert parameter_help._HELP.keys() <= used
    of_buttons = ("step.sampled_correct", "step.sampled_incorrect")  # which say what they do
    assert [control.name for control in CONTROLS if not control.help and control.name not in of_buttons] == []


# Presets


def test_every_preset_is_a_view_that_its_panel_would_keep():
    for name in PRESETS:
        view = preset(name)
        settings, said = hold_panel(view.panel, dict(view.settings))
        assert said == []
        assert {key: settings[key] for key in view.settings} == view.settings
    with pytest.raises(InputError, match="fade-fig2"):
        preset("fade-fig3")


def test_what_is_compiled_at_start_is_what_the_presets_need():
    simulated = [view for view in PRESETS.values() if view.panel in SIMULATED]
    assert {panel for panel, _ in WARM} == set(SIMULATED)
    assert all((view.panel, view.settings) in WARM for view in simulated)


# What the page is told


def test_the_page_has_the_colours_and_labels_of_the_figures():
    assert palette()[:2] == ["#0072B2", "#D55E00"]
    assert [as_html(label) for label in LABELS.values()] == [
        "group size G", "learning rate", "correct mass Q<sub>pos</sub>", "retained mass M<sub>ret</sub>", "γ",
    ]  # fmt: skip


def test_the_page_is_told_every_estimator_and_which_have_closed_forms():
    told = description(server=False)["estimators"]
    assert set(told) == set(REGISTRY)
    assert {name for name, own in told.items() if own["success"] is not None} == set(CLOSED_FORMS)


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


@pytest.mark.parametrize("group_size", [2, 3, 5])
def test_the_drift_takes_the_expected_step_over_all_groups(group_size):
    problem = anchored(5, 3, anchor_logit=1.0, correct_logit=0.5)
    logits, correct = problem.listed().logits, problem.listed().correct
    expected = []
    for _ in range(4):
        p = np.exp(logits) / np.exp(logits).sum()
        expected.append(p[correct].sum())
        logits = naive_expected_step(logits, correct, group_size, 0.7)
    found = expected_path(problem, group_masses("dr_grpo", group_size, {}), plain_steps(0.7), np.array([1, 2, 3]))
    np.testing.assert_allclose(found["q_pos"], expected, rtol=1e-12)


def test_the_drift_tells_what_is_retained_and_the_entropy():
    problem = anchored(5, 3, anchor_logit=1.0, correct_logit=0.5)
    logits, correct = problem.listed().logits, problem.listed().correct
    start = np.exp(logits) / np.exp(logits).sum()
    kept, entropy = [], []
    for _ in range(3):
        p = np.exp(logits) / np.exp(logits).sum()
        kept.append(sum(min(one, was) for one, was, right in zip(p, start, correct, strict=True) if right))
        entropy.append(-sum(one * math.log(one) for one in p))
        logits = naive_expected_step(logits, correct, 3, 2.0)
    found = expected_path(problem, group_masses("dr_grpo", 3, {}), plain_steps(2.0), np.array([1, 2]))
    np.testing.assert_allclose(found["retained_mass"], np.array(kept) / start[correct].sum(), rtol=1e-12)
    np.testing.assert_allclose(found["entropy"], entropy, rtol=1e-12)


def test_adam_takes_expected_gradients_as_it_takes_any_others():
    """By the loop of Kingma and Ba, each logit by itself."""
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
    found = expected_path(problem, group_masses("dr_grpo", 3, {}), adam_steps(0.1), np.array([1, 2, 3]))
    np.testing.assert_allclose(found["q_pos"], expected, rtol=1e-9)


def test_without_a_step_or_a_mass_nothing_drifts():
    problem, recorded = anchored(20, 5), np.array([1, 10])
    start = np.exp([5.0] + [3.0] * 4).sum() / (np.exp([5.0] + [3.0] * 4).sum() + 15)
    for masses, rate in ((group_masses("dr_grpo", 4, {}), 0.0), ((np.zeros(5), np.zeros(5)), 1.0)):
        found = expected_path(problem, masses, plain_steps(rate), recorded)
        np.testing.assert_allclose(found["q_pos"], [start] * 3)
        np.testing.assert_allclose(found["retained_mass"], 1)


# Masses of estimators without a closed form


@pytest.mark.parametrize("size", [2, 5])
@pytest.mark.parametrize("name", ["grpo", "maxrl", "asym_grpo", "pkpo"])
def test_masses_that_an_estimator_computes_itself_are_those_of_its_closed_form(name, size):
    own = REGISTRY[name].parameters
    np.testing.assert_allclose(
        computed_masses(name, estimator(name, **own), size), group_masses(name, size, own), atol=1e-9
    )


def test_masses_of_linked_choices_are_sums_over_the_group():
    found = group_masses("linked", 4, {"scale": "mean", "sign": "divide_failures"})
    for correct in range(5):
        weights = np.asarray(simlab.advantages("linked", [1.0] * correct + [0.0] * (4 - correct), scale="mean",
                                               sign="divide_failures"))  # fmt: skip
        assert found[0][correct] == pytest.approx(sum(weights[:correct]) / 4)
        assert found[1][correct] == pytest.approx(-sum(weights[correct:]) / 4)


def test_an_exported_page_holds_the_masses_of_all_linked_choices():
    assert computed_tables((4,)) == {"4": linked_tables()["4"]}
    for size in SIZES:
        rates = np.arange(size + 1) / size
        success, failure = linked_tables()[str(size)]["mean mean none relu"]
        np.testing.assert_allclose(success, np.where(rates > 0, 1 - rates, 0), rtol=5e-4)  # p (1 - p) / p
        assert failure == [0] * (size + 1)
    assert not any("history" in choices for choices in linked_tables()["8"])  # it reads the batches before
    told = {server: description(server=server)["estimators"]["linked"] for server in (False, True)}
    assert told[False]["tables"] == linked_tables()
    assert "tables" not in told[True]  # the server computes any


def test_what_reads_more_than_rewards_or_their_order_has_no_table():
    assert has_table("linked")
    assert not any(has_table(name) for name in CLOSED_FORMS)
    first = chain(lambda advantages, rollouts: advantages * np.arange(advantages.shape[1]))
    with pytest.raises(InputError, match="reads the order of the rollouts"):
        computed_masses("first", first, 3)
    for name in ("running_mean", "ds_grpo"):
        with pytest.raises(InputError, match="reads more than the rewards of one step"):
            computed_masses(name, estimator(name), 3)


# The command


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--port", "70000"], "port = 70000 is outside its range [0, 65535]"),
        (["--port", "x"], "'x' cannot be read; allowed: a whole number"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments, reason, capsys):
    assert main(["explore", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert reason in printed.err
    assert printed.err.count("\n") == 1
