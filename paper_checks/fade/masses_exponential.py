"""Appendix 8.9: Softmax and LogMeanExp, and RS-GRPO, to whose paper LogMeanExp is credited."""

from fractions import Fraction
from functools import partial

import sympy
from mpmath import mp

from paper_checks.claim import CONDITIONS, COSMETIC, Amended, claim
from paper_checks.evidence import equals, grid, number, satisfies, vanishes
from paper_checks.fade.masses_centred import SIZES, maxrl, mean_grpo, rloo
from paper_checks.fade.masses_chen import chen_masses
from paper_checks.fade.masses_common import (
    HALF,
    SIZE,
    P,
    agrees_with_simlab,
    balanced,
    derived,
    enumerated,
    exp,
    log,
    masses,
    mixed,
    numerical,
    ratio,
    rollouts,
    solve_rates,
    two_outcomes,
    weighs,
)
from paper_checks.fade.masses_pass_at_k import tang

BETAS = [HALF, Fraction(1), Fraction(4)]
BETA = sympy.Symbol("beta", positive=True)
SYMBOLIC = [{"p": P, "G": SIZE, "beta": BETA}]


def mean_exp(batch, beta):
    """The mean of exp(beta r)."""
    return batch.average(lambda reward: exp(beta * reward))


def softmax(reward, batch, beta):
    """exp(beta r) / sum of exp(beta r) - 1/G."""
    return ratio(exp(beta * reward), batch.size * mean_exp(batch, beta)) + Fraction(-1) * ratio(1, batch.size)


def log_mean_exp(reward, batch, beta):
    """lme(r) - lme(r without i), lme = log(mean(exp(beta r))) / beta."""
    rest = batch.without(reward)
    return ratio(log(mean_exp(batch, beta)) - log(mean_exp(rest, beta)), beta)


def rs_grpo(reward, batch, beta):
    """(exp(beta r) / mean(exp(beta r)) - 1) / beta."""
    return ratio(ratio(exp(beta * reward), mean_exp(batch, beta)) - 1, beta)


def printed_softmax(p, beta, **_):
    """(e^beta - 1) p q / (1 + p (e^beta - 1))."""
    rise = exp(beta) - 1
    return balanced(ratio(rise * p * (1 - p), 1 + p * rise))


def printed_log_mean_exp(p, beta, **_):
    """p e^beta / (p e^beta + q) and q / (p e^beta + q)."""
    partition = p * exp(beta) + (1 - p)
    return ratio(p * exp(beta), partition), ratio(1 - p, partition)


@claim(
    "fade:softmax-partition",
    where="Appendix 8.9",
    says="The partition function is Z = G [1 + p (e^beta - 1)].",
    formula=r"Z := |S|e^\beta + |F| = G(pe^\beta+q) = G[1+p(e^\beta-1)]",
    refuted_by="a group with another sum of exponentials",
    reading="The sum of exp(beta r) over the group.",
    identity=True,
    statement=lambda p, G, beta: G * (1 + p * (exp(beta) - 1)),
    planted={"no G": lambda p, G, beta: 1 + p * (exp(beta) - 1), "q": lambda p, G, beta: G * (1 + p * exp(beta))},
)
def softmax_partition(statement):
    """The sum, from the two outcomes and rollout by rollout."""
    yield from equals(
        statement,
        solve_rates(SIZES, beta=BETAS),
        derived=lambda p, G, beta: G * mean_exp(two_outcomes(p, G), beta),
        enumerated=lambda p, G, beta: G * mean_exp(rollouts(p, G), beta),
        symbolic_points=SYMBOLIC,
    )


