"""The page as one file without a server: every panel, the map, runs in advance, undo, tour, help, phones."""

import re
from urllib.parse import unquote

import numpy as np
import pytest
from explorer_cases import watched

from simlab.explore.controls import PANELS

pytestmark = pytest.mark.browser


@pytest.fixture
def alone(browser, exported):
    with watched(browser, exported) as alone:
        alone.open(exported)
        yield alone
    assert (alone.elsewhere, alone.complaints) == ([], [])


def test_every_panel_works_offline_and_says_what_was_computed_in_advance(alone, exported):
    alone.page.context.set_offline(True)
    for panel in PANELS:
        alone.open(f"{exported}#panel={panel}")
        assert alone.text("#error") == ""
        assert len(alone.lines()) > 0
        if panel in ("map", "run", "interference", "tree", "bank"):
            assert "computed in advance" in alone.text("#status"), panel
            assert alone.page.locator("#controls .locked").count() > 3
    alone.open(f"{exported}#preset=fade-fig2")
    lines = alone.lines()
    alone.page.fill("#masses-group_size-box", "32")
    alone.page.keyboard.press("Enter")
    alone.until(lambda: alone.lines() != lines)
    assert "masses.group_size=32" in alone.address()
    assert alone.text("#said") == ""
    alone.page.fill("#masses-group_size-box", "33")
    alone.page.keyboard.press("Enter")
    alone.until(lambda: "groups of 32 for 33" in alone.text("#said"))


# The map


def test_the_map_is_there_at_once_and_keys_choose_and_pin_a_cell(alone):
    assert alone.page.get_attribute("nav [aria-selected=true]", "id") == "tab-map"
    assert "45 of 45 cells are simulated" in alone.text("#readout")
    ends = []
    for at in ("0", "1"):  # from the base model to the last step
        alone.page.fill("#map-at-box", at)
        alone.page.keyboard.press("Enter")
        alone.drawn()
        ends.append(alone.page.evaluate("document.getElementById('chart').data[0].z.flat()"))
    assert len(ends[1]) == 45
    assert min(ends[1]) < 0.7 < min(ends[0])
    alone.page.focus("#chart")
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "Enter"):
        alone.page.keyboard.press(key)
        alone.drawn()
    assert "map.cell=64,0.5&map.pinned=16,0;64,0.5" in unquote(alone.address())
    assert alone.page.locator(".pins li").count() == 2
    assert "group size 64, gamma 0.5" in alone.names()
    link = alone.address()
    alone.open(link)
    assert alone.address() == link


def test_a_budget_is_dragged_at_equal_rollouts(alone, exported):
    alone.open(f"{exported}#preset=group-size-budget")
    assert "Correct mass: 0.906 at every group size, " in alone.text("#readout")
    alone.open(f"{exported}#preset=group-size-mostly-hard")
    titles = "document.getElementById('chart').layout.annotations.map((note) => note.text)"
    ends = {}
    for power in (18, 16, 14):
        alone.page.fill("#map-rollouts-box", str(2**power))
        alone.page.keyboard.press("Enter")
        alone.until(lambda power=power: f"after 2<sup>{power}</sup> rollouts" in alone.page.evaluate(titles)[0])
        assert "36 of 36 cells are simulated" in alone.text("#readout")
        assert re.search(r"best at group size \d+ ", alone.text("#readout"))
        assert f"--budget {2**power} " in alone.text("#command")
        ends[power] = alone.page.evaluate("document.getElementById('chart').data[0].z.flat()")
    assert np.mean(ends[14]) < np.mean(ends[16]) < np.mean(ends[18])
    for hidden in ("steps", "actions", "learning_rate", "group_size"):
        assert alone.page.locator(f"#map-{hidden}").is_hidden()
    alone.open(f"{exported}#preset=f-grpo-fig2c")
    assert "groups of 512 draw 256 times the rollouts of groups of 2" in alone.text("#readout")
    assert alone.page.locator("#map-rollouts").is_hidden()
    alone.open(f"{exported}#panel=map&map.length=equal rollouts&map.rollouts=262144")
    assert "allowed: 29 to 215" in alone.text("#readout")  # 2^9 and 2^15 in small letters


# Runs that were computed in advance


