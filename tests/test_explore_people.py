"""The page for people: the map by keys, comparisons, own formulas and results, the tour, undo, help, phones."""

import itertools
import math
import re
import time

import numpy as np
import pytest
import xarray as xr
from explorer_cases import explorer, watched

from simlab.explore.controls import PANELS

pytestmark = pytest.mark.browser

FORMULA = "%3D(1%20-%20p)%5Eg%20*%20(r%20-%20p)%2Fs%40g%3D0.5"  # =(1 - p)^g * (r - p)/s@g=0.5
PIN = "weight%3Df_grpo(gamma%3D0,base%3Dgrpo)%26actions%3D32%26steps%3D50"
HALF = PIN.replace("gamma%3D0,", "gamma%3D0.5,")
MEANS = """document.getElementById("chart").data.filter(
    (trace) => trace.csv?.includes("q_pos") && trace.csv.includes("mean of")).map((trace) => trace.y)"""
SMALL = "run.actions=32&run.steps=50&run.seeds=4"


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    path = tmp_path_factory.mktemp("own") / "mine.nc"
    values = np.random.default_rng(0).uniform(size=(2, 3, 4, 5))
    xr.Dataset(
        {"q_pos": (("arm", "group_size", "seed", "step"), values)},
        coords={"arm": ["grpo", "maxrl"], "group_size": [2, 8, 32], "step": [0, 5, 10, 15, 20]},
    ).to_netcdf(path, engine="h5netcdf")
    return path, values


@pytest.fixture(scope="module")
def server(result):
    with explorer("--port", "0", str(result[0])) as found:
        yield found


@pytest.fixture
def seen(browser, server):
    with watched(browser, server.address) as found:
        yield found
    assert found.elsewhere == []
    assert found.complaints == []


@pytest.fixture
def alone(browser, exported):
    """The exported page, which simulates nothing and so is quick."""
    with watched(browser, exported) as found:
        found.open(exported)
        yield found
    assert (found.elsewhere, found.complaints) == ([], [])