@claim(
    "fade:softmax-advantages",
    where="Appendix 8.9",
    says="Softmax gives a success (e^beta - 1) q / Z and a failure -p (e^beta - 1) / Z.",
    formula=r"A_s = \frac{(e^\beta-1)q}{Z},\quad A_f = \frac{-p(e^\beta-1)}{Z}",
    refuted_by="a group with other advantages",
    reading="softmax(beta r) - 1/G, over the group.",
    identity=True,
    statement=lambda p, G, beta: tuple(
        ratio((exp(beta) - 1) * share, G * (1 + p * (exp(beta) - 1))) for share in (1 - p, -p)
    ),
    planted={
        "swapped": lambda p, G, beta: tuple(
            ratio((exp(beta) - 1) * share, G * (1 + p * (exp(beta) - 1))) for share in (p, p - 1)
        )
    },
)
def softmax_advantages(statement):
    """The definition for each outcome of each mixed group, and in symbols."""
    yield from equals(
        statement,
        solve_rates(SIZES, mixed, beta=BETAS),
        derived=lambda p, G, beta: tuple(softmax(r, two_outcomes(p, G), beta) for r in (1, 0)),
        enumerated=lambda p, G, beta: tuple(softmax(r, rollouts(p, G), beta) for r in (1, 0)),
        symbolic_points=SYMBOLIC,
    )


@claim(
    "fade:softmax",
    where="Appendix 8.9",
    says="Softmax is sign-balanced: both masses are (e^beta - 1) p q / (1 + p (e^beta - 1)).",
    formula=r"m_S = m_F = \frac{(e^\beta-1)pq}{1+p(e^\beta-1)}",
    refuted_by="one group whose masses differ",
    reading="The coefficient of the summed gradient, as derived, in which GRPO's mass is B sqrt(pq). On the reading of "
    "Eq. 3, a mean over the group, as the masses of Power Norm, quantile and ReLU are printed in the same appendix, "
    "it would fail, G times too large (fade:masses-normalisation).",
    identity=True,
    statement=printed_softmax,
    planted={
        "no normaliser": lambda p, beta, **_: balanced((exp(beta) - 1) * p * (1 - p)),
        "successes alone": lambda p, beta, **_: (printed_softmax(p, beta)[0], 0),
        "mean": lambda p, beta, G: tuple(ratio(mass, G) for mass in printed_softmax(p, beta)),
    },
)
def softmax_of_group(statement):
    """The sum over the group, from the two outcomes and rollout by rollout; and our estimator's mean."""

    def summed(masses_of):
        return lambda p, G, beta: tuple(G * mass for mass in masses_of(p, G, beta=beta))

    points = solve_rates([2, 3, 8], beta=BETAS)
    agrees_with_simlab(enumerated(softmax), "softmax", points, {})
    yield from equals(
        statement,
        points,
        derived=summed(derived(softmax)),
        enumerated=summed(enumerated(softmax)),
        symbolic_points=SYMBOLIC,
    )


LIMIT_POINTS = solve_rates([2, 3, 8], mixed)


@claim(
    "fade:softmax-beta-zero",
    where="Appendix 8.9",
    says="As beta -> 0, Softmax recovers Dr. GRPO.",
    formula=r"\beta \to 0:\ m_S, m_F \to pq",
    refuted_by="a mixed group whose mass stays away from p q",
    reading="Unscaled, with the printed mass (the sum) or the mean: both vanish with beta, and the update with them; "
    "the paper counts scale as an axis of its own. Read as 'in proportion', it holds.",
    severity=COSMETIC,
    met="unknown: no scale is printed",
    statement=lambda G, beta, scaled: (1, mean_grpo),
    condition=Amended(
        "the weight is multiplied by G / beta, as RS-GRPO is",
        lambda G, beta, scaled: (G / beta, mean_grpo) if scaled else None,
    ),
    planted={
        "reinforce": lambda G, beta, scaled: (G / beta, lambda reward, batch: reward) if scaled else None,
        "times G": lambda G, beta, scaled: (G, mean_grpo) if scaled else None,
    },
)
def softmax_beta_zero(statement):
    """The distance of the scaled mass from the mean GRPO's, as beta falls."""

    def distance(beta, p, G, scaled):
        stated = statement(G, beta, scaled)
        if stated is None:
            return None
        scale, limit = stated
        gaps = zip(enumerated(softmax)(p, G, beta=beta), enumerated(limit)(p, G), strict=True)
        return max(abs(scale * number(mass) - number(wanted)) for mass, wanted in gaps)

    points = [point | {"scaled": scaled} for scaled in (False, True) for point in LIMIT_POINTS]
    yield from vanishes(distance, points, order=1)


