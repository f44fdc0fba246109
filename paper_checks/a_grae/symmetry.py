"""Section 3, Eqs. 4 and 5, Section 4.4 and Appendices B.1 and B.2: the symmetry of a group's advantages."""

from fractions import Fraction

import sympy
from mpmath import mp, mpf

from paper_checks.a_grae.advantage import (
    GROUPS,
    MIXED,
    action_weights,
    binary_group,
    drawn_with,
    grae,
)
from paper_checks.claim import Amended, claim
from paper_checks.evidence import equals, grid, number, satisfies
from paper_checks.exact import POLICIES, compositions, score_gradient, softmax

# A two-token language: responses of one or two tokens, their rewards, and the logits of either token by position.
RESPONSES = ((0,), (1, 0), (1, 1))
REWARDS = (Fraction(1), Fraction(0), Fraction(0))
OLD_LOGITS = (mpf("0.3"), mpf("-0.2"))
CLIP = mpf("0.2")


def same(left, right):
    """Compare two 50-digit numbers, up to rounding."""
    return abs(left - right) < mpf("1e-40")


def imbalance(G, s):
    """Sum of |A| over the correct rollouts less that over the others, group by group."""
    advantages = grae(binary_group(G, s))
    return sum(map(abs, advantages[:s])) - sum(map(abs, advantages[s:]))


def derived_imbalance(G, s):
    """The same with the standard deviation left as a symbol, which cancels."""
    size, correct, spread = sympy.symbols("G s sigma", positive=True)
    mean = correct / size
    positive, negative = correct * (1 - mean) / spread, (size - correct) * mean / spread
    return sympy.expand(positive - negative).subs({size: G, correct: s})


@claim(
    "a-grae:eq-5",
    where="Section 3, Eq. 5; Appendix B.2, Eqs. 17-22",
    says="The absolute advantages of a group's correct rollouts sum to the same as those of its incorrect ones.",
    formula=r"\sum_{i \in \mathcal{G}_{pos}} |A_i| = \sum_{i \in \mathcal{G}_{neg}} |A_i|",
    refuted_by="a group of binary rewards whose two sums differ",
    reading="Binary rewards; a group of equal rewards gets advantage 0, as Section 4.1 says. On the reading that the "
    "symmetry extends to any verifiable reward it would fail: see a-grae:app-b2-sign.",
    statement=lambda G, s: 0,
    planted={
        "positive-dominant": lambda G, s: 9 * mp.sqrt(mpf(s) * (G - s)),
        "an excess at unequal counts": lambda G, s: G - 2 * s,
    },
)
def symmetry(statement):
    """Sum both sides in every group, in symbols, and in groups drawn by the simulator and standardised by simlab."""

    def drawn_imbalance(G, s):
        return drawn_with(G, s, "grpo", lambda advantages: advantages.sum(axis=1))

    yield from equals(
        statement,
        GROUPS,
        derived=derived_imbalance,
        enumerated=imbalance,
        sampled=drawn_imbalance,
        sampled_points=[{"G": 8, "s": 1}, {"G": 8, "s": 5}],
    )


@claim(
    "a-grae:eq-19",
    where="Appendix B.2, Eq. 19; Section 3, the zero-sum property C = 0",
    says="The advantages of a group sum to zero.",
    formula=r"\sum_{i=1}^{G} A_i = 0",
    refuted_by="a group whose advantages do not sum to zero",
    reading="Rewards on any scale, population or sample standard deviation. The sum is over rollouts: over the *set* "
    "of distinct responses, which is how Theorem 1 writes C, it fails as soon as one is drawn twice.",
    identity=True,
    statement=lambda total, rewards, ddof: abs(total) < mpf("1e-40"),
    planted={"unless two rewards": lambda total, rewards, ddof: abs(total) > mpf("1e-40") or len(set(rewards)) == 2},
)
def zero_sum(statement):
    """Sum the advantages of all groups of up to five rewards from a graded scale."""
    scale = (Fraction(0), Fraction(1, 10), Fraction(9, 10), Fraction(1))
    groups = [
        tuple(reward for reward, count in zip(scale, counts, strict=True) for _ in range(count))
        for size in (2, 3, 5)
        for counts in compositions(size, len(scale))
    ]
    yield from satisfies(
        statement,
        grid(rewards=groups, ddof=[0, 1]),
        lambda rewards, ddof: mp.fsum(grae(rewards, ddof)),
    )


