"""Arms with settings of their own: one run folder for a sweep over G, or for a control at a lower rate."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from naive_training import leaves
from training_cases import contents, settings, task

from simlab.errors import InputError
from simlab.llm.checkpoint import read_checkpoint
from simlab.llm.compare import comparison_table, fit_tables, read_run
from simlab.llm.training.arm_text import read_arm
from simlab.llm.training.lines import read_lines
from simlab.llm.training.run import train

OWN = "grpo@group_size=2@learning_rate=1e-3@steps=3"


@pytest.mark.slow
@pytest.mark.usefixtures("quickly")
def test_an_arm_with_own_settings_is_the_arm_of_a_run_with_these_settings(tmp_path):
    """The same model, metrics and evaluations, beside an arm that has the run's."""
    beside = settings({"arms": ["grpo", OWN], "evaluation": {"every": 2}})
    alone = settings(
        {"rl": {"group_size": 2, "learning_rate": 1e-3, "steps": 3}, "evaluation": {"every": 2}, "arms": ["grpo"]}
    )
    for name, asked in (("beside", beside), ("alone", alone)):
        train(asked, tmp_path / name, own_task=task())
    one, other = (tmp_path / "beside/arms" / OWN / "seed-0", tmp_path / "alone/arms/grpo/seed-0")
    models = [read_checkpoint(folder / "model").parameters for folder in (one, other)]
    for (name, a), (_, b) in zip(*(sorted(leaves(model)) for model in models), strict=True):
        np.testing.assert_array_equal(a, b, err_msg=name)
    for file in ("metrics.jsonl", "evaluation.jsonl"):
        lines = [[{**line, "seconds": 0} for line in read_lines(folder / file).lines] for folder in (one, other)]
        assert lines[0] == lines[1]
        assert len(lines[0]) == {"metrics.jsonl": 3, "evaluation.jsonl": 2}[file]
    before = contents(tmp_path / "beside")
    train(beside, tmp_path / "beside", own_task=task())
    assert contents(tmp_path / "beside") == before

    run = read_run(tmp_path / "beside")
    table = comparison_table([run], baseline="grpo @ steps=3 @ learning_rate=0.001 @ group_size=2")
    assert OWN in table
    assert f"more than {OWN}, paired by seed" in table
    fitted = "\n".join(fit_tables([run]))
    assert "48" in fitted or OWN in fitted


@pytest.mark.usefixtures("quickly")
def test_an_own_temperature_is_that_of_sampling_and_evaluations_have_the_runs(tmp_path):
    cold = "grpo@temperature=0.05@learning_rate=0"
    train(settings({"arms": ["grpo@learning_rate=0", cold]}), tmp_path / "run", own_task=task())
    found = {
        arm: [read_lines(tmp_path / "run/arms" / arm / "seed-0" / file).lines[-1]["entropy"] for file in files]
        for arm in json.loads((tmp_path / "run/run.json").read_text())["arms"]
        for files in [("metrics.jsonl", "evaluation.jsonl")]
    }
    (of_steps, of_evaluation), (of_cold_steps, of_cold_evaluation) = found.values()
    assert of_cold_steps < 0.5 * of_steps
    assert of_cold_evaluation == pytest.approx(of_evaluation, rel=0.01), "but for a little decay of the weights"


@pytest.mark.parametrize(
    ("arms", "reason"),
    [
        (["grpo@lr=1e-4"], "rl has no setting 'lr'; it takes: learning_rate, "),
        (["grpo@group_size=0"], "group_size = 0 is outside its range [1, inf)"),
        (["grpo@group_size=two"], "rl.group_size = 'two'; allowed: a whole number"),
        (["grpo@minibatches=3"], "minibatches = 3; allowed: whole numbers that divide the 4 prompts of a batch"),
        (["grpo@epochs=2@epochs=3"], "arm 'grpo@epochs=2@epochs=3' has epochs twice"),
        (["grpo@epochs=2", "grpo @ epochs = 2"], "allowed: one or more, each once"),
        (["grpo+entropy_bonus@lag=2"], "with a method that reads entropies"),
        (["remax@false_negative=0.1"], "rl.false_negative = 0.1 with a method that reads the greedy answer's reward"),
    ],
)
def test_settings_that_an_arm_cannot_have_are_refused(arms, reason):
    with pytest.raises(InputError) as refusal:
        settings({"arms": arms})
    assert reason in str(refusal.value)


@given(
    st.sampled_from(["grpo", "f_grpo(gamma=0.5)", "maxrl+clip_higher@token_mean", "mine.py:weight(power=2)"]),
    st.dictionaries(
        st.sampled_from(["group_size", "learning_rate", "correction"]),
        st.integers(1, 99) | st.floats(1e-9, 1e9).map(lambda x: float(f"{x:.4g}")) | st.sampled_from(["none", "ratio"]),
    ),
    st.sampled_from(["", " "]),
)
def test_what_is_written_is_read(method, own, space):
    text = f"{space}@{space}".join([method, *(f"{name}{space}={space}{value}" for name, value in own.items())])
    found = read_arm(text)
    assert found.method == read_arm(method).method
    assert {name: str(value).lower() for name, value in found.own.items()} == {
        name: str(None if value == "none" else value).lower() for name, value in own.items()
    }


def test_arms_of_one_method_with_other_settings_are_no_repetition():
    asked = settings({"arms": ["grpo", "grpo@group_size=2", "grpo@group_size=8@correction=none"]})
    assert [asked.rl_of(arm).group_size for arm in asked.arms] == [4, 2, 8]
    assert asked.of_arm("grpo@group_size=8").arms == ("grpo",)
    assert asked.rl_of(asked.arms[2]).correction == "none"
