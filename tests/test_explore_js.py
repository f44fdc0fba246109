"""The page's own JavaScript, against the library's functions and loops in Python."""

import itertools
import math

import numpy as np
import pytest
from explorer_cases import browsing, explorer, watched
from scipy.special import stdtrit

import simlab
from simlab.errors import InputError
from simlab.explore.answers import answer
from simlab.explore.controls import AXES, BY_NAME, CONTROLS, MOST_CELLS, MOST_RUNS, hold, run_settings
from simlab.explore.in_advance import in_advance
from simlab.explore.page import description
from simlab.explore.weights import hold_weight, read_weight
from simlab.grammar import read
from simlab.intervals import POSITIVE, SHARE, within
from simlab.problems.tree import tree
from simlab.theory import (
    active,
    conditional_tail_miss,
    correct_mass_change,
    first_order_change,
    logit_update,
    tail_miss,
    unsampled_correct_mass_change,
)

pytestmark = pytest.mark.browser

GENERATOR = np.random.default_rng(3)


@pytest.fixture(scope="module")
def evaluated():
    """Calls an exported function of a module with each of many lists of arguments; a refusal is {refused: message}."""
    with browsing() as browser, explorer("--port", "0") as server, watched(browser, server.address) as seen:
        seen.open(f"{server.address}#panel=miss")

        def evaluate(module, name, arguments, *shared):
            return seen.page.evaluate(
                """async ([address, name, shared, all]) => {
                    const module = await import(address);
                    const description = JSON.parse(document.getElementById("description").textContent);
                    const known = {"@description": description, "@estimators": description.estimators};
                    const filled = (values) => values.map((value) => known[value] ?? value);
                    return all.map((own) => {
                        try { return module[name](...filled(shared), ...filled(own)); }
                        catch (error) { return {refused: error.message}; }
                    });
                }""",
                [f"{server.address}page/{module}.js", name, list(shared), arguments],
            )

        yield evaluate


@pytest.fixture(scope="module")
def called(evaluated):
    return lambda module, name, *arguments: evaluated(module, name, [list(arguments)])[0]


@pytest.fixture(scope="module")
def told():
    return description(server=True)


def close(values, expected, rtol=1e-12, atol=1e-300):
    np.testing.assert_allclose(np.array(values, dtype=float), np.array(expected, dtype=float), rtol=rtol, atol=atol)


# Closed forms


def test_tail_miss_and_its_parts(evaluated):
    masses = [0.0, 1e-12, 0.3, 0.999999, 1.0, *np.random.default_rng(1).uniform(size=4)]
    sizes, shares = [1, 2, 3, 17, 1024, 2**17], [0.0, 1e-9, 0.5, 1.0]
    points = [[size, mu, mu * share] for size, mu, share in itertools.product(sizes, masses, shares)]
    size, mu, tau = np.array(points).T
    close(evaluated("closed_forms", "tailMiss", points), tail_miss(size, mu, tau), rtol=1e-11)
    close(evaluated("closed_forms", "active", [point[:2] for point in points]), active(size, mu), rtol=1e-11)
    close(evaluated("closed_forms", "conditionalTailMiss", points), conditional_tail_miss(size, mu, tau), rtol=1e-11)


@pytest.mark.parametrize(("mu", "tau"), [(0.5, 0.02), (0.5, 0.5), (0.3, 1e-6), (1.0, 0.1)])
def test_from_the_good_group_size_on_the_target_is_rarely_missed(called, mu, tau):
    def missed(size):
        return (1 - tau) ** size - (mu - tau) ** size - (1 - mu) ** size

    good, worst = called("panel_miss", "goodGroup", mu, tau, 0.01), called("panel_miss", "worstGroup", mu, tau)[0]
    if good is None:
        assert missed(2**17) > 0.01
    else:
        assert missed(good) <= 0.01 + 1e-12
        assert good == worst or missed(good - 1) > 0.01


def steps(count):
    generator = np.random.default_rng(2)
    for number in range(count):
        actions = int(generator.integers(2, 17))
        policy = generator.dirichlet(np.full(actions, 0.5))
        correct, sampled = generator.uniform(size=(2, actions)) < 0.5
        sampled[generator.integers(actions)] = True
        if number % 10 == 0:
            sampled[:] = True
        if number % 10 == 1:
            correct[:] = number % 20 == 1
        rewards = float(generator.uniform(0, 2)), -float(generator.uniform(0, 2))
        yield policy, correct, sampled, rewards, float(generator.uniform(0.1, 9)), int(generator.integers(16, 40))


