"""Section 4.1, Equation 7: how one step changes the entropy, and its drift term."""

from fractions import Fraction

import numpy as np
from mpmath import mp, mpf

from paper_checks.claim import CHANGES, CONDITIONS, COSMETIC, Amended, claim
from paper_checks.evidence import Disagreement, equals, grid, number, satisfies, vanishes
from paper_checks.exact import entropy, mass, stepped
from paper_checks.fade.main_gradients import (
    POINTS,
    WEIGHTS,
    derived_entropy_slope,
    derived_update,
    entropy_slope,
    expected_update,
)
from paper_checks.simulated import estimate, simulated_step

STEPS = [point | {"weight": weight} for point in POINTS for weight in ("mean GRPO", "AsymGRPO, delta 2", "REINFORCE")]


def action_weights(policy, correct, weight):
    """W of each action at the true solve rate."""
    success, failure = WEIGHTS[weight](mass(policy, correct))
    return [success if right else -failure for right in correct]


def covariance(policy, left, right):
    """Cov over actions."""
    means = [
        mp.fsum(number(p) * number(value) for p, value in zip(policy, values, strict=True)) for values in (left, right)
    ]
    return mp.fsum(
        number(p) * (number(a) - means[0]) * (number(b) - means[1]) for p, a, b in zip(policy, left, right, strict=True)
    )


def log_probabilities(policy):
    """log pi of each action."""
    return [mp.log(number(p)) for p in policy]


def drift_and_covariance(policy, correct, weight, sign=-1):
    """Equation 7 without the learning rate: (m_S - m_F) H - Cov(A, log pi)."""
    weights = action_weights(policy, correct, weight)
    drift = number(sum(p * each for p, each in zip(policy, weights, strict=True))) * entropy(policy)
    return drift + sign * covariance(policy, weights, log_probabilities(policy))


def covariance_alone(policy, correct, weight):
    """- Cov(A, log pi)."""
    return -covariance(policy, action_weights(policy, correct, weight), log_probabilities(policy))


def covariance_with_step(policy, correct, weight):
    """- Cov(pi (A - E A), log pi): with the logit change of a plain gradient step in place of A."""
    weights = action_weights(policy, correct, weight)
    mean = sum(p * each for p, each in zip(policy, weights, strict=True))
    change = [p * (each - mean) for p, each in zip(policy, weights, strict=True)]
    return -covariance(policy, change, log_probabilities(policy))


def change_error(statement, direction):
    """error(step) of a stated entropy slope: the exact change of the entropy less step times the slope."""

    def error(step, policy, correct, weight):
        slope = statement(policy=policy, correct=correct, weight=weight)
        if slope is None:
            return None
        after = stepped(policy, direction(policy, correct, weight), step)
        return entropy(after) - entropy(policy) - step * slope

    return error


def gradient_step(policy, correct, weight):
    """The logit change of a plain step along the expected update, over the learning rate."""
    success, failure = WEIGHTS[weight](mass(policy, correct))
    return expected_update(policy, correct, 1, lambda p: (success, failure))


def natural_step(policy, correct, weight):
    """The logit change of a natural step: A, which the Fisher matrix must turn into the expected update.

    Raises:
        Disagreement: if it does not.
    """
    weights = action_weights(policy, correct, weight)
    mean = sum(p * each for p, each in zip(policy, weights, strict=True))
    through_fisher = tuple(p * (each - mean) for p, each in zip(policy, weights, strict=True))
    if through_fisher != gradient_step(policy, correct, weight):
        raise Disagreement("the Fisher matrix times A is not the expected update")
    return weights


