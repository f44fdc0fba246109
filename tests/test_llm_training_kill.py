"""A training run that is killed, at any moment, goes on where it was and ends as if it had never been."""

import random
import signal
import time
from pathlib import Path

import pytest
import training_cases
from killed_in_a_write import killed_in_a_write
from sweep_cases import start
from training_cases import LONG, contents, long_run

from simlab.llm.training.lines import as_lines, name_of, read_lines

FIRST, SECOND = LONG["arms"]

IMPORTS = "from quick_compilation import quick_compilation\nfrom training_cases import long_run"
WORK = "with quick_compilation():\n    long_run(sys.argv[3], int(sys.argv[4]))"
KILLED_IN_A_WRITE = killed_in_a_write(IMPORTS, WORK)
SMALL_FILES = "\nfrom simlab.llm.training import state_files\nstate_files.FILE_BYTES = 8000"
KILLED_IN_A_PIECE = killed_in_a_write(IMPORTS + SMALL_FILES, WORK)


pytestmark = pytest.mark.usefixtures("quickly")


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    """What a run leaves that nobody disturbed."""
    out = tmp_path_factory.mktemp("unbroken") / "run"
    long_run(out)
    return contents(out)


@pytest.fixture(scope="module")
def unbroken_after_warm_start(tmp_path_factory):
    out = tmp_path_factory.mktemp("unbroken") / "run"
    long_run(out, warm_start=24)
    return contents(out)


def lines_of(out):
    """How many lines there are by now."""
    return sum(len(path.read_bytes().splitlines()) for path in out.glob("*/**/metrics.jsonl"))


def kill_after(out, lines, delay, warm_start=0, kind="plain"):
    """Run in a process of its own until there are so many lines, and a moment longer; then kill it."""
    process = start(out, warm_start, kind, program=(training_cases.__file__,))
    while lines_of(out) < lines:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.001)
    time.sleep(delay)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL


def test_a_run_that_is_killed_ends_as_if_it_had_not_been(unbroken, tmp_path):
    """Also with lines cut off in the middle: metrics, evaluations, models and states are the same to the last bit."""
    out = tmp_path / "run"
    kill_after(out, lines=7, delay=random.Random(1).uniform(0, 0.03))
    assert 7 <= lines_of(out) < 48
    assert not (out / "arms" / SECOND / "seed-0" / "model").exists()
    for name in ("metrics.jsonl", "evaluation.jsonl"):
        with (out / "arms" / FIRST / "seed-0" / name).open("a") as file:
            file.write('{"step": 9, "rew')
    with (out / "start" / "seed-0" / "evaluation.jsonl").open("r+") as file:
        file.truncate(20)
    long_run(out)
    assert contents(out).keys() == unbroken.keys()
    for name, content in contents(out).items():
        assert content == unbroken[name], name


@pytest.mark.slow
def test_a_killed_run_with_an_older_sampler_and_a_verifier_that_errs_ends_as_if_it_had_not_been(tmp_path):
    """The checkpoint holds the parameters of the last steps, and what the verifier says depends on no process."""
    out, unbroken = tmp_path / "run", tmp_path / "unbroken"
    kill_after(out, lines=8, delay=0, kind="off_policy")
    assert 8 <= lines_of(out) < 48
    for folder in (out, unbroken):
        long_run(folder, kind="off_policy")
    assert contents(out) == contents(unbroken)
    (line, *_) = contents(out)["arms/grpo/seed-0/metrics.jsonl"]
    assert line["accepted_rate"] > line["reward"], "false positives alone"


