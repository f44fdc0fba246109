"""Arms as text, and settings as plain data: what they build, and how what cannot be built is refused."""

import dataclasses
import json

import jax
import pytest
from sweep_cases import refusal
from training_cases import TINY, settings

from simlab.llm.training.arms import arm, arms, read_value
from simlab.llm.training.policy_gradient import key_of
from simlab.llm.training.settings import Settings, merged
from simlab.methods import METHODS, method

# Arms


def built(name):
    """What an arm is made of, without its functions."""
    whole = arm(name).method
    return sorted(whole.needs), whole.surrogate.candidates, whole.aggregation


@pytest.mark.parametrize(
    ("name", "needs", "candidates", "aggregation"),
    [
        ("grpo", ["rewards"], 0, "sequence_mean"),
        ("dapo", ["rewards"], 0, "token_mean"),
        ("maxrl", ["rewards"], 0, "sequence_mean"),
        ("f_grpo(gamma=0.5,base=maxrl)", ["rewards"], 0, "sequence_mean"),
        ("maxrl+clip_higher@token_mean", ["rewards"], 0, "token_mean"),
        ("grpo+casp(alpha=0.05,candidates=4)", ["entropy", "old_logp", "rewards", "topn_logp"], 4, "sequence_mean"),
        ("grpo+kl_penalty", ["old_logp", "ref_logp", "rewards"], 0, "sequence_mean"),
        ("grpo+kl_penalty(coefficient=1e+2,form=k1)", ["rewards"], 0, "sequence_mean"),
        (
            "grpo+clip_cov+kl_penalty+entropy_bonus(coefficient=0.1)@constant",
            ["entropy", "noise", "old_logp", "ref_logp", "rewards"],
            0,
            "constant",
        ),
    ],
)
def test_an_arm_is_a_method_with_a_surrogate_penalties_and_an_aggregation(name, needs, candidates, aggregation):
    assert built(name) == (needs, candidates, aggregation)
    assert arm(name).name == name


@pytest.mark.parametrize("name", sorted(METHODS))
def test_the_name_of_a_whole_method_is_that_method(name):
    whole = method(name)
    assert built(name) == (sorted(whole.needs), whole.surrogate.candidates, whole.aggregation)


def test_a_list_of_arms_is_parted_by_commas_outside_of_brackets():
    assert arms("grpo") == ("grpo",)
    text = "grpo, f_grpo(gamma=0.5,base=maxrl),grpo+casp(alpha=0.05,candidates=4)@token_mean"
    assert arms(text) == ("grpo", "f_grpo(gamma=0.5,base=maxrl)", "grpo+casp(alpha=0.05,candidates=4)@token_mean")


def test_values_are_numbers_or_words():
    texts = ("3", "-0.5", "1e-3", "true", "False", "none", "batch", "", "[1]")
    assert [read_value(text) for text in texts] == [3, -0.5, 1e-3, True, False, None, "batch", "", "[1]"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "arm '' cannot be read"),
        ("GRPO", "arm 'GRPO' cannot be read"),
        ("grpo(", "arm 'grpo(' cannot be read"),
        ("grpo@", "arm 'grpo@' cannot be read"),
        ("../grpo", "arm '../grpo' cannot be read"),
        ("grpo\n", "cannot be read"),
        ("ppo", "arm = 'ppo' is unknown; allowed: "),
        ("grpo+ppo", "surrogate = 'ppo' is unknown; allowed: "),
        ("grpo@mean", "aggregation = 'mean' is unknown; allowed: token_mean, sequence_mean, constant"),
        ("grpo(gamma=1)", "grpo has no parameter 'gamma'"),
        ("grpo+casp(beta=1)", "casp has no parameter 'beta'"),
        ("f_grpo(gamma=-1)", "gamma = -1 is outside its range"),
        ("f_grpo(gamma=much)", "gamma = 'much' is not a number"),
        ("f_grpo(gamma=nan)", "gamma = 'nan' is not a number"),
        ("f_grpo(0.5)", "'0.5' in 'f_grpo(0.5)' cannot be read; allowed: NAME=VALUE"),
        ("f_grpo(gamma=1,gamma=2)", "'gamma' stands twice in 'f_grpo(gamma=1,gamma=2)'; allowed: once"),
        ("grpo+kl_penalty+casp", "would lose what stands before casp; allowed: one surrogate, put first"),
        ("grpo+casp+clip_higher", "would lose what stands before clip_higher"),
    ],
)
def test_an_arm_that_cannot_be_built_is_refused(name, message):
    assert message in refusal(arm, name)


# Settings


def test_plain_data_and_settings_are_each_others_inverse():
    for each in (Settings(), settings(), settings({"task": {"name": "countdown", "numbers": 3}, "seeds": 3})):
        assert Settings.from_data(each.as_data()) == each
        assert Settings.from_data(json.loads(json.dumps(each.as_data()))) == each
    assert Settings.from_data({}) == Settings()


