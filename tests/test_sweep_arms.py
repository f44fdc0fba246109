"""A sweep of methods: arms on the command line and in Python, what of them is swept, and their labels in a result."""

import dataclasses
import json

import numpy as np
import pytest
from sweep_cases import TINY, asked, command, refusal

import simlab.sweeps
from simlab.arms import parse
from simlab.simulator.runner import run as simulate
from simlab.sweeps import Plan, Sweep
from simlab.sweeps.result import read
from simlab.sweeps.run import run
from simlab.sweeps.table import final_table

ARMS = "grpo,f_grpo(gamma=0.5)+clip_higher,a_grae"
SHORT = {"actions": 60, "correct": 6, "steps": 20, "record_every": 10}


def arms_of(sweep):
    """The arms of a sweep's cells, in order."""
    return [str(cell.arm) for _, cell in sweep.cells()]


def through_json(sweep):
    """A sweep rebuilt from its configuration as a file holds it."""
    return Sweep.from_configuration(json.loads(json.dumps(sweep.configuration())))


# What is asked for


def test_arms_are_a_dimension_with_each_arms_own_surrogate_and_aggregation():
    sweep = asked("--arms", ARMS, "--group-size", "2,4")
    assert sweep.dimensions() == {
        "arm": ("grpo", "f_grpo(gamma=0.5)+clip_higher", "a_grae"),
        "group_size": (2, 4),
    }
    methods = [cell.settings.build() for cell in Plan(sweep).distinct[::2]]
    assert [method.aggregation for method in methods] == ["sequence_mean"] * 3
    assert [cell.group_size for _, cell in sweep.cells()] == [2, 4] * 3


def test_spaces_and_the_spelling_of_numbers_make_no_other_sweep():
    spelled = asked("--arms", "grpo, f_grpo( gamma = 0.50 ) + clip_higher")
    assert spelled == asked("--arms", "grpo,f_grpo(gamma=0.5)+clip_higher")
    assert spelled == Sweep(arms=(str(parse("grpo")), str(parse("f_grpo(gamma=0.5)+clip_higher"))))


def test_a_parameter_is_swept_where_an_arm_has_it_and_does_not_fix_it():
    sweep = asked("--arms", "f_grpo,f_grpo(gamma=0.5),grpo", "--gamma", "0,1")
    assert sweep.dimensions()["estimator.gamma"] == (0.0, 1.0)
    assert arms_of(sweep) == ["f_grpo(gamma=0)", "f_grpo(gamma=1)", *["f_grpo(gamma=0.5)"] * 2, "grpo", "grpo"]
    assert len(Plan(sweep).distinct) == 4, "what does not depend on it is one cell"


def test_parameters_of_surrogates_problem_optimizer_and_run_are_swept_beside_arms():
    options = ("eps_high=0.2,0.3", "actions=60,70", "correct=6", "learning_rate=0.1", "temperature=2", "base=rloo")
    sweep = asked("--arms", "f_grpo+clip_higher", *(f"--param={option}" for option in options))
    assert list(sweep.dimensions()) == ["arm", "group_size", "surrogate.eps_high", "problem.actions"]
    plan = Plan(sweep)
    assert [dict(cell.cell.arm.added[0].parameters)["eps_high"] for cell in plan.distinct] == [0.2, 0.3, 0.2, 0.3]
    assert [cell.problem.actions for cell in plan.distinct] == [60, 60, 70, 70], "one problem after the other"
    assert {cell.settings.optimizer_parameters["learning_rate"] for cell in plan.distinct} == {0.1}
    assert {cell.settings.temperature for cell in plan.distinct} == {2.0}
    assert all(dict(cell.cell.arm.base.parameters)["base"] == "rloo" for cell in plan.distinct)


def test_an_arm_says_its_aggregation_itself():
    assert "unknown parameter 'aggregation'" in refusal(asked, "--arms", "grpo", "--param", "aggregation=constant")
    assert arms_of(asked("--arms", "maxrl@constant")) == ["maxrl@constant"]


