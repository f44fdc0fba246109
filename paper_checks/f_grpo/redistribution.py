"""Sections 2.3 and 3.2, Appendices C, E and F: probability moved by one step on the sampled actions."""

from fractions import Fraction

import numpy as np
import sympy

from paper_checks.claim import CONDITIONS, Amended, claim
from paper_checks.evidence import equals, number, vanishes
from paper_checks.exact import POLICIES, expectation, mass, score_gradient, stepped
from paper_checks.f_grpo.sampled_sets import (
    BATCHES,
    GROUPS,
    SIMULATED,
    SYMBOLIC_BATCHES,
    SYMBOLIC_POLICY,
    batch_of,
    derived_logits,
    derived_mass,
    derived_policy_change,
    expected,
    finite_change,
    simulated_mass_change,
    theorem_steps,
    unsampled,
)
from paper_checks.simulated import estimate

# The same batches at hand for first-order claims, whose error is measured: rewards 1 and -1 alone.
STEPPED = [point for point in BATCHES if (point["batch"].R_c, point["batch"].R_w) == (1, -1)][::5]
DIRECTIONS = [
    {"policy": policy, "direction": tuple(Fraction(d) for d in (1, -2, Fraction(1, 2), 0, 3)[: len(policy)])}
    for policy, _ in POLICIES
]


def logit_update(batch):
    """Eq. 5 in units of eta / G."""
    return tuple(p * (reward - batch.S_R) for p, reward in zip(batch.policy, batch.rewards, strict=True))


def correct_mass_change(batch):
    """Eq. 17 in units of eta / G."""
    promoted = (batch.R_c - batch.S_R) * batch.Q_neg * batch.A_2
    demoted = (batch.S_R - batch.R_w) * batch.Q_pos * batch.B_2
    return promoted + demoted + batch.S_R * (batch.Q_pos * batch.U_neg2 - batch.Q_neg * batch.U_pos2)


def bracket(batch):
    """The factor of the unsampled-correct mass in Eq. 10's normalization coupling."""
    sampled = (batch.R_c - batch.S_R) * batch.A_2 + (batch.R_w - batch.S_R) * batch.B_2
    return sampled - batch.S_R * batch.U_2


def unsampled_correct_mass_change(batch):
    """Eq. 10 in units of eta / G."""
    return -batch.S_R * batch.U_pos2 - (batch.Q_pos - batch.P_pos) * bracket(batch)


@claim(
    "f-grpo:eq-5",
    where="Section 2.3, Eq. 5",
    says="Differentiating the sample surrogate gives the logit update (eta/G) p_j (R_j - S_R).",
    formula=r"\Delta z_j = \frac{\eta}{G} p_j (R_j - S_R)",
    refuted_by="a set of sampled actions for which the gradient of (1/G) sum R_i p_i over it is another",
    reading="The surrogate sums over distinct sampled actions and the step ascends it. On the reading that every "
    "rollout counts, a repeated action would enter as often as drawn, and the print would fail.",
    statement=logit_update,
    planted={
        "no baseline": lambda batch: tuple(p * r for p, r in zip(batch.policy, batch.rewards, strict=True)),
        "baseline of all actions": lambda batch: tuple(
            p * (r - batch.R_c * batch.Q_pos - batch.R_w * batch.Q_neg)
            for p, r in zip(batch.policy, batch.rewards, strict=True)
        ),
    },
)
def eq_5(statement):
    """Differentiate the surrogate through the softmax; then the mean update over groups, against the simulator."""
    yield from equals(statement, BATCHES, derived=derived_logits, symbolic_points=SYMBOLIC_BATCHES)
    yield from equals(
        lambda policy, correct, G: expected(policy, G, lambda counts: statement(batch_of(policy, correct, counts))),
        GROUPS,
        enumerated=lambda policy, correct, G: expected(
            policy, G, lambda counts: derived_logits(batch_of(policy, correct, counts))
        ),
        sampled=lambda policy, correct, G: tuple(
            estimate(change) for change in theorem_steps(policy, correct, G).logit_change.T
        ),
        sampled_points=[SIMULATED],
    )


