"""Compare the cells of sweeps where pass@1 first reaches a level: a table, differences paired by seed, a figure."""

from collections.abc import Mapping, Sequence

import matplotlib.style
import numpy as np
import xarray as xr
from jaxtyping import Float
from matplotlib.figure import Figure

from simlab.columns import around_equal_mass, at_equal_mass, pass_at_1, record_axis, seed_counts, with_columns
from simlab.errors import InputError
from simlab.intervals import BAND_SEEDS, CHANGE, SHARE, Bounds, bounds_of, change_of, over_seeds, sign_of
from simlab.plotting import LABELS, STYLE, draw_band, fit_share, line_style, name_lines, panelled
from simlab.sweeps.table import (
    beside_placebo,
    describe_sweep,
    difference_in_short,
    mean_and_error,
    named_cells,
    placebo_pairs,
    signed,
)
from simlab.text import aligned

USUAL = ("retained_mass", "entropy")  # beside pass@k, which comes first
POINTS = 33  # of a curve against pass@1
JUMP = 0.05  # of pass@1, or of another share, between two records; a line across more is no reading
Cells = dict[str, xr.Dataset]
Curves = tuple[str, np.ndarray, dict[str, xr.DataArray]]  # a column, its x, and a line of each cell


def compare_at(
    results: Mapping[str, xr.Dataset], level: float, metrics: Sequence[str] | None = None, baseline: str | None = None
) -> str:
    """Return a table of every cell where its pass@1 first reaches ``level``, and the differences from one cell.

    Each seed is read for itself, linearly between the two records around the step at which it first reaches the level.
    A cell that no seed brings there is named below the table. So are cells whose records are too far apart for such a
    line: pass@1, or a share that is shown, moves by more than ``JUMP`` between the two. Differences are paired by seed,
    from four seeds on with Student's interval (``simlab.intervals``).

    Args:
        results: by name.
        level: of pass@1.
        metrics: the columns, see ``read_metric``; by default pass@k of the largest k, retained mass and entropy.
        baseline: the cell, or the arm if it has a single cell, that the others are compared with; by default the first.

    Raises: InputError: for a metric or a baseline that there is not, and if no cell reaches the level.
    """
    cells, columns, readings, base = _read_cells(results, level, metrics, baseline)
    reached = {name: reading for name, reading in readings.items() if reading.sizes["seed"]}
    rows = [
        {"cell": name, "seeds": str(reading.sizes["seed"])}
        | {str(column): mean_and_error(values.values) for column, values in reading.data_vars.items()}
        for name, reading in reached.items()
    ]
    return "\n".join(
        [
            *(f"{name}: {describe_sweep(dataset)}" for name, dataset in results.items()),
            "",
            f"each seed where its pass@1 first reaches {level:g}; mean over seeds (standard error of the last digits)",
            *aligned(rows),
            *_too_sparse(cells, columns, level),
            *_missing(cells, readings, level),
            *_beside_placebos(results, readings, level),
            *_differences(reached, base),
        ]
    )


def _read_cells(
    results: Mapping[str, xr.Dataset], level: float, metrics: Sequence[str] | None, baseline: str | None
) -> tuple[Cells, list[str], Cells, str]:
    """Return the cells, the columns, the cells where they reach the level, and which one the others are compared with.

    That is by default the first that reaches the level.
    """
    extended, columns = with_columns(results, metrics, USUAL)
    if not metrics:
        columns = sorted(columns, key=lambda name: not name.startswith("pass@"))
    cells = named_cells(extended)
    readings = {name: _reached(cell, columns, level) for name, cell in cells.items()}
    reached = [name for name, reading in readings.items() if reading.sizes["seed"]]
    if not reached:
        raise InputError(f"no cell reaches pass@1 = {level:g}: {'; '.join(_missing(cells, readings, level))}")
    base = find_cell(baseline, cells) if baseline else reached[0]
    if base not in reached:
        raise InputError(f"baseline {base} does not reach pass@1 = {level:g}; allowed: {'; '.join(reached)}")
    return cells, columns, readings, base


def find_cell(text: str, cells: Cells) -> str:
    """Return the name of the cell that a person means by its name, or by a word of it that no other has."""
    matching = [name for name in cells if text == name] or [name for name in cells if text in name.split(", ")]
    if len(matching) != 1:
        number = f"names {len(matching)} cells" if matching else "is no cell"
        raise InputError(f"baseline {text!r} {number}; allowed: {'; '.join(matching or cells)}")
    return matching[0]


