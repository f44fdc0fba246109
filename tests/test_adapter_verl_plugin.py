"""verl loads the plug-in, or is heard to fail; and simlab diagnose reads verl's dumps. Run with ``-m verl``."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = [pytest.mark.verl, pytest.mark.filterwarnings("default")]  # verl and what it imports warn
pytest.importorskip("verl")

from log_files import groups_of, read_groups, solutions_of
from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY
from verl.trainer.ppo.ray_trainer import RayPPOTrainer
from verl.trainer.ppo.v1.trainer_base import PPOTrainer

from simlab.adapters.verl import missing, register
from simlab.adapters.verl.functions import advantage_function
from simlab.diagnose.reading import read_log
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


def python(arguments, **environment):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("VERL_")}
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=clean | environment, timeout=300, check=False
    )


@pytest.mark.parametrize(
    "environment",
    [
        {},  # the entry point
        {"VERL_USE_EXTERNAL_PLUGINS": "none", "VERL_USE_EXTERNAL_MODULES": "simlab.adapters.verl"},
    ],
)
def test_verl_loads_it_by_itself(environment):
    done = python(["-c", LOADED], **environment)
    assert done.returncode == 0, done.stderr


def test_a_plug_in_that_fails_is_heard():
    done = python(["-c", "import sys; sys.modules['simlab.surrogates'] = None; import verl; print('verl goes on')"])
    assert done.stdout == "verl goes on\n"
    assert "simlab is not registered in verl, because of this:" in done.stderr
    assert "simlab.surrogates" in done.stderr


def test_the_command_says_what_verl_takes():
    done = python(["-m", "simlab.adapters.verl"])
    assert done.returncode == 0, done.stderr
    assert "adv_estimator: simlab_dr_grpo, simlab_grpo," in done.stdout
    assert "trainer_mode: simlab_sync" in done.stdout

    done = python(["-m", "simlab.adapters.verl"], VERL_USE_EXTERNAL_PLUGINS="none")
    assert done.returncode == 1
    assert "VERL_USE_EXTERNAL_MODULES=simlab.adapters.verl" in done.stderr


def test_registering_again_takes_up_what_has_come_since(monkeypatch):
    grpo = registry.REGISTRY["grpo"]
    monkeypatch.setitem(registry._REGISTRY, "my_own", registry.Registered("my_own", grpo.tag, grpo.build))
    assert missing() == ["adv_estimator = simlab_my_own"]  # of all three registries
    register()
    assert missing() == []
    monkeypatch.delitem(ADV_ESTIMATOR_REGISTRY, "simlab_my_own")


def test_a_name_that_another_plug_in_has_taken_is_noticed(monkeypatch):
    monkeypatch.setitem(ADV_ESTIMATOR_REGISTRY, "simlab_grpo", advantage_function("rloo"))
    assert missing() == ["adv_estimator = simlab_grpo"]
    with pytest.raises(ValueError, match="simlab_grpo has already been registered"):
        register()


# An estimator of a user's own, as docs/verl.md says

ROOT = Path(__file__).parents[1]
ASKED = """
import numpy as np, torch, verl
from verl.trainer.ppo.core_algos import get_adv_estimator_fn
rewards = torch.tensor([[1.0], [0.0], [0.0], [0.0]])
given = dict(token_level_rewards=rewards, response_mask=torch.ones(4, 1), index=np.array(["a"] * 4), config=None)
own, grpo = (get_adv_estimator_fn(name)(**given)[0] for name in ("simlab_half_grpo", "simlab_grpo"))
print("same", torch.allclose(2 * own, grpo), float(grpo.abs().sum()))
"""


def test_the_module_of_the_docs_is_imported_by_verl_and_gives_half_of_grpos_advantages(tmp_path):
    text = (ROOT / "docs/verl.md").read_text()
    (block,) = re.findall(r"```python\n(from simlab\.adapters import verl\n.*?)```", text, re.DOTALL)
    (tmp_path / "mine_verl.py").write_text(block)
    done = python(["-c", ASKED], PYTHONPATH=f"{ROOT}:{tmp_path}", VERL_USE_EXTERNAL_MODULES="mine_verl")
    assert re.search(r"same True [1-9]", done.stdout), done.stderr[-2000:]


# simlab diagnose reads the rollouts that verl's trainers write

TRAINERS = {"ray": RayPPOTrainer, "v1": PPOTrainer}


def rollouts(steps=(9, 10), prompts=3, size=4):
    source = np.random.default_rng(0)
    return [
        {"step": step, "prompt": f"what is {n}+{n}? ä\u2028", "reward": float(source.integers(2)), "answer": answer}
        for step in steps for n in range(prompts) for answer in source.choice(["7", "1/2"], size)
    ]  # fmt: skip


def dumped(trainer, rows, folder, extras):
    for step in {row["step"]: None for row in rows}:
        batch = [row for row in rows if row["step"] == step]
        trainer._write_generations(
            [row["prompt"] for row in batch],
            [f"so \\boxed{{{row['answer']}}}" for row in batch],
            ["7"] * len(batch),
            [row["reward"] for row in batch],
            {name: function(batch) for name, function in extras.items()},
            str(folder),
            step,
        )


@pytest.mark.parametrize("name", TRAINERS)
def test_what_verl_writes_is_read_back_as_the_same_groups(name, tmp_path):
    rows = rollouts()
    dumped(TRAINERS[name], rows, tmp_path, {"acc": lambda batch: np.array([row["reward"] == 1 for row in batch])})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["10.jsonl", "9.jsonl"]
    for named in ({}, {"reward": "acc"}):  # verl's Ray trainer writes it as the text "True"
        reading = read_log([tmp_path], **named)
        assert (reading.log.format, reading.files, reading.log.refused.count) == ("verl", 2, 0)
        assert read_groups(reading.log).keys() == groups_of(rows).keys()
        assert solutions_of(read_groups(reading.log)) == solutions_of(groups_of(rows))
        assert list(reading.log.correct) == [group[1] for group in groups_of(rows).values()]
