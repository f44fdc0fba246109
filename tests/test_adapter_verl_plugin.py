"""How verl comes to load the plug-in, and what is heard when it does not. Run with ``-m verl``."""

import os
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.verl, pytest.mark.filterwarnings("default")]  # verl and what it imports warn
pytest.importorskip("verl")

from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY
from verl.trainer.ppo.v1 import get_trainer_cls

from simlab.adapters.verl import SimlabPPOTrainerSync, missing, register
from simlab.adapters.verl.estimators import advantage_function
from simlab.estimators import registry

LOADED = """
import verl, sys
from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY, POLICY_LOSS_REGISTRY
from verl.trainer.ppo.v1 import get_trainer_cls
assert {"simlab_grpo", "simlab_fade"} <= set(ADV_ESTIMATOR_REGISTRY), sorted(ADV_ESTIMATOR_REGISTRY)
assert "simlab_cispo" in POLICY_LOSS_REGISTRY
assert get_trainer_cls("simlab_sync").__name__ == "SimlabPPOTrainerSync"
assert "jax" not in sys.modules, "JAX would take memory of the GPU"
"""


def python(arguments: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("VERL_")}
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=clean | environment, timeout=300, check=False
    )


@pytest.mark.parametrize(
    "environment",
    [
        {},  # the entry point
        {"VERL_USE_EXTERNAL_PLUGINS": "none", "VERL_USE_EXTERNAL_MODULES": "simlab.adapters.verl"},
        {"VERL_USE_EXTERNAL_MODULES": "simlab.adapters.verl"},  # both
    ],
)
def test_verl_loads_it_by_itself(environment):
    done = python(["-c", LOADED], **environment)
    assert done.returncode == 0, done.stderr


def test_a_plug_in_that_fails_is_heard():
    """verl logs it at debug level; here one of our modules cannot be imported."""
    done = python(["-c", "import sys; sys.modules['simlab.surrogates'] = None; import verl; print('verl goes on')"])
    assert done.stdout == "verl goes on\n"
    assert "simlab is not registered in verl, because of this:" in done.stderr
    assert "simlab.surrogates" in done.stderr


def test_the_command_says_what_verl_takes():
    done = python(["-m", "simlab.adapters.verl"])
    assert done.returncode == 0, done.stderr
    assert "adv_estimator: simlab_dr_grpo, simlab_grpo," in done.stdout
    assert "trainer_mode: simlab_sync" in done.stdout


def test_the_command_fails_where_verl_does_not_load_it():
    done = python(["-m", "simlab.adapters.verl"], VERL_USE_EXTERNAL_PLUGINS="none")
    assert done.returncode == 1
    assert "does not load simlab's plug-in" in done.stderr
    assert "VERL_USE_EXTERNAL_MODULES=simlab.adapters.verl" in done.stderr


def test_nothing_is_missing():
    assert missing() == []
    assert get_trainer_cls("simlab_sync") is SimlabPPOTrainerSync


def test_registering_again_takes_up_what_has_come_since(monkeypatch):
    grpo = registry.REGISTRY["grpo"]
    monkeypatch.setitem(registry._REGISTRY, "my_own", registry.Registered("my_own", grpo.tag, grpo.build))
    assert missing() == ["adv_estimator = simlab_my_own"]
    register()
    assert missing() == []
    monkeypatch.delitem(ADV_ESTIMATOR_REGISTRY, "simlab_my_own")


def test_a_name_that_another_plug_in_has_taken_is_noticed(monkeypatch):
    monkeypatch.setitem(ADV_ESTIMATOR_REGISTRY, "simlab_grpo", advantage_function("rloo"))
    assert missing() == ["adv_estimator = simlab_grpo"]
    with pytest.raises(ValueError, match="simlab_grpo has already been registered"):
        register()


def test_registries_that_forget_are_noticed(monkeypatch):
    monkeypatch.setattr("simlab.adapters.verl.registries.missing", lambda: ["adv_estimator = simlab_grpo"])
    with pytest.raises(RuntimeError, match=r"verl 0\.9\..* has not taken up adv_estimator = simlab_grpo"):
        register()
