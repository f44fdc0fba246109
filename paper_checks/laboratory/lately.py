"""Exact small cases for claims of papers since July 2026: stale samplers, verifiers that err, coverage.

docs/lately.md quotes the papers and says what was read of each.
"""

from fractions import Fraction
from math import pi

from mpmath import mp, mpf

from paper_checks.claim import claim
from paper_checks.evidence import Printed, arithmetic, equals, grid, number, satisfies, vanishes
from paper_checks.exact import POLICIES, binomial, compositions, mass, score_gradient, stepped
from paper_checks.laboratory.verifier import BANKS, ERRING, ERRORS, GRPO, accepted, landed, misplaced, squares
from paper_checks.laboratory.weights import (
    WEIGHTS,
    Weight,
    direction,
    expected_direction,
    mass_gradient,
    pull,
)

STALE = "Lately, samplers that are old (2606.30789)"
ERRING_VERIFIER = "Lately, verifiers that err (2605.25252, 2601.04411, 2609.35677)"
COVERAGE = "Lately, coverage (2610.01509)"

# A step from an older policy

ZERO_SUM = ("dr_grpo", "maxrl", "power_alpha")
# The last one shows that the sum matters: to push down the rarer wrong answer alone lifts the likelier one.
STALE_POLICIES = (
    POLICIES[0], POLICIES[1], POLICIES[3],
    ((Fraction(1, 10), Fraction(8, 10), Fraction(1, 10)), (True, False, False)),
)  # fmt: skip
STEPS = (Fraction(1, 10), Fraction(1), Fraction(10))


def optimized(new, old, optimizer):
    """The direction in which a step goes, from the gradient of its batch and that of an earlier one."""
    if optimizer == "momentum":
        return [entry + Fraction(9, 10) * other for entry, other in zip(new, old, strict=True)]
    # Adam's first step: each coordinate over its own size.
    return [Fraction((entry > 0) - (entry < 0)) for entry in new] if optimizer == "adam" else list(new)


def before_and_after(case, drawn, weight, optimizer, step):
    """The solve rate before and after a step on groups of such counts, whoever drew them."""
    policy, correct = STALE_POLICIES[case]
    new, old = (direction(counts, policy, correct, WEIGHTS[weight]) for counts in drawn)
    after = stepped(policy, optimized(new, old, optimizer), number(step))
    return number(mass(policy, correct)), mass(after, correct)


def stale_cases(weights):
    """All pairs of a group of three and one earlier one, at four policies."""
    points = []
    for case, (policy, _) in enumerate(STALE_POLICIES):
        earlier = (1, *(0,) * (len(policy) - 2), 2)
        drawn = [(counts, earlier) for counts in compositions(3, len(policy))]
        points += grid(case=(case,), drawn=drawn, weight=weights, optimizer=("sgd", "momentum", "adam"), step=STEPS)
    return points


def does_not_fall(rates, **_):
    """Return whether the solve rate is at least what it was."""
    return rates[1] >= rates[0] - mpf("1e-40")


@claim(
    "simlab:stale-rise",
    where=STALE,
    says="At one prompt with logits of its own, and without a penalty, no step turns pass@1 back: under a weight whose "
    "advantages have the signs of the rewards and sum to 0 over a group, a group that any policy has drawn never "
    "lowers the solve rate, at any length of step, with momentum and after Adam's division.",
    formula=r"\Delta z_a \ge 0\ (a\ \mathrm{correct}),\quad \Delta z_a \le 0\ (a\ \mathrm{wrong})\ \Rightarrow\ "
    r"\Delta Q \ge 0",
    refuted_by="a group, an optimiser and a length of step after which the solve rate is lower",
    reading="Coefficients that sum to 0 leave sum_k c_k = 0, so that the step is c itself, whatever the policy: it "
    "lifts what was right and pushes down what was wrong. Momentum adds such steps, and Adam divides each coordinate "
    "by a positive number. A damped oscillator (2606.30789) needs a force that pulls back: a penalty on KL, an "
    "entropy bonus, or other prompts. The case at hand has none, and with it neither an oscillation nor a threshold "
    "of staleness. No importance ratio; Adam's first step stands for its later ones, which divide by other positive "
    "numbers.",
    caveat="With a penalty or with shared parameters the solve rate can turn.",
    statement=lambda rates, weight, **_: does_not_fall(rates) if weight in ZERO_SUM else None,
    planted={
        "whatever the weight": does_not_fall,
        "it never moves": lambda rates, weight, **_: abs(rates[1] - rates[0]) < mpf("1e-40"),
        "failures alone hold it": lambda rates, weight, **_: rates[1] <= rates[0],
    },
)
def stale_rise(statement):
    """Every group of three, as if any policy had drawn it, after steps of three lengths."""
    yield from satisfies(statement, stale_cases((*ZERO_SUM, "nsr")), before_and_after)


