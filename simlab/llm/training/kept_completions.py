"""Keep some of the completions of each evaluation: what was asked, answered and rewarded."""

from collections.abc import Mapping
from typing import Any

from simlab.llm.training.groups import Groups, Reader

Kept = Mapping[str, list[dict[str, Any]]]  # by evaluation set, the problems with their completions


def kept_completions(groups: Groups, reader: Reader, most: int) -> list[dict[str, Any]]:
    """The first sample of each problem of an evaluation set, then the second, and so on until there are ``most``.

    A problem has its ``prompt`` and its ``completions``, in the order of the samples; a completion has its ``text``,
    its ``reward``, and the canonical form of a correct answer (``solution``, null for a wrong one). They are the same
    problems for every arm and step, so that completions of one prompt can be laid side by side.
    """
    rounds, more = divmod(most, len(groups.problems))

    def completion(place: int, member: int) -> dict[str, Any]:
        tokens = groups.sampled.tokens[place, member][groups.sampled.mask[place, member]]
        return {
            "text": reader.text(tokens),
            "reward": float(groups.rewards[place, member]),
            "solution": groups.solutions[place][member],
        }

    kept = []
    for place, problem in enumerate(groups.problems):
        samples = min(rounds + (place < more), groups.rewards.shape[1])
        own = [completion(place, member) for member in range(samples)]
        kept.append({"prompt": problem.prompt, "completions": own})
    return [problem for problem in kept if problem["completions"]]


def completion_lines(step: int, kept: Kept) -> list[dict[str, Any]]:
    """What is written of an evaluation after a step: a line, or none where nothing is kept."""
    return [{"step": step, "sets": kept}] if any(kept.values()) else []
