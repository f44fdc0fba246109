"""``python -m docs_build.screenshots``: pages of the site as a reader first sees them, light and dark, on one page.

It builds the site, writes pictures into docs/screenshots and docs/screenshots.md around them. With a folder,
``python -m docs_build.screenshots OUT``, it writes pages in their whole height there instead, to be looked at.
"""

import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Mapping
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Literal

from docs_build.pages import DOCS, ROOT
from simlab.pages import build_site

# What the page of screenshots shows, with the words above it.
SHOWN = {
    "index": "What simlab is, and its two commands",
    "start": "Ten minutes: a first figure, a weight of your own, an answer about your own logs",
    "concepts/masses": "A concept: the formula, what it means, and a line of Python",
    "findings/pass-at-k": "A finding: the answer first",
    "reference/estimators/f_grpo": "An estimator: its formula, its masses, its source",
    "reference/estimators": "Every estimator in one table",
}
WHOLE = (
    *SHOWN,
    *("notebooks", "how-to/own-estimator", "findings/index", "findings/which-weight", "findings/countdown"),
    "reference/problems",
)
PAGE, PICTURES = ROOT / DOCS / "screenshots.md", ROOT / DOCS / "screenshots"
WIDTH, HEIGHT = 1280, 900
SETTLED = 500  # milliseconds until the tabs have faded in
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SCHEMES: Mapping[Literal["light", "dark"], str] = {"light": "", "dark": "-dark"}


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """No line for a request."""


def picture(name: str, suffix: str) -> str:
    """The file name of a page's picture.

    >>> picture("findings/pass-at-k", "-dark")
    'findings-pass-at-k-dark.png'
    """
    return f"{name.replace('/', '-')}{suffix}.png"


def shoot(site: Path, out: Path, names: tuple[str, ...], *, whole: bool) -> None:
    """Write ``PAGE.png`` and ``PAGE-dark.png`` of some pages into ``out``: their whole height, or a first screen."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  # to write the page needs no browser

    executable = os.environ.get("SIMLAB_CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    out.mkdir(parents=True, exist_ok=True)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=executable)
            for scheme, suffix in SCHEMES.items():
                context = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme=scheme)
                for name in names:
                    page = context.new_page()
                    page.goto(f"http://127.0.0.1:{server.server_port}/{name}.html")
                    page.wait_for_timeout(SETTLED)
                    page.screenshot(path=out / picture(name, suffix), full_page=whole)
                    page.close()
            browser.close()
        server.shutdown()


def page() -> str:
    """The page around the pictures."""
    parts = [
        "# Screenshots",
        f"The first screen of some pages, {WIDTH} by {HEIGHT} pixels, light and dark.\n"
        "`python -m docs_build.screenshots` built the site, took the pictures, and wrote this page.",
    ]
    for name, words in SHOWN.items():
        light, dark = (f"![{words}]({PICTURES.name}/{picture(name, suffix)})" for suffix in SCHEMES.values())
        parts += [f"## {words}", light, dark]
    return "\n\n".join(parts) + "\n"


def main(arguments: list[str]) -> None:
    """Build the site and take the pictures; without a folder, write the page too."""
    with tempfile.TemporaryDirectory() as folder:
        build_site(Path(folder))
        if arguments:
            shoot(Path(folder), Path(arguments[0]), WHOLE, whole=True)
            return
        shoot(Path(folder), PICTURES, tuple(SHOWN), whole=False)
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
