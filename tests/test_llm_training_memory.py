"""The memory and the disk that a run states, beside XLA's numbers for the very programs and the files of a run."""

import dataclasses

import pytest
from training_cases import settings, task

from benchmarks import training_sizes
from benchmarks.training_programs import Computed, gradient_program
from simlab.errors import InputError
from simlab.llm.config import ModelConfig
from simlab.llm.training import memory
from simlab.llm.training.run import needed_disk, train
from simlab.llm.training.settings import TrainingSettings
from simlab.llm.training.setup import Setup

MODEL = ModelConfig(
    vocab_size=64, hidden_size=256, intermediate_size=1024, num_layers=4, num_heads=4, num_kv_heads=2, eos_ids=(1,)
)
WIDE = {"hidden_size": 512, "intermediate_size": 2048, "num_layers": 8, "vocab_size": 8192}
# Layers without a loop, in one, with checkpointing, and with adapters.
CASES = [
    (Computed(2, 8, 16, 384, "float32"), {}),
    (Computed(4, 8, 96, 128, "float32"), WIDE),
    (Computed(4, 8, 96, 128, "float32", True), {"num_layers": 12}),
    (Computed(4, 8, 96, 128, "float32", False, 8), {"num_layers": 12}),
]


@pytest.mark.usefixtures("quickly")
@pytest.mark.parametrize(
    "index", [pytest.param(0, marks=pytest.mark.slow), 1, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 3))]
)
def test_the_gradient_needs_what_is_stated(index):
    """The stated bytes are right to 25 %."""
    case, changes = CASES[index]
    config = dataclasses.replace(MODEL, **changes)
    analysis = gradient_program(case, config).trace().lower().compile().memory_analysis()
    batch, lengths = (case.prompts, case.members), (case.before, case.own)
    stated = memory.activation_bytes(
        config, batch, lengths, memory.FLOAT, checkpointing=case.checkpointing, lora_rank=case.lora_rank
    )
    stated += memory.FLOAT * memory.count_parameters(config, case.lora_rank)
    assert stated == pytest.approx(analysis.temp_size_in_bytes + analysis.output_size_in_bytes, rel=0.25)


def test_sixteen_prompts_with_eight_rollouts_of_1024_tokens_of_a_model_of_1_5_billion_fit_80_gb():
    config = training_sizes.MODELS["Qwen2.5-1.5B"]
    assert 1.5e9 < memory.count_parameters(config) < 1.6e9
    copies = 28 * memory.count_parameters(config)
    assert copies < training_sizes.stated(config, 16, 0) <= 80e9 < training_sizes.stated(config, 128, 0)
    assert training_sizes.stated(config, 16, 16) < copies


def needed(platform="gpu", problems=64, config=MODEL, **sections):
    few = {"rl": {"prompts": 4, "group_size": 4, "microbatch": 4}, "evaluation": {"samples": 4, "rollouts": 16}}
    asked = TrainingSettings.from_data(few | sections)
    return memory.needed_memory(asked, config, (300, 180), problems, platform)


def test_parameters_are_stored_four_times_and_a_lagging_sampler_more_often():
    weights = 4 * memory.count_parameters(MODEL)
    plain = needed()
    assert (plain["parameters"], plain["AdamW"]) == (2 * weights, 2 * weights)
    lagging = needed(rl={"prompts": 4, "group_size": 4, "lag": 5})
    assert lagging["parameters"] == 7 * weights
    assert "AdamW" not in needed(rl={"prompts": 4, "group_size": 4, "optimizer": "sgd"})
    assert "process" in needed("cpu")
    assert "process" not in plain


def test_adapters_need_little_beside_the_model_unless_a_warm_start_trains_all_parameters():
    config, adapters = training_sizes.MODELS["Qwen2.5-1.5B"], {"model": {"lora_rank": 16}}
    total = [sum(needed(config=config, **sections).values()) for sections in ({}, adapters)]
    assert total[1] < 0.7 * total[0]
    assert sum(needed(config=config, **adapters, warm_start={"steps": 5}).values()) == total[0]


def test_a_microbatch_and_the_rollouts_at_once_are_counted_and_not_the_whole_batch():
    def rl(**changes):
        return needed(rl={"prompts": 64, "group_size": 16} | changes)

    small, large = (sum(rl(microbatch=size).values()) for size in (16, 256))
    assert small < large / 3
    whole, quarter = (rl(microbatch=4, rollouts=most)["sampling"] for most in (1024, 256))
    assert quarter < whole / 2


def test_a_probe_is_counted_where_it_measures_and_grows_with_what_it_compares():
    """Memory holds its features three times: 1021 numbers a rollout for each of 4 layers and the rest."""

    def probed(**changes):
        few = {"prompts": 4, "group_size": 4, "microbatch": 4, "rollouts": 16}
        return needed(rl=few, probe={"every": 10, "panel": 512, "rollouts": 64} | changes)

    def of_more(**changes):
        return probed(panel=1024, **changes)["probe"] - probed(**changes)["probe"]

    assert "probe" not in needed(probe={"panel": 512})
    rollouts = 3 * 4 * 512 * 64
    assert of_more() == rollouts * 1021 * 5
    assert of_more(estimator="head") == of_more(estimator="both") == rollouts * 256 * 64
    assert probed()["probe"] > 3 * 4 * 516 * 64 * 1021 * 5


def test_a_remedy_is_counted_as_a_probe_without_a_panel():
    few = {"prompts": 4, "group_size": 4, "microbatch": 4, "rollouts": 16}
    sketch = {"sketch": 10**6}
    needs = needed(rl=few | {"remedy": "damp"}, probe={"panel": 512} | sketch)
    assert needs["probe"] == needed(rl=few, probe={"every": 1} | sketch)["probe"] > 3 * 4 * 16 * 10**6 * 5


def test_what_does_not_fit_is_refused_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr("simlab.llm.training.run.free_memory", lambda: 2**20)
    with pytest.raises(InputError, match=r"memory: about \d+ MiB \(.*process.*\), but 1 MiB are free; allowed: less"):
        train(settings(), tmp_path / "run", own_task=task())
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("quickly")
@pytest.mark.slow
@pytest.mark.parametrize("keep_checkpoint", [False, True])
def test_the_disk_that_is_stated_is_that_of_the_files(keep_checkpoint, tmp_path):
    model = {"hidden_size": 64, "intermediate_size": 128, "num_layers": 2}
    asked = settings(
        {"model": model, "arms": ["grpo", "grpo@lag=2"], "record": {"keep_checkpoint": keep_checkpoint, "rollouts": 0}}
    )
    train(asked, tmp_path / "run", own_task=task())
    models, states = (
        sum(path.stat().st_size for path in tmp_path.rglob(name)) for name in ("model.safetensors", "state.npz")
    )
    largest = 5 * models // 2  # the lagging arm's
    assert states == pytest.approx(8 * models // 2 if keep_checkpoint else 0, rel=0.1)
    stated = models + states + (1 if keep_checkpoint else 2) * largest
    assert needed_disk(Setup(asked, task())) == pytest.approx(stated, rel=0.1)