MOMENTA = (Fraction(0), Fraction(1, 2), Fraction(9, 10), Fraction(99, 100))
LAGS = (1, 2, 3, 5, 8, 16)
NEAR = (Fraction(1, 2), Fraction(99, 100), Fraction(101, 100), Fraction(3, 2))


def largest_root(lag, momentum, stiffness):
    """The largest root of x_(t+1) = (1 + mu) x_t - mu x_(t-1) - s x_(t-d), s the rate times the stiffness."""
    terms = [mpf(0)] * (lag + 2)
    for index, value in ((0, 1), (1, -1 - number(momentum)), (2, momentum), (lag + 1, stiffness)):
        terms[index] += number(value)
    return max(abs(root) for root in mp.polyroots(terms, maxsteps=500, extraprec=400))


def without_momentum(lag):
    """2 sin(pi / (4 d + 2))."""
    return 2 * mp.sin(mp.pi / (4 * lag + 2))


def threshold(lag, momentum):
    """The largest stable s where there is a formula: without momentum, or at a lag of one; else None."""
    if momentum == 0:
        return without_momentum(lag)
    return 1 - number(momentum) if lag == 1 else None


def root_near(lag, momentum, share):
    """The largest root at a share of the stated threshold, or of (1 - mu) / d where no threshold is stated."""
    stated = threshold(lag, momentum)
    return largest_root(lag, momentum, number(share) * ((1 - number(momentum)) / lag if stated is None else stated))


def stable(edge, sufficient):
    """A statement: stable below the formula, and unstable above; else stable wherever s d is below a bound."""

    def stated(root, lag, momentum, share):
        limit = threshold(lag, momentum)
        if limit is None:
            return root < 1 if share * sufficient < 1 else None
        return (root < 1) == (number(share) * limit < edge(lag, momentum))

    return stated


@claim(
    "simlab:lag-threshold",
    where=STALE,
    says="Gradient steps x - s x' on a quadratic, read d steps late, are stable up to s = 2 sin(pi / (4 d + 2)) "
    "without momentum, and at a lag of one up to s = 1 - mu. With any momentum and lag that was tried, s d < 1 - mu "
    "suffices; it is the exact edge at a lag of one, and up to a factor pi/2 too careful without momentum.",
    formula=r"x_{t+1} = x_t + \mu (x_t - x_{t-1}) - s\,x_{t-d}:\quad s < 2\sin\tfrac{\pi}{4d+2}\ (\mu = 0),\quad "
    r"s < 1 - \mu\ (d = 1)",
    refuted_by="a lag, a momentum and a stiffness on the other side of the edge",
    reading="s is the learning rate times the curvature, d the age of the sampler. The edge without momentum is "
    "Levin and May's (1976) for delayed difference equations. Where s d is small, x_(t-d) = x_t - d (x_t - x_(t-1)) "
    "takes the damping 1 - mu down to 1 - mu - s d, whose sign is the rule K eta K_ref < 1 - mu that a public "
    "summary gives for 2606.30789: a first-order rule, and here a safe one. The full text of that paper could not be "
    "had, and its K_ref may be measured otherwise than by a constant age.",
    caveat="A linear recursion around a point of rest. Weights of rewards alone have none but pass@1 = 1 "
    "(simlab:stale-rise).",
    statement=stable(threshold, 1),
    planted={
        "at most 1 / d without momentum": stable(
            lambda lag, momentum: mpf(1) / lag if momentum == 0 else threshold(lag, momentum), 1
        ),
        "pi / (2 d) already": stable(
            lambda lag, momentum: mpf(pi) / (2 * lag) if momentum == 0 else threshold(lag, momentum), 1
        ),
        "momentum does not matter": stable(lambda lag, momentum: without_momentum(lag), 1),
        "half as careful suffices too": stable(threshold, Fraction(1, 2)),
    },
)
def lag_threshold(statement):
    """The roots of the recursion at 24 pairs of a lag and a momentum, on both sides of the edge."""
    yield from satisfies(statement, grid(lag=LAGS, momentum=MOMENTA, share=NEAR), root_near, method="numerical")


