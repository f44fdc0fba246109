"""What the options of ``simlab sweep`` ask for: lists, sizes, shards, parameters by name, presets and overrides."""

import dataclasses
import inspect
import json

import numpy as np
import pytest
import xarray as xr
from hypothesis import assume, given
from hypothesis import strategies as some
from sweep_cases import asked, refusal

from simlab.estimators import REGISTRY
from simlab.problems.registry import PROBLEMS
from simlab.simulator.optimizers import OPTIMIZERS
from simlab.surrogates import SURROGATES
from simlab.sweeps import Plan, Sweep
from simlab.sweeps.options import expand, parse_scheduler, parse_shard, parse_size
from simlab.sweeps.presets import PRESETS

# Lists


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("7", "7"),
        ("grpo,rloo", "grpo rloo"),
        (" 2 , 4 ", "2 4"),
        ("2,4,...,16", "2 4 8 16"),
        ("8,4,...,1", "8 4 2 1"),
        ("0,0.5,...,2", "0 0.5 1 1.5 2"),
        ("2,1,...,-1", "2 1 0 -1"),
        ("1,2,...,4", "1 2 4"),
        ("1,2,...,5", "1 2 3 4 5"),
        ("0.1,0.2,...,0.7", "0.1 0.2 0.3 0.4 0.5 0.6 0.7"),
        ("3,5,10,...,40", "3 5 10 20 40"),
        ("5,6,...,6", "5 6"),
    ],
)
def test_dots_go_on_geometrically_where_that_fits_and_else_arithmetically(text, items):
    assert expand(text) == items.split()


def test_the_group_sizes_of_the_papers_figure_fit_in_three_items():
    assert expand("2,4,...,131072") == [str(2**power) for power in range(1, 18)]


@given(first=some.integers(1, 50), ratio=some.integers(2, 9), steps=some.integers(1, 8))
def test_a_geometric_progression_keeps_whole_numbers_whole(first, ratio, steps):
    full = [str(first * ratio**power) for power in range(steps + 1)]
    assert expand(f"{full[0]},{full[1]},...,{full[-1]}") == full


@given(first=some.integers(-1000, 0), step=some.integers(-50, 50).filter(bool), steps=some.integers(1, 300))
def test_an_arithmetic_progression_keeps_whole_numbers_whole(first, step, steps):
    full = [str(first + step * index) for index in range(steps + 1)]
    assert expand(f"{full[0]},{full[1]},...,{full[-1]}") == full


@given(some.lists(some.text("abc019.-_", min_size=1), min_size=1))
def test_a_list_without_dots_is_split_at_its_commas(items):
    assume("..." not in items)
    assert expand(",".join(items)) == items


@pytest.mark.parametrize("text", ["", ",", "1,,2", "1,", "  "])
def test_an_empty_item_is_refused(text):
    message = refusal(expand, text)
    assert repr(text) in message
    assert "empty item; allowed: values separated by commas" in message


@pytest.mark.parametrize(
    "text",
    [
        "...,4",
        "1,...,4",
        "1,2,...",
        "1,2,...,8,9",
        "1,2,...,8,...,32",
        "1,1,...,4",
        "2,4,...,9",
        "2,4,...,2",
        "4,2,...,8",
        "0,1,...,0.5",
        "1,2,...,inf",
        "1,2,...,nan",
        "inf,inf,...,inf",
        "a,b,...,c",
        "0,1,...,1000000000",
        "1,1.0000000001,...,2",
    ],
)
def test_dots_that_no_short_progression_fits_are_refused(text):
    message = refusal(expand, text)
    assert repr(text) in message
    assert "allowed: first,second,...,last" in message