def until(found, holds, seconds=120):
    """Wait until something holds of a page."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, [found.text(place) for place in ("#status", "#said", "#error", "#readout")]
        found.page.wait_for_timeout(100)


def drawn(found):
    found.page.evaluate("() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")


def address_of(found):
    return found.page.evaluate("decodeURIComponent(window.location.href)")


def names_of(found):
    return found.page.evaluate("document.getElementById('chart').data.map((trace) => trace.name || '')")


def looks_of(found, holds):
    """Colour, dash and mark of every line whose name holds a text."""
    return found.page.evaluate(
        """(holds) => document.getElementById("chart").data
            .filter((trace) => trace.visible !== false && trace.meta !== "band" && trace.name?.includes(holds))
            .map(({line, marker, xaxis}) => [xaxis, line.color, line.dash, marker?.symbol].join(" "))""",
        holds,
    )


# The map


def test_the_map_is_there_at_once_also_without_a_server_and_keys_choose_and_pin_a_cell(alone):
    assert alone.page.get_attribute("nav [aria-selected=true]", "id") == "tab-map"
    assert "45 of 45 cells are simulated" in alone.text("#readout")
    alone.page.focus("#chart")
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "Enter"):
        alone.page.keyboard.press(key)
        drawn(alone)
    assert "map.cell=64,0.5&map.pinned=16,0;64,0.5" in address_of(alone)
    assert alone.page.locator(".pins li").count() == 2
    assert "group size 64, gamma 0.5" in names_of(alone)
    link = address_of(alone)
    alone.open(link)
    assert address_of(alone) == link


def test_a_frame_stands_around_the_pointed_cell_and_each_pinned_one_in_the_colour_of_its_training(alone, exported):
    alone.open(f"{exported}#panel=map&map.cell=16,1&map.pinned=32,0;512,2")
    frames = alone.page.evaluate(
        """document.getElementById("chart").layout.shapes.filter((one) => one.line.width === 3).map((one) => [
            (one.x0 + one.x1) / 2, (one.y0 + one.y1) / 2, one.line.color])"""
    )
    trained = alone.page.evaluate(
        """document.getElementById("chart").data.filter((trace) => trace.csv?.startsWith("retained mass of"))
            .map((trace) => trace.line.color)"""
    )
    # Columns and rows of the cells; the pointed one is drawn last, over the others.
    assert frames[::-1] == [[3, 3, trained[0]], [4, 0, trained[1]], [8, 4, trained[2]]]


def test_a_quantity_that_is_the_same_everywhere_has_no_best_and_no_worst(alone, exported):
    alone.open(f"{exported}#panel=map&map.quantity=pass@256")
    assert "With gamma 0 it is 1 at every group size." in alone.text("#readout")
    assert "best" not in alone.text("#readout")
    heat = "(({zmin, zmax}) => [zmin, zmax])(document.getElementById('chart').data[0])"
    assert alone.page.evaluate(heat) == [0, 1]


def test_the_scrubber_shows_every_cell_as_it_was(alone):
    ends = []
    for at in ("1", "0"):
        alone.page.fill("#map-at-box", at)
        alone.page.keyboard.press("Enter")
        drawn(alone)
        ends.append(alone.page.evaluate("document.getElementById('chart').data[0].z.flat()"))
    assert min(ends[0]) < 0.7 < min(ends[1])


def test_a_map_of_other_settings_is_simulated_cell_by_cell(seen, server):
    view = "panel=map&map.across=correct%20share&map.down=gamma&map.actions=64&map.steps=50&map.seeds=4"
    seen.open(f"{server.address}#{view}&map.cell=0.16,1&map.pinned=&map.quantity=correct%20mass")
    until(seen, lambda: "35 of 35 cells are simulated" in seen.text("#readout"))
    assert all(0 <= one <= 1 for one in seen.page.evaluate("document.getElementById('chart').data[0].z.flat()"))


@pytest.mark.parametrize(
    ("view", "said"),
    [
        ("map.across=gamma", "across and down are both gamma; allowed: two axes that differ"),
        ("map.across=overlap", "one policy have no overlap; allowed: group size, gamma"),
        (
            "map.weight=asym_grpo(delta=2)",
            "the focal weight goes on no asym_grpo(delta=2); allowed with ",
        ),
    ],
)
def test_axes_that_do_not_go_together_are_said(alone, exported, view, said):
    alone.open(f"{exported}#panel=map&{view}")
    assert said in alone.text("#readout")


# Comparisons


def test_simulation_opens_with_a_comparison_whose_differences_are_those_of_its_runs(seen, server):
    seen.open(f"{server.address}#panel=run&{SMALL}&run.learning_rate=0.1&run.pinned={PIN}%26learning_rate%3D0.1")
    until(seen, lambda: "2 runs: 4 of 4 seeds" in seen.text("#status"))
    first, other = seen.page.evaluate(MEANS)
    seen.page.select_option("#run-compare", "difference")
    drawn(seen)
    (difference,) = seen.page.evaluate(MEANS)
    np.testing.assert_allclose(difference, np.subtract(other, first), atol=2e-6)
    assert "against f_grpo(gamma=0,base=grpo)" in seen.text("#readout")
    seen.page.select_option("#run-compare", "difference at equal correct mass")
    drawn(seen)
    assert "difference of steps" in seen.page.evaluate("document.getElementById('chart').layout.annotations[0].text")


BANKS = "panel=bank&bank.prompts=16&bank.steps=20&bank.seeds=4&bank.pinned=prompts%3D16%26steps%3D20%26weight%3Dmaxrl"
TITLES = "document.getElementById('chart').layout.annotations.map((note) => note.text)"


def test_banks_are_compared_by_seed_at_equal_steps_and_at_equal_pass_at_1(seen, server):
    seen.open(f"{server.address}#{BANKS}")
    until(seen, lambda: "Against maxrl: a rare mode in 256 samples" in seen.text("#readout"))
    assert "a rare mode in 4096 samples: maxrl" in names_of(seen)
    seen.page.select_option("#bank-compare", "at equal correct mass")
    drawn(seen)
    assert "Against maxrl at pass@1 of" in seen.text("#readout")
    assert "over the training, at equal pass@1" in seen.page.evaluate(TITLES)
    seen.page.select_option("#bank-compare", "difference at equal correct mass")
    drawn(seen)
    assert "difference from the first, at equal pass@1" in seen.page.evaluate(TITLES)


@pytest.mark.parametrize("panel", ["run", "bank", "tree"])
def test_a_click_pins_the_run_that_a_panel_opens_with(alone, exported, panel):
    alone.open(f"{exported}#panel={panel}&{panel}.pinned=")
    assert alone.page.locator(".pins li").count() == 0
    alone.page.click("text=Pin this run to compare")
    drawn(alone)
    assert alone.page.locator(".pins li").count() == 1
    link = address_of(alone)
    alone.open(link)
    assert alone.page.locator(".pins li").count() == 1
    assert "not computed in advance" not in alone.text("#status")


def test_without_a_server_no_run_is_drawn_under_the_name_of_another(alone, exported):
    alone.open(f"{exported}#panel=run&run.pinned=weight%3Dmaxrl;weight%3Df_grpo(gamma%3D0,base%3Dgrpo)")
    assert "not computed in advance: maxrl (simlab explore)" in alone.text("#status")
    assert "maxrl" not in names_of(alone)
    assert "f_grpo(gamma=0,base=grpo)" in names_of(alone)
    alone.open(f"{exported}#panel=run&run.weight=maxrl&run.pinned=")
    assert "shown: estimator f_grpo(gamma=0,base=grpo)" in alone.text("#status")
    assert "maxrl" not in names_of(alone)
    assert "f_grpo(gamma=0,base=grpo)" in names_of(alone)
    assert "--estimator f_grpo" in alone.text("#command")


def test_what_the_simulation_opens_with_is_compared_without_a_server_too(alone, exported):
    for way in ("difference", "at equal correct mass", "difference at equal correct mass"):
        alone.open(f"{exported}#panel=run&run.compare={way}")
        lines = alone.page.evaluate(
            "document.getElementById('chart').data.filter((trace) => trace.csv?.includes('mean of')).map((t) => t.y)"
        )
        assert len(lines) == (4 if way.startswith("difference") else 8)
        assert all(any(one is not None for one in line) for line in lines)
    assert "against f_grpo(gamma=0,base=grpo)" in alone.text("#readout")
    assert alone.text("#said") == ""


def test_theory_is_beside_correct_mass_retained_mass_and_entropy(alone, exported):
    alone.open(f"{exported}#preset=expected-drift")
    assert names_of(alone).count("theory of the sliders' run") == 4
    for quantity in ("correct mass", "retained mass", "entropy", "pass@16"):
        alone.open(f"{exported}#panel=map&map.quantity={quantity}")
        assert "theory without noise of the pointed cell" in names_of(alone)


def test_a_map_that_was_not_computed_is_said(alone, exported):
    alone.open(f"{exported}#panel=map&map.learning_rate=0.1")
    assert alone.text("#status") == "this map was not computed in advance: simlab explore"


def test_banks_that_were_computed_in_advance_are_simulated_where_they_are_compared(seen, server):
    """What is computed in advance holds no seeds, so that no difference could be paired."""
    seen.open(f"{server.address}#panel=bank&bank.pinned=beta_a%3D0.3%26beta_b%3D0.7")
    until(seen, lambda: "Against" in seen.text("#readout"))


def test_methods_of_a_tree_are_compared_at_equal_accuracy(seen, server):
    seen.open(f"{server.address}#panel=tree&tree.steps=50&tree.pinned=steps%3D50%26group_size%3D8")
    until(seen, lambda: "Modes held more than with" in seen.text("#readout"))
    seen.page.select_option("#tree-compare", "at equal correct mass")
    drawn(seen)
    assert "first has an accuracy of" in seen.text("#readout")
    assert "Modes held at an accuracy of" in seen.text("#readout")
    assert re.search(r"the most are kept by \S.* \S+ of 6 at an accuracy of \S+, the fewest by ", seen.text("#readout"))


@pytest.mark.parametrize(
    ("panel", "holds", "axes"),
    [("run", "group size G", 4), ("bank", "any answer, trained", 1), ("bank", "a rare mode", 2)],
)
def test_twelve_pinned_runs_are_told_apart_and_the_thirteenth_is_refused(seen, server, panel, holds, axes):
    small = {"run": SMALL, "bank": "bank.steps=20&bank.seeds=4&bank.prompts=8"}[panel]
    given = {"run": "actions=32&steps=50", "bank": "steps=20&prompts=8"}[panel]
    pins = ";".join(f"{given}&group_size={size}" for size in range(3, 15)).replace("&", "%26").replace("=", "%3D")
    seen.open(f"{server.address}#panel={panel}&{small}&{panel}.pinned={pins}")
    until(seen, lambda: "13 runs: 4 of 4 seeds" in seen.text("#status") or "13 runs: 8 of 8" in seen.text("#status"))
    drawn(seen)
    looks = looks_of(seen, holds)
    assert len(set(looks)) == len(looks) >= 13 * axes
    assert seen.page.is_disabled("text=Pin this run to compare")
    assert seen.text(".full") == "12 runs are pinned, as many as are compared: remove one to pin another."
    assert seen.text("#command").count("simlab sweep") == 13


def test_twelve_pinned_estimators_are_told_apart_and_the_extremes_are_named(alone, exported):
    pins = ";".join(f"f_grpo(gamma={gamma / 2},base=grpo)" for gamma in range(1, 13))
    alone.open(f"{exported}#panel=masses&masses.weight=easy_power(alpha=3)&masses.pinned={pins}")
    looks = looks_of(alone, "m<sub>S</sub> = m<sub>F</sub>")
    assert len(set(looks)) == len(looks) == 26  # lines, and points of the group size
    assert alone.text(".full").startswith("12 estimators are pinned")
    assert alone.text("#command").count("masses('") == 13
    readout = alone.text("#readout")
    assert "Of the 13 weights f_grpo(gamma=6,base=grpo) turns most to prompts that are seldom solved" in readout
    assert "easy_power(alpha=3) most to those that often are" in readout


# Formulas


def test_a_formula_is_drawn_simulated_and_refused_where_it_is_none(seen, server):
    seen.open(f"{server.address}#panel=masses&masses.pinned=f_grpo(gamma=0.5,base=grpo)&masses.weight={FORMULA}")
    lines = [line for line in seen.lines() if len(line) > 100]
    np.testing.assert_allclose(lines[0], lines[1], atol=2e-6)
    seen.page.fill("#masses-weight-formula", "p +")
    seen.page.keyboard.press("Enter")
    drawn(seen)
    assert "formula 'p +' cannot be read at its end; allowed: p, q, r, s, G, g" in seen.text("#error")
    seen.open(f"{server.address}#panel=run&{SMALL}&run.pinned={HALF}&run.weight={FORMULA}")
    until(seen, lambda: "2 runs: 4 of 4 seeds" in seen.text("#status"))
    formula, named = seen.page.evaluate(MEANS)
    np.testing.assert_allclose(formula, named, atol=1e-4)


def test_an_own_weight_goes_to_all_panels_at_once_and_undo_takes_it_back(alone, exported):
    alone.open(f"{exported}#panel=masses&masses.weight={FORMULA}")
    before = address_of(alone)
    alone.page.click("text=Use in all panels")
    drawn(alone)
    assert alone.text("#said").endswith("@g=0.5 is in all panels now")
    for panel in ("map", "step", "run", "bank", "interference"):
        alone.page.click(f"#tab-{panel}")
        assert alone.page.input_value(f"#{panel}-weight-formula") == "(1 - p)^g * (r - p)/s"
        assert alone.page.input_value(f"#{panel}-weight-g-box") == "0.5"
    alone.page.click("#tab-step")
    assert alone.text("#readout").startswith("Rewards 0.707 and -0.707")  # at p = 1/2: 0.5^0.5, -0.5^0.5
    while alone.page.is_enabled("#undo"):
        alone.page.click("#undo")
    drawn(alone)
    assert address_of(alone) == before


def test_a_weight_without_masses_goes_to_the_other_panels(alone, exported):
    alone.open(f"{exported}#panel=run&run.weight=fade_entropy")
    alone.page.click("text=Use in all panels")
    drawn(alone)
    assert alone.text("#said") == (
        "fade_entropy is in all panels now but Gradient masses and One step, which need its masses"
    )
    assert "step.rewards" not in address_of(alone)


# Results


def test_a_result_is_drawn_with_sliders_over_its_dimensions(seen, server, result):
    seen.open(f"{server.address}#panel=results")
    means = "document.getElementById('chart').data.filter((trace) => trace.showlegend).map((trace) => trace.y)"
    until(seen, lambda: len(seen.page.evaluate(means)) == 2)
    np.testing.assert_allclose(seen.page.evaluate(means), result[1][:, 0].mean(axis=1), rtol=1e-5)
    seen.page.focus("#results-group_size")
    seen.page.keyboard.press("ArrowRight")
    until(seen, lambda: "at group_size 8" in seen.text("#readout"))
    np.testing.assert_allclose(seen.page.evaluate(means), result[1][:, 1].mean(axis=1), rtol=1e-5)
    assert seen.page.locator("#results-step").is_hidden()
    assert seen.page.evaluate("document.getElementById('chart').layout.xaxis.type") == "linear"
    seen.page.select_option("#results-axes", "logarithmic across")
    drawn(seen)
    kinds = "['xaxis', 'yaxis'].map((axis) => document.getElementById('chart').layout[axis].type)"
    until(seen, lambda: seen.page.evaluate(kinds) == ["log", "linear"])
    seen.page.select_option("#results-axes", "logarithmic")
    until(seen, lambda: seen.page.evaluate(kinds) == ["log", "log"])
    seen.page.select_option("#results-view", "map")
    drawn(seen)
    assert np.shape(seen.page.evaluate("document.getElementById('chart').data[0].z")) == (2, 5)
    seen.page.select_option("#results-lines", "step")
    drawn(seen)
    assert "across and lines are both step" in seen.text("#readout")


# Undo, tour, help


def test_undo_takes_changes_back_one_by_one(alone, exported):
    alone.open(f"{exported}#panel=miss")
    first = address_of(alone)
    assert alone.page.is_disabled("#undo")
    for size in ("32", "64"):
        alone.page.fill("#miss-group_size-box", size)
        alone.page.keyboard.press("Enter")
        alone.page.wait_for_timeout(700)
    alone.page.click("#tab-masses")
    alone.page.click("#undo")
    assert "panel=miss" in address_of(alone)
    assert alone.page.input_value("#miss-group_size-box") == "64"
    alone.page.focus("#miss-group_size")
    alone.page.keyboard.press("Control+z")
    drawn(alone)
    assert alone.page.input_value("#miss-group_size-box") == "32"
    alone.page.click("#undo")
    drawn(alone)
    assert address_of(alone) == first


def test_links_that_are_picked_from_lists_are_drawn_in_masses_and_in_one_step_with_their_python_lines(seen, server):
    seen.open(
        f"{server.address}#panel=masses&masses.weight=linked(scale%3Dmean,sign%3Drelu)&masses.pinned=grpo;%3Dr - p"
    )
    until(seen, lambda: any(name.startswith("linked") for name in names_of(seen)))
    lines = seen.page.evaluate(
        "document.getElementById('chart').data.filter((trace) => trace.name.startsWith('linked') && "
        "trace.mode === 'markers').map((trace) => trace.y)"
    )
    rates = np.arange(9) / 8
    np.testing.assert_allclose(lines[0], np.where(rates > 0, 1 - rates, 0), atol=1e-9)  # p (1 - p) / p
    np.testing.assert_allclose(lines[1], 0, atol=1e-9)
    for name in ("linked", "grpo", "=r - p"):
        assert f"'weight': '{name}" in seen.text("#command")
    seen.page.click("#controls summary")
    until(seen, lambda: "    return linked(\n" in seen.text("#controls pre"))
    seen.open(f"{server.address}#panel=step&step.rewards=the estimator&step.weight=linked(scale%3Dmean,sign%3Drelu)")
    until(seen, lambda: "Rewards 1 and 0," in seen.text("#readout"))  # p = 4/8: (1 - p) / p
    assert seen.page.is_hidden("#step-correct_reward")
    seen.open(f"{server.address}#panel=step")
    assert seen.page.is_hidden("#step-weight")


def test_linked_choices_are_drawn_without_a_server_in_groups_that_were_computed_in_advance(alone, exported):
    linked = "linked(scale%3Dmean,sign%3Drelu)"
    alone.open(f"{exported}#panel=masses&masses.weight={linked}")
    lines = alone.page.evaluate(
        "document.getElementById('chart').data.filter((trace) => trace.mode === 'markers').map((trace) => trace.y)"
    )
    rates = np.arange(9) / 8
    np.testing.assert_allclose(lines[0], np.where(rates > 0, 1 - rates, 0), rtol=5e-4)  # p (1 - p) / p
    np.testing.assert_allclose(lines[1], 0)
    alone.open(f"{exported}#panel=step&step.rewards=the estimator&step.weight={linked}")
    assert alone.text("#readout").startswith("Rewards 1 and 0,")  # p = 4/8: (1 - p) / p
    for setting in ("masses.group_size=9", "masses.weight=linked(difficulty%3Dfocal,gamma%3D2)"):
        alone.open(f"{exported}#panel=masses&masses.weight={linked}&{setting}")
        assert "were not computed in advance: simlab explore; allowed: groups of 4, 8, 16" in alone.text("#said")


def test_the_tour_goes_through_six_views_and_moves_their_controls(alone):
    alone.page.click("#tour-start")
    panels = ["map", "miss", "run", "masses", "bank", "interference"]
    for step, panel in enumerate(panels, start=1):
        assert alone.text("#tour-title").startswith(f"{step} of 6: ")
        assert alone.page.get_attribute("nav [aria-selected=true]", "id") == f"tab-{panel}"
        assert alone.text("#error") == ""
        if step == 2:
            until(alone, lambda: alone.page.input_value("#miss-group_size-box") in ("2", "4", "8"), 20)
        if step < 6:
            alone.page.click("#tour-next")
    assert alone.page.is_disabled("#tour-next")
    assert "tour=6" in address_of(alone)
    alone.page.click("#tour-end")
    drawn(alone)
    assert alone.page.is_hidden("#tour")
    assert "tour" not in address_of(alone)


def test_help_is_seen_on_focus_and_on_hover(alone, exported):
    alone.open(f"{exported}#panel=miss")
    tip = alone.page.locator("#miss-target_mass-help")
    assert tip.is_hidden()
    alone.page.focus("[aria-describedby=miss-target_mass-help]")
    assert tip.is_visible()
    alone.page.focus("#chart")
    alone.page.hover("[aria-describedby=miss-target_mass-help]")
    assert tip.is_visible()
    assert alone.page.locator("#symbols button").count() == 3
    alone.open(f"{exported}#panel=run")
    alone.page.focus("[aria-describedby=run-weight-gamma-help]")
    assert alone.page.inner_text("#run-weight-gamma-help").startswith("exponent of the focal weight")
    assert alone.page.locator("#run-weight-gamma-help").is_visible()


@pytest.mark.parametrize("panel", [panel for panel in PANELS if panel != "miss"])
def test_every_symbol_says_what_it_means_and_every_control_what_it_does(alone, exported, panel):
    alone.open(f"{exported}#panel={panel}")
    tips = alone.page.evaluate("[...document.querySelectorAll('.tip')].map((tip) => tip.textContent)")
    assert all(tip not in ("", "undefined") for tip in tips)
    fields = alone.page.locator("#controls input[type=range], #controls .heading select:not([id*=cell-])").count()
    assert alone.page.locator("#controls .help").count() == fields


def test_an_old_notice_does_not_stay_beside_a_new_error(alone, exported):
    alone.open(f"{exported}#panel=miss")
    for text, said, error in (("-5", "held at 1", ""), ("abc", "", "'abc' is not a number")):
        alone.page.fill("#miss-group_size-box", text)
        alone.page.keyboard.press("Enter")
        drawn(alone)
        assert said in alone.text("#said")
        assert error in alone.text("#error")
    assert alone.text("#said") == ""


def test_a_bad_weight_in_a_link_says_what_is_shown_instead(alone, exported):
    alone.open(f"{exported}#panel=run&run.weight=nosuch")
    assert alone.text("#error").startswith("estimator = 'nosuch' is unknown; allowed: ")
    assert alone.text("#error").endswith("Shown instead: f_grpo(gamma=1,base=grpo)")


def test_a_link_of_the_server_opens_in_the_exported_page(alone):
    alone.page.fill("#paste", "http://127.0.0.1:8737/#panel=miss&miss.group_size=64")
    alone.page.keyboard.press("Enter")
    until(alone, lambda: alone.page.locator("#miss-group_size-box").count() > 0, 20)
    assert alone.page.input_value("#miss-group_size-box") == "64"


# Looks


@pytest.mark.parametrize("panel", PANELS)
def test_on_a_phone_controls_stand_above_the_plot_and_nothing_is_cut_off(alone, exported, panel):
    alone.page.set_viewport_size({"width": 390, "height": 844})
    alone.open(f"{exported}#panel={panel}")
    assert alone.page.evaluate("document.documentElement.scrollWidth") == 390
    controls, chart = (alone.page.locator(place).bounding_box() for place in ("#controls", "#chart"))
    assert controls["y"] + controls["height"] <= chart["y"]
    alone.page.evaluate("document.getElementById('chart').scrollIntoView()")
    assert alone.page.locator("#controls").bounding_box()["y"] < 400
    assert cut_off(alone) == []
    assert overlapping(alone) == []
    tab = alone.page.locator(f"#tab-{panel}").bounding_box()
    assert tab["x"] >= 0
    assert tab["x"] + tab["width"] <= 390


def overlapping(found):
    """Titles of panels on which the labels of another panel's axis stand."""
    return found.page.evaluate(
        """() => {
            const boxes = (place) => [...document.querySelectorAll(`#chart ${place}`)].map((one) =>
                [one.textContent, one.getBoundingClientRect()]);
            const meet = (one, other) => one.left < other.right - 1 && other.left < one.right - 1
                && one.top < other.bottom - 1 && other.top < one.bottom - 1;
            return boxes(".annotation-text").flatMap(([title, box]) =>
                boxes(".xaxislayer-above text, .g-xtitle text, .g-x2title text, .g-x3title text")
                    .filter(([, tick]) => meet(box, tick)).map(([tick]) => `${title}: ${tick}`));
        }"""
    )


