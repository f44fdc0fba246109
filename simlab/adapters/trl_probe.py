"""Measure while TRL's ``GRPOTrainer`` trains which prompts harm one another: ``simlab diagnose`` says it.

    from simlab.adapters.trl_probe import ProbeCallback

    trainer = GRPOTrainer(...)
    trainer.add_callback(ProbeCallback(trainer, every=10))

The estimator ``head`` is that of the last layer (``simlab.interference.head``): a forward pass over the rollouts of a
batch before its update, and no gradient. ``full``, for adapters, takes the gradient of each rollout by all that is
trained, times M^(1/2) of Adam, projected by random signs. Files are in the folder ``probe`` of the trainer's output.
"""

import dataclasses
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from transformers import TrainerCallback
from transformers.integrations.deepspeed import is_deepspeed_zero3_enabled

from simlab.adapters.measuring import (
    KINDS,
    SKETCH,
    Scales,
    batch_record,
    check_method,
    log_probability,
    root_preconditioner,
    sketched,
)
from simlab.adapters.trl import join_sequences, learned_tokens, logged_rewards
from simlab.arms import parse
from simlab.diagnose.pace import Pace
from simlab.diagnose.reading.cells import message_text
from simlab.errors import InputError, check_choice, check_whole
from simlab.interference.head import head_features, projected_size, projection, residuals
from simlab.interference.kernel import FEWEST
from simlab.interference.record import FOLDER, Record, remove_later, write_record
from simlab.methods import Method

ESTIMATORS = {"group": "grpo(ddof=1,eps=0.0001)", "none": "dr_grpo"}  # by GRPOConfig.scale_rewards
AGGREGATIONS = {  # by GRPOConfig.loss_type
    "grpo": "sequence_mean", "sapo": "sequence_mean", "dr_grpo": "constant", "bnpo": "token_mean", "dapo": "token_mean",
    "cispo": "token_mean", "vespo": "token_mean",
}  # fmt: skip