# Sizes and shards


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1e9", 10**9),
        ("4096", 4096),
        ("512MB", 512 * 2**20),
        ("512 MiB", 512 * 2**20),
        ("2G", 2 * 2**30),
        ("2gb", 2 * 2**30),
        ("1.5GB", 3 * 2**29),
        ("16kB", 16 * 2**10),
        ("1T", 2**40),
    ],
)
def test_a_size_counts_in_powers_of_1024(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "x", "GB", "0", "-1", "-1GB", "1.5.2GB", "nan", "inf", "1e400", "2PB", "2GB!"])
def test_what_is_no_size_is_refused(text):
    message = refusal(parse_size, text)
    assert f"--memory {text!r}" in message
    assert "allowed: a number with MB or GB" in message


@given(count=some.integers(1, 10**6), data=some.data())
def test_a_shard_is_one_of_n_counted_from_1(count, data):
    number = data.draw(some.integers(1, count))
    assert parse_shard(f"{number}/{count}") == (number, count)


@pytest.mark.parametrize(
    "text", ["0/2", "3/2", "1/0", "0/0", "-1/2", "1", "1/", "/2", "1/2/3", "a/b", "1.0/2", "", " 1/2"]
)
def test_what_is_no_shard_is_refused(text):
    message = refusal(parse_shard, text)
    assert f"--shard {text!r}" in message
    assert "allowed: I/N with 1 <= I <= N" in message


@pytest.mark.parametrize("text", ["tcp://node-7:8786", "tls://10.0.0.1:1", "tcp://[::1]:8786"])
def test_a_scheduler_is_an_address(text):
    assert parse_scheduler(text) == text


@given(some.integers(1, 9999))
def test_a_scheduler_is_a_number_of_processes_here(number):
    assert parse_scheduler(f"local:{number}") == number


@pytest.mark.parametrize(
    "text",
    [
        *("", "local", "local:", "local:0", "local:-1", "local:1.5", "local:two", " local:2", "4", "node:8786"),
        *(
            "http://node:8786",
            "tcp://",
            "tcp://node",
            "tcp://:8786",
            "tcp://node:",
            "tcp://node:port",
            "tcp://node:8786/",
        ),
    ],
)
def test_what_is_no_scheduler_is_refused(text):
    message = refusal(parse_scheduler, text)
    assert f"--scheduler {text!r}" in message
    assert "allowed: local:N for N processes of this machine, tcp://HOST:PORT or tls://HOST:PORT" in message


# Parameters by name


def in_text(value):
    """A parameter's value as one writes it on the command line."""
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


CHOICES = [
    ("run", {}),
    *(("estimator", {"estimators": (name,)}) for name in REGISTRY),
    *(("problem", {"problem": name}) for name in PROBLEMS),
    *(("surrogate", {"surrogates": (name,)}) for name in SURROGATES),
    *(("optimizer", {"optimizer": name}) for name in OPTIMIZERS),
]
PARAMETERS = [
    (choice, name, default)
    for section, choice in CHOICES
    for name, default in Sweep(**choice).known_parameters().items()
    if name.startswith(section) and default != ()  # an empty list cannot be written
]


@pytest.mark.parametrize(("choice", "name", "default"), PARAMETERS)
def test_every_parameter_can_be_given_and_reads_like_its_default(choice, name, default):
    options = [f"--{option.rstrip('s')}={in_text(value)}" for option, value in choice.items()]
    (value,) = asked(*options, "--param", f"{name}={in_text(default)}").parameters[name]
    assert value == default
    assert type(value) is type(default)


def test_parameters_of_every_section_are_there():
    known = {name for _, name, _ in PARAMETERS}
    assert {
        "estimator.gamma",
        "estimator.delta_min",
        "problem.actions",
        "problem.logits",
        "surrogate.eps_high",
        "optimizer.learning_rate",
        "optimizer.weight_decay",
        "run.temperature",
        "run.kl",
        "run.entropy_bonus",
        "run.supervised",
        "run.epochs",
        "run.update_rule",
    } <= known


def test_several_values_are_a_dimension_and_one_is_not():
    sweep = asked("--param", "gamma=0,0.5", "--param", "temperature=2", "--param", "correct=3,4,...,6")
    assert sweep.dimensions() == {
        "estimator": ("f_grpo",),
        "group_size": (8,),
        "estimator.gamma": (0.0, 0.5),
        "problem.correct": (3, 4, 5, 6),
    }
    assert all(cell.parameters["run"]["temperature"] == 2 for _, cell in sweep.cells())
    assert len(list(sweep.cells())) == 8


