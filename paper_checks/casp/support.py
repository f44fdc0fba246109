"""CaSP's positive updates on average: the candidates that gain, and the policy at rest."""

import functools
from fractions import Fraction as F

import numpy as np
from mpmath import mpf

from paper_checks.casp.candidates import RANKED, average, collision, mass_change, one_hot, score
from paper_checks.casp.smoothing import smoothed_score
from paper_checks.claim import COSMETIC, Amended, claim
from paper_checks.evidence import equals, grid, satisfies
from paper_checks.simulated import estimate, simulated_step

ALPHA = F(1, 2)
TOP = grid(lambda p, n: n < len(p), p=RANKED, n=(2, 3))
# A rollout of one token lies at its own quantile: the gate must be opened for it.
OPEN_GATE = f"casp(alpha={float(ALPHA)},candidates=3,quantile=0)"


def sampled_change(p, n):
    """The mean logit change by the simulator's CaSP on one rollout, N = 3, every candidate correct."""
    steps = simulated_step(p, (True,) * len(p), 1, "psr", surrogate=OPEN_GATE)
    return tuple(estimate(steps.logit_change[:, v]) for v in range(len(p)))


def expected(p, direction):
    """The expectation over the sampled token of ``direction(p, y)``."""
    return tuple(average(p, column) for column in zip(*(direction(p, y) for y in range(len(p))), strict=True))


def expected_smoothing(p, n):
    """Eq. 4's direction, expected over the sampled token, every candidate's rollouts succeeding equally often."""
    return expected(p, lambda p, y: smoothed_score(p, y, ALPHA, n))


def plateau_pull(p, n):
    """By E[e_y] = p: alpha (1/N - p_v) in the top N and -alpha p_v below."""
    return tuple(ALPHA * ((F(1, n) if v < n else 0) - q) for v, q in enumerate(p))


def vanilla(p):
    """The same for label smoothing over the whole vocabulary."""
    return expected(p, lambda p, y: smoothed_score(p, y, ALPHA, len(p)))


def top_mass(p, n):
    """M, the probability of the top N."""
    return sum(p[:n])


@claim(
    "casp:figure-4-redistribution",
    where="Section 4.1; Figure 4(a)",
    says="On positive samples the smoothing moves probability from the rank-1 candidate to the rest of the top N.",
    refuted_by="a policy and N at which the expected logit of rank 1 does not fall",
    reading="Expected over the sampled token, candidates alike in success, where the plain update expects no change; "
    "logits. CaSP is applied where entropy is high, and there p_1 < 1/N occurs: rank 1 is then raised, as it is at N "
    "= 1 always. On the reading that the sampled token is rank 1, it would hold for its part of the update; on any "
    "other sampled token the smoothing gives rank 1 alpha/N more than GRPO does.",
    statement=lambda change, p, n: change[0] < 0,
    condition=Amended("rank 1 holds more than 1/N", lambda change, p, n: change[0] < 0 if p[0] > F(1, n) else None),
    planted={"raises rank 1": lambda change, p, n: change[0] > 0},
    met="unknown: CaSP acts where entropy is high, and rank-1 probabilities there are not reported",
)
def redistribution(statement):
    """Sum over the sampled token, and derive from E[e_y] = p."""
    yield from satisfies(statement, TOP, expected_smoothing, derived=plateau_pull, names="change of each logit")


