"""GDPO beside what each trainer computes, written out in torch as its code does; run with ``-m torch``."""

import numpy as np
import pytest

import simlab

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch")

WEIGHTS = [1.0, 0.3, -0.5]


def trl(scores, weights):
    """TRL 1.16: NaN where a part is missing; nothing where all are."""
    mean = torch.nanmean(scores, dim=1, keepdim=True)
    squares = torch.nanmean((scores - mean) ** 2, dim=1, keepdim=True)
    count = (~torch.isnan(scores)).sum(dim=1, keepdim=True).to(scores.dtype)  # in TRL whole, for rewards in float32
    std = (squares * torch.where(count > 1, count / (count - 1.0), torch.nan)).sqrt()
    sums = ((scores - mean) / (std + 1e-4) * weights).nansum(dim=2)
    sums[torch.isnan(scores).all(dim=2)] = torch.nan
    there = sums[~torch.isnan(sums)]
    return torch.nan_to_num((sums - there.mean()) / (there.std() + 1e-4))


def verl(scores, weights):
    """verl-project/verl at 1dda039, one token a rollout."""
    single = scores.shape[1] == 1
    mean, std = (0.0, 1.0) if single else (scores.mean(dim=1, keepdim=True), scores.std(dim=1, keepdim=True))
    sums = (weights * ((scores - mean) / (std + 1e-6))).sum(dim=2)
    return (sums - sums.mean()) * torch.rsqrt(sums.var() + 1e-8)


def nemo_rl(scores, weights):
    """NVIDIA-NeMo/RL at 7ea279a: the mean and the std of the others, the latter from squares."""
    others = 1 - torch.eye(scores.shape[1], dtype=scores.dtype)
    size = scores.shape[1] - 1
    mean, squares = (torch.einsum("ij,pjr->pir", others, values) / size for values in (scores, scores**2))
    std = ((squares - mean**2) * (size / (size - 1))).sqrt().nan_to_num(0)
    gaps = scores - mean
    sums = (weights * torch.where(std > 0, gaps / (std + 1e-6), gaps)).sum(dim=2)
    return (sums - sums.mean()) / sums.std()


CODES = {"trl": trl, "verl": verl, "nemo_rl": nemo_rl}


def condition(scores):
    """The factor by which a std of others from squares enlarges rounding: squares about 0 or the mean, over theirs."""
    worst = 1.0
    for group in scores.numpy().astype(float).transpose(0, 2, 1).reshape(-1, scores.shape[1]):
        for i in range(len(group)):
            others = np.delete(group, i)
            spread = ((others - others.mean()) ** 2).sum()
            worst = max(worst, (others**2).sum() / spread, ((group - group.mean()) ** 2).sum() / spread)
    return worst


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_numbers_are_the_trainers_to_the_last_digits(code, dtype):
    """To 4 units in the last place of the largest, times the condition of NeMo-RL's std; no group has equals."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        for prompts, group in ((4, 8), (3, 5)):
            scores = torch.tensor(rng.normal(size=(prompts, group, 3)).round(2), dtype=getattr(torch, dtype))
            advantages = simlab.advantages("gdpo", parts=scores, weights=WEIGHTS, code=code)
            expected = CODES[code](scores, torch.tensor(WEIGHTS, dtype=scores.dtype))
            assert advantages.dtype == scores.dtype
            unit = np.finfo(dtype).eps * float(expected.abs().max())
            lost = 4 * (condition(scores) if code == "nemo_rl" else 1)
            assert float((advantages - expected).abs().max()) <= lost * unit


def test_missing_parts_and_single_rollouts_are_as_the_trainers_have_them():
    scores = torch.tensor(np.random.default_rng(1).normal(size=(3, 6, 3)))
    holes = scores.clone()
    holes[0, 1, 2] = holes[1, :5, 0] = torch.nan  # one part has a single value left in a group
    holes[2, 0] = torch.nan  # a rollout without any part
    result = simlab.advantages("gdpo", parts=holes, weights=WEIGHTS, mask=~torch.isnan(holes))
    torch.testing.assert_close(result, trl(holes, torch.tensor(WEIGHTS, dtype=scores.dtype)), rtol=1e-14, atol=1e-14)
    single = scores[:, :1]
    for code in ("verl",):
        result = simlab.advantages("gdpo", parts=single, weights=WEIGHTS, code=code)
        torch.testing.assert_close(result, CODES[code](single, torch.tensor(WEIGHTS, dtype=scores.dtype)))
