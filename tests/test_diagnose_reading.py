"""Logs are read as the groups that they hold, whichever format they have and however they are cut into batches."""

import gzip
import io
import json
import math
import re
import shlex
import struct
import sys
import tempfile
import zipfile
from pathlib import Path

import log_layouts
import numpy as np
import pandas
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from log_files import (
    WRITERS,
    groups_of,
    read_groups,
    row,
    solutions_of,
    write_csv,
    write_jsonl,
    write_rows,
    write_trl,
    write_verl,
)
from run_folders import evaluation, metrics, write_run
from sweep_cases import refusal

from simlab.cli import main
from simlab.diagnose.reading import files, read_log, read_logs, table
from simlab.diagnose.reading.answers import from_completion
from simlab.diagnose.reading.cells import Unreadable, message_text
from simlab.diagnose.summary import contents_json
from simlab.errors import InputError

# Formats


def texts(most):
    """Texts that CSV keeps as they are: it has one kind of line end, and no text of its own for a null."""
    return st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0"), min_size=1, max_size=most)


def says_something(text):
    """A prompt that is blank, or a word for nothing, is none."""
    return text.strip().lower() not in ("", "none", "null", "nan", "n/a")


ROLLOUTS = st.lists(
    st.builds(
        row,
        step=st.integers(0, 3),
        prompt=st.sampled_from(["a", "b, \"c\"\nd", "ä\u2028"]) | texts(6).filter(says_something),
        reward=st.sampled_from([0.0, 1.0]),
        answer=st.sampled_from(["x", "y", "1/2"]),
    ),
    min_size=1,
    max_size=24,
)  # fmt: skip


@pytest.mark.parametrize("form", WRITERS)
@settings(max_examples=8)
@given(rows=ROLLOUTS)
@example(rows=[row(0, "p", 0.0)])
def test_what_is_written_is_read_back_as_the_same_groups(form, rows):
    with tempfile.TemporaryDirectory() as folder:
        reading = read_log([WRITERS[form](Path(folder), rows)])
    groups, expected = read_groups(reading.log), groups_of(rows)
    assert {key: group[:2] for key, group in groups.items()} == {key: group[:2] for key, group in expected.items()}
    assert solutions_of(groups) == solutions_of(expected)
    assert reading.log.refused.count == 0
    assert list(reading.log.step) == sorted(reading.log.step)
    assert reading.log.format == (form if form in ("verl", "trl") else "table")
    assert reading.mean_reward == pytest.approx(np.mean([rollout["reward"] for rollout in rows]))
    if form in ("csv", "jsonl", "parquet"):
        assert set(reading.rollouts.log_probability) == {-1.5}
        assert set(reading.rollouts.length) == {3}
        assert len(reading.rollouts.group) == len(rows)
    else:
        assert reading.rollouts.log_probability is None


def test_the_files_of_a_folder_are_one_log(tmp_path):
    rows = [row(step, "p", float(step > 9), str(step)) for step in range(1, 12) for _ in range(3)]
    log = read_log([write_verl(tmp_path, rows)]).log
    assert list(log.step) == list(range(1, 12))
    assert list(log.correct) == [0] * 9 + [3] * 2
    assert list(read_log([tmp_path / "11.jsonl", tmp_path / "10.jsonl"]).log.step) == [10, 11]


def test_a_file_that_several_paths_lead_to_is_read_once(tmp_path):
    path = write_jsonl(tmp_path, [row(1, "p", 1.0)] * 4)
    (tmp_path / "symbolic.jsonl").symlink_to(path)
    (tmp_path / "hard.jsonl").hardlink_to(path)
    reading = read_log([path, tmp_path / ".." / tmp_path.name / path.name, tmp_path])
    assert (reading.files, reading.log.group_size.tolist()) == (1, [4])


def test_steps_at_which_trl_has_learned_again_from_old_rollouts_are_left_out(tmp_path):
    folder = write_trl(tmp_path, [row(1, "p", 0.0), row(1, "q", 1.0)])
    first = folder / "completions" / "completions_00001.parquet"
    for step, others in ((2, {}), (3, {}), (5, {"completion": "another"})):
        frame = pandas.read_parquet(first).assign(step=step, **others)
        frame.to_parquet(first.with_name(f"completions_{step:05d}.parquet"))
    reading = read_log([folder])
    assert sorted(set(reading.log.step)) == [1, 5]
    assert reading.notes == ("steps that repeat the rollouts of the step before, and are left out: 2",)
    assert reading.mean_reward == 0.5


def rollouts(steps, sizes, reward=1.0):
    """A group of each size in every step."""
    return [row(step, f"p{size}", reward, n=n) for step in steps for size in sizes for n in range(size)]


