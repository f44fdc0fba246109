"""Measure the net push at the first step of ``watched_runs`` anew, by many more rollouts: was noise what missed?

    python -m figures.shared.sharper_pushes FOLDER countdown SEED ...    (adds to the seeds that FOLDER holds)

It is no part of the prediction, and was written after its outcome was seen. 256 rollouts of each trained prompt and 128
of each other prompt, in two halves that share nothing: four net pushes, of each half of the sources on each of the
targets.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from figures.shared.closed_countdown import ClosedRun
from figures.shared.condensed import rounded
from figures.shared.watched_runs import PROBE_KEY, WATCHED, closed_run
from simlab.files import write_whole
from simlab.interference import rollout_weights
from simlab.llm.tasks.base import TaskProblem
from simlab.llm.training.features import full_features, root_preconditioner
from simlab.llm.training.folder import TrainerState
from simlab.llm.training.groups import RolloutGroups
from simlab.llm.training.policy_gradient import Trainer
from simlab.llm.training.setup import step_key
from simlab.simulator.compiled import keep_on_disk

SOURCE_ROWS, TARGET_ROWS, SKETCH = 16, 8, 4093  # groups of 8 of each prompt in a half
Vectors = Float[np.ndarray, "... F"]


def features(trainer: Trainer, state: TrainerState, groups: RolloutGroups) -> Vectors:
    """Return the features of rollouts, (P, G, F) of all layers."""
    scale = root_preconditioner(trainer.settings, state.optimizer)
    return np.concatenate(full_features(trainer.policy, state.parameters, groups.batch, scale, SKETCH), axis=-1)


def sampled(
    trainer: Trainer, state: TrainerState, problems: Sequence[TaskProblem], rows: int, key: Any
) -> RolloutGroups:
    """Sample ``rows`` groups of each problem."""
    size = trainer.settings.group_size
    return trainer.sample(trainer.policy.cast(state.parameters), list(problems) * rows, size, key)


def update(trainer: Trainer, state: TrainerState, problems: Sequence[TaskProblem], key: Any) -> Vectors:
    """Estimate the expected update of a batch of these problems."""
    groups = sampled(trainer, state, problems, SOURCE_ROWS, key)
    rollouts = trainer.rollouts(groups, groups.sampled.logp, key)
    method = trainer.method.at(state.surrogate)
    weights, _ = rollout_weights(method, rollouts, state.estimator, groups=1, prompts=len(problems))
    return np.asarray(np.einsum("nr,nrf->f", weights, features(trainer, state, groups)) / SOURCE_ROWS)


def gradients(
    trainer: Trainer, state: TrainerState, problems: Sequence[TaskProblem], key: Any
) -> tuple[Vectors, Float[np.ndarray, " N"]]:
    """Estimate the gradients of the solve rates of these problems, and the rates."""
    groups = sampled(trainer, state, problems, TARGET_ROWS, key)

    def by_problem(values: np.ndarray) -> np.ndarray:
        return np.concatenate(values.reshape(TARGET_ROWS, len(problems), *values.shape[1:]), axis=1)

    correct, vectors = by_problem(groups.rewards > 0), by_problem(features(trainer, state, groups))
    centred = (correct - correct.mean(axis=1, keepdims=True)) / (correct.shape[1] - 1)
    return np.einsum("nr,nrf->nf", centred, vectors), correct.mean(axis=1)


def measured(run: ClosedRun, name: str, start: Any) -> dict[str, Any]:
    """Train an arm to the first step that is watched; return four net pushes on the prompts that are not trained."""
    trainer, state = run.trainer(name, start)
    while state.step < WATCHED[0]:
        state, _ = trainer.step(state, step_key(run.seed, state.step + 1), instruments=False)
    trained, others = run.task.evaluation[-run.task.trained :], run.task.evaluation[: -run.task.trained]
    keys = jax.random.split(step_key(run.seed, PROBE_KEY), 4)
    sources = [update(trainer, state, trained, key) for key in keys[:2]]
    targets = [gradients(trainer, state, others, key) for key in keys[2:]]
    nets = [[rounded(target @ source, 4) for target, _ in targets] for source in sources]
    return {"net": nets, "rate": rounded(np.mean([rate for _, rate in targets], axis=0), 5)}


def main(arguments: list[str]) -> None:
    """Measure the arms that a folder holds of some seeds, and has not measured."""
    keep_on_disk()
    folder, task, *seeds = arguments
    for seed in map(int, seeds):
        run, path = closed_run(task, seed), Path(folder) / f"{task}-{seed}.json"
        content = json.loads(path.read_text())
        start = run.start()
        for name, arm in content["arms"].items():
            if "sharper" not in arm:
                arm["sharper"] = measured(run, name, start)
                write_whole(path, json.dumps(content).encode())
                print(f"{task}, seed {seed}: {name}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
