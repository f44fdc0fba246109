"""simlab's sampler and training step on a case of the language-model benchmarks."""

import jax
import numpy as np

from benchmarks.language_cases import LEARNING_RATE, MAX_GRAD_NORM, Case
from simlab.llm.checkpoint import read_checkpoint
from simlab.llm.completions import CompletionBatch
from simlab.llm.sampling import sample
from simlab.llm.training.gradient import DecoderPolicy
from simlab.llm.training.optimizer import ascend, first_state
from simlab.llm.training.settings import OptimizerSettings
from simlab.methods import method
from simlab.rollouts import Rollouts


class Program:
    """One case in simlab."""

    def __init__(self, case: Case):
        self.case = case
        self.config, self.parameters = read_checkpoint(case.folder)
        # The whole batch in one program, as the other programs have it.
        self.policy = DecoderPolicy(self.config, "float32", 1.0, len(case.prompts) * case.group_size)
        self.settings = OptimizerSettings(learning_rate=LEARNING_RATE, weight_decay=0.0, max_norm=MAX_GRAD_NORM)
        self.state = first_state(self.settings, self.parameters)
        lengths = np.array([len(prompt) for prompt in case.prompts], np.int32)
        prompts = np.zeros((len(lengths), lengths.max()), np.int32)
        for row, prompt in zip(prompts, case.prompts, strict=True):
            row[: len(prompt)] = prompt
        self.batch = CompletionBatch(prompts, lengths, case.completions, np.ones(case.completions.shape, bool))

    def rollouts(self, seed: int, stops: tuple[int, ...]) -> int:
        """Sample; the number of tokens."""
        case, key = self.case, jax.random.key(seed)
        completions = sample(
            self.parameters, self.config, case.prompts, case.group_size, case.new_tokens, key=key, stop_ids=stops
        )
        return int(completions.mask.sum())

    def logp(self) -> np.ndarray:
        """(P, G, T) log-probabilities of the fixed completions."""
        return self.policy.logp(self.parameters, self.batch)

    def step(self) -> float:
        """One update on the fixed completions; the norm of the gradient."""
        advantages = self.case.advantages
        rollouts = Rollouts(advantages, token_mask=self.batch.mask)
        ratio = np.ones(self.batch.tokens.shape, np.float32)
        coefficients = method("grpo").from_advantages(ratio, advantages, rollouts)
        gradient, _ = self.policy.gradient(self.parameters, self.batch, np.asarray(coefficients, np.float32))
        self.parameters, self.state, norm = ascend(self.settings, self.parameters, self.state, gradient, LEARNING_RATE)
        jax.block_until_ready(self.parameters)
        return norm
