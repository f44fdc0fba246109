"""Section 4.2 and Appendix B: the clipped objectives, and two baselines that reward the unlikely."""

from fractions import Fraction

import numpy as np
import sympy

import simlab
from paper_checks.claim import claim
from paper_checks.evidence import equals, grid, satisfies
from paper_checks.f_grpo.focal import standardised
from simlab import Rollouts, surrogates

RATIOS = [Fraction(n, 20) for n in (1, 10, 15, 17, 20, 23, 25, 27, 40, 110, 130, 200)]
POINTS = grid(A=[Fraction(-2), Fraction(-1, 2), Fraction(1, 2), Fraction(2)], ratio=RATIOS)
SYMMETRIC, HIGHER, CISPO = (Fraction(1, 5), Fraction(1, 5)), (Fraction(1, 5), Fraction(7, 25)), (1, 5)


def clip(value, low, high):
    """The value, held between two bounds."""
    return min(max(value, low), high)


def ppo(ratio, A, bounds):
    """The summand of Eq. 14."""
    low, high = bounds
    return min(ratio * A, clip(ratio, 1 - low, 1 + high) * A)


def slope(objective, ratio, A, bounds):
    """ratio times the derivative in the ratio: the coefficient of grad log pi. Piecewise linear, so differences do."""
    width = Fraction(1, 10**6)
    rise = objective(ratio + width, A, bounds) - objective(ratio - width, A, bounds)
    return ratio * rise / (2 * width)


def library(surrogate, ratio, A):
    """The library's coefficient of one token."""
    rollouts = Rollouts(rewards=np.array([[float(A > 0)]]), mask=np.ones((1, 1), bool))
    ratios = np.array([[[float(ratio)]]])
    return Fraction(float(np.asarray(surrogate.coefficient(ratios, np.array([[[float(A)]]]), rollouts)).ravel()[0]))


def coefficients(statement, bounds, surrogate):
    """A stated coefficient against the derivative of the objective, and the library's."""
    yield from equals(
        lambda A, ratio: statement(ratio, A, bounds),
        POINTS,
        derived=lambda A, ratio: slope(ppo, ratio, A, bounds),
    )
    yield from satisfies(
        lambda value, A, ratio: abs(value - statement(ratio, A, bounds)) < Fraction(1, 10**9),
        POINTS,
        lambda A, ratio: library(surrogate, ratio, A),
        method="numerical",
    )


def stops_outside(ratio, A, bounds):
    """No gradient once the ratio is past the bound in the direction that the advantage pushes."""
    low, high = bounds
    done = ratio > 1 + high if A > 0 else ratio < 1 - low
    return 0 if done else ratio * A


CLIP_ERRORS = {
    "both bounds for either sign": lambda ratio, A, bounds: ratio * A if abs(ratio - 1) <= bounds[1] else 0,
    "the ratio is forgotten": lambda ratio, A, bounds: 0 if stops_outside(ratio, A, bounds) == 0 else A,
}


@claim(
    "f-grpo:eq-14",
    where="Appendix B, Eq. 14",
    says="The clipped surrogate min(ratio A, clip(ratio) A) pushes with ratio A, and stops once the ratio is past the "
    "bound on the side of the advantage's sign.",
    formula=r"\min( \rho \hat A, \mathrm{clip}(\rho, 1-\epsilon, 1+\epsilon) \hat A )",
    refuted_by="a ratio and an advantage with another derivative",
    reading="Per token, bounds 0.2; no KL term. The average over tokens and rollouts in front is a convention and "
    "changes nothing here.",
    identity=True,
    statement=stops_outside,
    planted=CLIP_ERRORS,
)
def eq_14(statement):
    """Differentiate the summand; and ask the library."""
    yield from coefficients(statement, SYMMETRIC, surrogates.ppo_clip())


