"""The effect of a verifier that errs on weights, focal exponents and group sizes, and the gain from corrections.

    simlab sweep --preset verifier --out verifier.nc     (minutes)
    python -m figures.verifier verifier.nc               (condenses verifier-weights.nc, ...)
    python -m figures.verifier --table                   (prints every weight's losses)
    simlab figures verifier                              (draws from what is kept here)

Every loss is that of a seed against itself with a verifier that does not err.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import spearmanr

from figures.shared.condensed import condense_or_print, mean_and_error, provenance, results, rounded
from figures.shared.end_labels import end_labels
from figures.shared.method_colours import METHOD_COLOURS
from simlab.errors import InputError
from simlab.plotting import STYLE
from simlab.problems import prompt_bank
from simlab.sweeps.presets.base import BANK
from simlab.theory import judged_masses

DATA = Path(__file__).parent / "data" / "verifier.json"
MESSAGE = "False positives cost most where weights look at hard prompts"
DIFFERS = "Not in the papers: verifiers that accept wrong answers, under every weight at equal update norms."
PRESET = "verifier"
NORM, LARGE_NORM, RATE, SIZE = 0.25, 1.0, 0.1, 8  # shown: update norms, rate of false positives, group size
NAMED = {name: METHOD_COLOURS[name] for name in ("nsr", "easy_power", "dr_grpo", "grpo", "f_grpo", "maxrl")}
CORRECTED = {name: METHOD_COLOURS[name] for name in ("reinforce", "dr_grpo", "grpo")}
YOUDEN = ("dr_grpo", "grpo", "maxrl")
# Weights of panel (b) with a name beside them, and how far away it stands, in points.
WRITTEN = {
    "nsr": (-2, 6), "easy_power": (5, -2), "running_mean": (5, -2), "fade_entropy": (-5, -2), "relu": (5, -2),
    "pkpo": (-5, -2), "pass_at_k_tang": (-5, -2),
}  # fmt: skip
LABELS = {
    "nsr": "failures alone",
    "easy_power": "easy focus",
    "dr_grpo": "mean GRPO",
    "grpo": "GRPO",
    "f_grpo": r"F-GRPO, $\gamma$ = 1",
    "maxrl": "MaxRL",
    "reinforce": "REINFORCE",
}
CORRECTIONS = {"none": "-", "backward": "--", "forward": ":"}
NAME = {"fontsize": 7.5, "va": "top"}
NOTE = (
    "Pass@1 after 400 steps, means of 32 seeds with 95 % intervals. Losses are shares of the gain that the\n"
    f"same seeds make without errors, at update norm {NORM:g}. (g, h) Errors of rollouts. (g) Plain steps; false\n"
    "positives f = 10 % and false negatives n = 20 %; solid: no correction, dashed: backward, dotted: forward."
)
SHOWN_K = [1, 16]
RATES = np.linspace(0.0, 0.2, 41)


# Condensing


def condense(path: Path) -> dict[str, Any]:
    """Return the numbers of the figure and the table, with the provenance of all sweeps."""
    sweeps = results(PRESET, path)
    final = {name: dataset.pass_at_k.isel(step=-1) for name, dataset in sweeps.items()}
    base = base_of(sweeps["weights"])
    return {
        "provenance": [provenance(dataset) for dataset in sweeps.values()],
        "base": rounded(base),
        "weights": {
            str(name): of_weight(final["weights"].sel(estimator=name), base)
            for name in final["weights"].estimator.values
        },
        "focus": list(rows(final["focus"], base, "errors_of", "gamma", "update_norm", "false_positive")),
        "groups": list(
            rows(final["groups"], base, "errors_of", "estimator", "update_norm", "false_positive", "group_size")
        ),
        "corrections": list(
            rows(final["corrections"], base, "errors_of", "estimator", "verifier_correction", "learning_rate")
        ),
        "youden": list(rows(final["youden"], base, "estimator", "false_positive", "false_negative")),
    }


def of_weight(final: xr.DataArray, base: np.ndarray) -> dict[str, Any]:
    """The share of a weight's positive advantages that is misplaced at the start, and its passes and losses."""
    return {
        "share": rounded(share_at_the_start(str(final.estimator.values), SIZE, RATE)),
        "rows": list(rows(final, base, "errors_of", "update_norm", "false_positive")),
    }


