"""List the project's notebooks, copy them, and open them in marimo (``simlab notebooks``)."""

import ast
import importlib.metadata
import importlib.util
import json
import os
import shutil
import sys
from pathlib import Path
from typing import NoReturn

from simlab.bundled import bundled_folder, is_checkout
from simlab.errors import InputError
from simlab.files import explained

HOST = "127.0.0.1"
COPIES = "simlab-notebooks"
SESSIONS = "sessions"  # the folder beside the notebooks of what they showed when they were run, as marimo keeps it


def notebooks(folder: Path) -> dict[str, str]:
    """Return the subject of each notebook of a folder, by file name: the first line of its docstring."""
    texts = {path: ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "" for path in folder.glob("[0-9]*.py")}
    return {path.name: text.partition("\n")[0] for path, text in sorted(texts.items())}


def working_folder(chosen: Path | None = None) -> Path:
    """Return the chosen folder, the checkout's own, or ``simlab-notebooks``, with copies of what is not there."""
    source = bundled_folder("notebooks")
    if chosen is None and is_checkout():
        return source
    folder = Path(COPIES) if chosen is None else chosen
    with explained(f"cannot copy the notebooks to {folder}", "those that are there are kept"):
        folder.mkdir(parents=True, exist_ok=True)
        for name in notebooks(source):
            if not (folder / name).exists():
                shutil.copyfile(source / name, folder / name)
    return folder


def place_outputs(folder: Path) -> None:
    """Put what the notebooks showed when they were run where marimo looks for it, so that they open with it.

    marimo takes it for notebooks with the same code, of its own version. What is newer there is left as it is.
    """
    version = importlib.metadata.version("marimo")
    for source in bundled_folder("notebooks").glob(f"{SESSIONS}/*.json"):
        target = folder / "__marimo__" / "session" / f"{source.stem}.py.json"
        if target.exists() and target.stat().st_mtime > source.stat().st_mtime:
            continue
        session = json.loads(source.read_text("utf-8"))
        session["metadata"]["marimo_version"] = version
        with explained(f"cannot write {target}"):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(json.dumps(session), "utf-8")


def check_marimo() -> None:
    """Raise ``InputError`` unless marimo is installed."""
    if importlib.util.find_spec("marimo") is None:
        raise InputError('notebooks needs marimo; install it with: pip install "simlab[notebooks]"')


def open_in_marimo(folder: Path, port: int | None, browser: bool) -> NoReturn:
    """Become marimo's editor on a folder, on the loopback interface alone; ``port`` None for the usual one.

    Its request for a newer version of itself is switched off; its address has a token, without which users are refused.
    """
    command = [sys.executable, "-m", "marimo", "--yes", "edit", str(folder), "--host", HOST, "--skip-update-check"]
    command += [] if port is None else ["--port", str(port)]
    command += [] if browser else ["--headless"]
    sys.stdout.flush()
    os.execve(sys.executable, command, os.environ | {"MARIMO_SKIP_UPDATE_CHECK": "1"})
