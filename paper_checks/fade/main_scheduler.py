"""Section 5 and Appendix 10: FADE's advantage, its two controllers and its moving averages."""

from fractions import Fraction

import numpy as np
from mpmath import mpf

import simlab
from paper_checks.claim import CONDITIONS, Amended, claim
from paper_checks.evidence import equals, grid, number, satisfies
from paper_checks.exact import mass
from paper_checks.fade.main_gradients import ONE_PROMPT, POINTS, derived_update, expected_update, wrong
from simlab.rollouts import Rollouts

FLOATS = mpf("1e-10")  # simlab works in float64
PRINTED = Fraction(1, 50)  # beta of Algorithm 2


def clip(value, low, high):
    """``value``, cut to two bounds."""
    return min(max(value, low), high)


def power_at(solve_rate, most=Fraction(3)):
    """Equation 11's alpha."""
    return clip(Fraction(3) * (1 - solve_rate) / (2 * solve_rate), Fraction(1), most)


def division_at(entropy, target):
    """Equation 11's delta."""
    return clip(1 + entropy - target, Fraction(3, 10), Fraction(1))


def focal_advantages(rewards, mean, alpha, delta):
    """Equation 11's A for rewards, given the mean that it compares them with."""
    focus = number(1 - mean) ** number(alpha - 1)
    return tuple(focus * number(reward - mean) / (number(delta) if reward < mean else 1) for reward in rewards)


def group_advantages(rewards, entropy, target, power=power_at, division=division_at):
    """Equation 11 in a first batch of one group: averages as Algorithm 2 sets them up."""
    mean = Fraction(sum(rewards), len(rewards))
    solve_rate = Fraction(1, 50) * Fraction(1, 2) + Fraction(49, 50) * mean
    return focal_advantages(rewards, mean, power(solve_rate), division(entropy, target))


@claim(
    "fade:eq-11",
    where="Section 5, Equation 11",
    says="FADE's advantage is AsymGRPO's, divided by delta on failures, times Power's (1 - mean)^(alpha - 1).",
    formula=r"A_i = (1-\bar r)^{\alpha-1}(r_i-\bar r)\,[/\delta\ \mathrm{if}\ r_i<\bar r],\ "
    r"\alpha = \mathrm{clip}(3(1-\hat p)/(2\hat p), 1, \alpha_{\max}),\ \delta = \mathrm{clip}(1+\hat H-H^*, .3, 1)",
    refuted_by="a group in which simlab's FADE, or AsymGRPO times the focal weight, gives other advantages",
    reading="The first batch, one group of one-token rollouts, alpha_max 3. Which mean is meant, the group's or the "
    "batch's, is fade:alg-2-masses.",
    identity=True,
    statement=group_advantages,
    planted={
        "delta multiplied": lambda **point: group_advantages(
            **point, division=lambda entropy, target: 1 / division_at(entropy, target)
        ),
        "alpha without its half": lambda **point: group_advantages(
            **point, power=lambda rate: clip(3 * (1 - rate) / rate, 1, 3)
        ),
    },
)
def fade_advantage(statement):
    """Run simlab's FADE, and multiply simlab's AsymGRPO by the focal weight."""

    def run(rewards, entropy, target):
        logp = np.full((len(rewards), 1), -float(entropy))
        values = np.array(rewards, dtype=float)
        return tuple(simlab.advantages("fade", values, old_logp=logp, target_entropy=float(target)).tolist())

    def combined(rewards, entropy, target):
        mean = Fraction(sum(rewards), len(rewards))
        alpha = power_at(Fraction(1, 100) + Fraction(49, 50) * mean)
        halves = simlab.advantages(
            "asym_grpo", np.array(rewards, dtype=float), delta=float(division_at(entropy, target))
        )
        return tuple((halves * float(1 - mean) ** float(alpha - 1)).tolist())

    points = grid(
        rewards=[(1, 0), (1, 1, 0, 0, 0), (1, 1, 1, 0)],
        entropy=[Fraction(1, 2), Fraction(1, 10)],
        target=[Fraction(1, 4), Fraction(3, 5)],
    )
    yield from equals(statement, points, derived=combined, enumerated=run, tolerance=FLOATS)


def last_advantages(batches, target, old=Fraction(1, 50), first_weigh=False):
    """Algorithm 2 over batches of (rewards, mean entropy), the batch being one set: the last batch's advantages."""
    solve_rate, entropy = Fraction(1, 2), batches[0][1]
    for rewards, level in batches:
        mean = Fraction(sum(rewards), len(rewards))
        before = solve_rate, entropy
        solve_rate, entropy = old * solve_rate + (1 - old) * mean, old * entropy + (1 - old) * level
        seen = before if first_weigh else (solve_rate, entropy)
        advantages = focal_advantages(rewards, mean, power_at(seen[0]), division_at(seen[1], target))
    return advantages


