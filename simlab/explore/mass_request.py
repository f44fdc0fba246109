"""Answer the page's question for the masses of an estimator that has no closed form."""

from typing import Any

from simlab.errors import InputError, check_choice, check_whole
from simlab.estimators import REGISTRY
from simlab.explore.bounded import check_plain
from simlab.explore.mass_table import group_masses
from simlab.explore.weights import hold_weight, read_weight

ENTRIES = ("weight", "group_size")
LARGEST_GROUP = 1024  # of the panels that ask


def answered(body: Any) -> dict[str, list[float]]:
    """What the page asks for: ``success`` and ``failure``, (G + 1,), of a ``weight`` in groups of ``group_size``.

    Raises:
        InputError: for a request of another form, and as ``group_masses``.
    """
    if not isinstance(body, dict):
        raise InputError(f"the request is no object; allowed: {', '.join(ENTRIES)}")
    for name in body:
        check_choice("entry", name, ENTRIES)
    size = body.get("group_size", 8)
    check_whole("group_size", size, 1, LARGEST_GROUP)
    text = body.get("weight", "grpo")
    check_plain("weight", text, "an estimator")
    name, own = read_weight(hold_weight(str(text), closed=True)[0])
    masses = group_masses(name, size, REGISTRY[name].parameters | own)
    success, failure = ([float(f"{value:.12g}") for value in side] for side in masses)
    return {"success": success, "failure": failure}
