"""Show what a run has kept of its rollouts and evaluations in a terminal, or write it as parquet."""

import io
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

from simlab.errors import InputError, check_choice, check_range, package
from simlab.files import WRITER, write_output
from simlab.llm.compare.runs import Run
from simlab.llm.training.folder import COMPLETIONS, ROLLOUTS, START, arm_folder, read_lines
from simlab.llm.training.groups import PARTS
from simlab.text import aligned

ASKED, ANSWERED, SOLUTION, WIDTH = 32, 80, 24, 100  # characters of a text in a row


def show_rollouts(
    run: Run,
    *,
    arm: str | None = None,
    seed: int = 0,
    step: int | None = None,
    prompt: int | None = None,
    rollout: int | None = None,
) -> str:
    """Show a group of a step (default the last step, unequal rewards), a row a rollout; or a rollout by token."""
    name, steps = _kept(run, arm, seed)
    number = max(steps) if step is None else _check_kept("step", step, steps)
    groups = steps[number]
    rewards = [{entry["reward"] for entry in group["rollouts"]} for group in groups]
    mixed = [position for position, values in enumerate(rewards) if len(values) > 1]
    position = _check_kept("prompt", next(iter(mixed), 0) if prompt is None else prompt, range(len(groups)))
    problem, rollouts = groups[position]["prompt"], groups[position]["rollouts"]
    head = (
        f"{name}, seed {seed}, step {number}, prompt {position} of {len(groups)} (unequal rewards: "
        f"{', '.join(map(str, mixed)) or 'none'}), mean reward {_mean([entry['reward'] for entry in rollouts]):.3g}"
    )
    if rollout is None:
        rows = [
            {
                "rollout": str(index),
                "reward": f"{entry['reward']:g}",
                **{
                    f"reward/{name}": "-" if part is None else f"{part:g}"
                    for name, part in entry.get(PARTS, {}).items()
                },
                "solution": _cut(_solution(entry), SOLUTION),
                "advantage": f"{_mean(entry['advantages']):+.3f}",
                "log p": f"{sum(entry['logp']):.2f}",
                "tokens": str(len(entry["tokens"])),
                "text": _cut(entry["text"], WIDTH),
            }
            for index, entry in enumerate(rollouts)
        ]
        return "\n".join([head, f"prompt: {_cut(problem, 4 * WIDTH)}", "", *_left_aligned(rows)])
    entry = rollouts[_check_kept("rollout", rollout, range(len(rollouts)))]
    tokens = zip(entry["tokens"], entry["logp"], entry["advantages"], strict=True)
    rows = [
        {"token": str(index), "log p": f"{logp:.3f}", "advantage": f"{advantage:+.3f}", "text": _visible(text)}
        for index, (text, logp, advantage) in enumerate(tokens)
    ]
    return "\n".join([
        head,
        f"rollout {rollout}: reward {entry['reward']:g}, solution {_solution(entry)}, {len(rows)} tokens",
        f"prompt: {_visible(problem)}",
        f"text: {_visible(entry['text'])}",
        "",
        *_left_aligned(rows),
    ])  # fmt: skip


def show_completions(
    run: Run,
    evaluation: str,
    *,
    arm: str | None = None,
    seed: int = 0,
    step: int | None = None,
    prompt: int | None = None,
) -> str:
    """Show an evaluation set's completions (default of the last step), a row each, or those of a prompt in full."""
    name, steps = _kept(run, arm, seed, evaluation)
    number = max(steps) if step is None else _check_kept("step", step, steps)
    problems = steps[number]
    rewards = [entry["reward"] for problem in problems for entry in problem["completions"]]
    head = (
        f"{name}, seed {seed}, step {number}, evaluation set {evaluation}: {len(rewards)} completions of "
        f"{len(problems)} prompts, mean reward {_mean(rewards):.3g}"
    )
    if prompt is None:
        rows = [
            {
                "prompt": str(position),
                "sample": str(sample),
                "reward": f"{entry['reward']:g}",
                "solution": _cut(_solution(entry), SOLUTION),
                "text": f"{_cut(problem['prompt'], ASKED, beginning=True)} | {_cut(entry['text'], ANSWERED)}",
            }
            for position, problem in enumerate(problems)
            for sample, entry in enumerate(problem["completions"])
        ]
        return "\n".join([head, "", *_left_aligned(rows)])
    problem = problems[_check_kept("prompt", prompt, range(len(problems)))]
    texts = [
        f"sample {sample}: reward {entry['reward']:g}, solution {_solution(entry)}\ntext: {_visible(entry['text'])}"
        for sample, entry in enumerate(problem["completions"])
    ]
    return "\n".join([head, f"prompt: {_visible(problem['prompt'])}", *texts])


