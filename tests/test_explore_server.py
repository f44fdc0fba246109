"""The explorer's server: its answers, bad input in one line, files that are dropped, jobs in line, and its end."""

import asyncio
import contextlib
import json
import signal
import socket
import time

import numpy as np
import pytest
import xarray as xr
from explorer_cases import acting, explorer

from simlab.cli import main
from simlab.explore.controls import LARGEST_SEED

pytestmark = pytest.mark.browser
laboratory_module = pytest.importorskip("simlab.explore.laboratory")
Laboratory = laboratory_module.Laboratory

PORT = 8000
JSON = {"Content-Type": "application/json"}
BYTES = {"Content-Type": "application/octet-stream"}


@pytest.fixture
def client():
    from starlette.testclient import TestClient  # noqa: PLC0415  # an extra that the default tests do without

    from simlab.explore.server import application  # noqa: PLC0415

    with TestClient(application(PORT, Laboratory(acting(0))), base_url=f"http://127.0.0.1:{PORT}") as client:
        yield client


def refused(answer, status):
    assert answer.status_code == status
    assert answer.text.count("\n") == 0
    assert list(answer.json()) == ["error"]
    return answer.json()["error"]


# Answers


def test_the_page_and_its_files_are_served_with_a_policy_that_allows_nothing_else(client):
    page = client.get("/")
    assert page.status_code == 200
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "unsafe-eval" not in page.headers["content-security-policy"]
    assert client.get("/page/main.js").headers["content-type"].startswith("text/javascript")
    assert client.get("/page/style.css").headers["content-type"].startswith("text/css")
    assert len(client.get("/page/plotly.js").text) > 10**6


def test_a_simulation_answers_with_events_and_says_what_it_held(client):
    def simulated(settings, **more):
        answer = client.post("/simulate", json={"panel": "run", "settings": settings, **more})
        first, *_, last = map(json.loads, answer.text.splitlines())
        assert (first["event"], last["event"]) == ("accepted", "result")
        return first["held"], last["result"]

    assert simulated({"steps": 10**6}) == (["steps = 1e+06 is outside [1, 16384]; held at 16384"], 16384)
    # Actions times seeds times steps are bounded.
    held, steps = simulated({"steps": 2000, "actions": 32768})
    assert (len(held), steps) == (1, 1024)
    simulated({"seed": LARGEST_SEED}, first=LARGEST_SEED + 32)  # seeds are counted up from the largest one too


# Bad input


@pytest.mark.parametrize("path", ["/nothing", "/page/nothing.js", "/page/index.html", "/page/..%2fserver.py", "/page/"])
def test_an_unknown_path_is_404(client, path):
    refused(client.get(path), 404)


def test_another_method_is_405(client):
    refused(client.get("/simulate"), 405)


def test_another_origin_or_host_is_403_and_its_own_are_let_through(client):
    for origin in ("http://evil.example", "null", f"https://127.0.0.1:{PORT}", "http://127.0.0.1:1"):
        for path in ("/simulate", "/open?name=mine.nc"):
            refused(client.post(path, headers={"Origin": origin}), 403)
    for host in ("evil.example", f"evil.example:{PORT}", "127.0.0.1:1"):
        refused(client.get("/", headers={"Host": host}), 403)
    for name in ("127.0.0.1", "localhost"):
        headers = {"Host": f"{name}:{PORT}", "Origin": f"http://{name}:{PORT}"}
        assert client.get("/", headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("{", "JSON"),
        ("[]", "TypeError"),
        ('{"settings": {}}', "panel"),
        ('{"panel": "miss"}', "'miss'"),
        ('{"panel": "run", "settings": {"step": 3}}', "'step'"),
        ('{"panel": "run", "settings": {"steps": NaN}}', "nan"),
        ('{"panel": "run", "settings": {"weight": "mine.py:weight"}}', "'mine.py:weight'"),
        ('{"panel": "run", "first": -1}', "first = -1"),
    ],
)
def test_a_malformed_request_is_400(client, body, reason):
    assert reason in refused(client.post("/simulate", content=body, headers=JSON), 400)


