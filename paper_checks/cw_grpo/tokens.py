"""Sections 2.2 and 2.3: the covariance term of a token, as a measure of the token's update."""

from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

import numpy as np
import sympy
from mpmath import mp

from paper_checks.claim import Amended, claim, undecided
from paper_checks.cw_grpo.batches import (
    covariance,
    group_advantages,
    mean,
    terms,
    tokens,
)
from paper_checks.cw_grpo.entropy import NATURAL_ONLY, POLICIES, log_covariance
from paper_checks.cw_grpo.updates import UPDATES, direction, entropy_rate, natural
from paper_checks.evidence import equals, grid, number, satisfies
from paper_checks.exact import expectation, logits, score_gradient
from simlab.estimators.tokens import covariance_terms

BATCHES = [
    {"logp": tuple(tuple(map(Fraction, response)) for response in logp), "advantages": tuple(map(Fraction, advantages))}
    for logp, advantages in (
        (((-1,), (-3,)), (1, -1)),
        (((-1, -2), (-3, 0), (-5, -1)), (2, -1, -1)),
        (((-1,), (-3, 0), (-5, -1, -1)), (2, -1, -1)),
        (((-1, -1, -4), ("-1/3",), (-2, -2)), (1, 1, -2)),
    )
]


def token_means(logp, advantages):
    """c with both means over the tokens."""
    return terms(*tokens(logp, advantages))


def decide_mean(statement):
    """Compare the mean of the terms with the mean of products less the product of means."""
    x, y, z, a, b = sympy.symbols("x y z a b")
    yield from equals(
        lambda logp, advantages: None if (c := statement(logp, advantages)) is None else mean(c),
        BATCHES,
        derived=lambda logp, advantages: covariance(*tokens(logp, advantages)),
        symbolic_points=[
            {"logp": ((x,), (y,)), "advantages": (a, b)},
            {"logp": ((x, y), (z, x)), "advantages": (a, b)},
        ],
    )


@claim(
    "cw-grpo:covariance",
    where="Section 2.3, the token-level covariance",
    says="c = (log pi - its mean)(A - its mean), with both means over the tokens, has the batch's covariance of log "
    "pi and A as its mean.",
    formula=r"c_{i,t} = (\log\pi_\theta(o_{i,t}|q,o_{i,<t}) - \overline{\log\pi}) (\hat{A}_i - \overline{\hat{A}})",
    refuted_by="a batch whose mean of c is not its covariance, or at which simlab's terms are others",
    reading="Means over all tokens of all responses, A counted once a token; the covariance with divisor N. On the "
    "reading that each response counts once it would not hold: responses differ in length.",
    identity=True,
    statement=token_means,
    planted={
        "log pi not centred, A over responses": lambda logp, advantages: [
            x * (a - mean(advantages)) for x, a in zip(*tokens(logp, advantages), strict=True)
        ],
        "a square": lambda logp, advantages: [c * c for c in token_means(logp, advantages)],
    },
)
def mean_term(statement):
    """The means in numbers and symbols, and the terms of simlab in float64."""
    yield from decide_mean(statement)

    def of_simlab(logp, advantages):
        longest = max(map(len, logp))
        padded = np.array([[[float(x) for x in r] + [0.0] * (longest - len(r)) for r in logp]])
        present = np.array([[[1.0] * len(r) + [0.0] * (longest - len(r)) for r in logp]])
        return tuple(covariance_terms(np.array([advantages], float), padded, present, "batch")[present > 0])

    def same(computed, logp, advantages):
        return np.allclose(computed, [float(c) for c in statement(logp, advantages)], rtol=1e-9, atol=1e-9)

    yield from satisfies(same, BATCHES, of_simlab, method="numerical")


GROUPS: list[dict[str, Any]] = [
    *grid(policy=POLICIES[:1], length=[1, 2], G=[2, 3]),
    *grid(policy=POLICIES[1:2], length=[1], G=[2, 3, 4]),
]


