"""Sample groups of rollouts for a task's problems, read them as text, and judge them."""

import functools
import hashlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, PRNGKeyArray, UInt32

from simlab.errors import Diverged, InputError
from simlab.llm.completions import Batch, filled_up, longest
from simlab.llm.config import ModelConfig
from simlab.llm.model import Parameters
from simlab.llm.sampling import Sampled, one_after_the_other, sample
from simlab.llm.tasks.base import Problem, Task
from simlab.llm.vocabulary import Vocabulary

NO_TRUNCATION: Mapping[str, Any] = MappingProxyType({})


class Groups(NamedTuple):
    """P problems and G rollouts of each, of at most T tokens.

    Attributes:
        problems: P of the task.
        batch: prompts and completions.
        sampled: what the sampler says of them.
        rewards: (P, G) of the task.
        solutions: P lists of G canonical forms, None where the rollout is not correct.
        greedy_reward: (P, G) reward of the problem's greedy answer, at each of its rollouts; None where there is none.
    """

    problems: tuple[Problem, ...]
    batch: Batch
    sampled: Sampled
    rewards: Float[np.ndarray, "P G"]
    solutions: tuple[tuple[str | None, ...], ...]
    greedy_reward: Float[np.ndarray, "P G"] | None = None

    @property
    def mixed(self) -> np.ndarray:
        """(P,) which groups hold unequal rewards."""
        mixed: np.ndarray = self.rewards.min(axis=1) < self.rewards.max(axis=1)
        return mixed

    def chosen(self, places: np.ndarray) -> "Groups":
        """Some of the groups."""

        def of_places(field: Any) -> Any:
            return None if field is None else field[places]

        return Groups(
            tuple(self.problems[place] for place in places),
            Batch(*(field[places] for field in self.batch)),
            Sampled(*map(of_places, self.sampled)),
            self.rewards[places],
            tuple(self.solutions[place] for place in places),
            of_places(self.greedy_reward),
        )


class Reader:
    """How a task is put to a model: prompts as tokens, tokens as text, and where a completion ends.

    Raises:
        InputError: if prompt and completion of a problem do not fit into the model's context.
    """

    def __init__(self, task: Task, config: ModelConfig, vocabulary: Vocabulary):
        self.task, self.config, self.vocabulary = task, config, vocabulary
        self.ends = frozenset({vocabulary.eos, *config.eos_ids})

    @functools.cached_property
    def stop_ids(self) -> frozenset[int]:
        """The tokens that end a completion: the end token, and every token whose text has the task's ``stop``."""
        if self.task.stop is None:
            return self.ends
        texts = ((token, self.vocabulary.decode([token])) for token in range(self.vocabulary.size))
        return self.ends | {token for token, text in texts if self.task.stop in text}

    def prompt(self, problem: Problem) -> list[int]:
        """The tokens of a problem's prompt.

        Raises:
            InputError: if it and a completion are longer than the model's context.
        """
        tokens = self.vocabulary.encode(problem.prompt)
        room = self.config.max_positions - self.task.max_new_tokens
        if len(tokens) > room:
            raise InputError(
                f"a prompt of {self.task.name} has {len(tokens)} tokens; allowed: {room}, as the model's context is "
                f"{self.config.max_positions} and completions have up to {self.task.max_new_tokens}"
            )
        return tokens

    def text(self, tokens: Sequence[int] | np.ndarray) -> str:
        """The text of a completion, without the token that ended it if that has no text of its own."""
        own = list(map(int, tokens))
        return self.vocabulary.decode(own[:-1] if own and own[-1] in self.ends else own)

    def answer(self, problem: Problem) -> list[int]:
        """The tokens of a demonstration and the end token; a text that stops by itself has none.

        Raises:
            InputError: if the task has no demonstrations, or one that is longer than a completion may be.
        """
        tokens = self.vocabulary.encode(self.task.demonstration(problem))
        tokens = tokens if tokens and tokens[-1] in self.stop_ids else [*tokens, self.vocabulary.eos]
        if len(tokens) > self.task.max_new_tokens:
            raise InputError(
                f"a demonstration of {self.task.name} has {len(tokens)} tokens, its end included; "
                f"allowed: {self.task.max_new_tokens}, as completions have"
            )
        return tokens

    def sample(
        self,
        parameters: Parameters,
        problems: Sequence[Problem],
        group_size: int,
        *,
        key: PRNGKeyArray,
        temperature: float = 1.0,
        truncation: Mapping[str, Any] = NO_TRUNCATION,
        top_n: int = 0,
        at_once: int | None = None,
    ) -> Groups:
        """Groups of rollouts of some problems, at most ``at_once`` at a time.

        ``truncation`` is what ``simlab.llm.sampling.sample`` takes as ``top_p``, ``top_k`` and ``min_p``.

        Raises:
            InputError: for a prompt that does not fit, and what the task's own reward function does wrong.
            Diverged: for a model whose probabilities are no numbers.
        """
        prompts = [self.prompt(problem) for problem in problems]
        sampled = sample(
            parameters,
            self.config,
            prompts,
            group_size,
            self.task.max_new_tokens,
            key=key,
            temperature=temperature,
            top_n=top_n,
            stop_ids=self.stop_ids,
            at_once=at_once,
            **truncation,
        )
        if not np.isfinite(sampled.logp).all():
            raise Diverged("the model's log-probabilities are NaN; allowed: finite numbers")
        rewards, solutions = self.judged(problems, sampled.tokens, sampled.mask)
        return Groups(tuple(problems), _batch(prompts, sampled), sampled, rewards, solutions)

    def unfinished(self, groups: Groups) -> float:
        """The share of completions that reach the greatest length without an end."""
        tokens, mask = groups.sampled.tokens, groups.sampled.mask
        lengths = mask.sum(axis=2)
        last = np.take_along_axis(tokens, np.maximum(lengths - 1, 0)[..., None], axis=2)[..., 0]
        return float(((lengths == self.task.max_new_tokens) & ~np.isin(last, sorted(self.stop_ids))).mean())

    def words(self, groups: Groups, errors_of: str) -> tuple[UInt32[np.ndarray, "P G"], UInt32[np.ndarray, "P G"]]:
        """Of each rollout, a word for its prompt and one for what of it a verifier errs about.

        That is its text where errors belong to an "answer", and whether it is correct where they belong to a "prompt".
        """
        shape, (tokens, mask) = groups.rewards.shape, (groups.sampled.tokens, groups.sampled.mask)
        prompts = np.array([[word(problem.prompt)] for problem in groups.problems], np.uint32)
        judged = correct(groups).astype(np.uint32)
        if errors_of == "answer":
            for place in np.ndindex(shape):
                judged[place] = word(self.text(tokens[place][mask[place]]))
        return np.broadcast_to(prompts, shape), judged

    def judged(
        self, problems: Sequence[Problem], tokens: np.ndarray, mask: np.ndarray
    ) -> tuple[np.ndarray, tuple[tuple[str | None, ...], ...]]:
        """The rewards (P, G) of completions (P, G, T), and the canonical forms of the correct ones."""
        rewards = np.zeros(tokens.shape[:2], np.float32)
        solutions: list[list[str | None]] = []
        for place, problem in enumerate(problems):
            verdicts = _Verdicts(self.task, problem)
            texts = [self.text(row[own]) for row, own in zip(tokens[place], mask[place], strict=True)]
            rewards[place] = [verdicts.of(text)[0] for text in texts]
            solutions.append([verdicts.of(text)[1] for text in texts])
        return rewards, tuple(map(tuple, solutions))


