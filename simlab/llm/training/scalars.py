"""The numbers of a line of metrics or of an evaluation by the names that TensorBoard and W&B show."""

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Protocol, runtime_checkable

EVALUATION = "evaluation"


@runtime_checkable
class Writer(Protocol):
    """Where the numbers of an arm are written too, beside its own files; a context manager.

    Attributes:
        begins_anew: whether what it wrote in a former process is gone, so that it is given all steps again.
    """

    begins_anew: bool

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Write the numbers of a step; a step may come twice, with its metrics and with its evaluation."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close it."""


def of_metrics(line: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a step; lists and what is undefined are left out.

    >>> of_metrics({"step": 3, "reward": 0.5, "grad_norm": None, "group_share": [0.5, 0.5]})
    {'reward': 0.5}
    """
    return {name: float(value) for name, value in line.items() if name != "step" and _is_number(value)}


def of_evaluation(line: Mapping[str, Any], name: str = EVALUATION) -> dict[str, float]:
    """The numbers of an evaluation and its pass@k, below its name; further sets below theirs.

    >>> of_evaluation({"step": 3, "samples": 8, "pass_at_k": {"1": {"mean": 0.25, "low": 0, "high": 1}}, "length": 2.5})
    {'evaluation/length': 2.5, 'evaluation/pass@1': 0.25}
    """
    found = {f"{name}/{own}": value for own, value in of_metrics(line).items() if own != "samples"}
    found |= {f"{name}/pass@{k}": value["mean"] for k, value in line.get("pass_at_k", {}).items()}
    for other, own in line.get("sets", {}).items():
        found |= of_evaluation(own, other)
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
