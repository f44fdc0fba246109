"""Banks of prompts of three difficulties, and the pass@k that samples of them show, for FADE's fits."""

from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes

from simlab.llm.instruments.pass_at_k import unbiased_pass_at_k
from simlab.problems import prompt_bank
from simlab.problems.exact import pass_at_k
from simlab.theory.power_law import ShiftedPowerLaw, fit_shifted_power_law

PROMPTS = 454  # LiveCodeBench v6, on which FADE reports
BANKS: dict[str, dict[str, float]] = {
    "small mass near 0": {"beta_a": 1.5, "beta_b": 2.0},
    "medium mass near 0": {"beta_a": 0.6, "beta_b": 1.0},
    "high mass near 0": {"beta_a": 0.2, "beta_b": 0.8},
}
STYLES = (("C0", "-", "o"), ("C1", "--", "^"), ("C2", "-.", "s"))


class Fitted(NamedTuple):
    """One bank: its true pass@k, what samples show of it, and the law fitted to that.

    Attributes:
        k: (K,) at which ``true`` is given, from 1 to far beyond the samples.
        true: (K,) mean of 1 - (1 - p)^k over the prompts.
        seen_k: (S,) at which the samples give an estimate.
        seen: (S,) that estimate, averaged over the prompts.
        law: fitted to ``seen``.
    """

    k: np.ndarray
    true: np.ndarray
    seen_k: np.ndarray
    seen: np.ndarray
    law: ShiftedPowerLaw


def fitted(configuration: dict[str, Any], name: str, samples: int, largest: int, *, plugged_in: bool) -> Fitted:
    """Draw ``samples`` of every prompt of a bank, and fit the shifted power law to pass@k for k up to ``largest``.

    With ``plugged_in`` the estimate is 1 - (1 - c / n)^k from the c of n samples that were correct, and else the
    unbiased one.
    """
    rates = prompt_bank(configuration["prompts"], **configuration["banks"][name]).solve_rates
    correct = np.random.default_rng(configuration["seed"]).binomial(samples, rates)
    seen_k = np.unique(np.geomspace(1, largest, 24).round().astype(int))
    if plugged_in:
        seen = [pass_at_k(correct / samples, int(k)).mean() for k in seen_k]
    else:
        seen = [unbiased_pass_at_k(correct, samples, int(k)).mean() for k in seen_k]
    k = np.unique(np.geomspace(1, configuration["largest_k"], 60).round().astype(int))
    true = np.array([pass_at_k(rates, int(size)).mean() for size in k])
    return Fitted(k, true, seen_k, np.array(seen), fit_shifted_power_law(seen_k, np.array(seen)))


def draw_fit(axes: Axes, bank: Fitted, style: tuple[str, str, str], label: str) -> None:
    """The truth as a line, what was seen as points, and the law in grey."""
    colour, dashes, marker = style
    axes.plot(bank.k, bank.true, dashes, color=colour, label=label)
    axes.plot(bank.seen_k, bank.seen, ls="", marker=marker, ms=2.8, color=colour)
    axes.plot(bank.k, bank.law(bank.k), color="0.25", lw=0.8, ls=(0, (1, 1)))
    axes.set_xscale("log")
    axes.set(xlabel="k", ylim=(0, 1.03))


def law_in_words(law: ShiftedPowerLaw) -> str:
    """The three parameters, for a label."""
    return f"a = {law.scale:.2f}, b = {law.exponent:.2f}, c = {law.shift:.2f}"