# Noise by group size

KINDS_OF_WEIGHTS = {"grpo": GRPO, "dr_grpo": WEIGHTS["dr_grpo"], "psr": WEIGHTS["psr"], "maxrl": WEIGHTS["maxrl"]}


def variance_of_the_length(p, G, weight):
    """Var[m_S] over p, of the length of one prompt's step along grad Q, from all numbers of successes."""
    lengths_of_groups = [number(Fraction(s, G)) * number(KINDS_OF_WEIGHTS[weight].success(s, G)) for s in range(G + 1)]
    chances = binomial(G, p)
    mean, square = (sum(c * m**power for c, m in zip(chances, lengths_of_groups, strict=True)) for power in (1, 2))
    return (square - mean**2) / p


def rare_noise(share):
    """A statement of what the variance comes to over p, as p vanishes."""
    return lambda step, G, weight: variance_of_the_length(step, G, weight) - number(share(G, weight))


def left_by_groups(G, weight):
    """1 - 1/G of GRPO, and of mean GRPO (1 - 1/G)^2 / G."""
    return 1 - Fraction(1, G) if weight == "grpo" else (1 - Fraction(1, G)) ** 2 / G


@claim(
    "simlab:rare-noise",
    where=STALE,
    says="Where successes are rare larger groups do not make GRPO's step less noisy: the variance of its length at one "
    "prompt comes to (1 - 1/G) p as p vanishes, that of mean GRPO to (1 - 1/G)^2 p / G.",
    formula=r"\mathrm{Var}[m_S]/p \to 1 - \tfrac1G\ (\mathrm{GRPO}),\quad \tfrac1G\big(1 - \tfrac1G\big)^2\ "
    r"(\mathrm{mean\ GRPO})",
    refuted_by="a group size at which the variance comes to another share of p",
    reading="One success of G gets the advantage sqrt(G - 1) under GRPO: a group of G has G times the chance of one, "
    "and a step of sqrt(1/G) then. A noise of 1/G (2606.30789) is what mean GRPO has, and GRPO where G p is large. "
    "The paper's v2 says that the spread within groups “retains a residual G-dependence that the leading-order "
    "temperature picture does not capture”.",
    caveat="The share of p at small p; between, the variance falls once G p is some 1.",
    statement=rare_noise(left_by_groups),
    planted={
        "1/G of either": rare_noise(lambda G, weight: Fraction(1, G)),
        "it grows with G": rare_noise(lambda G, weight: left_by_groups(G, weight) * (G if weight == "grpo" else 1)),
        "they are alike": rare_noise(lambda G, weight: left_by_groups(G, "grpo")),
    },
)
def noise_of_rare_successes(statement):
    """The distance from the limit at four small solve rates, from all numbers of successes."""
    yield from vanishes(statement, grid(G=(2, 4, 16, 64), weight=("grpo", "dr_grpo")), order=1)


# False positives against false negatives

SOLVED = (Fraction(1, 20), Fraction(1, 5), Fraction(1, 2), Fraction(3, 5), Fraction(9, 10))