def test_redistribution_term_by_term(evaluated, called):
    arguments, expected = [], []
    for policy, correct, sampled, (right, wrong), rate, size in steps(60):
        options = {"correct_reward": right, "incorrect_reward": wrong, "learning_rate": rate, "group_size": size}
        step = {
            "policy": policy.tolist(), "correct": correct.tolist(), "sampled": sampled.tolist(),
            "rewards": np.where(sampled, np.where(correct, right, wrong), 0).tolist(),
            "learningRate": rate, "groupSize": size,
        }  # fmt: skip
        arguments.append([step])
        update = logit_update(policy, correct, sampled, **options)
        gained = correct_mass_change(policy, correct, sampled, **options)
        lost = unsampled_correct_mass_change(policy, correct, sampled, **options)
        expected.append((update, first_order_change(policy, update), gained, lost))
    updates = evaluated("closed_forms", "logitUpdate", arguments)
    moved = [[step["policy"], update] for (step,), update in zip(arguments, updates, strict=True)]
    changes = evaluated("closed_forms", "firstOrderChange", moved)
    gains = evaluated("closed_forms", "correctMassTerms", arguments)
    losses = evaluated("closed_forms", "unsampledCorrectTerms", arguments)
    for number, (update, change, gained, lost) in enumerate(expected):
        close(updates[number], update, rtol=1e-9, atol=1e-14)
        close(changes[number], change, rtol=1e-9, atol=1e-14)
        close(sum(gains[number]), gained, rtol=1e-9, atol=1e-14)
        close(sum(losses[number]), lost, rtol=1e-9, atol=1e-14)
    graded = arguments[-1][0] | {"rewards": np.where(sampled, np.linspace(-1, 1, len(sampled)), 0).tolist()}
    change = called("closed_forms", "firstOrderChange", graded["policy"], called("closed_forms", "logitUpdate", graded))
    close(sum(called("closed_forms", "correctMassTerms", graded)), sum(np.array(change)[correct]), atol=1e-14)
    missed = sum(np.array(change)[correct & ~sampled])
    close(sum(called("closed_forms", "unsampledCorrectTerms", graded)), missed, atol=1e-14)
    close(called("closed_forms", "geometric", 4, 0.6, 0.5), 0.6 * np.array([8, 4, 2, 1]) / 15)


def test_probabilities_and_words_of_a_tree(evaluated):
    policies = np.random.default_rng(4).dirichlet(np.ones(4), size=(3, 21))
    for policy, leaves in zip(
        policies, evaluated("closed_forms", "leaves", [[row] for row in policies.tolist()]), strict=True
    ):
        close(leaves, np.exp(tree(logits=np.log(policy).reshape(-1)).leaf_logp), rtol=1e-6)
    words = evaluated("closed_forms", "word", [[leaf, 3, 4] for leaf in range(64)])
    assert [words[leaf] for leaf in tree().modes] == tree().mode_words


def step_settings(**changes):
    defaults = {control.name.partition(".")[2]: control.default for control in CONTROLS if control.name[:5] == "step."}
    return defaults | changes


def test_the_rewards_of_one_step_are_those_of_the_sliders_or_the_estimators_advantages(called):
    rewards = called("panel_step", "rewardedStep", step_settings(correct_reward=2.5), None)
    assert (rewards["ofRight"], rewards["ofWrong"]) == (2.5, -1.0)
    for weight, (mass, size) in itertools.product(("grpo", "maxrl", "=r - p"), ((0.3, 8), (0.001, 4), (0.999, 4))):
        settings = step_settings(rewards="the estimator", weight=weight, correct_mass=mass, group_size=size)
        answers = [answer("masses", {"weight": weight, "group_size": size})]
        rewards = called("panel_step", "rewardedStep", settings, answers)
        right = round(mass * size)
        group = (np.arange(size) < right).astype(float)
        name, parameters = read_weight(weight)
        expected = simlab.advantages(name, group, **parameters)
        assert rewards["ofRight"] == pytest.approx(expected[group > 0].mean() if right else 0, abs=1e-5)
        assert rewards["ofWrong"] == pytest.approx(expected[group == 0].mean() if right < size else 0, abs=1e-5)


