"""``python -m docs_build.tutorials [NAME ...]``: run notebooks, and keep what they show: as pages, and for marimo.

Running them all takes some minutes, so that the pages are kept in ``docs/tutorials``, and what marimo shows when it
opens a notebook in ``notebooks/sessions``; tests compare their code with that of the notebooks.
"""

import base64
import html
import io
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image

from docs_build.pages import ROOT
from simlab.pages import SESSIONS

NOTEBOOKS, PAGES = ROOT / "notebooks", ROOT / "docs" / "tutorials"
_WIDGET = re.compile(r"(?:&lt;|<)marimo-(?!tex|table)")  # what is dragged stands still here
_CHECK = re.compile(r"\]\((\w+/\w+\.py)\)")  # links of paper_checks/INDEX.md, which a cell shows a part of
_PICTURE = re.compile(r"(?<=data:image/png;base64,)[\w+/=]+")
IMPORTS = '<details markdown="1"><summary>Imports</summary>\n\n{}\n\n</details>'  # below the title, and out of sight
COLOURS = 64  # of a picture, which then takes half of the bytes
_TEX = re.compile(r"<marimo-tex[^>]*>\|\|[(\[](.*?)\|\|[)\]]</marimo-tex>", re.DOTALL)


def run(name: str) -> dict[str, Any]:
    """A notebook with its outputs, as Jupyter has it, by running it in marimo."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.ipynb"
        command = [sys.executable, "-m", "marimo", "-y", "export", "ipynb", f"{name}.py", "-o", str(out), "-f"]
        subprocess.run([*command, "--include-outputs"], cwd=NOTEBOOKS, check=True)
        notebook: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return notebook


def session(name: str) -> str:
    """What marimo shows of a notebook when it opens it, as JSON, by running it in a copy."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(NOTEBOOKS / f"{name}.py", folder)
        command = [sys.executable, "-m", "marimo", "-y", "export", "session", f"{name}.py"]
        subprocess.run(command, cwd=folder, check=True)
        text = (Path(folder) / "__marimo__" / "session" / f"{name}.py.json").read_text(encoding="utf-8")
    return _PICTURE.sub(lambda found: base64.b64encode(smaller(base64.b64decode(found[0]))).decode(), text)


def smaller(picture: bytes) -> bytes:
    """A picture as PNG in fewer colours."""
    out = io.BytesIO()
    image = Image.open(io.BytesIO(picture)).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    image.save(out, "PNG", optimize=True)
    return out.getvalue()


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
            setup.append(IMPORTS.format(code))
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
        pictures[file] = smaller(base64.b64decode(_joined(data["image/png"])))
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
    """Write the pages and the sessions of some notebooks, or of all."""
    for name in names or sorted(path.stem for path in NOTEBOOKS.glob("[0-9]*.py")):
        text, pictures = written(name, run(name))
        (PAGES / f"{name}.md").write_text(text, encoding="utf-8")
        for file in PAGES.glob(f"{name}-*.png"):
            file.unlink()
        for file_name, content in pictures.items():
            (PAGES / file_name).write_bytes(content)
        (NOTEBOOKS / SESSIONS / f"{name}.json").write_text(session(name), encoding="utf-8")
        print(f"{name}: {len(pictures)} pictures", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
