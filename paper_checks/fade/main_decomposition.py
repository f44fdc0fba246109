"""Section 2.1: an update as a mass on successes and a mass on failures, Equations 1 to 3."""

from fractions import Fraction

import numpy as np
from mpmath import mpf

import simlab
from paper_checks.claim import COSMETIC, Amended, claim
from paper_checks.evidence import equals, grid
from paper_checks.exact import mass
from paper_checks.fade.main_gradients import (
    GROUPS,
    POINTS,
    WEIGHTS,
    conditional_score,
    derived_update,
    expected_update,
    group_update,
    mean_score,
    solve_rate,
    successes,
    wrong,
)
from paper_checks.simulated import estimate, simulated_step


@claim(
    "fade:policy-gradient",
    where="Section 2, the policy gradient estimator",
    says="The expected reward equals the expectation of the reward times the score.",
    formula=r"E_{\tau\sim\pi_\theta}[r(\tau)] = E_{\tau\sim\pi_\theta}[r(\tau)\nabla_\theta\log\pi_\theta(\tau)]",
    refuted_by="a policy at which the first logit's coordinate of the right-hand side is not the left-hand side",
    reading="As printed, a number on the left and a vector on the right; the first coordinate is compared. On the "
    "reading that a gradient sign was lost on the left the identity is the usual one, and holds.",
    statement=solve_rate,
    slip=Amended(
        "the gradient of E[r] stands on the left",
        lambda policy, correct: policy[0] * (correct[0] - mass(policy, correct)),
    ),
    planted={"the gradient without its baseline": lambda policy, correct: policy[0] * correct[0]},
)
def policy_gradient(statement):
    """Differentiate the success probability by the first logit; sum r grad log pi over all actions."""
    yield from equals(
        statement,
        POINTS,
        derived=lambda policy, correct: derived_update(policy, correct, 1, 0)[0],
        enumerated=lambda policy, correct: expected_update(policy, correct, 1, WEIGHTS["REINFORCE"])[0],
    )


NAMED = {
    "reinforce": ({}, lambda p: (1, 0)),
    "dr_grpo": ({}, lambda p: (1 - p, p)),
    "power_alpha": ({"alpha": 2.0}, lambda p: ((1 - p) ** 2, p * (1 - p))),
    "maxrl": ({}, lambda p: ((1 - p) / p, 1)),
    "asym_grpo": ({"delta": 0.5}, lambda p: (1 - p, 2 * p)),
    "relu": ({}, lambda p: (1 - p, 0)),
}


def weighted(weights, sign=-1):
    """Equation 1 for the weights of a named policy weight: w_S on successes, ``sign`` w_F on failures."""

    def statement(name, rewards):
        success, failure = weights(name)(Fraction(sum(rewards), len(rewards)))
        return tuple(success if reward else sign * failure for reward in rewards)

    return statement


@claim(
    "fade:eq-1",
    where="Section 2.1, Equation 1",
    says="With binary rewards the weight of a rollout is one number w_S on success and one number -w_F on failure.",
    formula=r"W(\tau) = w_S\,I[\tau\in S] - w_F\,I[\tau\in F]",
    refuted_by="a rollout to which REINFORCE, mean GRPO, Power, MaxRL, AsymGRPO or ReLU gives another weight",
    reading="For weights that are a function of success and of the group's solve rate. For weights that see more, such "
    "as lengths, see fade:any-advantage.",
    identity=True,
    statement=weighted(lambda name: NAMED[name][1]),
    planted={"failures added": weighted(lambda name: NAMED[name][1], sign=1)},
)
def two_weights(statement):
    """Let simlab weigh groups in mixed order, and compare with the two numbers derived by hand."""
    points = grid(name=list(NAMED), rewards=[(1, 0), (0, 1, 0), (1, 0, 0, 1, 0)])
    yield from equals(
        statement,
        points,
        enumerated=lambda name, rewards: tuple(
            simlab.advantages(name, np.array(rewards, dtype=float), **NAMED[name][0]).tolist()
        ),
        tolerance=mpf("1e-12"),
    )


