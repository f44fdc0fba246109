"""Appendices 8.4.2 and 8.4.3: the analytic pass@k weights of Chen et al., and their mix."""

import itertools
from fractions import Fraction
from math import comb

from paper_checks.claim import COSMETIC, Amended, claim
from paper_checks.evidence import equals, grid, number, satisfies, vanishes
from paper_checks.exact import expectation
from paper_checks.fade.masses_centred import grpo, grpo_masses
from paper_checks.fade.masses_common import (
    HALF,
    balanced,
    enumerated,
    mixed,
    ratio,
    rollouts,
    root,
    solve_rates,
    weighs,
)
from paper_checks.fade.masses_pass_at_k import K_POINTS, subsets_with

MIXED = [point for point in K_POINTS if mixed(**point)]


def average(values):
    """The mean of a list of whole numbers or fractions, exactly."""
    return sum(values, start=Fraction(0)) / len(values)


def passed(batch, k):
    """R_k: the share of the k-subsets of a listed batch that hold a success."""
    return average([max(chosen) for chosen in itertools.combinations(batch.rewards, k)])


def chen(reward, batch, k):
    """The mean GRPO advantage, among all k-subsets of the batch rewarded by their best, of those with the rollout."""
    level = passed(batch, k)
    return ratio(average([max(chosen) for chosen in subsets_with(reward, batch, k)]) - level, root(level * (1 - level)))


def mix(reward, batch, k):
    """p A_pass@k + q A_pass@1."""
    return batch.mean * chen(reward, batch, k) + (1 - batch.mean) * chen(reward, batch, 1)


def drawn_without(p, G, k):
    """C(F, k) / C(G, k), the chance that k of the group are all failures."""
    return Fraction(comb(int((1 - p) * G), k), comb(G, k))


def spread(p, G, k):
    """sigma_k = sqrt(R_k (1 - R_k))."""
    missed = drawn_without(p, G, k)
    return root(missed * (1 - missed))


def inner(p, G, k):
    """Q' = C(F - 1, k - 1) / C(G - 1, k - 1)."""
    return Fraction(comb(int((1 - p) * G) - 1, k - 1), comb(G - 1, k - 1))


@claim(
    "fade:pass-at-k-chen-advantages",
    where="Appendix 8.4.2",
    says="Chen's analytic advantages are (1 - R_k)/sigma for a success and that less C(F-1,k-1)/C(G-1,k-1)/sigma for a "
    "failure.",
    formula=r"A_s = \frac{1-R_k}{\sigma_k},\quad A_f = \frac{1}{\sigma_k}\Bigl(1-R_k-\binom{F-1}{k-1}/\binom{G-1}{k-1}"
    r"\Bigr)",
    refuted_by="a group in which the mean advantage of the k-subsets that hold a rollout differs",
    reading="What they are analytic forms of: GRPO among all k-subsets, each rewarded by its best. Where sigma is 0, "
    "the advantage is 0/0 and nothing is stated.",
    identity=True,
    statement=lambda p, G, k: (
        ratio(drawn_without(p, G, k), spread(p, G, k)),
        ratio(
            drawn_without(p, G, k) - inner(p, G, k),
            spread(p, G, k),
        ),
    ),
    planted={
        "R for 1 - R": lambda p, G, k: (
            ratio(1 - drawn_without(p, G, k), spread(p, G, k)),
            0,
        ),
    },
)
def chen_advantages(statement):
    """All k-subsets of every mixed group."""
    yield from equals(
        statement,
        MIXED,
        enumerated=lambda p, G, k: tuple(chen(r, rollouts(p, G), k) for r in (1, 0)),
    )


@claim(
    "fade:pass-at-k-chen-identity",
    where="Appendix 8.4.2",
    says="C(F, k) / C(G, k) = (F / G) C(F - 1, k - 1) / C(G - 1, k - 1).",
    formula=r"\binom{F}{k}/\binom{G}{k} = (F/G)\,Q'_{k-1}",
    refuted_by="F, G and k at which it fails",
    reading="1 <= k <= G and F >= 1.",
    identity=True,
    statement=lambda F, G, k: Fraction(F, G) * Fraction(comb(F - 1, k - 1), comb(G - 1, k - 1)),
    planted={"F - k": lambda F, G, k: Fraction(F, G) * Fraction(comb(F - 1, k), comb(G - 1, k - 1))},
)
def chen_identity(statement):
    """Counted k-subsets without a success."""

    def counted(F, G, k):
        chosen = list(itertools.combinations(range(G), k))
        return Fraction(sum(max(subset) < F for subset in chosen), len(chosen))

    yield from equals(
        statement,
        grid(lambda G, F, k: F <= G and k <= G, G=range(1, 9), F=range(1, 9), k=range(1, 9)),
        enumerated=counted,
    )


