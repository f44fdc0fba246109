"""Observation 1 and Section 3: positive and negative updates, on average over the sampled token.

A candidate v is sampled with probability p_v and its rollout succeeds with probability r_v.
"""

from fractions import Fraction as F

from mpmath import mp, mpf

from paper_checks.casp.candidates import RANKED, average, mass_change, penalty, score
from paper_checks.claim import CHANGES, Amended, claim
from paper_checks.evidence import equals, grid, number, satisfies
from paper_checks.exact import entropy, expectation, stepped


def rates(size):
    """Success rates of ``size`` candidates: all alike, rank 1 best, and rank 1 worst."""
    return [
        (F(1, 2),) * size,
        tuple(F(size - v, size + 1) for v in range(size)),
        tuple(F(v + 1, size + 2) for v in range(size)),
    ]


POINTS = [{"p": p, "r": r} for alike in range(3) for p in RANKED for r in [rates(len(p))[alike]]]


def alike(r):
    """Test for equal success rates."""
    return len(set(r)) == 1


def outcomes(p, r):
    """The policy over (candidate, outcome): each candidate's success, then each one's failure."""
    return [q * s for q, s in zip(p, r, strict=True)] + [q * (1 - s) for q, s in zip(p, r, strict=True)]


def reinforcement_shares(p, r, G):
    """Each candidate's share of the expected positive GRPO advantages, every group enumerated."""
    size = len(p)

    def received(v):
        def of_group(counts):
            successes = sum(counts[:size])
            return 0 if successes in (0, G) else counts[v] * mp.sqrt(mpf(G - successes) / successes)

        return number(expectation(outcomes(p, r), G, of_group))

    shares = [received(v) for v in range(size)]
    return tuple(share / sum(shares) for share in shares)


@claim(
    "casp:observation-1",
    where="Section 3.1, Observation 1",
    says="Each candidate's expected positive-advantage reinforcement is proportional to its probability p_v.",
    refuted_by="a policy, success rates and a group size at which the shares of the expected positive advantages are "
    "not p_v",
    reading="Reinforcement is the sum of the positive GRPO advantages of the rollouts that sampled v. On the reading "
    "that only the number of times v is sampled is meant, it would hold, but would say nothing of advantages.",
    statement=lambda p, r, G: tuple(p),
    condition=Amended(
        "every candidate's rollouts succeed equally often; in general the share is proportional to p_v r_v",
        lambda p, r, G: tuple(p) if alike(r) else None,
    ),
    planted={"uniform": lambda p, r, G: (F(1, len(p)),) * len(p)},
    met="unknown: the success rates of candidates are not reported",
)
def positive_reinforcement(statement):
    """Enumerate all groups of candidates and outcomes, and derive the share by exchangeability: p_v r_v / mean r."""
    yield from equals(
        statement,
        [{**point, "G": size} for point in POINTS if len(point["p"]) <= 3 for size in (2, 3)],
        derived=lambda p, r, G: tuple(q * s / average(p, r) for q, s in zip(p, r, strict=True)),
        enumerated=reinforcement_shares,
    )


def expected_change(p, r, update):
    """E[first-order change of the probabilities] by one rollout: successes where ``update`` is score, else failures."""
    weights = r if update is score else [1 - s for s in r]
    each = [mass_change(p, update(p, y)) for y in range(len(p))]
    return [sum(p[y] * weights[y] * each[y][v] for y in range(len(p))) for v in range(len(p))]


def covariance_change(p, r):
    """The change of the probabilities along dz_v = p_v (r_v - mean r), the score-function identity's outcome."""
    return mass_change(p, [q * (s - average(p, r)) for q, s in zip(p, r, strict=True)])


def gap(change):
    """Rank 1's entry less rank 2's."""
    return change[0] - change[1]


@claim(
    "casp:observation-1-gap",
    where="Section 3.1, after Observation 1",
    says="Because rank 1 is sampled and reinforced most, positive updates widen its gap to lower ranks.",
    refuted_by="a policy and success rates at which the expected first-order change of p_1 - p_2 is not positive",
    reading="The expected on-policy update of Eq. 3 with weight 1 on successes, tabular softmax, first order in the "
    "step. Being sampled most does not suffice: E[e_y - p] = 0 cancels it exactly, and what is left is dz_v = p_v (r_v "
    "- mean r), which follows the success rates. For one sample on which rank 1 was drawn it would hold "
    "(casp:figure-4-positive-rank-1).",
    statement=lambda change, p, r: gap(change) > 0,
    condition=Amended(
        "rank 1 succeeds more often than every other candidate (with equal rates nothing changes)",
        lambda change, p, r: gap(change) > 0 if r[0] > max(r[1:]) else None,
    ),
    planted={"narrows": lambda change, p, r: gap(change) < 0},
    severity=CHANGES,
    met="unknown: the success rates of candidates are not reported",
    caveat="On average, to first order. Noise can still concentrate a policy (casp:observation-1-finite-step).",
)
def positive_gap(statement):
    """Sum over the sampled token and its outcome, exactly, and derive by the score-function identity."""
    yield from satisfies(
        statement,
        POINTS,
        lambda p, r: expected_change(p, r, score),
        derived=covariance_change,
        names="change of each logit",
    )


