"""The memory that a run states, beside what XLA says of the very programs."""

import dataclasses
import math
import subprocess
import sys
import tracemalloc

import jax
import numpy as np
import pytest

from benchmarks import training_sizes
from benchmarks.training_memory import CASES, MODEL, gradient_bytes, sampling_bytes
from benchmarks.training_programs import of_shapes, sampling_programs
from simlab.llm.instruments.model_changes import weight_changes
from simlab.llm.model import named, shapes
from simlab.llm.training import memory
from simlab.llm.training.computed import Computed, at_once
from simlab.llm.training.optimizer import OptimizerSettings, _ascend, _compiled_settings
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


@pytest.mark.parametrize("native", [True, False])
def test_a_cpu_without_products_of_bfloat16_widens_what_rollouts_see(monkeypatch, native):
    """By hand, of 32 prompts with 4 rollouts: 2 bytes a number, and where it widens 4 more of every prompt's and of one
    layer's own keys and values; float32 is as it was."""
    monkeypatch.setattr(memory, "multiplies_bfloat16", lambda: native)
    batch, exact = (Computed(32, 4, 320, 192, dtype, joining=2) for dtype in ("bfloat16", "float32"))
    numbers = 2 * MODEL.num_layers * MODEL.num_kv_heads * MODEL.head_dim
    of_prompts, of_own = 32 * 320 * numbers, 128 * 192 * numbers
    more = 4 * of_prompts + 4 * of_own // MODEL.num_layers
    stated = memory.sampling_bytes(MODEL, batch)
    monkeypatch.setattr(memory, "multiplies_bfloat16", lambda: True)
    assert stated - memory.sampling_bytes(MODEL, batch) == (0 if native else more)
    assert memory.sampling_bytes(MODEL, exact) > stated


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


def test_a_run_needs_what_it_keeps_and_what_takes_most_at_a_time():
    """32-bit parameters of the start and now, and AdamW's two moments, are 16 bytes a parameter."""
    asked = Settings.from_data({"rl": FEW, "evaluation": {"samples": 4, "rollouts": 16}})
    parts = phases(asked, sizes=(300, 180, 4), platform="gpu")
    needed = memory.needed_memory(asked, MODEL, 300, 180, 4, platform="gpu")
    assert sum(needed.values()) == 16 * memory.parameters_of(MODEL) + max(parts.values())
    assert list(needed)[-1] == max(parts, key=parts.get)


def test_an_update_takes_what_xla_says():
    parameters = of_shapes(shapes(MODEL), "float32")
    optimizer = OptimizerSettings()
    moments = jax.eval_shape(optimizer.init, parameters)
    program = _ascend.lower(_compiled_settings(optimizer), parameters, moments, parameters, 1e-4).compile()
    found = program.memory_analysis()
    gradient = found.argument_size_in_bytes // 4  # beside as many bytes of parameters, and of both moments
    exact = gradient + found.temp_size_in_bytes + found.output_size_in_bytes - found.alias_size_in_bytes
    assert phases(Settings.from_data({}), platform="gpu")["an update"] == pytest.approx(exact, rel=0.02)


SAVED = """
import sys
from pathlib import Path
import numpy as np
from simlab.llm.training.state import State, save_state

def peak():
    # ru_maxrss would begin at that of the process which began this one
    return 1024 * int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])

numbers = {"matrix": np.ones((6000, 6000), np.float32)}
save_state(Path(sys.argv[1]) / "small", State({"matrix": np.ones(2)}, ()), {"arm": "grpo"})
before = peak()
save_state(Path(sys.argv[1]) / "state", State(numbers, ()), {"arm": "grpo"})
print((peak() - before) / numbers["matrix"].nbytes)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="others do not say what a process took at most")
def test_a_checkpoint_is_written_by_way_of_two_copies(tmp_path):
    """Of 144 MB, in a process of its own."""
    ran = subprocess.run([sys.executable, "-c", SAVED, str(tmp_path)], capture_output=True, text=True, check=True)
    copies = float(ran.stdout)
    assert copies == pytest.approx(2, abs=0.1)
    stated = phases(Settings.from_data({}))["writing a checkpoint"] - left_by_the_sampler(MODEL)
    assert stated == pytest.approx(copies * 12 * memory.parameters_of(MODEL), rel=0.1)


def left_by_the_sampler(config):
    """The copies of the layers, in float32."""
    return 4 * sum(math.prod(shape) for _, shape in named(shapes(config)["layers"]))


def test_changes_of_matrices_take_what_python_counts():
    """Of a long embedding, the largest matrix."""
    config = dataclasses.replace(MODEL, vocab_size=2**15)
    before = {"embed_tokens": np.zeros(shapes(config)["embed_tokens"], np.float32)}
    after = {"embed_tokens": before["embed_tokens"] + np.float32(1e-3)}
    tracemalloc.start()
    weight_changes(before, after)
    _, measured = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    stated = phases(Settings.from_data({}), config)["changes of matrices"] - left_by_the_sampler(config)
    assert stated == pytest.approx(measured, rel=0.05)


def test_what_needs_the_host_alone_does_not_count_on_a_gpu():
    on_cpu, on_gpu = (phases(Settings.from_data({}), platform=platform) for platform in ("cpu", "gpu"))
    assert on_cpu.keys() - on_gpu.keys() == {"writing a checkpoint", "changes of matrices"}


def test_an_evaluation_of_adapters_samples_from_a_merged_model():
    config, size = training_sizes.MODELS["Qwen2.5-1.5B"], (8, 4, 4)
    one = {"rl": FEW, "evaluation": {"samples": 4, "rollouts": 16}}
    plain, adapted = (
        phases(Settings.from_data(one | {"model": {"lora_rank": rank}}), config, size, "gpu") for rank in (0, 16)
    )
    merged_bytes = 4 * memory.parameters_of(config)
    assert adapted["sampling of an evaluation"] == plain["sampling of an evaluation"] + merged_bytes


def test_a_process_on_a_cpu_keeps_the_programs_of_every_shape():
    """Evaluations have a shape of their own, 128 places in two halves: they halve three times above 8 places, and room
    doubles once above 128 tokens. A step has 16 places, which halve once."""
    layers = MODEL.num_layers

    def process(*arms, platform="cpu", **rl):
        asked = Settings.from_data(
            {"rl": FEW | rl, "evaluation": {"samples": 16, "rollouts": 128}, "arms": arms or ("grpo",)}
        )
        needed = memory.needed_memory(asked, MODEL, 300, 180, 8, platform=platform)
        return needed.get("Python and JAX", 0), needed.get("compiler and programs", 0) / 2**20

    own, one = process()
    assert process("grpo", "f_grpo", "maxrl") == (own, one)
    of_judged, of_sampled = 1 + 3 + 1, 1 + 1 + 1
    assert one == 320 + 5 * layers * (of_judged + of_sampled) + 60 * 4  # four microbatches of different lengths
    assert process(microbatch=16) == (own, one - 60 * 3)
    assert process("grpo", "grpo@group_size=2")[1] == one + 5 * layers * (1 + 1) + 60 * 2
    assert process(platform="gpu") == (0, 0)


def test_short_completions_have_one_length():
    """Of 4 tokens: so one program of gradients serves all microbatches, and one samples for all numbers of places."""
    asked = Settings.from_data({"rl": FEW, "evaluation": {"samples": 16, "rollouts": 128}})
    needed = memory.needed_memory(asked, MODEL, 6, 4, 8, platform="cpu")
    assert needed["compiler and programs"] == (320 + 5 * MODEL.num_layers * 2 + 60) * 2**20