def read_at(cell: xr.Dataset, columns: Sequence[str], levels: Float[np.ndarray, " L"]) -> xr.Dataset:
    """Return the step (or the cost) and the columns of each seed where its pass@1 first reaches each level, (L, S).

    NaN where a seed begins above the level or does not reach it.
    """
    axis = record_axis(cell)
    mass, *series = _series(cell, [axis, *columns])
    read = {
        name: (("level", "seed"), at_equal_mass(mass, values, levels))
        for name, values in zip([axis, *columns], series, strict=True)
    }
    return xr.Dataset(read, {"level": levels, "seed": cell["seed"].values})


def _series(cell: xr.Dataset, columns: Sequence[str]) -> list[Float[np.ndarray, "S N"]]:
    mass = pass_at_1(cell)
    values = [mass, *(cell[name].broadcast_like(mass) for name in columns)]
    return [each.transpose("seed", record_axis(cell)).values.astype(float) for each in values]


def _reached(cell: xr.Dataset, columns: Sequence[str], level: float) -> xr.Dataset:
    """Return what ``read_at`` does at one level, (S,), of the seeds that reach it."""
    reading = read_at(cell, columns, np.array([level])).isel(level=0)
    return reading.isel(seed=np.isfinite(reading[record_axis(cell)].values))


def _too_sparse(cells: Cells, columns: Sequence[str], level: float) -> list[str]:
    """Warn of cells that are read on a line between two records across which pass@1 or a share moves by much.

    The warning says how many steps apart records should be to move by ``JUMP``, if they moved evenly. Records of
    successive steps cannot be closer, and only shorter steps would tell.
    """
    largest, coarse, every, widest = dict[str, float](), [], np.inf, 0.0
    for name, cell in cells.items():
        apart, moves = _moves_around(cell, columns, level)
        most = np.max(list(moves.values()), axis=0)
        if (sparse := most > JUMP).any():
            coarse.append(name)
            largest = {column: max(largest.get(column, 0), move.max()) for column, move in moves.items()}
            every = min(every, *(apart[sparse] * JUMP / most[sparse]))
            widest = max(widest, *apart[sparse])
    if not coarse:
        return []
    much = ", ".join(f"{column} by up to {move:.2g}" for column, move in largest.items() if move > JUMP)
    if record_axis(cells[coarse[0]]) == "cost":
        remedy = "more --records are closer"
    elif widest > 1:
        remedy = f"simlab sweep --record-every {max(1, int(every))} records more"
    else:
        remedy = "they are of successive steps, and a smaller --learning-rate moves less in a step"
    return [
        f"warning: the two records around pass@1 = {level:g} are far apart, and a line between them is what is read: "
        f"{much}, in {'; '.join(coarse)}; {remedy}"
    ]


def _moves_around(
    cell: xr.Dataset, columns: Sequence[str], level: float
) -> tuple[Float[np.ndarray, " S"], dict[str, Float[np.ndarray, " S"]]]:
    """Return the steps (or the cost) between the two records around a level, and how far pass@1 and shares move there.

    Each is of the seeds that reach the level.
    """
    axis, shares = record_axis(cell), [name for name in columns if bounds_of(name) == SHARE and name != "pass@1"]
    spaced = cell.assign(apart=(axis, np.diff(cell[axis].values.astype(float), prepend=0)))
    mass, apart, *others = _series(spaced, ["apart", *shares])
    reached = (mass[:, 0] <= level) & (mass.max(axis=1) >= level)
    apart = around_equal_mass(mass, apart, level)[1, reached]
    moves = {}
    for name, values in zip(["pass@1", *shares], [mass, *others], strict=True):
        before, after = around_equal_mass(mass, values, level)[:, reached]
        moves[name] = np.nan_to_num(np.abs(after - before))
    return apart, moves


def _missing(cells: Cells, readings: Cells, level: float) -> list[str]:
    lines = []
    for name, cell in cells.items():
        seeds, mass = readings[name].sizes["seed"], pass_at_1(cell)
        if seeds < cell.sizes["seed"]:
            start = float(mass.isel({record_axis(cell): 0}).mean())
            lines.append(
                f"{name}: {seeds} of {cell.sizes['seed']} seeds reach pass@1 = {level:g}; "
                f"it begins at {start:.3g} and is {float(mass.max()):.3g} at most"
            )
    return lines


def _beside_placebos(results: Mapping[str, xr.Dataset], readings: Cells, level: float) -> list[str]:
    """Say of each cell if it is told from its placebos at the level, or that these do not reach it."""
    lines = []
    for arm, placebo in placebo_pairs(results):
        ours, theirs = readings[arm], readings[placebo]
        if ours.sizes["seed"] and not theirs.sizes["seed"]:
            lines.append(f"{arm} reaches pass@1 = {level:g}, and {placebo} in no seed")
        elif ours.sizes["seed"]:
            lines.append(beside_placebo(arm, placebo, readings, list(map(str, ours.data_vars))[1:]))
    return lines


