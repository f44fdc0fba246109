"""Sort weights into families by their masses, and give each family one colour in every figure."""

import numpy as np
from matplotlib.figure import Figure

from simlab.estimators import REGISTRY
from simlab.estimators_table import TIE, signs
from simlab.theory import Masses, masses

GROUP_SIZE = 16  # for the masses
# In the order in which they are listed; colours that are told apart with any colour vision.
COLOURS = {
    "pass@k": "#000000",
    "looks at hard prompts": "#0072B2",
    "looks at the middle": "#56B4E9",
    "looks at easy prompts": "#E69F00",
    "more on successes": "#D55E00",
    "more on failures": "#009E73",
    "reads more than rewards": "#CC79A7",
}


ROW = 0.19  # inches
_BY_SIGN = {
    "biased +": "more on successes",
    "successes only": "more on successes",
    "biased -": "more on failures",
    "failures only": "more on failures",
}


def family(name: str) -> str:
    """The family of a registered estimator: what it needs, the signs of its masses, and where they peak."""
    entry = REGISTRY[name]
    built = entry.build()
    if entry.build.__module__.endswith("pass_at_k"):
        return "pass@k"
    if set(built.needs) != {"rewards"}:
        return "reads more than rewards"
    mass = masses(built, GROUP_SIZE)
    return _BY_SIGN.get(signs(mass)) or _by_peak(mass)


def _by_peak(mass: Masses) -> str:
    """Return the family by the solve rate at which both masses together are largest, or by the mean of several such."""
    both = np.abs(mass.success) + np.abs(mass.failure)
    rates = mass.successes / GROUP_SIZE
    centre = rates[both >= both.max() * (1 - TIE)].mean()
    if abs(centre - 0.5) < 1 / GROUP_SIZE:
        return "looks at the middle"
    return "looks at hard prompts" if centre < 0.5 else "looks at easy prompts"


def write_families(figure: Figure, shown: set[str], left: float, top: float) -> None:
    """The names of the families that are shown, each in its colour, four a row."""
    names = [name for name in COLOURS if name in shown]
    for index, name in enumerate(names):
        x, y = left + 0.25 * (index % 4), top - ROW / figure.get_figheight() * (index // 4)
        figure.text(x, y, name, color=COLOURS[name], fontsize=8.5, fontweight="bold", va="top")
