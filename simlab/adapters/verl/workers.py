"""Measure rollouts in verl's workers, in the pass that computes log-probabilities before an update.

The estimator ``head`` reads the states before the last layer and the logits. ``full`` adds a backward pass, for the
gradient of each rollout by the adapters that are trained, times M^(1/2) of Adam. ``BatchProbe`` asks for either by
``FLAG``, and gets ``FEATURES`` and ``COST`` back as fields of the batch.
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

from simlab.adapters.measuring import SKETCH, log_probability, root_preconditioner, sketched
from simlab.errors import InputError
from simlab.interference.head import PROJECTED, head_features, projected_size, projection, residuals

FLAG = "simlab_probe"  # in the settings of a batch: the estimator that measures its rollouts
FEATURES = "simlab_features"  # field: the features of each row
COST = "simlab_cost"  # field: of each row the seconds it took, the size of its sketch, and 1 if Adam's M is in it


class ProbedTrainingWorker(TrainingWorker):  # type: ignore[misc]  # of an untyped package
    """A worker whose forward passes measure rollouts where the batch asks for it."""

    def infer_batch(self, data: Any) -> Any:
        """Compute log-probabilities, with the fields ``FEATURES`` and ``COST`` where ``FLAG`` is set."""
        kind = tensordict_utils.get_non_tensor_data(data=data, key=FLAG, default=None)
        with measure_passes(self.engine, kind) if kind else contextlib.nullcontext():
            return super().infer_batch(data)


class ProbedActorRolloutRefWorker(ActorRolloutRefWorker):  # type: ignore[misc]  # of an untyped package
    """verl's worker whose actor is a ``ProbedTrainingWorker``."""

    actor_worker_cls = ProbedTrainingWorker


class Features(NamedTuple):
    """Numbers by which the rollouts of a microbatch are compared.

    Attributes:
        rows: one row for each rollout.
        sketch: size of the projection; 0 without one.
        scaled: true if M^(1/2) of Adam multiplies them.
    """

    rows: Float[torch.Tensor, "rows F"]
    sketch: int
    scaled: bool


@contextlib.contextmanager
def measure_passes(engine: Any, kind: str) -> Iterator[None]:
    """Add the features of rollouts to the outputs of an engine's forward passes; ``kind`` is one of ``KINDS``."""
    prepare, began = engine.prepare_model_outputs, time.perf_counter()
    with (_adapters_reader if kind == "full" else _head_reader)(engine) as reader:
        before = time.perf_counter() - began  # the first pass counts it

        def with_features(output: Any, output_args: Any, micro_batch: Any, logits_processor_func: Any) -> Any:
            nonlocal before
            get_torch_device().synchronize()
            began = time.perf_counter()
            with torch.autocast(output.logits.device.type, enabled=False):  # else products are rounded to bfloat16
                rows, sketch, scaled = reader(output.logits, micro_batch)  # before verl scales them
            get_torch_device().synchronize()
            seconds, before = before + time.perf_counter() - began, 0.0
            cost = torch.tensor([seconds / len(rows), sketch, scaled], device=rows.device)
            output.logits = output.logits.detach()
            with torch.no_grad():
                outputs: dict[str, Any] = prepare(output, output_args, micro_batch, logits_processor_func)
            return outputs | {FEATURES: rows, COST: cost.expand(len(rows), -1)}

        engine.prepare_model_outputs = with_features
        try:
            yield
        finally:
            del engine.prepare_model_outputs


Reader = Callable[[torch.Tensor, Any], Features]  # of the logits and the microbatch of the last forward pass


@contextlib.contextmanager
def _head_reader(engine: Any) -> Iterator[Reader]:
    """Give a function that reads the last layer's features of the last forward pass."""
    states: list[torch.Tensor] = []
    hook = engine.module.get_output_embeddings().register_forward_pre_hook(lambda _, inputs: states.append(inputs[0]))

    def reader(logits: torch.Tensor, micro_batch: Any) -> Features:
        hidden = states.pop()
        size = sketch_size(hidden.shape[-1], logits.shape[-1])
        return Features(row_features(hidden, logits, micro_batch), size, False)

    try:
        yield reader
    finally:
        hook.remove()


