"""Result files that are dropped on the page: opened beside the others, bounded, and refused in one line."""

import stat

import numpy as np
import pytest
import xarray as xr
from explorer_cases import acting, explorer, watched

pytestmark = pytest.mark.browser
dropped = pytest.importorskip("simlab.explore.dropped")
Laboratory = pytest.importorskip("simlab.explore.laboratory").Laboratory

PORT = 8000
BYTES = {"Content-Type": dropped.CONTENT}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A sweep's result: two arms, three seeds, four steps."""
    found = tmp_path_factory.mktemp("dropped") / "mine.nc"
    values = np.arange(24.0).reshape(2, 3, 4)
    coordinates = {"arm": ["grpo", "maxrl"], "seed": range(3), "step": [0, 5, 10, 15]}
    xr.Dataset({"q_pos": (("arm", "seed", "step"), values)}, coords=coordinates).to_netcdf(found, engine="h5netcdf")
    return found


@pytest.fixture
def client():
    from starlette.testclient import TestClient  # noqa: PLC0415  # an extra that the default tests do without

    from simlab.explore.server import application  # noqa: PLC0415

    server = application(PORT, Laboratory(acting(0)))
    with TestClient(server, base_url=f"http://127.0.0.1:{PORT}") as found:
        yield found


def opened(client, name, content, headers=BYTES):
    return client.post("/open", params={"name": name}, content=content, headers=headers)


def test_a_dropped_file_is_opened_and_its_slices_are_read(client, path):
    answer = opened(client, "mine.nc", path.read_bytes())
    assert answer.status_code == 200
    settings = answer.json()["settings"]
    assert settings["results.file"] == "1: mine.nc"
    assert (settings["results.variable"], settings["results.across"]) == ("q_pos", "step")
    sliced = client.post("/result", json={"file": 0, "variable": "q_pos", "across": "step", "lines": "arm"}).json()
    np.testing.assert_allclose(sliced["mean"], np.arange(24.0).reshape(2, 3, 4).mean(axis=1))
    assert opened(client, "mine.nc", path.read_bytes()).json()["settings"]["results.file"] == "2: mine.nc"
    assert "mine.nc" in client.get("/").text


def test_dropped_files_go_with_the_server(path):
    from starlette.testclient import TestClient  # noqa: PLC0415

    from simlab.explore.server import application  # noqa: PLC0415

    server = application(PORT, Laboratory(acting(0)))
    with TestClient(server, base_url=f"http://127.0.0.1:{PORT}") as client:
        folder = server.app.state.dropped.folder
        opened(client, "mine.nc", path.read_bytes())
        assert [file.name for file in folder.rglob("*.nc")] == ["mine.nc"]
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert not folder.exists()


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("../mine.nc", "name = '../mine.nc' is no result's"),
        ("/etc/passwd", "is no result's"),
        ("a/b.nc", "is no result's"),
        (".nc", "is no result's"),
        ("mine.py", "is no result's"),
        ("mine.nc\n", "is no result's"),
        ("x" * 200 + ".nc", "is no result's"),
        ("", "is no result's"),
        ("run.json", "run.json is a part of a run; allowed: its whole folder"),
    ],
)
def test_a_name_that_no_result_has_is_refused(client, path, name, reason):
    answer = opened(client, name, path.read_bytes())
    assert answer.status_code == 400
    assert reason in answer.json()["error"]
    assert "\n" not in answer.json()["error"]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("noise.nc", b"\x89HDF\r\n\x1a\n" + bytes(200), "noise.nc cannot be opened"),
        ("empty.nc", b"", "empty.nc cannot be opened"),
        ("report.json", b"{}", "report.json is no report of a diagnosis"),
        ("list.json", b"[1", "list.json"),
    ],
)
def test_a_file_that_is_no_result_is_refused_and_not_kept(client, name, content, reason):
    answer = opened(client, name, content)
    assert answer.status_code == 400
    message = answer.json()["error"]
    assert message.startswith(reason)
    assert "\n" not in message
    folder = client.app.app.state.dropped.folder
    assert str(folder) not in message
    assert list(folder.iterdir()) == []


