"""F-GRPO's App. J simulation as a short NumPy script: what simlab's dense storage is compared with.

The gradient is written out, sampling searches a cumulative sum, Adam updates in place, and each core runs a seed in a
process of its own.

    python -m benchmarks.peer_numpy --group-size 32 --gamma 0 --steps 200
"""

import argparse
import os
import time

import numpy as np

from benchmarks.processes import Processes

ACTIONS, CORRECT, LEARNING_RATE = 128_000, 10_000, 1e-2
BETA1, BETA2, EPS = 0.9, 0.999, 1e-8


def initial_logits() -> np.ndarray:
    """Logit 5 for the anchor, 3 for the other correct actions, 0 for the incorrect ones."""
    logits = np.zeros(ACTIONS, np.float32)
    logits[:CORRECT] = 3.0
    logits[0] = 5.0
    return logits


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities, in the dtype of the logits."""
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


def simulate(group_size: int, gamma: float, steps: int, seed: int) -> tuple[np.ndarray, float]:
    """Train for some steps; returns the final logits and the seconds of the loop, set-up excluded."""
    random = np.random.default_rng(seed)
    logits = initial_logits()
    first, second = np.zeros_like(logits), np.zeros_like(logits)
    gradient, work, cumulative = np.empty_like(logits), np.empty_like(logits), np.empty(ACTIONS)
    start = time.perf_counter()
    for step in range(1, steps + 1):
        p = softmax(logits)
        # Summed in float64: 128,000 float32 additions would lose the small probabilities.
        np.cumsum(p, dtype=np.float64, out=cumulative)
        # The draws' order means nothing, and a search for sorted numbers is three times as fast.
        uniforms = np.sort(random.random(group_size))
        actions = np.searchsorted(cumulative, uniforms * cumulative[-1], side="right")
        correct = actions < CORRECT
        rewards = np.where(correct, 1.0, -1.0)
        advantages = (rewards - rewards.mean()) * (1 - correct.mean()) ** gamma
        # Of -mean(A log p): p_j mean(A) - (sum of A over draws of j) / G, where mean(A) is 0.
        gradient.fill(0)
        np.add.at(gradient, actions, (advantages / -group_size).astype(np.float32))
        first *= BETA1
        first += np.multiply(gradient, 1 - BETA1, out=work)
        second *= BETA2
        np.multiply(gradient, gradient, out=gradient)
        second += np.multiply(gradient, 1 - BETA2, out=gradient)
        # work = lr * first / (1 - BETA1^t) / (sqrt(second / (1 - BETA2^t)) + EPS)
        np.sqrt(second, out=work)
        work *= 1 / np.sqrt(1 - BETA2**step, dtype=np.float32)
        work += np.float32(EPS)
        np.divide(first, work, out=work)
        work *= np.float32(LEARNING_RATE / (1 - BETA1**step))
        logits -= work
    return logits, time.perf_counter() - start


def run(group_size: int, gamma: float, steps: int, seed: int) -> tuple[float, float]:
    """Probability of a correct action and retained positive mass (F-GRPO Eq. 26) after some steps."""
    before = softmax(initial_logits().astype(float))[:CORRECT]
    after = softmax(simulate(group_size, gamma, steps, seed)[0].astype(float))[:CORRECT]
    return float(after.sum()), float(1 - np.maximum(before - after, 0).sum() / before.sum())


def loop_seconds(group_size: int, gamma: float, steps: int, seed: int) -> float:
    """Seconds of one seed's loop."""
    return simulate(group_size, gamma, steps, seed)[1]


def main() -> None:
    """Print the result of one run and its time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--group-size", type=int, default=32)
    parser.add_argument("--gamma", type=float, default=0.0)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    choice = (options.group_size, options.gamma, options.steps, options.seed)
    q_pos, retained = run(*choice)
    seconds = Processes(os.cpu_count() or 1).seconds_per_step(loop_seconds, *choice[:3])
    print(f"Q_pos {q_pos:.4f}  retained mass {retained:.4f}  {1e3 * seconds:.3f} ms a seed-step, a process a core")


if __name__ == "__main__":
    main()
