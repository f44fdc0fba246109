"""CaSP's Figures 7 to 9 on countdown: where the methods of Table 6 leave probability, ``[casp:figure-7]``.

The numbers are those of ``figures/casp_table6.py``, whose head says how to make them anew; ``python -m
figures.casp_figs7_9`` prints the table of README.md.
"""

import json

import matplotlib as mpl
import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from figures.casp_table6 import BASELINE, DATA, STYLES
from figures.shared.paper_panels import windows_of
from figures.shared.paper_runs import START, Data, shown
from simlab.llm.compare.run_arms import estimate_mean
from simlab.plotting import STYLE

MESSAGE = "All sharpen as GRPO does but W-REINFORCE and forking tokens: their candidates of ranks 2 and 3 stay"
DIFFERS = (
    "A small model from scratch on countdown: its candidates of an equation, not words. Figure 8's tokens are counted "
    "by tenths of a nat; Figure 9's rank 1 is drawn as a curve."
)
OF_ENTROPY = ("grpo", "casp", "kl_cov@sequence_mean", "entropy_advantage")  # the paper's four
ENTROPIES = 20  # tenths of a nat that are drawn


def draw(data: Data) -> Figure:
    """Log-probabilities by rank along training; tokens by entropy, and by the likeliest candidate's probability."""
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 4.4), layout="constrained")
        upper, (entropy, chance, beyond) = figure.subplots(2, 3)
        for rank, axes in enumerate(upper):
            _draw_rank(axes, data, rank)
            axes.set_title(f"({'abc'[rank]}) candidate of rank {rank + 1}", loc="left")
        _draw_entropies(entropy, data)
        entropy.set_title("(d) tokens by entropy", loc="left")
        for letter, rank, axes in (("e", 0, chance), ("f", 2, beyond)):
            _draw_chances(axes, data, rank)
            axes.set_title(f"({letter}) by rank {rank + 1}'s probability", loc="left")
        figure.legend(*upper[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def _draw_rank(axes: Axes, data: Data, rank: int) -> None:
    for arm, (label, colour, dashes) in STYLES.items():
        curve = np.mean(data["training"][arm]["rank_logp"], axis=0)[:, rank]
        axes.plot(windows_of(data, arm, "rank_logp"), curve, color=colour, linestyle=dashes, label=label)
    axes.set(xlabel="step", ylabel="mean log-probability" if rank == 0 else "")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _draw_entropies(axes: Axes, data: Data) -> None:
    for arm in OF_ENTROPY:
        _, colour, dashes = STYLES[arm]
        share = shares(data, arm, "entropy_histogram")[:ENTROPIES]
        axes.stairs(share, np.arange(ENTROPIES + 1) / 10, color=colour, linestyle=dashes)
    axes.set(xlabel="nats", ylabel="share of tokens", yscale="log")


def _draw_chances(axes: Axes, data: Data, rank: int) -> None:
    for arm in STYLES:
        _, colour, dashes = STYLES[arm]
        share = shares(data, arm, "candidate_histogram")[rank]
        axes.stairs(share, np.arange(len(share) + 1) / len(share), color=colour, linestyle=dashes)
    axes.set(xlabel="probability", yscale="log")


def shares(data: Data, arm: str, name: str) -> np.ndarray:
    """A histogram, of each rank if it has any, as shares of all tokens."""
    counts = np.array(data["histograms"][arm][name], float)
    share: np.ndarray = counts / counts.sum(axis=-1, keepdims=True)
    return share


def table(data: Data) -> str:
    """The start and every arm: log-probabilities by rank in the last window, and shares of tokens at the end."""
    heads = ("arm", "rank 1", "rank 2", "rank 3", "entropy < .1", "rank 1 >= .9", "rank 3 < .1")
    lines = [f"| {' | '.join(heads)} |", f"|---|{'---:|' * (len(heads) - 1)}"]
    for arm in (START, *STYLES):
        trained, window = (BASELINE, 0) if arm == START else (arm, -1)  # the first step samples from the start
        logp = np.array(data["training"][trained]["rank_logp"])[:, window]
        ranks = [shown(estimate_mean(of_rank)) for of_rank in logp.T]
        candidates = shares(data, arm, "candidate_histogram")
        counted = (shares(data, arm, "entropy_histogram")[0], candidates[0, -1], candidates[2, 0])
        lines.append(f"| `{arm}` | {' | '.join(ranks)} | {' | '.join(f'{share:.3f}' for share in counted)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(json.loads(DATA.read_text())))
