"""Runs of ``simlab train``: the rollouts that they keep, or else what they record of evaluations.

The folder of an arm's seed has ``rollouts.jsonl``, a line a step with the first groups of its batch
(``simlab.llm.training.kept_rollouts``; ``--param record.rollouts=N`` says how many rollouts). Runs of ``--engine trl``
and those that keep none have ``evaluation.jsonl`` alone, which tells how many samples of each evaluation problem are
right, and neither answers nor log-probabilities. Whether lines are as they were written is for ``simlab compare`` to
say.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from simlab.diagnose.reading.jsonl import json_rows
from simlab.diagnose.reading.layouts import Format
from simlab.diagnose.reading.refusals import Refusals
from simlab.errors import InputError

RUN, METRICS, ROLLOUTS, EVALUATIONS = "run.json", "metrics.jsonl", "rollouts.jsonl", "evaluation.jsonl"
SEED_FILES = (ROLLOUTS, EVALUATIONS)  # the first that there is
LONGEST_STEP = 2**26  # bytes of a line: 256 rollouts of 2,000 tokens have 30 million
MOST_SAMPLES = 10**6  # of a problem in an evaluation

SIMLAB = Format(
    "simlab",
    {
        "prompt": "prompt",
        "reward": "reward",
        "step": "step",
        "completion": "text",
        "answer": "solution",
        "log_probability": "logp",
        "length": "length",
    },
    frozenset({"step", "prompt", "reward", "rollout", "text"}),
)
SIMLAB_EVALUATIONS = Format(
    "simlab",
    {"prompt": "prompt", "reward": "reward", "step": "step"},
    frozenset({"step", "prompt", "reward", "rollout"}),
    note="the run kept no rollouts (record.rollouts): read are its evaluations, not what it learned from",
)


def of_run(folder: Path) -> list[Path]:
    """The file to be read of a run with one arm and seed, or of such a folder in it; empty if it is no run.

    Raises:
        InputError: for a run of several arms or seeds, and one without rollouts and evaluations.
    """
    whole = folder.absolute()  # so that "." has a name too
    if (folder / RUN).is_file():
        seeds = sorted(folder.glob("arms/*/seed-*"))
    elif whole.parent.name == "arms":
        seeds = sorted(folder.glob("seed-*"))
    else:
        seeds = [folder] if whole.name.startswith("seed-") else []
    if len(seeds) > 1:
        raise InputError(f"{folder} has {len(seeds)} arms and seeds; allowed: one of them, such as {seeds[0]}")
    found = [path for seed in seeds for path in (seed / name for name in SEED_FILES) if path.is_file()]
    if seeds and not found and (seeds[0] / METRICS).is_file():
        raise InputError(f"{seeds[0]} has neither {ROLLOUTS} nor {EVALUATIONS}; allowed: a run that keeps one of them")
    return found[:1]


def run_rows(path: Path, refused: Refusals) -> Iterator[tuple[int, dict[str, Any]]]:
    """The number of the line, and a row a rollout, of a file of ``SEED_FILES``; another's file of that name as it is.

    Raises:
        InputError: for what is no regular file.
        OSError: if it cannot be read.
    """
    for number, line in json_rows(path, refused, LONGEST_STEP):
        if isinstance(line.get("groups"), list):
            rows = _kept(line)
        elif isinstance(line.get("correct"), list) and "samples" in line:
            rows = _evaluated(line)
        else:
            rows = iter([line])
        try:
            for row in rows:
                yield number, row
        except (KeyError, TypeError, AttributeError, ValueError):
            refused.add(path, number, "the line is no step of simlab train")


def _kept(line: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for group in line["groups"]:
        for place, rollout in enumerate(group["rollouts"]):
            logp = rollout["logp"]
            yield {
                "step": line["step"],
                "prompt": group["prompt"],
                "rollout": place,
                "reward": rollout["reward"],
                "text": rollout["text"],
                "solution": rollout["solution"],
                "logp": sum(logp),
                "length": len(logp),
            }


def _evaluated(line: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    samples = line["samples"]
    for place, correct in enumerate(line["correct"]):
        if not 0 <= correct <= samples <= MOST_SAMPLES:
            raise ValueError
        for sample in range(samples):
            reward = float(sample < correct)
            yield {"step": line["step"], "prompt": f"evaluation problem {place}", "rollout": sample, "reward": reward}
