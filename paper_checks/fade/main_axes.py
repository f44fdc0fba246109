"""Sections 1 and 2: the sign, difficulty and scale axes, and the same axes in an expected update."""

from fractions import Fraction

from mpmath import mp, mpf

import simlab
from paper_checks.claim import Amended, claim
from paper_checks.evidence import equals, grid, satisfies
from paper_checks.exact import mass
from paper_checks.fade.main_gradients import (
    POINTS,
    WEIGHTS,
    conditional_score,
    derived_update,
    expected_update,
    group_update,
    wrong,
)
from paper_checks.fade.masses_centred import mean_grpo, skew_r
from paper_checks.fade.masses_common import ratio, rollouts
from paper_checks.simulated import estimate, simulated_step

RATES = [Fraction(n, 40) for n in range(1, 40)]
HALF = Fraction(1, 2)


def weights_of(weight):
    """Solve rate -> w_S and w_F, of a weight by name or of AsymGRPO by its delta."""
    return WEIGHTS[weight] if isinstance(weight, str) else lambda p: (1 - p, p / weight)


def mass_of(weight, p):
    """The larger of the two masses of a weight."""
    success, failure = weights_of(weight)(p)
    return max(success * p, failure * (1 - p))


def at_rate(p):
    """Two correct and two wrong actions, shared 3 to 1 within their outcome, of solve rate p."""
    return (p * Fraction(3, 4), p / 4, (1 - p) * Fraction(3, 4), (1 - p) / 4)


HALVES = (True, True, False, False)


def update_size(weight, p):
    """The squared length of the expected update, at fixed chances within either outcome."""
    return sum(entry**2 for entry in expected_update(at_rate(p), HALVES, 1, lambda _: weights_of(weight)(p)))


def peak(values):
    """The solve rate at which a list over ``RATES`` is largest."""
    return RATES[max(range(len(RATES)), key=lambda index: values[index])]


@claim(
    "fade:sign-axis",
    where="Section 1, Sign Axis; Section 2.1, Equations 2 and 3; abstract ('two orthogonal axes')",
    says="Moving weight from successes to failures, the sum w_S + w_F kept, changes the update: the sign axis is one "
    "of its own.",
    formula=r"m_S\nabla_S - m_F\nabla_F,\quad m_S = m_F\ \mathrm{or}\ m_S\ne m_F",
    refuted_by="two weights of different sign balance and equal sum that have the same update",
    reading="What 'orthogonal axes' implies. Of a finite group (Equation 3, Figure 2's 'batch level') it is true; of "
    "the policy gradient (Equation 2, an expectation at one prompt) it is not. There p grad_S = - q grad_F, because "
    "the mean score is 0, so that the gradient is (w_S + w_F) grad p whatever the sign balance (Davis and Recht, arXiv "
    "2510.13651; simlab:sign-axis-in-expectation).",
    met="yes: training uses finite groups; but in expectation at one prompt the sign axis is no axis of its own",
    caveat="In a finite group only. In expectation at one prompt, REINFORCE, NSR and mean GRPO have the same update.",
    inferred=True,
    statement=lambda change, **_: change > 0,
    condition=Amended(
        "the update of one finite group, of other frequencies than the policy's: in expectation it stays the same",
        lambda change, update, **_: change > 0 if update == "of a group" else None,
    ),
    planted={"in no group": lambda change, **_: change == 0},
)
def sign_axis(statement):
    """The squared distance of the updates of weights of different sign and equal sum: in expectation, and a group's."""

    def moved(policy, correct, moved_weight, update, expected):
        route = expected if update == "expected" else of_a_group
        base = route(policy, correct, Fraction(1), Fraction(0))
        other = route(policy, correct, 1 - moved_weight, moved_weight)
        return sum((x - y) ** 2 for x, y in zip(base, other, strict=True))

    def enumerated(policy, correct, success, failure):
        return expected_update(policy, correct, 2, lambda p: (success, failure))

    def of_a_group(policy, correct, success, failure):
        return group_update(policy, correct, [1] * len(policy), success, failure)

    shares = [Fraction(1, 2), Fraction(1)]
    points = [
        point | {"moved_weight": share, "update": update}
        for update in ("expected", "of a group")
        for point in POINTS[:3]
        for share in shares
    ]
    yield from satisfies(
        statement,
        points,
        lambda **point: moved(**point, expected=enumerated),
        derived=lambda **point: moved(**point, expected=derived_update),
    )


