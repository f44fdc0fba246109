"""The explorer's server: what it refuses and how, fifty clients at once, and how it ends."""

import asyncio
import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from explorer_cases import acting, explorer

from simlab.explore import line, process
from simlab.explore.controls import LARGEST_SEED
from simlab.explore.refused import Refused

pytestmark = pytest.mark.browser
laboratory_module = pytest.importorskip("simlab.explore.laboratory")
Laboratory = laboratory_module.Laboratory

PORT = 8000
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def client():
    """Starlette's client of a server whose simulations are answered at once."""
    from starlette.testclient import TestClient  # noqa: PLC0415  # an extra that the default tests do without

    from simlab.explore.server import application  # noqa: PLC0415

    laboratory = Laboratory(acting(0))
    with TestClient(application(PORT, laboratory), base_url=f"http://127.0.0.1:{PORT}") as found:
        yield found


def refused(answer, status):
    assert answer.status_code == status
    assert answer.text.count("\n") == 0
    assert list(answer.json()) == ["error"]
    return answer.json()["error"]


# What it serves


def test_the_page_and_its_files_are_served_with_a_policy_that_allows_nothing_else(client):
    page = client.get("/")
    assert page.status_code == 200
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "unsafe-eval" not in page.headers["content-security-policy"]
    assert page.headers["x-content-type-options"] == "nosniff"
    assert client.get("/page/main.js").headers["content-type"].startswith("text/javascript")
    assert client.get("/page/style.css").headers["content-type"].startswith("text/css")
    assert len(client.get("/plotly.js").text) > 10**6


def test_a_simulation_answers_with_events_and_says_what_it_held(client):
    answer = client.post("/simulate", json={"panel": "run", "settings": {"steps": 10**6}})
    first, *_, last = map(json.loads, answer.text.splitlines())
    assert first == {"event": "accepted", "held": ["steps = 1e+06 is outside [50, 2000]; held at 2000"]}
    assert last == {"event": "result", "result": 2000}


def test_actions_times_seeds_times_steps_are_bounded(client):
    answer = client.post("/simulate", json={"panel": "run", "settings": {"steps": 2000, "actions": 32768}})
    first, *_, last = map(json.loads, answer.text.splitlines())
    assert first["held"] == ["steps = 2000 are too many for 32768 actions; held at 1024"]
    assert last["result"] == 1024


def test_seeds_are_counted_up_from_the_largest_one_too(client):
    body = {"panel": "run", "settings": {"seed": LARGEST_SEED}, "first": LARGEST_SEED + 32}
    assert client.post("/simulate", json=body).status_code == 200


# What it refuses


@pytest.mark.parametrize("path", ["/nothing", "/page/nothing.js", "/page/index.html", "/page/..%2fserver.py", "/page/"])
def test_an_unknown_path_is_404(client, path):
    assert "is nothing here" in refused(client.get(path), 404)


def test_another_method_is_405(client):
    assert "Method Not Allowed" in refused(client.get("/simulate"), 405)


@pytest.mark.parametrize("origin", ["http://evil.example", "null", f"https://127.0.0.1:{PORT}", "http://127.0.0.1:1"])
def test_another_origin_is_403(client, origin):
    for answer in (client.get("/", headers={"Origin": origin}), client.post("/simulate", headers={"Origin": origin})):
        assert "is another page's" in refused(answer, 403)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8000", "127.0.0.1", "127.0.0.1:1"])
def test_another_host_is_403(client, host):
    assert "is not this server" in refused(client.get("/", headers={"Host": host}), 403)


