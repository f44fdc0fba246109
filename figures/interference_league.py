"""Every weight on prompts that share features: pass@256 where pass@1 is the same, beside rivals that cost nothing.

    simlab sweep --preset interference-league --out interference-league.nc   (half an hour on two cores)
    python -m figures.interference_league interference-league.nc             (adds what is finished to what is kept)
    python -m figures.interference_league --table                            (prints the tables of README.md)
    python -m figures.interference_league --decompose                        (prints what is a slower clock in it)
    simlab figures interference_league                                       (draws from what is kept here)

The rate or norm of a rival is chosen on half of the seeds and judged on the other half.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import matplotlib.style
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures.shared import decomposition
from figures.shared.chosen import judge
from figures.shared.condensed import decoded, finished, keep, origins, rounded
from figures.shared.families import COLOURS, family, write_families
from simlab.estimators import REGISTRY
from simlab.plotting import STYLE

DATA = Path(__file__).parent / "data" / "interference_league.json"
DIFFERS = "Not in the papers: every weight at equal pass@1 where prompts share features and disagree about the answer."
PRESET = "interference-league"
LEVELS = np.array([0.3, 0.4, 0.45])  # of pass@1, from .155 of the base model; half of the prompts are easy
SHOWN = 2  # of the levels
# Chosen for each rival.
SETTINGS = ("learning_rate", "update_norm", "kl", "entropy_bonus", "supervised", "threshold", "tempering")
USUAL_GROUP_SIZE = 8
VALUES = ("kl", "entropy", "supervised", "easy", "tempering")  # the sweeps over a coefficient or a threshold
DECOMPOSED = ("norm", "rate")  # the sweeps of all weights
MESSAGE = (
    "At equal pass@1 one weight loses as much of pass@256 as another. Pass@k weights,\n"
    "MaxRL in groups of 32, an entropy bonus or rejecting easy prompts lose nothing"
)
# The panels: a question, and the sweeps that answer it.
QUESTIONS = {
    "Another weight of the rewards (G = 8)?": ("rate", "norm"),
    "Another group size?": ("groups",),
    "Another surrogate, with four gradient steps a batch?": ("surrogates", "penalties"),
    "Something beside the weight?": (*VALUES, "adaptive-entropy", "until-solved"),
    "Another optimiser, or random features?": ("adam", "rotated", "adam-rotated"),
}
ASIDES = {
    "kl": "+ KL penalty",
    "entropy": "+ entropy bonus",
    "supervised": "+ supervised steps",
    "tempering": "+ tempered groups (PTGS)",
    "until-solved": "+ groups until one is right",
    "adam": ", Adam",
    "rotated": ", random features",
    "adam-rotated": ", random features, Adam",
}
ROW, HEADING = 0.145, 0.42  # inches


class Rival(NamedTuple):
    """A method with its sweep, and its runs by setting: pass@1, pass@256 and steps, (settings, seeds, records)."""

    sweep: str
    name: str
    settings: list[dict[str, float]]
    pass_at_1: np.ndarray
    pass_at_256: np.ndarray
    steps: np.ndarray


def rivals(sweep: str, dataset: xr.Dataset) -> Iterator[Rival]:
    """The methods of one sweep."""
    curves = dataset.pass_at_k
    if set(SETTINGS).isdisjoint(curves.dims):  # one value of each
        swept = decoded(dataset.attrs["configuration"])["parameters"]
        values = {name.partition(".")[2]: list(few) for name, few in swept.items()}
        curves = curves.expand_dims({name: values[name] for name in SETTINGS if name in values})
    of_settings = [name for name in SETTINGS if name in curves.dims]
    others = [name for name in curves.dims if name not in (*of_settings, "seed", "step", "k")]
    curves = curves.stack(setting=of_settings, rival=others)
    settings = [dict(zip(of_settings, map(float, values), strict=True)) for values in curves.setting.values]
    for names in curves.rival.values:
        runs = curves.sel(rival=names).transpose("k", "setting", "seed", "step")
        named = dict(zip(others, names, strict=True))
        yield Rival(sweep, _written(named), settings, runs.sel(k=1).values, runs.sel(k=256).values, dataset.step.values)


def _written(named: dict[str, Any]) -> str:
    """``grpo+casp, G = 32``: the name of a rival among those of its sweep."""
    method = "+".join(str(named[key]) for key in ("arm", "estimator", "surrogate") if key in named)
    method += f"(base={named['base']})" if "base" in named else ""
    return method if named["group_size"] == USUAL_GROUP_SIZE else f"{method}, G = {named['group_size']}"


def judged(rival: Rival) -> dict[str, Any]:
    """The best numbers of a rival at each level, and its largest pass@1 at any record."""
    at_levels = [_at_best(rival, level) for level in LEVELS]
    most = rounded(rival.pass_at_1.mean(axis=1).max(), 4)
    return {"sweep": rival.sweep, "name": rival.name, "levels": at_levels, "most": most}


def of_each_value(rival: Rival) -> Iterator[Rival]:
    """A rival at each value of its setting beside the learning rate: a coefficient, or a threshold."""
    (name,) = rival.settings[0].keys() - {"learning_rate"}
    for value in sorted({setting[name] for setting in rival.settings}):
        indices = [index for index, setting in enumerate(rival.settings) if setting[name] == value]
        runs = {"pass_at_1": rival.pass_at_1[indices], "pass_at_256": rival.pass_at_256[indices]}
        yield rival._replace(settings=[rival.settings[index] for index in indices], **runs)


def _at_best(rival: Rival, level: float) -> dict[str, Any] | None:
    """Return pass@256 and the step at a level with their setting; None if no setting reaches it."""
    best = judge(rival.pass_at_1, rival.pass_at_256, rival.steps, level)
    if best is None:
        return None
    numbers = {"mean": rounded(best.mean), "error": rounded(best.error, 3), "step": rounded(best.step, 4)}
    return rival.settings[best.setting] | numbers


def condense(path: Path, data: dict[str, Any]) -> dict[str, Any]:
    """The data with the rivals of finished sweeps, which replace rivals of the same sweep and name.

    A sweep of weights includes GRPO: the differences of the others from it are taken apart.
    """
    sweeps = finished(PRESET, path)
    by_name = {name: list(rivals(name, dataset)) for name, dataset in sweeps.items()}
    new = [judged(rival) for members in by_name.values() for rival in members]
    values = [judged(variant) for name in VALUES for rival in by_name.get(name, ()) for variant in of_each_value(rival)]
    apart = {name: decomposition.taken_apart(_finest(by_name[name])) for name in DECOMPOSED if name in by_name}
    every = {(rival["sweep"], rival["name"]): rival for rival in (*data["rivals"], *new)}
    return {
        "provenance": origins(data, sweeps),
        "levels": LEVELS.tolist(),
        "base": data["base"],
        "rivals": list(every.values()),
        "values": [row for row in data["values"] if row["sweep"] not in by_name] + values,
        "decomposition": {
            name: decomposition.joined(old, apart[name]) if name in apart else old
            for name, old in data["decomposition"].items()
        },
    }


def _finest(members: list[Rival]) -> dict[str, decomposition.Curves]:
    """The runs of each weight of a sweep at its smallest rate or norm, whose records lie closest together."""
    curves = {}
    for rival in members:
        setting = min(range(len(rival.settings)), key=lambda index: tuple(rival.settings[index].values()))
        runs = (rival.pass_at_1[setting], rival.pass_at_256[setting], rival.steps)
        curves[rival.name] = decomposition.Curves(*runs)
    return curves


def draw(data: dict[str, Any]) -> Figure:
    """A panel for each question; in it a row for each rival, from the one that keeps most of pass@256 down."""
    shown = [rival for rival in data["rivals"] if rival["levels"][SHOWN]]
    rows = {question: _rows(shown, sweeps) for question, sweeps in QUESTIONS.items()}
    heights = [ROW * len(content) + HEADING for content in rows.values()]
    with mpl.style.context(STYLE):
        total = sum(heights) + 1.3
        figure = Figure(figsize=(7.2, total))
        figure.suptitle(MESSAGE, x=0.02, y=1 - 0.08 / total, ha="left", va="top", fontsize=10, fontweight="bold")
        write_families(figure, {family(row) for row in next(iter(rows.values()))}, left=0.02, top=1 - 0.52 / total)
        top, panels = total - 0.85, []
        for height, (question, content) in zip(heights, rows.items(), strict=True):
            inside = (0.3, (top - height) / total, 0.66, (height - HEADING + 0.1) / total)
            panels.append(figure.add_axes(inside, sharex=panels[0] if panels else None))
            _draw_panel(panels[-1], question, content, data["base"]["256"])
            top -= height
        for axes in panels[:-1]:
            axes.tick_params(axis="x", labelbottom=False, length=0)
        panels[0].annotate("base model", (data["base"]["256"], 1), (-3, -2), xycoords=("data", "axes fraction"),
                           textcoords="offset points", ha="right", va="top", fontsize=8, color="0.3")  # fmt: skip
        panels[-1].set_xlabel(
            f"pass@256 where pass@1 is {data['levels'][SHOWN]:g} (base model: {data['base']['1']:.3f})"
        )
    return figure


def _rows(shown: list[dict[str, Any]], sweeps: tuple[str, ...]) -> dict[str, list[dict[str, Any]]]:
    """The rivals of some sweeps by the name of their row, the row with the lowest best pass@256 first."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for rival in shown:
        if rival["sweep"] in sweeps:
            rows.setdefault(_row(rival), []).append(rival)
    best = {name: max(rival["levels"][SHOWN]["mean"] for rival in members) for name, members in rows.items()}
    return {name: rows[name] for name in sorted(rows, key=lambda name: (best[name], name))}