@claim(
    "fade:difficulty-axis",
    where="Section 1, Difficulty Axis; Section 2.2; Figure 2",
    says="A weight learns most from the prompts at whose solve rate its mass peaks.",
    refuted_by="a weight whose mass and whose expected update peak at different solve rates",
    reading="The expected update's length is measured at fixed chances within the outcomes, so that only p varies; the "
    "mass is the larger of the two. On the reading that the mass is a definition of focus and says nothing of the "
    "update there is nothing to refute: REINFORCE then 'focuses' on p = 1, where its update is 0.",
    inferred=True,
    met="partly: Power-alpha, GRPO and MaxRL are sign-balanced; AsymGRPO and FADE with delta < 1 are not",
    statement=lambda peaks, **_: peaks[0] == peaks[1],
    condition=Amended(
        "the weight is sign-balanced; REINFORCE's mass p peaks at 1, its update, the same as mean GRPO's, at 1/2",
        lambda peaks, weight: peaks[0] == peaks[1] if weight in {"mean GRPO", "Power-2"} else None,
    ),
    planted={"away from the peak": lambda peaks, weight: peaks[0] != peaks[1]},
)
def difficulty_axis(statement):
    """Find both peaks on a grid of solve rates for five weights."""

    def peaks(weight):
        return peak([mass_of(weight, p) for p in RATES]), peak([update_size(weight, p) for p in RATES])

    yield from satisfies(
        statement,
        grid(weight=["mean GRPO", "Power-2", "REINFORCE", "NSR"]),
        peaks,
        names=("solve rate of the largest mass", "of the largest update"),
    )


@claim(
    "fade:sec-2-2-medium",
    where="Section 2.2, below Equation 6",
    says="Mean GRPO focuses on medium difficulty: its update is proportional to p (1 - p), largest at 1/2.",
    formula=r"\arg\max_p p(1-p) = 1/2",
    refuted_by="solve rates between which the expected update does not scale as p (1 - p)",
    reading="The squared length of the expected update of a tabular softmax at fixed chances within either outcome, "
    "where grad_S - grad_F does not depend on p.",
    caveat="At one prompt REINFORCE has the same expected update, and so the same focus.",
    statement=lambda p: (p * (1 - p)) ** 2 * 16,
    planted={"Power-2's": lambda p: (p * (1 - p) ** 2) ** 2 * 64},
)
def medium_focus(statement):
    """The squared length relative to that at 1/2, by enumeration and by sympy."""

    def derived(p):
        size = {
            rate: sum(entry**2 for entry in derived_update(at_rate(rate), HALVES, 1 - rate, rate))
            for rate in (p, Fraction(1, 2))
        }
        return size[p] / size[Fraction(1, 2)]

    yield from equals(
        statement,
        [{"p": Fraction(1, 2)}, {"p": Fraction(1, 4)}, {"p": Fraction(9, 10)}],
        derived=derived,
        enumerated=lambda p: update_size("mean GRPO", p) / update_size("mean GRPO", Fraction(1, 2)),
    )


