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
