"""Estimators of the user's own files in the explorer: on the page by the command line, and by nothing else."""

import json
import subprocess
import sys

import numpy as np
import pytest
from arm_texts import INVALID, VALID
from explorer_cases import explorer, watched

from simlab.cli import main
from simlab.errors import InputError
from simlab.estimators import REGISTRY
from simlab.explore.weights import hold_weight
from simlab.grammar import Term, read
from simlab.problems import anchored
from simlab.simulator.api import simulate

pytestmark = pytest.mark.browser

# A file that leaves a mark when it is run.
MINE = """
import pathlib
pathlib.Path(__file__).with_name("ran").write_text("")

from simlab import chain
from simlab.estimators import center, focal

def weight(gamma=2.0, base="mean"):
    return chain(center(base), focal(gamma))

def plain(advantages, rollouts):
    return advantages - advantages.mean(axis=1, keepdims=True)
"""
SMALL = {"actions": 32, "steps": 50, "group_size": 4}


@pytest.fixture
def mine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    return path


def has_run(path):
    return path.with_name("ran").exists()


# By the command line


def test_an_estimator_of_a_file_is_on_the_page_with_its_parameters_and_is_simulated(browser, mine):
    with explorer("--estimator", "mine.py:weight") as server, watched(browser, server.address) as seen:
        asked = {"panel": "run", "settings": SMALL | {"weight": "mine.py:weight(gamma=0.5)"}}
        by_name = "f_grpo(gamma=0.5,base=dr_grpo)"  # the same links, and so the same program
        named = {"panel": "run", "settings": SMALL | {"weight": by_name}}
        own, known = (server.ask("simulate", one)["result"] for one in (asked, named))
        theory = {name: pytest.approx(line, rel=1e-5) for name, line in known["theory"].items()}
        assert own == known | {"theory": theory}  # by masses that it computes itself, and by closed forms
        seen.open(f"{server.address}#panel=run&run.weight=mine.py:weight(gamma=0.5)&run.actions=32&run.steps=50")
        assert seen.page.input_value("#run-weight") == "mine.py:weight"
        assert seen.page.input_value("#run-weight-gamma-box") == "0.5"
        assert "mine.py:weight" in seen.page.locator("#run-weight option").all_inner_texts()
        seen.page.focus("[aria-describedby=run-weight-gamma-help]")
        assert seen.text("#run-weight-gamma-help") == "a parameter of your own estimator"
        seen.page.click("text=Use in all panels")
        seen.page.click("#tab-masses")
        assert seen.page.input_value("#masses-weight") == "mine.py:weight"
        seen.page.click("#tab-run")
        assert "--estimator mine.py:weight" in seen.text("#command")
        assert (seen.text("#error"), seen.elsewhere, seen.complaints) == ("", [], [])