def test_its_own_origin_and_host_are_let_through(client):
    for name in ("127.0.0.1", "localhost"):
        headers = {"Host": f"{name}:{PORT}", "Origin": f"http://{name}:{PORT}"}
        assert client.get("/", headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("", "is no JSON"),
        ("{", "is no JSON"),
        ('{"panel": "run", "settings": {"steps": NaN}}', "is no JSON"),
        ("[" * 10_000, "is no JSON"),
        (b"\xff\xfe", "is no JSON"),
        ("[]", "the request is no object with a panel; allowed: panel, settings, first, page"),
        ('{"settings": {}}', "the request is no object with a panel; allowed: panel, settings, first, page"),
        ('{"panel": "run", "more": 1}', "entry = 'more' is unknown; allowed: panel, settings, first, page"),
        ('{"panel": "run", "page": 1}', "page = 1 is no text"),
        ('{"panel": "miss"}', "allowed: run, interference, tree"),
        ('{"panel": ["run"]}', "allowed: run, interference, tree"),
        ('{"panel": "run", "settings": []}', "settings are no object"),
        ('{"panel": "run", "settings": {"step": 3}}', "allowed: weight, group_size"),
        ('{"panel": "run", "settings": {"steps": "many"}}', "is not a number"),
        ('{"panel": "run", "settings": {"weight": "grop"}}', "unknown (did you mean 'grpo'?); allowed: a_grae"),
        ('{"panel": "run", "first": -1}', "first = -1 is outside"),
        ('{"panel": "run", "first": 1.5}', "is not a whole number; allowed: whole numbers from 0 up"),
        ('{"panel": "run", "first": 100000}', "lies too far"),
    ],
)
def test_a_malformed_request_is_400(client, body, reason):
    assert reason in refused(client.post("/simulate", content=body, headers=JSON), 400)


def test_another_content_type_is_400(client):
    assert "content type" in refused(
        client.post("/simulate", content="{}", headers={"Content-Type": "text/plain"}), 400
    )


def test_a_large_request_is_413(client):
    assert "up to 16384 bytes" in refused(client.post("/simulate", content=b" " * 20_000, headers=JSON), 413)


def test_a_long_path_is_414(client):
    refused(client.get("/" + "x" * 1000), 414)


# A simulating process that fails


@pytest.fixture
def short_limits(monkeypatch):
    monkeypatch.setattr(process, "SILENT_SECONDS", 1.0)
    monkeypatch.setattr(process, "JOB_SECONDS", 2.0)


def last_event(client, steps):
    body = {"panel": "run", "settings": {"steps": steps}}
    return json.loads(client.post("/simulate", json=body).text.splitlines()[-1])


@pytest.mark.parametrize(
    ("steps", "what"),
    [
        (1234, "the simulating process ended; the next change starts it anew"),
        (1235, "the simulating process was silent for 1 s and was killed; the next change starts it anew"),
        (1236, "the simulation took longer than 2 s and was stopped"),
        (1237, "the simulating process said what is no event and was killed; the next change starts it anew"),
    ],
)
@pytest.mark.usefixtures("short_limits")
def test_a_process_that_dies_stops_hangs_or_talks_nonsense_is_said_and_started_anew(client, steps, what):
    began = time.monotonic()
    assert last_event(client, steps) == {"event": "error", "error": what}
    assert time.monotonic() - began < 8
    assert last_event(client, 500)["result"] == 500


@pytest.mark.parametrize(
    "garbage",
    [
        "''", "'[]'", "'7'", "'{}'", """'{"id": 1}'""", """'{"id": 1, "event": "nothing"}'""", "'[' * 100_000",
        """'{"id": 1, "event": ["result"]}'""", """'{"id": 1, "event": "result"}'""", "'x' * (2**24 + 1)",
        """'{"event": "result", "result": 1}'""", "chr(0) + chr(255)",
    ],
)  # fmt: skip
def test_nonsense_of_any_kind_ends_the_process_and_not_the_server(garbage):
    async def run():
        laboratory = Laboratory(acting(0, garbage))
        await laboratory.start()
        found = [[event async for event in laboratory.events(laboratory.submit(job(steps)))] for steps in (1237, 500)]
        await laboratory.stop()
        return found

    first, second = asyncio.run(run())
    assert "said what is no event" in first[-1]["error"]
    assert second[-1] == {"event": "result", "result": 500}


@pytest.mark.usefixtures("short_limits")
def test_a_process_that_is_stopped_while_it_has_nothing_to_do_is_replaced_before_the_next_job():
    async def run():
        laboratory = Laboratory(acting(0))
        await laboratory.start()
        stopped = laboratory.process.process.pid
        os.kill(stopped, signal.SIGSTOP)
        await asyncio.sleep(2)
        events = [event async for event in laboratory.events(laboratory.submit(job(100)))]
        await laboratory.stop()
        return events, stopped

    events, stopped = asyncio.run(run())
    assert events[-1] == {"event": "result", "result": 100}
    with pytest.raises(ProcessLookupError):
        os.kill(stopped, 0)


