"""Appendices 8.7, 8.10 and 8.11, Table 1: fixed weights, a constant baseline, binary contrastive, HA-DW, ReLU."""

from fractions import Fraction

import sympy

from paper_checks.claim import CONDITIONS, Amended, claim
from paper_checks.evidence import equals, satisfies
from paper_checks.fade.masses_centred import SIZES, SYMBOLIC, mean_grpo
from paper_checks.fade.masses_common import (
    HALF,
    SIZE,
    P,
    balanced,
    enumerated,
    exp,
    mixed,
    numerical,
    ratio,
    solve_rates,
    weighs,
)


def reinforce(reward, batch):
    """r."""
    return reward


def running_mean(reward, batch, initial):
    """r - b, b a constant of earlier batches."""
    return reward - initial


def binary_contrastive(reward, batch):
    """1 on success, -p / (1 - p) on failure."""
    return Fraction(1) if reward == batch.success else -ratio(batch.mean, 1 - batch.mean)


def ha_dw(reward, batch, scale, initial):
    """A scale exp(-sgn(A) sgn(p - C) |p - C|) with A = r - mean(r)."""
    advantage = reward - batch.mean
    gap = batch.mean - initial
    return advantage * scale * exp(-sign(advantage) * sign(gap) * abs(gap))


def sign(value):
    """-1, 0 or 1."""
    return (value > 0) - (value < 0)


def relu(reward, batch):
    """max(0, r - mean(r)); the mean is at most 1 and at least 0."""
    return reward - batch.mean if reward == batch.success else Fraction(0)


def outcome(success, failure):
    """A fixed weight for each outcome."""
    return lambda reward, batch: success if reward == batch.success else failure


FIXED_READING = (
    "The stored text lacks the body of Table 1; the definition is that of the work it cites. Masses of Eq. 3, a mean "
    "over the group."
)


@claim(
    "fade:reinforce",
    where="Section 4; Table 1 (body lost)",
    says="REINFORCE, the reward itself, puts the mass p on successes and 0 on failures.",
    refuted_by="one group whose masses differ",
    reading=f"{FIXED_READING} For rewards 1 and -1, as Appendix 8.9 seems to take it, p and 1 - p: see "
    "fade:log-mean-exp-reinforce.",
    identity=True,
    inferred=True,
    statement=lambda p, **_: (p, 0),
    planted={"both": lambda p, **_: (p, 1 - p)},
)
def reinforce_of_group(statement):
    """The definition on the two outcomes, in p; on every group; and our estimator."""
    yield from weighs(statement, reinforce, solve_rates(SIZES), symbolic_points=SYMBOLIC, simlab="reinforce")


def has_fixed_masses(statement, name, success, failure):
    """Compare masses as for REINFORCE, for a weight of one number on success and another on failure."""
    weight = outcome(success, failure)
    yield from weighs(statement, weight, solve_rates(SIZES), symbolic_points=SYMBOLIC, simlab=name)


@claim(
    "fade:psr",
    where="Section 6, sign reweighting; Table 1 (body lost)",
    says="PSR, 1 on success and 0 on failure, has the masses p and 0, in groups of equal rewards too: REINFORCE's.",
    refuted_by="one group whose masses differ",
    reading=FIXED_READING,
    inferred=True,
    identity=True,
    statement=lambda p, **_: (p, 0),
    planted={"failures": lambda p, **_: (0, 1 - p), "balanced": lambda p, **_: balanced(p)},
)
def psr_of_group(statement):
    """Compare masses as for REINFORCE."""
    yield from has_fixed_masses(statement, "psr", Fraction(1), Fraction(0))


@claim(
    "fade:nsr",
    where="Section 6, sign reweighting; Table 1 (body lost)",
    says="NSR, 0 on success and -1 on failure, has the masses 0 and 1 - p, in groups of equal rewards too.",
    refuted_by="one group whose masses differ",
    reading=FIXED_READING,
    inferred=True,
    identity=True,
    statement=lambda p, **_: (0, 1 - p),
    planted={"successes": lambda p, **_: (p, 0), "the other sign": lambda p, **_: (0, p - 1)},
)
def nsr_of_group(statement):
    """Compare masses as for REINFORCE."""
    yield from has_fixed_masses(statement, "nsr", Fraction(0), Fraction(-1))


@claim(
    "fade:w-reinforce",
    where="Section 2.1, Figure 2; Section 6, sign reweighting; Table 1 (body lost)",
    says="W-REINFORCE, 1/10 on success and -1 on failure, has the masses p / 10 and 1 - p.",
    refuted_by="one group whose masses differ",
    reading=FIXED_READING,
    inferred=True,
    identity=True,
    statement=lambda p, **_: (p / 10, 1 - p),
    planted={"swapped": lambda p, **_: (p, (1 - p) / 10), "unweighted": lambda p, **_: (p, 1 - p)},
)
def w_reinforce_of_group(statement):
    """Compare masses as for REINFORCE."""
    yield from has_fixed_masses(statement, "w_reinforce", Fraction(1, 10), Fraction(-1))


BASELINE = sympy.Symbol("b", positive=True)