def test_no_run_is_drawn_under_the_name_of_another(alone, exported):
    alone.open(f"{exported}#panel=map&map.learning_rate=0.1")
    assert "not computed in advance" in alone.text("#status")
    alone.open(f"{exported}#panel=run&run.pinned=weight%3Dmaxrl;weight%3Df_grpo(gamma%3D0,base%3Dgrpo)")
    assert "not computed in advance: maxrl (simlab explore)" in alone.text("#status")
    assert "maxrl" not in alone.names()
    assert "f_grpo(gamma=0,base=grpo)" in alone.names()
    alone.open(f"{exported}#panel=run&run.weight=maxrl&run.pinned=")
    assert "shown: estimator f_grpo(gamma=0,base=grpo)" in alone.text("#status")
    assert "maxrl" not in alone.names()
    assert "--estimator f_grpo" in alone.text("#command")
    for panel in ("run", "bank", "tree"):  # a click pins the run that a panel opens with
        alone.open(f"{exported}#panel={panel}&{panel}.pinned=")
        alone.page.click("text=Pin this run to compare")
        alone.drawn()
        alone.open(alone.address())
        assert alone.page.locator(".pins li").count() == 1
        assert "not computed in advance" not in alone.text("#status")


# Undo, tour, help, links


def test_undo_takes_changes_back_one_by_one(alone, exported):
    alone.open(f"{exported}#panel=miss")
    first = alone.address()
    assert alone.page.is_disabled("#undo")
    for size in ("32", "64"):
        alone.page.fill("#miss-group_size-box", size)
        alone.page.keyboard.press("Enter")
        alone.page.wait_for_timeout(700)
    alone.page.click("#tab-masses")
    alone.page.click("#undo")
    assert "panel=miss" in alone.address()
    assert alone.page.input_value("#miss-group_size-box") == "64"
    alone.page.focus("#miss-group_size")
    alone.page.keyboard.press("Control+z")
    alone.drawn()
    assert alone.page.input_value("#miss-group_size-box") == "32"
    alone.page.click("#undo")
    alone.drawn()
    assert alone.address() == first


def test_what_needs_the_server_says_so_and_notices_do_not_pile_up(alone, exported):
    alone.open(f"{exported}#panel=miss")
    drop = """([name]) => {
        const transfer = new DataTransfer();
        transfer.items.add(new File([new Uint8Array([65])], name));
        document.body.dispatchEvent(new DragEvent("drop", {dataTransfer: transfer, bubbles: true, cancelable: true}));
    }"""
    alone.page.evaluate(drop, ["mine.nc"])
    assert "simlab explore mine.nc" in alone.text("#error")
    for text, note, error in (("-5", "held at 1", ""), ("abc", "", "'abc' is not a number")):
        alone.page.fill("#miss-group_size-box", text)
        alone.page.keyboard.press("Enter")
        alone.drawn()
        assert note in alone.text("#said")
        assert error in alone.text("#error")
    assert alone.text("#said") == ""
    alone.page.fill("#paste", "http://127.0.0.1:8737/#panel=miss&miss.group_size=64")  # a link of a server
    alone.page.keyboard.press("Enter")
    alone.until(lambda: alone.page.input_value("#miss-group_size-box") == "64")


def test_the_tour_goes_through_six_views_and_moves_their_controls(alone):
    alone.page.click("#tour-start")
    panels = ["map", "miss", "run", "masses", "bank", "interference"]
    for step, panel in enumerate(panels, start=1):
        assert alone.text("#tour-title").startswith(f"{step} of 6: ")
        assert alone.page.get_attribute("nav [aria-selected=true]", "id") == f"tab-{panel}"
        assert alone.text("#error") == ""
        if step == 2:
            alone.until(lambda: alone.page.input_value("#miss-group_size-box") in ("2", "4", "8"), 20)
        if step < 6:
            alone.page.click("#tour-next")
    assert alone.page.is_disabled("#tour-next")
    assert "tour=6" in alone.address()
    alone.page.click("#tour-end")
    alone.drawn()
    assert alone.page.is_hidden("#tour")
    assert "tour" not in alone.address()


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
    assert alone.text("#run-weight-gamma-help").startswith("exponent of the focal weight")


# Looks


def test_on_a_phone_controls_stand_above_the_plot_and_nothing_is_cut_off(alone, exported):
    alone.page.set_viewport_size({"width": 390, "height": 844})
    for panel in PANELS:
        alone.open(f"{exported}#panel={panel}")
        assert alone.page.evaluate("document.documentElement.scrollWidth") == 390
        controls, chart = (alone.page.locator(selector).bounding_box() for selector in ("#controls", "#chart"))
        assert controls["y"] + controls["height"] <= chart["y"]
        assert cut_off(alone) == []
        assert overlapping(alone) == []
        tab = alone.page.locator(f"#tab-{panel}").bounding_box()
        assert tab["x"] >= 0
        assert tab["x"] + tab["width"] <= 390


def overlapping(alone):
    return alone.page.evaluate(
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


def cut_off(alone):
    return alone.page.evaluate(
        """[...document.querySelectorAll("#chart .annotation-text")].filter((title) => {
            const [own, all] = [title, document.getElementById("chart")].map((one) => one.getBoundingClientRect());
            return own.left < all.left - 1 || own.right > all.right + 1 || own.top < all.top - 1;
        }).map((title) => title.textContent)"""
    )
