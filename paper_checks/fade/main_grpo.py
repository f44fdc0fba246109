"""Section 2.2: mean GRPO as an example, Equations 4 to 6."""

from fractions import Fraction

import sympy
from mpmath import mpf

from paper_checks.claim import Amended, claim
from paper_checks.evidence import equals, number, vanishes
from paper_checks.exact import expectation
from paper_checks.fade.main_gradients import (
    GROUPS,
    group_update,
    mean_score,
    successes,
    wrong,
)


@claim(
    "fade:sec-2-2-mean",
    where="Section 2.2, before Equation 4",
    says="For mean GRPO the expectation of the advantage is the mean reward of the group.",
    formula=r"E[A] = \bar p",
    refuted_by="a group of which the mean advantage is not its mean reward",
    reading="E over the rollouts of a group, A = r - mean. The sentence must mean E[r] = p: the Introduction says E[A] "
    "= 0 of the same weight.",
    statement=lambda p: p,
    slip=Amended("E[r] = p, and E[A] = 0", lambda p: 0),
    planted={"the variance": lambda p: p * (1 - p)},
)
def mean_advantage(statement):
    """Average r - p over a group by its shares, as an expression and at each solve rate."""
    p = sympy.symbols("p", positive=True)
    yield from equals(
        statement,
        [{"p": Fraction(s, 4)} for s in range(1, 4)],
        derived=lambda p: p * (1 - p) + (1 - p) * (0 - p),
        enumerated=lambda p: sum(r - p for r in [1] * int(4 * p) + [0] * int(4 - 4 * p)) / Fraction(4),
        symbolic_points=[{"p": p}],
    )


def combined(policy, correct, counts, success, failure):
    """success * mean score of successes - failure * mean score of failures."""
    return tuple(
        success * x - failure * y
        for x, y in zip(mean_score(policy, counts, correct), mean_score(policy, counts, wrong(correct)), strict=True)
    )


def in_sums(policy, correct, counts):
    """Equation 4: (1 - p) sum over successes - p sum over failures."""
    s, size = successes(counts, correct), sum(counts)
    p = Fraction(s, size)
    return combined(policy, correct, counts, (1 - p) * s, p * (size - s))


def in_one_mass(policy, correct, counts, exponent=1):
    """Equation 6: G p (1 - p) times the difference of the mean scores."""
    p = Fraction(successes(counts, correct), sum(counts))
    amount = sum(counts) * p * (1 - p) ** exponent
    return combined(policy, correct, counts, amount, amount)


@claim(
    "fade:eq-6",
    where="Section 2.2, Equation 6",
    says="Mean GRPO's sum is G p (1 - p) times the difference of the two mean scores.",
    formula=r"\approx Gp(1-p)[\bar\nabla_S-\bar\nabla_F]",
    refuted_by="a group of three rollouts for which the two differ",
    reading="With the group's own solve rate, where the approximation sign is an equality. With the true solve rate it "
    "is fade:eq-6-true-rate.",
    identity=True,
    statement=in_one_mass,
    planted={"an exponent": lambda **point: in_one_mass(**point, exponent=2)},
)
@claim(
    "fade:eq-5",
    where="Section 2.2, Equation 5",
    says="Mean GRPO's sum is |S| (1 - p) times the mean score of successes less |F| p times the mean score of "
    "failures.",
    formula=r"|\bar S|(1-p)\bar\nabla_S - |\bar F|\,p\,\bar\nabla_F",
    refuted_by="a group of three rollouts for which the two differ",
    reading="As Equation 4; the mean score over an empty outcome, 1/0 times an empty sum, is read as 0.",
    identity=True,
    statement=lambda policy, correct, counts: combined(
        policy,
        correct,
        counts,
        successes(counts, correct) * Fraction(successes(counts, wrong(correct)), sum(counts)),
        successes(counts, wrong(correct)) * Fraction(successes(counts, correct), sum(counts)),
    ),
    planted={
        "sizes exchanged": lambda policy, correct, counts: combined(
            policy,
            correct,
            counts,
            successes(counts, wrong(correct)) ** 2,
            successes(counts, correct) ** 2,
        )
    },
)
@claim(
    "fade:eq-4",
    where="Section 2.2, Equation 4",
    says="Mean GRPO's sum over a group is (1 - p) times the successes' scores less p times the failures' scores.",
    formula=r"\nabla_{GRPO} = (1-p)\sum_{\bar S}\nabla\log\pi - p\sum_{\bar F}\nabla\log\pi",
    refuted_by="a group of three rollouts for which the two sums differ",
    reading="p is the group's own solve rate (the bar is dropped). The sum is not divided by G, as Equation 3 is: the "
    "masses G p q of Equation 6 are G times those of Equation 3.",
    identity=True,
    statement=in_sums,
    planted={"divided by G": lambda **point: tuple(entry / 3 for entry in in_sums(**point))},
)
def mean_grpo_sum(statement):
    """Sum r - mean times the score over the rollouts of every group of three."""

    def summed(policy, correct, counts):
        p = Fraction(successes(counts, correct), sum(counts))
        return tuple(sum(counts) * entry for entry in group_update(policy, correct, counts, 1 - p, p))

    yield from equals(statement, GROUPS, enumerated=summed)


@claim(
    "fade:eq-6-true-rate",
    where="Section 2.2, Equation 6, its approximation",
    says="Mean GRPO's sum is approximately G p (1 - p) times the difference of the two mean scores.",
    formula=r"E[\nabla_{GRPO}] \approx Gp(1-p)[\nabla_S-\nabla_F]",
    refuted_by="a relative error that does not vanish as 1/G",
    reading="With the true solve rate: the approximation sign is taken in expectation and for large G. At finite G the "
    "exact factor is (G - 1) p (1 - p), by which exact equality would fail: half of it at G = 2.",
    statement=lambda G, p: G * p * (1 - p),
    planted={"twice": lambda G, p: 2 * G * p * (1 - p), "no G": lambda G, p: p * (1 - p)},
)
def mean_grpo_expected(statement):
    """Sum the group's mass s (G - s) / G over its binomial law, and let the relative error fall with 1/G."""

    def error(step, p):
        size = int(1 / step + mpf("0.5"))
        exact = expectation((p, 1 - p), size, lambda counts: Fraction(counts[0] * counts[1], size))
        return number(statement(G=size, p=p) / exact - 1)

    points = [{"p": Fraction(1, 2)}, {"p": Fraction(1, 10)}]
    yield from vanishes(error, points, order=1, steps=("0.1", "0.05", "0.025"), method="enumerated")