@claim(
    "fade:pass-at-k-chen-unified",
    where="Appendix 8.4.2",
    says="Chen's advantages are Q' (r - p) / sigma, exactly, in a group of any finite size.",
    formula=r"A_i = Q'_{k-1}(r_i-\hat p)/\sigma_k",
    refuted_by="a mixed group in which an advantage differs",
    reading="As fade:pass-at-k-chen-advantages.",
    identity=True,
    statement=lambda p, G, k: tuple(ratio(inner(p, G, k) * (r - p), spread(p, G, k)) for r in (1, 0)),
    planted={
        "population": lambda p, G, k: tuple(
            ratio((1 - p) ** (k - 1) * (r - p), root((1 - p) ** k * (1 - (1 - p) ** k))) for r in (1, 0)
        ),
    },
)
def chen_unified(statement):
    """All k-subsets of every mixed group."""
    yield from equals(
        statement,
        MIXED,
        enumerated=lambda p, G, k: tuple(chen(r, rollouts(p, G), k) for r in (1, 0)),
    )


def chen_masses(p, G, k):
    """p sqrt((1 - R) / R), and 0 without a success, where R is 0."""
    return balanced(p * root(ratio(drawn_without(p, G, k), 1 - drawn_without(p, G, k))))


@claim(
    "fade:pass-at-k-chen",
    where="Appendix 8.4.2",
    says="Chen's pass@k puts the mass p sqrt((1 - R_k) / R_k) on both outcomes, in a group of any finite size.",
    formula=r"m_S = m_F = \hat p\sqrt{\frac{1-R_k}{R_k}}",
    refuted_by="one group whose masses differ",
    reading="Without a success R_k is 0 and the form is 0 times 1/0; it is taken as 0, no update. Here the appendix "
    "leaves the factor G out that it prints for GRPO.",
    identity=True,
    statement=chen_masses,
    planted={
        "inverse": lambda p, G, k: balanced(p * root(ratio(1 - drawn_without(p, G, k), drawn_without(p, G, k)))),
        "population": lambda p, G, k: balanced(p * root(ratio((1 - p) ** k, 1 - (1 - p) ** k))),
    },
)
def chen_of_group(statement):
    """All k-subsets of every group, rollout by rollout; and our estimator."""
    yield from weighs(statement, chen, K_POINTS, simlab="pass_at_k_chen", listed_only=True)


@claim(
    "fade:pass-at-k-chen-one",
    where="Appendix 8.4.2",
    says="At k = 1 Chen's masses are GRPO's, sqrt(p q).",
    formula=r"k = 1: R_1 = \hat p,\ m_S = m_F = \sqrt{\hat p\hat q}",
    refuted_by="a group with other masses",
    reading="GRPO with the population std and no epsilon.",
    identity=True,
    statement=grpo_masses,
    planted={"mean GRPO": lambda p, **_: balanced(p * (1 - p))},
)
def chen_one(statement):
    """All single rollouts, and GRPO's own definition."""
    yield from equals(
        statement,
        solve_rates([1, 2, 3, 5], k=[1]),
        derived=lambda p, G, k: enumerated(grpo)(p, G),
        enumerated=enumerated(chen),
    )


@claim(
    "fade:pass-at-k-chen-population",
    where="Appendix 8.4.2",
    says="As the group grows, Chen's mass tends to p sqrt(q^k / (1 - q^k)).",
    formula=r"G \to \infty: m_S = m_F = p\sqrt{q^k/(1-q^k)}",
    refuted_by="a p and k at which the distance does not vanish as 1/G",
    reading="At a fixed share p > 0 of successes.",
    statement=lambda p, k: p * root((1 - p) ** k / (1 - (1 - p) ** k)),
    planted={"q^(k-1)": lambda p, k: p * root((1 - p) ** (k - 1) / (1 - (1 - p) ** k))},
)
def chen_population(statement):
    """The masses of fade:pass-at-k-chen in groups of 10^3 to 10^6."""

    def distance(step, p, k):
        return number(chen_masses(p, round(1 / step), k)[0]) - number(statement(p, k))

    yield from vanishes(distance, grid(p=[Fraction(1, 10), HALF, Fraction(9, 10)], k=[1, 2, 4]), order=1)


