"""Measure while TRL's ``GRPOTrainer`` trains which prompts harm one another: ``simlab diagnose`` says it.

    from simlab.adapters.trl_probe import ProbeCallback

    trainer = GRPOTrainer(...)
    trainer.add_callback(ProbeCallback(trainer, every=10))

The estimator is that of the last layer (``simlab.interference.head``): a forward pass over the rollouts of a batch
before its update, and no gradient. Its files are in the folder ``probe`` of the trainer's output.
"""

import dataclasses
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from transformers import TrainerCallback
from transformers.integrations.deepspeed import is_deepspeed_zero3_enabled

from simlab.adapters.trl import join_sequences, learned_tokens, logged_rewards
from simlab.arms import parse
from simlab.diagnose.live import are_correct
from simlab.diagnose.reading.cells import message_text
from simlab.errors import InputError, check_choice, check_range, check_whole
from simlab.interference.head import head_features, projected_size, projection, residuals
from simlab.interference.kernel import FEWEST, measure
from simlab.interference.record import FOLDER, Record, remove_later, write_record
from simlab.interference.weights import rollout_weights
from simlab.methods import Method
from simlab.rollouts import Rollouts

ESTIMATORS = {"group": "grpo(ddof=1,eps=0.0001)", "none": "dr_grpo"}  # by GRPOConfig.scale_rewards
AGGREGATIONS = {  # by GRPOConfig.loss_type
    "grpo": "sequence_mean", "sapo": "sequence_mean", "dr_grpo": "constant", "bnpo": "token_mean", "dapo": "token_mean",
    "cispo": "token_mean", "vespo": "token_mean",
}  # fmt: skip
READ = frozenset({"rewards"})  # what the weights of a group without one of its members are computed from


class ProbeCallback(TrainerCallback):  # type: ignore[misc]  # of an untyped package
    """Write a measurement of the interference between the prompts of a batch, now and then.

    Of several processes the first measures, and its whole groups alone. A rollout takes 1 KiB of memory for each unit
    of the hidden size.

    Args:
        trainer: TRL's ``GRPOTrainer``, or a subclass. Its ``_generate_and_score_completions`` is wrapped: TRL 1.16
            hands callbacks no rollouts.
        every: steps from one measurement to the next.
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
        share: float = 0.05,
        threshold: float | None = None,
        method: Method | str | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ):
        check_whole("every", every, 1)
        check_range("share", share, 0, 1, open_low=True)
        check_whole("GRPOConfig.num_generations", trainer.num_generations, FEWEST)
        if trainer.is_fsdp_enabled or is_deepspeed_zero3_enabled():
            raise InputError("the parameters are sharded (FSDP, ZeRO-3); allowed: whole ones in each process")
        self._method = parse(method).build() if isinstance(method, str) else method or trainer_method(trainer)
        if more := self._method.needs - READ:
            raise InputError(f"the method reads {', '.join(sorted(more))}; allowed: one of rewards alone, with method=")
        self._trainer, self._every, self._share, self._threshold = trainer, every, share, threshold
        self._clock, self._began, self._spent, self._longest = clock, clock(), 0.0, 0.0
        self._last, self._clip, self._waiting = 0, 1.0, list[Record]()
        self._score = trainer._generate_and_score_completions
        trainer._generate_and_score_completions = self._watch

    @property
    def folder(self) -> Path:
        """Folder of the files."""
        return Path(self._trainer.args.output_dir) / FOLDER

    def on_train_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Begin the clock, and remove what a run that was cut off had measured beyond its checkpoint."""
        self._began, self._last = self._clock(), state.global_step
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
        began, step = self._clock(), self._trainer.state.global_step + 1
        affordable = self._spent + self._longest <= self._share * (began - self._began) or not self._longest
        is_due = self._trainer.model.training and step >= self._last + self._every and affordable
        if is_due and self._trainer.state.is_world_process_zero:
            self._waiting = [self._measure(output, memory, step)]
            self._longest, self._last = self._clock() - began, step
            self._spent += self._longest
            metric = self._spent / max(self._clock() - self._began, 1e-9)
            self._trainer._metrics["train"]["probe/share"].append(metric)
        return output

    def _measure(self, output: dict[str, Any], memory: Any, step: int) -> Record:
        trainer, size = self._trainer, self._trainer.num_generations
        prompts = min(len(output["completion_ids"]), trainer.args.generation_batch_size) // size
        shape = (prompts, size)
        rewards = logged_rewards(trainer)[: prompts * size].reshape(shape)
        present: Bool[np.ndarray, "N G"] = ~np.isnan(rewards)
        kept = present.sum(axis=1) >= FEWEST
        features = rollout_features(trainer, output, prompts * size).reshape(*shape, -1)
        tokens = learned_tokens(output)[: prompts * size].numpy(force=True).reshape(*shape, -1) > 0
        rollouts = Rollouts(np.nan_to_num(rewards), mask=present, token_mask=tokens)
        everywhere = trainer.args.generation_batch_size // size
        weights, without = rollout_weights(self._method, rollouts, memory, prompts=everywhere)
        correct = are_correct(rewards, self._threshold)
        layer, *others = (values[kept] for values in (features, correct, weights, without))
        sketch = projected_size(trainer.model.config.vocab_size)
        found = measure([layer], *others, present=present[kept], sketch=sketch)
        texts = [
            message_text(prompt, "prompt") or "" for prompt in list(trainer._logs["prompt"])[: prompts * size : size]
        ]
        args, count = trainer.args, present[kept].sum(axis=1)
        facts = {
            "step": step,
            "estimator": "head",
            "preconditioner": "none",
            "optimizer": str(getattr(args.optim, "value", args.optim)),
            "method": self._method.estimator.name,
            "learning_rate": trainer.optimizer.param_groups[0]["lr"],
            "clip": 1.0,
            "updates": trainer.num_iterations * args.steps_per_generation / args.gradient_accumulation_steps,
            "sketch": sketch,
            "group_size": size,
            "temperature": trainer.temperature,
        }
        named = [text for text, known in zip(texts, kept, strict=True) if known]
        return Record(facts, named, np.ones(len(named), bool), count, correct[kept].sum(axis=1) / count, found)


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


def rollout_features(trainer: Any, output: dict[str, Any], count: int) -> Float[np.ndarray, "rows F"]:
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


@contextmanager
def _inputs_of(module: Any) -> Iterator[list[torch.Tensor]]:
    """Give a list to which each call of a module appends its first argument."""
    seen: list[torch.Tensor] = []
    hook = module.register_forward_pre_hook(lambda _, arguments: seen.append(arguments[0]))
    try:
        yield seen
    finally:
        hook.remove()