@pytest.mark.parametrize("name", ["gamma", "learning_rate"])
def test_a_short_option_is_the_parameter_of_its_name(name):
    assert asked(f"--{name.replace('_', '-')}", "0,0.5") == asked("--param", f"{name}=0,0.5")


@pytest.mark.parametrize(
    "arguments", [("--param", "gamma=0", "--param", "gamma=1"), ("--gamma", "0", "--param", "estimator.gamma=1")]
)
def test_a_parameter_given_twice_is_refused(arguments):
    assert "gamma' is given twice; allowed: one list" in refusal(asked, *arguments)


def test_a_dimension_is_labelled_by_the_bare_name_where_that_is_unambiguous():
    sweep = asked(
        "--estimator", "grpo", "--param", "estimator.eps=0,1", "--param", "optimizer.eps=0,1", "--param", "kl=0,1"
    )
    assert sweep.labels() == {
        "estimator": "estimator",
        "group_size": "group_size",
        "estimator.eps": "estimator_eps",
        "optimizer.eps": "optimizer_eps",
        "run.kl": "kl",
    }


def test_no_dimension_is_labelled_as_an_argument_of_xarrays_sel(tmp_path, monkeypatch):
    """So that ``result.sel(name=value)`` selects by any of them."""
    taken = [*inspect.signature(xr.Dataset.sel).parameters][1:-1]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(
        f"from simlab.problems import anchored\n\ndef mine({', '.join(f'{name}=1.0' for name in taken)}):\n"
        "    return anchored(60, 6)\n"
    )
    swept = [part for name in taken for part in ("--param", f"{name}=1,2")]
    labels = asked("--arms", "grpo", "--problem", "own.py:mine", *swept).labels()
    assert {f"problem_{name}" for name in taken} | {"arm", "group_size"} == {*labels.values()}


def test_a_name_that_two_sections_have_is_refused_with_both():
    message = refusal(asked, "--estimator", "grpo", "--param", "eps=0")
    assert message == "parameter 'eps' is ambiguous; write one of: estimator.eps, optimizer.eps"
    assert asked("--param", "eps=0").parameters == {"optimizer.eps": (0.0,)}


@pytest.mark.parametrize(
    ("arguments", "name", "close"),
    [
        (("--param", "gama=1"), "gama", "gamma"),
        (("--param", "learning-rate=1"), "learning-rate", "learning_rate"),
        (("--optimizer", "sgd", "--param", "b1=0.5"), "b1", None),
        (("--problem", "custom", "--param", "actions=9"), "actions", None),
        (("--param", "estimator.learning_rate=1"), "estimator.learning_rate", "learning_rate"),
        (("--param", "zzz=1"), "zzz", None),
    ],
)
def test_an_unknown_parameter_is_refused_with_the_closest_and_all_known(arguments, name, close):
    message = refusal(asked, *arguments)
    assert message.startswith(f"unknown parameter {name!r}")
    assert close is None or f"did you mean {close!r}?" in message
    assert "allowed: " in message
    assert "entropy_bonus, " in message


def test_a_parameter_of_other_estimators_names_them():
    message = refusal(asked, "--estimator", "rloo", "--gamma", "1")
    assert message.startswith("rloo has no gamma; easy_focused or f_grpo or ")
    assert "; allowed here: actions, " in message
    assert refusal(asked, "--param", "alpha=1").startswith("f_grpo has no alpha; ")


@pytest.mark.parametrize(
    ("parameter", "allowed"),
    [("actions=1.5", "whole numbers"), ("gamma=x", "numbers"), ("epochs=x", "whole numbers")],
)
def test_a_value_that_is_no_number_is_refused(parameter, allowed):
    name, _, value = parameter.partition("=")
    assert refusal(asked, "--param", parameter) == (
        f"{name} = {value!r} cannot be read; allowed: {allowed}, separated by commas"
    )


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e39"])
def test_a_value_that_the_dtype_cannot_hold_is_refused(value):
    assert refusal(asked, "--param", f"kl={value}") == (
        f"run.kl = {float(value)}; allowed: finite numbers, in float32 up to 3.40282e+38"
    )


