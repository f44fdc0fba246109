"""How the page compares runs, chooses cells of the map and reads formulas, in JavaScript, against loops in Python."""

import itertools
import random

import numpy as np
import pytest
from explorer_cases import browsing, explorer, watched
from test_explore_formula import FORMULAS, GROUPS

import simlab
from simlab.constructors import estimator_constructor
from simlab.errors import InputError
from simlab.estimators import REGISTRY
from simlab.explore.axes import AXES
from simlab.explore.controls import BY_NAME
from simlab.explore.description import description
from simlab.explore.formula import FUNCTIONS, NAMES, read
from simlab.explore.settings import hold

pytestmark = pytest.mark.browser

GENERATOR = np.random.default_rng(3)


@pytest.fixture(scope="module")
def called():
    """Calls an exported function of a module of the page with arguments; an exception comes back as its message."""
    with browsing() as browser, explorer("--port", "0") as server, watched(browser, server.address) as found:
        found.open(f"{server.address}#panel=miss")

        def call(module, name, *arguments):
            return found.page.evaluate(
                """async ([address, name, given]) => {
                    const module = await import(address);
                    try { return module[name](...given); } catch (error) { return {refused: error.message}; }
                }""",
                [f"{server.address}page/{module}.js", name, list(arguments)],
            )

        yield call


# Runs seed by seed


def with_gaps(values):
    return [[None if one > 1.2 else one for one in row] for row in values.tolist()]


def test_means_and_bands_are_those_of_the_seeds_that_are_there(called):
    values = with_gaps(GENERATOR.normal(size=(6, 5)))
    found = called("compare", "summary", values)
    for place in range(5):
        here = [row[place] for row in values if row[place] is not None]
        assert found["mean"][place] == pytest.approx(np.mean(here))
        assert found["half"][place] == pytest.approx(1.96 * np.std(here, ddof=1) / len(here) ** 0.5)
    assert called("compare", "summary", [[1.0, None], [None, None]]) == {"mean": [None, None], "half": [None, None]}
    assert called("compare", "summary", []) == {"mean": [], "half": []}


def test_differences_are_paired_by_seed(called):
    one, other = (GENERATOR.normal(size=(4, 3)) for _ in range(2))
    np.testing.assert_allclose(called("compare", "differences", one.tolist(), other[:3].tolist()), one[:3] - other[:3])
    assert called("compare", "differences", [[1.0, None]], [[None, 2.0]]) == [[None, None]]


def naive_at_mass(mass, own, level):
    """Follow one seed's records; the first crossing of the level from below."""
    highest, at_highest = mass[0], own[0]
    if level < highest:
        return None
    if level == highest:
        return at_highest
    for next_mass, next_own in zip(mass[1:], own[1:], strict=True):
        if next_mass > highest:
            if next_mass >= level:
                return at_highest + (level - highest) / (next_mass - highest) * (next_own - at_highest)
            highest, at_highest = next_mass, next_own
    return None


def test_runs_are_read_where_each_seed_first_reaches_a_mass(called):
    masses = np.clip(np.cumsum(GENERATOR.normal(0.05, 0.1, size=(8, 12)), axis=1) + 0.3, 0, 1)
    own, levels = GENERATOR.normal(size=(8, 12)), [0.0, 0.25, 0.3, 0.5, 0.75, 1.0]
    found = called("compare", "atEqualMass", masses.tolist(), own.tolist(), levels)
    for seed, place in itertools.product(range(8), range(len(levels))):
        expected = naive_at_mass(masses[seed], own[seed], levels[place])
        assert found[seed][place] == (None if expected is None else pytest.approx(expected))


def test_runs_of_other_records_are_read_at_the_same_steps(called):
    own = GENERATOR.normal(size=(2, 4))
    found = called("compare", "atSteps", [0, 10, 30, 40], own.tolist(), [0, 5, 20, 40, 41])
    expected = [[*np.interp([0, 5, 20, 40], [0, 10, 30, 40], row), None] for row in own]
    assert found == [[*map(pytest.approx, row[:4]), None] for row in expected]