def _row(rival: dict[str, Any]) -> str:
    """The name of a rival's row; weights at their best rate and at their best norm share one."""
    if rival["sweep"] == "adaptive-entropy":
        return f"grpo + entropy bonus below {rival['name'].partition('=')[2].rstrip(')')}"
    if rival["sweep"] == "easy":
        base = rival["name"].partition("base=")[2].rstrip(")")
        return f"{base}, easy prompts rejected"
    aside = ASIDES.get(rival["sweep"], "")
    return rival["name"] + (aside if aside.startswith(",") else f" {aside}").rstrip()


def _draw_panel(axes: Axes, question: str, rows: dict[str, list[dict[str, Any]]], base: float) -> None:
    """Means and 95 % intervals of the judging seeds; open where updates have one norm."""
    colours = {name: COLOURS[family(name)] if name in REGISTRY else "0.25" for name in rows}
    for row, (name, members) in enumerate(rows.items()):
        for rival in members:
            mean, error = (rival["levels"][SHOWN][key] for key in ("mean", "error"))
            inside = "white" if rival["sweep"] == "norm" else colours[name]
            style = {"markersize": 2.8 if inside == "white" else 4.6, "markerfacecolor": inside, "elinewidth": 0.9}
            axes.errorbar(mean, row, xerr=1.96 * error, fmt="o", color=colours[name], **style)
    axes.axvline(base, color="0.4", linewidth=0.8, linestyle="--", zorder=0)
    axes.set_yticks(range(len(rows)), list(rows), fontsize=7)
    for label, name in zip(axes.get_yticklabels(), rows, strict=True):
        label.set_color(colours[name])
    axes.set_ylim(-0.8, len(rows) - 0.2)
    axes.grid(axis="y", color="0.93", linewidth=0.6)
    axes.tick_params(axis="y", length=0)
    axes.set_title(question, loc="left", fontsize=9, pad=3)
    if any(rival["sweep"] == "norm" for members in rows.values() for rival in members):
        axes.text(0.5, 0.45, "filled: best learning rate\nopen: best update norm\nbars: 95 %", transform=axes.transAxes,
                  fontsize=8, color="0.3")  # fmt: skip


