"""Measure how the prompts of a batch move one another, by the last layer alone: see ``simlab.interference.head``.

verl's trainer sees no hidden states. Its workers do, when they compute the log-probabilities of the policy before its
update: there, in the same forward pass, ``ProbedTrainingWorker`` reads what each rollout has to do with the last layer,
and sends it back as a field of the batch. ``BatchProbe`` asks for it, and writes the record.
"""

import contextlib
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import ray
import torch
from jaxtyping import Float
from verl.trainer.ppo.utils import Role
from verl.utils import tensordict_utils
from verl.utils.device import get_torch_device
from verl.workers.engine_workers import ActorRolloutRefWorker, TrainingWorker

from simlab.adapters.grouping import Grouping
from simlab.adapters.measuring import SKETCH, batch_record, check_method, sketched
from simlab.adapters.verl.functions import PREFIX, configured_surrogate
from simlab.diagnose.pace import Pace
from simlab.errors import InputError, check_choice, check_range, check_whole
from simlab.estimators import Estimator, estimator
from simlab.interference.head import PROJECTED, head_features, projected_size, projection, residuals
from simlab.interference.kernel import FEWEST
from simlab.interference.record import FOLDER, remove_later, write_record
from simlab.methods import Method
from simlab.surrogates import ppo_clip

FLAG = "simlab_probe"  # in the settings of a batch: its rollouts are measured
FEATURES, HOW = "simlab_features", "simlab_how"  # fields that workers add: of each row, and its time and sketch
AGGREGATIONS = {  # by actor.loss_agg_mode
    "token-mean": "token_mean", "seq-mean-token-mean": "sequence_mean", "seq-mean-token-sum": "constant",
    "seq-mean-token-sum-norm": "constant",
}  # fmt: skip
STRATEGIES = ("fsdp", "fsdp2")  # whose workers hold whole rows and whole vocabularies


# In the workers


class ProbedTrainingWorker(TrainingWorker):  # type: ignore[misc]  # of an untyped package
    """A worker whose forward passes measure rollouts where the batch asks for it."""

    def infer_batch(self, data: Any) -> Any:
        """Compute log-probabilities, with the fields ``FEATURES`` and ``HOW`` where ``FLAG`` is set."""
        wanted = tensordict_utils.get_non_tensor_data(data=data, key=FLAG, default=False)
        with measured(self.engine) if wanted else contextlib.nullcontext():
            return super().infer_batch(data)


class ProbedActorRolloutRefWorker(ActorRolloutRefWorker):  # type: ignore[misc]  # of an untyped package
    """verl's worker whose actor is a ``ProbedTrainingWorker``."""

    actor_worker_cls = ProbedTrainingWorker


@contextlib.contextmanager
def measured(engine: Any) -> Iterator[None]:
    """Add the features of rollouts to the outputs of an engine's forward passes."""
    seen: list[torch.Tensor] = []
    hook = engine.module.get_output_embeddings().register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    own = engine.prepare_model_outputs

    def with_features(output: Any, output_args: Any, micro_batch: Any, logits_processor_func: Any) -> dict[str, Any]:
        get_torch_device().synchronize()
        began = time.perf_counter()
        hidden, logits = seen.pop(), output.logits  # before verl scales them
        rows, size = row_features(hidden, logits, micro_batch), sketch_size(hidden.shape[-1], logits.shape[-1])
        get_torch_device().synchronize()
        how = torch.tensor([(time.perf_counter() - began) / len(rows), size], device=rows.device)
        added = {FEATURES: rows, HOW: how.expand(len(rows), -1)}
        return own(output, output_args, micro_batch, logits_processor_func) | added

    engine.prepare_model_outputs = with_features
    try:
        yield
    finally:
        hook.remove()
        del engine.prepare_model_outputs


