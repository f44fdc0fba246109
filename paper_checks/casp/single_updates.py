"""Equations 1 and 3, Lemma 2 and Appendix B.1: one sampled token's effect on its candidates."""

from fractions import Fraction as F
from itertools import pairwise

from mpmath import mp

from paper_checks.casp.candidates import (
    RANKED,
    SAMPLED,
    collision,
    entropy_slope,
    mass_change,
    numerical_gradient,
    one_hot,
    penalty,
    score,
    symbolic_gradient,
)
from paper_checks.claim import Amended, claim
from paper_checks.evidence import equals, grid, number, satisfies, vanishes
from paper_checks.exact import entropy, stepped

# With two likeliest candidates, and uniform.
WITH_TIES = (*RANKED, (F(49, 100), F(49, 100), F(1, 50)), (F(1, 3),) * 3)
OFF_POLICY = grid(lambda p, y, A: y < len(p), p=RANKED[:3], y=range(3), A=[F(1), F(-3, 2)])


def is_uniform(p):
    """Test for equally likely candidates."""
    return len(set(p)) == 1


def old(p):
    """A sampling policy that differs from p: p mixed with the uniform policy."""
    return [(q + F(1, len(p))) / 2 for q in p]


def surrogate(p, y, A):
    """A gamma, as a function of the current probabilities."""
    return lambda current, log: A * current[y] / old(p)[y]


@claim(
    "casp:eq-1",
    where="Section 2, Eq. 1",
    says="The gradient of A gamma is A times the ratio gamma, held constant, times the gradient of log pi.",
    formula=r"\nabla_\theta A_i\gamma_{i,t}=A_i\,\mathrm{sg}(\gamma_{i,t})\,"
    r"\nabla_\theta\log\pi_\theta(y_{i,t}|s_{i,t})",
    refuted_by="a policy, a sampling policy and a token at which the derivative of A gamma differs",
    reading="Parameters are the logits of one state; by the chain rule any parameters follow. KL and clipping are left "
    "out, as the paper says. With the clip the gradient is 0 where it binds, so there the equation would fail.",
    identity=True,
    statement=lambda p, y, A: tuple(A * p[y] / old(p)[y] * entry for entry in score(p, y)),
    planted={"no ratio": lambda p, y, A: tuple(A * entry for entry in score(p, y))},
)
def ratio_gradient(statement):
    """Differentiate A p_y / old_y through the softmax, symbolically and numerically."""
    yield from equals(
        statement,
        OFF_POLICY,
        derived=lambda p, y, A: symbolic_gradient(surrogate(p, y, A), p),
        enumerated=lambda p, y, A: numerical_gradient(surrogate(p, y, A), p),
    )


@claim(
    "casp:eq-3",
    where="Section 4.1, Eq. 3; Appendix A, Eqs. 6-11",
    says="The logit gradient of log pi(y) is the one-hot vector of y minus the policy.",
    formula=r"\mathbf{g}_{i,t}=\mathbf{e}_{y_{i,t}}-\pi_\theta(\cdot|s_{i,t})",
    refuted_by="a policy and a token at which a derivative of log softmax differs",
    reading="Logits at temperature 1, which mathematics and logic use in training. Code is trained at temperature 0.6 "
    "(App. E.1): with respect to unscaled logits the gradient would then be larger by 1/0.6.",
    identity=True,
    statement=lambda p, y: tuple(score(p, y)),
    planted={"the other sign": lambda p, y: tuple(penalty(p, y)), "no policy": lambda p, y: tuple(one_hot(p, y))},
)
def score_function(statement):
    """Differentiate log softmax, symbolically and numerically."""
    yield from equals(
        statement,
        SAMPLED,
        derived=lambda p, y: symbolic_gradient(lambda current, log: log(current[y]), p),
        enumerated=lambda p, y: numerical_gradient(lambda current, log: log(current[y]), p),
    )


