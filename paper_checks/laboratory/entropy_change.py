"""The weights for which one step lowers the entropy, in expectation."""

from fractions import Fraction

from mpmath import mp, mpf

from paper_checks.claim import claim
from paper_checks.evidence import equals, number, satisfies, vanishes
from paper_checks.exact import POLICIES, entropy, groups, stepped
from paper_checks.laboratory.weights import (
    WEIGHTS,
    as_weight,
    cases,
    direction,
    expected_direction,
    focal,
    mass_gradient,
    pull,
)
from paper_checks.simulated import estimate, simulated_step

# A likely failure and a likely success among others: the first gains entropy by learning, the second loses it.
WRONG_PEAK = ((Fraction(1, 5), Fraction(1, 10), Fraction(3, 5), Fraction(1, 10)), (True, True, False, False))
RIGHT_PEAK = ((Fraction(3, 5), Fraction(1, 10), Fraction(1, 5), Fraction(1, 10)), (True, True, False, False))

# Learning raises the entropy here (K < 0): likely failures, of two to four actions, easy and hard.
RISING = (
    POLICIES[0],
    ((Fraction(1, 4), Fraction(3, 4)), (True, False)),
    ((Fraction(1, 10), Fraction(9, 10)), (True, False)),
    ((Fraction(2, 15), Fraction(1, 3), Fraction(8, 15)), (True, True, False)),
    ((Fraction(6, 25), Fraction(29, 50), Fraction(9, 50)), (True, False, False)),
    WRONG_PEAK,
    ((Fraction(11, 50), Fraction(37, 100), Fraction(1, 20), Fraction(9, 25)), (True, True, False, False)),
)


def entropy_pull(policy, correct):
    """K = sum p_a^2 (1[a correct] - Q)(log p_a + H): minus the slope of the entropy along grad Q."""
    total = entropy(policy)
    return mp.fsum(
        number(p * slope) * (mp.log(number(p)) + total)
        for p, slope in zip(policy, mass_gradient(policy, correct), strict=True)
    )


def entropy_slope(policy, correct, G, weight):
    """The first-order change of the entropy over eta, in expectation over all groups: -sum p_a dz_a (log p_a + H)."""
    total = entropy(policy)
    change = expected_direction(policy, correct, G, as_weight(weight))
    return -mp.fsum(number(p) * number(d) * (mp.log(number(p)) + total) for p, d in zip(policy, change, strict=True))


def covariance_slope(policy, correct, G, weight):
    """The same as -Cov_p(log p, d) of each group, averaged."""
    logs = [mp.log(number(p)) for p in policy]

    def covariance(counts):
        change = [number(d) for d in direction(counts, policy, correct, WEIGHTS[weight])]
        means = [mp.fsum(number(p) * value for p, value in zip(policy, row, strict=True)) for row in (logs, change)]
        product = mp.fsum(number(p) * log * d for p, log, d in zip(policy, logs, change, strict=True))
        return product - means[0] * means[1]

    return -mp.fsum(number(chance) * covariance(counts) for chance, counts in groups(policy, G))


def simulated_slope(policy, correct, G, weight):
    """The mean over the simulator's seeds of the first-order change of the entropy."""
    steps = simulated_step(policy, correct, G, weight)
    scores = steps.before * ([float(mp.log(number(p)) + entropy(policy)) for p in policy])
    return estimate(-(steps.logit_change @ scores))


def slope_by(factor):
    """E[dH] / eta = -kappa K, times a factor."""

    def stated(policy, correct, G, weight):
        return -factor * number(pull(policy, correct, G, WEIGHTS[weight])) * entropy_pull(policy, correct)

    return stated


@claim(
    "simlab:expected-entropy-change",
    where="Beyond the papers, question 4",
    says="At one prompt the expected first-order entropy change of any weight of reward and solve rate is -eta kappa "
    "K, with K = sum p_a^2 (1[a correct] - Q)(log p_a + H) a number of the policy alone.",
    formula=r"\mathbb{E}[\Delta H] = -\eta\,\kappa\,K,\quad K=\sum_a p_a^2(\mathbf{1}[a\in P]-Q)(\log p_a + H)",
    refuted_by="a policy, a group size and a weight with another expected change",
    reading="Free logits, plain gradient step, kappa = M_S / Q + M_F / (1 - Q) as in simlab:expected-update. It is the "
    "covariance identity of Cui et al. (2505.22617), at the expected step; with a natural gradient p_a^2 becomes p_a, "
    "and K another number. "
    "It needs two levels of reward.",
    caveat="One prompt. Over several prompts the terms add up, each with its own kappa and K: "
    "simlab:entropy-over-prompts.",
    statement=slope_by(1),
    planted={"a sign": slope_by(-1), "a factor": slope_by(2)},
)
def expected_entropy_change(statement):
    """The expected update into the entropy's gradient; the covariance identity group by group; the simulator."""
    yield from equals(
        statement,
        cases((1, 2, 3), (*POLICIES[:3], WRONG_PEAK)),
        derived=covariance_slope,
        enumerated=entropy_slope,
        sampled=simulated_slope,
        sampled_points=cases((3,), POLICIES[1:2], ("psr", "nsr", "maxrl")),
    )


