"""The tail-miss probability of one rare correct action in the simulation's setting ``[f-grpo:app-j-figure-5]``,
``[f-grpo:lemma-3.1]``.

Figure 5 of the paper: the lemma at the masses of the initial policy. Dots are the group sizes of
the simulation.
"""

from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
from matplotlib.figure import Figure
from scipy.special import softmax

from simlab.plotting import STYLE
from simlab.problems import anchored
from simlab.theory import conditional_tail_miss, tail_miss

CONFIGURATION = {"actions": 128_000, "correct": 10_000, "anchor_logit": 5.0, "correct_logit": 3.0, "largest_power": 17}
MESSAGE = "In Figure 2's setting nearly every group of 8 to 256 teaches without a given rare answer"
DIFFERS = (
    "The same formula and masses; the probability among active groups is drawn as well, since the text's 'conditional' "
    "can be read so: it has no rise."
)
MARKED = (2048, 131072)


def draw(data: dict[str, Any]) -> Figure:
    """The lemma, and the same among active groups."""
    problem = anchored(**{name: value for name, value in data.items() if name != "largest_power"}).listed()
    p = softmax(problem.logits)
    mu, tau = p[problem.correct].sum(), p[problem.target].sum()
    sizes = 2 ** np.arange(1, data["largest_power"] + 1)
    every = np.unique(np.geomspace(2, sizes[-1], 300).astype(int))
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 3.0), layout="constrained")
        axes = figure.subplots()
        axes.plot(every, conditional_tail_miss(every, mu, tau), "--", color="C0", zorder=3, label="missed, if active")
        axes.plot(every, tail_miss(every, mu, tau), color="C1", label="active and missed")
        axes.plot(sizes, tail_miss(sizes, mu, tau), "o", color="C1")
        values = "\n".join(f"{float(tail_miss(size, mu, tau)):.2g} at G = {size:,}" for size in MARKED)
        axes.text(2**4, 0.1, values, fontsize=8)
        axes.set_xscale("log", base=2)
        axes.set(xlabel="group size G", ylabel="probability", ylim=(0, 1.14))
        axes.set_title(f"$\\mu$ = {mu:.4f}, $\\tau$ = {tau * 1e5:.3f}" r"$\times 10^{-5}$", loc="left")
        axes.text(2**1.2, 1.02, "missed, if active", color="C0", va="bottom")
        axes.text(2**2, 0.6, "active and missed", color="C1")
    return figure
