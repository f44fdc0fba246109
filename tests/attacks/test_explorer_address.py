"""Hostile addresses of the explorer's page, seeded: it is never blank, never fails, and says what it did not take."""

import json
import random
from urllib.parse import quote

import pytest
from explorer_cases import explorer, watched

from simlab.cli import main
from simlab.estimators import REGISTRY
from simlab.explore.controls import CONTROLS, PANELS
from simlab.explore.presets import PRESETS

pytestmark = pytest.mark.browser

LONGEST_MESSAGE = 6000  # characters: five, of which each may list every estimator

# What every object of JavaScript answers to, though nobody gave it that.
INHERITED = (
    "__proto__", "constructor", "toString", "valueOf", "hasOwnProperty", "isPrototypeOf", "__defineGetter__",
    "__lookupSetter__", "propertyIsEnumerable", "toLocaleString",
)  # fmt: skip
PLACES = {
    "preset={}": "preset = '{}' is unknown; allowed: f-grpo-fig1a, ",
    "panel={}": "panel = '{}' is unknown; allowed: map, miss, ",
    "theme={}": "theme = '{}' is unknown; allowed: auto, ",
    "{}=1": "setting '{}' is unknown; allowed: map.*, miss.*, masses.*, ",
    "miss.{}=1": "setting 'miss.{}' is unknown",
    "miss.group_size={}": "group size G = '{}' is not a number; allowed: ",
    "panel=masses&masses.show={}": "show = '{}' is unknown; allowed: masses, ",
    "panel=masses&masses.weight={}": "estimator ",
    "panel=masses&masses.pinned=grpo;{}": "estimator ",
    "panel=masses&masses.weight=grpo({}=1)": "grpo has no parameter '{}'; it takes: ddof",
    "panel=masses&masses.weight=f_grpo(base={})": "base = '{}' is unknown; allowed: ",
    "panel=masses&masses.weight=asym_grpo(delta={})": "delta = '{}' is not a number; allowed: ",
    "panel=step&step.sampled_correct={}": "correct actions in the group = '{}' is not allowed; allowed: 0 or 1",
    "panel=run&run.pinned={}=1": "run.pinned has a run with '{}'; allowed: settings of the panel run",
    "panel=run&run.pinned=group_size={}": "group size G = '{}' is not a number; allowed: ",
    "panel=map&map.cell={}": "map.cell = '{}' cannot be read; allowed: pairs of numbers",
    "panel=masses&masses.weight==({}": "formula '({}' cannot be read at ",
    "tour={}": "tour = '{}' is unknown; allowed: 1, 2, 3, 4, 5, 6",
    "panel=run&run.optimizer={}": "optimiser = '{}' is unknown; allowed: adam, sgd",
}

# Go to what follows the # of an address, and see what the page is after it is drawn.
GO = """async (view) => {
    const gone = new Promise((resolve) => addEventListener("hashchange", resolve, {once: true}));
    window.location.hash = view;
    await gone;
    for (let frame = 0; frame < 2; frame += 1) await new Promise(requestAnimationFrame);
    const text = (id) => document.getElementById(id).textContent;
    return {
        error: text("error"), said: text("said"), question: text("question"), address: window.location.href,
        controls: document.getElementById("controls").children.length,
        drawn: document.querySelectorAll("#chart .main-svg").length,
        lines: document.getElementById("chart").data.length,
        preset: document.getElementById("preset").value,
    };
}"""


@pytest.fixture(scope="module")
def served():
    with explorer() as found:
        yield found.address


def check_page(found, seen):
    """It is whole, and its messages can be read."""
    assert found.complaints == [], seen
    assert seen["question"]
    assert min(seen["controls"], seen["drawn"], seen["lines"]) > 0, seen
    assert max(len(seen["error"]), len(seen["said"])) < LONGEST_MESSAGE
    assert "undefined" not in seen["error"] + seen["said"], seen


def test_names_that_every_object_answers_to_are_unknown_everywhere(browser, exported):
    with watched(browser, exported) as found:
        found.open(exported)
        for view, complaint in PLACES.items():
            for name in INHERITED:
                seen = found.page.evaluate(GO, view.format(name))
                check_page(found, seen)
                assert complaint.format(name) in seen["error"], (view, name)


