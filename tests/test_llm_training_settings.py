"""TrainingSettings, arms and presets as plain data: the objects they build, and the data they refuse."""

import dataclasses
import json

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sweep_cases import refusal
from training_cases import TINY, contents, settings, task

from simlab.llm.checkpoint import read_checkpoint
from simlab.llm.compare import comparison_table, read_run
from simlab.llm.training.folder import read_lines
from simlab.llm.training.presets import PAPER_PRESETS, PRESETS, preset
from simlab.llm.training.run import train
from simlab.llm.training.settings import TrainingSettings, merge_layers, read_arm
from simlab.llm.training.setup import step_key

OWN = "grpo@group_size=2@learning_rate=1e-3@steps=3"


@pytest.mark.parametrize("name", [None, *PRESETS])
def test_plain_data_and_settings_are_each_others_inverse(name):
    training = TrainingSettings.from_data(preset(name, None)) if name else settings({"seeds": 3})
    assert TrainingSettings.from_data(json.loads(json.dumps(training.as_data()))) == training


def test_later_layers_are_put_over_earlier_ones_and_change_none_of_them():
    before = json.dumps(TINY)
    merged = merge_layers(TINY, {"rl": {"steps": 5}, "arms": ["maxrl"]}, {"rl": {"prompts": 3}})
    assert merged["rl"] == TINY["rl"] | {"steps": 5, "prompts": 3}
    assert merged["arms"] == ["maxrl"]
    assert json.dumps(TINY) == before