def table(data: dict[str, Any], of: str = "rivals") -> str:
    """Every rival with its best setting and pass@256 at each level, or every value of a coefficient."""
    heads = [f"pass@256 at pass@1 = {level:g}" for level in data["levels"]]
    level = f"{data['levels'][SHOWN]:g}"
    lines = [f"| sweep | rival | {' | '.join(heads)} | steps to {level} | setting there | largest pass@1 |"]
    lines.append(f"|---|---|{'---:|' * (len(heads) + 1)}---|---:|")
    for rival in sorted(data[of], key=lambda entry: -((entry["levels"][SHOWN] or {}).get("mean", 0))):
        cells = [f"{best['mean']:.3f}({round(best['error'] * 1000)})" if best else "" for best in rival["levels"]]
        last = rival["levels"][SHOWN]
        step = f"{last['step']:.0f}" if last else ""
        setting = ", ".join(f"{name} {last[name]:g}" for name in SETTINGS if name in last) if last else ""
        row = (rival["sweep"], f"`{rival['name']}`", *cells, step, setting, f"{rival['most']:.3f}")
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)


def main(arguments: list[str]) -> None:
    """Condense results, or print a table of what is kept."""
    if arguments == ["--table"]:
        data = json.loads(DATA.read_text())
        print(table(data), table(data, "values"), sep="\n\n")
    elif arguments == ["--decompose"]:
        print(decomposition.tables(json.loads(DATA.read_text())["decomposition"]))
    else:
        keep(DATA, condense(Path(*arguments), json.loads(DATA.read_text())))


if __name__ == "__main__":
    main(sys.argv[1:])