def test_other_content_and_too_large_a_file_are_refused(client, path, monkeypatch):
    assert opened(client, "mine.nc", b"{}", {"Content-Type": "application/json"}).status_code == 400
    monkeypatch.setattr(dropped, "LARGEST_FILE", 2**20)
    answer = opened(client, "mine.nc", bytes(2**20 + 1))
    assert answer.status_code == 413
    assert "up to 1 MiB" in answer.json()["error"]
    assert list(client.app.app.state.dropped.folder.iterdir()) == []
    assert opened(client, "mine.nc", path.read_bytes()).status_code == 200  # and it goes on


def test_no_more_files_are_opened_than_the_page_shows(client, path):
    from simlab.explore.results import MOST_FILES  # noqa: PLC0415

    for _ in range(MOST_FILES):
        assert opened(client, "mine.nc", path.read_bytes()).status_code == 200
    answer = opened(client, "mine.nc", path.read_bytes())
    assert answer.status_code == 400
    assert answer.json()["error"].startswith(f"{MOST_FILES} results are open; allowed: up to {MOST_FILES}")


def test_another_pages_file_is_refused(client, path):
    assert opened(client, "mine.nc", path.read_bytes(), BYTES | {"Origin": "http://elsewhere"}).status_code == 403


# In a browser

DROP = """([name, bytes]) => {
    const transfer = new DataTransfer();
    transfer.items.add(new File([new Uint8Array(bytes)], name));
    for (const type of ["dragover", "drop"]) {
        document.body.dispatchEvent(new DragEvent(type, {dataTransfer: transfer, bubbles: true, cancelable: true}));
    }
}"""


def test_a_file_that_is_dropped_on_the_page_is_shown_and_the_rest_of_the_page_stays(browser, path):
    with explorer("--port", "0") as server, watched(browser, server.address) as seen:
        seen.open(f"{server.address}#panel=miss&miss.group_size=77")
        assert seen.page.locator("#tab-results").count() == 0
        seen.page.evaluate(DROP, ["mine.nc", list(path.read_bytes())])
        seen.page.wait_for_selector("#tab-results[aria-selected=true]")
        seen.page.wait_for_selector("#readout:has-text('maxrl')")
        assert "mine.nc" in seen.page.inner_text("#readout")
        assert "miss.group_size=77" in seen.page.url


def test_a_file_that_is_chosen_in_the_dialogue_is_shown(browser, path):
    with explorer("--port", "0") as server, watched(browser, server.address) as seen:
        seen.open(f"{server.address}#panel=miss")
        seen.page.set_input_files("#file", str(path))
        seen.page.wait_for_selector("#tab-results[aria-selected=true]")


def test_a_dropped_file_that_is_no_result_says_why(browser):
    with explorer("--port", "0") as server, watched(browser, server.address) as seen:
        seen.open(f"{server.address}#panel=miss")
        seen.page.evaluate(DROP, ["notes.txt", [65]])
        seen.page.wait_for_selector("#error:has-text('notes.txt')")
        assert "ending in .nc or .json" in seen.page.inner_text("#error")


def test_a_folder_that_is_dropped_says_what_opens_it(browser):
    drop = """document.dispatchEvent(Object.assign(new Event("drop"), {dataTransfer: {types: ["Files"],
        items: [{webkitGetAsEntry: () => ({isDirectory: true})}], files: [{name: "run"}]}}))"""
    with explorer("--port", "0") as server, watched(browser, server.address) as seen:
        seen.open(f"{server.address}#panel=miss")
        seen.page.evaluate(drop)
        assert seen.text("#error") == "run is a folder; open it with: simlab explore run"


def test_an_exported_page_says_what_opens_a_file(browser, tmp_path, path):
    from simlab.explore.html import export  # noqa: PLC0415

    export(tmp_path / "page.html")
    address = (tmp_path / "page.html").as_uri()
    with watched(browser, address) as seen:
        seen.open(f"{address}#panel=miss")
        seen.page.evaluate(DROP, ["mine.nc", list(path.read_bytes())])
        seen.page.wait_for_selector("#error:has-text('simlab explore mine.nc')")
