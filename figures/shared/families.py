"""Sort weights into families by their masses, and give each family one colour in every figure."""

import numpy as np
from matplotlib.figure import Figure

from simlab.estimators import REGISTRY
from simlab.estimators_table import TIE, signs
from simlab.theory import Masses, masses

GROUP_SIZE = 16  # of the masses
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
    found = masses(built, GROUP_SIZE)
    return _BY_SIGN.get(signs(found)) or _by_peak(found)


def _by_peak(found: Masses) -> str:
    """By the solve rate at which the two masses together are largest; the mean of these where there are several."""
    both = np.abs(found.success) + np.abs(found.failure)
    rates = found.successes / GROUP_SIZE
    centre = rates[both >= both.max() * (1 - TIE)].mean()
    if abs(centre - 0.5) < 1 / GROUP_SIZE:
        return "looks at the middle"
    return "looks at hard prompts" if centre < 0.5 else "looks at easy prompts"


def write_families(figure: Figure, shown: set[str], left: float, top: float) -> None:
    """The names of the families that are shown, each in its colour, four a row."""
    names = [name for name in COLOURS if name in shown]
    for place, name in enumerate(names):
        x, y = left + 0.25 * (place % 4), top - ROW / figure.get_figheight() * (place // 4)
        figure.text(x, y, name, color=COLOURS[name], fontsize=8.5, fontweight="bold", va="top")
