"""FADE's Figure 9 on countdown: its schedule whole, without either half, and its two simplifications, ``[fade:fig-9]``.

simlab train --preset fade-fig-9 --out fig9
python -m figures.fade_fig9 fig9    (condenses the run, prints the table of README.md)
simlab figures fade_fig9            (draws from what is kept here)
"""

import json
import sys
from pathlib import Path

import matplotlib as mpl
import matplotlib.style
from matplotlib.figure import Figure

from figures.shared.condensed import keep
from figures.shared.paper_panels import draw_entropy, draw_gains, draw_paths
from figures.shared.paper_runs import Data, condense, pairs_table, table
from simlab.plotting import STYLE

DATA = Path(__file__).parent / "data" / "fade_fig9.json"
MESSAGE = "FADE's alpha keeps pass@32; its delta never acts here, for the entropy does not halve"
DIFFERS = (
    "A small model from scratch on countdown, three seeds, pass@32 in place of pass@100; Dr. GRPO is drawn as well."
)
BASELINE = "dr_grpo"


def styles(data: Data) -> dict[str, tuple[str, str, str]]:
    """A label, a colour and dashes for each arm, Dr. GRPO first."""
    (by_step,) = (arm for arm in data["arms"] if arm.startswith("fade_logarithmic"))
    return {
        BASELINE: ("Dr. GRPO", "0.4", "-"),
        "fade@constant": ("FADE", "C0", "-"),
        "fade(delta_min=1.0)@constant": ("without delta", "C1", "--"),
        "fade(alpha_max=1.0)@constant": ("without alpha", "C4", "--"),
        by_step: ("both by step", "C2", "-."),
        "fade_entropy@constant": ("both by entropy", "C3", ":"),
    }


def draw(data: Data) -> Figure:
    """Differences from Dr. GRPO, the ways of pass@32, and the entropy."""
    arms = styles(data)
    labels = {arm: label for arm, (label, _, _) in arms.items()}
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 2.9), layout="constrained")
        left, middle, right = figure.subplots(1, 3)
        draw_gains(left, data, {arm: BASELINE for arm in arms if arm != BASELINE}, labels)
        left.set_title("(a) less Dr. GRPO", loc="left")
        draw_paths(middle, data, arms)
        middle.set_title("(b) from the start (x)", loc="left")
        draw_entropy(right, data, arms)
        right.set(ylabel="nats a token", ylim=(0, None))
        right.set_title("(c) entropy", loc="left")
        left.legend(loc="upper center", bbox_to_anchor=(0.3, -0.2), ncols=2)  # in a row it would pass for a result
        figure.legend(*right.get_legend_handles_labels(), loc="outside lower center", ncols=6)
    return figure


def main(arguments: list[str]) -> None:
    """Condense a run if one is given; print the table."""
    if arguments:
        keep(DATA, condense(Path(arguments[0])))
    data = json.loads(DATA.read_text())
    _, whole, *others = styles(data)
    pairs = [(whole, BASELINE), *((arm, whole) for arm in others)]
    print(table(data, BASELINE), pairs_table(data, pairs), sep="\n\n")


if __name__ == "__main__":
    main(sys.argv[1:])
