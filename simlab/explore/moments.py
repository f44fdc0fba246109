"""Choose the steps that are recorded, and reduce what is recorded over seeds to what the page needs."""

from typing import Any

import numpy as np
from jaxtyping import Float, Int


def record_steps(steps: int, records: int) -> Int[np.ndarray, " R"]:
    """The recorded steps, evenly spread; the last one is the last step."""
    return np.round(np.linspace(0, steps, records + 1)[1:]).astype(np.int64)


def moments(values: Float[np.ndarray, "seeds R"]) -> dict[str, list[Any]]:
    """Mean over seeds, sum of squared differences from it, and the values of each seed, as JSON can hold them."""
    values = values.astype(np.float64)
    mean = values.mean(axis=0)
    return {"mean": _listed(mean), "m2": _listed(((values - mean) ** 2).sum(axis=0)), "values": [*map(_listed, values)]}


def _listed(values: Float[np.ndarray, " R"]) -> list[float | None]:
    return [float(f"{value:.6g}") if np.isfinite(value) else None for value in values]