def two_terms(policy, correct, rollouts, weights):
    """m_S mean score of successes - m_F mean score of failures, the masses being mean weights."""
    counts = [rollouts.count(action) for action in range(len(policy))]
    masses = [
        sum(weight for action, weight in zip(rollouts, weights, strict=True) if members[action]) / len(rollouts)
        for members in (correct, wrong(correct))
    ]
    gradients = [mean_score(policy, counts, members) for members in (correct, wrong(correct))]
    return tuple(masses[0] * success + masses[1] * failure for success, failure in zip(*gradients, strict=True))


def alike(policy, correct, rollouts, weights):
    """Check that rollouts of one outcome share one weight."""
    return all(
        len({weight for action, weight in zip(rollouts, weights, strict=True) if correct[action] == outcome}) <= 1
        for outcome in (True, False)
    )


@claim(
    "fade:any-advantage",
    where="Abstract; Section 2.1; Table 1, row T2T",
    says="Any advantage decomposes into a mass on the mean gradient of the successes and a mass on that of the "
    "failures.",
    formula=r"\nabla J = m_S\bar\nabla_S - m_F\bar\nabla_F",
    refuted_by="a group and weights whose update is not the sum of the two terms",
    reading="The masses are the summed weights of either outcome over G, the gradients plain means, as in Equation 3. "
    "On the reading that the means are weighted by the advantages too, every update splits into a positive and a "
    "negative part, but the two numbers then no longer describe it.",
    met="partly: every weight of Table 1 but T2T depends on the outcome and the solve rate alone",
    statement=two_terms,
    condition=Amended(
        "all successes of a group share one weight, and all failures; T2T's lengths, likelihoods and ranks do not",
        lambda policy, correct, rollouts, weights: (
            two_terms(policy, correct, rollouts, weights) if alike(policy, correct, rollouts, weights) else None
        ),
    ),
    planted={
        "a sign": lambda **point: tuple(-entry for entry in two_terms(**point)),
    },
)
def any_advantage(statement):
    """Sum the weighted scores of groups whose successes have equal weights, and lengths that make them differ."""
    policy, correct = POINTS[1]["policy"], POINTS[1]["correct"]
    points = grid(
        policy=[policy],
        correct=[correct],
        rollouts=[(0, 1, 2)],
        weights=[(Fraction(1, 3), Fraction(1, 3), Fraction(-2, 3)), (Fraction(1, 4), Fraction(1, 2), Fraction(-2, 3))],
    )

    def summed(policy, correct, rollouts, weights):
        return tuple(
            sum(weight * ((action == index) - policy[index]) for action, weight in zip(rollouts, weights, strict=True))
            / len(rollouts)
            for index in range(len(policy))
        )

    yield from equals(statement, points, enumerated=summed)


def expected_two_terms(policy, correct, success, failure, sign=-1):
    """Equation 2: w_S p E[score | success] - w_F q E[score | failure]."""
    p = mass(policy, correct)
    return tuple(
        success * p * x + sign * failure * (1 - p) * y
        for x, y in zip(conditional_score(policy, correct), conditional_score(policy, wrong(correct)), strict=True)
    )


@claim(
    "fade:eq-2",
    where="Section 2.1, Equation 2",
    says="The policy gradient is w_S p times the mean score of successes less w_F q times that of failures.",
    formula=r"\nabla_\theta J = w_S\,p\,E[\nabla\log\pi|\tau\in S] - w_F\,q\,E[\nabla\log\pi|\tau\in F]",
    refuted_by="a policy and weights for which the gradient of E[W], W held fixed, differs",
    reading="J = E[W] with the weights held fixed (a stop-gradient), the only reading for which it holds: mean GRPO "
    "has E[W] = 0 for every policy, so that the gradient of E[W] through its weights too is 0.",
    identity=True,
    statement=expected_two_terms,
    planted={"a sign": lambda **point: expected_two_terms(**point, sign=1)},
)
def expected_gradient(statement):
    """Differentiate E[W] by sympy, sum over all groups of two, and draw groups of four of W-REINFORCE."""
    points = [
        point | {"success": success, "failure": failure}
        for point in POINTS[:3]
        for success, failure in [(Fraction(1), Fraction(0)), (Fraction(1, 10), Fraction(1)), (Fraction(2), Fraction(3))]
    ]

    def sampled(policy, correct, success, failure):
        steps = simulated_step(policy, correct, 4, f"w_reinforce(success={float(success)})")
        return tuple(estimate(change) for change in steps.logit_change.T)

    yield from equals(
        statement,
        points,
        derived=derived_update,
        enumerated=lambda policy, correct, success, failure: expected_update(
            policy, correct, 2, lambda p: (success, failure)
        ),
        sampled=sampled,
        sampled_points=points[4:5],
    )


