"""Section 2.2, Appendices 8.1, 8.3 and 8.8: weights that centre the reward by its mean and scale it."""

from fractions import Fraction

import sympy

from paper_checks.claim import COSMETIC, Amended, claim
from paper_checks.evidence import equals, grid, proved
from paper_checks.exact import binomial
from paper_checks.fade.masses_common import (
    HALF,
    SIZE,
    P,
    balanced,
    enumerated,
    mixed,
    power,
    ratio,
    rollouts,
    root,
    solve_rates,
    two_outcomes,
    weighs,
)

SIZES = [1, 2, 3, 4, 5, 8]
SYMBOLIC = [{"p": P, "G": SIZE}]
PER_ROLLOUT = (
    "Masses of Eq. 3, m = w p, a mean over the group; the appendix prints the sum over the batch, B times that, "
    "see fade:masses-normalisation."
)


def mean_grpo(reward, batch):
    """r - mean(r)."""
    return reward - batch.mean


def grpo(reward, batch):
    """(r - mean(r)) / std(r)."""
    return ratio(reward - batch.mean, batch.std)


def rloo(reward, batch):
    """r - the mean of the other rollouts; nothing is subtracted from a group of one that is not its own reward."""
    return reward - batch.without(reward).mean if batch.size != 1 else Fraction(0)


def skew_r(reward, batch):
    """std(r) (r - mean(r))."""
    return batch.std * (reward - batch.mean)


def maxrl(reward, batch):
    """(r - mean(r)) / mean(r)."""
    return ratio(reward - batch.mean, batch.mean)


def power_norm(reward, batch, gamma):
    """(r - m) / [m (1 - m)]^gamma."""
    return ratio(reward - batch.mean, power(batch.mean * (1 - batch.mean), gamma))


def dr_grpo_masses(p, **_):
    """p q."""
    return balanced(p * (1 - p))


def grpo_masses(p, **_):
    """sqrt(p q)."""
    return balanced(root(p * (1 - p)))


@claim(
    "fade:dr-grpo",
    where="Section 2.2, Eqs. 4-6",
    says="Mean GRPO, r - mean(r), puts the mass p (1 - p) on successes and on failures.",
    formula=r"\nabla_{\mathrm{GRPO}} = G p(1-p)[\bar\nabla_S - \bar\nabla_F]",
    refuted_by="one group whose mean of the advantages over its successes, or its failures, differs",
    reading=f"p is the group's own share of successes; with the true solve rate see fade:eq-6-true-rate. {PER_ROLLOUT}",
    identity=True,
    statement=dr_grpo_masses,
    planted={"sqrt": grpo_masses, "one side": lambda p, **_: (p * (1 - p), p)},
)
def dr_grpo(statement):
    """The definition on the two outcomes, in p; on every group of up to 8; and our estimator."""
    yield from weighs(statement, mean_grpo, solve_rates(SIZES), symbolic_points=SYMBOLIC, simlab="dr_grpo")


@claim(
    "fade:grpo-std",
    where="Appendix 8.1",
    says="For binary rewards the standard deviation of a batch is sqrt(p (1 - p)), at any size.",
    formula=r"\sigma_r = \sqrt{\hat p(1-\hat p)}",
    refuted_by="a batch with another root mean squared deviation",
    reading="The population std, 1/B, that the appendix defines. With the sample std of the common implementations it "
    "is sqrt(p (1 - p) B / (B - 1)) and the statement fails at every B.",
    identity=True,
    statement=lambda p, **_: root(p * (1 - p)),
    planted={"sample std": lambda p, G: root(ratio(p * (1 - p) * G, G - 1))},
)
def grpo_std(statement):
    """The root mean squared deviation, in p and of every group."""
    yield from equals(
        statement,
        solve_rates(SIZES),
        derived=lambda p, G: two_outcomes(p, G).std,
        enumerated=lambda p, G: rollouts(p, G).std,
        symbolic_points=SYMBOLIC,
    )


