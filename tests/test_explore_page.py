"""The page in a Chromium with its server: panels, sliders, links, comparisons, formulas, results, commands, axe."""

import csv
import io
import re
import shlex
import subprocess
import sys

import numpy as np
import pytest
import xarray as xr
from explorer_cases import downloaded, explorer, watched

from simlab.columns import at_equal_mass
from simlab.explore.controls import CONTROLS, PANELS
from simlab.explore.presets import PRESETS

pytestmark = pytest.mark.browser
Axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe

PINNED = ("weights", "runs", "cells")  # kinds of controls that the page draws in another way
SMALL = "run.actions=32&run.steps=50&run.seeds=4"
FORMULA = "%3D(1%20-%20p)%5Eg%20*%20(r%20-%20p)%2Fs%40g%3D0.5"  # =(1 - p)^g * (r - p)/s@g=0.5
VALUES = np.random.default_rng(0).uniform(size=(2, 3, 4, 5))
MEANS = """document.getElementById("chart").data.filter(
    (trace) => trace.csv?.includes("q_pos") && trace.csv.includes("mean of")).map((trace) => trace.y)"""
TITLES = "document.getElementById('chart').layout.annotations.map((note) => note.text)"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    path = tmp_path_factory.mktemp("own") / "mine.nc"
    xr.Dataset(
        {"q_pos": (("arm", "group_size", "seed", "step"), VALUES)},
        coords={"arm": ["grpo", "maxrl"], "group_size": [2, 8, 32], "step": [0, 5, 10, 15, 20]},
    ).to_netcdf(path, engine="h5netcdf")
    with explorer("--port", "0", str(path)) as server:
        yield server


@pytest.fixture
def seen(browser, server):
    with watched(browser, server.address) as seen:
        yield seen
    assert (seen.elsewhere, seen.complaints) == ([], [])


def wait_for_seeds(seen, seeds):
    seen.until(lambda: f"{seeds} of {seeds} seeds" in seen.text("#status"))
    seen.drawn()


# Panels


def serious(page):
    violations = Axe().run(page).response["violations"]
    return [
        f"{issue['id']}: {issue['help']}: {issue['nodes'][0]['html'][:200]} {issue['nodes'][0]['failureSummary']}"
        for issue in violations
        if issue["impact"] in ("serious", "critical")
    ]


def test_every_panel_has_a_chart_named_controls_and_nothing_that_axe_finds_in_either_theme(seen, server):
    buttons = {"step.sampled_correct", "step.sampled_incorrect"}
    for panel in (*PANELS, "results"):
        seen.open(f"{server.address}#panel={panel}&theme=light")
        assert seen.text("#error") == ""
        assert seen.page.locator("#chart .main-svg").count() > 0
        seen.until(lambda: len(seen.lines()) > 0)
        for control in CONTROLS:
            if control.name.startswith(f"{panel}.") and control.name not in buttons and control.kind not in PINNED:
                assert seen.page.locator(f"#{control.name.replace('.', '-')}").count() == 1, control.name
        tips = seen.page.evaluate("[...document.querySelectorAll('.tip')].map((tip) => tip.textContent)")
        assert all(tip not in ("", "undefined") for tip in tips)
        assert serious(seen.page) == []
        seen.page.select_option("#theme", "dark")
        assert seen.page.get_attribute("html", "data-theme") == "dark"
        assert serious(seen.page) == []
    for view in ("tour=1", "panel=bank&bank.pinned=group_size=64&bank.compare=difference", "run.weight=nosuch"):
        seen.open(f"{server.address}#{view}")
        assert serious(seen.page) == []


def test_every_preset_opens_its_panel_with_its_settings(seen, server):
    seen.open(f"{server.address}?preset=f-grpo-fig2")
    assert seen.text("#about") == PRESETS["f-grpo-fig2"].title
    for name, preset in PRESETS.items():
        seen.page.select_option("#preset", name)
        assert seen.text("#error") == ""
        assert seen.page.get_attribute("nav [aria-selected=true]", "id") == f"tab-{preset.panel}"
        assert seen.text("#about") == preset.title


