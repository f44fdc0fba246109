"""Section 5.1, Figure 2: the three regimes, in a smaller simulation, and the claims that need the authors' runs."""

import functools
from typing import NamedTuple

import numpy as np

from paper_checks.claim import claim, undecided
from paper_checks.evidence import satisfies

ACTIONS, CORRECT, STEPS, SEEDS = 1280, 100, 1000, 3
SETTINGS = ((2, 0.0), (32, 0.0), (2048, 0.0), (32, 1.0))


class Outcome(NamedTuple):
    """Of one seed: the correct mass and the retained mass at the end, and the correct mass at the start."""

    correct: np.ndarray
    retained: np.ndarray
    start: float


@functools.cache
def simulated(group_size: int, gamma: float) -> Outcome:
    """Appendix J at a hundredth of its size: Adam at 0.01 on centred rewards times the focal weight, ratio form."""
    generator = np.random.default_rng(group_size)
    correct = np.arange(ACTIONS) < CORRECT
    logits = np.tile(np.where(correct, 3.0, 0.0), (SEEDS, 1))
    logits[:, 0] = 5.0
    first, second = np.zeros_like(logits), np.zeros_like(logits)

    def policy():
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        return weights / weights.sum(axis=1, keepdims=True)

    before = policy()
    for step in range(1, STEPS + 1):
        counts = generator.multinomial(group_size, policy())
        solved = counts[:, correct].sum(axis=1, keepdims=True) / group_size
        advantages = np.where(correct, 2 * (1 - solved), -2 * solved) * (1 - solved) ** gamma
        gradient = counts * advantages / group_size
        first += 0.1 * (gradient - first)
        second += 0.001 * (gradient**2 - second)
        logits += 0.01 * first / (1 - 0.9**step) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
    initial, final = before[:, correct], policy()[:, correct]
    kept = np.minimum(initial, final).sum(axis=1) / initial.sum(axis=1)
    return Outcome(final.sum(axis=1), kept, float(initial[0].sum()))


@claim(
    "f-grpo:fig-2",
    where="Section 5.1, Figure 2",
    says="Q_pos grows at every group size, but retained mass is non-monotonic: kept at small and at large G, lost in "
    "between.",
    refuted_by="a group size at which Q_pos falls, or retained mass that is not lowest in the middle",
    reading="Decided for 1,280 actions, 100 correct, 3 seeds, with Adam on the ratio form: the paper states neither "
    "the optimiser nor the form, and says itself that the boundaries depend on the initial distribution. The full "
    "size is in figures/README and agrees. With the objective as printed (no ratio) it fails there: large groups "
    "collapse.",
    statement=lambda small, middle, large: (
        all(outcome.correct.min() > outcome.start for outcome in (small, middle, large))
        and middle.retained.max() < min(small.retained.min(), large.retained.min())
    ),
    planted={
        "retained mass grows with G": lambda small, middle, large: (
            small.retained.min() < middle.retained.min() < large.retained.min()
        )
    },
)
def figure_2(statement):
    """Simulate G = 2, 32 and 2048, gamma 0: every seed of the middle against every other."""
    yield from satisfies(
        lambda value, **_: bool(statement(*value)),
        [{"actions": ACTIONS}],
        lambda actions: [simulated(group_size, 0.0) for group_size in (2, 32, 2048)],
        method="Monte Carlo",
    )


@claim(
    "f-grpo:fig-2-gamma",
    where="Section 5.1, Figure 2, dashed lines",
    says="The focal weight improves retention in the concentration zone.",
    refuted_by="retained mass at gamma 1 not above that at gamma 0, at a group size inside the zone",
    reading="At 1000 steps, G = 32 in the smaller simulation. It delays the loss; whether it avoids it 1000 steps do "
    "not say. At G = 2 it does nothing, since every active group has the same weight and Adam does not see a constant.",
    statement=lambda plain, focal: focal.retained.min() > plain.retained.max(),
    planted={"it keeps nearly all": lambda plain, focal: focal.retained.min() > 0.9},
)
def figure_2_gamma(statement):
    """Simulate G = 32 with gamma 0 and 1: every seed against every other."""
    yield from satisfies(
        lambda value, **_: bool(statement(*value)),
        [{"G": 32}],
        lambda G: [simulated(G, gamma) for gamma in (0.0, 1.0)],
        method="Monte Carlo",
    )


undecided(
    "f-grpo:app-j-only-configuration",
    where="Section 5.1 and Appendix J",
    says="G = 131072 is the only configuration that keeps retained mass above the stated level throughout training.",
    needs="The level, which the stored text has lost, and the authors' curves. In this project's runs at full size "
    "the lowest retained mass at gamma 0 is 0.986 at G = 131072 but 0.995 at G = 2, so that no level singles out G = "
    "131072.",
    reading="'Only' among all group sizes of the sweep. On the reading 'only among those whose Q_pos comes near one' "
    "it agrees with those runs.",
)

undecided(
    "f-grpo:app-j-entropy",
    where="Appendix J, choice of the learning rate",
    says="At BroRL's learning rate the policy's entropy after 1000 steps stays far above that of LLMs, at 1e-2 not.",
    needs="The printed bounds, lost in the stored text, the optimiser, and runs at 128,000 actions.",
    reading="Initial entropy is 10.78 nats.",
)

undecided(
    "f-grpo:table-1",
    where="Table 1, Sections 5.5 and 7",
    says="Focal weighting raises average math and OOD pass@256 for three methods and three models.",
    needs="Nine pairs of training runs on 16 H100 GPUs, with seeds: the paper has one run for each cell.",
    reading="That the printed table says so is checked in f-grpo:sec-5.5-nine-of-nine.",
)

undecided(
    "f-grpo:table-2-regimes",
    where="Section 5.4, Table 2",
    says="In LLM training pass@256 is lowest at intermediate group sizes.",
    needs="Training runs of Qwen2.5-7B at G = 2 to 32, repeated over seeds.",
    reading="That the printed table has this shape is checked in f-grpo:sec-5.4-shape.",
)

undecided(
    "f-grpo:fig-6-maze",
    where="Section 5.2, Figures 6 and 7",
    says="F-GRPO reduces the early drop of pass@k in the single-solution maze and improves its final values.",
    needs="20,000 RL steps at 256 x G rollouts for each of 18 settings, and the SFT checkpoint.",
    reading="What 'single-solution' takes is decided in f-grpo:sec-5.2-single-solution; the ranges quoted from Table 4 "
    "in f-grpo:sec-5.2-maze-ranges.",
)