def test_another_task_does_not_inherit_the_parameters_of_the_former():
    first = {"task": {"name": "addition", "digits": 3}}
    assert merge_layers(first, {"task": {"order": "reversed"}})["task"] == first["task"] | {"order": "reversed"}
    assert merge_layers(first, {"task": {"name": "countdown"}})["task"] == {"name": "countdown"}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"training": {}}, "section = 'training' is unknown"),
        ({"rl": {"stepz": 3}}, "rl has no setting 'stepz' (did you mean 'steps'?)"),
        ({"rl": {"steps": "3"}}, "rl.steps = '3'"),
        ({"rl": {"steps": True}}, "rl.steps = True"),
        ({"rl": {"steps": 0}}, "steps = 0"),
        ({"rl": {"prompts": 8, "minibatches": 3}}, "minibatches = 3; allowed: whole numbers that divide the 8 prompts"),
        ({"rl": {"rounds": -1}}, "rounds = -1"),
        ({"rl": {"temperature": 0}}, "temperature = 0"),
        ({"rl": {"learning_rate": None}}, "rl.learning_rate = None"),
        ({"rl": {"decay": 3}}, "rl.decay = 3"),
        ({"rl": None}, "rl = None"),
        ({"rl": {"rollouts": 4}}, "rl.rollouts = 4 is less than the 8 rollouts of one group"),
        ({"rl": {"lag": -1}}, "lag = -1"),
        ({"rl": {"sampler": "float16"}}, "sampler = 'float16'"),
        ({"rl": {"lag": 1, "correction": "all"}}, "correction = 'all'"),
        ({"rl": {"lag": 1, "correction_unit": "word"}}, "correction_unit = 'word'"),
        ({"rl": {"lag": 1, "correction_bound": 0.5}}, "correction_bound = 0.5"),
        ({"rl": {"correction": "masked"}}, "rl.correction = 'masked' of a sampler that is the policy"),
        ({"rl": {"lag": 1}, "arms": ["grpo+casp"]}, "rl.lag = 1"),
        ({"rl": {"lag": 1}, "arms": ["entropy_advantage"]}, "reads entropies"),
        ({"rl": {"false_positive": -0.1}}, "false_positive = -0.1"),
        ({"rl": {"false_negative": 2.0}}, "false_negative = 2.0"),
        ({"rl": {"false_positive": 0.3, "errors_of": "token"}}, "errors_of = 'token'"),
        ({"rl": {"reward": "placebo", "false_positive": 0.1}}, "rl.reward = 'placebo' with a verifier that errs"),
        ({"rl": {"reward": "placebo"}, "arms": ["remax"]}, "rl.reward = 'placebo' with a method that reads the greedy"),
        ({"rl": {"remedy": "prune"}}, "rl.remedy = 'prune'"),
        ({"rl": {"remedy": "damp", "remedy_strength": 1.5}}, "rl.remedy_strength = 1.5"),
        ({"rl": {"remedy": "damp", "group_size": 2}}, "rl.remedy = 'damp' with groups of 2; allowed: 3 or more"),
        ({"rl": {"remedy": "drop", "epochs": 2}}, "rl.remedy = 'drop' with 2 updates by a batch; allowed: 1"),
        ({"rl": {"remedy": "project", "lag": 1}}, "rl.remedy = 'project' with a sampler that is another policy"),
        ({"rl": {"remedy": "endangered", "rounds": 2}}, "rl.remedy = 'endangered' with rl.rounds = 2; allowed: 0"),
        ({"probe": {"estimator": "tail"}}, "probe.estimator = 'tail'"),
        ({"probe": {"every": 1}, "rl": {"group_size": 2}}, "probe.every = 1 with groups of 2; allowed: 3 or more"),
        ({"probe": {"every": 1, "panel": 2, "rollouts": 6}}, "probe.rollouts = 6; allowed: whole numbers of groups"),
        ({"probe": {"every": 1}, "engine": "trl"}, "probe.every = 1 with the engine trl; allowed: 0"),
        ({"rl": {"errors_of": "answer"}}, "rl.errors_of = 'answer' of a verifier without errors"),
        (
            {"rl": {"false_positive": 0.5, "false_negative": 0.5, "verifier_correction": "backward"}},
            "false_positive = 0.5 and false_negative = 0.5 with the backward correction",
        ),
        ({"rl": {"false_positive": 0.1, "verifier_correction": "forward"}}, "the reward 0"),
        (
            {"rl": {"false_positive": 0.3, "verifier_correction": "backward"}, "arms": ["maxrl"]},
            "this estimator is defined for",
        ),
        ({"model": {"tie_embeddings": 1}}, "model.tie_embeddings = 1"),
        ({"model": {"dtype": "float16"}}, "dtype = 'float16'"),
        ({"warm_start": {"steps": -1}}, "warm_start.steps = -1"),
        ({"evaluation": {"samples": 8, "rollouts": 4}}, "evaluation.rollouts = 4 is less than the 8 samples"),
        ({"evaluation": {"temperature": "hot"}}, "evaluation.temperature = 'hot'"),
        ({"evaluation": {"temperature": 0}}, "evaluation.samples = 64 at a temperature of 0"),
        ({"evaluation": {"top_p": 0}}, "evaluation.top_p = 0"),
        ({"evaluation": {"top_k": 1.5}}, "evaluation.top_k = 1.5"),
        ({"record": {"checkpoint_every": 0}}, "record.checkpoint_every = 0"),
        ({"seeds": 1.5}, "seeds = 1.5"),
        ({"engine": "verl"}, "engine = 'verl'"),
        ({"engine": "trl", "arms": ["grpo", "remax"]}, "arm remax reads the greedy answer's reward"),
        ({"arms": []}, "arms are none"),
        ({"arms": ["f_grpo(gamma=2,base=rloo)", "f_grpo( base=rloo, gamma=2.0 )"]}, "each once"),
        ({"arms": "grpo"}, "arms = 'grpo'"),
        ({"arms": ["ppo"]}, "arm = 'ppo'"),
        ({"arms": ["rae"]}, "arm rae reads the role of each rollout; allowed: others, as tasks have no roles"),
        ({"arms": ["opd"]}, "rl.teacher = '' with a method that follows a teacher"),
        ({"arms": ["grpo@lr=1e-4"]}, "rl has no setting 'lr'"),
        ({"arms": ["grpo@group_size=two"]}, "rl.group_size = 'two'"),
        ({"arms": ["grpo@epochs=2@epochs=3"]}, "arm 'grpo@epochs=2@epochs=3' has epochs twice"),
        ({"arms": ["grpo@epochs=2", "grpo @ epochs = 2"]}, "each once"),
        ({"arms": ["remax@false_negative=0.1"]}, "rl.false_negative = 0.1"),
        ({"task": "addition"}, "task = 'addition'"),
        ({"task": {"digits": 2}}, "task = {'digits': 2}"),
    ],
)  # fmt: skip
def test_data_that_are_no_settings_are_refused(data, message):
    assert message in refusal(TrainingSettings.from_data, data)


