"""Figure 2 of CaSP: pass@k of CaSP and GRPO ``[casp:section-5.2-figures]``, and the mean probability by rank.

    python -m figures.casp_fig2 ranks   (condenses figures/data/countdown.json and the run of casp_fig3)
    simlab figures casp_fig2            (draws from the condensed numbers kept here)

pass@k is of five seeds, its bands 95 % of their mean; probabilities by rank are of one.
"""

import json
import sys
from pathlib import Path
from typing import Any

import jax
import matplotlib as mpl
import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures.shared.condensed import keep, mean_and_error, rounded
from figures.shared.rank_runs import ARMS, BASE, SEED, mean_over_tokens, model, reader, run_file
from simlab.plotting import STYLE

FOLDER = Path(__file__).parent / "data"
DATA = FOLDER / "casp_fig2.json"
MESSAGE = "CaSP's pass@k on Countdown cannot be told from GRPO's; both end below the start from k = 4 up"
DIFFERS = (
    "Countdown by a model of 0.12 million parameters from scratch, in place of 7B models on mathematics and logic; "
    "CaSP at ten times its alpha is added on the right."
)
COMPARED = ("grpo", "casp")
RANKED = (BASE, "grpo", "casp", "grpo+casp(alpha=0.1)")
SAMPLES, RANKS = 16, 4
_BASE_STYLE = ("start", "C4", (0, (1, 1)))


def condense(run: Path) -> dict[str, Any]:
    """pass@k of countdown's runs, and the probabilities by rank of this run."""
    files = json.loads((FOLDER / "countdown.json").read_text())
    seeds = files["run.json"]["seeds"]
    ends = {arm: [files[f"arms/{arm}/seed-{seed}/evaluation.jsonl"][-1] for seed in seeds] for arm in COMPARED}
    ends[BASE] = [files[f"start/seed-{seed}/evaluation.jsonl"][-1] for seed in seeds]
    k = list(ends[BASE][0]["pass_at_k"])
    curves = {
        arm: np.array([[line["pass_at_k"][key]["mean"] for line in lines] for key in k]) for arm, lines in ends.items()
    }
    less = mean_and_error(curves["casp"] - curves["grpo"])
    return {
        "provenance": [files["run.json"], run_file(run)],
        "k": list(map(int, k)),
        "pass_at_k": {arm: mean_and_error(values) for arm, values in curves.items()} | {"casp less grpo": less},
        "rank_probability": {arm: probabilities(run, arm) for arm in RANKED},
    }


def probabilities(run: Path, arm: str) -> list[float]:
    """The mean probability of the rank-n candidate over the tokens of a model's own rollouts, n = 1 to 4."""
    policy = model(run, arm)
    put = reader(run, policy)
    groups = put.sample(policy.parameters, put.task.evaluation, SAMPLES, key=jax.random.key(SEED), top_n=RANKS)
    assert groups.sampled.topn_logp is not None
    means: list[float] = rounded(mean_over_tokens(np.exp(groups.sampled.topn_logp), groups.sampled.mask))
    return means


def draw(data: dict[str, Any]) -> Figure:
    """pass@k, its difference, and probabilities by rank."""
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 2.9), layout="constrained")
        left, middle, right = figure.subplots(1, 3)
        for arm in (BASE, *COMPARED):
            _draw_band(left, data, arm, _style(arm))
        left.set(xlabel="k", ylabel="pass@k", ylim=(0, 1))
        left.set_title("(a) pass@k", loc="left")
        _draw_band(middle, data, "casp less grpo", ARMS["casp"])
        middle.axhline(0, color="0.6", lw=0.6, zorder=0)
        middle.set(xlabel="k", ylabel="CaSP less GRPO")
        middle.set_title("(b) paired by seed", loc="left")
        for arm, values in data["rank_probability"].items():
            label, colour, dashes = _style(arm)
            right.plot(range(1, len(values) + 1), values, linestyle=dashes, marker="o", color=colour, label=label)
        right.set(xlabel="rank n", ylabel="mean probability", yscale="log", xticks=range(1, RANKS + 1))
        right.set_title("(c) by rank", loc="left")
        figure.legend(*right.get_legend_handles_labels(), loc="outside lower center", ncols=len(RANKED))
    return figure


def _style(arm: str) -> tuple[str, str, Any]:
    return _BASE_STYLE if arm == BASE else ARMS[arm]


def _draw_band(axes: Axes, data: dict[str, Any], name: str, style: tuple[str, str, Any]) -> None:
    """A line in its band, along k."""
    _, colour, dashes = style
    mean, half = (np.array(data["pass_at_k"][name][key]) for key in ("mean", "error"))
    axes.plot(data["k"], mean, linestyle=dashes, color=colour)
    axes.fill_between(data["k"], mean - 1.96 * half, mean + 1.96 * half, color=colour, alpha=0.2, lw=0)
    axes.set_xscale("log", base=2)


def main(arguments: list[str]) -> None:
    """Condense the runs into the numbers kept here."""
    keep(DATA, condense(Path(arguments[0])))


if __name__ == "__main__":
    main(sys.argv[1:])