@claim(
    "fade:alg-2",
    where="Appendix 10, Algorithm 2",
    says="The averages start at 1/2 and at the initial entropy, take in a batch before it is weighed, and give "
    "Equation 11's alpha and delta.",
    formula=r"\hat p\leftarrow\beta\hat p+(1-\beta)\bar r,\quad \hat H\leftarrow\beta\hat H+(1-\beta)H_t",
    refuted_by="a sequence of batches after which simlab's FADE gives other advantages",
    reading="To the letter: beta = .02 on the old value, the mean over the whole batch, the initial entropy measured "
    "on the first batch. How little this beta averages is fade:alg-2-ema.",
    identity=True,
    statement=last_advantages,
    planted={
        "beta on the new value": lambda **point: last_advantages(**point, old=Fraction(49, 50)),
        "weighed before": lambda **point: last_advantages(**point, first_weigh=True),
    },
)
def algorithm(statement):
    """Run simlab's FADE over three batches of two prompts."""

    def run(batches, target):
        estimator = simlab.estimator("fade", target_entropy=float(target), baseline="batch_mean")
        state = estimator.init()
        for rewards, level in batches:
            shape = (2, len(rewards) // 2)
            rollouts = Rollouts(
                np.array(rewards, dtype=float).reshape(shape), old_logp=np.full((*shape, 1), -float(level))
            )
            advantages, state = estimator.update(rollouts, state)
        return tuple(advantages.reshape(-1).tolist())

    batches = (
        ((1, 0, 0, 0), Fraction(1)),
        ((1, 1, 0, 0), Fraction(4, 5)),
        ((1, 0, 1, 0), Fraction(1, 2)),
    )
    points = [{"batches": batches[:count], "target": Fraction(3, 5)} for count in (1, 2, 3)]
    yield from equals(statement, points, enumerated=run, tolerance=FLOATS)


@claim(
    "fade:alg-2-ema",
    where="Appendix 10, Algorithm 2, line 5, with beta = 0.02; 'the smoothed EMAs'",
    says="The moving averages, with beta = 0.02, are smoothed.",
    formula=r"\hat p\leftarrow\beta\hat p+(1-\beta)\bar r,\quad \beta=0.02",
    refuted_by="an effective number of batches, 1 / sum of squared weights, below 2",
    reading="Smoothed: an average over two batches at least. The printed update puts .98 on the newest batch: 1.04 "
    "batches on average. The two weights were probably meant the other way round (99 batches). If the code is as "
    "printed, 'smoothed' is wrong instead.",
    severity=CONDITIONS,
    statement=Fraction(1, 50),
    slip=Amended("beta = 0.98, or beta on the new value", Fraction(49, 50)),
    planted={"beta = 0.1": Fraction(1, 10)},
)
def smoothing(statement):
    """Sum the squared weights of past batches, and the geometric series."""

    def summed(beta):
        weights = [(1 - number(beta)) * number(beta) ** age for age in range(2000)]
        return 1 / sum(weight**2 for weight in weights)

    yield from satisfies(
        lambda batches, beta: batches >= 2,
        [{"beta": statement}],
        summed,
        derived=lambda beta: number((1 + beta) / (1 - beta)),
        method="numerical",
    )


def stated_masses(rates, prompt, alpha, delta, mean):
    """App. 10's masses p q^alpha and p q^alpha / delta."""
    p = rates[prompt]
    return p * (1 - p) ** alpha, p * (1 - p) ** alpha / delta


@claim(
    "fade:alg-2-masses",
    where="Appendix 10, first paragraph; Algorithms 1 and 2, line 4",
    says="FADE's masses per prompt are p q^alpha and p q^alpha / delta, so that m_S / m_F = delta.",
    formula=r"m_S = pq^\alpha,\quad m_F = pq^\alpha/\delta",
    refuted_by="a prompt of a batch whose masses differ",
    reading="The algorithms print the mean over the batch, 'the batch-level mean', and of a batch of several prompts. "
    "Where the batch is one prompt's group, as in Section 2, the masses are right.",
    met="unknown: the text says 'the batch-level mean' and uses |B| for it; one group a batch would meet it",
    statement=stated_masses,
    condition=Amended(
        "the mean is that of the prompt's own group",
        lambda rates, prompt, alpha, delta, mean: (
            stated_masses(rates, prompt, alpha, delta, mean) if mean == "group" else None
        ),
    ),
    planted={
        "failures multiplied": lambda rates, prompt, alpha, delta, mean: (
            stated_masses(rates, prompt, alpha, delta, mean)[0],
            stated_masses(rates, prompt, alpha, delta, mean)[0] * delta,
        )
    },
)
def scheduled_masses(statement):
    """Average Equation 11's advantages over the successes and over the failures of a prompt's group of four."""

    def enumerated(rates, prompt, alpha, delta, mean):
        p = rates[prompt]
        center = p if mean == "group" else sum(rates) / len(rates)
        rewards = [Fraction(index < 4 * p) for index in range(4)]
        weights = [
            (1 - center) ** (alpha - 1) * (reward - center) / (delta if reward < center else 1) for reward in rewards
        ]
        success = sum(weight for weight, reward in zip(weights, rewards, strict=True) if reward) / 4
        return success, success - sum(weights) / 4

    points = grid(
        mean=["group", "batch"],
        rates=[(Fraction(1, 4), Fraction(3, 4))],
        prompt=[0, 1],
        alpha=[2, 3],
        delta=[Fraction(1, 2), Fraction(3, 10), Fraction(1)],
    )
    yield from equals(statement, points, enumerated=enumerated)


@claim(
    "fade:fig-8-weight",
    where="Section 5, Figure 8, left, caption",
    says="FADE's gradient weight is p (1 - p)^alpha / delta.",
    formula=r"p(1-p)^\alpha/\delta",
    refuted_by="a solve rate at which the mass on successes is another",
    reading="Of successes and failures alike, as the caption makes no difference. It is the failures' mass; if it were "
    "both, delta would be a mere scale, and m_S / m_F = 1.",
    statement=lambda p, alpha, delta: (p * (1 - p) ** alpha / delta,) * 2,
    slip=Amended(
        "the mass on failures only; successes have p (1 - p)^alpha",
        lambda p, alpha, delta: (p * (1 - p) ** alpha, p * (1 - p) ** alpha / delta),
    ),
    planted={"on successes only": lambda p, alpha, delta: (p * (1 - p) ** alpha / delta, p * (1 - p) ** alpha)},
)
def drawn_weight(statement):
    """Run simlab's FADE on one group, and sum its advantages over the successes and over the failures."""
    entropy, target = Fraction(1, 2), Fraction(1)

    def stated(p):
        averaged = Fraction(1, 100) + Fraction(49, 50) * p
        weights = statement(number(p), number(power_at(averaged)), number(division_at(entropy, target)))
        return tuple(weights)

    def enumerated(p):
        rewards = np.array([1.0] * int(4 * p) + [0.0] * int(4 - 4 * p))
        logp = np.full((4, 1), -float(entropy))
        advantages = simlab.advantages("fade", rewards, old_logp=logp, target_entropy=float(target))
        return float(advantages[rewards > 0].sum()) / 4, -float(advantages[rewards == 0].sum()) / 4

    yield from equals(stated, [{"p": Fraction(n, 4)} for n in (1, 2, 3)], enumerated=enumerated, tolerance=FLOATS)


@claim(
    "fade:sec-5-alpha-decays",
    where="Section 5; Figure 8",
    says="alpha falls as the solve rate rises, and never rises.",
    formula=r"\alpha = \mathrm{clip}(3(1-\hat p)/(2\hat p), 1, 3)",
    refuted_by="two solve rates at which alpha rises",
    reading="Weakly: alpha is 3 for all solve rates up to 1/3 and 1 from 3/5 on, so that it moves only between. Read "
    "as strict decay, the claim fails outside that range.",
    identity=True,
    statement=lambda alphas, p: alphas[0] >= alphas[1],
    planted={
        "strictly": lambda alphas, p: alphas[0] > alphas[1],
        "rises": lambda alphas, p: alphas[0] < alphas[1],
    },
)
def alpha_decays(statement):
    """alpha at successive solve rates, thirtieth by thirtieth."""
    points = [{"p": Fraction(n, 30)} for n in range(1, 29)]
    yield from satisfies(statement, points, lambda p: (power_at(p), power_at(p + Fraction(1, 30))))


@claim(
    "fade:sec-5-alpha-starts-high",
    where="Section 5, 'in a typical training run (Figure 8), alpha starts high'; Section 3; Algorithm 2, line 1",
    says="In a typical training run alpha starts high.",
    refuted_by="an alpha below 2 after the first batch",
    reading="Figure 8 is of the 7B model, whose initial solve rate is .3. beta = .02 as printed; 'high' is the upper "
    "half of alpha's range, 2 or more, in the first batch.",
    caveat="At 32B, which starts at .5, alpha starts at 1.5; and a beta that does average (fade:alg-2-ema) keeps it "
    "there for a hundred batches, as the average starts from 1/2.",
    statement=lambda alpha, beta, rate: alpha >= 2 if beta == PRINTED and rate == Fraction(3, 10) else None,
    planted={
        "at 32B too": lambda alpha, beta, rate: alpha >= 2 if beta == PRINTED else None,
        "whatever the beta": lambda alpha, beta, rate: alpha >= 2 if rate == Fraction(3, 10) else None,
    },
)
def alpha_starts(statement):
    """alpha after one update of the average from 1/2."""
    points = grid(beta=[PRINTED, 1 - PRINTED], rate=[Fraction(3, 10), Fraction(1, 2)])
    yield from satisfies(statement, points, lambda beta, rate: power_at(beta / 2 + (1 - beta) * rate))


ENTROPIES = [Fraction(n, 20) for n in range(61)]


@claim(
    "fade:sec-5-delta-switch",
    where="Section 5; Appendix 10, first paragraph",
    says="delta is 1 while the entropy is at or above its target and falls below 1 as soon as the entropy is less.",
    refuted_by="an entropy and target at which delta < 1 does not go with H < H*",
    reading="delta never exceeds 1, so that FADE is never biased to successes, whatever the takeaway of Section 4.1.",
    identity=True,
    statement=lambda delta, entropy, target: (delta < 1) == (entropy < target) and delta <= 1,
    planted={"the other way round": lambda delta, entropy, target: (delta < 1) == (entropy > target)},
)
def delta_switch(statement):
    """delta over a grid of entropies and targets."""
    points = grid(entropy=ENTROPIES[:31], target=[Fraction(1, 2), Fraction(1), Fraction(13, 10)])
    yield from satisfies(statement, points, division_at)


@claim(
    "fade:sec-5-exploitation",
    where="Section 5; Section 4.2, 'failure bias learns fast'",
    says="delta < 1 forces exploitation: the solve rate grows faster than with delta = 1.",
    refuted_by="a policy and a learning rate at which the solve rate grows no faster with delta 1/2",
    reading="Over groups of three: faster by q + p / delta at one "
    "learning rate, most on easy prompts. At rates that equalise eta max|A|, by which Appendix 11.3 compares weights, "
    "delta < 1 has delta times the rate, and grows by delta q + p: more slowly.",
    met="yes: within a run of FADE delta changes and the learning rate does not; between runs Appendix 11.3 changes it",
    caveat=ONE_PROMPT,
    statement=lambda speeds, **_: speeds[0] > speeds[1],
    condition=Amended(
        "the learning rate is the same; at equal eta max|A| it grows more slowly",
        lambda speeds, rates, **_: speeds[0] > speeds[1] if rates == "the same" else speeds[0] < speeds[1],
    ),
    planted={"slower": lambda speeds, **_: speeds[0] < speeds[1]},
)
def exploitation(statement):
    """The slope of p along the expected updates of AsymGRPO: over all groups, and by sympy."""
    deltas = (Fraction(1, 2), Fraction(1))

    def slope(policy, correct, update):
        return sum(
            gradient * change for gradient, change in zip(derived_update(policy, correct, 1, 0), update, strict=True)
        )

    def rate(delta, rates):
        largest = max(max(1 - share, share / delta) for share in (Fraction(1, 3), Fraction(2, 3)))
        return 1 if rates == "the same" else Fraction(2, 3) / largest

    def enumerated(policy, correct, rates):
        return tuple(
            rate(delta, rates)
            * slope(policy, correct, expected_update(policy, correct, 3, lambda p, delta=delta: (1 - p, p / delta)))
            for delta in deltas
        )

    def derived(policy, correct, rates):
        # Two in three: a group of three has p q (G - 1) / G as its expected mass.
        p, q = (Fraction(2, 3) * mass(policy, members) for members in (correct, wrong(correct)))
        return tuple(
            rate(delta, rates) * slope(policy, correct, derived_update(policy, correct, q, p / delta))
            for delta in deltas
        )

    points = [point | {"rates": rates} for rates in ("the same", "equal eta max|A|") for point in POINTS[:3]]
    yield from satisfies(
        statement, points, enumerated, derived=derived, names=("slope of p at delta 1/2", "at delta 1")
    )
