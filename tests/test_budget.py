"""A budget: how many steps it pays for, records at equal costs, what identifies its units, and what is refused."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from sweep_cases import asked, refusal

from simlab.simulator.runner import run as simulate
from simlab.sweeps import Budget, Plan, run
from simlab.sweeps.table import final_table

BANK = ("--problem", "prompt_bank", "--param", "prompts=8", "--param", "actions=6", "--arms", "grpo", "--seeds", "3")
GRID = ("--group-size", "16", "--param", "prompts_per_step=2,8")
SPENDING = (*BANK, *GRID, "--budget", "300", "--update-cost", "4", "--records", "5")


@pytest.fixture(scope="module")
def spent(tmp_path_factory):
    """The plan of a small sweep with a budget, and its result."""
    plan = Plan(asked(*SPENDING))
    return plan, run(plan, tmp_path_factory.mktemp("budget") / "spent.nc")


# Numbers of steps


def step_by_step(levels, step_cost):
    """Steps that are taken until the next one would cost more than each level, by paying for one after the other."""
    taken = []
    for level in levels:
        steps, paid = 0, 0
        while paid + step_cost <= level:
            steps, paid = steps + 1, paid + step_cost
        taken.append(steps)
    return taken


@given(total=some.integers(1, 400), step=some.integers(1, 400), records=some.integers(1, 12))
def test_a_run_pays_for_one_step_after_the_other_until_the_next_costs_too_much(total, step, records):
    budget = Budget(total, records=records)
    if step > total:
        assert f"allowed: {step} or more" in refusal(budget.steps_taken, Fraction(step), "grpo")
        return
    levels = [Fraction(total * record, records) for record in range(1, records + 1)]
    assert budget.steps_taken(Fraction(step), "grpo").tolist() == step_by_step(levels, step)
    np.testing.assert_allclose(budget.costs[1:], [float(level) for level in levels], rtol=1e-15)


def test_costs_are_those_that_are_written_and_not_their_nearest_binary_numbers():
    """0.3 / 0.1 is 2.9999999999999996 in floats."""
    plan = Plan(asked(*BANK, "--group-size", 1, "--param", "prompts_per_step=1", "--budget", "0.3",
                      "--rollout-cost", "0.1", "--records", "3"))  # fmt: skip
    assert plan.distinct[0].steps_taken.tolist() == [1, 2, 3]


def test_a_step_costs_its_rollouts_and_its_gradient_steps():
    """4 prompts of 8 rollouts at 2 each, and 3 epochs of 2 minibatches at 5 each: 64 + 30 = 94."""
    plan = Plan(asked(*BANK, "--group-size", 8, "--param", "prompts_per_step=4", "--param", "epochs=3",
                      "--param", "minibatches=2", "--budget", "1000", "--rollout-cost", "2", "--update-cost", "5",
                      "--records", "1"))  # fmt: skip
    assert plan.distinct[0].step_cost == 94
    assert plan.distinct[0].steps_taken.tolist() == [1000 // 94]


def test_a_greedy_answer_is_one_rollout_more_of_each_prompt():
    """4 prompts of 8 rollouts, and of 9 with the greedy one, at 2 each."""
    others = ("--group-size", 8, "--param", "prompts_per_step=4", "--budget", "1000", "--rollout-cost", "2")
    costs = {arm: Plan(asked(*BANK[:-4], "--seeds", "3", "--arms", arm, *others)).distinct[0].step_cost for arm in
             ("grpo", "remax", "f_grpo(base=remax)")}  # fmt: skip
    assert costs == {"grpo": 64, "remax": 72, "f_grpo(base=remax)": 72}


# Records


def test_what_is_spent_is_the_cost_less_a_part_of_a_step(spent):
    _, result = spent
    assert result.cost.values.tolist() == [0, 60, 120, 180, 240, 300]
    assert "mean over 3 seeds at cost 300;" in final_table(result)
    for prompts in (2, 8):
        cell, step = result.sel(group_size=16, prompts_per_step=prompts, arm="grpo"), 16 * prompts + 4
        assert cell.steps_taken.values.tolist() == [cost // step for cost in (0, 60, 120, 180, 240, 300)]
        assert (cell.spent.values == cell.steps_taken.values * step).all()
        assert (cell.spent.values <= cell.cost.values).all()
        assert (cell.cost.values < cell.spent.values + step).all()


def test_a_record_at_a_cost_is_that_of_a_run_of_the_steps_that_it_pays_for(spent):
    plan, result = spent
    index = (0, 0, 1)  # 16 rollouts of 8 prompts, the dearest step
    cell, steps_taken = plan.cells[index], result.steps_taken.values[index]
    assert steps_taken.tolist() == [0, 0, 0, 1, 1, 2]
    np.testing.assert_array_equal(result.q_pos.values[index][:, 1], result.q_pos.values[index][:, 0])
    assert np.isnan(result.d_q_pos.values[index][:, 1]).all()
    for record in (3, 4, 5):
        alone = simulate(cell.problem, [cell.settings] * 3, range(3), steps_taken[[record]])
        for name in ("q_pos", "entropy", "d_q_pos"):  # metrics of policies and of the last update
            np.testing.assert_array_equal(result[name].values[index][:, record], alone[name][:, -1])


# Identity


def names(*arguments):
    """The names of the units of a sweep, cell by cell."""
    units = Plan(asked(*BANK, "--group-size", "4", "--param", "prompts_per_step=8", *arguments)).units("code", "cpu")
    return [unit.name for unit in units]


def test_a_unit_is_named_by_the_steps_that_its_budget_pays_for():
    usual = names("--budget", "640", "--records", "4")
    assert names("--steps", "20", "--record-every", "5") == usual
    assert names("--budget", "1280", "--rollout-cost", "2", "--records", "4") == usual
    assert names("--budget", "640", "--records", "5") != usual
    assert names("--budget", "960", "--records", "4") != usual
    assert names("--budget", "640", "--records", "4", "--update-cost", "32") != usual


# A budget beside a preset


def test_a_budget_takes_the_place_of_a_presets_steps_and_steps_that_of_a_budget():
    sweep = asked("--preset", "f-grpo-fig2", "--budget", "1e6")
    assert (sweep.steps, sweep.record_every, sweep.budget) == (None, None, Budget(1e6))
    assert asked("--preset", "f-grpo-fig2").steps == 1000


# Bad input


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--budget", "20"], "budget = 20, but a step of grpo at group size 4 costs 32"),
        (["--budget", "0"], "budget = 0"),
        (["--budget", "nan"], "'nan' is no number; allowed: such as 262144, 2e5 or 2^18"),
        (["--budget", "2^"], "'2^' is no number"),
        (["--budget", "2^2^18"], "'2^2^18' is no number"),
        (["--budget", "9^9999"], "'9^9999' is no number"),
        (["--budget", "1e12"], "budget = 1e+12"),
        (["--budget", "100", "--rollout-cost", "0"], "rollout_cost = 0"),
        (["--budget", "100", "--update-cost", "-1"], "update_cost = -1"),
        (["--budget", "100", "--records", "0"], "records = 0"),
        (["--budget", "100", "--steps", "5"], "--steps"),
        (["--budget", "100", "--record-every", "5"], "record_every = 5 beside a budget"),
        (["--update-cost", "2"], "--update-cost"),
    ],
)
def test_a_budget_that_cannot_be_is_refused_in_one_line(arguments, message):
    assert message in refusal(lambda: Plan(asked(*BANK, "--group-size", "4", *arguments)))


OWN_BANK = """
import numpy as np
from simlab.problems import PromptBank

