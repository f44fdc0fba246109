"""The methods CaSP is compared with: the entropy loss, the entropy advantage, GSPO, W-REINFORCE."""

from fractions import Fraction as F

import numpy as np
from mpmath import mp, mpf

import simlab
from paper_checks.casp.candidates import RANKED, average, numerical_gradient, score, symbolic_gradient
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
BONUSES = [
    {"p": p, "r": r, "bonus": bonus, "advantage": advantage}
    for p in RANKED[:3]
    for r in ((F(1, 2),) * len(p), tuple(F(v + 1, len(p) + 1) for v in range(len(p))))
    for bonus, advantage in ((F(1, 5), (F(1), F(1))), (F(9, 10), (F(2), F(1, 2))))
]


def bonus_change(p, r, bonus, advantage):
    """The expected logit change by A + min(bonus, |A| / kappa) less that by A, token and outcome enumerated."""
    success, failure = (min(bonus, size / KAPPA) for size in advantage)
    gains = [q * s * success + q * (1 - s) * failure for q, s in zip(p, r, strict=True)]
    return tuple(sum(gain * score(p, y)[v] for y, gain in enumerate(gains)) for v in range(len(p)))


def bonus_by_identity(p, r, bonus, advantage):
    """The same by E[e_y - p] = 0: (success bonus - failure bonus) p_v (r_v - mean r)."""
    success, failure = (min(bonus, size / KAPPA) for size in advantage)
    return tuple((success - failure) * q * (s - average(p, r)) for q, s in zip(p, r, strict=True))


@claim(
    "casp:entropy-adv",
    where="Section 1; Section 4.3, Discussion",
    says="An entropy bonus in the advantage pushes probability onto unlikely, unrelated candidates.",
    refuted_by="a policy at which the expected change by the bonus does not raise the least likely candidate",
    reading="Entropy-Adv (Cheng et al.): A + min(alpha H, |A| / kappa), kappa 2, H held constant; the formula is not "
    "in the paper. At one state H is one number, the same for each sampled token, so on average it pushes nothing. "
    "Of entropy regularisation (casp:entropy-loss) the sentence holds.",
    statement=lambda change, p, r, bonus, advantage: change[-1] > 0,
    correction=Amended(
        "uncapped it changes nothing on average; capped, it moves mass by success rates alone",
        lambda change, p, r, bonus, advantage: (
            change == bonus_by_identity(p, r, bonus, advantage)
            and (not any(change) if bonus * KAPPA <= min(advantage) else True)
        ),
    ),
    planted={"lowers it": lambda change, p, r, bonus, advantage: change[-1] < 0},
)
def entropy_advantage(statement):
    """Sum over the sampled token and its outcome."""
    yield from satisfies(statement, BONUSES, bonus_change, derived=bonus_by_identity)


@claim(
    "casp:app-d-1-entropy-adv",
    where="Appendix D.1",
    says="The entropy advantage puts a stronger emphasis on high-entropy tokens: their weights are larger in size.",
    refuted_by="a rollout whose weight at an entropy of 1 is smaller in size than at 0",
    reading="'Its stronger emphasis on high-entropy tokens', given as the cause of its faster collapse; kappa 2. The "
    "bonus is positive also where the advantage is negative, and there it takes emphasis away. On the reading that "
    "only rewards are meant, it would hold.",
    statement=lambda sizes, reward: sizes[1] > sizes[0],
    condition=Amended(
        "the rollout succeeded; failures weigh less", lambda sizes, reward: sizes[1] > sizes[0] if reward else None
    ),
    planted={"smaller": lambda sizes, reward: sizes[1] < sizes[0]},
)
def emphasis(statement):
    """The formula's weights of an advantage of +-1/2 at entropies 0 and 1, and the library's."""

    def by_library(reward):
        entropies = np.array([[0.0, 1.0], [0.0, 1.0]])
        found = simlab.advantages("entropy_advantage", np.array([1.0, 0.0]), entropy=entropies, base="dr_grpo")
        return tuple(abs(float(weight)) for weight in found[1 - reward])

    def by_formula(reward):
        advantage = 0.5 if reward else -0.5
        return tuple(abs(advantage + min(0.4 * entropy, abs(advantage) / KAPPA)) for entropy in (0.0, 1.0))

    yield from satisfies(statement, grid(reward=[1, 0]), by_formula, derived=by_library, tolerance=mpf("1e-12"))