@claim(
    "casp:app-a-chain-rule",
    where="Appendix A, the display between Eqs. 12 and 13",
    says="The parameter gradient of A gamma is A gamma times the logit gradient g, the Jacobian of the logits, and g.",
    formula=r"A_i\,\mathrm{sg}(\gamma_{i,t})\underbrace{\nabla_{\mathbf z}\log\pi_\theta}_{\mathbf g_{i,t}}"
    r"\nabla_\theta\mathbf z_{i,t}\,\mathbf g_{i,t}",
    refuted_by="a policy at which the printed product differs from the derivative",
    reading="g is printed on both sides of the Jacobian, so that the product is quadratic in g; it is tested with the "
    "logits as parameters (Jacobian 1), entry by entry. On the reading that the underbraced factor is a remark on "
    "what the g behind the Jacobian is, the print would be right; Eq. 13 has g once.",
    statement=lambda p, y, A: tuple(A * p[y] / old(p)[y] * entry * entry for entry in score(p, y)),
    slip=Amended(
        "g once, behind the Jacobian, as in Eq. 13",
        lambda p, y, A: tuple(A * p[y] / old(p)[y] * entry for entry in score(p, y)),
    ),
    planted={"without g": lambda p, y, A: (A * p[y] / old(p)[y],) * len(p)},
)
def chain_rule(statement):
    """The same derivative as for Eq. 1."""
    yield from ratio_gradient(statement)


@claim(
    "casp:figure-4-positive",
    where="Section 4.1, after Eq. 3; Figure 4(a)",
    says="A positive update raises the sampled token's probability and lowers every alternative's.",
    refuted_by="a policy and a sampled token for which some alternative gains probability to first order",
    reading="The paper says 'suppressing alternatives', of Eq. 3's gradient, and Eq. 10 does lower each one's logit. "
    "Of the probability of every one it is our sentence: an alternative with p_v + p_y < sum p^2 falls less than the "
    "average and gains, and so it is for unlikely alternatives whenever the sampled token is itself unlikely beside a "
    "dominant one.",
    inferred=True,
    statement=lambda change, p, y: change[y] > 0 and all(entry < 0 for v, entry in enumerate(change) if v != y),
    condition=Amended(
        "the sampled token is at least as likely as two samples are to agree (p_y >= sum p^2), as rank 1 always is",
        lambda change, p, y: (
            change[y] > 0 and all(entry < 0 for v, entry in enumerate(change) if v != y)
            if p[y] >= collision(p)
            else None
        ),
    ),
    planted={"all fall": lambda change, p, y: all(entry < 0 for entry in change)},
    met="partly: it is met whenever rank 1 is sampled",
)
def positive_update(statement):
    """The exact first-order change of the probabilities."""
    yield from satisfies(
        statement, SAMPLED, lambda p, y: mass_change(p, score(p, y)), names="change of each probability"
    )


@claim(
    "casp:figure-4-positive-rank-1",
    where="Section 4.1, after Eq. 3",
    says="A positive update of the rank-1 candidate sharpens the distribution: its entropy falls.",
    refuted_by="a policy whose entropy does not fall to first order when rank 1 is reinforced",
    reading="One update on one sample; on average over the sampled token nothing sharpens (casp:observation-1-gap). "
    "Policies with a candidate below rank 1: at the uniform one, where all are rank 1, the first order is 0.",
    statement=lambda slope, p: None if is_uniform(p) else slope < 0,
    planted={"rises": lambda slope, p: slope > 0, "at the uniform policy too": lambda slope, p: slope < 0},
)
def positive_rank_one(statement):
    """First-order change of the entropy, from the change of the probabilities and by numerical differentiation."""
    yield from satisfies(
        statement,
        grid(p=WITH_TIES),
        lambda p: entropy_slope(p, score(p, 0)),
        derived=lambda p: directional_entropy_slope(p, score(p, 0)),
    )


def directional_entropy_slope(p, direction):
    """The derivative of the entropy along a direction of the logits, from its numerical gradient."""
    gradient = numerical_gradient(lambda current, log: -sum(q * log(q) for q in current), p)
    return sum(slope * number(d) for slope, d in zip(gradient, direction, strict=True))