def rows(final: xr.DataArray, base: np.ndarray, *names: str) -> Iterator[dict[str, Any]]:
    """Yield for each cell pass@1 and pass@16 at the end, and the share of the gain in pass@1 lost to the errors.

    The gain is that of the same seed with a verifier that does not err, from the base model.
    """
    fixed = [name for name in final.dims if name not in (*names, "seed", "k") and final.sizes[name] == 1]
    runs = final.squeeze(fixed).sel(k=SHOWN_K)
    cells = runs.stack(cell=names).transpose("k", "cell", "seed")
    for cell in cells.cell.values:
        values = cells.sel(cell=cell).values
        at = {
            name: getattr(value, "item", lambda value=value: value)() for name, value in zip(names, cell, strict=True)
        }
        lost = {}
        if "errors_of" in names and "false_positive" in names:
            honest = cells.sel(cell=tuple((at | {"false_positive": 0.0}).values())).values
            lost = {"lost": mean_and_error((honest - values)[0] / (honest[0] - base[0]))}
        yield at | mean_and_error(values) | lost


def base_of(sweep: xr.Dataset) -> np.ndarray:
    """Pass@1 and pass@16 of the base model, which all runs begin from."""
    first = sweep.pass_at_k.isel(step=0).sel(k=SHOWN_K)
    return np.asarray(first.transpose("k", ...).values.reshape(len(SHOWN_K), -1)[:, 0], dtype=float)


def share_at_the_start(name: str, group_size: int, rate: float, **parameters: Any) -> float:
    """The share of all advantages, whatever their sign, that accepted wrong rollouts get by theory.

    It is of the bank at the start; NaN for a weight that reads more than rewards.
    """
    bank = prompt_bank(**{key.partition(".")[2]: value for key, (value,) in BANK.items() if key.startswith("problem.")})
    try:
        masses = judged_masses(name, group_size, bank.solve_rates, rate, 0.0, **parameters)
    except InputError:
        return float("nan")
    return float(np.abs(masses.wrongly_accepted).sum() / sum(np.abs(mass).sum() for mass in masses))


# Drawing


def draw(data: dict[str, Any]) -> Figure:
    """Eight questions in four rows, some of them in several panels."""
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 9.2), layout="constrained")
        *rows, below = figure.subfigures(5, 1, height_ratios=(1, 0.85, 1, 0.85, 0.16))
        theory, weights = rows[0].subplots(1, 2)
        draw_theory(theory)
        draw_weights(weights, data)
        focus = rows[1].subplots(1, 4, sharex=True, sharey=True)
        draw_focus(focus[:2], data, "rollout")
        draw_focus(focus[2:], data, "answer")
        for axes, kind in zip(rows[2].subplots(1, 2), ("rollout", "answer"), strict=True):
            draw_groups(axes, data, kind)
        *corrections, youden = rows[3].subplots(1, 4)
        draw_corrections(corrections, data)
        draw_youden(youden, data)
        below.text(0.01, 0.1, NOTE, va="bottom", fontsize=7.5, color="0.3")
    return figure


def draw_theory(axes: Axes) -> None:
    """The share of advantages that lands on wrong rollouts, by theory."""
    for name, colour in NAMED.items():
        shares = [share_at_the_start(name, SIZE, rate) for rate in RATES]
        axes.plot(RATES, shares, color=colour, label=LABELS[name])
    axes.set(xlabel="rate of false positives f", ylabel="share of advantages that\nfalsely accepted rollouts get")
    axes.set_title("(a) theory, at the start", loc="left")
    end_labels(axes)


