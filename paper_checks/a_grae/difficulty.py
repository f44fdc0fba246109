"""Section 3, Theorem 2, Figure 6 and Appendix B.4; Control Experiment II: how much each difficulty weighs."""

from fractions import Fraction

import numpy as np
import sympy
from mpmath import mp, mpf

from paper_checks.a_grae.advantage import GAMMA, GROUPS, MIXED, action_weights, binary_group, drawn_with, grae
from paper_checks.a_grae.logits import groups_of, summed
from paper_checks.claim import claim
from paper_checks.evidence import equals, grid, number, satisfies

SIZE, RATE = sympy.Symbol("G", positive=True, integer=True), sympy.Symbol("p", positive=True)
SYMBOLIC = {"G": SIZE, "s": RATE * SIZE}
VARIANTS = ("grpo", "hard_focused", "easy_focused")


def focused(variant, G, s, gamma=GAMMA):
    """Advantages of a group under Control Experiment II; groups of equal rewards are not rescaled."""
    advantages, p = grae(binary_group(G, s)), number(Fraction(s, G))
    if variant == "grpo" or s in (0, G):
        return advantages
    weight = number(gamma) / mp.sqrt(p if variant == "hard_focused" else 1 - p)
    return tuple(weight * value for value in advantages)


def total(values):
    """Sum of absolute values."""
    return mp.fsum(map(abs, values))


def magnitude(G, s, variant="grpo"):
    """The sum of |A| over a group, by adding up."""
    return total(focused(variant, G, s))


def derived_magnitude(G, s):
    """The sum of |A|, its mean and spread worked out from sums of s ones and G - s zeros."""
    mean = sympy.Rational(1) * s / G if isinstance(s, int) else s / G
    variance = sympy.factor((s * (1 - mean) ** 2 + (G - s) * mean**2) / G)
    deviations = s * (1 - mean) + (G - s) * mean
    return sympy.Integer(0) if variance == 0 else deviations / sympy.sqrt(variance)


def root(value):
    """Square root of a number or an expression."""
    return sympy.sqrt(sympy.sympify(value))


def theorem_2(G, s):
    """2 G sqrt(p (1 - p))."""
    p = sympy.Rational(s, G) if isinstance(s, int) else s / G
    return 2 * G * root(p * (1 - p))


def drawn_magnitude(G, s, variant="grpo"):
    """The sum of |A| in simlab's standardisation of drawn groups."""
    return drawn_with(G, s, variant, lambda advantages: np.abs(advantages).sum(axis=1))


@claim(
    "a-grae:thm-2",
    where="Section 3, Theorem 2, Eq. 10; Appendix B.4, Eqs. 30-32",
    says="The absolute advantages of a group sum to 2 G sqrt(p (1 - p)), p its success rate.",
    formula=r"\sum_i |A_i| = 2 |G| \sqrt{p (1 - p)}",
    refuted_by="a group of binary rewards with another sum",
    reading="Population standard deviation, as Eq. 17 has it, and no eps. On the reading that it is the sample "
    "deviation, as in verl, with which the authors train, the sum is smaller by sqrt((G - 1) / G), 0.94 at G = 8.",
    statement=theorem_2,
    planted={
        "sample standard deviation": lambda G, s: theorem_2(G, s) * root(1 - sympy.Rational(1) / G),
        "without the root": lambda G, s: 2 * G * theorem_2(G, s) ** 2 / (4 * G**2),
        "without the 2": lambda G, s: theorem_2(G, s) / 2,
    },
)
def update_magnitude(statement):
    """Add up every group, work the sum out in symbols, and draw groups."""
    yield from equals(
        statement,
        GROUPS,
        derived=derived_magnitude,
        enumerated=magnitude,
        symbolic_points=[SYMBOLIC],
        sampled=drawn_magnitude,
        sampled_points=[{"G": 8, "s": 1}, {"G": 8, "s": 4}],
    )