@pytest.mark.parametrize(
    ("sizes", "killed", "again"),
    [
        ((4, 5), 0, range(3, 8)),
        ((4, 5), 7, range(3, 8)),  # in the middle of step 5
        ((2, 3, 8), 0, range(3, 8)),
        ((1,), 0, range(3, 8)),
        ((4, 5), 0, range(6)),
    ],
)
def test_of_steps_that_a_restart_has_taken_again_the_later_count(sizes, killed, again, tmp_path):
    before = rollouts(range(6), sizes, 0.0)
    before = before[: len(before) - killed]
    reading = read_log([write_jsonl(tmp_path, before + rollouts(again, sizes))])
    steps, kept = again[-1] + 1, again[0] * sum(sizes)
    assert reading.log.group_size.tolist() == [*sizes] * steps
    assert reading.log.correct.tolist() == [0] * len(sizes) * again[0] + [*sizes] * len(again)
    assert reading.notes == (f"rollouts that a restart has superseded, left out: {len(before) - kept}",)


@pytest.mark.parametrize(
    "key",
    [
        lambda row: (5 * row["step"] + 3 * row["n"]) % 8,  # shuffled
        lambda row: row["n"],
        lambda row: row["prompt"],
        lambda row: row["step"] + 1.5 * (row["n"] % 2),  # two workers, one of them a step behind
    ],
)
def test_rows_that_workers_interleave_or_that_are_sorted_otherwise_are_one_log(key, tmp_path):
    rows = sorted(rollouts(range(8), (4, 6)), key=key)
    assert read_log([write_jsonl(tmp_path, rows)]).log.group_size.tolist() == [4, 6] * 8


def test_prompts_may_be_conversations(tmp_path):
    def talk(first, last):
        return [{"role": "system", "content": first}, {"role": "user", "content": last}]

    rows = [row(1, talk("s", prompt), 1.0, completion=talk("5", f"is {n}")) for prompt in "ab" for n in (1, 2, 2)]
    for write in (write_trl, write_verl):
        (tmp_path / write.__name__).mkdir()
        log = read_log([write(tmp_path / write.__name__, rows)]).log
        assert log.prompts == ("a", "b")
        assert list(log.group_size) == [3, 3]
        assert sorted(log.answers.count) == [1, 1, 2, 2]