def test_every_setting_has_an_attribute_that_says_what_it_is():
    for section in ("warm_start", "rl", "evaluation", "record"):
        kind = type(getattr(TrainingSettings(), section))
        docs = " ".join(each.__doc__ or "" for each in kind.__mro__)
        assert not [field.name for field in dataclasses.fields(kind) if field.name not in docs]


def test_the_random_numbers_of_a_step_are_of_its_seed_and_its_number():
    keys = [
        tuple(map(int, jax.random.key_data(step_key(seed, step)))) for seed in range(3) for step in (0, 1, 2, 2**31)
    ]
    assert len(set(keys)) == len(keys)


# Arms with settings of their own


@given(
    st.sampled_from(["grpo", "f_grpo(gamma=0.5)", "maxrl+clip_higher@token_mean", "mine.py:weight(power=2)"]),
    st.dictionaries(
        st.sampled_from(["group_size", "learning_rate", "correction"]),
        st.integers(1, 99) | st.floats(1e-9, 1e9).map(lambda x: float(f"{x:.4g}")) | st.sampled_from(["none", "ratio"]),
    ),
    st.sampled_from(["", " "]),
)
def test_what_is_written_is_read(method, overrides, space):
    text = f"{space}@{space}".join([method, *(f"{name}{space}={space}{value}" for name, value in overrides.items())])
    arm = read_arm(text)
    assert arm.method == read_arm(method).method
    assert {name: str(value).lower() for name, value in arm.overrides.items()} == {
        name: str(None if value == "none" else value).lower() for name, value in overrides.items()
    }


@pytest.mark.slow
@pytest.mark.usefixtures("quickly")
def test_an_arm_with_own_settings_is_the_arm_of_a_run_with_these_settings(tmp_path):
    beside = settings({"arms": ["grpo", OWN], "evaluation": {"every": 2}})
    alone = settings(
        {"rl": {"group_size": 2, "learning_rate": 1e-3, "steps": 3}, "evaluation": {"every": 2}, "arms": ["grpo"]}
    )
    for name, asked in (("beside", beside), ("alone", alone)):
        train(asked, tmp_path / name, own_task=task())
    first, other = (tmp_path / "beside/arms" / OWN / "seed-0", tmp_path / "alone/arms/grpo/seed-0")
    models = [read_checkpoint(folder / "model").parameters for folder in (first, other)]
    jax.tree.map(np.testing.assert_array_equal, *models)
    for file, count in (("metrics.jsonl", 3), ("evaluation.jsonl", 2)):
        lines = [[{**line, "seconds": 0} for line in read_lines(folder / file)] for folder in (first, other)]
        assert lines[0] == lines[1]
        assert len(lines[0]) == count
    before = contents(tmp_path / "beside")
    train(beside, tmp_path / "beside", own_task=task())
    assert contents(tmp_path / "beside") == before
    table = comparison_table(
        [read_run(tmp_path / "beside")], baseline="grpo @ steps=3 @ learning_rate=0.001 @ group_size=2"
    )
    assert f"difference from {OWN}: " in table


# Presets


@pytest.mark.parametrize("name", PAPER_PRESETS)
def test_arms_of_a_papers_preset_pay_for_as_many_rollouts_from_one_start(name):
    training = TrainingSettings.from_data(preset(name, None))
    steps = [training.arm_rl(arm) for arm in training.arms]
    assert len({(rl.steps, rl.prompts * rl.group_size) for rl in steps}) == 1
    assert training.seeds >= 3
    assert training.warm_start == TrainingSettings.from_data(preset("countdown-conflict", None)).warm_start