def run_of(masses, own):
    """A run of the page with two metrics by seed."""
    metrics = {
        name: {
            "values": values.tolist(),
            "mean": values.mean(axis=0).tolist(),
            "m2": ((values - values.mean(axis=0)) ** 2).sum(axis=0).tolist(),
        }
        for name, values in (("mass", masses), ("own", own))
    }
    return {"step": list(range(0, 10 * masses.shape[1], 10)), "seeds": len(masses), "metrics": metrics}


RUNS = [
    run_of(np.sort(GENERATOR.uniform(size=(6, 9)), axis=1), GENERATOR.normal(size=(6, 9))) for _ in range(2)
]  # whose masses rise


def error(values):
    return 1.96 * np.std(values, ddof=1) / len(values) ** 0.5


def test_a_metric_is_read_at_a_record_or_where_each_seed_reaches_a_mass(called):
    own, masses = (np.array(RUNS[0]["metrics"][name]["values"]) for name in ("own", "mass"))
    found = called("compare", "readAt", RUNS[0], "own", 4, None, "mass")
    assert found == {"mean": pytest.approx(own[:, 4].mean()), "half": pytest.approx(error(own[:, 4]))}
    at_half = [naive_at_mass(mass, values, 0.5) for mass, values in zip(masses, own, strict=True)]
    there = [one for one in at_half if one is not None]
    found = called("compare", "readAt", RUNS[0], "own", 4, 0.5, "mass")
    assert found == {"mean": pytest.approx(np.mean(there)), "half": pytest.approx(error(there))}
    assert called("compare", "readAt", RUNS[0], "own", 4, 2.0, "mass") == {"mean": None, "half": None}


@pytest.mark.parametrize("level", [None, 0.5])
def test_a_gain_is_paired_by_seed(called, level):
    pairs = []
    for seed in range(6):
        read = []
        for run in RUNS:
            own, masses = (run["metrics"][name]["values"][seed] for name in ("own", "mass"))
            read.append(own[4] if level is None else naive_at_mass(masses, own, level))
        pairs.append(read)
    gains = [one - other for one, other in pairs if None not in (one, other)]
    found = called("compare", "gainAt", *RUNS, "own", 4, level, "mass")
    assert found == {"mean": pytest.approx(np.mean(gains)), "half": pytest.approx(error(gains))}


def test_steps_until_a_mass_is_reached_are_a_metric(called):
    found = called("compare", "compared", "at equal correct mass", "step", RUNS[0], RUNS[1], "mass")
    place = found["x"].index(0.5)
    reached = [naive_at_mass(mass, RUNS[0]["step"], 0.5) for mass in RUNS[0]["metrics"]["mass"]["values"]]
    there = [one for one in reached if one is not None]
    assert found["mean"][place] == pytest.approx(np.mean(there))


def test_runs_that_were_computed_in_advance_hold_no_seeds_to_pair(called):
    assert called("compare", "pairable", RUNS)
    without = {"mass": {"mean": [0.1], "m2": [0.0]}}
    assert not called("compare", "pairable", [RUNS[0], {"metrics": without}])
    assert called("compare", "pairable", [{"methods": {"GRPO": RUNS[0]}}])
    assert not called("compare", "pairable", [{"methods": {"GRPO": RUNS[0], "CaSP": {"metrics": without}}}])
    assert not called("compare", "pairable", [RUNS[0], None])


# Pinned runs


PINS = [
    "weight=grpo&group_size=64;weight=f_grpo(gamma=1,base=maxrl)", "", "steps=1e4", "group_size=2.4", ";;", "x=1",
    "steps=many", "pinned=a", "weight==(r - p)/s", "weight==p^g@g=0.5",
]  # fmt: skip


@pytest.mark.parametrize("text", PINS)
def test_pinned_runs_are_held_as_by_the_server(called, text):
    told = description(server=True)
    control = next(control for control in told["controls"] if control["name"] == "run.pinned")
    found = called("hold", "hold", control, text, told)
    try:
        expected = list(hold(BY_NAME["run.pinned"], text))
    except InputError:
        assert set(found) == {"refused"}
    else:
        assert found == expected


