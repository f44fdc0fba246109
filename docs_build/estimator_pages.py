"""Make a page for each registered estimator: its formula, its masses as formulas and as a plot, its source."""

import functools
import inspect
import io
import re
import textwrap

import matplotlib.style
import numpy as np
from matplotlib.figure import Figure

from docs_build.docstrings import fenced
from docs_build.formulas import in_tex
from simlab.errors import InputError
from simlab.estimators import REGISTRY, Registered
from simlab.estimators_table import GROUP_SIZE, REWARDS, call, peak, signs
from simlab.plotting import STYLE
from simlab.theory import CLOSED_FORMS, Masses, masses

FOLDER = "reference/estimators"
TABLE = "reference/estimators.md"  # the page with all of them
SHOWN_AT = 16  # the group size of the plots
UNDATED = {"Date": None}
BLUE, ORANGE = "C0", "C1"


def navigation() -> list[dict[str, str]]:
    """An entry for each estimator, in the order of the registry."""
    return [{name: f"{FOLDER}/{name}.md"} for name in REGISTRY]


@functools.cache
def texts() -> dict[str, str]:
    """The pages and their plots, by their paths in the site."""
    made = {}
    for name, entry in REGISTRY.items():
        found = masses_of(entry, SHOWN_AT)
        made[f"{FOLDER}/{name}.md"] = page(entry, plotted=found is not None)
        if found is not None:
            made[f"{FOLDER}/{name}.svg"] = plot(name, found)
    return made


def with_links(table: str) -> str:
    """The table of all estimators, each name a link to its page."""
    for name in REGISTRY:
        table = re.sub(rf"^\| (`{name}\(.*?\)`)", rf"| [\1](estimators/{name}.md)", table, flags=re.MULTILINE)
    return table


def masses_of(entry: Registered, group_size: int) -> Masses | None:
    """The masses of an estimator at its defaults; None if it needs more than the outcomes of a group."""
    try:
        return masses(entry.build(), group_size)
    except InputError:
        return None


def page(entry: Registered, plotted: bool) -> str:
    """The Markdown of an estimator's page."""
    first, _, rest = (inspect.getdoc(entry.build) or entry.name).partition("\n")
    parts = [
        f"# `{entry.name}`",
        first,
        "\n".join(_facts(entry)),
        f"## Advantage of rollout i\n\n$$\n{in_tex(entry.formula)}\n$$\n\nIn the registry: `{entry.formula}`.",
        _mass_section(entry, plotted),
        f"## Notes and example\n\n{_prose(rest)}" if rest.strip() else "",
        f"## Source\n\n```python title={entry.build.__module__!r}\n{_source(entry)}\n```",
        "[All estimators](../estimators.md) · [the words and letters of the formulas](../../concepts/masses.md)",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _facts(entry: Registered) -> list[str]:
    built, found = entry.build(), masses_of(entry, GROUP_SIZE)
    lines = ["| | |", "|---|---|", f"| call | `{call(entry)}` |", f"| defined in | `[{entry.tag}]` |"]
    lines.append(f"| needs | {', '.join(sorted(built.needs))} |")
    lines.append(f"| for rewards | {REWARDS[built.domain]} |")
    if found is not None:
        lines.append(f"| signs, at G = {GROUP_SIZE} | {signs(found)} |")
        lines.append(f"| mass peaks at p, at G = {GROUP_SIZE} | {peak(found)} |")
    return lines


def _mass_section(entry: Registered, plotted: bool) -> str:
    lines = ["## Masses\n"]
    if (form := CLOSED_FORMS.get(entry.name)) is not None:
        lines.append(f"$$\nm_S = {in_tex(form.success)}\n$$\n\n$$\nm_F = {in_tex(form.failure)}\n$$\n")
    if plotted:
        said = f"Masses of {entry.name} at 0 to {SHOWN_AT} successes of {SHOWN_AT}"
        lines.append(f"![{said}]({entry.name}.svg)\n")
        lines.append(f"Computed from the estimator itself, at its defaults, in groups of {SHOWN_AT}.")
    else:
        lines.append("It reads more than the outcomes of a group: no curve against the solve rate can stand for it.")
    return "\n".join(lines)


def plot(name: str, found: Masses) -> str:
    """The masses against the solve rate, as SVG: the same bytes whenever it is drawn."""
    rates = found.successes / found.successes[-1]
    with matplotlib.style.context([STYLE, {"svg.fonttype": "none"}]):
        figure = Figure(figsize=(5.2, 2.6), layout="constrained")
        axes = figure.subplots()
        same = np.allclose(found.success, found.failure)
        axes.plot(rates, found.success, "o-", color=BLUE)
        if not same:
            axes.plot(rates, found.failure, "s--", color=ORANGE)
        text = "$m_S$ = $m_F$" if same else "$m_S$ (on successes)"
        axes.set_title(text, color=BLUE, loc="left")
        if not same:
            axes.set_title("$m_F$ (on failures)", color=ORANGE, loc="right")
        axes.axhline(0, color="0.7", linewidth=0.8, zorder=0)
        axes.set(xlabel="solve rate p of the group", ylabel=f"mass under {name}")
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata=UNDATED)
    return file.getvalue()


def _prose(docstring: str) -> str:
    """The rest of a docstring as Markdown: its sections as lists, its examples as code."""
    text = re.sub(r"^(Args|Returns|Raises):$", r"**\1**\n", fenced(docstring.strip()), flags=re.MULTILINE)
    text = re.sub(r"^ {4}(?=\S)", "- ", text, flags=re.MULTILINE)
    return re.sub(r"^ {8}(?=\S)", "  ", text, flags=re.MULTILINE)


def _source(entry: Registered) -> str:
    return textwrap.dedent(inspect.getsource(entry.build)).rstrip()
