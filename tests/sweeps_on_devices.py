"""A sweep on several devices, in a process that has them; see ``several_devices``."""

import collections
import importlib

running, executor = (importlib.import_module(f"simlab.sweeps.{name}") for name in ("run", "executor"))


def run_and_say_where(sweep, out, shard_actions=None):
    """Run a sweep; returns how many calls each group of devices, by their numbers, has simulated."""
    calls, run = collections.Counter(), executor.run

    def noted(problem, settings, seeds, steps, devices):
        calls[tuple(device.id for device in devices)] += 1
        return run(problem, settings, seeds, steps, devices)

    executor.run = noted
    try:
        running.run(sweep, out, shard_actions=shard_actions)
    finally:
        executor.run = run
    return dict(calls)
