"""Appendix 8.2: T2T, whose rewards depend on the lengths of the rollouts."""

import itertools
from fractions import Fraction

from paper_checks.claim import Amended, claim
from paper_checks.evidence import equals, grid, satisfies
from paper_checks.fade.masses_centred import PER_ROLLOUT
from paper_checks.fade.masses_common import HALF, agrees_with_simlab, balanced, mixed, ratio, root, solve_rates

# A group is listed by the lengths of its successes and of its failures.
LENGTHS = [
    ((1,), (1,)),
    ((1,), (HALF,)),
    ((HALF, 1), (Fraction(1, 4),)),
    ((HALF,), (1, Fraction(1, 4), 0)),
    ((Fraction(1, 3), 1, HALF), (Fraction(1, 4), Fraction(3, 4))),
]
T2T_POINTS = grid(lengths=LENGTHS, alpha=[Fraction(0), Fraction(1, 5), Fraction(1)])


def mean_of(values):
    """The mean of a list, exactly."""
    return sum(values, start=Fraction(0)) / len(values)


def t2t_rewards(lengths, alpha):
    """Rewards of the successes and of the failures of a group, from its definition."""
    successes, failures = lengths
    p = Fraction(len(successes), len(successes) + len(failures))
    return [1 - alpha * p * length for length in successes], [alpha * (1 - p) * length for length in failures]


def t2t_advantages(lengths, alpha):
    """(r - mean(r)) / std(r), of the successes and of the failures."""
    rewarded, unrewarded = t2t_rewards(lengths, alpha)
    mean = mean_of(rewarded + unrewarded)
    std = root(mean_of([(reward - mean) ** 2 for reward in rewarded + unrewarded]))
    return tuple([ratio(reward - mean, std) for reward in side] for side in (rewarded, unrewarded))


def summary(lengths, alpha):
    """p, the mean length of successes and of failures, C, and the std of the rewards."""
    successes, failures = lengths
    p, long, short = Fraction(len(successes), len(successes) + len(failures)), mean_of(successes), mean_of(failures)
    rewards = [*itertools.chain(*t2t_rewards(lengths, alpha))]
    std = root(mean_of([(reward - mean_of(rewards)) ** 2 for reward in rewards]))
    return p, long, short, 1 - alpha * p * long - alpha * (1 - p) * short, std


def t2t_mean(lengths, alpha):
    """Eq. 12 as printed."""
    p, success, failure, _, _ = summary(lengths, alpha)
    return p - alpha * p**2 * success + alpha * (1 - p) ** 2 * failure


@claim(
    "fade:eq-12",
    where="Appendix 8.2, Eq. 12",
    says="The mean of T2T's rewards is p - alpha p^2 L_S + alpha (1 - p)^2 L_F, L the mean lengths.",
    formula=r"\mu = p - \alpha p^2 \bar L_S + \alpha(1-p)^2 \bar L_F",
    refuted_by="a group of rollouts with lengths whose mean reward differs",
    reading="Mixed groups, lengths in [0, 1]. L_i normalised in any way, since it enters as a number.",
    identity=True,
    statement=t2t_mean,
    planted={"a sign": lambda lengths, alpha: 2 * summary(lengths, alpha)[0] - t2t_mean(lengths, alpha)},
)
def eq_12(statement):
    """The mean of the rewards, rollout by rollout."""
    yield from equals(
        statement, T2T_POINTS, enumerated=lambda **point: mean_of([*itertools.chain(*t2t_rewards(**point))])
    )


def t2t_mean_advantages(lengths, alpha, failure_share=lambda p: p):
    """Eqs. 13 and 14 as printed."""
    p, _, _, scale, std = summary(lengths, alpha)
    return ratio((1 - p) * scale, std), -ratio(failure_share(p) * scale, std)