@claim(
    "casp:figure-5-confines",
    where="Section 4.3, Results",
    says="The redistribution is confined to the top N: candidates below gain no probability from it.",
    refuted_by="a policy and N at which a candidate below rank N gains probability in expectation",
    reading="'Top-N redistribution confines exploration to plausible continuations', which of logits is right: below "
    "the top N they fall, by alpha p_v. Of probability it is our sentence: expected first-order change, candidates "
    "alike in success. What a dominant rank 1 releases, the softmax shares out to all "
    "in proportion, so that on peaked policies dead ends gain as well.",
    inferred=True,
    statement=lambda change, p, n: all(entry <= 0 for entry in change[n:]),
    condition=Amended(
        "the policy is not peaked: sum p^2 <= M/N, M the top-N mass",
        lambda change, p, n: all(entry <= 0 for entry in change[n:]) if collision(p) <= top_mass(p, n) / n else None,
    ),
    planted={"rank 1 gains": lambda change, p, n: change[0] > 0},
    met="unknown: the gate favours flat policies, but sum p^2 is not reported",
)
def confined(statement):
    """The exact first-order change of the probabilities; derived: -alpha p_v (p_v + M/N - sum p^2) below the top N."""

    def by_formula(p, n):
        pull = [(F(1, n) if v < n else F(0)) - q for v, q in enumerate(p)]
        return [ALPHA * q * (lift - top_mass(p, n) / n + collision(p)) for q, lift in zip(p, pull, strict=True)]

    yield from satisfies(
        statement,
        TOP,
        lambda p, n: mass_change(p, expected_smoothing(p, n)),
        derived=by_formula,
        names="change of each probability",
    )


@claim(
    "casp:label-smoothing",
    where="Section 4.1, before Eq. 4",
    says="Vanilla label smoothing raises the logits of unlikely candidates, the top-N variant does not.",
    refuted_by="a policy with a candidate below 1/V and below rank N that vanilla smoothing lowers or CaSP raises",
    reading="Expected over the sampled token, candidates alike in success. 'Can allocate probability to irrelevant "
    "candidates' is read as raising the least likely candidate. Of probability see casp:figure-5-confines.",
    statement=lambda pair, p, n: pair[0] > 0 > pair[1],
    planted={"the other way": lambda pair, p, n: pair[1] > 0 > pair[0], "both raise": lambda pair, p, n: min(pair) > 0},
)
def label_smoothing(statement):
    """The expected logit change of the last rank by either."""
    yield from satisfies(statement, TOP, lambda p, n: (vanilla(p)[-1], expected_smoothing(p, n)[-1]))


N, CANDIDATES = 3, 5
SETTLED = 1e-5  # a little more than candidates that go to 0 still hold
# Where training begins: ranks 1 to 3 are the top N, candidates 3 and 4 below them.
START = (F(2, 5), F(1, 4), F(3, 20), F(3, 25), F(2, 25))


@functools.cache
def resting_policy(rates, alpha):
    """(5,) the policy at rest under the expected positive update from ``START``, the top 3 being ranked as it moves.

    Candidate v's rollouts succeed at ``rates[v]``: dz_v = (1 - alpha) p_v r_v + T (alpha / 3 in the top 3 - p_v), T
    the mean rate. Vanishing p_v fall as 1 / (steps times learning rate).
    """
    rate, scores = np.array(rates, dtype=float), np.log(np.array(START, dtype=float))
    for _ in range(60_000):
        p = np.exp(scores - scores.max())
        p /= p.sum()
        total = p @ rate
        top = np.argsort(np.argsort(-p, kind="stable")) < N
        scores += 4 * ((1 - alpha) * p * rate + total * (alpha / N * top - p))
    return tuple(p.tolist())


def rest_of_best(deficit, alpha, best):
    """The lowest of the top 3 over the highest; one succeeds at rate ``best``, the others less often by a ``deficit``.

    The deficit is a part of ``best``, which is the unit of all rates here and drops out. At rest p_v = a T /
    (T - (1 - alpha) r_v), a = alpha / 3 and T the mean rate; the three sum to 1 at the root in T.
    """
    a, keep = alpha / N, 1 - alpha

    def excess(total):
        return a * total / (total - keep) + (N - 1) * a * total / (total - keep * (1 - deficit)) - 1

    low, high = keep, 1.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return (high - keep) / (high - keep * (1 - deficit))


def flatness(deficit, alpha, best):
    """The same from the policy at rest."""
    top = resting_policy((best, best * (1 - deficit), best * (1 - deficit), 0.0, 0.0), alpha)[:N]
    return min(top) / max(top)


