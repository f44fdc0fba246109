"""Helpers of the explorer's tests: a server of its own, and a Chromium without a network."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

# A process that answers as the simulating one does, after some seconds; settings of 1234 steps end it, and of 1236 make
# it hang.
WORKER = """
import json, os, sys, time

def say(event, **more):
    os.write(1, json.dumps(dict(event=event, **more)).encode() + b"\\n")

for line in sys.stdin:
    job = json.loads(line)
    steps, number = job["settings"]["steps"], job["job"]
    if steps == 1234:
        os._exit(1)
    say("simulating", job=number)
    time.sleep(1000 if steps == 1236 else {seconds})
    say("result", job=number, result=steps)
"""
CHROMIUMS = ("chromium", "chromium-browser", "google-chrome")
WAIT = 180_000  # milliseconds for anything of a page, on a machine that is busy with other tests
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def chromium() -> str:
    path = os.environ.get("SIMLAB_CHROMIUM") or next(filter(None, map(shutil.which, CHROMIUMS)), None)
    if path is None:
        raise RuntimeError(f"no Chromium: install one of {', '.join(CHROMIUMS)}, or set SIMLAB_CHROMIUM to its path")
    return path


@dataclass
class Explorer:
    process: subprocess.Popen
    address: str

    def ask(self, path: str, body: object = None) -> dict:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=300) as answer:
            return json.loads(answer.read().splitlines()[-1])

    def stop(self, number: int) -> tuple[int, str, str]:
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=30)
        return self.process.returncode, out, err


@contextlib.contextmanager
def browsing():
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  # an extra that the default tests do without

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        yield browser
        browser.close()


@contextlib.contextmanager
def explorer(*arguments: str) -> Iterator[Explorer]:
    command = [sys.executable, "-m", "simlab.cli", "explore", "--no-browser", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()
        match = re.search(r"http://127\.0\.0\.1:\d+/", line)
        assert match, line + process.stderr.read()
        yield Explorer(process, match[0])
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=30)


def acting(seconds: float) -> tuple[str, ...]:
    return sys.executable, "-c", WORKER.replace("{seconds}", repr(seconds))


@dataclass
class Watched:
    page: object
    elsewhere: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def open(self, address: str) -> None:
        self.page.goto("about:blank")
        self.page.goto(address)
        self.page.wait_for_selector("html[data-ready]", timeout=WAIT)

    def text(self, selector: str) -> str:
        return self.page.inner_text(selector)

    def until(self, holds, seconds=180) -> None:
        end = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < end, [self.text(label) for label in ("#status", "#said", "#error", "#readout")]
            self.page.wait_for_timeout(50)

    def drawn(self) -> None:
        self.page.evaluate("() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")

    def address(self) -> str:
        self.page.wait_for_timeout(300)
        return self.page.evaluate("window.location.href")

    def names(self) -> list[str]:
        return self.page.evaluate("document.getElementById('chart').data.map((trace) => trace.name || '')")

    def lines(self) -> list[list[float]]:
        return self.page.evaluate("document.getElementById('chart').data.map((trace) => Array.from(trace.y))")


@contextlib.contextmanager
def watched(browser: object, allowed: str, **options: object) -> Iterator[Watched]:
    context = browser.new_context(accept_downloads=True, **options)
    context.set_default_timeout(WAIT)
    watch = Watched(context.new_page())

    def route(request_route: object) -> None:
        address = request_route.request.url
        if address.startswith((allowed, "data:", "blob:")):
            request_route.continue_()
        else:
            watch.elsewhere.append(address)
            request_route.abort()

    context.route("**/*", route)
    watch.page.on("pageerror", lambda error: watch.complaints.append(str(error)))
    watch.page.on("console", lambda line: watch.complaints.append(line.text) if line.type == "error" else None)
    yield watch
    context.close()


def downloaded(page: object, button: str, folder: Path) -> str:
    with page.expect_download() as waiting:
        page.click(button)
    path = folder / waiting.value.suggested_filename
    waiting.value.save_as(path)
    return path.read_text()
