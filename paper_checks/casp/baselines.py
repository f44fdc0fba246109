"""The methods CaSP is compared with: the entropy loss, the entropy advantage, GSPO, W-REINFORCE."""

from fractions import Fraction as F

import numpy as np
from mpmath import mp

import simlab
from paper_checks.casp.candidates import RANKED, numerical_gradient, score, symbolic_gradient
from paper_checks.casp.candidates import average as expectation_of
from paper_checks.casp.printed import CURVES
from paper_checks.casp.tables import TABLE_1, average
from paper_checks.claim import Amended, claim
from paper_checks.evidence import equals, grid, number, satisfies
from paper_checks.exact import entropy
from paper_checks.simulated import drawn, estimate


def entropy_of(current, log):
    """-sum p log p."""
    return -sum(q * log(q) for q in current)


def surprisal_pull(p):
    """-p_v (log p_v + H)."""
    return tuple(-number(q) * (mp.log(number(q)) + entropy(p)) for q in p)


def sampled_entropy_gradient(p):
    """Its score-function estimate, -(log p_y + H) (e_y - p), over tokens that the simulator draws."""
    probabilities = np.array([float(q) for q in p])
    tokens = drawn(p, 6)[:, 0]
    weights = -(np.log(probabilities[tokens]) + float(entropy(p)))
    onehot = tokens[:, None] == np.arange(len(p))
    return tuple(estimate(column) for column in (weights[:, None] * (onehot - probabilities)).T)


@claim(
    "casp:entropy-loss",
    where="Section 4.3, Discussion; Appendix E.1 (coefficient .01)",
    says="An entropy bonus rewards spread whichever candidate receives it: a logit is pulled by -p (log p + H), by its "
    "probability alone.",
    refuted_by="a policy at which a derivative of the entropy is something else",
    reading="The bonus is the entropy of the next-token distribution; success and failure do not enter. So every "
    "candidate less likely than exp(-H) is raised. But the pull fades with p: dead ends of small probability are "
    "hardly touched, and the sampled token's reward acts as well (casp:figure-5-entropy).",
    identity=True,
    statement=surprisal_pull,
    planted={
        "without H": lambda p: tuple(-number(q) * mp.log(number(q)) for q in p),
        "equal pull": lambda p: tuple(number(F(1, len(p)) - q) for q in p),
    },
)
def entropy_gradient(statement):
    """Differentiate the entropy twice over, and draw the score-function estimate that implementations use."""
    yield from equals(
        statement,
        grid(p=RANKED[:5]),
        derived=lambda p: symbolic_gradient(entropy_of, p),
        enumerated=lambda p: numerical_gradient(entropy_of, p),
        sampled=sampled_entropy_gradient,
        sampled_points=[{"p": RANKED[4]}],
    )


KAPPA = 2
# A bonus, and the sizes of the advantage of a success and of a failure. The last candidate never succeeds.
BONUSES = [
    {"p": p, "r": tuple(F(len(p) - 1 - v, len(p)) for v in range(len(p))), "bonus": bonus, "advantage": advantage}
    for p in RANKED[:3]
    for bonus, advantage in ((F(1, 5), (F(1), F(1))), (F(9, 10), (F(2), F(1, 2))), (F(9, 10), (F(1, 2), F(2))))
]


def capped(bonus, advantage):
    """min(bonus, |A| / kappa) of a success and of a failure."""
    return tuple(min(bonus, size / KAPPA) for size in advantage)


def bonus_change(p, r, bonus, advantage):
    """The expected logit change by A + min(bonus, |A| / kappa) less that by A, token and outcome enumerated."""
    success, failure = capped(bonus, advantage)
    gains = [q * s * success + q * (1 - s) * failure for q, s in zip(p, r, strict=True)]
    return tuple(sum(gain * score(p, y)[v] for y, gain in enumerate(gains)) for v in range(len(p)))


def bonus_by_identity(p, r, bonus, advantage):
    """The same by E[e_y - p] = 0: (success bonus - failure bonus) p_v (r_v - mean r)."""
    success, failure = capped(bonus, advantage)
    return tuple((success - failure) * q * (s - expectation_of(p, r)) for q, s in zip(p, r, strict=True))


@claim(
    "casp:entropy-adv",
    where="Section 1, token-level advantage shaping",
    says="An entropy bonus in the advantage raises, on average, a candidate that never succeeds.",
    refuted_by="a policy and success rates at which the expected change by the bonus does not raise it",
    reading="The paper says that token-level bonuses 'may push' probability onto unrelated candidates, and so they "
    "may. Ours is 'on average', of Entropy-Adv (Cheng et al.): A + min(alpha H, |A| / kappa), kappa 2, H held "
    "constant; the formula is not in the paper. At one state H is one number for all candidates, so uncapped the bonus "
    "changes nothing on average; the cap makes it follow the success rates. Of one sample it would hold: whichever "
    "token was drawn is raised. Of the entropy loss see casp:entropy-loss.",
    inferred=True,
    statement=lambda change, p, r, bonus, advantage: change[-1] > 0,
    condition=Amended(
        "failures get the larger bonus: the cap binds on successes, as where more than half of the group succeed",
        lambda change, p, r, bonus, advantage: (
            change[-1] > 0 if capped(bonus, advantage)[0] < capped(bonus, advantage)[1] else None
        ),
    ),
    planted={"lowers it": lambda change, p, r, bonus, advantage: change[-1] < 0},
    met="unknown: how often the cap binds is not reported",
)
def entropy_advantage(statement):
    """Sum over the sampled token and its outcome, and derive by the score-function identity."""
    yield from satisfies(
        statement, BONUSES, bonus_change, derived=bonus_by_identity, names="change of each logit by the bonus"
    )


