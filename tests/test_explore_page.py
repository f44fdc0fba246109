"""The explorer in a real Chromium without a network: load, drag by keyboard, share a link, export, errors."""

import csv
import io
import re
import shlex
import subprocess
import sys
import time

import pytest
from explorer_cases import downloaded, explorer, watched

from simlab.cli import main
from simlab.explore.controls import CONTROLS, PANELS
from simlab.explore.presets import PRESETS

pytestmark = pytest.mark.browser

PINNED = ("weights", "runs", "cells")  # kinds of controls that have parts of their own
CLOSED = ("miss", "masses", "step")


@pytest.fixture(scope="module")
def server():
    with explorer() as found:
        yield found


@pytest.fixture
def seen(browser, server):
    """A page that may reach the server alone; it must have asked for nothing else, and complained of nothing."""
    with watched(browser, server.address) as found:
        yield found
    assert found.elsewhere == []
    assert found.complaints == []


def wait_for_seeds(found, seeds, seconds=240):
    """Wait until so many seeds are simulated; the policy of the page forbids Playwright's own wait for a function."""
    end = time.monotonic() + seconds
    while f"{seeds} of {seeds} seeds" not in found.text("#status"):
        assert time.monotonic() < end, (found.text("#status"), found.text("#error"))
        found.page.wait_for_timeout(100)
    wait_for_drawing(found)


def wait_for_drawing(found):
    """Wait for two frames: what has changed is drawn in the next one."""
    found.page.evaluate("() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")


def wait_for_other_lines(found, before):
    """Wait for a redrawing, which for a panel that simulates waits for the server."""
    for _ in range(200):
        if found.lines() != before:
            return
        found.page.wait_for_timeout(100)
    raise AssertionError("the lines are the same 20 s later")


def address_of(found):
    return found.page.evaluate("window.location.href")


# Load


@pytest.mark.parametrize("panel", PANELS)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_panel_loads_with_a_chart_and_a_name_for_every_control(seen, server, panel, theme):
    seen.open(f"{server.address}#panel={panel}&theme={theme}")
    assert seen.text("#error") == ""
    assert seen.page.get_attribute("html", "data-theme") == theme
    assert seen.page.locator("#chart .main-svg").count() > 0
    assert len(seen.lines()) > 0
    unnamed = seen.page.evaluate(
        """[...document.querySelectorAll("input, select, button")].filter((control) => !(
            control.labels?.length || control.getAttribute("aria-label") || control.textContent.trim()
        )).map((control) => control.outerHTML)"""
    )
    assert unnamed == []


@pytest.mark.parametrize(("mark", "name"), [("?", "f-grpo-fig2"), *(("#", name) for name in sorted(PRESETS))])
def test_every_preset_opens_its_panel_with_its_settings(seen, server, name, mark):
    seen.open(f"{server.address}{mark}preset={name}")
    assert seen.text("#error") == ""
    assert seen.page.get_attribute("nav [aria-selected=true]", "id") == f"tab-{PRESETS[name].panel}"
    assert seen.text("#about") == PRESETS[name].title


def test_settings_of_the_page_are_those_of_the_server(seen, server):
    """Every control of the description is on the page or has a part of its own, and keeps its default there."""
    own = {"step.sampled_correct", "step.sampled_incorrect"}
    for panel in PANELS:
        seen.open(f"{server.address}#panel={panel}")
        for control in CONTROLS:
            if control.name.startswith(f"{panel}.") and control.name not in own and control.kind not in PINNED:
                assert seen.page.locator(f"#{control.name.replace('.', '-')}").count() == 1, control.name


# Drag by keyboard