def test_float64_holds_larger_values():
    assert asked("--param", "kl=1e39", "--dtype", "float64").parameters == {"run.kl": (1e39,)}


# The custom problem


@pytest.mark.parametrize("suffix", ["npy", "txt"])
def test_logits_and_correct_actions_come_from_lists_or_files(tmp_path, suffix):
    logits, correct, save = [0.0, -2.5, 1.0, 3.0], [1, 3], {"npy": np.save, "txt": np.savetxt}[suffix]
    for name, values in {"logits": logits, "correct": correct}.items():
        save(tmp_path / f"{name}.{suffix}", np.array(values))
    listed = asked("--problem", "custom", "--param", "logits=0,-2.5,1,3", "--param", "correct=1,3")
    filed = asked(
        "--problem", "custom",
        *("--param", f"logits={tmp_path}/logits.{suffix}", "--param", f"correct={tmp_path}/correct.{suffix}"),
    )  # fmt: skip
    built, same = (cell.problem for sweep in (listed, filed) for cell in Plan(sweep).distinct)
    assert built.logits.tolist() == logits
    assert np.flatnonzero(built.correct).tolist() == correct
    assert np.flatnonzero(built.target).tolist() == [1], "the least likely correct action"
    assert built.fingerprint == same.fingerprint


def test_no_more_top_log_probabilities_are_recorded_than_there_are_actions():
    custom = ("--problem", "custom", "--param", "logits=0,1,2")
    assert [cell.settings.top_n for cell in Plan(asked(*custom)).distinct] == [3]
    assert [cell.settings.top_n for cell in Plan(asked(*custom, "--top-n", 1)).distinct] == [1]
    assert {cell.settings.top_n for cell in Plan(asked()).distinct} == {5}


# Presets


def test_the_preset_of_figure_2_is_the_setting_of_appendix_j():
    sweep = asked("--preset", "f-grpo-fig2")
    assert sweep.dimensions() == {
        "estimator": ("f_grpo",),
        "group_size": tuple(2**power for power in range(1, 18)),
        "estimator.gamma": (0.0, 1.0),
    }
    assert (sweep.seeds, sweep.steps) == (4, 1000)
    assert (sweep.surrogates, sweep.optimizer) == (("reinforce",), "adam")
    _, cell = next(sweep.cells())
    assert str(cell.arm) == "f_grpo(base=dr_grpo,gamma=0)+reinforce@token_mean"
    assert cell.parameters["optimizer"] == {"learning_rate": 0.01, "b1": 0.9, "b2": 0.999, "eps": 1e-8}
    assert cell.parameters["run"]["temperature"] == 1
    problem = Plan(dataclasses.replace(sweep, group_sizes=(2,))).distinct[0].problem.listed()
    assert (problem.actions, problem.correct.sum()) == (128_000, 10_000)
    assert (problem.logits[0], *np.unique(problem.logits[1:10_000]), *np.unique(problem.logits[10_000:])) == (5, 3, 0)
    assert (problem.reward_correct, problem.reward_incorrect) == (1, -1)


@pytest.mark.parametrize("preset", [name for name, sweeps in PRESETS.items() if len(sweeps) == 1])
@pytest.mark.parametrize(
    ("arguments", "changes"),
    [
        (("--group-size", "2,256", "--seeds", 100), {"group_sizes": (2, 256), "seeds": 100}),
        (("--steps", 7), {"steps": 7}),
        (("--record-every", 7), {"record_every": 7}),
        (("--surrogate", "cispo"), {"surrogates": ("cispo",)}),
        (("--pass-at-k", "1,2"), {"pass_at_k": (1, 2)}),
        (("--top-n", 0), {"top_n": 0}),
        (("--dtype", "float64"), {"dtype": "float64"}),
        (("--estimator", "f_grpo,rloo"), {"estimators": ("f_grpo", "rloo")}),
    ],
)
def test_an_option_beside_a_preset_overrides_it_and_nothing_else(preset, arguments, changes):
    assert asked("--preset", preset, *arguments) == dataclasses.replace(asked("--preset", preset), **changes)


