"""An arm that is done: its checkpoints are gone, it is not trained again, and what happens to its files is noticed."""

import shutil

import pytest
from training_cases import contents, settings, task

from simlab.llm.config import ModelConfig
from simlab.llm.tasks import task as named_task
from simlab.llm.training import disk, state_files
from simlab.llm.training.policy_gradient import Trainer
from simlab.llm.training.run import train
from simlab.llm.training.setup import Setup

pytestmark = pytest.mark.usefixtures("quickly")

SHORT = {"rl": {"steps": 3}, "evaluation": {"every": 2}, "record": {"checkpoint_every": 2}, "seeds": 2}


def short_run(out):
    train(settings(SHORT), out, own_task=task())


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    """A run of one arm and two seeds that nothing has happened to."""
    out = tmp_path_factory.mktemp("finished") / "run"
    short_run(out)
    return out


@pytest.fixture
def out(unbroken, tmp_path):
    """A copy of it, in a folder of the same name."""
    return shutil.copytree(unbroken, tmp_path / "run")


def arm_of(out, seed=0):
    return out / "arms" / "grpo" / f"seed-{seed}"


def test_checkpoints_are_gone_and_the_same_command_computes_nothing(unbroken, out, monkeypatch):
    assert not list(out.rglob("state.safetensors"))
    monkeypatch.setattr(Trainer, "step", None)
    short_run(out)
    assert contents(out) == contents(unbroken)


def test_a_checkpoint_that_a_kill_has_left_is_removed(unbroken, out):
    (arm_of(out) / "state.safetensors").write_bytes(b"of the last step")
    (arm_of(out) / "trl" / "checkpoint-3").mkdir(parents=True)
    short_run(out)
    assert contents(out) == contents(unbroken)


def cut(path):
    path.write_bytes(path.read_bytes()[:-20])