def test_the_text_of_a_conversation_is_that_of_its_last_message():
    for value, text in (
        ([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "b"),
        ([{"role": "assistant", "content": [{"type": "image"}, {"type": "text", "text": "c"}]}], "c"),
        ([{"role": "assistant", "content": None, "tool_calls": [{"name": "f"}]}], ""),
        ([], ""),
    ):
        assert message_text(value, "completion") == text
    for value in (None, [3], {"content": 3}):
        with pytest.raises(Unreadable, match=r"completion is .*; allowed: a text"):
            message_text(value, "completion")


def test_of_several_rewards_the_sum_counts_or_one_that_is_named(tmp_path):
    rows = [row(1, "p", reward) for reward in (0.0, 1.0, 1.0)]
    folder = write_trl(tmp_path, rows)
    path = folder / "completions" / "completions_00001.parquet"
    frame = pandas.read_parquet(path)
    frame.insert(4, "format_reward", [0.5, 0.5, float("nan")])
    frame.to_parquet(path)
    assert read_log([folder], threshold=1.2).log.correct == [1]  # 0.5, 1.5 and 1: NaN does not count
    assert read_log([folder], reward="accuracy_reward").log.correct == [2]
    assert read_log([folder], reward="format_reward", threshold=0.5).log.group_size == [2]
    assert read_log([folder]).log.correct == [2]  # by its name, accuracy_reward says which are
    assert read_log([folder]).mean_reward == pytest.approx(1)
    frame = frame.rename(columns={"accuracy_reward": "a_reward"})
    frame.to_parquet(path)
    assert read_log([folder]).log.correct == [2]  # the only one of right and wrong
    frame.assign(format_reward=[0.0, 1.0, float("nan")]).to_parquet(path)
    line = refusal(read_log, [folder])
    assert all(words in line for words in ("a_reward + format_reward", "0, 1, 2", "--threshold", "--reward"))


def test_a_part_that_cannot_be_read_in_one_row_leaves_that_row_out(tmp_path):
    rollout = {"prompt": "p", "completion": "c", "reward": 0.0, "format": 0.5, "advantage": 0.0}
    rows = [rollout | cells for cells in ({"format": math.inf}, {}, {"reward": 1.0})]
    log = read_log([write_rows(tmp_path, rows)]).log
    assert (log.group_size.tolist(), log.refused.count) == ([2], 1)


def test_a_reward_that_never_varies_is_the_answer(tmp_path):
    line = refusal(read_log, [write_csv(tmp_path, [row(1, prompt, 0.5) for prompt in "aabb"])])
    assert "all rewards" in line
    assert "are 0.5: no group has a signal" in line


def test_rows_without_a_reward_are_warned_of(tmp_path):
    rows = [{"prompt": "p", "reward": reward} for reward in (0, 1, float("nan"), 1)]
    reading = read_log([write_rows(tmp_path, rows)])
    assert reading.warnings == ("1 of 4 rows have no reward, and are left out: is it missing or NaN?",)
    assert contents_json(reading)["log_probabilities"] == 0


def test_the_prompt_of_an_evaluation_is_its_text_and_not_the_index_of_its_template(tmp_path):
    results = [
        {"promptIdx": 0, "testIdx": test, "prompt": {"raw": f"p{test}", "label": "l"}, "response": {"output": "x"},
         "success": success, "score": float(success)}
        for test in range(3) for success in (True, False)
    ]  # fmt: skip
    path = write_rows(tmp_path, [{"evalId": "e", "results": {"version": 3, "results": results}}], "results.json")
    assert read_log([path]).log.group_size.tolist() == [2, 2, 2]


def test_graded_rewards_need_a_threshold(tmp_path, monkeypatch):
    monkeypatch.setattr(table, "LOOKED_AT", 40)
    rows = [row(1, "p", 0.0)] * 50 + [row(1, "p", reward) for reward in (-1.0, 0.25, 1.0)]
    path = write_csv(tmp_path, rows)
    line = refusal(read_log, [path])
    assert "-1, 0, 0.25" in line
    assert "--threshold 0.25" in line
    assert read_log([path], threshold=0.25).log.correct == [2]
    assert read_log([path], threshold=0.25).mean_reward == pytest.approx(0.25 / 53)


@pytest.mark.parametrize(
    ("completion", "answer"),
    [
        (r"2, so \boxed{3} or \boxed{ \frac{1}{2} }", r"\frac{1}{2}"),
        (r"\boxed{-0,5}", "-0,5"),
        (r"\boxed{1,234.50} apples", "1234.5"),
        (r"\boxed{\$90}", "90"),
        (r"\boxed{15,\!400}", "15400"),
        (r"\boxed{50\%}", "50"),
        ("it is 12, no: -7.0.", "-7"),
        ("about $1,000,000 in 2", "2"),
        ("x2 and 3b", "x2 and 3b"),
        ("  left, up\n", "left, up"),
        (r"\boxed{unclosed", r"\boxed{unclosed"),
        ("", ""),
    ],
)
def test_the_answer_is_in_the_box_or_the_last_number_or_all(completion, answer):
    assert from_completion(completion) == answer


def test_a_function_of_the_users_says_what_the_answer_is(tmp_path, library_alone):
    rows = [row(1, "p", 1.0, answer) for answer in ("a", "A", "b", "none")] + [row(1, "p", 0.0, "c")]
    path = write_jsonl(tmp_path, rows)
    (tmp_path / "mine.py").write_text(
        "canonical = lambda text: {'a': 'a', 'A': 'a', 'b': 'b'}.get(text[text.index('{') + 1:-1])\n"
        "def broken(completion):\n    return 1 / 0\n"
        "other = lambda completion: 3\nword = 'a'\n"
    )
    mine = str(tmp_path / "mine.py")
    reading = read_log([path], answer=f"{mine}:canonical")
    assert sorted(reading.log.answers.count) == [1, 2]
    assert "without an answer" in reading.notes[0]
    assert "line 3 of mine.py" in refusal(read_log, [path], answer=f"{mine}:broken")
    assert "returned 3" in refusal(read_log, [path], answer=f"{mine}:other")
    assert "is 'a'" in refusal(read_log, [path], answer=f"{mine}:word")


def test_columns_of_a_table_may_be_named(tmp_path):
    (tmp_path / "log.tsv").write_text("question\tgrade\tepoch\tlogp\np\t1\t4\t-2\np\t1\t4\t\n")
    names = {"prompt": "question", "reward": "grade", "step": "epoch", "log_probability": "logp"}
    reading = read_log([tmp_path / "log.tsv"], columns=names)
    assert (reading.log.step, reading.log.group_size) == ([4], [2])
    np.testing.assert_array_equal(reading.rollouts.log_probability, [-2.0, np.nan])


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"columns": {"reword": "grade"}}, ["reword", "prompt, group, step"]),
        ({"columns": {"reward": "a"}, "reward": "b"}, ["--reward b", "reward=a"]),
        ({"columns": {"prompt": "quest"}}, ["'quest'", "question, grade, step"]),
        ({"columns": {"prompt": "question", "reward": "grade", "answer": "typo"}}, ["'typo'"]),
    ],
)
def test_a_wrong_column_is_named_in_one_line(options, names, tmp_path):
    (tmp_path / "log.csv").write_text("question,grade,step\np,1,4\n")
    line = refusal(read_log, [tmp_path / "log.csv"], **options)
    assert all(name in line for name in names)


