"""CW-GRPO's Table 3 on countdown: GRPO and CW-GRPO at four checkpoints, ``[cw-grpo:table-3-text]``.

simlab train --preset cw-grpo-table-3 --out table3
python -m figures.cw_grpo_table3 table3    (condenses the run, prints the table of README.md)
simlab figures cw_grpo_table3              (draws from what is kept here)
"""

import json
import sys
from pathlib import Path

import matplotlib as mpl
import matplotlib.style
import numpy as np
from matplotlib.figure import Figure

from figures.shared.condensed import keep
from figures.shared.paper_panels import windows_of
from figures.shared.paper_runs import COMPARED, Data, condense, interval, pairs_table, table
from simlab.llm.compare.run_arms import estimate_mean
from simlab.plotting import STYLE

DATA = Path(__file__).parent / "data" / "cw_grpo_table3.json"
MESSAGE = "CW-GRPO keeps a little more entropy, and has no more pass@1 at any checkpoint"
DIFFERS = "A small model from scratch on countdown, three seeds, 8 prompts a step."
BASELINE, OWN = "grpo", "cw_grpo"
STYLES = {BASELINE: ("GRPO", "C0", "-"), OWN: ("CW-GRPO", "C1", "--")}


def draw(data: Data) -> Figure:
    """Pass@1 and pass@32 at the checkpoints, and the entropy: a thin line for each seed, a thick one for their mean."""
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 2.7), layout="constrained")
        panels = figure.subplots(1, 3)
        for arm, (label, colour, dashes) in STYLES.items():
            curves = {name: (data["step"], data["arms"][arm][name]) for name in ("pass@1", "pass@32")}
            curves["entropy, nats a token"] = windows_of(data, arm, "entropy"), data["training"][arm]["entropy"]
            for axes, letter, (title, (steps, each)) in zip(panels, "abc", curves.items(), strict=True):
                axes.plot(steps, np.transpose(each), color=colour, linestyle=dashes, lw=0.6, alpha=0.6)
                axes.plot(steps, np.mean(each, axis=0), color=colour, linestyle=dashes, label=label)
                axes.set(xlabel="step")
                axes.set_title(f"({letter}) {title}", loc="left")
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def checkpoints(data: Data) -> str:
    """CW-GRPO less GRPO at each evaluation after the start, paired by seed, with 95 % intervals."""
    lines = [f"| step | {' | '.join(COMPARED)} |", f"|---|{'---:|' * len(COMPARED)}"]
    for index, step in enumerate(data["step"][1:], start=1):
        weighted, other = (
            {name: np.array(data["arms"][arm][name])[:, index] for name in COMPARED} for arm in (OWN, BASELINE)
        )
        lines.append(
            f"| {step} | {' | '.join(interval(estimate_mean(weighted[name] - other[name])) for name in COMPARED)} |"
        )
    return "\n".join(lines)


def main(arguments: list[str]) -> None:
    """Condense a run if one is given; print the tables."""
    if arguments:
        keep(DATA, condense(Path(arguments[0])))
    data = json.loads(DATA.read_text())
    print(table(data, BASELINE), checkpoints(data), pairs_table(data, [(OWN, BASELINE)]), sep="\n\n")


if __name__ == "__main__":
    main(sys.argv[1:])
