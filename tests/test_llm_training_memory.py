"""The memory that a run states, beside what XLA says of the very programs."""

import dataclasses

import pytest

from benchmarks import training_sizes
from benchmarks.training_memory import CASES, MODEL, gradient_bytes, sampling_bytes
from simlab.llm.training import memory
from simlab.llm.training.computed import at_once
from simlab.llm.training.presets import preset
from simlab.llm.training.settings import Settings, merged

# One of each kind: all is kept, products, the inputs of layers alone, and with adapters, of float32 and of bfloat16.
QUICK = (3, 14, 22, 33, 36)


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


def phases(settings, config=MODEL, sizes=(300, 180, 256), platform="cpu"):
    """What each thing takes that an arm does."""
    return memory.phases(settings, config, at_once(settings, *sizes, platform))


def of_mazes(platform="cpu", **rl):
    """What each thing takes in a run of the maze preset."""
    asked = Settings.from_data(merged(preset("maze", None), {"rl": {"prompts": 256, "group_size": 16} | rl}))
    return phases(asked, platform=platform)


def test_what_is_sampled_and_learnt_at_once_is_counted_and_not_the_whole_batch():
    whole, part, small = (of_mazes("gpu", **rl) for rl in ({"rollouts": 4096}, {"rollouts": 1024}, {"microbatch": 16}))
    assert part["gradient of a microbatch"] == whole["gradient of a microbatch"]
    assert small["gradient of a microbatch"] < whole["gradient of a microbatch"] / 3
    assert part["sampling"] <= whole["sampling"]


def test_on_a_cpu_a_larger_microbatch_takes_turns_and_no_more_memory():
    two, four, sixteen = (of_mazes(microbatch=16 * prompts)["gradient of a microbatch"] for prompts in (2, 4, 16))
    assert two <= four == sixteen < 1.1 * two


def test_an_evaluation_of_few_problems_samples_no_more_than_these():
    """Room for 256 problems of 16 samples does not count where there are 8; of more than 256 those above wait."""

    def sampling(problems):
        asked = Settings.from_data({"rl": FEW, "evaluation": {"samples": 16, "rollouts": 4096}})
        return phases(asked, sizes=(300, 180, problems))["sampling of an evaluation"]

    assert sampling(8) < sampling(64) / 4
    assert sampling(257) == sampling(1000) < 1.1 * sampling(256)
