"""F-GRPO's Tables 1 and 3 on countdown: the focal weight and other ways to hold back, ``[f-grpo:table-1]``.

simlab train --preset f-grpo-tables-1-3 --out tables13
python -m figures.f_grpo_tables_1_3 tables13    (condenses the run, prints the table of README.md)
simlab figures f_grpo_tables_1_3                (draws from what is kept here)
"""

import json
import sys
from pathlib import Path

import matplotlib as mpl
import matplotlib.style
import numpy as np
from matplotlib.figure import Figure

from figures.shared.condensed import keep
from figures.shared.end_labels import end_labels
from figures.shared.paper_panels import draw_gains, draw_paths
from figures.shared.paper_runs import COMPARED, Data, condense, ends, interval, pairs_table, table
from simlab.llm.compare.run_arms import estimate_mean
from simlab.plotting import STYLE

DATA = Path(__file__).parent / "data" / "f_grpo_tables_1_3.json"
MESSAGE = "The focal weight keeps some of pass@32; a lower rate keeps as much, a KL penalty three times as much"
DIFFERS = (
    "A small model from scratch on countdown, three seeds; the coefficients of KL and entropy are this project's, as "
    "the text of the paper lacks them."
)
BASELINE = "grpo@token_mean"
FOCAL = {"f_grpo(gamma=0.5)@token_mean": BASELINE, "f_dapo(gamma=0.5)": "dapo", "f_cispo(gamma=1.0)": "cispo"}
LABELS = {
    "f_grpo(gamma=0.5)@token_mean": "F-GRPO",
    "f_dapo(gamma=0.5)": "F-DAPO",
    "f_cispo(gamma=1.0)": "F-CISPO",
    "dapo": "DAPO",
    "cispo": "CISPO",
    "grpo+kl_penalty(coefficient=0.1)@token_mean": "KL penalty",
    "grpo+entropy_bonus(coefficient=0.03)@token_mean": "entropy bonus",
    "ds_grpo@token_mean": "DS-GRPO",
}
LOW_RATE = "@learning_rate="  # in the name of one arm


def draw(data: Data) -> Figure:
    """The focal weight over each objective; all others over GRPO; and the paths of pass@32."""
    labels = LABELS | {low_rate(data): "low rate"}
    others = {arm: BASELINE for arm in data["arms"] if arm != BASELINE and arm not in list(FOCAL)[1:]}
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 3.4), layout="constrained")
        left, middle, right = figure.subplots(1, 3)
        draw_gains(left, data, FOCAL, {arm: f"{labels[arm]} less {labels.get(FOCAL[arm], 'GRPO')}" for arm in FOCAL})
        left.set_title("(a) focal weight", loc="left")
        draw_gains(middle, data, others, labels)
        middle.set_title("(b) less GRPO", loc="left")
        shown = [BASELINE, next(iter(FOCAL)), *list(others)[-4:]]
        styles = {arm: (labels.get(arm, "GRPO"), f"C{number}", "-") for number, arm in enumerate(shown)}
        draw_paths(right, data, styles)
        right.set_title("(c) from the start (x)", loc="left")
        end_labels(right)
        figure.legend(*middle.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def low_rate(data: Data) -> str:
    """The arm whose learning rate is shortened as much as the focal weight shortens advantages."""
    (name,) = (arm for arm in data["arms"] if LOW_RATE in arm)
    return name


def pairs(data: Data) -> str:
    """The focal weight over each objective, over the low rate, and over all three together; and the objectives."""
    others = [(next(iter(FOCAL)), low_rate(data)), ("dapo", BASELINE), ("cispo", BASELINE)]
    cells = [interval(estimate_mean(of_all(data, name))) for name in COMPARED]
    last = f"| focal weight, mean over the three | {' | '.join(cells)} |"
    return "\n".join([pairs_table(data, [*FOCAL.items(), *others]), last])


def of_all(data: Data, measure: str) -> np.ndarray:
    """(seeds,) what the focal weight adds at the end, averaged over the three objectives."""
    added: np.ndarray = np.mean(
        [ends(data, arm, measure) - ends(data, other, measure) for arm, other in FOCAL.items()], axis=0
    )
    return added


def main(arguments: list[str]) -> None:
    """Condense a run if one is given; print the table."""
    if arguments:
        keep(DATA, condense(Path(arguments[0])))
    data = json.loads(DATA.read_text())
    print(table(data, BASELINE), pairs(data), sep="\n\n")


if __name__ == "__main__":
    main(sys.argv[1:])
