"""The effect of an erring verifier on a weight: where advantages land, the expected step, and what corrections give.

A wrong rollout is accepted with probability f, a correct one rejected with n. At a solve rate Q it accepts q = f + J Q,
J = 1 - f - n. In enumerations an action is split into two, one that is accepted and one that is rejected.
"""

import itertools
from fractions import Fraction

import sympy

from paper_checks.claim import claim
from paper_checks.evidence import TOLERANCE, equals, grid, number, satisfies
from paper_checks.exact import POLICIES, binomial, groups, mass, score_gradient
from paper_checks.laboratory.expected_update import arbitrary_weight
from paper_checks.laboratory.weights import (
    WEIGHTS,
    as_weight,
    balanced,
    cases,
    coefficients,
    expected_direction,
    expected_masses,
    mass_gradient,
    masses,
    pull,
)
from paper_checks.simulated import estimate, simulated_step

WHERE = "Beyond the papers, verifiers that err"
ERRORS = (
    (Fraction(1, 10), Fraction(1, 5)),
    (Fraction(1, 3), Fraction(0)),
    (Fraction(3, 4), Fraction(1, 2)),
)  # f, n; J < 0 last
RATE, FALSE_YES, FALSE_NO = sympy.symbols("rate f n", positive=True)


def split(policy, correct, errors):
    """The policy over pairs of an action and a verdict, all accepted ones first."""
    wrongly, missed = errors
    yes = [p * (1 - missed if right else wrongly) for p, right in zip(policy, correct, strict=True)]
    return (*yes, *(p - chance for p, chance in zip(policy, yes, strict=True)))


def accepted(q_pos, errors):
    """Q after the verifier: f + (1 - f - n) Q."""
    return errors[0] + (1 - sum(errors)) * q_pos


def landed(policy, correct, G, weight, errors):
    """E[(1/G) sum of A] over the rollouts of each action, accepted and rejected apart, from all groups."""
    pairs, yes = split(policy, correct, errors), (True,) * len(policy) + (False,) * len(policy)
    total = [Fraction(0)] * len(pairs)
    for chance, counts in groups(pairs, G):
        row = coefficients(counts, yes, as_weight(weight))
        total = [sum_ + chance * c for sum_, c in zip(total, row, strict=True)]
    return total


def one_of_the_group(policy, correct, G, weight, errors):
    """The same by linearity: one rollout and its verdict, and the number of accepted ones among the other G - 1."""
    weight = as_weight(weight)
    others = list(enumerate(binomial(G - 1, accepted(mass(policy, correct), errors))))
    yes = sum(chance * weight.success(s + 1, G) for s, chance in others)
    no = sum(chance * -weight.failure(s, G) for s, chance in others)
    pairs = split(policy, correct, errors)
    return [p * (yes if index < len(policy) else no) for index, p in enumerate(pairs)]


# Advantages by action and verdict


def four(by_action, correct):
    """The sums over rightly and wrongly accepted, rightly and wrongly rejected rollouts."""
    half, wrong = len(correct), tuple(not right for right in correct)
    yes, no = by_action[:half], by_action[half:]
    return mass(yes, correct), mass(yes, wrong), mass(no, wrong), mass(no, correct)


def masses_by(share_of_wrong):
    """The four masses from M_S(q) and M_F(q), a share of either being that of the errors."""

    def stated(policy, correct, G, weight, errors):
        q_pos = mass(policy, correct)
        rate = accepted(q_pos, errors)
        weight = as_weight(weight)
        pairs = [masses(s, G, weight) for s in range(G + 1)]
        success, failure = (
            sum(chance * pair[axis] for chance, pair in zip(binomial(G, rate), pairs, strict=True)) for axis in (0, 1)
        )
        yes = share_of_wrong((1 - q_pos) * errors[0], rate, q_pos)
        no = share_of_wrong(q_pos * errors[1], 1 - rate, 1 - q_pos)
        return success * (1 - yes), success * yes, -failure * (1 - no), -failure * no

    return stated


