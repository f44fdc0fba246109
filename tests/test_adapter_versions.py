"""What the adapters take from the engines, name by name: when one of these fails, its message says what has changed.

Run with ``-m trl`` and ``-m verl``, each in its environment.
"""

import dataclasses
import inspect
from typing import Any

import pytest


def parameters(function: Any) -> list[str]:
    """The names that a function takes, of the function itself where it is decorated."""
    return list(inspect.signature(inspect.unwrap(function)).parameters)


def check_parameters(where: Any, expected: dict[str, list[str]], version: str) -> None:
    """Every function of these names takes these parameters, perhaps with others after them."""
    for name, names in expected.items():
        assert hasattr(where, name), f"{version} has no {where.__name__}.{name} any more"
        found = parameters(getattr(where, name))
        absent = [one for one in names if one not in found]
        assert not absent, f"{version}: {where.__name__}.{name} takes {found}; the adapter relies on {absent} too"


def check_assignments(where: type, names: list[str], version: str) -> None:
    """The class sets these attributes of itself somewhere."""
    source = inspect.getsource(where)
    for name in names:
        assert f"self.{name} = " in source, f"{version}: {where.__name__} does not set self.{name} any more"


@pytest.mark.trl
@pytest.mark.filterwarnings("default")  # of TRL and what it imports
class TestTRL:
    @pytest.fixture
    def trl(self):
        return pytest.importorskip("trl")

    def test_the_version_is_one_that_was_tested(self, trl):
        assert trl.__version__.startswith("1.16."), f"the adapter was tested with TRL 1.16, this is {trl.__version__}"

    def test_methods_that_are_overridden_or_called(self, trl):
        expected = {
            "_calculate_rewards": ["self", "inputs", "prompts", "completions", "completion_ids_list"],
            "_generate_and_score_completions": ["self", "inputs"],
            "_prepare_inputs": ["self", "generation_batch"],
            "_compute_loss": ["self", "model", "inputs"],
            "_get_per_token_logps_and_entropies": [
                "self", "model", "input_ids", "attention_mask", "logits_to_keep", "batch_size", "compute_entropy",
            ],
            "_save_checkpoint": ["self", "model", "trial"],
            "_load_optimizer_and_scheduler": ["self", "checkpoint"],
            "_get_output_dir": ["self", "trial"],
        }  # fmt: skip
        check_parameters(trl.GRPOTrainer, expected, f"TRL {trl.__version__}")

    def test_attributes_that_are_read(self, trl):
        names = [
            "reward_weights", "num_generations", "num_generations_eval", "num_iterations", "temperature",
            "_step", "_buffered_inputs", "_metrics", "_logs",
        ]  # fmt: skip
        check_assignments(trl.GRPOTrainer, names, f"TRL {trl.__version__}")

    def test_entries_of_the_batch_that_are_read(self, trl):
        source = inspect.getsource(trl.GRPOTrainer._generate_and_score_completions)
        names = [
            "prompt_ids", "prompt_mask", "completion_ids", "completion_mask", "tool_mask", "advantages",
            "old_per_token_logps", "ref_per_token_logps", "importance_sampling_ratio",
        ]  # fmt: skip
        absent = [name for name in names if f'"{name}"' not in source]
        assert not absent, f"TRL {trl.__version__}: _generate_and_score_completions gives no {absent} any more"

    def test_settings_that_are_read_or_refused(self, trl):
        from simlab.adapters.trl import ADVANTAGES, LOSS  # noqa: PLC0415  # it needs TRL

        known = {field.name for field in dataclasses.fields(trl.GRPOConfig)}
        read = {"beta", "seed", "steps_per_generation", "gradient_accumulation_steps", "per_device_train_batch_size"}
        absent = {*LOSS, *ADVANTAGES, *read} - known
        assert not absent, f"TRL {trl.__version__}: GRPOConfig has no {sorted(absent)} any more"


