"""The names that the adapters take from the engines: when one of these fails, its message says what has changed.

Run with ``-m trl`` and ``-m verl``, each in its environment.
"""

import dataclasses
import inspect
from typing import Any

import pytest


def check_parameters(cls: type, expected: dict[str, list[str]]) -> None:
    """Check that the methods of a class take these parameters, perhaps with others after them."""
    for name, names in expected.items():
        parameters = inspect.signature(inspect.unwrap(getattr(cls, name))).parameters
        assert not set(names) - set(parameters), f"{cls.__name__}.{name} takes {list(parameters)}"


def check_source(thing: Any, names: list[str]) -> None:
    """Check that these texts stand in the source of a class, a function or a module."""
    source = inspect.getsource(thing)
    absent = [name for name in names if name not in source]
    assert not absent, f"{thing.__name__} has no {absent} any more"


@pytest.mark.trl
@pytest.mark.filterwarnings("default")  # of TRL and what it imports
def test_trl_has_what_the_adapter_takes():
    trl = pytest.importorskip("trl")
    assert trl.__version__.startswith("1.16."), f"the adapter was tested with TRL 1.16, this is {trl.__version__}"
    from simlab.adapters.trl import ADVANTAGES, LOSS  # noqa: PLC0415  # it needs TRL

    logps = ["model", "input_ids", "attention_mask", "logits_to_keep", "batch_size", "compute_entropy"]
    check_parameters(
        trl.GRPOTrainer,
        {
            "_calculate_rewards": ["inputs", "prompts", "completions", "completion_ids_list"],
            "_generate_and_score_completions": ["inputs"],
            "_prepare_inputs": ["generation_batch"],
            "_compute_loss": ["model", "inputs"],
            "_get_per_token_logps_and_entropies": logps,
            "_save_checkpoint": ["model", "trial"],
            "_load_optimizer_and_scheduler": ["checkpoint"],
            "_get_output_dir": ["trial"],
        },
    )
    attributes = ["reward_weights", "num_generations", "num_generations_eval", "num_iterations", "temperature", "_step"]
    attributes += ["_buffered_inputs", "_metrics", "_logs"]
    check_source(trl.GRPOTrainer, [f"self.{name} = " for name in attributes])
    entries = ["prompt_ids", "prompt_mask", "completion_ids", "completion_mask", "tool_mask", "advantages"]
    entries += ["old_per_token_logps", "ref_per_token_logps", "importance_sampling_ratio"]
    check_source(trl.GRPOTrainer._generate_and_score_completions, [f'"{name}"' for name in entries])
    settings = {"beta", "seed", "steps_per_generation", "gradient_accumulation_steps", "per_device_train_batch_size"}
    absent = {*LOSS, *ADVANTAGES, *settings} - {field.name for field in dataclasses.fields(trl.GRPOConfig)}
    assert not absent, f"GRPOConfig has no {sorted(absent)} any more"


@pytest.mark.verl
@pytest.mark.filterwarnings("default")  # of verl and what it imports
def test_verl_has_what_the_adapter_takes():
    verl = pytest.importorskip("verl")
    assert verl.__version__.startswith("0.9."), f"the adapter was tested with verl 0.9, this is {verl.__version__}"
    from hydra import compose, initialize_config_module  # noqa: PLC0415
    from omegaconf import OmegaConf  # noqa: PLC0415
    from verl.trainer.ppo.core_algos import agg_loss, get_policy_loss_fn  # noqa: PLC0415
    from verl.trainer.ppo.v1 import PPOTrainerSync  # noqa: PLC0415
    from verl.workers.config import ActorConfig  # noqa: PLC0415
    from verl.workers.utils import losses  # noqa: PLC0415

    from simlab.adapters.verl.functions import SETTINGS, policy_loss  # noqa: PLC0415

    check_source(verl, ["VERL_USE_EXTERNAL_MODULES", "VERL_USE_EXTERNAL_PLUGINS", 'group="verl.plugins"'])
    theirs, ours = (
        inspect.signature(loss).parameters for loss in (get_policy_loss_fn("vanilla"), policy_loss("cispo"))
    )
    assert set(theirs) == set(ours), f"policy losses take {list(theirs)}, and ours {list(ours)}"
    check_source(losses.ppo_loss, ["get_policy_loss_fn(", "config.global_batch_info"])
    names = ["loss_mat", "loss_mask", "loss_agg_mode", "dp_size", "batch_num_tokens", "global_batch_size"]
    assert set(names) <= set(inspect.signature(agg_loss).parameters)
    absent = {"clip_ratio", "policy_loss", *SETTINGS.values()} - {
        field.name for field in dataclasses.fields(ActorConfig)
    }
    assert not absent, f"ActorConfig has no {sorted(absent)} any more"
    check_parameters(PPOTrainerSync, {"__init__": ["config"], "_compute_advantage": ["batch", "metrics"]})
    for method, texts in {
        "_compute_old_log_prob": ['data["old_log_probs"]', 'data["entropy"]'],
        "_compute_advantage": ["compute_advantage_for_multi_trajectories(", "config=self.config.algorithm"],
        "_save_checkpoint": ['f"global_step_{self.global_steps}"', "latest_checkpointed_iteration.txt"],
        "_load_checkpoint": ["resume_mode", "resume_from_path", "self.global_steps = 0"],
    }.items():
        check_source(getattr(PPOTrainerSync, method), texts)
    with initialize_config_module("verl.trainer.config", version_base=None):
        config = compose("ppo_trainer")
    for name in (
        "algorithm.adv_estimator",
        "trainer.v1.trainer_mode",
        "trainer.default_local_dir",
        "trainer.resume_mode",
    ):
        assert OmegaConf.select(config, name) is not None, f"the configuration has no {name} any more"
    assert config.trainer.use_v1, "the v1 trainer is not the default any more"
