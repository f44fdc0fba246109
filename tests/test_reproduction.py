"""Two points of F-GRPO's Figure 2 on its real setting, 128,000 actions, and what its committed numbers say."""

import json
from pathlib import Path

import numpy as np
import pytest

from simlab.sweeps import Sweep, run
from simlab.sweeps.presets import F_GRPO_FIG2

FIGURE = json.loads((Path(__file__).parent.parent / "figures" / "data" / "f_grpo_fig2.json").read_text())
SEEDS = 3


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    sweep = Sweep(**F_GRPO_FIG2 | {"group_sizes": (16, 256), "seeds": SEEDS, "record_every": 1000})
    return run(sweep, tmp_path_factory.mktemp("reproduction") / "result.nc").isel(step=-1, estimator=0)


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["q_pos", "retained_mass"])
@pytest.mark.parametrize("gamma", [0, 1])
@pytest.mark.parametrize("group_size", [16, 256])
def test_a_point_agrees_with_the_committed_figure(result, group_size, gamma, metric):
    """Mean of three seeds within 4 standard errors of the mean of the figure's seeds."""
    index = (gamma, FIGURE["group_size"].index(group_size), -1)
    mean, spread = (np.array(FIGURE["metrics"][metric][name])[index] for name in ("mean", "std"))
    error = spread * np.sqrt(1 / SEEDS + 1 / FIGURE["seeds"][index[1]])
    assert abs(float(result[metric].sel(group_size=group_size, gamma=gamma).mean()) - mean) < 4 * error


@pytest.mark.slow
@pytest.mark.parametrize(("gamma", "q_pos", "retained_mass"), [(0, 0.672, 0.958), (1, 0.671, 0.959)])
def test_group_size_16_agrees_with_an_independent_numpy_run(result, gamma, q_pos, retained_mass):
    """One run of another program gave these three digits; seeds differ by 5e-4 (one standard deviation)."""
    point = result.sel(group_size=16, gamma=gamma).mean("seed")
    rounding, error = 5e-4, 5e-4 * np.sqrt(1 + 1 / SEEDS)
    assert float(point.q_pos) == pytest.approx(q_pos, abs=4 * error + rounding)
    assert float(point.retained_mass) == pytest.approx(retained_mass, abs=4 * error + rounding)


def test_the_three_regimes_of_the_paper_are_in_the_figure():
    """Small G keeps mass and learns slowly; then Q_pos nears 1, retained mass collapses; at large G both are high."""
    q_pos, retained = (np.array(FIGURE["metrics"][name]["mean"])[:, :, -1] for name in ("q_pos", "retained_mass"))
    sizes = np.array(FIGURE["group_size"])
    small, middle, large = sizes <= 8, (sizes >= 256) & (sizes <= 8192), sizes == 131072
    assert np.all(q_pos[:, small] < 0.7)
    assert np.all(retained[:, small] > 0.9)
    assert np.all(q_pos[0, middle] > 0.98)
    assert np.all(retained[0, middle] < 0.2)
    assert np.all(q_pos[:, large] > 0.9)
    assert np.all(retained[:, large] > 0.9)


def test_the_focal_weight_shifts_the_collapse():
    """gamma = 1 retains more than gamma = 0 at every G inside the zone, by more than 4 standard errors."""
    sizes, gap = np.array(FIGURE["group_size"]), np.array(FIGURE["metrics"]["retained_mass"]["mean"])[:, :, -1]
    spread = np.array(FIGURE["metrics"]["retained_mass"]["std"])[:, :, -1]
    zone = (sizes >= 128) & (sizes <= 32768)
    error = np.sqrt((spread**2).sum(axis=0) / np.array(FIGURE["seeds"]))
    assert np.all((gap[1] - gap[0])[zone] > 4 * error[zone])