@claim(
    "casp:lemma-2",
    where="Section 3.1, Lemma 2; Appendix B.1, Eqs. 16-19",
    says="The derivative of the sampled token's probability is -p_y p_v in an alternative's logit and p_y (1 - p_y) in "
    "its own.",
    formula=r"\frac{\partial p_{y}}{\partial z_v}=-p_{y}p_v,\qquad\frac{\partial p_y}{\partial z_y}=p_y(1-p_y)",
    refuted_by="a policy and two tokens at which the derivative of the softmax differs",
    reading="As printed; no other reading was found.",
    identity=True,
    statement=lambda p, y: tuple(p[y] * (1 - p[y]) if v == y else -p[y] * p[v] for v in range(len(p))),
    planted={"plus": lambda p, y: tuple(p[y] * (1 - p[y]) if v == y else p[y] * p[v] for v in range(len(p)))},
)
def softmax_coupling(statement):
    """Differentiate the softmax, symbolically and numerically."""
    yield from equals(
        statement,
        SAMPLED,
        derived=lambda p, y: symbolic_gradient(lambda current, log: current[y], p),
        enumerated=lambda p, y: numerical_gradient(lambda current, log: current[y], p),
    )


@claim(
    "casp:eq-20",
    where="Section 3.1, Lemma 2; Appendix B.1, Eq. 20",
    says="A negative update raises each alternative's logit in proportion to p_v.",
    formula=r"\Delta z_v\propto p_{y_{i,t}}p_v,\qquad v\neq y_{i,t}",
    refuted_by="a policy and a sampled token for which the exact change of the probabilities is not the predicted one",
    reading="On policy with A = -1 the constant is 1/p_y (the ratio's denominator), so dz_v = step p_v; the logits' "
    "rise is tested by its effect on the probabilities. On the reading that probability, not logit, rises in "
    "proportion to p_v it would fail: see casp:lemma-2-redistribution.",
    identity=True,
    statement=lambda p, y: [p[v] if v != y else p[y] - 1 for v in range(len(p))],
    planted={"equal shares": lambda p, y: [F(1, len(p)) if v != y else p[y] - 1 for v in range(len(p))]},
)
def logit_rise(statement):
    """The stated direction against the steepest ascent of -p_y/old_y, and its first-order effect against the exact."""
    yield from equals(
        lambda p, y: tuple(statement(p, y)),
        SAMPLED,
        derived=lambda p, y: symbolic_gradient(lambda current, log: -current[y] / p[y], p),
    )
    yield from vanishes(
        lambda step, p, y: max(
            abs(after - number(before) - step * number(change))
            for after, before, change in zip(
                stepped(p, penalty(p, y), step), p, mass_change(p, statement(p, y)), strict=True
            )
        ),
        SAMPLED,
        order=2,
    )


def after_penalty(p, y, step=1):
    """The exact policy after a negative update of any size, and before."""
    return [(after, number(before)) for after, before in zip(stepped(p, penalty(p, y), step), p, strict=True)]


@claim(
    "casp:lemma-2-decrease",
    where="Section 3.1, Lemma 2",
    says="A negative sample lowers the sampled token's probability.",
    refuted_by="a policy and a token whose probability rises, at any step",
    reading="One sample alone, steps 0.01, 1 and 10, not only first order. In a group other samples can outweigh it.",
    statement=lambda pairs, p, y, step: pairs[y][0] < pairs[y][1],
    planted={"rises": lambda pairs, p, y, step: pairs[y][0] > pairs[y][1]},
)
def penalised_token_falls(statement):
    """The exact softmax after the step."""
    points = [{**point, "step": step} for point in SAMPLED for step in (F(1, 100), 1, 10)]
    yield from satisfies(statement, points, after_penalty)


@claim(
    "casp:lemma-2-rank-1",
    where="Section 3.1, Lemma 2; Appendix B.1",
    says="If the penalised token is not rank 1, the rank-1 candidate gains probability, the most of all candidates.",
    refuted_by="a policy and a token below rank 1 whose penalty lowers rank 1 or raises another candidate more",
    reading="Probability; of logits it holds as well. Gains are p_v (p_v + p_y - sum p^2) to first order, and sum p^2 "
    "is at most p_1.",
    statement=lambda change, p, y: change[0] > 0 and change[0] == max(change),
    planted={"rank 2 gains most": lambda change, p, y: change[0 if y == 1 else 1] == max(change)},
)
def rank_one_absorbs(statement):
    """The exact first-order change of the probabilities, for each token below rank 1."""
    yield from satisfies(
        statement, [point for point in SAMPLED if point["y"] > 0], lambda p, y: mass_change(p, penalty(p, y))
    )


