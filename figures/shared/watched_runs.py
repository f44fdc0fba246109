"""Watch which way prompts push one another while a decoder trains, and what becomes of their solve rates.

    python -m figures.shared.watched_runs FOLDER TASK SEED ... [--optimizer NAME]

TASK is countdown, addition, maze or fewshot. It goes on with FOLDER; with ``--optimizer``, ``adamw`` or ``sgd``, with
the arms of one alone. GRPO trains on the last 32 of 96 problems, 8 rollouts of each a step, by AdamW and by plain steps
at two learning rates each. At the steps ``WATCHED`` both estimators of ``simlab.llm.training.probe`` read 32 rollouts
of every problem, which nothing learns from: what a batch of the 32 does to them and to the 64 others. At the steps
``MEASURED`` other samples give the solve rates that count. SmolLM2 trains adapters on the last 8 of 40 few-shot sums
and is watched once, by fewer samples.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from figures.shared import by_optimizer, closed_tasks
from figures.shared.closed_countdown import CHANGES, Closed, ClosedCountdown, ClosedRun
from figures.shared.condensed import rounded
from simlab.files import write_whole
from simlab.llm.model import Parameters
from simlab.llm.tasks.addition import Addition
from simlab.llm.tasks.fewshot import FewShot
from simlab.llm.training.folder import TrainerState
from simlab.llm.training.gradient import DecoderPolicy
from simlab.llm.training.origin import current_origin
from simlab.llm.training.policy_gradient import Trainer
from simlab.llm.training.presets import PRESETS, WEIGHTS_BY_OPTIMIZER
from simlab.llm.training.probe import probe
from simlab.llm.training.settings import ProbeSettings, merge_layers
from simlab.llm.training.setup import EVALUATION_KEY, step_key
from simlab.simulator.compiled import keep_on_disk

WATCHED, MEASURED = (10, 15, 20, 30), (0, 10, 30, 50)  # steps


class Watch(NamedTuple):
    """How a task is watched.

    Attributes:
        outside, trained: problems that are not trained, and those that are.
        rollouts, samples: of each problem, for the pushes and for the solve rates that count.
        watched, measured: steps.
        rates: learning rates by optimiser.
    """

    outside: int
    trained: int
    rollouts: int
    samples: int
    watched: tuple[int, ...]
    measured: tuple[int, ...]
    rates: dict[str, tuple[float, ...]]

    @property
    def arms(self) -> list[str]:
        """Names of all arms."""
        pairs = ((name, rate) for name, rates in self.rates.items() for rate in rates)
        return [f"grpo@optimizer={name}@learning_rate={rate:g}" for name, rate in pairs]


USUAL = Watch(64, 32, 32, 192, WATCHED, MEASURED, {"adamw": (1e-4, 2e-4), "sgd": (0.05, 0.1)})
FEW = Watch(32, 8, 16, 96, WATCHED[:1], MEASURED[:3], {"adamw": (2e-5, 5e-5), "sgd": (0.01, 0.03)})
WATCHES = {
    "countdown": USUAL,
    "addition": USUAL,
    "maze": USUAL._replace(rates=USUAL.rates | {"sgd": (0.001, 0.0025)}),
    "fewshot": FEW,
}
PROBE_KEY = EVALUATION_KEY + 3  # beside the keys of ``simlab.llm.training.setup``
Arm = dict[str, Any]


class PartlyCountdown(ClosedCountdown):
    """Countdown."""

    trained = USUAL.trained


class PartlyAddition(Closed, Addition):
    """Addition."""

    trained = USUAL.trained


class PartlyMaze(closed_tasks.ClosedMaze):
    """Mazes."""

    trained = USUAL.trained


class PartlyFewShot(Closed, FewShot):
    """Sums after two that are solved."""

    trained = FEW.trained


def closed_run(task: str, seed: int, changes: dict[str, Any] | None = None) -> ClosedRun:
    """Return the run of a seed, with changes of the settings."""
    watch = WATCHES[task]
    sizes = {"task": {"evaluation_size": watch.outside + watch.trained}, "rl": {"prompts": watch.trained}}
    base = merge_layers(sizes, {"rl": {"steps": watch.measured[-1]}, "arms": watch.arms})
    if task == "fewshot":
        small = {name: PRESETS[task][name] for name in ("task", "model", "evaluation")} | {"rl": {"microbatch": 64}}
        preset = merge_layers({name: WEIGHTS_BY_OPTIMIZER[name] for name in ("rl", "record")}, small)
        # The model is the same in every seed, and the questions are not.
        changes = merge_layers({"model": {"lora_rank": 8}, "task": {"seed": seed}}, base, changes or {})
        return ClosedRun(seed, changes, preset, PartlyFewShot)
    if task == "maze":
        start = {"warm_start": {**closed_tasks.CHANGES[task]["warm_start"], "steps": 500}}
        larger = {"task": {"size": 9, "max_new_tokens": 32}}  # only 24 mazes of 7 x 7 are held out
        changes = merge_layers(CHANGES, start, base, larger, changes or {})
        return ClosedRun(seed, changes, closed_tasks.preset(task), PartlyMaze)
    changes = merge_layers(CHANGES, base, changes or {})
    if task == "countdown":
        return ClosedRun(seed, changes, WEIGHTS_BY_OPTIMIZER, PartlyCountdown)
    preset = merge_layers(PRESETS["addition"], {name: WEIGHTS_BY_OPTIMIZER[name] for name in ("rl", "record")})
    return ClosedRun(seed, changes, preset, PartlyAddition)


def solve_rates(run: ClosedRun, policy: DecoderPolicy, parameters: Parameters, step: int, samples: int) -> list[float]:
    """Return the solve rates of all problems by so many samples of each."""
    settings = run.settings
    sampled = run.setup.reader.sample(
        policy.cast(parameters),
        run.task.evaluation,
        samples,
        key=jax.random.fold_in(step_key(run.seed, EVALUATION_KEY), step),
        temperature=settings.rl.temperature,
        at_once=settings.evaluation.rollouts,
    )
    return [float(rate) for rate in sampled.rewards.mean(axis=1)]


def pushes(run: ClosedRun, trainer: Trainer, state: TrainerState, rollouts: int) -> dict[str, Any]:
    """Return the solve rates by so many rollouts, and by estimator the pushes that they show."""
    key = jax.random.fold_in(step_key(run.seed, PROBE_KEY), state.step)
    trained = run.task.evaluation[-run.task.trained :]
    groups = trainer.sample(trainer.policy.cast(state.parameters), trained, rollouts, key)
    outside = len(run.task.evaluation) - len(trained)
    settings = ProbeSettings(every=1, estimator="both", panel=outside, rollouts=rollouts)
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


def train_arm(run: ClosedRun, watch: Watch, name: str, start: Parameters, first: list[float]) -> Arm:
    """Train an arm from a start with its solve rates; return what was watched and measured, by step."""
    trainer, state = run.trainer(name, start)
    content: Arm = {"outside": watch.outside, "samples": watch.samples, "watched": {}, "measured": {"0": first}}
    while True:
        if state.step in watch.measured[1:]:
            rates = solve_rates(run, trainer.policy, state.parameters, state.step, watch.samples)
            content["measured"][str(state.step)] = rates
        if state.step in watch.watched:
            content["watched"][str(state.step)] = pushes(run, trainer, state, watch.rollouts)
        if state.step == trainer.settings.steps:
            return content
        state, _ = trainer.step(state, step_key(run.seed, state.step + 1), instruments=False)


def train_seed(
    task: str, seed: int, folder: Path, changes: dict[str, Any] | None = None, optimizer: str | None = None
) -> Iterator[str]:
    """Train the arms of a seed that ``folder`` does not hold yet, and write each when it ends; yield its name.

    Arms of other code or settings are trained anew. With an ``optimizer`` its arms alone are trained.
    """
    keep_on_disk()
    run, path, watch = closed_run(task, seed, changes), folder / f"{task}-{seed}.json", WATCHES[task]
    origin = {"settings": run.settings.as_data(), **current_origin(run.settings, run.task)}
    content = json.loads(path.read_text()) if path.exists() else {}
    if content.get("provenance") != json.loads(json.dumps(origin)):
        content = {"task": task, "seed": seed, "provenance": origin, "arms": {}}
    content["prompts"] = [problem.prompt for problem in run.task.evaluation]
    missing = [name for name in by_optimizer.arms_of(run.settings, optimizer) if name not in content["arms"]]
    if not missing:
        return
    start = run.start()
    first = solve_rates(run, run.setup.policy(), start, 0, watch.samples)
    for name in missing:
        content["arms"][name] = train_arm(run, watch, name, start, first)
        write_whole(path, json.dumps(content).encode())
        yield name


def main(arguments: list[str]) -> None:
    """Train the arms of some seeds."""
    options = by_optimizer.read_options(arguments, {"folder": {"type": Path}, "task": {"choices": WATCHES}})
    options.folder.mkdir(parents=True, exist_ok=True)
    for seed in options.seeds:
        for name in train_seed(options.task, seed, options.folder, optimizer=options.optimizer):
            print(f"{options.task}, seed {seed}: {name}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
