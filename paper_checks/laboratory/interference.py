"""The effect of a prompt's expected update on another that shares its head, and what a weight can change in it."""

from fractions import Fraction

import numpy as np
import sympy

from paper_checks.claim import claim
from paper_checks.evidence import equals, satisfies
from paper_checks.exact import groups
from paper_checks.laboratory.expected_update import arbitrary_weight, one_against_the_rest
from paper_checks.laboratory.shared_head import (
    CONFLICT,
    changed_mass,
    enumerated_changes,
    enumerated_transfer,
    gap,
    head_step,
    heads,
    moved_by_head,
    overlap,
    product,
    spread,
    stated_transfer,
)
from paper_checks.laboratory.weights import WEIGHTS, Weight, as_weight, coefficients, mass_gradient, pull
from paper_checks.simulated import estimate, simulated_head_change

WHERE = "Beyond the papers, interference"


def derived_changes(policies, correct, features, G, weight):
    """The expected change of each Q by linearity, rollout by rollout, through the head."""
    moves = [one_against_the_rest(*prompt, G, weight) for prompt in zip(policies, correct, strict=True)]
    step = head_step(moves, features)
    return tuple(
        changed_mass(policy, right, moved_by_head(step, feature))
        for policy, right, feature in zip(policies, correct, features, strict=True)
    )


def simulated_changes(policies, correct, features, G, weight, *, temperature=1):
    """The mean first-order change of each Q by the simulator's first step."""
    change = simulated_head_change(policies, correct, features, G, weight, temperature=float(temperature))
    estimates = []
    for policy, right, feature in zip(policies, correct, features, strict=True):
        slope = np.array([float(value) for value in mass_gradient(policy, right)]) / float(temperature)
        estimates.append(estimate(change @ np.array(feature, dtype=float) @ slope))
    return estimates


def changes_by(transfer):
    """The change of each Q as the sum over the prompts of what each does to it."""

    def stated(weight, **head):
        return tuple(sum(transfer(i, j, **head, weight=as_weight(weight)) for i in range(2)) for j in range(2))

    return stated


def without_others(i, j, **point):
    """Prompts leave one another alone."""
    return stated_transfer(i, j, **point) if i == j else 0


def taught_by_its_own_speed(i, j, **point):
    """The speed of the prompt that learns in place of that of the prompt that teaches."""
    speeds = [
        pull(*prompt, point["G"], point["weight"]) for prompt in zip(point["policies"], point["correct"], strict=True)
    ]
    return stated_transfer(i, j, **point) * speeds[j] / speeds[i]


def without_outcomes(i, j, **point):
    """The overlap of the policies in place of that of u."""
    gaps = [gap(*prompt) for prompt in zip(point["policies"], point["correct"], strict=True)]
    return stated_transfer(i, j, **point) * product(*(point["policies"][k] for k in (i, j))) / product(gaps[i], gaps[j])


RARE, LIKELY, ALONG = sympy.symbols("rare likely along", positive=True)
SYMBOLIC_HEADS = [
    {
        "policies": ((LIKELY, RARE, 1 - LIKELY - RARE), CONFLICT[0][1]),
        "correct": CONFLICT[1],
        "features": ((1, 0), (ALONG, 1)),
        "G": size,
        "weight": arbitrary_weight(size),
    }
    for size in (1, 2)
]
TAUGHT_WEIGHTS = ("psr", "nsr", "dr_grpo", "maxrl")


