"""Rewards of more than two levels, and rewards in parts: what one step does in expectation."""

from fractions import Fraction

from mpmath import mp, mpf, sqrt

from paper_checks.claim import claim
from paper_checks.evidence import equals, grid, satisfies
from paper_checks.exact import binomial, groups, score_gradient


def less_mean(rewards):
    """Dr. GRPO."""
    mean = sum(rewards) / len(rewards)
    return [r - mean for r in rewards]


def over_std(rewards):
    """GRPO without eps; 0 where all rewards are equal."""
    centred = less_mean(rewards)
    spread = sqrt(sum(mpf(c.numerator) ** 2 / c.denominator**2 for c in map(Fraction, centred)) / len(rewards))
    return [mpf(Fraction(c).numerator) / Fraction(c).denominator / spread if spread else mpf(0) for c in centred]


def over_mean(rewards):
    """MaxRL; 0 where the mean is 0."""
    mean = sum(rewards) / len(rewards)
    return [c / mean if mean else 0 for c in less_mean(rewards)]


def best_alone(rewards):
    """The largest reward of the group to each rollout that has it, the second largest taken off: pass@G's weight."""
    first, second = sorted(rewards, reverse=True)[:2] if len(rewards) > 1 else (rewards[0], 0)
    return [first - second if r == first else 0 for r in rewards]


SHAPES = {"less_mean": less_mean, "over_std": over_std, "over_mean": over_mean, "best_alone": best_alone}


def listed(counts, values):
    """The values of a group's rollouts, action after action."""
    return [value for value, count in zip(values, counts, strict=True) for _ in range(count)]


def step(policy, rewards, G, weight):
    """E[dz] / eta of a weight of rewards, from all groups."""
    total = [0] * len(policy)
    for chance, counts in groups(policy, G):
        advantages = dict(zip(listed(counts, range(len(policy))), weight(listed(counts, rewards)), strict=True))
        coefficients = [advantages.get(action, 0) * count for action, count in enumerate(counts)]
        update = score_gradient(policy, coefficients)
        total = [t + chance * u / G for t, u in zip(total, update, strict=True)]
    return tuple(total)


def shaped(policy, rewards, G, weight, level):
    """The expected advantage of a rollout of this reward beside G - 1 others."""
    return sum(chance * weight([level, *listed(counts, rewards)])[0] for chance, counts in groups(policy, G - 1))


def climbing(shape):
    """The gradient of the mean of a shaped reward, held fixed: p_a (f_a - mean of f)."""

    def stated(policy, rewards, G, weight):
        values = [shape(policy, rewards, G, SHAPES[weight], level) for level in rewards]
        mean = sum(p * value for p, value in zip(policy, values, strict=True))
        return tuple(p * (value - mean) for p, value in zip(policy, values, strict=True))

    return stated


HALF, THIRD = Fraction(1, 2), Fraction(1, 3)
LEVELS = (
    {"policy": (HALF, HALF), "rewards": (Fraction(1), Fraction(0))},
    {"policy": (Fraction(1, 6), THIRD, HALF), "rewards": (Fraction(1), HALF, Fraction(0))},
    {"policy": (Fraction(1, 10), Fraction(3, 10), Fraction(1, 5), Fraction(2, 5)),
     "rewards": (Fraction(2), Fraction(1, 4), Fraction(1), Fraction(0))},
)  # fmt: skip
POINTS = [point | rest for point in LEVELS for rest in grid(G=(2, 3, 4), weight=tuple(SHAPES))]


