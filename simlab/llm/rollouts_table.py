"""Write what a run has kept as parquet: rollouts, in the columns that TRL logs its completions in, or completions."""

import io
from pathlib import Path
from typing import Any

import numpy as np

from simlab.files import write_output
from simlab.llm.compare.runs import Run
from simlab.llm.completions_view import check_evaluated, kept_evaluations
from simlab.llm.extra import package
from simlab.llm.rollouts_view import check_kept, kept_steps


def write_rollouts(run: Run, path: Path, *, arm: str | None = None, seed: int = 0, step: int | None = None) -> int:
    """Write a row a rollout: ``step``, ``prompt``, ``completion``, ``reward`` and ``advantage``; how many there are.

    The advantage is the mean over the tokens of a rollout; methods that weigh rollouts give them all the same one.
    How many rollouts a run keeps of a step is its ``record.rollouts``, so that the file is bounded too.

    Args:
        run: the folder's.
        path: the file.
        arm: by default the first.
        seed: the seed of it.
        step: by default all that were kept.

    Raises:
        InputError: for an arm, seed or step that was not kept, a damaged file, and where pyarrow is not installed.
    """
    _, steps = kept_steps(run, arm, seed)
    chosen = sorted(steps) if step is None else [check_kept("step", step, sorted(steps))]
    groups = ((number, group) for number in chosen for group in steps[number])
    return _write(
        path, [_row(number, group["prompt"], record) for number, group in groups for record in group["rollouts"]]
    )


def write_completions(
    run: Run, path: Path, evaluation: str, *, arm: str | None = None, seed: int = 0, step: int | None = None
) -> int:
    """Write a row a completion: ``step``, ``set``, ``prompt``, ``sample``, ``completion``, ``reward``; how many rows.

    How many an evaluation keeps of a set is the run's ``record.completions``, so that the file is bounded too.

    Args:
        run: the folder's.
        path: the file.
        evaluation: the evaluation set.
        arm: by default the first.
        seed: the seed of it.
        step: by default all that were evaluated, from the start, which is step 0.

    Raises:
        InputError: for an arm, seed, set or step that was not kept, a damaged file, and where pyarrow is not installed.
    """
    _, steps = kept_evaluations(run, evaluation, arm, seed)
    chosen = sorted(steps) if step is None else [check_evaluated(step, steps)]
    rows = [
        {
            "step": number,
            "set": evaluation,
            "prompt": _encodable(problem["prompt"]),
            "sample": sample,
            "completion": _encodable(record["text"]),
            "reward": float(record["reward"]),
        }
        for number in chosen
        for problem in steps[number]
        for sample, record in enumerate(problem["completions"])
    ]
    return _write(path, rows)


def _write(path: Path, rows: list[dict[str, Any]]) -> int:
    arrow, parquet = (package(name, "logs") for name in ("pyarrow", "pyarrow.parquet"))
    content = io.BytesIO()
    parquet.write_table(arrow.Table.from_pylist(rows), content)
    write_output(path, content.getvalue())
    return len(rows)


def _row(step: int, prompt: str, record: dict[str, Any]) -> dict[str, Any]:
    return {
        "step": step,
        "prompt": _encodable(prompt),
        "completion": _encodable(record["text"]),
        "reward": float(record["reward"]),
        "advantage": float(np.mean(record["advantages"])),
    }


def _encodable(text: str) -> str:
    """The text with ``?`` for half of a surrogate pair, which UTF-8 cannot have."""
    return text.encode("utf-8", "replace").decode()