@claim(
    "casp:observation-1-finite-step",
    where="Section 3.1, after Observation 1",
    says="Positive updates drive the next-token distribution toward concentration even if candidates are equally good.",
    refuted_by="a policy at which the expected exact entropy after a step is not smaller than before",
    reading="All candidates correct: sampling alone must do it, and to first order it does nothing "
    "(casp:observation-1-gap), so steps 1/10 and 1 are taken and entropy is measured. Noise does concentrate a policy "
    "that is not yet peaked, on whichever candidate was drawn; a peaked one it flattens. If rank-1 probability is "
    "measured, it would fail: with two candidates E[p_1] falls by 2 step^2 (p_1 p_2)^2 (2 p_1 - 1).",
    statement=lambda change, p, step: change < 0,
    condition=Amended(
        "no candidate is dominant: p_1 at most 2/3 (2 to 6 candidates)",
        lambda change, p, step: change < 0 if p[0] <= F(2, 3) else None,
    ),
    planted={"flattens": lambda change, p, step: change > 0},
    inferred=True,
    met="unknown: rank-1 probabilities of single states are not reported",
    caveat="Plain steps of 1/10 and 1, without Adam.",
)
def finite_step(statement):
    """Sum over the sampled token of the entropy of the exact softmax after the step."""
    yield from satisfies(
        statement,
        grid(p=RANKED, step=[F(1, 10), 1]),
        lambda p, step: sum(number(q) * entropy(stepped(p, score(p, y), step)) for y, q in enumerate(p)) - entropy(p),
    )


@claim(
    "casp:section-3-both-signs",
    where="Section 3, opening; Section 3.2",
    says="Both positive and negative on-policy updates push probability mass to the rank-1 candidate.",
    refuted_by="a policy and success rates at which either expected first-order change of p_1 is not positive",
    reading="Expected over the sampled token, as 'on-policy updates naturally push' demands; first order, tabular. Of "
    "single samples it would hold for successes of rank 1 and failures below it, but the other draws, a success "
    "below rank 1 and a failure of rank 1, undo it in proportion.",
    statement=lambda pair, p, r: pair[0][0] > 0 and pair[1][0] > 0,
    condition=Amended(
        "rank 1 succeeds more often than every other candidate (with equal rates both changes are 0)",
        lambda pair, p, r: pair[0][0] > 0 and pair[1][0] > 0 if r[0] > max(r[1:]) else None,
    ),
    planted={"opposite signs": lambda pair, p, r: pair[0][0] > 0 > pair[1][0]},
    met="unknown: the success rates of candidates are not reported",
    same_error_as="casp:observation-1-gap",
)
def both_signs(statement):
    """The exact expected change by successes alone and by failures alone."""
    yield from satisfies(
        statement,
        POINTS,
        lambda p, r: (expected_change(p, r, score), expected_change(p, r, penalty)),
        names=("change of each logit by successes", "by failures"),
    )


@claim(
    "casp:section-3.3-psr-nsr",
    where="Section 3.3; Figure 3",
    says="Observation 1 and Lemma 2 explain why training on positive samples alone concentrates more than training on "
    "negative ones alone: its expected rise of p_1 is the larger.",
    refuted_by="a policy and success rates at which the expected first-order rise of p_1 by PSR is not larger",
    reading="'Matching the amplification predicted by Observation 1', 'consistent with the squeeze effect'. PSR weighs "
    "successes 1, NSR failures -1, at one learning rate. In expectation the two are one update: they differ by E[grad "
    "log pi] = 0. So these two facts predict no difference. That the runs of Figure 3 differ is not in doubt "
    "(casp:figure-3).",
    statement=lambda pair, p, r: pair[0][0] > pair[1][0],
    correction=Amended(
        "to first order both expect the same change, that of dz_v = p_v (r_v - mean r)",
        lambda pair, p, r: pair[0] == pair[1] == covariance_change(p, r),
    ),
    planted={"less": lambda pair, p, r: pair[0][0] < pair[1][0]},
    inferred=True,
    severity=CHANGES,
    same_error_as="casp:observation-1-gap",
    caveat="To first order. Noise, repeated steps on one batch and shared parameters may make the runs differ, "
    "as Figure 3 shows them.",
)
def positive_against_negative(statement):
    """The exact expected changes, from which the difference is taken."""
    yield from both_signs(statement)


