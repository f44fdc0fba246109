"""Section 3.1 and Appendix D: how often a group is active and yet misses a rare correct target."""

from fractions import Fraction

import numpy as np
import sympy

from paper_checks.claim import claim
from paper_checks.evidence import Estimate, equals, grid
from paper_checks.exact import groups
from paper_checks.simulated import drawn, estimate

POINTS = grid(
    lambda G, mu, tau: tau <= mu,
    G=[1, 2, 3, 5, 8],
    mu=[Fraction(0), Fraction(1, 4), Fraction(1, 2), Fraction(9, 10), Fraction(1)],
    tau=[Fraction(0), Fraction(1, 8), Fraction(1, 2), Fraction(1)],
)


def regions(mu, tau):
    """Target, other correct, incorrect."""
    return (tau, mu - tau, 1 - mu)


def enumerated_tail_miss(G, mu, tau):
    """Over all groups of three kinds of rollouts: no target, some other correct, some incorrect."""
    return sum(
        chance
        for chance, (target, other, wrong) in groups(regions(mu, tau), G)
        if target == 0 and other > 0 and wrong > 0
    )


def derived_tail_miss(G, mu, tau):
    """The coefficient of the generating function (other + wrong)^G left by its two pure terms."""
    other, wrong = sympy.symbols("other wrong")
    mixed = sympy.expand((other + wrong) ** G) - other**G - wrong**G
    return mixed.subs({other: mu - tau, wrong: 1 - mu})


def sampled_tail_miss(G, mu, tau) -> Estimate:
    """The share of drawn groups without the target and with both other kinds."""
    kinds = drawn(regions(mu, tau), G)
    return estimate(np.all(kinds > 0, axis=1) & np.any(kinds == 1, axis=1) & np.any(kinds == 2, axis=1))


@claim(
    "f-grpo:lemma-3.1",
    where="Section 3.1, Lemma 3.1; Appendix D",
    says="A group of G rollouts is active and misses a target of mass tau, inside correct mass mu, with probability "
    "(1 - tau)^G - (mu - tau)^G - (1 - mu)^G.",
    formula=r"\Pr(\mathcal{A}_G \cap \mathcal{M}_G) = (1-\tau)^G - (\mu-\tau)^G - (1-\mu)^G",
    refuted_by="one (G, mu, tau) at which the summed probability of all such groups differs",
    reading="Any G >= 1 and 0 <= tau <= mu <= 1, as the lemma says. At G = 1 a group is never active and the formula "
    "gives 0; reading 'active' as 'has a non-zero advantage' changes nothing for binary rewards.",
    statement=lambda G, mu, tau: (1 - tau) ** G - (mu - tau) ** G - (1 - mu) ** G,
    planted={
        "a sign": lambda G, mu, tau: (1 - tau) ** G - (mu - tau) ** G + (1 - mu) ** G,
        "an exponent": lambda G, mu, tau: (1 - tau) ** G - (mu - tau) ** (G - 1) - (1 - mu) ** G,
    },
)
def tail_miss(statement):
    """Enumerate the groups of three kinds of rollouts, expand the generating function, and draw groups."""
    mu, tau = sympy.symbols("mu tau", positive=True)
    yield from equals(
        statement,
        POINTS,
        derived=derived_tail_miss,
        enumerated=enumerated_tail_miss,
        symbolic_points=[{"G": size, "mu": mu, "tau": tau} for size in range(1, 5)],
        sampled=sampled_tail_miss,
        sampled_points=[
            {"G": 4, "mu": Fraction(1, 2), "tau": Fraction(1, 8)},
            {"G": 4, "mu": Fraction(9, 10), "tau": Fraction(1, 100)},
        ],
    )