@claim(
    "a-grae:thm-2-peak",
    where="Section 3, after Theorem 2 ('samples of intermediate difficulty (p = 0.5) dominate'); Figures 1 and 6",
    says="No success rate weighs more than the one nearest to p = 0.5.",
    refuted_by="a group size at which another success rate has a larger sum of |A|",
    reading="Per prompt: how many prompts there are at each p is not part of it, and a batch of easy prompts is "
    "dominated by easy ones all the same. On the reading that they dominate a batch 'irrespective of the training "
    "stage' it would depend on that batch.",
    statement=lambda s, G: abs(2 * s - G) <= 1,
    planted={"hard": lambda s, G: s == 1, "easy": lambda s, G: s == G - 1},
)
def medium_dominates(statement):
    """Find the success count of the largest sum for every group size up to 16."""
    yield from satisfies(
        statement, grid(G=range(2, 17)), lambda G: max(range(G + 1), key=lambda s: (round(magnitude(G, s), 30), -s))
    )


@claim(
    "a-grae:fig-6",
    where="Section 3, after Theorem 2; Figure 6",
    says="Simple and hard prompts as far from p = 0.5, such as 0.75 and 0.25, weigh the same.",
    refuted_by="p at which the sum of |A| differs from that at 1 - p",
    reading="The sum of |A|. Its parts are not alike: at p = 0.25 few rollouts carry a large positive advantage, at "
    "0.75 few carry a large negative one. On the reading that each rollout's weight is the same it would fail.",
    statement=lambda sums, G, s: abs(sums[0] - sums[1]) < mpf("1e-40"),
    planted={"hard prompts weigh more": lambda sums, G, s: sums[0] > sums[1] or 2 * s >= G},
)
def mirrored(statement):
    """Compare the sums at s and at G - s correct rollouts."""
    yield from satisfies(statement, MIXED, lambda G, s: (magnitude(G, s), magnitude(G, G - s)))


@claim(
    "a-grae:sec-3-magnitude",
    where="Section 3, 'the overall learning contribution can be captured by the sum of absolute advantages'",
    says="The sum of |A| is the total magnitude of a prompt's update.",
    refuted_by="a group whose logit update has another L1 length",
    reading="L1 length of the change of a tabular softmax's logits at eta = 1. It is exact because C = 0 and the "
    "rollouts of one path have one sign; under Control Experiment I it fails. In L2, or in parameters, it is only a "
    "proxy, and on that reading it would fail.",
    statement=lambda policy, correct, counts, factor: total(
        value for value in grae([correct[action] for action, count in enumerate(counts) for _ in range(count)])
    ),
    planted={
        "half of it": lambda policy, correct, counts, factor: total(action_weights(counts, correct)) / 2,
        "per distinct path": lambda policy, correct, counts, factor: total(
            weight / count for weight, count in zip(action_weights(counts, correct), counts, strict=True) if count
        ),
    },
)
def captured(statement):
    """The L1 length of the logit change of every group of two to four rollouts."""
    yield from equals(statement, groups_of([2, 3, 4]), enumerated=lambda **group: total(summed(**group)))


def table_1b(variant, G, s):
    """The sums printed in Table 1b."""
    p = mpf(s) / G
    return {"grpo": 2 * G * mp.sqrt(p * (1 - p)), "hard_focused": G * mp.sqrt(1 - p), "easy_focused": G * mp.sqrt(p)}[
        variant
    ]


def only_mixed(formula):
    """A formula of a group, silent where all rewards are equal."""
    return lambda variant, G, s: formula(variant, G, s) if 0 < s < G else None