def lengths(solved, rate, G, weight):
    """The expected steps over grad Q: with false positives alone, and with false negatives alone, at one rate."""
    pair, right = (solved, 1 - solved), (True, False)
    ratios = []
    for errors in alone(rate):
        both = landed(pair, right, G, KINDS_OF_WEIGHTS[weight], errors)
        step = score_gradient(pair, [both[0] + both[2], both[1] + both[3]])
        ratios.append(number(step[0]) / number(mass_gradient(pair, right)[0]))
    return tuple(ratios)


def derived_lengths(solved, rate, G, weight):
    """The same by (1 - rate) kappa(q), which simlab:verifier-speed proves."""
    return tuple(number(1 - rate) * speed_at(accepted(solved, errors), G, weight) for errors in alone(rate))


def alone(rate):
    """Rates of false positives and false negatives: of the first alone, and of the second alone."""
    return (rate, Fraction(0)), (Fraction(0), rate)


def speed_at(q, G, weight):
    """kappa(q)."""
    return number(pull((q, 1 - q), (True, False), G, KINDS_OF_WEIGHTS[weight]))


def order(positives, negatives):
    """1 where false negatives leave the longer step, -1 where false positives do, 0 where they are alike."""
    gap = negatives - positives
    return 0 if abs(gap) < mpf("1e-30") else int(mp.sign(gap))


def by_solve_rate(steps, solved, rate, G, weight):
    """GRPO: the more solved, the worse false negatives; mean GRPO and PSR: alike; MaxRL: false positives are worse."""
    if weight == "grpo" and G > 3:
        return order(*steps) == (solved < Fraction(1, 2)) - (solved > Fraction(1, 2))
    return order(*steps) == (weight == "maxrl" and G > 2)


@claim(
    "simlab:verifier-asymmetry",
    where=ERRING_VERIFIER,
    says="At one rate of errors, false negatives slow GRPO more than false positives do just on prompts that are "
    "solved more than half of the time, and less on harder ones; mean GRPO and PSR are slowed alike, at every group "
    "size.",
    formula=r"(1-e)\,\kappa(e + (1-e)Q;G) > (1-e)\,\kappa((1-e)Q;G) \iff Q > \tfrac12\quad(\mathrm{GRPO},\ G \ge 4)",
    refuted_by="a solve rate, a rate of errors and a group size with the other order",
    reading="Both kinds have Youden's index 1 - e, and the expected step is (1 - e) kappa(q) grad Q "
    "(simlab:verifier-speed). GRPO's kappa is symmetric about q = 1/2 and lowest there; q - 1/2 is larger in size "
    "for false positives just where Q > 1/2. Mitsuhashi et al. (2605.25252) report, of GRPO on GSM8K, that false "
    "negatives degrade performance more quickly: so it is here on prompts like these, at the start of training. In "
    "groups of two and three GRPO is mean GRPO. MaxRL's kappa falls in q, so that false positives slow it more "
    "everywhere.",
    caveat="Expected steps under errors of rollouts; where errors belong to answers false positives cost the answer "
    "(simlab:verifier-answers).",
    statement=by_solve_rate,
    planted={
        "false negatives are always worse": lambda steps, **_: order(*steps) <= 0,
        "false positives are always worse": lambda steps, **_: order(*steps) >= 0,
        "alike, the index being one": lambda steps, **_: order(*steps) == 0,
        "the other way round": lambda steps, solved, rate, G, weight: by_solve_rate(
            steps[::-1], solved, rate, G, weight
        ),
    },
)
def asymmetry(statement):
    """All groups of verdicts, and kappa, at five solve rates and two rates of errors."""
    points = grid(
        solved=SOLVED, rate=(Fraction(1, 10), Fraction(3, 10)), G=(2, 3, 4, 6), weight=tuple(KINDS_OF_WEIGHTS)
    )
    yield from satisfies(statement, points, lengths, derived=derived_lengths)


# Errors of answers


def with_both(case):
    """The policy and its kinds, where both correct and wrongly accepted answers have mass."""
    return ERRING[case]["policy"], ERRING[case]["right"], ERRING[case]["taken"]


