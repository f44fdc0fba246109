"""The answers and errors by which a prompt helps another that shares its head, and those by which it harms."""

from paper_checks.claim import claim
from paper_checks.evidence import equals, satisfies
from paper_checks.exact import mass
from paper_checks.laboratory.interference import WHERE
from paper_checks.laboratory.shared_head import (
    FEATURES,
    NO_OVERLAP,
    PAIRS,
    enumerated_transfer,
    heads,
    overlap,
    product,
    spread,
)
from paper_checks.laboratory.weights import WEIGHTS, as_weight, pull


def coincidences(policies, correct):
    """The chance that rollouts of the two prompts are the same action: both right, both wrong, and one of each."""
    conditional = [
        [[p / mass(policy, members) if member else 0 for p, member in zip(policy, members, strict=True)]
         for members in (right, [not value for value in right])]
        for policy, right in zip(policies, correct, strict=True)
    ]  # fmt: skip
    (right, wrong), (other_right, other_wrong) = conditional
    return (
        product(right, other_right),
        product(wrong, other_wrong),
        product(right, other_wrong) + product(wrong, other_right),
    )


def by_coincidences(mix):
    """T_01 as K_01 kappa_0 Q_0 (1 - Q_0) Q_1 (1 - Q_1) / 2 times a mix of coincidences."""

    def stated(policies, correct, features, G, weight):
        spreads = [spread(*prompt) for prompt in zip(policies, correct, strict=True)]
        taught = pull(policies[0], correct[0], G, as_weight(weight)) * spreads[0] * spreads[1]
        return overlap(features, 0, 1) * taught * mix(*coincidences(policies, correct)) / 2

    return stated


@claim(
    "simlab:interference-coincidences",
    where=WHERE,
    says="<u_i, u_j> is how often the two prompts' successes coincide, plus how often their errors do, less how often "
    "the success of one is the error of the other: harm needs answers that collide more than errors are shared.",
    formula=r"\langle u_i,u_j\rangle=\langle p_i^+,p_j^+\rangle+\langle p_i^-,p_j^-\rangle-\langle p_i^+,p_j^-\rangle-"
    r"\langle p_i^-,p_j^+\rangle",
    refuted_by="two prompts whose transfer is not this mix of coincidences",
    reading="Probabilities that one rollout of each prompt, given their outcomes, are the same action. Errors in "
    "common help: to unlearn them at one prompt unlearns them at the other. Which is why linear_softmax with shared "
    "wrong answers shows cross effects that help. Barakat et al. (2602.21189) write the inner product as a mean over "
    "pairs of correct rollouts, with their scores; a search (2026-11) found the four coincidences nowhere. "
    "It needs two levels of reward.",
    identity=True,
    statement=by_coincidences(lambda right, wrong, collide: right + wrong - collide),
    planted={
        "shared errors left out": by_coincidences(lambda right, wrong, collide: right - collide),
        "collisions left out": by_coincidences(lambda right, wrong, collide: right + wrong),
    },
)
def coincide(statement):
    """All groups of the teaching prompt."""
    yield from equals(
        statement,
        heads(weights=("nsr", "maxrl")),
        enumerated=lambda weight, **point: enumerated_transfer(0, 1, **point, weight=as_weight(weight)),
    )


def relabelled(policies, features, same):
    """The pair's policies with answers of the same actions, or of different ones, and what 0 then does to 1."""
    right = [action == 0 for action in range(len(policies[0]))]
    other = right if same else [action == 1 for action in range(len(policies[0]))]
    head = {"policies": policies, "correct": (right, other), "features": features, "G": 2}
    return enumerated_transfer(0, 1, **head, weight=WEIGHTS["psr"])


@claim(
    "simlab:interference-agreement",
    where=WHERE,
    says="Prompts with the same correct actions never harm one another where their features overlap positively, "
    "whatever their policies; where features overlap negatively they never help, and orthogonal features turn off "
    "every effect.",
    refuted_by="two prompts with the same correct actions, positive overlap and a transfer below 0",
    reading="Weights with masses of no negative sign. Successes of the one are then never errors of the other, so that "
    "<u_i, u_j> >= 0. With answers that conflict both signs occur. A search (2026-11) found no such statement. "
    "It needs two levels of reward.",
    statement=lambda effect, features, same, **_: (
        effect * overlap(features, 0, 1) > 0 if same and overlap(features, 0, 1) else
        (effect == 0 if not overlap(features, 0, 1) else None)
    ),
    planted={
        "different answers too": lambda effect, features, **_: effect * overlap(features, 0, 1) >= 0,
        "whatever the overlap": lambda effect, same, **_: effect >= 0 if same else None,
    },
)  # fmt: skip
def agreement(statement):
    """All groups of the teaching prompt, for policies relabelled to agree and to conflict."""
    points = [
        {"policies": pair[0], "features": features, "same": same}
        for pair in PAIRS
        for features in (*FEATURES, NO_OVERLAP)
        for same in (True, False)
    ]
    yield from satisfies(statement, points, relabelled)
