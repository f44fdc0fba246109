"""``python -m docs_build.tutorials [NAME ...]``: run notebooks, and write them with what they show as pages.

Running them all takes some minutes, so that the pages are kept in ``docs/tutorials``; a test compares their code with
that of the notebooks.
"""

import base64
import html
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from docs_build.pages import ROOT

NOTEBOOKS, PAGES = ROOT / "notebooks", ROOT / "docs" / "tutorials"
_WIDGET = re.compile(r"(?:&lt;|<)marimo-(?!tex|table)")  # what is dragged stands still here
_CHECK = re.compile(r"\]\((\w+/\w+\.py)\)")  # links of paper_checks/INDEX.md, which a cell shows a part of
_TEX = re.compile(r"<marimo-tex[^>]*>\|\|[(\[](.*?)\|\|[)\]]</marimo-tex>", re.DOTALL)


def run(name: str) -> dict[str, Any]:
    """A notebook with its outputs, as Jupyter has it, by running it in marimo."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.ipynb"
        command = [sys.executable, "-m", "marimo", "-y", "export", "ipynb", f"{name}.py", "-o", str(out), "-f"]
        subprocess.run([*command, "--include-outputs"], cwd=NOTEBOOKS, check=True)
        notebook: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return notebook


def written(name: str, notebook: dict[str, Any]) -> tuple[str, dict[str, bytes]]:
    """The Markdown of a page, and its pictures by file name."""
    parts: list[str] = []
    pictures: dict[str, bytes] = {}
    setup = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"]).strip()
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        code = f"```python\n{source}\n```"
        if cell["metadata"].get("marimo", {}).get("name") == "setup":
            setup.append(code)  # imports stand below the title
        elif not cell["metadata"].get("marimo", {}).get("config", {}).get("hide_code"):
            parts.append(code)
        for output in cell.get("outputs", []):
            parts += _shown(output, name, pictures)
    where = f"*This is `notebooks/{name}.py`, run once. `simlab notebooks` opens it live, with sliders.*"
    return "\n\n".join([parts[0], where, *setup, *parts[1:]]) + "\n", pictures


def _shown(output: dict[str, Any], name: str, pictures: dict[str, bytes]) -> list[str]:
    data = output.get("data", {})
    if "image/png" in data:
        file = f"{name}-{len(pictures) + 1}.png"
        pictures[file] = base64.b64decode(_joined(data["image/png"]))
        return [f"![What the cell above shows]({file})"]
    for kind in ("text/html", "text/markdown", "text/plain"):
        if kind in data:
            return _text(kind, _joined(data[kind]))
    if output["output_type"] == "stream":
        return [f"```text\n{_joined(output['text']).rstrip()}\n```"]
    return []


def _text(kind: str, text: str) -> list[str]:
    if _WIDGET.search(text) or not text.strip():
        return []
    if kind == "text/plain":
        return [f"```text\n{text.rstrip()}\n```"]
    text = _TEX.sub(r"$\1$", html.unescape(text) if kind == "text/markdown" else text)
    return [_CHECK.sub(r"](../../paper_checks/\1)", text)]


def _joined(text: str | list[str]) -> str:
    return text if isinstance(text, str) else "".join(text)


def main(names: list[str]) -> None:
    """Write the pages of some notebooks, or of all."""
    for name in names or sorted(path.stem for path in NOTEBOOKS.glob("[0-9]*.py")):
        text, pictures = written(name, run(name))
        (PAGES / f"{name}.md").write_text(text, encoding="utf-8")
        for file in PAGES.glob(f"{name}-*.png"):
            file.unlink()
        for file_name, content in pictures.items():
            (PAGES / file_name).write_bytes(content)
        print(f"{name}: {len(pictures)} pictures", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
