"""Settings as plain data: what they build, and how what cannot be built is refused."""

import dataclasses
import json

import jax
import pytest
from sweep_cases import refusal
from training_cases import TINY, settings

from simlab.llm.training.seeds import key_of
from simlab.llm.training.settings import Settings, merged

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
        ({"rl": {"stepz": 3}}, "rl has no setting 'stepz' (did you mean 'steps'?); it takes: learning_rate, warmup"),
        ({"rl": {"steps": "3"}}, "rl.steps = '3'; allowed: a whole number"),
        ({"rl": {"steps": 2.5}}, "rl.steps = 2.5; allowed: a whole number"),
        ({"rl": {"steps": True}}, "rl.steps = True; allowed: a whole number"),
        ({"rl": {"steps": 0}}, "steps = 0 is outside its range"),
        ({"rl": {"epochs": 0}}, "epochs = 0 is outside its range"),
        ({"rl": {"minibatches": 0}}, "minibatches = 0 is outside its range"),
        ({"rl": {"prompts": 8, "minibatches": 3}}, "minibatches = 3; allowed: whole numbers that divide the 8 prompts"),
        ({"rl": {"rounds": -1}}, "rounds = -1 is outside its range"),
        ({"rl": {"temperature": 0}}, "temperature = 0 is outside its range (0"),
        ({"rl": {"learning_rate": "0.1"}}, "rl.learning_rate = '0.1'; allowed: a number"),
        ({"rl": {"learning_rate": None}}, "rl.learning_rate = None; allowed: a number"),
        ({"rl": {"decay": 3}}, "rl.decay = 3; allowed: a text"),
        ({"rl": 3}, "rl = 3; allowed: its settings by name"),
        ({"rl": None}, "rl = None; allowed: its settings by name"),
        ({"model": {"hidden_size": "16"}}, "model.hidden_size = '16'; allowed: a whole number"),
        ({"model": {"tie_embeddings": 1}}, "model.tie_embeddings = 1; allowed: true or false"),
        ({"model": {"dtype": "float16"}}, "dtype = 'float16' is unknown (did you mean 'bfloat16'?); allowed: float32"),
        ({"model": {"dtype": "float64"}}, "dtype = 'float64' is unknown (did you mean 'bfloat16'?); allowed: float32"),
        ({"warm_start": {"steps": -1}}, "warm_start.steps = -1 is outside its range"),
        ({"evaluation": {"samples": 8, "rollouts": 4}}, "evaluation.rollouts = 4 is less than the 8 samples of one"),
        ({"evaluation": {"temperature": "hot"}}, "evaluation.temperature = 'hot'; allowed: a number, or none"),
        ({"evaluation": {"temperature": -1}}, "evaluation.temperature = -1 is outside its range"),
        ({"evaluation": {"temperature": 0}}, "evaluation.samples = 64 at a temperature of 0, where all are the same"),
        ({"evaluation": {"top_p": 0}}, "evaluation.top_p = 0 is outside its range (0"),
        ({"evaluation": {"top_k": 1.5}}, "evaluation.top_k = 1.5; allowed: a whole number"),
        ({"evaluation": {"min_p": 2}}, "evaluation.min_p = 2 is outside its range"),
        ({"rl": {"rollouts": 4}}, "rl.rollouts = 4 is less than the 8 rollouts of one group; allowed: 8 or more"),
        ({"record": {"checkpoint_every": 0}}, "record.checkpoint_every = 0 is outside its range"),
        ({"seeds": "2"}, "seeds = '2'"),
        ({"seeds": 0}, "seeds = 0 is outside its range"),
        ({"engine": "verl"}, "engine = 'verl' is unknown; allowed: simlab, trl"),
        ({"engine": 3}, "engine = 3; allowed: a text"),
        ({"engine": "trl", "arms": ["grpo", "remax"]}, "arm remax reads the greedy answer's reward; allowed with the"),
        ({"seeds": 1.5}, "seeds = 1.5"),
        ({"arms": []}, "arms are none; allowed: one or more, each once"),
        ({"arms": ["grpo", "grpo"]}, "arms are grpo, grpo; allowed: one or more, each once"),
        ({"arms": ["f_grpo(gamma=2,base=rloo)", "f_grpo( base=rloo, gamma=2.0 )"]}, "allowed: one or more, each once"),
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
