"""GDPO beside what each trainer computes, written out in torch as its code does; run with ``-m torch``."""

import numpy as np
import pytest

import simlab

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch")

WEIGHTS = [1.0, 0.3, -0.5]


def trl(parts, weights):
    """TRL 1.16: NaN where a part is missing; nothing where all are."""
    mean = torch.nanmean(parts, dim=1, keepdim=True)
    squares = torch.nanmean((parts - mean) ** 2, dim=1, keepdim=True)
    count = (~torch.isnan(parts)).sum(dim=1, keepdim=True).to(parts.dtype)  # in TRL whole, for rewards in float32
    std = (squares * torch.where(count > 1, count / (count - 1.0), torch.nan)).sqrt()
    sums = ((parts - mean) / (std + 1e-4) * weights).nansum(dim=2)
    sums[torch.isnan(parts).all(dim=2)] = torch.nan
    there = sums[~torch.isnan(sums)]
    return torch.nan_to_num((sums - there.mean()) / (there.std() + 1e-4))


def verl(parts, weights):
    """verl-project/verl at 1dda039, one token a rollout."""
    single = parts.shape[1] == 1
    mean, std = (0.0, 1.0) if single else (parts.mean(dim=1, keepdim=True), parts.std(dim=1, keepdim=True))
    sums = (weights * ((parts - mean) / (std + 1e-6))).sum(dim=2)
    return (sums - sums.mean()) * torch.rsqrt(sums.var() + 1e-8)


def nemo_rl(parts, weights):
    """NVIDIA-NeMo/RL at 7ea279a: the mean and the std of the others, the latter from squares."""
    others = 1 - torch.eye(parts.shape[1], dtype=parts.dtype)
    size = parts.shape[1] - 1
    mean, squares = (torch.einsum("ij,pjr->pir", others, values) / size for values in (parts, parts**2))
    std = ((squares - mean**2) * (size / (size - 1))).sqrt().nan_to_num(0)
    gaps = parts - mean
    sums = (weights * torch.where(std > 0, gaps / (std + 1e-6), gaps)).sum(dim=2)
    return (sums - sums.mean()) / sums.std()


CODES = {"trl": trl, "verl": verl, "nemo_rl": nemo_rl}


def condition(parts):
    """By how much a std of others from squares enlarges rounding: squares, of all about 0 or the mean, over theirs."""
    worst = 1.0
    for group in parts.numpy().astype(float).transpose(0, 2, 1).reshape(-1, parts.shape[1]):
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
            parts = torch.tensor(rng.normal(size=(prompts, group, 3)).round(2), dtype=getattr(torch, dtype))
            found = simlab.advantages("gdpo", parts=parts, weights=WEIGHTS, code=code)
            expected = CODES[code](parts, torch.tensor(WEIGHTS, dtype=parts.dtype))
            assert found.dtype == parts.dtype
            unit = np.finfo(dtype).eps * float(expected.abs().max())
            lost = 4 * (condition(parts) if code == "nemo_rl" else 1)
            assert float((found - expected).abs().max()) <= lost * unit


def test_missing_parts_and_single_rollouts_are_as_the_trainers_have_them():
    parts = torch.tensor(np.random.default_rng(1).normal(size=(3, 6, 3)))
    holes = parts.clone()
    holes[0, 1, 2] = holes[1, :5, 0] = torch.nan  # of one part a single value is left in a group
    holes[2, 0] = torch.nan  # a rollout without any part
    found = simlab.advantages("gdpo", parts=holes, weights=WEIGHTS, mask=~torch.isnan(holes))
    torch.testing.assert_close(found, trl(holes, torch.tensor(WEIGHTS, dtype=parts.dtype)), rtol=1e-14, atol=1e-14)
    single = parts[:, :1]
    for code in ("verl",):
        found = simlab.advantages("gdpo", parts=single, weights=WEIGHTS, code=code)
        torch.testing.assert_close(found, CODES[code](single, torch.tensor(WEIGHTS, dtype=parts.dtype)))