@claim(
    "fade:eqs-13-14",
    where="Appendix 8.2, Eqs. 13 and 14",
    says="T2T's mean advantage is (1 - p) C / std over the successes and -p C / std over the failures, with "
    "C = 1 - alpha p L_S - alpha (1 - p) L_F.",
    formula=r"\bar A_S = \frac{(1-p)C}{\sigma_R},\quad \bar A_F = \frac{-pC}{\sigma_R}",
    refuted_by="a group of rollouts with lengths whose mean advantages differ",
    reading="The means over each side, as the bars say; single rollouts deviate by their lengths.",
    identity=True,
    statement=t2t_mean_advantages,
    planted={"q for p": lambda lengths, alpha: t2t_mean_advantages(lengths, alpha, lambda p: 1 - p)},
)
def eqs_13_14(statement):
    """The advantages, rollout by rollout."""
    yield from equals(
        statement, T2T_POINTS, enumerated=lambda **point: tuple(mean_of_numbers(a) for a in t2t_advantages(**point))
    )


def mean_of_numbers(values):
    """The mean of 50-digit numbers."""
    return sum(values) / len(values)


def t2t_masses(lengths, alpha):
    """p (1 - p) C / std, twice."""
    p, _, _, scale, std = summary(lengths, alpha)
    return balanced(ratio(p * (1 - p) * scale, std))


@claim(
    "fade:t2t",
    where="Appendix 8.2, after Eq. 14",
    says="T2T is sign-balanced: both masses are p (1 - p) C / std.",
    formula=r"\nabla_{\text{GRPO-T2T}} \approx \frac{Bp(1-p)C}{\sigma_R}[\bar\nabla_S - \bar\nabla_F]",
    refuted_by="a group of rollouts with lengths whose masses differ",
    reading=f"Masses as sums of the advantages on each side, whatever the gradients. {PER_ROLLOUT}",
    identity=True,
    statement=t2t_masses,
    planted={"C squared": lambda lengths, alpha: balanced(t2t_masses(lengths, alpha)[0] * summary(lengths, alpha)[3])},
)
def t2t(statement):
    """The advantages, rollout by rollout, summed on each side; our estimator where all are equally long."""

    def summed(lengths, alpha):
        size = sum(map(len, lengths))
        successes, failures = t2t_advantages(lengths, alpha)
        return sum(successes) / size, -sum(failures) / size

    def equally_long(p, G, alpha):
        successes = int(p * G)
        return summed(((1,) * successes, (1,) * (G - successes)), alpha)

    groups = solve_rates([2, 3, 5], mixed, alpha=[Fraction(0), Fraction(1, 5), Fraction(1)])
    agrees_with_simlab(equally_long, "t2t", groups, {"eps": 0.0, "ddof": 0})
    yield from equals(statement, T2T_POINTS, enumerated=summed)


@claim(
    "fade:t2t-gradient",
    where="Appendix 8.2, after Eq. 14",
    says="T2T's gradient is approximately its mass times the difference of the mean gradients of the two sides.",
    formula=r"\nabla_{\text{GRPO-T2T}} \approx \frac{Bp(1-p)C}{\sigma_R}[\bar\nabla_S - \bar\nabla_F]",
    refuted_by="a group, and gradients, whose weighted sum is off by more than a tenth of the mass",
    reading="Nothing small is named that the error vanishes with: the weight varies with length inside each side, and "
    "the error is the covariance of weight and gradient there. Gradients are those of distinct actions (unit "
    "vectors). On the reading that alpha is small, the error is of order alpha.",
    same_error_as="fade:any-advantage",
    met="unknown: lengths are not reported; the paper runs no T2T",
    statement=lambda gap, lengths, alpha: gap < 0.1,
    condition=Amended(
        "all successes are equally long and all failures are, or alpha = 0",
        lambda gap, lengths, alpha: gap < 0.1 if alpha == 0 or all(len(set(side)) == 1 for side in lengths) else None,
    ),
    planted={"half of the mass": lambda gap, lengths, alpha: gap < 0.5},
)
def t2t_gradient(statement):
    """The largest entry of the error over unit-vector gradients, relative to the mass."""

    def gap(lengths, alpha):
        size = sum(map(len, lengths))
        mass = t2t_masses(lengths, alpha)[0]
        errors = [
            abs(advantage / size + (-mass if side == 0 else mass) / len(weights))
            for side, weights in enumerate(t2t_advantages(lengths, alpha))
            for advantage in weights
        ]
        return ratio(max(errors), mass)

    points = [point for point in T2T_POINTS if t2t_masses(**point)[0] != 0]
    yield from satisfies(statement, points, gap)