def share_moves(case, G, weight):
    """The first-order change of log(P_H / P_G) over eta, from all groups."""
    policy, right, taken = with_both(case)
    step = expected_direction(policy, taken, G, WEIGHTS[weight])
    hacks = [yes and not correct for yes, correct in zip(taken, right, strict=True)]
    return sum(
        sign * sum(p * d for p, d, member in zip(policy, step, members, strict=True) if member) / mass(policy, members)
        for sign, members in ((1, hacks), (-1, right))
    )


def mean_probabilities(length):
    """kappa (1 - Q_A) times the difference of two lengths, one of the wrongly accepted and one of the correct."""

    def stated(case, G, weight):
        policy, right, taken = with_both(case)
        correct, wrong, _ = squares(policy, right, taken)
        good = mass(policy, right)
        bad = mass(policy, taken) - good
        speed = pull(policy, taken, G, WEIGHTS[weight]) * (1 - mass(policy, taken))
        return speed * (length(wrong, bad) - length(correct, good))

    return stated


@claim(
    "simlab:hacked-share",
    where=ERRING_VERIFIER,
    says="Where a verifier accepts wrong answers, their share among accepted answers grows just where their mean "
    "probability W / P_H exceeds that of the correct ones, C / P_G: under every weight with kappa above 0 and at every "
    "group size, which set the pace alone.",
    formula=r"\mathbb{E}\,\Delta\log\frac{P_H}{P_G} = \eta\,\kappa(Q_A;G)(1-Q_A)\Big(\frac{W}{P_H} - "
    r"\frac{C}{P_G}\Big)",
    refuted_by="a policy, a weight and a group size with another first-order change of the share",
    reading="P_G and P_H are the probabilities of correct and of wrongly accepted answers, C and W their sums of "
    "p^2. Moya, Thornley and Lin (2609.35677, Proposition 3.2 as a public summary quotes it) have the share grow "
    "just where hack bias plus leakage is positive, along the exact gradient flow and without false negatives; for "
    "one softmax with free logits it is this. That what training shows cannot tell hacks from correct answers is "
    "plain here: the step reads which answers are accepted, never which of them are right.",
    caveat="The share may grow while correct mass grows too (simlab:verifier-answers says when it falls).",
    statement=mean_probabilities(lambda squared, total: squared / total),
    planted={
        "the mass decides": mean_probabilities(lambda squared, total: total),
        "the squares decide": mean_probabilities(lambda squared, total: squared),
        "the share stays": mean_probabilities(lambda squared, total: 0),
    },
)
def hacked_share(statement):
    """All groups of two or three, at policies with accepted errors."""
    cases = range(len(ERRING))
    points = grid(case=cases, G=(2,), weight=("psr",))
    points += grid(case=cases[-4:], G=(3,), weight=("dr_grpo", "maxrl", "nsr"))
    yield from equals(statement, points, enumerated=share_moves)


# Signs in balance

SIGN_BALANCE = Weight(lambda s, G: 1, lambda s, G: Fraction(s, G - s) if s < G else 0)


def misplaced_by_both(bank, G, errors):
    """The shares of all positive advantages that SignBalance and GRPO put on wrong rollouts."""
    return number(misplaced(bank, G, SIGN_BALANCE, errors)), number(misplaced(bank, G, GRPO, errors))