@claim(
    "fade:grpo-masses",
    where="Appendix 8.1",
    says="GRPO, (r - mean(r)) / std(r), puts the mass sqrt(p (1 - p)) on both outcomes: it is sign-balanced.",
    formula=r"m_S = m_F = Bpq/\sigma_r = B\sqrt{pq}",
    refuted_by="one group whose masses differ",
    reading=f"{PER_ROLLOUT} At p 0 and 1 the weight is 0/0; there the mass is taken as the printed 0, no update.",
    identity=True,
    statement=grpo_masses,
    planted={"no std": dr_grpo_masses, "inverse": lambda p, **_: balanced(ratio(p, root(p * (1 - p))))},
)
def grpo_of_group(statement):
    """Compare masses as for mean GRPO."""
    settings = {"eps": 0.0, "ddof": 0}
    yield from weighs(statement, grpo, solve_rates(SIZES), symbolic_points=SYMBOLIC, simlab="grpo", settings=settings)


@claim(
    "fade:grpo-advantages",
    where="Appendix 8.1",
    says="GRPO gives a success sqrt(q/p) and a failure -sqrt(p/q).",
    formula=r"A_s = \sqrt{q/p},\quad A_f = -\sqrt{p/q}",
    refuted_by="a mixed group with other advantages",
    reading="Mixed groups; else an outcome is absent.",
    identity=True,
    statement=lambda p, **_: (root(ratio(1 - p, p)), -root(ratio(p, 1 - p))),
    planted={"swapped": lambda p, **_: (root(ratio(p, 1 - p)), -root(ratio(1 - p, p)))},
)
def grpo_advantages(statement):
    """The definition, for each outcome of each mixed group and in p."""
    yield from equals(
        statement,
        solve_rates(SIZES, mixed),
        derived=lambda p, G: tuple(grpo(r, two_outcomes(p, G)) for r in (1, 0)),
        enumerated=lambda p, G: tuple(grpo(r, rollouts(p, G)) for r in (1, 0)),
    )


def expected_mass(weight, p, G):
    """E[m_S] over groups of G that succeed with probability p."""
    chances = binomial(G, p)
    return sum(chance * enumerated(weight)(Fraction(s, G), G)[0] for s, chance in enumerate(chances))


TRUE_RATES = [Fraction(1, 4), HALF, Fraction(9, 10)]


@claim(
    "fade:grpo-expected-mass",
    where="Appendix 8.1, 'in expectation'",
    says="With |S| = Bp and |F| = Bq in expectation, GRPO's mass is sqrt(p (1 - p)).",
    formula=r"|S| = Bp,\ |F| = Bq \text{ in expectation}: \nabla_{\mathrm{GRPO}} = B\sqrt{pq}[m_S - m_F]",
    refuted_by="a p and B at which the mass, or its expectation, differs",
    reading="'true rate': p is the policy's, |S| is Bp in expectation only, and the mean mass over groups is the sum "
    "over s of C(B, s) p^s q^(B - s) sqrt(s (B - s)) / B, which is less: p q at B = 2. 'group's share': p is the "
    "group's own, as Section 2.1 drops the bar; then |S| = Bp is exact and 'in expectation' should go. As B grows, "
    "the two agree.",
    severity=COSMETIC,
    same_error_as="fade:eq-3-unbiased",
    met="yes: Section 2.1 lets p stand for the group's own share",
    statement=lambda p, G, kind: root(p * (1 - p)),
    condition=Amended(
        "p is the group's own share of successes",
        lambda p, G, kind: root(p * (1 - p)) if kind == "group's share" else None,
    ),
    planted={
        "mean GRPO's": lambda p, G, kind: p * (1 - p) if kind == "group's share" else None,
        "expected at B = 2": lambda p, G, kind: p * (1 - p) if kind == "true rate" else None,
    },
)
def grpo_expected_mass(statement):
    """The mass of every group, and its mean over all numbers of successes, weighed by their probability."""

    def mass(p, G, kind):
        return enumerated(grpo)(p, G)[0] if kind == "group's share" else expected_mass(grpo, p, G)

    points = [
        *grid(G=[2, 3, 4, 8], p=TRUE_RATES, kind=["true rate"]),
        *solve_rates([2, 3, 4, 8], kind=["group's share"]),
    ]
    yield from equals(statement, points, enumerated=mass)


