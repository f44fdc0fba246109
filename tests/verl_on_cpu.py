"""Fill the gaps of verl on a CPU: a platform, its FSDP engine there, and a rollout server of plain transformers.

The rest is verl's own. For ``VERL_USE_EXTERNAL_MODULES=verl_on_cpu`` and ``VERL_PLATFORM=on_cpu``.
"""

import asyncio
import contextlib
import functools
import hashlib
from collections import Counter
from types import SimpleNamespace

import ray
import torch
from verl.plugin.platform.platform_base import PlatformBase
from verl.plugin.platform.platform_manager import PlatformRegistry
from verl.utils import distributed

NAME = "on_cpu"


def nothing(*_, **__):
    pass


def always(value):
    return lambda *_, **__: value


@PlatformRegistry.register(platform=NAME)
class OnCPU(PlatformBase):
    device_name, vendor_name = "cpu", "nobody"
    device_module = SimpleNamespace(
        is_available=always(False), mem_get_info=always((1, 1)), get_device_name=always("CPU"),
        **{name: always(0) for name in ("memory_allocated", "memory_reserved", "max_memory_allocated",
                                        "max_memory_reserved")},
        **{name: nothing for name in ("empty_cache", "synchronize", "set_device", "set_rng_state",
                                      "reset_peak_memory_stats")},
    )  # fmt: skip
    is_available = is_ipc_supported = always(True)
    current_device = always("cpu")
    device_count = always(1)
    get_device_capability = always((None, None))
    communication_backend_name = always("gloo")
    visible_devices_envvar = always("NO_VISIBLE_DEVICES")
    ray_resource_name = always("GPU")  # in which verl counts workers; Ray is told that there is one
    ray_noset_envvars = always([])
    nvtx_range = always(contextlib.nullcontext())
    set_device = synchronize = manual_seed = manual_seed_all = set_allocator_settings = empty_cache = nothing
    profiler_start = profiler_stop = cudart = nothing


# verl asks for gloo on the CPU and the platform's backend on its device, which torch refuses where they are one.
distributed.initialize_global_process_group_ray = functools.partial(
    distributed.initialize_global_process_group_ray, backend="gloo"
)

# With the platform in place, what asks for it while it is imported.
from transformers import AutoModelForCausalLM  # noqa: E402
from verl.workers.engine import EngineRegistry  # noqa: E402
from verl.workers.engine.fsdp import FSDPEngineWithLMHead  # noqa: E402
from verl.workers.rollout import base  # noqa: E402
from verl.workers.rollout.replica import RolloutReplica, RolloutReplicaRegistry, TokenOutput  # noqa: E402

EngineRegistry.register(model_type="language_model", backend=["fsdp2"], device="cpu")(FSDPEngineWithLMHead)


class Server:
    def __init__(self, model: str, length: int):
        self.model = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
        self.length, self.step, self.asked = length, 0, Counter()

    async def update(self, weights: dict, step: int):
        self.model.load_state_dict(weights)
        self.step, self.asked = step, Counter()

    async def generate(self, request_id, prompt_ids, sampling_params, **_):
        prompt = tuple(prompt_ids)
        self.asked[prompt] += 1
        seed = hashlib.sha256(repr((self.step, prompt, self.asked[prompt])).encode()).digest()
        source = torch.Generator().manual_seed(int.from_bytes(seed[:6]))
        tokens, logps = [], []
        while len(tokens) < self.length and tokens[-1:] != [self.model.config.eos_token_id]:
            with torch.no_grad():
                logits = self.model(torch.tensor([[*prompt, *tokens]])).logits[0, -1]
            every = (logits / sampling_params["temperature"]).log_softmax(dim=-1)
            tokens.append(int(torch.multinomial(every.exp(), 1, generator=source)))
            logps.append(float(every[tokens[-1]]))
        return TokenOutput(
            token_ids=tokens, log_probs=logps, stop_reason="completed", extra_fields={"global_steps": self.step}
        )

    async def done(self, *_, **__):
        pass

    wake_up = sleep = clear_kv_cache = release_kv_cache = resume_kv_cache = done
    abort_all_requests = resume_generation = start_profile = stop_profile = done


class Replica(RolloutReplica):
    async def launch_servers(self):
        self._server_handle = (
            ray.remote(Server)
            .options(name=NAME, max_concurrency=self.max_concurrency)
            .remote(self.model_config.path, self.config.response_length)
        )
        self._server_address = NAME
        self.servers = [self._server_handle]


class Adapter(base.BaseRollout):
    async def resume(self, tags):
        pass

    async def release(self):
        pass

    async def update_weights(self, weights, global_steps=0, **_):
        parameters = {name: value.detach().clone() for name, value in weights}
        await asyncio.wrap_future(ray.get_actor(NAME).update.remote(parameters, global_steps or 0).future())


RolloutReplicaRegistry.register(NAME, lambda: Replica)
base._ROLLOUT_REGISTRY[NAME, "async"] = "verl_on_cpu.Adapter"