@claim(
    "simlab:interference-transfer",
    where=WHERE,
    says="Where prompts share a linear head, the update of prompt i changes the solve rate of prompt j by eta/P K_ij "
    "m_i Q_j (1 - Q_j) <u_i, u_j> in expectation and to first order: overlap of features times how much i teaches "
    "times how alike their successes and their errors are.",
    formula=r"\mathbb{E}[\Delta Q_j] = \frac{\eta}{P}\sum_i K_{ij}\,\kappa_i\,\langle\nabla Q_i,\nabla Q_j\rangle = "
    r"\frac{\eta}{P}\sum_i K_{ij}\, m_i\, Q_j(1-Q_j)\langle u_i,u_j\rangle,\quad m_i=\kappa_i Q_i(1-Q_i),\ "
    r"u_i=p_i^+-p_i^-",
    refuted_by="two prompts, a kernel, a group size and a weight whose solve rates change otherwise, averaged over all "
    "groups",
    reading="Plain gradient step on the mean over P prompts, weights of reward and solve rate, 0 < Q < 1; K is the "
    "kernel of the features, or of any network's tangent to first order if it acts alike on all logits. It puts "
    "together what was known apart: Davis and Recht (2510.13651) have the speed kappa as the slope of a transform of "
    "Q, Ren and Sutherland (2407.10490) the kernel between examples, Barakat et al. (2602.21189) the inner product of "
    "the gradients of two prompts' solve rates. "
    "It needs two levels of reward.",
    caveat="First order and in expectation: with Adam, clipping or large steps it need not hold.",
    statement=changes_by(stated_transfer),
    planted={
        "prompts leave one another alone": changes_by(without_others),
        "the learner's speed": changes_by(taught_by_its_own_speed),
        "policies in place of u": changes_by(without_outcomes),
    },
)
def transfer(statement):
    """All pairs of groups; linearity over rollouts, with symbols too; the simulator's first step of a head."""
    yield from equals(
        statement,
        [point for point in heads(weights=TAUGHT_WEIGHTS) if len(point["policies"][0]) < 4],
        derived=derived_changes,
        enumerated=lambda weight, **point: enumerated_changes(**point, weight=as_weight(weight)),
        symbolic_points=SYMBOLIC_HEADS,
        sampled=simulated_changes,
        sampled_points=heads((CONFLICT,), group_sizes=(2,), weights=("psr", "nsr", "maxrl")),
    )


def speed_by(advantages):
    """Kappa as the mean over the successes among G - 1 other rollouts of a function of the weight."""

    def stated(q_pos, G, weight):
        chances = [sympy.binomial(G - 1, s) * q_pos**s * (1 - q_pos) ** (G - 1 - s) for s in range(G)]
        return sum(chance * advantages(weight, s, G) for s, chance in enumerate(chances))

    return stated


def derived_speed(q_pos, G, weight):
    """M_S / Q + M_F / (1 - Q)."""
    return pull((q_pos, 1 - q_pos), (True, False), G, weight)


def enumerated_speed(q_pos, G, weight):
    """The expected update, from all groups, over grad Q."""
    policy, correct = (q_pos, 1 - q_pos), (True, False)
    drawn = [chance * coefficients(counts, correct, weight)[0] for chance, counts in groups(policy, G)]
    failed = [chance * coefficients(counts, correct, weight)[1] for chance, counts in groups(policy, G)]
    return (sum(drawn) * (1 - q_pos) - sum(failed) * q_pos) / spread(policy, correct)


@claim(
    "simlab:interference-speed",
    where=WHERE,
    says="The speed kappa at which a prompt teaches is the advantage of a success less that of a failure, averaged "
    "over the outcomes of the G - 1 other rollouts: bounded at every G, and at Q = 0 equal to w_S(1) + w_F(0).",
    formula=r"\kappa(Q;G)=\mathbb{E}_{s\sim\mathrm{Bin}(G-1,Q)}\left[w_S(s+1)+w_F(s)\right]",
    refuted_by="a weight, a group size and a solve rate of another speed",
    reading="Advantages w_S(s) of a success and -w_F(s) of a failure in a group of s successes. Kappa is a Bernstein "
    "polynomial of Q, as Davis and Recht (2510.13651) find for the transform that it is the slope of: sqrt(G - 1) at Q "
    "= 0 for GRPO, G - 1 for MaxRL, 1 for NSR, PSR and REINFORCE with any constant baseline, 1 - 1/G for Dr. GRPO at "
    "every Q. "
    "It needs two levels of reward.",
    statement=speed_by(lambda weight, s, G: weight.success(s + 1, G) + weight.failure(s, G)),
    planted={
        "the group's own count": speed_by(lambda weight, s, G: weight.success(s, G) + weight.failure(s, G)),
        "a sign": speed_by(lambda weight, s, G: weight.success(s + 1, G) - weight.failure(s, G)),
    },
)
def speed(statement):
    """All groups; the binomial masses, with a weight and a solve rate of symbols."""
    symbolic = [{"q_pos": LIKELY, "G": size, "weight": arbitrary_weight(size)} for size in (1, 2, 3)]
    points = [
        {"q_pos": q_pos, "G": size, "weight": weight}
        for size in (1, 2, 5)
        for q_pos in (Fraction(1, 10), Fraction(3, 5))
        for weight in (Weight(lambda s, G: 1 + s * s, lambda s, G: 2 + s), *map(WEIGHTS.get, TAUGHT_WEIGHTS[:2]))
    ]
    yield from equals(statement, points, derived=derived_speed, enumerated=enumerated_speed, symbolic_points=symbolic)


