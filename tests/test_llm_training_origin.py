"""Who made a run: code, versions and platform are compared when it goes on, and going on anyway is recorded."""

import hashlib
import json
import re
import sys

import pytest
from sweep_cases import refusal
from training_cases import contents, reward, settings, task

from simlab import own_files
from simlab.llm.compare import comparison_table, read_run
from simlab.llm.training import run
from simlab.llm.training.folder import read_record
from simlab.llm.training.origin import current_origin
from simlab.llm.training.policy_gradient import Trainer
from simlab.llm.training.run import train

pytestmark = pytest.mark.usefixtures("quickly")
SHORT = {
    "rl": {"steps": 3},
    "evaluation": {"every": 3},
    "record": {"checkpoint_every": 1, "keep_checkpoint": True},
    "arms": ["grpo", "maxrl"],
}
OTHER = "allowed: the code that made it, --other-code to go on, --overwrite, or another --out"


class Stopped(Exception):
    """Stands for a kill."""


def broken_off(out, own_task=None, steps=2):
    count = iter(range(1, 100))

    with pytest.MonkeyPatch.context() as patch:
        step = Trainer.step

        def stopping(trainer, *arguments):
            if next(count) > steps:
                raise Stopped
            return step(trainer, *arguments)

        patch.setattr(Trainer, "step", stopping)
        with pytest.raises(Stopped):
            train(settings(SHORT), out, own_task=own_task or task())


def load_record(out):
    return json.loads((out / "run.json").read_text())


@pytest.fixture
def out(tmp_path):
    return tmp_path / "run"


@pytest.fixture
def other_code(monkeypatch):
    def change(name="code", value="0123456789abcdef"):
        current = run.current_origin
        monkeypatch.setattr(run, "current_origin", lambda *of: {**current(*of), name: value})

    return change


def test_run_json_and_each_checkpoint_say_who_made_them(out):
    train(settings(SHORT), out, own_task=task())
    made = current_origin(settings(SHORT), task())
    assert {name: load_record(out)[name] for name in made} == json.loads(json.dumps(made))
    assert set(made) == {"commit", "code", "own", "versions", "platform", "processor"}
    assert {"jax", "jaxlib", "numpy", "optax", "simlab", "python"} <= made["versions"].keys()
    assert made["processor"]["instructions"]
    origin = read_record(out / "arms" / "maxrl" / "seed-0" / "state.npz")["origin"]
    assert (origin["arm"], origin["seed"]) == ("maxrl", 0)
    assert {name: origin[name] for name in ("code", "own", "versions", "platform", "processor")} == {
        name: json.loads(json.dumps(made[name])) for name in origin.keys() & made.keys()
    }


def test_a_run_that_others_began_is_refused_in_one_line_and_left_as_it_is(out, other_code):
    broken_off(out)
    before = contents(out)
    for name, value, reason in (
        ("code", "0123456789abcdef", r"code: \w+ there, 0123456789abcdef here"),
        ("own", {"task": "1"}, r"task: \w+ there, 1 here"),
        ("platform", "gpu", "platform: cpu there, gpu here"),
        ("versions", {"python": "2.7.1", "jax": "0.1"}, "array-api-compat: .* there, None here"),
    ):
        other_code(name, value)  # beside the former ones, which are compared after it
        message = refusal(train, settings(SHORT), out, own_task=task())
        assert re.fullmatch(rf"{out} was made by other code \({reason}\); {re.escape(OTHER)}", message)
        assert contents(out) == before


def test_another_number_of_a_python_release_or_commit_is_the_same_code(out, other_code):
    broken_off(out)
    before = load_record(out)
    versions = before["versions"] | {"python": before["versions"]["python"].rpartition(".")[0] + ".99"}
    other_code("versions", versions)
    other_code("commit", "another")
    train(settings(SHORT), out, own_task=task())
    assert load_record(out) == before


def test_going_on_all_the_same_is_recorded_and_shown(out, other_code):
    broken_off(out)
    first = load_record(out)
    other_code()
    train(settings(SHORT), out, own_task=task(), other_code=True)
    (entry,) = load_record(out)["continued"]
    assert entry["code"] == "0123456789abcdef"
    assert entry["from"] == {"grpo": {"0": 2}, "maxrl": {"0": 0}}
    assert load_record(out)["code"] == first["code"]
    table = comparison_table([read_run(out)])
    what = f"another made it (code: {first['code']} before, 0123456789abcdef then)"
    assert f"{out}: grpo: from step 2 of seed 0 on, {what}" in table
    assert f"{out}: maxrl: from step 0 of seed 0 on, {what}" in table
    before = contents(out)
    train(settings(SHORT), out, own_task=task())
    assert contents(out) == before, "the latest code goes on without being asked again"