def row_features(
    hidden: Float[torch.Tensor, "B L D"], logits: Float[torch.Tensor, "B L V"], micro_batch: Any
) -> Float[torch.Tensor, "rows F"]:
    """Return the features of each row of a microbatch, projected onto ``SKETCH`` numbers where there are more.

    Rows are one after the other, with B = 1, where verl removes padding; else they are padded at their end.
    """
    texts, masks = micro_batch["input_ids"].unbind(), micro_batch["response_mask"].unbind()
    temperatures = torch.as_tensor(micro_batch["temperature"]).expand(len(texts)).tolist()
    packed, found, start = len(hidden) == 1, [], 0
    onto = torch.as_tensor(projection(logits.shape[-1]), device=logits.device)
    for row, (ids, mask, temperature) in enumerate(zip(texts, masks, temperatures, strict=True)):
        end = start + len(ids)
        span = slice(end - len(mask) - 1, end - 1)  # a position has the logits of the next token
        states, scores = (each[0 if packed else row, span].float() for each in (hidden, logits))
        residual = residuals(scores, ids[len(ids) - len(mask) :], temperature, onto)
        features = head_features(states, residual, mask)
        found.append(sketched([features], SKETCH if len(features) > SKETCH else 0))
        start = end if packed else 0
    return torch.stack(found)


def sketch_size(hidden: int, vocabulary: int) -> int:
    """Return onto how many numbers one projection would have the error of both; 0 for none."""
    first = projected_size(vocabulary)
    second = SKETCH if hidden * min(vocabulary, PROJECTED) > SKETCH else 0
    return first * second // (first + second) if first and second else first or second


# In the trainer


class BatchProbe:
    """Files in a folder ``probe`` that say how the prompts of a batch move one another.

    The folder lies in ``trainer.rollout_data_dir``, beside the rollouts that ``simlab diagnose`` reads, or in
    ``trainer.default_local_dir``.

    Args:
        config: verl's.
        chosen: the estimator of simlab that ``algorithm.adv_estimator`` names; any for one of verl's.
        every, share: see ``Pace``.
        threshold: least reward of a correct rollout; None where all rewards are 0 or 1.

    Raises: InputError: for numbers outside of their range, methods and settings that cannot be measured, and, in
    training, for rewards other than 0 and 1 without a threshold.
    """

    fields: ClassVar = ("uid", "rm_scores", "response_mask", "prompts", FEATURES, HOW)

    def __init__(
        self, config: Any, chosen: Estimator, every: int = 10, share: float = 0.05, threshold: float | None = None
    ):
        self._schedule = Pace(every, share)
        if threshold is not None:
            check_range("threshold", threshold)
        _check_settings(config)
        self._config, self._threshold, self._method = config, threshold, configured_method(config, chosen)
        check_method(self._method)
        self.waits = False

    @property
    def folder(self) -> Path:
        """Folder of the files."""
        settings = self._config.trainer
        return Path(settings.get("rollout_data_dir") or settings.default_local_dir) / FOLDER

    def begin(self, step: int) -> None:
        """Begin after so many steps, and remove what a run that was cut off had measured later."""
        self._schedule.begin(step)
        remove_later(self.folder, step)

    def ask(self, batch: Any, step: int) -> None:
        """Ask for the features of a batch where a measurement is due."""
        self.waits = self._schedule.is_due(step)
        if self.waits:
            batch.extra_info[FLAG] = True

    def write(self, columns: Any, tokenizer: Any, metrics: dict[str, Any], step: int) -> None:
        """Write the record of a batch whose update is done, and the metric ``probe/share``."""
        began, settings = time.perf_counter(), self._config.trainer
        grouping = Grouping(list(columns["uid"]))
        tokens = grouping.groups(columns["response_mask"].to_padded_tensor(0) > 0).numpy()
        scores = grouping.groups(columns["rm_scores"].to_padded_tensor(0.0).sum(dim=1)).numpy()
        features = torch.stack(list(columns[FEATURES].unbind()))
        how = torch.stack(list(columns[HOW].unbind()))
        texts = [tokenizer.decode(ids, skip_special_tokens=True) for ids in columns["prompts"].unbind()]
        record = batch_record(
            self._facts(metrics, step, int(how[0, 1])),
            list(dict(zip(columns["uid"], texts, strict=True)).values()),
            np.where(tokens.any(axis=-1), scores, np.nan),  # rows that fill a batch up have no token
            tokens,
            grouping.groups(features).numpy(),
            method=self._method,
            threshold=self._threshold,
        )
        if record is not None:
            write_record(self.folder, record)
        workers = settings.n_gpus_per_node * settings.nnodes
        spent = float(how[:, 0].sum()) / workers + time.perf_counter() - began
        metrics["probe/share"], self.waits = self._schedule.spend(step, spent), False

    def _facts(self, metrics: Mapping[str, Any], step: int, sketch: int) -> dict[str, Any]:
        actor, rollout = self._config.actor_rollout_ref.actor, self._config.actor_rollout_ref.rollout
        norm, largest = metrics["actor/grad_norm"], actor.optim.clip_grad
        return {
            "step": step,
            "estimator": "head",
            "preconditioner": "none",
            "optimizer": str(actor.optim.optimizer).lower(),
            "method": str(self._config.algorithm.adv_estimator),
            "learning_rate": metrics["actor/lr"],
            "clip": min(1.0, largest / norm) if norm else 1.0,
            "updates": actor.ppo_epochs * self._config.data.train_batch_size / actor.ppo_mini_batch_size,
            "sketch": sketch,
            "group_size": rollout.n,
            "temperature": rollout.temperature,
        }


