"""Time the explorer's answers: redraws after a drag step, and the first picture of a simulation.

    pip install -e ".[browser]"
    python -m benchmarks.explorer

A redraw runs from the change of a setting to the end of drawing it, as the page itself measures it. The first picture
of a simulation runs from the change to the first result that is drawn, its program being compiled.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Page, sync_playwright

from benchmarks.machine import RESULTS, describe, in_words, table

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from explorer_cases import FLAGS, chromium, explorer

STEPS = 100
PRESSES = 10
DRAGGED = {
    "tail miss": ("panel=miss", "#miss-group_size"),
    "gradient masses, one estimator": ("panel=masses", "#masses-group_size"),
    "gradient masses, five estimators": ("preset=fade-fig2", "#masses-group_size"),
    "one step": ("panel=step", "#step-correct_mass"),
    "pass@k": ("panel=bank", "#bank-beta_a"),
}
SIMULATED = {
    "simulation": ("panel=run", "#run-group_size"),
    "interference": ("panel=interference", "#interference-overlap"),
    "tree": ("panel=tree", "#tree-learning_rate"),
}
TARGETS = {"redraw": 50.0, "first picture": 1000.0}  # milliseconds, at the median


def redraws(page: Page, slider: str) -> list[float]:
    """Milliseconds of each redraw, one a key press."""
    page.evaluate("performance.clearMeasures()")
    page.focus(slider)
    for step in range(STEPS):
        page.keyboard.press("ArrowRight" if step % 20 < 10 else "ArrowLeft")
        page.wait_for_timeout(60)
    return page.evaluate("performance.getEntriesByName('redraw').map((entry) => entry.duration)")


def first_pictures(page: Page, slider: str) -> list[float]:
    """Milliseconds from a change to the first result of its simulation."""
    found = []
    for _ in range(PRESSES):
        wait_for_seeds(page)
        page.evaluate("performance.clearMarks()")
        page.focus(slider)
        started = page.evaluate("performance.now()")
        page.keyboard.press("ArrowRight")
        while not (marks := page.evaluate("performance.getEntriesByName('simulated').map((mark) => mark.startTime)")):
            page.wait_for_timeout(5)
        found.append(marks[0] - started)
    return found


def wait_for_seeds(page: Page, seconds: float = 300) -> None:
    """Wait until the simulation is refined to its end."""
    end = time.monotonic() + seconds
    while True:
        words = page.inner_text("#status").split()
        if words[-1:] == ["seeds"] and words[0] == words[2]:
            return
        if time.monotonic() > end:
            raise TimeoutError(page.inner_text("#status") + page.inner_text("#error"))
        page.wait_for_timeout(50)


def measured() -> dict[str, dict[str, Any]]:
    """Median, 95th percentile and number of measurements of every panel."""
    found = {}
    with sync_playwright() as playwright, explorer() as server:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        page = browser.new_page(viewport={"width": 1360, "height": 900})
        while server.ask("status")["to_compile"] != 0:
            time.sleep(0.5)
        for kind, cases, measure in (("redraw", DRAGGED, redraws), ("first picture", SIMULATED, first_pictures)):
            for name, (view, slider) in cases.items():
                page.goto("about:blank")
                page.goto(f"{server.address}#{view}")
                page.wait_for_selector("html[data-ready]")
                values = np.array(measure(page, slider))
                median, high = np.percentile(values, [50, 95])
                found[name] = {
                    "what": kind,
                    "median_ms": round(float(median), 1),
                    "p95_ms": round(float(high), 1),
                    "measurements": len(values),
                    "target_ms": TARGETS[kind],
                }
                print(name, found[name], flush=True)
        browser.close()
    return found


def main() -> None:
    """Measure, and write the results."""
    machine = describe("jax", "plotly", "starlette", "uvicorn", "playwright")
    found = measured()
    text = json.dumps({"machine": machine, "panels": found}, indent=1)
    (RESULTS / "explorer.json").write_text(text + "\n", encoding="utf-8")
    header = ["panel", "what", "median, ms", "95th percentile, ms", "measurements", "target, ms"]
    rows = [[name, *(f"{value}" for value in row.values())] for name, row in found.items()]
    report = f"# The explorer's answers\n\n{table(header, rows)}\n\n{in_words(machine)}\n"
    (RESULTS / "explorer.md").write_text(report, encoding="utf-8")
    print(report)


if __name__ == "__main__":
    main()