@claim(
    "simlab:sign-balance",
    where=ERRING_VERIFIER,
    says="SignBalance puts at most as large a share of positive advantages on wrongly accepted rollouts, such as "
    "guesses, as GRPO does, over any prompts and at every group size, if f + n < 1; within one prompt the two shares "
    "are one.",
    formula=r"A^+ = 1,\ A^- = -n^+/n^-:\quad \frac{m_S}{m_S^{\mathrm{GRPO}}} = \sqrt{\frac{s}{G - s}}\ \text{rises "
    r"in } s",
    refuted_by="prompts, rates of errors and a group size of a larger share",
    reading="A guess that hits is a wrong rollout that the verifier accepts. Beside GRPO the weight favours groups "
    "with many successes, where accepted rollouts are rightly so: simlab:verifier-hard-focus the other way round. "
    "Within a prompt no weight of rewards can tell guesses apart (simlab:verifier-masses). The paper (2609.04063, of "
    "which the abstract and public summaries were read) says that it improves on bounded answers and matches GRPO on "
    "open ones.",
    caveat="Less for hard prompts altogether: what is not learnt by guessing there is not learnt by reasoning either.",
    statement=lambda shares, bank, errors, **_: shares[0] <= shares[1] + mpf("1e-30") if sum(errors) < 1 else None,
    planted={
        "whatever the rates of errors": lambda shares, **_: shares[0] <= shares[1] + mpf("1e-30"),
        "half of GRPO's": lambda shares, errors, **_: shares[0] <= shares[1] / 2 if sum(errors) < 1 else None,
        "no difference": lambda shares, errors, **_: (
            abs(shares[0] - shares[1]) < mpf("1e-30") if sum(errors) < 1 else None
        ),
    },
)
def sign_balance(statement):
    """Four banks of prompts and one prompt alone, from all verdicts on every group."""
    banks = (*BANKS, (Fraction(1, 10),))
    yield from satisfies(statement, grid(bank=banks, G=(2, 3, 5), errors=ERRORS), misplaced_by_both)


# The sharpening tax

RATES = tuple(Fraction(count, 1000) for count in (1, 10, 12, 16, 30, 100, 500, 950))


def scalability(p, K):
    """A(K) of one prompt: the sum over k < K of pass@K - pass@k."""
    missed = 1 - number(p)
    return sum(missed**k - missed**K for k in range(1, K))


def waited(p, K):
    """The same as E[(H - 1) 1{H <= K}], H the first of independent rollouts that succeeds (2610.01509, Prop. 1)."""
    rate = number(p)
    return sum((h - 1) * rate * (1 - rate) ** (h - 1) for h in range(1, K + 1))


def least_gain(p, more, K):
    """The least gain in pass@k over powers of two up to K."""
    return min((1 - number(p)) ** k - (1 - number(more)) ** k for k in (1, 2, 4, 8, 16, 32, 64, 128) if k <= K)


def tax_of_a_rise(p, more, K):
    """The raw tax, the calibrated tax, and the least gain in pass@k, as a prompt comes to be solved more often."""
    raw = scalability(p, K) - scalability(more, K)
    shares = [scalability(rate, K) / ((K - 1) * (1 - number(rate))) for rate in (p, more)]
    return raw, shares[0] - shares[1], least_gain(p, more, K)


def waited_tax(p, more, K):
    """The same by Proposition 1 of the paper."""
    raw = waited(p, K) - waited(more, K)
    shares = [waited(rate, K) / ((K - 1) * (1 - number(rate))) for rate in (p, more)]
    return raw, shares[0] - shares[1], least_gain(p, more, K)


def taxed(least):
    """A statement: from this solve rate on a rise is taxed, and no pass@k falls."""
    return lambda values, p, more, K: (values[0] > 0 and values[1] > 0 and values[2] > 0) if p * K >= least else None


@claim(
    "simlab:tax-without-loss",
    where=COVERAGE,
    says="A sharpening tax needs no loss of coverage: a prompt that was solved in at least 2 of K rollouts on "
    "average pays a positive raw and calibrated tax whenever it comes to be solved more often, while its pass@k "
    "rises at every k.",
    formula=r"A(K) = \sum_{k<K}[(1-p)^k - (1-p)^K] = \mathbb{E}[(H-1)\,1\{H \le K\}]\ \text{falls in } p \ge 2/K",
    refuted_by="a solve rate from 2 / K on whose rise is not taxed",
    reading="A(K) is highest where e^x = 1 + x + x^2, x = K p = 1.79: there retries are worth most. Training that "
    "does its work makes them worth less. Oh et al. (2610.01509) say so: a tax is due to lost coverage or to faster "
    "saturation, and their Table 6 splits it. What is not theirs is to read a positive tax as lost coverage.",
    statement=taxed(2),
    planted={
        "at every solve rate": taxed(0),
        "from one in K on": taxed(1),
        "it costs coverage": lambda values, p, more, K: values[2] < 0 if p * K >= 2 else None,
        "it is a rebate": lambda values, p, more, K: values[0] < 0 if p * K >= 2 else None,
    },
)
def tax_without_loss(statement):
    """Rises between eight solve rates, at three budgets, by the sum and by the wait for a success."""
    points = grid(lambda p, more, K: p < more, p=RATES, more=RATES, K=(8, 32, 128))
    yield from satisfies(statement, points, tax_of_a_rise, derived=waited_tax)


