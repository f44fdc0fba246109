"""Appendices 8.5 and 8.6: weights with a shifted mean or a quantile for their baseline."""

from fractions import Fraction

import sympy

from paper_checks.claim import CONDITIONS, Amended, claim
from paper_checks.evidence import equals, grid, satisfies
from paper_checks.fade.masses_centred import PER_ROLLOUT, SIZES, mean_grpo
from paper_checks.fade.masses_common import (
    HALF,
    SIZE,
    P,
    balanced,
    derived,
    enumerated,
    mixed,
    solve_rates,
    weighs,
)

TAUS = [Fraction(1, 4), HALF, Fraction(4, 5)]
SHIFTS = [Fraction(-1, 4), Fraction(0), Fraction(1, 100), HALF]
DELTA = sympy.Symbol("delta", real=True)


def asym_rl(reward, batch, delta):
    """r - (mean(r) + delta)."""
    return reward - (batch.mean + delta)


def quantile_of(batch, tau):
    """The smallest reward that a share tau of the batch does not exceed."""
    return min(level for level in batch.rewards if share_up_to(batch, level) >= tau)


def share_up_to(batch, level):
    """The share of the batch with at most this reward."""
    return batch.average(lambda reward: Fraction(int(reward <= level)))


def quantile(reward, batch, tau):
    """r - Q_tau(r)."""
    return reward - quantile_of(batch, tau)


def mc_grpo(reward, batch):
    """r - median(r), the quantile at 1/2: of an even number of rollouts the lower of the middle two."""
    return quantile(reward, batch, HALF)


@claim(
    "fade:asym-rl",
    where="Appendix 8.5",
    says="AsymRL, r - (mean(r) + delta), has masses p (q - delta) and q (p + delta).",
    formula=r"\nabla_{\mathrm{AsymRL}} = Bp(q-\delta)\,m_S - Bq(p+\delta)\,m_F",
    refuted_by="one group whose masses differ",
    reading=f"{PER_ROLLOUT} For q < delta the mass of successes is negative, as in a solved group.",
    identity=True,
    statement=lambda p, delta, **_: (p * (1 - p - delta), (1 - p) * (p + delta)),
    planted={"a sign": lambda p, delta, **_: (p * (1 - p + delta), (1 - p) * (p - delta))},
)
def asym_rl_of_group(statement):
    """Compare masses as for REINFORCE, in p and delta."""
    symbolic = [{"p": P, "G": SIZE, "delta": DELTA}]
    yield from weighs(statement, asym_rl, solve_rates(SIZES, delta=SHIFTS), symbolic_points=symbolic, simlab="asym_rl")


@claim(
    "fade:asym-rl-zero",
    where="Appendix 8.5",
    says="At delta = 0 AsymRL is mean GRPO.",
    refuted_by="a group that the two weights give different masses",
    reading="Masses, and so weights, group by group.",
    identity=True,
    statement=mean_grpo,
    planted={"reinforce": lambda reward, batch: reward},
)
def asym_rl_zero(statement):
    """The masses of both definitions, group by group."""
    points = solve_rates(SIZES, delta=[Fraction(0)])
    yield from equals(lambda p, G, delta: enumerated(statement)(p, G), points, enumerated=enumerated(asym_rl))


@claim(
    "fade:asym-rl-bias",
    where="Appendix 8.5, title",
    says="A baseline shifted up biases the masses towards failures, by delta whatever the difficulty.",
    refuted_by="a group and delta for which m_F - m_S differs",
    reading="The title says 'biasing towards negatives', and m_F - m_S = delta makes it precise. The text says that "
    "positive weights are shifted, but all are. For delta < 0 the bias is to successes, and that is what the abstract "
    "of the cited work (Arnal et al., arXiv 2506.20520) finds better; the text says that it recommends delta = 0.01.",
    identity=True,
    statement=lambda delta, **_: delta,
    planted={"by p": lambda p, delta, **_: p * delta, "successes": lambda delta, **_: -delta},
)
def asym_rl_bias(statement):
    """The difference of the masses, in symbols and group by group."""

    def gap(of):
        return lambda **point: of(**point)[1] - of(**point)[0]

    yield from equals(
        statement,
        solve_rates([1, 2, 3, 8], delta=SHIFTS),
        derived=gap(derived(asym_rl)),
        enumerated=gap(enumerated(asym_rl)),
        symbolic_points=[{"p": P, "G": SIZE, "delta": DELTA}],
    )


@claim(
    "fade:sec-4-2-arnal",
    where="Section 4.2, first sentence; Appendix 8.5",
    says="The asymmetric baseline of Arnal et al. is a failure-biased weight.",
    formula=r"A_i = r_i-(\bar r+\delta)",
    refuted_by="a mixed group in which the weight puts more mass on successes than on failures",
    reading="It can be biased to either side: by delta whatever the difficulty (fade:asym-rl-bias). The cited work "
    "(Asymmetric REINFORCE, arXiv 2506.20520) finds a baseline slightly below the mean reward best, delta < 0, which "
    "favours successes. Appendix 8.5 says that it recommends delta = 0.01; with that sign the sentence is right.",
    met="partly: by Appendix 8.5's delta = .01 it is; the cited work recommends a baseline below the mean",
    statement=lambda masses, p, G, delta: masses[1] > masses[0],
    condition=Amended(
        "the baseline is shifted up, delta > 0",
        lambda masses, p, G, delta: masses[1] > masses[0] if delta > 0 else None,
    ),
    planted={"balanced": lambda masses, p, G, delta: masses[1] == masses[0]},
)
def bias_of_either_shift(statement):
    """The masses of the definition in all mixed groups of 2, 3 and 8, with the baseline shifted down and up."""
    yield from satisfies(
        statement,
        solve_rates([2, 3, 8], mixed, delta=[Fraction(-1, 10), Fraction(1, 100)]),
        enumerated(asym_rl),
        names=("m_S", "m_F"),
    )