@pytest.mark.verl
@pytest.mark.filterwarnings("default")  # of verl and what it imports
class TestVerl:
    @pytest.fixture
    def version(self):
        return f"verl {pytest.importorskip('verl').__version__}"

    def test_the_version_is_one_that_was_tested(self, version):
        assert version.startswith("verl 0.9."), f"the adapter was tested with verl 0.9, this is {version}"

    def test_the_ways_in(self, version):
        from importlib.metadata import entry_points  # noqa: PLC0415

        import verl  # noqa: PLC0415  # it loads the plug-in

        source = inspect.getsource(verl)
        for name in ("VERL_USE_EXTERNAL_MODULES", "VERL_USE_EXTERNAL_PLUGINS", 'group="verl.plugins"'):
            assert name in source, f"{version} does not read {name} any more"
        found = [entry.value for entry in entry_points(group="verl.plugins") if entry.name == "simlab"]
        assert found == ["simlab.adapters.verl"], f"this installation of simlab has the entry points {found}"

    def test_registries(self, version):
        from verl.trainer.ppo import core_algos  # noqa: PLC0415
        from verl.trainer.ppo.v1 import trainer_base  # noqa: PLC0415

        for where, names in (
            (
                core_algos,
                ["ADV_ESTIMATOR_REGISTRY", "POLICY_LOSS_REGISTRY", "register_adv_est", "register_policy_loss"],
            ),
            (trainer_base, ["TRAINER_REGISTRY", "register_trainer"]),
        ):
            absent = [name for name in names if not hasattr(where, name)]
            assert not absent, f"{version}: {where.__name__} has no {absent} any more"

    def test_what_the_dispatcher_hands_to_an_estimator(self, version):
        """It is called with what it takes, and with nothing that it does not take."""
        from verl_cases import dispatched  # noqa: PLC0415

        from simlab.adapters.verl.estimators import advantage_function  # noqa: PLC0415

        names = {"token_level_rewards", "response_mask", "index", "config"}
        assert set(parameters(advantage_function("grpo"))) == names
        try:
            dispatched("simlab_grpo")
        except TypeError as error:
            pytest.fail(f"{version}: the dispatcher of advantages calls estimators in another way: {error}")

    def test_what_a_policy_loss_is_called_with(self, version):
        from verl.trainer.ppo.core_algos import agg_loss, get_policy_loss_fn  # noqa: PLC0415
        from verl.workers.utils import losses  # noqa: PLC0415

        from simlab.adapters.verl.losses import policy_loss  # noqa: PLC0415

        theirs, ours = parameters(get_policy_loss_fn("vanilla")), parameters(policy_loss("ppo_clip"))
        assert set(theirs) == set(ours), f"{version}: policy losses take {theirs}, and ours {ours}"
        source = inspect.getsource(losses.ppo_loss)
        for name in ("get_policy_loss_fn(", "config.global_batch_info"):
            assert name in source, f"{version}: ppo_loss has no {name} any more"
        taken = parameters(agg_loss)
        expected = ["loss_mat", "loss_mask", "loss_agg_mode", "dp_size", "batch_num_tokens", "global_batch_size"]
        absent = [name for name in expected if name not in taken]
        assert not absent, f"{version}: agg_loss takes {taken}; the adapter relies on {absent} too"

    def test_settings_of_the_actor_that_are_read(self, version):
        from verl.workers.config import ActorConfig  # noqa: PLC0415

        from simlab.adapters.verl.losses import SETTINGS  # noqa: PLC0415

        known = {field.name for field in dataclasses.fields(ActorConfig)}
        absent = {"clip_ratio", "policy_loss", "global_batch_info", *SETTINGS.values()} - known
        assert not absent, f"{version}: ActorConfig has no {sorted(absent)} any more"

    def test_methods_of_the_trainer_that_are_overridden(self, version):
        from verl.trainer.ppo.v1 import PPOTrainerSync  # noqa: PLC0415

        expected = {
            "__init__": ["self", "config"],
            "_compute_advantage": ["self", "batch", "metrics"],
            "_save_checkpoint": ["self"],
            "_load_checkpoint": ["self"],
        }
        check_parameters(PPOTrainerSync, expected, version)

    def test_what_the_trainer_does_that_the_adapter_counts_on(self, version):
        from verl.trainer.ppo.v1 import PPOTrainerSync  # noqa: PLC0415

        for method, names in {
            "_compute_old_log_prob": ['data["old_log_probs"]', 'data["entropy"]'],
            "_compute_advantage": ["compute_advantage_for_multi_trajectories(", "config=self.config.algorithm"],
            "_save_checkpoint": ['f"global_step_{self.global_steps}"', "latest_checkpointed_iteration.txt"],
            "_load_checkpoint": ["resume_mode", "resume_from_path", "self.global_steps = 0"],
        }.items():
            source = inspect.getsource(getattr(PPOTrainerSync, method))
            for name in names:
                assert name in source, f"{version}: PPOTrainer.{method} has no {name} any more"

    def test_names_in_the_configuration(self, version):
        from hydra import compose, initialize_config_module  # noqa: PLC0415
        from omegaconf import OmegaConf  # noqa: PLC0415

        with initialize_config_module("verl.trainer.config", version_base=None):
            config = compose("ppo_trainer")
        for name in (
            "algorithm.adv_estimator", "algorithm.rollout_correction.bypass_mode", "trainer.v1.trainer_mode",
            "trainer.default_local_dir", "trainer.resume_mode", "actor_rollout_ref.actor.policy_loss.loss_mode",
        ):  # fmt: skip
            assert OmegaConf.select(config, name) is not None, f"{version}: the configuration has no {name} any more"
        assert config.trainer.use_v1, f"{version}: the v1 trainer is not the default any more"
