"""A user's own problem, as it would stand in a package of theirs: a policy that is smooth on a ring of actions."""

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
import numpy as np

from simlab.errors import check_range, check_whole
from simlab.problems import Problem, register
from simlab.simulator.metrics import EVERY_STEP, POLICY, USUAL_METRICS, Metric


@dataclass(frozen=True, eq=False)
class Ring(Problem):
    """N actions on a ring, whose logits are a sum of K waves: what a rollout teaches moves its neighbours too.

    Attributes:
        waves: (N, 2 K) the cosine and the sine of each wave at each action.
        amplitudes: (2 K,) what each of them is multiplied with at the start; these are learned.
        arcs: (2, N) true for the actions of the common arc, and for those of the rare one, across the ring.
        correct: (N,) true for the actions of both arcs.
        target: (N,) true for those of the rare arc.
    """

    waves: np.ndarray
    amplitudes: np.ndarray
    arcs: np.ndarray
    correct: np.ndarray
    target: np.ndarray

    over_actions: ClassVar = {"waves": 0, "arcs": 1, "correct": 0, "target": 0}
    lumps = shards = False  # parameters are no action's own, so that they cannot be kept action by action

    @property
    def parameters(self):
        """The amplitudes."""
        return self.amplitudes

    def logits_of(self, parameters, prompts=None):
        """The waves added up, of the only prompt. JAX finds how a gradient of these moves the amplitudes."""
        return (self.waves @ parameters)[None]

    @property
    def metrics(self):
        """The usual metrics, and two more."""
        arc_mass = Metric(
            "arc_mass", "probability of each arc", POLICY, lambda view: self.arcs @ view.policy.p, dimensions=("arc",)
        )
        signal = Metric(
            "signal", "mean |A| since the last record", EVERY_STEP, lambda batch: jnp.mean(jnp.abs(batch.advantages))
        )
        return (*USUAL_METRICS, arc_mass, signal)

    def labels(self):
        """The names of the entries of the dimension that only this problem has."""
        return {"arc": ["common", "rare"]}


@register
def ring(actions: int = 24, waves: int = 3, width: int = 3, height: float = 1.5) -> Ring:
    """A ring with a likely correct arc, ``width`` actions wide, and an unlikely one opposite to it."""
    check_whole("width", width, 1)
    check_whole("actions", actions, 2 * width + 1)
    check_whole("waves", waves, 1)
    check_range("height", height)
    angles = 2 * np.pi * np.arange(actions) / actions
    each = [wave(k * angles) for k in range(1, waves + 1) for wave in (np.cos, np.sin)]
    amplitudes = np.zeros(2 * waves)
    amplitudes[0] = height  # the wave that is highest at action 0
    common = (np.arange(actions) + width // 2) % actions < width
    arcs = np.array([common, np.roll(common, actions // 2)])
    return Ring(np.array(each).T, amplitudes, arcs, correct=arcs.any(axis=0), target=arcs[1])
