"""Put simlab's estimators, surrogates and trainer into verl's registries."""

from collections.abc import Mapping
from typing import Any

from verl.trainer.ppo.core_algos import (
    ADV_ESTIMATOR_REGISTRY,
    POLICY_LOSS_REGISTRY,
    register_adv_est,
    register_policy_loss,
)
from verl.trainer.ppo.v1.trainer_base import TRAINER_REGISTRY, register_trainer

from simlab.adapters.verl.estimators import PREFIX, advantage_function
from simlab.adapters.verl.losses import policy_loss
from simlab.adapters.verl.trainer import SimlabPPOTrainerSync
from simlab.estimators import REGISTRY
from simlab.surrogates import SURROGATES

# By the last part of the setting that chooses from each.
REGISTRIES: Mapping[str, Mapping[str, Any]] = {
    "adv_estimator": ADV_ESTIMATOR_REGISTRY,
    "loss_mode": POLICY_LOSS_REGISTRY,
    "trainer_mode": TRAINER_REGISTRY,
}
REGISTER = {"adv_estimator": register_adv_est, "loss_mode": register_policy_loss, "trainer_mode": register_trainer}


def entries() -> dict[str, dict[str, Any]]:
    """Return simlab's entries for each of verl's registries, by their names there."""
    return {
        "adv_estimator": {PREFIX + name: advantage_function(name) for name in REGISTRY},
        "loss_mode": {PREFIX + name: policy_loss(name) for name in SURROGATES},
        "trainer_mode": {PREFIX + "sync": SimlabPPOTrainerSync},
    }


def register() -> None:
    """Register all entries; call it again after adding an estimator or a surrogate.

    Raises:
        ValueError: verl's, where another plug-in has taken a name.
    """
    for setting, named in entries().items():
        for name, entry in named.items():
            REGISTER[setting](name)(entry)


def missing() -> list[str]:
    """Return the names that verl lacks, or has for something else, such as ``loss_mode = simlab_cispo``."""
    return [
        f"{setting} = {name}"
        for setting, named in entries().items()
        for name, entry in named.items()
        if REGISTRIES[setting].get(name) is not entry
    ]
