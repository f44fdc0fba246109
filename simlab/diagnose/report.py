"""Write the report of a diagnosis: one HTML file that opens offline, with its plots inside."""

import html
import io
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import matplotlib as mpl
import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from simlab.diagnose.diagnosis import Diagnosis, Finding
from simlab.diagnose.estimate import IntervalEstimate, shown
from simlab.diagnose.interference import mean_changes
from simlab.diagnose.interference_map import draw_map
from simlab.diagnose.reading import Reading
from simlab.diagnose.summary import SENTENCES, describe_log, describe_steps, number_and_interval
from simlab.files import WRITER
from simlab.plotting import STYLE

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="generator" content="{writer}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>simlab diagnose</title>
<style>
:root {{ color-scheme: light dark; --line: #8884; --quiet: #767676; --warn: #b00020 }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }}
h1 {{ font-size: 1.6rem }} h2 {{ font-size: 1.15rem; margin-top: 2.5rem }}
ol {{ padding-left: 1.3rem }} ol li {{ margin: .6rem 0; max-width: 46rem }}
p, summary {{ color: var(--quiet) }} .warning {{ color: var(--warn); font-weight: bold }}
table {{ border-collapse: collapse; width: 100%; font-size: .9rem; font-variant-numeric: tabular-nums }}
th, td {{ text-align: left; padding: .25rem .8rem .25rem 0; border-bottom: 1px solid var(--line); vertical-align: top }}
th p {{ margin: 0; font-weight: normal }} tbody th {{ padding-top: 1rem }} td {{ overflow-wrap: anywhere }}
.plots {{ margin-top: 2rem; display: flex; flex-wrap: wrap; gap: 1rem }}
.plots svg {{ flex: 1 1 17rem; max-width: 26rem; height: auto }}
.map svg {{ max-width: 100% }}
@media (prefers-color-scheme: dark) {{
  :root {{ --quiet: #a0a0a0; --warn: #ff8a8a }} body {{ background: #161616; color: #e8e8e8 }}
  .plots svg {{ filter: invert(.92) hue-rotate(180deg) }}
}}
</style></head><body>
{body}</body></html>
"""
BODY = """<h1>What this log says</h1>
{warnings}<ol>{sentences}</ol>
<h2>The numbers</h2>
<table><thead><tr><th>{steps}</th><th>value</th><th>{level} interval</th></tr></thead>
{numbers}</table>
<div class="plots">{plots}</div>
<div class="plots map">{map}</div>
<h2>How it was read</h2>
<p>{read}</p>
<details><summary>Not told: {gaps} questions that this log leaves open</summary><ul>{untold}</ul></details>
<details><summary>All estimates, with their methods</summary>
<p>Intervals hold the truth in {level} of such logs, as far as the assumptions of their method hold.</p>
<table><tr><th>estimate</th><th>value [interval]</th><th>method</th></tr>
{rows}
</table></details>"""


def report(reading: Reading, result: Diagnosis, findings: Sequence[Finding]) -> str:
    """Return the page."""
    window = result.solve_rates.windows[-1]
    estimates = dict.fromkeys(_list_estimates(result))
    body = BODY.format(
        warnings=tags("p", reading.warnings, " class=warning"),
        sentences=tags("li", [finding.sentence for finding in findings[:SENTENCES]]),
        steps=describe_steps(window.first, window.last),
        level=f"{result.level:.0%}",
        numbers="\n".join(_numbers(finding, number >= SENTENCES) for number, finding in enumerate(findings)),
        plots="\n".join(svg(partial(_plot, result, draw)) for draw in PLOTS if result.groups is not None),
        map=svg(partial(draw_map, reading.probe)) if mean_changes(reading.probe).prompts else "",
        read=html.escape(f"{describe_log(reading)}; {reading.guessed}"),
        gaps=len(result.untold),
        untold=tags("li", result.untold),
        rows="\n".join(table_row((each.name, shown(each), each.method)) for each in estimates),
    )
    return PAGE.format(writer=WRITER, body=body)


def tags(tag: str, texts: Iterable[str], attributes: str = "") -> str:
    """Write texts, each in a tag."""
    return "".join(f"<{tag}{attributes}>{html.escape(text)}</{tag}>" for text in texts)


def table_row(cells: Iterable[str]) -> str:
    """Write a row of a table."""
    return f"<tr>{tags('td', cells)}</tr>"


def _numbers(finding: Finding, with_sentence: bool) -> str:
    """Return a question's body of the table; its answer, too, unless it is one of those above."""
    answer = tags("p", [finding.sentence]) if with_sentence else ""
    rows = [
        f"<tr><td>{html.escape(label)}</td><td colspan=2>{html.escape(value)}</td></tr>"
        if isinstance(value, str)
        else table_row((label, *number_and_interval(value)))
        for label, value in finding.rows
    ]
    heading = f"<tr><th colspan=3>{html.escape(finding.question.capitalize())}{answer}</th></tr>"
    return f"<tbody>{heading}{''.join(rows)}</tbody>"


def _plot(result: Diagnosis, draw: Callable[[Axes, Any], None]) -> Figure:
    page = Figure(figsize=(2.9, 2.4), layout="constrained")
    draw(page.subplots(), result)
    return page


def svg(draw: Callable[[], Figure]) -> str:
    """Draw in the project's style; return the SVG."""
    text = io.StringIO()
    with mpl.style.context(STYLE):
        draw().savefig(text, format="svg")
    return text.getvalue()[text.getvalue().index("<svg") :]


def _list_estimates(record: object) -> list[IntervalEstimate]:
    if isinstance(record, IntervalEstimate):
        return [record]
    fields = record if isinstance(record, tuple) else ()
    return [estimate for field in fields for estimate in _list_estimates(field)]


def figure(result: Any) -> Figure:
    """Draw dead groups, pass@k and splits of the budget of a ``Diagnosis``, or of its JSON as objects."""
    page = Figure(figsize=(7.2, 2.7), layout="constrained")
    for axes, draw in zip(page.subplots(1, len(PLOTS)).flat, PLOTS, strict=True):
        draw(axes, result)
    return page


def _draw_dead_groups(axes: Axes, result: Any) -> None:
    predicted = result.groups.at_sizes
    sizes = [each.group_size for each in predicted]
    _draw_band(axes, sizes, [each.all_wrong for each in predicted], "all wrong", "C3")
    _draw_band(axes, sizes, [each.all_right for each in predicted], "all right", "C2")
    axes.set(xlabel="group size G", ylabel="share of groups", ylim=(0, 1))
    _finish(axes, "Dead groups", result.groups.observed.group_size)


def _draw_pass_at_k(axes: Axes, result: Any) -> None:
    curve = result.pass_at_k
    _draw_band(axes, curve.k, curve.carried, "carried by the log")
    if curve.beyond:
        _draw_band(axes, curve.beyond_k, curve.beyond, "extrapolated", "C1")
    axes.set(xlabel="k", ylim=(0, 1))
    _finish(axes, "pass@k")


def _draw_splits(axes: Axes, result: Any) -> None:
    advice = result.recommendation
    sizes = [split.group_size for split in advice.splits]
    _draw_band(axes, sizes, [split.teaching for split in advice.splits], "teach")
    against = [split.against for split in advice.splits if split.against is not None]
    if len(against) == len(sizes):
        _draw_band(axes, sizes, against, "teach against a\ntypical solution", "C3")
    axes.set(xlabel="group size G", ylabel="groups a step", ylim=(0, None))
    _finish(axes, f"Groups of {advice.rollouts:,} rollouts a step", advice.group_size)


PLOTS: tuple[Callable[[Axes, Any], None], ...] = (_draw_dead_groups, _draw_pass_at_k, _draw_splits)


def _finish(axes: Axes, title: str, in_use: int | None = None) -> None:
    if in_use is not None:
        axes.axvline(in_use, color="0.6", linewidth=0.8)
        where = axes.get_xaxis_transform()
        axes.text(in_use, 0.12, "in use", transform=where, rotation=90, ha="right", color="0.4", fontsize=7)
    axes.set_title(title, loc="left", fontsize=9)
    axes.set_xscale("log", base=2)
    axes.legend(fontsize=7)


def _draw_band(
    axes: Axes, x: Sequence[int], estimates: Sequence[IntervalEstimate], label: str, colour: str = "C0"
) -> None:
    low, high = [estimate.low for estimate in estimates], [estimate.high for estimate in estimates]
    axes.fill_between(x, low, high, color=colour, alpha=0.2, linewidth=0)
    axes.plot(x, [estimate.value for estimate in estimates], color=colour, label=label, marker="o", markersize=3)