JUDGED = [
    case | {"errors": errors}
    for case in cases((1, 2, 3), POLICIES[:2], ("psr", "nsr", "dr_grpo", "maxrl"))
    for errors in ERRORS
]
JUDGED_SYMBOLS = [
    {"policy": (RATE, 1 - RATE), "correct": (True, False), "errors": (FALSE_YES, FALSE_NO)}
    | {"G": size, "weight": arbitrary_weight(size)}
    for size in (1, 2)
]


@claim(
    "simlab:verifier-masses",
    where=WHERE,
    says="Of one prompt, wrong rollouts get the share (1 - Q) f / q of all advantage that accepted rollouts get, and "
    "correct ones the share Q n / (1 - q) of what rejected ones get, under every weight and at every group size.",
    formula=r"\mathbb{E}\Big[\tfrac1G\sum_{i\ \mathrm{wrong,\ accepted}}A_i\Big] = \frac{(1-Q)f}{q}M_S(q),\qquad q = f "
    r"+ (1-f-n)Q",
    refuted_by="a weight, a group size and rates of errors at which another share lands on wrong rollouts",
    reading="Each rollout is misjudged by itself, and a weight knows the verdicts of its group alone. M_S and M_F are "
    "the masses at the rate q at which the verifier accepts. "
    "It needs two levels of reward.",
    caveat="Over prompts of different difficulty the weight does matter (simlab:verifier-hard-focus).",
    statement=masses_by(lambda errors, rate, share: errors / rate),
    planted={
        "the rate of errors itself": masses_by(lambda errors, rate, share: errors),
        "errors beside the true rate": masses_by(lambda errors, rate, share: errors / (errors + share)),
    },
)
def where_advantages_land(statement):
    """All groups of actions and verdicts; linearity, with a weight and rates of symbols."""

    def by(way):
        return lambda correct, **point: four(way(correct=correct, **point), correct)

    yield from equals(
        statement, JUDGED, derived=by(one_of_the_group), enumerated=by(landed), symbolic_points=JUDGED_SYMBOLS
    )


# Speed of learning


def step_by(way):
    """E[dz] / eta, from what lands on each action."""

    def step(policy, **point):
        both, half = way(policy=policy, **point), len(policy)
        return tuple(score_gradient(policy, [yes + no for yes, no in zip(both[:half], both[half:], strict=True)]))

    return step


def along(factor):
    """The factor times grad Q."""

    def stated(policy, correct, G, weight, errors):
        q_pos = mass(policy, correct)
        pair, weight = (lambda rate: ((rate, 1 - rate), (True, False))), as_weight(weight)
        length = factor(lambda rate: pull(*pair(rate), G, weight), q_pos, errors)
        return tuple(length * slope for slope in mass_gradient(policy, correct))

    return stated


def simulated_judged_step(policy, correct, G, weight, errors):
    """The mean logit change of the simulator's first step, its verifier erring."""
    steps = simulated_step(policy, correct, G, weight, error_rates=tuple(map(float, errors)))
    return [estimate(steps.logit_change[:, action]) for action in range(len(policy))]


