"""The explorer's server: what it refuses and how, fifty clients at once, and how it ends."""

import asyncio
import collections
import contextlib
import http.client
import json
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from explorer_cases import acting, explorer

from simlab.explore.settings import LARGEST_SEED

pytestmark = pytest.mark.browser

PORT = 8000
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def client():
    """Starlette's client of a server whose simulations are answered at once."""
    from starlette.testclient import TestClient  # noqa: PLC0415  # an extra that the default tests do without

    from simlab.explore.laboratory import Laboratory  # noqa: PLC0415
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
    first, last = map(json.loads, answer.text.splitlines())
    assert first == {"event": "accepted", "held": ["steps = 1e+06 is outside [50, 2000]; held at 2000"]}
    assert last == {"event": "result", "result": 2000}


def test_actions_times_seeds_times_steps_are_bounded(client):
    answer = client.post("/simulate", json={"panel": "run", "settings": {"steps": 2000, "actions": 32768}})
    first, last = map(json.loads, answer.text.splitlines())
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
        ('{"panel": "miss"}', "allowed: run, tree"),
        ('{"panel": ["run"]}', "allowed: run, tree"),
        ('{"panel": "run", "settings": []}', "settings are no object"),
        ('{"panel": "run", "settings": {"step": 3}}', "allowed: weight, group_size"),
        ('{"panel": "run", "settings": {"steps": "many"}}', "is not a number"),
        ('{"panel": "run", "settings": {"weight": "grop"}}', "unknown; allowed: a_grae"),
        ('{"panel": "run", "first": -1}', "first = -1 is outside"),
        ('{"panel": "run", "first": 1.5}', "no int"),
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


def test_a_process_that_ends_is_said_and_started_anew(client):
    def last(steps):
        body = {"panel": "run", "settings": {"steps": steps}}
        return json.loads(client.post("/simulate", json=body).text.splitlines()[-1])

    assert last(1234)["error"] == "the simulating process ended; the next change starts it anew"
    assert last(500)["result"] == 500


# Jobs in line


def laboratory_of(seconds):
    from simlab.explore.laboratory import Laboratory  # noqa: PLC0415

    return Laboratory(acting(seconds))


def job(steps):
    return {"panel": "run", "settings": {"steps": steps}, "first": 0}


def test_what_a_client_gave_up_is_not_simulated_so_that_the_latest_wins():
    async def run():
        laboratory = laboratory_of(0.2)
        await laboratory.start()
        jobs = [laboratory.submit(job(steps)) for steps in (100, 200, 300)]
        jobs[1].given_up = True
        events = [event async for event in laboratory.events(jobs[2])]
        await laboratory.stop()
        return events, laboratory.count

    events, count = asyncio.run(run())
    assert events == [{"event": "result", "result": 300}]
    assert count == 2


def test_a_job_that_takes_too_long_is_stopped(monkeypatch):
    from simlab.explore import laboratory as module  # noqa: PLC0415

    monkeypatch.setattr(module, "COMPILE_SECONDS", 0.3)

    async def run():
        laboratory = laboratory_of(60)
        await laboratory.start()
        events = [event async for event in laboratory.events(laboratory.submit(job(100)))]
        await laboratory.stop()
        return events

    assert asyncio.run(run()) == [{"event": "error", "error": "the simulation took longer than 0.3 s and was stopped"}]


def test_the_same_settings_are_simulated_once():
    async def run():
        laboratory = laboratory_of(0)
        await laboratory.start()
        for _ in range(3):
            assert [event async for event in laboratory.events(laboratory.submit(job(100)))]
        await laboratory.stop()
        return laboratory.count

    assert asyncio.run(run()) == 1


# The whole server, in a process of its own


def test_fifty_clients_at_once_are_answered_or_told_to_come_back():
    with explorer() as server:
        host = server.address.removeprefix("http://").rstrip("/")

        def visit(number):
            body = json.dumps({"panel": "run", "settings": {"steps": 50, "actions": 16}, "first": number})
            with contextlib.closing(http.client.HTTPConnection(host, timeout=300)) as connection:
                connection.request("POST", "/simulate", body, JSON)
                answer = connection.getresponse()
                text = answer.read().decode()
            if answer.status == 503:
                assert answer.getheader("Retry-After") == "1"
                assert "busy" in json.loads(text)["error"]
            else:
                assert json.loads(text.splitlines()[-1])["event"] == "result"
            return answer.status

        def look(_):
            started = time.monotonic()
            with contextlib.closing(http.client.HTTPConnection(host, timeout=60)) as connection:
                connection.request("GET", "/")
                assert connection.getresponse().status == 200
            return time.monotonic() - started

        with ThreadPoolExecutor(100) as pool:
            visits, looks = pool.map(visit, range(50)), pool.map(look, range(50))
            found, slowest = collections.Counter(visits), max(looks)
        assert set(found) <= {200, 503}
        assert found[200] >= 32
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
