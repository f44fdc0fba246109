"""The mean distinct mass that a group has drawn, by its number of correct rollouts ``[f-grpo:lemma-h.1]``,
``[f-grpo:lemma-h.1-monotone]``, ``[f-grpo:cor-h.2]``.

Appendix H of the paper. Lines between whole numbers are its lemma, for both sides, and its corollary; dots are means
over groups drawn from the policy, with 95 % bars.
"""

from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from simlab.plotting import STYLE
from simlab.theory.tail_miss import expected_baseline, expected_sampled_mass

CONFIGURATION = {
    "group_size": 8,
    "correct_mass": 0.5,
    "actions_a_side": 16,
    "decay": {"equal": 0.0, "1/rank": 1.0, "1/rank$^3$": 3.0},
    "rewards": [1.0, -1.0],
    "groups": 20_000,
    "seed": 0,
}
MESSAGE = "The more rollouts are correct, the higher the baseline; how fast it rises is the policy's affair"
DIFFERS = "The paper proves this and draws nothing: here three policies, and simulated groups over the exact means."
DASHES = ("-", "--", "-.")
TITLES = ("(a) correct", "(b) incorrect", "(c) baseline $S_R$")


def draw(data: dict[str, Any]) -> Figure:
    """The mean sampled mass of either side and the mean baseline, given the number of correct rollouts."""
    rng = np.random.default_rng(data["seed"])
    right = np.arange(2 * data["actions_a_side"]) < data["actions_a_side"]
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 2.6), layout="constrained")
        panels = figure.subplots(1, 3, sharex=True)
        for number, ((name, decay), dashes) in enumerate(zip(data["decay"].items(), DASHES, strict=True)):
            p = _policy(data, decay)
            counts = rng.multinomial(data["group_size"], p, size=data["groups"])
            simulated = _simulated(counts, p, right, data["rewards"])
            style = {"color": f"C{number}", "linestyle": dashes, "label": name}
            for axes, exact, values in zip(panels, _exact(data, p, right), simulated, strict=True):
                axes.plot(np.arange(len(exact)), exact, **style)
                _draw_means(axes, values, counts[:, right].sum(axis=1), f"C{number}")
        for axes, title in zip(panels, TITLES, strict=True):
            axes.set(xlabel="correct rollouts X", xticks=range(0, data["group_size"] + 1, 2))
            axes.set_title(title, loc="left")
        panels[0].set(ylabel="mean sampled mass", ylim=(0, None))
        panels[1].set(ylim=(0, None))
        panels[2].axhline(0, color="0.6", linewidth=0.6, zorder=0)
        title = "probability of the actions of a side, by rank"
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, title=title)
    return figure


def _policy(data: dict[str, Any], decay: float) -> np.ndarray:
    """The correct actions and then the incorrect ones, each falling with their rank."""
    side = (1.0 + np.arange(data["actions_a_side"])) ** -decay
    mass = data["correct_mass"]
    return np.concatenate([mass * side, (1 - mass) * side]) / side.sum()


def _exact(data: dict[str, Any], p: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, ...]:
    size, (good, bad) = data["group_size"], data["rewards"]
    successes = np.arange(size + 1)
    return (
        np.asarray(expected_sampled_mass(p, right, successes)),
        np.asarray(expected_sampled_mass(p, ~right, size - successes)),
        np.asarray(expected_baseline(p, right, successes, size, correct_reward=good, incorrect_reward=bad)),
    )


def _simulated(counts: np.ndarray, p: np.ndarray, right: np.ndarray, rewards: list[float]) -> tuple[np.ndarray, ...]:
    """(groups,) the distinct mass of either side that each group holds, and its baseline."""
    drawn = np.where(counts > 0, p, 0)
    correct, incorrect = drawn[:, right].sum(axis=1), drawn[:, ~right].sum(axis=1)
    return correct, incorrect, rewards[0] * correct + rewards[1] * incorrect


def _draw_means(axes: Axes, values: np.ndarray, successes: np.ndarray, colour: str) -> None:
    """Means over the groups with each number of correct rollouts, with 95 % bars."""
    x = np.unique(successes)
    chosen = [values[successes == count] for count in x]
    halves = [1.96 * some.std(ddof=1) / np.sqrt(len(some)) for some in chosen]
    axes.errorbar(x, [some.mean() for some in chosen], halves, color=colour, linestyle="none", marker="o", elinewidth=1)
