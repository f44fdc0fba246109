"""Use the explorer for long and by many: count lost updates and measure memory.

    pip install -e ".[browser]"
    python -m benchmarks.explorer_use

Twenty clients change a setting of the simulation ten times each, at once, each to values that no other client has, and
a newer request takes the place of an older one of the same client; a client's update is lost if its last request ends
without the result of its settings. An hour of use is 3600 changes, a second of an hour each, sent as fast as they are
drawn, over all panels in turn; the memory is that of the page after a collection, and of the server and its simulating
process. The latter two grow until they keep ``KEPT_PROGRAMS`` compiled programs of some 20 MB and ``KEPT_RESULTS``
results, and then are flat; the start compiles the programs of the presets.
"""

import contextlib
import http.client
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from playwright.sync_api import CDPSession, Page, sync_playwright

from benchmarks.machine import RESULTS, describe, in_words, table

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from explorer_cases import FLAGS, Explorer, chromium, explorer

CLIENTS, CHANGES = 20, 10
HOUR, EVERY = 3600, 450  # changes, and after how many of them memory is read
PANELS = {
    "miss": "#miss-group_size",
    "masses": "#masses-group_size",
    "step": "#step-correct_mass",
    "run": "#run-group_size",
    "bank": "#bank-group_size",
    "interference": "#interference-overlap",
    "tree": "#tree-learning_rate",
    "map": "#map-at",
}
STAY = 25  # changes in one panel before the next one is opened


def client(address: str, number: int) -> tuple[bool, float]:
    """Return True if a client's last change was answered with its own result, and the seconds until then."""
    host = address.removeprefix("http://").rstrip("/")
    with ThreadPoolExecutor(CHANGES) as pool:
        asked = []
        for change in range(CHANGES):
            body = {"panel": "run", "page": f"client-{number}", "first": 0, "settings": settings_of(number, change)}
            asked.append(pool.submit(answered, host, json.dumps(body)))
            time.sleep(0.05)
        began = time.monotonic()
        last = asked[-1].result()
        steps = settings_of(number, CHANGES - 1)["steps"]
        return last.get("event") == "result" and last["result"]["step"][-1] == steps, time.monotonic() - began


def settings_of(number: int, change: int) -> dict[str, Any]:
    """Settings that tell their client and their change by the number of steps."""
    return {"steps": 50 + CHANGES * number + change, "actions": 64, "group_size": 16}


def answered(host: str, body: str) -> dict[str, Any]:
    """The last event of a request."""
    with contextlib.closing(http.client.HTTPConnection(host, timeout=300)) as connection:
        connection.request("POST", "/simulate", body, {"Content-Type": "application/json"})
        return dict(json.loads(connection.getresponse().read().splitlines()[-1]))


def resident(process: int) -> int:
    """Bytes of memory that a process and its descendants hold."""
    entry = next(line for line in Path(f"/proc/{process}/status").read_text().splitlines() if line.startswith("VmRSS"))
    begun = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return 1024 * int(entry.split()[1]) + sum(resident(int(child)) for child in begun)


def held_by(page: CDPSession) -> int:
    """Bytes of JavaScript that are alive in a page."""
    page.send("HeapProfiler.collectGarbage")
    metrics = {metric["name"]: metric["value"] for metric in page.send("Performance.getMetrics")["metrics"]}
    return int(metrics["JSHeapUsedSize"])


def used_for_an_hour(page: Page, server: Explorer) -> list[dict[str, float]]:
    """Memory after every ``EVERY`` changes, in MiB."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    rows: list[dict[str, float]] = []
    names = list(PANELS)
    for change in range(HOUR + 1):
        if change % EVERY == 0:
            memory = {"page": held_by(session), "server": resident(server.process.pid)}
            rows.append({"changes": change} | {name: round(size / 2**20, 1) for name, size in memory.items()})
            print(rows[-1], flush=True)
        if change % STAY == 0:
            panel = names[change // STAY % len(names)]
            page.click(f"#tab-{panel}")
            page.focus(PANELS[panel])
        page.keyboard.press("ArrowRight" if change % 20 < 10 else "ArrowLeft")
        page.wait_for_timeout(100)
    return rows


def main() -> None:
    """Measure, and write the results."""
    machine = describe("jax", "plotly", "starlette", "uvicorn", "playwright")
    with sync_playwright() as playwright, explorer("--port", "0") as server:
        while server.ask("status")["to_compile"] != 0:
            time.sleep(0.5)
        with ThreadPoolExecutor(CLIENTS) as pool:
            clients = list(pool.map(lambda number: client(server.address, number), range(CLIENTS)))
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        page = browser.new_page(viewport={"width": 1360, "height": 900})
        page.goto(f"{server.address}#panel=miss")
        page.wait_for_selector("html[data-ready]")
        memory = used_for_an_hour(page, server)
        browser.close()
    waits = sorted(seconds for _, seconds in clients)
    lost = sum(not is_answered for is_answered, _ in clients)
    content = {"clients": CLIENTS, "changes": CHANGES, "lost": lost, "slowest_s": round(waits[-1], 2), "memory": memory}
    text = json.dumps({"machine": machine, **content}, indent=1)
    (RESULTS / "explorer_use.json").write_text(text + "\n", encoding="utf-8")
    rows = [[f"{value}" for value in row.values()] for row in memory]
    report = (
        "# The explorer in use\n\n"
        f"{CLIENTS} clients with {CHANGES} changes each, at once: {lost} lost updates; the last one was answered "
        f"{waits[-1]:.1f} s after it was asked.\n\n"
        f"{table(['changes', 'page, MiB', 'server and simulations, MiB'], rows)}\n\n{in_words(machine)}\n"
    )
    (RESULTS / "explorer_use.md").write_text(report, encoding="utf-8")
    print(report)


if __name__ == "__main__":
    main()