@pytest.mark.parametrize(
    ("panel", "slider"),
    [
        ("miss", "miss-group_size"),
        ("masses", "masses-group_size"),
        ("step", "step-correct_mass"),
        ("bank", "bank-beta_a"),
        ("interference", "interference-overlap"),
    ],
)
def test_a_slider_moves_by_keyboard_and_redraws(seen, server, panel, slider):
    seen.open(f"{server.address}#panel={panel}")
    before, value = seen.lines(), seen.page.input_value(f"#{slider}-box")
    seen.page.focus(f"#{slider}")
    for _ in range(4):
        seen.page.keyboard.press("ArrowRight")
    seen.page.wait_for_timeout(300)  # all four steps are drawn
    wait_for_other_lines(seen, before)
    assert seen.page.input_value(f"#{slider}-box") != value
    assert seen.page.get_attribute(f"#{slider}", "aria-valuetext") == seen.page.input_value(f"#{slider}-box")
    assert f"{slider.replace('-', '.')}=" in address_of(seen)


def test_tabs_move_by_arrow_keys(seen, server):
    seen.open(server.address)
    seen.page.focus("#tab-map")
    seen.page.keyboard.press("ArrowLeft")
    assert seen.page.get_attribute("nav [aria-selected=true]", "id") == "tab-tree"
    seen.page.keyboard.press("ArrowRight")
    assert seen.page.evaluate("document.activeElement.id") == "tab-map"


def test_a_group_is_drawn_by_its_seed_and_actions_are_put_into_it(seen, server):
    seen.open(f"{server.address}#panel=step&step.group_size=3&step.seed=5")
    seen.page.click("text=Draw a group with the seed")
    seen.page.wait_for_timeout(200)
    drawn = seen.page.locator(".switches [aria-pressed=true]").all_inner_texts()
    assert 1 <= len(drawn) <= 3
    first = address_of(seen)
    seen.page.locator(".switches button").first.click()
    seen.page.wait_for_timeout(200)
    assert ("c1" in seen.page.locator(".switches [aria-pressed=true]").all_inner_texts()) == ("c1" not in drawn)
    assert address_of(seen) != first


def test_estimators_are_pinned_and_taken_away(seen, server):
    seen.open(f"{server.address}#panel=masses&masses.weight=asym_grpo(delta=0.5)")
    seen.page.click("text=Pin for comparison")
    seen.page.select_option("#masses-weight", "maxrl")
    seen.page.wait_for_timeout(200)
    assert "asym_grpo(delta=0.5)" in seen.text(".pins")
    assert "masses.pinned=asym_grpo" in address_of(seen)
    seen.page.click("[aria-label='remove asym_grpo(delta=0.5)']")
    seen.page.wait_for_timeout(200)
    assert seen.page.locator(".pins li").count() == 0


# Share a link


@pytest.mark.parametrize("panel", CLOSED)
def test_a_link_reproduces_the_view(seen, server, panel):
    seen.open(f"{server.address}#panel={panel}")
    for slider in seen.page.locator("#controls input[type=range]").all():
        slider.focus()
        for _ in range(7):
            seen.page.keyboard.press("ArrowLeft")
    seen.page.wait_for_timeout(300)
    link, lines, numbers = address_of(seen), seen.lines(), seen.text("#readout")
    seen.open(link)
    assert seen.lines() == lines
    assert seen.text("#readout") == numbers
    assert address_of(seen) == link


def test_a_link_reproduces_a_simulation_seed_included(seen, server):
    link = f"{server.address}#panel=run&run.pinned=&run.actions=32&run.steps=50&run.seeds=8&run.seed=7"
    seen.open(link)
    wait_for_seeds(seen, 8)
    lines, full = seen.lines(), address_of(seen)
    assert "run.seed=7" in full
    seen.open(full)
    wait_for_seeds(seen, 8)
    assert seen.lines() == lines
    seen.open(full.replace("run.seed=7", "run.seed=8"))
    wait_for_seeds(seen, 8)
    assert seen.lines() != lines