@claim(
    "fade:app-8-2-exploding",
    where="Appendix 8.2, first sentence",
    says="The factor 1 / std of GRPO is unstable, as it can lead to exploding or noisy gradient updates.",
    refuted_by="a bound on the factor, whatever the group",
    reading="Binary rewards, as throughout. 'Can': in groups of one success or one failure the factor is G / sqrt(G - "
    "1), which has no bound as G grows, and so is what it makes of a rollout's weight, sqrt(G - 1). Noise is not "
    "tested: the sentence says 'or'.",
    caveat="The update of a group stays bounded: the mean of |A| is 2 sqrt(p (1 - p)), at most 1, and the mass 1/2.",
    statement=lambda G: G / root(G - 1),
    planted={"at most 2": lambda G: 2, "as mean GRPO": lambda G: Fraction(1)},
)
def exploding(statement):
    """The largest factor between GRPO's advantages and r - mean in a group of G; its limit."""

    def largest(G):
        rates = [Fraction(s, G) for s in range(1, G)]
        return max(ratio(grpo(1, rollouts(p, G)), mean_grpo(1, rollouts(p, G))) for p in rates)

    yield from equals(statement, [{"G": G} for G in (2, 4, 8, 16, 64)], enumerated=largest)
    limit = sympy.limit(statement(SIZE), SIZE, sympy.oo)
    yield proved(limit == sympy.oo, f"the factor tends to {limit} as G grows")


@claim(
    "fade:rloo",
    where="Section 6, 'batch-average baselines'; Table 1 (body lost)",
    says="RLOO, r less the mean of the other rollouts, puts the mass p q G / (G - 1) on both outcomes.",
    refuted_by="one group whose masses differ",
    reading="The stored text lacks the table's body, and names no leave-one-out baseline; it cites works that have one "
    "(Kool et al., 2019; Ahmadian et al., 2024), and the definition is theirs. Mean GRPO's mass, p q, is short of it "
    "by (G - 1) / G in a group, and its average over groups of a true rate p.",
    inferred=True,
    identity=True,
    statement=lambda p, G: balanced(p * (1 - p) * G / (G - 1)),
    planted={"mean GRPO's": dr_grpo_masses},
)
def rloo_of_group(statement):
    """Compare masses as for mean GRPO, for groups of two and more."""
    yield from weighs(statement, rloo, solve_rates(SIZES[1:]), symbolic_points=SYMBOLIC, simlab="rloo")


@claim(
    "fade:skew-r",
    where="Appendix 8.1",
    says="Skew-R puts the mass p q sqrt(p q) on both outcomes, the product of GRPO's and mean GRPO's.",
    formula=r"m_S = m_F = pq \times \sqrt{pq}",
    refuted_by="one group whose masses differ",
    reading="The weight std(r) (r - mean(r)). 'The product of both' is true of the masses; on the reading that the "
    "two weights are multiplied, failures would get the positive weight p^2 / sqrt(pq) and it would fail.",
    identity=True,
    statement=lambda p, **_: balanced(p * (1 - p) * root(p * (1 - p))),
    planted={"GRPO's": grpo_masses},
)
def skew_r_of_group(statement):
    """Compare masses as for mean GRPO."""
    yield from weighs(statement, skew_r, solve_rates(SIZES), symbolic_points=SYMBOLIC, simlab="skew_r")


@claim(
    "fade:maxrl",
    where="Appendix 8.3",
    says="MaxRL, (r - mean(r)) / mean(r), puts the mass 1 - p on both outcomes.",
    formula=r"\nabla_{\mathrm{MaxRL}} = B(1-p)[m_S - m_F]",
    refuted_by="one group whose masses differ",
    reading=f"{PER_ROLLOUT} Where the weight is defined, p > 0.",
    caveat="A group without a success leaves 0/0, by convention no update: the mass jumps from nearly 1 to 0 at "
    "exactly the hardest groups.",
    identity=True,
    statement=lambda p, **_: balanced(1 - p) if p != 0 else None,
    planted={
        "per mean twice": lambda p, **_: balanced(ratio(1 - p, p)),
        "easy": lambda p, **_: balanced(p),
        "without a success too": lambda p, **_: balanced(1 - p),
    },
)
def maxrl_of_group(statement):
    """Compare masses as for mean GRPO."""
    yield from weighs(statement, maxrl, solve_rates(SIZES), symbolic_points=SYMBOLIC, simlab="maxrl")


