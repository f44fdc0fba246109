"""Results that the explorer opens: described, read in slices, and refused in one line."""

import json
import math

import numpy as np
import pytest
import xarray as xr

from simlab.cli import main
from simlab.errors import InputError
from simlab.explore import results as module
from simlab.explore.results import Results
from simlab.explore.results_controls import NONE, controls_of

VALUES = np.random.default_rng(0).normal(size=(2, 3, 4, 5))
VALUES[0, 0, 1:, 2] = np.nan  # one seed is left
VALUES[1, 1, :, 3] = np.nan  # none is


def dataset():
    return xr.Dataset(
        {
            "q_pos": (("arm", "group_size", "seed", "step"), VALUES, {"units": "1", "long_name": "correct mass"}),
            "rate": (("group_size",), [0.25, 0.5, 1.0]),
            "words": (("arm",), ["a", "b"]),
            "single": ((), 3.0),
        },
        coords={"arm": ["grpo", "maxrl"], "group_size": [2, 8, 32], "step": [0, 5, 10, 15, 20], "seed": range(4)},
    )


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    found = tmp_path_factory.mktemp("results") / "mine.nc"
    dataset().to_netcdf(found, engine="h5netcdf")
    return found


@pytest.fixture(scope="module")
def results(path):
    return Results((path,))


def by_loops(rows):
    """Mean and 1.96 standard errors of each row of numbers, those that are no numbers left out."""
    means, halves = [], []
    for row in rows:
        here = [one for one in row if not math.isnan(one)]
        mean = sum(here) / len(here) if here else None
        means.append(mean)
        scatter = sum((one - mean) ** 2 for one in here) if len(here) > 1 else None
        halves.append(None if scatter is None else 1.96 * (scatter / (len(here) - 1) / len(here)) ** 0.5)
    return means, halves


def test_a_result_says_its_dimensions_and_its_variables_of_numbers(results):
    (told,) = results.described()
    assert told["name"] == "mine.nc"
    assert told["dimensions"]["arm"] == ["grpo", "maxrl"]
    assert told["dimensions"]["group_size"] == [2.0, 8.0, 32.0]
    assert set(told["variables"]) == {"q_pos", "rate"}
    assert told["variables"]["q_pos"]["description"] == "correct mass"
    json.dumps(told, allow_nan=False)


@pytest.mark.parametrize("arm", [0, 1])
def test_a_slice_holds_means_over_seeds_with_their_bands(results, arm):
    asked = {"file": 0, "variable": "q_pos", "across": "step", "lines": "group_size", "at": {"arm": arm}}
    found = results.answer(asked)
    assert found["seeds"] == 4
    for size in range(3):
        means, halves = by_loops(VALUES[arm, size].T.tolist())
        assert found["mean"][size] == [None if one is None else pytest.approx(one, rel=1e-5) for one in means]
        for end, sign in (("low", -1), ("high", 1)):
            assert found[end][size] == [
                None if half is None else pytest.approx(mean + sign * half, rel=1e-5, abs=1e-6)
                for mean, half in zip(means, halves, strict=True)
            ]


