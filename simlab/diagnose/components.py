"""Answer which of several rewards a run learns from: what each drives, which never vary, and which pull apart."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Bool

from simlab.diagnose.batches import Table, recompute
from simlab.diagnose.reading import Reading

LOOKED_AT = 100_000  # rollouts by which weights are fitted
EXACT = 1e-5  # of the reward's spread that a sum may miss: float32's rounding, and that of a log's decimals


def reward_weights(reading: Reading) -> dict[str, float]:
    """Return the weight of each column whose weighted sum is the reward; none where no sum is.

    Columns that never vary, or that others make up (a verdict beside the reward for it), are left out. An empty cell
    counts as 0, as trainers leave it out of the sum.
    """
    rollouts = reading.rollouts
    if len(reading.columns.rewards) > 1:
        return {name: 1.0 for name in reading.columns.rewards if name in rollouts.components}
    every = slice(None, None, 1 + len(rollouts.reward) // LOOKED_AT)
    reward = _centred(rollouts.reward[every])
    table: dict[str, np.ndarray] = {}
    basis: list[np.ndarray] = []
    for name, values in rollouts.components.items():
        column = _centred(np.nan_to_num(values[every]))
        rest = column
        for axis in basis:
            rest = rest - (axis @ rest) * axis
        if np.linalg.norm(rest) > EXACT * max(float(np.linalg.norm(column)), EXACT):
            basis.append(rest / np.linalg.norm(rest))
            table[name] = column
    if not table:
        return {}
    columns = np.stack(list(table.values()), axis=1)
    weights = np.linalg.lstsq(columns, reward, rcond=None)[0]
    scale = np.linalg.norm(reward)
    if np.linalg.norm(reward - columns @ weights) > EXACT * scale:
        return {}
    used = np.abs(weights) * np.linalg.norm(columns, axis=0) > EXACT * scale
    return {name: float(weight) for name, weight, is_used in zip(table, weights, used, strict=True) if is_used}


def _centred(values: np.ndarray) -> np.ndarray:
    return np.asarray(values - values.mean())


def gdpo(parts: Mapping[str, Table], weights: Mapping[str, float], mask: Bool[np.ndarray, "P G"]) -> Table:
    """Return GDPO's advantages of a batch ``[arxiv:2601.05242]``, 8 January 2026.

    Each part of the reward is normalised in its group, z = (c - mean) / (std + eps), the weighted sum of z is taken,
    and its mean and std over the batch normalise it. Both eps are 1e-4, and stds those of a sample, as in the trainers
    of the paper's repository (NVlabs/GDPO).
    """
    whole = sum(weight * recompute("grpo", parts[name], mask, ddof=1, eps=1e-4) for name, weight in weights.items())
    return recompute("reinforce_pp", np.asarray(whole), mask, ddof=1, eps=1e-4)