@claim(
    "simlab:verifier-speed",
    where=WHERE,
    says="Under a verifier whose errors are of rollouts, the expected step of every weight is (1 - f - n) kappa(q) "
    "grad Q at every group size: errors change its length, and its direction only if f + n is above 1.",
    formula=r"\mathbb{E}[\Delta\theta] = \eta\,(1-f-n)\,\kappa(q;G)\,\nabla_\theta Q,\qquad q = f + (1-f-n)Q",
    refuted_by="a weight, a group size and rates of errors with another expected step",
    reading="One prompt, plain gradient, on policy, each rollout misjudged by itself. It is simlab:expected-update "
    "for the verifier's own rate of acceptance, whose gradient is that of Q times Youden's index. Rad et al. "
    "(2601.04411) have the index as what decides between learning and its opposite, for GRPO and in a mean field; "
    "here it is exact, for any weight, with the length. A hard-focused weight loses its focus: kappa is read at q, "
    "which is at least f. "
    "It needs two levels of reward.",
    caveat="An expectation: the noise of a step does not shrink with its signal. Where errors belong to answers the "
    "index decides nothing (simlab:verifier-answers).",
    statement=along(lambda speed, q_pos, errors: (1 - sum(errors)) * speed(accepted(q_pos, errors))),
    planted={
        "the speed at the true rate": along(lambda speed, q_pos, errors: (1 - sum(errors)) * speed(q_pos)),
        "no index": along(lambda speed, q_pos, errors: speed(accepted(q_pos, errors))),
        "false positives alone": along(lambda speed, q_pos, errors: (1 - errors[0]) * speed(accepted(q_pos, errors))),
    },
)
def judged_speed(statement):
    """All groups of actions and verdicts; linearity, with symbols too; the simulator's first step."""
    sampled = [
        case | {"errors": errors} for case in cases((3,), POLICIES[1:2], ("psr", "maxrl")) for errors in ERRORS[::2]
    ]
    yield from equals(
        statement,
        JUDGED,
        derived=step_by(one_of_the_group),
        enumerated=step_by(landed),
        symbolic_points=JUDGED_SYMBOLS,
        sampled=simulated_judged_step,
        sampled_points=sampled,
    )


# Over prompts of different difficulty

BANKS = (
    (Fraction(1, 100), Fraction(1, 2)),
    (Fraction(0), Fraction(1, 5), Fraction(9, 10)),
    (Fraction(1, 1000), Fraction(1, 20), Fraction(1, 3), Fraction(2, 3)),
    (Fraction(1, 50), Fraction(1, 10), Fraction(1, 4)),
)
EASY = balanced(lambda p: p)  # the twin of power_alpha for easy prompts
GRPO = balanced(lambda p: 1 / number(p * (1 - p)) ** number(Fraction(1, 2)))


def misplaced(bank, G, weight, errors):
    """The share of the advantages of accepted rollouts that wrong ones get, prompt by prompt from all verdicts."""
    wrong = right = 0
    for q_pos in bank:
        by_action = landed((q_pos, 1 - q_pos), (True, False), G, weight, errors)
        right, wrong = right + by_action[0], wrong + by_action[1]
    return wrong / (wrong + right)


def with_focus(weight, gamma):
    """A weight times (1 - s/G)^gamma."""
    weight, focus = as_weight(weight), lambda s, G: (1 - Fraction(s, G)) ** gamma
    return weight._replace(
        success=lambda s, G: focus(s, G) * weight.success(s, G), failure=lambda s, G: focus(s, G) * weight.failure(s, G)
    )


def with_and_without_focus(bank, G, weight, errors, gamma):
    """The shares that a focal weight and its base misplace."""
    return misplaced(bank, G, with_focus(weight, gamma), errors), misplaced(bank, G, weight, errors)


