"""F-GRPO's App. J simulation as a short PyTorch script: what simlab's dense storage is compared with.

One softmax policy over 128,000 actions; each step draws G of them, centres their rewards, weighs the group by the
focal weight, and takes an Adam step on -mean(advantage * log-probability). Autograd writes the gradient. It is timed
in both ways of using every core: one seed whose operations use them all, and one seed a core.

    python -m benchmarks.peer_torch --group-size 32 --gamma 0 --steps 200
"""

import argparse
import os
import time

import torch

from benchmarks.processes import Processes

ACTIONS, CORRECT, LEARNING_RATE = 128_000, 10_000, 1e-2


def initial_logits() -> torch.Tensor:
    """Logit 5 for the anchor, 3 for the other correct actions, 0 for the incorrect ones."""
    logits = torch.zeros(ACTIONS)
    logits[:CORRECT] = 3.0
    logits[0] = 5.0
    return logits


def simulate(group_size: int, gamma: float, steps: int, seed: int) -> tuple[torch.Tensor, float]:
    """Train for some steps; returns the final logits and the seconds of the loop, set-up excluded."""
    generator = torch.Generator().manual_seed(seed)
    logits = initial_logits().requires_grad_()
    optimizer = torch.optim.Adam([logits], lr=LEARNING_RATE)
    start = time.perf_counter()
    for _ in range(steps):
        logp = torch.log_softmax(logits, dim=0)
        actions = torch.multinomial(logp.detach().exp(), group_size, replacement=True, generator=generator)
        correct = (actions < CORRECT).float()
        rewards = 2 * correct - 1
        advantages = (rewards - rewards.mean()) * (1 - correct.mean()) ** gamma
        loss = -(advantages * logp[actions]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return logits.detach(), time.perf_counter() - start


def run(group_size: int, gamma: float, steps: int, seed: int) -> tuple[float, float]:
    """Probability of a correct action and retained positive mass (F-GRPO Eq. 26) after some steps."""
    before = torch.softmax(initial_logits().double(), 0)[:CORRECT]
    after = torch.softmax(simulate(group_size, gamma, steps, seed)[0].double(), 0)[:CORRECT]
    lost = (before - after).clamp(min=0).sum()
    return after.sum().item(), (1 - lost / before.sum()).item()


def loop_seconds_all_cores(group_size: int, gamma: float, steps: int, seed: int) -> float:
    """Seconds of one seed's loop, torch's operations spread over every core."""
    torch.set_num_threads(os.cpu_count() or 1)
    return simulate(group_size, gamma, steps, seed)[1]


def loop_seconds_one_core(group_size: int, gamma: float, steps: int, seed: int) -> float:
    """Seconds of one seed's loop on one core, for a process a core."""
    torch.set_num_threads(1)
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
    threads = Processes(1).seconds_per_step(loop_seconds_all_cores, *choice[:3])
    processes = Processes(os.cpu_count() or 1).seconds_per_step(loop_seconds_one_core, *choice[:3])
    print(f"Q_pos {q_pos:.4f}  retained mass {retained:.4f}")
    print(f"{1e3 * threads:.3f} ms a seed-step in one process, {1e3 * processes:.3f} ms with a process a core")


if __name__ == "__main__":
    main()