def draw_weights(axes: Axes, data: dict[str, Any]) -> None:
    """Draw the loss of every weight against the share that theory says it misplaces."""
    for name, weight in data["weights"].items():
        if weight["share"] is None:
            continue
        (row,) = picked(weight["rows"], errors_of="rollout", update_norm=NORM, false_positive=RATE)
        mean, error = row["lost"]["mean"], row["lost"]["error"]
        style = {"color": NAMED.get(name, "0.6"), "zorder": 3 if name in NAMED else 2, "markersize": 4}
        axes.errorbar(weight["share"], mean, yerr=1.96 * error, fmt="o", elinewidth=0.8, **style)
        if name in WRITTEN:
            side = "right" if WRITTEN[name][0] < -2 else "left"
            aside = {"xytext": WRITTEN[name], "textcoords": "offset points", "ha": side}
            axes.annotate(name, (weight["share"], mean), size=7.5, **aside)
    axes.set(xlabel="share of advantages misplaced", ylabel="share of the gain lost")
    axes.set_title("(b) every weight, 10 % of rollouts", loc="left")


def draw_focus(panels: Sequence[Axes], data: dict[str, Any], errors_of: str) -> None:
    """Pass@1 against the rate of false positives, a line for each exponent, in a panel for each norm."""
    exponents = sorted({row["gamma"] for row in data["focus"]})
    for norm, axes in zip((NORM, LARGE_NORM), panels, strict=True):
        for number, gamma in enumerate(exponents):
            colour = mpl.colormaps["viridis"](0.8 - 0.8 * number / (len(exponents) - 1))
            chosen = picked(data["focus"], errors_of=errors_of, gamma=gamma, update_norm=norm)
            draw_rows(axes, chosen, "false_positive", color=colour, label=rf"$\gamma$ = {gamma:g}")
        axes.set(xlabel="f", ylim=(0.3, 0.9), xticks=(0, 0.1, 0.2))
        axes.set_title(f"{errors_of}s, norm {norm:g}", loc="left", fontsize=8)
    letter = "c" if errors_of == "rollout" else "d"
    panels[0].set_title(f"({letter}) {panels[0].get_title(loc='left')}", loc="left", fontsize=8)
    if errors_of == "rollout":
        panels[0].set_ylabel("pass@1, F-GRPO")
    else:
        end_labels(panels[1])


def draw_groups(axes: Axes, data: dict[str, Any], errors_of: str) -> None:
    """Draw the loss against group size."""
    for name in ("dr_grpo", "grpo", "f_grpo", "maxrl"):
        chosen = picked(data["groups"], errors_of=errors_of, estimator=name, update_norm=NORM, false_positive=RATE)
        draw_rows(axes, chosen, "group_size", "lost", color=NAMED[name], label=LABELS[name])
    axes.set_xscale("log", base=2)
    axes.set(xlabel="group size G", ylabel="share of the gain lost", ylim=(0, 0.5))
    axes.set_title(f"({'e' if errors_of == 'rollout' else 'f'}) group size, 10 % of {errors_of}s", loc="left")
    end_labels(axes)


def draw_corrections(panels: Sequence[Axes], data: dict[str, Any]) -> None:
    """Pass@1 against the learning rate under each correction, a panel for each method."""
    for (name, colour), axes in zip(CORRECTED.items(), panels, strict=True):
        for correction, dashes in CORRECTIONS.items():
            chosen = picked(data["corrections"], errors_of="rollout", estimator=name, verifier_correction=correction)
            draw_rows(axes, chosen, "learning_rate", color=colour, linestyle=dashes)
        axes.set_xscale("log", base=2)
        axes.set(xlabel="learning rate", ylim=(0.25, 0.85))
        axes.set_title(LABELS[name], loc="left", fontsize=8)
    panels[0].set_ylabel("pass@1")
    panels[0].set_title(f"(g) {panels[0].get_title(loc='left')}", loc="left", fontsize=8)


