"""The plots of simlab diagnose for one real log: countdown, trained by TRL.

    simlab train --preset countdown-conflict --param warm_start.steps=400 --out run      (its start is the model)
    python -m benchmarks.trl_log run/start/seed-0/model trl-log                          (trains, and leaves the log)
    python -m figures.diagnose trl-log                                                   (condenses)
    python -m figures.diagnose                              (after a change of an estimate: condenses the sample)
    simlab figures diagnose                                                              (draws from what is kept here)

The log itself is the sample that ships with simlab: ``simlab diagnose sample`` and notebook 08 read it. Its answers
are expressions in canonical form, as countdown tells solutions apart.
"""

import gzip
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import matplotlib as mpl
import matplotlib.style
from matplotlib.figure import Figure

from figures.shared.condensed import keep
from simlab.bundled import SAMPLE_LOG
from simlab.diagnose.diagnosis import diagnose
from simlab.diagnose.estimate import IntervalEstimate, as_json
from simlab.diagnose.log import Log, RefusedRows
from simlab.diagnose.reading import read_log
from simlab.diagnose.reading.files import read_records
from simlab.diagnose.report import figure
from simlab.files import write_whole
from simlab.llm.tasks.countdown import canonical, parse
from simlab.plotting import STYLE

DATA = Path(__file__).parent / "data" / "diagnose.json"
MESSAGE = "What one log of TRL tells: where groups are dead, and which split of the budget teaches more"
DIFFERS = "Not in the papers: what one log of a small model tells, with 90 % intervals."
ROLLOUTS = 256
DRAWN = ("groups", "pass_at_k", "recommendation")


def condense(log: Log, made: dict[str, Any]) -> dict[str, Any]:
    """The estimates of a log that the plots show, and its origin."""
    diagnosis = as_json(diagnose(log, rollouts=ROLLOUTS))
    return {"provenance": made, "found": {name: diagnosis[name] for name in DRAWN}}


def as_sample(folder: Path) -> bytes:
    """The rollouts of TRL's files, a JSON object each; the rollouts of a group in order, which packs them tighter."""
    rows = []
    for path in sorted(folder.glob("completions/*.parquet")):
        for _, record in read_records(path, RefusedRows()):
            text = record["completion"].strip()
            expression = parse(text)
            answer = text if expression is None else canonical(expression)
            reward, advantage = int(record["solved"]), round(record["advantage"], 4)
            rows.append([record["step"], record["prompt"], text, answer, reward, advantage])
    names = ("step", "prompt", "completion", "answer", "reward", "advantage")
    lines = [json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in sorted(rows)]
    return gzip.compress("".join(lines).encode(), mtime=0)


def draw(data: dict[str, Any]) -> Figure:
    """The report's own plots."""
    diagnosis = json.loads(json.dumps(data["found"]), object_hook=_record)
    with mpl.style.context(STYLE):
        return figure(diagnosis)


def _record(fields: dict[str, Any]) -> IntervalEstimate | SimpleNamespace:
    """An object of a diagnosis' JSON."""
    is_estimate = fields.keys() == set(IntervalEstimate._fields)
    return IntervalEstimate(**fields) if is_estimate else SimpleNamespace(**fields)


def main(folders: list[Path]) -> None:
    """Condense a log of TRL's; without one, estimate anew from the sample."""
    made = json.loads(DATA.read_text())["provenance"]
    if folders:
        made = json.loads((folders[0] / "origin.json").read_text())
        write_whole(SAMPLE_LOG, as_sample(folders[0]))
    keep(DATA, condense(read_log([SAMPLE_LOG]).log, made))


if __name__ == "__main__":
    main([Path(folder) for folder in sys.argv[1:]])
