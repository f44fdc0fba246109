"""Proposition 3, Appendix B.2 and the paper's measures of concentration: their values and their use."""

import itertools
from fractions import Fraction as F

import numpy as np
import sympy
from mpmath import mp, mpf

from paper_checks.casp.candidates import RANKED
from paper_checks.claim import COSMETIC, Amended, claim
from paper_checks.evidence import equals, grid, number, satisfies, vanishes
from paper_checks.exact import entropy, expectation
from paper_checks.simulated import drawn, estimate


def distinct(p, K):
    """Proposition 3's formula."""
    return sum(1 - (1 - q) ** K for q in p)


def distinct_by_recursion(p, K):
    """The expected number of new tokens, sample after sample: sum over k of sum p (1 - p)^k."""
    return sum(q * (1 - q) ** k for k in range(K) for q in p)


def sampled_distinct(p, K):
    """Distinct tokens in groups that the simulator draws."""
    groups = drawn(p, K)
    return estimate(np.sum([np.any(groups == v, axis=1) for v in range(len(p))], axis=0).astype(float))


@claim(
    "casp:prop-3",
    where="Section 3.2, Proposition 3; Appendix B.2, Eqs. 21-24",
    says="Among K samples the expected number of distinct tokens is the sum over tokens of 1 - (1 - p_v)^K.",
    formula=r"\mathbb{E}[|\{\tilde y_1,\ldots,\tilde y_K\}|]=\sum_{v}\left(1-(1-p_v)^K\right)",
    refuted_by="a policy and K at which the mean over all groups differs",
    reading="K independent samples from one state, as stated.",
    statement=distinct,
    planted={"p^K": lambda p, K: sum(1 - q**K for q in p), "K - 1": lambda p, K: distinct(p, K - 1)},
)
def distinct_tokens(statement):
    """Enumerate all groups, derive by the next sample being new, and draw."""
    p = sympy.symbols("p")
    yield from equals(
        statement,
        grid(p=RANKED[:5], K=[1, 2, 3, 6]),
        derived=distinct_by_recursion,
        enumerated=lambda p, K: expectation(p, K, lambda counts: sum(count > 0 for count in counts)),
        symbolic_points=[{"p": (p, 1 - p), "K": K} for K in range(1, 6)],
        sampled=sampled_distinct,
        sampled_points=[{"p": RANKED[4], "K": 6}],
    )


def concentrated(step, size):
    """A policy of ``size`` candidates whose rank 1 holds 1 - step."""
    return [1 - step] + [step / (size - 1)] * (size - 1)


@claim(
    "casp:prop-3-limit",
    where="Section 3.2, Proposition 3; Appendix B.2, Eq. 25",
    says="As the rank-1 probability goes to 1, the expected number of distinct tokens goes to 1 for any fixed K.",
    refuted_by="a K at which the number minus 1 does not vanish with 1 - p_1",
    reading="K fixed before the limit, as stated. It is not uniform in K: for fixed p_1 < 1 the number grows to the "
    "size of the support (casp:abstract-budget).",
    statement=mpf(1),
    planted={"2": mpf(2)},
)
def distinct_limit(statement):
    """The exact number along policies that concentrate."""
    yield from vanishes(
        lambda step, size, K: distinct(concentrated(step, size), K) - statement,
        grid(size=[2, 5], K=[2, 16, 256]),
        order=0.9,
        steps=("1e-6", "1e-8", "1e-10", "1e-12"),
    )


@claim(
    "casp:eq-25",
    where="Appendix B.2, Eq. 25",
    says="The tokens below rank 1 contribute at most K (1 - p_1) to the expected number of distinct tokens.",
    formula=r"\sum_{v\neq v^{(1)}}\left(1-(1-p_v)^K\right)\le K(1-p_{v^{(1)}})",
    refuted_by="a policy and K at which they contribute more",
    reading="As printed.",
    statement=lambda share, p, K: share <= K * (1 - p[0]),
    planted={"without K": lambda share, p, K: share <= 1 - p[0]},
)
def union_bound(statement):
    """The exact contribution, from the enumerated groups."""
    yield from satisfies(
        statement,
        grid(p=RANKED[:5], K=[1, 2, 3, 6]),
        lambda p, K: expectation(p, K, lambda counts: sum(count > 0 for count in counts[1:])),
    )