@pytest.mark.parametrize(
    ("arguments", "name", "values"),
    [
        (("--gamma", "0,0.5,1"), "estimator.gamma", (0.0, 0.5, 1.0)),
        (("--learning-rate", "0.1"), "optimizer.learning_rate", (0.1,)),
        (("--param", "base=grpo,rloo"), "estimator.base", ("grpo", "rloo")),
        (("--param", "temperature=1,2"), "run.temperature", (1.0, 2.0)),
    ],
)
def test_a_parameter_beside_a_preset_overrides_it_and_nothing_else(arguments, name, values):
    preset = asked("--preset", "f-grpo-fig2")
    expected = dataclasses.replace(preset, parameters={**preset.parameters, name: values})
    assert asked("--preset", "f-grpo-fig2", *arguments) == expected


def test_what_an_overriding_estimator_does_not_have_falls_away():
    sweep = asked("--preset", "f-grpo-fig2", "--estimator", "grpo", "--problem", "custom", "--optimizer", "sgd")
    assert sweep.parameters == {"problem.reward_incorrect": (-1.0,), "optimizer.learning_rate": (0.01,)}


def test_without_arguments_the_sweep_shows_the_three_regimes():
    assert asked() == asked("--preset", "three-regimes")
    assert asked("--out", "elsewhere.nc", "--memory", "1GB") == asked()


def test_options_of_size_alone_change_the_default_sweep():
    assert asked("--seeds", 2) == asked("--preset", "three-regimes", "--seeds", 2)
    sizes = ("--group-size", "2,4", "--steps", 10)
    assert asked(*sizes) == asked("--preset", "three-regimes", *sizes)
    assert asked("--seeds", 2, "--estimator", "f_grpo").group_sizes == (8,)
    assert asked("--seeds", 2, "--gamma", "0.5") == Sweep(seeds=2, parameters={"estimator.gamma": (0.5,)})


# Names, counts and repetition


@pytest.mark.parametrize(
    ("arguments", "value", "allowed"),
    [
        (("--estimator", "f_grp"), "'f_grp'", ", ".join(sorted(REGISTRY))),
        (("--problem", "maze"), "'maze'", "anchored, custom"),
        (("--surrogate", "ppo"), "'ppo'", "aspo, casp, ce_gppo, cispo"),
        (("--optimizer", "lion"), "'lion'", "adam, adamw, sgd"),
        (("--preset", "fig2"), "'fig2'", ", ".join(sorted(PRESETS))),
        (("--dtype", "float16"), "'float16'", "float32, float64"),
        (("--seeds", 0), "seeds = 0", "[1, 1000000]"),
        (("--seeds", -3), "seeds = -3", "[1, 1000000]"),
        (("--seeds", 10**7), "seeds = 10000000", "[1, 1000000]"),
        (("--seeds", "1e3"), "'1e3'", "allowed: a whole number"),
        (("--steps", 0), "steps = 0", "[1, 2147483647]"),
        (("--steps", 2**31), "steps = 2147483648", "[1, 2147483647]"),
        (("--steps", 2**31 - 1, "--record-every", 1), "steps / record_every = 2147483647", "[0, 1000000]"),
        (("--record-every", 0), "record_every = 0", "[1, 2147483647]"),
        (("--group-size", "2.5"), "'2.5'", "allowed: whole numbers, separated by commas"),
        (("--pass-at-k", "1e3"), "'1e3'", "allowed: whole numbers, separated by commas"),
        (("--param", "gamma"), "'gamma'", "allowed: NAME=LIST"),
        (("--param", "gamma="), "'gamma='", "allowed: NAME=LIST"),
        (("--param", "=1"), "'=1'", "allowed: NAME=LIST"),
        (("--gamma", ""), "''", "allowed: values separated by commas"),
        (("--estimator", "grpo,"), "'grpo,'", "allowed: values separated by commas"),
        (("--estimator", "grpo,grpo"), "['grpo', 'grpo']", "different values"),
        (("--group-size", "2,4,2"), "[2, 4, 2]", "different values"),
        (("--gamma", "1,1.0"), "[1.0, 1.0]", "different values"),
        (("--pass-at-k", "8,8"), "[8, 8]", "different values"),
        (("--bogus",), "--bogus", "see simlab --help"),
        (("stray",), "stray", "see simlab --help"),
    ],
)
def test_what_makes_no_sweep_is_refused_with_the_value_and_what_is_allowed(arguments, value, allowed):
    message = refusal(asked, *arguments)
    assert value in message
    assert allowed in message


