"""Metrics of a run equal those of a diagnosis of the same rollouts, batch by batch."""

import math

import numpy as np
import pytest
from refusals import refusal

from simlab.diagnose import live as live_module
from simlab.diagnose.live import Live, fit_metrics
from simlab.diagnose.log import AnswerCounts, Log

ROLLOUTS = {  # answers of each prompt's group; "no" is wrong
    "p": ["1", "1", "2", "no"],
    "q": ["no"] * 4,
    "r": ["5"] * 4,
    "s": ["1", "no", "no", "no"],
}


def batch(rollouts, order=None):
    pairs = [(prompt, answer) for prompt, answers in rollouts.items() for answer in answers]
    rows = [(prompt, float(answer != "no"), rf"so \boxed{{{answer}}}") for prompt, answer in pairs]
    return list(zip(*(rows if order is None else [rows[index] for index in order]), strict=True))


def test_the_groups_of_a_batch_are_counted():
    shuffled = np.random.default_rng(0).permutation(16)
    assert Live().observe(["a", "b"], [1, 0])["diagnose/dead"] == 1  # groups of one
    assert Live().observe(*batch(ROLLOUTS, shuffled)) == {
        "diagnose/solve_rate": 0.5,
        "diagnose/all_right": 0.25,
        "diagnose/all_wrong": 0.25,
        "diagnose/dead": 0.5,
        "diagnose/effective_prompts": 2,
    }


def test_what_is_fitted_is_that_of_the_groups_of_the_last_batches():
    """The log of the last two batches, written out: the answers "1" of p and of s are two solutions."""
    live = Live(every=3, window=2)
    assert not any("fitted" in name for _ in range(2) for name in live.observe(*batch({"old": ["7"] * 4})))
    live.observe(*batch({"old": ["7"] * 4}))
    live.observe(*batch(ROLLOUTS))
    metrics = live.observe(*batch({"p": ["1", "2", "2", "no"]}))
    assert not any("fitted" in name for name in metrics)
    metrics = live.observe(*batch(ROLLOUTS))
    log = Log(
        "table",
        prompt=np.array([0, 0, 1, 2, 3]),
        step=np.array([0, 1, 1, 1, 1]),
        group_size=np.full(5, 4),
        correct=np.array([3, 3, 0, 4, 1]),
        prompts=("p", "q", "r", "s"),
        answers=AnswerCounts(np.array([0, 0, 1, 1, 3, 4]), np.array([0, 1, 0, 1, 2, 3]), np.array([1, 2, 2, 1, 4, 1])),
    )
    expected = fit_metrics(log, 0.9)
    assert {f"diagnose/{name}" for name in expected} == {name for name in metrics if "fitted" in name}
    for name, value in expected.items():
        assert metrics[f"diagnose/{name}"] == pytest.approx(value, abs=1e-6), name
    for size in (2, 8, 16):
        assert 0 < metrics[f"diagnose/fitted/dead_at_{size}_low"] <= metrics[f"diagnose/fitted/dead_at_{size}"]
    assert metrics["diagnose/fitted/unseen_share_high"] <= 1
    assert all(math.isfinite(value) for value in metrics.values())


def test_without_completions_nothing_is_said_of_solutions():
    prompts, rewards, _ = batch(ROLLOUTS)
    metrics = Live(every=1).observe(prompts, rewards)
    assert "diagnose/fitted/dead_at_8" in metrics
    assert not any("unseen" in name or "tail_miss" in name for name in metrics)
    live = Live(every=2)
    live.observe(prompts, rewards)
    assert "diagnose/fitted/unseen_share" not in live.observe(*batch(ROLLOUTS)), "a batch of both has none"


def test_rollouts_without_a_reward_are_left_out():
    prompts, rewards, texts = (list(column) for column in batch({"p": ["1", "no", "1"], "q": ["2", "no", "no"]}))
    rewards[2] = math.nan
    assert Live().observe(prompts, rewards, texts)["diagnose/solve_rate"] == 2 / 5
    assert Live().observe(["p"], [math.nan], ["x"]) == {}


def test_graded_rewards_need_a_threshold():
    assert "a reward is 0.5; allowed: 0 and 1" in refusal(Live().observe, ["p", "p"], [0.5, 1])
    assert Live(threshold=0.5).observe(["p", "p"], [0.5, 0.2])["diagnose/solve_rate"] == 0.5
    graded = Live(threshold=1).observe(["p"] * 4 + ["q"] * 2, [0.05, 0.05, 0.1, 0.15, 0.5, 0.5])
    assert (graded["diagnose/all_wrong"], graded["diagnose/dead"]) == (1, 0.5)


def test_an_answer_of_ones_own_tells_solutions_apart():
    live = Live(every=1, answer=lambda text: "even" if int(text) % 2 == 0 else None)
    metrics = live.observe(["p"] * 8, [1.0] * 8, ["2", "4", "6", "8", "2", "4", "6", "8"])
    assert metrics["diagnose/fitted/unseen_share"] == pytest.approx(0, abs=0.01)


def test_numbers_outside_their_range_are_refused():
    for name, value in {"every": 0, "window": 0, "level": 1.5, "threshold": math.nan, "share": 0}.items():
        assert name in refusal(Live, **{name: value})
    assert "one number" in refusal(Live().observe, ["p"], [1], ["a", "b"])


@pytest.mark.parametrize(("step", "fit", "share"), [(0.2, 3.0, 0.1), (10.0, 0.01, 0.01), (1.0, 0.2, 0.1)])
def test_a_share_of_the_runs_time_is_not_exceeded_after_the_first_fit(monkeypatch, step, fit, share):
    """Only steps and fits move the clock."""
    now, fits = [0.0], []

    def slow(log, level):
        now[0] += fit
        fits.append(now[0])
        return {"fitted/solve_rate": 0.5}

    monkeypatch.setattr(live_module, "fit_metrics", slow)
    live = Live(every=5, share=share, clock=lambda: now[0])
    for _ in range(600):
        now[0] += step
        live.observe(["p", "p"], [1, 0])
        if len(fits) > 1:
            assert fit * len(fits) <= share * now[0] + fit * share
    assert len(fits) > 1
    assert np.diff(fits).min() >= 5 * step  # no more often than every five batches
