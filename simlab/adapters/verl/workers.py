"""Measure rollouts in verl's workers, in the pass that computes log-probabilities before an update.

The estimator ``head`` reads the states before the last layer and the logits. ``full`` adds a backward pass, for the
gradient of each rollout by the adapters that are trained, times M^(1/2) of Adam. ``BatchProbe`` asks for either by
``FLAG``, and gets ``FEATURES`` and ``HOW`` back as fields of the batch.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import ray
import torch
from jaxtyping import Float
from torch.distributed.fsdp import FSDPModule
from verl.trainer.ppo.utils import Role
from verl.utils import tensordict_utils
from verl.utils.device import get_torch_device
from verl.workers.engine_workers import ActorRolloutRefWorker, TrainingWorker

from simlab.adapters.measuring import SKETCH, root_preconditioner, sketched
from simlab.errors import InputError
from simlab.interference.head import PROJECTED, head_features, projected_size, projection, residuals

FLAG = "simlab_probe"  # in the settings of a batch: the estimator that measures its rollouts
FEATURES, HOW = "simlab_features", "simlab_how"  # fields: of each row; its time, its sketch, and 1 with Adam's M


class ProbedTrainingWorker(TrainingWorker):  # type: ignore[misc]  # of an untyped package
    """A worker whose forward passes measure rollouts where the batch asks for it."""

    def infer_batch(self, data: Any) -> Any:
        """Compute log-probabilities, with the fields ``FEATURES`` and ``HOW`` where ``FLAG`` is set."""
        kind = tensordict_utils.get_non_tensor_data(data=data, key=FLAG, default=None)
        with measured(self.engine, kind) if kind else contextlib.nullcontext():
            return super().infer_batch(data)


class ProbedActorRolloutRefWorker(ActorRolloutRefWorker):  # type: ignore[misc]  # of an untyped package
    """verl's worker whose actor is a ``ProbedTrainingWorker``."""

    actor_worker_cls = ProbedTrainingWorker


class Features(NamedTuple):
    """Features of the rows of a microbatch.

    Attributes:
        rows: of each row.
        sketch: onto how many numbers they are projected; 0 for none.
        scaled: true where they contain M^(1/2) of Adam.
    """

    rows: Float[torch.Tensor, "rows F"]
    sketch: int
    scaled: bool


@contextlib.contextmanager
def measured(engine: Any, kind: str) -> Iterator[None]:
    """Add the features of rollouts to the outputs of an engine's forward passes; ``kind`` is one of ``KINDS``."""
    prepare = engine.prepare_model_outputs
    with (_adapters_read if kind == "full" else _head_read)(engine) as read:

        def with_features(output: Any, output_args: Any, micro_batch: Any, logits_processor_func: Any) -> Any:
            get_torch_device().synchronize()
            began = time.perf_counter()
            rows, sketch, scaled = read(output.logits, micro_batch)  # before verl scales them
            get_torch_device().synchronize()
            how = torch.tensor([(time.perf_counter() - began) / len(rows), sketch, scaled], device=rows.device)
            output.logits = output.logits.detach()
            with torch.no_grad():
                outputs: dict[str, Any] = prepare(output, output_args, micro_batch, logits_processor_func)
            return outputs | {FEATURES: rows, HOW: how.expand(len(rows), -1)}

        engine.prepare_model_outputs = with_features
        try:
            yield
        finally:
            del engine.prepare_model_outputs


Read = Callable[[torch.Tensor, Any], Features]  # of the logits and the microbatch of the last forward pass


@contextlib.contextmanager
def _head_read(engine: Any) -> Iterator[Read]:
    """Give a function that reads the last layer's features of the last forward pass."""
    seen: list[torch.Tensor] = []
    hook = engine.module.get_output_embeddings().register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))

    def read(logits: torch.Tensor, micro_batch: Any) -> Features:
        hidden = seen.pop()
        size = sketch_size(hidden.shape[-1], logits.shape[-1])
        return Features(row_features(hidden, logits, micro_batch), size, False)

    try:
        yield read
    finally:
        hook.remove()


@contextlib.contextmanager
def _adapters_read(engine: Any) -> Iterator[Read]:
    """Give a function that reads the adapters' features of the last forward pass, which is made with gradients.

    The gradient of a linear layer is the sum over tokens of its input times the gradient of its output. Both are on
    the worker that has the rollout, however the layer's parameters are sharded.
    """
    for part in engine.module.modules():
        if isinstance(part, FSDPModule):
            part.reshard()  # the optimizer knows the parameters by their shards
    layers = adapter_layers(engine.module)
    known = root_preconditioner(engine.optimizer)
    scales = [known[layer.weight] for layer in layers] if known else []
    seen: dict[torch.nn.Linear, tuple[torch.Tensor, torch.Tensor]] = {}

    def see(layer: Any, inputs: Any, output: torch.Tensor) -> None:
        seen[layer] = (inputs[0].detach(), output)

    def forward_step(*arguments: Any, **settings: Any) -> Any:
        with torch.enable_grad():
            return step(*arguments, **settings)

    def read(logits: torch.Tensor, micro_batch: Any) -> Features:
        rows = adapter_features([seen[layer] for layer in layers], logits, micro_batch, scales)
        seen.clear()
        return Features(rows, SKETCH, bool(scales))

    hooks = [layer.register_forward_hook(see) for layer in layers]
    step, engine.forward_step = engine.forward_step, forward_step
    try:
        yield read
    finally:
        del engine.forward_step
        for hook in hooks:
            hook.remove()


