"""Extend verl's trainer: give estimators log-probabilities and entropies, and keep their state in checkpoints."""

import json
import logging
from pathlib import Path
from typing import Any

import torch
import transfer_queue
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

from simlab.adapters.verl import estimators, losses
from simlab.adapters.verl.estimators import PREFIX, TOKEN_FIELDS, has_state, memory
from simlab.diagnose.live import Live
from simlab.errors import InputError, check_choice
from simlab.estimators import Estimator, chain
from simlab.files import write_whole
from simlab.surrogates import SURROGATES

MEMORY = "simlab_estimator.json"
LIVE = ("every", "window", "threshold", "level", "share")  # the numbers of ``simlab.diagnose.live.Live``

Trainer: Any = object  # at run time a mixin; all other attributes are the trainer's


class SimlabPPOMixin(Trainer):
    """Estimators of the laboratory that read tokens or remember batches, for a subclass of verl's ``PPOTrainer``.

    It supplies the log-probabilities and entropies of the whole batch, which verl has computed by then, and saves the
    states of estimators as ``simlab_estimator.json`` in the folder of a checkpoint. With ``algorithm.simlab_diagnose``,
    a mapping that may be empty, each step's metrics hold those of ``simlab.diagnose.live``.

    Args:
        config: verl's.

    Raises:
        InputError: before any worker starts, for settings of an estimator or surrogate that it does not take, for
            settings that would have no effect, and for methods that verl cannot run.
    """

    def __init__(self, config: Any):
        self._estimator, self._text = _configured(config.algorithm)
        _check_loss(config.actor_rollout_ref.actor)
        settings = config.algorithm.get("simlab_diagnose")
        self._live = None if settings is None else _make_live(settings)
        memory.clear()
        super().__init__(config)

    def _compute_advantage(self, batch: Any, metrics: dict[str, Any]) -> Any:
        """Compute advantages with the token fields that the estimator reads."""
        fields = {}
        if needs := sorted(self._estimator.needs & TOKEN_FIELDS.keys()):
            names = [TOKEN_FIELDS[name] for name in needs]
            data = transfer_queue.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=names)
            fields = {name: data[TOKEN_FIELDS[name]].to_padded_tensor(0.0) for name in needs}
        metrics.update(self._diagnose(batch))
        with estimators.token_fields(**fields):
            return super()._compute_advantage(batch, metrics)

    def _diagnose(self, batch: Any) -> dict[str, float]:
        """Return the metrics of ``simlab.diagnose.live`` of a batch, if ``algorithm.simlab_diagnose`` is set."""
        if self._live is None:
            return {}
        names = ["uid", "rm_scores", "responses", "response_mask"]
        data = transfer_queue.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=names)
        scores = data["rm_scores"].to_padded_tensor(0.0).sum(dim=1)
        written = data["response_mask"].to_padded_tensor(0).sum(dim=1) > 0  # rows that fill a batch up have no token
        rewards = torch.where(written, scores, torch.nan).tolist()
        texts = [self.tokenizer.decode(ids, skip_special_tokens=True) for ids in data["responses"].unbind()]
        return self._live.observe(list(data["uid"]), rewards, texts)

    def _save_checkpoint(self) -> None:
        """Save the estimator's state before the checkpoint: verl notes last that a checkpoint is complete."""
        folder = self._step_folder()
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / MEMORY, json.dumps(memory).encode())
        super()._save_checkpoint()

    def _load_checkpoint(self) -> None:
        """Load a checkpoint with the estimator's state."""
        super()._load_checkpoint()
        if self.global_steps:
            settings = self.config.trainer
            path = Path(settings.resume_from_path) if settings.resume_mode == "resume_path" else None
            self._load_memory((path or self._step_folder()) / MEMORY)

    def _load_memory(self, path: Path) -> None:
        if path.exists():
            memory.update(json.loads(path.read_text()))
        if has_state(self._estimator) and self._text not in memory:
            logging.getLogger(__name__).warning("%s holds nothing of %s, which begins without memory", path, self._text)

    def _step_folder(self) -> Path:
        return Path(self.config.trainer.default_local_dir) / f"global_step_{self.global_steps}"


class SimlabPPOTrainerSync(SimlabPPOMixin, PPOTrainerSync):
    """verl's synchronous trainer with ``SimlabPPOMixin``: ``trainer.v1.trainer_mode=simlab_sync``."""

    def __init__(self, config: Any):
        config.trainer.v1.trainer_mode = "sync"  # any other name makes verl's trainers asynchronous
        super().__init__(config)


def _configured(algorithm: Any) -> tuple[Estimator, str]:
    """Return the chosen estimator and its text; for one of verl's, an estimator that needs nothing."""
    name = str(algorithm.adv_estimator)
    if not name.startswith(PREFIX):
        if algorithm.get("simlab"):
            raise InputError(
                f"algorithm.simlab = {dict(algorithm.simlab)} would have no effect on adv_estimator = {name!r}; "
                "allowed: with an estimator simlab_NAME"
            )
        return chain(), name
    chosen, text = estimators.configured(name.removeprefix(PREFIX), algorithm)
    for field in sorted(chosen.needs - {"rewards"}):
        check_choice(f"a field of tokens that adv_estimator = {name} needs", field, TOKEN_FIELDS)
    correction = algorithm.get("rollout_correction") or {}
    if "entropy" in chosen.needs and correction.get("bypass_mode"):
        raise InputError(
            f"algorithm.rollout_correction.bypass_mode = True leaves out the entropy that adv_estimator = {name} "
            "needs; allowed: False"
        )
    return chosen, text


def _make_live(settings: Any) -> Live:
    """Make a ``Live`` of ``algorithm.simlab_diagnose``, by the names of its numbers."""
    for name in settings:
        check_choice("algorithm.simlab_diagnose", str(name), LIVE)
    return Live(**settings)


def _check_loss(actor: Any) -> None:
    mode = str(actor.policy_loss.loss_mode)
    if mode.startswith(PREFIX):
        check_choice("policy_loss.loss_mode", mode, [PREFIX + name for name in SURROGATES])
        losses.configured(mode.removeprefix(PREFIX), actor)