def test_the_rollouts_that_a_run_keeps_are_read_and_their_solutions_say_which_are_correct(tmp_path):
    folder = tmp_path / "run" / "arms" / "grpo" / "seed-0"
    folder.mkdir(parents=True)
    (tmp_path / "run" / "run.json").write_text("{}")
    rollouts = [
        {"text": "1+2", "reward": 0.9, "solution": "1+2", "logp": [-1.0, -0.5]},
        {"text": "2+1", "reward": 0.9, "solution": "1+2", "logp": [-2.0]},
        {"text": "7", "reward": 0.2, "solution": None, "logp": [-3.0]},
    ]
    lines = [{"step": step, "groups": [{"prompt": "3:", "rollouts": rollouts}]} for step in (1, 2)]
    file = write_rows(folder, lines, "rollouts.jsonl")
    for path in (tmp_path / "run", folder.parent, folder, file):
        reading = read_log([path])
        log, rollouts = reading.log, reading.rollouts
        assert log.format == "simlab"
        assert (list(log.step), list(log.group_size), list(log.correct)) == ([1, 2], [3, 3], [2, 2])
        assert (list(log.answers.count), list(log.answers.answer)) == ([2, 2], [0, 0])
        assert sorted(rollouts.log_probability) == [-3.0, -3.0, -2.0, -2.0, -1.5, -1.5]
        assert list(rollouts.length[rollouts.log_probability == -1.5]) == [2, 2]
    (folder.parent / "seed-1").mkdir()
    assert "2 arms and seeds" in refusal(read_log, [tmp_path / "run"])


@pytest.mark.parametrize("name", ["run (1)", "it's [here] $x; *"])
def test_a_path_is_read_whatever_its_name_and_named_as_a_shell_takes_it(tmp_path, name, capsys):
    arms = {"f_grpo(gamma=1)": {seed: (metrics([0.1]), [evaluation(10, [8, 0, 3])]) for seed in (0, 1)}}
    folder = write_run(tmp_path / name, arms)
    told = refusal(read_log, [folder]).partition("such as ")[2]
    (hint,) = shlex.split(told)
    assert hint == str(folder / "arms" / "f_grpo(gamma=1)" / "seed-0")
    assert main(["diagnose", hint, "--contents"]) == 0


def test_of_a_run_that_kept_none_the_evaluations_are_read(tmp_path):
    evaluations = [evaluation(10, [8, 0, 3]), evaluation(20, [8, 1, 4])]
    reading = read_log([write_run(tmp_path / "run", {"grpo": {0: (metrics([0.1]), evaluations)}})])
    log = reading.log
    assert (list(log.step), list(log.correct)) == ([10, 10, 10, 20, 20, 20], [8, 0, 3, 8, 1, 4])
    assert (list(log.prompt), set(log.group_size), log.answers) == ([0, 1, 2, 0, 1, 2], {8}, None)
    assert "the run recorded no rollouts" in reading.notes[0]


def test_the_command_says_what_the_log_holds(tmp_path, capsys):
    rows = [row(step, f"p{n}", float(step + n > 2), str(n % 2)) for step in (1, 2) for n in range(3) for _ in range(4)]
    path = write_jsonl(tmp_path, rows)
    with path.open("a") as file:
        file.write('{"prompt": "cut o')
    assert main(["diagnose", str(path), "--contents", "--json", str(tmp_path / "out.json")]) == 0
    text = " ".join(capsys.readouterr().out.split())
    for line in (
        "rows        24, and 1 refused", "prompts     3", "groups      6 of 4 rollouts (6)",
        "steps       2, from 1 to 2", "correct     50.0% of rollouts", f"refused     {path}:25: the line is no JSON",
        "no signal   50.0% of groups are all right, 50.0% all wrong",
    ):  # fmt: skip
        assert " ".join(line.split()) in text
    contents = json.loads((tmp_path / "out.json").read_text())["contents"]
    assert (contents["rows"], contents["distinct_answers"], contents["refused"]["count"]) == (24, 2, 1)


def test_bad_input_is_one_line_of_the_command(tmp_path, capsys):
    for arguments, name in (
        (["nowhere"], "is not there"),
        (["/dev/null"], "is empty"),
        ([str(tmp_path)], ".parquet"),
        ([str(tmp_path), "--columns", "prompt"], "--columns"),
    ):
        assert main(["diagnose", *arguments]) == 2
        error = capsys.readouterr().err
        assert name in error
        assert error.count("\n") == 1