@claim(
    "fade:eq-7",
    where="Section 4.1, Equation 7",
    says="To first order a gradient step changes the entropy by the learning rate times (m_S - m_F) H less the "
    "covariance of advantage and log-probability.",
    formula=r"\Delta H \approx \eta[(m_S-m_F)H - \mathrm{Cov}(A,\log\pi_\theta)] + O(\eta^2)",
    refuted_by="a policy whose exact entropy change differs by more than second order in the step",
    reading="The expected plain gradient step at one prompt of a tabular softmax, as Section 4.1 says; even for mean "
    "GRPO, where the drift is 0, the covariance lacks a factor pi. For natural steps (the 'projection assumption', "
    "which Appendix 13 alone names) the covariance is right and the drift wrong: fade:thm-13.1. Right on both counts "
    "only for m_S = m_F and natural steps.",
    severity=CHANGES,
    same_error_as="fade:eq-24",
    statement=drift_and_covariance,
    correction=Amended(
        "minus the covariance of log pi with the logit change pi (A - E[A]); no drift", covariance_with_step
    ),
    planted={
        "the covariance added": lambda **point: drift_and_covariance(**point, sign=1),
        "no drift": covariance_alone,
    },
)
def entropy_change(statement):
    """Take exact steps along the expected update, and compare the entropy's change at falling step sizes."""
    yield from vanishes(change_error(statement, gradient_step), STEPS, order=2)


@claim(
    "fade:thm-13.1",
    where="Appendix 13, Theorem 13.1 and Equation 26, from which Equation 7 is taken",
    says="Under the projection assumption a step changes the entropy by the learning rate times (m_S - m_F) H less the "
    "covariance of advantage and log-probability, to first order.",
    formula=r"\Delta H \approx \eta[(m_S-m_F)H - \mathrm{Cov}(A,\log\pi_\theta)]",
    refuted_by="a policy and a weight whose exact entropy change differs by more than second order in the step",
    reading="The reading that favours it most takes Equation 24 itself as the assumption. Then there is nothing to "
    "refute: the other steps of the proof hold (fade:eq-21, eq-22, eq-23, eq-25), and the theorem is Equation 24 "
    "rewritten. But Equation 24 cannot hold for weights with m_S unequal to m_F: a constant c added to A leaves its "
    "left side as it is, because the mean score is 0, and takes c H from its right side. What is tested is natural "
    "steps, under which the proof calls it exact; for m_S = m_F it then holds (fade:thm-13.1-balanced). CW-GRPO's law, "
    "without a drift, is the right one (cw-grpo:entropy-drift).",
    severity=CHANGES,
    same_error_as="fade:eq-24",
    statement=drift_and_covariance,
    correction=Amended("minus the covariance alone, whatever the sign balance", covariance_alone),
    planted={"the covariance added": lambda **point: drift_and_covariance(**point, sign=1)},
)
def natural_entropy_change(statement):
    """Take exact natural steps, and compare the entropy's change at falling step sizes."""
    yield from vanishes(change_error(statement, natural_step), STEPS, order=2)


@claim(
    "fade:sec-4-1-drift",
    where="Section 4.1, below Equation 7",
    says="A weight with m_S > m_F gives the entropy a drift proportional to the entropy itself.",
    formula=r"(m_S-m_F)\,H",
    refuted_by="a constant added to all weights (m_S - m_F = c, covariance unchanged) that leaves the entropy's slope",
    reading="Expected update at one prompt, first order. The drift is isolated by adding c to every weight, as "
    "REINFORCE is mean GRPO with p added: the covariance with log pi is the same, and the expected update too, for c "
    "E[grad log pi] = 0. In one finite group, and at second order in the step, a constant does act, through noise.",
    severity=CHANGES,
    same_error_as="fade:eq-24",
    statement=lambda policy, correct, c: c * entropy(policy),
    correction=Amended("the drift is 0 at first order", lambda policy, correct, c: mpf(0)),
    planted={"the other sign": lambda policy, correct, c: -c * entropy(policy)},
)
def drift(statement):
    """The entropy's slope along the update of a constant weight: derived, over all groups, and simulated."""

    def sampled(policy, correct, c):
        steps = simulated_step(policy, correct, 4, "reinforce", rewards=(1.0, 1.0))
        surprise = steps.before * (np.log(steps.before) + float(entropy(policy)))
        return estimate(-steps.logit_change @ surprise)

    points = [point | {"c": Fraction(1)} for point in POINTS[:3]]
    yield from equals(
        statement,
        points,
        derived=lambda policy, correct, c: derived_entropy_slope(policy, derived_update(policy, correct, c, -c)),
        enumerated=lambda policy, correct, c: entropy_slope(
            policy, expected_update(policy, correct, 2, lambda p: (c, -c))
        ),
        sampled=sampled,
        sampled_points=points[1:2],
    )