@claim(
    "cw-grpo:covariance-over-t",
    where="Section 2.2, Cov_t",
    says="The covariance over the positions t of a response, of log pi and the response's advantage, governs entropy.",
    formula=r"-\eta \cdot \mathrm{Cov}_t(\log\pi_\theta(o_t|q,o_{<t}), \hat{A}_i)",
    refuted_by="a policy at which minus its expectation is not the rate of change of entropy under GRPO's own "
    "expected group update, preconditioned by the Fisher matrix",
    reading="By the letter: t runs, i is fixed; A_i is then a constant and the covariance 0 at any length. All tokens "
    "(i, t) of a group are meant, and then the identity is exact at any G, the group's std included, as advantages "
    "sum to zero. Responses of one or two tokens from one softmax, correct where all tokens are. On the reading that "
    "t already numbers all tokens, and i is a token's response, it holds as printed.",
    statement=lambda logp, advantages: mean(
        [covariance(response, [a] * len(response)) for response, a in zip(logp, advantages, strict=True)]
    ),
    slip=Amended(
        "Over the tokens (i, t) of all responses.", lambda logp, advantages: mean(token_means(logp, advantages))
    ),
    planted={
        "divisor N - 1": lambda logp, advantages: mean(token_means(logp, advantages)) * len(logp) / (len(logp) - 1)
    },
)
def covariance_of_groups(statement):
    """Sum over all groups of responses: the covariance stated, and the update, whose entropy is derived."""

    def over_groups(policy, length, G, value):
        """The expectation of a value of a group's responses and their advantages."""
        responses = list(product(range(len(policy)), repeat=length))

        def of_group(counts):
            group = [response for response, count in zip(responses, counts, strict=True) for _ in range(count)]
            return value(
                group, group_advantages([int(0 in response and len(set(response)) == 1) for response in group])
            )

        return expectation([prod(number(policy[a]) for a in response) for response in responses], G, of_group)

    def stated(policy, length, G):
        scores = logits(policy)
        return -over_groups(
            policy,
            length,
            G,
            lambda group, advantages: number(statement([[scores[a] for a in o] for o in group], advantages)),
        )

    def rate(policy, length, G):
        def signal(action):
            return over_groups(
                policy,
                length,
                G,
                lambda group, advantages: mean(
                    [a * o.count(action) / len(o) for o, a in zip(group, advantages, strict=True)]
                ),
            )

        exact = [sympy.sympify(p) for p in policy]
        update = score_gradient([number(p) for p in policy], [signal(action) for action in range(len(policy))])
        return entropy_rate(exact, natural(exact, update))

    yield from equals(stated, GROUPS, enumerated=rate)


STATES: list[dict[str, Any]] = [
    {"policies": (POLICIES[0], POLICIES[0]), "advantages": ((1, 0), (1, 0))},
    {"policies": (POLICIES[0], (Fraction(1, 2), Fraction(1, 2))), "advantages": ((3, -2), (1, -1))},
    {"policies": (POLICIES[0], (Fraction(1, 2), Fraction(1, 2))), "advantages": ((1, 1), (-1, -1))},
    {"policies": (POLICIES[0], (Fraction(9, 10), Fraction(1, 10))), "advantages": ((2, 0), (0, -2))},
    {"policies": (POLICIES[1], POLICIES[1][::-1]), "advantages": ((2, 0, 1), (0, -2, 0))},
]


def pooled(policies, advantages):
    """The covariance over the tokens of all states, equally often visited."""
    logs = [[mp.log(number(p)) for p in policy] for policy in policies]

    def expected(values):
        return mean(
            [
                sum(number(p) * number(v) for p, v in zip(policy, row, strict=True))
                for policy, row in zip(policies, values, strict=True)
            ]
        )

    products = [[x * number(a) for x, a in zip(*rows, strict=True)] for rows in zip(logs, advantages, strict=True)]
    return expected(products) - expected(logs) * expected(advantages)


def same_mean(policies, advantages):
    """Check that all states have the same expected advantage."""
    pairs = zip(policies, advantages, strict=True)
    return len({sum(p * a for p, a in zip(policy, row, strict=True)) for policy, row in pairs}) == 1


