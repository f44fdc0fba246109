"""Section 4 and Appendix 8.2: Power-alpha, its easy twin, and the asymmetric weights."""

import itertools
from fractions import Fraction
from typing import Any

import sympy

from paper_checks.claim import COSMETIC, Amended, claim
from paper_checks.evidence import equals, grid, number, proved, satisfies
from paper_checks.fade.masses_centred import PER_ROLLOUT, SIZES, dr_grpo_masses, grpo, mean_grpo
from paper_checks.fade.masses_common import (
    HALF,
    SIZE,
    P,
    balanced,
    derived,
    enumerated,
    masses,
    mixed,
    numerical,
    power,
    ratio,
    rollouts,
    root,
    solve_rates,
    two_outcomes,
    weighs,
)

ALPHAS = [Fraction(1), Fraction(3, 2), Fraction(2), Fraction(3)]
ALPHA = sympy.Symbol("alpha", positive=True)
DELTAS = [Fraction(3, 10), HALF, Fraction(1), Fraction(2)]
DELTA = sympy.Symbol("delta", positive=True)


def power_alpha(reward, batch, alpha):
    """(1 - mean(r))^(alpha - 1) (r - mean(r))."""
    return power(1 - batch.mean, alpha - 1) * (reward - batch.mean)


def easy_power(reward, batch, alpha):
    """mean(r)^(alpha - 1) (r - mean(r))."""
    return power(batch.mean, alpha - 1) * (reward - batch.mean)


def asym_power(reward, batch, alpha_success, alpha_failure):
    """Power-alpha on successes, its easy twin on failures."""
    hard = reward == batch.success
    return power_alpha(reward, batch, alpha_success) if hard else easy_power(reward, batch, alpha_failure)


def asym_grpo(reward, batch, delta):
    """r - mean(r), on failures over delta."""
    centred = reward - batch.mean
    return centred if reward == batch.success else ratio(centred, delta)


@claim(
    "fade:power-alpha",
    where="Appendix 8.2, item 1; Section 4.3",
    says="Power-alpha, (1 - mean(r))^(alpha - 1) (r - mean(r)), puts the mass p q^alpha on both outcomes.",
    formula=r"m_S = m_F = Bpq \cdot q^{\alpha-1} = Bpq^{\alpha}",
    refuted_by="one group whose masses differ",
    reading=f"alpha >= 1, as Algorithm 1 requires. {PER_ROLLOUT} Below 1 a solved group's weight is infinite.",
    identity=True,
    statement=lambda p, alpha, **_: balanced(p * power(1 - p, alpha)),
    planted={
        "off by one": lambda p, alpha, **_: balanced(p * power(1 - p, alpha - 1)),
        "easy": lambda p, alpha, **_: balanced((1 - p) * power(p, alpha)),
    },
)
def power_alpha_of_group(statement):
    """The definition on the two outcomes, in p and alpha; on every group; and our estimator."""
    points = solve_rates(SIZES, alpha=ALPHAS)
    symbolic = [{"p": P, "G": SIZE, "alpha": ALPHA}]
    yield from weighs(statement, power_alpha, points, symbolic_points=symbolic, simlab="power_alpha")


@claim(
    "fade:easy-power",
    where="Section 4.3",
    says="The easy counterpart of Power-alpha puts the mass p^alpha q on both outcomes.",
    formula=r"C \cdot p^{\alpha} q",
    refuted_by="one group whose masses differ",
    reading="The weight mean(r)^(alpha - 1) (r - mean(r)), which the paper leaves to the reader; C is set to 1. On "
    "the reading that the weight is Power-alpha's with successes and failures exchanged, the masses are the same.",
    identity=True,
    statement=lambda p, alpha, **_: balanced(power(p, alpha) * (1 - p)),
    planted={"hard": lambda p, alpha, **_: balanced(p * power(1 - p, alpha))},
)
def easy_power_of_group(statement):
    """Compare masses as for Power-alpha."""
    points = solve_rates(SIZES, alpha=ALPHAS)
    symbolic = [{"p": P, "G": SIZE, "alpha": ALPHA}]
    yield from weighs(statement, easy_power, points, symbolic_points=symbolic, simlab="easy_power")