def test_graded_rewards_of_a_group_give_the_estimators_advantages_or_say_what_it_is_defined_for(called):
    group = {"rewards": "graded rewards", "sampled_correct": "01100", "sampled_incorrect": "00010"}
    settings = step_settings(**group, c2=0.7, c3=0.2, w4=-0.5)
    for weight in ("grpo", "f_grpo(gamma=2)", "linked(scale=std,sign=relu)"):
        (question,) = called("panel_step", "questions", settings | {"weight": weight})
        assert question == {"weight": weight, "rewards": [0.7, 0.2, -0.5], "correct": [1, 1, 0]}
        step = called("panel_step", "rewardedStep", settings, [answer("advantages", question)])
        name, parameters = read_weight(weight)
        expected = simlab.advantages(name, question["rewards"], correct=[True, True, False], **parameters)
        close(np.array(step["rewards"])[[1, 2, 8]], expected, atol=1e-11)
        assert np.count_nonzero(step["rewards"]) == np.count_nonzero(expected)
        assert step["groupSize"] == 3
    for weight, allowed in (("a_grae(alpha=2)", "rewards in [0, 1]"), ("=r - p", "rewards 0 and 1")):
        message = answer("advantages", {"weight": weight, "rewards": [0.7, -0.5]})["refused"]
        assert message.startswith("rewards span [-0.5, 0.7] and hold ")
        assert message.endswith(f"{weight} is defined for {allowed}")
    assert called("panel_step", "questions", settings | {"sampled_correct": "", "sampled_incorrect": ""}) == []


# Runs seed by seed


def naive_at_mass(mass, values, level):
    """Follow one seed's records to the first crossing of the level from below."""
    highest, at_highest = mass[0], values[0]
    if level < highest:
        return None
    if level == highest:
        return at_highest
    for next_mass, next_value in zip(mass[1:], values[1:], strict=True):
        if next_mass > highest:
            if next_mass >= level:
                return at_highest + (level - highest) / (next_mass - highest) * (next_value - at_highest)
            highest, at_highest = next_mass, next_value
    return None


def moments_of(values):
    values = np.array(values, dtype=float)
    mean = values.mean(axis=0)
    return {"values": values.tolist(), "mean": mean.tolist(), "m2": ((values - mean) ** 2).sum(axis=0).tolist()}


def run_of(masses, values):
    metrics = {"mass": moments_of(masses), "own": moments_of(values)}
    return {"step": list(range(0, 10 * masses.shape[1], 10)), "seeds": len(masses), "metrics": metrics}


RUNS = [
    run_of(np.sort(GENERATOR.uniform(size=(6, 9)), axis=1), GENERATOR.normal(size=(6, 9))) for _ in range(2)
]  # their masses rise


def half_width(values):
    return stdtrit(len(values) - 1, 0.975) * np.std(values, ddof=1) / len(values) ** 0.5


def test_means_and_bands_are_those_of_the_seeds_that_are_there(called):
    values = [[None if value > 1.2 else value for value in row] for row in GENERATOR.normal(size=(6, 5)).tolist()]
    summary = called("compare", "summary", values)
    for index in range(5):
        column = [row[index] for row in values if row[index] is not None]
        assert summary["mean"][index] == pytest.approx(np.mean(column))
        assert summary["half"][index] == pytest.approx(half_width(column), rel=1e-3)
    assert called("compare", "summary", [[1.0, None], [None, None]]) == {"mean": [None, None], "half": [None, None]}
    assert called("compare", "summary", []) == {"mean": [], "half": []}


@pytest.mark.parametrize("bounds", [SHARE, POSITIVE])
def test_ends_of_a_band_are_inside_of_what_can_be_as_in_tables(called, bounds):
    for mean, half in ((0.5, 0.1), (0.98, 0.3), (0.01, 5.0), (0.3, 1e-4)):
        ends = [called("compare", "inside", mean, sign * half, bounds[1]) for sign in (-1, 1)]
        close(ends, within(mean, half, bounds), rtol=1e-9)
    assert [called("compare", "inside", mean, 0.5, 1) for mean in (0, 1)] == [0, 1]
    assert called("compare", "inside", 0.9, 0.5, None) == pytest.approx(1.4)


