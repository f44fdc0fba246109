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


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 2e-5), ("float64", 1e-9)])
def test_the_numbers_are_the_trainers(code, dtype, tolerance):
    """In groups without equal others, where their residue would show."""
    rng = np.random.default_rng(0)
    for prompts, group in ((4, 8), (3, 5)):
        parts = torch.tensor(rng.normal(size=(prompts, group, 3)).round(2), dtype=getattr(torch, dtype))
        found = simlab.advantages("gdpo", parts=parts, weights=WEIGHTS, code=code)
        expected = CODES[code](parts, torch.tensor(WEIGHTS, dtype=parts.dtype))
        assert found.dtype == parts.dtype
        torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


def test_missing_parts_and_single_rollouts_are_as_the_trainers_have_them():
    parts = torch.tensor(np.random.default_rng(1).normal(size=(3, 6, 3)))
    holes = parts.clone()
    holes[0, 1, 2] = holes[1, :5, 0] = torch.nan  # of one part a single value is left in a group
    holes[2, 0] = torch.nan  # a rollout without any part
    found = simlab.advantages("gdpo", parts=holes, weights=WEIGHTS, mask=~torch.isnan(holes))
    torch.testing.assert_close(found, trl(holes, torch.tensor(WEIGHTS, dtype=parts.dtype)), rtol=1e-9, atol=1e-9)
    single = parts[:, :1]
    for code in ("verl",):
        found = simlab.advantages("gdpo", parts=single, weights=WEIGHTS, code=code)
        torch.testing.assert_close(found, CODES[code](single, torch.tensor(WEIGHTS, dtype=parts.dtype)))
