"""The effect of each registered estimator on unsampled-correct mass, to first order."""

import functools
from fractions import Fraction

from mpmath import mp, mpf

from paper_checks.claim import claim
from paper_checks.evidence import Evidence, number
from paper_checks.exact import binomial
from paper_checks.laboratory.weights import Weight
from simlab import theory
from simlab.estimators.registry import REGISTRY, estimator

GROUP_SIZE = 16
# F-GRPO App. J: how many actions have which logit, and whether they are correct.
CLASSES = ((1, 5, True), (9_999, 3, True), (118_000, 0, False))


def estimators_of_rewards():
    """The registered estimators that read rewards alone."""
    return sorted(name for name in REGISTRY if estimator(name).needs <= {"rewards"})


@functools.cache
def library_masses(name, group_size, **parameters):
    """m_S and m_F at every s, from the library's estimator."""
    table = theory.masses(name, group_size, **parameters)
    return tuple(zip(map(Fraction, table.success.tolist()), map(Fraction, table.failure.tolist()), strict=True))


def library_weight(name, group_size, **parameters):
    """A library's estimator as the advantages of the successes and of the failures in groups of one size."""
    of_group = library_masses(name, group_size, **parameters)
    return Weight(
        lambda s, G: of_group[s][0] * Fraction(G, s) if s else 0,
        lambda s, G: of_group[s][1] * Fraction(G, G - s) if s < G else 0,
    )


@functools.cache
def rare_action_factors():
    """App. J's policy: Q, then for each correct class its count, p, |p|^2 - p, and rho and nu of ``expected_by``."""
    total = mp.fsum(count * mp.exp(logit) for count, logit, _ in CLASSES)
    sizes = [(count, mp.exp(logit) / total, right) for count, logit, right in CLASSES]
    q_pos = mp.fsum(count * p for count, p, right in sizes if right)
    right_square = mp.fsum(count * p**2 for count, p, right in sizes if right)
    wrong_square = mp.fsum(count * p**2 for count, p, right in sizes if not right)
    return q_pos, [
        (
            count,
            p,
            right_square + wrong_square - p,
            (right_square - p**2) / (q_pos - p),
            wrong_square / (1 - q_pos),
        )
        for count, p, right in sizes
        if right
    ]


def relative_change(name):
    """E[dQ_upos] / (eta Q_pos) to first order at the start of App. J's simulation, G = 16."""
    q_pos, factors = rare_action_factors()
    chances = binomial(GROUP_SIZE, q_pos)
    total = mpf(0)
    for count, p, gap, rho, nu in factors:
        for s, chance in enumerate(chances):
            success, failure = (number(mass) for mass in library_masses(name, GROUP_SIZE)[s])
            total += (
                count * p * chance * (1 - p / q_pos) ** s * ((success - failure) * gap - success * rho + failure * nu)
            )
    return total / q_pos


@claim(
    "simlab:unsampled-mass-each-estimator",
    where="Beyond the papers, question 3",
    says="At the start of F-GRPO's own simulation (128,000 actions, G = 16) every registered estimator of rewards "
    "lowers the unsampled-correct mass in expectation, to first order, except the three that put more mass on failures "
    "than on successes by a constant factor (NSR, W-REINFORCE and A-GRAE's negative-dominant control) and BBG, which "
    "trains groups without a success alone.",
    refuted_by="another estimator whose expected change is positive, or one of the four whose change is not",
    reading="Plain gradient steps on rewards 0 and 1, default parameters, a batch of one group, by the formula of "
    "simlab:unsampled-mass-expected. The figures are per unit of learning rate, relative to Q_pos. F-GRPO asks the "
    "question; a search (2026-11) found no such survey of weights. "
    "It needs two levels of reward.",
    caveat="One policy, one group size, the first step, default parameters; with Adam, which F-GRPO's figure uses, the "
    "figures differ.",
    statement=frozenset({"nsr", "w_reinforce", "negative_dominant", "bbg"}),
    planted={
        "Focal weighting protects": frozenset({"nsr", "w_reinforce", "negative_dominant", "bbg", "f_grpo"}),
        "none raises it": frozenset(),
    },
)
def each_estimator(statement):
    """The expected change under every registered estimator of rewards, by classes of like actions."""
    changes = {name: relative_change(name) for name in estimators_of_rewards()}
    raising = {name for name, change in changes.items() if change > 0}
    listed = ", ".join(
        f"{name} {float(change):.2g}" for name, change in sorted(changes.items(), key=lambda item: item[1])
    )
    wrong = ", ".join(sorted(raising ^ statement))
    yield Evidence("numerical", not wrong, listed, f"differs for {wrong}" if wrong else "")
