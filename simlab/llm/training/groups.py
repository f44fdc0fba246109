"""Sample groups of rollouts for a task's problems, read them as text, and judge them."""

import functools
import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float, UInt32

from simlab.errors import Diverged, InputError
from simlab.estimators.tokens import of_tokens
from simlab.llm.completions import CompletionBatch, filled_up, longest
from simlab.llm.config import ModelConfig
from simlab.llm.model import Parameters
from simlab.llm.sampling import Sampled, sample
from simlab.llm.tasks.base import Task, TaskProblem
from simlab.llm.vocabulary import Vocabulary

DIGITS = 5  # of log-probabilities and advantages in a record


class RolloutGroups(NamedTuple):
    """P problems and G rollouts of each, of at most T tokens; ``solutions`` are None where a rollout is not correct."""

    problems: tuple[TaskProblem, ...]
    batch: CompletionBatch
    sampled: Sampled
    rewards: Float[np.ndarray, "P G"]
    solutions: tuple[tuple[str | None, ...], ...]
    greedy_reward: Float[np.ndarray, "P G"] | None = None

    @property
    def mixed(self) -> np.ndarray:
        """(P,) mask of the groups with unequal rewards."""
        mask: np.ndarray = self.rewards.min(axis=1) < self.rewards.max(axis=1)
        return mask

    def select(self, rows: np.ndarray) -> "RolloutGroups":
        """Return some of the groups, by their row numbers."""
        arrays = self.batch, self.sampled, self.rewards, self.greedy_reward
        batch, sampled, rewards, greedy_reward = jax.tree.map(lambda array: array[rows], arrays)
        problems, solutions = tuple(self.problems[row] for row in rows), tuple(self.solutions[row] for row in rows)
        return RolloutGroups(problems, batch, sampled, rewards, solutions, greedy_reward)


class Reader:
    """A task put to a model: prompts as tokens, tokens as text, and the tokens that end a completion."""

    def __init__(self, task: Task, config: ModelConfig, vocabulary: Vocabulary):
        self.task, self.config, self.vocabulary = task, config, vocabulary
        self.ends = frozenset({vocabulary.eos, *config.eos_ids})

    @functools.cached_property
    def stop_ids(self) -> frozenset[int]:
        """Tokens that end a completion: the end token, and every token whose text contains the task's ``stop``."""
        if self.task.stop is None:
            return self.ends
        texts = ((token, self.vocabulary.decode([token])) for token in range(self.vocabulary.size))
        return self.ends | {token for token, text in texts if self.task.stop in text}

    def prompt(self, problem: TaskProblem) -> list[int]:
        """Return the tokens of a problem's prompt; raises ``InputError`` if the model's context is too short."""
        tokens = self.vocabulary.encode(problem.prompt)
        room = self.config.max_positions - self.task.max_new_tokens
        if len(tokens) > room:
            raise InputError(
                f"a prompt of {self.task.name} has {len(tokens)} tokens; allowed: {room}, as the model's context is "
                f"{self.config.max_positions} and completions have up to {self.task.max_new_tokens}"
            )
        return tokens

    def text(self, tokens: Sequence[int] | np.ndarray) -> str:
        """Return the text of a completion, without the token that ended it if that has no text."""
        ids = list(map(int, tokens))
        return self.vocabulary.decode(ids[:-1] if ids and ids[-1] in self.ends else ids)

    def answer(self, problem: TaskProblem) -> list[int]:
        """Return the tokens of a demonstration and the end token, unless the text ends itself."""
        tokens = self.vocabulary.encode(self.task.demonstration(problem))
        tokens = tokens if tokens and tokens[-1] in self.stop_ids else [*tokens, self.vocabulary.eos]
        if len(tokens) > self.task.max_new_tokens:
            raise InputError(
                f"a demonstration of {self.task.name} has {len(tokens)} tokens, its end included; "
                f"allowed: {self.task.max_new_tokens}, as completions have"
            )
        return tokens

    def sample(
        self, parameters: Parameters, problems: Sequence[TaskProblem], group_size: int, **choices: Any
    ) -> RolloutGroups:
        """Sample groups of rollouts of some problems; ``choices`` are those of ``simlab.llm.sampling.sample``."""
        prompts = [self.prompt(problem) for problem in problems]
        most, stop_ids = self.task.max_new_tokens, self.stop_ids
        sampled = sample(parameters, self.config, prompts, group_size, most, stop_ids=stop_ids, **choices)
        if not np.isfinite(sampled.logp).all():
            raise Diverged("the model's log-probabilities are NaN; allowed: finite numbers")
        rewards, solutions = self.judge(problems, sampled.tokens, sampled.mask)
        batch = CompletionBatch(*filled_up(prompts, len(prompts), longest(prompts)), sampled.tokens, sampled.mask)
        return RolloutGroups(tuple(problems), batch, sampled, rewards, solutions)

    def judge(
        self, problems: Sequence[TaskProblem], tokens: np.ndarray, mask: np.ndarray
    ) -> tuple[np.ndarray, tuple[tuple[str | None, ...], ...]]:
        """Return the rewards (P, G) of completions (P, G, T), and the canonical forms of the correct ones."""
        rewards = np.zeros(tokens.shape[:2], np.float32)
        solutions = list[tuple[str | None, ...]]()
        for row, problem in enumerate(problems):
            texts = [self.text(ids[used]) for ids, used in zip(tokens[row], mask[row], strict=True)]
            # Equal answers are judged once.
            verdicts = {
                text: (self.task.reward(problem, text), self.task.solution(problem, text))
                for text in dict.fromkeys(texts)
            }
            rewards[row] = [verdicts[text][0] for text in texts]
            solutions.append(tuple(verdicts[text][1] for text in texts))
        return rewards, tuple(solutions)

    def unfinished(self, groups: RolloutGroups) -> float:
        """Return the share of completions that reach the greatest length without an end."""
        tokens, mask = groups.sampled.tokens, groups.sampled.mask
        lengths = mask.sum(axis=2)
        last = np.take_along_axis(tokens, np.maximum(lengths - 1, 0)[..., None], axis=2)[..., 0]
        return float(((lengths == self.task.max_new_tokens) & ~np.isin(last, sorted(self.stop_ids))).mean())

    def verifier_words(
        self, groups: RolloutGroups, errors_of: str
    ) -> tuple[UInt32[np.ndarray, "P G"], UInt32[np.ndarray, "P G"]]:
        """Return two words of each rollout that decide its verifier error: of its prompt, and of what is judged."""
        tokens, mask = groups.sampled.tokens, groups.sampled.mask
        prompts = np.array([[hash_word(problem.prompt)] for problem in groups.problems], np.uint32)
        judged = correct(groups).astype(np.uint32)
        if errors_of == "answer":
            for index in np.ndindex(judged.shape):
                judged[index] = hash_word(self.text(tokens[index][mask[index]]))
        return np.broadcast_to(prompts, judged.shape), judged

    def record(self, groups: RolloutGroups, row: int, member: int) -> dict[str, Any]:
        """Return a completion as plain data: text, reward, and canonical form, which is null for a wrong one."""
        return {
            "text": self.text(groups.sampled.tokens[row, member][groups.sampled.mask[row, member]]),
            "reward": float(groups.rewards[row, member]),
            "solution": groups.solutions[row][member],
        }


