"""The effect of a weight on the correct mass that its group missed: exactly, to first and to second order."""

from fractions import Fraction

from mpmath import mp

from paper_checks.claim import claim
from paper_checks.evidence import equals, number, satisfies, vanishes
from paper_checks.exact import POLICIES, binomial, expectation, groups, mass, stepped
from paper_checks.laboratory.weights import WEIGHTS, as_weight, cases, direction, focal, masses
from paper_checks.simulated import estimate, simulated_step

BALANCED = ("dr_grpo", "maxrl", "power_alpha")
# Correct mass on one likely action and a rare one, failures spread out; and the other way round.
CONCENTRATED = ((Fraction(1, 2), Fraction(1, 20), *[Fraction(9, 80)] * 4), (True, True, False, False, False, False))
SPREAD = ((Fraction(1, 8), Fraction(1, 20), Fraction(1, 8), Fraction(7, 10)), (True, True, True, False))


def of_a_group(counts, correct):
    """The mask of the correct actions that a group missed."""
    return [right and n == 0 for n, right in zip(counts, correct, strict=True)]


def group_cases(group_sizes, policies, weights):
    """Points: every group of every case that misses a correct action."""
    return [
        point | {"counts": counts}
        for point in cases(group_sizes, policies, weights)
        for _, counts in groups(point["policy"], point["G"])
        if any(of_a_group(counts, point["correct"]))
    ]


def mass_change(step, policy, correct, weight, counts):
    """The change of Q_upos by a group's step, 50 digits."""
    missed = of_a_group(counts, correct)
    after = stepped(policy, direction(counts, policy, correct, WEIGHTS[weight]), step)
    return mass(after, missed) - number(mass(policy, missed))


def two_orders(second):
    """eta sum_U p_i (d_i - mean) + eta^2 / 2 sum_U p_i second(d_i - mean, variance), d = dz / eta, moments over p."""

    def stated(step, policy, correct, weight, counts):
        change = direction(counts, policy, correct, WEIGHTS[weight])
        mean = sum(p * d for p, d in zip(policy, change, strict=True))
        variance = sum(p * (d - mean) ** 2 for p, d in zip(policy, change, strict=True))
        missed = of_a_group(counts, correct)
        first = mass([p * (d - mean) for p, d in zip(policy, change, strict=True)], missed)
        curved = mass([p * second(d - mean, variance) for p, d in zip(policy, change, strict=True)], missed)
        return step * number(first) + step**2 / 2 * number(curved)

    return stated


@claim(
    "simlab:unsampled-mass-second-order",
    where="Beyond the papers, question 3",
    says="To second order the mass of the correct actions that a group missed changes by eta sum_U p_i (d_i - dbar) + "
    "(eta^2 / 2) sum_U p_i ((d_i - dbar)^2 - Var_p(d)), with d = dz / eta and moments under the policy.",
    formula=r"\Delta Q_{\mathrm{u,pos}} = \eta\sum_{i\in U} p_i(d_i-\bar d) + \tfrac{\eta^2}{2}\sum_{i\in "
    r"U}p_i\left[(d_i-\bar d)^2 - \mathrm{Var}_p(d)\right] + O(\eta^3)",
    refuted_by="a weight and a group at which the error does not vanish as eta^3",
    reading="Free logits of one prompt, plain gradient step, any weight, any group; U are the correct actions that the "
    "group missed. Var_p(d) is the variance of d under the policy, all actions together. F-GRPO and BroRL (2510.01180) "
    "have the first order; a search (2026-11) found no second. "
    "Rewards may have any levels.",
    statement=two_orders(lambda gap, variance: gap**2 - variance),
    planted={
        "no variance": two_orders(lambda gap, variance: gap**2),
        "half the variance": two_orders(lambda gap, variance: gap**2 - variance / 2),
    },
)
def second_order(statement):
    """The exact change of every group's step, as the step shrinks."""

    def error(step, G, **group):
        return mass_change(step, **group) - statement(step, **group)

    yield from vanishes(error, group_cases((2, 3), POLICIES[1:3], tuple(WEIGHTS)), order=3, steps=("1e-3", "1e-4"))


def shrunk_by(factor):
    """Q_upos after a step is Q_upos times factor(sum_j p_j exp(dz_j))."""

    def stated(policy, correct, weight, counts, eta):
        change = direction(counts, policy, correct, WEIGHTS[weight])
        normaliser = mp.fsum(number(p) * mp.exp(number(eta * d)) for p, d in zip(policy, change, strict=True))
        return number(mass(policy, of_a_group(counts, correct))) * factor(normaliser)

    return stated