def test_arms_take_the_place_of_a_presets_methods_and_nothing_else():
    preset = asked("--preset", "f-grpo-fig2")
    sweep = asked("--preset", "f-grpo-fig2", "--arms", "grpo,f_grpo(gamma=0.5)")
    parameters = {name: values for name, values in preset.parameters.items() if name != "estimator.gamma"}
    assert sweep == dataclasses.replace(
        preset, estimators=None, surrogates=None, arms=("grpo", "f_grpo(gamma=0.5)"), parameters=parameters
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--arms", "grp"), "arm = 'grp' is unknown (did you mean 'grpo'?); allowed: a_grae, "),
        (("--arms", "grpo,grpo"), "arm lists ['grpo', 'grpo']; allowed: different values"),
        (("--arms", "grpo(gamma=1)"), "grpo has no parameter 'gamma'; it takes: ddof, eps"),
        (("--arms", "grpo", "--estimator", "rloo"), "--arms and --estimator both name methods; allowed: one of them"),
        (("--arms", "grpo", "--surrogate", "cispo"), "--arms and --surrogate both name methods; allowed: one of them"),
        (("--arms", "f_grpo(gamma=0.5)", "--gamma", "1"), "f_grpo(gamma=0.5) fixes gamma; allowed: arms without it"),
    ],
)
def test_arms_that_make_no_sweep_are_refused_in_one_line(arguments, message):
    assert message in refusal(lambda: Plan(asked(*arguments)))


def test_arms_beside_estimators_are_refused_in_python_too():
    message = "arms beside estimators or surrogates; allowed: one or the other"
    assert refusal(Sweep, arms=("grpo",), estimators=("rloo",)) == message


def test_a_sweep_of_arms_is_rebuilt_from_its_configuration():
    sweep = asked("--arms", ARMS, "--param", "alpha=1,2")
    assert through_json(sweep) == sweep


def test_storage_has_the_former_name_engine_too():
    assert asked("--engine", "dense") == asked("--storage", "dense") == Sweep(storage="dense")
    old = Sweep().configuration() | {"engine": "dense"}
    del old["storage"]
    assert Sweep.from_configuration(old) == Sweep(storage="dense")


# What is run


@pytest.mark.slow
def test_each_method_of_the_result_is_the_simulation_of_its_arm(tmp_path):
    sweep = asked("--arms", ARMS, *TINY, "--group-size", 4, "--seeds", 2)
    result = run(sweep, tmp_path / "sweep.nc")
    assert result.q_pos.dims == ("arm", "group_size", "seed", "step")
    first = Plan(sweep).distinct[0]
    for arm in ("grpo", "f_grpo(gamma=0.5)+clip_higher", "a_grae"):
        settings = dataclasses.replace(first.settings, method=arm)
        alone = simulate(first.problem, [settings] * 2, range(2), np.array([10, 20]))
        for name, values in alone.items():
            np.testing.assert_array_equal(result[name].sel(arm=arm, group_size=4).values, values, f"{arm} {name}")
    assert "f_grpo(gamma=0.5)+clip_higher" in final_table(result)


def test_an_estimator_with_a_surrogate_is_the_arm_of_both():
    """Not of the whole method that has the name of the estimator."""
    (pair,) = arms_of(asked("--estimator", "cw_grpo", "--surrogate", "cispo"))
    (arm,) = arms_of(asked("--arms", "cw_grpo+cispo@token_mean"))
    assert pair == arm


@pytest.mark.slow
def test_one_call_in_python_is_the_command(tmp_path):
    out = tmp_path / "sweep.nc"
    here = simlab.sweep(ARMS, group_size=[2, 4], alpha=[1, 2.0], learning_rate=0.1, seeds=2, **SHORT)
    options = ("--group-size", "2,4", "--param", "alpha=1,2", "--learning-rate", 0.1, "--seeds", 2, *TINY)
    code, _, complaints = command("sweep", "--out", out, "--arms", ARMS, *options)
    assert (code, complaints) == (0, "")
    assert here.drop_attrs(deep=False).identical(read(out).drop_attrs(deep=False))


def test_one_call_in_python_resumes_what_is_kept(tmp_path, capsys):
    asked_for = {"arms": ["grpo"], "seeds": 2, "out": tmp_path / "sweep.nc", **SHORT}
    first = simlab.sweep(**asked_for)
    assert simlab.sweep(**asked_for).identical(first)
    assert "1 of 1 units is finished already" in capsys.readouterr().err
    assert "lists nothing" in refusal(simlab.sweep, [])
