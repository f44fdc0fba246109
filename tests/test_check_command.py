"""``simlab check``: what it prints and writes, when it exits with 1, and what it refuses before it judges anything."""

import json

import pytest
from sweep_cases import command

import paper_checks.claim
from paper_checks import run
from paper_checks.claim import load
from paper_checks.verdict import HOLDS
from simlab.cli import main

LEMMA = "f-grpo:lemma-3.1"
PEAK = "simlab:tail-miss-peak"


@pytest.fixture
def two_claims(monkeypatch, tmp_path):
    """Leave two claims, recorded as holding, and return the path of the record."""
    two = {tag: load()[tag] for tag in (LEMMA, PEAK)}
    monkeypatch.setattr(paper_checks.claim, "load", lambda: two)
    record = tmp_path / "verdicts.json"
    record.write_text(json.dumps(dict.fromkeys(two, HOLDS)))
    monkeypatch.setattr(run, "RECORD", record)
    return record


@pytest.mark.parametrize(
    "asked", [("--tag", LEMMA), ("--paper", "f-grpo", "--tag", "lemma-3.1"), ("--paper", "f-grpo")]
)
def test_one_claim_is_judged_here_and_printed(two_claims, capsys, asked):
    assert main(["check", *asked]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert printed.out.splitlines()[0].split() == ["tag", "claim", "verdict", "evidence"]
    assert printed.out.endswith("\n1 claim: 1 holds\n")
    (line,) = (line for line in printed.out.splitlines() if line.startswith(LEMMA))
    assert "holds" in line
    assert PEAK not in printed.out


@pytest.mark.slow
def test_all_are_judged_in_processes_and_written(two_claims, tmp_path, capsys):
    written = tmp_path / "new" / "verdicts.json", tmp_path / "new" / "report.html"
    assert main(["check", "--jobs", "2", "--json", str(written[0]), "--html", str(written[1])]) == 0
    printed = capsys.readouterr().out
    assert "\n2 claims: 2 holds\n" in printed
    assert all(str(path) in printed for path in written)
    entries = json.loads(written[0].read_text())["verdicts"]
    assert [entry["tag"] for entry in entries] == [LEMMA, PEAK]
    assert {piece["method"] for piece in entries[0]["evidence"]} == {"symbolic", "enumerated", "Monte Carlo"}
    assert written[1].read_text().count("<article ") == 2


@pytest.mark.parametrize(
    ("record", "asked", "difference"),
    [
        ({LEMMA: "fails"}, ["--tag", LEMMA], f"{LEMMA}: recorded fails, found holds"),
        ({}, ["--tag", LEMMA], f"{LEMMA}: recorded nothing, found holds"),
        (
            {LEMMA: HOLDS, PEAK: HOLDS, "fade:eq-0": "slip"},
            ["--jobs", "1"],
            "fade:eq-0: recorded slip, claimed no more",
        ),
        ({LEMMA: HOLDS, PEAK: HOLDS, "fade:eq-0": "slip"}, ["--paper", "f-grpo"], None),
        (None, ["--tag", LEMMA], f"{LEMMA}: recorded nothing, found holds"),
    ],
)
def test_the_exit_code_says_whether_verdicts_are_those_recorded(two_claims, capsys, record, asked, difference):
    two_claims.write_text(json.dumps(record)) if record is not None else two_claims.unlink()
    assert main(["check", *asked]) == (0 if difference is None else 1)
    complaint = f"\nnot as recorded in paper_checks/verdicts.json:\n  {difference}\n"
    assert capsys.readouterr().out.endswith("\n1 claim: 1 holds\n" if difference is None else complaint)


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        (["--paper", "dapo"], "paper = 'dapo' is unknown; allowed: f-grpo, "),
        (["--tag", "f-grpo:lema-3.1"], f"closest known: {LEMMA}"),
        (["--paper", "f-grpo", "--tag", "lema"], f"tag = 'lema' is claimed nowhere; closest known: {LEMMA}"),
        (["--jobs", "0"], "jobs = 0 is outside its range [1, inf)"),
        (["--jobs", "two"], "argument --jobs: 'two' cannot be read; allowed: a whole number"),
        (["--json", "folder"], "cannot write folder: it is not a regular file"),
        (["--html", "file/report.html"], "cannot write to file: it is not a folder"),
        (["--json", "same", "--html", "./same"], "two outputs are both same; allowed: a path each"),
    ],
)
@pytest.mark.usefixtures("two_claims")
def test_what_cannot_be_met_is_refused_before_anything_is_judged(tmp_path, monkeypatch, capsys, asked, complaint):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("precious")
    monkeypatch.setattr(run, "judge", pytest.fail)
    assert main(["check", *asked]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("simlab: ")
    assert printed.err.count("\n") == 1
    assert complaint in printed.err
    assert (tmp_path / "file").read_text() == "precious"


def test_without_the_libraries_of_the_checks_one_line_says_what_to_install():
    program = "import sys; sys.modules['sympy'] = None; from simlab.cli import main; sys.exit(main())"
    code, output, complaint = command("check", program=("-c", program))
    assert (code, output) == (2, "")
    assert complaint.startswith("simlab: sympy cannot be imported")
    assert complaint.endswith("install it with: pip install 'simlab[check]'\n")