class ProbeCallback(TrainerCallback):  # type: ignore[misc]  # of an untyped package
    """Write a measurement of the interference between the prompts of a batch, now and then.

    Of several processes the first measures, and its whole groups alone. A rollout takes 1 KiB of memory for each unit
    of the hidden size.

    Args:
        trainer: TRL's ``GRPOTrainer``, or a subclass. Its ``_generate_and_score_completions`` is wrapped: TRL 1.16
            hands callbacks no rollouts.
        every: steps from one measurement to the next.
        estimator: ``"head"``, or ``"full"``: a backward pass for each rollout.
        share: the most of the run's time that measuring may take: one that would take more waits. The first measures
            the time of one, and is made when it is due. The metric ``probe/share`` says what was taken.
        threshold: least reward of a correct rollout; None where all rewards are 0 or 1.
        method: whose weights the update has, as text or ``Method``; by default those of the trainer.

    Raises: InputError: for numbers outside of their range; a method that reads more than rewards, and settings whose
    method is not known; groups of fewer than three; parameters that are sharded (FSDP, ZeRO-3). In training, for
    rewards other than 0 and 1 without a threshold.
    """

    def __init__(
        self,
        trainer: Any,
        every: int = 10,
        *,
        estimator: str = "head",
        share: float = 0.05,
        threshold: float | None = None,
        method: Method | str | None = None,
    ):
        check_choice("estimator", estimator, KINDS)
        self._schedule = Pace(every, share)
        check_whole("GRPOConfig.num_generations", trainer.num_generations, FEWEST)
        if trainer.is_fsdp_enabled or is_deepspeed_zero3_enabled():
            raise InputError("the parameters are sharded (FSDP, ZeRO-3); allowed: whole ones in each process")
        self._method = parse(method).build() if isinstance(method, str) else method or trainer_method(trainer)
        check_method(self._method)
        self._trainer, self._estimator, self._threshold = trainer, estimator, threshold
        self._clip, self._waiting = 1.0, list[Record]()
        self._score = trainer._generate_and_score_completions
        trainer._generate_and_score_completions = self._watch

    @property
    def folder(self) -> Path:
        """Folder of the files."""
        return Path(self._trainer.args.output_dir) / FOLDER

    def on_train_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Begin the clock, and remove what a run that was cut off had measured beyond its checkpoint."""
        self._schedule.begin(state.global_step)
        if state.is_world_process_zero:
            remove_later(self.folder, state.global_step)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **others: Any) -> None:
        """Read by how much the last gradient was clipped, where the trainer logs it."""
        norm = (logs or {}).get("grad_norm")
        if norm and args.max_grad_norm:
            self._clip = min(1.0, args.max_grad_norm / float(norm))

    def on_step_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Write what the step before has measured, whose gradient's norm is logged by now."""
        while self._waiting:
            record = self._waiting.pop()
            write_record(self.folder, record._replace(facts={**record.facts, "clip": self._clip}))

    on_train_end = on_step_begin

    def _watch(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        memory = getattr(self._trainer, "_memory", None)
        output: dict[str, Any] = self._score(inputs)
        began, step = time.perf_counter(), self._trainer.state.global_step + 1
        is_due = self._trainer.model.training and self._schedule.is_due(step)
        if is_due and self._trainer.state.is_world_process_zero:
            if record := self._measure(output, memory, step):
                self._waiting.append(record)
            share = self._schedule.spend(step, time.perf_counter() - began)
            self._trainer._metrics["train"]["probe/share"].append(share)
        return output

    def _measure(self, output: dict[str, Any], memory: Any, step: int) -> Record | None:
        """Measure the first process's groups; those in which fewer than three rollouts were judged are left out."""
        trainer, size = self._trainer, self._trainer.num_generations
        prompts, everywhere = len(output["completion_ids"]) // size, trainer.args.generation_batch_size // size
        tokens = learned_tokens(output)[: prompts * size].numpy(force=True).reshape(prompts, size, -1) > 0
        scales = root_preconditioner(trainer.optimizer) if self._estimator == "full" else None
        if self._estimator == "full":
            sketch, features = SKETCH, gradient_rows(trainer, output, prompts * size, scales, SKETCH)
        else:
            sketch = projected_size(trainer.model.config.vocab_size)
            features = head_rows(trainer, output, prompts * size)
        return batch_record(
            {**self._facts(step), "sketch": sketch, "preconditioner": "adam" if scales else "none"},
            [message_text(each, "prompt") or "" for each in list(trainer._logs["prompt"])[: prompts * size : size]],
            logged_rewards(trainer)[: prompts * size].reshape(prompts, size),
            tokens,
            features.reshape(prompts, size, -1),
            method=self._method,
            threshold=self._threshold,
            memory=memory,
            prompts=everywhere,
        )

    def _facts(self, step: int) -> dict[str, Any]:
        trainer, args = self._trainer, self._trainer.args
        return {
            "step": step,
            "estimator": self._estimator,
            "optimizer": str(getattr(args.optim, "value", args.optim)),
            "method": self._method.estimator.name,
            "learning_rate": trainer.optimizer.param_groups[0]["lr"],
            "clip": 1.0,  # until the norm of the step's gradient is known
            "updates": trainer.num_iterations * args.steps_per_generation / args.gradient_accumulation_steps,
            "group_size": trainer.num_generations,
            "temperature": trainer.temperature,
        }


def trainer_method(trainer: Any) -> Method:
    """Return the method whose weights a trainer's update has, where the policy is still that which sampled."""
    method: Method | None = getattr(trainer, "_method", None)
    if method is not None:
        return method
    loss, scaling = trainer.args.loss_type, trainer.args.scale_rewards
    check_choice("GRPOConfig.loss_type", loss, AGGREGATIONS)
    check_choice("GRPOConfig.scale_rewards", scaling, ESTIMATORS)
    built: Method = parse(f"{ESTIMATORS[scaling]}@{AGGREGATIONS[loss]}").build()
    estimator = getattr(trainer, "_estimator", built.estimator)
    return dataclasses.replace(built, estimator=estimator, normaliser=trainer.max_completion_length)


def head_rows(trainer: Any, output: dict[str, Any], count: int) -> Float[np.ndarray, "rows F"]:
    """Return the features of the first rollouts by the last layer, in forward passes of the size of the trainer's."""
    model = trainer.accelerator.unwrap_model(trainer.model)
    ids, attention, length = join_sequences(output)
    onto = torch.as_tensor(projection(model.config.vocab_size), device=ids.device)
    used, features = learned_tokens(output), []
    with torch.no_grad(), _inputs_of(model.get_output_embeddings()) as seen:
        for rows in torch.arange(count).split(trainer.args.per_device_train_batch_size):
            with trainer.accelerator.autocast():
                logits = model(input_ids=ids[rows], attention_mask=attention[rows], use_cache=False).logits
            hidden, logits = (values[:, -length - 1 : -1].float() for values in (seen.pop(), logits))
            residual = residuals(logits, output["completion_ids"][rows], trainer.temperature, onto)
            features.append(head_features(hidden, residual, used[rows]).numpy(force=True))
    return np.concatenate(features)


def gradient_rows(
    trainer: Any, output: dict[str, Any], count: int, scales: Scales | None, sketch: int
) -> Float[np.ndarray, "rows F"]:
    """Return the features of the first rollouts by all that is trained: gradients of their log-probabilities.

    ``scales`` are the factors M^(1/2) of each parameter, None for 1; a sketch of 0 keeps all numbers.
    """
    model = trainer.accelerator.unwrap_model(trainer.model)
    trained = [value for value in model.parameters() if value.requires_grad]
    ids, attention, length = join_sequences(output)
    used, features = learned_tokens(output), []
    for row in range(count):
        one = slice(row, row + 1)
        with trainer.accelerator.autocast():
            logits = model(input_ids=ids[one], attention_mask=attention[one], use_cache=False).logits
        tokens = output["completion_ids"][row]
        logp = log_probability(logits[0, -length - 1 : -1], tokens, used[row], trainer.temperature)
        gradients = torch.autograd.grad(logp, trained, allow_unused=True)
        leaves = [
            torch.zeros_like(value) if leaf is None else leaf for value, leaf in zip(trained, gradients, strict=True)
        ]
        if scales is not None:
            leaves = [leaf * scales[value] for value, leaf in zip(trained, leaves, strict=True)]
        features.append(sketched([leaf.float().flatten() for leaf in leaves], sketch).numpy(force=True))
    return np.stack(features)


@contextmanager
def _inputs_of(module: Any) -> Iterator[list[torch.Tensor]]:
    """Give a list to which each call of a module appends its first argument."""
    seen: list[torch.Tensor] = []
    hook = module.register_forward_pre_hook(lambda _, arguments: seen.append(arguments[0]))
    try:
        yield seen
    finally:
        hook.remove()