PASS_AT_K = {
    "Tang": numerical(enumerated(tang)),
    **{f"Chen, k = {k}": numerical(partial(chen_masses, k=k)) for k in range(2, 8)},
}


@claim(
    "fade:softmax-beta-infinity",
    where="Appendix 8.9",
    says="As beta -> infinity, Softmax converges to the pass@k advantage.",
    refuted_by="a mixed group of 8 whose limit masses are not in the proportion of the pass@k masses",
    reading="Any of the paper's pass@k weights, Tang's and Chen's with k from 2 to 7, in groups of 8 and up to a scale "
    "common to them, fixed at one success. The limit is 1/s - 1/G at the s best: G times it is (r - p) / p, MaxRL, "
    "whose gradient, of log p, is a sum over all k of that of pass@k over k, and of no single one. "
    "Read as 'a lone success gets all the softmax weight', it holds of the weight before 1/G is subtracted.",
    severity=CONDITIONS,
    statement=PASS_AT_K,
    correction=Amended(
        "up to a scale, it converges to MaxRL, mass 1 - p on both outcomes",
        {"MaxRL": numerical(enumerated(maxrl))},
    ),
    planted={"mean GRPO": {"mean GRPO": numerical(enumerated(mean_grpo))}},
)
def softmax_beta_infinity(statement):
    """The distance of the masses, relative to those at one success, from the nearest candidate; the step is e^-beta."""

    def shape(masses_of, G):
        values = [masses_of(p=Fraction(successes, G), G=G) for successes in range(1, G)]
        return [value / values[0][0] for pair in values for value in pair]

    def distance(step, G):
        curve = shape(numerical(partial(enumerated(softmax), beta=-mp.log(step))), G)
        candidates = [shape(limit, G) for limit in statement.values()]
        return min(max(abs(a - b) for a, b in zip(curve, wanted, strict=True)) for wanted in candidates)

    yield from vanishes(distance, grid(G=[8]), order=1)


def exact_log_mean_exp(p, G, beta):
    """p [l(s, G) - l(s - 1, G - 1)] and q [l(s, G - 1) - l(s, G)] with l(s, G) = log(1 + (s/G)(e^beta - 1)) / beta."""

    def level(successes, size):
        return log(1 + ratio(successes, size) * (exp(beta) - 1))

    s = p * G
    success = level(s, G) - level(s - 1, G - 1) if s > 0 else 0
    failure = level(s, G - 1) - level(s, G) if s < G else 0
    return ratio(p * success, beta), ratio((1 - p) * failure, beta)


@claim(
    "fade:log-mean-exp",
    where="Appendix 8.9",
    says="LogMeanExp, lme(r) - lme(r without i), has masses p e^beta / (p e^beta + q) and q / (p e^beta + q).",
    formula=r"m_S = \frac{pe^\beta}{pe^\beta+q},\quad m_F = \frac{q}{pe^\beta+q}",
    refuted_by="one mixed group whose masses differ",
    reading="The group's own share, mean over the group: at G = 8, beta = 1, p = 1/2 the definition gives .034, .032, "
    "the print .731 and .269. Summing over the group (.27, .26), or p the true rate, does not help. What is printed "
    "are the softmax shares of the two outcomes: with Z - e^beta, Z - 1 put beside an unchanged G, first order in 1/Z "
    "gives them over beta G, but the weight of failures is then positive, and m_F has the other sign.",
    severity=CONDITIONS,
    statement=printed_log_mean_exp,
    correction=Amended(
        "m_S = p [l(s, G) - l(s - 1, G - 1)], m_F = q [l(s, G - 1) - l(s, G)], "
        "l(s, G) = log(1 + (s/G)(e^beta - 1)) / beta",
        exact_log_mean_exp,
    ),
    planted={
        "over beta G": lambda p, G, beta: tuple(mass * ratio(1, beta * G) for mass in printed_log_mean_exp(p, beta)),
        "sum": lambda p, G, beta: tuple(mass * ratio(1, G) for mass in printed_log_mean_exp(p, beta)),
    },
)
def log_mean_exp_of_group(statement):
    """The definition, from the two outcomes and rollout by rollout; and our estimator."""
    yield from weighs(statement, log_mean_exp, solve_rates([2, 3, 8], mixed, beta=BETAS), simlab="log_mean_exp")


