"""Section 4.1 and Appendix A: the smoothed target, the ratio that implements it, and its moves of mass."""

from fractions import Fraction as F

from mpmath import mp

from paper_checks.casp.candidates import (
    RANKED,
    numerical_gradient,
    score,
    smoothed_target,
    symbolic_gradient,
)
from paper_checks.casp.single_updates import old
from paper_checks.claim import claim
from paper_checks.evidence import equals, grid

SMOOTHED = grid(
    lambda p, y, n, alpha: y < len(p) and n <= len(p),
    p=(*RANKED[:2], RANKED[4]),
    y=range(4),
    n=(1, 3),
    alpha=[F(1, 100)],
)


def held(p, y, alpha, n):
    """gamma+ of current probabilities; terms under stop-gradient stay at p."""
    before = old(p)
    correction = [(p[y] / before[y]) / (p[v] / before[v]) for v in range(n)]
    return lambda current, log: (
        (1 - alpha) * current[y] / before[y] + alpha / n * sum(correction[v] * current[v] / before[v] for v in range(n))
    )


def smoothed_score(p, y, alpha, n):
    """Eq. 4's direction."""
    return [t - q for t, q in zip(smoothed_target(p, y, alpha, n), p, strict=True)]


def times_ratio(p, y, direction):
    """A direction times the sampled token's ratio."""
    return tuple(p[y] / old(p)[y] * entry for entry in direction)


@claim(
    "casp:eq-4-ratio",
    where="Section 4.1, the unnumbered display after Eq. 4; Appendix A, Eqs. 12-14",
    says="The gradient of gamma+, with its stop-gradients, is the sampled token's ratio times the smoothed direction.",
    formula=r"\gamma^{+}=(1-\alpha)\gamma+\frac{\alpha}{N}\sum_{n=1}^{N}\mathrm{sg}\Big(\frac{\gamma}{\gamma^{(n)}}\Big)"
    r"\gamma^{(n)}",
    refuted_by="a policy, sampling policy, token, alpha and N at which the derivative of gamma+ is not gamma (e~ - pi)",
    reading="Off policy too; the sampled token is among the top N at some points and not at others. The top N are held "
    "fixed, as indices carry no gradient.",
    identity=True,
    statement=lambda p, y, alpha, n: times_ratio(p, y, smoothed_score(p, y, alpha, n)),
    planted={
        "the plain direction": lambda p, y, alpha, n: times_ratio(p, y, score(p, y)),
        "no 1/N": lambda p, y, alpha, n: times_ratio(p, y, smoothed_score(p, y, alpha * n, n)),
    },
)
def smoothed_ratio(statement):
    """Differentiate gamma+ through the softmax, symbolically and numerically, sg(...) being constants."""
    yield from equals(
        statement,
        SMOOTHED,
        derived=lambda p, y, alpha, n: symbolic_gradient(held(p, y, alpha, n), p),
        enumerated=lambda p, y, alpha, n: numerical_gradient(held(p, y, alpha, n), p),
    )


@claim(
    "casp:eq-4",
    where="Section 4.1, Eq. 4",
    says="The smoothed target puts 1 - alpha on the sampled token and alpha/N on each of the top N, also where the "
    "sampled token is one of them.",
    formula=r"\tilde{\mathbf e}_{y}=(1-\alpha)\mathbf e_{y}+\frac{\alpha}{N}\sum_{n=1}^{N}\mathbf e_{v^{(n)}}",
    refuted_by="a policy, token, alpha and N at which the target's entries do not sum to 1 or the direction's to 0",
    reading="Tested by its sum, 1, and that of the direction, 0. 'This definition is unchanged when the sampled token "
    "itself belongs to the top-N set.' Its own weight then is 1 - alpha + alpha/N, otherwise 1 - alpha: the sampled "
    "token is not treated alike in the two cases, which the paper's 'consistent treatment' might be read to say.",
    identity=True,
    statement=smoothed_target,
    planted={
        "without the sampled one among the top N": lambda p, y, alpha, n: [
            F(0) if v == y and v < n else t for v, t in enumerate(smoothed_target(p, y, alpha, n))
        ],
        "alpha for each": lambda p, y, alpha, n: [*smoothed_target(p, y, alpha * n, n)[:-1], F(1)],
    },
)
def target_sums_to_one(statement):
    """Add up the target and the direction."""
    yield from equals(
        lambda p, y, alpha, n: (sum(statement(p, y, alpha, n)), sum(statement(p, y, alpha, n)) - sum(p)),
        SMOOTHED,
        enumerated=lambda p, y, alpha, n: (1, 0),
    )


