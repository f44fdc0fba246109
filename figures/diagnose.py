"""The plots of simlab diagnose for one real log: countdown, trained by TRL.

    simlab train --preset countdown-conflict --param warm_start.steps=400 --out run      (its start is the model)
    python -m benchmarks.trl_log run/start/seed-0/model trl-log                          (trains, and leaves the log)
    python -m figures.diagnose trl-log                                                   (condenses)
    python -m figures.diagnose                    (after a change of an estimate: condenses the table that is kept)
    simlab figures diagnose                                                              (draws from what is kept here)

Beside the numbers of the plots, the log is kept as a table with a rollout a row: notebook 08 walks through it.
"""

import csv
import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import matplotlib as mpl
import matplotlib.style
from matplotlib.figure import Figure

from figures.shared.condensed import keep
from simlab.diagnose.diagnosis import diagnose
from simlab.diagnose.estimate import IntervalEstimate, as_json
from simlab.diagnose.log import Log
from simlab.diagnose.reading import read_log
from simlab.diagnose.report import figure
from simlab.files import write_whole
from simlab.plotting import STYLE

DATA = Path(__file__).parent / "data" / "diagnose.json"
TABLE = DATA.with_suffix(".tsv")
MESSAGE = "What one log of TRL tells: where groups are dead, and which split of the budget teaches more"
DIFFERS = "Not in the papers: what one log of a small model tells, with 90 % intervals."
ROLLOUTS = 256
DRAWN = ("groups", "pass_at_k", "recommendation")


def condense(log: Log, made: dict[str, Any]) -> dict[str, Any]:
    """What the plots show of a log, and what made it."""
    found = as_json(diagnose(log, rollouts=ROLLOUTS))
    return {"provenance": made, "found": {name: found[name] for name in DRAWN}}


def as_table(log: Log) -> bytes:
    """The rollouts of a log, a row each: correct ones with their answers, numbered, and then the others."""
    assert log.answers is not None
    text = io.StringIO()
    rows = csv.writer(text, delimiter="\t", lineterminator="\n")
    rows.writerow(["step", "prompt", "reward", "answer"])
    for group, (step, prompt) in enumerate(zip(log.step.tolist(), log.prompt.tolist(), strict=True)):
        own = log.answers.group == group
        answers = log.answers.answer[own].repeat(log.answers.count[own]).tolist()
        wrong = int(log.group_size[group] - log.correct[group])
        assert len(answers) == log.correct[group]
        rows.writerows([step, log.prompts[prompt], 1, answer] for answer in answers)
        rows.writerows([step, log.prompts[prompt], 0, ""] for _ in range(wrong))
    return text.getvalue().encode()


def draw(data: dict[str, Any]) -> Figure:
    """The report's own plots."""
    found = json.loads(json.dumps(data["found"]), object_hook=_record)
    with mpl.style.context(STYLE):
        return figure(found)


def _record(fields: dict[str, Any]) -> IntervalEstimate | SimpleNamespace:
    """An object of a diagnosis' JSON."""
    is_estimate = fields.keys() == set(IntervalEstimate._fields)
    return IntervalEstimate(**fields) if is_estimate else SimpleNamespace(**fields)


def main(folders: list[Path]) -> None:
    """Condense a log of TRL's, or without one estimate anew from the table that is kept."""
    if not folders:
        keep(DATA, condense(read_log([TABLE]).log, json.loads(DATA.read_text())["provenance"]))
        return
    log = read_log(folders).log
    keep(DATA, condense(log, json.loads((folders[0] / "origin.json").read_text())))
    write_whole(TABLE, as_table(log))


if __name__ == "__main__":
    main([Path(folder) for folder in sys.argv[1:]])