def test_runs_are_paired_by_seed_and_read_at_equal_steps_and_masses(called):
    first, second = (GENERATOR.normal(size=(4, 3)) for _ in range(2))
    close(called("compare", "differences", first.tolist(), second[:3].tolist()), first[:3] - second[:3])
    assert called("compare", "differences", [[1.0, None]], [[None, 2.0]]) == [[None, None]]
    masses = np.clip(np.cumsum(GENERATOR.normal(0.05, 0.1, size=(8, 12)), axis=1) + 0.3, 0, 1)
    values, levels = GENERATOR.normal(size=(8, 12)), [0.0, 0.25, 0.3, 0.5, 0.75, 1.0]
    read = called("compare", "atEqualMass", masses.tolist(), values.tolist(), levels)
    for seed, index in itertools.product(range(8), range(len(levels))):
        expected = naive_at_mass(masses[seed], values[seed], levels[index])
        assert read[seed][index] == (None if expected is None else pytest.approx(expected))
    rows = called("compare", "atSteps", [0, 10, 30, 40], values[:2, :4].tolist(), [0, 5, 20, 40, 41])
    for row, curve in zip(rows, values[:2, :4], strict=True):
        assert row == [*map(pytest.approx, np.interp([0, 5, 20, 40], [0, 10, 30, 40], curve)), None]


def test_a_metric_and_a_gain_are_read_at_a_record_or_where_each_seed_reaches_a_mass(called):
    values, masses = (np.array(RUNS[0]["metrics"][name]["values"]) for name in ("own", "mass"))
    at_record = called("compare", "readAt", RUNS[0], "own", 4, None, "mass")
    assert at_record == {
        "mean": pytest.approx(values[:, 4].mean()),
        "half": pytest.approx(half_width(values[:, 4]), rel=1e-3),
    }
    reached = [naive_at_mass(mass, curve, 0.5) for mass, curve in zip(masses, values, strict=True)]
    reached = [value for value in reached if value is not None]
    at_half = called("compare", "readAt", RUNS[0], "own", 4, 0.5, "mass")
    assert at_half == {"mean": pytest.approx(np.mean(reached)), "half": pytest.approx(half_width(reached), rel=1e-3)}
    assert called("compare", "readAt", RUNS[0], "own", 4, 2.0, "mass") == {"mean": None, "half": None}
    for level in (None, 0.5):
        pairs = []
        for seed in range(6):
            series = [[run["metrics"][name]["values"][seed] for name in ("own", "mass")] for run in RUNS]
            pairs.append([curve[4] if level is None else naive_at_mass(mass, curve, level) for curve, mass in series])
        gains = [value - against for value, against in pairs if None not in (value, against)]
        gain = called("compare", "gainAt", *RUNS, "own", 4, level, "mass")
        assert gain == {"mean": pytest.approx(np.mean(gains)), "half": pytest.approx(half_width(gains), rel=1e-3)}
    # The step itself is a metric.
    compared = called("compare", "compared", "at equal correct mass", "step", RUNS[0], RUNS[1], "mass")
    steps = [naive_at_mass(mass, RUNS[0]["step"], 0.5) for mass in masses]
    steps = [value for value in steps if value is not None]
    assert compared["mean"][compared["x"].index(0.5)] == pytest.approx(np.mean(steps))


@pytest.mark.parametrize("counts", [(4, 12), (1, 7)])
def test_blocks_of_seeds_are_joined_to_what_all_seeds_give(called, counts):
    values = GENERATOR.normal(3.0, 0.1, size=(sum(counts), 3))
    blocks = [{"step": [0, 5, 9], "seeds": len(block), "metrics": {"q_pos": moments_of(block)}}
              for block in np.split(values, [counts[0]])]  # fmt: skip
    joined = called("compare", "joined", *blocks)
    assert (joined["seeds"], joined["step"]) == (sum(counts), [0, 5, 9])
    for name, expected in moments_of(values).items():
        close(joined["metrics"]["q_pos"][name], expected, rtol=1e-9)
    close(
        called("compare", "halfWidth", moments_of(values), sum(counts)),
        [half_width(row) for row in values.T],
        rtol=1e-3,
    )
    empty = {"step": [0], "seeds": 4, "metrics": {"rate": {"values": [[None]] * 4, "mean": [None], "m2": [None]}}}
    assert called("compare", "joined", empty, empty)["metrics"]["rate"]["m2"] == [None]


# Interference


