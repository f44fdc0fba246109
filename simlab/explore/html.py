"""Write the page's HTML: with links to the server's files, or as one file that works without a server."""

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from simlab.errors import InputError
from simlab.explore.assets import PAGE, modules, plotly_script
from simlab.explore.description import description
from simlab.files import check_replaceable, make_folder, write_output

# Nothing but the page itself; plotly sets styles on the elements that it makes.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
IMPORT = re.compile(r'from "\./([a-z_0-9]+\.js)"')


def served_page(results: Sequence[dict[str, Any]] = ()) -> str:
    """The page that asks the server for its files, its simulations, and slices of the results that it has open."""
    return _filled(
        style='<link rel="stylesheet" href="page/style.css">',
        scripts='<script src="plotly.js"></script>\n<script type="module" src="page/main.js"></script>',
        data=description(server=True, results=results),
    )


def exported_page() -> str:
    """The page with everything in it and no simulations; it may load nothing and ask nobody."""
    style = (PAGE / "style.css").read_text(encoding="utf-8")
    imports = json.dumps({"imports": {f"page/{name}": _data_address(text) for name, text in modules().items()}})
    plotly, start = _inside_script(plotly_script()), 'import "page/main.js";'
    allowed = " ".join(f"'sha256-{_digest(text)}'" for text in (plotly, imports, start))
    policy = (
        f"default-src 'none'; script-src {allowed} data:; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    return _filled(
        style=f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>\n{style}</style>',
        scripts=f'<script type="importmap">{imports}</script>\n<script>{plotly}</script>\n'
        f'<script type="module">{start}</script>',
        data=description(server=False),
    )


def export(path: Path) -> None:
    """Write the page to a file that works without a server.

    Raises:
        InputError: for a path that is no .html file or cannot be written.
    """
    if path.suffix not in (".html", ".htm"):
        raise InputError(f"--export {path} has the suffix {path.suffix!r}; allowed: .html, .htm")
    check_replaceable(path)
    make_folder(path.parent)
    text = exported_page()
    write_output(path, text.encode(), "nothing was written")


def _filled(*, style: str, scripts: str, data: dict[str, Any]) -> str:
    page = (PAGE / "index.html").read_text(encoding="utf-8")
    plain = json.dumps(data).replace("<", "\\u003c")
    described = f'<script type="application/json" id="description">{plain}</script>'
    for mark, text in {"style": style, "scripts": f"{described}\n{scripts}"}.items():
        before, found, after = page.partition(f"<!-- {mark} -->")
        assert found, f"index.html has no place for {mark}"
        page = before + text + after
    return page


def _data_address(module: str) -> str:
    """A module as an address that holds it; what it imports is found by the import map."""
    text = IMPORT.sub(r'from "page/\1"', module)
    return "data:text/javascript;base64," + base64.b64encode(text.encode()).decode()


def _inside_script(text: str) -> str:
    """The text of a script that does not end the element which holds it."""
    return text.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