@claim(
    "simlab:verifier-hard-focus",
    where=WHERE,
    says="Hard focus amplifies false positives: a weight times any falling function of the number of accepted "
    "rollouts puts at least as large a share of its positive advantages on wrong rollouts as the weight itself, over "
    "any prompts and at every group size, if f + n < 1.",
    formula=r"\frac{\sum_i c_i M_S(q_i)\,h_i}{\sum_i M_S(q_i)\,h_i}\ \ge\ \frac{\sum_i c_i M_S(q_i)}{\sum_i M_S(q_i)},"
    r"\quad c_i = \frac{(1-Q_i) f}{q_i},\ h_i = \frac{\mathbb{E}[h(s)\,m_S(s)]}{\mathbb{E}[m_S(s)]}",
    refuted_by="prompts, a weight and a focal factor of a smaller share, at f + n < 1",
    reading="Of weights whose masses on accepted rollouts are never negative. Proof: c falls in Q, and so in q. The "
    "law of s weighed by m_S(s) has a monotone likelihood ratio in q, so that h_i falls in q too, and Chebyshev's "
    "inequality for sums does the rest. F-GRPO's (1 - s/G)^gamma is such a factor, and so is MaxRL's 1/s beside mean "
    "GRPO. Above f + n = 1 it is the other way round. It needs two levels of reward.",
    caveat="A share of advantages, which in expectation still push the right way (simlab:verifier-speed): it is noise "
    "where errors are of rollouts, and harm where they are of answers.",
    statement=lambda shares, errors, **_: shares[0] >= shares[1] if sum(errors) < 1 else None,
    planted={
        "whatever the rates of errors": lambda shares, **_: shares[0] >= shares[1],
        "it makes no difference": lambda shares, errors, **_: shares[0] == shares[1] if sum(errors) < 1 else None,
        "it protects": lambda shares, errors, **_: shares[0] <= shares[1] if sum(errors) < 1 else None,
    },
)
def hard_focus(statement):
    """Four banks of prompts, from all verdicts on every group."""
    points = grid(bank=BANKS, G=(2, 3, 5), weight=("psr", "dr_grpo", "maxrl"), errors=ERRORS, gamma=(1, 2))
    yield from satisfies(statement, points, with_and_without_focus)


BY_GROUP_SIZE = {"psr": 0, "dr_grpo": 0, "grpo": 1, "maxrl": 1, "power_alpha": 1, "easy_power": -1}
LISTED = {"grpo": GRPO, "easy_power": EASY}


RATES = tuple(Fraction(n, 20) for n in range(1, 20))


def growing(bank, weight, errors):
    """The shares that a weight misplaces at G = 2, 3, 5 and 9."""
    return tuple(number(misplaced(bank, G, LISTED.get(weight, weight), errors)) for G in (2, 3, 5, 9))


def moves(shares, sign):
    """Return whether the shares never fall and end higher, never rise and end lower, or are the same."""
    steps = [after - before for before, after in itertools.pairwise(shares)]
    if sign == 0:
        return all(abs(step) < TOLERANCE for step in steps)
    return all(sign * step > -TOLERANCE for step in steps) and sign * sum(steps) > TOLERANCE


def by_weight(shares, bank, weight, errors):
    """Return whether the shares move as the weight's focus says; None for GRPO at a prompt accepted too often."""
    if weight == "grpo" and max(accepted(q_pos, errors) for q_pos in bank) > Fraction(1, 2):
        return None
    return moves(shares, BY_GROUP_SIZE[weight])