def quantile_masses(threshold):
    """p up to a threshold, q above; nothing in a group of equal rewards, where both are 0 as printed."""
    return lambda p, tau, **_: (p if p <= threshold(tau) else 0, 1 - p if p > threshold(tau) else 0)


QUANTILE_POINTS = solve_rates([2, 3, 4, 5, 8], mixed, tau=TAUS)


@claim(
    "fade:quantile",
    where="Appendix 8.6",
    says="The quantile baseline has masses p where p <= tau, and q where p > tau, the other mass being 0.",
    formula=r"Q_\tau(r) = \mathbf{1}[p > \tau]:\ m_S = p\,\mathbf{1}[p \le \tau],\ m_F = q\,\mathbf{1}[p > \tau]",
    refuted_by="one mixed group whose masses differ",
    reading="The tau-quantile is the smallest reward that a share tau of the group does not exceed; failures come "
    "first, so that it is 0 while q >= tau. It does not hang on how a quantile is interpolated: of 4 failures and 4 "
    "successes the 1/4-quantile is 0 by every convention, and 1 as printed. On the reading that tau counts from the "
    "top, the (1 - tau)-quantile, the print is right; at tau = 1/2, MC-GRPO, both agree. Quantile Advantage "
    "Estimation (arXiv 2509.22611) has the threshold 1 - tau.",
    severity=CONDITIONS,
    statement=quantile_masses(lambda tau: tau),
    correction=Amended(
        "p 1[p <= 1 - tau] and q 1[p > 1 - tau]: a higher quantile learns from successes on fewer prompts, not more",
        quantile_masses(lambda tau: 1 - tau),
    ),
    planted={"median": quantile_masses(lambda tau: HALF)},
)
def quantile_of_group(statement):
    """The definition, rollout by rollout; and our estimator."""
    yield from weighs(statement, quantile, QUANTILE_POINTS, simlab="quantile", listed_only=True)


@claim(
    "fade:quantile-sign-bias",
    where="Appendix 8.6",
    says="The quantile baseline learns from successes alone on hard problems and from failures alone on easy ones, "
    "never from both.",
    refuted_by="a mixed group with two masses or none, or one that learns from failures and is harder than another "
    "that learns from successes",
    reading="Mixed groups; the quantile is one of the rewards. Where the quantile interpolates, as in numpy, groups "
    "at the step have both masses and it would fail. Where the step lies (fade:quantile) does not matter here.",
    identity=True,
    statement=lambda pairs, **_: one_sided(pairs) and failures_from_easy(pairs),
    planted={
        "both": lambda pairs, **_: all(success > 0 and failure > 0 for success, failure in pairs),
        "easy first": lambda pairs, **_: one_sided(pairs) and failures_from_easy(pairs[::-1]),
    },
)
def quantile_sign_bias(statement):
    """The masses of all mixed groups of one size, the hardest first."""

    def by_difficulty(G, tau):
        return [enumerated(quantile)(Fraction(s, G), G, tau=tau) for s in range(1, G)]

    yield from satisfies(statement, grid(G=[2, 3, 4, 8], tau=TAUS), by_difficulty)


def one_sided(pairs):
    """Return whether exactly one mass is above 0 in each group."""
    return all((success > 0) != (failure > 0) for success, failure in pairs)


def failures_from_easy(pairs):
    """Return whether the groups whose failures carry mass come last."""
    learns = [failure > 0 for _, failure in pairs]
    return learns == sorted(learns)


@claim(
    "fade:mc-grpo",
    where="Appendix 8.6",
    says="MC-GRPO, r - median(r), has masses p where p <= 1/2, and q where p > 1/2, the other mass being 0.",
    formula=r"\mathrm{med}(r) = \mathbf{1}[p > \tfrac12],\quad m_S = p\,\mathbf{1}[p \le \tfrac12],\ "
    r"m_F = q\,\mathbf{1}[p > \tfrac12]",
    refuted_by="one group whose masses differ",
    reading="The median is the quantile at 1/2, as the appendix says: of an even number of rollouts the lower of the "
    "middle two, as in torch. MC-GRPO's own paper draws one rollout more to make the group odd. Its published code "
    "divides by the median absolute deviation + 1e-3, which this paper leaves out.",
    caveat="With the mean of the middle two for a median, both masses are 1/4 at p = 1/2.",
    identity=True,
    statement=lambda p, **_: (p if p <= HALF else 0, 1 - p if p > HALF else 0),
    planted={
        "mean GRPO": lambda p, **_: balanced(p * (1 - p)),
        "the mean of the middle two": lambda p, **_: (
            balanced(p / 2) if p == HALF else (p if p < HALF else 0, 1 - p if p > HALF else 0)
        ),
    },
)
def mc_grpo_of_group(statement):
    """The definition, rollout by rollout; and our estimator."""
    yield from weighs(statement, mc_grpo, solve_rates(SIZES), simlab="mc_grpo", listed_only=True)
