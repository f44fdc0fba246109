"""Shared by the probes beside TRL's and verl's trainers: the record of a batch; needs torch."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch.distributed.tensor import DTensor

from simlab.diagnose.live import are_correct
from simlab.errors import InputError
from simlab.estimators.base import State
from simlab.interference.kernel import FEWEST, measure
from simlab.interference.record import Record
from simlab.interference.weights import rollout_weights
from simlab.methods import Method
from simlab.rollouts import Rollouts

SKETCH = 16381  # numbers onto which the gradient of a rollout is projected: a prime, so that no columns meet
KINDS = ("head", "full")  # estimators
Scales = dict[torch.Tensor, torch.Tensor]  # of each parameter
READ = frozenset({"rewards"})  # what the weights of a group without one of its members are computed from


def check_method(method: Method) -> None:
    """Raise ``InputError`` for a method that reads more than rewards."""
    if more := method.needs - READ:
        raise InputError(f"the method reads {', '.join(sorted(more))}; allowed: one of rewards alone")


def batch_record(
    facts: Mapping[str, Any],
    texts: Sequence[str],
    rewards: Float[np.ndarray, "N G"],
    tokens: Bool[np.ndarray, "N G T"],
    features: Float[np.ndarray, "N G F"],
    *,
    method: Method,
    threshold: float | None = None,
    memory: State | None = None,
    prompts: int | None = None,
) -> Record | None:
    """Measure the groups of a batch; None where none has three rollouts.

    Args:
        facts: those of ``simlab.interference.record``.
        texts: of the prompts.
        rewards: NaN for rollouts that are not there, or that nobody judged.
        tokens: true for tokens that are learned from.
        features: of each rollout.
        method: whose weights the update has.
        threshold: least reward of a correct rollout; None where all rewards are 0 or 1.
        memory: of the estimator before the batch.
        prompts: of the whole batch, where some are elsewhere.

    Raises: InputError: for rewards other than 0 and 1 without a threshold.
    """
    present = ~np.isnan(rewards)
    kept, correct = present.sum(axis=1) >= FEWEST, are_correct(rewards, threshold)
    if not kept.any():
        return None
    rollouts = Rollouts(np.nan_to_num(rewards), mask=present, token_mask=tokens)
    weights = rollout_weights(method, rollouts, memory, prompts=prompts)
    arrays = (values[kept] for values in (correct, *weights))
    found = measure([features[kept]], *arrays, present=present[kept], sketch=facts["sketch"])
    names = [text for text, known in zip(texts, kept, strict=True) if known]
    count = present[kept].sum(axis=1)
    return Record(facts, names, np.ones(len(names), bool), count, correct[kept].sum(axis=1) / count, found)


def log_probability(
    logits: Float[torch.Tensor, "T V"], tokens: Int[torch.Tensor, " T"], mask: torch.Tensor, temperature: float
) -> Float[torch.Tensor, ""]:
    """Sum the log-probabilities of the tokens of a rollout where ``mask`` is not 0."""
    every = (logits.float() / temperature).log_softmax(dim=-1)
    return every.gather(-1, tokens[:, None])[:, 0][mask > 0].sum()


def sketched(leaves: Sequence[torch.Tensor], size: int) -> torch.Tensor:
    """Project vectors onto ``size`` numbers by random signs, bucket after bucket; one after the other for a size of 0.

    Inner products are right in expectation over the signs, which depend on the place of a number alone.
    """
    if not size:
        return torch.cat(tuple(leaves))
    total = torch.zeros(size, device=leaves[0].device)
    for seed, leaf in enumerate(leaves):
        source = torch.Generator(leaf.device).manual_seed(seed)
        signs = 2 * torch.randint(2, leaf.shape, generator=source, device=leaf.device) - 1
        total += torch.nn.functional.pad(leaf * signs, (0, -len(leaf) % size)).reshape(-1, size).sum(dim=0)
    return total


def root_preconditioner(optimizer: Any) -> Scales | None:
    """Return (sqrt(v) + eps)^(-1/2) of Adam for each trained parameter, before its step; None for other optimisers.

    In the first steps v still grows, of adapters from 0, so that a step is then smaller than this says.
    """
    scales: Scales = {}
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if not parameter.requires_grad:
                continue
            state = optimizer.state.get(parameter, {})
            if "exp_avg_sq" not in state:
                return None
            unbiased = state["exp_avg_sq"] / (1 - group["betas"][1] ** float(state["step"]))
            scale = (unbiased.sqrt() + group["eps"]) ** -0.5
            scales[parameter] = scale.full_tensor() if isinstance(scale, DTensor) else scale
    return scales
