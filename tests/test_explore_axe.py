"""Whether everybody can use the page: axe-core finds nothing serious on any panel, in either theme."""

import numpy as np
import pytest
import xarray as xr
from explorer_cases import explorer, watched

from simlab.explore.controls import PANELS

pytestmark = pytest.mark.browser
Axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe

SERIOUS = ("serious", "critical")
VIEWS = {panel: f"panel={panel}" for panel in (*PANELS, "results")} | {
    "a tour": "tour=1",
    "pinned banks": "panel=bank&bank.pinned=group_size=64&bank.compare=difference",
    "pinned weights": "panel=masses&masses.pinned=maxrl;psr;nsr",
    "an error": "panel=run&run.weight=nosuch",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    path = tmp_path_factory.mktemp("axe") / "mine.nc"
    values = np.random.default_rng(0).normal(size=(3, 4, 5))
    coordinates = {"arm": ["grpo", "maxrl", "psr"], "seed": range(4), "step": range(5)}
    xr.Dataset({"q_pos": (("arm", "seed", "step"), values)}, coords=coordinates).to_netcdf(path, engine="h5netcdf")
    with explorer("--port", "0", str(path)) as found:
        yield found


def serious(page):
    """What axe-core finds wrong, a line each: the rule, its help, and the first element."""
    found = Axe().run(page).response["violations"]
    return [
        f"{one['id']}: {one['help']}: {one['nodes'][0]['html'][:200]} {one['nodes'][0]['failureSummary']}"
        for one in found
        if one["impact"] in SERIOUS
    ]


@pytest.mark.parametrize("view", VIEWS)
def test_nothing_serious_is_wrong_in_either_theme(browser, server, view):
    with watched(browser, server.address) as seen:
        seen.open(f"{server.address}#{VIEWS[view]}&theme=light")
        assert serious(seen.page) == []
        seen.page.select_option("#theme", "dark")
        assert serious(seen.page) == []


def test_axe_sees_what_is_wrong(browser, server):
    """A button without a name and grey on grey are found, so that a page without a finding says something."""
    with watched(browser, server.address) as seen:
        seen.open(f"{server.address}#panel=miss")
        seen.page.evaluate("""() => {
            document.body.append(document.createElement("button"));
            const text = document.createElement("p");
            Object.assign(text, {textContent: "hardly seen", style: "color: #999; background: #aaa"});
            document.body.append(text);
        }""")
        found = " ".join(serious(seen.page))
        assert "button-name" in found
        assert "color-contrast" in found


@pytest.mark.parametrize("panel", [*PANELS, "results"])
def test_nothing_serious_is_wrong_at_the_width_of_a_phone(browser, server, panel):
    with watched(browser, server.address, viewport={"width": 390, "height": 800}) as seen:
        seen.open(f"{server.address}#panel={panel}")
        assert seen.page.evaluate("document.documentElement.scrollWidth") == 390
        assert serious(seen.page) == []