def unsampled_rise(p, G, s, successes, failures):
    """The logit change of an unsampled rank 1 by the visitors of a state, advantages r - mean of the whole group."""
    total = successes * F(G - s, G) - failures * F(s, G)
    return -p[0] * total


@claim(
    "casp:lemma-2-in-a-group",
    where="Section 3.1, Lemma 2; against A-GRAE, Theorem 1",
    says="Where the penalised tokens are not rank 1, an unsampled rank 1 rises by a GRPO update.",
    refuted_by="a GRPO group whose update leaves the logit of an unsampled rank 1 where it is, or lowers it",
    reading="Lemma 2 is of one negative sample; A-GRAE's Theorem 1 says that GRPO leaves unsampled logits unchanged. "
    "Both are right: each success among the visitors takes back -p_1 A, and over a whole group the advantages sum to "
    "0. Division by the std changes no sign; length normalisation (1/|y|) weighs visitors and can break the balance. "
    "On the reading that only failures are counted, it would hold.",
    statement=lambda rise, p, G, s, successes, failures: rise > 0,
    condition=Amended(
        "the advantages of the rollouts that visit the state sum to less than 0",
        lambda rise, p, G, s, successes, failures: rise > 0 if successes * F(G - s, G) < failures * F(s, G) else None,
    ),
    planted={"falls": lambda rise, p, G, s, successes, failures: rise < 0},
    inferred=True,
    met="unknown: sums of advantages at single states are not reported",
)
def squeeze_in_a_group(statement):
    """Add up A (e_y - p) over the visitors, none of which sampled rank 1."""
    yield from satisfies(
        statement,
        grid(
            lambda p, G, s, successes, failures: s < G and successes <= s and failures <= G - s,
            p=RANKED[:2],
            G=[2, 3, 4],
            s=[1, 2, 3],
            successes=range(4),
            failures=range(1, 4),
        ),
        group_rise,
        derived=unsampled_rise,
    )


def group_rise(p, G, s, successes, failures):
    """The same change, each visitor's update in turn; all of them sampled rank 2."""
    advantages = [F(G - s, G)] * successes + [F(-s, G)] * failures
    return sum(advantage * score(p, 1)[0] for advantage in advantages)


def one_failure(p, y):
    """The first-order change of the last candidate by F-GRPO's surrogate on the one failure y: dz_j = p_j (R_j - S)."""
    rewards = [-F(int(v == y)) for v in range(len(p))]
    surplus = average(p, rewards)
    return mass_change(p, [q * (reward - surplus) for q, reward in zip(p, rewards, strict=True)])[-1]


def unsampled_correct_change(p, y):
    """F-GRPO's Eq. 10 for that group: S = -p_y, A_2 = 0, B_2 = p_y^2, the last candidate alone being correct."""
    surplus, others = -p[y], sum(q * q for v, q in enumerate(p) if v != y)
    return -surplus * p[-1] ** 2 - p[-1] * ((-1 - surplus) * p[y] ** 2 - surplus * others)


@claim(
    "casp:lemma-2-against-f-grpo",
    where="Section 3.1, Lemma 2, against F-GRPO, Section 3.2 (only rewarded batches push unsampled actions down)",
    says="A failure below rank 1 raises an unsampled correct candidate, as the direct drift of F-GRPO's Eq. 10 does.",
    refuted_by="a policy and a failure by which the unsampled correct candidate loses probability to first order",
    reading="The sentence is ours: Eq. 10's drift is upward for S_R < 0, Lemma 2 has the mass flow to rank 1. Both are "
    "one update, F-GRPO's being p_y times CaSP's, and both raise the logit; the normalisation then decides. CaSP is "
    "right where rank 1 dominates, F-GRPO's drift where it does not. Of logits it would hold always. The correct "
    "candidate is the least likely one.",
    statement=lambda change, p, y: change > 0,
    condition=Amended(
        "it and the failure together are likelier than two samples agree: p_c + p_y > sum p^2",
        lambda change, p, y: change > 0 if p[-1] + p[y] > average(p, p) else None,
    ),
    planted={"squeezed for all": lambda change, p, y: change < 0},
    inferred=True,
    met="unknown: whether rank 1 dominates where failures are drawn is not reported",
)
def failure_and_the_rare(statement):
    """F-GRPO's surrogate through the softmax, and its Eq. 10."""
    points = grid(lambda p, y: y < len(p) - 1, p=RANKED[1:], y=[1, 2, 3])
    yield from satisfies(statement, points, one_failure, derived=unsampled_correct_change)