@claim(
    "f-grpo:app-b-clip-higher",
    where="Appendix B, Eq. 14, below",
    says="DAPO's bounds 0.2 and 0.28 relax the upper bound: a token of low probability may gain more.",
    refuted_by="a ratio at which the bounds stop a token that Eq. 14 does not, or no gain of room upwards",
    reading="Room as the probability at which the push stops, 1.28 p for 1.2 p. It is relaxed for likely tokens by "
    "the same factor; for p near 1 the bound is out of reach in both.",
    identity=True,
    statement=lambda p: p * (1 + HIGHER[1]),
    planted={"unchanged": lambda p: p * (1 + SYMMETRIC[1])},
)
def clip_higher(statement):
    """Walk a token's probability up until the objective no longer rises; and the derivative as for Eq. 14."""

    def room(p):
        steps = (p * (1 + Fraction(n, 1000)) for n in range(1, 1000))
        last = next(q for q in steps if slope(ppo, q / p + Fraction(1, 5000), Fraction(1), HIGHER) == 0)
        return last

    yield from equals(statement, grid(p=[Fraction(1, 1000), Fraction(1, 100), Fraction(1, 2)]), enumerated=room)
    yield from coefficients(stops_outside, HIGHER, surrogates.clip_higher())


@claim(
    "f-grpo:eq-15",
    where="Appendix B, Eq. 15; Appendix L.2",
    says="CISPO clips the importance weight itself to [1 - eps_low, 1 + eps_high], [0, 6] in the experiments.",
    formula=r"\hat w = \mathrm{clip}(\rho, 1 - \epsilon_{low}, 1 + \epsilon_{high})",
    refuted_by="a ratio above 0 for which the weight is not the smaller of it and 6",
    reading="At eps_low = 1 the lower bound is 0 and never acts, since a ratio is positive: only the upper clip "
    "exists.",
    identity=True,
    statement=lambda ratio: min(ratio, 6),
    planted={"[0.8, 1.28]": lambda ratio: clip(ratio, Fraction(4, 5), Fraction(32, 25))},
)
def eq_15(statement):
    """The clip at these bounds, and the library's coefficient at advantage 1."""
    low, high = CISPO
    yield from equals(
        statement, grid(ratio=RATIOS), derived=lambda ratio: clip(ratio, Fraction(1 - low), Fraction(1 + high))
    )
    yield from satisfies(
        lambda value, ratio: abs(value - statement(ratio)) < Fraction(1, 10**9),
        grid(ratio=RATIOS),
        lambda ratio: library(surrogates.cispo(), ratio, Fraction(1)),
        method="numerical",
    )


@claim(
    "f-grpo:eq-16",
    where="Appendix B, Eq. 16",
    says="CISPO optimises a REINFORCE-style objective, sg(w) A log pi with the clipped weight w: its gradient is w A "
    "grad log pi.",
    formula=r"\mathcal{J} = \mathbb{E}[ \mathrm{sg}(\hat w) \hat A \log \pi_\theta ]",
    refuted_by="a ratio at which the derivative is zero or not w A grad log pi",
    reading="So every token keeps a gradient, also where PPO's clip leaves none. Beyond a ratio of 6 the weight no "
    "longer grows. At ratio 1 all three objectives have the same gradient.",
    identity=True,
    statement=lambda ratio, A: min(ratio, 6) * A,
    planted={
        "PPO's coefficient": lambda ratio, A: stops_outside(ratio, A, SYMMETRIC),
        "no stop-gradient": lambda ratio, A: min(ratio, 6) * A if ratio >= 6 else 2 * ratio * A,
    },
)
def eq_16(statement):
    """Differentiate sg(w) A log(pi) in log pi with the weight held fixed; and ask the library."""
    log_pi, weight, advantage = sympy.symbols("log_pi w A")
    derivative = sympy.lambdify((weight, advantage), sympy.diff(weight * advantage * log_pi, log_pi), "sympy")
    yield from equals(statement, POINTS, derived=lambda ratio, A: derivative(clip(ratio, Fraction(0), Fraction(6)), A))
    yield from satisfies(
        lambda value, ratio, A: value != 0 and abs(value - statement(ratio, A)) < Fraction(1, 10**9),
        POINTS,
        lambda ratio, A: library(surrogates.cispo(), ratio, A),
        method="numerical",
    )


