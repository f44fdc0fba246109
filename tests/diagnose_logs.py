"""Logs of known truth, simulated prompt by prompt: of the library only classes are used."""

from typing import NamedTuple

import numpy as np

from simlab.diagnose.diagnosis import Diagnosis
from simlab.diagnose.log import AnswerCounts, Log
from simlab.diagnose.solve_rates import SolveRates, Window

# Shares of prompts, each with a Beta or with one solve rate.
SHAPES = {
    "uniform": [(1.0, (1.0, 1.0))],
    "u-shaped": [(1.0, (0.3, 0.3))],
    "many at 0": [(0.6, 0.0), (0.4, (1.0, 3.0))],
    "many at 1": [(0.6, 1.0), (0.4, (3.0, 1.0))],
    "two points": [(0.5, 0.15), (0.5, 0.6)],
}
MOST_SOLUTIONS = 40


class Bank(NamedTuple):
    """Solve rates of prompts, and the probability of each solution among the correct answers of its prompt."""

    rates: np.ndarray
    shares: list[np.ndarray]


def zipf(solutions: int) -> np.ndarray:
    """The probabilities of some solutions by Zipf's law."""
    weights = 1 / np.arange(1, solutions + 1)
    return weights / weights.sum()


def bank(shape: str, prompts: int, seed: int, most_solutions: int = MOST_SOLUTIONS) -> Bank:
    """Prompts of a shape, each with 1 to ``most_solutions`` solutions."""
    random = np.random.default_rng(seed)
    mixture = SHAPES[shape]
    chosen = random.choice(len(mixture), size=prompts, p=[share for share, _ in mixture])
    rates = [law if isinstance(law, float) else random.beta(*law) for law in (mixture[i][1] for i in chosen)]
    return Bank(np.array(rates), [zipf(random.integers(1, most_solutions + 1)) for _ in range(prompts)])


def log(population: Bank, group_size: int, seed: int, *, steps: int = 1, visits: int = 1, answers: bool = True) -> Log:
    """A log that visits each prompt ``visits`` times, in random order, spread evenly over the steps."""
    random = np.random.default_rng(seed)
    order = np.concatenate([random.permutation(len(population.rates)) for _ in range(visits)])
    numbers = np.cumsum([0, *(len(shares) for shares in population.shares)])
    correct, rows = [], []
    for group, prompt in enumerate(order):
        right = random.binomial(group_size, population.rates[prompt])
        correct.append(right)
        if answers and right:
            drawn = random.multinomial(right, population.shares[prompt])
            rows += [(group, numbers[prompt] + solution, drawn[solution]) for solution in np.flatnonzero(drawn)]
    columns = np.array(rows, dtype=int).reshape(-1, 3).T
    return Log(
        "simlab",
        order,
        np.arange(len(order)) * steps // len(order),
        np.full(len(order), group_size),
        np.array(correct, dtype=int),
        tuple(f"prompt {number}" for number in range(len(population.rates))),
        AnswerCounts(*columns) if answers else None,
    )


def plain(correct: list[int], group_size: int | list[int], prompt: list[int] | None = None, step=None) -> Log:
    """A log of groups that are written out, a prompt each unless said otherwise."""
    count = len(correct)
    prompts = np.arange(count) if prompt is None else np.array(prompt)
    steps = np.zeros(count, int) if step is None else np.array(step)
    sizes = np.full(count, group_size) if isinstance(group_size, int) else np.array(group_size)
    names = tuple(f"prompt {number}" for number in range(int(prompts.max()) + 1 if count else 0))
    return Log("table", prompts.astype(int), steps, sizes, np.array(correct, dtype=int), names)


class Surprises(NamedTuple):
    """Each rollout's prompt, verdict, -log p and number of tokens."""

    prompt: np.ndarray
    right: np.ndarray
    surprise: np.ndarray
    length: np.ndarray


def surprises(record: Log, seed: int, mean: float = 20.0, correct: float = 1.0) -> Surprises:
    """-log p of each rollout of a log: Gamma(4), and prompts that differ in its mean.

    A correct rollout's is ``correct`` times as large. Rollouts have 5 to 15 tokens, whatever else they are.
    """
    random = np.random.default_rng(seed)
    of_prompt = mean * random.uniform(0.5, 1.5, size=len(record.prompts))
    group = np.repeat(np.arange(len(record.prompt)), record.group_size)
    position = np.concatenate([np.arange(size) for size in record.group_size])
    right = position < record.correct[group]
    surprise = of_prompt[record.prompt[group]] * random.gamma(4, 0.25, size=len(group)) * np.where(right, correct, 1.0)
    return Surprises(record.prompt[group], right, surprise, random.integers(5, 16, size=len(group)))


def windows_of(reading, level=0.9):
    """A diagnosis of a level and windows alone, which questions about steps read; the rest takes seconds."""
    steps = np.unique(reading.log.step)
    pieces = np.array_split(steps, min(4, len(steps)))
    windows = tuple(Window(int(piece[0]), int(piece[-1]), None) for piece in pieces)
    empty = dict.fromkeys(Diagnosis._fields) | {"level": level}
    return Diagnosis(**empty | {"solve_rates": SolveRates(0, None, None, (), (), windows, None)})


def undrawn(population: Bank, seen: Log) -> tuple[float, float]:
    """The mean correct mass that a log has not drawn, and its share of the correct mass, of the prompts that occur."""
    numbers = np.cumsum([0, *(len(shares) for shares in population.shares)])
    drawn = set(seen.answers.answer.tolist())
    present = sorted(set(seen.prompt.tolist()))
    left = sum(
        population.rates[prompt] * share
        for prompt in present
        for solution, share in enumerate(population.shares[prompt])
        if numbers[prompt] + solution not in drawn
    )
    return left / len(present), left / sum(population.rates[present])
