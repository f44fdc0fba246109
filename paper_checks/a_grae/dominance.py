"""Control Experiment I, Table 1a and Appendix B.5: one group whose positive advantages are rescaled."""

import re
from fractions import Fraction

import numpy as np
from mpmath import mp, mpf

from paper_checks.a_grae.advantage import (
    FACTORS,
    MIXED,
    action_weights,
    binary_group,
    drawn_with,
    grae,
    tilted,
)
from paper_checks.a_grae.logits import (
    ETA,
    PEAKED,
    SIMULATED_GROUPS,
    differentiated,
    distinct,
    groups_of,
    simulated_change,
    summed,
    unsampled,
)
from paper_checks.claim import CHANGES, CONDITIONS, Amended, claim
from paper_checks.evidence import equals, grid, number, satisfies
from paper_checks.exact import POLICIES, stepped

NEGATIVE = FACTORS["negative_dominant"]


def mixed(counts, correct):
    """Tell if a group has a correct and an incorrect rollout."""
    return len({right for right, count in zip(correct, counts, strict=True) if count}) == 2


def negative_dominant_groups(sizes, policies=(*POLICIES[:3], *PEAKED)):
    """Mixed groups under the negative-dominant control."""
    points = groups_of(sizes, policies=policies, factors=(NEGATIVE,))
    return [point for point in points if mixed(point["counts"], point["correct"])]


def balance(variant, G, s):
    """The sign of the sum of a group's advantages."""
    return int(mp.sign(mp.chop(mp.fsum(tilted(grae(binary_group(G, s)), FACTORS[variant])), tol=1e-30)))


SIGNS = {"grpo": 0, "positive_dominant": 1, "negative_dominant": -1}


@claim(
    "a-grae:control-1",
    where="Section 4.1, Control Experiment I; Table 1a; Appendix B.5 (C < 0)",
    says="Multiplying positive advantages by 10 makes a group's advantages sum to more than 0, dividing them by 10 to "
    "less than 0.",
    formula=r"\sum_i A_i^* > 0 \;(\beta A_{pos}), \quad < 0 \;(A_{pos} / \beta)",
    refuted_by="a mixed group whose sum has another sign",
    reading="Mixed groups; where all rewards are equal all advantages are 0 in either variant. Only the signs are "
    "printed; the sums are (beta - 1) and -(1 - 1/beta) times G sqrt(p (1 - p)). No reading was found that fails.",
    identity=True,
    statement=lambda variant, G, s: SIGNS[variant],
    planted={
        "the variants exchanged": lambda variant, G, s: -SIGNS[variant],
        "zero at p = 1/2": lambda variant, G, s: 0 if 2 * s == G else SIGNS[variant],
    },
)
def dominated_sums(statement):
    """Add up the advantages of every mixed group, by definition and as simlab gives them to drawn groups."""

    def drawn_sign(variant, G, s):
        return drawn_with(G, s, variant, lambda advantages: np.sign(advantages.sum(axis=1).round(9)))

    yield from equals(
        statement,
        [{"variant": variant} | point for variant in SIGNS for point in MIXED],
        enumerated=balance,
        sampled=drawn_sign,
        sampled_points=[{"variant": variant, "G": 8, "s": 3} for variant in SIGNS],
    )


TABLE_1 = (r"\beta \cdot A_{pos}", r"A_{pos}/\beta", r"\gamma \cdot A_i/\sqrt{p}", r"\gamma \cdot A_i/\sqrt{1-p}")


@claim(
    "a-grae:table-1-caption",
    where="Section 4.1, Table 1, caption, against Eq. 13",
    says="The scaling constants of the controlled experiments are alpha = 10 and gamma = 0.5.",
    formula=r"\alpha = 10, \quad \gamma = 0.5",
    refuted_by="a constant of the caption that no formula of the table contains, or a value Eq. 13 excludes",
    reading="Table 1 and Section 4.1 write beta = 10, and alpha is at most 1 in Eq. 13 (with 10 there the factor would "
    "never exceed 0.1). beta also is the KL coefficient of Eq. 1. No reading was found on which the caption is right.",
    statement={"alpha": 10, "gamma": 0.5},
    slip=Amended("beta = 10 and gamma = 0.5", {"beta": 10, "gamma": 0.5}),
    planted={"beta for gamma": {"alpha": 10, "beta": 0.5}},
)
def caption(statement):
    """Look up the caption's symbols in the table's formulas, and the range that Eq. 13 sets for alpha."""
    used = {name for formula in TABLE_1 for name in re.findall(r"\\(alpha|beta|gamma)", formula)}
    yield from satisfies(
        lambda present, symbol: present and not (symbol == "alpha" and statement[symbol] > 1),
        grid(symbol=list(statement)),
        lambda symbol: symbol in used,
        method="arithmetic",
    )


