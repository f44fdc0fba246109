"""CaSP's Table 6 on countdown: CaSP, its softmax variant, and the rivals of Figures 7 to 9, ``[casp:app-f.3]``.

simlab train --preset casp-table-6 --out table6
python -m figures.casp_table6 table6    (condenses the run, prints the table of README.md)
simlab figures casp_table6              (draws from what is kept here)
"""

import json
import sys
from pathlib import Path

import matplotlib as mpl
import matplotlib.style
from matplotlib.figure import Figure

from figures.shared.condensed import keep
from figures.shared.paper_panels import draw_gains, draw_paths
from figures.shared.paper_runs import Data, condense, pairs_table, table
from simlab.plotting import STYLE

DATA = Path(__file__).parent / "data" / "casp_table6.json"
MESSAGE = "CaSP and its softmax variant cannot be told from GRPO; W-REINFORCE and forking tokens lose pass@1"
DIFFERS = "A small model from scratch on countdown, three seeds, pass@32 in place of pass@256."
BASELINE = "grpo"
STYLES = {
    "grpo": ("GRPO", "0.5", "-"),
    "casp": ("CaSP", "C0", "-"),
    "grpo+casp(weights=proportional)": ("CaSP (softmax)", "C0", "--"),
    "kl_cov@sequence_mean": ("KL-Cov", "C1", "-."),
    "grpo+forking_tokens": ("forking tokens", "C2", ":"),
    "w_reinforce": ("W-REINFORCE", "C3", "-"),
    "entropy_advantage": ("Entropy-Adv", "C4", "--"),
}


def draw(data: Data) -> Figure:
    """Differences from GRPO, and the ways of pass@32."""
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 3.0), layout="constrained")
        left, right = figure.subplots(1, 2)
        arms = {arm: BASELINE for arm in STYLES if arm != BASELINE}
        draw_gains(left, data, arms, {arm: label for arm, (label, _, _) in STYLES.items()})
        left.legend(loc="upper center", bbox_to_anchor=(0.3, -0.2), ncols=2)  # in a row it would pass for a result
        left.set_title("(a) less GRPO", loc="left")
        draw_paths(right, data, STYLES)
        right.set_title("(b) from the start (x)", loc="left")
        figure.legend(*right.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def main(arguments: list[str]) -> None:
    """Condense a run if one is given; print the table."""
    if arguments:
        keep(DATA, condense(Path(arguments[0])))
    data = json.loads(DATA.read_text())
    pairs = [(arm, BASELINE) for arm in STYLES if arm != BASELINE]
    print(table(data, BASELINE), pairs_table(data, [*pairs, ("casp", list(STYLES)[2])]), sep="\n\n")


if __name__ == "__main__":
    main(sys.argv[1:])