def well_signed(rewards, correct):
    """Test that exactly the correct rollouts have positive advantages."""
    return all((value > 0) == right for value, right in zip(grae(rewards), correct, strict=True))


def outcome_groups(G):
    """Each mixed group as counts of (correct, formatted), (correct, unformatted), (incorrect, formatted), (neither)."""
    return [counts for counts in compositions(G, 4) if 0 < counts[0] + counts[1] < G]


@claim(
    "a-grae:app-b2-sign",
    where="Appendix B.2, the step from Eq. 21 to Eq. 22; Appendix C.2, reward of the multimodal experiments",
    says="In a mixed group correct rollouts are rewarded above the mean and incorrect ones below it, also with the "
    "reward 0.1 accuracy + 0.9 format of the multimodal experiments (G = 5).",
    formula=r"r = 0.1 \cdot \text{acc} + 0.9 \cdot \text{format}",
    refuted_by="a mixed group of five with a correct rollout whose advantage is not positive, or the reverse",
    reading="The weights as printed, under which a well-formed wrong answer (0.9) beats an ill-formed right one "
    "(0.1), so that the two sums of Eq. 5 run over the wrong rollouts. A slip: the public code has 0.9 for accuracy "
    "and 0.1 for format (commit c5aa316), and so amended the step holds for every group of five. On the reading that "
    "all rollouts are well-formed the print would hold. Two places of the paper are put together: it does not say it.",
    inferred=True,
    statement=(Fraction(1, 10), Fraction(9, 10)),
    slip=Amended("r = 0.9 acc + 0.1 format", (Fraction(9, 10), Fraction(1, 10))),
    planted={"equal weights": (Fraction(1, 2), Fraction(1, 2))},
)
def sign_of_correctness(statement):
    """Go through all groups of five by correctness and format and look at the signs of their advantages."""
    accuracy, form = statement

    def signs(counts):
        kinds = ((True, True), (True, False), (False, True), (False, False))
        rollouts = [kind for kind, count in zip(kinds, counts, strict=True) for _ in range(count)]
        rewards = tuple(accuracy * right + form * formatted for right, formatted in rollouts)
        return well_signed(rewards, [right for right, _ in rollouts])

    yield from satisfies(lambda signed, counts: signed, grid(counts=outcome_groups(5)), signs)


@claim(
    "a-grae:app-b2-magnitude",
    where="Appendix B.2, last sentence; Section 1",
    says="The magnitude of the policy update due to the correct rollouts equals that due to the incorrect ones.",
    refuted_by="a group whose correct and incorrect rollouts have other total absolute advantages",
    reading="Magnitude as Section 3 measures it, by absolute advantages. Beside it, the L1 length of either part of a "
    "softmax's policy gradient.",
    caveat="The two parts of the gradient differ in length.",
    statement=lambda lengths, measure, **_: same(*lengths) if measure == "absolute advantages" else None,
    planted={
        "the correct part is longer": lambda lengths, **_: lengths[0] > lengths[1],
        "of the gradient too": lambda lengths, **_: same(*lengths),
    },
)
def update_magnitude(statement):
    """Split the gradient of every mixed group into its two parts and compare their lengths, and their weights."""

    def lengths(measure, policy, correct, counts):
        values = action_weights(counts, correct)
        split = [[value * (right == side) for value, right in zip(values, correct, strict=True)] for side in (1, 0)]
        if measure == "gradient":
            split = [score_gradient([number(p) for p in policy], weights) for weights in split]
        return tuple(mp.fsum(map(abs, vector)) for vector in split)

    points = [
        {"measure": measure, "policy": policy, "correct": correct, "counts": counts}
        for measure in ("absolute advantages", "gradient")
        for policy, correct in POLICIES[:3]
        for counts in compositions(3, len(policy))
        if 0 < sum(count for count, right in zip(counts, correct, strict=True) if right) < 3
    ]
    yield from satisfies(statement, points, lengths, names=("length of the correct part", "of the wrong part"))