@claim(
    "simlab:unsampled-mass-exact",
    where="Beyond the papers, question 3",
    says="For weights that sum to zero over the group the correct mass that it missed is divided by sum_j p_j "
    "exp(dz_j), at any step size: only the normaliser touches it, the 'direct drift' of F-GRPO's Eq. 10 is nil.",
    formula=r"Q_{\mathrm{u,pos}}' = Q_{\mathrm{u,pos}} \Big/ \sum_j p_j e^{\Delta z_j}",
    refuted_by="a zero-sum weight, a group and a step at which the mass after the step differs",
    reading="Free logits of one prompt, plain gradient steps of zero-sum weights (balanced masses). Success-only and "
    "failure-only weights drift besides. It is softmax arithmetic; a search (2026-11) did not find it said. "
    "Rewards may have any levels.",
    caveat="With shared parameters other prompts move the missed actions too.",
    identity=True,
    statement=shrunk_by(lambda normaliser: 1 / normaliser),
    planted={"first order only": shrunk_by(lambda normaliser: 2 - normaliser)},
)
def exact_shrinkage(statement):
    """The policy after the step, exactly, for every group."""

    def after(policy, correct, weight, counts, eta):
        moved = stepped(policy, direction(counts, policy, correct, WEIGHTS[weight]), number(eta))
        return mass(moved, of_a_group(counts, correct))

    points = [
        {name: value for name, value in point.items() if name != "G"} | {"eta": eta}
        for point in group_cases((2, 3), POLICIES[1:3], BALANCED)
        for eta in (Fraction(1, 10), Fraction(3))
    ]
    yield from equals(statement, points, enumerated=after)


def first_order_terms(policy, correct, counts, weight):
    """The first-order change of Q_upos of one group, over eta."""
    change = direction(counts, policy, correct, weight)
    mean = sum(p * d for p, d in zip(policy, change, strict=True))
    return mass([p * (d - mean) for p, d in zip(policy, change, strict=True)], of_a_group(counts, correct))


def expected_first_order(policy, correct, G, weight):
    """The expectation of the first-order change over eta, from all groups."""
    return expectation(policy, G, lambda counts: first_order_terms(policy, correct, counts, WEIGHTS[weight]))


def simulated_first_order(policy, correct, G, weight):
    """The same from the groups and logit changes of the simulator."""
    steps = simulated_step(policy, correct, G, weight)
    p = steps.before
    gap = steps.logit_change - (steps.logit_change @ p)[:, None]
    missed = [(steps.actions != action).all(axis=1) for action in range(len(policy))]
    terms = [p[action] * gap[:, action] * missed[action] for action, right in enumerate(correct) if right]
    return estimate(sum(terms[1:], terms[0]))


def expected_by(direct):
    """sum_i p_i sum_s Bin(s) (1 - p_i/Q)^s {direct(m_S - m_F, |p|^2 - p_i) - m_S rho_i + m_F nu}."""

    def stated(policy, correct, G, weight):
        q_pos, total = mass(policy, correct), 0
        squares = [p**2 for p in policy]
        nu = mass(squares, [not right for right in correct]) / (1 - q_pos)
        for p, right in zip(policy, correct, strict=True):
            if not right:
                continue
            rho = (mass(squares, correct) - p**2) / (q_pos - p) if q_pos != p else 0
            for s, chance in enumerate(binomial(G, q_pos)):
                success, failure = masses(s, G, WEIGHTS[weight])
                bracket = direct(success - failure, sum(squares) - p) - success * rho + failure * nu
                total += p * chance * (1 - p / q_pos) ** s * bracket
        return total

    return stated


@claim(
    "simlab:unsampled-mass-expected",
    where="Beyond the papers, question 3",
    says="In expectation and to first order a correct action i missed by its group changes by p_i {(m_S - m_F)(|p|^2 - "
    "p_i) - m_S rho_i + m_F nu}, with rho_i and nu the mean probability of a drawn correct action (other than i) and "
    "of a drawn incorrect one.",
    formula=r"\mathbb{E}[\Delta Q_{\mathrm{u,pos}}] = \eta\sum_{i\in P} p_i\sum_s "
    r"\mathrm{Bin}(s;G,Q)\left(1-\tfrac{p_i}{Q}\right)^s\left\{(m_S-m_F)(\|p\|^2-p_i) - m_S\rho_i + m_F\nu\right\}",
    refuted_by="a policy, a group size and a weight at which the mean over all groups differs",
    reading="rho_i = (P_2 - p_i^2) / (Q - p_i), nu = N_2 / (1 - Q), with P_2, N_2 the sums of p^2 over correct and "
    "incorrect actions, and m_S, m_F the masses at s. The first term is the drift of the logit, with its normaliser. "
    "Free logits of one prompt. BroRL (2510.01180) and F-GRPO have the change given the sampled set; a search "
    "(2026-11) did not find its expectation for a weight of reward and solve rate. "
    "It needs two levels of reward.",
    statement=expected_by(lambda net, gap: net * gap),
    planted={
        "no drift": expected_by(lambda net, gap: 0),
        "a sign": expected_by(lambda net, gap: -net * gap),
    },
)
def expected_change(statement):
    """All groups; the simulator's groups and logit changes."""
    yield from equals(
        statement,
        cases((1, 2, 3), (*POLICIES[:3], CONCENTRATED)),
        enumerated=expected_first_order,
        sampled=simulated_first_order,
        sampled_points=cases((3,), POLICIES[1:2], ("psr", "nsr", "maxrl")),
    )


