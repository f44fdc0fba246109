"""Candidate matrices as in CaSP's Figures 11 to 16 ``[casp:figures-11-16]``, of a small trained model.

    python -m figures.casp_candidates ranks   (reads the models of casp_fig3's run)
    simlab figures casp_candidates            (draws from the numbers kept here)

The problem is the one of the evaluation with the most different solutions among the start's samples; the response is
the first correct sample. All models read it.
"""

import sys
from pathlib import Path
from typing import Any

import jax
import matplotlib as mpl
import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure

from figures.shared.condensed import keep, rounded
from figures.shared.rank_runs import ARMS, BASE, SEED, model, reader, run_file
from simlab.llm.model import forward
from simlab.llm.training.groups import Reader
from simlab.plotting import STYLE

DATA = Path(__file__).parent / "data" / "casp_candidates.json"
MESSAGE = "Training moves choices as much as it removes them; CaSP keeps more of them only at ten times its alpha"
DIFFERS = (
    "A whole response of Countdown by a model of 0.12 million parameters, in place of 20 tokens of a 7B model's; "
    "CaSP at ten times its alpha is added."
)
SHOWN = (BASE, "grpo", "casp", "grpo+casp(alpha=0.1)")
SAMPLES = 64
MASS = 0.95  # candidates are shown until they hold this probability


def condense(run: Path) -> dict[str, Any]:
    """The candidates of every token of one response, under each model."""
    base = model(run, BASE)
    put = reader(run, base)
    prompt, response = chosen(put, base.parameters)
    return {
        "run.json": run_file(run),
        "prompt": put.text(prompt),
        "response": [_text(put, token) for token in response],
        "models": {arm: candidates(run, arm, put, prompt, response) for arm in SHOWN},
    }


def chosen(put: Reader, parameters: Any) -> tuple[list[int], list[int]]:
    """The prompt and the response, as tokens."""
    groups = put.sample(parameters, put.task.evaluation, SAMPLES, key=jax.random.key(SEED))
    index = int(np.argmax([len(set(forms) - {None}) for forms in groups.solutions]))
    member = next(member for member, form in enumerate(groups.solutions[index]) if form is not None)
    response = groups.sampled.tokens[index, member][groups.sampled.mask[index, member]]
    return put.prompt(groups.problems[index]), response.tolist()


def candidates(run: Path, arm: str, put: Reader, prompt: list[int], response: list[int]) -> list[dict[str, Any]]:
    """The candidates of each token of the response down to ``MASS``, always the sampled one, and its rank."""
    policy = model(run, arm)
    tokens = np.array([[*prompt, *response]])
    p = np.asarray(jax.nn.softmax(forward(policy.parameters, policy.config, tokens)[0, len(prompt) - 1 : -1]))
    columns = []
    for distribution, sampled in zip(p, response, strict=True):
        order = np.argsort(-distribution, kind="stable")
        count = int(np.searchsorted(np.cumsum(distribution[order]), MASS)) + 1
        rank = int(np.flatnonzero(order == sampled)[0])
        shown = [*order[:count], *([] if rank < count else [sampled])]
        columns.append(
            {
                "texts": [_text(put, int(token)) for token in shown],
                "p": rounded(distribution[shown]),
                "sampled": min(rank, count),
                "rank": rank + 1,
            }
        )
    return columns


def _text(put: Reader, token: int) -> str:
    return "end" if token in put.ends else put.vocabulary.decode([token])


def draw(data: dict[str, Any]) -> Figure:
    """A matrix for each model: tokens along x, candidates down in order of probability."""
    rows = max(len(column["p"]) for columns in data["models"].values() for column in columns)
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 1.0 + 0.5 * rows), layout="constrained")
        panels = figure.subplots(2, 2, sharex=True, sharey=True).ravel()
        for axes, (arm, columns), letter in zip(panels, data["models"].items(), "abcd", strict=True):
            mesh = _draw_matrix(axes, columns, rows)
            axes.set_title(f"({letter}) {'start' if arm == BASE else ARMS[arm][0]}", loc="left")
        for axes in panels[2:]:
            axes.set_xlabel("token of the response")
        for axes in panels[::2]:
            axes.set_ylabel("candidate")
        figure.colorbar(mesh, ax=panels, label="probability", aspect=30, pad=0.01)
    return figure


def _draw_matrix(axes: Axes, columns: list[dict[str, Any]], rows: int) -> QuadMesh:
    """Cells as dark as they are likely; a box around each token of the response."""
    p = np.full((rows, len(columns)), np.nan)
    for position, column in enumerate(columns):
        p[: len(column["p"]), position] = column["p"]
    edges = np.arange(len(columns) + 1) - 0.5, np.arange(rows + 1) - 0.5
    mesh = axes.pcolormesh(*edges, p, cmap="Blues", vmin=0, vmax=1, edgecolors="0.9", lw=0.3)
    for position, column in enumerate(columns):
        for rank, (text, probability) in enumerate(zip(column["texts"], column["p"], strict=True)):
            colour = "white" if probability > 0.6 else "black"
            axes.text(position, rank, text, color=colour, fontsize=7, ha="center", va="center")
    path = [column["sampled"] for column in columns]
    axes.plot(range(len(path)), path, ls="", marker="s", ms=12, markerfacecolor="none", color="C1")
    axes.set(ylim=(rows - 0.5, -0.5), xticks=range(len(columns)), yticks=range(rows))
    axes.set_xticklabels([str(position + 1) for position in range(len(columns))], fontsize=7)
    axes.set_yticklabels([str(rank + 1) for rank in range(rows)], fontsize=7)
    axes.tick_params(length=0)
    return mesh


def main(arguments: list[str]) -> None:
    """Read the models of a run, and keep what is drawn."""
    keep(DATA, condense(Path(arguments[0])))


if __name__ == "__main__":
    main(sys.argv[1:])
