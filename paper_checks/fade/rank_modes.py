"""Corollary 15.2: failures that come from K modes, and what this does to the rank of the update."""

from fractions import Fraction

import numpy as np

from paper_checks.claim import Amended, claim
from paper_checks.evidence import equals, grid, satisfies, vanishes
from paper_checks.fade.rank_update import leading_share

# Kinds of tokens of a small case: chance, product A v at delta = 1, residual state; exact, in a plane.
SUCCESSES = (
    (Fraction(1, 4), (Fraction(1, 2), Fraction(-1, 2)), (Fraction(1), Fraction(2))),
    (Fraction(1, 8), (Fraction(1), Fraction(-1)), (Fraction(3), Fraction(-1))),
)
FAILURES = (
    (Fraction(1, 2), (Fraction(-1, 3), Fraction(1, 3)), (Fraction(2), Fraction(1))),
    (Fraction(1, 8), (Fraction(-1, 5), Fraction(1, 5)), (Fraction(-1), Fraction(4))),
)


def total(kinds, scale=1):
    """The sum of chance times (A v) h_perp^T, entry by entry."""
    return [sum(scale * chance * left[i] * right[j] for chance, left, right in kinds) for i in (0, 1) for j in (0, 1)]


@claim(
    "fade:cor-15.2-split",
    where="Section 15.1, Corollary 15.2, R = p R_S + (q / delta) R_F",
    says="The residual is p times that of successes plus q / delta times that of failures.",
    formula=r"R=p\,R_S+\frac{q}{\delta}R_F",
    refuted_by="tokens for which E[A v h_perp^T] differs, A being AsymGRPO's",
    reading="R_F is taken with the advantage before its division by delta. With A_i as in R = E[A_i v_i h_perp^T], "
    "which has delta in it, it would be p R_S + q R_F; the corollary does not say which.",
    identity=True,
    statement=lambda p, delta, success, failure: p * success + (1 - p) / delta * failure,
    planted={
        "q delta": lambda p, delta, success, failure: p * success + (1 - p) * delta * failure,
        "p and q exchanged": lambda p, delta, success, failure: (1 - p) * success + p / delta * failure,
    },
)
def split(statement):
    """Exact sums over four kinds of tokens, failures divided by delta."""
    rate = sum(chance for chance, _, _ in SUCCESSES)

    def stated(delta):
        success, failure = total(SUCCESSES, 1 / rate), total(FAILURES, 1 / (1 - rate))
        return tuple(statement(rate, delta, entry, other) for entry, other in zip(success, failure, strict=True))

    def enumerated(delta):
        return tuple(entry + other / delta for entry, other in zip(total(SUCCESSES), total(FAILURES), strict=True))

    yield from equals(stated, grid(delta=[Fraction(1), Fraction(1, 2), Fraction(3)]), enumerated=enumerated)


@claim(
    "fade:cor-15.2-modes",
    where="Section 15.1, Corollary 15.2, the failure residual",
    says="The failure residual is the mean over modes of E[A v | mode] times the mode's mean residual state.",
    formula=r"R_F=\frac1K\sum_k\mathbb{E}[A_iv_i\mid k]\otimes\mu_k",
    refuted_by="two modes in which E[A v h_perp^T] differs from the product of means",
    reading="The corollary has no word on how v and h_perp vary together within a mode. v = e_y - softmax(W h) is a "
    "function of h, so in general they do. On the reading that a mode has one state, it holds.",
    met="no: v is a function of the hidden state within a mode too",
    statement=lambda spread, product: product,
    condition=Amended(
        "within a mode A v and h_perp are uncorrelated", lambda spread, product: None if spread else product
    ),
    planted={"twice": lambda spread, product: None if spread else 2 * product},
)
def modes(statement):
    """Two modes of two tokens each, whose A v and h_perp vary together by ``spread`` about their means."""
    means = ((Fraction(1), Fraction(2)), (Fraction(-1, 2), Fraction(3)))

    def enumerated(spread):
        return sum((left + s) * (right + s) for left, right in means for s in (-spread, spread)) / 4

    def stated(spread):
        return statement(spread, sum(left * right for left, right in means) / 2)

    yield from equals(stated, grid(spread=[Fraction(0), Fraction(1, 2)]), enumerated=enumerated)


def failure_update(count, shared, along=1.0, across=1.0):
    """(1/K) sum of a_k h_k^T: a_k of length 1 with a part along one common direction, h_k = along u + across f_k.

    Args:
        count: K modes, whose f_k are orthogonal to one another and to u.
        shared: length of the common part of a_k; the rest is orthogonal between modes.
        along: alpha, the part of the states along u.
        across: mu, the length of the residual states.
    """
    errors = np.hstack([np.full((count, 1), shared), np.sqrt(1 - shared**2) * np.eye(count)])
    states = np.hstack([np.full((count, 1), along), across * np.eye(count)])
    return errors.T @ states / count


