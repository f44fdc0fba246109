"""Simulate the panel of pass@k: a bank of prompts of mixed difficulty, and how many lose their rare modes."""

from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float

from simlab.explore.block import Block, Recorded, Say
from simlab.explore.moments import moments, record_steps
from simlab.explore.shapes import SEEDS
from simlab.explore.weights import arm_text
from simlab.problems.exact import correct_mass, pass_at_k
from simlab.problems.prompt_bank import prompt_bank
from simlab.simulator.checks import check
from simlab.simulator.metrics import POLICY, JointView, Metric
from simlab.simulator.settings import Settings

Given = dict[str, Any]  # the settings of the panel, by their names there

RECORDS = 20
KS = (1, 4, 16, 64, 256, 1024, 4096)
BINS = 20  # of the histogram of solve rates
MARGIN = 1e-6  # solve rates are moved into [margin, 1 - margin]
LOST = 0.1  # of what the base model gave its rare modes: a prompt with less has lost them
OF_THE_BANK = ("prompts", "beta_a", "beta_b", "second_share", "second_a", "second_b", "modes", "rare_ratio")


def _rare_rates(whole: JointView) -> Float[Array, " P"]:
    learner = whole.learner
    policies = learner.policies_at(whole.state.parameters, whole.state.slots)
    rates: Float[Array, " P"] = jax.vmap(lambda policy, target: correct_mass(policy.shares, target, policy.sum))(
        policies, learner.target
    )
    return rates


OF_A_BANK = Recorded(
    ("q_pos",),
    (
        Metric("solve_rates", "solve rate", POLICY, lambda whole: whole.each["q_pos"], ("prompt",), joint=True),
        Metric("rare_rates", "probability of a rare mode", POLICY, _rare_rates, ("prompt",), joint=True),
    ),
)


def bank_block(given: Given) -> Block:
    """The seeds of the panel."""
    settings = Settings(
        f"{arm_text(given['weight'])}+reinforce",
        given["group_size"],
        given["optimizer"],
        {"learning_rate": given["learning_rate"]},
        storage="dense",
    )
    rare = min(given["rare_modes"], given["modes"] - 1)
    bank = prompt_bank(rare_modes=rare, margin=MARGIN, **{name: given[name] for name in OF_THE_BANK}).listed()
    check(bank, settings)
    return Block(bank, settings, record_steps(given["steps"], RECORDS), OF_A_BANK)


def simulate_bank(given: Given, first: int, say: Say) -> dict[str, Any]:
    """A block of seeds from ``first`` up.

    Returns:
        ``step`` (R + 1,), the number of ``seeds``, ``k``, and ``metrics``, as of ``simulate_policy``: ``pass_at_K`` and
        ``rare_at_K``, means over prompts of any correct answer and of a rare mode in K samples; ``share_I``, the share
        of prompts whose solve rate is in bin I of ``BINS``; ``lost``, of those whose rare modes have less than ``LOST``
        of what the base model gave them.
    """
    block = bank_block(given)
    rows = block.rows(first, say)
    solved, rare = (np.clip(rows[name].astype(np.float64), 0, 1) for name in ("solve_rates", "rare_rates"))
    metrics = {f"pass_at_{k}": moments(pass_at_k(solved, k).mean(axis=-1)) for k in KS}
    metrics |= {f"rare_at_{k}": moments(pass_at_k(rare, k).mean(axis=-1)) for k in KS}
    bins = np.minimum((solved * BINS).astype(int), BINS - 1)
    metrics |= {f"share_{place}": moments((bins == place).mean(axis=-1)) for place in range(BINS)}
    metrics["lost"] = moments((rare < LOST * rare[:, :1]).mean(axis=-1))
    return {"step": [0, *block.steps.tolist()], "seeds": SEEDS, "k": KS, "metrics": metrics}
