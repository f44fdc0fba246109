"""Sample groups of rollouts for a task's problems, read them as text, and judge them."""

import functools
import hashlib
from collections.abc import Mapping, Sequence
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
from simlab.llm.tasks.base import Task, TaskProblem, Verdict
from simlab.llm.vocabulary import Vocabulary

PLAIN = ("problems", "solutions", "part_weights")  # fields that are no arrays
PARTS = "reward_components"  # of a rollout's record
DIGITS = 5  # of log-probabilities and advantages in a record


class RolloutGroups(NamedTuple):
    """P problems and G rollouts of each, of at most T tokens, and what they are paid.

    Attributes:
        rewards: 0 where all parts are missing.
        solutions: None where a rollout is not correct.
        correct: true where it has a solution; None under a verifier that errs, where that is a reward above 0.
        parts: R parts of the rewards, NaN where one is missing; None where a reward is one number.
        part_weights: by the names of the parts.
    """

    problems: tuple[TaskProblem, ...]
    batch: CompletionBatch
    sampled: Sampled
    rewards: Float[np.ndarray, "P G"]
    solutions: tuple[tuple[str | None, ...], ...]
    correct: Bool[np.ndarray, "P G"] | None = None
    parts: Float[np.ndarray, "P G R"] | None = None
    part_weights: Mapping[str, float] = {}
    greedy_reward: Float[np.ndarray, "P G"] | None = None

    @property
    def mixed(self) -> Bool[np.ndarray, " P"]:
        """Mask of the groups with unequal rewards."""
        lowest, highest = (np.where(absent_rollouts(self), end, self.rewards) for end in (np.inf, -np.inf))
        return np.asarray(lowest.min(axis=1) < highest.max(axis=1))

    def select(self, rows: np.ndarray) -> "RolloutGroups":
        """Return some of the groups, by their row numbers."""
        problems, solutions = tuple(self.problems[row] for row in rows), tuple(self.solutions[row] for row in rows)
        arrays = jax.tree.map(lambda array: array[rows], self.arrays)
        return self._replace(problems=problems, solutions=solutions, **arrays)

    @property
    def arrays(self) -> dict[str, Any]:
        """All fields that have a row for each problem, but those of ``PLAIN``."""
        return {name: value for name, value in self._asdict().items() if name not in PLAIN}


class Judged(NamedTuple):
    """The fields of ``RolloutGroups`` that a judge decides."""

    rewards: Float[np.ndarray, "P G"]
    solutions: tuple[tuple[str | None, ...], ...]
    correct: Bool[np.ndarray, "P G"]
    parts: Float[np.ndarray, "P G R"] | None
    part_weights: Mapping[str, float]


class Reader:
    """A task put to a model: prompts as tokens, tokens as text, and the tokens that end a completion."""

    def __init__(self, task: Task, config: ModelConfig, vocabulary: Vocabulary):
        self.task, self.config, self.vocabulary = task, config, vocabulary
        self.ends = frozenset({vocabulary.eos, *config.eos_ids})
        self._weights: dict[str, float] | None = None  # of the parts of the first reward that was given

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
        judged = self.judge(problems, sampled.tokens, sampled.mask)
        batch = CompletionBatch(*filled_up(prompts, len(prompts), longest(prompts)), sampled.tokens, sampled.mask)
        return RolloutGroups(tuple(problems), batch, sampled, **judged._asdict())

    def judge(self, problems: Sequence[TaskProblem], tokens: np.ndarray, mask: np.ndarray) -> "Judged":
        """Judge completions (P, G, T); ``InputError`` if the names of parts change from one to another."""
        verdicts = list[list[Verdict]]()
        for row, problem in enumerate(problems):
            texts = [self.text(ids[used]) for ids, used in zip(tokens[row], mask[row], strict=True)]
            # Equal answers are judged once.
            by_text = {text: self.task.verdict(problem, text) for text in dict.fromkeys(texts)}
            verdicts.append([by_text[text] for text in texts])
        for verdict in (verdict for group in verdicts for verdict in group):
            weights = {part.name: part.weight for part in verdict.parts}
            if self._weights is None:
                self._weights = weights
            if list(weights) != list(self._weights):
                had, has = (", ".join(names) or "none" for names in (self._weights, weights))
                raise InputError(f"the parts of a reward are {has}, before {had}; allowed: the same, None if missing")
        values = np.array([[[part.value for part in each.parts] for each in group] for group in verdicts], np.float32)
        solutions = tuple(tuple(verdict.solution for verdict in group) for group in verdicts)
        absent = np.isnan(values).all(axis=2) & bool(self._weights)
        return Judged(
            np.where(absent, 0, np.array([[verdict.reward for verdict in group] for group in verdicts], np.float32)),
            solutions,
            np.array([[form is not None for form in group] for group in solutions]),
            values if self._weights else None,
            self._weights or {},
        )

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
        judged = true_verdicts(groups).astype(np.uint32)
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


