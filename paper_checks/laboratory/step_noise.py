"""The noise of a step that learns from successes alone, and of one that learns from failures alone."""

from fractions import Fraction

from paper_checks.claim import claim
from paper_checks.evidence import equals, satisfies
from paper_checks.exact import POLICIES, expectation, mass, score_gradient
from paper_checks.laboratory.weights import WEIGHTS, cases, coefficients, direction, expected_direction, mass_gradient


def noise(policy, correct, G, weight):
    """G times the summed variance of the logit changes, from all groups."""
    weight = WEIGHTS[weight]
    mean = expected_direction(policy, correct, G, weight)
    square = expectation(policy, G, lambda counts: sum(d**2 for d in direction(counts, policy, correct, weight)))
    return G * (square - sum(d**2 for d in mean))


def derived_noise(policy, correct, G, weight):
    """The variance of one rollout's A grad log pi(a), G times that of a mean of G independent ones."""
    rows = [
        coefficients([int(action == drawn) for action in range(len(policy))], correct, WEIGHTS[weight])
        for drawn in range(len(policy))
    ]
    moves = [score_gradient(policy, row) for row in rows]
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
    says="What sets learning from successes and from failures apart is noise: at one prompt with G rollouts the summed "
    "variance of the logit changes is (1/G) (sum of p_a (1 - 2 p_a + sum p^2) over the actions learnt from, less |grad "
    "Q|^2).",
    formula=r"G \sum_a \mathrm{Var}[\Delta z_a] = \eta^2\Big(\sum_{a\in P\ (\text{or } N)} p_a(1-2p_a+\|p\|^2) - "
    r"\|\nabla Q\|^2\Big)",
    refuted_by="a policy at which the variance of PSR's or NSR's step differs",
    reading="Free logits, constant weights 1 on successes (PSR) or -1 on failures (NSR), whose mean steps are equal. "
    "simlab:quieter-outcome says which of the two is quieter. The length of a single step, 1 - 2 p_a + sum p^2, is "
    "due to Li (2506.12912); that baselines change the noise and not the mean is old (Williams, 1992). 2603.01162 "
    "treats the variance of GRPO's gradient as that of a U-statistic. "
    "It needs two levels of reward.",
    statement=noise_from({"psr": "successes", "nsr": "failures"}),
    planted={"exchanged": noise_from({"psr": "failures", "nsr": "successes"})},
)
def sign_axis_is_noise(statement):
    """The second moments over all groups; the variance of one rollout."""
    yield from equals(statement, cases((1, 2, 3), weights=("psr", "nsr")), derived=derived_noise, enumerated=noise)


def even(actions, right):
    """A policy of equally likely actions, some of them correct."""
    return (Fraction(1, actions),) * actions, tuple(action < right for action in range(actions))


PAIRS_OF_ACTIONS = [((p, 1 - p), (True, False)) for p in (Fraction(1, 10), Fraction(2, 5), Fraction(3, 4))]
SPREAD_OUT = [even(actions, right) for actions in (3, 6, 10) for right in (1, actions - 1)]
QUIETER_CASES = [
    {"policy": policy, "correct": correct, "G": 2} for policy, correct in (*POLICIES, *PAIRS_OF_ACTIONS, *SPREAD_OUT)
]


def both_noises(policy, correct, G):
    """G times the summed variance under PSR and under NSR, from all groups."""
    return tuple(noise(policy, correct, G, weight) for weight in ("psr", "nsr"))


def both_derived_noises(policy, correct, G):
    """The same from one rollout."""
    return tuple(derived_noise(policy, correct, G, weight) for weight in ("psr", "nsr"))


def quieter_by(margin):
    """PSR is the quieter, NSR, or neither, by the sign of a margin of Q, P_2 and N_2."""

    def holds(noises, policy, correct, **_):
        squares = [p**2 for p in policy]
        sums = mass(policy, correct), mass(squares, correct), mass(squares, [not right for right in correct])
        quieter, stated = noises[1] - noises[0], margin(*sums)
        return (quieter > 0, quieter < 0) == (stated > 0, stated < 0)

    return holds


@claim(
    "simlab:quieter-outcome",
    where="Beyond the papers, question 1",
    says="Learning from successes is quieter than learning from failures exactly if 2 (P_2 - N_2) > (2 Q - 1) (1 + P_2 "
    "+ N_2). Where there are only two actions the rarer outcome thus gives the noisier step, by the odds squared; "
    "where the actions are equally likely and more than two, it gives the quieter one.",
    formula=r"G\sum_a\left(\mathrm{Var}_{\mathrm{NSR}}-\mathrm{Var}_{\mathrm{PSR}}\right)=\eta^2\left[2(P_2-N_2)-(2Q-1)"
    r"(1+P_2+N_2)\right]",
    refuted_by="a policy at which the other outcome is the quieter, two actions whose variances are not as the squared "
    "odds, or equally likely actions of which the rarer outcome is not the quieter",
    reading="One prompt, free logits, the two weights of simlab:sign-axis-is-noise, P_2 and N_2 the sums of squared "
    "probabilities of correct and incorrect actions. With two actions of p and 1 - p the variances are 2 p (1 - p)^3 "
    "and 2 p^3 (1 - p): at 2/5 correct .173 under PSR and .077 under NSR. A search (2026-11) found no such comparison. "
    "It needs two levels of reward.",
    caveat="Noise is the summed variance of the logit changes here, and no other norm.",
    statement=quieter_by(lambda q, right, wrong: 2 * (right - wrong) - (2 * q - 1) * (1 + right + wrong)),
    planted={
        "the rarer outcome is the quieter": quieter_by(lambda q, right, wrong: 1 - 2 * q),
        "the rarer outcome is the noisier": quieter_by(lambda q, right, wrong: 2 * q - 1),
        "a factor": quieter_by(lambda q, right, wrong: (right - wrong) - (2 * q - 1) * (1 + right + wrong)),
    },
)
def quieter_outcome(statement):
    """All groups of two; then both special cases."""
    yield from satisfies(statement, QUIETER_CASES, both_noises, derived=both_derived_noises)

    def special(noises, policy, correct, **_):
        q_pos = mass(policy, correct)
        if len(policy) == 2:
            return noises[0] * q_pos**2 == noises[1] * (1 - q_pos) ** 2
        return (noises[0] < noises[1]) == (q_pos < Fraction(1, 2))

    points = [{"policy": policy, "correct": right, "G": 2} for policy, right in (*PAIRS_OF_ACTIONS, *SPREAD_OUT)]
    yield from satisfies(special, points, both_noises)