def correct(groups: RolloutGroups) -> Bool[np.ndarray, "P G"]:
    """Return the mask of the correct rollouts; raises ``InputError`` for a task with other rewards than 0 and 1."""
    graded = groups.rewards[(groups.rewards != 0) & (groups.rewards != 1)]
    if len(graded):
        raise InputError(f"a reward of {graded[0]:g} under a verifier that errs; allowed: rewards 0 and 1")
    return np.asarray(groups.rewards == 1)


def hash_word(text: str) -> int:
    """Return 32 bits of a hash of a text."""
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:4], "big")


def concatenate_groups(batches: Sequence[RolloutGroups]) -> RolloutGroups:
    """Join groups that were sampled one after the other into one batch."""
    if len(batches) == 1:
        return batches[0]
    width = max(groups.batch.prompts.shape[1] for groups in batches)

    def arrays(groups: RolloutGroups) -> Any:
        prompts = np.pad(groups.batch.prompts, ((0, 0), (0, width - groups.batch.prompts.shape[1])))
        return groups.batch._replace(prompts=prompts), groups.sampled, groups.rewards, groups.greedy_reward

    batch, sampled, rewards, greedy_reward = jax.tree.map(lambda *parts: np.concatenate(parts), *map(arrays, batches))
    problems = tuple(problem for groups in batches for problem in groups.problems)
    solutions = tuple(forms for groups in batches for forms in groups.solutions)
    return RolloutGroups(problems, batch, sampled, rewards, solutions, greedy_reward)


def rollout_records(groups: RolloutGroups, advantages: np.ndarray, reader: Reader, most: int) -> list[dict[str, Any]]:
    """Return the first groups of a batch as plain data, with at most ``most`` rollouts together."""
    mask = groups.sampled.mask
    spread = np.broadcast_to(of_tokens(np.asarray(advantages)), mask.shape)
    size = groups.rewards.shape[1]

    def record(row: int, member: int) -> dict[str, Any]:
        used = mask[row, member]
        entries = reader.record(groups, row, member)
        return {
            "text": entries.pop("text"),
            "tokens": [reader.vocabulary.decode([int(token)]) for token in groups.sampled.tokens[row, member][used]],
            **entries,
            "logp": groups.sampled.logp[row, member][used].astype(float).round(DIGITS).tolist(),
            "advantages": spread[row, member][used].astype(float).round(DIGITS).tolist(),
        }

    return [
        {"prompt": problem.prompt, "rollouts": [record(row, member) for member in range(size)]}
        for row, problem in enumerate(groups.problems[: most // size])
    ]


def completion_records(groups: RolloutGroups, reader: Reader, most: int) -> list[dict[str, Any]]:
    """Return the first sample of each problem of an evaluation set, then the second, and so on up to ``most``."""
    rounds, more = divmod(most, len(groups.problems))
    counts = [min(rounds + (row < more), groups.rewards.shape[1]) for row in range(len(groups.problems))]
    return [
        {"prompt": problem.prompt, "completions": [reader.record(groups, row, member) for member in range(count)]}
        for row, (problem, count) in enumerate(zip(groups.problems, counts, strict=True))
        if count
    ]