def sampled_entries(values, counts, correct, side):
    """The entries of sampled actions that are correct (``side`` true) or not."""
    return [value for value, count, right in zip(values, counts, correct, strict=True) if count and right == side]


def probability_moves(policy, correct, counts, factor):
    """Exact changes of all probabilities by one step of size 0.1."""
    after = stepped(policy, summed(policy, correct, counts, factor), number(ETA))
    return [new - number(old) for new, old in zip(after, policy, strict=True)]


@claim(
    "a-grae:eq-34",
    where="Appendix B.5, Case A, Eq. 34",
    says="Under the negative-dominant control a sampled correct response strictly gains probability.",
    formula=r"\Delta h_{b_i} = \eta (A_{pos} - C \pi_{b_i}) > 0",
    refuted_by="a mixed group after which a sampled correct action is less likely",
    reading="Exact probabilities after one step of 0.1. The logit does rise, but so do all unsampled ones, the likely "
    "ones more: a rare correct action then loses. On the reading that the logit is meant it would hold.",
    severity=CONDITIONS,
    same_error_as="a-grae:app-b5-increase",
    statement=lambda moves, **_: all(change > 0 for change in moves[1]),
    correction=Amended("its logit strictly increases", lambda moves, **_: all(change > 0 for change in moves[0])),
    planted={"its logit decreases": lambda moves, **_: all(change < 0 for change in moves[0])},
)
def correct_gains(statement):
    """Take the step in every mixed group of two or three different paths, and look at logits and probabilities."""

    def moves(policy, correct, counts, factor):
        change = summed(policy, correct, counts, factor)
        probabilities = probability_moves(policy, correct, counts, factor)
        return tuple(tuple(sampled_entries(values, counts, correct, True)) for values in (change, probabilities))

    points = [point for point in negative_dominant_groups([2, 3]) if distinct(point["counts"])]
    yield from satisfies(statement, points, moves, names=("changes of logits", "of probabilities"))


def can_rise(G):
    """Look for an error that gains logit in a mixed group of G different paths, at probabilities up to 0.99."""
    gains = []
    for s in range(1, G):
        values = tilted(grae(binary_group(G, s)), NEGATIVE)
        gains += [values[-1] - mp.fsum(values) * mpf(percent) / 100 for percent in range(1, 100)]
    return max(gains) > 0


@claim(
    "a-grae:eq-35",
    where="Appendix B.5, Case B, Eq. 35",
    says="Under the negative-dominant control the logit of an overconfident sampled error can even rise.",
    formula=r"\Delta h_{b_i} = \eta (A_{neg} - C \pi_{b_i})",
    refuted_by="a group size of three or more at which no group raises the logit of any error it contains",
    reading="One group, of different paths, three or more. It takes pi_b > beta / ((beta - 1)(G - s)), so that for a "
    "single error (and for G = 2) it cannot happen.",
    caveat="In single groups. Averaged over groups the logit of every error falls, as under GRPO "
    "(simlab:exploration-is-paid-back).",
    statement=lambda G: True,
    planted={"never": lambda G: False, "only in large groups": lambda G: G >= 8},
)
def error_rises(statement):
    """Search the groups of each size, with the error's probability from 0.01 to 0.99."""
    yield from equals(statement, grid(G=[3, 4, 5, 8]), enumerated=can_rise)


def drift(policy, correct, counts, factor, sign=-1):
    """-C pi for the unsampled actions."""
    total = mp.fsum(action_weights(counts, correct, factor))
    return unsampled([sign * total * number(p) for p in policy], counts)


