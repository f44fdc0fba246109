"""Section 2.2: the entropy, its change, and the covariance of log-probabilities and advantages."""

import functools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import sympy
from mpmath import mp, mpf

from paper_checks.claim import CHANGES, Amended, claim
from paper_checks.cw_grpo.updates import UPDATES, direction, entropy_rate
from paper_checks.evidence import equals, number, satisfies, vanishes
from paper_checks.exact import Policy, entropy, stepped

POLICIES = (
    (Fraction(2, 5), Fraction(3, 5)),
    (Fraction(1, 14), Fraction(3, 7), Fraction(1, 2)),
    (Fraction(5, 12), Fraction(1, 12), Fraction(1, 8), Fraction(3, 8)),
)
ADVANTAGES = {2: ((1, -1), (1, 0)), 3: ((1, -1, 0), (0, 1, 0)), 4: ((1, 0, -1, 2), (3, -1, 0, -1))}
POINTS: list[dict[str, Any]] = [
    {"policy": policy, "advantages": advantages} for policy in POLICIES for advantages in ADVANTAGES[len(policy)]
]


def log(value: Any) -> Any:
    """The logarithm of a number, in 50 digits, or of an expression."""
    return sympy.log(value) if isinstance(value, sympy.Basic) else mp.log(number(value))


def entropy_of(policy: Policy) -> Any:
    """The entropy of numbers or expressions."""
    return -sum(weigh(p, log(p)) for p in policy)


def weigh(p: Any, value: Any) -> Any:
    """The product of two numbers of any kind."""
    return (p if isinstance(value, sympy.Basic) else number(p)) * value


def covariance_under(policy: Policy, left: Any, right: Any) -> Any:
    """The covariance of two functions of an action drawn from a policy."""

    def expected(values: Any) -> Any:
        return sum(weigh(p, value) for p, value in zip(policy, values, strict=True))

    products = [x * y for x, y in zip(left, right, strict=True)]
    return expected(products) - expected(left) * expected(right)


def log_covariance(policy: Policy, advantages: Any) -> Any:
    """Cov(log pi, A)."""
    logs = [log(p) for p in policy]
    return covariance_under(policy, logs, [as_kind(a, logs[0]) for a in advantages])


def as_kind(value: Any, kind: Any) -> Any:
    """A number in the kind of another."""
    return value if isinstance(kind, sympy.Basic) else number(value)


def weighed_covariance(policy: Policy, advantages: Any) -> Any:
    """Cov(log pi, pi (A - E A))."""
    mean = sum(p * a for p, a in zip(policy, advantages, strict=True))
    return log_covariance(policy, [p * (a - mean) for p, a in zip(policy, advantages, strict=True)])


def symbolic_points() -> list[dict[str, Any]]:
    """Two actions of any probability, with any advantages."""
    p, first, second = sympy.symbols("p A1 A2", positive=True)
    return [{"policy": (p, 1 - p), "advantages": (first, second)}]


def decide_rate(update: str, statement: Callable[..., Any]) -> Any:
    """Differentiate the entropy along the update, and compare the exact change over finite steps."""
    yield from equals(
        statement,
        POINTS,
        derived=lambda policy, advantages: entropy_rate(policy, direction(update, policy, advantages)),
        symbolic_points=symbolic_points(),
    )

    def error(step: mpf, policy: Policy, advantages: Any) -> mpf:
        moved = stepped(policy, direction(update, policy, advantages), step)
        return entropy(moved) - entropy(policy) - step * number(statement(policy, advantages))

    yield from vanishes(error, POINTS, order=2)


@claim(
    "cw-grpo:entropy-covariance",
    where="Section 2.2, the change of entropy",
    says="Under the natural policy gradient the entropy changes by -eta Cov(log pi, A), to first order.",
    formula=r"\Delta\mathcal{H} \approx -\eta \cdot \mathrm{Cov}_t(\log\pi_\theta(o_t|q,o_{<t}), \hat{A}_i)",
    refuted_by="a policy and advantages for which (exact change) + eta Cov is not of second order in eta",
    reading="The covariance under the policy itself, A any function of the action.",
    caveat="For one state of a tabular softmax under the natural gradient, which is not the update of GRPO "
    "(cw-grpo:entropy-covariance-in-grpo).",
    statement=lambda policy, advantages: -log_covariance(policy, advantages),
    planted={
        "the sign": log_covariance,
        "FADE's drift": lambda policy, advantages: (
            -log_covariance(policy, advantages)
            + entropy_of(policy) * sum(weigh(p, as_kind(a, log(p))) for p, a in zip(policy, advantages, strict=True))
        ),
    },
)
def natural_rate(statement):
    """Solve for the natural gradient, differentiate the entropy along it, and take finite steps."""
    yield from decide_rate("natural", statement)


NATURAL_ONLY = (
    "no: GRPO follows the plain gradient of its objective; no Fisher matrix is mentioned after the identity is quoted."
)