def measuring_workers(mapping: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return, of verl's classes of workers by their roles, what stands for those that hold the actor."""
    actors = (Role.Actor, Role.ActorRollout, Role.ActorRolloutRef)
    return {role: ray.remote(ProbedActorRolloutRefWorker) for role in mapping if role in actors}


def configured_method(config: Any, chosen: Estimator) -> Method:
    """Return the method whose weights verl's update has, where the policy is still that which sampled."""
    actor, name = config.actor_rollout_ref.actor, str(config.algorithm.adv_estimator)
    if not name.startswith(PREFIX):
        check_choice("algorithm.adv_estimator", name, ("grpo", f"{PREFIX}NAME"))
        own = {"ddof": 1, "eps": 1e-6}
        chosen = estimator("grpo", **own) if config.algorithm.norm_adv_by_std_in_grpo else estimator("dr_grpo")
    mode, loss = str(actor.loss_agg_mode), str(actor.policy_loss.loss_mode)
    check_choice("actor.loss_agg_mode", mode, AGGREGATIONS)
    tokens = actor.loss_scale_factor if mode.endswith("-norm") else 1.0
    if tokens is None:
        raise InputError(f"actor.loss_scale_factor = None with loss_agg_mode = {mode}; allowed: a number of tokens")
    surrogate = configured_surrogate(loss.removeprefix(PREFIX), actor) if loss.startswith(PREFIX) else ppo_clip()
    return Method(chosen, surrogate, AGGREGATIONS[mode], tokens)


def _check_settings(config: Any) -> None:
    """Raise ``InputError`` for settings under which workers do not see whole rows, or are not asked."""
    both, actor = config.actor_rollout_ref, config.actor_rollout_ref.actor
    check_choice("actor.strategy", str(actor.strategy), STRATEGIES)
    check_whole("rollout.n", both.rollout.n, FEWEST)
    split = max(part.get("ulysses_sequence_parallel_size") or 1 for part in (actor, actor.fsdp_config))
    bypass = (config.algorithm.get("rollout_correction") or {}).get("bypass_mode")
    reasons = {
        f"ulysses_sequence_parallel_size = {split} splits rows": split > 1,
        "model.use_fused_kernels = True has no logits": both.model.get("use_fused_kernels"),
        "algorithm.rollout_correction.bypass_mode = True leaves out the pass that is read": bypass,
    }
    for reason, holds in reasons.items():
        if holds:
            raise InputError(f"algorithm.simlab_probe: {reason}; allowed: without that")