def objective(shift, clip=mp.inf):
    """Eq. 1 without the KL term (unclipped, Eq. 15), the first logit ``shift`` above that of the sampling policy."""
    total = mpf(0)
    new, old = softmax((OLD_LOGITS[0] + shift, OLD_LOGITS[1])), softmax(OLD_LOGITS)
    for response, advantage in zip(RESPONSES, grae(REWARDS), strict=True):
        for token in response:
            ratio = new[token] / old[token]
            clipped = min(max(ratio, 1 - clip), 1 + clip)
            total += min(ratio * advantage, clipped * advantage) / len(response)
    return total / len(RESPONSES)


def reweighted(shift, power=1, by_length=True):
    """Eq. 4: the gradient of log-likelihoods weighed with ratio times advantage, for the first logit."""
    total = mpf(0)
    new, old = softmax((OLD_LOGITS[0] + shift, OLD_LOGITS[1])), softmax(OLD_LOGITS)
    for response, advantage in zip(RESPONSES, grae(REWARDS), strict=True):
        for token in response:
            score = (token == 0) - new[0]
            total += (new[token] / old[token]) ** power * advantage * score / (len(response) if by_length else 1)
    return total / len(RESPONSES)


@claim(
    "a-grae:eq-4",
    where="Section 3, Eq. 4; Appendix B.1, Eqs. 14-16",
    says="The gradient of GRPO's objective is that of supervised fine-tuning with each token weighed by ratio times "
    "advantage.",
    formula=r"\nabla J = E \frac1G \sum_i \frac{1}{|o_i|} \sum_t \rho_{i,t} A_{i,t} \nabla \log \pi(o_{i,t})",
    refuted_by="a policy at which the derivative of Eq. 15 differs from Eq. 4",
    reading="The objective of Eq. 15: Appendix B.1, to which Section 3 refers, leaves out the KL term and the clip.",
    caveat="For Eq. 1, with its clip, it holds where every ratio lies inside of the clip range. In training a batch of "
    "1,024 is taken in four mini-batches of 256, and the clip can act from the second on.",
    statement=reweighted,
    planted={
        "with the clip of Eq. 1": lambda shift: mp.diff(lambda value: objective(value, CLIP), shift),
        "without the ratio": lambda shift: reweighted(shift, power=0),
        "without 1/|o|": lambda shift: reweighted(shift, by_length=False),
    },
)
def weighted_imitation(statement):
    """Differentiate Eq. 15 numerically for a two-token language with responses of two lengths."""
    yield from equals(
        statement,
        grid(shift=[mpf(1), mpf(-1), mpf(0), mpf("0.1"), mpf("-0.2")]),
        derived=lambda shift: mp.diff(objective, shift),
        tolerance=mpf("1e-15"),
    )


def centred(rewards):
    """Dr. GRPO: rewards less their mean."""
    mean = Fraction(sum(rewards), len(rewards))
    return tuple(number(reward - mean) for reward in rewards)


ADVANTAGES = {"grpo": grae, "dapo": grae, "dr_grpo": centred}


@claim(
    "a-grae:sec-4.4-group",
    where="Section 4.4",
    says="The symmetry of advantages within a group also holds for Dr. GRPO and DAPO.",
    refuted_by="a group whose advantages under either do not sum to the same on both sides",
    reading="Advantages only; DAPO's are GRPO's, its dynamic sampling only drops groups without advantages. On the "
    "reading that it is the update's weights that are symmetric it holds under a condition: "
    "a-grae:sec-4.4-token-weights.",
    statement=lambda sums, **_: same(*sums),
    planted={"only at p = 1/2": lambda sums, method, G, s: same(*sums) == (2 * s == G)},
)
def variants_are_symmetric(statement):
    """Sum both sides in every mixed group for each method."""

    def sums(method, G, s):
        advantages = ADVANTAGES[method](binary_group(G, s))
        return sum(map(abs, advantages[:s])), sum(map(abs, advantages[s:]))

    yield from satisfies(statement, [{"method": name} | point for name in ADVANTAGES for point in MIXED], sums)


