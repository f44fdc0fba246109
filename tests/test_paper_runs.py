"""Arms of a run compared with one of them: paired by seed, at the end and where both solve as much."""

import json

import numpy as np
import pytest

from figures.shared.paper_runs import MEASURES, condense, gained, table, windows
from simlab.llm.training.folder import EVALUATIONS, METRICS
from simlab.llm.training.lines import as_lines, name_of

NOISE = np.array([0.01, -0.02, 0.03])  # of a seed: one that all its arms share


def made_up(pass_at_1, pass_at_32):
    one, many = (np.array(values) + NOISE[:, None] for values in (pass_at_1, pass_at_32))
    return {name: (one if name == "pass@1" else many).tolist() for name in MEASURES}


TRAINING = {"entropy": [[0.4, 0.1], [0.4, 0.2], [0.4, 0.3]], "clipped_share": [[0, 0.02]] * 3}
MADE_UP = {
    "arms": {
        "grpo": made_up([0.1, 0.2, 0.3], [0.9, 0.8, 0.7]),
        "keeps more": made_up([0.1, 0.2, 0.4], [0.9, 0.85, 0.8]),
    },
    "training": {"grpo": TRAINING, "keeps more": TRAINING},
}


def test_what_the_arms_of_a_seed_share_is_not_in_their_difference():
    for measure in ("pass@1", "pass@32"):
        found = gained(MADE_UP, "keeps more", "grpo", measure)
        assert (found.mean, found.low, found.high) == pytest.approx((0.1, 0.1, 0.1), abs=1e-9)


def test_the_interval_is_students_over_three_seeds():
    arms = {"grpo": made_up([0, 0], [0, 0]), "own": made_up([0, 0], [0, 0])}
    arms["own"]["pass@32"] = np.add(arms["grpo"]["pass@32"], [[0.0], [0.1], [0.2]]).tolist()
    found = gained({"arms": arms}, "own", "grpo", "pass@32")
    assert found.mean == pytest.approx(0.1)
    assert found.high - found.mean == pytest.approx(4.302653 * 0.1 / np.sqrt(3), rel=1e-6)


def test_the_table_has_the_start_and_no_difference_of_the_baseline_from_itself():
    lines = table(MADE_UP, "grpo").splitlines()
    assert lines[2].startswith("| (start) | 0.107(0.015) |")
    assert lines[3].endswith("| 0.200(0.058) | 0.010(0.000) |  |")
    assert lines[4].endswith("| +0.100 [+0.100, +0.100] |")
    assert len({line.count("|") for line in lines}) == 1


def test_windows_are_means_over_steps_alone():
    np.testing.assert_allclose(windows(np.arange(40.0).reshape(20, 2), 10), [[9, 10], [29, 30]])


def put(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(as_lines(lines, name_of(path))[0])


def evaluation(step, one, **more):
    at_k = {str(k): {"mean": one * k / 32} for k in (1, 4, 32)}
    return {"step": step, "pass_at_k": at_k, "distinct": [1, 2], "rare_nll": 0.5, **more}


def test_a_run_folder_is_condensed_with_the_start_first(tmp_path):
    run = {
        "settings": {"rl": {"steps": 40}},
        "arms": ["grpo"],
        "seeds": [0, 1],
        "commit": "abc",
        "checksum": "of the whole",
    }
    (tmp_path / "run.json").write_text(json.dumps(run))
    for seed in (0, 1):
        put(tmp_path / f"start/seed-{seed}" / EVALUATIONS, [evaluation(0, 0.5)])
        put(tmp_path / f"arms/grpo/seed-{seed}" / EVALUATIONS, [evaluation(20, 0.25 * seed)])
        put(
            tmp_path / f"arms/grpo/seed-{seed}" / METRICS,
            [{"step": step, "entropy": step, "clipped_share": 0} for step in range(1, 41)],
        )
    found = condense(tmp_path)
    assert found["step"] == [0, 20]
    assert found["arms"]["grpo"]["pass@32"] == [[0.5, 0], [0.5, 0.25]]
    assert found["arms"]["grpo"]["distinct"] == [[1.5, 1.5]] * 2
    assert found["training"]["grpo"]["entropy"] == [np.arange(1.5, 40, 2).tolist()] * 2
    assert found["provenance"] == {name: value for name, value in run.items() if name != "checksum"}


def test_candidates_by_rank_and_histograms_are_condensed_where_a_run_records_them(tmp_path):
    run = {"settings": {"rl": {"steps": 2}}, "arms": ["grpo", "casp"], "seeds": [0, 1]}
    (tmp_path / "run.json").write_text(json.dumps(run))

    def counted(step, tokens):
        return evaluation(step, 0.5, entropy_histogram=[tokens, 1], candidate_histogram=[[0, tokens], [tokens, 0]])

    for seed in (0, 1):
        put(tmp_path / f"start/seed-{seed}" / EVALUATIONS, [counted(0, 1 + seed)])
        for tokens, arm in ((10, "grpo"), (20, "casp")):
            put(tmp_path / f"arms/{arm}/seed-{seed}" / EVALUATIONS, [counted(1, 1000), counted(2, tokens + seed)])
            lines = [{"step": s, "entropy": 1, "clipped_share": 0, "rank_logp": [-s, -tokens]} for s in (1, 2)]
            put(tmp_path / f"arms/{arm}/seed-{seed}" / METRICS, lines)
    found = condense(tmp_path)
    assert found["training"]["casp"]["rank_logp"] == [[[-1, -20], [-2, -20]]] * 2
    assert found["histograms"] == {
        "(start)": {"entropy_histogram": [3, 2], "candidate_histogram": [[0, 3], [3, 0]]},
        "grpo": {"entropy_histogram": [21, 2], "candidate_histogram": [[0, 21], [21, 0]]},
        "casp": {"entropy_histogram": [41, 2], "candidate_histogram": [[0, 41], [41, 0]]},
    }
