"""Hold settings to the ranges of their controls.

A value outside its range is replaced by the nearest bound, and a note says so; one that cannot be read is refused.
The page applies the same rules by ``page/settings.js``, for it also works without a server. Pinned runs, estimators and
cells of a map, and the actions of a group, are of the page alone: no simulation depends on them.
"""

import math
from typing import Any

from simlab.errors import InputError, check_choice
from simlab.explore.controls import Control, controls_of_panel
from simlab.explore.weights import hold_weight
from simlab.text import shortened

LONGEST_TEXT = 400  # characters; an estimator with all its parameters has fewer than 200

Held = tuple[Any, str]  # a value, and the note that it was changed, or ""


def check_plain(name: str, value: Any) -> None:
    """Raise ``InputError`` unless a value from JSON is a number, or a text of at most ``LONGEST_TEXT`` characters."""
    if value is None or isinstance(value, (list, dict)):
        kind = "null" if value is None else "a list" if isinstance(value, list) else "an object"
        raise InputError(f"{name} is {kind}; allowed: a number or a text")
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        raise InputError(f"{name} = {shortened(value)} is too long; allowed: up to {LONGEST_TEXT} characters")


def hold(control: Control, value: Any) -> Held:
    """Return the value that a control takes when it is set to ``value``, and a note if that is another one.

    Raises:
        InputError: for a value that is not of the control's kind, or a text that is too long.

    >>> hold(controls_of_panel("miss")["correct_mass"], 2)
    (1, 'correct mass μ = 2 is outside [1e-06, 1]; held at 1')
    """
    check_plain(control.name, value)
    if control.kind in ("number", "whole"):
        return _hold_number(control, value)
    if control.kind == "choice":
        check_choice(control.name, value, control.choices)
    elif not isinstance(value, str):
        raise InputError(f"{control.name} = {value!r} is no text")
    return hold_weight(value, closed=control.closed) if control.kind == "weight" else (value, "")


def _hold_number(control: Control, value: Any) -> Held:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or math.isnan(value):
        raise InputError(f"{control.name} = {value!r} is not a number; allowed: [{control.low:g}, {control.high:g}]")
    bounded = min(max(value, control.low), control.high)
    if bounded != value:
        return (
            bounded,
            f"{control.label} = {value:g} is outside [{control.low:g}, {control.high:g}]; held at {bounded:g}",
        )
    if control.kind == "whole" and bounded != int(bounded):
        return round(bounded), f"{control.label} = {value:g} is not whole; held at {round(bounded)}"
    return (int(bounded) if control.kind == "whole" else bounded), ""


def hold_panel(panel: str, settings: Any) -> tuple[dict[str, Any], list[str]]:
    """Return all settings of a panel: ``settings``, held to their ranges, and the others at their defaults.

    Returns:
        Values by the name without its panel, and a note for each that was bounded.

    Raises:
        InputError: for settings that are no object, an unknown name, or a value that cannot be read.
    """
    if not isinstance(settings, dict):
        raise InputError("settings are no object; allowed: names and values")
    controls = controls_of_panel(panel)
    for name in settings:
        check_choice("setting", name, controls)
    bounded = {name: hold(control, settings.get(name, control.default)) for name, control in controls.items()}
    return {name: value for name, (value, _) in bounded.items()}, [note for _, note in bounded.values() if note]
