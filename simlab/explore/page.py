"""Write the page's HTML: with links to the server's files, or as one file that works without a server."""

import base64
import dataclasses
import functools
import hashlib
import importlib.util
import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from simlab.errors import InputError
from simlab.estimators.registry import REGISTRY
from simlab.explore.controls import AXES, CONTROLS, MAPPED, MOST_CELLS, MOST_RUNS, PROMPTS, SIMULATED, run_settings
from simlab.explore.formula import LARGEST_G, TAG
from simlab.explore.in_advance import answers_in_advance, in_advance, interference_map, interference_paths
from simlab.explore.masses import has_masses
from simlab.explore.presets import PRESETS
from simlab.explore.results import result_controls
from simlab.explore.weights import MOST_PINNED, parameters_of
from simlab.files import check_outputs, write_output
from simlab.plotting import STYLE
from simlab.problems.tree import CASP_TOY
from simlab.theory.closed_forms import CLOSED_FORMS

PAGE = Path(__file__).with_name("page")
KINDS = {".js": "text/javascript", ".css": "text/css"}
# The page loads nothing but its own files; plotly sets styles on the elements that it makes.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
IMPORT = re.compile(r'from "\./([a-z_0-9]+\.js)"')
DASHES = ("solid", "dash", "dot", "dashdot")  # plotly's names


def page_file(name: str) -> tuple[str, str] | None:
    """Return the text and media type of a file of the page; None where there is none of this name."""
    if name == "plotly.js":
        return plotly_script(), KINDS[".js"]
    path = PAGE / name
    if path.parent != PAGE or path.suffix not in KINDS or not path.is_file():
        return None
    return path.read_text(encoding="utf-8"), KINDS[path.suffix]


@functools.cache
def plotly_script() -> str:
    """Return plotly's JavaScript, from the installed Python package."""
    spec = importlib.util.find_spec("plotly")
    if spec is None or spec.origin is None:
        raise InputError('explore needs plotly; install it with: pip install "simlab[explore]"')
    return (Path(spec.origin).parent / "package_data" / "plotly.min.js").read_text(encoding="utf-8")


def served_page(results: Sequence[dict[str, Any]] = ()) -> str:
    """Return the page that asks the server for its files, its simulations, and slices of open results."""
    return _fill(
        style='<link rel="stylesheet" href="page/style.css">',
        scripts='<script src="page/plotly.js"></script>\n<script type="module" src="page/main.js"></script>',
        data=description(server=True, results=results),
    )


def exported_page() -> str:
    """Return the page with everything in it and no simulations; it may load nothing."""
    modules = {}
    for path in PAGE.glob("*.js"):
        text = IMPORT.sub(r'from "page/\1"', path.read_text(encoding="utf-8"))  # the import map resolves these
        modules[f"page/{path.name}"] = "data:text/javascript;base64," + base64.b64encode(text.encode()).decode()
    imports = json.dumps({"imports": modules})
    plotly = plotly_script().replace("</script", "<\\/script").replace("<!--", "<\\!--")
    start = 'import "page/main.js";'
    hashes = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (plotly, imports, start))
    allowed = " ".join(f"'sha256-{digest}'" for digest in hashes)
    policy = (
        f"default-src 'none'; script-src {allowed} data:; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    style = (PAGE / "style.css").read_text(encoding="utf-8")
    return _fill(
        style=f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>\n{style}</style>',
        scripts=f'<script type="importmap">{imports}</script>\n<script>{plotly}</script>\n'
        f'<script type="module">{start}</script>',
        data=description(server=False) | {"answers": answers_in_advance()},
    )


def export(path: Path) -> None:
    """Write the page to a file that works without a server."""
    if path.suffix not in (".html", ".htm"):
        raise InputError(f"--export {path} has the suffix {path.suffix!r}; allowed: .html, .htm")
    check_outputs(path)
    write_output(path, exported_page().encode(), "nothing was written")


def _fill(*, style: str, scripts: str, data: dict[str, Any]) -> str:
    plain = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    scripts = f'<script type="application/json" id="description">{plain}</script>\n{scripts}'
    page = (PAGE / "index.html").read_text(encoding="utf-8")
    before, middle, after = re.split("<!-- style -->|<!-- scripts -->", page)
    return before + style + middle + scripts + after


def description(*, server: bool, results: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    """Return all that the page reads at its start: whether it has a ``server``, and the ``results`` that are open."""
    return {
        "server": server,
        "results": [result | {"controls": _controls(result)} for result in results],
        "controls": [_plain(control) for control in (*CONTROLS, *result_controls([*results]))],
        "estimators": {name: _estimator(name) for name, entry in sorted(REGISTRY.items()) if entry.tag != TAG},
        "presets": {name: preset._asdict() for name, preset in PRESETS.items()},
        "most_pinned": MOST_PINNED,
        "most_runs": MOST_RUNS,
        "most_cells": MOST_CELLS,
        "largest_g": LARGEST_G,
        "mapped": MAPPED,
        "prompts": PROMPTS,
        "axes": {name: axis._asdict() for name, axis in AXES.items()},
        "in_advance": in_advance(),
        "simulated": {panel: run_settings(panel) for panel in SIMULATED},
        "palette": palette(),
        "dashes": DASHES,
        "interference": interference_map(),
        "paths": interference_paths(),
        "tree": {"depth": 3, "branching": 4, "rewarded": CASP_TOY},
    }


def _controls(result: dict[str, Any]) -> dict[str, Any]:
    """Return the controls of a result that is open alone, by their names without the panel."""
    return {control.name.removeprefix("results."): _plain(control) for control in result_controls([result])}


@functools.cache
def _estimator(name: str) -> dict[str, Any]:
    entry, form = REGISTRY[name], CLOSED_FORMS.get(name)
    return {
        "formula": entry.formula,
        "parameters": {key: _plain(parameter) for key, parameter in parameters_of(name).items()},
        "defaults": entry.parameters,
        "success": form.success if form else None,
        "failure": form.failure if form else None,
        "has_masses": has_masses(name),
    }


def _plain(fields: Any) -> dict[str, Any]:
    values = dataclasses.asdict(fields)
    return {key: value for key, value in values.items() if not (isinstance(value, float) and math.isinf(value))}


def palette() -> list[str]:
    """Return the colours of the project's style, in its order."""
    line = next(line for line in STYLE.read_text(encoding="utf-8").splitlines() if line.startswith("axes.prop_cycle"))
    return [f"#{colour}" for colour in re.findall(r"'([0-9A-F]{6})'", line)]
