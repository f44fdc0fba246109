"""Time the explorer's answers: redraws after a drag step, the first picture of a simulation, and the map.

    pip install -e ".[browser]"
    python -m benchmarks.explorer

A redraw runs from the change of a setting to the end of drawing it, as the page itself measures it. The first picture
of a simulation runs from the change to the first result that is drawn, its program being compiled. A map is simulated
anew with other seeds: the first map has every second cell in both directions, the refined one all seeds of all cells.
"""

import json
import re
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
}
SIMULATED = {
    "simulation": ("panel=run&run.pinned=", "#run-group_size"),
    "pass@k": ("panel=bank", "#bank-beta_a"),
    "interference": ("panel=interference", "#interference-overlap"),
    "tree": ("panel=tree", "#tree-learning_rate"),
}
MAP = "panel=map&map.pinned="
COARSE, CELLS, MAPS = 15, 45, 3  # cells of the first map, of all, and how many maps are timed
TARGETS = {"redraw": 33.0, "first picture": 1000.0, "first map": 1000.0, "refined map": 10_000.0}  # ms, at the median
HIGH_TARGETS = {"redraw": 60.0}  # milliseconds, at the 95th percentile


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
    times = []
    for _ in range(PRESSES):
        wait_for_seeds(page)
        page.evaluate("performance.clearMarks()")
        page.focus(slider)
        started = page.evaluate("performance.now()")
        page.keyboard.press("ArrowRight")
        while not (marks := page.evaluate("performance.getEntriesByName('simulated').map((mark) => mark.startTime)")):
            page.wait_for_timeout(5)
        times.append(marks[0] - started)
    return times


def wait_for_seeds(page: Page, seconds: float = 300) -> None:
    """Wait until the simulation is refined to its end."""
    end = time.monotonic() + seconds
    while True:
        match = re.search(r"(\d+) of (\d+) seeds", page.inner_text("#status"))
        if match and match[1] == match[2]:
            return
        if time.monotonic() > end:
            raise TimeoutError(page.inner_text("#status") + page.inner_text("#error"))
        page.wait_for_timeout(50)


def maps(page: Page) -> dict[str, list[float]]:
    """Milliseconds from a change of the seeds to the first map, and to the refined one."""
    times: dict[str, list[float]] = {"first map": [], "refined map": []}
    for number in range(1, MAPS + 1):
        page.evaluate("performance.clearMarks()")
        started = page.evaluate("performance.now()")
        page.fill("#map-seed-box", str(1000 * number))
        page.keyboard.press("Enter")
        page.wait_for_timeout(200)
        wait_for_seeds(page)
        marks = page.evaluate("performance.getEntriesByName('simulated').map((mark) => mark.startTime)")
        times["first map"].append(marks[COARSE - 1] - started)
        times["refined map"].append(marks[-1] - started)
    return times


def measured() -> dict[str, dict[str, Any]]:
    """Median, 95th percentile and number of measurements of every panel."""
    panels = {}
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
                panels[name] = summarised(kind, measure(page, slider))
                print(name, panels[name], flush=True)
        page.goto("about:blank")
        page.goto(f"{server.address}#{MAP}")
        page.wait_for_selector("html[data-ready]")
        for kind, values in maps(page).items():
            panels[kind] = summarised(kind, values)
            print(kind, panels[kind], flush=True)
        browser.close()
    return panels


def summarised(kind: str, values: list[float]) -> dict[str, Any]:
    """Median, 95th percentile and targets of some milliseconds."""
    median, high = np.percentile(np.array(values), [50, 95])
    return {
        "what": kind,
        "median_ms": round(float(median), 1),
        "p95_ms": round(float(high), 1),
        "measurements": len(values),
        "target_ms": TARGETS[kind],
        "target_p95_ms": HIGH_TARGETS.get(kind, ""),
    }


def main() -> None:
    """Measure, and write the results."""
    machine = describe("jax", "plotly", "starlette", "uvicorn", "playwright")
    panels = measured()
    text = json.dumps({"machine": machine, "panels": panels}, indent=1)
    (RESULTS / "explorer.json").write_text(text + "\n", encoding="utf-8")
    header = [
        "panel",
        "what",
        "median, ms",
        "95th percentile, ms",
        "measurements",
        "target, ms",
        "target at the 95th, ms",
    ]
    rows = [[name, *(f"{value}" for value in row.values())] for name, row in panels.items()]
    report = f"# The explorer's answers\n\n{table(header, rows)}\n\n{in_words(machine)}\n"
    (RESULTS / "explorer.md").write_text(report, encoding="utf-8")
    print(report)


if __name__ == "__main__":
    main()
