"""Watch which way prompts push one another while a small decoder trains, and what becomes of their solve rates.

    python -m figures.shared.watched_runs FOLDER TASK SEED ...    (countdown, addition or maze; goes on with FOLDER)

GRPO trains on the last 32 of 96 problems, 8 rollouts of each a step, by AdamW and by plain steps at two learning rates
each, in mazes by AdamW alone. At the steps ``WATCHED`` both estimators of ``simlab.llm.training.probe`` read 32
rollouts of every problem, which nothing learns from: what a batch of the 32 does to them and to the 64 others. At the
steps ``MEASURED`` other samples give the solve rates that count.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

from figures.shared import closed_tasks
from figures.shared.closed_countdown import CHANGES, Closed, ClosedCountdown, ClosedRun
from figures.shared.condensed import rounded
from simlab.errors import check_choice
from simlab.files import write_whole
from simlab.llm.model import Parameters
from simlab.llm.tasks.addition import Addition
from simlab.llm.training.folder import TrainerState
from simlab.llm.training.origin import current_origin
from simlab.llm.training.policy_gradient import Trainer
from simlab.llm.training.presets import PRESETS, WEIGHTS_BY_OPTIMIZER
from simlab.llm.training.probe import probe
from simlab.llm.training.settings import ProbeSettings, merge_layers
from simlab.llm.training.setup import EVALUATION_KEY, step_key
from simlab.simulator.compiled import keep_on_disk

WATCHED, MEASURED = (10, 15, 20, 30), (0, 10, 30, 50)  # steps
ROLLOUTS, SAMPLES = 32, 192  # for each problem
OUTSIDE, TRAINED = 64, 32  # problems
PROBE_KEY = EVALUATION_KEY + 3  # beside the keys of ``simlab.llm.training.setup``
TASKS = ("countdown", "addition", "maze")
RATES = {"adamw": (1e-4, 2e-4), "sgd": (0.05, 0.1)}
ARMS = [f"grpo@optimizer={name}@learning_rate={rate:g}" for name, rates in RATES.items() for rate in rates]
Arm = dict[str, Any]


class PartlyCountdown(ClosedCountdown):
    """Countdown."""

    trained = TRAINED


class PartlyAddition(Closed, Addition):
    """Addition."""

    trained = TRAINED


class PartlyMaze(closed_tasks.ClosedMaze):
    """Mazes."""

    trained = TRAINED


def closed_run(task: str, seed: int, changes: dict[str, Any] | None = None) -> ClosedRun:
    """Return the run of a seed, with changes of the settings."""
    base = {"task": {"evaluation_size": OUTSIDE + TRAINED}, "rl": {"prompts": TRAINED}, "arms": ARMS}
    if task == "maze":
        start = {"warm_start": {**closed_tasks.CHANGES[task]["warm_start"], "steps": 500}}
        larger = {"task": {"size": 9, "max_new_tokens": 32}, "arms": ARMS[:2]}  # only 24 mazes of 7 x 7 are held out
        changes = merge_layers(CHANGES, start, base, larger, changes or {})
        return ClosedRun(seed, changes, closed_tasks.preset(task), PartlyMaze)
    changes = merge_layers(CHANGES, base, changes or {})
    if task == "countdown":
        return ClosedRun(seed, changes, WEIGHTS_BY_OPTIMIZER, PartlyCountdown)
    preset = merge_layers(PRESETS["addition"], {name: WEIGHTS_BY_OPTIMIZER[name] for name in ("rl", "record")})
    return ClosedRun(seed, changes, preset, PartlyAddition)


def solve_rates(run: ClosedRun, parameters: Parameters, step: int) -> list[float]:
    """Return the solve rates of all problems by ``SAMPLES`` samples of each."""
    settings = run.settings
    samples = run.setup.reader.sample(
        run.setup.policy().cast(parameters),
        run.task.evaluation,
        SAMPLES,
        key=jax.random.fold_in(step_key(run.seed, EVALUATION_KEY), step),
        temperature=settings.rl.temperature,
        at_once=settings.evaluation.rollouts,
    )
    return [float(rate) for rate in samples.rewards.mean(axis=1)]


def watch(run: ClosedRun, trainer: Trainer, state: TrainerState) -> dict[str, Any]:
    """Return the solve rates by ``ROLLOUTS`` rollouts, and by estimator the pushes that they show."""
    key = jax.random.fold_in(step_key(run.seed, PROBE_KEY), state.step)
    trained = run.task.evaluation[-run.task.trained :]
    groups = trainer.sample(trainer.policy.cast(state.parameters), trained, ROLLOUTS, key)
    outside = len(run.task.evaluation) - len(trained)
    settings = ProbeSettings(every=1, estimator="both", panel=outside, rollouts=ROLLOUTS)
    content: dict[str, Any] = {}
    for record in probe(trainer, state, groups, settings, key):
        interference = record.interference

        def ordered(values: np.ndarray) -> Any:
            return rounded(np.roll(values, outside, axis=-1), 4)  # the batch comes last

        content["rate"] = ordered(record.solve_rate)
        content[record.facts["estimator"]] = {
            "net": ordered(interference.push.net),
            "error": ordered(interference.error.net),
            "halves": ordered(interference.halves),
        }
    return content


def train_arm(run: ClosedRun, name: str, start: Parameters, first: list[float]) -> Arm:
    """Train an arm from a start with its solve rates; return what was watched and measured, by step."""
    trainer, state = run.trainer(name, start)
    content: Arm = {"watched": {}, "measured": {"0": first}}
    while True:
        if state.step in MEASURED[1:]:
            content["measured"][str(state.step)] = solve_rates(run, state.parameters, state.step)
        if state.step in WATCHED:
            content["watched"][str(state.step)] = watch(run, trainer, state)
        if state.step == trainer.settings.steps:
            return content
        state, _ = trainer.step(state, step_key(run.seed, state.step + 1), instruments=False)


def train_seed(task: str, seed: int, folder: Path, changes: dict[str, Any] | None = None) -> Iterator[str]:
    """Train the arms of a seed that ``folder`` does not hold yet, and write each when it ends; yield its name.

    Arms of other code or settings are trained anew.
    """
    keep_on_disk()
    run, path = closed_run(task, seed, changes), folder / f"{task}-{seed}.json"
    origin = {"settings": run.settings.as_data(), **current_origin(run.settings, run.task)}
    content = json.loads(path.read_text()) if path.exists() else {}
    if content.get("provenance") != json.loads(json.dumps(origin)):
        content = {"task": task, "seed": seed, "provenance": origin, "arms": {}}
    content["prompts"] = [problem.prompt for problem in run.task.evaluation]
    missing = [name for name in run.settings.arms if name not in content["arms"]]
    if not missing:
        return
    start = run.start()
    first = solve_rates(run, start, 0)
    for name in missing:
        content["arms"][name] = train_arm(run, name, start, first)
        write_whole(path, json.dumps(content).encode())
        yield name


def main(arguments: list[str]) -> None:
    """Train the arms of some seeds."""
    folder, task, *seeds = arguments
    check_choice("task", task, TASKS)
    Path(folder).mkdir(parents=True, exist_ok=True)
    for seed in map(int, seeds):
        for name in train_seed(task, seed, Path(folder)):
            print(f"{task}, seed {seed}: {name}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