def inverse(length):
    """1 / |y| in 50 digits."""
    return 1 / number(length)


def sequence_ratio(new, old, response, exponent):
    """(pi(y) / pi_old(y)) to a power, tokens independent of one another."""
    return mp.fprod(number(new[token] / old[token]) for token in response) ** exponent


@claim(
    "casp:gspo",
    where="Appendix C.1",
    says="GSPO weighs whole sequences: all tokens of a rollout share one weight, as the gradient of the sequence ratio "
    "is the ratio times the mean of the tokens' scores.",
    refuted_by="a response at which the derivative of the ratio differs",
    reading="'Modifies the importance sampling from the token level to the sequence level.' Tokens of one state; "
    "with a state for each the derivative splits likewise. On the reading that the ratio turns expectations under the "
    "old policy into those under the new one, it would hold only for |y| = 1: the exponent 1/|y| costs that.",
    identity=True,
    statement=lambda p, response: tuple(
        sequence_ratio(p, (F(1, len(p)),) * len(p), response, inverse(len(response)))
        * number(sum(score(p, token)[v] for token in response) / len(response))
        for v in range(len(p))
    ),
    planted={
        "the sum": lambda p, response: tuple(
            sequence_ratio(p, (F(1, len(p)),) * len(p), response, inverse(len(response)))
            * number(sum(score(p, token)[v] for token in response))
            for v in range(len(p))
        )
    },
    inferred=True,
)
def sequence_gradient(statement):
    """Differentiate the ratio numerically."""

    def ratio(response, size):
        return lambda current, log: mp.fprod(current[token] * size for token in response) ** inverse(len(response))

    yield from equals(
        statement,
        grid(p=RANKED[1:3], response=[(0, 1), (2, 2, 0), (1, 0, 1, 2)]),
        enumerated=lambda p, response: numerical_gradient(ratio(response, len(p)), p),
    )


# The rows that the papers call negative reinforcement: on logic, then on mathematics.
NEGATIVE = [
    {"method": "w_reinforce", "data": "Synlogic"},
    {"method": "w_reinforce", "data": "BBH"},
    {"method": "nsr", "data": "Math-7B"},
    {"method": "nsr", "data": "Llama"},
]
LOGIC = ("Synlogic", "BBH")


def success_weight_and_gain(method, data):
    """The size of a success's weight over a failure's in the library, and the printed gain at the largest K."""
    success, failure = np.ravel(simlab.advantages(method, np.array([1.0, 0.0])))
    name = method.upper().replace("_", "-")
    if data in LOGIC:
        gain = CURVES[data, name][-1] - CURVES[data, "Base"][-1]
    else:
        gain = average(TABLE_1[data], name, 1) - average(TABLE_1[data], "Base Model", 1)
    return abs(success / failure), gain


@claim(
    "casp:section-5.3-negative-only",
    where="Section 5.3",
    says="Table 2 demonstrates that relying solely on negative samples is insufficient to improve pass@K on "
    "challenging tasks.",
    refuted_by="a logic row that the conclusion rests on whose method gives a success a weight, or which gains at "
    "K = 128",
    reading="Challenging: the logic tasks of Table 2. The rows are those of W-REINFORCE, which adds successes at a "
    "tenth of a failure's weight (Zhu et al., 2506.01347); NSR, which uses failures alone, was not run on logic.",
    statement=lambda pair, method, data: (pair[0] == 0 and pair[1] < 0) if data in LOGIC else None,
    condition=Amended(
        "'solely' is read as a success weighing a tenth of a failure",
        lambda pair, method, data: (pair[0] < 0.11 and pair[1] < 0) if data in LOGIC else None,
    ),
    met="yes: the two rows are W-REINFORCE's",
    planted={
        "on mathematics too": lambda pair, method, data: pair[0] < 0.11 and pair[1] < 0,
        "negative samples help": lambda pair, method, data: pair[0] == 0 and pair[1] > 0,
    },
    caveat="On mathematics NSR gains 3.9 and 0.8 points of pass@256 over the base model.",
)
def negative_alone(statement):
    """The library's weights of each method, and printed scores less the base model's."""
    yield from satisfies(
        statement,
        NEGATIVE,
        success_weight_and_gain,
        method="arithmetic",
        names=("weight of a success over a failure's", "gain at the largest K"),
    )