def test_pyarrow_is_asked_for_where_a_log_is_parquet(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    (tmp_path / "log.csv").write_text("prompt,reward\np,1\n")
    assert read_log([tmp_path]).files == 1
    (tmp_path / "log.parquet").write_bytes(b"PAR1")
    assert "simlab[logs]" in refusal(read_log, [tmp_path])


# Rows and files that are left out and named


GOOD = b'{"prompt": "p", "reward": 1, "step": 3}'
BAD_LINES = {
    "cut off": (b'{"prompt": "p", "rew', "no JSON"),
    "a list": (b"[1, 2]", "JSON object"),
    "no reward": (b'{"prompt": "p", "step": 3}', "'reward'"),
    "a word": (b'{"prompt": "p", "reward": "maybe", "step": 3}', "reward is 'maybe'"),
    "underlined": (b'{"prompt": "p", "reward": "1_000", "step": 3}', "reward is '1_000'"),
    "rewards": (b'{"prompt": "p", "reward": {"x": 1}, "step": 3}', "'reward'"),
    "no prompt": (b'{"prompt": null, "reward": 1, "step": 3}', "prompt is None"),
    "half a step": (b'{"prompt": "p", "reward": 1, "step": 0.5}', "step is 0.5"),
    "a step below 0": (b'{"prompt": "p", "reward": 1, "step": -1}', "step is -1"),
    "a reward whose square overflows": (b'{"prompt": "p", "reward": 1e308, "step": 3}', "reward is 1e+308"),
    "more than sure": (b'{"prompt": "p", "reward": 1, "step": 3, "log_probability": 2.5}', "log_probability is 2.5"),
}


@pytest.mark.parametrize("case", BAD_LINES)
def test_a_bad_line_is_left_out_and_named(case, tmp_path):
    line, reason = BAD_LINES[case]
    path = tmp_path / "log.jsonl"
    first = b'{"prompt": "p", "reward": 1, "step": 3, "log_probability": -1}'
    path.write_bytes(b"\n".join([first, line, b"", GOOD, line, GOOD]))
    log = read_log([path]).log
    assert (list(log.group_size), list(log.correct), list(log.step)) == ([3], [3], [3])
    assert log.refused.count == 2
    for number, complaint in zip((2, 5), log.refused.first, strict=True):
        assert complaint.startswith(f"{path}:{number}: ")
        assert reason in complaint


def test_columns_are_those_of_many_rows_and_not_of_the_first(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"prompt": "p", "reward": 1}\n' + GOOD)
    log = read_log([path]).log
    assert list(log.step) == [3]
    assert log.refused.first == [f"{path}:1: step is None; allowed: a number from -1e+50 to 1e+50"]


BAD_ROWS = [(b"p,1,3,4", "4 fields"), (b"p,1", "2 fields"), (b'"p"x,1,3', "','"), (b",1,3", "prompt is ''")]


@pytest.mark.parametrize(("line", "reason"), BAD_ROWS)
def test_a_bad_row_of_a_table_is_left_out_and_named(line, reason, tmp_path):
    path = tmp_path / "log.csv"
    path.write_bytes(b"\n".join([b"\xef\xbb\xbfprompt,reward,step", b"p,1,3", line, b"", b'"p",1,3\r', b"p,0,3"]))
    log = read_log([path]).log
    assert (list(log.group_size), list(log.correct)) == ([3], [2])
    assert log.refused.first[0].startswith(f"{path}:3: ")
    assert reason in log.refused.first[0]


def test_a_file_that_is_no_log_is_left_out_and_named(tmp_path):
    files = {"a.jsonl": b"", "b.parquet": b"PAR1" + bytes(100), "b.csv": b"prompt,prompt\np,q\n", "c.jsonl": GOOD}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    first, second = read_log([tmp_path]).log.refused.first
    assert first.startswith(f"{tmp_path / 'b.csv'}:1: two columns")
    assert second.startswith(f"{tmp_path / 'b.parquet'}: it cannot be read: Parquet magic bytes")
    for name in list(files)[:-1]:
        assert "no row can be read" in refusal(read_log, [tmp_path / name])


# Layouts of others


@pytest.mark.parametrize("name", log_layouts.LAYOUTS)
def test_a_layout_is_read_without_options_as_the_groups_that_it_holds(name, tmp_path):
    reading = read_log([log_layouts.write(name, tmp_path)])
    log, by_step = reading.log, {}
    for step, size, correct in zip(log.step, log.group_size, log.correct, strict=True):
        by_step.setdefault(int(step), []).append((int(size), int(correct)))
    assert {step: sorted(groups) for step, groups in by_step.items()} == log_layouts.truth(name), reading.guessed
    assert reading.warnings == ()


def columns_of(name, tmp_path):
    return read_log([log_layouts.write(name, tmp_path)])


def test_every_column_of_a_layout_is_found(tmp_path):
    """Lengths, truncation, masked log-probabilities and components equal the truth of the run."""
    rows = log_layouts.RUN
    first = log_layouts.first_rows()
    gym = columns_of("nemo_gym", tmp_path / "a").rollouts
    assert gym.length.tolist() == [r["tokens"] for r in first]
    traced = columns_of("open_instruct", tmp_path / "b").rollouts
    assert traced.length.tolist() == [r["tokens"] for r in rows]
    assert traced.truncated.tolist() == [r["cut"] for r in rows]
    assert traced.log_probability == pytest.approx([-0.1 * r["tokens"] for r in rows])
    assert (traced.tasks, set(traced.task)) == (("add",), {0})
    masked = columns_of("nemo_rl", tmp_path / "c").rollouts
    assert masked.log_probability == pytest.approx([-0.4 * r["tokens"] for r in rows])
    assert masked.sampler_log_probability == pytest.approx([-0.5 * r["tokens"] for r in rows])
    assert masked.length.tolist() == [r["tokens"] for r in rows]
    assert set(masked.advantage) == {0.5}
    lists = columns_of("ms_swift", tmp_path / "d").rollouts
    assert set(lists.components) == {"MathAccuracy", "Format"}
    assert lists.reward == pytest.approx([1.0 + r["right"] for r in rows])
    assert lists.correct.tolist() == [r["right"] for r in rows]
    assert columns_of("slime", tmp_path / "f").rollouts.truncated.tolist() == [r["cut"] for r in rows]
    judged = columns_of("inspect", tmp_path / "g")
    assert judged.rollouts.truncated.tolist() == [r["cut"] for r in first]
    assert len(np.unique(judged.rollouts.answer)) == len({r["answer"] for r in first})
    assert "answer" not in columns_of("cut_list", tmp_path / "h").columns.of  # solution is the reference's
    answers = columns_of("verl", tmp_path / "e").rollouts.answer
    names = [r["answer"] for r in rows]
    assert len(set(answers.tolist())) == len(set(names))
    assert len({*zip(answers.tolist(), names, strict=True)}) == len(set(names))


def test_the_line_of_columns_says_what_was_guessed(tmp_path):
    reading = columns_of("twice_nested", tmp_path)
    columns = ("`reward.total` as reward", "`prompt.messages` as prompt", "`response.text` as completion")
    assert all(words in reading.guessed for words in (*columns, "--columns"))
    assert reading.columns.of["step"] == "step"
    again = read_log([tmp_path], columns={"reward": "reward.correct"})
    assert again.mean_reward == pytest.approx(np.mean([r["right"] for r in log_layouts.RUN]))


def test_a_group_without_reward_differences_is_told_from_one_that_is_all_right(tmp_path):
    rows = [row(1, "p", reward) for reward in (1.0, 2.0)] + [row(1, "q", 2.0)] * 2
    log = read_log([write_jsonl(tmp_path, rows)], threshold=1).log
    assert (log.correct.tolist(), log.equal.tolist()) == ([2, 2], [False, True])
    assert log.select(np.array([False, True])).equal.tolist() == [True]


def test_a_prompt_that_is_in_a_step_twice_without_an_id_is_warned_of(tmp_path):
    rows = [row(step, prompt, float(n), str(n)) for step in (1, 2) for prompt in "abc" for n in range(2)]
    reading = read_log([write_jsonl(tmp_path, [*rows, row(2, "c", 1.0), row(2, "c", 0.0)])])
    assert "1 of 6 groups hold a multiple of the usual 2 rollouts" in reading.warnings[0]
    assert "--columns group=NAME" in reading.warnings[0]


@pytest.mark.parametrize("step", [0.5, -1, 2**53 + 2, "2024-01-01T00:00:00"])
def test_a_step_that_cannot_be_read_is_warned_of(step, tmp_path):
    reading = read_log([write_jsonl(tmp_path, [row(at, "p", 1.0) for at in (step, 1.5)])])
    assert reading.log.group_size.tolist() == [2]
    assert reading.warnings[0].startswith(f"all rows of a prompt are one group, since step is {step!r}; allowed:")


WORDS = [("-1", "1.0"), ("FALSE", "True"), ("failed: x", "passed")]


@pytest.mark.parametrize("values", [(-1, 1), (0, 1), (False, True), (-0.5, 2), (-1, 0, 1), *WORDS])
def test_rewards_that_a_person_would_read_need_no_threshold(values, tmp_path):
    path = write_rows(tmp_path, [{"prompt": "p", "reward": value} for value in values])
    assert read_log([path]).log.correct == [1]


@pytest.mark.parametrize(("key", "other"), [("7", 7), (True, "true"), (3, 3.0)])
def test_ids_of_prompts_may_be_of_any_kind(key, other, tmp_path):
    path = write_rows(tmp_path, [{"prompt": value, "reward": 1} for value in (key, other, "p")])
    assert sorted(read_log([path]).log.group_size) == [1, 2]


# Files of every kind


CONTENT = "".join(
    json.dumps({"prompt": p, "reward": n % 2}, ensure_ascii=False) + "\n" for p in ("ä", "b") for n in range(4)
)
ENCODED = {
    "utf-8 with a mark": (CONTENT.encode("utf-8-sig"), ""),
    "utf-16": (CONTENT.encode("utf-16"), "utf-16"),
    "utf-16 without a mark": (CONTENT.encode("utf-16-le"), "utf-16-le"),
    "latin-1": (CONTENT.encode("latin-1"), "Latin-1"),
    "gzip": (gzip.compress(CONTENT.encode()), ""),
    "a list": (json.dumps([json.loads(line) for line in CONTENT.splitlines()], indent=1).encode(), ""),
    "one line": (json.dumps({"data": [json.loads(line) for line in CONTENT.splitlines()]}).encode(), ""),
    "csv": (b"prompt;reward\n" + "".join(f"{p};{n % 2}\n" for p in ("ä", "b") for n in range(4)).encode(), ""),
}


@pytest.mark.parametrize("kind", ENCODED)
def test_what_a_file_holds_is_told_by_its_bytes(kind, tmp_path):
    content, note = ENCODED[kind]
    path = tmp_path / "log.txt"
    path.write_bytes(content)
    reading = read_log([path])
    log = reading.log
    assert (list(log.group_size), list(log.correct), log.prompts) == ([4, 4], [2, 2], ("ä", "b"))
    assert note in "; ".join(reading.notes)


def test_files_packed_by_zstd_are_read(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    path = tmp_path / "log.jsonl.zst"
    path.write_bytes(pyarrow.compress(CONTENT.encode(), codec="zstd", asbytes=True))
    assert list(read_log([tmp_path]).log.group_size) == [4, 4]
    path.write_bytes(path.read_bytes()[:20])
    assert "no row can be read" in refusal(read_log, [tmp_path])


# Metrics


def varint(number):
    return bytes([number & 127 | 128 * (number > 127)]) + (varint(number >> 7) if number > 127 else b"")


def field(number, content):
    return varint(number << 3 | 2) + varint(len(content)) + content


def event(step, tag, value, as_tensor=False):
    packed = struct.pack("<f", value)
    number = field(8, varint(1 << 3) + varint(1) + field(5, packed)) if as_tensor else varint(2 << 3 | 5) + packed
    summary = field(5, field(1, field(1, tag.encode()) + number))
    content = varint(1 << 3 | 1) + bytes(8) + varint(2 << 3) + varint(step) + summary
    return struct.pack("<Q", len(content)) + bytes(4) + content + bytes(4)


STEPS = range(1, 301, 100)
LOGGED = {"reward": "critic/rewards/mean", "entropy": "actor/entropy", "truncated": "response_length/clip_ratio"}
METRICS = {
    "state.json": json.dumps({"global_step": 3, "log_history": [
        *({"step": s, "epoch": 0.1, "loss": 0.0, "reward": s / 10, "entropy": 1.0, "completions/clipped_ratio": 0.5}
          for s in STEPS),
        {"step": 201, "eval_reward": 9.0}, {"step": 201, "train_runtime": 3.0}]}, indent=2),
    "verl.jsonl": "".join(json.dumps({"step": s, "data": {name: {"reward": s / 10, "entropy": 1, "truncated": 0.5}[of]
                          for of, name in LOGGED.items()} | {"val-core/acc/mean@1": 9}}) + "\n" for s in STEPS),
    "swift.jsonl": "".join(json.dumps({"reward": s / 10, "entropy/mean": 1.0, "completions/clipped_ratio": 0.5,
                           "epoch": 0.5,
                           "global_step/max_steps": f"{s}/300", "percentage": "1%"}) + "\n" for s in STEPS),
    "export.csv": "Step,run - train/reward,run - train/reward__MIN,run - train/entropy,run - rollout/truncated_ratio\n"
                  + "".join(f"{s},{s / 10},0,1,0.5\n" for s in STEPS),
    "events.out.tfevents.1.host": b"".join(event(s, "train/reward", s / 10) + event(s, "entropy", 1.0, as_tensor=True)
                                           + event(s, "truncated_ratio", 0.5) for s in STEPS),
}  # fmt: skip


@pytest.mark.parametrize("name", METRICS)
def test_metrics_are_recognised_and_read_as_a_table(name, tmp_path, capsys):
    content = METRICS[name]
    (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    result = read_logs([tmp_path])
    assert result.step.tolist() == list(STEPS)
    assert result.values["reward"] == pytest.approx([s / 10 for s in STEPS], rel=1e-6)
    assert result.values["entropy"].tolist() == [1, 1, 1]
    assert result.values["truncated"].tolist() == [0.5] * 3
    assert main(["diagnose", str(tmp_path), "--json", str(tmp_path / "out" / "found.json")]) == 0
    assert "3 steps, from 1 to 201, of 1 file(s); they hold no rollouts" in capsys.readouterr().out
    assert json.loads((tmp_path / "out" / "found.json").read_text())["metrics"]["reward"][0] == pytest.approx(0.1)
    assert "metrics" in refusal(read_log, [tmp_path])


def test_metrics_beside_rollouts_are_left_out_and_shares_of_groups_are_joined(tmp_path):
    folder = log_layouts.write("workers", tmp_path)
    lines = [{"step": s, "env/all/reward/total": 0.5, "solved_none": 0.25, "solved_all": 0.5} for s in STEPS]
    path = write_rows(folder, lines, "metrics.jsonl")
    assert "files of metrics beside the rollouts, left out: 1" in read_log([folder]).notes
    assert read_logs([path]).values["no_signal"].tolist() == [0.75] * 3


# Doubtful logs


def test_a_log_of_which_most_rows_are_refused_says_so_first_and_fails(tmp_path, capsys):
    path = tmp_path / "log.jsonl"
    path.write_text('{"prompt": "p", "reward": 1}\n{"prompt": "p", "reward": 0}\n' + "{oops\n" * 3)
    assert main(["diagnose", str(path), "--contents"]) == 1
    text = " ".join(capsys.readouterr().out.split())
    assert text.startswith(f"WARNING 3 of 5 rows cannot be read: {path}:3: the line is no JSON")


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({"prompt": "p", "step": 3}, "--columns reward=NAME"),
        ({"reward": 1.0}, "--columns prompt=NAME"),
        ({"prompt": "p", "reward": 10**400}, "most rewards cannot be read: reward is 10000"),
        ({"prompt": "p", "reward": None}, "all of them lack a reward"),
    ],
)
def test_what_cannot_be_told_is_asked_in_one_line(record, words, tmp_path):
    assert words in refusal(read_log, [write_rows(tmp_path, [record])])


@pytest.mark.parametrize("start", ['{"prompt": "', '[{"prompt": "', "prompt,reward\n"])
def test_a_line_or_value_without_an_end_is_refused_before_it_fills_the_memory(start, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LONGEST", 2**12)
    monkeypatch.setattr(files, "CHUNK", 2**10)
    path = tmp_path / "log.json.gz"
    path.write_bytes(gzip.compress((start + "x" * 2**20).encode()))
    with pytest.raises(InputError, match=r"has (4096|more than 4096) characters"):
        read_logs([path])


@pytest.mark.parametrize("start", ["", "prompt,reward\n"])
def test_a_file_of_empty_lines_is_refused_before_its_end(start, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MOST_EMPTY", 2**10)
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress((start + "\n" * 2**11).encode()))
    assert refusal(read_logs, [path]).endswith("1024 lines in turn are empty")


def test_an_archive_packed_by_zstd_as_inspect_writes_it_is_read(tmp_path):
    """Python's own module knows this method from 3.14 on, so that the headers of a stored archive are changed here."""
    pyarrow = pytest.importorskip("pyarrow")
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for epoch in range(4):
            sample = {"id": "q", "epoch": epoch, "input": "1+1", "scores": {"match": {"value": "CI"[epoch % 2]}}}
            packed = pyarrow.compress(json.dumps(sample).encode(), codec="zstd", asbytes=True)
            archive.writestr(f"samples/q_epoch_{epoch}.json", packed)
    zstd = struct.pack("<H", 93)
    data = re.sub(rb"(?s)(PK\x03\x04.{4})\0\0", rb"\1" + zstd, content.getvalue())
    (tmp_path / "log.eval").write_bytes(re.sub(rb"(?s)(PK\x01\x02.{6})\0\0", rb"\1" + zstd, data))
    log = read_log([tmp_path / "log.eval"]).log
    assert (log.group_size.tolist(), log.correct.tolist()) == ([4], [2])


def test_a_long_file_without_rewards_beside_a_log_is_left_out_and_named(tmp_path, monkeypatch):
    monkeypatch.setattr("simlab.diagnose.reading.LOOKED_AT", 4)
    other = write_rows(tmp_path, [{"prompt": "p", "note": "x"}] * 9, "a.jsonl")
    log = read_log([write_rows(tmp_path, [row(1, "p", 1.0)] * 9, "b.jsonl"), other]).log
    assert (log.group_size.tolist(), log.refused.count) == ([9], 1)
    assert log.refused.first[0].startswith(f"{other}: no column is known as the reward")


def test_the_summary_that_an_evaluation_writes_beside_its_samples_is_left_out_with_a_note(tmp_path):
    rows = [{"doc_id": q, "arguments": {"arg_0": f"{q}+1?"}, "resps": [["1"]], "exact_match": q % 2} for q in range(4)]
    write_rows(tmp_path, rows, "samples_add.jsonl")
    write_rows(tmp_path, [{"results": {"add": {"alias": "add"}}, "date": 1.5}], "results.json")
    reading = read_log([tmp_path])
    assert (len(reading.log.prompt), reading.log.refused.count) == (4, 0)
    assert "a file of one record without rollouts is left out: results.json" in reading.notes
