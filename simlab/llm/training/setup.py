"""What all arms and seeds of a run share: a task, put to a model."""

import functools
import itertools
from typing import Any

from simlab.errors import InputError
from simlab.llm.checkpoint import Model
from simlab.llm.config import ModelConfig
from simlab.llm.lora import adapters, check_rank, merged
from simlab.llm.model import Parameters
from simlab.llm.pretrained import load
from simlab.llm.tasks import Task
from simlab.llm.training.disk import needed_disk
from simlab.llm.training.folder import ArmFolder
from simlab.llm.training.gradient import Policy
from simlab.llm.training.groups import Reader
from simlab.llm.training.memory import needed_memory
from simlab.llm.training.seeds import ADAPTERS_KEY, key_of
from simlab.llm.training.settings import SCRATCH, ModelSettings, PolicyGradient, Settings
from simlab.llm.vocabulary import Vocabulary


class Setup:
    """A task put to a model, by the settings of a run.

    Attributes:
        settings: the settings of the run.
        loaded: the model's config, and of a pretrained model the parameters.
        reader: how the task is put to it.

    Raises:
        InputError: if the task cannot be put to the model.
    """

    def __init__(self, settings: Settings, own_task: Task):
        self.settings = settings
        self.loaded, vocabulary = _model(settings.model, own_task)
        check_rank(self.loaded.config, settings.model.lora_rank)
        shown = own_task.put_to(vocabulary, self.loaded.config.max_positions, settings.warm_start.steps > 0)
        self.reader = Reader(shown, self.loaded.config, vocabulary)

    def policy(self, rl: PolicyGradient | None = None, base: Parameters | None = None) -> Policy:
        """How the model is computed for an arm of these settings, by default the run's; with adapters to a base."""
        rl = self.settings.rl if rl is None else rl
        model = self.settings.model
        return Policy(
            self.loaded.config,
            model.dtype,
            rl.temperature,
            rl.microbatch,
            checkpointing=model.gradient_checkpointing,
            lora_scale=model.lora_scale,
            base=base,
        )

    def trained(self, rl: PolicyGradient, seed: int, start: Parameters) -> tuple[Policy, Parameters]:
        """The policy of an arm, and what is trained of it: all parameters of the start, or adapters to it."""
        rank = self.settings.model.lora_rank
        if not rank:
            return self.policy(rl), start
        return self.policy(rl, start), adapters(self.loaded.config, rank, key_of(seed, ADAPTERS_KEY))

    def merged(self, trained: Parameters, start: Parameters) -> Parameters:
        """The model's parameters, of what is trained of it."""
        model = self.settings.model
        return merged(start, trained, model.lora_scale) if model.lora_rank else trained

    def needed_memory(self) -> dict[str, int]:
        """Bytes of the run while it trains the arm that needs most."""
        sizes = self._longest_prompt, self.reader.task.max_new_tokens, max(self._problems)
        return needed_memory(self.settings, self.loaded.config, *sizes)

    def needed_disk(self) -> dict[str, int]:
        """Bytes of the run's large files when it needs most."""
        sizes = self._longest_prompt, self.reader.task.max_new_tokens, self._problems
        return needed_disk(self.settings, self.loaded.config, *sizes)

    @property
    def _problems(self) -> list[int]:
        """How many each evaluation set has."""
        return list(map(len, self.reader.task.evaluation_sets.values()))

    @functools.cached_property
    def _longest_prompt(self) -> int:
        """Its tokens, of all prompts that are listed; where training problems are drawn, of the evaluation's."""
        own = self.reader.task
        known = itertools.chain(own.listed, *own.evaluation_sets.values())
        return max(len(self.reader.prompt(problem)) for problem in known)

    def save_model(self, folder: ArmFolder, parameters: Parameters, temperature: float) -> None:
        """Write a model with its tokenizer, and the temperature that it was trained to be sampled at."""
        model, generation = Model(self.loaded.config, parameters), self.generation_config(temperature)
        folder.save_model(model, self.reader.vocabulary, generation)

    def generation_config(self, temperature: float) -> dict[str, Any]:
        """What ``transformers`` and vLLM sample by, unless they are told otherwise: what the run sampled by.

        Without it they take other settings than the run's, and from ``config.json`` alone perhaps fewer tokens that end
        a completion.
        """
        vocabulary = self.reader.vocabulary
        ends = {
            "eos_token_id": sorted(self.reader.ends),
            "pad_token_id": vocabulary.pad,
            "max_new_tokens": self.reader.task.max_new_tokens,
        }
        begins = {} if vocabulary.bos is None else {"bos_token_id": vocabulary.bos}
        return begins | ends | {"do_sample": True, "temperature": temperature, "top_p": 1.0, "top_k": 0}


def _model(settings: ModelSettings, own_task: Task) -> tuple[Model, Vocabulary]:
    """The config and vocabulary, and of a pretrained model the parameters."""
    if settings.source != SCRATCH:
        return load(settings.source, "float32", beside=(SCRATCH,))
    vocabulary = own_task.vocabulary
    if vocabulary is None:
        raise InputError(f"task {own_task.name} has no vocabulary for a model from scratch; allowed: a pretrained one")
    config = ModelConfig(
        vocab_size=vocabulary.size,
        bos_id=vocabulary.bos,
        eos_ids=(vocabulary.eos,),
        pad_id=vocabulary.pad,
        **settings.of_config,
    )
    return Model(config, {}), vocabulary