@claim(
    "casp:lemma-2-redistribution",
    where="Section 3.1, before Lemma 2",
    says="A negative sample's mass flows disproportionately to likely alternatives: the gain per unit of probability "
    "rises with p_v.",
    refuted_by="a policy, a penalised token and two alternatives of which the likelier has no larger relative gain",
    reading="Gains are p_v (p_v + p_y - sum p^2) to first order. On the reading that every alternative gains, it would "
    "fail: those with p_v + p_y < sum p^2 lose, so that penalising an unlikely token takes from other unlikely ones "
    "too (first at p = .9, .06, .04).",
    statement=lambda gains, p, y: all(before > after for before, after in pairwise(gains)),
    planted={
        "in proportion": lambda gains, p, y: len(set(gains)) == 1,
        "to the unlikely": lambda gains, p, y: gains == tuple(sorted(gains)),
    },
)
def redistribution(statement):
    """The exact first-order relative changes of the alternatives, from rank 1 down."""

    def relative(p, y):
        return tuple(
            change / q for v, (change, q) in enumerate(zip(mass_change(p, penalty(p, y)), p, strict=True)) if v != y
        )

    yield from satisfies(statement, [point for point in SAMPLED if len(point["p"]) > 2], relative)


@claim(
    "casp:section-4.2-rank-1",
    where="Section 4.2; Figure 4(b), lower panel",
    says="Penalising the rank-1 candidate can flatten the distribution: a small step raises its entropy.",
    refuted_by="a policy with a candidate below rank 1 whose entropy does not rise to first order, or by a step of "
    "1/100, when rank 1 is penalised",
    reading="More than 'can': at every policy tried. At the uniform one, where all are rank 1, any step lowers the "
    "entropy.",
    caveat="With a large step rank 1 can fall below rank 2, and the entropy fall again.",
    statement=lambda slope, p: None if is_uniform(p) else slope > 0,
    planted={"sharpens": lambda slope, p: slope < 0, "at the uniform policy too": lambda slope, p: slope > 0},
)
def penalised_rank_one(statement):
    """First-order change of the entropy, two ways, and the exact change of a small step."""
    yield from satisfies(
        statement,
        grid(p=WITH_TIES),
        lambda p: entropy_slope(p, penalty(p, 0)),
        derived=lambda p: directional_entropy_slope(p, penalty(p, 0)),
    )
    yield from satisfies(
        statement, grid(p=WITH_TIES), lambda p: entropy(stepped(p, penalty(p, 0), F(1, 100))) - entropy(p)
    )


def is_surprising(p, y):
    """Check that a token's surprisal reaches the entropy."""
    return -mp.log(number(p[y])) >= entropy(p)


@claim(
    "casp:section-4.2-lower-ranks",
    where="Section 4.2; Appendix C.2",
    says="Penalising a token below rank 1 sharpens the distribution: its entropy falls.",
    refuted_by="a policy and a token below rank 1 whose penalty raises the entropy",
    inferred=True,
    reading="'Non-rank-1 penalties, which sharpen the distribution via the squeeze effect': the paper measures by the "
    "rank-1 probability, and by that it always holds (casp:lemma-2-rank-1). Entropy is our measure; by it the sentence "
    "fails where the token is nearly as likely as rank 1. Section C.2's 'when applied to low-probability tokens' is "
    "right by both.",
    statement=lambda slope, p, y: slope < 0,
    condition=Amended(
        "the token's surprisal is at least the entropy (d entropy = p_y (log p_y + H) - Cov(p, log p))",
        lambda slope, p, y: slope < 0 if is_surprising(p, y) else None,
    ),
    planted={"flattens": lambda slope, p, y: slope > 0},
    met="partly: Appendix C.2 says 'when applied to low-probability tokens', where it is met",
)
def penalised_lower_rank(statement):
    """First-order change of the entropy, two ways."""
    yield from satisfies(
        statement,
        [point for point in SAMPLED if point["y"] > 0],
        lambda p, y: entropy_slope(p, penalty(p, y)),
        derived=lambda p, y: directional_entropy_slope(p, penalty(p, y)),
    )