def test_a_slice_without_lines_is_one_row_and_seeds_may_be_lines(results):
    one = results.answer({"variable": "rate", "across": "group_size"})
    assert (one["mean"], one["low"], one["high"]) == ([[0.25, 0.5, 1.0]], [[None] * 3], [[None] * 3])
    assert one["seeds"] == 1
    seeds = results.answer({"variable": "q_pos", "across": "step", "lines": "seed", "at": {"group_size": 2}})
    np.testing.assert_allclose(seeds["mean"], VALUES[0, 2], rtol=1e-5)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ([], "the request is no object; allowed: file, variable"),
        (
            {"path": "/etc/passwd"},
            "entry = 'path' is unknown (did you mean 'at'?); allowed: file, variable, across, lines, at",
        ),
        ({"file": 1}, "file = '1' is none that is open; allowed: 0 to 0"),
        ({"file": -1}, "file = '-1' is none that is open"),
        ({"file": True}, "file = 'True' is none"),
        ({"file": "mine.nc"}, "file = 'mine.nc' is none"),
        ({"variable": "words"}, "variable = 'words' is unknown; allowed: q_pos, rate"),
        ({"variable": []}, "variable is a list; allowed: a text"),
        ({"variable": "q_pos", "across": "k"}, "across = 'k' is unknown; allowed: arm, group_size, seed, step"),
        ({"variable": "q_pos", "across": "step", "lines": "step"}, "lines = 'step' is unknown; allowed: arm, "),
        ({"variable": "rate", "across": "group_size", "at": []}, "at is no object"),
        ({"variable": "q_pos", "across": "step", "at": {"arm": 2}}, "arm = '2' is no place; allowed: 0 to 1"),
        ({"variable": "q_pos", "across": "step", "at": {"arm": -1}}, "arm = '-1' is no place"),
        ({"variable": "q_pos", "across": "step", "at": {"arm": "grpo"}}, "arm = 'grpo' is no place"),
        ({"variable": "q_pos", "across": "step", "at": {"arm": [[]]}}, "is no place"),
    ],
)
def test_what_is_no_slice_is_refused_in_one_line(results, body, reason):
    with pytest.raises(InputError) as caught:
        results.answer(body)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_slice_of_too_many_values_and_too_many_seeds_are_refused(path, results, monkeypatch):
    monkeypatch.setattr(module, "LARGEST_READ", 19)
    with pytest.raises(InputError, match="q_pos has 20 values there; allowed: up to 19 at a time"):
        results.answer({"variable": "q_pos", "across": "step"})
    monkeypatch.setattr(module, "LONGEST_DIMENSION", 3)
    with pytest.raises(InputError, match="seed has 4 values; allowed: up to 3"):
        Results((path,))


def test_of_a_long_dimension_places_evenly_apart_are_shown(tmp_path):
    path, steps = tmp_path / "long.nc", np.arange(10_000)
    values = np.stack([steps / 10_000, steps / 10_000 + 0.5])
    unlabelled = ("place", steps / 1.0)
    xr.Dataset({"q_pos": (("seed", "step"), values), "own": unlabelled}, coords={"step": 10 * steps}).to_netcdf(
        path, engine="h5netcdf"
    )
    results = Results((path,))
    (described,) = results.described()
    assert described["every"] == {"step": 3, "place": 3}
    assert results.answer({"variable": "own", "across": "place"})["mean"] == [described["dimensions"]["place"]]
    assert described["dimensions"]["step"] == (10.0 * steps[::3]).tolist()
    found = results.answer({"variable": "q_pos", "across": "step"})
    np.testing.assert_allclose(found["mean"][0], values.mean(axis=0)[::3], rtol=1e-5)


def test_only_what_is_asked_for_is_read(tmp_path):
    """A file of far more numbers than may be read at a time is opened and sliced."""
    path = tmp_path / "large.nc"
    large = np.broadcast_to(np.float32(1.5), (256, 4, 4096))
    xr.Dataset({"q_pos": (("cell", "seed", "step"), large)}).to_netcdf(
        path, engine="h5netcdf", encoding={"q_pos": {"zlib": True, "complevel": 1, "chunksizes": (1, 4, 4096)}}
    )
    (one,) = Results((path,)).all
    found = one.slice("q_pos", "step", "", {"cell": 255})
    assert found["mean"] == [[1.5] * 4096]


def test_dimensions_are_sliders_and_the_first_view_is_correct_mass_over_steps(results):
    controls = {control.name: control for control in controls_of(results.described())}
    usual = {name: controls[f"results.{name}"].default for name in ("variable", "across", "lines", "view", "second")}
    assert usual == {"variable": "q_pos", "across": "step", "lines": "arm", "view": "curves", "second": NONE}
    assert controls["results.group_size"].high == 2
    assert controls["results.group_size"].choices == ("2", "8", "32")
    assert controls_of([]) == []


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        (
            "gone.nc",
            None,
            "gone.nc does not exist; allowed: a result of simlab sweep, a folder of simlab train, or a report",
        ),
        ("text.nc", b"no numbers", "text.nc cannot be opened ("),
        ("broken.nc", b"\x89HDF\r\n\x1a\n" + b"\0" * 60, "broken.nc cannot be opened ("),
    ],
)
def test_a_file_that_is_no_result_is_one_line_and_exit_code_2(tmp_path, capsys, name, content, reason):
    pytest.importorskip("starlette")
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    assert main(["explore", "--no-browser", "--port", "0", str(path)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert reason in printed.err
    assert printed.err.count("\n") == 1


def test_too_many_results_are_refused(path):
    with pytest.raises(InputError, match="7 results are named; allowed: up to 6"):
        Results((path,) * 7)