@claim(
    "cw-grpo:pooled-covariance",
    where="Sections 2.2 and 2.3: one covariance over the tokens of a batch",
    says="The covariance over all tokens of a batch governs the entropy, averaged over the tokens' states.",
    refuted_by="two states whose pooled covariance is not minus the rate of the mean entropy",
    inferred=True,
    reading="No sentence says it: what follows from one covariance for all tokens, for which the paper takes the means "
    "'over responses'. Two states, equally often visited, each with a softmax of its own and its natural gradient; "
    "many tokens. The published identity averages the covariance inside each state. Pooling adds the covariance "
    "between states of mean log pi (minus the entropy) and mean A. On the reading that A is the advantage at each "
    "state, of mean 0, it would hold.",
    met="no: GRPO gives every token its outcome's advantage, whose mean differs by state.",
    statement=pooled,
    condition=Amended(
        "The expected advantage is the same in every state.",
        lambda policies, advantages: pooled(policies, advantages) if same_mean(policies, advantages) else None,
    ),
    planted={"the sign": lambda policies, advantages: -pooled(policies, advantages)},
)
def pooled_covariance(statement):
    """The mean over the states of the derivative of each entropy along its natural gradient."""

    def governing(policies, advantages):
        return -mean(
            [number(entropy_rate(p, direction("natural", p, a))) for p, a in zip(policies, advantages, strict=True)]
        )

    yield from equals(
        statement,
        STATES,
        derived=governing,
        enumerated=lambda policies, advantages: mean(
            [log_covariance(p, a) for p, a in zip(policies, advantages, strict=True)]
        ),
    )


TOKENS = grid(
    lambda policy, action, **_: action < len(policy),
    policy=POLICIES,
    action=range(4),
    advantage=[1, -2],
    update=UPDATES,
)


def minus_term(policy, action, advantage, update=""):
    """-(log pi - its mean) A."""
    logs = [mp.log(number(p)) for p in policy]
    return -(logs[action] - sum(number(p) * x for p, x in zip(policy, logs, strict=True))) * advantage


@claim(
    "cw-grpo:token-term",
    where="Section 2.2 (tokens of extreme covariance destabilise entropy); Section 1",
    says="A sampled token's own update changes the entropy of its state by -eta c: tokens of extreme c move entropy "
    "most.",
    refuted_by="a token whose own update changes the entropy at another rate",
    reading="What 'extreme values precipitate unstable entropy dynamics' comes to token by token, which the paper does "
    "not say. One state, log pi centred by its expectation, advantages of mean 0, the update A grad log pi of a token. "
    "Under the plain gradient the rate is -A (p (log p + H) - Cov(log pi, pi)): bounded for the rare tokens whose c "
    "is unbounded, and of the other sign for some.",
    same_error_as="cw-grpo:entropy-covariance-in-grpo",
    met=NATURAL_ONLY,
    inferred=True,
    statement=minus_term,
    condition=Amended(
        "The update is a natural gradient step.",
        lambda policy, action, advantage, update: (
            minus_term(policy, action, advantage, update) if update == "natural" else None
        ),
    ),
    planted={"the sign": lambda **point: -minus_term(**point)},
)
def token_term(statement):
    """Differentiate the entropy along the token's plain or natural update."""

    def rate(policy, action, advantage, update):
        exact = [sympy.sympify(p) for p in policy]
        gradient = score_gradient(exact, [advantage * (j == action) for j in range(len(exact))])
        return entropy_rate(exact, gradient if update == "plain" else natural(exact, gradient))

    yield from equals(statement, TOKENS, derived=rate)


undecided(
    "cw-grpo:extreme-tokens-dominate",
    where="Section 1; caption of Figure 3: tokens with extreme covariance dominate policy updates",
    says="A small fraction of tokens with extreme covariance disproportionately dominates policy updates.",
    needs="the gradient of each token of the runs of Figure 3, sorted by its covariance",
    reading="Shares of the update, not of the covariance, of which Table 1 prints enough "
    "(cw-grpo:table-1-dominance). One does not give the other: a token's part in the gradient at the logits is at most "
    "sqrt(2) |A|, however large its c.",
)