@claim(
    "fade:sec-4-1-drift-sign",
    where="Section 4.1, bullets below Equation 7",
    says="For delta > 1 the drift term of Equation 7 accelerates the loss of entropy, for delta < 1 it restores "
    "entropy.",
    refuted_by="a delta above 1 for which (m_S - m_F) H, as it stands in Equation 7, is positive",
    reading="Equation 7 as printed, be there a drift or not. The bullets call the drift positive for delta > 1, "
    "rightly, and then say that it speeds the collapse: a positive term of Delta H raises the entropy. With a minus "
    "sign before the drift the bullets would follow, but Equation 26 derives the plus.",
    severity=CHANGES,
    statement=lambda drift, delta, p: drift < 0 if delta > 1 else drift > 0,
    correction=Amended(
        "by Equation 7 delta > 1 raises the entropy and delta < 1 lowers it",
        lambda drift, delta, p: drift > 0 if delta > 1 else drift < 0,
    ),
    planted={"always a loss": lambda drift, delta, p: drift < 0, "no drift": lambda drift, delta, p: drift == 0},
)
def drift_sign(statement):
    """The drift of Equation 7 with AsymGRPO's masses, at two actions."""
    points = grid(delta=[Fraction(2), Fraction(1, 2)], p=[Fraction(1, 4), Fraction(1, 2), Fraction(9, 10)])
    yield from satisfies(
        statement,
        points,
        lambda delta, p: number(asymmetric_drift(p, delta)) * entropy((p, 1 - p)),
        method="numerical",
    )


@claim(
    "fade:sec-4-1-feedback",
    where="Section 4.1, bullet delta > 1",
    says="Because the drift is proportional to the entropy, the loss of entropy feeds into itself: the less entropy, "
    "the stronger the drift.",
    refuted_by="two policies of one solve rate of which the one with less entropy has the weaker drift",
    inferred=True,
    reading="'Entropy loss feeds into itself since the drift is proportional to H': that it thereby grows is our "
    "reading; on the reading that it 'depends on H' there is nothing to refute. The size of Equation 7's drift, taken "
    "for a loss as the bullet does. A loss proportional to H weakens as H falls: it damps itself.",
    severity=CONDITIONS,
    same_error_as="fade:sec-4-1-drift-sign",
    statement=lambda drifts, **_: drifts[1] > drifts[0],
    correction=Amended("the less entropy, the weaker the drift", lambda drifts, **_: drifts[1] < drifts[0]),
    planted={"the entropy does not matter": lambda drifts, **_: drifts[1] == drifts[0]},
)
def feedback(statement):
    """The size of AsymGRPO's drift at one solve rate, the failures being spread evenly and then 9 to 1."""

    def drifts(delta, p):
        shares = [(p, (1 - p) * share, (1 - p) * (1 - share)) for share in (Fraction(1, 2), Fraction(9, 10))]
        return tuple(number(abs(asymmetric_drift(p, delta))) * entropy(policy) for policy in shares)

    points = grid(delta=[Fraction(2), Fraction(4)], p=[Fraction(1, 4), Fraction(1, 2)])
    yield from satisfies(
        statement, points, drifts, method="numerical", names=("drift with failures spread evenly", "9 to 1")
    )


