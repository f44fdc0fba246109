"""The checkpoint of an arm: it comes back as it was, and damage is refused."""

import os
import random

import jax
import numpy as np
import pytest
from refusals import refusal
from training_cases import trainer_and_state as built

from simlab.errors import InputError
from simlab.llm.training.folder import ArmFolder, load_state, read_record, save_state

pytestmark = pytest.mark.usefixtures("quickly")
ORIGIN = {"arm": "grpo"}


@pytest.fixture
def states():
    _, first = built("ha_dw", {"lag": 2})
    later = jax.tree.map(lambda leaf: leaf + 1, first.parameters)
    return first, first._replace(parameters=later, step=1, cursor=17, older=(later, first.parameters))


def assert_same(state, expected):
    assert jax.tree.structure(state) == jax.tree.structure(expected)
    for leaf, other in zip(*map(jax.tree.leaves, (state, expected)), strict=True):
        assert np.asarray(leaf).dtype == np.asarray(other).dtype
        np.testing.assert_array_equal(leaf, other)


def test_a_state_and_its_record_come_back_as_they_were_and_bytes_do_not_depend_on_the_time(states, tmp_path):
    for name in ("state", "again"):
        save_state(tmp_path / name, states[1], {"origin": ORIGIN})
    assert_same(load_state(tmp_path / "state", states[0]), states[1])
    assert read_record(tmp_path / "state") == {"origin": ORIGIN, "step": 1}
    assert (tmp_path / "state").read_bytes() == (tmp_path / "again").read_bytes()


def test_a_damaged_checkpoint_is_refused_whatever_the_damage(states, tmp_path):
    """More than 150 of 200 damaged files are refused; the others hold the same numbers and record."""
    path, numbers, refused = tmp_path / "state", random.Random(1), 0
    save_state(path, states[1], {"origin": ORIGIN})
    content = path.read_bytes()
    for _ in range(200):
        changed = bytearray(content)
        changed[numbers.randrange(len(content))] ^= 1 << numbers.randrange(8)
        path.write_bytes(changed if numbers.random() < 0.8 else content[: numbers.randrange(len(content))])
        try:
            state, record = load_state(path, states[0]), read_record(path)
        except InputError as error:
            refused += str(error).startswith(f"checkpoint {path} is damaged or belongs to another run (")
        else:
            assert_same(state, states[1])
            assert record == {"origin": ORIGIN, "step": 1}
    assert refused > 150


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: built("grpo", model={"hidden_size": 8})[1], "shape (15, 8), not (15, 16)"),
        (lambda state: state._replace(optimizer=()), "Error: "),
        (lambda state: state._replace(older=(state.parameters,)), "Error: "),
    ],
)
def test_a_checkpoint_of_another_model_or_arm_is_refused(change, message, tmp_path):
    _, state = built("grpo")
    save_state(tmp_path / "state", change(state), {})
    complaint = refusal(load_state, tmp_path / "state", state)
    assert "belongs to another run (" in complaint
    assert message in complaint


# Lines


def fill(arm, steps):
    for step in steps:
        arm.append("metrics.jsonl", {"step": step, "reward": np.float32(0.5), "grad_norm": np.nan})


def test_a_resumed_arm_has_the_lines_of_its_checkpoint(states, tmp_path):
    arm = ArmFolder(tmp_path, [ORIGIN])
    assert_same(arm.begin(states[0]), states[0])
    fill(arm, [1])
    arm.save(states[1])
    fill(arm, [2, 3])
    arm.append("evaluation.jsonl", {"step": 3})
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 4, "rew')
    other = ArmFolder(tmp_path, [ORIGIN])
    assert_same(other.begin(states[0]), states[1])
    assert other.lines("metrics.jsonl") == [{"step": 1, "reward": 0.5, "grad_norm": None}]
    assert other.lines("evaluation.jsonl") == []
    fill(other, [2])
    assert [line["step"] for line in other.lines("metrics.jsonl")] == [1, 2]
    os.truncate(tmp_path / "metrics.jsonl", 5)
    assert "metrics.jsonl is damaged (it is cut off); delete" in refusal(other.begin, states[0])