@claim(
    "simlab:entropy-sign",
    where="Beyond the papers, question 4",
    says="For which weights does the expected entropy of one prompt fall? To first order for all or for none: the sign "
    "of the change is that of -K, whichever weight with masses of no negative sign is chosen, biased to failures or to "
    "successes, to the hard or to the easy.",
    refuted_by="two weights that change the entropy of one policy in opposite directions, in expectation and to first "
    "order",
    reading="Free logits, plain gradient, in expectation over groups; both signs of K occur. Cui et al. (2505.22617) "
    "have the covariance that decides; a search (2026-11) found nobody who says that no weight turns it. That failure "
    "bias raises the entropy of a prompt, or lowers it, is then a statement about noise, steps of finite size, shared "
    "features or optimisers. A user of Zhu et al.'s code (RLVR-Decomposed, issue 6) reports that its failures alone "
    "raise the entropy only with clipping and off-policy batches; the authors answer that they compare under equal "
    "settings. "
    "It needs two levels of reward.",
    caveat="One prompt. Averaged over prompts the weight can turn the sign: simlab:entropy-over-prompts.",
    statement=lambda pair, **_: pair[0] * pair[1] < 0,
    planted={
        "learning always lowers it": lambda pair, **_: pair[0] < 0,
        "failure bias raises it": lambda pair, weight, **_: (pair[0] > 0) == (weight in ("nsr", "w_reinforce")),
    },
)
def entropy_sign(statement):
    """The enumerated change of every weight at policies of both signs."""
    points = cases((2, 3), (*POLICIES[1:], RIGHT_PEAK, *RISING))
    yield from satisfies(
        statement,
        points,
        lambda policy, correct, G, weight: (entropy_slope(policy, correct, G, weight), entropy_pull(policy, correct)),
    )


def expected_change(step, policy, correct, G, weight):
    """E[H after - H before] of one step, exactly, over all groups."""
    before = entropy(policy)
    return mp.fsum(
        number(chance) * (entropy(stepped(policy, direction(counts, policy, correct, weight), step)) - before)
        for chance, counts in groups(policy, G)
    )


def noise_term(policy, correct, G, weight):
    """S, the expectation of d' (Hessian of H in the logits) d."""
    total = entropy(policy)
    surprise = [mp.log(number(p)) + total for p in policy]

    def curvature(counts):
        change = [number(d) for d in direction(counts, policy, correct, weight)]
        mean = mp.fsum(number(p) * d for p, d in zip(policy, change, strict=True))
        centred = [d - mean for d in change]
        # p(t) = p + t p c + t^2/2 p (c^2 - Var) and H'' = -sum p'' log p - sum p'^2 / p
        variance = mp.fsum(number(p) * c**2 for p, c in zip(policy, centred, strict=True))
        bent = mp.fsum(number(p) * (c**2 - variance) * g for p, c, g in zip(policy, centred, surprise, strict=True))
        return -bent - variance

    return mp.fsum(number(chance) * curvature(counts) for chance, counts in groups(policy, G))


@claim(
    "simlab:entropy-second-order",
    where="Beyond the papers, question 4",
    says="At one prompt and to second order the expected entropy change is -eta kappa K + (eta^2 / 2) S, with S = "
    "-E[sum_a p_a (c_a^2 - Var)(log p_a + H) + Var], c_a = d_a - dbar: the noise of the group enters here, and with it "
    "the weight's shape.",
    formula=r"\mathbb{E}[\Delta H] = -\eta\kappa K - \tfrac{\eta^2}{2}\,\mathbb{E}\left[\mathrm{Var}_p(d) + \sum_a "
    r"p_a\left((d_a-\bar d)^2 - \mathrm{Var}_p(d)\right)(\log p_a + H)\right] + O(\eta^3)",
    refuted_by="a policy and a weight at which the error does not vanish as eta^3",
    reading="Free logits, plain gradient step; moments under the policy, the outer mean over groups. A search "
    "(2026-11) found first-order expansions (Cui et al., 2505.22617, and later work), and no term of second order. "
    "It needs two levels of reward.",
    statement=1,
    planted={"no factor 1/2": 2, "without noise": 0},
)
def entropy_second_order(statement):
    """The exact expected change over all groups, as the step shrinks."""

    def error(step, policy, correct, G, gamma):
        weight = focal(gamma)
        first = -number(pull(policy, correct, G, weight)) * entropy_pull(policy, correct)
        second = noise_term(policy, correct, G, weight) * statement / 2
        return expected_change(step, policy, correct, G, weight) - step * first - step**2 * second

    points = [
        {"policy": policy, "correct": correct, "G": 3, "gamma": gamma}
        for policy, correct in (POLICIES[1], RIGHT_PEAK, WRONG_PEAK)
        for gamma in (0, 1)
    ]
    yield from vanishes(error, points, order=3, steps=("1e-4", "1e-5"))