def estimated_two_terms(policy, correct, counts, success, failure):
    """Equation 3: the same with the group's own solve rate and mean scores."""
    p = Fraction(successes(counts, correct), sum(counts))
    return tuple(
        success * p * x - failure * (1 - p) * y
        for x, y in zip(mean_score(policy, counts, correct), mean_score(policy, counts, wrong(correct)), strict=True)
    )


@claim(
    "fade:eq-3",
    where="Section 2.1, Equation 3",
    says="The mean over a group of weight times score is the group's two masses times the mean scores of its outcomes.",
    formula=r"\nabla_\theta J\approx w_S\bar p\,\bar\nabla_S - w_F\bar q\,\bar\nabla_F",
    refuted_by="a group for which the two differ",
    reading="The term of an outcome that a group does not contain is 0; as printed it is 0 times 0/0. The identity is "
    "taken group by group; as an approximation of Equation 2 it is fade:eq-3-unbiased.",
    identity=True,
    statement=estimated_two_terms,
    planted={
        "masses exchanged": lambda policy, correct, counts, success, failure: estimated_two_terms(
            policy, correct, counts, failure, success
        ),
    },
)
def estimated_gradient(statement):
    """Sum weight times score over the rollouts of every group of three."""
    points = [point | {"success": Fraction(2, 3), "failure": Fraction(5, 7)} for point in GROUPS]
    yield from equals(statement, points, enumerated=lambda **point: tuple(group_update(**point)))


def at_true_rate(policy, correct, weight, G):
    """Equation 2 with the weights of the true solve rate."""
    return expected_two_terms(policy, correct, *WEIGHTS[weight](mass(policy, correct)))


# Of the expected estimate over the gradient; other weights have a factor that depends on the solve rate.
KNOWN_FACTORS = {"REINFORCE": lambda G: 1, "NSR": lambda G: 1, "mean GRPO": lambda G: Fraction(G - 1, G)}


@claim(
    "fade:eq-3-unbiased",
    where="Section 2.1, Equation 3 as an estimate of Equation 2",
    says="The expectation of the group's estimate is the policy gradient at the true solve rate.",
    formula=r"E[\bar m_S\bar\nabla_S - \bar m_F\bar\nabla_F] = m_S\nabla_S - m_F\nabla_F",
    refuted_by="a policy, weight and group size at which the expectation over all groups differs",
    reading="The paper writes an approximation sign, which asks for consistency as G grows, and that holds. Unbiased "
    "is our word. The weights are those that the group computes from its own solve rate.",
    severity=COSMETIC,
    met="no: all weights but the fixed ones, such as REINFORCE's, depend on the group's own solve rate",
    inferred=True,
    statement=at_true_rate,
    condition=Amended(
        "w_S and w_F do not depend on the group; with mean GRPO's the expectation is (G - 1)/G of the gradient",
        lambda policy, correct, weight, G: (
            tuple(KNOWN_FACTORS[weight](G) * entry for entry in at_true_rate(policy, correct, weight, G))
            if weight in KNOWN_FACTORS
            else None
        ),
    ),
    planted={
        "half of it": lambda **point: tuple(entry / 2 for entry in at_true_rate(**point)),
    },
)
def unbiased_estimate(statement):
    """Average the estimate over all groups."""
    points = [
        point | {"weight": weight, "G": size}
        for weight in ("REINFORCE", "NSR", "mean GRPO", "Power-2")
        for point in POINTS[:2]
        for size in (2, 3)
    ]
    yield from equals(
        statement,
        points,
        enumerated=lambda policy, correct, weight, G: expected_update(policy, correct, G, WEIGHTS[weight]),
    )