GAMMA = sympy.Symbol("gamma", positive=True)


@claim(
    "fade:power-norm",
    where="Appendix 8.8",
    says="Power Norm, (r - p) / [p q]^gamma, puts the mass (p q)^(1 - gamma) on both outcomes.",
    formula=r"m_S = m_F = pq/(pq)^\gamma = p^{1-\gamma}q^{1-\gamma}",
    refuted_by="one group whose masses differ",
    reading="Mixed groups and gamma from 0 up: at p 0 and 1 the weight is 0/0. On the reading that gamma may exceed 1 "
    "the form still stands, but the mass then has no bound as p -> 0.",
    identity=True,
    statement=lambda p, gamma, **_: balanced(power(p, 1 - gamma) * power(1 - p, 1 - gamma)),
    planted={"gamma": lambda p, gamma, **_: balanced(power(p, gamma) * power(1 - p, gamma))},
)
def power_norm_of_group(statement):
    """Compare masses as for mean GRPO, for several gamma."""
    points = solve_rates([2, 3, 4, 8], mixed, gamma=[Fraction(0), Fraction(1, 4), HALF, Fraction(1), Fraction(3, 2)])
    symbolic = [{"p": P, "G": SIZE, "gamma": GAMMA}]
    yield from weighs(statement, power_norm, points, symbolic_points=symbolic, simlab="power_norm")


@claim(
    "fade:power-norm-special-cases",
    where="Appendix 8.8",
    says="Power Norm is GRPO at gamma = 1/2 and Dr. GRPO at gamma = 0.",
    refuted_by="a group that the two weights give different masses",
    reading="GRPO with the population std and no epsilon, as the appendix defines it.",
    identity=True,
    statement={HALF: grpo, Fraction(0): mean_grpo},
    planted={"swapped": {HALF: mean_grpo, Fraction(0): grpo}},
)
def power_norm_special_cases(statement):
    """The masses of both definitions, group by group."""
    points = solve_rates([2, 3, 5], mixed, gamma=list(statement))
    yield from equals(lambda p, G, gamma: enumerated(statement[gamma])(p, G), points, enumerated=enumerated(power_norm))


@claim(
    "fade:power-norm-advantages",
    where="Appendix 8.8",
    says="Power Norm gives a success q / (pq)^gamma and a failure p / (pq)^gamma.",
    formula=r"A_s = \frac{q}{(pq)^\gamma},\quad A_f = \frac{p}{(pq)^\gamma}",
    refuted_by="a mixed group with other advantages",
    reading="A_f as everywhere else in the appendix, the signed weight of a failure. On the reading that it is the "
    "absolute weight w_F of Eq. 1 it would stand; the gradient two lines on has the minus.",
    statement=lambda p, gamma, **_: (
        ratio(1 - p, power(p * (1 - p), gamma)),
        ratio(p, power(p * (1 - p), gamma)),
    ),
    slip=Amended(
        "A_f = -p / (pq)^gamma",
        lambda p, gamma, **_: (ratio(1 - p, power(p * (1 - p), gamma)), -ratio(p, power(p * (1 - p), gamma))),
    ),
    planted={"swapped": lambda p, gamma, **_: (ratio(p, power(p * (1 - p), gamma)),) * 2},
)
def power_norm_advantages(statement):
    """The definition, for each outcome of each mixed group."""
    points = solve_rates([2, 3, 4], mixed, gamma=[Fraction(0), HALF, Fraction(1)])
    yield from equals(
        statement,
        points,
        enumerated=lambda p, G, gamma: tuple(power_norm(r, rollouts(p, G), gamma) for r in (1, 0)),
    )