def asymmetric_drift(p, delta, alpha=1):
    """(m_S - m_F) of the masses p (1 - p)^alpha and p (1 - p)^alpha / delta: the drift over H."""
    return p * (1 - p) ** alpha * (1 - 1 / delta)


@claim(
    "fade:intro-sign-ratio",
    where="Section 1, first trade-off",
    says="The drift of the entropy is predictable from the sign ratio alone.",
    refuted_by="two weights, or two solve rates, of one ratio m_S / m_F and one entropy with different drifts",
    reading="The drift as Equation 7 prints it, at one entropy. Even among weights at one prompt it is m_S "
    "(1 - m_F / m_S) H, so that the weight's scale there matters too. With Section 4.1's ratio m_S p / (m_F q) the "
    "verdict is the same. For AsymGRPO on fixed solve rates, and at one entropy, the ratio delta is all that varies; "
    "the takeaway of Section 4.1 adds the success rates.",
    severity=CONDITIONS,
    statement=lambda drifts, **_: drifts[0] == drifts[1],
    correction=Amended(
        "at one ratio it is proportional to m_S: solve rate and scale matter as well",
        lambda drifts, **_: drifts[0] * drifts[3] == drifts[1] * drifts[2],
    ),
    planted={"to its square": lambda drifts, **_: drifts[0] * drifts[3] ** 2 == drifts[1] * drifts[2] ** 2},
)
def drift_from_ratio(statement):
    """The drifts over H, and the masses m_S, of AsymGRPO at p = 1/2, and at p = 1/4 or with (1 - p)^2."""

    def drifts(delta, other):
        cases = [(Fraction(1, 2), 1), (Fraction(1, 4), 1) if other == "solve rate" else (Fraction(1, 2), 2)]
        return *(asymmetric_drift(p, delta, alpha) for p, alpha in cases), *(p * (1 - p) ** a for p, a in cases)

    points = grid(other=["weight", "solve rate"], delta=[Fraction(2), Fraction(1, 2)])
    yield from satisfies(
        statement, points, drifts, names=("drift over H", "in the other case", "m_S", "m_S in the other case")
    )


@claim(
    "fade:sec-4-1-advantage-ratio",
    where="Section 4.1, advantage ratio; Figure 4; Appendix 11.3; Table 7",
    says="The ratio of the advantages of a success and of a failure is m_S p / (m_F q).",
    formula=r"A_s/A_f := (m_S\times p)/(m_F\times q)",
    refuted_by="a weight whose ratio of advantages differs",
    reading="With the masses of Table 1, which contain p and q: m_S = w_S p. The printed ratio then multiplies by p / "
    "q where it must divide: mean GRPO's is q / p, not p / q, so that rare successes weigh more, not less. Appendix "
    "11.3 means what is printed (p / q for all balanced weights, fade:table-7-balanced). On the reading that ':=' "
    "gives a new number a name there is nothing to refute, but A_s and A_f are the advantages of Section 2.2.",
    severity=COSMETIC,
    statement=lambda weight, p: _masses(weight, p)[0] * p / (_masses(weight, p)[1] * (1 - p)),
    correction=Amended(
        "A_s / A_f = m_S q / (m_F p)",
        lambda weight, p: _masses(weight, p)[0] * (1 - p) / (_masses(weight, p)[1] * p),
    ),
    planted={"the masses alone": lambda weight, p: _masses(weight, p)[0] / _masses(weight, p)[1]},
)
def advantage_ratio(statement):
    """Divide the two weights, as the definitions of the methods give them."""
    points = grid(weight=["mean GRPO", "AsymGRPO, delta 2", "Power-2"], p=[Fraction(3, 10), Fraction(1, 2)])
    yield from equals(statement, points, enumerated=lambda weight, p: WEIGHTS[weight](p)[0] / WEIGHTS[weight](p)[1])


def _masses(weight, p):
    success, failure = WEIGHTS[weight](p)
    return success * p, failure * (1 - p)
