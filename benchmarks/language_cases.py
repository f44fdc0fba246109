"""The models, prompts and completions of the language-model benchmarks: the same for every program."""

import dataclasses
from pathlib import Path

import jax
import numpy as np

from simlab.llm.checkpoint import Model, write_checkpoint
from simlab.llm.config import ModelConfig
from simlab.llm.model import init
from simlab.llm.pretrained import load
from simlab.llm.tasks.fewshot import FewShot
from simlab.llm.tasks.maze import Maze

LEARNING_RATE = 1e-6  # TRL's default: small enough that rounds of steps leave the model what it is
MAX_GRAD_NORM = 1.0
CLIP = 0.2
# The maze model of F-GRPO, app. K: 3.94 million parameters.
MAZE_MODEL = ModelConfig(
    vocab_size=32,
    hidden_size=256,
    intermediate_size=1024,
    num_layers=4,
    num_heads=4,
    num_kv_heads=2,
    rope_theta=1e6,
    tie_embeddings=True,
    max_positions=512,
    architecture="qwen2",
)


@dataclasses.dataclass(frozen=True)
class Case:
    """P prompts, G rollouts of each, T new tokens.

    Attributes:
        name: of the case.
        folder: the model, as Hugging Face's files.
        prompts: P lists of tokens.
        group_size: G.
        stops: the tokens that end a completion where completions may end by themselves.
        completions: (P, G, T) tokens of the batch that the training step is made on, all of full length.
        advantages: (P, G) of that batch.
    """

    name: str
    folder: str
    prompts: tuple[tuple[int, ...], ...]
    group_size: int
    stops: tuple[int, ...]
    completions: np.ndarray
    advantages: np.ndarray

    @property
    def new_tokens(self) -> int:
        """T."""
        return int(self.completions.shape[2])

    @property
    def shape(self) -> str:
        """P, the prompts' lengths, G and T, for a report."""
        shortest, longest = min(map(len, self.prompts)), max(map(len, self.prompts))
        of = f"{shortest}" if shortest == longest else f"{shortest} to {longest}"
        return f"{len(self.prompts)} prompts of {of} tokens x {self.group_size} rollouts of {self.new_tokens}"


def maze(folder: Path, quick: bool) -> Case:
    """A new model on 17x17 mazes: about one token in 32 ends a completion, so that lengths differ widely."""
    task = Maze()
    prompts = [task.vocabulary.encode(task.training(index).prompt) for index in range(2 if quick else 8)]
    model = Model(MAZE_MODEL, init(MAZE_MODEL, jax.random.key(0)))
    stops = (task.vocabulary.eos,)
    return _case("maze, 3.94M", folder, model, prompts, sizes=(4, 24) if quick else (16, 180), stops=stops)


def smollm2(folder: Path, quick: bool) -> Case:
    """SmolLM2-135M-Instruct on few-shot arithmetic, where an answer ends with its line."""
    model, tokenizer = load("smollm2")
    task = FewShot(shots=5)
    prompts = [tokenizer.encode(task.training(index).prompt) for index in range(2 if quick else 4)]
    stops = (*model.config.eos_ids, *tokenizer.encode("\n"))
    return _case("SmolLM2, 135M", folder, model, prompts, sizes=(2, 8) if quick else (8, 32), stops=stops)


def _case(
    name: str, folder: Path, model: Model, prompts: list[list[int]], *, sizes: tuple[int, int], stops: tuple[int, ...]
) -> Case:
    """``sizes`` are rollouts of each prompt and their tokens; tokens and rewards of the fixed batch are random."""
    write_checkpoint(folder, model)
    random = np.random.default_rng(0)
    shape = (len(prompts), *sizes)
    completions = random.integers(3, model.config.vocab_size, shape)
    rewards = random.integers(0, 2, shape[:2])
    return Case(
        name,
        str(folder),
        tuple(map(tuple, prompts)),
        sizes[0],
        tuple(map(int, stops)),
        completions,
        (rewards - rewards.mean(axis=1, keepdims=True)).astype("float32"),
    )
