"""Appendix 9: several turns, and resampled failures."""

from fractions import Fraction

import sympy

from paper_checks.claim import Amended, claim
from paper_checks.evidence import equals, grid
from paper_checks.exact import binomial

# Two turns: the first stops (a success) or goes on, the second succeeds or fails.
TURNS = ((Fraction(1, 4), Fraction(3, 4)), (Fraction(2, 5), Fraction(3, 5)))
PATHS = [(0,), (1, 0), (1, 1)]


def chance(path):
    """The probability of a trajectory."""
    first, second = TURNS
    return first[path[0]] * (second[path[1]] if len(path) > 1 else 1)


def turn_score(path, turn):
    """grad log pi of a trajectory's action at one turn, by the four logits of the two turns."""
    score = [Fraction(0)] * 4
    if turn < len(path):
        for action, p in enumerate(TURNS[turn]):
            score[2 * turn + action] = (path[turn] == action) - p
    return score


def score_sum(weights):
    """Equation 15: the expectation of weight times the scores of all turns."""
    return tuple(
        sum(
            chance(path) * weight * turn_score(path, turn)[place]
            for path, weight in zip(PATHS, weights, strict=True)
            for turn in (0, 1)
        )
        for place in range(4)
    )


WEIGHTINGS = [
    {"weights": (Fraction(2, 3), Fraction(2, 3), Fraction(-1, 3))},
    {"weights": (Fraction(1), Fraction(1, 2), Fraction(-1, 3))},
]


@claim(
    "fade:eq-15",
    where="Appendix 9.1, Equation 15",
    says="The policy gradient of several turns is the expectation of weight times the scores of all turns.",
    formula=r"\nabla_\theta J = E_\tau[\sum_t\sum_{a\in\tau_t}w_{t,a}\nabla_\theta\log\pi_\theta(a|s_t)]",
    refuted_by="a two-turn tree in which it is not the gradient of the expected weight",
    reading="One token a turn, the same weight at all turns of a trajectory, held fixed. With weights that differ from "
    "turn to turn there is in general no J of which this is the gradient.",
    statement=score_sum,
    planted={"minus": lambda weights: tuple(-entry for entry in score_sum(weights))},
)
def several_turns(statement):
    """Differentiate the expected weight of the tree's three trajectories by sympy."""

    def derived(weights):
        logits = sympy.symbols("a b c d")
        first, second = (
            [sympy.exp(one) / (sympy.exp(one) + sympy.exp(other)) for one, other in (pair, pair[::-1])]
            for pair in (logits[:2], logits[2:])
        )
        value = weights[0] * first[0] + first[1] * (weights[1] * second[0] + weights[2] * second[1])
        here = dict(zip(logits, [sympy.log(sympy.nsimplify(p)) for turn in TURNS for p in turn], strict=True))
        return tuple(sympy.diff(value, logit).subs(here) for logit in logits)

    yield from equals(statement, WEIGHTINGS, derived=derived)


def by_turn(weights, reach=True):
    """Equation 16: per turn, masses rho E[w+ | reached] and rho E[w- | reached] on the mean scores of either sign."""
    total = [Fraction(0)] * 4
    for turn in (0, 1):
        reached = [(path, w) for path, w in zip(PATHS, weights, strict=True) if turn < len(path)]
        reachability = sum(chance(path) for path, _ in reached)
        for sign in (1, -1):
            side = [(path, sign * w) for path, w in reached if sign * w > 0]
            share = sum(chance(path) for path, _ in side)
            if not share:
                continue
            mean_weight = sum(chance(path) * w for path, w in side) / reachability
            mass = (reachability if reach else 1) * mean_weight
            for place in range(4):
                mean = sum(chance(path) * turn_score(path, turn)[place] for path, _ in side) / share
                total[place] += sign * mass * mean
    return tuple(total)


@claim(
    "fade:eq-16",
    where="Appendix 9.1, Equation 16",
    says="It splits, turn by turn, into the masses rho_t E[w+ | reached] and rho_t E[w- | reached] on the mean scores "
    "of successes and of failures.",
    formula=r"\nabla_\theta J = \sum_t[m_S^{(t)}\bar\nabla_S^{(t)} - m_F^{(t)}\bar\nabla_F^{(t)}]",
    refuted_by="weights of a two-turn tree for which the sum over turns is not Equation 15",
    reading="The mean scores are plain means over the trajectories of either sign that reach the turn, as in Section "
    "2, to which T = 1 must lead back. Linearity alone, which the text invokes, is not enough. With means weighted by "
    "w the split holds for all weights, but the masses no longer separate weights from gradients.",
    statement=by_turn,
    condition=Amended(
        "all successes share one weight, and all failures",
        lambda weights: by_turn(weights) if weights[0] == weights[1] else None,
    ),
    planted={"without reachability": lambda weights: by_turn(weights, reach=False)},
)
def split_by_turn(statement):
    """Sum weight times score over the tree's trajectories."""
    yield from equals(statement, WEIGHTINGS, enumerated=score_sum)


RETRIES = grid(B=[2, 4, 8], p=[Fraction(1, 4), Fraction(1, 2)])


def unsolved(B, p):
    """The probability that a batch has no success, over its binomial law."""
    return binomial(B, p)[0]


@claim(
    "fade:app-9-reach",
    where="Appendix 9.2, Setup",
    says="Round 2 is reached with probability q, that of a prompt failing a round of B rollouts.",
    formula=r"\rho_2 = q",
    refuted_by="a B and p for which the probability that all B rollouts fail is not q",
    reading="A prompt has failed when none of its B rollouts succeeded, as round 2 only fires for prompts that failed. "
    "For B = 1 it is q, but GRPO's update is then 0. If each failed rollout fires a batch of its own, it is q each.",
    statement=lambda B, p: 1 - p,
    correction=Amended("it is q^B", lambda B, p: (1 - p) ** B),
    planted={"p": lambda B, p: p},
)
def reachability(statement):
    """The binomial probability of no success in B."""
    yield from equals(statement, RETRIES, enumerated=unsolved)


@claim(
    "fade:app-9-power-2",
    where="Appendix 9.2",
    says="GRPO on the retried failures has Power-2's mass B p q^2.",
    formula=r"m_S^{(2)} = m_F^{(2)} = Bpq^2",
    refuted_by="a B and p at which the expected summed mass of round 2 differs",
    reading="Expected over both rounds, sums as in Equation 6, a prompt's failure read as that of all B rollouts: "
    "round 2 then sees much harder prompts than Power-2 does. With rho_2 = q granted see fade:app-9-retry-exact. If "
    "each failed rollout is retried once and the retries form one group, the mass does tend to B p q^2 as B grows.",
    statement=lambda B, p: B * p * (1 - p) ** 2,
    correction=Amended("it is (B - 1) p q^(B+1)", lambda B, p: (B - 1) * p * (1 - p) ** (B + 1)),
    planted={"B p q": lambda B, p: B * p * (1 - p)},
)
def retried_failures(statement):
    """The probability of round 2 times the expectation of s (B - s) / B in it."""

    def enumerated(B, p):
        mass = sum(Fraction(s * (B - s), B) * each for s, each in enumerate(binomial(B, p)))
        return unsolved(B, p) * mass

    yield from equals(statement, RETRIES, enumerated=enumerated)