@pytest.mark.parametrize("path", ["result", "masses", "formula", "bank"])
def test_a_malformed_question_is_400(client, path):
    for body in ("3", "[[]]", '[{"weight": 3, "file": "x", "q": 1}]', "{", "[" * 10**5):
        refused(client.post(f"/{path}", content=body, headers=JSON), 400)


# Files that are dropped


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    path = tmp_path_factory.mktemp("dropped") / "mine.nc"
    values = np.arange(24.0).reshape(2, 3, 4)
    coordinates = {"arm": ["grpo", "maxrl"], "seed": range(3), "step": [0, 5, 10, 15]}
    xr.Dataset({"q_pos": (("arm", "seed", "step"), values)}, coords=coordinates).to_netcdf(path, engine="h5netcdf")
    return path.read_bytes()


def opened(client, name, content):
    return client.post("/open", params={"name": name}, content=content, headers=BYTES)


def test_a_dropped_file_is_opened_and_its_slices_are_read(client, content):
    answer = opened(client, "mine.nc", content)
    assert answer.status_code == 200
    settings = answer.json()["settings"]
    assert settings["results.file"] == "1: mine.nc"
    assert (settings["results.variable"], settings["results.across"]) == ("q_pos", "step")
    question = {"file": 0, "variable": "q_pos", "across": "step", "lines": "arm"}
    means = client.post("/result", json=[question]).json()[0]["mean"]
    np.testing.assert_allclose(means, np.arange(24.0).reshape(2, 3, 4).mean(axis=1))
    assert opened(client, "mine.nc", content).json()["settings"]["results.file"] == "2: mine.nc"
    assert "mine.nc" in client.get("/").text


def test_a_file_that_is_no_result_is_refused_by_its_name(client, content):
    for name in ("../mine.nc", "/etc/passwd", ".nc", "mine.py", "", "run.json"):
        refused(opened(client, name, content), 400)
    for name, bad in (("noise.nc", b"\x89HDF\r\n\x1a\n" + bytes(200)), ("empty.nc", b""), ("report.json", b"{}")):
        assert name in refused(opened(client, name, bad), 400)


# The simulating process


def last_event(client, steps):
    body = {"panel": "run", "settings": {"steps": steps}}
    return json.loads(client.post("/simulate", json=body).text.splitlines()[-1])


@pytest.mark.parametrize("steps", [1234, 1236])
def test_a_process_that_dies_or_hangs_is_said_and_started_anew(client, steps, monkeypatch):
    monkeypatch.setattr(laboratory_module, "JOB_SECONDS", 2.0)
    event = last_event(client, steps)
    assert event["event"] == "error"
    assert "\n" not in event["error"]
    assert last_event(client, 500)["result"] == 500


# Jobs in line


def job(steps):
    return {"panel": "run", "settings": {"steps": steps}, "first": 0}


def in_line(act, seconds=0.2):
    async def run():
        laboratory = Laboratory(acting(seconds))
        await laboratory.start()
        try:
            return await act(laboratory)
        finally:
            await laboratory.stop()

    return asyncio.run(run())


async def heard(laboratory, steps):
    return [event async for event in laboratory.events(job(steps)) if event["event"] != "simulating"]


def test_each_job_in_line_hears_how_many_are_ahead_and_a_client_that_leaves_makes_room():
    async def act(laboratory):
        tasks = [asyncio.create_task(heard(laboratory, steps)) for steps in (100, 200, 300, 400)]
        await asyncio.sleep(0.05)
        tasks[1].cancel()
        await tasks[0]
        await asyncio.sleep(0.05)
        tasks[2].cancel()  # amid its run: the next one does not hear its answers
        return await tasks[3]

    last = in_line(act, 0.3)
    assert [event.get("ahead") for event in last] == [3, 2, 1, None]
    assert last[-1]["result"] == 400