def draw_youden(axes: Axes, data: dict[str, Any]) -> None:
    """Pass@1 against Youden's index, each pair of rates a point."""
    axes.axhline(data["base"][0], color="0.3", linewidth=0.8, linestyle="--")
    axes.axvline(0, color="0.8", linewidth=0.8)
    for name in YOUDEN:
        chosen = picked(data["youden"], estimator=name)
        index = [1 - row["false_positive"] - row["false_negative"] for row in chosen]
        mean, error = (np.array([row[key][0] for row in chosen]) for key in ("mean", "error"))
        style = {"color": NAMED[name], "markersize": 3, "elinewidth": 0.8, "label": LABELS[name]}
        axes.errorbar(index, mean, yerr=1.96 * error, fmt="o", **style)
    axes.set(xlabel="1 - f - n (Youden)", ylabel="pass@1")
    axes.set_title("(h) 25 pairs of rates", loc="left", fontsize=8)
    for number, name in enumerate(YOUDEN):
        axes.text(0.03, 0.97 - 0.11 * number, LABELS[name], color=NAMED[name], **NAME | {"transform": axes.transAxes})
    axes.text(1, data["base"][0] - 0.01, "base", ha="right", **NAME)


def picked(rows: list[dict[str, Any]], **values: Any) -> list[dict[str, Any]]:
    """The rows with these values."""
    return [row for row in rows if all(row[name] == value for name, value in values.items())]


def draw_rows(axes: Axes, rows: list[dict[str, Any]], name: str, of: str = "", **style: Any) -> None:
    """Pass@1 of rows, or what is lost of it, against one of their values, in 95 % bands."""
    x = [row[name] for row in rows]
    pairs = [(row["mean"][0], row["error"][0]) if not of else (row[of]["mean"], row[of]["error"]) for row in rows]
    mean, error = np.array(pairs, dtype=float).T
    (line,) = axes.plot(x, mean, **style)
    axes.fill_between(x, mean - 1.96 * error, mean + 1.96 * error, color=line.get_color(), alpha=0.2, linewidth=0)


# The table


def table(data: dict[str, Any]) -> str:
    """Every weight: what it misplaces, pass@1 without errors, and the share of the gain lost to each kind."""
    kinds = ("rollout", "answer", "prompt")
    norms = sorted({row["update_norm"] for row in data["weights"]["grpo"]["rows"]})
    heads = [f"{head}, norm {norm:g}" for norm in norms for head in ("pass@1", *kinds)]
    lines = [f"| weight | misplaced | {' | '.join(heads)} |", f"|---|{'---:|' * (len(heads) + 1)}"]
    for name in sorted(data["weights"], key=lambda name: _order(data, name)):
        weight = data["weights"][name]
        cells = [f"{weight['share']:.2f}" if weight["share"] is not None else ""]
        for norm in norms:
            (clean,) = picked(weight["rows"], errors_of="rollout", update_norm=norm, false_positive=0.0)
            cells.append(_number(clean["mean"][0], clean["error"][0]))
            for kind in kinds:
                (row,) = picked(weight["rows"], errors_of=kind, update_norm=norm, false_positive=RATE)
                cells.append(_number(**row["lost"]))
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def correlations(data: dict[str, Any]) -> str:
    """Spearman's rank correlation of what theory says a weight misplaces and what it loses, by kind and norm."""
    told = {name: weight for name, weight in data["weights"].items() if weight["share"] is not None}
    shares, texts = [weight["share"] for weight in told.values()], []
    for norm in (NORM, LARGE_NORM):
        for kind in ("rollout", "answer", "prompt"):
            losses = [
                picked(weight["rows"], errors_of=kind, update_norm=norm, false_positive=RATE)[0]["lost"]["mean"]
                for weight in told.values()
            ]
            texts.append(f"{kind}, norm {norm:g}: {spearmanr(shares, losses).statistic:.2f}")
    return f"rank correlation of misplaced and lost, {len(told)} weights: " + "; ".join(texts)


def _order(data: dict[str, Any], name: str) -> tuple[float, str]:
    """Return a key that sorts weights by theory, weights without a number last."""
    share = data["weights"][name]["share"]
    return (2.0 if share is None else share, name)


def _number(mean: float, error: float) -> str:
    """Mean, and standard error in the last digit."""
    return f"{mean:.3f}({round(error * 1000)})"


def main(arguments: list[str]) -> None:
    """Condense results, or print the table of what is kept."""
    condense_or_print(arguments, DATA, condense, lambda data: f"{table(data)}\n\n{correlations(data)}")


if __name__ == "__main__":
    main(sys.argv[1:])
