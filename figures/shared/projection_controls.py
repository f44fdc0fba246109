"""Two controls of the projection on countdown, run after its outcome was seen, and fresh seeds for one of them.

    python -m figures.shared.projection_controls runs 1 2 3 4 5     (goes on with what runs/dealt and runs/head hold)
    python -m figures.shared.projection_controls --fresh runs 6 7 8 9 10    (predicted before: GRPO, F-GRPO, by head)

By ``dealt`` each step's multipliers go to the prompts that are heard at random: as much is added, to whom is chance. By
``head`` the kernel is that of the last layer, which costs no gradient.
"""

import sys
from pathlib import Path

import numpy as np

from figures.remedies_on_countdown import FRESH, METHODS, PROJECTED, RATES, arm
from figures.shared.by_optimizer import TRAINED, prediction
from figures.shared.closed_countdown import CHANGES, ClosedRun, train_arms
from simlab.llm.model import Parameters
from simlab.llm.training.folder import TrainerState
from simlab.llm.training.groups import RolloutGroups
from simlab.llm.training.policy_gradient import Trainer
from simlab.llm.training.remedies import Change
from simlab.llm.training.settings import ProbeSettings
from simlab.rollouts import Rollouts

RUNS = CHANGES | {"arms": [arm(METHODS[PROJECTED], rate) for rate in RATES]}
FRESH_RUNS = CHANGES | {"arms": [arm(method, rate) for method in FRESH.values() for rate in RATES]}


class Dealt(Trainer):
    """A trainer that deals the multipliers of a projection out at random, by the number of the step."""

    def remedy(self, state: TrainerState, groups: RolloutGroups, rollouts: Rollouts) -> Change | None:
        """Return the change of a step."""
        pushes, change = self.measured(state, groups, rollouts), super().remedy(state, groups, rollouts)
        assert change is not None
        return change._replace(added=dealt(change.added, pushes.targets, seed=state.step))


def dealt(added: np.ndarray, targets: np.ndarray, seed: int) -> np.ndarray:
    """(P, G) additions to the prompts that are heard, with their multipliers in another order."""
    sizes = np.abs(targets).max(axis=1)
    heard = np.flatnonzero(sizes)
    multipliers = np.zeros(len(added))
    multipliers[heard] = np.random.default_rng(seed).permutation(np.abs(added).max(axis=1)[heard] / sizes[heard])
    return np.asarray(multipliers[:, None] * targets)


class Controlled(ClosedRun):
    """The runs of a seed by one control."""

    control = "dealt"

    def trainer(self, name: str, start: Parameters) -> tuple[Trainer, TrainerState]:
        """Return an arm's trainer and first state."""
        trainer, state = super().trainer(name, start)
        if self.control == "head":
            return trainer._replace(probe=ProbeSettings(estimator="head")), state
        return Dealt(*trainer), state


class ByHead(Controlled):
    """The runs of a seed by the last layer."""

    control = "head"


def main(arguments: list[str]) -> None:
    """Train both controls of some seeds, or what is judged of fresh ones."""
    fresh = arguments[0] == "--fresh"
    folder, *seeds = arguments[fresh:]
    for seed in map(int, seeds):
        runs = (ByHead(seed, FRESH_RUNS),) if fresh else (Controlled(seed, RUNS), ByHead(seed, RUNS))
        for run in runs:
            for name in train_arms(run, Path(folder) / run.control, prediction(TRAINED)["judged_at"]):
                print(f"seed {seed}, {run.control}: {name}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