def _differences(readings: Cells, base: str) -> list[str]:
    """Return the table of differences from a cell, paired by seed, and a sentence on the first column."""
    rows, signs, seeds = [], list[int](), 0
    for name, reading in readings.items():
        if name == base:
            continue
        ours, theirs = xr.align(reading, readings[base], join="inner")
        if not ours.sizes["seed"]:
            continue
        columns = [str(column) for column in ours.data_vars]
        less = {column: (ours[column] - theirs[column]).values for column in columns}
        texts = {column: _with_interval(less[column], change_of(bounds_of(column))) for column in columns}
        rows.append({"cell": name, "seeds": str(ours.sizes["seed"]), **texts})
        signs.append(sign_of(less[columns[1]], change_of(bounds_of(columns[1]))))
        seeds = max(seeds, ours.sizes["seed"])
    if not rows:
        return []
    in_short = difference_in_short(base, columns[1], signs, seeds)
    interval = " [95 % interval over seeds]" * (seeds >= BAND_SEEDS)
    return ["", f"difference from {base}, paired by seed{interval}:", *aligned(rows), "", in_short]


def _with_interval(values: Float[np.ndarray, " S"], bounds: Bounds) -> str:
    """Write a mean difference with its standard error and its interval, ``+0.012(3) [+0.004, +0.020]``.

    Fewer than ``BAND_SEEDS`` have no interval: Student's of two seeds is wider than what is possible.
    """
    text = signed(values)
    estimate = over_seeds(values, bounds)
    if np.isnan(estimate.low) or len(values) < BAND_SEEDS:
        return text
    decimals = len(text.partition("(")[0].partition(".")[2])
    return f"{text} [{estimate.low:+.{decimals}f}, {estimate.high:+.{decimals}f}]"


def figure_at(
    results: Mapping[str, xr.Dataset], level: float, metrics: Sequence[str] | None = None, baseline: str | None = None
) -> Figure:
    """Draw each metric against pass@1, as far as all seeds of a cell come, and pass@k against k at the level.

    A line is a cell, as ``draw_band`` draws it. pass@k against k needs three k or more, and holds the seeds that reach
    the level. Where cells are compared, the last panels have the differences of the first metric and of pass@k from the
    baseline, paired by seed. Takes and raises what ``compare_at`` does.
    """
    cells, columns, _, base = _read_cells(results, level, metrics, baseline)
    masses = [pass_at_1(cell) for cell in cells.values()]
    levels = np.linspace(min(float(mass.min()) for mass in masses), max(float(mass.max()) for mass in masses), POINTS)
    curves = {name: read_at(cell, columns, levels) for name, cell in cells.items()}
    shown: list[Curves] = [(name, levels, {cell: curve[name] for cell, curve in curves.items()}) for name in columns]
    by_k = _by_k(results, level)
    rows = [(*each, LABELS.get(each[0], each[0]), bounds_of(each[0])) for each in shown + by_k]
    for column, x, lines in [shown[0], *by_k] if len(cells) > 1 else []:
        less = {cell: line - lines[base] for cell, line in lines.items()}  # of the seeds that both have
        rows.append(
            (column, x, less, f"{LABELS.get(column, column)}, difference from {base}", change_of(bounds_of(column)))
        )
    with matplotlib.style.context(STYLE):
        figure, panels = panelled(len(rows))
        for panel, (column, x, lines, label, bounds) in zip(panels, rows, strict=True):
            for number, cell in enumerate(cells):
                if lines[cell].sizes["seed"]:
                    draw_band(panel, x, lines[cell], bounds, label=cell, **line_style(number))
            panel.set_ylabel(label)
            if bounds != CHANGE:
                fit_share(panel, column)
            if column == "pass_at_k":
                panel.set_xscale("log", base=2)
                panel.set_xlabel(f"k, at pass@1 = {level:g}")
            else:
                panel.axvline(level, color="0.7", linewidth=0.8, zorder=0)
                panel.set_xlabel("pass@1")
        panels[0].set_title(seed_counts(results.values()), loc="left")
        name_lines(figure)
    return figure


def _by_k(results: Mapping[str, xr.Dataset], level: float) -> list[Curves]:
    """Return pass@k of every cell against k where its pass@1 reaches a level; none of fewer than three k."""
    if not all("pass_at_k" in dataset for dataset in results.values()):
        return []
    at_k, ks = with_columns(results, ["pass_at_k"], ())
    if len(ks) < 3:
        return []
    lines = {
        name: _reached(cell, ks, level).to_dataarray("k", "pass_at_k").sel(k=ks)
        for name, cell in named_cells(at_k).items()
    }
    return [("pass_at_k", np.array([int(k.partition("@")[2]) for k in ks]), lines)]