@claim(
    "simlab:graded-update",
    where="Beyond the papers, question 1",
    says="With rewards of any levels, the expected step of a weight f(r_i, the others' rewards) that ignores their "
    "order climbs the mean of a shaped reward, fbar(r) = E f(r, others), held fixed: sum over levels of fbar(l) "
    "grad P_l.",
    formula=r"\mathbb{E}[\Delta\theta] = \eta \sum_l \bar f(l)\, \nabla_\theta P_l, \qquad \bar f(l) = "
    r"\mathbb{E}\, f(l, r_2, \ldots, r_G)",
    refuted_by="a policy, rewards and a weight whose step, averaged over all groups, is another",
    reading="At one prompt, on policy, G rollouts drawn i.i.d. With two levels the sum is (fbar(1) - fbar(0)) grad Q, "
    "simlab:normal-form with its one direction; with L levels there are L - 1, and the weight chooses among them. "
    "Thrampoulidis et al. (2510.23049) go between weights and surrogate rewards where rewards are binary.",
    statement=climbing(shaped),
    planted={
        "the reward itself": climbing(lambda policy, rewards, G, weight, level: level),
        "the group of G others": climbing(
            lambda policy, rewards, G, weight, level: shaped(policy, rewards, G + 1, weight, level)
        ),
    },
)
def graded_update(statement):
    """All groups of four weights, at two, three and four levels."""
    yield from equals(statement, POINTS, enumerated=lambda weight, **point: step(**point, weight=SHAPES[weight]))


def sine(first, second):
    """The sine of the angle between two steps."""
    product = sum(a * b for a, b in zip(first, second, strict=True))
    squares = [sum(mpf(1) * a * a for a in values) for values in (first, second)]
    return sqrt(max(mpf(0), 1 - mpf(1) * product * product / squares[0] / squares[1]))


def angle(policy, rewards, G, weight):
    """The sine of the angle between a weight's step and the gradient of the mean reward."""
    mean = sum(p * r for p, r in zip(policy, rewards, strict=True))
    gradient = tuple(p * (r - mean) for p, r in zip(policy, rewards, strict=True))
    return sine([mpf(Fraction(x).numerator) / Fraction(x).denominator if isinstance(x, int | Fraction) else x
                 for x in step(policy, rewards, G, SHAPES[weight])],
                [mpf(x.numerator) / x.denominator for x in gradient])  # fmt: skip


@claim(
    "simlab:graded-directions",
    where="Beyond the papers, question 1",
    says="That all weights share one direction at one prompt needs two levels of reward: at the prompts tried of three "
    "and four levels Dr. GRPO climbs the mean reward, and GRPO, MaxRL and the best-of-group weight leave its direction "
    "from groups of three on.",
    refuted_by="a prompt of two levels where a weight leaves the direction of the mean reward, or one of these where "
    "GRPO, MaxRL or the best-of-group weight keep it",
    reading="One prompt of each number of levels, four weights. The sine of the angle in logits; at two levels and for "
    "Dr. GRPO it is 0. In groups of two GRPO's std is half the difference, so that it pays the sign of the difference: "
    "another direction too. So what is said here of sign, speed and clock (simlab:expected-update, "
    "simlab:sign-axis-in-expectation, simlab:interference-speed and what follows from them) is of two levels, or of "
    "the total mapped to two.",
    statement=lambda value, rewards, weight, **_: (
        value < mp.mpf("1e-20") if len(rewards) == 2 or weight == "less_mean" else value > mp.mpf("1e-3")
    ),
    planted={"one direction for all": lambda value, **_: value < mp.mpf("1e-20")},
)
def graded_directions(statement):
    """The angle of each weight's enumerated step, in groups of 3 and 4."""
    yield from satisfies(statement, [point for point in POINTS if point["G"] > 2], angle)


# Two parts of 0 and 1: the actions are (correct, formatted), (correct, not), (wrong, formatted), (wrong, not).
PARTS = ((1, 1, 0, 0), (1, 0, 1, 0))


def joint(correct, formatted):
    """The policy of independent parts."""
    return tuple(c * f for c in (correct, 1 - correct) for f in (formatted, 1 - formatted))


def of_parts(correct, formatted, G):
    """GDPO before it is normalised over the batch, a constant of the batch: GRPO of each part, summed."""
    policy, steps = joint(correct, formatted), []
    for component in PARTS:
        steps.append(step(policy, tuple(map(Fraction, component)), G, over_std))
    return tuple(sum(values) for values in zip(*steps, strict=True))


