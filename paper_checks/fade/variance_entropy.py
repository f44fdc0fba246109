"""Appendix 13: the steps of the proof of the entropy change, one by one, for a tabular softmax."""

from fractions import Fraction

from mpmath import mp, mpf

from paper_checks.claim import CHANGES, Amended, claim
from paper_checks.evidence import equals, grid, number, vanishes
from paper_checks.exact import POLICIES, entropy, logits, mass, score_gradient, softmax, stepped
from paper_checks.fade.variance_common import numerically

# Success weight and failure weight at solve rate p.
WEIGHTS = {
    "GRPO": lambda p: (1 - p, p),
    "AsymGRPO, delta 1/2": lambda p: (1 - p, 2 * p),
    "REINFORCE": lambda p: (Fraction(1), Fraction(0)),
}
POINTS = [
    {"weight": weight, "policy": policy, "correct": correct} for weight in WEIGHTS for policy, correct in POLICIES[:3]
]


def action_advantages(weight, policy, correct):
    """A of each action at the true solve rate."""
    success, failure = WEIGHTS[weight](mass(policy, correct))
    return [number(success if right else -failure) for right in correct]


def mean(policy, values):
    """Expectation over actions."""
    return mp.fsum(number(p) * value for p, value in zip(policy, values, strict=True))


def covariance(policy, left, right):
    """Cov over actions, from deviations."""
    left_mean, right_mean = mean(policy, left), mean(policy, right)
    return mean(policy, [(a - left_mean) * (b - right_mean) for a, b in zip(left, right, strict=True)])


def expected_score(policy, values):
    """E[value grad log pi] with respect to the logits."""
    exact = [number(p) for p in policy]
    return score_gradient(exact, [p * value for p, value in zip(exact, values, strict=True)])


def inner(left, right):
    """Inner product."""
    return mp.fsum(a * b for a, b in zip(left, right, strict=True))


def natural(policy, direction):
    """Fisher matrix inverted on a direction, the last logit held fixed."""
    exact = [number(p) for p in policy]
    free = len(exact) - 1
    fisher = mp.matrix(free, free)
    for row in range(free):
        for column in range(free):
            fisher[row, column] = exact[row] * ((row == column) - exact[column])
    return [*mp.lu_solve(fisher, mp.matrix(direction[:free])), mpf(0)]


def entropy_gradient(policy):
    """The gradient of the entropy with respect to the logits, by numerical differentiation."""
    scores = logits(policy)
    return tuple(
        mp.diff(
            lambda entry, index=index: entropy(softmax([*scores[:index], entry, *scores[index + 1 :]])), scores[index]
        )
        for index in range(len(scores))
    )


@claim(
    "fade:eq-22",
    where="Appendix 13, Eq. 22 and the line after",
    says="The gradient of the entropy is -E[log pi grad log pi]: the other term of the product rule is zero.",
    formula=r"\nabla_\theta\mathcal{H}(\pi)=-\mathbb{E}_{a\sim\pi}[\log\pi\,\nabla_\theta\log\pi]",
    refuted_by="a policy whose entropy has another gradient",
    reading="Tabular softmax, gradient in the logits; the identity holds for every parameterisation.",
    identity=True,
    statement=lambda policy: tuple(-entry for entry in expected_score(policy, logits(policy))),
    planted={
        "the sign": lambda policy: tuple(expected_score(policy, logits(policy))),
        "without scores' mean": lambda policy: tuple(
            -number(p) * score for p, score in zip(policy, logits(policy), strict=True)
        ),
    },
)
def gradient(statement):
    """Differentiate the entropy numerically in each logit."""
    points = [{"policy": policy} for policy, _ in POLICIES]
    yield from numerically(equals(statement, points, enumerated=entropy_gradient, tolerance=mpf("1e-18")))


@claim(
    "fade:eq-21",
    where="Appendix 13, Step 1, Eq. 21",
    says="To first order the entropy changes by eta times the inner product of its gradient with E[A grad log pi].",
    formula=r"\Delta\mathcal{H}=\eta\nabla_\theta\mathcal{H}^\top\mathbb{E}[A\nabla_\theta\log\pi]+O(\eta^2)",
    refuted_by="a policy and a weight for which the error of the exact change does not fall as the square of the step",
    reading="Plain steps, as the theorem has them; for natural steps the second factor is multiplied by the inverse "
    "Fisher matrix here already, and not first in Eq. 24.",
    statement=inner,
    planted={"the sign": lambda slope, update: -inner(slope, update)},
)
def taylor(statement):
    """Take the step exactly; the entropy's gradient is by numerical differentiation."""

    def error(step, weight, policy, correct):
        update = expected_score(policy, action_advantages(weight, policy, correct))
        change = entropy(stepped(policy, update, step)) - entropy(policy)
        return change - step * statement(entropy_gradient(policy), update)

    yield from vanishes(error, POINTS, order=2, steps=("1e-3", "1e-4"))


@claim(
    "fade:eq-23",
    where="Appendix 13, Step 3, Eq. 23",
    says="A gradient step changes the entropy by -eta E[log pi grad log pi] . E[A grad log pi], to first order.",
    formula=""
    "\\Delta\\mathcal{H}\\approx-\\eta\\,\\mathbb{E}[\\log\\pi\\nabla_\\theta\\log\\pi]^\\top\\mathbb{E}[A\\nabla_\\theta\\log\\pi]",
    refuted_by="a policy and a weight for which the error of the exact change does not fall as the square of the step",
    reading="Plain steps along the expected gradient. A constant added to A changes neither side: E[grad log pi] is "
    "zero.",
    statement=lambda policy, advantages: (
        -inner(expected_score(policy, logits(policy)), expected_score(policy, advantages))
    ),
    planted={
        "the sign": lambda policy, advantages: inner(
            expected_score(policy, logits(policy)), expected_score(policy, advantages)
        ),
        "E[A log pi]": lambda policy, advantages: (
            -mean(policy, [a * score for a, score in zip(advantages, logits(policy), strict=True)])
        ),
    },
)
def first_order(statement):
    """Take the step exactly."""

    def error(step, weight, policy, correct):
        advantages = action_advantages(weight, policy, correct)
        after = stepped(policy, expected_score(policy, advantages), step)
        return entropy(after) - entropy(policy) - step * statement(policy, advantages)

    yield from vanishes(error, POINTS, order=2)