@claim(
    "fade:easy-power-mirror",
    where="Section 4.3",
    says="The easy counterpart is to easy problems what Power-alpha is to hard ones: its mass at p is the other's at "
    "1 - p.",
    refuted_by="a group whose mass is not that of its mirror image",
    reading="Counterpart is read as mirror image in p. Their constants C, which match the peak to GRPO's, are equal.",
    inferred=True,
    identity=True,
    statement=lambda p: 1 - p,
    planted={"same": lambda p: p},
)
def easy_power_mirror(statement):
    """Both definitions, at p and at its image."""
    points = solve_rates([1, 2, 3, 4, 5], alpha=ALPHAS)
    yield from equals(
        lambda p, G, alpha: enumerated(power_alpha)(statement(p), G, alpha=alpha),
        points,
        enumerated=enumerated(easy_power),
    )


@claim(
    "fade:power-alpha-suppression",
    where="Appendix 8.2, item 1",
    says="As alpha increases, prompts that are mostly solved lose more of their mass than harder ones.",
    refuted_by="two prompts and two alphas, of which the easier prompt does not lose the larger share",
    reading="Share of its mass at the smaller alpha. 'Decay faster with q' is said of q falling; the masses "
    "themselves fall for every prompt, hard ones included.",
    identity=True,
    statement=lambda shares, **_: shares[0] > shares[1],
    planted={"hard ones lose more": lambda shares, **_: shares[0] < shares[1]},
)
def power_alpha_suppression(statement):
    """The share of its mass that a hard and an easier group of 8 keep as alpha grows."""

    def shares(hard, easy, pair):
        small, large = (lambda p, alpha=alpha: number(enumerated(power_alpha)(p, 8, alpha=alpha)[0]) for alpha in pair)
        return large(hard) / small(hard), large(easy) / small(easy)

    rates = [Fraction(s, 8) for s in range(1, 8)]
    pairs = list(itertools.combinations(ALPHAS, 2))
    points = grid(lambda hard, easy, pair: hard < easy, hard=rates, easy=rates, pair=pairs)
    yield from satisfies(statement, points, shares)


@claim(
    "fade:power-alpha-multiplier",
    where="Appendix 8.2, before item 1",
    says="The multipliers of mean GRPO in the power series are powers of the deviation |r - mean(r)|.",
    refuted_by="a rollout whose multiplier is not |r - mean(r)|^(alpha - 1)",
    reading="Each rollout's own deviation, q on successes and p on failures. Power-alpha multiplies failures by a "
    "power of q, the deviation of successes; with their own, its masses would be p q^alpha and p^alpha q, not "
    "balanced. On the reading that a power of either outcome's deviation will do, it holds.",
    severity=COSMETIC,
    met="no: Power-alpha multiplies failures by a power of q, not of their own deviation p",
    statement=lambda deviation, alpha, **_: power(deviation, alpha - 1),
    condition=Amended(
        "the rollout is a success, or the weight is asymmetric Power",
        lambda deviation, alpha, reward, asymmetric, **_: (
            power(deviation, alpha - 1) if reward == 1 or asymmetric else None
        ),
    ),
    planted={
        "of the mean": lambda deviation, alpha, reward, asymmetric, p, **_: (
            power(p, alpha - 1) if reward == 1 or asymmetric else None
        ),
    },
)
def power_multiplier(statement):
    """The weight of each rollout of mixed groups over mean GRPO's."""

    def multiplier(p, G, alpha, reward, asymmetric):
        batch = rollouts(p, G)
        weight = asym_power(reward, batch, alpha, alpha) if asymmetric else power_alpha(reward, batch, alpha)
        return ratio(weight, mean_grpo(reward, batch))

    def stated(p, G, alpha, reward, asymmetric):
        deviation = abs(mean_grpo(reward, rollouts(p, G)))
        return statement(deviation=deviation, alpha=alpha, reward=reward, asymmetric=asymmetric, p=p)

    points = solve_rates([2, 3, 5], mixed, alpha=ALPHAS, reward=[1, 0], asymmetric=[False, True])
    yield from equals(stated, points, enumerated=multiplier)


@claim(
    "fade:power-alpha-one",
    where="Section 4.3",
    says="At alpha = 1 Power-alpha is mean GRPO.",
    refuted_by="a group that the two weights give different masses",
    reading="Mean GRPO, as Section 4.3 says; GRPO with the std has sqrt(pq) and differs.",
    identity=True,
    statement=mean_grpo,
    planted={"GRPO": grpo},
)
def power_alpha_one(statement):
    """The masses of both definitions, group by group."""
    yield from equals(
        lambda p, G, alpha: enumerated(statement)(p, G),
        solve_rates(SIZES, alpha=[Fraction(1)]),
        enumerated=enumerated(power_alpha),
    )