@claim(
    "a-grae:eq-36",
    where="Appendix B.5, Case C, Eq. 36",
    says="An unsampled response's logit changes by -C times its probability, which is upward where C < 0.",
    formula=r"\Delta h_{b_i} = \eta (-C \pi_{b_i})",
    refuted_by="a group for which the gradient of an unsampled logit differs",
    reading="C summed over rollouts, repeated paths included. On the reading that C is the sum over distinct paths it "
    "would fail in groups with repeats.",
    identity=True,
    statement=drift,
    planted={"downward": lambda **group: drift(**group, sign=1)},
)
def unsampled_drift(statement):
    """Differentiate, add up rollout by rollout, and simulate the groups that leave an action out."""

    def only_unsampled(change):
        return lambda **group: unsampled(change(**group), group["counts"])

    points = [point for point in negative_dominant_groups([2, 3]) if 0 in point["counts"]]
    yield from equals(
        statement,
        points,
        derived=only_unsampled(differentiated),
        enumerated=only_unsampled(summed),
        sampled=only_unsampled(simulated_change),
        sampled_points=SIMULATED_GROUPS,
    )


def unsampled_moves(policy, correct, counts, factor):
    """Changes of the unsampled actions' logits and of their probabilities."""
    change = summed(policy, correct, counts, factor)
    return tuple(unsampled(values, counts) for values in (change, probability_moves(policy, correct, counts, factor)))


@claim(
    "a-grae:app-b5-increase",
    where="Appendix B.5, Case C, after Eq. 36",
    says="Under the negative-dominant control the probabilities of all unsampled responses increase.",
    refuted_by="a mixed group after which an unsampled action is less likely",
    reading="Output probabilities, as the sentence says, after one step of 0.1. The drift grows with the probability "
    "itself, so that a dominant unsampled action takes from a rare one. On the reading that logits are meant it "
    "would hold, as the correction does.",
    severity=CHANGES,
    statement=lambda moves, **_: all(change > 0 for change in moves[1]),
    correction=Amended("their logits increase", lambda moves, **_: all(change > 0 for change in moves[0])),
    planted={"their logits stay": lambda moves, **_: all(change == 0 for change in moves[0])},
)
def unsampled_gain(statement):
    """Take the step in every mixed group of different paths that leaves an action out, one action being dominant."""
    rare = ((Fraction(1, 20), Fraction(1, 20), Fraction(8, 10), Fraction(1, 10)), (True, False, True, True))
    points = negative_dominant_groups([2, 3], policies=(*POLICIES[1:3], rare))
    tails = [point for point in points if 0 in point["counts"] and distinct(point["counts"])]
    yield from satisfies(statement, tails, unsampled_moves, names=("changes of logits", "of probabilities"))


@claim(
    "a-grae:against-casp",
    where="Appendix B.5, 'exploration incentive', with Figure 1 ('low-probability correct paths'), against CaSP Lemma "
    "2",
    says="The negative-dominant lift of unsampled paths is the squeeze of CaSP's Lemma 2: of two of them the likelier "
    "gains the larger factor.",
    refuted_by="two unsampled actions of which the rarer gains the larger factor",
    reading="CaSP's Lemma 2: negative samples squeeze mass onto the likeliest candidate. A-GRAE says that all "
    "unsampled paths rise, and wants rare ones found. The lift multiplies by exp(-eta C p), most where p is largest: "
    "both papers describe one thing, and for rare paths CaSP's account is the right one. On the reading that any "
    "rise of an unsampled logit is exploration A-GRAE's holds (a-grae:eq-36).",
    inferred=True,
    statement=lambda factors, **_: factors[0] <= factors[1],
    planted={
        "the rarer does": lambda factors, **_: factors[0] >= factors[1],
        "no difference": lambda factors, **_: abs(factors[0] - factors[1]) < mpf("1e-30"),
    },
)
def squeeze(statement):
    """The factors by which one step multiplies the rarest and the likeliest unsampled probability of each group."""

    def factors(policy, correct, counts, factor):
        after = stepped(policy, summed(policy, correct, counts, factor), number(ETA))
        pairs = sorted(zip(unsampled(policy, counts), unsampled(after, counts), strict=True))
        return tuple(new / number(old) for old, new in (pairs[0], pairs[-1]))

    points = negative_dominant_groups([2, 3], policies=POLICIES[2:])
    several = [point for point in points if point["counts"].count(0) >= 2 and distinct(point["counts"])]
    yield from satisfies(statement, several, factors)
