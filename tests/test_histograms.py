"""Histograms of tokens: counted by hand, recorded by an evaluation, read and drawn."""

import math

import numpy as np
import pytest
from naive_training import sequence_tables
from run_folders import evaluation, metrics, write_run
from sweep_cases import refusal
from training_cases import parameters_of, settings, task

from simlab.cli import main
from simlab.llm.compare import read_run
from simlab.llm.compare.histograms import histogram_figure
from simlab.llm.instruments.histograms import candidate_histogram, entropy_histogram
from simlab.llm.training.evaluator import Evaluator
from simlab.llm.training.setup import Setup


def naive_counts(values, bins):
    """One value after the other: the bin of the tenths below it, the last one without an end."""
    counts = [0] * bins
    for value in values:
        place = 0
        while place < bins - 1 and value >= (place + 1) / 10:
            place += 1
        counts[place] += 1
    return counts


def test_tokens_are_counted_by_tenths_of_a_nat():
    """Edges belong to the bin above; what rounding has put below 0 to the first, and all from 4 on to the last."""
    entropy = np.array([[[0.0, -1e-9, 0.05, 0.1, 0.3, 3.95, 4.0, 11.0, 2.0]]])
    mask = np.array([[[True] * 8 + [False]]])
    expected = {0: 3, 1: 1, 3: 1, 39: 1, 40: 2}
    assert entropy_histogram(entropy, mask).tolist() == [expected.get(place, 0) for place in range(41)]
    assert naive_counts(entropy[mask], 41) == entropy_histogram(entropy, mask).tolist()


def test_candidates_are_counted_by_rank_and_tenths_of_probability():
    """Probability 1, or a little more by rounding, is in the last bin, and 0 in the first."""
    logp = np.log([[1.0, 1e-300], [0.55, 0.45], [1 + 1e-12, 1e-300], [0.9, 0.05]])[None, None]
    logp[0, 0, 0, 1] = -np.inf
    mask = np.array([[[True, True, True, False]]])
    found = candidate_histogram(logp, mask)
    assert found.tolist() == [[0, 0, 0, 0, 0, 1, 0, 0, 0, 2], [2, 0, 0, 0, 1, 0, 0, 0, 0, 0]]


def test_no_token_has_counts_of_0():
    nothing = np.zeros((1, 1, 2), bool)
    assert entropy_histogram(np.ones((1, 1, 2)), nothing).sum() == 0
    assert candidate_histogram(np.zeros((1, 1, 2, 3)), nothing).tolist() == [[0] * 10] * 3


@pytest.mark.usefixtures("quickly")
def test_an_evaluation_counts_the_tokens_that_it_drew():
    """Against the softmax of the whole vocabulary at each token, at the evaluation's own temperature."""
    asked = {"evaluation": {"temperature": 0.7}, "record": {"top_n": 2}}
    setup = Setup(settings(asked), task())
    parameters = parameters_of(setup.loaded.config)
    found, _ = Evaluator(setup, 0).evaluate(parameters, 0)
    tables = [table for _, table, _ in sequence_tables(parameters, setup.loaded.config, found.groups.batch, 0.7)]
    rows = [[math.exp(logp) for logp in row] for table in tables for row in np.asarray(table)]
    entropies = [-sum(p * math.log(p) for p in row) for row in rows]
    assert found.line["entropy_histogram"].tolist() == naive_counts(entropies, 41)
    for rank in range(2):
        chances = [sorted(row)[-1 - rank] for row in rows]
        assert found.line["candidate_histogram"][rank].tolist() == naive_counts(chances, 10)


# Read and drawn


def counted(step, place, candidates=()):
    """An evaluation whose tokens all lie in one bin of entropies, and of the probabilities of candidates."""
    line = {**evaluation(step, [4, 0]), "entropy_histogram": [0] * 41}
    line["entropy_histogram"][place] = 7
    if candidates:
        line["candidate_histogram"] = [[5 * (own == number) for number in range(10)] for own in candidates]
    return line


@pytest.fixture
def folder(tmp_path):
    arms = {"grpo": {seed: (metrics([0.5]), [counted(1, 10 * seed, (9 - seed, 0))]) for seed in (0, 1)}}
    return write_run(tmp_path / "run", arms, {seed: counted(0, 20, (5, 1, 0)) for seed in (0, 1)})


def test_a_panel_has_the_shares_of_tokens_averaged_over_seeds(folder):
    """And there are panels for as many candidates as all evaluations have."""
    entropies, first, second = histogram_figure([read_run(folder)]).axes
    assert [axes.get_title(loc="left") for axes in (first, second)] == ["(b) candidate 1", "(c) candidate 2"]

    def shares(axes):
        return [patch.get_data().values.tolist() for patch in axes.patches]

    grpo, start = shares(entropies)
    assert (grpo[0], grpo[10], sum(grpo), start[20]) == (0.5, 0.5, 1.0, 1.0)
    grpo, start = shares(first)
    assert (grpo[9], grpo[8], start[5]) == (0.5, 0.5, 1.0)
    assert shares(second)[0] == [1.0] + [0.0] * 9


def test_the_command_draws_them_beside_the_comparison(folder, tmp_path, capsys):
    out = tmp_path / "new" / "histograms.svg"
    options = ["compare", str(folder), "--figure", str(tmp_path / "a.svg")]
    assert main([*options, "--histograms", str(out)]) == 0
    assert out.stat().st_size > 1000
    assert capsys.readouterr().out.splitlines()[-1] == f"figure  {out}"
    assert main([*options, "--histograms", str(tmp_path / "a.svg")]) == 2
    assert "allowed: two files" in capsys.readouterr().err


def test_runs_without_histograms_are_refused(tmp_path):
    run = read_run(write_run(tmp_path / "old", {"grpo": {0: (metrics([0.5]), [evaluation(1, [4, 0])])}}))
    assert refusal(histogram_figure, [run]).startswith("an evaluation of grpo has no histogram; allowed: ")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("entropy_histogram", [1, 2]),
        ("entropy_histogram", [-1] * 41),
        ("candidate_histogram", [[0.5] * 10]),
        ("candidate_histogram", 3),
    ],
)
def test_damaged_histograms_are_named(tmp_path, name, value):
    line = {**counted(1, 0), name: value}
    folder = write_run(tmp_path / "run", {"grpo": {0: (metrics([0.5]), [line])}})
    assert f"{name} is no list of" in refusal(read_run, folder)