EXPONENTS: dict[str, Any] = {
    name: [Fraction(1), Fraction(3, 2), Fraction(3)] for name in ("alpha_success", "alpha_failure")
}


@claim(
    "fade:asym-power",
    where="Appendix 8.2, item 2",
    says="Asymmetric Power puts the mass p q^alpha_s on successes and p^alpha_f q on failures.",
    formula=r"m_S = Bpq^{\alpha_s},\quad m_F = Bp^{\alpha_f-1}\cdot p\cdot q = Bp^{\alpha_f}q",
    refuted_by="one group whose masses differ",
    reading=f"Both exponents at least 1. {PER_ROLLOUT}",
    identity=True,
    statement=lambda p, alpha_success, alpha_failure, **_: (
        p * power(1 - p, alpha_success),
        power(p, alpha_failure) * (1 - p),
    ),
    planted={
        "one exponent": lambda p, alpha_success, **_: (
            p * power(1 - p, alpha_success),
            power(p, alpha_success) * (1 - p),
        ),
        "same power": lambda p, alpha_success, alpha_failure, **_: (
            p * power(1 - p, alpha_success),
            p * power(1 - p, alpha_failure),
        ),
    },
)
def asym_power_of_group(statement):
    """Compare masses as for Power-alpha, in both exponents."""
    symbols = {"alpha_success": ALPHA, "alpha_failure": sympy.Symbol("alpha_f", positive=True)}
    points = solve_rates([1, 2, 3, 5], **EXPONENTS)
    yield from weighs(
        statement, asym_power, points, symbolic_points=[{"p": P, "G": SIZE, **symbols}], simlab="asym_power"
    )


@claim(
    "fade:asym-power-one",
    where="Appendix 8.2, item 2",
    says="With both exponents 1, asymmetric Power is GRPO of masses pq.",
    formula=r"\alpha_s = \alpha_f = 1: m_S = m_F = pq",
    refuted_by="a group with other masses",
    reading="GRPO of masses pq is mean GRPO. On the reading of Appendix 8.1, where GRPO has sqrt(pq), it would fail.",
    identity=True,
    statement=dr_grpo_masses,
    planted={"GRPO": lambda p, **_: balanced(root(p * (1 - p)))},
)
def asym_power_one(statement):
    """The definition at exponents 1, in p and group by group."""
    at_one = {"alpha_success": Fraction(1), "alpha_failure": Fraction(1)}
    yield from weighs(
        lambda p, G, **_: statement(p), asym_power, [point | at_one for point in solve_rates(SIZES)],
        symbolic_points=[{"p": P, "G": SIZE, **at_one}],
    )  # fmt: skip


@claim(
    "fade:asym-power-bias",
    where="Appendix 8.2, item 2",
    says="If alpha_s > alpha_f, asymmetric Power suppresses the positive gradient more than the negative one.",
    formula=r"\alpha_s > \alpha_f \Rightarrow m_S < m_F",
    refuted_by="a mixed group with alpha_s > alpha_f and m_S >= m_F",
    reading="More suppressed: the smaller mass, both being pq without suppression. The factors q^(alpha_s - 1) and "
    "p^(alpha_f - 1) fall at opposite ends, so that for alpha_f > 1 failures lose more on hard enough prompts. On the "
    "reading that masses are averaged over prompts with p uniform on [0, 1] it holds: "
    "1 / ((alpha_s + 1)(alpha_s + 2)) against the same in alpha_f.",
    met="partly: on prompts solved half of the time or more",
    statement=lambda pair, p, **_: pair[0] < pair[1],
    condition=Amended("p >= 1/2", lambda pair, p, **_: pair[0] < pair[1] if p >= HALF else None),
    planted={"the other way": lambda pair, p, **_: pair[0] > pair[1] if p >= HALF else None},
)
def asym_power_bias(statement):
    """Both masses of every mixed group, for all pairs of exponents with alpha_s the larger."""
    points = solve_rates(
        [2, 3, 4, 8],
        lambda p, alpha_success, alpha_failure, **_: 0 < p < 1 and alpha_success > alpha_failure,
        **EXPONENTS,
    )
    yield from satisfies(
        statement, points, numerical(enumerated(asym_power)), derived=derived(asym_power), names=("m_S", "m_F")
    )


