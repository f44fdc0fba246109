"""Show rollouts that a run has kept: a group with rewards, advantages and texts, or a rollout token by token."""

from collections.abc import Sequence
from typing import Any

from simlab.errors import InputError, check_choice
from simlab.llm.compare.runs import Run
from simlab.llm.shown_texts import cut, left_aligned, solution, visible
from simlab.llm.training.folder import ROLLOUTS, arm_folder, read_lines

WIDTH, SOLUTION = 100, 24  # characters of a text and of a solution in a row


def show_rollouts(
    run: Run,
    *,
    arm: str | None = None,
    seed: int = 0,
    step: int | None = None,
    prompt: int | None = None,
    rollout: int | None = None,
) -> str:
    """One group of a step, a row a rollout, with long texts cut; or one rollout as a whole, and a row a token.

    Args:
        run: the folder's.
        arm: by default the first.
        seed: the seed of it.
        step: by default the last that was kept.
        prompt: which group, from 0; by default the first with unequal rewards, or else the first.
        rollout: which rollout of it, from 0, to see token by token.

    Raises:
        InputError: for an arm, seed, step, prompt or rollout that was not kept, and a damaged file.
    """
    name, steps = kept_steps(run, arm, seed)
    groups = steps[check_kept("step", max(steps) if step is None else step, sorted(steps))]
    mixed = [place for place, group in enumerate(groups) if len({one["reward"] for one in group["rollouts"]}) > 1]
    place = check_kept("prompt", next(iter(mixed), 0) if prompt is None else prompt, range(len(groups)))
    group = groups[place]
    rewards = [one["reward"] for one in group["rollouts"]]
    head = (
        f"{name}, seed {seed}, step {max(steps) if step is None else step}, prompt {place} of {len(groups)} "
        f"(unequal rewards: {', '.join(map(str, mixed)) or 'none'}), mean reward {sum(rewards) / len(rewards):.3g}"
    )
    if rollout is None:
        rows = [_row(number, one) for number, one in enumerate(group["rollouts"])]
        return "\n".join([head, f"prompt: {cut(group['prompt'], 4 * WIDTH)}", "", *left_aligned(rows)])
    one = group["rollouts"][check_kept("rollout", rollout, range(len(rewards)))]
    said = f"rollout {rollout}: reward {one['reward']:g}, solution {solution(one)}, {len(one['tokens'])} tokens"
    texts = [f"prompt: {visible(group['prompt'])}", f"text: {visible(one['text'])}"]
    return "\n".join([head, said, *texts, "", *left_aligned(_tokens(one))])


def kept_steps(run: Run, arm: str | None = None, seed: int = 0) -> tuple[str, dict[int, list[dict[str, Any]]]]:
    """An arm, by default the first, and the groups that a seed of it has kept, by step.

    Raises:
        InputError: for an arm or seed of which nothing was kept, and a damaged file.
    """
    name = arm_of(run, arm)
    path = arm_folder(run.folder, name) / f"seed-{seed}" / ROLLOUTS
    lines = read_lines(path)
    if not lines:
        raise InputError(f"{path} has no rollouts; allowed: runs of --engine simlab with record.rollouts above 0")
    return name, {line["step"]: line["groups"] for line in lines}


def arm_of(run: Run, arm: str | None) -> str:
    """The arm, by default the first; raise ``InputError`` for one that the run lacks."""
    name = next(iter(run.arms)) if arm is None else arm
    check_choice("arm", name, run.arms)
    return name


def check_kept(name: str, value: int, known: Sequence[int]) -> int:
    """The number of a step, prompt or rollout; raise ``InputError`` for one that is not among those kept."""
    if value not in known:
        raise InputError(f"{name} {value} was not kept; allowed: {known[0]} to {known[-1]}")
    return value


def _row(number: int, one: dict[str, Any]) -> dict[str, str]:
    advantages = one["advantages"]
    return {
        "rollout": str(number),
        "reward": f"{one['reward']:g}",
        "solution": cut(solution(one), SOLUTION),
        "advantage": f"{sum(advantages) / max(1, len(advantages)):+.3f}",
        "log p": f"{sum(one['logp']):.2f}",
        "tokens": str(len(one["tokens"])),
        "text": cut(one["text"], WIDTH),
    }


def _tokens(one: dict[str, Any]) -> list[dict[str, str]]:
    places = zip(one["tokens"], one["logp"], one["advantages"], strict=True)
    return [
        {
            "token": str(number),
            "log p": f"{logp:.3f}",
            "advantage": f"{advantage:+.3f}",
            "text": visible(text),
        }
        for number, (text, logp, advantage) in enumerate(places)
    ]
