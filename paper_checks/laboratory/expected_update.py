"""The expected effect of one step of any weight, and what it leaves of the sign axis."""

from fractions import Fraction

import sympy

from paper_checks.claim import claim
from paper_checks.evidence import equals, satisfies
from paper_checks.exact import POLICIES, binomial, expectation, groups, mass, score_gradient
from paper_checks.laboratory.weights import (
    WEIGHTS,
    Weight,
    as_weight,
    cases,
    coefficients,
    direction,
    expected_direction,
    expected_masses,
    mass_gradient,
    masses,
    pull,
)
from paper_checks.simulated import estimate, simulated_step


def one_against_the_rest_draws(policy, correct, G, weight):
    """E[c_j] by linearity: one rollout draws action j, the other G - 1 hold a binomial number of successes."""
    weight = as_weight(weight)
    q_pos = mass(policy, correct)
    return [
        p
        * sum(
            chance * (weight.success(others + 1, G) if right else -weight.failure(others, G))
            for others, chance in enumerate(binomial(G - 1, q_pos))
        )
        for p, right in zip(policy, correct, strict=True)
    ]


def one_against_the_rest(policy, correct, G, weight):
    """E[dz] / eta, from those coefficients."""
    return tuple(score_gradient(policy, one_against_the_rest_draws(policy, correct, G, weight)))


def enumerated_update(policy, correct, G, weight):
    """E[dz] / eta, from all groups."""
    return expected_direction(policy, correct, G, WEIGHTS[weight])


def simulated_update(policy, correct, G, weight):
    """The mean logit change of the simulator's first step at learning rate 1."""
    steps = simulated_step(policy, correct, G, weight)
    return [estimate(steps.logit_change[:, action]) for action in range(len(policy))]


def arbitrary_weight(group_size):
    """A weight whose value at every s is a symbol."""
    success = sympy.symbols(f"success0:{group_size + 1}")
    failure = sympy.symbols(f"failure0:{group_size + 1}")
    return Weight(lambda s, G: success[s], lambda s, G: failure[s])


FIRST, SECOND = sympy.symbols("first second", positive=True)
SLOPE, OTHER = sympy.symbols("slope other")
SYMBOLIC_CASES = [
    {
        "policy": (FIRST, SECOND, 1 - FIRST - SECOND),
        "correct": (True, True, False),
        "G": size,
        "weight": arbitrary_weight(size),
    }
    for size in (1, 2, 3)
]
SIMULATED_CASES = cases((3,), POLICIES[1:2], ("psr", "nsr", "maxrl"))


# d log p_a / d theta, a row an action: of (t^2, t (1 - t), 1 - t) at t = 1/3, two tokens that share one parameter, and
# of some smooth maps with two parameters. Rows have the mean 0 under the policy; beyond that anything can occur.
SCORES = (
    (
        ((Fraction(1, 9), Fraction(2, 9), Fraction(2, 3)), (True, True, False)),
        ((6,), (Fraction(3, 2),), (Fraction(-3, 2),)),
    ),
    (POLICIES[1], ((1, Fraction(2, 5)), (5, -3), (-4, Fraction(9, 10)))),
    (POLICIES[2], ((2, 0), (-1, 6), (-3, 1), (Fraction(1, 3), Fraction(-10, 3)))),
)
PARAMETRISED_CASES = [
    {"policy": policy, "correct": correct, "G": size, "weight": weight, "scores": scores}
    for (policy, correct), scores in SCORES
    for size in (1, 2, 3)
    for weight in WEIGHTS
]
SYMBOLIC_PARAMETRISED_CASES = [
    case | {"scores": ((SLOPE,), (OTHER,), (-(FIRST * SLOPE + SECOND * OTHER) / (1 - FIRST - SECOND),))}
    for case in SYMBOLIC_CASES
]


def through_scores(factors, scores):
    """sum over the actions of a coefficient times the action's score."""
    return tuple(sum(c * row[axis] for c, row in zip(factors, scores, strict=True)) for axis in range(len(scores[0])))


def enumerated_step(policy, correct, G, weight, scores):
    """The mean change of the parameters over eta, from all groups."""
    mean = [Fraction(0)] * len(policy)
    for chance, counts in groups(policy, G):
        factors = coefficients(counts, correct, WEIGHTS[weight])
        mean = [total + chance * c for total, c in zip(mean, factors, strict=True)]
    return through_scores(mean, scores)


def derived_step(policy, correct, G, weight, scores):
    """The same by linearity, rollout by rollout."""
    return through_scores(one_against_the_rest_draws(policy, correct, G, weight), scores)


