"""What the presets of the papers' experiments promise of their settings."""

import math

import pytest

from simlab.sweeps import Plan, Sweep
from simlab.sweeps.presets import PRESETS

EXPERIMENTS = ("f-grpo", "a-grae", "lag", "minibatches", "mismatch", "budget", "allocation")
SWEEPS = {
    f"{preset} {name}": settings
    for preset, sweeps in PRESETS.items()
    for name, settings in sweeps.items()
    if preset in EXPERIMENTS
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SWEEPS)
def test_every_cell_of_an_experiment_can_run(name):
    sweep = Sweep(**SWEEPS[name])
    plan = Plan(sweep)
    assert len(plan.cells) == len(dict(sweep.cells()))
    if sweep.budget:  # what it may spend, but for a step
        total = sweep.budget.total
        assert all(total - cell.step_cost < cell.steps_taken[-1] * cell.step_cost <= total for cell in plan.distinct)


def test_the_control_of_appendix_n_differs_from_grpo_in_the_size_of_its_steps_alone():
    """lambda(1/2) = 32 / (15 pi), lambda(1) = 1/2 and lambda(2) = 5/16, by the recursion of the Beta function."""
    sizes = {"adam": "optimizer.learning_rate", "sgd": "optimizer.learning_rate", "norm": "run.update_norm"}
    for optimizer, size in sizes.items():
        focal, control = PRESETS["f-grpo"][optimizer], PRESETS["f-grpo"][f"{optimizer}-low-lr"]
        (full,), shortened = focal["parameters"][size], control["parameters"][size]
        assert [step / full for step in shortened] == pytest.approx([32 / (15 * math.pi), 1 / 2, 5 / 16])
        assert focal["parameters"]["estimator.gamma"] == (0.0, 0.5, 1.0, 2.0)
        same = {size: None, "estimator.gamma": None}
        assert focal["parameters"] | same == control["parameters"] | same
        assert {**focal, "parameters": None} == {**control, "parameters": None}


def test_lag_and_mismatch_differ_from_each_other_in_the_sampler_alone():
    """So that lag 0 is the sampler that the others are compared with."""
    sweeps = [PRESETS["lag"]["bank"], *PRESETS["mismatch"].values()]
    samplers = {"run.lag", "run.sampler", "run.top_p", "run.top_k"}
    shared = [
        sweep | {"parameters": {name: values for name, values in sweep["parameters"].items() if name not in samplers}}
        for sweep in sweeps
    ]
    assert all(sweep == shared[0] for sweep in shared)
    assert 0 in PRESETS["lag"]["bank"]["parameters"]["run.lag"]


@pytest.mark.slow
def test_updates_that_cost_something_cost_most_steps_in_small_groups():
    """Of 8 G + 256 rollouts a step in place of 8 G."""
    free, dear = (Plan(Sweep(**PRESETS["budget"][name])).distinct for name in ("apart", "updates"))
    for cheap, cell in zip(free, dear, strict=True):
        size = cell.cell.group_size
        assert cheap.steps_taken[-1] / cell.steps_taken[-1] == pytest.approx((8 * size + 256) / (8 * size), rel=0.01)