@claim(
    "a-grae:sec-4.4-token-weights",
    where="Section 4.4 with Section 3 ('the weights of policy updates'); Appendix A on token-level losses",
    says="The weights of the update are symmetric under Dr. GRPO and DAPO too.",
    refuted_by="a group in which the absolute weights of the tokens of correct and incorrect rollouts sum differently",
    reading="A rollout's weight is that of its tokens together: A under GRPO's 1/|o|, proportional to |o| A where "
    "tokens are averaged over the batch (DAPO) or not divided by length (Dr. GRPO). On the reading that a weight is an "
    "advantage it would hold: a-grae:sec-4.4-group.",
    inferred=True,
    met="unknown: the paper prints no lengths by correctness.",
    statement=lambda sums, **_: same(*sums),
    condition=Amended(
        "correct and incorrect rollouts are equally long on average",
        lambda sums, method, lengths: same(*sums) if lengths[0] == lengths[1] else None,
    ),
    planted={"correct rollouts weigh more": lambda sums, **_: sums[0] > sums[1]},
)
def variants_weigh_tokens(statement):
    """Sum the absolute weights of all tokens in a group of three, one correct, for three pairs of mean lengths."""

    def sums(method, lengths):
        advantages = ADVANTAGES[method](binary_group(3, 1))
        long = [lengths[0], lengths[1], lengths[1]]
        weight = [1] * 3 if method == "grpo" else long
        totals = [abs(value) * size for value, size in zip(advantages, weight, strict=True)]
        return totals[0], totals[1] + totals[2]

    yield from satisfies(
        statement,
        grid(method=list(ADVANTAGES), lengths=[(2, 1), (2, 3), (2, 2)]),
        sums,
        names=("weight of the correct rollout's tokens", "of the wrong ones'"),
    )


@claim(
    "a-grae:sec-4.4-sample",
    where="Section 4.4 with Theorem 2",
    says="The symmetry between difficulties p and 1 - p, with its peak at p = 1/2, also holds for Dr. GRPO and DAPO.",
    refuted_by="p at which the sum of |A| differs from that at 1 - p, or exceeds that at p = 1/2",
    reading="The sum of absolute advantages as in Theorem 2; Dr. GRPO's is 2 G p (1 - p). DAPO's filter changes "
    "nothing at 0 < p < 1.",
    statement=lambda sums, **_: same(sums[0], sums[1]) and (sums[0] <= sums[2] or same(sums[0], sums[2])),
    planted={"hard prompts weigh more": lambda sums, method, G, s: sums[0] > sums[1] or 2 * s >= G},
)
def variants_prefer_medium(statement):
    """Compare the sums of |A| at s, at G - s and at G / 2 correct rollouts."""

    def sums(method, G, s):
        return tuple(sum(map(abs, ADVANTAGES[method](binary_group(G, count)))) for count in (s, G - s, G // 2))

    yield from satisfies(statement, [{"method": name} | point for name in ADVANTAGES for point in MIXED], sums)


EPS = Fraction(1, 5)


def clipped_weight(A, ratio):
    """rho A where the clipped surrogate min(rho A, clip(rho) A) has a slope in rho, else 0."""
    step = Fraction(1, 10**6)

    def surrogate(rho):
        return min(rho * A, min(max(rho, 1 - EPS), 1 + EPS) * A)

    return ratio * (surrogate(ratio + step) - surrogate(ratio)) / step


@claim(
    "a-grae:sec-3-rho",
    where="Section 3, below Eq. 4",
    says="With the clip operation rho is relatively stable, so that the advantage dominates a token's weight.",
    refuted_by="a token with a gradient whose ratio is above 1 + eps",
    reading="Stable: no weight rho A exceeds (1 + eps) |A|, eps = .2. The clip stops positive advantages above 1 + eps "
    "and negative ones below 1 - eps; a token of negative advantage that has become likelier keeps its whole ratio. On "
    "the reading that ratios stay near 1 by themselves, it is an observation.",
    met="partly: the batch of 1,024 prompts is learnt in minibatches of 256, and ratios are not printed",
    statement=lambda weight, A, ratio: abs(weight) <= (1 + EPS) * abs(A),
    condition=Amended(
        "the advantage is positive", lambda weight, A, ratio: abs(weight) <= (1 + EPS) * abs(A) if A > 0 else None
    ),
    planted={"never above A": lambda weight, A, ratio: abs(weight) <= abs(A)},
)
def stable_ratio(statement):
    """The slope of the clipped surrogate, by a difference quotient inside its linear pieces."""
    ratios = [Fraction(n, 10) for n in (1, 5, 9, 10, 11, 13, 20, 100)]
    yield from satisfies(statement, grid(A=[Fraction(2), Fraction(-1, 2)], ratio=ratios), clipped_weight)
