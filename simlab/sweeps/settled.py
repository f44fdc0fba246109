"""Name what a sweep does not vary."""

from typing import Any

from simlab.sweeps.grid import Sweep


def settled(sweep: Sweep) -> dict[str, Any]:
    """What a sweep does not vary, by name: the group size, if there is one, and each parameter, given or by default.

    Parameters of a method are left out where there are several, whose defaults may differ.
    """
    known = sweep.known_parameters()
    if len(sweep.sections) > 1:
        known = {name: value for name, value in known.items() if not name.startswith(("estimator.", "surrogate."))}
    given = {name: values[0] for name, values in sweep.parameters.items() if len(values) == 1}
    fixed = {name: value for name, value in (known | given).items() if len(sweep.parameters.get(name, (0,))) == 1}
    return fixed | ({"group_size": sweep.group_sizes[0]} if len(sweep.group_sizes) == 1 else {})