@claim(
    "fade:log-mean-exp-shift",
    where="Appendix 8.9",
    says="Removing a success changes log Z more than removing a failure.",
    formula=r"Z \to Z - e^\beta \text{ against } Z \to Z - 1",
    refuted_by="a group and beta at which it changes log Z no more",
    reading="The sum Z, as it says, without the mean's factor; beta > 0, mixed groups.",
    identity=True,
    statement=lambda change, **_: change[0] > change[1],
    planted={"less": lambda change, **_: change[0] < change[1]},
)
def log_mean_exp_shift(statement):
    """log Z less log of the sum without one rollout, of every mixed group."""

    def change(p, G, beta):
        batch = rollouts(p, G)

        def total(rest):
            return rest.size * mean_exp(rest, beta)

        return tuple(log(total(batch)) - log(total(batch.without(reward))) for reward in (1, 0))

    yield from satisfies(statement, solve_rates([2, 3, 4, 8], mixed, beta=BETAS), change)


@claim(
    "fade:log-mean-exp-sign-bias",
    where="Appendix 8.9",
    says="LogMeanExp is sign-biased: successes are exponentially upweighted, in the ratio p e^beta / q of the masses.",
    formula=r"m_S/m_F = pe^\beta/q",
    refuted_by="a p and beta at which the ratio of the masses of large groups is another",
    reading="Large groups, G from 10^3 to 10^6, where rounding of the share plays no part. In mixed groups m_S is the "
    "larger, so that it is sign-biased, but by a factor of 1 + O(1/G): .034 to .032 at G = 8, beta = 1, p = 1/2, where "
    "2.72 is printed.",
    severity=CONDITIONS,
    same_error_as="fade:log-mean-exp",
    statement=lambda p, beta: p * exp(beta) / (1 - p),
    correction=Amended("the ratio tends to 1: the bias vanishes as 1/G", lambda p, beta: 1),
    planted={"e^beta": lambda p, beta: exp(beta)},
)
def log_mean_exp_sign_bias(statement):
    """The ratio of the masses, computed from the definition on the two outcomes of ever larger groups."""

    def distance(step, p, beta):
        from_two = two_outcomes(p, round(1 / step))
        weights = [log_mean_exp(reward, from_two, beta) for reward in (1, 0)]
        return number(p * weights[0] / (-(1 - p) * weights[1])) - number(statement(p, beta))

    yield from vanishes(distance, grid(p=[Fraction(1, 10), HALF], beta=BETAS), order=1)


@claim(
    "fade:log-mean-exp-beta-zero",
    where="Appendix 8.9",
    says="As beta -> 0, LogMeanExp's masses tend to p and 1 - p.",
    formula=r"\beta \to 0: m_S \to p,\ m_F \to q",
    refuted_by="a mixed group whose masses tend elsewhere",
    reading="The limit of the definition. It is the limit of the printed masses, which are not its masses.",
    severity=COSMETIC,
    same_error_as="fade:log-mean-exp",
    statement=lambda p, G: (p, 1 - p),
    correction=Amended(
        "they tend to those of RLOO over G, p q / (G - 1)",
        lambda p, G: tuple(Fraction(mass) / G for mass in enumerated(rloo)(p, G)),
    ),
    planted={"mean GRPO / G": lambda p, G: balanced(p * (1 - p) / G)},
)
def log_mean_exp_beta_zero(statement):
    """The distance from the stated masses, as beta falls."""
    yield from vanishes(farthest(statement, log_mean_exp, lambda step: step), LIMIT_POINTS, order=1)