@claim(
    "fade:asym-grpo",
    where="Appendix 8.2, item 3; Section 4.1",
    says="AsymGRPO puts the mass pq on successes and pq / delta on failures.",
    formula=r"m_S = Bpq,\quad m_F = \frac{Bpq}{\delta}",
    refuted_by="one group whose masses differ",
    reading=f"{PER_ROLLOUT} The GRPO that it rescales is mean GRPO; see fade:asym-grpo-one.",
    identity=True,
    statement=lambda p, delta, **_: (p * (1 - p), ratio(p * (1 - p), delta)),
    planted={"times delta": lambda p, delta, **_: (p * (1 - p), delta * p * (1 - p))},
)
def asym_grpo_of_group(statement):
    """Compare masses as for Power-alpha, in p and delta."""
    symbolic = [{"p": P, "G": SIZE, "delta": DELTA}]
    yield from weighs(
        statement, asym_grpo, solve_rates(SIZES, delta=DELTAS), symbolic_points=symbolic, simlab="asym_grpo"
    )


@claim(
    "fade:asym-grpo-one",
    where="Appendix 8.2, item 3",
    says="At delta = 1 AsymGRPO is standard GRPO.",
    refuted_by="a group that the two weights give different masses",
    reading="GRPO is mean GRPO here, as in all of Appendix 8.2, which prints pq for it, and in Section 4.1 ('standard "
    "mean based GRPO').",
    caveat="GRPO with the std, that of Appendix 8.1, is another weight, of mass sqrt(pq).",
    identity=True,
    statement=mean_grpo,
    planted={"with the std": grpo, "reinforce": lambda reward, batch: reward},
)
def asym_grpo_one(statement):
    """The masses of both definitions, group by group."""
    yield from equals(
        lambda p, G, delta: enumerated(statement)(p, G),
        solve_rates(SIZES, delta=[Fraction(1)]),
        enumerated=enumerated(asym_grpo),
    )


@claim(
    "fade:asym-grpo-bias",
    where="Appendix 8.2, item 3; Section 4.1",
    says="AsymGRPO is biased to failures for delta < 1, to successes for delta > 1, and whatever the difficulty.",
    formula=r"\delta < 1: m_F > m_S;\quad \delta > 1: m_F < m_S",
    refuted_by="a mixed group on the other side, or two groups with different ratios of masses",
    reading="The ratio m_S / m_F is delta in every mixed group. Only relative to difficulty: both masses vary with p.",
    identity=True,
    statement=lambda pair, delta, **_: (pair[0] < pair[1]) == (delta < 1) and pair[0] == delta * pair[1],
    planted={"the other way": lambda pair, delta, **_: (pair[0] < pair[1]) == (delta > 1)},
)
def asym_grpo_bias(statement):
    """Both masses of every mixed group."""
    yield from satisfies(statement, solve_rates([2, 3, 4, 8], mixed, delta=DELTAS), enumerated(asym_grpo))


@claim(
    "fade:rescaled-balance",
    where="Appendix 8.2, 'Multiplier Rescaled GRPO'",
    says="With multipliers C_s and C_f on mean GRPO the masses are C_s pq and C_f pq: balanced when the two are equal.",
    formula=r"\nabla_{\text{rescale}} = \sum_{S} C_s (r_i - \bar r)\nabla - \sum_{F} C_f (\bar r - r_i)\nabla",
    refuted_by="multipliers for which the ratio of the masses is not C_s / C_f",
    reading="Multipliers that are equal over the successes, and over the failures.",
    identity=True,
    statement=lambda p, C_s, C_f: (C_s * p * (1 - p), C_f * p * (1 - p)),
    planted={"swapped": lambda p, C_s, C_f: (C_f * p * (1 - p), C_s * p * (1 - p))},
)
def rescaled_balance(statement):
    """The definition on the two outcomes, all three symbols free."""
    C_s, C_f = sympy.symbols("C_s C_f", positive=True)

    def rescaled(reward, batch):
        return (C_s if reward == batch.success else C_f) * (reward - batch.mean)

    difference = [
        sympy.simplify(mass - stated)
        for mass, stated in zip(masses(rescaled, two_outcomes(P, SIZE)), statement(P, C_s, C_f), strict=True)
    ]
    yield proved(difference == [0, 0], f"masses less those stated: {difference}")
