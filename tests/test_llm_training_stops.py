"""Errors stop a training run with one line that says where, and no finished step is lost."""

import json
import os
import shutil

import jax
import numpy as np
import pytest
from full_disk import full_from
from sweep_cases import refusal
from training_cases import EVALUATION, contents, reward, settings, task
from training_cases import trainer_and_state as built

from simlab.cli import main
from simlab.files import file_lock
from simlab.llm.training.folder import load_state
from simlab.llm.training.policy_gradient import Trainer
from simlab.llm.training.run import train

SHORT = {"rl": {"steps": 4}, "evaluation": {"every": 2}}


pytestmark = pytest.mark.usefixtures("quickly")


def short_run(out, *layers, rewards=reward, **choices):
    train(settings(SHORT, *layers), out, own_task=task(rewards, **choices))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    out = tmp_path_factory.mktemp("unbroken") / "run"
    short_run(out)
    return out


@pytest.fixture(scope="module")
def unbroken(whole):
    return contents(whole)


@pytest.fixture
def finished(whole, out):
    return shutil.copytree(whole, out)


@pytest.fixture
def out(tmp_path):
    return tmp_path / "run"


def arm_of(out):
    return out / "arms" / "grpo" / "seed-0"


def state_of(out):
    _, fresh = built("grpo")
    return load_state(arm_of(out) / "state.npz", fresh)


# Missing runs


@pytest.mark.parametrize("present", [False, True])
def test_nothing_is_resumed_where_there_is_no_run(out, present):
    if present:
        out.mkdir()
    message = refusal(train, settings(SHORT), out, own_task=task(), resume=True)
    assert message == f"{out} holds no run to resume; allowed: the --out of a run, or no --resume to begin one"
    assert out.exists() == present
    assert not present or not list(out.iterdir())


# Inputs that do not fit


def test_prompts_longer_than_the_context_are_refused_before_anything_is_written(out):
    message = refusal(short_run, out, {"model": {"max_positions": 6}})
    assert (
        "a prompt of own has 4 tokens; allowed: 3, as the model's context is 6 and completions have up to 3" in message
    )
    assert not out.exists()


@pytest.mark.slow
def test_a_training_prompt_longer_than_the_context_stops_its_step(out):
    prompts = [f"{first}+1=" for first in range(1, 10)] + ["1+1+1+1+1+1+1="] * 7
    message = refusal(short_run, out, training=prompts)
    assert message.startswith("grpo, seed 0, step 3: a prompt of own has 14 tokens; allowed: 13, ")
    assert state_of(out).step == 2


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"demonstration": None}, "task own has no demonstrations"),
        ({"demonstration": lambda prompt: "1234"}, "a demonstration of own has 5 tokens, its end included; allowed: 3"),
    ],
)
def test_a_warm_start_needs_demonstrations_that_are_completions(choices, message, out):
    line = refusal(short_run, out, {"warm_start": {"steps": 2}}, **choices)
    assert line.startswith("step 1 of the warm start: ")
    assert message in line


# Errors of a reward function


def numbers(left):
    return {
        name: content for name, content in left.items() if not name.endswith(("run.json", "finished.json", "state.npz"))
    }


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: 1 / 0, "raised ZeroDivisionError: division by zero"),
        (lambda: float("nan"), "returned 'nan'; allowed: finite numbers, or a dictionary of them"),
    ],
)
def test_a_reward_function_that_goes_wrong_stops_its_step_and_the_steps_before_are_kept(wrong, message, unbroken, out):
    """It does in the third of four steps; with a mended function the run ends as if nothing had happened."""
    line = refusal(short_run, out, rewards=lambda prompt, text: wrong() if prompt[2] == "3" else reward(prompt, text))
    assert line.startswith("grpo, seed 0, step 3: the reward function of the problem '1+3=' ")
    assert line.endswith(f"{message}; the last checkpoint is kept: {arm_of(out) / 'state.npz'}")
    assert state_of(out).step == 2
    train(settings(SHORT), out, own_task=task(), other_code=True)  # the mended function is other code
    assert numbers(contents(out)) == numbers(unbroken)


def test_one_that_goes_wrong_in_an_evaluation_leaves_only_that_to_do(unbroken, out):
    trained = []

    def rewards(prompt, completion):
        trained.extend([prompt] if prompt not in EVALUATION else [])
        return 1 / 0 if trained and prompt in EVALUATION else reward(prompt, completion)

    line = refusal(short_run, out, rewards=rewards)
    assert line.startswith("the evaluation after step 2: the reward function of the problem '1+9=' raised Zero")
    assert state_of(out).step == 2
    train(settings(SHORT), out, own_task=task(), other_code=True)  # the mended function is other code
    assert numbers(contents(out)) == numbers(unbroken)


# Numbers that are not finite


def test_a_learning_rate_that_breaks_the_model_stops_and_the_last_checkpoint_is_finite(out):
    line = refusal(short_run, out, {"rl": {"learning_rate": 1e30}, "record": {"checkpoint_every": 1}})
    assert line.startswith(
        "grpo, seed 0, step 2: the model's log-probabilities are NaN; allowed: finite numbers; the last checkpoint"
    )
    state = state_of(out)
    assert state.step == 1
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state.parameters))


# The disk


@pytest.mark.parametrize(("value", "helps"), [(1.0, "fewer warm_start.steps"), (0.0, "easier problems")])
def test_a_run_whose_first_steps_teach_nothing_stops_and_goes_on_if_it_is_asked_again(value, helps, out):
    steps, same = settings({"rl": {"steps": 11}}), task(lambda prompt, completion: value)
    message = refusal(train, steps, out, own_task=same)
    assert "no group of the first 10 steps taught anything" in message
    assert helps in message
    assert state_of(out).step == 10
    train(steps, out, own_task=same)
    assert (arm_of(out) / "finished.json").exists()


