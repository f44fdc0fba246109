"""The problem ``network`` as a short PyTorch script, to compare with simlab's steps.

Prompts share one hidden layer of tanh units. Each step draws G actions for every prompt, weighs them by GRPO, and takes
an Adam step on -mean(advantage * log-probability). Autograd writes the gradient. Seeds are the first axis of every
tensor, so that one operation serves them all, as vmap does for simlab.
"""

import time
from collections.abc import Mapping

import numpy as np
import torch

GROUP, LEARNING_RATE, EPS = 8, 5e-4, 1e-6


class Learners:
    """Seeds of one network, each with its own parameters."""

    def __init__(self, arrays: Mapping[str, np.ndarray], inputs: np.ndarray, correct: np.ndarray, seeds: int):
        kind = torch.get_default_dtype()
        self.inputs = torch.as_tensor(inputs, dtype=kind)
        self.rewards = torch.as_tensor(correct, dtype=kind).expand(seeds, *correct.shape)
        self.parameters = {
            name: torch.tensor(values, dtype=kind).repeat(seeds, *[1] * np.ndim(values)).requires_grad_()
            for name, values in arrays.items()
        }
        self.optimizer = torch.optim.Adam(self.parameters.values(), lr=LEARNING_RATE)

    def step(self, actions: torch.Tensor | None = None) -> None:
        """Take a step on (seeds, M, G) actions, or on actions that are drawn."""
        parameters = self.parameters
        hidden = torch.tanh(self.inputs @ parameters["weights_1"].mT + parameters["biases_1"][:, None])
        logp = torch.log_softmax(hidden @ parameters["head"].mT + parameters["head_biases"][:, None], dim=-1)
        if actions is None:
            weights = logp.detach().exp().flatten(0, 1)
            actions = torch.multinomial(weights, GROUP, replacement=True).view(*logp.shape[:2], GROUP)
        rewards = self.rewards.gather(-1, actions)
        centred = rewards - rewards.mean(-1, keepdim=True)
        advantages = centred / (rewards.std(-1, correction=0, keepdim=True) + EPS)
        loss = -(advantages * logp.gather(-1, actions)).mean((-1, -2)).sum()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def seconds(self, steps: int, threads: int) -> float:
        """Seconds of some steps with some threads."""
        torch.set_num_threads(threads)
        start = time.perf_counter()
        for _ in range(steps):
            self.step()
        return time.perf_counter() - start
