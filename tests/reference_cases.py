"""What the library is asked, and what the references answer: the cases that every array library must get right."""

import random
from typing import Any

import numpy as np
from references import REFERENCES, Groups, Step

from simlab import Rollouts, estimator
from simlab.estimators import Estimator

CASES: list[tuple[str, dict[str, Any]]] = [
    ("reinforce", {}),
    ("dr_grpo", {}),
    ("grpo", {}),
    ("grpo", {"ddof": 1}),
    ("grpo", {"ddof": 1, "eps": 0.0}),
    ("grpo", {"eps": 0.25}),
    ("rloo", {}),
    ("maxrl", {}),
    ("psr", {}),
    ("nsr", {}),
    ("w_reinforce", {}),
    ("w_reinforce", {"success": 0.5}),
    ("f_grpo", {}),
    ("f_grpo", {"gamma": 0.5, "base": "dr_grpo"}),
    ("f_grpo", {"gamma": 2.0, "base": "rloo"}),
    ("asym_grpo", {"delta": 0.5}),
    ("asym_grpo", {"delta": 2.0}),
    ("power_alpha", {}),
    ("power_alpha", {"alpha": 3.5}),
    ("a_grae", {}),
    ("a_grae", {"alpha": 0.5, "easy_term": "code"}),
    ("a_grae", {"alpha": 0.25, "ddof": 1, "eps": 0.0}),
    ("fade", {}),
    ("fade", {"beta": 0.98}),
    ("fade", {"beta": 0.5, "baseline": "batch_mean"}),
    ("fade", {"beta": 0.5, "target_entropy": 1.5, "alpha_max": 1.5, "delta_min": 0.5}),
]

# Rewards are eighths and log-probabilities 64ths, exact in float32. Ragged groups hold all right, all wrong, and one.
RAGGED_BINARY = [
    [[1, 0, 0, 0, 0], [1, 1, 1, 1, 0], [0, 0, 0], [1, 1], [1]],
    [[0, 1], [1, 0, 0], [1, 1, 0, 0, 0], [0], [1, 1, 0, 1]],
    [[1, 1, 1, 0, 0], [0, 1, 0], [1, 0, 1, 1, 1], [0, 0], [1, 1, 1, 1]],
]
RAGGED_GRADED = [
    [[0.125, 0.75, 0, 0], [0.5, 0.5, 0.5], [1, 0.25], [0.375, 0.125, 0.25, 0.5, 0.75], [0.625]],
    [[0, 0, 0.875], [1, 1, 1, 0.5], [0.25, 0.75, 0, 1, 0.5], [0.125, 0.375], [0, 0]],
    [[0.75], [0, 0.5, 0.5, 1], [0.875, 1], [0.25, 0, 0.125, 0.5, 0], [1, 0.75, 0]],
]
FULL_BINARY = [
    [[1, 0, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0]],
    [[1, 1, 0, 0], [0, 1, 0, 0], [1, 1, 1, 0]],
    [[0, 1, 1, 1], [1, 1, 1, 1], [0, 0, 1, 0]],
]
# The entropy falls from step to step, so that FADE's delta leaves 1.
MEAN_ENTROPY = (2.0, 0.75, 0.25)


def steps(batches: list[Groups], tokens: tuple[int, ...], seed: int) -> list[Step]:
    """One step a batch, each rollout given random log-probabilities for one of the numbers of ``tokens``."""
    draw = random.Random(seed)

    def logp(scale: float) -> list[float]:
        return [-scale * draw.randrange(1, 128) / 64 for _ in range(draw.choice(tokens))]

    return [
        Step(groups, [[logp(scale) for _ in group] for group in groups])
        for groups, scale in zip(batches, MEAN_ENTROPY, strict=True)
    ]


# Sequences of steps by shape of their batches; those of one shape can be stacked and run under vmap.
SEQUENCES: dict[str, list[list[Step]]] = {
    "ragged": [
        steps(RAGGED_BINARY, (1, 2, 3), 0),
        steps(RAGGED_BINARY[::-1], (1, 2, 3), 1),
        steps(RAGGED_GRADED, (1, 2, 3), 2),
    ],
    "full": [steps(FULL_BINARY, (2,), 3), steps(FULL_BINARY[::-1], (2,), 4)],
}

TOLERANCE = {"float32": 1e-6, "float64": 1e-12}
NOTHING = float("nan")  # stands where no rollout or token exists; the library must not read it


def record(step: Step, shape: str, xp: Any, dtype: str) -> Rollouts:
    """The library's record of a step: arrays as they are when ``shape`` is "full", else padded to (5, 5, 3)."""
    real = getattr(xp, dtype)
    if shape == "full":
        return Rollouts(xp.asarray(step.rewards, dtype=real), old_logp=xp.asarray(step.logp, dtype=real))
    rewards = [pad(group, 5, NOTHING) for group in step.rewards]
    logp = [pad([pad(tokens, 3, NOTHING) for tokens in group], 5, [NOTHING] * 3) for group in step.logp]
    return Rollouts(
        xp.asarray(rewards, dtype=real),
        old_logp=xp.asarray(logp, dtype=real),
        mask=xp.asarray((~np.isnan(rewards)).tolist()),
        token_mask=xp.asarray((~np.isnan(logp)).tolist()),
    )


def pad(values: list[Any], length: int, filler: Any) -> list[Any]:
    return values + [filler] * (length - len(values))


def run(chosen: Estimator, batches: list[Rollouts]) -> list[Any]:
    """Advantages of each batch in turn, the state carried from one to the next."""
    state, history = chosen.init(), []
    for batch in batches:
        advantages, state = chosen.update(batch, state)
        history.append(advantages)
    return history


def check_against_reference(name: str, parameters: dict[str, Any], shape: str, xp: Any, dtype: str) -> None:
    """Every sequence of a shape, in one array library: right to the tolerance of the dtype, which is kept."""
    for sequence in SEQUENCES[shape]:
        history = run(estimator(name, **parameters), [record(step, shape, xp, dtype) for step in sequence])
        assert all(advantages.dtype == getattr(xp, dtype) for advantages in history)
        assert_close(history, REFERENCES[name](sequence, **parameters), dtype)


def assert_close(history: list[Any], expected: list[Groups], dtype: str) -> None:
    """Advantages equal the reference's element by element, and are exactly 0 where there is no rollout."""
    for advantages, groups in zip(history, expected, strict=True):
        for row, group in zip(np.asarray(advantages), groups, strict=True):
            np.testing.assert_allclose(row[: len(group)], group, rtol=TOLERANCE[dtype], atol=0)
            np.testing.assert_array_equal(row[len(group) :], 0)