def test_the_latest_values_win(seen, server):
    seen.open(f"{server.address}#panel=run&run.pinned=&run.actions=32&run.steps=50&run.seeds=8")
    wait_for_seeds(seen, 8)
    seen.page.focus("#run-group_size")
    for _ in range(20):
        seen.page.keyboard.press("ArrowRight")
    wait_for_drawing(seen)  # by then the box shows the last of them, and it is asked for
    size = seen.page.input_value("#run-group_size-box")
    assert f"run.group_size={size}&" in f"{address_of(seen)}&"
    wait_for_seeds(seen, 8)
    lines = seen.lines()
    seen.open(f"{server.address}#panel=run&run.pinned=&run.actions=32&run.steps=50&run.seeds=8&run.group_size={size}")
    wait_for_seeds(seen, 8)
    assert seen.lines() == lines


def test_the_tree_is_trained_by_three_methods(seen, server):
    seen.open(f"{server.address}#panel=tree&tree.steps=50")
    wait_for_seeds(seen, 32)
    titles = seen.page.evaluate("document.getElementById('chart').layout.annotations.map((own) => own.text)")
    assert [title.partition("</b>")[0] for title in titles] == ["<b>GRPO", "<b>GRPO + entropy", "<b>CaSP"]


# The map of interference


def sliders_of(found):
    """The values of the panel's number boxes, by name, and what is chosen."""
    boxes = found.page.locator("#controls .box").all()
    return {box.get_attribute("id"): box.input_value() for box in boxes} | {
        "optimizer": found.page.input_value("#interference-optimizer"),
        "weight": found.page.input_value("#interference-weight"),
    }


def click_cell(found, row, column):
    place = found.page.evaluate(
        """([row, column]) => {
            const chart = document.getElementById("chart");
            const cells = chart.data.find((trace) => trace.type === "heatmap");
            const axisOf = (name) => chart._fullLayout[name[0] + "axis" + name.slice(1)];
            const [x, y] = [axisOf(cells.xaxis), axisOf(cells.yaxis)];
            const corner = chart.getBoundingClientRect();
            return [corner.left + x._offset + x.d2p(column), corner.top + y._offset + y.d2p(row)];
        }""",
        [row, column],
    )
    found.page.mouse.move(*place)
    found.page.wait_for_timeout(300)
    found.page.mouse.click(*place)
    wait_for_drawing(found)


def test_a_click_on_a_cell_and_its_button_set_all_sliders_to_it_and_the_link_holds_it(seen, server):
    seen.page.set_viewport_size({"width": 1280, "height": 1300})
    changed = {"weight": "maxrl", "temperature": 0.5, "learning_rate": 3, "steps": 20, "seeds": 4, "map": "adam"}
    view = "&".join(["#panel=interference", *(f"interference.{name}={value}" for name, value in changed.items())])
    seen.open(server.address + view)
    click_cell(seen, 1, 7)
    clicked, link = sliders_of(seen), address_of(seen)
    wanted = {"overlap": "0.3", "learning_rate": "0.03", "temperature": "1", "conflict": "1", "steps": "20"}
    assert {name: clicked[f"interference-{name}-box"] for name in wanted} == wanted
    assert (clicked["optimizer"], clicked["weight"]) == ("adam", "grpo")
    seen.open(server.address + view)
    seen.page.select_option("#cell-overlap", label="0.3")
    seen.page.select_option("#cell-setting", label="0.03")
    seen.page.focus("text=Set the sliders to this cell")
    seen.page.keyboard.press("Enter")
    wait_for_drawing(seen)
    assert (sliders_of(seen), address_of(seen)) == (clicked, link)


def test_the_readout_says_from_which_k_on_pass_at_k_is_below_the_base_model(seen, server):
    seen.open(f"{server.address}#panel=interference&interference.seeds=8")  # known in advance
    wait_for_seeds(seen, 8)
    said = seen.text("#readout")
    assert re.search(r"pass@k is below the base model from k = 7\.\d on\. At step 3\d, where pass@1 reaches 0\.4", said)
    assert "harms hard prompts beyond an overlap of 0.0143" in said
    seen.open(f"{server.address}#panel=interference&interference.seeds=4&interference.overlap=0")
    wait_for_seeds(seen, 4)
    assert "pass@k is nowhere below the base model" in seen.text("#readout")
    seen.open(f"{server.address}#panel=interference&interference.seeds=8&interference.level=0.9")
    wait_for_seeds(seen, 8)
    assert "Mean pass@1 does not reach 0.9." in seen.text("#readout")


