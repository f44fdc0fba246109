"""Section 5.1 and Appendix J: the categorical simulator beside the theorem, and its measures."""

from fractions import Fraction
from typing import Any

import numpy as np

from paper_checks.claim import CONDITIONS, COSMETIC, Amended, claim
from paper_checks.evidence import equals, satisfies
from paper_checks.exact import POLICIES, compositions, groups, mass, score_gradient
from paper_checks.f_grpo.redistribution import logit_update
from paper_checks.f_grpo.sampled_sets import (
    SIMULATED,
    batch_of,
    derived_logits,
    derived_policy_change,
    theorem_steps,
    unsampled,
)
from paper_checks.simulated import simulated_step

COUNTED = [
    {"policy": policy, "correct": correct, "counts": counts}
    for policy, correct in POLICIES[1:3]
    for _, counts in groups(policy, 3)
    if 0 < mass(counts, correct) < 3
]


def centred(correct, counts):
    """Rewards 1 and -1 less their mean over the group, per action, repeats counted."""
    rewards = [1 if c else -1 for c in correct]
    mean = Fraction(sum(r * n for r, n in zip(rewards, counts, strict=True)), sum(counts))
    return [(r - mean) * n for r, n in zip(rewards, counts, strict=True)]


def ratio_update(policy, correct, counts):
    """Ascent of (1/G) sum A_i p_i / stopgrad(p_i), in units of eta / G."""
    return tuple(score_gradient(policy, centred(correct, counts)))


def literal_update(policy, correct, counts):
    """Ascent of (1/G) sum A_i p_i, in units of eta / G."""
    return tuple(score_gradient(policy, [a * p for a, p in zip(centred(correct, counts), policy, strict=True)]))


def at_unsampled(values, counts):
    """The entries of the actions that were not drawn."""
    return tuple(value for value, count in zip(values, counts, strict=True) if count == 0)


def ratio_steps(policy, correct, G):
    """The simulator's first step in the ratio form, rewards 1 and -1 centred by the batch mean."""
    return simulated_step(tuple(policy), correct, G, "dr_grpo", rewards=(1.0, -1.0), update_rule="simulator")


@claim(
    "f-grpo:sec-5.1-direct-drift",
    where="Section 5.1 (first paragraph), with Appendix J and Sections 2.3 and 3.2",
    says="The simulation runs in the framework of Section 2.3 and tests the mechanism of Section 3.2 directly, so that "
    "its unsampled logits drift by -(eta/G) S_R p_j.",
    refuted_by="a mixed group after which the simulation's update moves an unsampled logit otherwise",
    reading="Section 5.1 says that the simulation tests the local quantities of Section 3.2 directly, in the same "
    "framework; the drift is one of them. Appendix J's objective has group-relative advantages, A_i = R_i less the "
    "batch mean. It is taken in both forms: (1/G) sum A_i p_i, as restored (the stored text has lost it), and with the "
    "ratio p_i / stopgrad(p_i), the only one found to reproduce Figure 2 (f-grpo:fig-2). Neither has the drift of Eq. "
    "5, and the ratio form has no drift at all. Section 4 itself says of GRPO that unsampled correct behavior is "
    "affected only indirectly.",
    caveat="The outcome that Section 5.1 looks for, mass gained in all and lost in part, does occur in the simulation: "
    "f-grpo:sec-5.1-same-mechanism.",
    same_error_as="f-grpo:sec-2.3-unbiased",
    inferred=True,
    severity=CONDITIONS,
    statement=lambda policy, correct, counts, form: logit_update(batch_of(policy, correct, counts)),
    correction=Amended(
        "In the restored form unsampled logits move by -(eta/G) p_j times the sum of A_i p_i over the rollouts; in the "
        "ratio form they do not move, and unsampled actions change probability through normalization alone.",
        lambda policy, correct, counts, form: tuple(
            -p * sum(a * q for a, q in zip(centred(correct, counts), policy, strict=True)) if form == "printed" else 0
            for p in policy
        ),
    ),
    planted={
        "opposite sign": lambda policy, correct, counts, form: tuple(
            -z for z in logit_update(batch_of(policy, correct, counts))
        ),
        "no drift in either form": lambda policy, correct, counts, form: (0,) * len(policy),
    },
)
def direct_drift(statement):
    """Enumerate the groups of three rollouts; then the largest move of an unsampled logit over simulated steps."""
    forms = {"printed": literal_update, "ratio": ratio_update}
    yield from equals(
        lambda counts, **point: at_unsampled(statement(counts=counts, **point), counts),
        [point | {"form": form} for form in forms for point in COUNTED],
        enumerated=lambda policy, correct, counts, form: at_unsampled(forms[form](policy, correct, counts), counts),
    )
    policy, correct, size = SIMULATED.values()
    steps = ratio_steps(policy, correct, size)
    moved = {
        tuple(np.bincount(actions, minlength=len(policy)).tolist()): change
        for actions, change in zip(steps.actions[:500], steps.logit_change[:500], strict=True)
    }

    def agrees(value, counts):
        stated = at_unsampled(statement(policy, correct, counts, "ratio"), counts)
        gaps = (abs(move - float(drift) / size) for move, drift in zip(value, stated, strict=True))
        return bool(max(gaps, default=0) < 1e-12)

    active = [{"counts": counts} for counts in sorted(moved) if 0 < mass(counts, correct) < size]
    yield from satisfies(agrees, active, lambda counts: at_unsampled(moved[counts], counts), method="Monte Carlo")


