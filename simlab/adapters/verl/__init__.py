"""Register simlab's estimators and surrogates with verl, as a plug-in.

verl imports it by itself in all its processes, through the entry point ``simlab`` of the group ``verl.plugins`` or
through ``VERL_USE_EXTERNAL_MODULES=simlab.adapters.verl``. Then ``algorithm.adv_estimator`` takes ``simlab_NAME`` of
any estimator, ``actor_rollout_ref.actor.policy_loss.loss_mode`` takes ``simlab_NAME`` of a surrogate, and
``trainer.v1.trainer_mode`` takes ``simlab_sync``, for estimators that read log-probabilities or entropies and for the
memory of those that have one.

``python -m simlab.adapters.verl`` checks that verl loads it. JAX is not imported: a process of verl has a GPU to use.
"""

import logging

try:
    from simlab.adapters.verl.trainer import SimlabPPOMixin, SimlabPPOTrainerSync, entries, missing, register

    register()
except Exception:
    # verl goes on without a plug-in that fails, and says so at debug level only.
    logging.getLogger(__name__).exception("simlab is not registered in verl, because of this:")
    raise

__all__ = ["SimlabPPOMixin", "SimlabPPOTrainerSync", "entries", "missing", "register"]
