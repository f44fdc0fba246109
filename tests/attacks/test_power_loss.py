"""The power fails after any write of a sweep, a merge or a training run: the same command ends as if it had not.

Every write, new name and sync is recorded; after each of them the disk is made as a power loss could leave it, with all
that was not synced lost, with none of it lost, and with some, and the command is run again.
"""

import importlib
import shutil

import jax
import numpy as np
import pytest
from power_loss import left, recorded
from sweep_cases import TINY, asked, parts_of
from training_cases import contents, settings, task

from simlab.files import write_whole
from simlab.llm.instruments.rare import Trajectories
from simlab.llm.instruments.tracked import Tracked
from simlab.llm.training import warm_start
from simlab.llm.training.evaluator import Evaluator
from simlab.llm.training.policy_gradient import Trainer
from simlab.llm.training.run import train
from simlab.llm.training.start import Followed
from simlab.sweeps.executor import PROCESSOR
from simlab.sweeps.result import read
from simlab.sweeps.run import merge, parts_folder, run

KINDS = ["lost", "kept", "mixed"]
SWEEP = asked(*TINY, "--group-size", "2,4", "--gamma", 1, "--seeds", 8)
RUN = {
    "rl": {"steps": 3}, "warm_start": {"steps": 2}, "evaluation": {"every": 2}, "record": {"checkpoint_every": 2},
}  # fmt: skip


EVERYTHING = pytest.param(1, len(KINDS), marks=pytest.mark.slow, id="every state")


def check_prefixes(disks, place, recover, each, kinds):
    """Recover from ``kinds`` of the states that a power loss could leave after each so many writes."""
    for number, disk in enumerate(disks[::each]):
        for kind in (KINDS * 2)[number % len(KINDS) :][:kinds]:
            folder = place / f"{number}-{kind}"
            left(disk, folder, kind, seed=number)
            recover(folder)
            assert not list(folder.rglob(".unfinished-*"))
            shutil.rmtree(folder)
    assert len(disks) > 5


# The recorder itself


def test_what_was_not_synced_may_be_lost(tmp_path):
    """A file that is renamed without a sync may be there, empty or half, or not at all."""
    root = tmp_path / "root"
    root.mkdir()
    with recorded(root) as disks:
        (root / "new").write_bytes(b"content")
        (root / "new").rename(root / "file")
    found = set()
    for seed in range(60):
        left(disks[-1], tmp_path / str(seed), "mixed", seed)
        path = tmp_path / str(seed) / "file"
        found.add(path.read_bytes() if path.exists() else None)
    assert {None, b"content", b""} < found
    assert any(content and content != b"content" for content in found)
    left(disks[-1], tmp_path / "lost", "lost")
    assert list((tmp_path / "lost").iterdir()) == []


