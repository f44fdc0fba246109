"""Describe to the page its controls, presets and estimators, and the project's colours and labels."""

import dataclasses
import functools
import math
import re
from collections.abc import Sequence
from typing import Any

from simlab.estimators.registry import REGISTRY
from simlab.explore.axes import AXES
from simlab.explore.controls import CONTROLS, MAPPED, MOST_CELLS, MOST_RUNS, SIMULATED, names_of_runs
from simlab.explore.formula import TAG
from simlab.explore.in_advance import in_advance
from simlab.explore.interference_map import interference_map
from simlab.explore.linked_tables import LINKED, linked_tables
from simlab.explore.mass_table import has_table
from simlab.explore.presets import PRESETS
from simlab.explore.results_controls import controls_of
from simlab.explore.weights import MOST_PINNED, parameters_of
from simlab.plotting import LABELS, STYLE
from simlab.problems.tree import CASP_TOY
from simlab.theory.closed_forms import CLOSED_FORMS

# matplotlib's names of dashes, and plotly's.
DASHES = ("solid", "dash", "dot", "dashdot")
GREEK = {"gamma": "γ", "alpha": "α", "delta": "δ", "mu": "μ", "tau": "τ"}


@functools.cache
def _shared(*, server: bool) -> dict[str, Any]:
    return {
        "controls": [_plain(dataclasses.asdict(control)) for control in CONTROLS],
        "presets": {name: dataclasses.asdict(preset) for name, preset in PRESETS.items()},
        "estimators": {
            name: _estimator(name, server=server) for name, own in sorted(REGISTRY.items()) if own.tag != TAG
        },
        "most_pinned": MOST_PINNED,
        "most_runs": MOST_RUNS,
        "most_cells": MOST_CELLS,
        "mapped": MAPPED,
        "axes": {name: axis._asdict() for name, axis in AXES.items()},
        "in_advance": in_advance(),
        "simulated": {panel: names_of_runs(panel) for panel in SIMULATED},
        "palette": palette(),
        "dashes": DASHES,
        "labels": {name: as_html(text) for name, text in LABELS.items()},
        "interference": interference_map(),
        "tree": {"depth": 3, "branching": 4, "rewarded": CASP_TOY},
    }


def description(*, server: bool, results: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    """Everything that the page is told: whether there is a ``server`` to simulate, and what ``results`` it has open."""
    shared = _shared(server=server)
    own = [_plain(dataclasses.asdict(control)) for control in controls_of([*results])]
    return shared | {"server": server, "controls": shared["controls"] + own, "results": [*results]}


def _estimator(name: str, *, server: bool) -> dict[str, Any]:
    entry, form = REGISTRY[name], CLOSED_FORMS.get(name)
    return {
        "tag": entry.tag,
        "formula": entry.formula,
        "parameters": {key: _plain(dataclasses.asdict(own)) for key, own in parameters_of(name).items()},
        "defaults": entry.parameters,
        "success": form.success if form else None,
        "failure": form.failure if form else None,
        "tabled": has_table(name) and (server or name == LINKED),
    } | ({} if server or name != LINKED else {"tables": linked_tables()})


def _plain(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields as JSON can hold them: a bound that is none is left out."""
    return {key: value for key, value in fields.items() if not (isinstance(value, float) and math.isinf(value))}


def palette() -> list[str]:
    """The colours of the project's style, in its order."""
    line = next(line for line in STYLE.read_text(encoding="utf-8").splitlines() if line.startswith("axes.prop_cycle"))
    return [f"#{colour}" for colour in re.findall(r"'([0-9A-F]{6})'", line)]


def as_html(label: str) -> str:
    r"""A label of a figure as the page writes it.

    >>> as_html("correct mass $Q_{pos}$"), as_html(r"$\gamma$")
    ('correct mass Q<sub>pos</sub>', 'γ')
    """
    text = re.sub(r"\\([a-z]+)", lambda match: GREEK[match[1]], label.replace("$", ""))
    return re.sub(r"_\{([^}]*)\}", r"<sub>\1</sub>", text)