def along_the_gradient(mix):
    """E[step] / eta = kappa grad Q, with kappa = mix(M_S, M_F, Q); grad Q in the logits, or from the scores given."""

    def stated(policy, correct, G, weight, scores=None):
        q_pos = mass(policy, correct)
        kappa = mix(*expected_masses(q_pos, G, as_weight(weight)), q_pos)
        gained = [p if right else 0 for p, right in zip(policy, correct, strict=True)]
        slopes = mass_gradient(policy, correct) if scores is None else through_scores(gained, scores)
        return tuple(kappa * slope for slope in slopes)

    return stated


@claim(
    "simlab:expected-update",
    where="Beyond the papers, question 1",
    says="At one prompt, with rewards 0 and 1 and a weight of each rollout that depends on its reward and on the "
    "number of successes in its group alone, the expected on-policy, unclipped step is eta kappa grad Q in the "
    "parameters of any policy, with Q the probability of a success and kappa = M_S / Q + M_F / (1 - Q).",
    formula=r"\mathbb{E}[\Delta\theta] = \eta\left(\frac{M_S}{Q} + \frac{M_F}{1-Q}\right)\nabla_\theta Q,"
    r"\quad \text{softmax: } \partial Q / \partial z_a = p_a(\mathbf{1}[a\in P] - Q)",
    refuted_by="a policy, a parametrisation, a group size and a weight whose step, averaged over all groups, has "
    "another direction or length",
    reading="In essence this is known: Davis and Recht (2510.13651) show that such algorithms climb a monotone "
    "transform of Q, whose slope is kappa; Thrampoulidis et al. (2510.23049) go from weights to surrogate rewards and "
    "back. Ours are the two masses and the check. An action is a whole rollout, with one weight for all of its tokens. "
    "The plain step on sum_i A_i log pi(a_i) / G, drawn i.i.d. from the policy itself, 0 < Q < 1. Proof: given s, the "
    "correct rollouts are i.i.d. from p restricted to the correct actions, so that the coefficient of a correct action "
    "a is M_S p_a / Q in expectation, of an incorrect one -M_F p_a / (1 - Q); the gradients of the two outcomes' "
    "probabilities add up to 0. Over several prompts the steps add up, each with its own kappa.",
    caveat="It need not hold with Adam, with clipping over several steps, with weights of single tokens, or with "
    "weights that look at log-probabilities (DS-GRPO, CW-GRPO).",
    statement=along_the_gradient(lambda success, failure, q_pos: success / q_pos + failure / (1 - q_pos)),
    planted={
        "the masses alone": along_the_gradient(lambda success, failure, q_pos: success + failure),
        "Q and 1 - Q exchanged": along_the_gradient(
            lambda success, failure, q_pos: success / (1 - q_pos) + failure / q_pos
        ),
        "a sign": along_the_gradient(lambda success, failure, q_pos: success / q_pos - failure / (1 - q_pos)),
    },
)
def expected_update(statement):
    """All groups; linearity over rollouts with symbols, as identities; the simulator's first step; other parameters."""
    yield from equals(
        statement,
        cases(),
        derived=one_against_the_rest,
        enumerated=enumerated_update,
        symbolic_points=SYMBOLIC_CASES,
        sampled=simulated_update,
        sampled_points=SIMULATED_CASES,
    )
    yield from equals(
        statement,
        PARAMETRISED_CASES,
        derived=derived_step,
        enumerated=enumerated_step,
        symbolic_points=SYMBOLIC_PARAMETRISED_CASES,
    )


@claim(
    "simlab:sign-axis-in-expectation",
    where="Beyond the papers, question 1",
    says="Of the sign axis nothing is left in expectation but a step size: learning from successes alone (PSR), from "
    "failures alone (NSR) and from both (REINFORCE with any constant baseline) have the same expected update, grad Q.",
    refuted_by="a policy and a group size at which the expected updates of PSR and NSR differ",
    reading="Constant weights, summed over the group and divided by G. That a constant baseline leaves the expectation "
    "alone is as old as REINFORCE (Williams, 1992), and PSR, NSR are the baselines 0 and 1. By simlab:expected-update "
    "two weights with equal kappa have equal expected updates, whatever their signs. "
    "It needs two levels of reward.",
    caveat="In expectation only. In one finite group PSR and NSR move unsampled actions in opposite directions "
    "(simlab:unsampled-drift), and that baselines matter beyond the mean is known (Chung et al., 2008.13773).",
    statement=1,
    planted={"a factor": Fraction(1, 2)},
)
def sign_axis_in_expectation(statement):
    """The expected updates of both weights, from all groups, with a baseline b: success 1 - b, failure b."""

    def update(policy, correct, G, weight, baseline):
        return expected_direction(policy, correct, G, Weight(lambda s, G: 1 - baseline, lambda s, G: baseline))

    points = [
        point | {"baseline": baseline}
        for point in cases((1, 2, 3), weights=("constant",))
        for baseline in (Fraction(0), Fraction(1, 3), Fraction(1))
    ]
    yield from equals(
        lambda policy, correct, **_: tuple(statement * slope for slope in mass_gradient(policy, correct)),
        points,
        enumerated=update,
    )