@claim(
    "cw-grpo:entropy-covariance-in-grpo",
    where="Section 2.2 ('directly drives entropy dynamics during training'); Section 1",
    says="The identity describes training: an update changes the entropy by -eta Cov(log pi, A), to first order.",
    formula=r"\Delta\mathcal{H} \approx -\eta \cdot \mathrm{Cov}_t(\log\pi_\theta, \hat{A}_i)",
    refuted_by="a policy and advantages for which the change under a plain or natural gradient step is another",
    reading="One state of a tabular softmax and the expected step on the logits, plain or natural. Under the plain "
    "gradient the covariance is that of log pi and pi (A - E A): rare tokens count in proportion to pi. The source "
    "that the paper quotes (2505.22617) has both forms. As a claim on the sign alone: cw-grpo:covariance-sign.",
    met=NATURAL_ONLY,
    caveat="The paper names no optimiser. With Adam and shared parameters the change of the logits is neither the "
    "plain nor the natural gradient, and neither form is exact.",
    severity=CHANGES,
    statement=lambda policy, advantages, update: -log_covariance(policy, advantages),
    condition=Amended(
        "the update is a natural gradient step; under the plain gradient A becomes pi (A - E A)",
        lambda policy, advantages, update: (
            -(log_covariance(policy, advantages) if update == "natural" else weighed_covariance(policy, advantages))
        ),
    ),
    planted={
        "the plain form for both": lambda policy, advantages, update: -weighed_covariance(policy, advantages),
        "the sign": lambda policy, advantages, update: (
            log_covariance(policy, advantages) if update == "natural" else weighed_covariance(policy, advantages)
        ),
    },
)
def rate_in_training(statement):
    """Differentiate the entropy along either update, and take finite steps."""
    for update in UPDATES:
        yield from decide_rate(update, functools.partial(statement, update=update))


@claim(
    "cw-grpo:abstract-covariance",
    where="Abstract; caption of Figure 2",
    says="Changes in entropy are governed by the covariance between token probabilities and advantages.",
    refuted_by="a policy and advantages for which -eta Cov(pi, A) is not the change of entropy",
    reading="'Probabilities' by the letter, under the natural gradient of the identity. Read as 'governed' in sign "
    "alone it fails as well, from three actions on; Section 2.2 has log-probabilities, which is what is meant. On "
    "the reading 'in words, loosely', as in the abstract of the source quoted, there is nothing to mend.",
    statement=lambda policy, advantages: (
        -covariance_under(
            policy, [as_kind(p, log(p)) for p in policy], [as_kind(a, log(policy[0])) for a in advantages]
        )
    ),
    slip=Amended(
        "Covariance of token log-probabilities and advantages.",
        lambda policy, advantages: -log_covariance(policy, advantages),
    ),
)
def rate_by_probabilities(statement):
    """Apply Section 2.2's test."""
    yield from decide_rate("natural", statement)


@claim(
    "cw-grpo:covariance-sign",
    where="Section 2.2, the change of entropy; Section 1",
    says="Positive covariance of log pi and A lowers the entropy, negative covariance raises it.",
    refuted_by="an update at which covariance and entropy move the same way",
    reading="The paper prints the identity and names no sign: this is the identity's, for both updates. At two actions "
    "plain and natural gradient agree in sign; from three on the plain gradient can raise entropy at positive "
    "covariance.",
    inferred=True,
    same_error_as="cw-grpo:entropy-covariance-in-grpo",
    met=NATURAL_ONLY,
    statement=lambda pair, update, **_: pair[0] * pair[1] < 0,
    condition=Amended(
        "The update is a natural gradient step.",
        lambda pair, update, **_: pair[0] * pair[1] < 0 if update == "natural" else None,
    ),
    planted={"the other way": lambda pair, update, **_: pair[0] * pair[1] > 0},
)
def covariance_sign(statement):
    """The covariance, and the exact change of entropy over a step of 1e-6."""

    def measured(policy, advantages, update):
        moved = stepped(policy, direction(update, policy, advantages), mpf("1e-6"))
        return log_covariance(policy, advantages), entropy(moved) - entropy(policy)

    opposed = {"policy": POLICIES[1], "advantages": (0, 1, 0)}
    points = [point | {"update": update} for point in [*POINTS, opposed] for update in UPDATES]
    yield from satisfies(statement, points, measured, method="numerical", names=("covariance", "change of the entropy"))


@claim(
    "cw-grpo:entropy-drift",
    where="Section 2.2, the change of entropy, beside FADE Eq. 7",
    says="Only the covariance counts: a constant added to every advantage does not change how entropy moves, though "
    "FADE has it add the constant times the entropy.",
    refuted_by="an update whose entropy change differs after a constant is added to every advantage",
    reading="Expected updates, plain or natural, of one state. The two papers differ, and this one is right: the "
    "policy's score has mean zero. In a finite group a mean of the sampled advantages does act, but through (mean "
    "log pi + H), not through H.",
    inferred=True,
    statement=lambda policy, advantages, update, shift: mpf(0),
    planted={"FADE's drift": lambda policy, advantages, update, shift: shift * entropy(policy)},
)
def no_drift(statement):
    """The difference of the two derivatives of the entropy."""

    def difference(policy, advantages, update, shift):
        rates = [
            entropy_rate(policy, direction(update, policy, [a + added for a in advantages])) for added in (shift, 0)
        ]
        return number(rates[0]) - number(rates[1])

    points = [
        point | {"update": update, "shift": shift} for point in POINTS[:4] for update in UPDATES for shift in (1, -2)
    ]
    yield from equals(statement, points, derived=difference)