@claim(
    "f-grpo:sec-2.3-unsampled",
    where="Section 2.3, below Eq. 5; Section 3.2",
    says="Unsampled logits move by -(eta/G) S_R p_j: reward-positive batches push them down, reward-negative ones up.",
    formula=r"\Delta z_j = -\frac{\eta}{G} S_R p_j",
    refuted_by="an unsampled action whose logit moves otherwise, or a sign other than that of -S_R",
    reading="Eq. 5 at R_j = 0. Logits, as the paper says here, not probabilities: see f-grpo:app-g-unsampled for "
    "those.",
    identity=True,
    statement=lambda batch: tuple(
        -batch.S_R * p for p, sampled in zip(batch.policy, batch.sampled, strict=True) if not sampled
    ),
    planted={
        "pushed up": lambda batch: tuple(
            batch.S_R * p for p, sampled in zip(batch.policy, batch.sampled, strict=True) if not sampled
        ),
    },
)
def unsampled_logits(statement):
    """The derived gradient at the unsampled actions."""
    yield from equals(
        statement,
        BATCHES,
        derived=lambda batch: tuple(
            change for change, sampled in zip(derived_logits(batch), batch.sampled, strict=True) if not sampled
        ),
        symbolic_points=SYMBOLIC_BATCHES,
    )


def per_rollout_update(policy, correct, counts):
    """The ratio form: every rollout counts, as reward times grad log pi."""
    rewards = [(1 if c else -1) * count for c, count in zip(correct, counts, strict=True)]
    return tuple(score_gradient(policy, rewards))


@claim(
    "f-grpo:sec-2.3-unbiased",
    where="Section 2.3",
    says="On average the update of Eq. 5 is the gradient of the expected reward, since the text calls its sample "
    "surrogates unbiased Monte Carlo estimates.",
    refuted_by="a policy and a group size at which the mean update is not the gradient of the expected reward",
    reading="The TRPO surrogate is the mean of R p(theta)/p, whose gradient is that of E[R]. The sample surrogate of "
    "Eq. 5, to which the text goes on, has no division by p and counts each distinct action once. The text does not "
    "say of what it is an estimate. Of the sum of p_i R_i p_i(theta) it is unbiased at G = 1 alone.",
    caveat="Proposition 3.2 is not affected: it follows from Eq. 5, whatever Eq. 5 estimates.",
    inferred=True,
    severity=CONDITIONS,
    statement=lambda policy, correct, counts: logit_update(batch_of(policy, correct, counts)),
    correction=Amended(
        "The ratio form (1/G) sum_i R_i p_i / stopgrad(p_i) over all rollouts, repeats included, is unbiased.",
        per_rollout_update,
    ),
    planted={
        "Eq. 5 with every rollout counted": lambda policy, correct, counts: tuple(
            score_gradient(
                policy,
                [(1 if c else -1) * count * p for c, count, p in zip(correct, counts, policy, strict=True)],
            )
        )
    },
)
def unbiased(statement):
    """The exact mean of the update over all groups, against the gradient of E[R]."""
    yield from equals(
        lambda policy, correct, G: expected(policy, G, lambda counts: statement(policy, correct, counts)),
        [{"policy": p, "correct": c, "G": G} for p, c in POLICIES[1:] for G in (1, 2, 4)],
        enumerated=lambda policy, correct, G: tuple(
            score_gradient(policy, [p if c else -p for p, c in zip(policy, correct, strict=True)])
        ),
    )


@claim(
    "f-grpo:eq-4",
    where="Section 2.3, Eq. 4; Table 15",
    says="Q_pos is the total mass of the correct actions, and Q_neg, that of the incorrect ones, its complement.",
    formula=r"Q_{pos} = \sum_{i \in P} p_i, \quad Q_{neg} = 1 - Q_{pos}",
    refuted_by="a policy whose mean share of correct rollouts differs",
    reading="Tested as the mean share of correct rollouts, by which Q_pos is the mu_pos of Eq. 2 in the categorical "
    "case; the paper keeps two symbols on purpose.",
    identity=True,
    statement=lambda policy, correct, G: (mass(policy, correct), 1 - mass(policy, correct)),
    planted={"share of actions": lambda policy, correct, G: (Fraction(sum(correct), len(correct)), Fraction(1, 2))},
)
def eq_4(statement):
    """The mean share of correct rollouts over all groups, and over drawn ones."""

    def shares(policy, correct, G):
        right = expectation(policy, G, lambda counts: Fraction(mass(counts, correct), G))
        return right, 1 - right

    def sampled(policy, correct, G):
        right = np.asarray(correct)[theorem_steps(policy, correct, G).actions].mean(axis=1)
        return estimate(right), estimate(1 - right)

    yield from equals(statement, GROUPS, enumerated=shares, sampled=sampled, sampled_points=[SIMULATED])