@claim(
    "simlab:focal-entropy-first-order",
    where="Beyond the papers, question 4",
    says="Where does Focal weighting change the sign of one prompt's expected entropy change? To first order nowhere: "
    "it multiplies kappa by a positive number, and the change by the same number.",
    refuted_by="a policy at which the first-order changes with and without Focal weighting differ in sign, or not by "
    "the ratio of their kappa",
    reading="(1 - s/G)^gamma over Dr. GRPO, plain gradient, in expectation. Of finite steps see "
    "simlab:focal-entropy-sign. It follows from simlab:expected-entropy-change; a search (2026-11) found nobody who "
    "asks. "
    "It needs two levels of reward.",
    caveat="One prompt. Averaged over prompts Focal weighting can turn the sign: simlab:focal-entropy-over-prompts.",
    statement=lambda slopes, ratio, **_: slopes[1] == slopes[0] * ratio and 0 < ratio < 1,
    planted={"it turns the sign": lambda slopes, ratio, **_: slopes[0] * slopes[1] < 0},
)
def focal_first_order(statement):
    """The expected update over all groups, with and without the weight, into the entropy's gradient."""

    def expected(policy, correct, G, gamma):
        return expected_direction(policy, correct, G, focal(gamma))

    def comparison(policy, correct, G, gamma):
        plain, weighted = expected(policy, correct, G, 0), expected(policy, correct, G, gamma)
        return plain, weighted, pull(policy, correct, G, focal(gamma)) / pull(policy, correct, G, focal(0))

    def holds(values, **_):
        plain, weighted, ratio = values
        return all(statement((entry, other), ratio) for entry, other in zip(plain, weighted, strict=True))

    points = [
        {"policy": policy, "correct": correct, "G": size, "gamma": gamma}
        for policy, correct in (*POLICIES[1:], RIGHT_PEAK, *RISING)
        for size in (2, 3, 4)
        for gamma in (1, 2)
    ]
    yield from satisfies(holds, points, comparison)


def turning_step(change):
    """The step at which an expected change turns from positive to negative, by doubling and bisection."""
    high = mpf("0.01")
    while change(high) > 0:
        high *= 2
    low = high / 2
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (middle, high) if change(middle) > 0 else (low, middle)
    return low


def opposite_changes(policy, correct, G):
    """At steps from far below the two turning steps to beyond both: the changes, plain and Focal, of opposite signs."""

    def change(gamma):
        return lambda step: expected_change(step, policy, correct, G, focal(gamma))

    plain, weighted = change(0), change(1)
    turns = sorted(turning_step(each) for each in (plain, weighted))
    steps = [turns[0] / 10, turns[0] * mpf("0.9"), sum(turns) / 2, turns[1] * mpf("1.1"), turns[1] * 2]
    pairs = [(plain(step), weighted(step)) for step in steps]
    return [pair for pair in pairs if pair[0] * pair[1] < 0]


@claim(
    "simlab:focal-entropy-sign",
    where="Beyond the papers, question 4",
    says="At seven prompts where learning would raise the entropy (K < 0) and the noise of the group lowers it, steps "
    "of finite size let Focal weighting change the sign: between two steps the plain weight lowers the expected "
    "entropy and the Focal weight raises it, and never the other way round.",
    formula=r"\mathbb{E}[\Delta H]_{\gamma=0}<0<\mathbb{E}[\Delta H]_{\gamma=1}\quad\text{for } "
    r"\eta_0<\eta<\eta_1",
    refuted_by="one of these prompts without a step at which the two expected changes have opposite signs, or with one "
    "at which Focal alone lowers the entropy",
    reading="Dr. GRPO with gamma 0 and 1, G = 2 and 4, policies of two to four actions, all groups. By the second "
    "order the sign turns at about eta = 2 kappa |K| / |S|: Focal weighting shrinks kappa once and the noise S twice. "
    "A search (2026-11) found nothing of the kind. "
    "It needs two levels of reward.",
    caveat="The steps are large for a plain gradient (.3 to 18 here); the order of the two thresholds is what is "
    "claimed, at these prompts, not their size.",
    statement=lambda plain, weighted: plain < 0 < weighted,
    planted={
        "the other way": lambda plain, weighted: weighted < 0 < plain,
    },
)
def focal_sign(statement):
    """The exact expected change over all groups, below, between and beyond the steps at which each turns."""
    yield from satisfies(
        lambda slopes, **_: slopes < 0,
        [{"policy": policy, "correct": correct} for policy, correct in RISING],
        entropy_pull,
        method="numerical",
    )
    yield from satisfies(
        lambda pairs, **_: len(pairs) > 0 and all(statement(*pair) for pair in pairs),
        [{"policy": policy, "correct": correct, "G": size} for policy, correct in RISING for size in (2, 4)],
        opposite_changes,
    )