def naive_crossing(ks, gains):
    """Find the first fall of gains from 0 or above to below 0, linear in log k."""
    for (k, gain), (next_k, next_gain) in itertools.pairwise(zip(ks, gains, strict=True)):
        if gain >= 0 > next_gain:
            return k * (next_k / k) ** (gain / (gain - next_gain))
    return None


def test_from_which_k_on_there_is_less(evaluated):
    ks = [2**power for power in range(13)]
    rows = [*GENERATOR.normal(size=(20, 13)).tolist(), [0.1] * 13]
    for gains, crossing in zip(
        rows, evaluated("closed_forms", "crossing", [[gains] for gains in rows], ks), strict=True
    ):
        assert crossing == pytest.approx(naive_crossing(ks, gains))


# Settings


# A text of a control, and its value; None where it is refused.
TEXTS = [
    ("run.pinned", "weight=grpo&group_size=64;steps=99", "weight=grpo&group_size=64;steps=99", ""),
    ("run.pinned", "", "", ""),
    ("run.pinned", "steps=1e5", "steps=16384", "held at 16384"),
    ("run.pinned", ";" * MOST_RUNS, ";" * (MOST_RUNS - 1), "held at 12"),
    ("run.pinned", "x=1", None, "'x'"),
    ("run.pinned", "steps=many", None, "'many'"),
    ("run.pinned", "pinned=a", None, "'pinned'"),
    ("masses.pinned", ";".join(["grpo"] * 13), ";".join(["grpo"] * 12), "held at 12"),
    ("masses.pinned", "grpo;ds_grpo", None, "'ds_grpo'"),
    ("map.cell", "16,0.50", "16,0.5", ""),
    ("map.cell", "16,nan", None, "16,nan"),
    ("map.pinned", ";".join(["1,2"] * 13), ";".join(["1,2"] * MOST_CELLS), "held at 12"),
    ("step.sampled_correct", "101", "101", ""),
    ("step.sampled_correct", "102", None, "'102'"),
    ("miss.group_size", "7.6", 8, "held at 8"),
    ("miss.correct_mass", "half", None, "'half'"),
    ("masses.show", "everything", None, "'everything'"),
]
WEIGHTS = [
    "grpo", "asym_grpo(delta=99)", "asym_grpo(delta=1e-3)", "asym_grpo(delta=x)", "asym_grpo(delta=nan)", "pkpo(k=2.6)",
    "pkpo(k=-0)", "grpo(ddof=1)", "grpo(ddof=2)", "grpo(gamma=1)", "mc_grpo(scale=none)", "mc_grpo(scale=mad)", "grop",
    "grpo+casp", "grpo@constant", "f_grpo( gamma = 0.25, base = maxrl )", "f_grpo(base=f_grpo)", "constructor", "grpo(",
    "f_grpo(gamma=0.1234567890123456)", "f_grpo(__proto__=1)", "mine.py:weight", "f_grpo(gamma=1,gamma=2)", "",
]  # fmt: skip


def test_texts_are_held_and_weights_as_by_the_server(called, evaluated, told):
    controls = {control["name"]: control for control in told["controls"]}
    for name, text, expected, note in TEXTS:
        held = called("settings", "hold", controls[name], text, "@description")
        if expected is None:
            assert note in held["refused"], (name, text)
        else:
            assert held[0] == expected, (name, text)
            assert note in held[1] if note else held[1] == "", (name, text)
    arguments = [[text, "@estimators", False] for text in WEIGHTS]
    for text, held in zip(WEIGHTS, evaluated("settings", "holdWeight", arguments), strict=True):
        try:
            weight, warning = hold_weight(text, closed=False)
        except InputError:
            assert set(held) == {"refused"}, text
        else:
            assert read(held[0]) == read(weight), text
            assert bool(held[1]) == bool(warning), text


# The map


def test_the_coarse_map_comes_first_and_the_cells_nearest_the_pointer(called):
    cells = called("map", "cellsOf", {"across": "group size", "down": "gamma"}, "@description")
    assert len(cells) == len(AXES["group size"].values) * len(AXES["gamma"].values)
    counts, pointed, order = [0] * len(cells), {"column": 6, "row": 1}, []
    while (index := called("map", "nextCell", cells, counts, 8, pointed)) >= 0:
        counts[index] += 4
        order.append(cells[index])
    assert counts == [8] * len(cells)
    assert [cell["coarse"] for cell in order[:45]] == [True] * 15 + [False] * 30
    for stage in (order[:15], order[15:45], order[45:]):
        distances = [(cell["column"] - 6) ** 2 + (cell["row"] - 1) ** 2 for cell in stage]
        assert distances == sorted(distances)