def write_texts(
    run: Run, path: Path, set_name: str | None = None, *, arm: str | None = None, seed: int = 0, step: int | None = None
) -> int:
    """Write a row a rollout, in the columns of TRL's logs, or one a completion of an evaluation set; of all steps by
    default. Return the number of rows."""
    arrow, parquet = (package(name, "logs") for name in ("pyarrow", "pyarrow.parquet"))
    _, steps = _kept(run, arm, seed, set_name)
    chosen = sorted(steps) if step is None else [_check_kept("step", step, steps)]
    problems = [(number, problem) for number in chosen for problem in steps[number]]
    if set_name is None:
        rows = [
            {
                "step": number,
                "prompt": _encodable(group["prompt"]),
                "completion": _encodable(entry["text"]),
                "reward": float(entry["reward"]),
                "advantage": float(np.mean(entry["advantages"])),
                **({PARTS: entry[PARTS]} if PARTS in entry else {}),
            }
            for number, group in problems
            for entry in group["rollouts"]
        ]
    else:
        rows = [
            {
                "step": number,
                "set": set_name,
                "prompt": _encodable(problem["prompt"]),
                "sample": sample,
                "completion": _encodable(entry["text"]),
                "reward": float(entry["reward"]),
            }
            for number, problem in problems
            for sample, entry in enumerate(problem["completions"])
        ]
    content = io.BytesIO()
    table = arrow.Table.from_pylist(rows)
    parquet.write_table(table.replace_schema_metadata({"writer": WRITER}), content)
    write_output(path, content.getvalue())
    return len(rows)


def _kept(
    run: Run, arm: str | None, seed: int, evaluation: str | None = None
) -> tuple[str, dict[int, list[dict[str, Any]]]]:
    """Return an arm, by default the first, and by step its groups, or the problems of an evaluation set."""
    name = next(iter(run.arms)) if arm is None else arm
    check_choice("arm", name, run.arms)
    check_range("seed", seed, 0, run.settings["seeds"] - 1)
    file, option = (ROLLOUTS, "rollouts") if evaluation is None else (COMPLETIONS, "completions")
    path = arm_folder(run.folder, name) / f"seed-{seed}" / file
    start = [] if evaluation is None else read_lines(run.folder / START / f"seed-{seed}" / file)
    lines = [*start, *read_lines(path)]
    if not lines:
        raise InputError(f"{path} has no {option}; allowed: runs of --engine simlab with record.{option} above 0")
    if evaluation is None:
        return name, {line["step"]: line["groups"] for line in lines}
    check_choice("evaluation", evaluation, list(lines[0]["sets"]))
    return name, {line["step"]: line["sets"][evaluation] for line in lines}


def _check_kept(name: str, value: int, kept: Collection[int]) -> int:
    if value not in kept:
        first, last = min(kept), max(kept)
        gaps = len(kept) <= last - first
        allowed = ", ".join(map(str, sorted(kept))) if gaps else f"{first} to {last}"
        raise InputError(f"{name} {value} was not kept; allowed: {allowed}")
    return value


def _mean(numbers: list[float]) -> float:
    return sum(numbers) / max(1, len(numbers))


def _solution(entry: dict[str, Any]) -> str:
    return "-" if entry["solution"] is None else _visible(str(entry["solution"]))


def _encodable(text: str) -> str:
    """Put ``?`` for half of a surrogate pair, which UTF-8 cannot have."""
    return text.encode("utf-8", "replace").decode()


def _visible(text: str) -> str:
    """Write a text on one line, control characters as escapes, so that a completion cannot command the terminal."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


def _cut(text: str, width: int, *, beginning: bool = False) -> str:
    """Write a text on one line, without its end (or its beginning) where that is too long."""
    shown = _visible(text)
    if len(shown) <= width:
        return shown
    return f"...{shown[3 - width :]}" if beginning else f"{shown[: width - 3]}..."


def _left_aligned(rows: list[dict[str, str]]) -> list[str]:
    """Align rows whose last column, the texts, begins at one place."""
    numbers = aligned([{head: cell for head, cell in row.items() if head != "text"} for row in rows])
    return [f"{row}  {text}" for row, text in zip(numbers, ["text", *(row["text"] for row in rows)], strict=True)]
