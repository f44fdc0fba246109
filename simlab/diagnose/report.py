"""The report of a diagnosis: one HTML file that opens offline, with its plots inside."""

import html
import io
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import matplotlib as mpl
import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from simlab.diagnose.diagnosis import Diagnosis
from simlab.diagnose.estimate import Estimate
from simlab.diagnose.reading import Reading
from simlab.diagnose.summary import shown, summary
from simlab.plotting import STYLE

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>simlab diagnose</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a }}
pre {{ background: #f4f4f4; padding: 1rem; overflow-x: auto; font-size: 13px }}
table {{ border-collapse: collapse; font-size: 14px; display: block; overflow-x: auto }}
th, td {{ text-align: left; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid #ddd; vertical-align: top }}
svg {{ max-width: 100%; height: auto }}
</style></head><body>
<h1>What this log tells</h1>
<pre>{summary}</pre>
{plots}
<h2>What to run next</h2>
{commands}
<h2>What this log cannot tell</h2>
<ul>{untold}</ul>
<h2>All estimates</h2>
<p>Intervals hold the truth in {level} of such logs, as far as the assumptions of their method hold.</p>
<table><tr><th>estimate</th><th>value [interval]</th><th>method</th></tr>
{rows}
</table></body></html>
"""
NO_COMMAND = "No split of the budget is surely better than the one in use."


def report(reading: Reading, found: Diagnosis) -> str:
    """The page."""
    listed = "".join(f"<li><code>{_text(command)}</code></li>" for command in found.commands)
    return PAGE.format(
        summary=_text("\n".join(summary(reading, found))),
        plots=_plots(found),
        commands=f"<ul>{listed}</ul>" if listed else f"<p>{NO_COMMAND}</p>",
        untold="".join(f"<li>{_text(sentence)}</li>" for sentence in found.untold),
        level=f"{found.level:.0%}",
        rows="\n".join(map(_row, dict.fromkeys(_estimates(found)))),
    )


def _row(one: Estimate) -> str:
    cells = "".join(f"<td>{_text(cell)}</td>" for cell in (one.name, shown(one), one.method))
    return f"<tr>{cells}</tr>"


def _text(text: str) -> str:
    return html.escape(text)


def _estimates(found: object) -> list[Estimate]:
    """All estimates within a record of them."""
    if isinstance(found, Estimate):
        return [found]
    if isinstance(found, (tuple, list)):
        return [one for part in found for one in _estimates(part)]
    return [one for part in vars(found).values() for one in _estimates(part)] if hasattr(found, "__dict__") else []


def _plots(found: Diagnosis) -> str:
    file = io.StringIO()
    with mpl.style.context(STYLE):
        figure(found).savefig(file, format="svg")
    text = file.getvalue()
    return text[text.index("<svg") :]


@runtime_checkable
class Plotted(Protocol):
    """What the plots read of a diagnosis, or of its JSON."""

    @property
    def groups(self) -> Any:
        """What ``Diagnosis.groups`` holds."""

    @property
    def pass_at_k(self) -> Any:
        """What ``Diagnosis.pass_at_k`` holds."""

    @property
    def recommendation(self) -> Any:
        """What ``Diagnosis.recommendation`` holds."""


def figure(found: Plotted) -> Figure:
    """The report's plots: dead groups, pass@k, and what splits of the budget would teach, in the style in use."""
    drawn: dict[str, Callable[[Axes, Plotted], None]] = {
        "Dead groups": _dead,
        "pass@k": _pass_at_k,
        f"Groups of {found.recommendation.rollouts:,} rollouts a step": _teaching,
    }
    whole = Figure(figsize=(7.2, 2.7), layout="constrained")
    for (title, draw), axes in zip(drawn.items(), whole.subplots(1, len(drawn)).flat, strict=True):
        draw(axes, found)
        axes.set_title(title, loc="left", fontsize=9)
        axes.set_xscale("log", base=2)
    return whole


def _band(axes: Axes, x: Sequence[int], of: Sequence[Estimate], label: str | None = None, colour: str = "C0") -> None:
    axes.fill_between(x, [one.low for one in of], [one.high for one in of], color=colour, alpha=0.2, linewidth=0)
    axes.plot(x, [one.value for one in of], color=colour, label=label, marker="o", markersize=3)


def _in_use(axes: Axes, group_size: int) -> None:
    axes.axvline(group_size, color="0.6", linewidth=0.8)
    place = axes.get_xaxis_transform()
    axes.text(group_size, 0.12, "in use", transform=place, rotation=90, ha="right", color="0.4", fontsize=7)


def _dead(axes: Axes, found: Plotted) -> None:
    sizes = [own.group_size for own in found.groups.at_sizes]
    _band(axes, sizes, [own.all_wrong for own in found.groups.at_sizes], "all wrong", "C3")
    _band(axes, sizes, [own.all_right for own in found.groups.at_sizes], "all right", "C2")
    _in_use(axes, found.groups.observed.group_size)
    axes.set(xlabel="group size G", ylabel="share of groups", ylim=(0, 1))
    axes.legend(fontsize=7)


def _pass_at_k(axes: Axes, found: Plotted) -> None:
    own = found.pass_at_k
    _band(axes, own.k, own.carried, "carried by the log")
    if own.beyond:
        _band(axes, own.beyond_k, own.beyond, "extrapolated", "C1")
    axes.set(xlabel="k", ylim=(0, 1))
    axes.legend(fontsize=7)


def _teaching(axes: Axes, found: Plotted) -> None:
    splits = found.recommendation.splits
    sizes = [split.group_size for split in splits]
    _band(axes, sizes, [split.teaching for split in splits], "teach")
    against = [split.against for split in splits if split.against is not None]
    if len(against) == len(splits):
        _band(axes, sizes, against, "teach against a\ntypical solution", "C3")
    _in_use(axes, found.recommendation.group_size)
    axes.set(xlabel="group size G", ylabel="groups a step", ylim=(0, None))
    axes.legend(fontsize=7)
