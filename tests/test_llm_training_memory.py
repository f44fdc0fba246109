"""The memory that a run states, beside what XLA says of the very programs."""

import dataclasses

import pytest

from benchmarks import training_sizes
from benchmarks.training_memory import CASES, MODEL, gradient_bytes, sampling_bytes
from benchmarks.training_programs import sampling_programs
from simlab.llm.training import memory
from simlab.llm.training.memory import Computed
from simlab.llm.training.presets import preset
from simlab.llm.training.settings import Settings, merged

# One of each kind: all is kept, the inputs of layers alone, and with adapters, of float32 and of bfloat16.
QUICK = (3, 15, 26, 29)


@pytest.mark.parametrize(
    "place",
    [pytest.param(place, marks=() if place in QUICK else pytest.mark.slow) for place in range(len(CASES))],
)
def test_the_gradient_needs_what_is_stated(place):
    """To 15 %; the constants were fitted to these cases."""
    case, changes = CASES[place]
    config = dataclasses.replace(MODEL, **changes)
    exact = gradient_bytes(case, config)
    assert memory.gradient_bytes(config, case) == pytest.approx(exact, rel=0.15)


@pytest.mark.parametrize("place", [*(pytest.param(place, marks=pytest.mark.slow) for place in range(13)), 13])
def test_the_sampler_needs_no_more_than_is_stated(place):
    """Half of the keys and values may move, which no program's own numbers count; 4 MiB are of programs' own.

    The last case has one prompt: nothing is copied for want of another.
    """
    case, changes = CASES[place]
    config = dataclasses.replace(MODEL, **changes)
    exact = max(size for _, size in sampling_bytes(case, config))
    assert exact <= 1.15 * memory.sampling_bytes(config, case) + 4 * 2**20


@pytest.mark.parametrize("dtype", ["float32", pytest.param("bfloat16", marks=pytest.mark.slow)])
def test_where_rollouts_wait_the_sampler_needs_no_more_than_is_stated(dtype):
    """32 rows of 4 rollouts, which 2 prompts with 16 rollouts join; 4 MiB are of programs' own."""
    batch, joining = Computed(32, 4, 320, 192, dtype), Computed(2, 16, 320, 1, dtype)
    programs, of_new = sampling_programs(batch, MODEL), sampling_programs(joining, MODEL)
    further, join, new = (
        program.trace().lower().compile().memory_analysis()
        for program in (programs["further tokens"], programs["new rollouts"], of_new["first token"])
    )
    read = new.output_size_in_bytes + max(new.temp_size_in_bytes, join.temp_size_in_bytes)
    exact = further.output_size_in_bytes + max(further.temp_size_in_bytes, read)
    assert exact <= 1.15 * memory.sampling_bytes(MODEL, batch._replace(joining=2)) + 4 * 2**20
    assert memory.sampling_bytes(MODEL, batch._replace(joining=2)) <= 1.3 * exact


def test_sixteen_prompts_with_eight_rollouts_of_1024_tokens_of_a_model_of_1_5_billion_fit_80_gb():
    """By the formula: parameters, gradients and AdamW's moments alone take 28 bytes a parameter."""
    config = training_sizes.MODELS["Qwen2.5-1.5B"]
    own = 28 * memory.parameters_of(config)
    assert 1.5e9 < memory.parameters_of(config) < 1.6e9
    assert own < training_sizes.stated(config, 16, 0) <= 80e9 < training_sizes.stated(config, 128, 0)
    assert training_sizes.stated(config, 16, 16) < own


FEW = {"prompts": 4, "group_size": 4, "microbatch": 4}


def test_adapters_need_little_beside_the_model_unless_a_warm_start_trains_all_parameters():
    def needed(**sections):
        asked = Settings.from_data({"rl": FEW, "evaluation": {"samples": 4, "rollouts": 16}} | sections)
        return sum(memory.needed_memory(asked, training_sizes.MODELS["Qwen2.5-1.5B"], 300, 180, 64).values())

    adapters = {"model": {"lora_rank": 16}}
    assert needed(**adapters) < 0.7 * needed()
    assert needed(**adapters, warm_start={"steps": 5}) == needed(warm_start={"steps": 5}) == needed()


def test_what_is_sampled_and_learnt_at_once_is_counted_and_not_the_whole_batch():
    def needed(**rl):
        asked = Settings.from_data(merged(preset("maze", None), {"rl": {"prompts": 256, "group_size": 16} | rl}))
        return memory.needed_memory(asked, MODEL, 300, 180, 256)

    whole, part, small = needed(rollouts=4096), needed(rollouts=1024), needed(microbatch=16)
    assert part["gradient of a microbatch"] == whole["gradient of a microbatch"]
    assert small["gradient of a microbatch"] < whole["gradient of a microbatch"] / 3
    assert part["sampling"] <= whole["sampling"]


def test_an_evaluation_of_few_problems_samples_no_more_than_these():
    """Room for 256 problems of 16 samples does not count where there are 8; of more than 256 those above wait."""

    def sampling(problems):
        asked = Settings.from_data({"rl": FEW, "evaluation": {"samples": 16, "rollouts": 4096}})
        return memory.needed_memory(asked, MODEL, 300, 180, problems)["sampling"]

    assert sampling(8) < sampling(64) / 4
    assert sampling(257) == sampling(1000) < 1.1 * sampling(256)


def test_a_process_on_a_cpu_keeps_the_programs_of_every_shape():
    """A rollout of each prompt that is sampled and learnt from; evaluations have a shape of their own."""

    def process(*arms, platform="cpu"):
        asked = Settings.from_data({"rl": FEW, "evaluation": {"samples": 16, "rollouts": 64}, "arms": arms})
        needed = memory.needed_memory(asked, MODEL, 300, 180, 8, platform=platform)
        return needed.get("Python and JAX", 0), needed.get("compiling", 0)

    own, one = process("grpo")
    assert process("grpo", "f_grpo", "maxrl") == (own, one)
    assert process("grpo", "grpo@group_size=2") == (own, one + 2 * 25 * 2**20)
    assert one == (350 + 3 * 25) * 2**20
    assert process("grpo", platform="gpu") == (0, 0)