# Controls


def test_sliders_and_tabs_move_by_keyboard_and_the_chart_with_them(seen, server):
    for slider in ("miss-group_size", "masses-group_size", "step-correct_mass", "bank-beta_a", "interference-overlap"):
        seen.open(f"{server.address}#panel={slider.partition('-')[0]}")
        seen.until(lambda: any(seen.lines()))
        before, value = seen.lines(), seen.page.input_value(f"#{slider}-box")
        seen.page.focus(f"#{slider}")
        for _ in range(4):
            seen.page.keyboard.press("ArrowRight")
        seen.until(lambda before=before: seen.lines() != before)
        seen.drawn()  # the last of the four, and not the first that came
        assert seen.page.input_value(f"#{slider}-box") != value
        assert seen.page.get_attribute(f"#{slider}", "aria-valuetext") == seen.page.input_value(f"#{slider}-box")
        assert f"{slider.replace('-', '.')}=" in seen.address()
    seen.page.focus("#tab-interference")
    seen.page.keyboard.press("ArrowRight")
    assert seen.page.get_attribute("nav [aria-selected=true]", "id") == "tab-tree"
    assert seen.page.evaluate("document.activeElement.id") == "tab-tree"


def test_a_group_is_drawn_by_its_seed_and_actions_are_put_into_it(seen, server):
    seen.open(f"{server.address}#panel=step&step.group_size=3&step.seed=5")
    seen.page.click("text=Draw a group with the seed")
    seen.drawn()
    group = seen.page.locator(".switches [aria-pressed=true]").all_inner_texts()
    assert 1 <= len(group) <= 3
    seen.page.locator(".switches button").first.click()
    seen.drawn()
    assert ("c1" in seen.page.locator(".switches [aria-pressed=true]").all_inner_texts()) == ("c1" not in group)


def test_graded_rewards_are_typed_and_dragged_and_refused_by_weights_without_a_number_for_them(seen, server):
    group = "step.rewards=graded rewards&step.sampled_correct=11&step.sampled_incorrect=1&step.weight="
    seen.open(f"{server.address}#panel=step&{group}dr_grpo")
    assert seen.page.is_hidden("#step-c3")
    assert seen.page.is_hidden("#step-group_size")
    seen.page.fill("#step-c2-box", "0.5")
    seen.page.press("#step-c2-box", "Enter")
    seen.until(lambda: "Advantages c1 0.5, c2 0, w1 -0.5," in seen.text("#readout"))
    seen.page.focus("#step-c1")
    for _ in range(50):
        seen.page.keyboard.press("ArrowLeft")  # from 1 by 0.02 each
    seen.until(lambda: "Advantages c1 -0.167, c2 0.333, w1 -0.167," in seen.text("#readout"))
    seen.open(f"{server.address}#panel=step&{group}a_grae&step.w1=-0.5")
    message = "rewards span [-0.5, 1] and hold -0.5; a_grae is defined for rewards in [0, 1]"
    seen.until(lambda: seen.text("#readout") == message)


def test_a_link_reproduces_a_simulation_seed_included_and_the_latest_values_win(seen, server):
    link = f"{server.address}#panel=run&run.pinned=&run.actions=32&run.steps=50&run.seeds=8&run.seed=7"
    seen.open(link)
    wait_for_seeds(seen, 8)
    lines, full = seen.lines(), seen.address()
    seen.open(full)
    wait_for_seeds(seen, 8)
    assert seen.lines() == lines
    seen.page.focus("#run-group_size")
    for _ in range(20):
        seen.page.keyboard.press("ArrowRight")
    seen.drawn()  # by then the box shows the last of them, and it is asked for
    size = seen.page.input_value("#run-group_size-box")
    wait_for_seeds(seen, 8)
    moved = seen.lines()
    seen.open(f"{link}&run.group_size={size}")
    wait_for_seeds(seen, 8)
    assert seen.lines() == moved != lines