def drift(policy, correct, G, weight, missed):
    """E[dz_a; a not drawn] / eta of action ``missed``, from all groups."""
    return expectation(
        policy,
        G,
        lambda counts: 0 if counts[missed] else direction(counts, policy, correct, WEIGHTS[weight])[missed],
    )


def derived_drift(policy, correct, G, weight, missed):
    """The same by s: a rollout of its own outcome misses the action with probability 1 - p_a / Q (or / (1 - Q))."""
    q_pos, p = mass(policy, correct), policy[missed]
    total = 0
    for s, chance in enumerate(binomial(G, q_pos)):
        success, failure = masses(s, G, WEIGHTS[weight])
        chance_missed = (1 - p / q_pos) ** s if correct[missed] else (1 - p / (1 - q_pos)) ** (G - s)
        total -= chance * chance_missed * p * (success - failure)
    return total


def simulated_drift(policy, correct, G, weight, missed):
    """The simulator's change of that logit where its group missed it."""
    steps = simulated_step(policy, correct, G, weight)
    return estimate(steps.logit_change[:, missed] * (steps.actions != missed).all(axis=1))


def drift_by(net):
    """E[dz_a; missed] / eta = -p_a E[net(m_S, m_F); a not drawn], from the groups' masses."""

    def stated(policy, correct, G, weight, missed):
        def value(counts):
            s = sum(n for n, right in zip(counts, correct, strict=True) if right)
            return 0 if counts[missed] else net(*masses(s, G, WEIGHTS[weight]))

        return -policy[missed] * expectation(policy, G, value)

    return stated


@claim(
    "simlab:unsampled-drift",
    where="Beyond the papers, question 1",
    says="In a finite sample of one prompt the sign axis is all there is for an unsampled action: its logit moves by "
    "-eta p_a (m_S - m_F) of that group, down for weights biased to successes, up for those biased to failures, and "
    "not at all for balanced ones.",
    formula=r"\mathbb{E}[\Delta z_a;\, a \text{ not drawn}] = -\eta\, p_a\, \mathbb{E}[m_S - m_F;\, a \text{ not "
    r"drawn}]",
    refuted_by="a group whose unsampled action moves otherwise",
    reading="Plain gradient step, free logits. The term -p_a times the sum of the advantages is in A-GRAE's Theorem 1, "
    "and in BroRL (2510.01180) for distinct samples; Zhu et al. (2506.01347) describe both signs, for single tokens "
    "under PSR and NSR. "
    "With more levels m_S - m_F is the mean advantage of the group.",
    caveat="That an unsampled logit rises does not say that its probability does: see "
    "simlab:raised-logit-lower-probability.",
    statement=drift_by(lambda success, failure: success - failure),
    planted={
        "the other sign": drift_by(lambda success, failure: failure - success),
        "the sum": drift_by(lambda success, failure: success + failure),
    },
)
def unsampled_drift(statement):
    """All groups that miss a correct or an incorrect action; the binomial count of successes; the simulator."""
    points = [point | {"missed": action} for point in cases((1, 2, 3)) for action in (0, len(point["policy"]) - 1)]
    simulated = [point | {"missed": 1} for point in SIMULATED_CASES]
    yield from equals(
        statement,
        points,
        derived=derived_drift,
        enumerated=drift,
        sampled=simulated_drift,
        sampled_points=simulated,
    )


def exploration_share(policy, correct, G, weight, missed):
    """E[dz_a] / eta in two parts: from groups that missed the action, and from groups that drew it."""
    unsampled = drift(policy, correct, G, weight, missed)
    return unsampled, expected_direction(policy, correct, G, WEIGHTS[weight])[missed] - unsampled


