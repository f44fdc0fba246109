"""How the page compares runs, chooses cells of the map and reads formulas, in JavaScript, against loops in Python."""

import itertools
import math
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
from simlab.explore.controls import BY_NAME, CONTROLS, names_of_runs
from simlab.explore.description import description
from simlab.explore.formula import FUNCTIONS, NAMES, read
from simlab.explore.in_advance import in_advance
from simlab.explore.settings import hold
from simlab.explore.weights import read_weight

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


# What is simulated


def moments_of(values):
    values = np.array(values, dtype=float)
    mean = values.mean(axis=0)
    return {"values": values.tolist(), "mean": mean.tolist(), "m2": ((values - mean) ** 2).sum(axis=0).tolist()}


def block_of(values, step):
    return {"step": step, "seeds": len(values), "metrics": {"q_pos": moments_of(values)}}


@pytest.mark.parametrize("counts", [(4, 4), (4, 12), (1, 7)])
def test_blocks_of_seeds_are_joined_to_what_all_seeds_give(called, counts):
    step = [0, 5, 9]
    values = GENERATOR.normal(3.0, 0.1, size=(sum(counts), len(step)))
    parts = [block_of(part, step) for part in np.split(values, [counts[0]])]
    found = called("simulate", "joined", *parts)
    expected = block_of(values, step)
    assert (found["seeds"], found["step"]) == (sum(counts), step)
    for name in ("values", "mean", "m2"):
        np.testing.assert_allclose(found["metrics"]["q_pos"][name], expected["metrics"]["q_pos"][name], rtol=1e-9)


def test_what_no_seed_has_stays_empty_when_blocks_are_joined(called):
    empty = {"step": [0], "seeds": 4, "metrics": {"rate": {"values": [[None]] * 4, "mean": [None], "m2": [None]}}}
    found = called("simulate", "joined", empty, empty)
    assert (found["metrics"]["rate"]["mean"], found["metrics"]["rate"]["m2"]) == ([None], [None])


@pytest.mark.parametrize("seeds", [2, 4, 33])
def test_a_band_is_196_standard_errors_to_either_side(called, seeds):
    values = GENERATOR.normal(size=(seeds, 3))
    expected = 1.96 * values.std(axis=0, ddof=1) / np.sqrt(seeds)
    np.testing.assert_allclose(called("simulate", "halfWidth", moments_of(values), seeds), expected, rtol=1e-12)
    assert called("simulate", "halfWidth", {"m2": [None]}, 4) == [None]


def passed(step, curves):
    """Means of pass@k, ``curves`` (k, R), as a result of the interference holds them."""
    names = {f"pass_at_{k}": {"mean": list(curve)} for k, curve in curves.items()}
    return {"step": step, "k": list(curves), "metrics": names}


@pytest.mark.parametrize("level", [0.1, 0.15, 0.2, 0.35, 0.49, 0.5])
def test_pass_at_k_is_read_where_pass_at_1_reaches_a_level(called, level):
    step = [0, 10, 30, 70]
    curves = {1: [0.1, 0.2, 0.4, 0.5], 16: [0.7, 0.8, 0.6, 0.5], 256: [1.0, 0.9, 0.7, 0.65]}
    found = called("crossing", "atLevel", passed(step, curves), level)
    assert found["step"] == pytest.approx(np.interp(level, curves[1], step), rel=1e-12)
    expected = [np.interp(level, curves[1], curve) for curve in curves.values()]
    np.testing.assert_allclose(found["curve"], expected, rtol=1e-12)


def test_a_level_below_the_start_is_read_there_and_one_that_is_not_reached_nowhere(called):
    result = passed([0, 10], {1: [0.3, 0.4], 4: [0.6, 0.5]})
    assert called("crossing", "atLevel", result, 0.2) == {"step": 0, "curve": [0.3, 0.6]}
    assert called("crossing", "atLevel", result, 0.41) is None


def naive_crossing(ks, gains):
    """The first two neighbouring k of which the one has no loss and the next has one; linear in log k between them."""
    for (k, gain), (next_k, next_gain) in itertools.pairwise(zip(ks, gains, strict=True)):
        if gain >= 0 > next_gain:
            return k * (next_k / k) ** (gain / (gain - next_gain))
    return None