# The map


def test_the_coarse_map_comes_first_and_the_cells_nearest_the_pointer(called):
    told = description(server=True)
    axes = {"across": "group size", "down": "gamma"}
    cells = called("map", "cellsOf", axes, told)
    assert len(cells) == len(AXES["group size"].values) * len(AXES["gamma"].values)
    counts, pointed, order = [0] * len(cells), {"column": 6, "row": 1}, []
    while (place := called("map", "nextCell", cells, counts, 8, pointed)) >= 0:
        counts[place] += 4
        order.append(cells[place])
    assert counts == [8] * len(cells)
    coarse, fine, again = order[:15], order[15:45], order[45:]
    assert all(cell["coarse"] for cell in coarse)
    assert not any(cell["coarse"] for cell in fine)
    for stage in (coarse, fine, again):
        distances = [(cell["column"] - 6) ** 2 + (cell["row"] - 1) ** 2 for cell in stage]
        assert distances == sorted(distances)


def test_a_cell_is_the_run_that_its_axes_say(called):
    told = description(server=True)
    values = {control.name[4:]: control.default for control in BY_NAME.values() if control.name.startswith("map.")}
    run = called("map", "cellRun", values, [64, 0.5], told)
    assert run["panel"] == "run"
    assert run["settings"]["weight"] == "f_grpo(gamma=0.5,base=grpo)"
    assert run["settings"]["group_size"] == 64
    assert {name: hold(BY_NAME[f"run.{name}"], value) for name, value in run["settings"].items()} == {
        name: (value, "") for name, value in run["settings"].items()
    }
    other = {"problem": "interfering prompts", "across": "overlap", "down": "learning rate"}
    assert called("map", "cellRun", values | other, [0.3, 1], told)["settings"]["overlap"] == 0.3
    assert "have no overlap" in called("map", "wrongAxes", values | {"across": "overlap"}, told)
    assert "both gamma" in called("map", "wrongAxes", values | {"across": "gamma"}, told)


@pytest.mark.parametrize(
    ("weight", "found"),
    [
        ("grpo", "f_grpo(gamma=0.5,base=grpo)"),
        ("f_grpo(gamma=3,base=maxrl)", "f_grpo(gamma=0.5,base=maxrl)"),
        ("power_norm", "power_norm(gamma=0.5)"),
        ("=(1 - p)^g * r", "=(1 - p)^g * r@g=0.5"),
        ("asym_grpo(delta=2)", None),
        ("=r - p", None),
    ],
)
def test_gamma_goes_where_a_weight_has_a_place_for_it(called, weight, found):
    answer = called("map", "withGamma", weight, 0.5, description(server=True)["estimators"])
    assert answer == found if found else "the focal weight goes on no" in answer["refused"]


# Formulas


def listed(tree):
    kind, *rest = tree
    return [kind, *(listed(one) if isinstance(one, tuple) else one for one in rest)]


def read_or_refusal(text):
    try:
        return listed(read(text))
    except InputError as error:
        return str(error).rpartition("; ")[2]


def test_formulas_are_read_and_refused_as_by_python(called):
    moments, signs = random.Random(5), [*NAMES, *FUNCTIONS, *"+-*/^(),. 12e@=;x'", "1e9", "2.5"]
    texts = [*FORMULAS, "", "(" * 40 + "p", "p" * 300, "1e999", "sqrt(p)^-g^2"]
    texts += ["".join(moments.choice(signs) for _ in range(moments.randrange(1, 8))) for _ in range(150)]
    for text in texts:
        found = called("formula", "readFormula", text)
        assert (found["refused"].rpartition("; ")[2] if isinstance(found, dict) else found) == read_or_refusal(text), (
            text
        )