# Table 6 of 2610.01509v1: tasks solved by the base model alone and by the post-trained one alone, in per cent, and the
# raw tax at 128, in the order of the table, for BFCL v4 multi-turn, WebShop and ACEBench.
TABLE_6 = """
8.0 19.5 6.59  4.0 31.0 10.59  4.5 23.0 10.18  10.5 3.5 8.11  5.0 42.5 -1.71  12.5 23.0 6.76  16.0 22.0 6.44
1.5 26.0 -2.09  3.0 41.0 -3.69  6.5 22.5 4.56  17.5 10.5 6.81  1.5 22.5 8.21  6.0 6.5 5.36  4.0 3.5 4.67
10.0 26.6 13.19  29.2 5.8 12.45  34.2 4.6 13.32  33.0 1.4 4.49  3.0 39.2 1.49  28.8 4.6 8.42  11.8 6.0 8.11
5.4 11.0 1.28  21.4 7.0 5.50  26.2 7.4 4.97  23.0 1.0 4.69  11.0 10.0 11.21  7.0 5.2 6.56  12.2 2.4 5.51
5.1 8.7 9.96  7.3 7.0 9.05  8.1 4.5 5.78  6.5 3.8 4.83  7.1 7.3 6.42  5.3 3.9 6.21  3.6 3.0 3.80
16.9 6.2 7.32  17.3 3.1 9.26  13.0 2.7 7.74  9.6 3.1 5.83  8.4 2.1 1.81  4.5 1.7 2.14  2.6 2.5 0.74
"""


def cases_of_table_6():
    """(lost, gained, raw tax) of the 42 pairs of a model and a benchmark."""
    numbers = [float(entry) for entry in TABLE_6.split()]
    return [tuple(numbers[first : first + 3]) for first in range(0, len(numbers), 3)]


def counted(stated):
    """The cases, those with a raw tax, those whose pass@128 falls, and those with a tax whose pass@128 rises."""
    cases = cases_of_table_6()
    counts = {
        "cases": len(cases),
        "with a raw tax": sum(tax > 0 for _, _, tax in cases),
        "whose pass@128 falls": sum(lost > gained for lost, gained, _ in cases),
        "taxed, with a higher pass@128": sum(tax > 0 and gained > lost for lost, gained, tax in cases),
    }
    return [Printed(name, stated[name], number, 0) for name, number in counts.items()]


COUNTS = {"cases": 42, "with a raw tax": 39, "whose pass@128 falls": 26, "taxed, with a higher pass@128": 13}


@claim(
    "simlab:tax-and-coverage",
    where=COVERAGE,
    says="Of the 42 pairs of a model and a benchmark in the paper's Table 6, 39 pay a raw tax at 128 rollouts, and "
    "pass@128 falls in 26: 13 pay a tax and solve more tasks than the base model.",
    refuted_by="another count of the table's rows",
    reading="pass@128 of 128 rollouts is the share of tasks solved at least once, so that it falls where more tasks "
    "are lost than gained. The paper's 36 of 42 is of the calibrated tax, Tax_S(128) > 0 (Section 4), not of lost "
    "coverage. Most rises are on BFCL, in 11 of 14 pairs; on WebShop and ACEBench pass@128 falls in 23 of 28.",
    statement=COUNTS,
    planted={
        "every tax is a loss": COUNTS | {"whose pass@128 falls": 39, "taxed, with a higher pass@128": 0},
        "36 lose coverage": COUNTS | {"whose pass@128 falls": 36},
    },
)
def tax_and_coverage(statement):
    """The table's own rows."""
    yield from arithmetic(counted(statement))