@claim(
    "fade:cor-15.2-norm",
    where="Section 15.1, Corollary 15.2",
    says="With orthogonal mean states of length mu and |E[A v | k]| = c, the squared failure residual is c^2 mu^2 / K.",
    formula=r"\|R_F\|_F^2=c^2\mu^2/K",
    refuted_by="a K at which the squared norm differs",
    reading="Along the fixed direction u to which all mu_k are orthogonal. It is not the top right singular vector "
    "of the failures' own gradient: for K = 1 that is h_1 itself, and the residual along it is zero.",
    statement=lambda K, c, mu: c**2 * mu**2 / K,
    planted={
        "over K^2": lambda K, c, mu: c**2 * mu**2 / K**2,
        "not falling": lambda K, c, mu: c**2 * mu**2,
        "c not squared": lambda K, c, mu: c * mu**2 / K,
    },
)
def norm(statement):
    """Sum over pairs of modes of the products of inner products, for common and for orthogonal a_k."""

    def squared(K, c, mu, common):
        """|sum a_k mu_k^T / K|^2, the inner products of a_k being c^2 (common) or 0 between modes, those of mu_k 0."""
        products = (
            (c**2 if k == other or common else 0) * (mu**2 if k == other else 0) for k in range(K) for other in range(K)
        )
        return Fraction(sum(products)) / K**2

    points = grid(K=[1, 2, 5, 10], c=[Fraction(3, 2)], mu=[Fraction(2)], common=[True, False])
    yield from equals(lambda K, c, mu, common: statement(K, c, mu), points, enumerated=squared)


@claim(
    "fade:cor-15.2-diverse",
    where="Section 15.1, Corollary 15.2, last sentences; Section 4.2",
    says="With more diverse failure modes the leading share r1 of the failures' update tends to 1.",
    formula=r"\|R_F\|\sim1/\sqrt K,\quad r_1\to1",
    refuted_by="modes that meet the corollary's assumptions, with r1 away from 1 as K grows",
    reading="Failures alone, the common part of whose states is their leading direction up to an angle of order "
    "1/sqrt(K). r1 is residual against signal, and |E[A alpha v]| falls as 1/sqrt(K) too if the a_k = E[A v | k] are "
    "as diverse as the states: then r1 tends to alpha^2 / (alpha^2 + mu^2), from 1 at K = 1, and diversity lowers it. "
    "What brings r1 to 1 is a common error direction of all failures; if a_k is wholly common the update has rank 1 "
    "at every K. Section 4.2's 'shared suppress non-code direction' may be meant as this assumption; with it the "
    "claim holds.",
    met="partly: one direction that suppresses non-code tokens is shared by all failure-biased runs",
    statement=lambda shared: 1,
    condition=Amended(
        "the modes' mean error vectors a_k share a component, which does not average out",
        lambda shared: None if shared == 0 else 1,
    ),
    planted={"half": lambda shared: None if shared == 0 else 0.5},
)
def diverse(statement):
    """Singular values for K = 10 to 160 modes, with and without a common part of a_k."""

    def error(step, shared):
        limit = statement(shared)
        return None if limit is None else leading_share(failure_update(round(1 / step), shared)) - limit

    steps = ("0.1", "0.025", "0.00625")
    yield from vanishes(error, grid(shared=[0.0, 0.6, 0.8]), order=0.9, steps=steps)


@claim(
    "fade:cor-15.2-delta",
    where="Section 15.1, Corollary 15.2, last sentence but one; Section 4.2",
    says="delta < 1, which puts q / delta on the failures, raises the leading share r1 of the update.",
    formula=r"\delta<1\;\Rightarrow\;r_1\to1",
    refuted_by="successes and failures with r1 at delta = 1/2 below r1 at delta = 1",
    reading="Failures of 20 modes with a common error direction; successes of one mode, orthogonal to it. If the "
    "successes' update is the larger one at delta = 1, as the paper's finding that successes are the more correlated "
    "suggests, it leads at first, and weight on the failures levels the two before the failures lead: r1 falls. For "
    "delta to 0 r1 becomes that of the failures alone. On the reading that the limit is meant, it depends on "
    "fade:cor-15.2-diverse.",
    met="unknown: the two parts' sizes with advantages are not reported; Table 11's norms are without them",
    statement=lambda shares, success: shares[0] < shares[1],
    condition=Amended(
        "the failures' leading direction is orthogonal to the successes' part and leads at delta = 1 already",
        lambda shares, success: shares[0] < shares[1] if success < 1 else None,
    ),
    planted={"lowers": lambda shares, success: shares[0] > shares[1] if success < 1 else None},
)
def delta(statement):
    """Singular values at delta 1 and 1/2, for successes of half, of equal and of twice the failures' norm."""
    failures = failure_update(20, 0.8)
    failures /= np.linalg.norm(failures)

    def shares(success):
        def update(delta):
            rows, columns = failures.shape
            whole = np.zeros((rows + 1, columns + 1))
            whole[:rows, :columns] = failures / delta
            whole[rows, columns] = success
            return leading_share(whole)

        return update(1.0), update(0.5)

    yield from satisfies(
        statement, grid(success=[2.0, 0.5, 0.25]), shares, method="numerical", names=("r1 at delta 1", "at delta 1/2")
    )