def test_from_which_k_on_there_is_less(called):
    ks = [2**power for power in range(13)]
    for _ in range(20):
        gains = GENERATOR.normal(size=13).tolist()
        assert called("crossing", "crossing", ks, gains) == pytest.approx(naive_crossing(ks, gains))
    assert called("crossing", "crossing", ks, [0.1] * 13) is None


# Without a server: the nearest run that was computed in advance


def all_settings(panel, own):
    return {name: own.get(name, BY_NAME[f"{panel}.{name}"].default) for name in names_of_runs(panel)}


def gamma_of(weight):
    return float(weight.partition("gamma=")[2].partition(",")[0].rstrip(")") or 0) if "gamma=" in weight else 0.0


def naive_distance(one, other):
    """A setting that differs counts 100, a doubled group 1, gamma as it is; what the weight is else counts nothing."""
    found = 100 * sum(one[name] != other[name] for name in one if name not in ("weight", "group_size"))
    found += abs(math.log2(one.get("group_size", 1) / other.get("group_size", 1)))
    return found + abs(gamma_of(one.get("weight", "")) - gamma_of(other.get("weight", "")))


@pytest.mark.parametrize(
    ("panel", "own"),
    [
        ("run", {}),
        ("run", {"group_size": 20}),
        ("run", {"group_size": 500, "weight": "f_grpo(gamma=0.6,base=grpo)"}),
        ("run", {"weight": "f_grpo(gamma=8,base=grpo)", "learning_rate": 0.02}),
        ("run", {"optimizer": "sgd", "actions": 64}),
        ("interference", {"overlap": 0.31}),
        ("bank", {"group_size": 9, "beta_a": 0.3}),
        ("tree", {"group_size": 32}),
    ],
)
def test_without_a_server_the_nearest_run_is_shown(called, panel, own):
    asked = all_settings(panel, own)
    runs = [all_settings(panel, run["settings"]) for run in in_advance() if run["panel"] == panel]
    found = called("in_advance", "nearestInAdvance", {"panel": panel, "settings": asked}, description(server=True))
    least = min(naive_distance(asked, run) for run in runs)
    assert found["settings"] in runs
    assert naive_distance(asked, found["settings"]) == pytest.approx(least, abs=1e-12)
    assert (found["settings"] == asked) == (asked in runs)


# One step with the rewards that an estimator gives


@pytest.mark.parametrize(
    "weight", ["grpo", "maxrl", "f_grpo(gamma=2,base=dr_grpo)", "w_reinforce(success=0.5)", "=r - p"]
)
@pytest.mark.parametrize(("mass", "size"), [(0.5, 8), (0.3, 8), (0.001, 4), (0.999, 4)])
def test_the_rewards_of_one_step_are_the_advantages_of_a_group_with_the_policys_solve_rate(called, weight, mass, size):
    own = {control.name.removeprefix("step."): control.default for control in CONTROLS if control.name[:5] == "step."}
    given = own | {"rewards": "the estimator", "weight": weight, "correct_mass": mass, "group_size": size}
    found = called("panel_step", "rewardedStep", given, description(server=True), None)
    right = round(mass * size)
    group = (np.arange(size) < right).astype(float)
    name, parameters = read_weight(weight)
    expected = simlab.advantages(name, group, **parameters)
    assert found["rewardCorrect"] == pytest.approx(expected[group > 0].mean() if right else 0, abs=1e-5)
    assert found["rewardIncorrect"] == pytest.approx(expected[group == 0].mean() if right < size else 0, abs=1e-5)


def test_the_sliders_of_one_step_give_its_rewards(called):
    own = {control.name.removeprefix("step."): control.default for control in CONTROLS if control.name[:5] == "step."}
    found = called("panel_step", "rewardedStep", own | {"correct_reward": 2.5}, description(server=True), None)
    assert (found["rewardCorrect"], found["rewardIncorrect"]) == (2.5, -1.0)