@claim(
    "simlab:verifier-group-size",
    where=WHERE,
    says="Larger groups never put a smaller share of the positive advantages on wrong rollouts under MaxRL and "
    "Power-alpha, and a larger one in the end; so it is under GRPO where the verifier accepts at most half of every "
    "prompt's rollouts. Under Power-alpha's twin for easy prompts it is the other way round, and under mean GRPO and "
    "PSR G does not matter.",
    refuted_by="a bank of prompts, one of these weights and two group sizes whose shares are otherwise",
    reading="G = 2, 3, 5 and 9 on four banks, f + n < 1; for all banks, where M_S(q; larger G) / M_S(q; G) falls in q "
    "on a grid, by the inequality that simlab:verifier-hard-focus uses. GRPO's standard deviation favours both ends, "
    "rare acceptance and rare rejection: where easy prompts are at the other end, larger groups favour them too. Mean "
    "GRPO's M_S is (1 - 1/G) q (1 - q) and PSR's q, so that G is a factor of all prompts alike. At G = 2 all of them "
    "but PSR are mean GRPO up to a factor, since one accepted rollout of two is the only group that counts (and GRPO "
    "at G = 3 too); each comes to its own focus as G grows. It needs two levels of reward.",
    statement=by_weight,
    planted={
        "larger groups never matter": lambda shares, **_: moves(shares, 0),
        "larger groups always protect": lambda shares, **_: moves(shares, -1),
        "larger groups always harm": lambda shares, **_: moves(shares, 1),
        "under GRPO they always harm": lambda shares, weight, **_: moves(shares, BY_GROUP_SIZE[weight]),
    },
)
def group_size(statement):
    """Four banks of prompts, from all verdicts on every group; and what a larger group favours, rate by rate."""
    points = grid(bank=BANKS, weight=tuple(BY_GROUP_SIZE), errors=ERRORS[:2])
    yield from satisfies(statement, points, growing)

    def favoured(bank, weight, sizes):
        small, large = (
            [number(expected_masses(q, G, as_weight(LISTED.get(weight, weight)))[0]) for q in bank] for G in sizes
        )
        return tuple(after / before for before, after in zip(small, large, strict=True))

    yield from satisfies(
        lambda gains, bank, weight, sizes: statement(gains, bank=bank, weight=weight, errors=(0, 0)),
        grid(bank=[RATES[:10], RATES], weight=tuple(BY_GROUP_SIZE), sizes=[(3, 5), (5, 9), (9, 16)]),
        lambda bank, **point: favoured(bank[::-1], **point),
    )


# Corrections


def corrected(correction, errors):
    """The rewards of an accepted and a rejected rollout (2510.00915)."""
    wrongly, missed = errors
    if correction == "backward":
        index = 1 - wrongly - missed
        return (1 - wrongly) / index, -wrongly / index
    return (missed, missed - 1) if correction == "forward" else (Fraction(1), Fraction(0))


def advantages_of(rewards, s, G, scale):
    """(r - mean) / scale of an accepted and of a rejected rollout, s of G being accepted."""
    yes, no = map(number, rewards) if scale == "std" else rewards
    mean = (s * yes + (G - s) * no) / G
    spread = 1
    if scale == "std":
        spread = number((s * (yes - mean) ** 2 + (G - s) * (no - mean) ** 2) / G) ** number(Fraction(1, 2))
    return (yes - mean) / spread, (no - mean) / spread


def under_correction(correction, errors, s, G, scale):
    """The advantages of corrected rewards."""
    return advantages_of(corrected(correction, errors), s, G, scale)


def times(factor):
    """The advantages of rewards as they come, times a factor of the correction."""

    def stated(correction, errors, s, G, scale):
        pair = advantages_of(corrected("none", errors), s, G, scale)
        return tuple(factor(correction, scale, 1 - sum(errors)) * value for value in pair)

    return stated