@claim(
    "casp:figure-4-plateau",
    where="Section 4.1, end; Figure 4(a)",
    says="At rest every candidate of the top N has at least half of rank 1's probability: gamma+ forms a plateau "
    "rather than a sharp peak.",
    refuted_by="success rates of the top N for which some candidate rests below half of rank 1's probability",
    reading="The paper says 'forming a plateau rather than a sharp peak', of redistributed gradients; at rest, and "
    "half, are ours. Expected positive updates with an open gate, N = 3, among five candidates. The other two succeed "
    "less often than the best by a deficit, a part of its rate: on hard states less of a difference is enough. If they "
    "never succeed, Eq. 4's target is left: .993 and .0033 at alpha .01. On the reading that alpha/N each is plateau "
    "enough, it would hold.",
    inferred=True,
    statement=lambda ratio, deficit, alpha, best: ratio >= 0.5,
    condition=Amended(
        "the success rates of the top N differ, relative to the highest, by less than about two thirds of alpha: "
        "alpha / (3/2 - alpha)",
        lambda ratio, deficit, alpha, best: ratio >= 0.5 if deficit < alpha / (1.5 - alpha) else None,
    ),
    met="unknown: success rates of candidates are not reported; at alpha .01 they must agree to 0.67 per cent",
    planted={
        "a peak": lambda ratio, deficit, alpha, best: ratio < 0.5,
        "up to twice alpha": lambda ratio, deficit, alpha, best: ratio >= 0.5 if deficit < 2 * alpha else None,
        "an absolute difference": lambda ratio, deficit, alpha, best: (
            ratio >= 0.5 if best * deficit < alpha / (1.5 - alpha) else None
        ),
    },
    caveat="What counts as a plateau, a factor of two, is our choice.",
)
def plateau(statement):
    """Ascend along the expected update until it rests, and solve for the rest; at the paper's alpha, solve alone."""
    yield from satisfies(
        statement,
        grid(alpha=[0.05, 0.1], deficit=[0.0, 0.03, 0.06, 0.075, 0.3, 1.0], best=[1.0])
        + grid(alpha=[0.1], deficit=[0.06, 0.075], best=[0.25]),
        flatness,
        method="numerical",
        derived=rest_of_best,
        tolerance=mpf("1e-4"),  # the two candidates below the top 3 still hold 1e-5
    )
    paper = grid(alpha=[0.01], deficit=[0.0, 0.006, 0.0075, 0.3], best=[1.0])
    yield from satisfies(statement, paper, rest_of_best, method="numerical")


ONE_SUCCEEDS = [tuple(float(v == best) for v in range(CANDIDATES)) for best in range(CANDIDATES)]


@claim(
    "casp:eq-4-floor",
    where="Section 4.1, Eq. 4, with Section 3.3 (desideratum)",
    says="Positive updates leave every candidate of the top N a probability of at least alpha/N, even where another "
    "candidate alone is reinforced.",
    refuted_by="a succeeding candidate with which one of the first top N comes to rest below alpha/N",
    reading="The quantitative form of 'preserving non-negligible probability mass on the top-N candidates'. Five "
    "candidates, N = 3, ranked as the policy moves. If the one that succeeds begins below the top 3, it pushes a "
    "candidate out of them, and what is pushed out goes to 0. On the reading that the top N are those at rest, it "
    "would hold. Section 7 says that candidates outside the top N cannot be recovered.",
    statement=lambda rest, rates, alpha: min(rest[:N]) >= alpha / N - SETTLED,
    condition=Amended(
        "what succeeds is among the top N from the start",
        lambda rest, rates, alpha: min(rest[:N]) >= alpha / N - SETTLED if max(rates[:N]) > 0 else None,
    ),
    inferred=True,
    met="unknown: the paper does not report which candidates succeed",
    planted={
        "1/N": lambda rest, rates, alpha: min(rest[:N]) >= 1 / N - SETTLED,
        "twice that": lambda rest, rates, alpha: min(rest[:N]) >= 2 * alpha / N - SETTLED if max(rates[:N]) else None,
        "all candidates": lambda rest, rates, alpha: min(rest) >= alpha / N - SETTLED if max(rates[:N]) else None,
    },
    caveat="The floor is small: alpha/N is .0033 in mathematics, .0017 in logic and .017 in code. Negative updates, "
    "left out here, lower failing candidates further.",
)
def floor(statement):
    """The policy at rest, for each candidate that alone succeeds."""
    yield from satisfies(
        statement,
        grid(rates=ONE_SUCCEEDS, alpha=[0.05, 0.1]),
        resting_policy,
        method="numerical",
        names="policy at rest",
    )


