"""A-GRAE's Tables 5 and 6 on countdown: its two halves, the whole, and their controls, ``[a-grae:tables-2-5-6]``.

simlab train --preset a-grae-tables-5-6 --out tables56
python -m figures.a_grae_tables_5_6 tables56    (condenses the run, prints the table of README.md)
simlab figures a_grae_tables_5_6                (draws from what is kept here)
"""

import json
import sys
from pathlib import Path

import matplotlib as mpl
import matplotlib.style
from matplotlib.figure import Figure

from figures.shared.condensed import keep
from figures.shared.end_labels import end_labels
from figures.shared.paper_panels import draw_entropy, draw_gains, draw_paths
from figures.shared.paper_runs import Data, condense, pairs_table, table
from simlab.plotting import STYLE

DATA = Path(__file__).parent / "data" / "a_grae_tables_5_6.json"
MESSAGE = "Here A-GRAE loses against GRPO, and it is its half by sign that loses"
DIFFERS = "A small model from scratch on countdown, three seeds, pass@32 in place of pass@256."
BASELINE = "grpo"
ASS, DDAS = "linked(scale=std,sign=attenuate)", "linked(scale=std,difficulty=shift)"
STYLES = {
    "grpo": ("GRPO", "0.4", "-"),
    "positive_dominant": ("positive-dominant", "C1", "--"),
    "negative_dominant": ("negative-dominant", "C0", "--"),
    ASS: ("ASS (sign)", "C0", "-"),
    "easy_focused": ("easy-focused", "C3", "--"),
    "hard_focused": ("hard-focused", "C2", "--"),
    DDAS: ("DDAS (difficulty)", "C2", "-"),
    "a_grae": ("A-GRAE", "C6", "-"),
}
# The pairs that the paper speaks of: each half beside its controls, the whole beside its halves.
OTHERS = [
    (ASS, "negative_dominant"),
    (DDAS, "easy_focused"),
    (DDAS, "hard_focused"),
    ("a_grae", ASS),
    ("a_grae", DDAS),
    ("positive_dominant", "negative_dominant"),
]


# The arms of each row of panels: by sign above, by difficulty below, and in both the whole beside GRPO.
ROWS = (
    ("grpo", "positive_dominant", "negative_dominant", ASS, "a_grae"),
    ("grpo", "easy_focused", "hard_focused", DDAS, "a_grae"),
)


def draw(data: Data) -> Figure:
    """Differences from GRPO; and the paths of pass@32 and of entropy, by sign and by difficulty."""
    arms = {arm: BASELINE for arm in STYLES if arm != BASELINE}
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 4.2), layout="constrained")
        panels = figure.subplot_mosaic("abc;ade", width_ratios=(1.15, 1, 1))
        for below, above in ("db", "ec"):
            panels[below].sharex(panels[above])
            panels[below].sharey(panels[above])
        draw_gains(panels["a"], data, arms, {arm: label for arm, (label, _, _) in STYLES.items()})
        panels["a"].legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2)
        for letters, shown, kind in zip(("bc", "de"), ROWS, ("sign", "difficulty"), strict=True):
            path, entropy = (panels[letter] for letter in letters)
            draw_paths(path, data, {arm: STYLES[arm] for arm in shown})
            draw_entropy(entropy, data, {arm: STYLES[arm] for arm in shown})
            end_labels(entropy)
            path.set_title(f"({letters[0]}) {kind}, from x", loc="left")
            entropy.set_title(f"({letters[1]}) entropy of tokens", loc="left")
        panels["a"].set_title("(a) less GRPO", loc="left")
    return figure


def main(arguments: list[str]) -> None:
    """Condense a run if one is given; print the table."""
    if arguments:
        keep(DATA, condense(Path(arguments[0])))
    data = json.loads(DATA.read_text())
    over_grpo = [(arm, BASELINE) for arm in STYLES if arm != BASELINE]
    print(table(data, BASELINE), pairs_table(data, [*over_grpo, *OTHERS]), sep="\n\n")


if __name__ == "__main__":
    main(sys.argv[1:])