def test_another_processor_is_no_hindrance_and_is_recorded(out, other_code, capsys):
    broken_off(out)
    other_code("processor", load_record(out)["processor"] | {"instructions": "x86-64 SSE2"})
    train(settings(SHORT), out, own_task=task())
    assert "goes on with other code or another processor: run.json says from which steps" in capsys.readouterr().err
    (entry,) = load_record(out)["continued"]
    assert entry["from"]["grpo"] == {"0": 2}
    assert "x86-64 SSE2 then)" in comparison_table([read_run(out)])


def test_the_checkpoint_of_another_arm_or_seed_or_run_is_refused(out, tmp_path):
    both, other = settings(SHORT, {"seeds": 2}), settings(SHORT, {"rl": {"learning_rate": 0.02}})
    train(both, out, own_task=task())
    train(other, tmp_path / "other", own_task=task())
    states = {
        "arm: maxrl there, grpo here": out / "arms" / "maxrl" / "seed-0",
        "seed: 1 there, 0 here": out / "arms" / "grpo" / "seed-1",
        "settings: ": tmp_path / "other" / "arms" / "grpo" / "seed-0",
    }
    path = out / "arms" / "grpo" / "seed-0" / "state.npz"
    path.with_name("finished.json").unlink()
    for reason, folder in states.items():
        path.write_bytes((folder / "state.npz").read_bytes())
        assert f"checkpoint {path} belongs to another run ({reason}" in refusal(train, both, out, own_task=task())


# Code of the user's own


def test_another_reward_function_of_the_same_name_is_noticed(out):
    broken_off(out)

    def other(prompt, completion):
        return 1 - reward(prompt, completion)

    message = refusal(train, settings(SHORT), out, own_task=task(other))
    assert re.match(rf"{out} was made by other code \(task: \w+ there, \w+ here\)", message)
    train(settings(SHORT), out, own_task=task())
    assert "continued" not in load_record(out)


# Files of the user's own


WEIGHT = "import math\n\n\ndef weight(advantages, rollouts):  # mine\n    return advantages - 0.5\n"
OWN = {"arms": ["grpo", "lab/mine.py:weight"]}


@pytest.fixture
def weight(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(own_files, "_loaded", {})
    (tmp_path / "lab").mkdir()

    def write(text):
        own_files._loaded.clear()
        for name in [name for name in sys.modules if name.startswith("own_file_")]:
            del sys.modules[name]
        (tmp_path / "lab" / "mine.py").write_text(text)

    write(WEIGHT)
    return write


def test_the_text_and_hash_of_a_file_are_in_run_json_and_its_hash_in_each_checkpoint(out, weight):
    train(settings(SHORT, OWN), out, own_task=task())
    assert load_record(out)["texts"] == {"lab/mine.py": WEIGHT}
    assert load_record(out)["files"] == {"lab/mine.py": hashlib.sha256(WEIGHT.encode()).hexdigest()}
    assert load_record(out)["own"].keys() == {"arm lab/mine.py:weight", "task"}
    state = read_record(out / "arms" / "grpo" / "seed-0" / "state.npz")
    assert load_record(out)["files"] == state["origin"]["files"]


def test_a_run_does_not_go_on_with_an_edited_file_unless_it_is_told_to(out, weight):
    train(settings(SHORT, OWN), out, own_task=task())
    files = contents(out)
    for before, after in (("0.5", "0.25"), ("# mine", "# still mine"), ("import math", "import math, json")):
        weight(WEIGHT.replace(before, after))
        message = refusal(train, settings(SHORT, OWN), out, own_task=task())
        assert re.fullmatch(
            rf"{out} was made by other code \(lab/mine.py: \w{{64}} there, \w{{64}} here\); {re.escape(OTHER)}", message
        )
        assert contents(out) == files
    (out / "arms" / "lab%2Fmine.py:weight" / "seed-0" / "finished.json").unlink()  # so that something is left to do
    train(settings(SHORT, OWN), out, own_task=task(), other_code=True)
    (entry,) = load_record(out)["continued"]
    assert entry["texts"] == {"lab/mine.py": WEIGHT.replace(before, after)}
    assert "lab/mine.py:weight: from step 3 of seed 0 on, another made it (lab/mine.py: " in comparison_table(
        [read_run(out)]
    )
