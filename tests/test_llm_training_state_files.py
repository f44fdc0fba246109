"""The checkpoint of a large model: files of bounded size, of which a kill leaves the former ones or the new ones."""

import jax
import numpy as np
import pytest
import safetensors.numpy
from training_cases import contents, settings, task
from training_cases import trainer_and_state as built

from simlab.llm.training import state_files
from simlab.llm.training.folder import ArmFolder
from simlab.llm.training.run import train
from simlab.llm.training.state import load_state, save_state
from simlab.seals import Damaged

pytestmark = pytest.mark.usefixtures("quickly")
BYTES = 2000  # of a file; a matrix of the tiny model has up to 1024, all of its states some 20,000
ORIGIN = {"arm": "grpo"}


@pytest.fixture
def small_files(monkeypatch):
    monkeypatch.setattr(state_files, "FILE_BYTES", BYTES)


@pytest.fixture
def states():
    """Two states, one after the other."""
    _, first = built("grpo")
    return first, first._replace(parameters=jax.tree.map(lambda leaf: leaf + 1, first.parameters), step=1)


def same(found, wanted):
    """Whether all numbers of two states are the same, in the same types."""
    if jax.tree.structure(found) != jax.tree.structure(wanted):
        return False
    both = [(np.asarray(one), np.asarray(two)) for one, two in zip(*map(jax.tree.leaves, (found, wanted)), strict=True)]
    return all(one.dtype == two.dtype and np.array_equal(one, two) for one, two in both)


def numbers_in(path):
    return sum(values.nbytes for values in safetensors.numpy.load_file(path).values())


def pieces_of(folder):
    return sorted(folder.glob("state-*.safetensors"))


@pytest.mark.parametrize("size", [BYTES, 300, 5, 1])
def test_no_file_holds_more_than_its_bound_and_the_state_comes_back(size, states, tmp_path, monkeypatch):
    """Matrices of more bytes are cut; a number of 4 bytes is in one file, whatever the bound."""
    monkeypatch.setattr(state_files, "FILE_BYTES", size)
    state = states[1] if size > 5 else states[1]._replace(optimizer=(), parameters={"a": np.arange(6, dtype="f4")})
    save_state(tmp_path / "state.safetensors", state, ORIGIN)
    sizes = [numbers_in(path) for path in pieces_of(tmp_path)]
    assert max(sizes) <= max(size, 4)
    assert numbers_in(tmp_path / "state.safetensors") == 0
    assert sum(sizes) == sum(leaf.nbytes for leaf in jax.tree.leaves(state) if hasattr(leaf, "nbytes"))
    assert same(load_state(tmp_path / "state.safetensors", state, [ORIGIN]), state)


class Killed(BaseException):
    """Stands for a kill."""


def test_a_kill_at_any_file_leaves_the_former_state_and_the_next_one_takes_its_room(
    small_files, states, tmp_path, monkeypatch
):
    """Killed before each of the files, of which the head is the last; an arm that begins there removes what is left."""
    former, new = states
    arm, write = ArmFolder(tmp_path / "arm", [ORIGIN]), state_files.write_whole
    arm.save(former)
    clean = contents(arm.path)
    for kept in range(len(clean)):
        written = iter(range(kept))

        def dying(path, content):
            if next(written, None) is None:  # noqa: B023  # it is called within the turn
                raise Killed
            write(path, content)

        with monkeypatch.context() as patch:
            patch.setattr(state_files, "write_whole", dying)
            with pytest.raises(Killed):
                arm.save(new)
        assert len(contents(arm.path)) > len(clean) or kept == 0
        assert same(load_state(arm.path / "state.safetensors", former, [ORIGIN]), former)
        assert same(arm.begin(former), former)
        assert contents(arm.path) == clean


# Runs


SHORT = {
    "rl": {"steps": 3}, "warm_start": {"steps": 3}, "record": {"checkpoint_every": 1, "keep_checkpoint": True},
}  # fmt: skip


def short_run(out, *layers):
    train(settings(SHORT, *layers), out, own_task=task())


def test_a_run_with_many_files_ends_as_one_with_a_single_file(tmp_path, monkeypatch):
    """But for the checkpoint that it keeps; that of the warm start is gone, with its pieces."""
    short_run(tmp_path / "single" / "run")
    monkeypatch.setattr(state_files, "FILE_BYTES", BYTES)
    short_run(tmp_path / "many" / "run")
    single, many = (contents(tmp_path / name / "run") for name in ("single", "many"))
    pieces = {name for name in many if "/state-" in name}
    assert {name.rpartition("/")[0] for name in pieces} == {"arms/grpo/seed-0"}
    head = "arms/grpo/seed-0/state.safetensors"
    assert {name: many[name] for name in many.keys() - pieces - {head}} == {
        name: single[name] for name in single.keys() - {head}
    }


@pytest.mark.parametrize("damage", ["a piece", "no piece", "the head"])
def test_what_is_damaged_is_named_and_set_aside_and_the_arm_begins_anew(damage, small_files, tmp_path, capsys):
    out = tmp_path / "run"
    short_run(out)
    unbroken = contents(out)
    path = out / "arms" / "grpo" / "seed-0" / "state.safetensors"
    pieces = pieces_of(path.parent)
    chosen = path if damage == "the head" else pieces[2]
    if damage == "no piece":
        chosen.unlink()
    else:
        content = bytearray(chosen.read_bytes())
        content[-3] ^= 1
        chosen.write_bytes(content)
    with pytest.raises(Damaged, match="is damaged"):
        load_state(path, built("grpo")[1])
    capsys.readouterr()
    short_run(out)
    said = capsys.readouterr().err
    assert f"checkpoint {path} is damaged (" in said
    assert chosen.name in said
    assert f"the checkpoint is set aside, and {path.parent} begins anew" in said
    aside = sorted(out.rglob("*.damaged"))
    assert {each.name for each in aside} == {
        f"{each.name}.damaged" for each in {path, *pieces} - ({chosen} if damage == "no piece" else set())
    }
    for each in aside:
        each.unlink()
    assert contents(out) == unbroken
