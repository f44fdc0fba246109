"""Format numbers as the cells of a table."""

from collections.abc import Iterable, Mapping

import numpy as np
from jaxtyping import Float

from simlab.llm.compare.arms import Shown
from simlab.llm.compare.estimates import Estimate, estimate

OVER_SEEDS = (
    "mean over seeds (standard error of the last digits), of evaluations [95 % interval over seeds and problems]"
)
OVER_PROBLEMS = "of one seed [95 % interval over problems]"


def cells(values: Mapping[str, Float[np.ndarray, "S ..."]], sign: str = "") -> dict[str, str]:
    """A cell for the estimate of each label; ``sign`` "+" shows a plus."""
    return {label: cell(estimate(found), 2 if label == "distinct" else 3, sign) for label, found in values.items()}


def cell(number: Estimate, digits: int, sign: str = "") -> str:
    """``0.684(4)`` with an error, ``0.684 [0.676, 0.692]`` with an interval alone, "-" for NaN.

    >>> cell(Estimate(0.684, 0.0041, 0.67, 0.69), 3)
    '0.684(4)'
    """
    if np.isnan(number.mean):
        return "-"
    mean = f"{number.mean:{sign}.{digits}f}"
    if not np.isnan(number.error):
        return f"{mean}({round(number.error * 10**digits)})"
    return mean if np.isnan(number.low) else f"{mean} {interval(number.low, number.high, digits, sign)}"


def interval(low: float, high: float, digits: int, sign: str = "") -> str:
    """``[0.676, 0.692]``."""
    return f"[{low:{sign}.{digits}f}, {high:{sign}.{digits}f}]"


def errors_in_words(arms: Iterable[Shown]) -> str:
    """What the brackets behind the numbers of these arms are."""
    several = {len(arm.evaluations) > 1 for arm in arms}
    return "; ".join([OVER_SEEDS] * (True in several) + [OVER_PROBLEMS] * (False in several))
