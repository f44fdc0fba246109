"""The figure that a sweep ends with: its axes, lines and bands."""

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure

from simlab.errors import InputError
from simlab.plotting import draw_band, final_states, save_figure


def result(**sizes: int) -> xr.Dataset:
    """A made-up result with the given dimensions, seeded."""
    dimensions = {"estimator": 1, "group_size": 1, **sizes, "seed": 5, "step": 3}
    values = np.random.default_rng(0).uniform(size=tuple(dimensions.values()))
    coordinates = {name: np.arange(1, size + 1) for name, size in dimensions.items()}
    coordinates["estimator"] = np.array([f"method{index}" for index in range(dimensions["estimator"])])
    return xr.Dataset({name: (tuple(dimensions), values) for name in ("q_pos", "retained_mass")}, coordinates)


def test_group_size_takes_the_axis_then_a_swept_number_then_the_step():
    for sizes, axis, lines in (
        ({"group_size": 4, "gamma": 2}, "group size G", 2),
        ({"gamma": 3}, r"$\gamma$", 1),
        ({"estimator": 3, "delta": 4}, "delta", 3),
        ({"estimator": 3}, "step", 3),
    ):
        left, right = final_states({"": result(**sizes)}).axes
        assert [left.get_xlabel(), right.get_xlabel()] == [axis, axis]
        assert [len(left.lines), len(right.lines)] == [lines, lines]


def test_a_title_says_what_ran_and_a_share_that_hardly_varies_is_shown_closely():
    narrow = result(group_size=4)
    narrow["q_pos"] = 0.5 + narrow.q_pos / 100
    figure = final_states({"": narrow}, "f_grpo on anchored: G = 1, 2, 3, 4")
    assert "f_grpo" in figure.get_suptitle()
    close, whole = (axes.get_ylim() for axes in figure.axes)
    assert close[1] - close[0] < 0.05
    assert whole == (-0.03, 1.03)


def test_the_legend_of_many_lines_stays_inside_of_the_figure():
    """A line for each method and parameter, each named; the method without the parameter has one line."""
    dataset = result(estimator=2, group_size=2, gamma=3, learning_rate=2)
    dataset.gamma.attrs["methods_without_it"] = '["method0"]'
    figure = final_states({"": dataset})
    (legend,) = figure.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert names[:3] == [
        "method0, learning rate = 1",
        "method0, learning rate = 2",
        r"method1, $\gamma$ = 1, learning rate = 1",
    ]
    assert len(names) == 2 + 6
    figure.draw_without_rendering()
    width = figure.get_window_extent().width
    box = legend.get_window_extent()
    assert 0 <= box.x0 < box.x1 <= width


def test_final_values_are_means_over_seeds_of_the_last_step():
    dataset = result(group_size=4)
    (line,) = final_states({"": dataset}).axes[1].lines
    expected = [dataset.retained_mass.values[0, size, :, 2].mean() for size in range(4)]
    np.testing.assert_allclose(line.get_ydata(), expected)


def drawn(values, name):
    """The lines and the ends of the bands that ``draw_band`` draws of values (seed, step)."""
    axes = Figure().subplots()
    draw_band(axes, np.arange(values.shape[1]), xr.DataArray(values, dims=("seed", "step"), name=name))
    edges = [path.vertices[:, 1] for band in axes.collections for path in band.get_paths()]
    return [np.asarray(line.get_ydata()) for line in axes.lines], edges


def test_the_band_of_a_share_stays_between_0_and_1_and_that_of_a_metric_of_yours_is_students():
    values = np.array([[0.0, 0.2], [0.02, 0.3], [0.0, 0.4], [0.3, 0.9]])
    (mean,), (share,) = drawn(values, "pass@64")
    np.testing.assert_allclose(mean, values.mean(axis=0))
    assert 0 < share.min() < share.max() < 1
    _, (plain,) = drawn(values, "mine")
    half = 3.182446305284263 * values.std(axis=0, ddof=1) / 2
    assert [plain.min(), plain.max()] == pytest.approx([(mean - half).min(), (mean + half).max()])
    assert plain.min() < 0


def test_fewer_than_four_seeds_are_drawn_themselves():
    values = np.array([[0.1, 0.2], [0.2, 0.3], [0.3, 0.7]])
    lines, bands = drawn(values, "q_pos")
    assert bands == []
    np.testing.assert_allclose(lines, [values.mean(axis=0), *values])


def test_a_figure_of_several_results_says_how_many_seeds_each_has():
    data = result(group_size=2)
    few = data.isel(seed=slice(1))
    titles = [final_states(shown).axes[0].get_title("left") for shown in ({"a": few}, {"a": few, "b": data})]
    assert [title.rpartition(", ")[2] for title in titles] == ["1 seed", f"1 and {data.sizes['seed']} seeds"]


@pytest.mark.slow
def test_a_figure_is_written_in_the_format_of_its_suffix_or_the_failure_explained(tmp_path):
    for name, mark in {"figure.png": b"PNG", "figure.svg": b"<svg", "figure.pdf": b"%PDF"}.items():
        save_figure(final_states({"": result(group_size=2)}), tmp_path / name)
        assert mark in (tmp_path / name).read_bytes()[:2000]
    for name, reason in {"figure.unknown": "allowed: .*svg", "missing/figure.png": "cannot write"}.items():
        with pytest.raises(InputError, match=reason):
            save_figure(final_states({"": result(group_size=2)}), tmp_path / name)
