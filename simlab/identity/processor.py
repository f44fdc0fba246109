"""Describe the processor, as far as the last digits of a number depend on it.

XLA compiles for the instructions of the processor that it runs on, up to those that ``XLA_FLAGS`` allow. With wider
vectors and fused multiply-adds it sums in another order and rounds less often, so that the same program gives other
last digits.
"""

import os
import platform
import re
from pathlib import Path

# From the narrowest on, by the flag that a processor of that kind has.
LEVELS = {"sse4_2": "SSE4.2", "avx": "AVX", "avx2": "AVX2", "avx512f": "AVX512"}
MOST = re.compile(r"--xla_cpu_max_isa=(\w+)")
DEVICES = re.compile(r"--xla_force_host_platform_device_count=\S*")  # which changes no number


def processor(device: str, flags: str | None = None, features: frozenset[str] | None = None) -> dict[str, str]:
    """What computes here: ``device``, the ``instructions`` that XLA uses, and ``XLA_FLAGS`` where they are set.

    Args:
        device: what JAX calls the kind of device.
        flags: XLA's; by default those of this process.
        features: the features of the processor; by default those that Linux says of this one.
    """
    flags = os.environ.get("XLA_FLAGS", "") if flags is None else flags
    found = {"device": device, "instructions": instructions(flags, features_here() if features is None else features)}
    others = " ".join(DEVICES.sub("", flags).split())
    return found | ({"XLA_FLAGS": others} if others else {})


def instructions(flags: str, features: frozenset[str], machine: str = platform.machine()) -> str:
    """What XLA compiles for: on x86-64 the widest instructions that the processor has and the flags allow."""
    if machine not in ("x86_64", "AMD64"):
        return f"{machine} SVE" if "sve" in features else machine
    widest = [name for name in LEVELS if name in features]
    if not widest:
        return "x86-64, of unknown instructions"
    allowed = [*LEVELS]
    for asked in MOST.findall(flags):  # the last one counts
        names = [name for name in LEVELS if asked.lower().startswith(name.removesuffix("f"))]
        allowed = [*LEVELS][: 1 + [*LEVELS].index(names[-1])] if names else [*LEVELS]
    return f"x86-64 {LEVELS[[name for name in widest if name in allowed][-1]]}"


def features_here() -> frozenset[str]:
    """What Linux lists of the processor; nothing on another system."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return frozenset()
    listed = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return frozenset(listed.partition(":")[2].split())
