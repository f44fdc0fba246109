"""The search of the built site, in a browser: the words of a question find the page that answers it first."""

import http.server
import threading
from functools import partial

import pytest

pytestmark = [pytest.mark.docs, pytest.mark.browser]
WAIT = 60_000  # milliseconds, on a machine that is busy with other tests
# What users type, and the page that says how.
QUESTIONS = {
    "own problem": "how-to/own-problem",
    "own metric": "how-to/own-problem",
    "own weight": "how-to/own-estimator",
    "custom weight": "how-to/own-estimator",
    "own estimator": "how-to/own-estimator",
    "own task": "how-to/own-task",
    "reward function": "how-to/own-task",
    "own verifier": "train",
    "my own data": "train",
    "own dataset": "train",
    "train a model": "how-to/training",
    "compare runs": "how-to/training",
    "compare at equal pass@1": "how-to/sweeps",
    "install": "start",
    "read my logs": "diagnose",
    "slurm": "slurm",
    "gpu memory": "devices",
    "traced array": "how-to/own-problem",
    "several rewards": "train",
    "TRL": "trl",
    "verl": "verl",
    "group size": "how-to/sweeps",
    "tail miss": "concepts/groups",
    "retained mass": "concepts/policy",
    "how to cite": "cite",
}


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        """Requests are not worth a line."""


@pytest.fixture(scope="module")
def address(site):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_question_finds_the_page_that_says_how_first(address, browser):
    page, results = browser.new_page(), {}
    for question in QUESTIONS:
        page.goto(f"{address}/index.html?q={question.replace(' ', '+')}")
        first = page.wait_for_selector(".md-search-result__item a.md-search-result__link", timeout=WAIT)
        results[question] = first.get_attribute("href").removeprefix(f"{address}/").partition(".html")[0]
    assert results == QUESTIONS