@claim(
    "a-grae:control-2",
    where="Section 4.1, Control Experiment II; Table 1b",
    says="With gamma = 1/2 the absolute advantages sum to G sqrt(1 - p) (hard-focused) and G sqrt(p) (easy-focused).",
    formula=r"|G| \sqrt{1 - p}, \quad |G| \sqrt{p}",
    refuted_by="a group with another sum",
    reading="0 < p < 1, since Section 4.1 rescales nothing elsewhere. On the reading that the table holds for all p it "
    "would fail: at p = 0 the hard-focused formula has its largest value, G, and the hardest prompts get 0.",
    statement=only_mixed(table_1b),
    planted={
        "exchanged": only_mixed(lambda variant, G, s: table_1b(variant, G, G - s)),
        "gamma = 1": only_mixed(lambda variant, G, s: (1 + (variant != "grpo")) * table_1b(variant, G, s)),
    },
)
def focused_sums(statement):
    """Rescale and add up every group, and compare with simlab's variants on drawn groups."""
    yield from equals(
        statement,
        [{"variant": variant} | point for variant in VARIANTS for point in GROUPS],
        enumerated=magnitude,
        sampled=drawn_magnitude,
        sampled_points=[{"variant": variant, "G": 8, "s": s} for variant in VARIANTS for s in (1, 4)],
    )


@claim(
    "a-grae:control-2-gamma",
    where="Section 4.1, gamma",
    says="gamma = 0.5 keeps the theoretical maximum of the sum of |A| what it is under GRPO.",
    formula=r"\gamma = 0.5",
    refuted_by="suprema over p of the sums that differ",
    reading="Suprema over real p, both G. Among the p that a group can have the hard-focused maximum, at p = 1/G, is "
    "smaller by sqrt(1 - 1/G). On the reading that the largest single |A| is kept it would fail: at p = 1/8 that is "
    "3.74 under hard-focused and 2.65 under GRPO.",
    statement=GAMMA,
    planted={"gamma = 1": Fraction(1), "gamma = 1/4": Fraction(1, 4)},
)
def kept_maximum(statement):
    """The limit of the rescaled sum at the end of the range where it grows, beside GRPO's maximum, in symbols."""
    p = sympy.Symbol("p", positive=True)
    grpo = 2 * sympy.sqrt(p * (1 - p))
    peak = grpo.subs(p, sympy.solve(grpo.diff(p), p)[0])
    ends = {"hard_focused": (sympy.sqrt(p), 0, "+"), "easy_focused": (sympy.sqrt(1 - p), 1, "-")}
    yield from equals(
        lambda variant: peak,
        grid(variant=list(ends)),
        derived=lambda variant: sympy.limit(
            sympy.Rational(statement) * grpo / ends[variant][0], p, ends[variant][1], ends[variant][2]
        ),
    )


@claim(
    "a-grae:control-2-focus",
    where="Section 4.1, Control Experiment II",
    says="The hard-focused variant shifts weight toward harder prompts, the easy-focused one toward simpler ones.",
    refuted_by="two prompts of which the harder gains less of the weight than under GRPO, or the reverse",
    reading="Relative weight of two mixed groups. Absolutely, the hard-focused factor 0.5/sqrt(p) raises weights only "
    "below p = 1/4 and is 1 at the paper's own hard prompt, p = 0.25; all easier ones lose. On the reading that "
    "prompts below p = 1/2 gain weight it would fail.",
    statement={"hard_focused": 1, "easy_focused": -1},
    planted={"exchanged": {"hard_focused": -1, "easy_focused": 1}},
)
def shifted_focus(statement):
    """Ratios of the sums of a harder and a simpler group, under the variant and under GRPO."""

    def gain(variant, G, hard, easy):
        return mp.log(
            magnitude(G, hard, variant) / magnitude(G, easy, variant) * magnitude(G, easy) / magnitude(G, hard)
        )

    pairs = grid(
        lambda variant, G, hard, easy: 0 < hard < easy < G,
        variant=list(statement), G=[3, 5, 8], hard=range(1, 7), easy=range(2, 8),
    )  # fmt: skip
    yield from satisfies(lambda value, variant, **_: statement[variant] * value > 0, pairs, gain)