@claim(
    "fade:pass-at-k-chen-baseline",
    where="Appendix 8.4.2, Remark",
    says="With R_k instead of p as the baseline of single rollouts, the masses p (1 - R)/sigma and q R/sigma differ "
    "for k > 1.",
    formula=r"m_S = p(1-R_k)/\sigma_k \neq m_F = qR_k/\sigma_k",
    refuted_by="k > 1 and a group with other masses, or equal ones",
    reading="Groups in which sigma is not 0: with fewer than k failures, R is 1 and both are 0/0.",
    identity=True,
    statement=lambda p, G, k: naive_masses(p, drawn_without(p, G, k)),
    planted={
        "balanced": chen_masses,
        "missed for passed": lambda p, G, k: naive_masses(p, 1 - drawn_without(p, G, k)),
    },
)
def chen_baseline(statement):
    """The definition with R_k as the baseline, rollout by rollout; then that the two masses differ."""

    def naive(reward, batch, k):
        level = passed(batch, k)
        return ratio(reward - level, root(level * (1 - level)))

    points = [point for point in K_POINTS if point["k"] > 1 and 0 < drawn_without(**point) < 1]
    yield from equals(statement, points, enumerated=enumerated(naive))
    yield from satisfies(lambda pair, **_: pair[0] != pair[1], points, enumerated(naive))


def naive_masses(p, missed):
    """p (1 - R) / sigma and q R / sigma."""
    sigma = root(missed * (1 - missed))
    return ratio(p * missed, sigma), ratio((1 - p) * (1 - missed), sigma)


@claim(
    "fade:mix",
    where="Appendix 8.4.3",
    says="Mix, p A_pass@k + q A_pass@1, puts the mass p (p A_pass@k + q A_pass@1), at a success, on both outcomes.",
    formula=r"m_S = m_F = p(p\,\hat A_{pass@k} + q\,\hat A_{pass@1})",
    refuted_by="one group whose masses differ",
    reading="The advantages of a success, as the derivation's braces say; for a failure it would be negative. With the "
    "exact A_pass@k of a finite group; the printed form of it is of an infinite one, fade:mix-coefficient.",
    identity=True,
    statement=lambda p, G, k: balanced(p * chen_masses(p, G, k)[0] + (1 - p) * chen_masses(p, G, 1)[0]),
    planted={
        "weights exchanged": lambda p, G, k: balanced((1 - p) * chen_masses(p, G, k)[0] + p * chen_masses(p, G, 1)[0]),
    },
)
def mix_of_group(statement):
    """All k-subsets of every group, rollout by rollout; and our estimator."""
    yield from weighs(statement, mix, K_POINTS, simlab="mix", listed_only=True)


def population(p, k):
    """p q^(k - 1) / sigma_k + q / sigma_1, with sigma_k of R_k = 1 - q^k."""
    missed = (1 - p) ** k
    return ratio(p * (1 - p) ** (k - 1), root(missed * (1 - missed))) + ratio(1 - p, root(p * (1 - p)))


@claim(
    "fade:mix-coefficient",
    where="Appendix 8.4.3",
    says="Mix is (p q^(k - 1) / sigma_k + q / sigma_1) (r - p).",
    formula=r"A_i^{mix} = \Bigl(\frac{pq^{k-1}}{\sigma_k} + \frac{q}{\sigma_1}\Bigr)(r_i-p)",
    refuted_by="a group in which the coefficient of r - p differs",
    reading="The weight that Appendix 8.4.2 gives in the limit of large groups, p and q without hats; but nothing says "
    "so here, and the gradient below sums it over a batch. In a finite group Q' = C(F-1,k-1)/C(G-1,k-1) stands for "
    "q^(k - 1) and sigma_k is that of R_k. On the reading that 8.4.3 is of the limit throughout, it holds.",
    severity=COSMETIC,
    met="no: groups are finite; the finite form replaces q^(k - 1)",
    statement=lambda p, G, k: population(p, k),
    condition=Amended("the group is infinite", lambda p, G, k: population(p, k) if G == "infinite" else None),
    planted={
        "weights exchanged": lambda p, G, k: ratio((1 - p) * population(p, k), p) if G == "infinite" else None,
        "q^k": lambda p, G, k: (1 - p) * population(p, k) if G == "infinite" else None,
    },
)
def mix_coefficient(statement):
    """The advantage of a success over 1 - p: all k-subsets of every mixed group; k independent draws in the limit."""

    def chen_of_draws(p, k):
        # a success always passes
        level = expectation((p, 1 - p), k, lambda counts: int(counts[0] > 0))
        return ratio(1 - level, root(level * (1 - level)))

    def coefficient(p, G, k):
        if G == "infinite":
            return (p * chen_of_draws(p, k) + (1 - p) * chen_of_draws(p, 1)) / number(1 - p)
        return ratio(mix(1, rollouts(p, G), k), 1 - p)

    infinite = grid(p=[Fraction(1, 5), HALF, Fraction(9, 10)], G=["infinite"], k=[1, 2, 3, 4])
    finite = [point for point in MIXED if drawn_without(**point) > 0]  # else A_pass@k is 0/0
    yield from equals(statement, [*finite, *infinite], enumerated=coefficient)
