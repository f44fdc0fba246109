"""Show completions that a run has kept of its evaluations: a row each, or those of one prompt as a whole."""

from collections.abc import Collection
from typing import Any

from simlab.errors import InputError, check_choice
from simlab.llm.compare.runs import Run
from simlab.llm.rollouts_view import arm_of, check_kept
from simlab.llm.shown_texts import cut, end_of, left_aligned, solution, visible
from simlab.llm.training.folder import COMPLETIONS, START, arm_folder, read_lines

ASKED, ANSWERED, SOLUTION = 32, 80, 24  # characters of a prompt, a completion and a solution in a row
Problems = list[dict[str, Any]]  # see ``simlab.llm.training.groups.completion_records``


def show_completions(
    run: Run,
    evaluation: str,
    *,
    arm: str | None = None,
    seed: int = 0,
    step: int | None = None,
    prompt: int | None = None,
) -> str:
    """Show the recorded completions of an evaluation, a row each with long texts cut, or one prompt in full.

    Args:
        run: the folder's.
        evaluation: the evaluation set.
        arm: by default the first.
        seed: the seed of it.
        step: by default the last that was evaluated; 0 for the start, which all arms of a seed share.
        prompt: which prompt, from 0, to see as a whole; by default all of them in rows.

    Raises:
        InputError: for an arm, seed, set, step or prompt that was not kept, and a damaged file.
    """
    name, steps = kept_evaluations(run, evaluation, arm, seed)
    number = check_evaluated(max(steps) if step is None else step, steps)
    problems = steps[number]
    rewards = [completion["reward"] for problem in problems for completion in problem["completions"]]
    head = (
        f"{name}, seed {seed}, step {number}, evaluation set {evaluation}: {len(rewards)} completions of "
        f"{len(problems)} prompts, mean reward {sum(rewards) / len(rewards):.3g}"
    )
    if prompt is None:
        return "\n".join([head, "", *left_aligned(_rows(problems))])
    problem = problems[check_kept("prompt", prompt, range(len(problems)))]
    texts = [
        f"sample {sample}: reward {completion['reward']:g}, solution {solution(completion)}\n"
        f"text: {visible(completion['text'])}"
        for sample, completion in enumerate(problem["completions"])
    ]
    return "\n".join([head, f"prompt: {visible(problem['prompt'])}", *texts])


def kept_evaluations(
    run: Run, evaluation: str, arm: str | None = None, seed: int = 0
) -> tuple[str, dict[int, Problems]]:
    """An arm, by default the first, and what a seed of it has kept of an evaluation set, by step; the start is step 0.

    Raises:
        InputError: for an arm, seed or set of which nothing was kept, and a damaged file.
    """
    name = arm_of(run, arm)
    path = arm_folder(run.folder, name) / f"seed-{seed}" / COMPLETIONS
    lines = [*read_lines(run.folder / START / f"seed-{seed}" / COMPLETIONS), *read_lines(path)]
    if not lines:
        raise InputError(f"{path} has no completions; allowed: runs with record.completions above 0")
    check_choice("evaluation", evaluation, list(lines[0]["sets"]))
    return name, {line["step"]: line["sets"][evaluation] for line in lines}


def check_evaluated(step: int, steps: Collection[int]) -> int:
    """The step; raise ``InputError`` for one of which no evaluation was kept."""
    if step not in steps:
        raise InputError(f"step {step} was not kept; allowed: {', '.join(map(str, sorted(steps)))}")
    return step


def _rows(problems: Problems) -> list[dict[str, str]]:
    return [
        {
            "prompt": str(number),
            "sample": str(sample),
            "reward": f"{completion['reward']:g}",
            "solution": cut(solution(completion), SOLUTION),
            "text": f"{end_of(problem['prompt'], ASKED)} | {cut(completion['text'], ANSWERED)}",
        }
        for number, problem in enumerate(problems)
        for sample, completion in enumerate(problem["completions"])
    ]
