"""Hostile and malformed logs: rows are left out and named, files too, in bounded time and memory."""

import os
import random
import resource

import numpy as np
import pyarrow
import pytest
from damage import damaged, outcomes
from log_files import row, write_csv, write_jsonl, write_parquet
from pyarrow import parquet
from sweep_cases import refusal

from simlab.diagnose.reading import read_log
from simlab.diagnose.reading.lines import LONGEST_LINE

GOOD = b'{"prompt": "p", "reward": 1, "step": 3}'

BAD_LINES = {
    "no JSON": (b"prompt: p", "the line is no JSON"),
    "cut off": (b'{"prompt": "p", "rew', "the line is no JSON"),
    "a list": (b"[1, 2]", "the line holds no JSON object"),
    "deep": (b'{"prompt": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "the line is nested too deeply"),
    "no UTF-8": (b'{"prompt": "\xff", "reward": 1, "step": 3}', "the line is no JSON"),
    "5,000 digits": (b'{"prompt": "p", "reward": ' + b"9" * 5000 + b"}", "the line is no JSON"),
    "zeros": (bytes(100), "the line is no JSON"),
    "too long": (b'{"prompt": "' + b"p" * LONGEST_LINE + b'"}', "the line is too long; allowed: up to 8388608 bytes"),
    "no reward": (b'{"prompt": "p", "step": 3}', "no column 'reward' for the reward"),
    "no prompt": (b'{"reward": 1, "step": 3}', "no column 'prompt' for the prompt"),
    "NaN": (b'{"prompt": "p", "reward": NaN, "step": 3}', "reward is nan; allowed: a finite number"),
    "infinity": (b'{"prompt": "p", "reward": -Infinity, "step": 3}', "reward is -inf; allowed: a finite number"),
    "infinite in words": (b'{"prompt": "p", "reward": "inf", "step": 3}', "reward is 'inf'; allowed: a finite number"),
    "400 digits": (b'{"prompt": "p", "reward": 1' + b"0" * 400 + b', "step": 3}', "reward is 10000"),
    "null": (b'{"prompt": "p", "reward": null, "step": 3}', "reward is None; allowed: a number"),
    "a word": (b'{"prompt": "p", "reward": "yes", "step": 3}', "reward is 'yes'; allowed: a number"),
    "1_000": (b'{"prompt": "p", "reward": "1_000", "step": 3}', "reward is '1_000'; allowed: a number"),
    "rewards": (b'{"prompt": "p", "reward": [1], "step": 3}', "reward is a list; allowed: a number"),
    "a number for a prompt": (b'{"prompt": 7, "reward": 1, "step": 3}', "prompt is 7; allowed: a text, or a list"),
    "half a step": (b'{"prompt": "p", "reward": 1, "step": 0.5}', "step is 0.5; allowed: a whole number"),
    "a step below 0": (b'{"prompt": "p", "reward": 1, "step": -1}', "step is -1; allowed: a whole number"),
    "a step of 10^300": (b'{"prompt": "p", "reward": 1, "step": 1e300}', "step is 1e+300; allowed: a whole number"),
    "a sure thing and more": (
        b'{"prompt": "p", "reward": 1, "step": 3, "log_probability": 2.5}', "log_probability is 2.5; allowed: up to 0",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_LINES)
def test_a_bad_line_is_left_out_and_named(case, tmp_path):
    line, message = BAD_LINES[case]
    path = tmp_path / "log.jsonl"
    first = b'{"prompt": "p", "reward": 1, "step": 3, "log_probability": -1}'
    path.write_bytes(b"\n".join([first, line, b"", GOOD, line, GOOD]))
    log = read_log([path]).log
    assert (list(log.group_size), list(log.correct), list(log.step)) == ([3], [3], [3])
    assert log.refused.count == 2
    assert log.refused.first[0].startswith(f"{path}:2: {message}")
    assert log.refused.first[1].startswith(f"{path}:5: {message}")
    path.write_bytes(line)
    assert refusal(read_log, [path]).startswith("no row can be read: ")


def test_a_bad_first_line_does_not_say_what_columns_there_are(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{}\n{"step": 4}\n{"prompt": "p"}\n' + GOOD)
    log = read_log([path]).log
    assert (list(log.step), log.refused.count) == ([3], 3)


def test_a_column_that_appears_later_is_named(tmp_path):
    """Otherwise all that came before would be of step 0."""
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"prompt": "p", "reward": 1}\n' + GOOD)
    log = read_log([path]).log
    assert log.refused.first == (f"{path}:2: the first row has no column 'step'; allowed: --columns step=step",)


def test_of_many_bad_lines_the_first_are_named(tmp_path):
    (tmp_path / "log.jsonl").write_bytes(b"x\n" * 1000 + GOOD)
    refused = read_log([tmp_path / "log.jsonl"]).log.refused
    assert (refused.count, len(refused.first)) == (1000, 5)


def test_lines_without_an_end_take_bounded_memory(tmp_path):
    """Zeros, many times as long as what may be kept of a line, then a good line."""
    path = tmp_path / "log.jsonl"
    with path.open("wb") as file:
        file.truncate(2**28)
        file.seek(2**28)
        file.write(b"\n" + GOOD)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    log = read_log([path]).log
    assert (list(log.group_size), log.refused.count) == ([1], 1)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024


BAD_TABLES = {
    "a field too many": (b"p,1,3,4", "the row has 4 fields; allowed: 3, as the first row has"),
    "a field too few": (b"p,1", "the row has 2 fields; allowed: 3, as the first row has"),
    "no UTF-8": (b"\xff,1,3", "the row is no UTF-8"),
    "a stray quote": (b'"p"x,1,3', "',' expected after '\"'"),
    "no reward": (b"p,,3", "reward is ''; allowed: a number"),
    "too long": (b"p" * (LONGEST_LINE + 1) + b",1,3", "the line is too long"),
}


@pytest.mark.parametrize("case", BAD_TABLES)
def test_a_bad_row_of_a_table_is_left_out_and_named(case, tmp_path):
    line, message = BAD_TABLES[case]
    path = tmp_path / "log.csv"
    path.write_bytes(b"\n".join([b"\xef\xbb\xbfprompt,reward,step", b"p,1,3", line, b"", b'"p",1,3\r', b"p,0,3"]))
    log = read_log([path]).log
    assert (list(log.group_size), list(log.correct)) == ([3], [2])
    assert log.refused.first == (f"{path}:3: {message}",) or log.refused.first[0].startswith(f"{path}:3: {message}")


def test_a_quote_that_never_ends_takes_bounded_memory(tmp_path):
    path = tmp_path / "log.csv"
    with path.open("wb") as file:
        file.write(b'prompt,reward\np,1\n"')
        for _ in range(24):
            file.write((b"p" * 1000 + b",1\n") * 2**10)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    log = read_log([path]).log
    assert log.refused.count >= 1
    assert "field larger than field limit" in log.refused.first[0]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 150 * 1024


def pipe(folder):
    os.mkfifo(folder / "b.jsonl")


def device(folder):
    (folder / "b.jsonl").symlink_to("/dev/zero")


def loop(folder):
    (folder / "b.jsonl").symlink_to(folder / "b.jsonl")


def nothing(folder):
    (folder / "b.jsonl").touch()


def no_parquet(folder):
    (folder / "b.parquet").write_bytes(b"PAR1" + bytes(100))


def cut_parquet(folder):
    path = write_parquet(folder, [row(3, "p", 1.0)] * 5)
    path.write_bytes(path.read_bytes()[:-20])


def names_twice(folder):
    (folder / "b.csv").write_bytes(b"prompt,prompt\np,q\n")


NO_LOGS = {
    "a pipe": (pipe, "is no regular file; allowed: no folders, pipes or devices"),
    "zeros without end": (device, "is no regular file; allowed: no folders, pipes or devices"),
    "a link to itself": (loop, "cannot be read: Too many levels of symbolic links"),
    "an empty file": (nothing, ""),
    "no parquet": (no_parquet, "the file is no parquet: "),
    "a parquet file that is cut off": (cut_parquet, "the file is no parquet: "),
    "two columns of a name": (names_twice, "two columns have one name"),
}


@pytest.mark.parametrize("case", NO_LOGS)
def test_a_file_that_is_no_log_is_left_out_and_named(case, tmp_path):
    make, message = NO_LOGS[case]
    make(tmp_path)
    (bad,) = tmp_path.iterdir()
    (tmp_path / "c.jsonl").write_bytes(GOOD)
    log = read_log([tmp_path]).log
    assert list(log.group_size) == [1]
    assert log.refused.count == (1 if message else 0)
    if message:
        assert log.refused.first[0].startswith(f"{bad}:")
        assert message in log.refused.first[0]
    if case != "a link to itself":
        assert refusal(read_log, [bad]).startswith("no row can be read: ")


def test_text_in_parquet_that_is_no_utf8_costs_its_row_alone(tmp_path):
    offsets = np.array([0, 1, 2, 3], np.int32).tobytes()
    buffers = [None, pyarrow.py_buffer(offsets), pyarrow.py_buffer(b"p\xffp")]
    prompts = pyarrow.Array.from_buffers(pyarrow.utf8(), 3, buffers)
    path = tmp_path / "log.parquet"
    parquet.write_table(pyarrow.table({"prompt": prompts, "reward": [1.0, 1.0, 0.0]}), path)
    log = read_log([path]).log
    assert (list(log.group_size), list(log.correct)) == ([2], [1])
    assert log.refused.first == (f"{path}:2: prompt is no UTF-8",)


@pytest.mark.parametrize("write", [write_csv, write_jsonl, write_parquet])
def test_a_damaged_log_is_read_as_far_as_it_goes_or_refused_in_one_line(write, tmp_path):
    rows = [row(n // 4, f"p{n % 2}", float(n % 3 > 0), str(n % 5)) for n in range(40)]
    content, random_numbers = write(tmp_path, rows).read_bytes(), random.Random(25)
    (path,) = tmp_path.iterdir()

    def read(_):
        path.write_bytes(damaged(content, random_numbers))
        log = read_log([path], threshold=0.5).log
        assert 0 < log.group_size.sum() <= 41 + log.refused.count
        assert (log.correct <= log.group_size).all()

    assert outcomes(read, range(60))["read"] > 10