def change_if_missed(policy, correct, G, weight):
    """E[first-order change of p_i; i missed] of the rarest correct action, and its two mean probabilities."""
    rare = min((p, action) for action, (p, right) in enumerate(zip(policy, correct, strict=True)) if right)[1]
    q_pos = mass(policy, correct)
    squares = [p**2 for p in policy]
    rho = (mass(squares, correct) - squares[rare]) / (q_pos - policy[rare])
    nu = mass(squares, [not right for right in correct]) / (1 - q_pos)

    def value(counts):
        change = direction(counts, policy, correct, as_weight(weight))
        mean = sum(p * d for p, d in zip(policy, change, strict=True))
        return 0 if counts[rare] else policy[rare] * (change[rare] - mean)

    return expectation(policy, G, value), rho, nu


@claim(
    "simlab:unsampled-mass-balanced-sign",
    where="Beyond the papers, question 3",
    says="No balanced weight differs from another in whether one missed correct action shrinks: to first order in "
    "expectation it shrinks exactly if the mean probability of a drawn correct action exceeds that of a drawn "
    "incorrect one (rho_i > nu), under Dr. GRPO, MaxRL, Power and Focal weights alike.",
    refuted_by="a balanced weight under which it grows though rho_i > nu, or shrinks though rho_i < nu",
    reading="Free logits of one prompt, weights with m_S = m_F >= 0, not all 0, the rarest correct action. The weights "
    "differ in size only: what Focal weighting protects in expectation it protects by moving less. Groups of one, in "
    "which nothing moves, are left out. A search (2026-11) found nothing of the kind. "
    "It needs two levels of reward.",
    caveat="One action of one prompt. In the sum over several missed actions balanced weights can differ in sign: "
    "simlab:unsampled-mass-balanced-sum.",
    statement=lambda values, **_: (values[0] < 0) == (values[1] > values[2]) and values[0] != 0,
    planted={"it always shrinks": lambda values, **_: values[0] < 0},
)
def balanced_sign(statement):
    """All groups, at policies with concentrated and with spread correct mass."""
    points = cases((2, 3, 4), (*POLICIES[1:3], CONCENTRATED, SPREAD), (*BALANCED, focal(1), focal(2)))
    yield from satisfies(statement, points, change_if_missed)


# A likely and a rare correct action beside failures: the likely one gains where it is missed, the rare one loses.
LIKELY_AND_RARE = (
    ((Fraction(2, 5), Fraction(1, 20), Fraction(11, 40), Fraction(11, 40)), (True, True, False, False)),
    ((Fraction(1, 2), Fraction(1, 20), Fraction(81, 200), Fraction(9, 200)), (True, True, False, False)),
)


def changes_in_sum(policy, correct, G):
    """E[first-order change of Q_upos] over eta under Dr. GRPO and under MaxRL, from all groups."""
    return tuple(expected_first_order(policy, correct, G, weight) for weight in ("dr_grpo", "maxrl"))


def derived_sum(policy, correct, G):
    """The same by the formula of simlab:unsampled-mass-expected."""
    by_s = expected_by(lambda net, gap: net * gap)
    return tuple(by_s(policy, correct, G, weight) for weight in ("dr_grpo", "maxrl"))


@claim(
    "simlab:unsampled-mass-balanced-sum",
    where="Beyond the papers, question 3",
    says="In the sum over all missed correct actions balanced weights can differ in sign: at two small prompts with a "
    "likely and a rare correct action Dr. GRPO lowers the unsampled-correct mass in expectation, to first order, and "
    "MaxRL raises it.",
    refuted_by="one of the two prompts at which both change it in the same direction",
    reading="Groups of four, free logits, plain gradient. Each missed action has the one sign of "
    "simlab:unsampled-mass-balanced-sign, but a group of few successes misses other actions than one of many, and "
    "weights differ in how they weigh these groups: MaxRL favours few successes. A search (2026-11) found nothing of "
    "the kind. "
    "It needs two levels of reward.",
    caveat="Two prompts chosen for it. At the start of F-GRPO's simulation all balanced weights lower the mass "
    "(simlab:unsampled-mass-each-estimator).",
    statement=lambda plain, weighted: plain < 0 < weighted,
    planted={
        "one sign for all": lambda plain, weighted: plain * weighted > 0,
        "the other way": lambda plain, weighted: weighted < 0 < plain,
    },
)
def balanced_sum(statement):
    """All groups, against the formula."""
    points = [{"policy": policy, "correct": correct, "G": 4} for policy, correct in LIKELY_AND_RARE]
    yield from satisfies(lambda changes, **_: statement(*changes), points, changes_in_sum, derived=derived_sum)