@claim(
    "casp:abstract-budget",
    where="Abstract; Section 6",
    says="A policy that is concentrated on rank 1 gives one distinct token at any sampling budget K that is used.",
    refuted_by="a policy whose rank 1 holds .99 or more and a K at which 1.5 or more distinct tokens are expected",
    reading="The paper says that the number 'collapses to one regardless of the sampling budget K', as probability "
    "concentrates: for each fixed K in the limit, which holds (casp:prop-3-limit). Ours is the sentence for a policy "
    "that is concentrated and all budgets: at p_1 = .99 the paper's K = 1024 finds every candidate of .004 or more.",
    inferred=True,
    statement=lambda expected, rest, K: expected < F(3, 2),
    condition=Amended(
        "K is small beside 1 / (1 - p_1): K (1 - p_1) <= 1/2",
        lambda expected, rest, K: expected < F(3, 2) if K * rest <= F(1, 2) else None,
    ),
    planted={"two": lambda expected, rest, K: expected >= 2},
    met="no: GRPO's pass@K still rises from K = 512 to 1024 in Table 7",
)
def any_budget(statement):
    """Expected distinct tokens with 1 - p_1 shared by ten candidates."""
    yield from satisfies(
        statement,
        grid(rest=[F(1, 100), F(1, 1000)], K=[8, 32, 256, 1024]),
        lambda rest, K: distinct([1 - rest] + [rest / 10] * 10, K),
    )


def distinct_responses(step, states, concentrating, K):
    """Expected distinct responses of ``states`` tokens; at the first ``concentrating`` states rank 1 holds 1 - step."""
    policies = [(1 - step, step) if t < concentrating else (mpf(1) / 2, mpf(1) / 2) for t in range(states)]
    return distinct([mp.fprod(response) for response in itertools.product(*policies)], K)


@claim(
    "casp:abstract-responses",
    where="Abstract; Section 3.2",
    says="As probability concentrates on the rank-1 candidate, the expected number of distinct responses goes to 1.",
    refuted_by="a policy over responses at which a state concentrates and the number does not go to 1",
    reading="'We formally show'; Proposition 3 counts next tokens at one state, the abstract responses. A state that "
    "concentrates leaves the diversity of every other state. On the reading that all states concentrate, it would "
    "hold, by the proposition on responses, for fixed K and length.",
    statement=lambda states, concentrating: mpf(1),
    condition=Amended(
        "every state concentrates (fixed K and length)",
        lambda states, concentrating: mpf(1) if concentrating == states else None,
    ),
    planted={"2": lambda states, concentrating: mpf(2)},
    met="unknown: concentration is shown averaged over states; Appendix G has positions with several candidates",
)
def responses(statement):
    """All responses enumerated, along policies that concentrate."""

    def error(step, states, concentrating):
        stated = statement(states, concentrating)
        return None if stated is None else distinct_responses(step, states, concentrating, 8) - stated

    yield from vanishes(
        error,
        grid(lambda states, concentrating: concentrating <= states, states=[1, 2, 4], concentrating=[1, 2, 4]),
        order=0.9,
        method="enumerated",
    )


def mean_log(policies, rank):
    """Eq. 2 over states visited equally often: the mean log-probability of a rank."""
    return mp.fsum(mp.log(number(p[rank])) for p in policies) / len(policies)