@claim(
    "fade:sec-2-2-variance",
    where="Section 2.2, below Equation 6",
    says="Mean GRPO's mass is the estimated variance of the rewards.",
    formula=r"m_S = m_F = \bar p(1-\bar p) = \widehat{\mathrm{Var}}(r)",
    refuted_by="a group whose reward variance is not its mass",
    reading="The variance of the group as a population. With the unbiased sample variance, G/(G-1) of it, the opposite "
    "verdict would be right.",
    identity=True,
    statement=lambda s, G: (Fraction(s, G) * (1 - Fraction(s, G)),) * 2,
    planted={"the sample variance": lambda s, G: (Fraction(s * (G - s), G * (G - 1)),) * 2},
)
def reward_variance(statement):
    """The mean squared deviation of the rewards, and the mass that simlab measures."""

    def enumerated(s, G):
        mean = Fraction(s, G)
        deviations = [(reward - mean) ** 2 for reward in [1] * s + [0] * (G - s)]
        return sum(deviations, start=Fraction(0)) / G, mpf(simlab.theory.masses("dr_grpo", G).success[s])

    yield from equals(
        statement,
        grid(lambda s, G: 0 < s < G, G=[2, 3, 8], s=range(8)),
        enumerated=enumerated,
        tolerance=mpf("1e-12"),
    )


@claim(
    "fade:scale-axis",
    where="Section 1, Scale Axis; Appendix 11.3",
    says="The scale of a weight implicitly rescales the learning rate.",
    refuted_by="an optimiser under which weights of twice the scale move the logits otherwise than twice the rate does",
    reading="The same weights times a constant against the learning rate times it. The paper does not name its "
    "optimiser; with Adam, usual for language models, no step depends on the scale at all.",
    met="unknown: the optimiser is not named",
    statement=lambda moves, optimizer: abs(moves[0] - moves[1]) < 1e-30,
    condition=Amended(
        "plain gradient steps; under Adam the scale cancels",
        lambda moves, optimizer: abs(moves[0] - moves[1]) < 1e-30 if optimizer == "plain steps" else None,
    ),
    planted={"it never does": lambda moves, optimizer: abs(moves[0] - moves[1]) > 1e-6},
)
def scale_axis(statement):
    """Three steps with gradients twice as large, against three at twice the learning rate."""
    gradients = [mpf(1), mpf(-2), mpf(3)]

    def moves(optimizer):
        take = {"plain steps": plain_steps, "Adam": adam_steps}[optimizer]
        return take([2 * gradient for gradient in gradients], mpf("0.01")), take(gradients, mpf("0.02"))

    yield from satisfies(
        statement,
        grid(optimizer=["plain steps", "Adam"]),
        moves,
        method="numerical",
        names=("move with gradients twice as large", "at twice the rate"),
    )


def plain_steps(gradients, rate):
    """The move of one logit by plain gradient steps."""
    return rate * mp.fsum(gradients)


def adam_steps(gradients, rate):
    """Bias-corrected Adam's move of one logit, at eps 0."""
    b1, b2 = mpf("0.9"), mpf("0.999")
    first, second, moved = mpf(0), mpf(0), mpf(0)
    for step, gradient in enumerate(gradients, start=1):
        first = b1 * first + (1 - b1) * gradient
        second = b2 * second + (1 - b2) * gradient**2
        moved += rate * first / (1 - b1**step) / mp.sqrt(second / (1 - b2**step))
    return moved


@claim(
    "fade:intro-skew-r",
    where="Section 1, Skew-R",
    says="Skew-R keeps the mean advantage 0 and puts more of its weight on groups of high reward variance.",
    refuted_by="a group whose advantages do not sum to 0, or two groups whose weights relative to mean GRPO rise "
    "against their variances",
    reading="Relative to mean GRPO, by sqrt(p (1 - p)). Relative to GRPO it is by p (1 - p); the verdict is the same.",
    identity=True,
    statement=lambda values, s, more: values[0] == 0 and values[1] < values[2],
    planted={"low variance": lambda values, s, more: values[0] == 0 and values[1] > values[2]},
)
def high_variance(statement):
    """From the definition std (r - mean), in every pair of mixed groups of eight with unlike variances."""

    def values(s, more):
        first, second = rollouts(Fraction(s, 8), 8), rollouts(Fraction(more, 8), 8)
        total = s * skew_r(1, first) + (8 - s) * skew_r(0, first)
        return total, *(ratio(skew_r(1, group), mean_grpo(1, group)) for group in (first, second))

    points = grid(lambda s, more: s * (8 - s) < more * (8 - more), s=range(1, 8), more=range(1, 8))
    yield from satisfies(statement, points, values)


