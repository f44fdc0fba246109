"""Observation 1 and Section 3: what positive and negative updates do on average over the sampled token.

A candidate v is sampled with probability p_v and its rollout succeeds with probability r_v.
"""

from fractions import Fraction as F

from mpmath import mp, mpf

from paper_checks.casp.candidates import RANKED, average, mass_change, penalty, score
from paper_checks.claim import Amended, claim
from paper_checks.evidence import equals, grid, number, satisfies
from paper_checks.exact import expectation, stepped


def rates(size):
    """Success rates of that many candidates: all alike, rank 1 best, and rank 1 worst."""
    return [
        (F(1, 2),) * size,
        tuple(F(size - v, size + 1) for v in range(size)),
        tuple(F(v + 1, size + 2) for v in range(size)),
    ]


POINTS = [{"p": p, "r": r} for alike in range(3) for p in RANKED for r in [rates(len(p))[alike]]]


def alike(r):
    """Whether all candidates succeed equally often."""
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

    found = [received(v) for v in range(size)]
    return tuple(share / sum(found) for share in found)


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
    "step. Reinforcement in proportion to p_v is what E[e_y - p] = 0 cancels exactly: the sampled token's one-hot "
    "and the -p terms of all samples balance. For one sample on which rank 1 was drawn it would hold "
    "(casp:figure-4-positive-rank-1), and where rank 1 succeeds more often than average.",
    statement=lambda change, p, r: gap(change) > 0,
    correction=Amended(
        "the expected logit change is p_v (r_v - mean r): none where all candidates succeed equally often, and the gap "
        "follows the success rates, not the ranks",
        lambda change, p, r: change == covariance_change(p, r) and (gap(change) == 0 if alike(r) else True),
    ),
    planted={"narrows": lambda change, p, r: gap(change) < 0},
)
def positive_gap(statement):
    """Sum over the sampled token and its outcome, exactly."""
    yield from satisfies(statement, POINTS, lambda p, r: expected_change(p, r, score))


@claim(
    "casp:observation-1-finite-step",
    where="Section 3.1, after Observation 1",
    says="Over a step of finite size too, positive updates on equally good candidates raise the rank-1 probability on "
    "average.",
    refuted_by="a policy at which the expected exact rank-1 probability after the step is not above p_1",
    reading="'Driving the next-token distribution toward over-concentration', with step 1/10 and 1 and all candidates "
    "correct: the second order decides, with two candidates step^2 2 (p_1 p_2)^2 (1 - 2 p_1). A single run may still "
    "wander to a corner by noise, but not to rank 1 on average. With parameters shared between states, or Adam, "
    "other orders enter: not tested.",
    statement=lambda change, p, step: change > 0,
    correction=Amended(
        "with two candidates the expected rank-1 probability falls",
        lambda change, p, step: change < 0 if len(p) == 2 else None,
    ),
    planted={"stays": lambda change, p, step: change == 0},
)
def finite_step(statement):
    """Sum over the sampled token of the exact softmax after the step."""
    yield from satisfies(
        statement,
        grid(p=RANKED, step=[F(1, 10), 1]),
        lambda p, step: sum(number(q) * stepped(p, score(p, y), step)[0] for y, q in enumerate(p)) - number(p[0]),
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
)
def both_signs(statement):
    """The exact expected change by successes alone and by failures alone."""
    yield from satisfies(statement, POINTS, lambda p, r: (expected_change(p, r, score), expected_change(p, r, penalty)))


@claim(
    "casp:section-3.3-psr-nsr",
    where="Section 3.3; Figure 3",
    says="Training on positive samples only concentrates more than training on negative samples only.",
    refuted_by="a policy and success rates at which the expected first-order rise of p_1 by PSR is not larger",
    reading="PSR weighs successes 1, NSR failures -1, at equal rate of learning; the paper explains Figure 3 by "
    "Observation 1 and Lemma 2. In expectation the two are one update: they differ by E[grad log pi] = 0. So these "
    "two facts cannot explain a difference; noise, repeated steps on one batch and shared parameters may.",
    statement=lambda pair, p, r: pair[0][0] > pair[1][0],
    correction=Amended(
        "to first order both expect the same change, that of dz_v = p_v (r_v - mean r)",
        lambda pair, p, r: pair[0] == pair[1] == covariance_change(p, r),
    ),
    planted={"less": lambda pair, p, r: pair[0][0] < pair[1][0]},
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
