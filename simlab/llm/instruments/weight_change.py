"""Measure how near to rank 1 the change of each matrix since the start of training is."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from simlab.errors import InputError
from simlab.llm.model import Parameters, named
from simlab.rollouts import Array
from simlab.theory.rank import effective_rank, leading_share, singular_gap

LONGEST = 4096  # a longer matrix, such as an embedding, is decomposed through its Gram matrix


class MatrixChange(NamedTuple):
    """What the change of one matrix is like; NaN where it is undefined, as for a matrix that did not change.

    Attributes:
        name: the name of the parameter, such as ``layers.q_proj``.
        layer: its layer, from 0; None outside of the layers.
        r1: share of the squared norm in the leading direction ``[fade:prop-15.1]``.
        gap: s_1 / s_2.
        srank: how many directions hold 99 % of the sum of the singular values.
        norm: the Frobenius norm.
    """

    name: str
    layer: int | None
    r1: float
    gap: float
    srank: float
    norm: float


def weight_changes(start: Parameters, current: Parameters) -> list[MatrixChange]:
    """r1, s_1 / s_2, srank and norm of current - start, for every matrix of every layer (FADE's Figure 5).

    One matrix at a time, on the host, in float64. Norms and biases are no matrices.

    Raises:
        InputError: for parameters of different models, or values that are not finite; it names the parameter.
    """
    return [_measured(name, layer, change) for name, layer, change in _changes(start, current)]


def weight_change_metrics(changes: Sequence[MatrixChange]) -> dict[str, float]:
    """The medians over all matrices that changed, ``weight_change_r1`` and so on; NaN if there are none."""
    changed = [change for change in changes if change.norm > 0]
    values = {name: [getattr(change, name) for change in changed] for name in ("r1", "gap", "srank", "norm")}
    return {f"weight_change_{name}": float(np.median(all_)) if all_ else np.nan for name, all_ in values.items()}


def _changes(start: Parameters, current: Parameters) -> Iterator[tuple[str, int | None, Float[np.ndarray, "m n"]]]:
    first, last = dict(named(start)), dict(named(current))
    for name in sorted(first.keys() ^ last.keys()):
        raise InputError(f"parameter {name} is in one of the models only; allowed: two states of one model")
    for name, old in first.items():
        new = last[name]
        if old.shape != new.shape:
            raise InputError(f"parameter {name} has shape {new.shape}; allowed: {old.shape}, as at the start")
        if name.startswith("layers.") and old.ndim == 3:
            for layer in range(len(old)):
                yield name, layer, _difference(name, old[layer], new[layer])
        elif not name.startswith("layers.") and old.ndim == 2:
            yield name, None, _difference(name, old, new)


def _difference(name: str, old: Float[Array, "m n"], new: Float[Array, "m n"]) -> Float[np.ndarray, "m n"]:
    change: np.ndarray = np.asarray(new).astype(float) - np.asarray(old).astype(float)
    if not np.isfinite(change).all():
        raise InputError(f"parameter {name} holds NaN or infinity; allowed: finite numbers")
    return change


def _measured(name: str, layer: int | None, change: Float[np.ndarray, "m n"]) -> MatrixChange:
    values = singular_values(change)
    measures = (leading_share(values), singular_gap(values), effective_rank(values), np.linalg.norm(values))
    return MatrixChange(name, layer, *(float(measure) for measure in measures))


def singular_values(matrix: Float[np.ndarray, "m n"]) -> Float[np.ndarray, " R"]:
    """The singular values, the largest first, R = min(m, n).

    Of a matrix longer than ``LONGEST`` they are the square roots of the eigenvalues of its smaller Gram matrix, which
    takes far less time and memory; there, those below sqrt(R eps) times the largest are rounding, and read 0.
    """
    if max(matrix.shape) <= LONGEST:
        values: np.ndarray = np.linalg.svd(matrix, compute_uv=False)
        return values
    largest = np.abs(matrix).max()
    scaled = matrix / largest if largest > 0 else matrix  # for the squares of small ones to keep their digits
    squares = np.linalg.eigvalsh(scaled @ scaled.T if len(matrix) < matrix.shape[1] else scaled.T @ scaled)[::-1]
    rounding = len(squares) * np.finfo(float).eps * squares[0]
    found: np.ndarray = largest * np.sqrt(np.where(squares > rounding, squares, 0.0))
    return found