def alignment(policies, correct):
    """<u_0, u_1>."""
    return product(*(gap(*prompt) for prompt in zip(policies, correct, strict=True)))


def cross_effect(weight, **head):
    """The effect of the first prompt on the second, from all groups, and what decides its sign."""
    effect = enumerated_transfer(0, 1, **head, weight=as_weight(weight))
    return effect, overlap(head["features"], 0, 1), alignment(head["policies"], head["correct"])


@claim(
    "simlab:interference-sign",
    where=WHERE,
    says="Whether one prompt helps or harms another is decided by K_ij <u_i, u_j> alone, overlap of features times "
    "likeness of answers and errors: no weight whose masses are never negative changes it, whether it learns from "
    "successes or from failures, from hard prompts first or from easy ones.",
    refuted_by="a weight with m_S, m_F >= 0 under which a prompt helps another that it harms under a second weight",
    reading="In expectation, to first order, plain gradient, not both masses 0 at every s. A weight chooses the speeds "
    "kappa_i, and so who wins where several prompts pull: the sign of each single pull it leaves alone. That negative "
    "samples keep pass@k up (Zhu et al., 2506.01347) can then not come from this part: it is in the noise, in finite "
    "steps, the optimiser, or in weights that see more than rewards. That two gradients' inner product tells help from "
    "harm is old (GEM, 1706.08840; PCGrad, 2001.06782; for prompts Barakat et al., 2602.21189); a search (2026-11) "
    "found nobody who says that no weight of rewards turns it. "
    "It needs two levels of reward.",
    caveat="One prompt's pull on another. Where several pull at one, the weight decides who wins "
    "(simlab:interference-threshold).",
    statement=lambda factors, **_: factors[0] * factors[1] * factors[2] > 0,
    planted={
        "failures turn it": lambda factors, weight, **_: (
            factors[0] * factors[1] * factors[2] > 0 if weight != "nsr" else factors[0] * factors[1] * factors[2] < 0
        ),
        "the overlap decides": lambda factors, **_: factors[0] * factors[1] > 0,
        "the answers decide": lambda factors, **_: factors[0] * factors[2] > 0,
    },
)
def sign(statement):
    """All groups of the teaching prompt, for every weight, over conflict and agreement and both signs of overlap."""
    yield from satisfies(statement, heads(group_sizes=(2, 3)), cross_effect)


def constant(baseline):
    """REINFORCE with a constant baseline: PSR at 0, NSR at 1."""
    return Weight(lambda s, G: 1 - baseline, lambda s, G: baseline)


def exchange(weight, **head):
    """The effect of each on the other, from all groups, and both speeds."""
    weight = as_weight(weight)
    effects = (enumerated_transfer(i, j, **head, weight=weight) for i, j in ((0, 1), (1, 0)))
    speeds = (pull(*prompt, head["G"], weight) for prompt in zip(head["policies"], head["correct"], strict=True))
    return *effects, *speeds


@claim(
    "simlab:interference-reciprocity",
    where=WHERE,
    says="What easy prompts do to hard ones and hard ones to easy ones are as their speeds: equal under REINFORCE with "
    "any constant baseline, PSR and NSR among them, and under other weights larger on the side of the faster teacher.",
    formula=r"\Delta Q_{i\to j}/\Delta Q_{j\to i} = \kappa_i/\kappa_j",
    refuted_by="two prompts and a weight with another ratio",
    reading="First order, in expectation, in units of the solve rate. Measured in log-odds the exchange is far from "
    "even: the same change of Q weighs 1 / (Q (1 - Q)) as much, so that the hard prompt loses the more. A difficulty "
    "weight tilts the exchange by kappa_i / kappa_j, and does no more to it. Barakat et al. (2602.21189) have the "
    "symmetric kernel; a search (2026-11) did not find the ratio. "
    "It needs two levels of reward.",
    identity=True,
    statement=lambda values, **_: values[0] * values[3] == values[1] * values[2],
    planted={
        "even under every weight": lambda values, **_: values[0] == values[1],
        "the slower teacher's is larger": lambda values, **_: values[0] * values[2] == values[1] * values[3],
    },
)
def reciprocity(statement):
    """All groups of either prompt; constant weights with three baselines among them."""
    yield from satisfies(statement, heads(group_sizes=(2, 3)), exchange)

    def even(values, **_):
        return statement(values) and values[0] == values[1]

    points = [
        point | {"weight": constant(baseline)}
        for point in heads(weights=("psr",))
        for baseline in (Fraction(0), Fraction(1, 3), Fraction(1))
    ]
    yield from satisfies(even, points, exchange)