def adapter_layers(module: torch.nn.Module) -> list[torch.nn.Linear]:
    """Return the linear layers of the adapters that are trained.

    Raises: InputError: where anything else is trained.
    """
    layers = {
        f"{name}.weight": layer
        for name, layer in module.named_modules()
        if isinstance(layer, torch.nn.Linear) and layer.weight.requires_grad
    }
    trained = [name for name, value in module.named_parameters() if value.requires_grad]
    if others := [name for name in trained if name not in layers]:
        raise InputError(f"algorithm.simlab_probe.estimator = full: {others[0]} is trained; allowed: linear adapters")
    return list(layers.values())


class Row(NamedTuple):
    """A rollout in a microbatch.

    Attributes:
        batch: its index in the batch.
        tokens: positions of its tokens.
        before: positions whose logits are those of the response's tokens.
        response: tokens.
        mask: of the tokens that are learned from.
        temperature: of the sampler.
    """

    batch: int
    tokens: slice
    before: slice
    response: torch.Tensor
    mask: torch.Tensor
    temperature: float


def rows_of(micro_batch: Any, packed: bool) -> Iterator[Row]:
    """Give the rollouts of a microbatch: one after the other if ``packed``, else each padded at its end."""
    texts, masks = micro_batch["input_ids"].unbind(), micro_batch["response_mask"].unbind()
    temperatures = torch.as_tensor(micro_batch["temperature"]).expand(len(texts)).tolist()
    start = 0
    for number, (ids, mask, temperature) in enumerate(zip(texts, masks, temperatures, strict=True)):
        end = start + len(ids)
        before = slice(end - len(mask) - 1, end - 1)  # a position has the logits of the next token
        response = ids[len(ids) - len(mask) :]
        yield Row(0 if packed else number, slice(start, end), before, response, mask, temperature)
        start = end if packed else 0


def row_features(
    hidden: Float[torch.Tensor, "B L D"], logits: Float[torch.Tensor, "B L V"], micro_batch: Any
) -> Float[torch.Tensor, "rows F"]:
    """Return the features of each row of a microbatch, projected onto ``SKETCH`` numbers where there are more.

    Rows are one after the other, with B = 1, where verl removes padding; else they are padded at their end.
    """
    onto, rows = torch.as_tensor(projection(logits.shape[-1]), device=logits.device), []
    for row in rows_of(micro_batch, packed=len(hidden) == 1):
        states, scores = (each[row.batch, row.before].float() for each in (hidden, logits))
        residual = residuals(scores, row.response, row.temperature, onto)
        features = head_features(states, residual, row.mask)
        rows.append(sketched([features], SKETCH if len(features) > SKETCH else 0))
    return torch.stack(rows)


def adapter_features(
    layers: list[tuple[Float[torch.Tensor, "B L I"], Float[torch.Tensor, "B L O"]]],
    logits: Float[torch.Tensor, "B L V"],
    micro_batch: Any,
    scales: list[Float[torch.Tensor, "O I"]],
    sketch: int = SKETCH,
) -> Float[torch.Tensor, "rows F"]:
    """Return the gradients of each row's log-probability by linear layers, projected onto ``sketch`` numbers (0: all).

    Args:
        layers: the input and the output of each in the pass that made the logits.
        logits: with their graph.
        micro_batch: verl's.
        scales: the factors M^(1/2) of each layer's weights; empty for 1.
        sketch: a prime.
    """
    rows = list(rows_of(micro_batch, packed=len(logits) == 1))
    with torch.enable_grad():
        logp = torch.stack([_log_probability(logits, row) for row in rows])
    outputs = torch.autograd.grad(logp.sum(), [output for _, output in layers])
    features = []
    for row in rows:
        leaves = [
            output[row.batch, row.tokens].float().T @ seen[row.batch, row.tokens].float()
            for (seen, _), output in zip(layers, outputs, strict=True)
        ]
        if scales:
            leaves = [leaf * scale.to(leaf) for leaf, scale in zip(leaves, scales, strict=True)]
        features.append(sketched([leaf.flatten() for leaf in leaves], sketch))
    return torch.stack(features)


def _log_probability(logits: Float[torch.Tensor, "B L V"], row: Row) -> Float[torch.Tensor, ""]:
    every = (logits[row.batch, row.before].float() / row.temperature).log_softmax(dim=-1)
    return (every.gather(-1, row.response[:, None])[:, 0] * row.mask).sum()


def sketch_size(hidden: int, vocabulary: int) -> int:
    """Return onto how many numbers one projection would have the error of both; 0 for none."""
    first = projected_size(vocabulary)
    second = SKETCH if hidden * min(vocabulary, PROJECTED) > SKETCH else 0
    return first * second // (first + second) if first and second else first or second


def measuring_workers(mapping: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return, of verl's classes of workers by their roles, what stands for those that hold the actor."""
    actors = (Role.Actor, Role.ActorRollout, Role.ActorRolloutRef)
    return {role: ray.remote(ProbedActorRolloutRefWorker) for role in mapping if role in actors}