def correct(groups: Groups) -> Bool[np.ndarray, "P G"]:
    """Which rollouts the task finds correct.

    Raises:
        InputError: for a task whose rewards are others than 0 and 1.
    """
    other = groups.rewards[(groups.rewards != 0) & (groups.rewards != 1)]
    if len(other):
        raise InputError(f"a reward of {other[0]:g} under a verifier that errs; allowed: rewards 0 and 1")
    return np.asarray(groups.rewards == 1)


def word(text: str) -> int:
    """32 bits of a hash of a text."""
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:4], "big")


class _Verdicts:
    """The verdicts on answers to one problem; equal answers are judged once."""

    def __init__(self, task: Task, problem: Problem):
        self.task, self.problem, self.known = task, problem, dict[str, tuple[float, str | None]]()

    def of(self, text: str) -> tuple[float, str | None]:
        if text not in self.known:
            self.known[text] = self.task.reward(self.problem, text), self.task.solution(self.problem, text)
        return self.known[text]


def _batch(prompts: Sequence[Sequence[int]], sampled: Sampled) -> Batch:
    return Batch(*filled_up(prompts, len(prompts), longest(prompts)), sampled.tokens, sampled.mask)


def joined(parts: Sequence[Groups]) -> Groups:
    """Groups that were sampled one after the other, as one batch."""
    if len(parts) == 1:
        return parts[0]
    width = max(part.batch.prompts.shape[1] for part in parts)
    prompts = [np.pad(part.batch.prompts, ((0, 0), (0, width - part.batch.prompts.shape[1]))) for part in parts]
    batches = [part.batch._replace(prompts=own) for part, own in zip(parts, prompts, strict=True)]

    return Groups(
        tuple(problem for part in parts for problem in part.problems),
        Batch(*map(np.concatenate, zip(*batches, strict=True))),
        Sampled.joined([part.sampled for part in parts]),
        np.concatenate([part.rewards for part in parts]),
        tuple(solution for part in parts for solution in part.solutions),
        one_after_the_other([part.greedy_reward for part in parts]),
    )
