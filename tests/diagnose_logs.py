"""Logs of known truth, simulated prompt by prompt: NumPy alone, and nothing of the library but ``Log``."""

import dataclasses

import numpy as np

from simlab.diagnose.log import Answers, Log

BANKS = {
    "uniform": lambda random: random.uniform(),
    "u-shaped": lambda random: random.beta(0.3, 0.3),
    "many at 0": lambda random: 0.0 if random.random() < 0.6 else random.beta(1, 3),
    "many at 1": lambda random: 1.0 if random.random() < 0.6 else random.beta(3, 1),
    "two points": lambda random: 0.15 if random.random() < 0.5 else 0.6,
}


@dataclasses.dataclass
class Bank:
    """The prompts behind a log.

    Attributes:
        rates: (M,) solve rates.
        shares: of each prompt, the probability of each solution among its correct answers.
    """

    rates: np.ndarray
    shares: list[np.ndarray]


def bank(shape: str, prompts: int, seed: int, most_solutions: int = 40) -> Bank:
    """Prompts of a shape; each has up to ``most_solutions`` solutions, as probable as Zipf's law says."""
    random = np.random.default_rng(seed)
    rates = np.array([BANKS[shape](random) for _ in range(prompts)])
    shares = []
    for _ in range(prompts):
        weights = 1 / np.arange(1, random.integers(1, most_solutions + 1) + 1)
        shares.append(weights / weights.sum())
    return Bank(rates, shares)


def log(own: Bank, group_size: int, seed: int, *, steps: int = 1, visits: int = 1, answers: bool = True) -> Log:
    """Each prompt is visited so often, in random order, spread evenly over the steps."""
    random = np.random.default_rng(seed)
    order = np.concatenate([random.permutation(len(own.rates)) for _ in range(visits)])
    numbers = np.cumsum([0, *(len(shares) for shares in own.shares)])
    correct, rows = [], []
    for group, prompt in enumerate(order):
        right = random.binomial(group_size, own.rates[prompt])
        correct.append(right)
        if answers and right:
            drawn = random.multinomial(right, own.shares[prompt])
            rows += [(group, numbers[prompt] + place, drawn[place]) for place in np.flatnonzero(drawn)]
    columns = np.array(rows, dtype=int).reshape(-1, 3).T
    return Log(
        "simlab",
        order,
        np.arange(len(order)) * steps // len(order),
        np.full(len(order), group_size),
        np.array(correct, dtype=int),
        tuple(f"prompt {number}" for number in range(len(own.rates))),
        Answers(*columns) if answers else None,
    )


def undrawn(own: Bank, seen: Log) -> tuple[float, float]:
    """The mean correct mass that a log has not drawn, and its share of the correct mass, of the prompts that occur."""
    numbers = np.cumsum([0, *(len(shares) for shares in own.shares)])
    drawn = set(seen.answers.answer.tolist())
    present = sorted(set(seen.prompt.tolist()))
    left = 0.0
    for prompt in present:
        for place, share in enumerate(own.shares[prompt]):
            if numbers[prompt] + place not in drawn:
                left += own.rates[prompt] * share
    return left / len(present), left / sum(own.rates[present])
