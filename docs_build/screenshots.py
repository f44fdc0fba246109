"""``python -m docs_build.screenshots SITE OUT``: pages of a built site as pictures, light and dark."""

import os
import shutil
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Literal

from playwright.sync_api import sync_playwright

PAGES = (
    *("index", "start", "notebooks", "how-to/own-estimator", "concepts/masses", "findings/index"),
    *("findings/pass-at-k", "findings/which-weight", "findings/countdown", "reference/estimators"),
    *("reference/estimators/f_grpo", "reference/problems"),
)
WIDTH, HEIGHT = 1280, 900
SETTLED = 500  # milliseconds until the tabs have faded in
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """No line for a request."""


def main(site: Path, out: Path) -> None:
    """Write ``PAGE.png`` and ``PAGE-dark.png`` into ``out``, the whole height of each page."""
    executable = os.environ.get("SIMLAB_CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=executable)
            schemes: tuple[tuple[Literal["light", "dark"], str], ...] = (("light", ""), ("dark", "-dark"))
            for scheme, suffix in schemes:
                context = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme=scheme)
                for name in PAGES:
                    page = context.new_page()
                    page.goto(f"http://127.0.0.1:{server.server_port}/{name}.html")
                    page.wait_for_timeout(SETTLED)
                    path = out / f"{name.replace('/', '-')}{suffix}.png"
                    path.parent.mkdir(parents=True, exist_ok=True)
                    page.screenshot(path=path, full_page=True)
                    page.close()
            browser.close()
        server.shutdown()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
