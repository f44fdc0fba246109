"""The spread of covariance over tokens, against plain loops."""

import json
import math

import numpy as np
import pytest

from figures.cw_grpo_fig3 import DATA
from figures.shared.token_covariances import SHARES, Tokens, spreads


@pytest.fixture
def tokens():
    """Six groups of four rollouts, of one to five tokens; what lies beyond them must not be read."""
    rng = np.random.default_rng(0)
    mask = np.arange(5) < rng.integers(1, 6, size=(6, 4))[..., None]
    logp = np.where(mask, -rng.exponential(size=mask.shape), 1e6)
    return Tokens((rng.random((6, 4)) < 0.5).astype(float), logp, mask)


def terms_by_loops(tokens):
    """c of every token under GRPO: means over the tokens of the group, equal rewards without advantage."""
    terms = []
    for rewards, logp, mask in zip(*tokens, strict=True):
        std = rewards.std()
        advantage = (rewards - rewards.mean()) / (std + 1e-6) if std > 0 else 0 * rewards
        pairs = [(logp[i, t], advantage[i]) for i in range(len(rewards)) for t in range(logp.shape[1]) if mask[i, t]]
        middle = np.mean(pairs, axis=0)
        terms += [(x - middle[0]) * (a - middle[1]) for x, a in pairs]
    return terms


def test_the_shares_are_those_of_the_largest(tokens):
    """[cw-grpo:figure-3]."""
    spread = spreads(tokens)["before"]
    for sign, name in ((1, "positive"), (-1, "negative")):
        sizes = sorted((sign * c for c in terms_by_loops(tokens) if sign * c > 1e-12), reverse=True)
        expected = [sum(sizes[: math.ceil(len(sizes) * percent / 100 - 1e-9)]) / sum(sizes) for percent in SHARES]
        assert spread[name]["tokens"] == len(sizes)
        assert spread[name]["share"] == pytest.approx(expected, rel=1e-4)
        assert np.abs(spread[name]["at"][0]) == pytest.approx(sizes[0], rel=1e-4)
        assert np.abs(spread[name]["at"][-1]) == pytest.approx(sizes[-1], rel=1e-4)


def test_means_are_of_rollouts_and_of_tokens(tokens):
    summary = spreads(tokens)
    assert summary["reward"] == pytest.approx(tokens.rewards.mean(), rel=1e-5)
    assert summary["mean_logp"] == pytest.approx(tokens.logp[tokens.mask].mean(), rel=1e-5)


def test_the_tree_is_drawn_as_in_the_figure_of_its_runs():
    """The same groups, so the same percentiles as cw_grpo keeps, to the digits of another quantile's rule."""
    figure = json.loads((DATA.parent / "cw_grpo.json").read_text())["sums"]["covariance"]
    tree = json.loads(DATA.read_text())["tokens"]
    for accuracy in ("0.05", "0.5"):
        for sign in ("positive", "negative"):
            percentiles = tree[f"tree, accuracy {accuracy}"]["before"][sign]["at"]
            assert percentiles == pytest.approx(figure[accuracy]["before"][sign], rel=1e-3)
