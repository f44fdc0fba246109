"""A sweep on several devices, in a process that has them; see ``several_devices``."""

import collections
import importlib

running, work = (importlib.import_module(f"simlab.sweep.{name}") for name in ("run", "work"))


def run_and_say_where(sweep, out, shard_actions=None):
    """Run a sweep; returns how many calls each group of devices, by their numbers, has simulated."""
    calls, run_lanes = collections.Counter(), work.run_lanes

    def noted(program, place, steps, lanes, devices):
        calls[tuple(device.id for device in devices)] += 1
        return run_lanes(program, place, steps, lanes, devices)

    work.run_lanes = noted
    try:
        running.run(sweep, out, shard_actions=shard_actions)
    finally:
        work.run_lanes = run_lanes
    return dict(calls)
