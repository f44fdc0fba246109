"""Describe to the page the controls of results that are opened: which variable, along what, and where in the rest."""

import math
from typing import Any

from simlab.explore.controls import Control
from simlab.explore.opened import BOUND
from simlab.explore.results import AVERAGED

NONE = "none"
AXES = ("linear", "logarithmic across", "logarithmic up", "logarithmic")
USUAL_COLUMNS = ("step", "cost", "evaluation", "k", "group_size")
USUAL_VARIABLES = ("q_pos", "pass_at_k")


def controls_of(results: list[dict[str, Any]]) -> list[Control]:
    """The controls of some results, as ``Results.described`` has them; dimensions become sliders over their places."""
    if not results:
        return []
    names = [f"{number}: {one['name']}" for number, one in enumerate(results, start=1)]
    variables = sorted({name for one in results for name in one["variables"]})
    first = results[0]["dimensions"]
    longest = {
        name: max((one["dimensions"].get(name, []) for one in results), key=len)
        for one in results
        for name in one["dimensions"]
    }
    variable = next((name for name in USUAL_VARIABLES if name in variables), variables[0])
    own = results[0]["variables"].get(variable, {"dimensions": [*first]})["dimensions"]
    across = next((name for name in USUAL_COLUMNS if name in own), own[-1])
    lines = next((name for name in own if name not in (across, AVERAGED, BOUND) and len(first[name]) > 1), NONE)
    dimensions = tuple(longest)
    return [
        Control("results.file", "choice", "result", names[0], choices=tuple(names), help="which one is drawn"),
        Control(
            "results.second",
            "choice",
            "beside it",
            NONE,
            choices=(NONE, *names),
            help="another result, at the same place",
        ),
        Control("results.variable", "choice", "variable", variable, choices=tuple(variables), help="what is drawn"),
        Control("results.across", "choice", "across", across, choices=dimensions, help="the dimension of the x axis"),
        Control("results.lines", "choice", "lines", lines, choices=(NONE, *dimensions), help="a line for each label"),
        Control("results.view", "choice", "drawn as", "curves", choices=("curves", "map"), help="a map has no bands"),
        Control("results.axes", "choice", "axes", AXES[0], choices=AXES, help="logarithms show what is above 0"),
        *(
            Control(
                f"results.{name}",
                "whole",
                name,
                0,
                0,
                len(labels) - 1,
                choices=tuple(map(_text, labels)),
                help="where in this dimension the rest is read",
            )
            for name, labels in longest.items()
            if len(labels) > 1
        ),
    ]


def _text(label: float | str) -> str:
    return f"{label:g}" if isinstance(label, float) and math.isfinite(label) else str(label)
