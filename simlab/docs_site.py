"""Build the documentation site from a checkout, and show it on this machine (``simlab docs``)."""

import functools
import http.server
import importlib.util
import os
import subprocess
import sys
import webbrowser
from pathlib import Path

from simlab.bundled import PACKAGE, is_checkout
from simlab.errors import InputError
from simlab.files import WRITER, make_folder, write_output

HOST = "127.0.0.1"
MARK = ".simlab-site"  # MkDocs removes all but hidden files
NEEDED = ("mkdocs", "material", "mkdocstrings_handlers", "latex2mathml")  # the packages of the extra docs
QUIET = {"NO_MKDOCS_2_WARNING": "1", "DISABLE_MKDOCS_2_WARNING": "true"}  # advertisements on a user's terminal


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
