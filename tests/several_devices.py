"""Functions called in a process that has several devices, all of one CPU: XLA counts them once, when it starts.

Such a process compiles with XLA's generator of fused loops, which other tests do without: only then are the bits of a
program for several devices those of the program for one.
"""

import os
import pickle
import subprocess
import sys
from pathlib import Path

DEVICES = 4

CALLS = """
import importlib, pickle, sys
import shape_checks
shape_checks.install()
module, calls = pickle.load(sys.stdin.buffer)
found = [getattr(importlib.import_module(module), name)(*arguments) for name, *arguments in calls]
pickle.dump(found, sys.stdout.buffer)
"""


def flags(devices=DEVICES):
    """The XLA_FLAGS of a process with a number of devices."""
    current = os.environ.get("XLA_FLAGS", "").split()
    others = [flag for flag in current if not flag.startswith("--xla_cpu_use_fusion_emitters")]
    return " ".join([*others, f"--xla_force_host_platform_device_count={devices}"])


def called(module, *calls, devices=DEVICES):
    """Call functions of a module of the tests there, each named before its arguments, and return their results."""
    process, request = [sys.executable, "-c", CALLS], pickle.dumps((module, calls))
    environment = {"JAX_PLATFORMS": "cpu"} | os.environ | {"XLA_FLAGS": flags(devices)}
    here = Path(__file__).parent
    done = subprocess.run(process, input=request, stdout=subprocess.PIPE, cwd=here, env=environment, check=True)
    return pickle.loads(done.stdout)