# Jobs in line


def job(steps):
    return {"panel": "run", "settings": {"steps": steps}, "first": 0}


def in_line(act, seconds=0.2):
    """What ``act`` returns, called with a laboratory whose simulations take some seconds."""

    async def run():
        laboratory = Laboratory(acting(seconds))
        await laboratory.start()
        try:
            return await act(laboratory)
        finally:
            await laboratory.stop()

    return asyncio.run(run())


async def heard(laboratory, asked):
    return [event async for event in laboratory.events(asked) if event["event"] != "simulating"]


def test_each_job_in_line_hears_how_many_are_ahead_of_it():
    async def act(laboratory):
        return await asyncio.gather(*(heard(laboratory, laboratory.submit(job(steps))) for steps in (100, 200, 300)))

    waiting = [[event["ahead"] for event in events if event["event"] == "waiting"] for events in in_line(act)]
    # The first had begun to wait before anything ran.
    assert waiting == [[], [1], [2, 1]]


def test_a_client_that_goes_away_leaves_the_line_and_the_others_move_up():
    async def act(laboratory):
        jobs = [laboratory.submit(job(steps)) for steps in (100, 200, 300)]
        others = [asyncio.create_task(heard(laboratory, one)) for one in jobs]
        await asyncio.sleep(0.05)
        others[1].cancel()
        return await others[2], laboratory.process.jobs

    events, count = in_line(act, 0.5)
    assert [event.get("ahead") for event in events] == [2, 1, None]
    assert events[-1]["result"] == 300
    assert count == 2


def test_a_newer_job_of_a_page_takes_the_place_of_its_older_one():
    """A slider that is dragged neither holds up another page nor falls behind itself."""

    async def act(laboratory):
        running = laboratory.submit(job(100))
        await asyncio.sleep(0.05)
        dragged = [laboratory.submit(job(200 + step), page="a") for step in range(50)]
        other = laboratory.submit(job(300), page="b")
        dragged += [laboratory.submit(job(300 + step), page="a") for step in range(1, 50)]
        ends = await asyncio.gather(*(heard(laboratory, one) for one in (running, *dragged, other)))
        return [events[-1] for events in ends], laboratory.process.jobs

    (first, *dragged, latest, other), count = in_line(act)
    assert (first["result"], latest["result"], other["result"], count) == (100, 349, 300, 3)
    assert {event["error"] for event in dragged} == {"a newer simulation of the same page took its place"}


def test_no_update_of_twenty_pages_with_settings_of_their_own_is_lost():
    """Each page changes its settings ten times: the last change of each ends with the result of these very settings."""

    async def act(laboratory):
        jobs = []
        for change in range(10):
            jobs += [(page, laboratory.submit(job(100 + 10 * page + change), page=str(page))) for page in range(20)]
            await asyncio.sleep(0.02)
        return [(page, (await heard(laboratory, one))[-1]) for page, one in jobs]

    ends = in_line(act, 0.01)
    assert [event["result"] for _, event in ends[-20:]] == [109 + 10 * page for page in range(20)]
    for place, (page, event) in enumerate(ends):
        took_its_place = event.get("error") == "a newer simulation of the same page took its place"
        assert took_its_place or event["result"] == 100 + 10 * page + place // 20


def test_pages_take_turns_block_by_block():
    order = []

    async def refine(laboratory, page):
        for block in range(3):
            asked = job(100) | {"first": block, "page": page}
            assert (await heard(laboratory, laboratory.submit(asked, page=page)))[-1]["event"] == "result"
            order.append(page)

    async def act(laboratory):
        await asyncio.gather(*(refine(laboratory, page) for page in "abc"))

    in_line(act, 0.05)
    assert order == list("abcabcabc")


def test_more_than_an_absurd_number_in_line_is_refused(monkeypatch):
    monkeypatch.setattr(line, "MOST_WAITING", 3)

    async def act(laboratory):
        for first in range(3):
            laboratory.submit(job(100) | {"first": first})
        with pytest.raises(Refused, match=r"^3 simulations wait already; allowed: 3 at a time$"):
            laboratory.submit(job(200))

    in_line(act)