@claim(
    "f-grpo:sec-5.1-same-mechanism",
    where="Section 5.1 (first paragraph)",
    says="The simulation can show what Section 3.2 shows: total correct mass grows while unsampled correct mass "
    "shrinks.",
    refuted_by="no mixed group with both changes under the simulation's update, or none under Eq. 5",
    reading="The mechanism as Section 5.1 words it, an outcome; existence, to first order. Where no correct action is "
    "likelier than an incorrect one the simulation's change, in the ratio form, is never negative.",
    caveat="The two updates are not the same (f-grpo:sec-5.1-direct-drift). Over mixed groups the mean change of the "
    "unsampled correct mass can be positive under Eq. 5 where the simulation's is negative.",
    statement=lambda theorem, simulation: all(
        any(total > 0 > missed for _, total, missed in changes) for changes in (theorem, simulation)
    ),
    planted={
        "the same sign in the mean": lambda theorem, simulation: (
            sum(chance * missed for chance, _, missed in theorem)
            * sum(chance * missed for chance, _, missed in simulation)
            > 0
        )
    },
)
def same_mechanism(statement):
    """Enumerate the mixed groups of four and both changes of each under both updates; then by the simulator."""

    def theorem_update(policy, correct, counts):
        return derived_logits(batch_of(policy, correct, counts))

    def changes(policy, correct, G, update):
        for chance, counts in groups(policy, G):
            if 0 < mass(counts, correct) < G:
                moved = derived_policy_change(policy, update(policy, correct, counts))
                missed = batch_of(policy, correct, counts).unsampled_correct
                yield chance, mass(moved, correct), mass(moved, missed)

    def both(**point):
        return [tuple(changes(**point, update=update)) for update in (theorem_update, ratio_update)]

    few = {"policy": tuple(Fraction(n, 9) for n in (3, 2, 3, 1)), "correct": (True, True, False, False), "G": 4}
    alike = {"policy": POLICIES[1][0], "correct": POLICIES[1][1], "G": 4}
    more = {"policy": POLICIES[3][0], "correct": POLICIES[3][1], "G": 4}
    yield from satisfies(lambda value, **_: statement(*value), [alike, few, more], both)

    def simulated(policy, correct, G):
        for steps in (theorem_steps(policy, correct, G), ratio_steps(policy, correct, G)):
            solved = np.asarray(correct)[steps.actions].sum(axis=1)
            change = steps.before * (steps.logit_change - steps.logit_change @ steps.before[:, None])
            missed = np.where(unsampled(steps), change, 0) @ np.asarray(correct)
            mixed = (solved > 0) & (solved < G)
            yield np.stack([np.ones(mixed.sum()), change[mixed] @ np.asarray(correct), missed[mixed]], axis=1)

    yield from satisfies(
        lambda value, **_: bool(statement(*value)),
        [more],
        lambda **point: [*simulated(**point)],
        method="Monte Carlo",
    )


def retained(before, after):
    """Eq. 26, over the correct actions."""
    return 1 - sum(max(0, b - a) for b, a in zip(before, after, strict=True)) / sum(before)


# Correct actions only; the incorrect ones hold the rest of the mass.
SHIFTS: list[dict[str, Any]] = [
    {"before": before, "after": after}
    for before in ((Fraction(1, 2), Fraction(1, 4)), (Fraction(1, 10), Fraction(2, 5), Fraction(1, 5)))
    for after in (
        before,
        tuple(p / 20 for p in before),
        tuple(p * Fraction(9, 10) for p in before),
        (*before[:-1], before[-1] + Fraction(1, 10)),
        (*before[:-2], before[-2] / 2, before[-1] + before[-2] / 2),
        (*(p / 100 for p in before[:-1]), Fraction(9, 10)),
    )
]


