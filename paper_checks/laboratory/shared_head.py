"""The exact laboratory for prompts that share a head: two prompts, all groups of both, one plain gradient step.

Prompt i has logits W h_i and a group of its own; W moves by the mean over the two prompts of dz_i h_i^T, where dz_i is
the step that the group would give the logits of a prompt alone. This changes the logits of prompt j by the
product of that matrix with h_j.
"""

from fractions import Fraction

from paper_checks.evidence import grid
from paper_checks.exact import groups, mass
from paper_checks.laboratory.weights import WEIGHTS, direction, mass_gradient, pull

CONFLICT = (
    ((Fraction(3, 10), Fraction(1, 10), Fraction(3, 5)), (Fraction(3, 5), Fraction(1, 20), Fraction(7, 20))),
    ((True, False, False), (False, True, False)),
)
AGREEMENT = (
    ((Fraction(1, 2), Fraction(1, 6), Fraction(1, 3)), (Fraction(1, 10), Fraction(1, 5), Fraction(7, 10))),
    ((True, True, False), (True, True, False)),
)
TWO_ACTIONS = (
    ((Fraction(2, 5), Fraction(3, 5)), (Fraction(3, 4), Fraction(1, 4))),
    ((True, False), (False, True)),
)
COMMON_ERRORS = (
    (
        (Fraction(1, 4), Fraction(1, 20), Fraction(3, 5), Fraction(1, 10)),
        (Fraction(1, 20), Fraction(1, 5), Fraction(1, 2), Fraction(1, 4)),
    ),
    ((True, False, False, False), (False, True, False, False)),
)
PAIRS = (TWO_ACTIONS, CONFLICT, AGREEMENT, COMMON_ERRORS)
SOME_OVERLAP = ((Fraction(1), Fraction(0)), (Fraction(3, 5), Fraction(4, 5)))
NEGATIVE_OVERLAP = ((Fraction(1), Fraction(0)), (Fraction(-4, 5), Fraction(3, 5)))
NO_OVERLAP = ((Fraction(1), Fraction(0)), (Fraction(0), Fraction(2)))
FEATURES = (SOME_OVERLAP, NEGATIVE_OVERLAP)


def heads(pairs=PAIRS, features=FEATURES, group_sizes=(2,), weights=tuple(WEIGHTS)):
    """Points: two policies and their correct actions, two features, a group size, a weight."""
    listed = grid(pair=pairs, features=features, G=group_sizes, weight=weights)
    return [
        {"policies": point["pair"][0], "correct": point["pair"][1]}
        | {name: point[name] for name in ("features", "G", "weight")}
        for point in listed
    ]


def product(left, right):
    """The inner product of two vectors."""
    return sum(a * b for a, b in zip(left, right, strict=True))


def gap(policy, correct):
    """u = p^+ - p^-, the policy given a correct rollout less the policy given a wrong one."""
    q_pos = mass(policy, correct)
    return tuple(p / q_pos if right else -p / (1 - q_pos) for p, right in zip(policy, correct, strict=True))


def spread(policy, correct):
    """Q (1 - Q)."""
    q_pos = mass(policy, correct)
    return q_pos * (1 - q_pos)


def overlap(features, i, j):
    """K_ij."""
    return product(features[i], features[j])


def mixed(policy, correct, group_size, weight):
    """m = kappa Q (1 - Q)."""
    return pull(policy, correct, group_size, weight) * spread(policy, correct)


def stated_transfer(i, j, *, policies, correct, features, G, weight):
    """T_ij / eta = K_ij m_i Q_j (1 - Q_j) <u_i, u_j> / 2."""
    gaps = [gap(*prompt) for prompt in zip(policies, correct, strict=True)]
    taught = mixed(policies[i], correct[i], G, weight) * spread(policies[j], correct[j])
    return overlap(features, i, j) * taught * product(gaps[i], gaps[j]) / 2


def changed_mass(policy, correct, logit_change):
    """dQ, to first order."""
    return product(mass_gradient(policy, correct), logit_change)


def moved_by_head(head_change, feature):
    """dz = dW h, a logit a row of dW."""
    return [product(row, feature) for row in head_change]


def head_step(moves, features):
    """dW: the mean over the prompts of dz_i h_i^T."""
    return [
        [
            sum(move[action] * feature[column] for move, feature in zip(moves, features, strict=True)) / len(moves)
            for column in range(len(features[0]))
        ]
        for action in range(len(moves[0]))
    ]


def enumerated_changes(policies, correct, features, G, weight):
    """The expected first-order change of each Q, over eta, from all pairs of groups."""
    total = [Fraction(0)] * len(policies)
    for chance, counts in groups(policies[0], G):
        for other_chance, other_counts in groups(policies[1], G):
            moves = [
                direction(drawn, policy, right, weight)
                for drawn, policy, right in zip((counts, other_counts), policies, correct, strict=True)
            ]
            step = head_step(moves, features)
            for j, feature in enumerate(features):
                change = changed_mass(policies[j], correct[j], moved_by_head(step, feature))
                total[j] += chance * other_chance * change
    return tuple(total)


def enumerated_transfer(i, j, *, policies, correct, features, G, weight):
    """T_ij / eta, from all groups of prompt i, while prompt 1 - i has nothing to teach."""
    silent = [Fraction(0)] * len(policies[i])
    total = Fraction(0)
    for chance, counts in groups(policies[i], G):
        moves = [silent, silent]
        moves[i] = direction(counts, policies[i], correct[i], weight)
        total += chance * changed_mass(policies[j], correct[j], moved_by_head(head_step(moves, features), features[j]))
    return total