@claim(
    "fade:eq-24",
    where="Appendix 13, Step 4, Eq. 24",
    says="Under natural gradients the inner product of the entropy's and the objective's gradients is exactly E[A "
    "log pi].",
    formula=r"\mathbb{E}[\log\pi\nabla_\theta\log\pi]^\top\mathbb{E}[A\nabla_\theta\log\pi]\approx\mathbb{E}[A\log\pi]",
    refuted_by="a policy and a weight for which the inner product through the inverse Fisher matrix differs",
    reading="The step is natural: the second factor is multiplied by the inverse Fisher matrix. Scores have mean "
    "zero, so they span the functions of mean zero only, and the projection of A loses E[A]: what is left is Cov(A, "
    "log pi). This is where the drift (m_S - m_F) H of Theorem 13.1 comes from. With the plain inner "
    "product, as printed, every term has a factor pi more and the equality fails for balanced weights too "
    "(fade:thm-13.1-balanced).",
    severity=CHANGES,
    statement=lambda policy, advantages: mean(policy, [a * s for a, s in zip(advantages, logits(policy), strict=True)]),
    correction=Amended(
        "it is Cov(A, log pi); the two agree only for E[A] = 0",
        lambda policy, advantages: covariance(policy, advantages, logits(policy)),
    ),
    planted={"minus": lambda policy, advantages: -covariance(policy, advantages, logits(policy))},
)
def projection(statement):
    """Invert the Fisher matrix on the expected gradient; the projection of A on the scores gives the same."""

    def stated(weight, policy, correct):
        return statement(policy, action_advantages(weight, policy, correct))

    def enumerated(weight, policy, correct):
        step = natural(policy, expected_score(policy, action_advantages(weight, policy, correct)))
        return inner(expected_score(policy, logits(policy)), step)

    def derived(weight, policy, correct):
        advantages = action_advantages(weight, policy, correct)
        projected = [a - mean(policy, advantages) for a in advantages]
        return mean(policy, [a * score for a, score in zip(projected, logits(policy), strict=True)])

    yield from numerically(equals(stated, POINTS, derived=derived, enumerated=enumerated))


@claim(
    "fade:eq-25",
    where="Appendix 13, Step 5, Eq. 25",
    says="E[A log pi] is -(m_S - m_F) H + Cov(A, log pi).",
    formula=r"\mathbb{E}[A\log\pi]=-(m_S-m_F)\mathcal{H}+\operatorname{Cov}(A,\log\pi)",
    refuted_by="a policy and a weight for which the two differ",
    reading="An identity, with m_S = w_S p and m_F = w_F q.",
    identity=True,
    statement=lambda success, failure, entropy, covariance: -(success - failure) * entropy + covariance,
    planted={
        "plus": lambda success, failure, entropy, covariance: (success - failure) * entropy + covariance,
        "without entropy": lambda success, failure, entropy, covariance: covariance,
    },
)
def decomposition(statement):
    """Sum advantage times log-probability over actions."""

    def stated(weight, policy, correct):
        p = mass(policy, correct)
        success, failure = WEIGHTS[weight](p)
        spread = covariance(policy, action_advantages(weight, policy, correct), logits(policy))
        return statement(number(success * p), number(failure * (1 - p)), entropy(policy), spread)

    def enumerated(weight, policy, correct):
        advantages = action_advantages(weight, policy, correct)
        return mean(policy, [a * score for a, score in zip(advantages, logits(policy), strict=True)])

    yield from equals(stated, POINTS, enumerated=enumerated)


@claim(
    "fade:thm-13.1-balanced",
    where="Appendix 13, last sentence of the proof",
    says="For sign-balanced weights the entropy changes by -eta Cov(A, log pi), to first order.",
    formula=r"\Delta\mathcal{H}\approx-\eta\operatorname{Cov}(A,\log\pi)",
    refuted_by="a policy for which the error of the exact change under GRPO does not fall as the square of the step",
    reading="Under the theorem's local projection assumption, which is taken as its own example, natural steps. It "
    "then is as stated for all weights, balanced or not.",
    caveat="For natural steps. Under the plain steps that the theorem writes, theta + eta E[A grad log pi], the "
    "covariance is of log pi with pi (A - E[A]).",
    statement=lambda kind, spread: -spread if kind == "natural" else None,
    planted={
        "plus": lambda kind, spread: spread if kind == "natural" else None,
        "for plain steps too": lambda kind, spread: -spread,
    },
)
def balanced(statement):
    """Take plain and natural steps exactly."""

    def error(step, kind, policy, correct):
        advantages = action_advantages("GRPO", policy, correct)
        stated = statement(kind, covariance(policy, advantages, logits(policy)))
        if stated is None:
            return None
        direction = expected_score(policy, advantages)
        after = stepped(policy, natural(policy, direction) if kind == "natural" else direction, step)
        return entropy(after) - entropy(policy) - step * stated

    kinds = grid(kind=["natural", "plain"])
    points = [kind | {"policy": policy, "correct": correct} for kind in kinds for policy, correct in POLICIES[:3]]
    yield from vanishes(error, points, order=2)