def farthest(statement, weight, beta_of):
    """Step, point -> the larger distance of a weight's masses at beta from those stated."""

    def distance(step, p, G):
        pair = enumerated(weight)(p, G, beta=beta_of(step))
        return max(abs(number(a) - number(b)) for a, b in zip(pair, statement(p, G), strict=True))

    return distance


@claim(
    "fade:log-mean-exp-reinforce",
    where="Appendix 8.9",
    says="Masses p and 1 - p are those of REINFORCE.",
    formula=r"m_S \to p,\ m_F \to q\ (\text{REINFORCE})",
    refuted_by="a group whose masses under the weight r differ",
    reading="Rewards 1 and 0, which the paper assumes throughout: failures then weigh nothing.",
    severity=COSMETIC,
    met="no: rewards are 0 and 1 throughout",
    statement=lambda p, G, failure: (p, 1 - p),
    condition=Amended("failures are rewarded -1, not 0", lambda p, G, failure: (p, 1 - p) if failure == -1 else None),
    planted={"swapped": lambda p, G, failure: (1 - p, p) if failure == -1 else None},
)
def log_mean_exp_reinforce(statement):
    """The mean of the rewards over each side of the group."""

    def of_rewards(p, G, failure):
        return masses(lambda reward, batch: Fraction(reward), rollouts(p, G, (1, failure)))

    yield from equals(statement, solve_rates([1, 2, 3], failure=[0, -1]), enumerated=of_rewards)


@claim(
    "fade:log-mean-exp-beta-infinity",
    where="Appendix 8.9",
    says="As beta -> infinity, LogMeanExp becomes pure positive reinforcement, m_S -> 1 and m_F -> 0.",
    formula=r"\beta \to \infty: m_S \to 1,\ m_F \to 0",
    refuted_by="a mixed group whose masses tend elsewhere",
    reading="lme tends to the maximum, and so the weight to Tang's pass@k. Only a lone success keeps a mass, 1/G. Read "
    "as 'failures get nothing in the limit', it is right.",
    severity=COSMETIC,
    same_error_as="fade:log-mean-exp",
    statement=lambda p, G: (1, 0),
    correction=Amended(
        "m_S tends to 1/G in a group with one success, else to 0, as Tang's pass@k; m_F -> 0",
        enumerated(tang),
    ),
    planted={"any success": lambda p, G: (Fraction(1, G), 0)},
)
def log_mean_exp_beta_infinity(statement):
    """The distance from the stated masses at beta = 10^3 to 10^6."""
    yield from vanishes(farthest(statement, log_mean_exp, lambda step: 1 / step), LIMIT_POINTS, order=1)


@claim(
    "fade:rs-grpo",
    where="Appendix 8.9 (LogMeanExp's reference); Table 1 (body lost)",
    says="RS-GRPO, (e^(beta r) / mean(e^(beta r)) - 1) / beta, puts on both outcomes the mass "
    "(e^beta - 1) p q / (beta (1 + p (e^beta - 1))): that of Softmax as printed, over beta.",
    refuted_by="one group whose masses differ",
    reading="The weight that the work cited for LogMeanExp is known for, the gradient of log(mean(e^(beta r))) / beta, "
    "centred; the stored text does not write it.",
    inferred=True,
    identity=True,
    statement=lambda p, beta, **_: tuple(ratio(mass, beta) for mass in printed_softmax(p, beta)),
    planted={"no beta": printed_softmax, "LogMeanExp": printed_log_mean_exp},
)
def rs_grpo_of_group(statement):
    """The definition on the two outcomes, in symbols; on every group; and our estimator."""
    yield from weighs(statement, rs_grpo, solve_rates(SIZES, beta=BETAS), symbolic_points=SYMBOLIC, simlab="rs_grpo")
