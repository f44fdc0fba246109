"""The cost of ``probe.every=10`` to a training run: processor time of a measurement beside a step's.

    python -m benchmarks.probe_share            # minutes
    python -m benchmarks.probe_share --quick    # the smallest model alone; writes nothing

A step samples a batch of a new model, whose completions are long, and computes the gradient of all its tokens; a
measurement uses the same batch. Programs are compiled before. Time is the processor's, since other work may share the
machine.
"""

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import jax
import numpy as np

from benchmarks.machine import RESULTS, describe, in_words, table
from simlab.arms import parse
from simlab.llm.model import init
from simlab.llm.tasks import task
from simlab.llm.training.folder import TrainerState
from simlab.llm.training.memory import count_parameters
from simlab.llm.training.optimizer import first_state
from simlab.llm.training.policy_gradient import Trainer
from simlab.llm.training.presets import PRESETS
from simlab.llm.training.probe import probe
from simlab.llm.training.settings import ProbeSettings, TrainingSettings
from simlab.llm.training.setup import VERIFIER_KEY, Setup, step_key

CASES = ("countdown-conflict", "addition")
EVERY = 10
KINDS = {
    "full": {"estimator": "full"},
    "head": {"estimator": "head"},
    "full, with a panel": {"estimator": "full", "panel": 16, "rollouts": 64},
}


def seconds(compute: Callable[[], object], repeats: int) -> float:
    """Processor's seconds of a computation, the median of some after the first, which compiles."""
    times = []
    for _ in range(repeats + 1):
        began = time.process_time()
        compute()
        times.append(time.process_time() - began)
    return float(np.median(times[1:]))


def measure(name: str, repeats: int) -> list[dict[str, object]]:
    """Seconds of a step and of each kind of measurement."""
    asked = TrainingSettings.from_data(PRESETS[name])
    setup = Setup(asked, task(**asked.task))
    parameters, method = init(setup.loaded.config, jax.random.key(0)), parse("grpo").build()
    trainer = Trainer(setup.policy(), setup.reader, method, asked.rl, parameters, 0, 0, step_key(0, VERIFIER_KEY))
    state = TrainerState(
        parameters, first_state(asked.rl, parameters), method.estimator.init(), method.surrogate.init()
    )
    groups = trainer.collect(state, step_key(0, 1))[0]

    def step() -> None:
        batch = trainer.collect(state, step_key(0, 1))[0].batch
        jax.block_until_ready(trainer.policy.gradient(parameters, batch, batch.mask.astype(np.float32)))

    taken = seconds(step, repeats)
    rows = []
    for kind, options in KINDS.items():
        elapsed = seconds(
            partial(probe, trainer, state, groups, ProbeSettings(every=EVERY, **options), step_key(0, 2)), repeats
        )
        rows.append(
            {
                "model": name,
                "parameters": count_parameters(setup.loaded.config),
                "rollouts": groups.rewards.size,
                "seconds_of_a_step": round(taken, 3),
                "measured": kind,
                "seconds": round(elapsed, 3),
                "share": round(elapsed / (EVERY * taken), 4),
            }
        )
    return rows


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--quick", action="store_true", help="the smallest model alone; write nothing")
    options = parser.parse_args()
    machine = describe("jax", "numpy")
    costs = [row for name in CASES[: 1 if options.quick else None] for row in measure(name, 1 if options.quick else 3)]
    share = f"share of a run, every {EVERY} steps"
    header = ["model", "parameters", "rollouts", "s a step", "measured", "s", share]
    rows = [[f"{value:.1%}" if name == "share" else str(value) for name, value in row.items()] for row in costs]
    text = f"{table(header, rows)}\n\n{in_words(machine)}.\n"
    print(text)
    if not options.quick:
        content = {"machine": machine, "every": EVERY, "measured": costs}
        (options.out / "probe_share.json").write_text(json.dumps(content, indent=1) + "\n")
        (options.out / "probe_share.md").write_text(text)


if __name__ == "__main__":
    main()
