"""The simulating process stopped, killed and taken away under a page, and a page that waits in line for it."""

import contextlib
import itertools
import json
import os
import signal
import threading
import time
from pathlib import Path

import pytest
from explorer_cases import explorer, watched

pytestmark = pytest.mark.browser
process = pytest.importorskip("simlab.explore.process")

VIEW = "#panel=run&run.pinned=&run.actions=32&run.steps=50&run.seeds=4&run.seed="  # one run, no comparison
SEEDS = itertools.count(0, 1000)  # another one for each page, since results are kept
SECONDS = 120


@pytest.fixture(scope="module")
def server():
    with explorer() as found:
        yield found


@contextlib.contextmanager
def page_of(browser, server):
    """A page whose first simulation is done."""
    with watched(browser, server.address) as found:
        found.open(f"{server.address}{VIEW}{next(SEEDS)}")
        wait_for(found, "#status", "4 of 4 seeds")
        yield found


@pytest.fixture
def seen(browser, server):
    with page_of(browser, server) as found:
        yield found


def wait_for(found, where, text):
    end = time.monotonic() + SECONDS
    while text not in found.text(where):
        assert time.monotonic() < end, (found.text("#status"), found.text("#error"))
        found.page.wait_for_timeout(20)


def worker_of(server):
    """The simulating process of a server."""
    pid = server.process.pid
    (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(child)


def change(found):
    """Move a slider of the page."""
    found.page.focus("#run-group_size")
    found.page.keyboard.press("ArrowRight")


def begin(server, found):
    """Have the simulating process at a job of the page, which says so before the server has heard of it."""
    change(found)
    wait_for(found, "#status", "simulating")
    wait_for_server(server, lambda status: status["running"])


def wait_for_server(server, holds):
    end = time.monotonic() + SECONDS
    while not holds(server.ask("status")):
        assert time.monotonic() < end
        time.sleep(0.02)


def check_goes_on(found):
    """The next change is simulated, and the page complains no more."""
    change(found)
    wait_for(found, "#status", "4 of 4 seeds")
    assert found.text("#error") == ""
    assert found.complaints == []


def test_a_process_that_is_stopped_is_replaced_and_holds_nobody_up_for_long(server, seen):
    os.kill(worker_of(server), signal.SIGSTOP)
    began, others = time.monotonic(), []
    begin(server, seen)
    body = {"panel": "run", "settings": {"actions": 32, "steps": 50, "learning_rate": 0.5}}
    other = threading.Thread(target=lambda: others.append(server.ask("simulate", body)))
    other.start()
    wait_for(
        seen, "#error", "the simulating process was silent for 10 s and was killed; the next change starts it anew"
    )
    assert time.monotonic() - began < 3 * process.SILENT_SECONDS
    other.join(SECONDS)
    assert [event["event"] for event in others] == ["result"]
    check_goes_on(seen)


def test_a_process_that_is_killed_amid_a_job_is_said_and_the_next_change_works(server, seen):
    worker = worker_of(server)
    os.kill(worker, signal.SIGSTOP)  # so that it is amid the job
    begin(server, seen)
    os.kill(worker, signal.SIGKILL)
    wait_for(seen, "#error", "the simulating process ended; the next change starts it anew")
    check_goes_on(seen)
    assert worker_of(server) != worker


def test_a_server_that_is_stopped_amid_a_job_says_so_and_leaves_nothing(browser):
    with explorer() as own, page_of(browser, own) as seen:
        worker = worker_of(own)
        os.kill(worker, signal.SIGSTOP)
        begin(own, seen)
        assert own.stop(signal.SIGTERM) == (0, "stopped\n", "")
        wait_for(seen, "#error", "the server was stopped")
        with pytest.raises(ProcessLookupError):
            os.kill(worker, 0)
        change(seen)
        wait_for(seen, "#error", "the server cannot be reached; is it still running?")


def test_a_page_that_waits_says_how_many_are_ahead_of_it(server, seen):
    worker, answers = worker_of(server), []
    os.kill(worker, signal.SIGSTOP)
    bodies = [{"panel": "run", "settings": {"actions": 32, "steps": 50, "seed": seed}} for seed in (7, 8)]
    others = [
        threading.Thread(target=lambda body=body: answers.append(server.ask("simulate", body))) for body in bodies
    ]
    for other in others:
        other.start()
    wait_for_server(server, lambda status: status["waiting"] >= 1)
    for _ in range(5):  # each drag takes the place of the one before
        change(seen)
    wait_for(seen, "#status", "waiting: 2 simulations are ahead of yours")
    assert server.ask("status")["waiting"] == 2
    os.kill(worker, signal.SIGCONT)
    wait_for(seen, "#status", "4 of 4 seeds")
    for other in others:
        other.join(SECONDS)
    assert [json.dumps(answer)[:20] for answer in answers] == ['{"event": "result", '] * 2
    assert (seen.text("#error"), seen.complaints) == ("", [])
