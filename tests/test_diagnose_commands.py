"""What to run next, in the words of the trainer that wrote the log."""

import pytest

from simlab.diagnose.commands import commands
from simlab.diagnose.difficulty import Weighing, WeightEffect
from simlab.diagnose.estimate import Estimate
from simlab.diagnose.recommend import Recommendation, Split

ONE = Estimate("x", 1.0, 0.5, 1.5, 0.9, "m")
BEST = Split(32, 4, ONE, ONE, ONE, ONE, ONE, ONE)
ADVICE = Recommendation(128, 16, (BEST,), BEST, "why")
NOTHING = Recommendation(128, 16, (BEST,), None, "why")
EFFECT = WeightEffect("f_grpo(gamma=1)", None, ONE, ONE)
BETTER, WORSE = Weighing((), (), EFFECT, None), Weighing((), (), None, EFFECT)
EXPECTED = {
    "trl": (
        "GRPOConfig(num_generations=4, generation_batch_size=128)",
        'SimlabGRPOTrainer(..., method="f_grpo(gamma=1)")',
    ),
    "verl": (
        "data.train_batch_size=32 actor_rollout_ref.rollout.n=4 algorithm.adv_estimator=simlab_f_grpo "
        "+algorithm.simlab.gamma=1",
    ),
    "simlab": ('simlab train --prompts 32 --group-size 4 --arms "f_grpo(gamma=1)"',),
}


@pytest.mark.parametrize("form", EXPECTED)
def test_a_log_gets_its_own_trainers_commands(form):
    assert commands(form, ADVICE, BETTER) == EXPECTED[form]


def test_a_table_gets_simlabs_commands():
    assert commands("table", ADVICE) == ("simlab train --prompts 32 --group-size 4",)


@pytest.mark.parametrize("form", EXPECTED)
def test_nothing_is_run_without_a_recommendation(form):
    assert commands(form, NOTHING) == ()
    assert commands(form, NOTHING, WORSE) == ()
    assert len(commands(form, NOTHING, BETTER)) == 1


def test_a_weight_that_raises_pass_at_k_alone_is_no_part_of_advice_for_pass_at_1():
    assert commands("trl", ADVICE, WORSE) == EXPECTED["trl"][:1]
