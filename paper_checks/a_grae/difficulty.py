"""Section 3, Theorem 2, Figure 6 and Appendix B.4; Control Experiment II: how much each difficulty weighs."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import sympy
from mpmath import mp, mpf

from paper_checks.a_grae.advantage import GAMMA, GROUPS, MIXED, action_weights, binary_group, drawn_with, grae
from paper_checks.a_grae.logits import distinct, groups_of, summed
from paper_checks.claim import Amended, claim
from paper_checks.evidence import equals, grid, number, satisfies
from paper_checks.exact import binomial

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
    reading="Population standard deviation, as Eq. 31 has it, and no eps.",
    caveat="With the standard deviation of a sample, as in verl and in the paper's public code, the sum is smaller by "
    "sqrt((G - 1) / G): 0.94 at G = 8, for every prompt alike.",
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
    says="The update magnitude of a prompt reaches its peak at p = 0.5.",
    refuted_by="a group size at which another success rate has a larger sum of |A|",
    reading="Theorem 2's measure, per prompt, at the success rate nearest to 0.5. On the reading that medium prompts "
    "dominate a batch 'irrespective of the training stage' it would depend on how many prompts there are at each p.",
    caveat="Per prompt and in L1: a batch of mostly easy prompts is dominated by easy ones, and in L2 all mixed "
    "groups of different paths weigh the same (a-grae:sec-3-magnitude).",
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
    reading="The sum of |A|. On the reading that each rollout's weight is the same it would fail.",
    caveat="The sums agree, their parts do not: at p = 0.25 few rollouts carry a large positive advantage, at 0.75 "
    "few carry a large negative one.",
    identity=True,
    statement=lambda sums, G, s: abs(sums[0] - sums[1]) < mpf("1e-40"),
    planted={"hard prompts weigh more": lambda sums, G, s: sums[0] > sums[1] or 2 * s >= G},
)
def mirrored(statement):
    """Compare the sums at s and at G - s correct rollouts."""
    yield from satisfies(statement, MIXED, lambda G, s: (magnitude(G, s), magnitude(G, G - s)))


def length(norm, vector):
    """The L1 or L2 length of a vector."""
    return total(vector) if norm == 1 else mp.sqrt(mp.fsum(value**2 for value in vector))


def absolute_advantages(norm, policy, correct, counts, factor):
    """The sum of |A| over the rollouts of a group."""
    return total(grae([correct[action] for action, count in enumerate(counts) for _ in range(count)]))


def in_l1(norm, policy, correct, counts, factor):
    """The sum of |A| for the L1 length; for the L2 length of a mixed group of different paths, sqrt(G)."""
    if norm == 1:
        return absolute_advantages(norm, policy, correct, counts, factor)
    mixed = 0 < sum(count for count, right in zip(counts, correct, strict=True) if right) < sum(counts)
    return mp.sqrt(sum(counts)) if mixed and distinct(counts) else None


@claim(
    "a-grae:sec-3-magnitude",
    where="Section 3, 'the overall learning contribution can be captured by the sum of absolute advantages'",
    says="The sum of |A| is the total magnitude of a prompt's update.",
    refuted_by="a group whose logit update has another length, in L1 or in L2",
    reading="Length of the change of a tabular softmax's logits at eta = 1. In L1 it is exact, because C = 0 and the "
    "rollouts of one path have one sign; under Control Experiment I it is not. In L2 a group of different paths has "
    "the length sqrt(G) at every success rate but 0 and 1, since the squares of its advantages sum to G.",
    caveat="In L2 no difficulty dominates: the length is the same for every mixed group of different paths. Which norm "
    "counts depends on the optimiser and on the shared parameters.",
    met="unknown: the paper names no norm, and trains shared parameters with an optimiser of its own scaling.",
    statement=absolute_advantages,
    condition=Amended(
        "lengths are L1 lengths of logit changes; the L2 length is sqrt(G) for every mixed group of different paths",
        in_l1,
    ),
    planted={
        "half of it": lambda norm, policy, correct, counts, factor: total(action_weights(counts, correct)) / 2,
        "per distinct path": lambda norm, policy, correct, counts, factor: total(
            weight / count for weight, count in zip(action_weights(counts, correct), counts, strict=True) if count
        ),
    },
)
def captured(statement):
    """Both lengths of the logit change of every group of two to four rollouts."""
    yield from equals(
        statement,
        [{"norm": norm} | group for norm in (1, 2) for group in groups_of([2, 3, 4])],
        enumerated=lambda norm, **group: length(norm, summed(**group)),
    )


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
    identity=True,
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
    reading="Suprema over real p: all are G. Among the p that a group can have the hard-focused maximum, at p = 1/G, "
    "is smaller by sqrt(1 - 1/G). On the reading that the largest single |A| is kept it would fail: at p = 1/8 that is "
    "3.74 under hard-focused and 2.65 under GRPO.",
    identity=True,
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
    reading="Relative weight of two mixed groups. On the reading that prompts below p = 1/2 gain weight it would fail.",
    caveat="Relative to one another. In absolute terms the hard-focused factor 0.5/sqrt(p) raises weights only below "
    "p = 1/4 and lowers those of all easier prompts.",
    identity=True,
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


# Eight prompts' probabilities of success as a training shifts all their log-odds upward.
START = tuple(Fraction(n, 9) for n in range(1, 9))
SHIFTS = (0, 1, 2, 3)
OVERFIT_SIZE = 8  # the paper's


def shifted(chance, shift):
    """A probability whose log-odds have grown."""
    odds = number(chance) / (1 - number(chance)) * mp.exp(shift)
    return odds / (1 + odds)


def expected_weight(chance):
    """The mean sum of |A| of a prompt's group of eight, by its probability of success."""
    return mp.fsum(
        number(probability) * magnitude(OVERFIT_SIZE, s) for s, probability in enumerate(binomial(OVERFIT_SIZE, chance))
    )


