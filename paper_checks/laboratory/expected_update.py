"""What one step of any weight does in expectation, and what is then left of the sign axis."""

from fractions import Fraction

import sympy

from paper_checks.claim import claim
from paper_checks.evidence import equals, satisfies
from paper_checks.exact import POLICIES, binomial, expectation, mass, score_gradient
from paper_checks.laboratory.weights import (
    WEIGHTS,
    Weight,
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


def as_weight(weight):
    """A weight by name, or as given."""
    return WEIGHTS[weight] if isinstance(weight, str) else weight


def one_against_the_rest(policy, correct, G, weight):
    """E[dz] / eta by linearity: one rollout draws action j, the other G - 1 hold a binomial number of successes."""
    weight = as_weight(weight)
    q_pos = mass(policy, correct)
    drawn = [
        p
        * sum(
            chance * (weight.success(others + 1, G) if right else -weight.failure(others, G))
            for others, chance in enumerate(binomial(G - 1, q_pos))
        )
        for p, right in zip(policy, correct, strict=True)
    ]
    return tuple(score_gradient(policy, drawn))


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


def along_the_gradient(mix):
    """E[dz] / eta = kappa grad Q, with kappa = mix(M_S, M_F, Q)."""

    def stated(policy, correct, G, weight):
        q_pos = mass(policy, correct)
        kappa = mix(*expected_masses(q_pos, G, as_weight(weight)), q_pos)
        return tuple(kappa * slope for slope in mass_gradient(policy, correct))

    return stated


@claim(
    "simlab:expected-update",
    where="Beyond the papers, question 1",
    says="For a tabular softmax, rewards 0 and 1 and any weight of a rollout that depends on its reward and on the "
    "number of successes in its group, the expected logit update is eta kappa grad Q, with Q the probability of "
    "a success and kappa = M_S / Q + M_F / (1 - Q).",
    formula=r"\mathbb{E}[\Delta z] = \eta\left(\frac{M_S}{Q} + \frac{M_F}{1-Q}\right)\nabla_z Q,"
    r"\quad \partial Q / \partial z_a = p_a(\mathbf{1}[a\in P] - Q)",
    refuted_by="a policy, a group size and a weight whose update, averaged over all groups, has another direction or "
    "length",
    reading="The plain gradient step on sum_i A_i log pi(a_i) / G, drawn i.i.d. from the policy itself, 0 < Q < 1. "
    "With Adam, with clipping over several steps, or with weights that look at log-probabilities (DS-GRPO, "
    "CW-GRPO) it need not hold. Proof: given s, the correct rollouts are i.i.d. from p restricted to the "
    "correct actions, so that the coefficient of a correct action a is M_S p_a / Q in expectation, of an "
    "incorrect one -M_F p_a / (1 - Q), and their sum is M_S - M_F.",
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
    """All groups; linearity over rollouts with a weight of symbols, as identities; the simulator's first step."""
    yield from equals(
        statement,
        cases(),
        derived=one_against_the_rest,
        enumerated=enumerated_update,
        symbolic_points=SYMBOLIC_CASES,
        sampled=simulated_update,
        sampled_points=SIMULATED_CASES,
    )


@claim(
    "simlab:sign-axis-in-expectation",
    where="Beyond the papers, question 1",
    says="Of the sign axis nothing is left in expectation but a step size: learning from successes alone (PSR), from "
    "failures alone (NSR) and from both (REINFORCE with any constant baseline) have the same expected update, "
    "grad Q.",
    refuted_by="a policy and a group size at which the expected updates of PSR and NSR differ",
    reading="Constant weights, summed over the group and divided by G. For weights that depend on s the same is said "
    "by simlab:expected-update: two weights with equal kappa have equal expected updates, whatever their "
    "signs. A reader who means one finite group finds the opposite: there PSR and NSR move unsampled actions "
    "in opposite directions (simlab:unsampled-drift). Under Adam the two are not step sizes of one another "
    "either.",
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
    says="In a finite sample the sign axis is all there is for an unsampled action: its logit moves by -eta p_a (m_S "
    "- m_F) of that group, down for weights biased to successes, up for those biased to failures, and not at all "
    "for balanced ones.",
    formula=r"\mathbb{E}[\Delta z_a;\, a \text{ not drawn}] = -\eta\, p_a\, \mathbb{E}[m_S - m_F;\, a \text{ not "
    r"drawn}]",
    refuted_by="a group whose unsampled action moves otherwise",
    reading="Plain gradient step. That an unsampled logit rises does not say that its probability does: "
    "see simlab:raised-logit-lower-probability.",
    statement=drift_by(lambda success, failure: success - failure),
    planted={
        "the other sign": drift_by(lambda success, failure: failure - success),
        "the sum": drift_by(lambda success, failure: success + failure),
    },
)
def unsampled_drift(statement):
    """All groups that miss a correct or an incorrect action; the binomial count of successes; the simulator."""
    points = [point | {"missed": place} for point in cases((1, 2, 3)) for place in (0, len(point["policy"]) - 1)]
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
    says="The upward drift of an unsampled incorrect action under a failure-biased weight is more than undone, in "
    "expectation, by the updates of the groups that draw it: for every weight with masses of no negative sign an "
    "incorrect action's logit falls in expectation and a correct one's rises.",
    refuted_by="an incorrect action whose logit does not fall in expectation, or a correct one whose does not rise",
    reading="Weights with m_S, m_F >= 0 and not both 0 at every s, and 0 < Q < 1. 'Exploration of unsampled actions' "
    "is thus a statement about one finite group, and about what an optimiser that is not linear makes of it, "
    "not about the mean step. Groups of one, in which balanced weights are 0, are left out.",
    statement=lambda parts, correct, missed, **_: (
        parts[0] + parts[1] > 0 if correct[missed] else parts[0] + parts[1] < 0
    ),
    planted={
        "unsampled failures are explored": lambda parts, correct, missed, **_: (
            correct[missed] or parts[0] + parts[1] > 0
        )
    },
)
def exploration_is_paid_back(statement):
    """Drift while unsampled and change while drawn, from all groups, for the last correct and incorrect actions."""
    points = [
        point | {"missed": place} for point in cases((2, 3), POLICIES[:3]) for place in (0, len(point["policy"]) - 1)
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
    says="To first order a correct action's probability grows in expectation exactly if p_a > P_2 - N_2 Q / (1 - Q): "
    "a threshold of the policy alone, the same for every weight, group size and sign.",
    formula=r"\mathbb{E}[\Delta\log p_a] = \eta\kappa(1-Q)\left[p_a - P_2 + N_2\frac{Q}{1-Q}\right],\quad a\in P",
    refuted_by="a weight under which a correct action beyond the threshold shrinks, or one below it grows",
    reading="First order in eta, P_2 and N_2 the sums of squared probabilities of correct and incorrect actions. "
    "F-GRPO and its kin change how fast a rare correct action is lost in expectation, not whether. What they "
    "change beyond that is of second order or of the optimiser.",
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


def noise(policy, correct, G, weight):
    """G times the summed variance of the logit changes, from all groups."""
    weight = WEIGHTS[weight]
    mean = expected_direction(policy, correct, G, weight)
    square = expectation(policy, G, lambda counts: sum(d**2 for d in direction(counts, policy, correct, weight)))
    return G * (square - sum(d**2 for d in mean))


def derived_noise(policy, correct, G, weight):
    """The variance of one rollout's A grad log pi(a), G times that of a mean of G independent ones."""
    one = [
        coefficients([int(place == drawn) for place in range(len(policy))], correct, WEIGHTS[weight])
        for drawn in range(len(policy))
    ]
    moves = [score_gradient(policy, row) for row in one]
    means = [sum(p * move[j] for p, move in zip(policy, moves, strict=True)) for j in range(len(policy))]
    return sum(p * sum(d**2 for d in move) for p, move in zip(policy, moves, strict=True)) - sum(d**2 for d in means)


def noise_from(sides):
    """sum over the learnt-from actions of p_a (1 - 2 p_a + sum p^2), less |grad Q|^2."""

    def stated(policy, correct, G, weight):
        second = sum(p**2 for p in policy)
        learnt = [right == (sides[weight] == "successes") for right in correct]
        spread = sum(p * (1 - 2 * p + second) for p, member in zip(policy, learnt, strict=True) if member)
        return spread - sum(slope**2 for slope in mass_gradient(policy, correct))

    return stated


@claim(
    "simlab:sign-axis-is-noise",
    where="Beyond the papers, question 1",
    says="What sets learning from successes and from failures apart is noise: with G rollouts the summed variance of "
    "the logit changes is (1/G) (sum of p_a (1 - 2 p_a + sum p^2) over the actions learnt from, less |grad "
    "Q|^2), so that the rarer outcome gives the quieter step.",
    formula=r"G \sum_a \mathrm{Var}[\Delta z_a] = \eta^2\Big(\sum_{a\in P\ (\text{or } N)} p_a(1-2p_a+\|p\|^2) - "
    r"\|\nabla Q\|^2\Big)",
    refuted_by="a policy at which the variance of PSR's or NSR's step differs",
    reading="Constant weights 1 on successes (PSR) or -1 on failures (NSR), whose mean steps are equal. 'Rarer is "
    "quieter' is the formula's leading term, p_a summed; with few likely actions the bracket can turn it round.",
    statement=noise_from({"psr": "successes", "nsr": "failures"}),
    planted={"exchanged": noise_from({"psr": "failures", "nsr": "successes"})},
)
def sign_axis_is_noise(statement):
    """The second moments over all groups; the variance of one rollout."""
    yield from equals(statement, cases((1, 2, 3), weights=("psr", "nsr")), derived=derived_noise, enumerated=noise)
