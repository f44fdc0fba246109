"""Hold settings to the ranges of their controls.

A value outside its range is replaced by the nearest bound, and the answer says so; one that cannot be read is refused.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

from simlab.errors import InputError, check_choice
from simlab.explore.bounded import LONGEST_TEXT, check_plain
from simlab.explore.controls import BY_NAME, MOST_CELLS, MOST_RUNS, Control
from simlab.explore.weights import hold_weight, hold_weights
from simlab.text import NUMBER, read_number, shortened

LISTS = ("runs", "weights")
RUN, SETTING = ";", "&"  # between pinned runs, and between the settings of one


def hold(control: Control, value: Any) -> tuple[Any, str]:
    """The value that a control takes when it is asked for ``value``, and what is to be said if that is another one.

    Raises:
        InputError: for a value that is not of the control's kind, or a text that is too long.

    >>> hold(BY_NAME["miss.correct_mass"], 2)
    (1, 'correct mass μ = 2 is outside [1e-06, 1]; held at 1')
    """
    check_plain(control.name, value, longest=MOST_RUNS * LONGEST_TEXT if control.kind in LISTS else LONGEST_TEXT)
    if control.kind in ("number", "whole"):
        return _hold_number(control, value)
    if control.kind == "choice":
        check_choice(control.name, value, control.choices)
        return value, ""
    return _TEXTS[control.kind](control, _text(control, value))


def _hold_bits(control: Control, text: str) -> tuple[str, str]:
    if set(text) - {"0", "1"} or not control.low <= len(text) <= control.high:
        raise InputError(f"{control.name} = {text!r} is not allowed; allowed: 0 or 1 for each action")
    return text, ""


def _text(control: Control, value: Any) -> str:
    if not isinstance(value, str):
        raise InputError(f"{control.name} = {value!r} is no text")
    return value


def _hold_cells(control: Control, text: str) -> tuple[str, str]:
    """Cells of a map, each a pair of numbers."""
    listed = text.split(RUN) if text else []
    pairs = [cell.split(",") for cell in listed]
    if any(len(pair) != 2 or not all(NUMBER.fullmatch(number) for number in pair) for pair in pairs):
        raise InputError(f"{control.name} = {shortened(text)} cannot be read; allowed: pairs of numbers such as 16,0.5")
    held = RUN.join(",".join(written(read_number(number)) for number in pair) for pair in pairs[:MOST_CELLS])
    said = f"{len(listed)} cells are pinned; held at {MOST_CELLS}" if len(listed) > MOST_CELLS else ""
    return held, said


def _hold_runs(control: Control, text: str) -> tuple[str, str]:
    """Pinned runs, each the settings that differ from the panel's defaults, held to their ranges."""
    panel = control.name.partition(".")[0]
    listed = text.split(RUN) if text else []
    held, said = [], []
    for run in listed[:MOST_RUNS]:
        pairs = [pair.partition("=") for pair in run.split(SETTING) if pair]
        settings = {}
        for name, _, value in pairs:
            own = BY_NAME.get(f"{panel}.{name}")
            if own is None or own.kind == "runs":
                raise InputError(f"{control.name} has a run with {name!r}; allowed: settings of the panel {panel}")
            settings[name], note = hold(own, _value_of(own, value))
            said += [note] if note else []
        held.append(SETTING.join(f"{name}={written(value)}" for name, value in settings.items()))
    if len(listed) > MOST_RUNS:
        said.append(f"{len(listed)} runs are pinned; held at {MOST_RUNS}")
    return RUN.join(held), "; ".join(said)


def _value_of(control: Control, text: str) -> Any:
    if control.kind not in ("number", "whole"):
        return text
    if not NUMBER.fullmatch(text):
        raise InputError(f"{control.name} = {text!r} is not a number; allowed: [{control.low:g}, {control.high:g}]")
    return read_number(text)


_TEXTS: Mapping[str, Callable[[Control, str], tuple[str, str]]] = {
    "weight": lambda control, text: hold_weight(text, closed=control.closed),
    "weights": lambda _, text: hold_weights(text),
    "cells": _hold_cells,
    "runs": _hold_runs,
    "bits": _hold_bits,
}


def written(value: Any) -> str:
    """A setting as an address writes it, its numbers of up to 12 digits."""
    return value if isinstance(value, str) else f"{value:.12g}"


def _hold_number(control: Control, value: Any) -> tuple[float, str]:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or math.isnan(value):
        raise InputError(f"{control.name} = {value!r} is not a number; allowed: [{control.low:g}, {control.high:g}]")
    held = min(max(value, control.low), control.high)
    if held != value:
        return held, f"{control.label} = {value:g} is outside [{control.low:g}, {control.high:g}]; held at {held:g}"
    if control.kind == "whole" and held != int(held):
        return round(held), f"{control.label} = {value:g} is not whole; held at {round(held)}"
    return (int(held) if control.kind == "whole" else held), ""


def hold_panel(panel: str, given: Any) -> tuple[dict[str, Any], list[str]]:
    """All settings of a panel: those given, held to their ranges, and the others at their defaults.

    Returns:
        Values by the name without its panel, and what is to be said of those that were held.

    Raises:
        InputError: for settings that are no object, an unknown name, or a value that cannot be read.
    """
    if not isinstance(given, dict):
        raise InputError("settings are no object; allowed: names and values")
    own = {name.partition(".")[2]: control for name, control in BY_NAME.items() if name.startswith(f"{panel}.")}
    for name in given:
        check_plain("setting", name)
        check_choice("setting", name, own)
    held = {name: hold(control, given.get(name, control.default)) for name, control in own.items()}
    return {name: value for name, (value, _) in held.items()}, [said for _, said in held.values() if said]
