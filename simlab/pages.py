"""Open the notebooks in marimo (``simlab notebooks``), and build and show the documentation (``simlab docs``)."""

import ast
import functools
import http.server
import importlib.metadata
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import webbrowser
from pathlib import Path
from typing import NoReturn

from simlab.bundled import PACKAGE, bundled_folder, is_checkout
from simlab.errors import InputError
from simlab.files import WRITER, explained, make_folder, write_output

HOST = "127.0.0.1"
COPIES = "simlab-notebooks"
SESSIONS = "sessions"  # the folder beside the notebooks of what they showed when they were run, as marimo keeps it
MARK = ".simlab-site"  # MkDocs removes all but hidden files
NEEDED = ("mkdocs", "material", "mkdocstrings_handlers", "latex2mathml")  # the packages of the extra docs
QUIET = {"NO_MKDOCS_2_WARNING": "1", "DISABLE_MKDOCS_2_WARNING": "true"}  # advertisements on a user's terminal


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


# The documentation


def check_docs() -> None:
    """Raise ``InputError`` unless this is a checkout, and the packages of the extra ``docs`` are installed."""
    if not is_checkout():
        allowed = "in a clone of the repository: pip install -e '.[docs]', then simlab docs"
        raise InputError(f"simlab docs builds the pages of a clone, and a wheel has none; allowed: {allowed}")
    if any(importlib.util.find_spec(name) is None for name in NEEDED):
        raise InputError('docs needs MkDocs; install it with: pip install -e ".[docs]"')


def claim_folder(folder: Path) -> None:
    """Mark a new or empty folder as the site's; ``InputError`` for any other without the mark, which would be lost."""
    make_folder(folder)
    if any(folder.iterdir()) and not (folder / MARK).exists():
        raise InputError(f"{folder} holds something else than a built site; allowed: a new folder, or an empty one")
    write_output(folder / MARK, WRITER.encode())


def build_site(folder: Path) -> None:
    """Build the site strictly in place of what the folder holds: ``InputError`` for a broken link or reference."""
    root = PACKAGE.parent
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]  # --quiet would not count warnings
    command += ["--config-file", str(root / "mkdocs.yml"), "--site-dir", str(folder.absolute())]
    done = subprocess.run(command, cwd=root, env=os.environ | QUIET, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stderr, file=sys.stderr, end="")
        raise InputError(f"the documentation cannot be built into {folder}; see the lines above")


def serve(folder: Path, port: int | None, browser: bool) -> None:
    """Show a built site on the loopback interface until it is interrupted; ``InputError`` if the port is taken."""
    handler = functools.partial(_Quiet, directory=str(folder))
    try:
        server = http.server.ThreadingHTTPServer((HOST, port or 0), handler)
    except OSError as error:
        raise InputError(f"port = {port} cannot be used on {HOST}: {error.strerror}; allowed: a free one") from None
    with server:
        address = f"http://{HOST}:{server.server_port}/"
        print(f"{address}  (Ctrl-C ends it)", flush=True)
        if browser:
            webbrowser.open(address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Requests of one's own browser are not worth a line."""
