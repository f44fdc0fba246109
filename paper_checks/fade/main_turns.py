"""Appendix 9: several turns, and resampled failures."""

from fractions import Fraction

import sympy
from mpmath import mpf

from paper_checks.claim import Amended, claim
from paper_checks.evidence import equals, grid, number, vanishes
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
            chance(path) * weight * turn_score(path, turn)[index]
            for path, weight in zip(PATHS, weights, strict=True)
            for turn in (0, 1)
        )
        for index in range(4)
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
    identity=True,
    statement=score_sum,
    planted={"minus": lambda weights: tuple(-entry for entry in score_sum(weights))},
)
def several_turns(statement):
    """Differentiate the expected weight of the tree's three trajectories by sympy."""

    def derived(weights):
        logits = sympy.symbols("a b c d")
        first, second = (
            [sympy.exp(chosen) / (sympy.exp(chosen) + sympy.exp(other)) for chosen, other in (pair, pair[::-1])]
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
            for index in range(4):
                mean = sum(chance(path) * turn_score(path, turn)[index] for path, _ in side) / share
                total[index] += sign * mass * mean
    return tuple(total)


@claim(
    "fade:eq-16",
    where="Appendix 9.1, Equation 16",
    says="The gradient of several turns splits, turn by turn, into the masses rho_t E[w+ | reached] and rho_t E[w- | "
    "reached] on the mean scores of successes and of failures.",
    formula=r"\nabla_\theta J = \sum_t[m_S^{(t)}\bar\nabla_S^{(t)} - m_F^{(t)}\bar\nabla_F^{(t)}]",
    refuted_by="weights of a two-turn tree for which the sum over turns is not Equation 15",
    reading="The mean scores are plain means over the trajectories of either sign that reach the turn, as in Section "
    "2, to which T = 1 must lead back. Linearity alone, which the text invokes, is not enough. With means weighted by "
    "w the split holds for all weights, but the masses no longer separate weights from gradients.",
    same_error_as="fade:any-advantage",
    met="unknown: no run has several turns",
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


RETRIES = grid(retried=["prompt", "rollout"], B=[2, 4, 8], p=[Fraction(1, 4), Fraction(1, 2)])
EACH_ROLLOUT = "every failed rollout is retried, and not a prompt of which all rollouts failed"


@claim(
    "fade:app-9-reach",
    where="Appendix 9.2, Setup",
    says="Round 2 is reached with probability q.",
    formula=r"\rho_2 = q",
    refuted_by="a B and p for which the probability of a second round is not q",
    reading="'Round 2 only fires for prompts that failed' may speak of a prompt, which fails when none of its B "
    "rollouts succeeds, with probability q^B, or of each rollout that failed, with probability q. The text does not "
    "say which: 'a fresh batch of B rollouts' goes with the first, the formula with the second.",
    met="unknown: no run with retries is reported",
    statement=lambda retried, B, p: 1 - p,
    condition=Amended(EACH_ROLLOUT, lambda retried, B, p: 1 - p if retried == "rollout" else None),
    planted={"p": lambda retried, B, p: p, "q^B": lambda retried, B, p: (1 - p) ** B},
)
def reachability(statement):
    """The chance that no rollout of B succeeds, and the expected share of failed ones, over their binomial law."""

    def enumerated(retried, B, p):
        if retried == "prompt":
            return binomial(B, p)[0]
        return sum(Fraction(B - s, B) * each for s, each in enumerate(binomial(B, p)))

    yield from equals(statement, RETRIES, enumerated=enumerated)


def grpo_mass(size, p):
    """The expected mass of mean GRPO in a group, a sum over its rollouts as in Equation 6."""
    return sum(Fraction(s * (size - s), size) * each for s, each in enumerate(binomial(size, p))) if size else 0


@claim(
    "fade:app-9-power-2",
    where="Appendix 9.2",
    says="GRPO on the retried failures has Power-2's mass B p q^2.",
    formula=r"m_S^{(2)} = m_F^{(2)} = Bpq^2",
    refuted_by="a p at which the expected mass of round 2, per rollout of round 1, does not tend to p q^2",
    reading="Expected over both rounds, for large B. If a prompt is retried when all of its rollouts failed, round 2 "
    "sees much harder prompts than Power-2 does: its mass is (B - 1) p q^(B+1). If each failed rollout is retried once "
    "and the retries form one group, the mass per rollout does tend to p q^2. At finite B: fade:app-9-retry-exact.",
    same_error_as="fade:app-9-reach",
    met="unknown: no run with retries is reported",
    statement=lambda retried, p: p * (1 - p) ** 2,
    condition=Amended(
        f"{EACH_ROLLOUT}; the retries form one group, and B is large",
        lambda retried, p: p * (1 - p) ** 2 if retried == "rollout" else None,
    ),
    planted={"p q": lambda retried, p: p * (1 - p), "p q^3": lambda retried, p: p * (1 - p) ** 3},
)
def retried_failures(statement):
    """The expected mass of round 2 per rollout of round 1, over the binomial laws of both rounds."""

    def error(step, retried, p):
        size = int(1 / step + mpf("0.5"))
        stated = statement(retried, p)
        if stated is None:
            return None
        first = binomial(size, p)
        if retried == "prompt":
            mass = first[0] * grpo_mass(size, p)
        else:
            mass = sum(each * grpo_mass(size - s, p) for s, each in enumerate(first))
        return number(stated - mass / size)

    points = grid(retried=["prompt", "rollout"], p=[Fraction(1, 4), Fraction(1, 2)])
    yield from vanishes(error, points, order=0.9, steps=("0.125", "0.0625", "0.03125"), method="enumerated")
