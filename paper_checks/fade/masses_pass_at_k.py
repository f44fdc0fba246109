"""Appendix 8.4.1: the pass@k weight of Tang et al., and PKPO."""

import itertools
from fractions import Fraction
from math import comb

import sympy

from paper_checks.claim import claim
from paper_checks.evidence import equals, grid, satisfies
from paper_checks.exact import binomial
from paper_checks.fade.masses_common import (
    HALF,
    P,
    agrees_with_simlab,
    enumerated,
    mixed,
    rollouts,
    solve_rates,
)
from paper_checks.simulated import estimate, simulated_step


def tang(reward, batch):
    """max(r) - max(r without i)."""
    return batch.best - batch.without(reward).best


def subsets_with(reward, batch, k):
    """All k-subsets of a listed batch that hold its first rollout of this reward, as lists of rewards."""
    first = batch.rewards.index(reward)
    others = [r for index, r in enumerate(batch.rewards) if index != first]
    return [[reward, *chosen] for chosen in itertools.combinations(others, k - 1)]


def pkpo(reward, batch, k):
    """G / C(G, k) times the sum over the k-subsets with the rollout of their best less their best without it."""
    gains = [max(chosen) - max(chosen[1:], default=0) for chosen in subsets_with(reward, batch, k)]
    return Fraction(batch.size * sum(gains), comb(batch.size, k))


K_POINTS = solve_rates([1, 2, 3, 4, 5, 6], lambda G, k, **_: k <= G, k=[1, 2, 3, 4])


@claim(
    "fade:pass-at-k-tang",
    where="Appendix 8.4.1",
    says="Over groups of k, Tang's max(r) - max(r without i) has the masses k p q^(k - 1) on successes and 0 on "
    "failures, p the true solve rate.",
    formula=r"\mathbb{E}[\nabla] = kpq^{k-1}\,m_S - 0\cdot m_F",
    refuted_by="a p and k at which the expected sums of the advantages over the group differ",
    reading="The expected sum over the group, as the derivation says. On the reading of Eq. 3, a mean over the group, "
    "it would fail, k times too large (fade:masses-normalisation). So it would with p the group's own share, on which "
    "Section 2.2 says that masses depend: 1 in a group with one success, else 0. The lone rollout of a group of one "
    "gets its reward.",
    identity=True,
    statement=lambda p, k: (k * p * (1 - p) ** (k - 1), 0),
    planted={
        "exponent": lambda p, k: (k * p * (1 - p) ** k, 0),
        "at least one": lambda p, k: (1 - (1 - p) ** k, 0),
        "mean": lambda p, k: (p * (1 - p) ** (k - 1), 0),
    },
)
def tang_expected(statement):
    """All numbers of successes, weighed by their probability; and the simulator's first step, over 20,000 seeds."""

    def over_all_groups(p, k):
        chances = list(enumerate(binomial(k, p)))
        return tuple(
            k * sum(chance * enumerated(tang)(Fraction(s, k), k)[side] for s, chance in chances) for side in (0, 1)
        )

    def change_of_logit(masses):
        # The logit of the correct action of two, at learning rate 1; the simulator takes the mean over the group
        return lambda p, k: (masses(p, k)[0] * (1 - p) + masses(p, k)[1] * p) / k

    def step(p, k):
        change = simulated_step((float(p), float(1 - p)), (True, False), k, "pass_at_k_tang").logit_change[:, 0]
        return estimate(change)

    rates = [Fraction(1, 8), Fraction(1, 4), HALF, Fraction(9, 10)]
    yield from equals(statement, grid(k=[1, 2, 3, 5, 8], p=rates), enumerated=over_all_groups)
    simulated = [{"p": Fraction(1, 4), "k": 4}]
    yield from equals(
        change_of_logit(statement),
        simulated,
        enumerated=change_of_logit(over_all_groups),
        sampled=step,
        sampled_points=simulated,
    )


