"""Extend verl's trainer by fields of tokens and states in checkpoints; put simlab's names into verl's registries."""

import json
import logging
from pathlib import Path
from typing import Any

import torch
import transfer_queue
from verl.trainer.ppo import core_algos
from verl.trainer.ppo.v1 import trainer_base
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

from simlab.adapters.grouping import MEMORY
from simlab.adapters.verl import functions
from simlab.adapters.verl.functions import PREFIX, TOKEN_FIELDS, advantage_function, memory, policy_loss
from simlab.adapters.verl.probe import BatchProbe
from simlab.adapters.verl.workers import FLAG, measuring_workers
from simlab.diagnose.live import Live
from simlab.errors import InputError, check_choice
from simlab.estimators import REGISTRY, Estimator, chain
from simlab.files import write_whole
from simlab.surrogates import SURROGATES

PROBED = ("every", "share", "estimator", "threshold")  # settings of ``BatchProbe``
LIVE = ("every", "window", "threshold", "level", "share")  # the numbers of ``simlab.diagnose.live.Live``

Trainer: Any = object  # at run time a mixin; all other attributes are the trainer's


class SimlabPPOMixin(Trainer):
    """Estimators of the laboratory that read tokens or remember batches, for a subclass of verl's ``PPOTrainer``.

    It supplies the log-probabilities and entropies of the whole batch, which verl has computed by then, and the parts
    of rewards that ``algorithm.gdpo_reward_keys`` names. It saves the states of estimators as
    ``simlab_estimator.json`` in the folder of a checkpoint. With ``algorithm.simlab_diagnose``, a mapping that may be
    empty, each step's metrics hold those of ``simlab.diagnose.live``. With ``algorithm.simlab_probe`` files in a folder
    ``probe`` say now and then how the prompts of a batch move one another: see ``BatchProbe``.

    Raises: InputError: before any worker starts, for settings of an estimator or surrogate that it does not take, for
    settings that would have no effect, and for methods that verl cannot run.
    """

    def __init__(self, config: Any):
        self._estimator, self._text = _chosen_estimator(config.algorithm)
        actor = config.actor_rollout_ref.actor
        mode = str(actor.policy_loss.loss_mode)
        if mode.startswith(PREFIX):
            check_choice("policy_loss.loss_mode", mode, [PREFIX + name for name in SURROGATES])
            functions.configured_surrogate(mode.removeprefix(PREFIX), actor)
        settings = config.algorithm.get("simlab_diagnose")
        for name in settings or ():
            check_choice("algorithm.simlab_diagnose", str(name), LIVE)
        self._live = None if settings is None else Live(**settings)
        chosen = config.algorithm.get("simlab_probe")
        for name in chosen or ():
            check_choice("algorithm.simlab_probe", str(name), PROBED)
        self._probe = None if chosen is None else BatchProbe(config, self._estimator, **chosen)
        memory.clear()
        super().__init__(config)

    def _init_resource_pool_mgr(self) -> None:
        """Choose the classes of workers, which measure where that is asked for."""
        super()._init_resource_pool_mgr()
        if self._probe is not None:
            self.role_worker_mapping.update(measuring_workers(self.role_worker_mapping))

    def _compute_old_log_prob(self, batch: Any, metrics: dict[str, Any]) -> Any:
        """Compute the log-probabilities before the update; on steps that are due, the workers measure each rollout."""
        if self._probe is not None:
            self._probe.ask(batch, self.global_steps)
        computed = super()._compute_old_log_prob(batch, metrics)
        computed.extra_info.pop(FLAG, None)
        return computed

    def _update_actor(self, batch: Any, metrics: dict[str, Any]) -> Any:
        """Update the actor; write what was measured, for the norm of the gradient is known now."""
        updated = super()._update_actor(batch, metrics)
        if self._probe is not None and self._probe.waits:
            columns = _columns(batch, list(BatchProbe.fields))
            self._probe.write(columns, self.tokenizer, metrics, self.global_steps)
        return updated

    def _compute_advantage(self, batch: Any, metrics: dict[str, Any]) -> Any:
        """Compute advantages with the token fields, and the parts of the rewards, that the estimator reads."""
        fields = self._parts(batch) if "parts" in self._estimator.needs else {}
        if needs := sorted(self._estimator.needs & TOKEN_FIELDS.keys()):
            data = _columns(batch, [TOKEN_FIELDS[name] for name in needs])
            fields |= {name: data[TOKEN_FIELDS[name]].to_padded_tensor(0.0) for name in needs}
        if self._live is not None:
            metrics.update(self._diagnose(self._live, batch))
        with functions.supplied(**fields):
            return super()._compute_advantage(batch, metrics)

    def _parts(self, batch: Any) -> dict[str, torch.Tensor]:
        """Return parts and weights, (rows, R), of what verl's reward function returned by name; 0 where one is missing.

        ``algorithm.gdpo_reward_keys`` names the parts, and ``gdpo_reward_weights`` weighs them, as for verl's own gdpo.
        """
        algorithm, entries = self.config.algorithm, list(_columns(batch, ["extra_fields"])["extra_fields"])
        names = list(algorithm.gdpo_reward_keys)
        weights = torch.tensor(list(algorithm.get("gdpo_reward_weights") or [1.0] * len(names)))
        rows = [entry.get("reward_extra_info", {}) if isinstance(entry, dict) else {} for entry in entries]
        returned = {key for row in rows for key in row}
        for name in names:
            check_choice("algorithm.gdpo_reward_keys", name, sorted(returned))
        values = torch.tensor(
            [[float("nan" if (value := row.get(name)) is None else value) for name in names] for row in rows]
        )
        return {"parts": values.nan_to_num(), "part_weights": torch.where(values.isnan(), 0, weights)}

    def _diagnose(self, live: Live, batch: Any) -> dict[str, float]:
        """Return the metrics of ``simlab.diagnose.live`` of a batch."""
        data = _columns(batch, ["uid", "rm_scores", "responses", "response_mask"])
        scores = data["rm_scores"].to_padded_tensor(0.0).sum(dim=1)
        written = data["response_mask"].to_padded_tensor(0).sum(dim=1) > 0  # rows that fill a batch up have no token
        rewards = torch.where(written, scores, torch.nan).tolist()
        texts = [self.tokenizer.decode(ids, skip_special_tokens=True) for ids in data["responses"].unbind()]
        return live.observe(list(data["uid"]), rewards, texts)

    def _save_checkpoint(self) -> None:
        """Save the estimator's state before the checkpoint: verl notes last that a checkpoint is complete."""
        folder = self._step_folder()
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / MEMORY, json.dumps(memory).encode())
        super()._save_checkpoint()

    def _load_checkpoint(self) -> None:
        """Load a checkpoint with the estimator's state."""
        super()._load_checkpoint()
        if self._probe is not None:
            self._probe.begin(self.global_steps)
        if not self.global_steps:
            return
        settings = self.config.trainer
        chosen = Path(settings.resume_from_path) if settings.resume_mode == "resume_path" else None
        path = (chosen or self._step_folder()) / MEMORY
        if path.exists():
            memory.update(json.loads(path.read_text()))
        if self._estimator.remembers and self._text not in memory:
            logging.getLogger(__name__).warning("%s holds nothing of %s, which begins without memory", path, self._text)

    def _step_folder(self) -> Path:
        return Path(self.config.trainer.default_local_dir) / f"global_step_{self.global_steps}"