def problem(prompts: int = 4):
    rng = np.random.default_rng(0)
    correct = np.arange(6) < np.full((prompts, 1), 2)
    rewards = np.stack([correct, rng.random((prompts, 6))], axis=1)
    return PromptBank(rng.normal(size=(prompts, 6)), correct, correct, rewards=rewards, reward_weights=[1, 0.5])
"""


@pytest.mark.slow
def test_graded_rewards_cost_what_right_and_wrong_do_under_an_allocation(tmp_path):
    """3 prompts of 4 rollouts at 2 each, and 5 for the step: 29; a record is that of the steps it pays for."""
    (tmp_path / "mine.py").write_text(OWN_BANK)
    plan = Plan(asked("--problem", f"{tmp_path}/mine.py:problem", "--arms", "gdpo", "--seeds", "2", "--group-size", "4",
                      "--param", "prompts_per_step=3", "--param", "allocation=even,variance", "--budget", "100",
                      "--rollout-cost", "2", "--update-cost", "5", "--records", "2"))  # fmt: skip
    result = run(plan, tmp_path / "spent.nc")
    assert list(result.part.values) == ["part 1", "part 2"]
    for index, cell in plan.cells.items():
        assert cell.step_cost == 3 * 4 * 2 + 5
        assert result.steps_taken.values[index].tolist() == [0, *step_by_step([50, 100], 29)] == [0, 1, 3]
        alone = simulate(cell.problem, [cell.settings] * 2, range(2), np.array([3]))
        for name in ("q_pos", "mean_reward", "part_reward", "d_q_pos"):
            np.testing.assert_array_equal(result[name].values[index][:, 2], alone[name][:, -1])
