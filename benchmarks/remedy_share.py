"""Time and memory of a training step with each ``rl.remedy``, beside a plain step.

    python -m benchmarks.remedy_share            # minutes
    python -m benchmarks.remedy_share --quick    # one remedy; writes nothing

Each remedy has a process of its own, which takes steps of a new model with long completions; its programs were compiled
before. Time is the processor's, since other work may share the machine; memory is the most that the process ever has.
"""

import argparse
import json
import resource
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp

from benchmarks.machine import RESULTS, describe, in_words, table
from benchmarks.probe_share import seconds
from simlab.arms import parse
from simlab.llm.model import init
from simlab.llm.tasks import task
from simlab.llm.training.folder import TrainerState
from simlab.llm.training.optimizer import first_state
from simlab.llm.training.policy_gradient import Trainer
from simlab.llm.training.presets import PRESETS
from simlab.llm.training.settings import TrainingSettings, merge_layers
from simlab.llm.training.setup import VERIFIER_KEY, Setup, step_key
from simlab.simulator.compiled import keep_on_disk
from simlab.simulator.settings import NO_REMEDY, REMEDIES

PRESET, MIB = "countdown-conflict", 2**20
COMPILING = (0, 1, 5)  # cases with programs of their own: a first process compiles and keeps them


def measure(remedy: str, estimator: str, repeats: int) -> dict[str, object]:
    """Time and memory of a step, in this process."""
    keep_on_disk()
    layer = {"rl": {"remedy": remedy}, "probe": {"estimator": estimator}}
    asked = TrainingSettings.from_data(merge_layers(PRESETS[PRESET], layer))
    setup, method = Setup(asked, task(**asked.task)), parse("grpo").build()
    parameters = init(setup.loaded.config, jax.random.key(0))
    common = (setup.policy(), setup.reader, method, asked.rl, parameters)
    trainer = Trainer(*common, 0, 0, step_key(0, VERIFIER_KEY), probe=asked.probe)
    state = TrainerState(
        parameters, first_state(asked.rl, parameters), method.estimator.init(), method.surrogate.init()
    )

    def step() -> None:
        fresh = jax.tree.map(jnp.copy, state)  # a step writes into the buffers of the optimiser's state
        jax.block_until_ready(trainer.step(fresh, step_key(0, 1), instruments=False)[0].parameters)

    taken = seconds(step, repeats)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MIB
    return {"remedy": remedy, "measured by": estimator, "s a step": round(taken, 3), "MiB": round(memory)}


def main() -> None:
    """Measure each remedy in a process of its own, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--quick", action="store_true", help="one remedy; write nothing")
    parser.add_argument("--own", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.own:
        print(json.dumps(measure(*options.own, 2 if options.quick else 3)))
        return
    cases = [(NO_REMEDY, "full"), *((name, "full") for name in REMEDIES[1:]), ("project", "head")]
    machine, costs = describe("jax", "numpy"), list[dict[str, object]]()
    for number, case in enumerate(cases[: 2 if options.quick else None]):
        command = [sys.executable, "-m", "benchmarks.remedy_share", "--own", *case, *["--quick"] * options.quick]
        for _ in range(1 + (number in COMPILING)):
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        costs.append(json.loads(output.splitlines()[-1]))
    rows = [[str(value) for value in row.values()] for row in costs]
    text = f"{table(list(costs[0]), rows)}\n\nPreset {PRESET}, GRPO. {in_words(machine)}.\n"
    print(text)
    if not options.quick:
        content = {"machine": machine, "measured": costs}
        (options.out / "remedy_share.json").write_text(json.dumps(content, indent=1) + "\n")
        (options.out / "remedy_share.md").write_text(text)


if __name__ == "__main__":
    main()