class SimlabPPOTrainerSync(SimlabPPOMixin, PPOTrainerSync):
    """verl's synchronous trainer with ``SimlabPPOMixin``: ``trainer.v1.trainer_mode=simlab_sync``."""

    def __init__(self, config: Any):
        config.trainer.v1.trainer_mode = "sync"  # any other name makes verl's trainers asynchronous
        super().__init__(config)


def _columns(batch: Any, names: list[str]) -> Any:
    return transfer_queue.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=names)


def _chosen_estimator(algorithm: Any) -> tuple[Estimator, str]:
    """Return the chosen estimator and its text; for one of verl's, an estimator that needs nothing."""
    name = str(algorithm.adv_estimator)
    if not name.startswith(PREFIX):
        if algorithm.get("simlab"):
            raise InputError(
                f"algorithm.simlab = {dict(algorithm.simlab)} would have no effect on adv_estimator = {name!r}; "
                "allowed: with an estimator simlab_NAME"
            )
        return chain(), name
    chosen, text = functions.configured_estimator(name.removeprefix(PREFIX), algorithm)
    if "parts" in chosen.needs:
        names = list(algorithm.get("gdpo_reward_keys") or [])
        numbers = list(algorithm.get("gdpo_reward_weights") or names)
        if not names or len(numbers) != len(names):
            raise InputError(
                f"adv_estimator = {name} with algorithm.gdpo_reward_keys = {names}, gdpo_reward_weights = {numbers}; "
                "allowed: keys of what the reward function returns, and a weight for each or none"
            )
    for field in sorted(chosen.needs - {"rewards", "parts"}):
        check_choice(f"a field of tokens that adv_estimator = {name} needs", field, TOKEN_FIELDS)
    correction = algorithm.get("rollout_correction") or {}
    if "entropy" in chosen.needs and correction.get("bypass_mode"):
        raise InputError(
            f"algorithm.rollout_correction.bypass_mode = True leaves out the entropy that adv_estimator = {name} "
            "needs; allowed: False"
        )
    return chosen, text


# verl's registries


def entries() -> dict[str, tuple[Any, Any, dict[str, Any]]]:
    """Return each registry by the last part of its setting, with the function that adds to it and simlab's entries."""
    estimators = {PREFIX + name: advantage_function(name) for name in REGISTRY}
    losses = {PREFIX + name: policy_loss(name) for name in SURROGATES}
    trainers = {PREFIX + "sync": SimlabPPOTrainerSync}
    return {
        "adv_estimator": (core_algos.ADV_ESTIMATOR_REGISTRY, core_algos.register_adv_est, estimators),
        "loss_mode": (core_algos.POLICY_LOSS_REGISTRY, core_algos.register_policy_loss, losses),
        "trainer_mode": (trainer_base.TRAINER_REGISTRY, trainer_base.register_trainer, trainers),
    }


def register() -> None:
    """Register all entries, again after adding one; verl's ``ValueError`` where another plug-in has taken a name."""
    for _, add, named in entries().values():
        for name, entry in named.items():
            add(name)(entry)


def missing() -> list[str]:
    """Return the names that verl lacks, or has for something else, such as ``loss_mode = simlab_cispo``."""
    return [
        f"{setting} = {name}"
        for setting, (registry, _, named) in entries().items()
        for name, entry in named.items()
        if registry.get(name) is not entry
    ]