@pytest.mark.parametrize("formula", FORMULAS)
def test_masses_of_a_formula_are_those_of_its_weights(called, formula):
    for group, g in itertools.product(GROUPS, (0.0, 0.5)):
        correct, size = sum(group), len(group)
        rate = correct / size
        found = called("formula", "formulaMasses", f"={formula}", g, rate, size)
        expected = [
            rate * FORMULAS[formula](1.0, correct, size, g),
            -(1 - rate) * FORMULAS[formula](0.0, correct, size, g),
        ]
        assert found == pytest.approx(expected)


@pytest.mark.parametrize("formula", ["(1 - p)^g * (r - p)/s", "min(G, 3)*r - max(p, q)^2", "-sqrt(abs(r - p))*exp(p)"])
def test_the_python_lines_of_a_formula_make_the_estimator_that_it_is(called, formula, tmp_path):
    weight = {"name": f"={formula}", "parameters": {"g": 0.5} if "g" in formula.replace("sqrt", "") else {}}
    (tmp_path / "mine.py").write_text(called("formula", "pythonLines", weight))
    own = estimator_constructor(f"{tmp_path}/mine.py:weight")()
    for group in GROUPS:
        expected = [FORMULA_BY_HAND[formula](r, sum(group) / len(group), len(group)) for r in group]
        np.testing.assert_allclose(simlab.advantages(own, np.array(group)), expected, rtol=1e-12)


FORMULA_BY_HAND = {
    "(1 - p)^g * (r - p)/s": lambda r, p, G: (1 - p) ** 0.5 * (r - p) / (p * (1 - p)) ** 0.5,
    "min(G, 3)*r - max(p, q)^2": lambda r, p, G: min(G, 3) * r - max(p, 1 - p) ** 2,
    "-sqrt(abs(r - p))*exp(p)": lambda r, p, G: -(abs(r - p) ** 0.5) * np.exp(p),
}


# Group sizes, and jumps


@pytest.mark.parametrize(("mu", "tau"), [(0.5, 0.02), (0.5, 0.5), (0.9, 1e-3), (0.3, 1e-6), (1.0, 0.1)])
def test_from_the_good_group_size_on_the_target_is_rarely_missed(called, mu, tau):
    def missed(size):
        return (1 - tau) ** size - (mu - tau) ** size - (1 - mu) ** size

    good, worst = called("panel_miss", "goodGroup", mu, tau, 0.01), called("panel_miss", "worstGroup", mu, tau)[0]
    if good is None:
        assert missed(2**17) > 0.01
    else:
        assert missed(good) <= 0.01 + 1e-12
        assert good == worst or missed(good - 1) > 0.01


def test_half_of_what_a_weight_pushes_lies_below_a_solve_rate(called):
    rates = np.linspace(0, 1, 201)
    for success, failure in ((rates * 0 + 1, rates * 0), (rates * (1 - rates) ** 3, -rates), (rates**2, 1 - rates)):
        curve = {"rates": rates.tolist(), "success": success.tolist(), "failure": failure.tolist()}
        push = np.abs(success) + np.abs(failure)
        below = np.concatenate([[0], np.cumsum((push[1:] + push[:-1]) / 2 * np.diff(rates))])
        found = called("panel_masses", "pushOf", curve)
        assert found["half"] == pytest.approx(np.interp(below[-1] / 2, below, rates), abs=1e-4)
        assert found["peak"] == rates[push.argmax()]
    nothing = {"rates": [0, 1], "success": [0, 0], "failure": [0, 0]}
    assert called("panel_masses", "pushOf", nothing) is None


def test_a_jump_of_a_mass_is_a_gap(called):
    told = description(server=True)["estimators"]
    defaults = {name: own["defaults"] for name, own in told.items()}
    curve = called("panel_masses", "limitCurve", defaults, {"name": "maxrl", "parameters": {}})
    gap = curve["success"].index(None)
    assert curve["success"][:gap] == [0, 0]
    assert curve["success"][gap + 1] == pytest.approx(1)
    assert curve["rates"][gap + 1] < 1e-9
    for name in ("grpo", "pass_at_k_chen", "easy_power"):
        assert None not in called("panel_masses", "limitCurve", defaults, {"name": name, "parameters": {}})["success"]
    assert set(REGISTRY) >= set(told)
