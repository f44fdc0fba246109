"""Every figure is drawn the same way every time, and carries its origin."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

import figures
from figures.shared.headline import headline
from figures.shared.images import checksum, read_origin
from figures.shared.look import look
from figures.shared.plotted import plotted
from figures.shared.registry import names, script
from figures.shared.rerun import recipe
from simlab import cli
from simlab.cli import main
from simlab.sweeps.result import read as read_result

FOLDER = Path(figures.__file__).parent
IMAGES = FOLDER / "images"
KEPT = [name for name in names() if (FOLDER / "data" / f"{name}.json").exists()]
FORMATS = (".json", ".pdf", ".png", ".svg")
QUICK = "fewshot"  # drawing all takes minutes: the others are drawn by hand
BY_HAND = [name for name in names() if 'layout="constrained"' not in (FOLDER / f"{name}.py").read_text()]
ALL = [pytest.param(name, marks=[pytest.mark.slow] * (name != QUICK)) for name in names()]


@pytest.mark.slow
@pytest.mark.parametrize("name", names())
def test_two_runs_give_identical_bytes(name, tmp_path):
    """The first in a process of its own, as a user has it."""
    command = [sys.executable, "-m", "simlab.cli", "figures", name, "--out", str(tmp_path / "first")]
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    assert ran.stdout == f"{tmp_path / 'first' / name}.png\n"
    assert main(["figures", name, "--out", str(tmp_path / "second")]) == 0
    for suffix in FORMATS:
        first, second = ((tmp_path / run / name).with_suffix(suffix) for run in ("first", "second"))
        assert first.read_bytes() == second.read_bytes(), suffix
    content = json.loads((tmp_path / "first" / f"{name}.json").read_text())
    assert content["configuration"]
    assert any(panel["drawn"] for panel in content["panels"])
    assert read_origin(tmp_path / "first" / f"{name}.png")["panels"] == checksum(content["panels"])


@pytest.mark.parametrize("name", ALL)
def test_the_committed_image_is_what_the_script_draws_and_fits_a_page(name):
    program = script(name)
    figure = program.draw()
    headline(figure, program.message)
    check_that_it_fits(look(figure))
    if name in BY_HAND:  # it is placed by hand, and holds its message
        texts = [" ".join(text.get_text().split()) for text in figure.findobj(Text)]
        assert " ".join(program.message.split()) in texts
    assert read_origin(IMAGES / f"{name}.png")["panels"] == checksum(plotted(figure))


@pytest.mark.parametrize("name", names())
def test_the_committed_image_says_where_it_is_from_and_its_script_what_it_shows(name):
    program, origin = script(name), read_origin(IMAGES / f"{name}.png")
    assert program.title.endswith(".")
    assert program.differs.endswith(".")
    assert "\n" not in program.differs
    assert origin["message"] == program.message == program.message.strip(".\n ")
    assert "+changes" not in origin["commit"]
    assert set(origin["versions"]) == {"python", "simlab", "jax", "numpy", "scipy", "matplotlib"}
    check_that_it_fits(origin["look"])
    if name in KEPT:  # numbers of runs carry their provenance
        for provenance in program.configuration if isinstance(program.configuration, list) else [program.configuration]:
            asked = {"settings"} if "settings" in provenance else {"code", "dtype"}
            assert asked | {"commit", "versions", "platform"} <= set(provenance)
            assert "+changes" not in provenance["commit"]


def test_every_image_has_a_script_and_all_of_them_are_small():
    committed = [path for path in IMAGES.iterdir() if path.suffix == ".png"]
    assert {path.stem for path in committed} == set(names())
    assert sum(path.stat().st_size for path in committed) < 5e6


# At the width of a page: 7.2 inches, text of 7 points, and no more than six lines to tell apart in a panel.
WIDEST, SMALLEST_TEXT, MOST_LINES = 7.2, 7.0, 6


def check_that_it_fits(sizes):
    assert sizes["width"] <= WIDEST
    assert sizes["smallest_text"] is None or sizes["smallest_text"] >= SMALLEST_TEXT
    assert max(sizes["lines"], default=0) <= MOST_LINES


def test_a_figure_that_fits_no_page_is_noticed():
    figure = Figure(figsize=(8, 3))
    axes = figure.subplots()
    for height in range(7):
        axes.plot([0, 1], [height, height], color=f"C{height}")
        axes.plot([0, 1], [height, height + 1], color=f"C{height}")  # the same method
    axes.plot([0, 1], [0, 1], color="0.8")  # the background
    axes.axvline(0.5, color="k")
    axes.text(0, 0, "small", fontsize=6)
    assert look(figure) == {"width": 8.0, "smallest_text": 6.0, "lines": [7]}
    with pytest.raises(AssertionError):
        check_that_it_fits(look(figure))


def test_the_plotted_numbers_are_those_of_the_figure():
    figure = Figure()
    left, right = figure.subplots(1, 2)
    left.plot([1, 2, 4], [0.1, np.nan, 0.3], label="a line")
    left.set(title="left", xlabel="group size G", xscale="log")
    right.bar([0, 1], [2.0, 3.0], width=0.5)
    right.pcolormesh(np.arange(3), np.arange(2), np.array([[5.0, 6.0]]))
    first, second = plotted(figure)
    assert (first["title"], first["x"], first["x_scale"]) == ("left", "group size G", "log")
    assert first["drawn"] == [{"kind": "line", "x": [1, 2, 4], "y": [0.1, None, 0.3], "label": "a line"}]
    bars = [entry["x_y_width_height"] for entry in second["drawn"] if entry["kind"] == "bar"]
    assert bars == [[-0.25, 0, 0.5, 2], [0.75, 0, 0.5, 3]]
    assert [entry["values"] for entry in second["drawn"] if entry["kind"] == "mesh"] == [[[5, 6]]]


def test_the_list_names_every_figure_with_its_tags_and_what_differs(capsys):
    assert main(["figures", "--list"]) == 0
    printed = capsys.readouterr().out
    for name in names():
        assert name in printed
        assert script(name).differs in printed


def test_the_commands_of_a_figure_are_understood_and_end_with_its_own_script():
    without = {
        "a_grae_toy",
        "casp_figs7_9",
        "cw_grpo_table1",
        "fade_controller",
        "fade_fig4",
        "fade_fig6",
        "f_grpo_regime_curves",
        "fade_difficulty",
        "fade_rank_steps",
    }  # drawn from others' numbers
    for program in map(script, names()):
        commands = recipe(program)
        assert bool(commands) == (program.data is not None and program.name not in without)
        for command in commands:
            assert (command[:2] == ["python", "-m"] and importlib.util.find_spec(command[2])) or cli.build_parser()[
                0
            ].parse_args(command[1:]).run
        assert not commands or commands[-1][0] == "python"


@pytest.mark.slow
def test_numbers_are_made_anew_in_a_folder_and_drawn_from_there(tmp_path, monkeypatch, capsys):
    """A script whose recipe is one sweep and its condensing."""
    (tmp_path / "figures").mkdir()
    code = FIGURE.format(data=str(tmp_path / "precious.json"))
    (tmp_path / "figures" / "own_figure.py").write_text(code)
    (tmp_path / "precious.json").write_text('{"provenance": {"a": 1}, "end": 0.5}')
    monkeypatch.setattr(figures, "__path__", [*figures.__path__, str(tmp_path / "figures")])
    out = tmp_path / "images"
    assert main(["figures", "own_figure", "--rerun", "--out", str(out)]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert [line for line in printed if line.startswith("running")] == [
        "running simlab sweep --param actions=20 --param correct=2 --group-size 2 --steps 2 --seeds 1 --out tiny.nc",
        "running python -m figures.own_figure tiny.nc",
    ]
    end = float(read_result(out / "own_figure.rerun" / "tiny.nc").q_pos.isel(step=-1).mean())
    drawn = json.loads((out / "own_figure.json").read_text())
    assert drawn["configuration"] == {"a": end}
    assert json.loads((tmp_path / "precious.json").read_text())["end"] == 0.5


FIGURE = '''"""A figure of one's own.

    simlab sweep --param actions=20 --param correct=2 --group-size 2 \\\\
        --steps 2 --seeds 1 --out tiny.nc   (a moment)
    python -m figures.own_figure tiny.nc                             (condenses)
    simlab figures own_figure
"""

import sys
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.text import Text

from figures.shared.condensed import keep
from simlab.sweeps.result import read

DATA = Path("{data}")
MESSAGE = "A line goes up"
DIFFERS = "It is nobody's."


def draw(data):
    figure = Figure()
    figure.subplots().plot([0, 1], [0, data["end"]])
    return figure


if __name__ == "__main__":
    end = float(read(Path(sys.argv[1])).q_pos.isel(step=-1).mean())
    keep(DATA, {{"provenance": {{"a": end}}, "end": end}})
'''


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["fig9"], "figure = 'fig9'"),
        (["all", "--rerun"], "--rerun"),
        (["casp_fig1", "--rerun"], "casp_fig1"),
        ([], "--list"),
        (["fade", "--list"], "--list"),
        ([QUICK, "--out", __file__], __file__),
    ],
)
def test_a_wrong_command_is_one_line_and_exit_code_2(arguments, complaint, capsys):
    assert main(["figures", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert complaint in line