def easy_sum(shift):
    """The weight that lies on prompts of a success probability above 1/2."""
    return mp.fsum(expected_weight(p) for chance in START if (p := shifted(chance, shift)) > mpf("0.5"))


def easy_share(shift):
    """Their share of the batch's weight."""
    return easy_sum(shift) / mp.fsum(expected_weight(shifted(chance, shift)) for chance in START)


BY_SHARE, BY_SUM = "all simple prompts, by their share", "all simple prompts, by their sum"


def weights_over_training(measure):
    """The weight, as training goes on, of all simple prompts in the batch, or of one prompt that is simple."""
    if measure in (BY_SHARE, BY_SUM):
        return tuple((easy_share if measure == BY_SHARE else easy_sum)(shift) for shift in SHIFTS)
    return tuple(expected_weight(shifted(Fraction(1, 2), shift)) for shift in SHIFTS)


def grows(values):
    """Test that values strictly increase."""
    return all(after > before for before, after in pairwise(values))


@claim(
    "a-grae:sec-3-overfit",
    where="Section 3, after Theorem 2 ('predisposes the model to overfit on trivial data')",
    says="As prompts become simple, GRPO puts ever more weight on them.",
    refuted_by="a stage of training at which simple prompts weigh less than before",
    reading="What the paper says of overfitting is read as weight. Eight prompts of success probabilities 1/9 to 8/9, "
    "whose log-odds all grow by 1, 2 and 3; Theorem 2's sums averaged over groups of eight. Together the simple ones "
    "take a growing share of the batch, because they become more. But the weight of each falls to 0 as it is solved, "
    "by Theorem 2 itself, and the sum of their weights rises from 23.6 to 29.3 and falls to 19.5.",
    inferred=True,
    caveat="Theorem 2 guards each solved prompt against more training; how many prompts are simple is a matter of the "
    "data. Whether a model overfits is not decided here.",
    met="yes: the paper says that the ratio of simple instances increases.",
    statement=lambda values, measure: grows(values),
    condition=Amended(
        "all simple prompts are counted together, by their share of the batch; the weight of each one falls, and in "
        "the end so does their sum",
        lambda values, measure: (
            grows(values)
            if measure == BY_SHARE
            else grows(values[-2:][::-1])
            if measure == BY_SUM
            else grows(values[::-1])
        ),
    ),
    planted={
        "on one solved prompt": lambda values, measure: grows(values) if measure == "one prompt" else None,
        "less, in all": lambda values, measure: grows(values[::-1]),
        "more, also by their sum": lambda values, measure: grows(values) if measure == BY_SUM else None,
    },
)
def overfit(statement):
    """The three weights at four stages of a training, by summing over all groups."""
    yield from satisfies(
        statement, grid(measure=[BY_SHARE, BY_SUM, "one prompt"]), weights_over_training, names="weight at each stage"
    )
