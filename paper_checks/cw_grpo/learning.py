"""Reweighting in a bandit's learning: unsampled actions, success, rare successes, entropy."""

import functools
from fractions import Fraction
from typing import Any

import numpy as np
import sympy
from mpmath import mp, mpf

from paper_checks.claim import CHANGES, CONDITIONS, Amended, claim
from paper_checks.cw_grpo.batches import (
    action_advantages,
    deviation,
    expected_update,
    kernel,
    normalised,
    rollouts,
    terms,
)
from paper_checks.cw_grpo.updates import UPDATES, entropy_rate, natural
from paper_checks.evidence import Estimate, equals, grid, number, satisfies
from paper_checks.exact import compositions, groups, logits, mass, score_gradient, softmax, stepped
from paper_checks.simulated import estimate, simulated_step

LOPSIDED = (Fraction(1, 5), Fraction(1, 10), Fraction(7, 10))
UNEVEN = (Fraction(1, 2), Fraction(1, 6), Fraction(1, 3))
STEP = mpf("1e-6")


def unsampled_change(policy, correct, counts, action):
    """The derivative of the group's objective at the logit of an action: mean of w A log pi, w A held fixed."""
    totals = action_advantages(policy, correct, counts, weighted=True)

    def objective(logit):
        scores = logits(policy)
        scores[action] = logit
        return mp.fsum(a * mp.log(p) for a, p in zip(totals, softmax(scores), strict=True)) / sum(counts)

    return mp.diff(objective, logits(policy)[action])


@claim(
    "cw-grpo:unsampled-logits",
    where="Section 2.3 ('to maintain the expected loss') beside A-GRAE Theorem 1",
    says="With the expected loss maintained, an action that no rollout took stays where GRPO leaves it: unmoved.",
    refuted_by="a group after which an unsampled action's logit moves",
    reading="What follows from a maintained sum of advantages; the paper does not speak of unsampled actions. "
    "One-token responses of a tabular softmax, the expected change of the action's logit over the groups without it; "
    "weights 1 where sigma is 0. A-GRAE: sampled advantages of sum C move an unsampled action by -C p / G; for GRPO "
    "C is 0.",
    inferred=True,
    severity=CONDITIONS,
    same_error_as="cw-grpo:expected-loss",
    statement=lambda total, G, p: mpf(0),
    correction=Amended(
        "They move by -(p / G) times the sum of the reweighted advantages, which is not 0.",
        lambda total, G, p: -p * total / G,
    ),
    planted={"the sign": lambda total, G, p: p * total / G},
)
def unsampled_logits(statement):
    """Differentiate the objective of every group that lacks the action, and run the simulator."""
    correct = (True, False, False)

    def over_groups(policy, G, action, change):
        return sum(number(chance) * change(counts) for chance, counts in groups(policy, G) if counts[action] == 0)

    def stated(policy, G, action):
        def of_group(counts):
            total = mp.fsum(action_advantages(policy, correct, counts, weighted=True))
            return statement(total, G, number(policy[action]))

        return over_groups(policy, G, action, of_group)

    @functools.cache
    def exact(policy, G, action):
        return over_groups(policy, G, action, lambda counts: unsampled_change(policy, correct, counts, action))

    def sampled(policy, G, action) -> Estimate:
        steps = simulated_step(policy, correct, G, "cw_grpo")
        return estimate(np.where(np.all(steps.actions != action, axis=1), steps.logit_change[:, action], 0.0))

    points = grid(policy=[LOPSIDED, UNEVEN], G=[3, 4], action=[2, 0])
    yield from equals(
        stated, points, enumerated=exact, sampled=sampled, sampled_points=points[:1], tolerance=mpf("1e-20")
    )


GROUPS = [
    {"policy": policy, "correct": correct, "counts": counts}
    for policy, correct in ((LOPSIDED, (True, False, False)), (UNEVEN, (True, True, False)))
    for size in (2, 3, 4)
    for counts in compositions(size, 3)
    if 0 < sum(count for count, right in zip(counts, correct, strict=True) if right) < size
]


@claim(
    "cw-grpo:group-improves",
    where="Section 2.3 (preserving learning signals); Section 1",
    says="As with GRPO, a step on any mixed group raises the probability of a correct answer.",
    refuted_by="a mixed group whose small step lowers it",
    reading="Group by group, which the paper does not say. A plain gradient step of 1e-6, one-token responses. Every "
    "weight is positive, so that every token keeps its direction, and for GRPO the statement is true. With weights "
    "the sum can be negative, and the step then raises what was not sampled, mostly a likely wrong answer.",
    inferred=True,
    same_error_as="cw-grpo:expected-loss",
    met="no: the weights depend on the advantages, and their sum is then not zero.",
    caveat="In expectation over groups the probability of a correct answer rose at every policy enumerated "
    "(cw-grpo:expected-improves).",
    statement=lambda pair, **_: pair[0] > 0,
    condition=Amended(
        "The group's reweighted advantages sum to zero.",
        lambda pair, **_: pair[0] > 0 if abs(pair[1]) < mpf("1e-30") else None,
    ),
    planted={"never": lambda pair, **_: pair[0] <= 0},
)
def group_improves(statement):
    """The exact gain in success probability and the sum of the reweighted advantages, group by group."""

    def gain(policy, correct, counts):
        totals = action_advantages(policy, correct, counts, weighted=True)
        moved = stepped(policy, score_gradient(policy, totals), STEP)
        return mass(moved, correct) - mass(policy, correct), mp.fsum(totals)

    yield from satisfies(statement, GROUPS, gain, names=("gain of correct mass", "sum of the advantages"))


