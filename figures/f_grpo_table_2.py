"""F-GRPO's Table 2 on countdown: group sizes at equal rollouts, and the focal weight, ``[f-grpo:table-2-regimes]``.

simlab train --preset f-grpo-table-2 --out table2
python -m figures.f_grpo_table_2 table2    (condenses the run, prints the table of README.md)
simlab figures f_grpo_table_2              (draws from what is kept here)
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures.shared.condensed import keep
from figures.shared.paper_runs import Data, condense, ends, pairs_table, table
from simlab.llm.compare.run_arms import MeanEstimate, estimate_mean
from simlab.plotting import STYLE

DATA = Path(__file__).parent / "data" / "f_grpo_table_2.json"
MESSAGE = "Group sizes from 2 to 32 end alike at equal rollouts: three seeds tell none from another"
DIFFERS = (
    "A small model from scratch on countdown, three seeds, pass@32 in place of pass@256; 512 rollouts a step at every "
    "group size, where the paper keeps the prompts."
)
BASELINE = "grpo@token_mean"
FOCAL = "f_grpo(gamma=0.5)@token_mean"
OF_BASELINE = 8  # rollouts a group of both
PANELS = {"pass@1": "(a) pass@1", "pass@32": "(b) pass@32", "rare_nll": "(c) NLL of rare correct answers"}


def sizes(data: Data) -> dict[int, str]:
    """The arm of GRPO at each group size, the smallest first."""
    arms = {OF_BASELINE: BASELINE}
    for arm in data["arms"]:
        _, other, rest = arm.partition("@group_size=")
        if other:
            arms[int(rest.partition("@")[0])] = arm
    return dict(sorted(arms.items()))


def draw(data: Data) -> Figure:
    """The end and the start of GRPO in each measure against group size, and F-GRPO's mark."""
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 2.8), layout="constrained")
        for axes, (measure, title) in zip(figure.subplots(1, len(PANELS)), PANELS.items(), strict=True):
            _draw_measure(axes, data, measure)
            axes.set_title(title, loc="left")
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _draw_measure(axes: Axes, data: Data, measure: str) -> None:
    arms = sizes(data)
    start = np.mean(np.array(data["arms"][BASELINE][measure])[:, 0])
    axes.axhline(start, color="0.6", lw=1, label="before training")
    grpo = [estimate_mean(ends(data, arm, measure)) for arm in arms.values()]
    _mark(axes, list(arms), grpo, fmt="o-", color="C0", label="GRPO")
    beside = [OF_BASELINE * 1.12]  # GRPO's mark
    _mark(
        axes, beside, [estimate_mean(ends(data, FOCAL, measure))], fmt="s", color="C1", label=r"F-GRPO, $\gamma$ = 1/2"
    )
    axes.set_xscale("log", base=2)
    axes.set_xticks(list(arms), [str(size) for size in arms])
    axes.set_xlabel("group size")


def _mark(axes: Axes, at: Sequence[float], estimates: Sequence[MeanEstimate], **style: str) -> None:
    """Means with one standard error over seeds."""
    means, errors = ([getattr(estimate, name) for estimate in estimates] for name in ("mean", "error"))
    axes.errorbar(at, means, yerr=errors, lw=1, markersize=4, **style)


def main(arguments: list[str]) -> None:
    """Condense a run if one is given; print the table."""
    if arguments:
        keep(DATA, condense(Path(arguments[0])))
    data = json.loads(DATA.read_text())
    pairs = [(arm, BASELINE) for arm in [*sizes(data).values(), FOCAL] if arm != BASELINE]
    print(table(data, BASELINE), pairs_table(data, [*pairs, (FOCAL, sizes(data)[32])]), sep="\n\n")


if __name__ == "__main__":
    main(sys.argv[1:])