@claim(
    "casp:eq-2-sample",
    where="Section 3.3, Eq. 2 and Figure 3",
    says="Of any two policies the one whose sampled tokens' mean log-probability is closer to rank 1's draws rank 1 "
    "more often.",
    refuted_by="two policies of which the one with the smaller gap draws rank 1 less often",
    reading="The paper says it of one run: 'gradually moves toward Lambda(1), indicating that sampled tokens "
    "increasingly coincide with the rank-1 candidate'. The gap in expectation is H + log p_1. A flat policy has no gap "
    "either, while the sampled token is rank 1 once in V. On the reading that Lambda(1) itself rises, as in Figure 3, "
    "it would hold: one state's exp(Lambda(1)) is that very share.",
    inferred=True,
    statement=lambda pairs, one, other: pairs[0][1] > pairs[1][1] if pairs[0][0] < pairs[1][0] else None,
    condition=Amended(
        "Lambda(1) rises while the gap closes",
        lambda pairs, one, other: (
            pairs[0][1] > pairs[1][1] if pairs[0][0] < pairs[1][0] and one[0] > other[0] else None
        ),
    ),
    planted={"the other way": lambda pairs, one, other: pairs[0][0] > pairs[1][0]},
    severity=COSMETIC,
    met="yes: Appendix D.1 says that Lambda(1) of GRPO rises to nearly 0",
)
def sample_gap(statement):
    """The gap E[log p_1 - log p_y] and the share of rank 1, for pairs of policies."""

    def measured(p):
        return entropy(p) + mp.log(number(p[0])), number(p[0])

    yield from satisfies(
        statement,
        grid(one=[(F(1, 2), F(1, 2)), (F(99, 100), F(1, 100))], other=[(F(9, 10), F(1, 10)), RANKED[0]]),
        lambda one, other: (measured(one), measured(other)),
        names=("gap and share of rank 1 in one", "in the other"),
    )


MIXTURES = [
    (RANKED[0],),
    (RANKED[3], RANKED[1]),
    ((F(99, 100), F(1, 200), F(1, 200)), (F(999, 1000), F(1, 2000), F(1, 2000))),
    ((1 - F(1, 10**6), F(1, 2 * 10**6), F(1, 2 * 10**6)), (F(1, 2), F(49, 100), F(1, 100))),
]


@claim(
    "casp:app-d-1-top-1",
    where="Appendix D.1",
    says="Lambda(1) of nearly 0 indicates that nearly all probability mass lies on rank 1.",
    refuted_by="states over which the mean of 1 - p_1 exceeds -Lambda(1)",
    reading="Nearly all: on average at most -Lambda(1) lies below. A mean of logs need not speak for a mean of "
    "probabilities; here convexity is on the paper's side.",
    statement=lambda pair, policies: pair[1] <= -pair[0],
    planted={"half of it": lambda pair, policies: pair[1] <= -pair[0] / 2},
)
def rank_one_log(statement):
    """Both averages over mixtures of states."""
    yield from satisfies(
        statement,
        grid(policies=MIXTURES),
        lambda policies: (mean_log(policies, 0), sum(number(1 - p[0]) for p in policies) / len(policies)),
    )


@claim(
    "casp:figure-4-c",
    where="Section 4.3; Figure 4(c)",
    says="Two distributions of equal entropy can differ sharply in their rank-1 probability.",
    refuted_by="the stated pair having different entropies or equal rank-1 probabilities",
    reading="The figure's numbers are not in the text; a pair of 2 bits each is given here.",
    statement=((F(1, 4),) * 4, (F(1, 2), *[F(1, 8)] * 4)),
    planted={"unequal entropies": ((F(1, 4),) * 4, (F(1, 2), F(1, 2))), "one rank 1": ((F(1, 4),) * 4, (F(1, 4),) * 4)},
)
def equal_entropies(statement):
    """The entropies and the rank-1 probabilities of the pair."""
    left, right = statement
    yield from satisfies(
        lambda gaps, pair: gaps[0] < mpf("1e-40") and gaps[1] >= F(1, 4),
        [{"pair": statement}],
        lambda pair: (abs(entropy(left) - entropy(right)), abs(left[0] - right[0])),
    )


BEFORE, AFTER = RANKED[1], RANKED[3]  # rank 1 goes from 1/2 to 9/10


def solved(p, correct, K):
    """pass@K, the chance that a correct token is among K samples, every group enumerated."""
    return expectation(p, K, lambda counts: int(any(counts[v] for v in correct)))


def changes(wrong, K):
    """The change of the expected number of distinct tokens and of pass@K; rank 2 is correct on a share of prompts.

    On the rest rank 1 is correct. The policy is the same on all prompts.
    """
    right, rare = (solved(AFTER, correct, K) - solved(BEFORE, correct, K) for correct in ((0,), (1,)))
    return distinct(AFTER, K) - distinct(BEFORE, K), (1 - wrong) * right + wrong * rare


def changes_by_mass(wrong, K):
    """The same by new samples and by the correct mass Q: pass@K is 1 - (1 - Q)^K."""
    right, rare = ((1 - BEFORE[v]) ** K - (1 - AFTER[v]) ** K for v in (0, 1))
    return distinct_by_recursion(AFTER, K) - distinct_by_recursion(BEFORE, K), (1 - wrong) * right + wrong * rare