def test_a_result_that_is_known_waits_for_nobody():
    async def act(laboratory):
        for _ in range(3):
            assert (await heard(laboratory, laboratory.submit(job(100))))[-1]["result"] == 100
        laboratory.submit(job(200))
        known = laboratory.submit(job(100))
        return await heard(laboratory, known), laboratory.process.jobs

    assert in_line(act) == ([{"event": "result", "result": 100}], 1)


def test_few_results_are_kept_those_that_were_asked_for_last(monkeypatch):
    monkeypatch.setattr(laboratory_module, "KEPT_RESULTS", 3)

    async def act(laboratory):
        for steps in (100, 200, 300, 100, 400, 500):
            await heard(laboratory, laboratory.submit(job(steps)))
        return [event["result"] for event in laboratory.results.values()], laboratory.process.jobs

    assert in_line(act, 0) == ([100, 400, 500], 5)


# The whole server, in a process of its own


def test_fifty_simulations_at_once_all_end_and_each_client_knows_its_place():
    with explorer() as server:
        host = server.address.removeprefix("http://").rstrip("/")

        def visit(number):
            """The events of a simulation."""
            body = json.dumps({"panel": "run", "settings": {"steps": 50, "actions": 16}, "first": number})
            with contextlib.closing(http.client.HTTPConnection(host, timeout=300)) as connection:
                connection.request("POST", "/simulate", body, JSON)
                answer = connection.getresponse()
                assert answer.status == 200
                return [json.loads(line) for line in answer.read().splitlines()]

        def look(_):
            """How long it takes to get the page."""
            started = time.monotonic()
            with contextlib.closing(http.client.HTTPConnection(host, timeout=60)) as connection:
                connection.request("GET", "/")
                assert connection.getresponse().status == 200
            return time.monotonic() - started

        with ThreadPoolExecutor(100) as pool:
            visits, looks = pool.map(visit, range(50)), pool.map(look, range(50))
            found, slowest = list(visits), max(looks)
        assert [events[-1]["event"] for events in found] == ["result"] * 50
        places = [[event["ahead"] for event in events if event["event"] == "waiting"] for events in found]
        assert all(place == list(range(max(place, default=0), 0, -1)) for place in places)
        assert max(max(place, default=0) for place in places) >= 40
        assert slowest < 10
        assert server.ask("simulate", {"panel": "run"})["event"] == "result"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly_also_amid_its_first_compilation(number):
    with explorer() as server:
        time.sleep(1)
        code, out, err = server.stop(number)
    assert (code, out, err) == (0, "stopped\n", "")


def test_it_listens_on_the_loopback_interface_only():
    with explorer() as server:
        port = int(server.address.rstrip("/").rpartition(":")[2])
        lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    listening = [line[1].partition(":")[0] for line in lines if line[3] == "0A" and line[1].endswith(f":{port:04X}")]
    assert listening == ["0100007F"]


def test_the_usual_port_is_always_the_same_and_another_one_is_said_where_it_is_taken(monkeypatch):
    from simlab.explore import server  # noqa: PLC0415  # an extra that the default tests do without

    assert server.USUAL_PORT == 8737  # links hold it
    with contextlib.closing(server.listening(0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(server, "USUAL_PORT", port)
        other, said = server.listening_as_usual()
        with contextlib.closing(other):
            assert other.getsockname()[1] != port
            assert said == f"port {port} is taken; "
    usual, said = server.listening_as_usual()
    with contextlib.closing(usual):
        assert (usual.getsockname(), said) == (("127.0.0.1", port), "")


def test_a_taken_port_is_one_line_and_exit_code_2():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "simlab.cli", "explore", "--no-browser", "--port", port]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == (
        f"simlab: port = {port} cannot be used: address already in use; allowed: a free one, or 0 for any\n"
    )


def test_an_unknown_preset_is_one_line_and_exit_code_2():
    command = [sys.executable, "-m", "simlab.cli", "explore", "--preset", "nothing"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "preset = 'nothing' is unknown; allowed: " in ended.stderr
    assert ended.stderr.count("\n") == 1