def inverse(length):
    """1 / |y| in 50 digits."""
    return 1 / number(length)


def sequence_ratio(new, old, response, exponent):
    """(pi(y) / pi_old(y)) to a power, tokens independent of one another."""
    return mp.fprod(number(new[token] / old[token]) for token in response) ** exponent


OLD, NEW = RANKED[0], (F(1, 3), F(2, 3))


def responses(length):
    """All responses over two tokens."""
    return [tuple((index >> place) & 1 for place in range(length)) for index in range(2**length)]


def reweighted(length, exponent):
    """E over the old policy of the ratio times [the response is all 0s]."""
    return mp.fprod([number(OLD[0])] * length) * sequence_ratio(NEW, OLD, (0,) * length, exponent)


@claim(
    "casp:gspo",
    where="Appendix C.1",
    says="GSPO's ratio does importance sampling at the level of the sequence: it turns expectations under the old "
    "policy into expectations under the new one.",
    formula=r"s=\left(\pi_\theta(y)/\pi_{\theta_{\mathrm{old}}}(y)\right)^{1/|y|}",
    refuted_by="a length at which the reweighted old expectation is not the new one",
    reading="'Modifies the importance sampling from the token level to the sequence level.' GSPO's exponent 1/|y|, "
    "which this paper does not print, tames the ratio and costs the property. On the reading that the ratio is only "
    "formed of whole sequences, it would hold (casp:gspo-gradient).",
    statement=inverse,
    condition=Amended("|y| = 1", lambda length: inverse(length) if length == 1 else None),
    planted={"half of it": lambda length: inverse(2 * length)},
)
def sequence_importance(statement):
    """The stated exponent's expectation over all responses of an event, against its new probability."""

    def under_old(length):
        exponent = statement(length)
        return None if exponent is None else reweighted(length, exponent)

    yield from equals(
        under_old,
        grid(length=[1, 2, 3]),
        derived=lambda length: NEW[0] ** length,
        enumerated=lambda length: mp.fsum(
            mp.fprod(number(NEW[token]) for token in response) for response in responses(length) if not any(response)
        ),
    )


@claim(
    "casp:gspo-gradient",
    where="Appendix C.1",
    says="All tokens of a rollout share one weight: the gradient of the sequence ratio is the ratio times the mean of "
    "the tokens' scores.",
    formula=r"\nabla s=s\,\frac{1}{|y|}\sum_t\nabla\log\pi_\theta(y_t)",
    refuted_by="a response at which the derivative of the ratio differs",
    reading="Tokens drawn from one state's policy; with a state for each token the derivative splits likewise.",
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


@claim(
    "casp:section-5.3-negative-only",
    where="Section 5.3",
    says="W-REINFORCE, from whose results the section concludes, relies on negative samples alone: a success weighs 0.",
    refuted_by="a non-zero weight on a correct sample",
    reading="'These results demonstrate that relying solely on negative samples is insufficient'; Table 2 has no NSR "
    "row. W-REINFORCE adds successes at weight 0.1 (Zhu et al.), as the library's does. On the reading that 0.1 is "
    "nearly nothing, the conclusion would still be drawn from a method that is not negative-only.",
    statement=(0.0, -1.0),
    correction=Amended("a success weighs 0.1 and a failure -1", (0.1, -1.0)),
    planted={"positive only": (1.0, 0.0)},
)
def weighted_reinforce(statement):
    """The library's weights of one success and one failure."""
    found = np.ravel(simlab.advantages("w_reinforce", np.array([1.0, 0.0])))
    yield from satisfies(
        lambda weights, reward: abs(weights[1 - reward] - statement[1 - reward]) < 1e-12,
        grid(reward=[1, 0]),
        lambda reward: tuple(float(value) for value in found),
    )
