"""The drift of the ratio within a batch, the tokens on which a clip acts, and what becomes of pass@k.

    simlab sweep --preset minibatches --out minibatches.nc     (minutes)
    python -m figures.minibatches minibatches.nc               (condenses)
    simlab figures minibatches                                 (draws)

Every run has the same rollouts: steps x prompts x G.
"""

import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures.shared.condensed import keep, mean_and_error, provenance, rounded
from simlab.columns import at_equal_mass
from simlab.plotting import STYLE
from simlab.sweeps.result import read

DATA = Path(__file__).parent / "data" / "minibatches.json"
MESSAGE = "A clip acts on rare tokens, and most of all on rare correct ones"
DIFFERS = "Not in the papers: GRPO on prompts that share features, with minibatches and epochs, at equal rollouts."
LEVEL, SHOWN_K = 0.4, 256
SURROGATES = {"unclipped": ("0.45", ":"), "ppo_clip": ("C0", "-"), "clip_higher": ("C1", "--")}
SCALARS = {
    "ratio_drift": "mean |log ratio|, last step",
    "clipped_share": "clipped share of tokens",
    "pass_at_1": "pass@1 at the end",
    "pass_at_k": "pass@256 at the end",
    "pass_at_k_at_level": "pass@256, at pass@1 .4",
}
OUTCOMES = {"correct": "C2", "wrong": "C3"}
CLIPPED = "ppo_clip"  # its tokens are split


def of_cell(cell: xr.Dataset) -> dict[str, np.ndarray]:
    """Each scalar of each seed; metrics of gradient steps are means over all steps of the run."""
    pass_at_1, many = (cell.pass_at_k.sel(k=k).transpose("seed", "step").values for k in (1, SHOWN_K))
    at_level = at_equal_mass(pass_at_1, many, np.array([LEVEL]))[0]
    means = [_over_steps(cell[name]) for name in ("ratio_drift", "clipped_share")]
    return dict(zip(SCALARS, (*means, pass_at_1[:, -1], many[:, -1], at_level), strict=True))


def _over_steps(values: xr.DataArray) -> np.ndarray:
    """The mean over the run; records lie equally far apart."""
    return np.asarray(values.isel(step=slice(1, None)).mean("step").transpose("seed", ...).values)


def of_tokens(cell: xr.Dataset) -> dict[str, Any]:
    """Return for each outcome the share of clipped tokens and the number of tokens, by decade of probability.

    The share pools all seeds, and its error is that of a ratio of two means; null where no token was drawn.
    """
    numbers = {}
    for outcome in OUTCOMES:
        drawn, clipped = (_over_steps(cell[f"{what}_{outcome}"]) for what in ("drawn", "clipped"))
        total = np.where(drawn.any(axis=0), drawn.mean(axis=0), np.nan)
        share = clipped.mean(axis=0) / total
        error = (clipped - share * drawn).std(axis=0, ddof=1) / np.sqrt(len(drawn)) / total
        numbers[outcome] = {"mean": rounded(share), "error": rounded(error), "drawn": rounded(drawn.mean(axis=0))}
    return numbers


def condense(path: Path) -> dict[str, Any]:
    """Return the numbers of the figure by gradient steps a batch, with the provenance of the sweep."""
    dataset = read(path)
    runs = dataset.squeeze([name for name in dataset.dims if dataset.sizes[name] == 1])
    settings = [(count, epochs) for count in runs.minibatches.values.tolist() for epochs in runs.epochs.values.tolist()]
    data: dict[str, Any] = {
        "provenance": provenance(dataset),
        "settings": settings,
        "decades": runs.decade.values.tolist(),
    }
    for surrogate in SURROGATES:
        cells = [runs.sel(surrogate=surrogate, minibatches=count, epochs=epochs) for count, epochs in settings]
        scalars = [of_cell(cell) for cell in cells]
        data[surrogate] = {name: mean_and_error(np.array([cell[name] for cell in scalars])) for name in SCALARS}
        if surrogate == CLIPPED:
            data["tokens"] = [of_tokens(cell) for cell in cells]
    return data


def draw(data: dict[str, Any]) -> Figure:
    """The scalars by minibatches x epochs, and the clipped share by probability for the most gradient steps."""
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 4.8), layout="constrained")
        panels = figure.subplots(2, 3).reshape(-1)
        order = [panels[0], panels[1], *panels[3:]]
        for letter, axes, (name, label) in zip("abdef", order, SCALARS.items(), strict=True):
            _draw_scalars(axes, data, name)
            axes.set_title(f"({letter})", loc="left")
            axes.set_ylabel(label, fontsize=8)
        _draw_tokens(panels[2], data)
        panels[2].set_title("(c)", loc="left")
        handles, labels = panels[0].get_legend_handles_labels()
        more, others = panels[2].get_legend_handles_labels()
        figure.legend([*handles, *more], [*labels, *others], loc="outside lower center", ncols=5, fontsize=8)
    return figure


def _draw_scalars(axes: Axes, data: dict[str, Any], name: str) -> None:
    """Means and 95 % intervals over seeds."""
    settings = data["settings"]
    for surrogate, (colour, dashes) in SURROGATES.items():
        mean, error = (np.array(data[surrogate][name][key], float) for key in ("mean", "error"))
        for count in sorted({count for count, _ in settings}):
            indices = [index for index, (number, _) in enumerate(settings) if number == count]
            label = surrogate if indices[0] == 0 else None
            axes.plot(indices, mean[indices], dashes, color=colour, marker=".", markersize=3, label=label)
            low, high = mean[indices] - 1.96 * error[indices], mean[indices] + 1.96 * error[indices]
            axes.fill_between(indices, low, high, color=colour, alpha=0.2, lw=0)
    axes.set_xticks(range(len(settings)), [f"{count}x{epochs}" for count, epochs in settings])
    axes.set_xlabel("minibatches x epochs")


def _draw_tokens(axes: Axes, data: dict[str, Any]) -> None:
    """Draw the share of tokens that PPO's clip silences, by decade and outcome, with the most gradient steps."""
    positions = np.arange(len(data["decades"]))
    for shift, (outcome, colour) in zip((-0.2, 0.2), OUTCOMES.items(), strict=True):
        numbers = data["tokens"][-1][outcome]
        mean, error = (np.array(numbers[key], float) for key in ("mean", "error"))
        axes.bar(positions + shift, mean, 0.4, color=colour, label=f"{outcome} tokens")
        axes.errorbar(positions + shift, mean, 1.96 * error, color="0.2", ls="none", lw=0.8)
    names = [name.replace("below ", "< ").replace(" to ", "\nto ") for name in data["decades"]]
    axes.set_xticks(positions, names, fontsize=7)
    count, epochs = data["settings"][-1]
    axes.set(xlabel="sampler's probability", ylabel=f"clipped share, {count}x{epochs}")


if __name__ == "__main__":
    keep(DATA, condense(Path(sys.argv[1])))