BANDITS = (
    ((Fraction(2, 5), Fraction(3, 5)), (True, False)),
    ((Fraction(1, 10), Fraction(9, 10)), (True, False)),
    ((Fraction(1, 50), Fraction(49, 50)), (True, False)),
    (UNEVEN, (True, True, False)),
    (LOPSIDED, (True, False, False)),
    ((Fraction(1, 20), Fraction(1, 20), Fraction(9, 10)), (True, False, False)),
)
POINTS: list[dict[str, Any]] = [
    {"policy": policy, "correct": correct, "G": G} for policy, correct in BANDITS for G in (3, 4, 8)
]


@claim(
    "cw-grpo:expected-improves",
    where="Section 2.3 (preserving learning signals); Section 1",
    says="The expected step raises the probability of a correct answer.",
    refuted_by="a policy and group size at which the expected small step lowers it",
    reading="Plain gradient of one-token responses, averaged over all groups.",
    inferred=True,
    caveat="Enumerated for six policies, not proved. The step of a single group can lower it (cw-grpo:group-improves).",
    statement=lambda gain, **_: gain > 0,
    planted={"by a tenth of the step": lambda gain, **_: gain > STEP / 10},
)
def expected_improves(statement):
    """The exact gain in success probability from the expected update."""

    def gain(policy, correct, G):
        moved = stepped(policy, expected_update(policy, correct, G, weighted=True), STEP)
        return mass(moved, correct) - mass(policy, correct)

    yield from satisfies(statement, POINTS, gain)


@claim(
    "cw-grpo:rare-success",
    where="Abstract and Section 1 (preserving informative learning signals)",
    says="A correct rollout keeps most of its advantage: at least exp(-1/2), 61 %.",
    refuted_by="a mixed group with a correct rollout of smaller normalised weight",
    reading="One-token responses of a two-action policy, every mixed group; most: the kernel's value at sigma, a "
    "measure of ours. Section 2.3 calls informative what has moderate covariance, which the condition says too. But "
    "a success that was unlikely is extreme (c far below 0) and is suppressed like an extreme failure: at p = 0.02 "
    "and G = 8 the expected gain is a 28th of GRPO's.",
    inferred=True,
    met="unknown: no covariances of successes are printed.",
    caveat="In long responses sigma is that of thousands of tokens, and only the rare tokens of a success are touched.",
    statement=lambda pair, **_: pair[0] >= mp.exp(-mpf(1) / 2),
    condition=Amended(
        "Its covariance is moderate: |c| is at most sigma.",
        lambda pair, **_: pair[0] >= mp.exp(-mpf(1) / 2) if pair[1] <= 1 else None,
    ),
    planted={
        "up to three deviations": lambda pair, **_: pair[0] >= mp.exp(-mpf(1) / 2) if pair[1] <= 3 else None,
        "the extreme ones": lambda pair, **_: pair[0] >= mp.exp(-mpf(1) / 2) if pair[1] > 1 else None,
    },
)
def rare_success(statement):
    """The normalised weight and |c| / sigma of a correct rollout, group by group."""

    def weight_and_term(policy, correct, counts):
        _, logp, advantages = rollouts(policy, correct, counts)
        c = terms(logp, advantages)
        return normalised(kernel(c))[0], abs(c[0]) / deviation(c)

    points = [
        {"policy": policy, "correct": correct, "counts": (successes, size - successes)}
        for policy, correct in BANDITS[:3]
        for size in (3, 4, 8)
        for successes in range(1, size)
        if 2 * successes != size  # all c are equal, and the weights 0/0
    ]
    yield from satisfies(statement, points, weight_and_term, names=("weight", "|c| / sigma"))


def slower(rates):
    """Check that the entropy changes no faster with the kernel."""
    return abs(rates[1]) <= abs(rates[0]) + mpf("1e-30")


@claim(
    "cw-grpo:entropy-stability",
    where="Section 2.3 ('automatically maintains the policy entropy at a reasonable level'); Sections 1 and 4",
    says="Filtering extreme covariance makes the expected change of entropy no larger than GRPO's.",
    refuted_by="a policy at which the entropy changes faster in expectation with the kernel than without",
    reading="The derivative of the entropy along the expected update, plain or natural, of one-token responses, "
    "weights normalised; stability as a smaller change at each step. Terms of either sign cancel in the covariance, "
    "and the kernel takes away the larger ones: where a rare success would have raised the entropy, it falls faster, "
    "nearly twice as fast at (1/2, 1/6, 1/3), G = 8, under the natural gradient. On the reading 'the sum of |w c| "
    "falls' (before normalisation) it holds by construction.",
    inferred=True,
    severity=CHANGES,
    caveat="That stable means a smaller change at each step is our measure. Of whole training runs it says nothing "
    "(cw-grpo:figure-1).",
    statement=lambda rates, **_: slower(rates),
    correction=Amended(
        "With two actions, at the policies enumerated.",
        lambda rates, policy, **_: slower(rates) if len(policy) == 2 else None,
    ),
    planted={
        "three times smaller": lambda rates, policy, **_: (
            3 * abs(rates[1]) <= abs(rates[0]) if len(policy) == 2 else None
        ),
    },
)
def entropy_stability(statement):
    """Differentiate the entropy along the expected updates of GRPO and CW-GRPO."""

    def rates(policy, correct, G, update):
        exact = [sympy.sympify(p) for p in policy]
        steps = (expected_update(policy, correct, G, weighted=weighted) for weighted in (False, True))
        return tuple(
            number(entropy_rate(exact, natural(exact, step) if update == "natural" else step)) for step in steps
        )

    points = [point | {"update": update} for update in UPDATES for point in POINTS]
    yield from satisfies(statement, points, rates, names=("entropy rate of GRPO", "of CW-GRPO"))