@claim(
    "simlab:exploration-is-paid-back",
    where="Beyond the papers, question 1",
    says="At one prompt the upward drift of an unsampled incorrect action under a failure-biased weight is more than "
    "undone, in expectation, by the updates of the groups that draw it: for every weight with masses of no negative "
    "sign an incorrect action's logit falls in expectation and a correct one's rises.",
    refuted_by="an incorrect action whose logit does not fall in expectation, or a correct one whose does not rise",
    reading="Free logits, weights with m_S, m_F >= 0 and not both 0 at every s, and 0 < Q < 1. It follows from "
    "simlab:expected-update. 'Exploration of unsampled actions' is thus a statement about one finite group, and about "
    "what an optimiser that is not linear makes of it, not about the mean step. Groups of one, in which balanced "
    "weights are 0, are left out. A search (2026-11) found nobody who sets the two parts against one another. "
    "It needs two levels of reward.",
    statement=lambda changes, correct, missed, **_: (
        changes[0] + changes[1] > 0 if correct[missed] else changes[0] + changes[1] < 0
    ),
    planted={
        "unsampled failures are explored": lambda changes, correct, missed, **_: (
            correct[missed] or changes[0] + changes[1] > 0
        )
    },
)
def exploration_is_paid_back(statement):
    """Drift while unsampled and change while drawn, from all groups, for the last correct and incorrect actions."""
    points = [
        point | {"missed": action} for point in cases((2, 3), POLICIES[:3]) for action in (0, len(point["policy"]) - 1)
    ]
    yield from satisfies(statement, points, exploration_share)


def relative_change(policy, correct, G, weight, action):
    """E[d log p_a] / eta to first order: dz_a - sum_j p_j dz_j, from the expected update over all groups."""
    change = expected_direction(policy, correct, G, WEIGHTS[weight])
    return change[action] - sum(p * d for p, d in zip(policy, change, strict=True))


def growth_threshold(policy, correct):
    """P_2 - N_2 Q / (1 - Q), with P_2 and N_2 the sums of p^2 over the correct and incorrect actions."""
    q_pos = mass(policy, correct)
    squares = [p**2 for p in policy]
    return mass(squares, correct) - mass(squares, [not right for right in correct]) * q_pos / (1 - q_pos)


@claim(
    "simlab:rich-get-richer",
    where="Beyond the papers, question 1",
    says="At one prompt and to first order a correct action's probability grows in expectation exactly if p_a > P_2 - "
    "N_2 Q / (1 - Q): a threshold of the policy alone, the same for every weight, group size and sign.",
    formula=r"\mathbb{E}[\Delta\log p_a] = \eta\kappa(1-Q)\left[p_a - P_2 + N_2\frac{Q}{1-Q}\right],\quad a\in P",
    refuted_by="a weight under which a correct action beyond the threshold shrinks, or one below it grows",
    reading="Free logits, weights with masses of no negative sign, P_2 and N_2 the sums of squared probabilities of "
    "correct and incorrect actions. F-GRPO and its kin change how fast a rare correct action is lost in expectation, "
    "not whether. What they change beyond that is of second order or of the optimiser. That the exact gradient moves a "
    "logit in proportion to the action's probability is well known (Mei et al., 2005.06392), 2601.21669 names this "
    "factor as the cause of collapse, and BroRL (2510.01180) has the change given the distinct samples. A search "
    "(2026-11) found the threshold nowhere. "
    "It needs two levels of reward.",
    caveat="One action of one prompt. What a group of prompts does to a shared network is "
    "simlab:interference-transfer.",
    statement=lambda policy, correct, action, threshold: policy[action] - threshold,
    planted={
        "failures left out": lambda policy, correct, action, threshold: (
            policy[action] - sum(p**2 for p, right in zip(policy, correct, strict=True) if right)
        ),
    },
)
def rich_get_richer(statement):
    """kappa (1 - Q) times the stated gap, against the expected update over all groups."""
    rare = ((Fraction(3, 5), Fraction(1, 50), Fraction(19, 50)), (True, True, False))
    spread = ((Fraction(2, 5), Fraction(1, 50), *[Fraction(29, 200)] * 4), (True, True, False, False, False, False))
    points = [
        point | {"action": action} for point in cases((2, 3), (*POLICIES[1:3], rare, spread)) for action in (0, 1)
    ]

    def stated(policy, correct, G, weight, action):
        gap = statement(policy, correct, action, growth_threshold(policy, correct))
        return pull(policy, correct, G, WEIGHTS[weight]) * (1 - mass(policy, correct)) * gap

    yield from equals(stated, points, enumerated=relative_change)