@pytest.mark.parametrize(("place", "mark"), [("served", "#"), ("served", "?"), ("exported", "#")])
@pytest.mark.parametrize("name", ["constructor", "nothing"])
def test_an_unknown_preset_is_said_and_the_page_is_the_one_without_it(browser, request, place, mark, name):
    address = request.getfixturevalue(place)
    with watched(browser, address) as found:
        found.open(address)
        plain = found.text("#question"), found.text("#readout"), found.lines()
        found.open(f"{address}{mark}preset={name}")
        assert found.text("#error").startswith(f"preset = '{name}' is unknown; allowed: f-grpo-fig1a, ")
        assert (found.text("#question"), found.text("#readout"), found.lines()) == plain
        assert found.page.locator("#error").is_visible()
        assert (found.complaints, found.elsewhere) == ([], [])


def hostile_text(moments, control):
    """What an address may say of a control: bounds and what lies beyond them, and anything at all."""
    name, low, high = moments.choice(sorted(REGISTRY)), control.low, control.high
    parameters = ",".join(
        f"{key}={moments.choice(['0', '-1', '1e308', '1e400', 'NaN', '', '=', 'grpo', '0.5', 'Infinity'])}"
        for key in moments.sample(sorted(REGISTRY[name].parameters), min(1, len(REGISTRY[name].parameters)))
    )
    return moments.choice(
        [
            str(low), str(high), str(low - 1), str(high + 1), str((low + high) / 2), "1e400", "-1e400", "NaN", "", " ",
            "0x10", "1_0", "٣", "1" * 500, "-0", "Infinity", "null", "[object Object]", "%", "%ZZ", "%00", "\0",
            "<img src=x onerror=alert(1)>", "'\"`${1}", "\ud800".encode("utf-8", "surrogatepass").decode("latin-1"),
            "🎲" * 50, "x" * moments.randrange(5000), moments.choice(INHERITED), "01" * moments.randrange(6), name,
            f"{name}({parameters})", f"{name}({parameters};{parameters})", "(" * 300, ";".join([name] * 9), name + "()",
            json.dumps({"a": 1}), moments.choice(control.choices or ("masses",)),
        ]
    )  # fmt: skip


def hostile_view(moments):
    """What follows the # of a hostile address."""
    pairs = [("panel", moments.choice([*PANELS] * 3 + [moments.choice(INHERITED), ""]))]
    if moments.random() < 0.2:
        pairs.append(("preset", moments.choice([*PRESETS, *INHERITED, "", "x" * 3000])))
    if moments.random() < 0.1:
        pairs.append(("theme", moments.choice(["dark", "auto", *INHERITED, ""])))
    for control in moments.sample(CONTROLS, moments.choice([0, 1, 3, 10, len(CONTROLS)])):
        text = hostile_text(moments, control)
        pairs.append((control.name, text))
    if moments.random() < 0.05:
        pairs += [(moments.choice([*INHERITED, "miss.x"]), "1")] * moments.choice([10, 5000])
    moments.shuffle(pairs)
    view = "&".join(f"{name}={text if moments.random() < 0.3 else quote(text)}" for name, text in pairs)
    return view + moments.choice(["", "", "&", "&&&=", "&=1", "#panel=miss", "%"])


@pytest.mark.parametrize(("seed", "addresses"), [(0, 100), pytest.param(1, 3000, marks=pytest.mark.slow)])
def test_hostile_addresses_leave_a_page_that_is_drawn(browser, exported, seed, addresses):
    moments = random.Random(seed)
    with watched(browser, exported) as found:
        found.open(exported)
        errors = 0
        for _ in range(addresses):
            view = hostile_view(moments)
            seen = found.page.evaluate(GO, view)
            check_page(found, seen)
            errors += bool(seen["error"])
            if moments.random() < 0.1:  # what the page made of it is a view that it takes as it is
                again = found.page.evaluate(GO, "panel=miss&theme=light") and found.page.evaluate(
                    GO, seen["address"].partition("#")[2]
                )
                assert again["error"] == "", seen
                assert again["address"] == seen["address"]
        assert addresses / 3 < errors < addresses
        assert found.elsewhere == []


def test_hostile_addresses_are_loaded_anew_too(browser, exported, served):
    moments = random.Random(1)
    for address in (exported, served):
        with watched(browser, address) as found:
            for _ in range(4):
                view = hostile_view(moments).replace("panel=run", "panel=step").replace("panel=tree", "panel=bank")
                found.open(f"{address}#{view}")
                assert len(found.lines()) > 0
                assert (found.complaints, found.elsewhere) == ([], []), view


def test_the_command_line_takes_no_preset_that_is_none(capsys):
    for name in INHERITED:
        assert main(["explore", "--no-browser", "--preset", name]) == 2
        assert f"preset = '{name}' is unknown; allowed: " in capsys.readouterr().err
