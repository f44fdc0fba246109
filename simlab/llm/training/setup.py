"""Put a task to a model: everything that the arms and seeds of a run share."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from simlab.errors import InputError
from simlab.llm.checkpoint import Model, write_checkpoint
from simlab.llm.config import ModelConfig
from simlab.llm.lora import adapters, check_rank, merged
from simlab.llm.model import Parameters
from simlab.llm.pretrained import load
from simlab.llm.tasks import Task
from simlab.llm.tokenizer import Tokenizer, write_tokenizer
from simlab.llm.training.folder import MODEL, ArmFolder
from simlab.llm.training.gradient import DecoderPolicy
from simlab.llm.training.groups import Reader
from simlab.llm.training.settings import SCRATCH, ModelSettings, PolicyGradientSettings, TrainingSettings
from simlab.llm.vocabulary import Vocabulary, Words

# The first training problem of a seed's warm start is SEED_PROBLEMS times the seed; of its arms, ARM_PROBLEMS later.
SEED_PROBLEMS, ARM_PROBLEMS = 2**40, 2**39
EVALUATION_KEY, VERIFIER_KEY, ADAPTERS_KEY = 2**31, 2**31 + 1, 2**31 + 2  # beside the steps


def step_key(seed: int, step: int) -> PRNGKeyArray:
    """Return the random key of a step, or of one of the keys beside the steps; all arms of a seed have the same."""
    return jax.random.fold_in(jax.random.key(seed), jnp.uint32(step))


class Setup:
    """A task put to a model, by the settings of a run; raises ``InputError`` if that cannot be."""

    def __init__(self, settings: TrainingSettings, task: Task):
        self.settings = settings
        self.loaded, vocabulary = _load_model(settings.model, task)
        check_rank(self.loaded.config, settings.model.lora_rank)
        task = task.put_to(vocabulary, self.loaded.config.max_positions, settings.warm_start.steps > 0)
        self.reader = Reader(task, self.loaded.config, vocabulary)

    def policy(self, rl: PolicyGradientSettings | None = None, base: Parameters | None = None) -> DecoderPolicy:
        """Build the policy of an arm with these settings, by default the run's; with a ``base``, of adapters to it."""
        rl, model = rl or self.settings.rl, self.settings.model
        return DecoderPolicy(
            self.loaded.config,
            model.dtype,
            rl.temperature,
            rl.microbatch,
            checkpointing=model.gradient_checkpointing,
            lora_scale=model.lora_scale,
            base=base,
        )

    def trainable(self, rl: PolicyGradientSettings, seed: int, start: Parameters) -> tuple[DecoderPolicy, Parameters]:
        """Return the policy of an arm and its trained parameters: all of the start, or adapters to it."""
        rank = self.settings.model.lora_rank
        if not rank:
            return self.policy(rl), start
        return self.policy(rl, start), adapters(self.loaded.config, rank, step_key(seed, ADAPTERS_KEY))

    def teacher(self, rl: PolicyGradientSettings) -> tuple[DecoderPolicy, Parameters]:
        """Load the teacher of an arm, which reads the model's tokens; ``InputError`` for another vocabulary."""
        loaded, tokenizer = load(rl.teacher)
        check_teacher(rl.teacher, tokenizer.size, self.reader.vocabulary.size)
        policy = DecoderPolicy(loaded.config, self.settings.model.dtype, rl.temperature, rl.microbatch)
        return policy, policy.cast(loaded.parameters)

    def merge(self, trained: Parameters, start: Parameters) -> Parameters:
        """Return the model's parameters, from the trained ones and the start."""
        model = self.settings.model
        return merged(start, trained, model.lora_scale) if model.lora_rank else trained

    def sizes(self) -> tuple[int, int, int]:
        """Return the most tokens of a prompt and of a completion, and the problems of the largest evaluation set."""
        task = self.reader.task
        problems = itertools.chain(task.listed, *task.evaluation_sets.values())
        longest = max(len(self.reader.prompt(problem)) for problem in problems)
        return longest, task.max_new_tokens, max(map(len, task.evaluation_sets.values()))

    def save_model(self, folder: ArmFolder, parameters: Parameters, temperature: float) -> None:
        """Write a model that ``transformers`` opens, with its tokenizer; a user's own vocabulary has no file."""
        vocabulary = self.reader.vocabulary
        if isinstance(vocabulary, Tokenizer | Words):
            write_tokenizer(folder.path / MODEL, vocabulary)
        model, generation = Model(self.loaded.config, parameters), self.generation_config(temperature)
        write_checkpoint(folder.path / MODEL, model, generation)

    def generation_config(self, temperature: float) -> dict[str, Any]:
        """Return the defaults by which ``transformers`` and vLLM sample: those of the run, with all its end tokens."""
        vocabulary = self.reader.vocabulary
        begins = {} if vocabulary.bos is None else {"bos_token_id": vocabulary.bos}
        return begins | {
            "eos_token_id": sorted(self.reader.ends),
            "pad_token_id": vocabulary.pad,
            "max_new_tokens": self.reader.task.max_new_tokens,
            "do_sample": True,
            "temperature": temperature,
            "top_p": 1.0,
            "top_k": 0,
        }


def _load_model(settings: ModelSettings, task: Task) -> tuple[Model, Vocabulary]:
    """Return config and vocabulary, and the parameters of a pretrained model."""
    if settings.source != SCRATCH:
        return load(settings.source, beside=(SCRATCH,))
    vocabulary = task.vocabulary
    if vocabulary is None:
        raise InputError(f"task {task.name} has no vocabulary for a model from scratch; allowed: a pretrained one")
    architecture = {name: value for name, value in vars(settings).items() if name in ModelConfig.__annotations__}
    config = ModelConfig(
        vocabulary.size, **architecture, bos_id=vocabulary.bos, eos_ids=(vocabulary.eos,), pad_id=vocabulary.pad
    )
    return Model(config, {}), vocabulary


def check_teacher(source: str, theirs: int, ours: int) -> None:
    """Raise ``InputError`` for a teacher of more or fewer tokens than the model's."""
    if ours != theirs:
        raise InputError(f"rl.teacher = {source!r} has {theirs} tokens; allowed: {ours}, the model's")
