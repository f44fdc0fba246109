"""Tell which registered estimators are one function on rewards 0 and 1, up to a factor of each group, as a table.

``python -m figures.league --alike`` prints it. Who is whom is computed (``simlab.theory.clock``), as are the numbers;
the formulas of ``FACTORS`` are held to them by a test.
"""

import functools
from typing import Any, NamedTuple

import numpy as np

from simlab.estimators import REGISTRY, estimator
from simlab.rollouts import Rollouts
from simlab.theory import Clock
from simlab.theory.likeness import advantages_in_turn, between, three_batches

GROUP_SIZE = 8
SIZES = range(2, GROUP_SIZE + 1)
SHOWN = (1, 4, 7)  # successes
LENGTHS = 3  # the most tokens of a rollout, where lengths differ
SHARES = [f"at p = {count}/{GROUP_SIZE}" for count in SHOWN]
HEADS = ("estimator", "is", "times", "which is fixed by", *SHARES, "a constant at G", "only at")

# At the defaults, without eps. F = G q failures, k = 4 or G, R = 1 - C(F, k) / C(G, k), C binomial coefficients,
# w = C(F + 15, 15) / C(G + 15, 15).
FACTORS = {
    "grpo": "1 / sqrt(p * q)",
    "rloo": "G / (G - 1)",
    "skew_r": "sqrt(p * q)",
    "power_norm": "1 / sqrt(p * q)",
    "maxrl": "1 / p",
    "power_alpha": "q",
    "easy_power": "p",
    "f_grpo": "sqrt(q / p)",
    "reject_easy": "(p <= 1/2) / sqrt(p * q)",
    "hard_focused": "1 / (2 * p * sqrt(q))",
    "easy_focused": "1 / (2 * q * sqrt(p))",
    "asym_grpo": "1",
    "softmax": "(e - 1) / (G * (q + e * p))",
    "rs_grpo": "(e^2 - 1) / (2 * (q + e^2 * p))",
    "opo": "1",
    "t2t": "1 / sqrt(p * q)",
    "pass_at_k_chen": "sqrt((1 - R) / R) / q",
    "mix": "p * sqrt((1 - R) / R) / q + sqrt(q / p)",
    "relu": "q",
    "psr": "1",
    "pass_at_k_tang": "(p = 1/G)",
    "pkpo": "k * C(F, k - 1) / C(G - 1, k - 1)",
    "mc_grpo": "1",
    "bbg": "(w >= (G + 16) / 1600) * w",
}
OF_BATCHES = {
    "reinforce_pp_baseline": "1 / std(r - mean(r))",
    "gpg": "P / P_mixed",
    "bnpo": "1 / f(p), f fitted",
    "curve_rl": "f(p) / F(p)",
}
# Estimators of rewards in parts and of roles are not compared; ``linked`` is many.
COMPARED = [name for name in REGISTRY if name != "linked" and not estimator(name).needs & {"parts", "role"}]
FIXED_BY = {"nothing": "", "p": "p", "batch": "the batch"}


class Member(NamedTuple):
    """An estimator of a family, the factor by which it is the first one, and what that needs."""

    name: str
    clock: Clock
    constant_at: list[int]
    equal_lengths: bool


@functools.cache
def batches(size: int, lengths: int = 1) -> list[Rollouts]:
    """Return the batches on which estimators are compared."""
    return three_batches(size, lengths)


@functools.cache
def advantages_of(name: str, size: int, lengths: int = 1) -> list[np.ndarray]:
    """The advantages of a registered estimator."""
    return advantages_in_turn(estimator(name), batches(size, lengths))


def relation(name: str, first: str, size: int = GROUP_SIZE, lengths: int = 1) -> Clock | None:
    """Return the factor of each group by which one estimator is another."""
    return between(batches(size, lengths), advantages_of(name, size, lengths), advantages_of(first, size, lengths))


def remembers(name: str) -> bool:
    """Return True if an estimator remembers earlier batches."""

    def holds(state: Any) -> bool:
        return any(map(holds, state)) if isinstance(state, tuple) else True

    return holds(estimator(name).init())


def families() -> dict[str, list[Member]]:
    """The estimators without memory, each listed under the first one of which it is a clock."""
    known: dict[str, list[Member]] = {}
    for name in COMPARED:
        if remembers(name):
            continue
        first = next((other for other in known if relation(name, other)), None)
        if first is None:
            known[name] = []
        else:
            known[first].append(member(name, first))
    return known


def member(name: str, first: str) -> Member:
    """Return the factor between an estimator and the first of its family, and what it needs."""
    factor = relation(name, first)
    assert factor is not None
    sizes = SIZES if factor.depends_on != "batch" else ()  # small batches of all groups differ in too little
    others = {size: relation(name, first, size) for size in sizes}
    constant_at = [size for size, other in others.items() if other is not None and other.depends_on == "nothing"]
    return Member(name, factor, constant_at, relation(name, first, lengths=LENGTHS) is None)


def row(first: str, entry: Member) -> str:
    """A line of the table."""
    formula = (FACTORS | OF_BATCHES)[entry.name].replace(" * ", " ")
    values = [f"{entry.clock.factors[count]:.3f}" for count in SHOWN]
    sizes = "every one" if entry.constant_at == list(SIZES) else ", ".join(map(str, entry.constant_at)) or "none"
    lengths = "equal lengths" if entry.equal_lengths else ""
    cells = (f"`{entry.name}`", f"`{first}`", formula, FIXED_BY[entry.clock.depends_on], *values, sizes, lengths)
    return f"| {' | '.join(cells)} |"


def table() -> str:
    """List the estimators that are others times a factor of each group, and those that are no other's."""
    known = families()
    lines = [f"| {' | '.join(HEADS)} |", f"|---|---|---|---|{'---:|' * len(SHOWN)}---|---|"]
    lines += [row(first, entry) for first, members in known.items() for entry in members]
    alone = [first for first, members in known.items() if not members]
    of_rewards = [name for name in alone if estimator(name).needs == {"rewards"}]
    of_tokens = [name for name in alone if name not in of_rewards]
    with_memory = [name for name in COMPARED if remembers(name)]
    return "\n".join(
        [
            *lines,
            "",
            f"- Nobody's clock, of rewards and lengths alone: {listed(of_rewards)}.",
            f"- Nobody's clock, as they read log-probabilities, entropies or the greedy answer: {listed(of_tokens)}.",
            f"- Not compared, as they remember earlier batches: {listed(with_memory)}.",
        ]
    )


def listed(names: list[str]) -> str:
    """Names as code, with commas between."""
    return ", ".join(f"`{name}`" for name in names)