@claim(
    "cw-grpo:entropy",
    where="Section 2.2, the definition of entropy",
    says="The expectation of -log pi(o|q) is the mean over the positions of the entropy of the token.",
    formula=r"-\mathbb{E}_{o}[\log\pi_\theta(o|q)] = -\frac{1}{|o|}\sum_{t=1}^{|o|}"
    r"\mathbb{E}_{o_t}[\log\pi_\theta(o_t|q,o_{<t})]",
    refuted_by="a tree of two-token responses at which the two sides differ",
    reading="One prompt, |o| = 2, prefixes drawn from the policy; |o| stands outside the expectation over o, so the "
    "length must be fixed. Entropy per token, the second line, is the usual quantity and the one plotted; the first "
    "line is |o| times as large. On the reading that the first line defines entropy, the 1/|o| of the second is the "
    "slip.",
    statement=lambda surprise, length: surprise,
    slip=Amended("-E[log pi(o|q) / |o|] on the left.", lambda surprise, length: surprise / length),
    planted={"twice over": lambda surprise, length: surprise / length**2},
)
def two_token_entropy(statement):
    """The surprise of whole responses, summed over all of them, beside the mean of the entropies by position."""

    def stated(first, second):
        whole = entropy_of([p * s for p, rest in zip(first, second, strict=True) for s in rest])
        return statement(sympy.expand_log(whole, force=True) if isinstance(whole, sympy.Basic) else whole, 2)

    a, b, c, d = sympy.symbols("a b c d", positive=True)
    tree = {"first": (a / (a + b), b / (a + b)), "second": ((c / (c + d), d / (c + d)), (d / (c + d), c / (c + d)))}
    half = Fraction(1, 2)
    points: list[dict[str, Any]] = [
        {"first": (half, half), "second": ((half, half), (half, half))},
        {"first": POLICIES[0], "second": ((half, half), POLICIES[0])},
        {"first": POLICIES[1], "second": (POLICIES[0], POLICIES[1], POLICIES[2])},
    ]
    yield from equals(
        stated,
        points,
        derived=lambda first, second: sum(by_position(first, second)) / 2,
        symbolic_points=[tree],
    )


def by_position(first: Policy, second: Any) -> tuple[Any, Any]:
    """The entropy of the first token, and the expected entropy of the second."""
    return entropy_of(first), sum(weigh(p, entropy_of(rest)) for p, rest in zip(first, second, strict=True))


@claim(
    "cw-grpo:sampling-temperature",
    where="Section 3.1 and Table 5 (temperature 0.7) beside Section 2.2",
    says="With tokens sampled at temperature 0.7, their covariance is the one that governs the entropy of pi.",
    refuted_by="a policy whose covariance under the tempered policy is another than under pi",
    reading="Tokens drawn from pi^(1/T), many of them; log pi and the entropy at temperature 1 or at T, which the "
    "paper does not say. On the reading that pi means the tempered policy everywhere (in log pi, the ratio and the "
    "entropy), as in code that divides the logits by T, it holds.",
    inferred=True,
    met="unknown: the paper samples at 0.7 and does not say at which temperature log pi is taken.",
    statement=lambda policy, advantages, sampled, scored: covariance_under(
        tempered(policy, sampled),
        [log(p) for p in tempered(policy, scored)],
        [number(a) for a in advantages],
    ),
    condition=Amended(
        "The log-probabilities are those of the policy sampled from, its temperature included.",
        lambda policy, advantages, sampled, scored: (
            log_covariance(tempered(policy, scored), advantages) if sampled == scored else None
        ),
    ),
    planted={
        "log-probabilities at 1": lambda policy, advantages, sampled, scored: (
            covariance_under(tempered(policy, sampled), [log(p) for p in policy], [number(a) for a in advantages])
            if sampled == scored
            else None
        )
    },
)
def tempered_covariance(statement):
    """The covariance under pi, at the temperature of log pi, from the derivative of pi's entropy."""

    def governing(policy, advantages, sampled, scored):
        pi = tempered(policy, scored)
        return -number(entropy_rate(pi, direction("natural", pi, advantages)))

    temperatures = (mpf("0.7"), mpf(1))
    points = [point | {"sampled": t, "scored": u} for point in POINTS[:4] for t in temperatures for u in temperatures]
    yield from equals(statement, points, derived=governing)


def tempered(policy: Policy, temperature: Any) -> list[mpf]:
    """The policy at a sampling temperature."""
    weights = [number(p) ** (1 / number(temperature)) for p in policy]
    return [weight / mp.fsum(weights) for weight in weights]