def test_the_map_is_seen_after_the_lines_have_moved_and_on_a_narrow_screen(seen, server):
    seen.open(f"{server.address}#panel=interference&interference.seeds=8&interference.steps=20")
    wait_for_seeds(seen, 8)
    for width in (1280, 390):
        seen.page.set_viewport_size({"width": width, "height": 900})
        wait_for_drawing(seen)
        assert seen.page.locator("#chart .heatmaplayer image, #chart .heatmaplayer .hm image").count() > 0
        assert seen.page.evaluate("document.documentElement.scrollWidth") == width


# Errors


@pytest.mark.parametrize(
    ("view", "where", "what"),
    [
        ("preset=nothing", "#error", "preset = 'nothing' is unknown; allowed: f-grpo-fig1a, "),
        ("panel=nothing", "#error", "panel = 'nothing' is unknown; allowed: map, miss, masses"),
        ("miss.correct_mass=x", "#error", "correct mass μ = 'x' is not a number; allowed: [1e-6, 1]"),
        ("miss.nothing=1", "#error", "setting 'miss.nothing' is unknown"),
        ("miss.correct_mass=3", "#said", "correct mass μ = 3 is outside [1e-6, 1]; held at 1"),
        ("miss.group_size=2.4", "#said", "group size G = 2.4 is not whole; held at 2"),
        ("panel=miss&miss.correct_mass=0.1&miss.target_mass=0.5", "#said", "target mass τ is at most μ; held at 0.1"),
        (
            "panel=masses&masses.weight=grop",
            "#error",
            "estimator = 'grop' is unknown (did you mean 'grpo'?); allowed: a_grae",
        ),
        ("panel=masses&masses.weight=asym_grpo(delta=99)", "#said", "delta = 99 is outside [0.05, 20]; held at 20"),
        ("panel=masses&masses.weight=ds_grpo", "#error", "'ds_grpo' has no masses in closed form"),
        (
            "panel=interference&interference.overlap=2",
            "#said",
            "overlap of features = 2 is outside [-0.5, 0.9]; held at 0.9",
        ),
        ("panel=interference&interference.map=seeds", "#error", "'seeds' is unknown; allowed: conflict, group-size"),
        ("panel=step&step.sampled_correct=11111&step.group_size=2", "#said", "cannot hold 6 actions; held at 6"),
    ],
)
def test_bad_settings_are_held_or_refused_and_say_so(seen, server, view, where, what):
    seen.open(f"{server.address}#{view}")
    assert what in seen.text(where)
    assert len(seen.lines()) > 0


def test_a_number_box_holds_what_is_typed(seen, server):
    seen.open(f"{server.address}#panel=miss")
    seen.page.fill("#miss-correct_mass-box", "7")
    seen.page.keyboard.press("Enter")
    seen.page.wait_for_timeout(200)
    assert "held at 1" in seen.text("#said")
    assert seen.page.input_value("#miss-correct_mass-box") == "1"
    seen.page.fill("#miss-correct_mass-box", "half")
    seen.page.keyboard.press("Enter")
    seen.page.wait_for_timeout(200)
    assert "'half' is not a number" in seen.text("#error")
    assert seen.page.get_attribute("#error", "role") == "alert"


def test_a_server_that_is_gone_is_said(browser):
    with explorer() as own, watched(browser, own.address) as found:
        found.open(own.address)
        own.stop(15)
        found.page.click("#tab-run")
        found.page.wait_for_timeout(1000)
        assert "the server cannot be reached" in found.text("#error")
        assert found.elsewhere == []


# Downloads and commands


