"""No output of a command replaces an input, or a file that simlab did not write."""

import dataclasses
import json
import os
from pathlib import Path

import pytest

from simlab.cli import COMMANDS, main
from simlab.cli.parser import read_file
from simlab.errors import InputError
from simlab.files import WRITER, check_replaceable, write_output

ROWS = [{"prompt": f"p{i}", "step": 0, "reward": int((i + j) % 3 == 0)} for i in range(6) for j in range(4)]
SWEEP = "sweep --arms grpo --steps 2 --seeds 2 --group-size 4 --param actions=20 --param correct=4"
# A command line for each option that names an output file. The suffix is one that the option takes.
LINES = {
    ("sweep", "out"): (f"{SWEEP} --overwrite --out", ".nc"),
    ("sweep", "figure"): (f"{SWEEP} --out new.nc --figure", ".png"),
    ("merge", "out"): ("merge --overwrite", ".nc"),
    ("train", "figure"): ("train --out run --figure", ".svg"),
    ("compare", "figure"): ("compare sweep.nc --figure", ".pdf"),
    ("compare", "histograms"): ("compare run --histograms", ".png"),
    ("rollouts", "parquet"): ("rollouts run --parquet", ".parquet"),
    ("diagnose", "json"): ("diagnose log.jsonl --contents --json", ".jsonl"),
    ("diagnose", "html"): ("diagnose log.jsonl --html", ".html"),
    ("challenge", "figure"): ("challenge grpo --figure", ".png"),
    ("check", "json"): ("check --tag f-grpo:lemma-3.1 --json", ".json"),
    ("explore", "export"): ("explore --export", ".html"),
    ("check", "html"): ("check --tag f-grpo:lemma-3.1 --html", ".html"),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    return tmp_path


def test_every_option_that_names_an_output_is_listed_here():
    named = {
        (name, field.name)
        for name, command in COMMANDS.items()
        for field in dataclasses.fields(command)
        if field.metadata.get("read") is read_file
    }
    assert named == LINES.keys()


@pytest.mark.parametrize("kind", ["file", "spelling", "link", "hard link"])
@pytest.mark.parametrize("option", LINES, ids=" ".join)
def test_a_file_of_the_users_is_refused_before_any_work(option, kind, folder, capsys):
    line, suffix = LINES[option]
    if option[0] == "explore":
        pytest.importorskip("starlette")
    user = folder / f"mine{suffix}"
    user.write_text("what the user wrote")
    target = {"file": user.name, "spelling": f"./new/../{user.name}"}.get(kind, f"other{suffix}")
    (folder / "new").mkdir()
    if kind == "link":
        (folder / target).symlink_to(user)
    elif kind == "hard link":
        os.link(user, folder / target)
    assert main([*line.split(), target]) == 2
    assert f"cannot write {Path(target)}: simlab did not write" in capsys.readouterr().err
    assert user.read_text() == "what the user wrote"
    assert not (folder / "run").exists()


@pytest.mark.parametrize("page", ["paper_checks/page.html", "simlab/explore/page/index.html"])
def test_the_pages_that_others_are_made_from_say_who_writes_them(page):
    assert WRITER in (Path(__file__).parents[1] / page).read_text()


@pytest.mark.parametrize(
    ("option", "name"),
    [("--contents --json", "report.json"), pytest.param("--html", "report.html", marks=pytest.mark.slow)],
)
def test_an_output_of_simlabs_may_be_written_again(option, name, folder):
    (folder / name).touch()  # an empty file holds nothing that could be lost
    for _ in range(2):
        assert main(["diagnose", "log.jsonl", *option.split(), name]) == 0
        assert WRITER in (folder / name).read_text()


def test_an_input_is_refused_even_if_simlab_wrote_it(folder, capsys):
    for row in ROWS:
        row["note"] = WRITER
    (folder / "log.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    before = (folder / "log.jsonl").read_bytes()
    for logs in ("log.jsonl", "."):
        assert main(["diagnose", logs, "--contents", "--json", "log.jsonl"]) == 2
        assert "an input of this command" in capsys.readouterr().err
    assert (folder / "log.jsonl").read_bytes() == before


def test_what_a_user_writes_while_a_command_runs_is_kept(folder):
    check_replaceable(folder / "new.json")
    (folder / "new.json").write_text("mine")
    with pytest.raises(InputError, match="simlab did not write"):
        write_output(folder / "new.json", b"ours")
    assert (folder / "new.json").read_text() == "mine"