def test_a_cell_is_the_run_that_its_axes_say(called, evaluated):
    values = {control.name[4:]: control.default for control in BY_NAME.values() if control.name.startswith("map.")}
    run = called("map", "cellRun", values, [64, 0.5], "@description")
    assert (run["panel"], run["settings"]["group_size"]) == ("run", 64)
    assert run["settings"]["weight"] == "f_grpo(gamma=0.5,base=grpo)"
    assert all(hold(BY_NAME[f"run.{name}"], value) == (value, "") for name, value in run["settings"].items())
    other = {"problem": "interfering prompts", "across": "overlap", "down": "learning rate"}
    assert called("map", "cellRun", values | other, [0.3, 1], "@description")["settings"]["overlap"] == 0.3
    weights = {
        "grpo": "f_grpo(gamma=0.5,base=grpo)",
        "f_grpo(gamma=3,base=maxrl)": "f_grpo(gamma=0.5,base=maxrl)",
        "power_norm": "power_norm(gamma=0.5)",
    }
    arguments = [[text, 0.5, "@estimators"] for text in [*weights, "asym_grpo(delta=2)"]]
    *answers, refused = evaluated("map", "withGamma", arguments)
    assert answers == [*weights.values()]
    assert set(refused) == {"refused"}


def test_at_equal_rollouts_the_steps_of_a_cell_are_those_that_its_groups_leave(called, evaluated):
    """The runs go up to a power of 16, or the most there are, and the map reads them at what the slider says."""
    values = {control.name[4:]: control.default for control in BY_NAME.values() if control.name.startswith("map.")}
    hard = {"problem": "interfering prompts", "down": "learning rate", "hard_share": 0.1, "rollouts": 2**17}
    equal = values | hard | {"length": "equal rollouts"}
    cells = [equal, [16, 0.1], "@description"], [equal | {"rollouts": 2**16}, [512, 0.1], "@description"]
    steps = [run["settings"]["steps"] for run in evaluated("map", "cellRun", cells)]
    assert steps == [2**18 // (32 * 16), 2**16 // (32 * 512)]
    assert called("map", "cellRun", values | hard, [16, 0.1], "@description")["settings"]["steps"] == values["steps"]
    most = BY_NAME["interference.steps"].high
    assert called("map", "rolloutsOf", equal, "@description") == [32 * 512, 32 * 2 * most]
    command = called("map", "mapCommand", equal, [16, 0.1], "@description")
    assert "--budget 131072 --records 50" in command
    assert "--param problem.easy_share=0.9" in command
    assert "--steps" not in command


# Without a server: the nearest run that was computed in advance


def all_settings(panel, settings):
    return {name: settings.get(name, BY_NAME[f"{panel}.{name}"].default) for name in run_settings(panel)}


def gamma_of(weight):
    return float(weight.partition("gamma=")[2].partition(",")[0].rstrip(")") or 0) if "gamma=" in weight else 0.0


def naive_distance(first, second):
    """A different setting counts 100, a doubled group 1, gamma its difference; the rest of a weight counts nothing."""
    distance = 100 * sum(first[name] != second[name] for name in first if name not in ("weight", "group_size"))
    distance += abs(math.log2(first.get("group_size", 1) / second.get("group_size", 1)))
    return distance + abs(gamma_of(first.get("weight", "")) - gamma_of(second.get("weight", "")))


def test_without_a_server_the_nearest_run_is_shown(called):
    for panel, settings in [
        ("run", {}),
        ("run", {"group_size": 500, "weight": "f_grpo(gamma=0.6,base=grpo)"}),
        ("run", {"optimizer": "sgd", "actions": 64}),
        ("bank", {"group_size": 9, "beta_a": 0.3}),
        ("tree", {"group_size": 32}),
    ]:
        full = all_settings(panel, settings)
        runs = [all_settings(panel, run["settings"]) for run in in_advance() if run["panel"] == panel]
        nearest = called("simulations", "nearestInAdvance", {"panel": panel, "settings": full}, "@description")
        assert nearest["settings"] in runs
        least = min(naive_distance(full, run) for run in runs)
        assert naive_distance(full, nearest["settings"]) == pytest.approx(least, abs=1e-12)
        assert (nearest["settings"] == full) == (full in runs)