def asymmetric_update(policy, correct, delta, G):
    """(1 - 1/G) times p q on the mean score of successes less p q / delta on that of failures."""
    p = mass(policy, correct)
    amount = Fraction(G - 1, G) * p * (1 - p)
    scores = zip(conditional_score(policy, correct), conditional_score(policy, wrong(correct)), strict=True)
    return tuple(amount * success - amount / delta * failure for success, failure in scores)


@claim(
    "fade:sec-4-1-asym-update",
    where="Section 4.1, definition of AsymGRPO, in Equation 2",
    says="AsymGRPO keeps mean GRPO's mass on successes and divides that on failures by delta.",
    formula=r"m_S = p(1-p),\quad m_F = p(1-p)/\delta",
    refuted_by="a policy, delta and G at which the expected update is not (G-1)/G of these masses on the mean scores",
    reading="In expectation over groups, where (G-1)/G comes from the estimated solve rate (fade:eq-3-unbiased); in a "
    "group, exactly. As p grad_S = - q grad_F, the update is (q + p / delta) grad p.",
    identity=True,
    statement=asymmetric_update,
    planted={
        "multiplied by delta": lambda policy, correct, delta, G: asymmetric_update(policy, correct, 1 / delta, G),
        "no division": lambda policy, correct, delta, G: asymmetric_update(policy, correct, 1, G),
    },
)
def asymmetric_masses(statement):
    """Differentiate p and scale it by q + p / delta; average over all groups; draw AsymGRPO's updates."""

    def derived(policy, correct, delta, G):
        p = mass(policy, correct)
        pace = Fraction(G - 1, G) * (1 - p + p / delta)
        return tuple(pace * entry for entry in derived_update(policy, correct, 1, 0))

    def sampled(policy, correct, delta, G):
        steps = simulated_step(policy, correct, G, f"asym_grpo(delta={float(delta)})")
        return tuple(estimate(change) for change in steps.logit_change.T)

    points = [
        point | {"delta": delta, "G": size}
        for point in POINTS[:3]
        for delta in (Fraction(1, 2), Fraction(2))
        for size in (2, 4)
    ]
    yield from equals(
        statement,
        points,
        derived=derived,
        enumerated=lambda policy, correct, delta, G: expected_update(policy, correct, G, lambda p: (1 - p, p / delta)),
        sampled=sampled,
        sampled_points=points[5:6],
    )


@claim(
    "fade:asym-as-difficulty",
    where="Section 2.1, Figure 2, caption ('isolate'); Sections 4.1 and 5, the two axes",
    says="AsymGRPO's delta isolates the sign axis: the masses peak at 1/2, as those of mean GRPO do.",
    formula=r"m_S = p(1-p),\quad m_F = p(1-p)/\delta",
    refuted_by="a delta at which either mass peaks at another solve rate",
    reading="Section 1 defines the difficulty axis by the masses. What is learnt from is another measure, tested "
    "beside them: the expected update at one prompt is (q + p / delta) grad p, which peaks above 1/2 for delta < 1 and "
    "below for delta > 1.",
    caveat="Of the masses. The expected update of delta < 1 favours easier prompts than mean GRPO's does.",
    identity=True,
    statement=lambda rate, delta, measure: (
        rate == HALF if measure == "masses" else (rate > HALF if delta < 1 else rate < HALF)
    ),
    planted={
        "the update too": lambda rate, delta, measure: rate == HALF,
        "the other way round": lambda rate, delta, measure: (
            (rate < HALF) == (delta < 1) if measure == "update" else None
        ),
    },
)
def asymmetry_moves_focus(statement):
    """Find the peaks of the masses and of the expected update's length on a grid of solve rates."""
    sizes = {"masses": mass_of, "update": update_size}
    yield from satisfies(
        statement,
        grid(delta=[HALF, Fraction(2), Fraction(3, 10), Fraction(5)], measure=list(sizes)),
        lambda delta, measure: peak([sizes[measure](delta, p) for p in RATES]),
    )