def absent_rollouts(judged: Judged | RolloutGroups) -> Bool[np.ndarray, "P G"]:
    """Return the mask of the rollouts of which all parts are missing: they are left out of their groups."""
    none = np.zeros(judged.rewards.shape, bool)
    return none if judged.parts is None else np.asarray(np.isnan(judged.parts).all(axis=2))


def correct_rollouts(groups: RolloutGroups) -> Bool[np.ndarray, "P G"]:
    """Return the mask of the correct rollouts; under a verifier that errs, of those of a reward above 0."""
    return np.asarray(groups.rewards > 0 if groups.correct is None else groups.correct)


def weighted_parts(judged: Judged | RolloutGroups) -> dict[str, Any]:
    """Return the fields ``parts`` and ``part_weights`` of ``Rollouts``; a reward without parts is the only one."""
    if judged.parts is None:
        return {"parts": judged.rewards[..., None], "part_weights": None}
    missing, weights = np.isnan(judged.parts), np.array([*judged.part_weights.values()], np.float32)
    return {"parts": np.where(missing, 0, judged.parts), "part_weights": np.where(missing, 0, weights)}


def true_verdicts(groups: RolloutGroups) -> Bool[np.ndarray, "P G"]:
    """Return the mask of the rollouts of reward 1; ``InputError`` for others than 0 and 1, and for several rewards."""
    if groups.parts is not None:
        raise InputError(f"{groups.parts.shape[2]} rewards under a verifier that errs; allowed: one, of 0 and 1")
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
        return groups._replace(batch=groups.batch._replace(prompts=prompts)).arrays

    joined = jax.tree.map(lambda *pieces: np.concatenate(pieces), *map(arrays, batches))
    problems = tuple(problem for groups in batches for problem in groups.problems)
    solutions = tuple(forms for groups in batches for forms in groups.solutions)
    return batches[0]._replace(problems=problems, solutions=solutions, **joined)


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
            **({} if groups.parts is None else {PARTS: _part_record(groups, row, member)}),
        }

    return [
        {"prompt": problem.prompt, "rollouts": [record(row, member) for member in range(size)]}
        for row, problem in enumerate(groups.problems[: most // size])
    ]


def _part_record(groups: RolloutGroups, row: int, member: int) -> dict[str, float | None]:
    """Return the parts of a reward by name; null where one is missing."""
    assert groups.parts is not None
    values = groups.parts[row, member].tolist()
    pairs = zip(groups.part_weights, values, strict=True)
    return {name: None if np.isnan(value) else value for name, value in pairs}


def completion_records(groups: RolloutGroups, reader: Reader, most: int) -> list[dict[str, Any]]:
    """Return the first sample of each problem of an evaluation set, then the second, and so on up to ``most``."""
    rounds, more = divmod(most, len(groups.problems))
    counts = [min(rounds + (row < more), groups.rewards.shape[1]) for row in range(len(groups.problems))]
    return [
        {"prompt": problem.prompt, "completions": [reader.record(groups, row, member) for member in range(count)]}
        for row, (problem, count) in enumerate(zip(groups.problems, counts, strict=True))
        if count
    ]