@claim(
    "simlab:raised-logit-lower-probability",
    where="Beyond the papers, question 3",
    says="A failure-biased weight raises the logit of every action its group missed and can all the same lower its "
    "probability: learning from failures alone, a missed action's probability rises to first order exactly if nu + p_i "
    "> |p|^2, nu the mean probability of the drawn incorrect actions.",
    formula=r"\Delta \log p_i = \eta\, m_F\,(\nu + p_i - \|p\|^2)",
    refuted_by="a group at which the sign differs from that of nu + p_i - |p|^2",
    reading="NSR, one group, free logits, nu the mean over its failures. Where one correct action is likely and the "
    "failures are many and rare, |p|^2 exceeds nu: penalising failures then feeds the likely action, not the missed "
    "ones. Ren and Sutherland (2407.10490) call this the squeezing effect of negative gradients; Zhu et al. "
    "(2506.01347) describe how NSR redistributes probability. A search (2026-11) did not find the threshold. "
    "It needs two levels of reward.",
    statement=lambda change, nu, p, second: change == nu + p - second,
    planted={"a rising logit is a rising probability": lambda change, nu, p, second: change > 0},
)
def raised_logit(statement):
    """Every group that misses a correct action, at policies with concentrated and with spread correct mass."""
    points = group_cases((2, 3), (POLICIES[1], CONCENTRATED), ("nsr",))

    def holds(terms, **_):
        return None if terms is None else statement(*terms)

    def terms(policy, correct, G, weight, counts):
        failures = sum(n for n, right in zip(counts, correct, strict=True) if not right)
        if failures == 0:
            return None
        change = direction(counts, policy, correct, WEIGHTS[weight])
        missed = next(action for action, member in enumerate(of_a_group(counts, correct)) if member)
        mean = sum(p * d for p, d in zip(policy, change, strict=True))
        drawn = [n * p for n, p, right in zip(counts, policy, correct, strict=True) if not right]
        relative = (change[missed] - mean) / Fraction(failures, G)
        return relative, sum(drawn) / Fraction(failures), policy[missed], sum(p**2 for p in policy)

    yield from satisfies(holds, points, terms)


def curvature(policy, correct, G, weight, counts):
    """The second-order term of Q_upos over Q_upos, twice; the group's distinct mass."""
    change = direction(counts, policy, correct, WEIGHTS[weight])
    mean = sum(p * d for p, d in zip(policy, change, strict=True))
    variance = sum(p * (d - mean) ** 2 for p, d in zip(policy, change, strict=True))
    return mean**2 - variance, sum(p for p, n in zip(policy, counts, strict=True) if n)


@claim(
    "simlab:second-order-shrinks",
    where="Beyond the papers, question 3",
    says="Under a zero-sum weight the second-order term takes mass away from what the group missed whenever the drawn "
    "actions hold less than half of the probability.",
    refuted_by="a group of less than half the mass whose second-order term is positive",
    reading="The term is proportional to dbar^2 - Var_p(d) = 2 dbar^2 - E_p[d^2], and dbar^2 <= (drawn mass) E_p[d^2] "
    "by Cauchy and Schwarz, since missed actions have d = 0. Groups that do not move (all rewards equal) are left out. "
    "Free logits of one prompt. Beyond half of the mass the term can give: simlab:unsampled-mass-noise-gives. A search "
    "(2026-11) found nothing on this term. "
    "Rewards may have any levels.",
    statement=lambda values, **_: None if values[0] == 0 or values[1] >= Fraction(1, 2) else values[0] < 0,
    planted={"whatever the group": lambda values, **_: None if values[0] == 0 else values[0] < 0},
)
def second_order_shrinks(statement):
    """Every group of small policies under balanced weights."""
    rare = ((Fraction(9, 20), Fraction(1, 20), Fraction(1, 20), Fraction(9, 20)), (True, True, True, False))
    points = group_cases((2, 3), (*POLICIES[1:3], CONCENTRATED, SPREAD, rare), BALANCED)
    yield from satisfies(statement, points, curvature)
