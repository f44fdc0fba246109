"""Draw who moves whom: sources by targets, those in danger first, from the measurements of a probe."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure

from simlab.diagnose.interference import mean_changes, watched_rows
from simlab.interference.record import Record

MOST = 40  # sources, and targets, that a person still reads
LONGEST = 18  # characters of a prompt's text, of which the end tells more
NOISE = 1.0  # standard errors up to which an entry is white


class Moves(NamedTuple):
    """Predicted changes of solve rates by one step, in the order in which they are read.

    Attributes:
        sources: texts, those that push the targets in danger down the most first.
        targets: texts, those most likely in danger first.
        change: mean over the measurements; NaN where no measurement has both, or kept the target's column.
        error: its standard error.
    """

    sources: list[str]
    targets: list[str]
    change: Float[np.ndarray, "S T"]
    error: Float[np.ndarray, "S T"]


def sorted_moves(records: Sequence[Record]) -> Moves:
    """Average the kernels of measurements by the texts of prompts, and sort both axes."""
    changes = mean_changes(records)
    targets = [changes.prompts[at] for at in np.argsort(changes.mean / changes.error, kind="stable")[:MOST]]
    batches = [np.array(record.prompts)[record.batch].tolist() for record in records]
    sources = list(dict.fromkeys(itertools.chain.from_iterable(batches)))
    change, variance, count = np.zeros((3, len(sources), len(targets)))
    for record, watched in zip(records, watched_rows(records), strict=True):
        rows = {text: at for at, text in enumerate(record.prompts) if record.batch[at]}
        shown = watched & record.recorded
        columns = {text: at for at, text in enumerate(record.prompts) if shown[at]}
        of_rows, of_columns = ([at for at, text in enumerate(texts) if text in there]
                               for texts, there in ((sources, rows), (targets, columns)))  # fmt: skip
        entries = np.ix_([rows[sources[at]] for at in of_rows], [columns[targets[at]] for at in of_columns])
        where = np.ix_(of_rows, of_columns)
        change[where] += record.pace * record.interference.kernel[entries]
        variance[where] += (record.pace * record.interference.kernel_error[entries]) ** 2
        count[where] += 1
    number = np.where(count > 0, count, np.nan)
    change, error = change / number, np.sqrt(variance) / number
    worst = np.argsort(np.minimum(np.nan_to_num(change), 0).sum(axis=1), kind="stable")[:MOST]
    return Moves([sources[at] for at in worst], targets, change[worst], error[worst])


def draw_map(records: Sequence[Record]) -> Figure:
    """Draw the moves: red pushes down, blue up, white within a standard error of 0, grey never measured together."""
    moves = sorted_moves(records)
    size = [1.6 + 0.16 * max(len(texts), 4) for texts in (moves.targets, moves.sources)]
    page = Figure(figsize=(max(size[0], 4.2), max(size[1], 2.9)), layout="constrained")
    _draw(page.subplots(), moves)
    return page


def _draw(axes: Axes, moves: Moves) -> None:
    clear = np.where(np.abs(moves.change) > NOISE * moves.error, moves.change, 0.0)
    clear = np.where(np.isnan(moves.change), np.nan, clear)
    largest = float(np.nanmax(np.abs(clear), initial=0.0)) or 1.0
    axes.set_facecolor("0.85")
    mesh = axes.pcolormesh(np.ma.masked_invalid(clear), cmap="RdBu", norm=TwoSlopeNorm(0.0, -largest, largest))
    targets, sources = (
        [short_text(text).replace("$", r"\$") for text in texts] for texts in (moves.targets, moves.sources)
    )
    axes.set_xticks(np.arange(len(targets)) + 0.5, targets, rotation=90)
    axes.set_yticks(np.arange(len(sources)) + 0.5, sources)
    axes.tick_params(labelsize=6, length=0)
    axes.invert_yaxis()
    axes.set(xlabel="whose solve rate moves: most in danger first", ylabel="whose update moves it: worst first")
    axes.set_title("Who harms whom, predicted change a step", loc="left", fontsize=9)
    axes.figure.colorbar(mesh, ax=axes, format="%.1g", shrink=0.8).ax.tick_params(labelsize=6)


def short_text(text: str) -> str:
    """Return the end of a text, of which the end tells most, in one line."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"...{line[3 - LONGEST :]}"