@claim(
    "fade:pass-at-k-tang-advantage",
    where="Appendix 8.4.1",
    says="Tang's advantage is 1 for a lone success and 0 for every other rollout.",
    formula=r"A_i = \mathbf{1}[\text{sample } i \text{ is the only success}]",
    refuted_by="a group with another advantage",
    reading="The best of no rollouts is 0, which matters for a group of one alone.",
    identity=True,
    statement=lambda p, G: (int(p * G == 1), 0),
    planted={"any success": lambda p, G: (int(p > 0), 0), "best of failures": lambda p, G: (int(p * G == 1), 1)},
)
def tang_advantage(statement):
    """The definition for a success and a failure of every group that holds both; and our estimator's masses."""
    agrees_with_simlab(enumerated(tang), "pass_at_k_tang", solve_rates([1, 2, 3, 4, 8]), {})
    yield from equals(
        statement,
        solve_rates([2, 3, 4, 8], mixed),
        enumerated=lambda p, G: tuple(tang(r, rollouts(p, G)) for r in (1, 0)),
    )


@claim(
    "fade:pass-at-k-tang-silence",
    where="Appendix 8.4.1",
    says="Tang's gradient is zero in most groups.",
    refuted_by="a p and a k of three or more at which half of the groups or more have exactly one success",
    reading="Most: more than half, at every solve rate, from k = 3 on; the paper's example of Tang's weight is pass@8.",
    caveat="At k = 2 and p = 1/2 it is just half of the groups, and at k = 1, where pass@k is pass@1, fewer for p > "
    "1/2.",
    statement=lambda silent, k, **_: silent > HALF if k > 2 else None,
    planted={
        "nine tenths": lambda silent, **_: silent >= Fraction(9, 10),
        "for pairs too": lambda silent, **_: silent > HALF,
    },
)
def tang_silence(statement):
    """The probability of the groups whose advantages are all 0."""

    def silent(k, p):
        return sum(chance for s, chance in enumerate(binomial(k, p)) if enumerated(tang)(Fraction(s, k), k) == (0, 0))

    yield from satisfies(statement, grid(k=[2, 3, 4, 8, 16], p=[Fraction(n, 16) for n in range(17)]), silent)


@claim(
    "fade:pkpo",
    where="Section 6, pass@k reweighting; Table 1 (body lost)",
    says="PKPO's unbiased pass@k weight puts the mass k p q^(k - 1) on successes in expectation, and 0 on failures: "
    "the gradient of 1 - (1 - p)^k.",
    refuted_by="a p, G and k at which the expected mass differs",
    reading="The variant whose baseline is the best of each subset without the rollout. The stored text cites PKPO "
    "(Walder and Karkhanis) without a formula; this is what that work says of it. Unlike Tang's k p q^(k - 1), this "
    "is a mean over the group.",
    inferred=True,
    identity=True,
    statement=lambda p, G, k: (k * p * (1 - p) ** (k - 1), 0),
    planted={
        "Tang's mean": lambda p, G, k: (p * (1 - p) ** (k - 1), 0),
        "pass@(k+1)": lambda p, G, k: ((k + 1) * p * (1 - p) ** k, 0),
    },
)
def pkpo_expected(statement):
    """All k-subsets of all groups, weighed by their probability; the derivative of pass@k times p."""

    def of_gradient(p, G, k):
        # grad p = p (mean score of the successes), for any parametrisation
        slope = sympy.diff(1 - (1 - P) ** k, P)
        return slope.subs(P, sympy.Rational(p.numerator, p.denominator)) * sympy.Rational(p.numerator, p.denominator), 0

    def over_all_groups(p, G, k):
        pairs = [(chance, enumerated(pkpo)(Fraction(s, G), G, k=k)) for s, chance in enumerate(binomial(G, p))]
        return tuple(sum(chance * pair[side] for chance, pair in pairs) for side in (0, 1))

    agrees_with_simlab(enumerated(pkpo), "pkpo", K_POINTS, {"baseline": "leave_one_out"})
    points = grid(lambda G, k, p: k <= G, G=[1, 2, 3, 5], k=[1, 2, 3], p=[Fraction(1, 4), HALF, Fraction(9, 10)])
    yield from equals(statement, points, derived=of_gradient, enumerated=over_all_groups)
