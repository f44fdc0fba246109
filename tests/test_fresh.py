"""Every block of README.md and docs/start.md runs from a fresh clone in a fresh environment.

``pytest -m fresh tests/test_fresh.py`` installs packages and takes a quarter of an hour on two cores.
"""

import faulthandler
import re
import subprocess

import pytest

from docs_build import newcomer
from docs_build.shown_blocks import HERE, ROOT, blocks, lines, named, script

START, README = ROOT / "docs" / "start.md", ROOT / "README.md"
MADE = {
    START: {"first.nc", "first.png", "mine.py", "own.nc", "rollouts.jsonl", "report.html"},
    README: {"fig2.nc", "fig2.png", "sweep.nc", "which.nc", "run"},
}
SUITE = 'pip install -e ".[test]" && pytest'
COUNTDOWN = 'simlab train --preset countdown --arms "grpo,f_grpo(gamma=1)" --seeds 5 --out run'
# Lines that are not run as written: the line run instead, and the reason.
SHORTENED = {
    SUITE: ('pip install -e ".[test]"', "the suite takes minutes, and .ci/run runs this line in an environment"),
    COUNTDOWN: (
        f"{COUNTDOWN} --seeds 2 --param warm_start.steps=2 --param rl.steps=2",
        "ten arms of 60 steps take half an hour",
    ),
}
INSTEAD = {line: other for line, (other, _) in SHORTENED.items()}


@pytest.mark.fresh
@pytest.mark.parametrize("page", MADE, ids=named)
def test_every_block_runs_from_nothing(page, tmp_path):
    faulthandler.cancel_dump_traceback_later()  # packages may take longer to arrive than any other test takes
    for folder in ("empty", "beside", "cache"):
        (tmp_path / folder).mkdir()
    text = script(page, tmp_path / "beside", INSTEAD)
    if page == README:  # whoever reads it has logs
        text = text.replace("\nsimlab diagnose", f"\npython '{logs(tmp_path)}'\nsimlab diagnose")
    ran = subprocess.run(
        ["bash", "-c", text],
        cwd=tmp_path / "empty",
        env=newcomer.environment(tmp_path / "cache"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-5000:]
    assert MADE[page] - {path.name for path in (tmp_path / "empty" / "simlab").iterdir()} == set()


def logs(folder):
    """A program that writes logs, as docs/start.md shows it."""
    (code,) = [block for block in blocks(START, "python") if "rollouts.jsonl" in block]
    path = folder / "logs.py"
    path.write_text(code)
    return path


@pytest.mark.parametrize("page", MADE, ids=named)
def test_every_line_of_a_page_is_in_its_script(page, tmp_path):
    written = script(page, tmp_path, INSTEAD).splitlines()
    assert [line for line in lines(page) if HERE not in line and f"== {line}" not in written] == []
    assert set(INSTEAD) <= {line for page in MADE for line in lines(page)}
    for line in (line for block in blocks(page, "sh") for line in block.splitlines() if HERE not in line):
        assert written.count(INSTEAD.get(line, line)) == 1, line
    assert sum(line.startswith(("python '", "cp '")) for line in written) == len(blocks(page, "python")) > 0


def test_the_suite_is_what_a_submission_must_pass():
    gate = (ROOT / ".ci" / "run").read_text()
    assert SUITE in README.read_text().split("<!-- test command -->")[1].split("```")[1]
    assert "/<!-- test command -->/" in gate
    assert 'eval "$test_command"' in gate


def test_the_minutes_that_a_newcomer_is_promised_are_those_that_were_measured():
    """Processor seconds count: clock seconds depend on the machine's load."""
    rows = re.findall(r"^\| (.*?) \| \d+ \| (\d+) \| \d+ \|$", newcomer.REPORT.read_text(), re.MULTILINE)
    assert [stage for stage, _ in rows] == list(newcomer.STAGES)
    promised = re.findall(r"^## \d\. .* \((one|two) minutes?\)$", START.read_text(), re.MULTILINE)
    assert len(promised) == 3
    for minutes, (_, seconds) in zip(promised, rows[-3:], strict=True):
        assert int(seconds) < 60 * {"one": 1, "two": 2}[minutes]
