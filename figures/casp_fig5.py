"""Figure 5 of CaSP: the toy's tree before and after learning ``[casp:figure-5-runs]``, in a setting where it holds.

    python -m figures.casp_fig5    (simulates, in a minute)
    simlab figures casp_fig5       (draws from the numbers kept here)

figures/casp.py says over which settings the paper's outcome holds; this is one of them, at seed 0, and (e) has all
seeds.
"""

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import matplotlib as mpl
import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures.shared.condensed import keep, rounded
from simlab.plotting import STYLE
from simlab.problems import Tree, tree
from simlab.problems.tree_paths import path_sums, prefix_sums, word
from simlab.simulator.metrics import POLICY, Metric
from simlab.simulator.runner import run
from simlab.simulator.tree import mode_metrics
from simlab.sweeps import Plan, Sweep
from simlab.sweeps.plan import maker
from simlab.sweeps.presets import PRESETS

DATA = Path(__file__).parent / "data" / "casp_fig5.json"
MESSAGE = "In a setting picked for it GRPO keeps one mode or two and CaSP six; 3 of 12 settings show this"
DIFFERS = (
    "The paper states no setting; this is one of the 3 of 12 (group size by learning rate) in which its outcome was "
    "seen, and only with a bonus of 1 and a CaSP of alpha .5 over all 4 actions."
)
SETTING: dict[str, Any] = {"group_sizes": (16,), "seeds": 32}
RATE = {"optimizer.learning_rate": (1.0,)}
_TOY = PRESETS["casp"]
METHODS: dict[str, dict[str, Any]] = {
    "GRPO": _TOY["grpo"],
    "+ entropy": _TOY["entropy"] | {"parameters": _TOY["entropy"]["parameters"] | {"run.entropy_bonus": (1.0,)}},
    "CaSP": _TOY["casp"] | {"parameters": _TOY["casp"]["parameters"] | {"surrogate.candidates": (4,)}},
}
SHOWN_SEED = 0
STYLES = {"GRPO": ("C0", "o"), "+ entropy": ("C1", "^"), "CaSP": ("C2", "s")}
NODE_LOGP = Metric(
    "node_logp",
    "log-probability of each action at each node",
    POLICY,
    lambda view: view.token_policy.logp,
    ("node", "action"),
)


class BareTree(Tree):
    """A tree that records the policies of all nodes, and nothing else."""

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The policies."""
        return (NODE_LOGP,)


def simulate() -> dict[str, Any]:
    """The trees of one seed, and the modes and the accuracy of all seeds."""
    data: dict[str, Any] = {"trees": {}, "endings": {}, "provenance": []}
    for name, settings in METHODS.items():
        plan = Plan(Sweep(**settings | SETTING | {"parameters": settings["parameters"] | RATE}))
        logp = final_logp(plan)
        data["provenance"].append(plan.manifest(maker()) | {"dtype": plan.sweep.dtype})
        data["trees"][name] = rounded(np.exp(logp[SHOWN_SEED]), 4)
        data["endings"][name] = [_ending(policy) for policy in logp]
    return data


def final_logp(plan: Plan) -> np.ndarray:
    """(seeds, nodes, B) log pi of every action at every node after the last step of the only cell of a sweep."""
    (cell,), seeds = plan.distinct, range(plan.sweep.seeds)
    problem = cell.problem
    assert isinstance(problem, Tree)
    bare = BareTree(problem.logits, problem.correct, problem.target)
    return run(bare, [cell.settings] * len(seeds), seeds, cell.steps)["node_logp"][:, -1]


def _ending(logp: np.ndarray) -> dict[str, Any]:
    """Modes held, modes that 1000 responses are expected to reach, and the accuracy of one run."""
    p, correct = np.exp(path_sums(logp)), tree().correct
    modes = {name: rounded(value) for name, value in mode_metrics(jnp.asarray(p), jnp.asarray(correct)).items()}
    return modes | {"accuracy": rounded(p[correct].sum())}


def draw(data: dict[str, Any]) -> Figure:
    """The four trees, and the ends of all seeds."""
    problem = tree()
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 3.4), layout="constrained")
        panels = figure.subplots(1, 5, width_ratios=(1, 1, 1, 1, 0.9))
        before = np.exp(node_logp_of(problem))
        trees = {"before": before} | {name: np.array(p, dtype=float) for name, p in data["trees"].items()}
        for axes, (name, p), letter in zip(panels, trees.items(), "abcd", strict=False):
            _draw_tree(axes, problem, p)
            axes.set_title(f"({letter}) {name}", loc="left")
        _draw_endings(panels[4], data)
    return figure


def node_logp_of(problem: Tree) -> np.ndarray:
    """(nodes, B) log pi of the initial policies."""
    spread = np.log(np.exp(problem.logits).sum(axis=1, keepdims=True))
    logp: np.ndarray = problem.logits - spread
    return logp


def _draw_tree(axes: Axes, problem: Tree, p: np.ndarray) -> None:
    """Every branch, wider the likelier it is; rewarded leaves by name, with their probability."""
    branching, depth = problem.branching, problem.depth
    levels = [np.array([1.0]), *(np.exp(logp) for logp in prefix_sums(np.log(np.maximum(p, 1e-30))))]
    heights = [(np.arange(branching**level) + 0.5) / branching**level for level in range(depth + 1)]
    for level in range(1, depth + 1):
        for child, mass in enumerate(levels[level]):
            leaks = level == depth and not problem.correct[child]
            colour = "C1" if leaks else "C0"
            ends = heights[level - 1][child // branching], heights[level][child]
            axes.plot((level - 1, level), ends, color="0.85", lw=0.3, zorder=0)
            style: dict[str, Any] = {"color": colour, "lw": 5 * np.sqrt(mass), "solid_capstyle": "round"}
            axes.plot((level - 1, level), ends, "--" if leaks else "-", **style)
    for leaf in np.flatnonzero(problem.correct):
        text = f"{word(int(leaf), depth, branching)} {levels[depth][leaf]:.2f}"
        axes.text(depth + 0.12, heights[depth][leaf], text, fontsize=7, va="center")
    accuracy = levels[depth][problem.correct].sum()
    axes.set(xlim=(-0.1, depth + 1.7), ylim=(1.02, -0.02), xlabel=f"accuracy {accuracy:.2f}", xticks=(), yticks=())
    axes.spines[:].set_visible(False)


def _draw_endings(axes: Axes, data: dict[str, Any]) -> None:
    """Modes against accuracy, a point a seed."""
    for name, (colour, marker) in STYLES.items():
        ended = data["endings"][name]
        x, y = ([ending[key] for ending in ended] for key in ("accuracy", "modes_held"))
        shifted = np.array(y) + np.linspace(-0.25, 0.25, len(y))
        axes.plot(x, shifted, ls="", marker=marker, ms=2.5, color=colour, label=name)
    axes.set(xlabel="accuracy", ylabel="modes held, of 6", xlim=(0.4, 1.05), ylim=(0, 7.9), yticks=range(7))
    axes.legend(loc="upper center", fontsize=7, ncols=1, labelspacing=0.15, borderpad=0, handletextpad=0.1)
    axes.set_title("(e) all seeds", loc="left")


if __name__ == "__main__":
    keep(DATA, simulate())