@pytest.mark.parametrize(
    ("rewards", "told"),
    [
        (lambda prompt, completion: 0.0, "(100% all wrong, 0% all right), too few to learn from; what helps: easier"),
        (lambda prompt, completion: 1.0, "(0% all wrong, 100% all right), too few to learn from; what helps: harder"),
        (reward, None),
    ],
)
def test_a_short_run_that_hardly_had_a_signal_says_so_at_its_end(rewards, told, out):
    lines = []
    train(settings(SHORT), out, own_task=task(rewards), say=lines.append)
    if told:
        assert told in lines[-1]
    else:
        assert not any("taught" in line for line in lines)


def test_a_full_disk_leaves_the_former_checkpoint_and_the_run_goes_on_from_it(unbroken, out, monkeypatch):
    monkeypatch.setattr(os, "fsync", full_from(4))
    assert "No space left on device" in refusal(short_run, out, {"record": {"checkpoint_every": 2}})
    monkeypatch.undo()
    assert not list(out.rglob(".unfinished-*"))
    short_run(out, {"record": {"checkpoint_every": 2}})
    assert {name: content for name, content in contents(out).items() if name != "run.json"} == {
        name: content for name, content in unbroken.items() if name != "run.json"
    }


# Another run at the same place


def test_a_run_of_other_settings_is_refused_and_nothing_is_lost(unbroken, out, finished):
    assert refusal(short_run, out, {"rl": {"steps": 5}}) == (
        f"{out} holds a run of other settings (steps: 4 there, 5 here); "
        "allowed: the same settings, --overwrite, or another --out"
    )
    assert contents(out) == unbroken


def test_a_damaged_run_json_is_refused_wherever_it_is_read(finished, capsys):
    path = finished / "run.json"
    content = path.read_bytes()
    for damaged in (content.replace(b'"steps": 4', b'"steps": 5'), content[:-9], b""):
        path.write_bytes(damaged)
        assert f"{path} is damaged" in refusal(short_run, finished)
        assert main(["compare", str(finished)]) == 2
        assert str(path) in capsys.readouterr().err
    path.write_text('{"settings"')
    assert main(["train", "--config", str(path), "--out", str(finished / "other")]) == 2


def test_a_finished_run_has_no_checkpoints_and_the_same_command_computes_nothing(unbroken, finished, monkeypatch):
    assert not [name for name in unbroken if name.endswith("state.npz")]
    (arm_of(finished) / "state.npz").write_bytes(b"of the last step")
    (arm_of(finished) / "trl" / "checkpoint-3").mkdir(parents=True)
    monkeypatch.setattr(Trainer, "step", None)
    short_run(finished)
    assert contents(finished) == unbroken


def test_overwriting_begins_anew_and_a_kill_meanwhile_leaves_no_run_that_could_be_taken_for_one(
    out, finished, monkeypatch
):
    def killed(folder):
        raise KeyboardInterrupt

    other = settings(SHORT, {"rl": {"steps": 1}})
    monkeypatch.setattr(shutil, "rmtree", killed)
    with pytest.raises(KeyboardInterrupt):
        train(other, out, own_task=task(), overwrite=True)
    monkeypatch.undo()
    assert "is there without run.json" in refusal(short_run, out)


def test_overwriting_replaces_a_run_and_keeps_what_the_user_put_beside_it(out, finished):
    notes = [out / "start" / "notes.txt", out / "arms" / "notes.txt", arm_of(out).parent / "notes.txt"]
    for path in notes:
        path.write_text("mine")
    (arm_of(out) / "rest").touch()
    other = settings(SHORT, {"rl": {"steps": 1}})
    train(other, out, own_task=task(), overwrite=True)
    assert [path.read_text() for path in notes] == ["mine"] * 3
    assert not (arm_of(out) / "rest").exists()
    record = json.loads((out / "run.json").read_text())["settings"]
    assert {**record, "task": dict(other.task)} == json.loads(json.dumps(other.as_data()))
    assert [line["step"] for line in contents(out)["arms/grpo/seed-0/metrics.jsonl"]] == [1]


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("start/notes.txt", "start is there without run.json; allowed: another --out"),
        ("arms/left/notes.txt", "arms is there without run.json; allowed: another --out"),
        ("run.json", "run.json is damaged or not simlab's (its checksum is missing); allowed: another --out"),
    ],
)
def test_a_folder_of_something_else_is_not_emptied(name, message, overwrite, out):
    (out / name).parent.mkdir(parents=True)
    (out / name).write_text('{"a": 1}')
    assert message in refusal(train, settings(SHORT), out, own_task=task(), overwrite=overwrite)
    assert (out / name).read_text() == '{"a": 1}'


def test_where_memory_runs_out_it_is_said_in_one_line(out, monkeypatch):
    def exhausted(*arguments):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 99 bytes.\nmore")

    monkeypatch.setattr(Trainer, "step", exhausted)
    complaint = refusal(short_run, out)
    assert "memory ran out (RESOURCE_EXHAUSTED: Out of memory allocating 99 bytes.)" in complaint
    assert "rl.microbatch" in complaint


def test_a_folder_that_another_process_is_at_is_refused(out):
    with file_lock(out):
        assert "run is being written by another process" in refusal(short_run, out)
    assert not (out / "run.json").exists()