def test_what_is_written_whole_is_never_half_and_stays(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    (root / "file").write_bytes(b"former")
    with recorded(root) as disks:
        write_whole(root / "file", b"content")
    found = []
    for number, disk in enumerate(disks):
        for kind in KINDS:
            left(disk, tmp_path / f"{number}{kind}", kind, seed=number)
            found.append((tmp_path / f"{number}{kind}" / "file").read_bytes())
    assert set(found) == {b"former", b"content"}
    assert found[-len(KINDS) :] == [b"content"] * len(KINDS)


# Sweeps


def pretended(work, budget, devices=None):
    """Numbers that are quick to make: of each run, a function of its seed."""
    seeds = np.array(work.seeds, "float32")
    values = np.sin(seeds)[:, None] * np.arange(1, 2 + len(work.steps), dtype="float32")
    return {"q_pos": values, PROCESSOR: np.full(len(seeds), '{"kind": "pretended"}')}


@pytest.fixture(scope="module")
def sweep_of(tmp_path_factory):
    """A recorded sweep of quick numbers, its states and its result."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(importlib.import_module("simlab.sweeps.executor"), "simulated", pretended)
        root = tmp_path_factory.mktemp("sweep")
        with recorded(root) as disks:
            run(SWEEP, root / "sweep.nc")
        yield disks, root / "sweep.nc"


@pytest.mark.slow
@pytest.mark.parametrize(("each", "kinds"), [pytest.param(1, 1, id="some states"), EVERYTHING])
def test_a_sweep_recovers_from_a_power_loss_after_any_write(each, kinds, sweep_of, tmp_path):
    disks, unbroken = sweep_of

    def recover(folder):
        out = folder / "sweep.nc"
        assert not out.exists() or read(out).identical(read(unbroken))
        assert run(SWEEP, out).identical(read(unbroken))
        assert parts_of(out) == parts_of(unbroken)

    check_prefixes(disks, tmp_path, recover, each, kinds)


@pytest.mark.slow
def test_so_does_a_merge(sweep_of, tmp_path):
    _, unbroken = sweep_of
    root = tmp_path / "merged"
    shutil.copytree(parts_folder(unbroken), root / "sweep.nc.parts")
    with recorded(root) as disks:
        merge(root / "sweep.nc", [root / "sweep.nc.parts"])

    def recover(folder):
        merge(folder / "sweep.nc", [folder / "sweep.nc.parts"])
        assert read(folder / "sweep.nc").identical(read(unbroken))

    check_prefixes(disks, tmp_path / "left", recover, 1, len(KINDS))


# Training runs


def train_into(out):
    train(settings(RUN), out, own_task=task())


@pytest.fixture
def pretended_training(monkeypatch):
    """Steps and evaluations that are quick to make: each a function of the parameters and the step."""

    def after(state):
        parameters = jax.tree.map(lambda leaf: 0.5 * leaf + state.step, state.parameters)
        return state._replace(parameters=parameters, step=state.step + 1, cursor=state.cursor + 1)

    def step(self, state, key, instruments, watch):
        return after(state), {"reward": float(jax.tree.leaves(state.parameters)[0].sum()), "entropy": 0.0}

    def line(self, found, parameters, *, step, group_size, start):
        correct = int(100 * abs(float(jax.tree.leaves(parameters)[0].sum()))) % 4
        counts = {"samples": 4, "correct": [correct, len(start.followed.rare.prompts)], "distinct": [correct, 0]}
        return {"step": step, **counts, "pass_at_k": {"1": {"mean": correct / 8}}}

    def evaluate(self, parameters, step):
        text = str(float(jax.tree.leaves(parameters)[0].sum()))
        completions = [{"text": text, "reward": 0.0, "solution": None}]
        return None, {"evaluation": [{"prompt": "1+9=", "completions": completions}]}

    def supervised(policy, reader, settings, state, first):
        return after(state), {"loss": float(state.step)}

    followed = Followed(Tracked([], [], [], []), Trajectories([[1]], [[2]]))
    monkeypatch.setattr(warm_start, "supervised_step", supervised)
    monkeypatch.setattr(warm_start, "choose_followed", lambda found: followed)
    monkeypatch.setattr(Evaluator, "evaluate", evaluate)
    monkeypatch.setattr(Evaluator, "line", line)
    monkeypatch.setattr(Trainer, "step", step)


def check_training(place, each, kinds):
    root = place / "root"
    root.mkdir()
    with recorded(root) as disks:
        train_into(root / "run")
    unbroken = contents(root / "run")

    def recover(folder):
        train_into(folder / "run")
        for path in folder.rglob("*.damaged*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        assert contents(folder / "run") == unbroken

    check_prefixes(disks, place, recover, each, kinds)


@pytest.mark.parametrize(("each", "kinds"), [pytest.param(5, 1, id="some states"), EVERYTHING])
def test_a_training_run_recovers_from_a_power_loss_after_any_write(each, kinds, pretended_training, tmp_path):
    check_training(tmp_path, each, kinds)


@pytest.mark.slow
@pytest.mark.usefixtures("quickly")
def test_so_does_one_that_learns(tmp_path):
    check_training(tmp_path, 3, 1)


@pytest.mark.slow
def test_so_does_a_sweep_that_simulates(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    with recorded(root) as disks:
        run(SWEEP, root / "sweep.nc")

    def recover(folder):
        assert run(SWEEP, folder / "sweep.nc").identical(read(root / "sweep.nc"))

    check_prefixes(disks, tmp_path / "left", recover, 2, 1)