@claim(
    "fade:running-mean",
    where="Appendix 8.5, REINFORCE with a fixed offset",
    says="REINFORCE less a constant b, such as a running mean, has masses p (1 - b) and (1 - p) b: those of mean GRPO "
    "where b is the group's mean.",
    refuted_by="one group whose masses differ",
    reading="The offset b does not come from the group. The text names it and derives AsymRL's masses alone.",
    identity=True,
    inferred=True,
    statement=lambda p, initial, **_: (p * (1 - initial), (1 - p) * initial),
    planted={"swapped": lambda p, initial, **_: (p * initial, (1 - p) * (1 - initial))},
)
def running_mean_of_group(statement):
    """Compare masses as for REINFORCE, and with mean GRPO's definition at b = p."""
    points = solve_rates(SIZES, initial=[Fraction(0), Fraction(1, 4), HALF, Fraction(1)])
    symbolic = [{"p": P, "G": SIZE, "initial": BASELINE}]
    yield from weighs(statement, running_mean, points, symbolic_points=symbolic, simlab="running_mean")
    yield from equals(lambda p, G: statement(p, G=G, initial=p), solve_rates(SIZES), enumerated=enumerated(mean_grpo))


@claim(
    "fade:binary-contrastive",
    where="Appendix 8.7",
    says="The binary contrastive weight, 1 on success and -p / (1 - p) on failure, puts the mass p on both outcomes.",
    formula=r"m_S = p \times 1,\quad m_F = (1-p) \times \frac{p}{1-p} = p",
    refuted_by="one group whose masses differ",
    reading="Where the weight is defined, p < 1.",
    caveat="A group without a failure, p = 1, leaves 0 times 1/0: there an implementation chooses.",
    identity=True,
    statement=lambda p, **_: balanced(p) if p != 1 else None,
    planted={"hard": lambda p, **_: balanced(1 - p), "failures q": lambda p, **_: (p, 1 - p)},
)
def binary_contrastive_of_group(statement):
    """Compare masses as for REINFORCE."""
    yield from weighs(
        statement, binary_contrastive, solve_rates(SIZES), symbolic_points=SYMBOLIC, simlab="binary_contrastive"
    )


HA_DW_POINTS = solve_rates([2, 3, 4, 8], scale=[Fraction(1), Fraction(3, 2)], initial=[HALF, Fraction(1, 5)])


@claim(
    "fade:ha-dw",
    where="Appendix 8.10",
    says="HA-DW's mass on failures is q p, that of Dr. GRPO; only the mass on successes is scaled by hardness.",
    formula=r"m_S = f(C_t, p)\,qp,\qquad m_F = qp",
    refuted_by="a group whose mass on failures is not q p",
    reading="A is mean GRPO's, the one base for which q p could come out, and the weight is the one printed two lines "
    "above, whose sgn(A) acts on failures too. f is what that gives for successes, scale e^(C - p). With r-hat read as "
    "the rollout's own reward it fails as well: the factor of failures is then scale e^(-C). It would hold if the "
    "exponential applied to successes alone, which is not the weight printed, or up to a factor common to both "
    "masses, f = e^(2 (C - p)), which is not Dr. GRPO's magnitude.",
    severity=CONDITIONS,
    statement=lambda p, G, scale, initial: (scale * exp(initial - p) * p * (1 - p), p * (1 - p)),
    correction=Amended(
        "m_F = scale e^(p - C) q p: failures are scaled as well, the other way round",
        lambda p, G, scale, initial: (
            scale * exp(initial - p) * p * (1 - p),
            scale * exp(p - initial) * p * (1 - p),
        ),
    ),
    planted={
        "same factor": lambda p, G, scale, initial: balanced(scale * exp(initial - p) * p * (1 - p)),
    },
)
def ha_dw_of_group(statement):
    """The definition on the two outcomes; on every group; and our estimator in a first batch."""
    yield from weighs(statement, ha_dw, HA_DW_POINTS, simlab="ha_dw", settings={"base": "dr_grpo", "decay": 0.9})


@claim(
    "fade:ha-dw-hardness",
    where="Appendix 8.10",
    says="HA-DW scales the successes of a group up, relative to its failures, when it is harder than the past C.",
    refuted_by="a mixed group below C whose successes weigh no more than its failures, or one above with the opposite",
    reading="'Whether the reward exceeds the baseline' is read of the group's mean, as the printed r-hat must be for "
    "the weight to be a function of C and p. With each rollout's own reward, sgn(A) sgn(r - C) = 1 always and the "
    "factor would shrink every weight. The paper says 'scaled by a hardness-dependent factor' and no direction.",
    inferred=True,
    identity=True,
    statement=lambda pair, p, initial, **_: sign(pair[0] - pair[1]) == sign(initial - p),
    planted={"the other way": lambda pair, p, initial, **_: sign(pair[0] - pair[1]) == sign(p - initial)},
)
def ha_dw_hardness(statement):
    """Both masses of every mixed group, which mean GRPO has equal."""
    yield from satisfies(statement, [point for point in HA_DW_POINTS if mixed(**point)], numerical(enumerated(ha_dw)))


@claim(
    "fade:relu",
    where="Appendix 8.11",
    says="ReLU, max(0, r - mean(r)), has the mass p q on successes, as Dr. GRPO, and 0 on failures.",
    formula=r"m_S = pq,\ m_F = 0",
    refuted_by="one group whose masses differ",
    reading="Masses of Eq. 3, as printed; the gradient above them has the factor B.",
    identity=True,
    statement=lambda p, **_: (p * (1 - p), 0),
    planted={"reinforce": lambda p, **_: (p, 0), "balanced": lambda p, **_: balanced(p * (1 - p))},
)
def relu_of_group(statement):
    """Compare masses as for REINFORCE."""
    yield from weighs(statement, relu, solve_rates(SIZES), symbolic_points=SYMBOLIC, simlab="relu")