# The whole server, in a process of its own


def test_a_signal_ends_it_cleanly_also_amid_its_first_compilation():
    for number in (signal.SIGINT, signal.SIGTERM):
        with explorer("--port", "0") as server:
            port = int(server.address.rstrip("/").rpartition(":")[2])
            with socket.socket() as other:
                assert other.connect_ex(("127.0.0.2", port)) != 0  # it listens at one address alone
            time.sleep(1)
            code, out, err = server.stop(number)
        assert (code, out, err) == (0, "stopped\n", "")


def test_the_usual_port_is_always_the_same_and_another_one_is_said_where_it_is_taken(monkeypatch, capsys):
    from simlab.explore import server  # noqa: PLC0415  # an extra that the default tests do without

    assert server.USUAL_PORT == 8737  # links hold it
    with contextlib.closing(server.listen(0)[0]) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(server, "USUAL_PORT", port)
        other, note = server.listen(None)
        with contextlib.closing(other):
            assert other.getsockname()[1] != port
            assert str(port) in note
        assert main(["explore", "--no-browser", "--port", str(port)]) == 2
        assert f"port = {port}" in capsys.readouterr().err
    usual, note = server.listen(None)
    with contextlib.closing(usual):
        assert (usual.getsockname(), note) == (("127.0.0.1", port), "")


# Estimators of the user's own files

MINE = """
import pathlib
pathlib.Path(__file__).with_name("ran").write_text("")

from simlab import chain
from simlab.estimators import center, focal

def weight(gamma=2.0, base="mean"):
    return chain(center(base), focal(gamma))

def plain(advantages, rollouts):
    return advantages - advantages.mean(axis=1, keepdims=True)
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    return path


def test_only_the_file_that_the_command_line_names_runs_and_its_estimators_are_simulated(mine):
    other = mine.with_name("lab") / "mine.py"
    other.parent.mkdir()
    other.write_text(MINE)
    small = {"actions": 256, "correct": 0.25, "steps": 50, "group_size": 32}
    with explorer("--estimator", "mine.py:weight,mine.py:plain", "--port", "0") as server:

        def simulated(weight):
            return server.ask("simulate", {"panel": "run", "settings": small | {"weight": weight}})["result"]

        result, named = (simulated(name) for name in ("mine.py:weight(gamma=0.5)", "f_grpo(gamma=0.5,base=dr_grpo)"))
        theory = {name: pytest.approx(line, rel=1e-5) for name, line in named["theory"].items()}
        assert result == named | {"theory": theory}  # by masses that it computes itself, and by closed forms
        plain, dr_grpo = (simulated(name)["metrics"]["q_pos"]["mean"] for name in ("mine.py:plain", "dr_grpo"))
        np.testing.assert_allclose(plain, dr_grpo, rtol=2e-5)
        for weight in ("lab/mine.py:weight", f"f_grpo(base={other}:weight)"):
            with pytest.raises(OSError, match="HTTP Error 400"):
                simulated(weight)
    assert mine.with_name("ran").exists()
    assert not other.with_name("ran").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--estimator", "grpo"],
        ["--estimator", "mine.py:weight+casp"],
        ["--estimator", "none.py:weight"],
        ["--estimator", "mine.py:gone"],
        ["--estimator", "mine.py:weight", "--export", "page.html"],
        ["--preset", "nothing"],
        ["--port", "70000"],
        ["--export", "page.pdf"],
    ],
)
@pytest.mark.usefixtures("mine", "library_alone")
def test_what_the_command_cannot_take_is_one_line_and_exit_code_2(arguments, capsys):
    assert main(["explore", "--no-browser", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert arguments[1].partition(":")[0] in printed.err or "--export" in printed.err