def proportional_shares(p, n):
    """p_v / M in the top N: the distribution itself, cut to them."""
    return [q / top_mass(p, n) if v < n else F(0) for v, q in enumerate(p)]


def proportional_score(p, y, n):
    """Appendix F.3's direction: Eq. 4 with those shares in place of 1/N."""
    shares = proportional_shares(p, n)
    return [(1 - ALPHA) * e + ALPHA * share - q for e, share, q in zip(one_hot(p, y), shares, p, strict=True)]


def proportional_smoothing(p, n):
    """Its expectation over the sampled token."""
    return expected(p, lambda p, y: proportional_score(p, y, n))


@claim(
    "casp:app-f.3",
    where="Appendix F.3, Table 6",
    says="Smoothing in proportion to probability allocates mass among the top N: it is more than the plain update made "
    "smaller by 1 - alpha.",
    refuted_by="a policy, sampled token and N at which the update is 1 - alpha times that of GRPO",
    reading="The 'probability-proportional softmax variant' has shares p_v / M, M the top-N mass. Beyond the smaller "
    "step it does alpha p_v (1/M - 1) in the top N and -alpha p_v below. It raises rank 1 most, and it keeps no "
    "floor. On the reading that a "
    "smaller step already leaves the alternatives more, it would hold everywhere.",
    statement=lambda rest, p, y, n: any(rest),
    condition=Amended(
        "the top N hold less than all of the probability",
        lambda rest, p, y, n: any(rest) if top_mass(p, n) < 1 else None,
    ),
    planted={
        "nothing more": lambda rest, p, y, n: not any(rest),
        "narrows ranks 1 and 2": lambda rest, p, y, n: rest[0] < rest[1],
    },
    inferred=True,
    severity=COSMETIC,
    met="yes: a softmax leaves every candidate some probability",
    caveat="What it adds is next to nothing where the top N hold nearly all of the probability.",
)
def proportional(statement):
    """The direction less 1 - alpha times the score, and the same derived."""
    yield from satisfies(
        statement,
        grid(lambda p, y, n: y < len(p) and n <= len(p), p=RANKED, y=range(5), n=(2, 3)),
        lambda p, y, n: tuple(
            value - (1 - ALPHA) * entry for value, entry in zip(proportional_score(p, y, n), score(p, y), strict=True)
        ),
        derived=lambda p, y, n: tuple(
            ALPHA * q * (1 / top_mass(p, n) - 1) if v < n else -ALPHA * q for v, q in enumerate(p)
        ),
        names="rest in each logit",
    )


@claim(
    "casp:eq-4-expected",
    where="Section 4.1, Eq. 4, with Observation 1",
    says="Where candidates are alike in success, the smoothing pulls the policy to the uniform one over the top N.",
    refuted_by="a policy at which the expected logit change is not alpha (uniform over the top N - policy)",
    reading="What 'smoothing reinforcement across plausible alternatives' comes to in expectation. At candidates that "
    "differ in success alpha weighs against GRPO's own pull (1 - alpha) p_v (r_v - mean r).",
    identity=True,
    statement=plateau_pull,
    planted={
        "the top N alone": lambda p, n: tuple(ALPHA * (F(1, n) - q) if v < n else 0 for v, q in enumerate(p)),
        "in proportion": proportional_smoothing,
    },
    inferred=True,
)
def pull(statement):
    """Sum over the sampled token, and the simulator's own CaSP step."""
    yield from equals(
        statement,
        TOP,
        enumerated=expected_smoothing,
        sampled=sampled_change,
        sampled_points=[{"p": RANKED[5], "n": 3}],
    )