@claim(
    "simlab:verifier-corrections",
    where=WHERE,
    says="After a group's mean is taken off, the forward correction of rewards changes nothing and the backward one is "
    "the factor 1 / (1 - f - n), for f + n < 1 a longer step; after division by the group's standard deviation neither "
    "changes anything, unless f + n > 1, where the backward one turns the sign.",
    formula=r"\tilde r - \overline{\tilde r} = \frac{v - \bar v}{1-f-n}\ \text{(backward)},\quad v - \bar v\ "
    r"\text{(forward)}",
    refuted_by="a group, rates of errors and a correction with other advantages",
    reading="Both corrections of Cai et al. (2510.00915), put in the place of rewards, are lines in the verdict v of "
    "slope 1 / (1 - f - n) and 1: a baseline and a clock, which is all that any function of one verdict can be. For "
    "REINFORCE without a baseline they do choose a baseline. Standard deviations without the small term beside them. "
    "It needs two levels of reward.",
    caveat="With rates that differ between prompts the backward factors differ too, and a batch is weighed anew.",
    identity=True,
    statement=times(
        lambda correction, scale, index: (
            1 if correction == "forward" else 1 / index if scale == "none" else 1 if index > 0 else -1
        )
    ),
    planted={
        "the forward one is a factor too": times(lambda correction, scale, index: 1 if scale == "std" else 1 / index),
        "a longer step in any case": times(
            lambda correction, scale, index: 1 / index if correction == "backward" else 1
        ),
        "neither does anything": times(lambda *_: 1),
        "the deviation hides every error": times(
            lambda correction, scale, index: 1 / index if correction == "backward" and scale == "none" else 1
        ),
    },
)
def corrections(statement):
    """Every mixed group of up to five; with rates of symbols where nothing is divided by a root."""
    points = grid(
        such_that=lambda s, G, **_: 0 < s < G,
        correction=("backward", "forward"), errors=ERRORS, G=(2, 3, 5), s=(1, 2, 3, 4), scale=("none", "std"),
    )  # fmt: skip
    symbolic = [
        {"correction": correction, "errors": (FALSE_YES, FALSE_NO), "s": 1, "G": 3, "scale": "none"}
        for correction in ("backward", "forward")
    ]
    yield from equals(
        statement, points, derived=under_correction, enumerated=under_correction_by_hand, symbolic_points=symbolic
    )


def under_correction_by_hand(correction, errors, s, G, scale):
    """The same from a listed group, rollout by rollout."""
    yes, no = corrected(correction, errors)
    rewards = [yes] * s + [no] * (G - s)
    centred = [reward - sum(rewards) / Fraction(G) for reward in rewards]
    if scale == "none":
        return centred[0], centred[-1]
    deviation = number(sum(value * value for value in centred) / Fraction(G)) ** number(Fraction(1, 2))
    return number(centred[0]) / deviation, number(centred[-1]) / deviation


# Errors of answers

# Correct, always accepted although wrong, rejected: every policy over three answers with probabilities of tenths, the
# issue's counterexample to "a rare one beside a likely one", and policies with two answers of each kind.
TENTHS = [Fraction(tenth, 10) for tenth in range(1, 9)]
ERRING = [
    {"policy": (p, taken, 1 - p - taken), "right": (True, False, False), "taken": (True, True, False)}
    for p, taken in itertools.product(TENTHS, TENTHS)
    if p + taken < 1
] + [
    {
        "policy": tuple(Fraction(share, sum(shares)) for share in shares),
        "right": (True, False, False, True, False, False)[: len(shares)],
        "taken": (True, True, False, True, True, False)[: len(shares)],
    }
    for shares in ((1, 30, 69), (1, 9, 4, 1, 2, 3), (5, 9, 1, 1, 9, 1), (1, 6, 9, 1, 6, 9))
]


def correct_mass_gained(policy, right, taken, G, weight):
    """The first-order change of Q over eta, from all groups, where the answers of ``taken`` are always accepted."""
    step = expected_direction(policy, taken, G, as_weight(weight))
    return sum(d * slope for d, slope in zip(step, mass_gradient(policy, right), strict=True))


def derived_gain(policy, right, taken, G, weight):
    """The same by linearity, from what one rollout of each action is expected to get."""
    weight = as_weight(weight)
    drawn = list(enumerate(binomial(G - 1, mass(policy, taken))))
    yes = sum(chance * weight.success(s + 1, G) for s, chance in drawn)
    no = -sum(chance * weight.failure(s, G) for s, chance in drawn)
    step = score_gradient(policy, [p * (yes if member else no) for p, member in zip(policy, taken, strict=True)])
    return sum(d * slope for d, slope in zip(step, mass_gradient(policy, right), strict=True))


def towards(slopes):
    """kappa at the accepted mass, times the inner product of grad Q and the direction that is climbed."""

    def stated(policy, right, taken, G, weight):
        speed = pull(policy, taken, G, as_weight(weight))
        climbed = slopes(policy, right, taken)
        return speed * sum(a * b for a, b in zip(mass_gradient(policy, right), climbed, strict=True))

    return stated