@pytest.mark.parametrize("panel", CLOSED)
def test_csv_and_svg_hold_what_is_seen(seen, server, panel, tmp_path):
    seen.open(f"{server.address}#panel={panel}")
    rows = list(csv.reader(io.StringIO(downloaded(seen.page, "#csv", tmp_path))))
    assert len(rows) > 5
    assert len({len(row) for row in rows}) == 1
    drawing = downloaded(seen.page, "#svg", tmp_path)
    assert drawing.startswith("<svg")
    assert "http://" not in drawing.replace("http://www.w3.org/", "")


def run_commands(line, folder):
    """The commands of a line one after the other, as a shell runs them."""
    ended = []
    for words in (shlex.split(one) for one in line.split(" && ")):
        words[:1] = [sys.executable] if words[0] == "python" else [sys.executable, "-m", "simlab.cli"]
        ended.append(subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False, timeout=300))
    return ended


@pytest.mark.parametrize(
    ("view", "printed"),
    [
        ("panel=miss&miss.group_size=4&miss.correct_mass=0.5&miss.target_mass=0.25", "0.25"),
        (
            "panel=masses&masses.weight=power_alpha(alpha=3)&masses.group_size=4",
            "Masses(successes=array([0, 1, 2, 3, 4])",
        ),
        ("panel=step", "0.00"),
        (
            "panel=run&run.actions=32&run.steps=50&run.seeds=4&run.weight=f_grpo(gamma=0.5,base=maxrl)"
            "&run.surrogate=ppo_clip&run.epochs=2&run.lag=4&run.false_positive=0.1"
            "&run.pinned=actions%3D32%26steps%3D50%26weight%3Dgrpo",
            "q_pos",
        ),
        pytest.param("panel=interference&interference.steps=20", "q_pos", marks=pytest.mark.slow),
        pytest.param("panel=bank&bank.k=7", "q_pos", marks=pytest.mark.slow),  # compiles for half a minute each
        pytest.param("panel=tree&tree.steps=50", "q_pos", marks=pytest.mark.slow),
    ],
)
def test_the_command_runs(seen, server, view, printed, tmp_path):
    seen.open(f"{server.address}#{view}")
    for ended in run_commands(seen.text("#command"), tmp_path):
        assert ended.returncode == 0, ended.stderr
        assert printed in ended.stdout


# The exported file


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    path = tmp_path_factory.mktemp("exported") / "page.html"
    assert main(["explore", "--export", str(path)]) == 0
    return path


def test_the_exported_file_works_alone_and_offline(browser, exported):
    with watched(browser, exported.as_uri()) as found:
        found.page.context.set_offline(True)
        for panel in PANELS:
            found.open(f"{exported.as_uri()}#panel={panel}")
            assert found.text("#error") == ""
            assert len(found.lines()) > 0
        found.open(f"{exported.as_uri()}#preset=fade-fig2")
        lines = found.lines()
        found.page.focus("#masses-group_size")
        found.page.keyboard.press("ArrowRight")
        found.page.wait_for_timeout(300)
        assert found.lines() != lines
        assert "masses.group_size=17" in address_of(found)
        for panel in ("map", "run", "interference", "tree", "bank"):
            found.page.click(f"#tab-{panel}")
            wait_for_drawing(found)
            assert "computed in advance" in found.text("#status"), panel
            assert found.page.locator("#controls .locked").count() > 3
        found.page.click("#tab-map")
        assert found.page.evaluate("document.getElementById('chart').data[0].z.flat().length") == 45
        assert (found.elsewhere, found.complaints) == ([], [])


def test_the_exported_file_draws_what_the_server_draws(browser, server, exported):
    for panel in CLOSED:
        lines = []
        for address in (server.address, exported.as_uri()):
            with watched(browser, address) as found:
                found.open(f"{address}#panel={panel}")
                lines.append(found.lines())
        assert lines[0] == lines[1]


def test_an_export_to_another_kind_of_file_is_refused(tmp_path, capsys):
    assert main(["explore", "--export", str(tmp_path / "page.pdf")]) == 2
    assert "allowed: .html, .htm" in capsys.readouterr().err