@claim(
    "f-grpo:sec-4.2-orthogonal",
    where="Section 4.2",
    says="The focal weight is orthogonal to clipping: multiplying the advantage by it multiplies each objective by "
    "it, and moves no bound.",
    refuted_by="an objective, a ratio and a weight >= 0 for which objective(g A) is not g objective(A)",
    reading="Weights as the focal weight is, between 0 and 1. A negative weight would exchange the bounds.",
    identity=True,
    statement=lambda weight: weight if weight >= 0 else None,
    planted={"any weight": lambda weight: weight, "its square": lambda weight: weight**2 if weight >= 0 else None},
)
def orthogonal(statement):
    """Both sides at many ratios, for PPO's, DAPO's and CISPO's bounds."""
    objectives = {
        "PPO": lambda ratio, A: ppo(ratio, A, SYMMETRIC),
        "DAPO": lambda ratio, A: ppo(ratio, A, HIGHER),
        "CISPO": lambda ratio, A: clip(ratio, 0, 6) * A,
    }

    def stated(name, weight, A, ratio):
        scaled = statement(weight)
        return None if scaled is None else scaled * objectives[name](ratio, A)

    weights = [Fraction(0), Fraction(1, 4), Fraction(1), Fraction(-1)]
    yield from equals(
        stated,
        [{"name": name, "weight": weight} | point for name in objectives for weight in weights for point in POINTS],
        derived=lambda name, weight, A, ratio: objectives[name](ratio, weight * A),
    )


LOGP = np.log([[0.5], [0.05], [0.4], [0.02]])
REWARDS = np.array([1.0, 1.0, 0.0, 0.0])


def favours(name, **parameters):
    """Advantage of the unlikely over the likely rollout: among the two correct, among the two incorrect."""
    advantages = simlab.advantages(name, REWARDS, old_logp=LOGP, **parameters)
    return float(advantages[1] - advantages[0]), float(advantages[3] - advantages[2])


@claim(
    "f-grpo:unlikeliness",
    where="Appendix A, of He et al. (2025)",
    says="The unlikeliness reward up-weights rare correct trajectories.",
    refuted_by="a group in which a rare correct rollout gets no larger advantage than a common one",
    reading="Within a group, by the rank of the log-probability, from 1 (or 0, as its code) for the least likely: r_i "
    "(1 - rank_i / (4 G)). Incorrect rollouts have reward 0 and are untouched.",
    identity=True,
    statement=lambda correct, incorrect: correct > 0 and incorrect == 0,
    planted={"also among the incorrect": lambda correct, incorrect: correct > 0 and incorrect > 0},
)
def unlikeliness(statement):
    """From the discount, and by the library: a group of four with two likely and two unlikely rollouts."""
    likeliness = (4, 2, 3, 1)

    def defined(lowest):
        discounts = (1 - Fraction(rank - 1 + lowest, 16) for rank in likeliness)
        values = standardised([reward * discount for reward, discount in zip((1, 1, 0, 0), discounts, strict=True)])
        return values[1] - values[0], values[3] - values[2]

    yield from satisfies(lambda value, **_: statement(*value), grid(lowest=[1, 0]), defined, method="numerical")
    yield from satisfies(
        lambda value, **_: statement(*value),
        [{"ranking": ranking} for ranking in ("paper", "code")],
        lambda ranking: favours("unlikeliness", ranking=ranking),
        method="numerical",
    )


@claim(
    "f-grpo:ds-grpo",
    where="Appendix A, of Gai et al. (2025); Section 5.6",
    says="Differential smoothing modifies the reward of correct and of incorrect trajectories.",
    refuted_by="a coefficient at which it leaves one kind alone, or treats both alike",
    reading="As its source defines it: the unlikely gain among the correct and lose among the incorrect. Uniform "
    "groups, to which F-GRPO and GRPO give no signal, get one here.",
    identity=True,
    statement=lambda correct, incorrect: correct > 0 > incorrect,
    planted={"the unlikely gain in both": lambda correct, incorrect: correct > 0 and incorrect > 0},
)
def ds_grpo(statement):
    """The unlikely rollout's gain over the likely one by -/+ a coefficient times the mean log-probability."""
    likely, unlikely = -1, -4

    def added(coefficient):
        return -coefficient * (unlikely - likely), coefficient * (unlikely - likely)

    yield from satisfies(
        lambda value, **_: statement(*value), [{"coefficient": Fraction(n, 20)} for n in (1, 2, 20)], added
    )