def test_a_plain_link_of_a_file_is_shown_no_rollout_that_only_fills_its_group_up(mine):
    """Its group is of its own size, so that its numbers are those of the simulator, and of the formula that it is."""
    asked = {"weight": "mine.py:plain", "actions": 256, "correct": 0.25, "steps": 50, "group_size": 4}
    with explorer("--estimator", "mine.py:plain") as server:
        found = server.ask("simulate", {"panel": "run", "settings": asked})["result"]
    alone = simulate(
        anchored(256, 64), "dr_grpo+reinforce", group_size=4, optimizer_parameters={"learning_rate": 0.01},
        storage="dense", seeds=found["seeds"], steps=50, record_every=1,
    )  # fmt: skip
    for name in ("q_pos", "retained_mass", "entropy"):
        np.testing.assert_allclose(found["metrics"][name]["mean"], alone[name].mean("seed"), rtol=2e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--estimator", "grpo"], "--estimator 'grpo' is no estimator of a file; allowed: FILE.py:NAME"),
        (["--estimator", "mine.py:weight(gamma=1)"], "is no estimator of a file; allowed: FILE.py:NAME"),
        (["--estimator", "mine.py:weight+casp"], "is no estimator of a file; allowed: FILE.py:NAME"),
        (["--estimator", ""], "arm '' cannot be read"),
        (["--estimator", "none.py:weight"], "none.py cannot be read: No such file or directory"),
        (["--estimator", "mine.py:chain,mine.py:gone"], "mine.py has no 'gone'"),
        (["--estimator", "mine.py:pathlib"], "mine.py:pathlib is a module; allowed: Estimator, Link, a function with"),
        (["--estimator", "mine.py:weight", "--export", "page.html"], "--export takes no --estimator"),
    ],
)
def test_what_is_no_estimator_of_a_file_is_refused_before_anything_is_served(mine, arguments, message):
    command = [sys.executable, "-m", "simlab.cli", "explore", "--no-browser", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.count("\n") == 1
    assert message in ended.stderr


# By nothing else


@pytest.mark.parametrize(
    "weight", ["mine.py:weight", "./mine.py:weight(gamma=1)", "{path}:weight", "f_grpo(base={path}:weight)"]
)
def test_a_request_that_names_a_file_is_refused_and_runs_nothing(mine, weight):
    from starlette.testclient import TestClient  # noqa: PLC0415  # an extra that the default tests do without

    from simlab.explore.laboratory import Laboratory  # noqa: PLC0415
    from simlab.explore.server import application  # noqa: PLC0415

    weight = weight.replace("{path}", str(mine))
    with TestClient(application(8000, Laboratory()), base_url="http://127.0.0.1:8000") as client:
        answer = client.post("/simulate", json={"panel": "run", "settings": SMALL | {"weight": weight}})
    assert answer.status_code == 400
    assert "is unknown; allowed: " in answer.json()["error"]
    assert not has_run(mine)


def test_an_address_that_names_a_file_is_refused_and_runs_nothing(browser, mine):
    with explorer() as server, watched(browser, server.address) as seen:
        for name in ("mine.py:weight", f"{mine}:weight"):
            seen.open(f"{server.address}#panel=miss&run.weight={name}")
            assert seen.text("#error").startswith(f"estimator = '{name[:50]}")
            assert "is unknown; allowed: a_grae" in seen.text("#error")
        assert (seen.elsewhere, seen.complaints) == ([], [])
    assert not has_run(mine)


def test_the_file_that_the_command_line_names_is_the_only_one(mine):
    other = mine.with_name("lab") / "mine.py"
    other.parent.mkdir()
    other.write_text(MINE)
    with explorer("--estimator", "mine.py:weight") as server, pytest.raises(Exception, match="HTTP Error 400"):
        server.ask("simulate", {"panel": "run", "settings": SMALL | {"weight": "lab/mine.py:weight"}})
    assert (has_run(mine), has_run(other)) == (True, False)


# The page reads the language of the library

READ = """async (texts) => {
    const { read } = await import(new URL("page/grammar.js", window.location.href));
    return texts.map((text) => {
        try {
            return read(text);
        } catch (error) {
            return error.message;
        }
    });
}"""
HOLD = """async (texts) => {
    const { holdWeight } = await import(new URL("page/weight_text.js", window.location.href));
    const { estimators } = JSON.parse(document.getElementById("description").textContent);
    return texts.map((text) => {
        try {
            return holdWeight(text, estimators, false);
        } catch (error) {
            return null;
        }
    });
}"""
HELD = [
    *sorted(REGISTRY), "asym_grpo(delta=99)", "asym_grpo(delta=1e-3)", "asym_grpo(delta=x)", "asym_grpo(delta=none)",
    "asym_grpo(delta=nan)", "asym_grpo(delta=Infinity)", "asym_grpo(delta=0x10)", "pkpo(k=2.6)", "pkpo(k=4.0)",
    "pkpo(k=-0)", "grpo(ddof=1)", "grpo(ddof=1.0)", "grpo(ddof=2)", "grpo(ddof=true)", "grpo(gamma=1)", "grpo(eps=1)",
    "mc_grpo(scale=none)", "mc_grpo(scale=NONE)", "mc_grpo(scale=mad)", "mc_grpo(scale=0)", "grop", "grpo+casp",
    "grpo@constant", "f_grpo( gamma = 0.25, base = maxrl )", "f_grpo(base=f_grpo)", "f_grpo(base=mine.py:weight)",
    "f_grpo(gamma=0.1234567890123456)", "f_grpo(gamma=1e300)", "f_grpo(__proto__=1)", "constructor", "mine.py:weight",
]  # fmt: skip


def by_the_library(text):
    """What the library reads, as the page says it, whose numbers are floats; None for what is refused."""
    try:
        base, added, aggregation = read(text)
    except InputError:
        return None

    def plain(part: Term) -> dict:
        pairs = [[name, value if isinstance(value, str) else float(value)] for name, value in part.parameters]
        return {"name": part.name, "parameters": pairs}

    return {"base": plain(base), "added": [plain(part) for part in added], "aggregation": aggregation}


@pytest.fixture(scope="module")
def page(browser):
    with explorer() as server, watched(browser, server.address) as seen:
        seen.open(server.address)
        yield seen.page
    assert seen.elsewhere == []


def test_the_page_reads_each_text_as_the_library_does(page):
    outside_of_ascii = ["é" * 1000, "é" * 1001, "\U0001d4b3.py:\U0001d4b3" * 150, "a(x=½)", "a(½=1)", "٣(x=٣)"]
    texts = [*VALID, *INVALID, *outside_of_ascii]
    for text, found in zip(texts, page.evaluate(READ, texts), strict=True):
        expected = by_the_library(text)
        if expected is None:
            assert isinstance(found, str), text
            assert "cannot be read" in found or "allowed: " in found
        else:
            assert json.loads(json.dumps(found)) == expected, text


def test_the_page_refuses_at_the_place_where_the_library_does(page):
    for text, found in zip(INVALID, page.evaluate(READ, list(INVALID)), strict=True):
        with pytest.raises(InputError) as error:
            read(text)
        said = str(error.value)
        if " where " in said:
            assert said.partition("cannot be read at ")[2].partition(";")[0] in found, text


def test_the_page_holds_each_estimator_as_the_server_does(page):
    for text, found in zip(HELD, page.evaluate(HOLD, HELD), strict=True):
        try:
            expected = list(hold_weight(text, closed=False))
        except InputError:
            expected = None
        assert (found is None) == (expected is None), text
        if found is not None:
            assert read(found[0]) == read(expected[0]), text
            assert bool(found[1]) == bool(expected[1]), text


def test_the_command_line_says_what_is_wrong_in_one_line(mine, capsys):
    assert main(["explore", "--no-browser", "--estimator", "mine.txt:weight"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