@pytest.mark.parametrize(
    ("view", "where", "what"),
    [
        ("preset=nothing", "#error", "'nothing'"),
        ("panel=nothing", "#error", "'nothing'"),
        ("miss.correct_mass=x", "#error", "correct mass μ = 'x'"),
        ("miss.nothing=1", "#error", "'miss.nothing'"),
        ("miss.correct_mass=3", "#said", "held at 1"),
        ("miss.group_size=2.4", "#said", "held at 2"),
        ("panel=miss&miss.correct_mass=0.1&miss.target_mass=0.5", "#said", "held at 0.1"),
        ("panel=run&run.weight=mine.py:weight", "#error", "Shown instead: f_grpo(gamma=1,base=grpo)"),
        ("panel=masses&masses.weight=grop", "#error", "estimator = 'grop' is unknown; allowed: "),
        ("panel=masses&masses.weight=asym_grpo(delta=99)", "#said", "held at 20"),
        ("panel=masses&masses.weight=ds_grpo", "#error", "'ds_grpo'"),
        ("panel=step&step.sampled_correct=11111&step.group_size=2", "#said", "held at 6"),
    ],
)
def test_bad_settings_are_held_or_refused_and_say_so(seen, server, view, where, what):
    seen.open(f"{server.address}#{view}")
    seen.until(lambda: what in seen.text(where))
    assert len(seen.lines()) > 0


def test_a_server_that_is_gone_is_said(browser):
    with explorer("--port", "0") as process, watched(browser, process.address) as seen:
        seen.open(process.address)
        process.stop(15)
        seen.page.click("#tab-run")
        seen.until(lambda: "the server cannot be reached" in seen.text("#error"))


# Simulations


def test_runs_are_compared_by_seed(seen, server):
    pin = "weight%3Df_grpo(gamma%3D0,base%3Dgrpo)%26actions%3D32%26steps%3D50%26learning_rate%3D0.1"
    seen.open(f"{server.address}#panel=run&{SMALL}&run.learning_rate=0.1&run.pinned={pin}")
    seen.until(lambda: "2 runs: 4 of 4 seeds" in seen.text("#status"))
    first, other = seen.page.evaluate(MEANS)
    seen.page.select_option("#run-compare", "difference")
    seen.drawn()
    (difference,) = seen.page.evaluate(MEANS)
    np.testing.assert_allclose(difference, np.subtract(other, first), atol=2e-6)
    assert "against f_grpo(gamma=0,base=grpo)" in seen.text("#readout")
    seen.page.select_option("#run-compare", "difference at equal correct mass")
    seen.drawn()
    assert "difference of steps" in seen.page.evaluate(TITLES)[0]


def test_banks_and_trees_are_compared_at_equal_steps_and_at_equal_pass_at_1(seen, server):
    pinned = "bank.pinned=prompts%3D16%26steps%3D20%26weight%3Dmaxrl"
    seen.open(f"{server.address}#panel=bank&bank.prompts=16&bank.steps=20&bank.seeds=4&{pinned}")
    seen.until(lambda: "Against maxrl: a rare mode in 256 samples" in seen.text("#readout"))
    assert "a rare mode in 4096 samples: maxrl" in seen.names()
    seen.page.select_option("#bank-compare", "difference at equal correct mass")
    seen.drawn()
    assert "Against maxrl at pass@1 of" in seen.text("#readout")
    assert "difference from the first, at equal pass@1" in seen.page.evaluate(TITLES)
    seen.open(f"{server.address}#panel=tree&tree.steps=50&tree.pinned=steps%3D50%26group_size%3D8")
    seen.until(lambda: "Modes held more than with" in seen.text("#readout"))
    methods = [title.partition("</b>")[0] for title in seen.page.evaluate(TITLES)]
    assert methods == ["<b>GRPO", "<b>GRPO + entropy", "<b>CaSP"]
    seen.page.select_option("#tree-compare", "at equal correct mass")
    seen.drawn()
    assert "first has an accuracy of" in seen.text("#readout")
    assert re.search(r"the most are kept by \S.* \S+ of 6 at an accuracy of \S+, the fewest by ", seen.text("#readout"))


