"""Check and time simlab on this machine's accelerator, beside the limits of the device.

    python -m benchmarks.accelerator            # some twenty minutes on one GPU
    python -m benchmarks.accelerator --quick    # small sizes, a minute or two on a CPU; prints, writes nothing

First the device's numbers are compared with the CPU's, in the same process. Then come the simulator (dense and
lumped storage, a thousand seeds and ten thousand), whole sweeps, and a language model's rollouts and training steps. On
a machine without an accelerator the CPU takes its place, and the comparison with itself says nothing.
"""

import argparse
import json
import sys

import jax

from benchmarks import accelerator_language, accelerator_simulator
from benchmarks.device_speeds import device_speeds
from benchmarks.machine import RESULTS, describe, in_words, table


def device_in_words() -> str:
    """The devices that JAX found, by kind and number."""
    devices = jax.local_devices()
    return f"{len(devices)} x {devices[0].device_kind} ({devices[0].platform})"


def main() -> None:
    """Compare, measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, no sweeps; write nothing")
    quick = parser.parse_args().quick
    machine = {**describe("jax", "jaxlib", "numpy"), "device": device_in_words()}
    speeds = device_speeds(2**20 if quick else 2**27, 1024 if quick else 8192)
    print(f"{machine['device']}: {_speeds_in_words(speeds)}", file=sys.stderr)
    sections = {
        "agreement with the CPU": accelerator_simulator.agreement(quick),
        "simulator": accelerator_simulator.throughput(speeds, quick),
        "whole sweeps": [] if quick else accelerator_simulator.sweeps(),
        "language model": accelerator_language.throughput(speeds, quick),
    }
    text = "\n\n".join(f"## {name}\n\n{_table(rows)}" for name, rows in sections.items() if rows)
    text = f"# {machine['device']}\n\n{text}\n\n{_speeds_in_words(speeds)}. {in_words(machine)}.\n"
    print(text)
    if not quick:
        name = f"accelerator_{jax.local_devices()[0].device_kind.lower().replace(' ', '_')}"
        content = {"machine": machine, "speeds": speeds, **sections}
        (RESULTS / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")
        (RESULTS / f"{name}.md").write_text(text)


def _speeds_in_words(speeds: dict[str, float]) -> str:
    memory, work = speeds["bytes"] / 1e9, speeds["operations"] / 1e12
    return f"Measured in this run: {memory:.0f} GB/s of memory, {work:.2f} TFLOP/s in float32 products"


def _table(rows: list[dict[str, object]]) -> str:
    def shown(value: object) -> str:
        return f"{value:.4g}" if isinstance(value, float) else str(value)

    return table(list(rows[0]), [[shown(value) for value in row.values()] for row in rows])


if __name__ == "__main__":
    main()