def test_a_sweep_made_in_python_is_checked_like_one_from_the_command_line():
    assert "lists nothing" in refusal(lambda: Sweep(group_sizes=()))
    assert "allowed: estimator.gamma" in refusal(lambda: Sweep(parameters={"gamma": (1.0,)}))


# Configuration


def through_json(sweep):
    """A sweep rebuilt from its configuration as a file holds it."""
    return Sweep.from_configuration(json.loads(json.dumps(sweep.configuration())))


FLOATS = some.floats(0, 1e30, allow_subnormal=False)
COUNTS = some.integers(1, 10**6)
VALUES = {
    "estimator.gamma": FLOATS,
    "estimator.base": some.sampled_from(sorted(REGISTRY)),
    "estimator.target_entropy": some.one_of(some.none(), FLOATS),
    "problem.correct": COUNTS,
    "run.update_rule": some.sampled_from(["simulator", "simulator_literal", "theorem"]),
}


def several(values, least=1):
    """A strategy of one to three different values."""
    return some.lists(values, min_size=least, max_size=3, unique=True).map(tuple)


@given(
    group_sizes=several(COUNTS),
    counts=some.fixed_dictionaries({name: COUNTS for name in ("seeds", "steps", "record_every", "top_n")}),
    surrogates=several(some.sampled_from(sorted(SURROGATES))),
    optimizer=some.sampled_from(sorted(OPTIMIZERS)),
    parameters=some.fixed_dictionaries({}, optional={name: several(values) for name, values in VALUES.items()}),
    pass_at_k=several(COUNTS, least=0),
    dtype=some.sampled_from(["float32", "float64"]),
)
def test_a_sweep_is_rebuilt_from_its_configuration(counts, **fields):
    sweep = Sweep(estimators=("f_grpo", "fade"), **counts, **fields)
    assert through_json(sweep) == sweep


def test_several_surrogates_are_a_dimension_and_one_alone_is_not():
    sweep = asked("--surrogate", "ppo_clip,reinforce", "--param", "eps_high=0.2,0.3")
    assert list(sweep.dimensions()) == ["estimator", "surrogate", "group_size", "surrogate.eps_high"]
    cells = dict(sweep.cells())
    surrogates = [cells[index].arm.added[0].name for index in sorted(cells)]
    assert surrogates == ["ppo_clip", "ppo_clip", "reinforce", "reinforce"]
    assert dict(cells[0, 0, 0, 1].arm.added[0].parameters)["eps_high"] == 0.3
    assert cells[0, 1, 0, 0] == cells[0, 1, 0, 1]  # REINFORCE has no such parameter: one cell, run once
    assert "surrogate" not in asked("--surrogate", "cispo").dimensions()


def test_a_custom_problem_is_rebuilt_from_its_configuration():
    values = {"problem.logits": (0.5, -1.0, 2.0), "problem.correct": (0.0, 2.0), "problem.target": "file.npy"}
    sweep = Sweep(problem="custom", parameters={name: (value,) for name, value in values.items()})
    assert through_json(sweep) == sweep