def test_a_map_of_other_settings_is_simulated_cell_by_cell(seen, server):
    view = "panel=map&map.across=correct%20share&map.down=epochs&map.actions=64&map.steps=50&map.seeds=4"
    seen.open(f"{server.address}#{view}&map.cell=0.16,1&map.pinned=&map.quantity=correct%20mass")
    seen.until(lambda: "35 of 35 cells are simulated" in seen.text("#readout"))
    assert all(0 <= share <= 1 for share in seen.page.evaluate("document.getElementById('chart').data[0].z.flat()"))


# Interference


def sliders_of(seen):
    boxes = seen.page.locator("#controls .box").all()
    return {box.get_attribute("id"): box.input_value() for box in boxes} | {
        "optimizer": seen.page.input_value("#interference-optimizer"),
        "weight": seen.page.input_value("#interference-weight"),
        "representation": seen.page.input_value("#interference-representation"),
    }


def click_cell(seen, row, column):
    point = seen.page.evaluate(
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
    seen.page.mouse.move(*point)
    seen.page.wait_for_timeout(300)
    seen.page.mouse.click(*point)
    seen.drawn()


def test_a_click_on_a_cell_sets_all_sliders_to_it_and_the_link_holds_it(seen, server):
    seen.page.set_viewport_size({"width": 1280, "height": 1300})
    changed = {
        "weight": "maxrl",
        "representation": "network",
        "temperature": 0.5,
        "steps": 20,
        "seeds": 4,
        "map": "adam",
    }
    seen.open(
        server.address
        + "&".join(["#panel=interference", *(f"interference.{name}={value}" for name, value in changed.items())])
    )
    click_cell(seen, 1, 7)
    clicked, link = sliders_of(seen), seen.address()
    expected = {"overlap": "0.3", "learning_rate": "0.03", "temperature": "1", "conflict": "1", "steps": "20"}
    assert {name: clicked[f"interference-{name}-box"] for name in expected} == expected
    assert (clicked["optimizer"], clicked["weight"], clicked["representation"]) == ("adam", "grpo", "linear head")
    seen.open(link)
    assert (sliders_of(seen), seen.address()) == (clicked, link)


# Weights of one's own


def test_a_formula_is_drawn_simulated_and_refused_where_it_is_none(seen, server):
    seen.open(f"{server.address}#panel=masses&masses.pinned=f_grpo(gamma=0.5,base=grpo)&masses.weight={FORMULA}")
    seen.until(lambda: len([line for line in seen.lines() if len(line) > 100]) == 2)
    formula, named = [line for line in seen.lines() if len(line) > 100]
    np.testing.assert_allclose(formula, named, atol=2e-6)
    seen.page.click("#controls summary")
    seen.until(lambda: "def weight(advantages, rollouts):" in seen.text("#controls pre"))
    seen.page.fill("#masses-weight-formula", "p +")
    seen.page.keyboard.press("Enter")
    seen.until(lambda: "formula 'p +' cannot be read" in seen.text("#error"))
    assert seen.complaints.pop().endswith("400 (Bad Request)")  # Chromium's own line about the refused formula
    pin = "weight%3Df_grpo(gamma%3D0.5,base%3Dgrpo)%26actions%3D32%26steps%3D50"
    seen.open(f"{server.address}#panel=run&{SMALL}&run.pinned={pin}&run.weight={FORMULA}")
    seen.until(lambda: "2 runs: 4 of 4 seeds" in seen.text("#status"))
    formula, named = seen.page.evaluate(MEANS)
    np.testing.assert_allclose(formula, named, atol=1e-4)


def test_a_formula_goes_to_all_panels_at_once_and_undo_takes_it_back(seen, server):
    seen.open(f"{server.address}#panel=masses&masses.weight={FORMULA}")
    seen.drawn()
    before = seen.address()
    seen.page.click("text=Use in all panels")
    seen.until(lambda: seen.text("#said").endswith("@g=0.5 is in all panels now"))
    for panel in ("map", "step", "run"):
        seen.page.click(f"#tab-{panel}")
        assert seen.page.input_value(f"#{panel}-weight-formula") == "(1 - p)^g * (r - p)/s"
        assert seen.page.input_value(f"#{panel}-weight-g-box") == "0.5"
    seen.page.click("#tab-step")
    seen.until(lambda: seen.text("#readout").startswith("Rewards 0.707 and -0.707"))  # p = 1/2: 0.5^0.5, -0.5^0.5
    while seen.page.is_enabled("#undo"):
        seen.page.click("#undo")
        seen.drawn()
    assert seen.address() == before


# Results


DROP = """([name, bytes]) => {
    const transfer = new DataTransfer();
    transfer.items.add(new File([new Uint8Array(bytes)], name));
    for (const type of ["dragover", "drop"]) {
        document.body.dispatchEvent(new DragEvent(type, {dataTransfer: transfer, bubbles: true, cancelable: true}));
    }
}"""


def test_a_result_is_drawn_with_sliders_over_its_dimensions(seen, server):
    seen.open(f"{server.address}#panel=results")
    means = "document.getElementById('chart').data.filter((trace) => trace.showlegend).map((trace) => trace.y)"
    seen.until(lambda: len(seen.page.evaluate(means)) == 2)
    np.testing.assert_allclose(seen.page.evaluate(means), VALUES[:, 0].mean(axis=1), rtol=1e-5)
    seen.page.focus("#results-group_size")
    seen.page.keyboard.press("ArrowRight")
    seen.until(lambda: "at group_size 8" in seen.text("#readout"))
    np.testing.assert_allclose(seen.page.evaluate(means), VALUES[:, 1].mean(axis=1), rtol=1e-5)
    assert seen.page.locator("#results-step").is_hidden()
    kinds = "['xaxis', 'yaxis'].map((axis) => document.getElementById('chart').layout[axis].type)"
    for choice, expected in (("logarithmic across", ["log", "linear"]), ("logarithmic", ["log", "log"])):
        seen.page.select_option("#results-axes", choice)
        seen.until(lambda expected=expected: seen.page.evaluate(kinds) == expected)
    seen.page.select_option("#results-view", "map")
    seen.until(lambda: np.shape(seen.page.evaluate("document.getElementById('chart').data[0].z")) == (2, 5))
    seen.page.select_option("#results-lines", "step")
    seen.until(lambda: "across and lines are both step" in seen.text("#readout"))


def test_a_file_that_is_dropped_or_chosen_is_shown_and_the_rest_of_the_page_stays(browser, tmp_path):
    path = tmp_path / "dropped.nc"
    xr.Dataset({"q_pos": (("arm", "step"), np.arange(8.0).reshape(2, 4))}, coords={"arm": ["grpo", "maxrl"]}).to_netcdf(
        path, engine="h5netcdf"
    )
    with explorer("--port", "0") as process, watched(browser, process.address) as seen:
        seen.open(f"{process.address}#panel=miss&miss.group_size=77")
        assert seen.page.locator("#tab-results").count() == 0
        seen.page.evaluate(DROP, ["notes.txt", [65]])
        seen.until(lambda: "notes.txt" in seen.text("#error"))
        seen.page.evaluate(DROP, ["dropped.nc", list(path.read_bytes())])
        seen.page.wait_for_selector("#readout:has-text('maxrl')")
        assert "dropped.nc" in seen.text("#readout")
        assert "miss.group_size=77" in seen.page.url
        seen.page.evaluate(DROP, ["rollouts.jsonl", [65]])
        seen.until(lambda: "simlab diagnose rollouts.jsonl" in seen.text("#error"))
        seen.page.set_input_files("#file", str(path))
        seen.page.wait_for_selector("#readout:has-text('dropped.nc')")


# Downloads and commands


def test_csv_and_svg_hold_what_is_seen(seen, server, tmp_path):
    for panel in ("miss", "step"):
        seen.open(f"{server.address}#panel={panel}")
        rows = list(csv.reader(io.StringIO(downloaded(seen.page, "#csv", tmp_path))))
        assert len(rows) > 5
        assert len({len(row) for row in rows}) == 1
        drawing = downloaded(seen.page, "#svg", tmp_path)
        assert drawing.startswith("<svg")
        assert "http://" not in drawing.replace("http://www.w3.org/", "")


def run_commands(line, folder):
    for words in (shlex.split(command) for command in line.split(" && ")):
        words[:1] = [sys.executable] if words[0] == "python" else [sys.executable, "-m", "simlab.cli"]
        yield subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.parametrize(
    ("view", "printed"),
    [
        ("panel=miss&miss.group_size=4&miss.correct_mass=0.5&miss.target_mass=0.25", "0.25"),
        ("panel=masses&masses.weight=power_alpha(alpha=3)&masses.group_size=4", "Masses(successes=array([0, 1"),
        ("panel=step", "0.00"),
        ("panel=step&step.rewards=graded rewards&step.weight=dr_grpo&step.c1=0.6", "array([ 0.3, -0.3])"),
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
)  # fmt: skip
def test_the_command_runs(seen, server, view, printed, tmp_path):
    seen.open(f"{server.address}#{view}")
    seen.until(lambda: seen.text("#command") != "")
    for ended in run_commands(seen.text("#command"), tmp_path):
        assert ended.returncode == 0, ended.stderr
        assert printed in ended.stdout


def test_a_map_offers_the_quantities_of_its_problem_and_says_which_is_shown(seen, server):
    seen.open(f"{server.address}#panel=map&map.quantity=retained%20mass")
    assert seen.page.input_value("#map-quantity") == "retained mass"
    seen.page.select_option("#map-problem", "interfering prompts")
    seen.page.select_option("#map-down", "overlap")
    seen.until(lambda: "Correct mass: " in seen.text("#readout"))
    assert "map.cell=2%2C-0.3&map.pinned=" in seen.page.url  # a cell of these axes, not of a gamma of 1
    assert seen.page.input_value("#map-quantity") == "correct mass"
    offered = seen.page.evaluate("[...document.querySelectorAll('#map-quantity option')].map((one) => one.value)")
    assert offered == ["correct mass", "pass@16", "pass@256"]
    seen.page.select_option("#map-problem", "one policy")
    seen.until(lambda: seen.page.input_value("#map-quantity") == "retained mass")


def test_a_path_is_read_at_equal_pass_at_1_of_every_seed(seen, server):
    seen.open(f"{server.address}#panel=interference&interference.seeds=4&interference.steps=80&interference.k=16")
    wait_for_seeds(seen, 4)
    settings = {"group_size": 8, "steps": 80}
    for weight, colour in (("grpo", 0), ("maxrl", 1)):
        body = {"panel": "interference", "settings": settings | {"weight": weight}, "first": 0}
        metrics = server.ask("simulate", body)["result"]["metrics"]
        masses, passed = (np.array(metrics[f"pass_at_{k}"]["values"]) for k in (1, 16))
        levels = np.arange(51) / 50
        reached = at_equal_mass(masses, passed, levels).mean(axis=-1)
        assert np.isfinite(reached).sum() > 10
        x, y = seen.page.evaluate(
            """(start) => {
                const drawn = document.getElementById("chart").data.find((trace) => trace.csv?.startsWith(start));
                return [drawn.x, drawn.y];
            }""",
            f"pass@16 against pass@1: {weight}, mean of 4 seeds",
        )
        assert (x[0], y[0]) == (masses[0, 0], passed[0, 0])  # the base model
        drawn = dict(zip(x[1:], y[1:], strict=True))
        for level, value in zip(levels, reached, strict=True):
            assert drawn.get(level) == (pytest.approx(value, abs=2e-6) if np.isfinite(value) else None), (level, colour)