DAMAGES = {
    "model": (lambda own, other: cut(own / "model" / "model.safetensors"), "model is not whole"),
    "no model": (lambda own, other: shutil.rmtree(own / "model"), "model is not whole"),
    "another's model": (
        lambda own, other: shutil.copytree(other / "model", own / "model", dirs_exist_ok=True),
        "is not the model that",
    ),
    "lines": (lambda own, other: cut(own / "metrics.jsonl"), "has 2 lines up to step 3, where 3 were written"),
    "an evaluation": (lambda own, other: cut(own / "evaluation.jsonl"), "has 1 lines up to step 3, where 2 were"),
    "finished.json": (lambda own, other: cut(own / "finished.json"), "finished.json is damaged (it is no JSON)"),
    "another's finished.json": (
        lambda own, other: shutil.copy(other / "finished.json", own / "finished.json"),
        "finished.json is damaged (its checksum differs)",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_what_is_damaged_or_exchanged_is_named_and_the_arm_is_trained_again(name, unbroken, out, capsys):
    damage, reason = DAMAGES[name]
    damage(arm_of(out), arm_of(out, 1))
    short_run(out)
    said = capsys.readouterr().err
    assert reason in said
    assert f"{arm_of(out)} begins anew" in said
    for path in out.rglob("*.damaged*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert contents(out) == contents(unbroken)


# The disk


def test_the_disk_that_is_said_is_that_of_the_files():
    """Of 21 million parameters, 4 bytes each: the models of two arms and two seeds and those of the starts.

    A checkpoint has 3 numbers of each, and 5 where the sampler is two steps old; it is written beside the former one,
    and the last of them before there is the last model.
    """
    sizes = {"hidden_size": 512, "intermediate_size": 1024, "num_layers": 8, "num_heads": 8, "num_kv_heads": 8}
    asked = {
        "model": sizes, "seeds": 2, "warm_start": {"steps": 1}, "arms": ["grpo", "grpo@lag=2"],
        "rl": {"steps": 10, "group_size": 4}, "record": {"rollouts": 9, "completions": 7}, "evaluation": {"every": 4},
    }  # fmt: skip
    setup = Setup(settings(asked), named_task("addition", digits=2))
    weights = 4 * (8 * (4 * 512**2 + 3 * 512 * 1024 + 5 * 512) + 512 + setup.reader.vocabulary.size * 512)
    tokens, prompt = setup.reader.task.max_new_tokens, len("99+99=")
    assert setup.needed_disk() == {
        "models": 5 * weights,
        "checkpoints": 2 * 5 * weights,
        "rollouts, up to": 2 * 2 * 10 * 8 * (100 + 50 * tokens),
        # Two arms and two seeds are evaluated after steps 4, 8 and 10, and the starts of two seeds.
        "completions, up to": (2 * 2 * 3 + 2) * 7 * (100 + 12 * (prompt + tokens)),
    }
    kept = Setup(settings(asked, {"record": {"keep_checkpoint": True}}), named_task("addition", digits=2))
    assert kept.needed_disk()["checkpoints"] == (2 * (3 + 5) + 5) * weights


LARGER = {
    "model": {"hidden_size": 64, "intermediate_size": 128, "num_layers": 2},
    "arms": ["grpo", "grpo@lag=2", "f_grpo"], "seeds": 2, "record": {"checkpoint_every": 1, "rollouts": 0},
}  # fmt: skip
ADAPTERS = {"model": LARGER["model"] | {"lora_rank": 8}}
HEADER = 2**14  # bytes of a file beside its numbers, at most


@pytest.mark.parametrize(("keep_checkpoint", "warm_start"), [(False, 2), (True, 0)])
@pytest.mark.parametrize(
    "case",
    [({}, 10**9), (ADAPTERS, 10**9), pytest.param(({}, 200_000), marks=pytest.mark.slow)],
    ids=["plain", "adapters", "several files"],
)
def test_the_disk_that_is_said_is_what_a_run_takes_at_most(case, keep_checkpoint, warm_start, tmp_path, monkeypatch):
    """Counted in the bytes of files whenever one of a checkpoint or a model is written, itself included."""
    own, file_bytes = case
    out, write, save_model, taken = tmp_path / "run", state_files.write_whole, Setup.save_model, []

    def count(*writing):
        sizes = [*(path.stat().st_size for path in out.rglob("*.safetensors")), *writing]
        taken.append((sum(sizes), len(sizes)))

    def counted(path, content):
        count(len(content))
        write(path, content)

    def saved(*arguments):
        save_model(*arguments)
        count()

    monkeypatch.setattr(state_files, "FILE_BYTES", file_bytes)
    monkeypatch.setattr(state_files, "write_whole", counted)
    monkeypatch.setattr(Setup, "save_model", saved)
    more = {"record": {"keep_checkpoint": keep_checkpoint}, "warm_start": {"steps": warm_start}}
    asked = settings(LARGER, own, more)
    train(asked, out, own_task=task())
    most, files = max(taken)
    needed = Setup(asked, task()).needed_disk()
    said = needed["models"] + needed["checkpoints"]
    assert most - files * HEADER <= said <= most


def test_adapters_to_a_model_of_seven_billion_parameters_have_small_checkpoints():
    """At rank 16 they are 40 million numbers, three of each in a checkpoint: .45 GiB, where the model has 25."""
    config = ModelConfig(
        vocab_size=32000,
        hidden_size=4096,
        intermediate_size=11008,
        num_layers=32,
        num_heads=32,
        num_kv_heads=32,
        tie_embeddings=False,
    )
    needed = disk.needed_disk(settings({"model": {"lora_rank": 16}}), config, 3, 3, [8])
    assert needed["checkpoints"] == pytest.approx(0.45 * 2**30, rel=0.01)
    assert needed["models"] == pytest.approx(25.1 * 2**30, rel=0.01)


@pytest.mark.parametrize("name", ["rollouts", "completions"])
def test_kept_texts_need_no_more_than_is_said(name, unbroken):
    written = sum(path.stat().st_size for path in unbroken.rglob(f"{name}.jsonl"))
    said = Setup(settings(SHORT), task()).needed_disk()[f"{name}, up to"]
    assert said / 3 < written <= said


def test_free_disk_is_that_of_the_nearest_folder_that_is_there(tmp_path):
    free = disk.free_disk(tmp_path / "not" / "there")
    assert free == pytest.approx(shutil.disk_usage(tmp_path).free, abs=2**30)
    assert disk.in_words({"models": 2**20}, 2**31) == "disk: about 1 MiB (models 1 MiB); 2.0 GiB are free"
