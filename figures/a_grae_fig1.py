"""GRPO's two symmetries: unsampled logits stand still, and middle difficulty weighs most ``[a-grae:eq-9]``,
``[a-grae:eq-19]``, ``[a-grae:thm-2]``.

Figure 1 of the paper, computed: (a) the change of every logit by one group of eight, (b) that of the actions that it
has not drawn, under the controls too, (c) the sum of the sizes of the advantages of a group.
"""

from typing import Any

import jax.numpy as jnp
import matplotlib as mpl
import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import simlab
from simlab.plotting import STYLE
from simlab.simulator.policy import Listed, softmax
from simlab.theory import closed_form, masses

CONFIGURATION = {
    "correct": {"probability": [0.3, 0.1, 0.04, 0.02], "rollouts": [2, 1, 0, 0]},
    "incorrect": {"probability": [0.3, 0.12, 0.08, 0.04], "rollouts": [3, 1, 1, 0]},
    "methods": ["grpo", "negative_dominant", "positive_dominant"],
}
MESSAGE = "Weights that do not sum to 0 move actions that nobody drew"
DIFFERS = "The paper's figure is a sketch: here one group of eight on eight actions, with both controls beside GRPO."
NAMES = {"grpo": "GRPO", "negative_dominant": "negative-dominant", "positive_dominant": "positive-dominant"}
HATCHES = ("", "////", "....")


def draw(data: dict[str, Any]) -> Figure:
    """The symmetry within a group, what breaking it does, and the symmetry between groups."""
    p, counts = (np.array(data["correct"][name] + data["incorrect"][name]) for name in ("probability", "rollouts"))
    right = np.arange(len(p)) < len(data["correct"]["probability"])
    changes = {method: _logit_change(method, p, counts, right) for method in data["methods"]}
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 2.8), layout="constrained")
        group, unsampled, sample = figure.subplots(1, 3, width_ratios=(1.4, 1.1, 1))
        _draw_all(group, changes["grpo"], p, counts, right)
        _draw_unsampled(unsampled, changes, p, np.flatnonzero(counts == 0), right)
        _draw_magnitude(sample, counts.sum())
        figure.legend(*unsampled.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _logit_change(method: str, p: np.ndarray, counts: np.ndarray, right: np.ndarray) -> np.ndarray:
    """(N,) the change of the logits by one group, per learning rate."""
    drawn = np.repeat(np.arange(len(p)), counts)
    weights = simlab.advantages(method, right[drawn].astype(float))
    policy = softmax(jnp.log(jnp.asarray(p)), jnp.asarray(1.0))
    coefficients, no_candidates = jnp.asarray(weights)[:, None, None], jnp.zeros(0, int)
    return np.asarray(policy.score_gradient(coefficients, Listed(jnp.asarray(drawn)), no_candidates, "simulator"))


def _draw_all(axes: Axes, change: np.ndarray, p: np.ndarray, counts: np.ndarray, right: np.ndarray) -> None:
    """The change of every logit under GRPO."""
    axes.bar(np.arange(len(p)), change, 0.7, color="C0")
    axes.axhline(0, color="0.3", linewidth=0.6)
    axes.axvline(right.sum() - 0.5, color="0.6", linewidth=0.6)
    axes.set_xticks(range(len(p)), [f".{100 * chance:02.0f}\n{n}" for chance, n in zip(p, counts, strict=True)])
    axes.set(xlabel="probability, rollouts", ylabel=r"change of logit / $\eta$")
    for centre, word in ((right.sum() / 2 - 0.5, "correct"), (right.sum() + (~right).sum() / 2 - 0.5, "incorrect")):
        axes.text(centre, axes.get_ylim()[1], word, ha="center", va="bottom", fontsize=8)
    axes.set_title("(a) one group, GRPO\n", loc="left")


def _draw_unsampled(
    axes: Axes, changes: dict[str, np.ndarray], p: np.ndarray, missed: np.ndarray, right: np.ndarray
) -> None:
    """The change of the logits of the actions that the group has not drawn."""
    for number, (method, change) in enumerate(changes.items()):
        x = np.arange(len(missed)) + 0.27 * (number - 1)
        style = {"color": f"C{number}", "hatch": HATCHES[number], "edgecolor": "white", "linewidth": 0}
        axes.bar(x, change[missed], 0.25, label=NAMES[method], **style)
    axes.axhline(0, color="0.3", linewidth=0.6)
    words = ["correct" if right[action] else "incorrect" for action in missed]
    axes.set_xticks(
        range(len(missed)), [f".{100 * p[action]:02.0f}\n{word}" for action, word in zip(missed, words, strict=True)]
    )
    axes.set(xlabel="probability")
    axes.set_title("(b) its unsampled actions\n", loc="left")


def _draw_magnitude(axes: Axes, group_size: int) -> None:
    """The sum of the sizes of GRPO's advantages, of groups of one size."""
    rates = np.sin(np.linspace(0, np.pi / 2, 201)) ** 2
    axes.plot(rates, group_size * sum(closed_form("grpo", rates, eps=0.0)), color="C0")
    dots = masses("grpo", int(group_size), eps=0.0)
    axes.plot(dots.successes / group_size, group_size * (dots.success + dots.failure), "o", color="C0", markersize=4)
    axes.set(xlabel="success rate p", ylabel=r"$\sum |A|$" f", G = {group_size}", ylim=(0, None))
    axes.set_title("(c) between groups\n", loc="left")