@claim(
    "casp:section-1-explains",
    where="Section 1, before the desideratum, with Proposition 3",
    says="The concentration on rank 1 that Proposition 3 describes explains the fall of pass@K.",
    refuted_by="a policy that concentrates, so that fewer distinct tokens are expected, and whose pass@K does not fall",
    reading="'This pattern matches the Proposition 3 and directly explains the pass@K degradation.' The proposition "
    "counts distinct tokens and does not ask which of them are correct. Rank 1 goes from 1/2 to 9/10 of three "
    "candidates. Where it is correct, pass@K rises at every K while diversity falls. Where it is wrong on some "
    "prompts, pass@1 can rise on average and pass@K fall at large K, as the paper observes.",
    statement=lambda change, wrong, K: change[1] < 0 if change[0] < 0 else None,
    condition=Amended(
        "rank 1 is wrong on some prompts (a fifth), and K is large (8)",
        lambda change, wrong, K: change[1] < 0 if change[0] < 0 and wrong >= F(1, 5) and K >= 8 else None,
    ),
    met="unknown: where rank 1 is wrong is not reported; GRPO's pass@K is below the base model's on two of three "
    "models, by 0.3 and 4.3 points",
    planted={
        "explains a rise": lambda change, wrong, K: change[1] > 0,
        "at every K above 1": lambda change, wrong, K: change[1] < 0 if wrong >= F(1, 5) and K > 1 else None,
        "whatever is correct": lambda change, wrong, K: change[1] < 0 if K >= 8 else None,
    },
)
def pass_at_k_and_diversity(statement):
    """Both changes over all groups, and by the correct mass."""
    yield from satisfies(
        statement,
        grid(wrong=[F(0), F(1, 5), F(1, 2), F(1)], K=[1, 2, 8, 16]),
        changes,
        derived=changes_by_mass,
        names=("change of distinct tokens", "of pass@K"),
    )


def long_tailed(first, second, tail):
    """Ranks 1 and 2, and the rest in equal parts of ``tail``."""
    return (first, second, *[tail] * int((1 - first - second) / tail))


LONG_TAILED = [
    long_tailed(F(9, 10), F(1, 20), F(1, 100)),
    long_tailed(F(3, 5), F(1, 5), F(1, 25)),
    long_tailed(F(1, 2) + F(1, 100), F(1, 25), F(1, 100)),
    long_tailed(F(3, 10), F(1, 10), F(1, 25)),
    long_tailed(F(1, 10), F(1, 20), F(1, 100)),
]


@claim(
    "casp:app-d-2-rank-3",
    where="Appendix D.2; Figure 9",
    says="That rank 3 is below .05 shows by itself that the leading candidates hold most of the probability mass.",
    refuted_by="a policy whose rank 3 is below .05 and whose top 3 hold half of the mass or less",
    reading="'By itself' is ours: the paper concludes from the 'sharp decay from rank-1 to rank-3', with rank 1 in "
    "high bins, and there the top 3 do hold most, which follows from rank 1 whatever rank 3 is. A small rank 3 says "
    "that every other candidate is smaller still, not that they are few: with .3, .1 and fifteen of .04 the top 3 hold "
    ".44.",
    inferred=True,
    severity=COSMETIC,
    statement=lambda leading, p: leading > F(1, 2) if p[2] < F(1, 20) else None,
    condition=Amended("rank 1 holds more than half", lambda leading, p: leading > F(1, 2) if p[0] > F(1, 2) else None),
    met="partly: Figure 9 is said to show rank 1 in high bins for all models; of the tokens at which CaSP acts nothing "
    "is reported",
    planted={
        "nine tenths, if rank 1 holds half": lambda leading, p: leading > F(9, 10) if p[0] > F(1, 2) else None,
        "never": lambda leading, p: leading <= F(1, 2),
    },
    caveat="Five per cent of all tokens can be a quarter of the high-entropy fifth at which CaSP acts.",
)
def leading_mass(statement):
    """Add up the top 3 of policies with tails."""
    yield from satisfies(statement, grid(p=LONG_TAILED), lambda p: sum(p[:3]))