def test_later_layers_are_put_over_earlier_ones_and_change_none_of_them():
    before = json.dumps(TINY)
    found = merged(TINY, {"rl": {"steps": 5}, "arms": ["maxrl"]}, {"rl": {"prompts": 3}})
    assert found["rl"] == TINY["rl"] | {"steps": 5, "prompts": 3}
    assert found["arms"] == ["maxrl"]
    assert json.dumps(TINY) == before


def test_another_task_does_not_inherit_the_parameters_of_the_former():
    first = {"task": {"name": "addition", "digits": 3}}
    assert merged(first, {"task": {"order": "reversed"}})["task"] == first["task"] | {"order": "reversed"}
    assert merged(first, {"task": {"name": "countdown"}})["task"] == {"name": "countdown"}
    assert merged(first, {"task": {"name": "addition", "seed": 1}})["task"] == first["task"] | {"seed": 1}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"training": {}}, "section = 'training' is unknown; allowed: task, arms, seeds, engine, model, warm"),
        ({"rl": {"stepz": 3}}, "rl has no setting 'stepz'; it takes: learning_rate, warmup"),
        ({"rl": {"steps": "3"}}, "rl.steps = '3'; allowed: a whole number"),
        ({"rl": {"steps": 2.5}}, "rl.steps = 2.5; allowed: a whole number"),
        ({"rl": {"steps": True}}, "rl.steps = True; allowed: a whole number"),
        ({"rl": {"steps": 0}}, "steps = 0 is outside its range"),
        ({"rl": {"epochs": 0}}, "epochs = 0 is outside its range"),
        ({"rl": {"rounds": -1}}, "rounds = -1 is outside its range"),
        ({"rl": {"temperature": 0}}, "temperature = 0 is outside its range (0"),
        ({"rl": {"learning_rate": "0.1"}}, "rl.learning_rate = '0.1'; allowed: a number"),
        ({"rl": {"learning_rate": None}}, "rl.learning_rate = None; allowed: a number"),
        ({"rl": {"decay": 3}}, "rl.decay = 3; allowed: a text"),
        ({"rl": 3}, "rl = 3; allowed: its settings by name"),
        ({"rl": None}, "rl = None; allowed: its settings by name"),
        ({"model": {"hidden_size": "16"}}, "model.hidden_size = '16'; allowed: a whole number"),
        ({"model": {"tie_embeddings": 1}}, "model.tie_embeddings = 1; allowed: true or false"),
        ({"model": {"dtype": "float16"}}, "model.dtype = 'float16' is unknown; allowed: float32, bfloat16"),
        ({"model": {"dtype": "float64"}}, "model.dtype = 'float64' is unknown; allowed: float32, bfloat16"),
        ({"warm_start": {"steps": -1}}, "warm_start.steps = -1 is outside its range"),
        ({"evaluation": {"samples": 8, "rollouts": 4}}, "evaluation.rollouts = 4 is less than the 8 samples of one"),
        ({"record": {"checkpoint_every": 0}}, "record.checkpoint_every = 0 is outside its range"),
        ({"seeds": "2"}, "seeds = '2'"),
        ({"seeds": 0}, "seeds = 0 is outside its range"),
        ({"engine": "verl"}, "engine = 'verl' is unknown; allowed: simlab, trl"),
        ({"engine": 3}, "engine = 3; allowed: a text"),
        ({"seeds": 1.5}, "seeds = 1.5"),
        ({"arms": []}, "arms are none; allowed: one or more, each once"),
        ({"arms": ["grpo", "grpo"]}, "arms are grpo, grpo; allowed: one or more, each once"),
        ({"arms": "grpo"}, "arms = 'grpo'; allowed: a list of texts"),
        ({"arms": [3]}, "arms = [3]; allowed: a list of texts"),
        ({"arms": None}, "arms = None; allowed: a list of texts"),
        ({"arms": ["ppo"]}, "arm = 'ppo' is unknown"),
        ({"task": "addition"}, "task = 'addition'; allowed: its name, as name, and its parameters"),
        ({"task": {"digits": 2}}, "task = {'digits': 2}; allowed: its name, as name, and its parameters"),
        ({"task": {"name": 3}}, "task = {'name': 3}; allowed: its name, as name, and its parameters"),
    ],
)  # fmt: skip
def test_data_that_are_no_settings_are_refused(data, message):
    assert message in refusal(Settings.from_data, data)
    assert message in refusal(lambda: Settings.from_data(merged({}, data)))


def test_every_setting_has_an_attribute_that_says_what_it_is():
    """Each name of a section stands in its docstring or that of what it inherits from, or is a size of the model."""
    for section in ("warm_start", "rl", "evaluation", "record"):
        kind = type(getattr(Settings(), section))
        said = " ".join(each.__doc__ or "" for each in kind.__mro__)
        assert not [field.name for field in dataclasses.fields(kind) if field.name not in said]


def test_the_random_numbers_of_a_step_are_of_its_seed_and_its_number():
    keys = [tuple(map(int, jax.random.key_data(key_of(seed, step)))) for seed in range(3) for step in (0, 1, 2, 2**31)]
    assert len(set(keys)) == len(keys)