def as_if_of_rollouts(policy, right, taken):
    """J grad Q, the share of wrong mass that is accepted being the rate of false positives."""
    rate = (mass(policy, taken) - mass(policy, right)) / (1 - mass(policy, right))
    return [(1 - rate) * slope for slope in mass_gradient(policy, right)]


def squares(policy, right, taken):
    """The sums of p^2 over the correct, the wrongly accepted and the rejected answers."""
    kinds = list(zip(policy, right, taken, strict=True))
    return (
        sum(p * p for p, correct, _ in kinds if correct),
        sum(p * p for p, correct, yes in kinds if yes and not correct),
        sum(p * p for p, _, yes in kinds if not yes),
    )


def outweighed(policy, right, taken):
    """Return whether the wrongly accepted answers' squares exceed those of the others, weighed by odds."""
    correct, wrong, rejected = squares(policy, right, taken)
    q_pos, yes = mass(policy, right), mass(policy, taken)
    return wrong > correct * (1 - q_pos) / q_pos + rejected * yes / (1 - yes)


CLIMBS_ACCEPTED = towards(lambda policy, right, taken: mass_gradient(policy, taken))


@claim(
    "simlab:verifier-answers",
    where=WHERE,
    says="Where a verifier errs about answers, the expected step climbs the accepted mass and not the correct one: "
    "kappa(Q_A) grad Q_A, so that correct mass changes by eta kappa(Q_A) <grad Q, grad Q_A>. Under a weight with kappa "
    "above 0 this is negative just where W > C (1 - Q)/Q + R Q_A/(1 - Q_A), with C, W and R the sums of p^2 over the "
    "correct, the wrongly accepted and the rejected answers.",
    formula=r"\mathbb{E}[\Delta Q] = \eta\,\kappa(Q_A;G)\,\langle\nabla Q,\nabla Q_A\rangle",
    refuted_by="a policy, a weight and a group size with another change of correct mass to first order or sign",
    reading="Free logits of one prompt, plain gradient. To the step an answer that is always accepted is a correct "
    "one: it is simlab:expected-update for the set A of accepted answers. With one answer of each kind correct mass "
    "falls if p2^2 > p1 (1 - p1) + Q_A (1 - Q_A); that the accepted wrong answer is likelier than the correct one does "
    "not suffice: at (.01, .3, .69) correct mass grows. No weight of rewards and group size changes the sign of the "
    "inner product, so that hard focus decides how soon, not whether. "
    "It needs two levels of reward.",
    statement=(CLIMBS_ACCEPTED, outweighed),
    planted={
        "Youden's index decides": (towards(as_if_of_rollouts), outweighed),
        "the correct mass is climbed": (
            towards(lambda policy, right, taken: mass_gradient(policy, right)),
            outweighed,
        ),
        "a likelier wrong answer suffices": (
            CLIMBS_ACCEPTED,
            lambda *kinds: squares(*kinds)[1] > squares(*kinds)[0],
        ),
        "the rejected do not count": (
            CLIMBS_ACCEPTED,
            lambda policy, right, taken: (
                squares(policy, right, taken)[1] > squares(policy, right, taken)[0] * (1 / mass(policy, right) - 1)
            ),
        ),
    },
)
def errors_of_answers(statement):
    """All groups of two or three; linearity; and the sign, at every policy."""
    gain, falls = statement
    points = [case | {"G": 2, "weight": "psr"} for case in ERRING]
    points += [case | {"G": 3, "weight": weight} for case in ERRING[-4:] for weight in WEIGHTS]
    yield from equals(gain, points, derived=derived_gain, enumerated=correct_mass_gained)
    yield from satisfies(
        lambda change, policy, right, taken, **_: (change < 0) == falls(policy, right, taken),
        points,
        correct_mass_gained,
    )