@claim(
    "casp:eq-12",
    where="Appendix A, Eqs. 12 and 13",
    says="The smoothed direction is (1 - alpha) times the sampled token's score plus alpha times the mean score of the "
    "top N.",
    formula=r"\tilde{\mathbf g}=(1-\alpha)\mathbf g+\frac{\alpha}{N}\sum_n\mathbf g^{(n)}",
    refuted_by="a policy, token, alpha and N at which the two differ",
    reading="Equivalently the gradient of -KL(e~ || pi), by which the derivation goes here.",
    identity=True,
    statement=lambda p, y, alpha, n: tuple(
        (1 - alpha) * entry + alpha / n * sum(score(p, v)[u] for v in range(n)) for u, entry in enumerate(score(p, y))
    ),
    planted={"sum for mean": lambda p, y, alpha, n: tuple(smoothed_score(p, y, alpha * n, n))},
)
def smoothed_direction(statement):
    """Differentiate sum e~ log pi."""

    def cross_entropy(p, y, alpha, n):
        target = smoothed_target(p, y, alpha, n)
        return lambda current, log: sum(t * log(q) for t, q in zip(target, current, strict=True) if t)

    yield from equals(
        statement,
        SMOOTHED,
        derived=lambda p, y, alpha, n: symbolic_gradient(cross_entropy(p, y, alpha, n), p),
        enumerated=lambda p, y, alpha, n: numerical_gradient(cross_entropy(p, y, alpha, n), p),
    )


@claim(
    "casp:eq-4-value",
    where="Section 4.1; Appendix A, after Eq. 15",
    says="The stop-gradients keep the sampled token's importance ratio: gamma+ equals gamma in value.",
    refuted_by="a policy, token, alpha and N at which gamma+ and gamma differ in value",
    reading="Our consequence: PPO's clip then binds where it did. In value at every pair of policies, not only "
    "on policy; the rank-n ratios must be positive. The naive "
    "mixture of Eq. 15 differs from gamma as soon as the policy has moved.",
    identity=True,
    statement=lambda p, y, alpha, n: held(p, y, alpha, n)(p, mp.log),
    planted={
        "the naive mixture of Eq. 15": lambda p, y, alpha, n: (
            (1 - alpha) * p[y] / old(p)[y] + alpha / n * sum(p[v] / old(p)[v] for v in range(n))
        )
    },
)
def ratio_value(statement):
    """Evaluate both."""
    yield from equals(statement, SMOOTHED, enumerated=lambda p, y, alpha, n: p[y] / old(p)[y])


@claim(
    "casp:eq-15",
    where="Appendix A, Eq. 15",
    says="The naive mixture of ratios gives candidate n the importance coefficient gamma_n in place of gamma.",
    refuted_by="a policy and token at which the naive mixture's gradient is not the mixture of scores with gamma_n",
    reading="The sampling policy differs from the current one; on policy naive and corrected gradients coincide.",
    identity=True,
    statement=lambda p, y, alpha, n: tuple(
        (1 - alpha) * p[y] / old(p)[y] * entry + alpha / n * sum(p[v] / old(p)[v] * score(p, v)[u] for v in range(n))
        for u, entry in enumerate(score(p, y))
    ),
    planted={"the corrected one": lambda p, y, alpha, n: times_ratio(p, y, smoothed_score(p, y, alpha, n))},
)
def naive_mixture(statement):
    """Differentiate the naive mixture."""

    def naive(p, y, alpha, n):
        return lambda current, log: (
            (1 - alpha) * current[y] / old(p)[y] + alpha / n * sum(current[v] / old(p)[v] for v in range(n))
        )

    yield from equals(
        statement,
        SMOOTHED,
        derived=lambda p, y, alpha, n: symbolic_gradient(naive(p, y, alpha, n), p),
        enumerated=lambda p, y, alpha, n: numerical_gradient(naive(p, y, alpha, n), p),
    )