@claim(
    "f-grpo:eq-18",
    where="Appendix E, Eq. 18",
    says="A small logit change dz changes p_i by p_i (dz_i - sum_j p_j dz_j), to first order.",
    formula=r"\Delta p_i = p_i \Big( \Delta z_i - \sum_j p_j \Delta z_j \Big)",
    refuted_by="an error that does not fall with the square of the step",
    reading="To first order in dz, as the paper says.",
    identity=True,
    statement=lambda policy, direction: [
        p * (d - sum(q * e for q, e in zip(policy, direction, strict=True)))
        for p, d in zip(policy, direction, strict=True)
    ],
    planted={
        "no normalization": lambda policy, direction: [p * d for p, d in zip(policy, direction, strict=True)],
        "plain mean": lambda policy, direction: [
            p * (d - sum(direction) / Fraction(len(direction))) for p, d in zip(policy, direction, strict=True)
        ],
    },
)
def eq_18(statement):
    """The derivative of the softmax along a direction; then the exact change of the policy after a finite step."""
    yield from equals(
        lambda policy, direction: tuple(statement(policy, direction)),
        DIRECTIONS,
        derived=derived_policy_change,
        symbolic_points=[{"policy": SYMBOLIC_POLICY, "direction": sympy.symbols("d1:5")}],
    )

    def error(step, policy, direction):
        stated = statement(policy, direction)
        moved = zip(stepped(policy, direction, step), policy, stated, strict=True)
        return max(abs(new - number(old) - step * number(change)) for new, old, change in moved)

    yield from vanishes(error, DIRECTIONS, order=2)


@claim(
    "f-grpo:eq-19",
    where="Appendix E, Eq. 19",
    says="The mass of a subset changes by the sum of p_i dz_i over it, less its mass times the mean of dz: it changes "
    "also when no logit in it does.",
    formula=r"\Delta Q_S = \sum_{i \in S} p_i \Delta z_i - Q_S \sum_j p_j \Delta z_j",
    refuted_by="a subset, a policy and a direction for which the derivative differs",
    reading="To first order, as Eq. 18 of which it is the sum.",
    identity=True,
    statement=lambda policy, direction, subset: (
        mass([p * d for p, d in zip(policy, direction, strict=True)], subset)
        - mass(policy, subset) * sum(p * d for p, d in zip(policy, direction, strict=True))
    ),
    planted={
        "direct term alone": lambda policy, direction, subset: mass(
            [p * d for p, d in zip(policy, direction, strict=True)], subset
        ),
    },
)
def eq_19(statement):
    """Sum the derivative of the softmax over the subset; then the exact change after a finite step."""
    points = [
        point | {"subset": tuple(action in chosen for action in range(len(point["policy"])))}
        for point in DIRECTIONS
        for chosen in ((0,), (0, len(point["policy"]) - 1))
    ]
    yield from equals(
        statement,
        points,
        derived=lambda policy, direction, subset: mass(derived_policy_change(policy, direction), subset),
        symbolic_points=[
            {
                "policy": SYMBOLIC_POLICY,
                "direction": (*sympy.symbols("d1:4"), sympy.Integer(0)),
                "subset": (True, False, False, True),
            }
        ],
    )

    def error(step, policy, direction, subset):
        change = mass(stepped(policy, direction, step), subset) - number(mass(policy, subset))
        return change - step * number(statement(policy, direction, subset))

    yield from vanishes(error, points, order=2)


@claim(
    "f-grpo:eq-9",
    where="Section 3.2, Eq. 9",
    says="Q_pos - P_pos is the positive mass outside the distinct sampled positive set.",
    formula=r"Q_{u,pos} = Q_{pos} - P_{pos}",
    refuted_by="a policy and a group size for which the mean of the unsampled correct mass differs",
    reading="P_pos counts each sampled action once, as the paper says (distinct). If it counted repeats, Eq. 9 could "
    "be negative. The mean over groups is the sum of p (1 - p)^G over the correct actions.",
    identity=True,
    statement=lambda batch: batch.Q_pos - batch.P_pos,
    planted={
        "minus all sampled mass": lambda batch: batch.Q_pos - batch.P_pos - batch.P_neg,
        "unsampled mass": lambda batch: batch.power_sum(1, sampled=False),
    },
)
def eq_9(statement):
    """The mean over all groups, against linearity of expectation and the drawn groups."""
    yield from equals(
        lambda policy, correct, G: expectation(policy, G, lambda counts: statement(batch_of(policy, correct, counts))),
        GROUPS,
        enumerated=lambda policy, correct, G: mass([p * (1 - p) ** G for p in policy], correct),
        sampled=lambda policy, correct, G: estimate(
            np.sum(
                np.where(unsampled(theorem_steps(policy, correct, G)) & np.asarray(correct), np.float64(policy), 0),
                axis=1,
            )
        ),
        sampled_points=[SIMULATED],
    )