@pytest.mark.parametrize("width", [1280, 1400])
def test_titles_of_the_tree_fit_into_their_columns(alone, exported, width):
    alone.page.set_viewport_size({"width": width, "height": 900})
    alone.open(f"{exported}#panel=tree")
    boxes = alone.page.evaluate(
        """[...document.querySelectorAll("#chart .annotation-text")].map((one) => one.getBoundingClientRect())
            .map(({left, right}) => [left, right])"""
    )
    assert len(boxes) == 3
    assert all(right < after for (_, right), (after, _) in itertools.pairwise(boxes))
    assert cut_off(alone) == []


def cut_off(found):
    """Titles that reach beyond the chart."""
    return found.page.evaluate(
        """[...document.querySelectorAll("#chart .annotation-text")].filter((title) => {
            const [own, all] = [title, document.getElementById("chart")].map((one) => one.getBoundingClientRect());
            return own.left < all.left - 1 || own.right > all.right + 1 || own.top < all.top - 1;
        }).map((title) => title.textContent)"""
    )


def luminance(colour):
    shares = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    red, green, blue = (share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize(("theme", "ground"), [("light", "#ffffff"), ("dark", "#1c2026")])
def test_every_line_stands_out_from_its_ground(alone, exported, theme, ground):
    for view in ("panel=miss", "preset=fade-fig2", "panel=map"):
        alone.open(f"{exported}#{view}&theme={theme}")
        colours = alone.page.evaluate(
            """document.getElementById("chart").data.map((trace) => trace.line?.color)
                .filter((colour) => /^#/.test(colour))"""
        )
        assert len(set(colours)) > 2
        for colour in colours:
            low, high = sorted((luminance(colour), luminance(ground)))
            assert (high + 0.05) / (low + 0.05) >= 3, colour


def test_the_legend_leaves_the_axis_title_free_after_resizing(alone, exported):
    alone.page.set_viewport_size({"width": 1400, "height": 900})
    alone.open(f"{exported}#preset=fade-fig2")
    for width in (800, 1400):
        alone.page.set_viewport_size({"width": width, "height": 900})
        alone.page.wait_for_timeout(500)
        legend, title = (
            alone.page.locator(place).first.bounding_box() for place in ("#chart .legend", "#chart .xtitle")
        )
        assert legend["y"] >= title["y"] + math.floor(title["height"]) - 2