@contextlib.contextmanager
def _adapters_reader(engine: Any) -> Iterator[Reader]:
    """Give a function that reads the adapters' features of the last forward pass, which is made with gradients.

    The gradient of a linear layer is the sum over tokens of its input times the gradient of its output. Both are on
    the worker that has the rollout, however the layer's parameters are sharded.
    """
    for part in engine.module.modules():
        if isinstance(part, FSDPModule):
            part.reshard()  # the optimizer knows the parameters by their shards
    layers = adapter_layers(engine.module)
    by_weight = root_preconditioner(engine.optimizer)
    scales = [by_weight[layer.weight] for layer in layers.values()] if by_weight else []
    passes: dict[torch.nn.Linear, list[tuple[torch.Tensor, torch.Tensor]]] = {layer: [] for layer in layers.values()}

    def keep(layer: Any, inputs: Any, output: torch.Tensor) -> None:
        passes[layer].append((inputs[0].detach(), output))

    def forward_step(*arguments: Any, **settings: Any) -> Any:
        with torch.enable_grad():
            return step(*arguments, **settings)

    def reader(logits: torch.Tensor, micro_batch: Any) -> Features:
        for name, layer in layers.items():
            if [output.shape[:2] for _, output in passes[layer]] != [logits.shape[:2]]:
                raise InputError(
                    f"algorithm.simlab_probe.estimator = full: {name} does not see each token once; allowed: layers "
                    "that do (leave others out by model.exclude_modules)"
                )
        scales[:] = [scale.to(logits.device) for scale in scales]  # once: they may have been offloaded
        rows = adapter_features([passes[layer].pop() for layer in layers.values()], logits, micro_batch, scales)
        return Features(rows, SKETCH, bool(scales))

    hooks = [layer.register_forward_hook(keep) for layer in layers.values()]
    step, engine.forward_step = engine.forward_step, forward_step
    try:
        yield reader
    finally:
        del engine.forward_step
        for hook in hooks:
            hook.remove()


def adapter_layers(module: torch.nn.Module) -> dict[str, torch.nn.Linear]:
    """Return by name the linear layers of the adapters that are trained.

    Raises: InputError: where anything else is trained, or nothing.
    """
    layers = {
        name: layer
        for name, layer in module.named_modules()
        if isinstance(layer, torch.nn.Linear) and layer.weight.requires_grad
    }
    trained = [name for name, value in module.named_parameters() if value.requires_grad]
    others = [name for name in trained if name.removesuffix(".weight") not in layers]
    if others or not layers:
        what = others[0] if others else "no layer"
        raise InputError(f"algorithm.simlab_probe.estimator = full: {what} is trained; allowed: linear adapters")
    return layers


class Row(NamedTuple):
    """A rollout in a microbatch.

    Attributes:
        batch: index along the first axis of the logits.
        tokens: positions of prompt and response.
        before: positions whose logits predict the response.
        response: token ids.
        mask: 1 where a token of the response is learned from.
        temperature: the sampler's.
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
) -> Float[torch.Tensor, "rows F"]:
    """Return the gradients of each row's log-probability by linear layers, projected onto ``SKETCH`` numbers.

    Args:
        layers: the input and the output of each in the pass that made the logits.
        logits: with their graph.
        micro_batch: verl's.
        scales: the factors M^(1/2) of each layer's weights; empty for 1.
    """
    rows = list(rows_of(micro_batch, packed=len(logits) == 1))
    with torch.enable_grad():
        logp = [log_probability(logits[row.batch, row.before], row.response, row.mask, row.temperature) for row in rows]
        gradients = torch.autograd.grad(torch.stack(logp).sum(), [output for _, output in layers])
    features = []
    for row in rows:
        leaves = [
            gradient[row.batch, row.tokens].float().T @ inputs[row.batch, row.tokens].float()
            for (inputs, _), gradient in zip(layers, gradients, strict=True)
        ]
        if scales:
            leaves = [leaf * scale for leaf, scale in zip(leaves, scales, strict=True)]
        features.append(sketched([leaf.float().flatten() for leaf in leaves], SKETCH))
    return torch.stack(features)


def sketch_size(hidden: int, vocabulary: int) -> int:
    """Return onto how many numbers one projection would have the error of both; 0 for none."""
    first = projected_size(vocabulary)
    second = SKETCH if hidden * min(vocabulary, PROJECTED) > SKETCH else 0
    return first * second // (first + second) if first and second else first or second


def measuring_workers(mapping: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return, of verl's classes of workers by their roles, what stands for those that hold the actor."""
    actors = (Role.Actor, Role.ActorRollout, Role.ActorRolloutRef)
    return {role: ray.remote(ProbedActorRolloutRefWorker) for role in mapping if role in actors}