@claim(
    "f-grpo:eq-26",
    where="Appendix J, Eq. 26",
    says="M_ret lies in [0, 1] and is 1 exactly when no correct action has lost mass.",
    formula=r"M_{ret}(t) = 1 - \frac{\sum_{i \in P} \max(0, p_i(0) - p_i(t))}{\sum_{i \in P} p_i(0)}",
    refuted_by="two policies for which it leaves [0, 1], or is 1 after a loss, or less than 1 without one",
    reading="As printed.",
    identity=True,
    statement=retained,
    planted={
        "gains count against losses": lambda before, after: 1 - (sum(before) - sum(after)) / sum(before),
        "losses over the mass now": lambda before, after: (
            1 - sum(max(0, b - a) for b, a in zip(before, after, strict=True)) / sum(after)
        ),
    },
)
def eq_26(statement):
    """The properties, at policies that lose, keep and shift mass."""

    def proper(value, before, after):
        lost = any(a < b for b, a in zip(before, after, strict=True))
        return 0 <= value <= 1 and (value < 1) == lost

    yield from satisfies(proper, SHIFTS, statement, method="numerical")


@claim(
    "f-grpo:sec-5.1-retained",
    where="Section 5.1; Table 15",
    says="M_ret is the share of the initial correct probability that lies on actions still at or above their start.",
    refuted_by="two policies for which that share is not Eq. 26",
    reading="The words of Section 5.1 and of Table 15, 'has not decreased', by which an action that falls a little "
    "counts for nothing. A slip, since the sentence refers to Eq. 26 for what is meant: the part of the initial "
    "probability that is still there. On that reading of the words they hold.",
    statement=lambda before, after: sum(b for b, a in zip(before, after, strict=True) if a >= b) / sum(before),
    slip=Amended(
        "M_ret is the sum of min(p_0, p_t) over the correct actions, over the sum of p_0: the part of the initial "
        "correct mass still in place.",
        lambda before, after: sum(map(min, before, after)) / sum(before),
    ),
    planted={
        "share of actions": lambda before, after: Fraction(
            sum(a >= b for b, a in zip(before, after, strict=True)), len(before)
        )
    },
)
def retained_in_words(statement):
    """The words' formula against Eq. 26."""
    yield from equals(statement, SHIFTS, derived=retained)


@claim(
    "f-grpo:eq-26-concentration",
    where="Section 5.1; Appendix J, below Eq. 26",
    says="M_ret near 0 indicates concentration onto a smaller subset of the correct actions.",
    refuted_by="policies with M_ret near 0 whose correct mass is spread as before",
    reading="Concentrated: some subset with at most a share M of the correct mass at first holds 1 - M of it now. "
    "M_ret also falls to 0 when correct mass goes over to incorrect actions, evenly. On the reading that Q_pos is "
    "looked at too, as Figure 2 does, that is the condition.",
    statement=lambda concentrated, before, after: concentrated if retained(before, after) < Fraction(1, 4) else None,
    condition=Amended(
        "the correct mass has not fallen",
        lambda concentrated, before, after: (
            concentrated if retained(before, after) < Fraction(1, 4) and sum(after) >= sum(before) else None
        ),
    ),
    met="yes: Q_pos grows at every group size of Figure 2",
    severity=COSMETIC,
    planted={
        "never concentrated": lambda concentrated, before, after: (
            not concentrated if retained(before, after) < Fraction(1, 4) else None
        )
    },
)
def concentration(statement):
    """Look for the subset: the actions that have grown relative to the other correct ones."""

    def concentrated(before, after):
        share = retained(before, after)
        grown = [a * sum(before) > b * sum(after) for b, a in zip(before, after, strict=True)]
        return mass(before, grown) <= share * sum(before) and mass(after, grown) >= (1 - share) * sum(after)

    spread = [
        {"before": before, "after": tuple(Fraction(count, 8) for count in split[:-1])}
        for before in ((Fraction(1, 10),) * 5, tuple(Fraction(n, 30) for n in (1, 2, 3, 4, 5)))
        for split in compositions(8, 6)
    ]
    yield from satisfies(statement, SHIFTS + spread, concentrated, method="numerical")