def changes_mass(statement, members, simulated_members):
    """A formula for the first-order change of a mass: derivation, exact finite steps, and the simulator's mean."""
    yield from equals(
        statement,
        BATCHES,
        derived=lambda batch: derived_mass(batch, members(batch)),
        symbolic_points=SYMBOLIC_BATCHES,
    )
    yield from vanishes(
        lambda step, batch: finite_change(batch, members(batch), step) - step * number(statement(batch)),
        STEPPED,
        order=2,
    )

    def simulated(policy, correct, G):
        steps = theorem_steps(policy, correct, G)
        return simulated_mass_change(steps, simulated_members(steps) & np.asarray(correct))

    def mean_change(policy, correct, G, change):
        return expected(policy, G, lambda counts: change(batch_of(policy, correct, counts)))

    yield from equals(
        lambda policy, correct, G: mean_change(policy, correct, G, statement),
        GROUPS,
        enumerated=lambda policy, correct, G: mean_change(
            policy, correct, G, lambda batch: derived_mass(batch, members(batch))
        ),
        sampled=simulated,
        sampled_points=[SIMULATED],
    )


@claim(
    "f-grpo:prop-3.2",
    where="Section 3.2, Proposition 3.2, Eq. 10; proof in Appendix F",
    says="Under the update of Eq. 5 the unsampled correct mass changes, to first order, by a direct drift -S_R U_pos2 "
    "and a normalization coupling -Q_upos [(R_c - S_R) A_2 + (R_w - S_R) B_2 - S_R U_2], times eta/G.",
    formula=r"\Delta Q_{u,pos} = \frac{\eta}{G} \big\{ -S_R U_{pos,2} - Q_{u,pos} [ (R_c - S_R) A_2 + (R_w - S_R) B_2 "
    r"- S_R U_2 ] \big\}",
    refuted_by="a batch for which the derivative along the surrogate's gradient differs, or a finite step whose error "
    "does not fall with the square of the step",
    reading="The set of unsampled actions is held at that of the step, as the proof does. Eqs. 20 to 22 of the proof "
    "are judged only through their result.",
    statement=unsampled_correct_mass_change,
    planted={
        "sign of the drift": lambda batch: unsampled_correct_mass_change(batch) + 2 * batch.S_R * batch.U_pos2,
        "U_pos2 in the coupling": lambda batch: (
            unsampled_correct_mass_change(batch) + (batch.Q_pos - batch.P_pos) * batch.S_R * (batch.U_pos2 - batch.U_2)
        ),
    },
)
def prop_3_2(statement):
    """Run ``changes_mass`` on the unsampled correct actions of each batch."""
    yield from changes_mass(statement, lambda batch: batch.unsampled_correct, unsampled)


@claim(
    "f-grpo:eq-17",
    where="Appendix C, Eq. 17",
    says="The total correct mass changes, to first order, by (eta/G) [(R_c - S_R) Q_neg A_2 + (S_R - R_w) Q_pos B_2 + "
    "S_R (Q_pos U_neg2 - Q_neg U_pos2)].",
    formula=r"\Delta Q_{pos} = \frac{\eta}{G} \big[ (R_c - S_R) Q_{neg} A_2 + (S_R - R_w) Q_{pos} B_2 + S_R (Q_{pos} "
    r"U_{neg,2} - Q_{neg} U_{pos,2}) \big]",
    refuted_by="as for Proposition 3.2",
    reading="Taken over from BroRL; here it is derived anew from Eq. 5.",
    statement=correct_mass_change,
    planted={
        "sign of the coupling": lambda batch: (
            correct_mass_change(batch) - 2 * batch.S_R * (batch.Q_pos * batch.U_neg2 - batch.Q_neg * batch.U_pos2)
        ),
    },
)
def eq_17(statement):
    """Run ``changes_mass`` on the correct actions."""
    yield from changes_mass(statement, lambda batch: batch.correct, lambda steps: np.True_)


@claim(
    "f-grpo:app-f-mean-update",
    where="Appendix F; bracket of Eq. 10",
    says="The bracket of Eq. 10 is the policy's mean of the logit update, sum_j p_j dz_j.",
    formula=r"\sum_j p_j \Delta z_j = \frac{\eta}{G} [ (R_c - S_R) A_2 + (R_w - S_R) B_2 - S_R U_2 ]",
    refuted_by="a batch for which the mean of the derived update differs",
    reading="The step from Eq. 19 to Eq. 10. The stored text has lost the proof; this is how it must go.",
    inferred=True,
    identity=True,
    statement=bracket,
    planted={"sign of the incorrect part": lambda batch: bracket(batch) - 2 * (batch.R_w - batch.S_R) * batch.B_2},
)
def app_f(statement):
    """The policy's mean of the derived gradient."""
    yield from equals(
        statement,
        BATCHES,
        derived=lambda batch: sum(p * z for p, z in zip(batch.policy, derived_logits(batch), strict=True)),
        symbolic_points=SYMBOLIC_BATCHES,
    )