def shown_by_tensorboard(out):
    """The numbers of each arm, by tag and step, without the time of day."""
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    found = {}
    for folder in sorted(out.glob("arms/*/*/tensorboard")):
        read = reader.EventAccumulator(str(folder), size_guidance={reader.SCALARS: 0})
        read.Reload()
        found[folder.relative_to(out)] = {
            tag: [(event.step, event.value) for event in read.Scalars(tag)] for tag in read.Tags()[reader.SCALARS]
        }
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["own_settings", "tensorboard"])
@pytest.mark.parametrize("lines", [8, 30])
def test_a_killed_run_with_settings_of_its_arms_and_two_evaluation_sets_is_resumed_to_the_same_bits(
    kind, lines, tmp_path
):
    """Killed in the first and in the second arm."""
    if kind == "tensorboard":
        pytest.importorskip("tensorboard")
    out, unbroken = tmp_path / "run", tmp_path / "unbroken" / "run"
    kill_after(out, lines=lines, delay=0.02, kind=kind)
    assert lines <= lines_of(out) < 48
    long_run(out, kind=kind, resume=True)
    long_run(unbroken, kind=kind)
    assert contents(out) == contents(unbroken)
    first, second = (list(unbroken.glob(f"arms/{name}*/seed-0/evaluation.jsonl")) for name in ("grpo", "f_grpo"))
    for (path,) in (first, second):
        assert {*read_lines(path).lines[-1]["sets"]} == {"far"}
    if kind == "tensorboard":
        numbers = shown_by_tensorboard(out)
        assert len(numbers) == 2
        for name, tags in shown_by_tensorboard(unbroken).items():
            assert {tag: values for tag, values in tags.items() if tag != "seconds"} == {
                tag: values for tag, values in numbers[name].items() if tag != "seconds"
            }


def test_an_unbroken_run_has_every_line_once(unbroken):
    for name in (FIRST, SECOND):
        assert [line["step"] for line in unbroken[f"arms/{name}/seed-0/metrics.jsonl"]] == list(range(1, 25))
        evaluations = unbroken[f"arms/{name}/seed-0/evaluation.jsonl"].decode().splitlines()
        assert [line.split(",")[0] for line in evaluations] == [f'{{"step": {step}' for step in (5, 10, 15, 20, 24)]
    assert unbroken["start/seed-0/evaluation.jsonl"].startswith(b'{"step": 0, ')


def test_a_finished_run_is_left_as_it_is(unbroken, tmp_path):
    out = tmp_path / "run"
    for name, content in unbroken.items():
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else as_lines(content, name_of(path))[0])
    long_run(out)
    assert contents(out) == unbroken


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_a_run_that_is_killed_several_times_ends_as_if_it_had_not_been(seed, unbroken_after_warm_start, tmp_path):
    """In the warm start and in the arms, at random moments."""
    out, moments = tmp_path / "run", random.Random(seed)
    for lines in sorted(moments.sample(range(1, 66), 3)):
        kill_after(out, lines, delay=moments.uniform(0, 0.05), warm_start=24)
    long_run(out, warm_start=24)
    assert contents(out) == unbroken_after_warm_start


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("replaced", [1, 2, 8, 10, 11, 12, 13, 14, 15, 16, 22, 23, 24, 25, 26])
def test_a_run_that_is_killed_as_a_file_appears_ends_as_if_it_had_not_been(
    moment, replaced, unbroken_after_warm_start, tmp_path
):
    """Every file that appears whole, one after the other: run.json, eight states of the warm start, its model, ..."""
    die_in_a_write(KILLED_IN_A_WRITE, moment, replaced, tmp_path / "run")
    long_run(tmp_path / "run", warm_start=24)
    assert contents(tmp_path / "run") == unbroken_after_warm_start


def die_in_a_write(program, moment, replaced, out):
    """Begin a run in a process of its own that kills itself before or after it has replaced so many files."""
    program = ("-c", f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n{program}")
    process = start(moment, replaced, out, 24, program=program)
    complaints = process.communicate()[1]
    assert process.returncode == -signal.SIGKILL, complaints


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("replaced", [3, 5, 6, 7, 8, 50])
def test_a_run_that_is_killed_between_the_files_of_a_checkpoint_ends_as_if_it_had_not_been(
    moment, replaced, unbroken_after_warm_start, tmp_path
):
    """Of the second checkpoint of the warm start, and of one of an arm; also if the next process has large files."""
    out = tmp_path / "run"
    die_in_a_write(KILLED_IN_A_PIECE, moment, replaced, out)
    assert list(out.rglob("state-*.safetensors"))
    long_run(out, warm_start=24)
    assert contents(out) == unbroken_after_warm_start