def own_speeds(speed):
    """Each part's gradient at the speed of its own rate."""

    def stated(correct, formatted, G):
        policy, total = joint(correct, formatted), [mpf(0)] * 4
        for component, rate in zip(PARTS, (correct, formatted), strict=True):
            slopes = [p * (value - rate) for p, value in zip(policy, component, strict=True)]
            total = [t + speed(rate, G) * s.numerator / s.denominator for t, s in zip(total, slopes, strict=True)]
        return tuple(total)

    return stated


def grpo_speed(rate, G):
    """E[c(j)] of GRPO: a correct beside j has sqrt((G - s) / s), s = j + 1, a wrong one -sqrt(s / (G - s)), s = j."""
    return sum(
        (sqrt(mpf(G - j - 1) / (j + 1)) + (sqrt(mpf(j) / (G - j)))) * chance.numerator / chance.denominator
        for j, chance in enumerate(binomial(G - 1, rate))
    )


RATES = grid(correct=(Fraction(1, 20), Fraction(3, 10)), formatted=(HALF, Fraction(49, 50)), G=(2, 4))


@claim(
    "simlab:gdpo-speeds",
    where="Beyond the papers, question 1",
    says="GDPO gives each part of a reward the speed that GRPO has at that part's own solve rate, while Dr. GRPO of "
    "the sum gives all parts one speed: the two agree in direction where the parts' rates are equal or mirror one "
    "another.",
    formula=r"\mathbb{E}[\Delta\theta] \propto \sum_k w_k\, \kappa_{\mathrm{GRPO}}(Q_k)\, \nabla_\theta Q_k",
    refuted_by="two parts whose step is another sum of their gradients",
    reading="Parts of 0 and 1, GDPO (2601.05242) before its normalisation over the batch, which has one factor for "
    "all. GRPO's speed is least at a rate of 1/2 and rises to sqrt(G - 1) where nearly all or none are right.",
    statement=own_speeds(grpo_speed),
    planted={"one speed for all parts": own_speeds(lambda rate, G: mpf(1))},
)
def gdpo_speeds(statement):
    """All groups, two independent parts."""
    yield from equals(statement, RATES, enumerated=of_parts)


def gains(correct, formatted, G):
    """The first-order gain in the rate of correct answers by a step of length 1, of GDPO less that of the sum."""
    policy = joint(correct, formatted)
    total = tuple(Fraction(a + b) for a, b in zip(*PARTS, strict=True))
    slopes = [p * (value - correct) for p, value in zip(policy, PARTS[0], strict=True)]

    def gain(update):
        values = [mpf(u.numerator) / u.denominator if isinstance(u, Fraction) else mpf(u) for u in update]
        length = sqrt(sum(value**2 for value in values))
        return sum(v * s.numerator / s.denominator for v, s in zip(values, slopes, strict=True)) / length

    return gain(of_parts(correct, formatted, G)) - gain(step(policy, total, G, less_mean))


@claim(
    "simlab:gdpo-or-sum",
    where="Beyond the papers, question 1",
    says="Neither GDPO nor the sum is better for the rare part: in groups of 4, beside a format that half of the "
    "answers have, a step of GDPO adds more to a correct rate of .05 than one as long of Dr. GRPO on the sum; beside "
    "a format that .98 have it adds less to a correct rate of .3.",
    refuted_by="the other order at one of these two prompts",
    reading="To first order at one prompt of independent parts with equal weights. GDPO speeds up whatever is rarest "
    "or most certain: a rare correct answer as well as a format that is nearly learned.",
    statement=lambda value, correct, formatted, G: (
        None
        if G == 2 or (correct < Fraction(1, 10)) != (formatted == HALF)
        else value > 0
        if formatted == HALF
        else value < 0
    ),
    planted={"GDPO always": lambda value, **_: value > 0},
)
def gdpo_or_sum(statement):
    """Enumerated steps at both prompts."""
    yield from satisfies(statement, RATES, gains)
