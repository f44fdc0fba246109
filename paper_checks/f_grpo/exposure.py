"""Appendix H and Section 4.1: what the number of correct rollouts says of the sampled correct mass."""

import itertools
from collections import defaultdict
from fractions import Fraction

from paper_checks.claim import claim
from paper_checks.evidence import equals, satisfies
from paper_checks.exact import POLICIES, groups, mass
from paper_checks.f_grpo.sampled_sets import Batch, batch_of

G = 4
PROMPTS = [{"policy": policy, "correct": correct} for policy, correct in POLICIES]


def given_successes(policy, correct, value):
    """(G + 1,) the mean of a value over the groups with X = 0, 1, ..., G correct rollouts, by Bayes."""
    weight: defaultdict[int, Fraction] = defaultdict(Fraction)
    total: defaultdict[int, Fraction] = defaultdict(Fraction)
    for chance, counts in groups(policy, G):
        successes = mass(counts, correct)
        weight[successes] += chance
        total[successes] += chance * value(counts)
    return [total[successes] / weight[successes] for successes in range(G + 1)]


def sampled_mass(policy, kind, draws):
    """Eqs. 24 and 25: the mean distinct mass of this kind after so many draws of it."""
    whole = mass(policy, kind)
    return sum((p * (1 - (1 - p / whole) ** draws) for p, k in zip(policy, kind, strict=True) if k), start=Fraction(0))


def by_successes(policy, correct, x):
    """Both masses given X = x."""
    wrong = [not c for c in correct]
    return sampled_mass(policy, correct, x), sampled_mass(policy, wrong, G - x)


def enumerated_masses(policy, correct, x):
    """Both distinct sampled masses, averaged over the groups with X = x."""
    return tuple(
        given_successes(policy, correct, lambda counts, side=side: getattr(batch_of(policy, correct, counts), side))[x]
        for side in ("P_pos", "P_neg")
    )


@claim(
    "f-grpo:lemma-h.1",
    where="Appendix H, Lemma H.1, Eqs. 24 and 25",
    says="Given X = x the mean distinct sampled correct mass is sum of p (1 - (1 - p/mu)^x) over the correct, and the "
    "incorrect mass likewise with G - x draws.",
    formula=r"\mathbb{E}[P_{pos} \mid X = x] = \mu \sum_{a} q_a (1 - (1 - q_a)^x)",
    refuted_by="an x at which the mean over all groups with x correct rollouts differs",
    reading="i.i.d. rollouts, repeats removed.",
    statement=by_successes,
    planted={
        "p for q": lambda policy, correct, x: (
            sum(p * (1 - (1 - p) ** x) for p, c in zip(policy, correct, strict=True) if c),
            by_successes(policy, correct, x)[1],
        ),
        "repeats counted": lambda policy, correct, x: (
            x * mass([p * p for p in policy], correct) / mass(policy, correct),
            by_successes(policy, correct, x)[1],
        ),
    },
)
def lemma_h_1(statement):
    """Enumerate the groups of four and condition on X."""
    yield from equals(
        statement, [prompt | {"x": x} for prompt in PROMPTS for x in range(G + 1)], enumerated=enumerated_masses
    )


@claim(
    "f-grpo:lemma-h.1-monotone",
    where="Appendix H, Lemma H.1, monotonicity",
    says="Given X = x the mean sampled correct mass never falls, and the incorrect never rises, with x.",
    refuted_by="a policy and an x at which it does",
    reading="So the unsampled correct mass, and the chance that a target is missed, are largest in the groups of low "
    "success: the focal weight attenuates the groups that expose most. The paper says so itself (Section 4.1).",
    statement=lambda right, wrong: (
        all(later >= earlier for earlier, later in itertools.pairwise(right))
        and all(later <= earlier for earlier, later in itertools.pairwise(wrong))
    ),
    planted={"both grow": lambda right, wrong: sorted(right) == list(right) and sorted(wrong) == list(wrong)},
)
def lemma_h_1_monotone(statement):
    """Enumerate the groups of four and condition on X."""
    yield from satisfies(
        lambda value, **_: statement(*value),
        PROMPTS,
        lambda policy, correct: tuple(zip(*(enumerated_masses(policy, correct, x) for x in range(G + 1)), strict=True)),
    )


@claim(
    "f-grpo:cor-h.2",
    where="Appendix H, below Lemma H.1: Corollary H.2; Section 4.1",
    says="With R_c > 0 >= R_w the mean batch baseline S_R given X is non-decreasing in X.",
    refuted_by="rewards of these signs and a policy for which it falls from one X to the next",
    reading="R_c > 0 >= R_w, the standard rewards the corollary assumes. With R_w > 0 it can fall. That unsampled "
    "correct mass loses the more the larger X, as the use of it in Section 4.1 suggests, does not follow: where "
    "correct actions are few, many successes leave less of them unsampled.",
    statement=lambda means, R_c, R_w: sorted(means) == means if R_c > 0 >= R_w else None,
    planted={
        "for any rewards": lambda means, R_c, R_w: sorted(means) == means,
        "it falls": lambda means, R_c, R_w: sorted(means, reverse=True) == means if R_c > 0 >= R_w else None,
    },
)
def corollary_h_2(statement):
    """Enumerate S_R over the groups of four and condition on X."""

    def means(policy, correct, R_c, R_w):
        return given_successes(
            policy,
            correct,
            lambda counts: Batch(policy, correct, tuple(n > 0 for n in counts), R_c, R_w).S_R,
        )

    rewards = ((1, 0), (1, -1), (Fraction(1, 10), -2), (1, 1))
    points = [prompt | {"R_c": R_c, "R_w": R_w} for prompt in PROMPTS for R_c, R_w in rewards]
    yield from satisfies(lambda value, R_c, R_w, **_: statement(value, R_c, R_w), points, means)
