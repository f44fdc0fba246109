"""Measure how the prompts of a batch move one another, by the last layer (``simlab.interference.head``) or by adapters.

verl's trainer sees no hidden states. ``BatchProbe`` asks its workers for the features of each rollout (``workers``),
and writes the record.
"""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from simlab.adapters.grouping import Grouping
from simlab.adapters.measuring import KINDS, batch_record, check_method
from simlab.adapters.verl.functions import PREFIX, configured_surrogate
from simlab.adapters.verl.workers import COST, FEATURES, FLAG
from simlab.diagnose.pace import Pace
from simlab.errors import InputError, check_choice, check_range, check_whole
from simlab.estimators import Estimator, estimator
from simlab.interference.kernel import FEWEST
from simlab.interference.record import FOLDER, remove_later, write_record
from simlab.methods import Method
from simlab.surrogates import ppo_clip

AGGREGATIONS = {  # by actor.loss_agg_mode
    "token-mean": "token_mean", "seq-mean-token-mean": "sequence_mean", "seq-mean-token-sum": "constant",
    "seq-mean-token-sum-norm": "constant",
}  # fmt: skip
STRATEGIES = ("fsdp", "fsdp2")  # whose workers hold whole rows and whole vocabularies


class BatchProbe:
    """Files in a folder ``probe`` that say how the prompts of a batch move one another.

    The folder lies in ``trainer.rollout_data_dir``, beside the rollouts that ``simlab diagnose`` reads, or in
    ``trainer.default_local_dir``.

    Args:
        config: verl's.
        chosen: the estimator of simlab that ``algorithm.adv_estimator`` names; any for one of verl's.
        every, share: see ``Pace``.
        estimator: ``"head"``, or ``"full"`` where adapters are trained.
        threshold: least reward of a correct rollout; None where all rewards are 0 or 1.

    Raises: InputError: for numbers outside of their range, methods and settings that cannot be measured, and, in
    training, for rewards other than 0 and 1 without a threshold.
    """

    fields: ClassVar = ("uid", "rm_scores", "response_mask", "prompts", FEATURES, COST)

    def __init__(
        self,
        config: Any,
        chosen: Estimator,
        *,
        every: int = 10,
        share: float = 0.05,
        estimator: str = "head",
        threshold: float | None = None,
    ):
        self._schedule = Pace(every, share)
        if threshold is not None:
            check_range("threshold", threshold)
        check_choice("algorithm.simlab_probe.estimator", estimator, KINDS)
        _check_settings(config, estimator)
        self._kind = estimator
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
            batch.extra_info[FLAG] = self._kind

    def write(self, columns: Any, tokenizer: Any, metrics: dict[str, Any], step: int) -> None:
        """Write the record of a batch whose update is done, and the metric ``probe/share``."""
        began, settings = time.perf_counter(), self._config.trainer
        grouping = Grouping(list(columns["uid"]))
        tokens = grouping.groups(columns["response_mask"].to_padded_tensor(0) > 0).numpy()
        scores = grouping.groups(columns["rm_scores"].to_padded_tensor(0.0).sum(dim=1)).numpy()
        features = torch.stack(list(columns[FEATURES].unbind()))
        cost = torch.stack(list(columns[COST].unbind()))
        texts = [tokenizer.decode(ids, skip_special_tokens=True) for ids in columns["prompts"].unbind()]
        record = batch_record(
            self._facts(metrics, step, int(cost[0, 1]), bool(cost[0, 2])),
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
        spent = float(cost[:, 0].sum()) / workers + time.perf_counter() - began
        metrics["probe/share"], self.waits = self._schedule.spend(step, spent), False

    def _facts(self, metrics: Mapping[str, Any], step: int, sketch: int, scaled: bool) -> dict[str, Any]:
        actor, rollout = self._config.actor_rollout_ref.actor, self._config.actor_rollout_ref.rollout
        norm, largest = metrics["actor/grad_norm"], actor.optim.clip_grad
        return {
            "step": step,
            "estimator": self._kind,
            "preconditioner": "adam" if scaled else "none",
            "optimizer": str(actor.optim.optimizer).lower(),
            "method": str(self._config.algorithm.adv_estimator),
            "learning_rate": metrics["actor/lr"],
            "clip": min(1.0, largest / norm) if norm else 1.0,
            "updates": actor.ppo_epochs * self._config.data.train_batch_size / actor.ppo_mini_batch_size,
            "sketch": sketch,
            "group_size": rollout.n,
            "temperature": rollout.temperature,
        }


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


def _check_settings(config: Any, kind: str) -> None:
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
    if kind == "full":
        check_choice("actor.strategy with simlab_probe.estimator = full", str(actor.strategy), ("fsdp2",))
        check_whole("model.lora_rank with simlab_probe.estimator = full", both.model.lora_rank, 1)
        name, package = str(actor.optim.optimizer), str(actor.optim.optimizer_impl)
        reasons |= {
            "model.target_parameters have no layer that is read": both.model.get("target_parameters"),
            f"the moments of {package}.{name} are not known": "adam" in name.lower() and package != "torch.optim",
        }
    for reason, holds in reasons.items():
        if holds:
            raise InputError(f"algorithm.simlab_probe: {reason}; allowed: without that")
