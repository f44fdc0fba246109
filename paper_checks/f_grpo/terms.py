"""Section 3.2 and Appendices A, C and G: claimed effects of the terms of Eqs. 10 and 17."""

import itertools
from fractions import Fraction

import numpy as np

from paper_checks.claim import Amended, claim
from paper_checks.evidence import equals, number, satisfies, vanishes
from paper_checks.exact import POLICIES, expectation, mass
from paper_checks.f_grpo.sampled_sets import (
    BATCHES,
    SIMULATED,
    batch_of,
    batches_of,
    derived_change,
    derived_logits,
    derived_mass,
    derived_policy_change,
    theorem_steps,
    unsampled,
)
from paper_checks.simulated import estimate

# One action holds most of the mass: a correct one of three or of four, or an incorrect one.
LOPSIDED = (
    ((Fraction(9, 10), Fraction(1, 20), Fraction(1, 20)), (True, True, False)),
    ((Fraction(1, 20), Fraction(9, 10), Fraction(1, 20)), (True, False, False)),
    ((Fraction(3, 5), Fraction(1, 10), Fraction(3, 10)), (True, True, False)),
    ((Fraction(4, 5), Fraction(1, 10), Fraction(1, 50), Fraction(2, 25)), (True, True, False, False)),
    ((Fraction(3, 10), Fraction(3, 5), Fraction(1, 100), Fraction(9, 100)), (True, True, False, False)),
    ((Fraction(22, 25), Fraction(1, 100), Fraction(1, 20), Fraction(3, 50)), (True, True, False, False)),
)
MANY = BATCHES + [{"batch": batch} for policy, correct in LOPSIDED for batch in batches_of(policy, correct)]
# The only correct action, or the only incorrect one, is rare.
RARE = (
    ((Fraction(40, 61), Fraction(1, 61), Fraction(20, 61)), (False, True, False)),
    ((Fraction(1, 106), Fraction(5, 106), Fraction(25, 53), Fraction(25, 53)), (False, True, True, True)),
)
GROWING = (1, 2, 4, 1024)  # the last draws every action of these policies almost surely
SURE = "surely not negative"
UNITS = ("at a fixed learning rate", "in units of eta/G", SURE)
ACTIVE = [point for point in MANY if point["batch"].P_pos > 0 and point["batch"].P_neg > 0]


def reward_positive(batch):
    """S_R > 0."""
    return batch.S_R > 0


@claim(
    "f-grpo:eq-10",
    where="Section 3.2, below Proposition 3.2; abstract",
    says="Unsampled correct mass can shrink in a step in which total correct mass grows.",
    refuted_by="no batch in which the one change is negative and the other positive",
    reading="A claim of existence.",
    caveat="It does not say how often: under Eq. 5 the mean change of the unsampled correct mass can be positive "
    "(f-grpo:sec-5.1-same-mechanism).",
    statement=lambda total, missed: total > 0 > missed,
    planted={"missed mass grows more than the total": lambda total, missed: missed > total > 0},
)
def eq_10(statement):
    """Derive both changes for every batch and look for one of the kind claimed."""
    yield from satisfies(
        lambda exists, **_: exists,
        [{"policies": len(POLICIES)}],
        lambda policies: any(
            statement(derived_mass(batch, batch.correct), derived_mass(batch, batch.unsampled_correct))
            for batch in (point["batch"] for point in BATCHES)
        ),
    )


@claim(
    "f-grpo:app-c-signs",
    where="Appendix C, below Eq. 17",
    says="The first two terms of Eq. 17 are never negative, and the third can have either sign.",
    refuted_by="a batch with a negative first or second term, or a third term of one sign only",
    reading="With R_c >= 0 >= R_w, as the framework assumes.",
    statement=lambda terms: (
        all(promoted >= 0 and demoted >= 0 for promoted, demoted, _ in terms)
        and any(coupling < 0 for *_, coupling in terms)
        and any(coupling > 0 for *_, coupling in terms)
    ),
    planted={"the coupling is never negative": lambda terms: all(coupling >= 0 for *_, coupling in terms)},
)
def app_c_signs(statement):
    """All three terms at all batches, by what the derived change loses when only one kind of action moves."""

    def terms(batches):
        for batch in (point["batch"] for point in batches):
            moves = derived_logits(batch)
            yield tuple(
                mass(
                    derived_policy_change(
                        batch.policy, [z if kind else Fraction(0) for z, kind in zip(moves, kinds, strict=True)]
                    ),
                    batch.correct,
                )
                for kinds in (
                    [c and s for c, s in zip(batch.correct, batch.sampled, strict=True)],
                    [s and not c for c, s in zip(batch.correct, batch.sampled, strict=True)],
                    [not s for s in batch.sampled],
                )
            )

    yield from satisfies(
        lambda value, **_: statement(list(terms(MANY))), [{"batches": len(MANY)}], lambda batches: batches
    )


@claim(
    "f-grpo:brorl-lemma-2",
    where="Appendix C; Lemma 2 of BroRL",
    says="The unsampled second moments decay with G, for one action as p^2 (1 - p)^G in the mean (BroRL's Lemma 2), "
    "which drives the unsampled coupling to zero.",
    formula=r"\mathbb{E}[p^2 1\{\text{unsampled}\}] = p^2 (1-p)^G",
    refuted_by="an action and a group size with another mean over all groups",
    reading="Per action, i.i.d. draws. The decay is geometric, but for a rare action it starts only at G ~ 1/p.",
    statement=lambda p, G: p**2 * (1 - p) ** G,
    planted={
        "without replacement": lambda p, G: p**2 * (1 - G * p),
        "exponent": lambda p, G: p**2 * (1 - p) ** (G - 1),
    },
)
def second_moment(statement):
    """Enumerate the groups of a policy; draw them; and see the moment vanish."""
    policy, correct = SIMULATED["policy"], SIMULATED["correct"]

    def moment(p, G):
        action = policy.index(p)
        return expectation(policy, G, lambda counts: p**2 * (counts[action] == 0))

    def sampled(p, G):
        action = policy.index(p)
        return estimate(np.float64(p) ** 2 * unsampled(theorem_steps(policy, correct, G))[:, action])

    yield from equals(
        statement,
        [{"p": p, "G": G} for p in policy[1:3] for G in (1, 2, 4)],
        enumerated=moment,
        sampled=sampled,
        sampled_points=[{"p": policy[1], "G": 4}],
    )
    yield from vanishes(
        lambda step, p: number(statement(p, round(1 / step))),
        [{"p": p} for p in policy[1:3]],
        order=1,
        steps=("1e-1", "1e-2"),
    )


@claim(
    "f-grpo:sec-3.2-drift-vanishes",
    where="Section 3.2, below Proposition 3.2",
    says="Scaling G suppresses U_pos2, and the direct drift tends to zero.",
    refuted_by="a policy for which the mean size of the drift does not fall towards zero",
    reading="For a fixed policy, in the mean over groups, without the factor eta/G, which helps further. It takes G "
    "well above 1/p of the rarest correct action that matters.",
    statement=lambda sizes: (
        all(later < earlier for earlier, later in itertools.pairwise(sizes)) and sizes[-1] < sizes[0] / 100
    ),
    planted={"grows at first": lambda sizes: sizes[1] > sizes[0]},
)
def drift_vanishes(statement):
    """The exact mean of |S_R| U_pos2 over all groups, G = 4, 16 and 64."""

    def sizes(policy, correct):
        def size(counts):
            batch = batch_of(policy, correct, counts)
            return abs(batch.S_R) * batch.U_pos2

        return [expectation(policy, G, size) for G in (4, 16, 64)]

    yield from satisfies(
        lambda value, **_: statement(value), [{"policy": p, "correct": c} for p, c in POLICIES[:2]], sizes
    )


@claim(
    "f-grpo:app-a-ensures",
    where="Section 3.2, last paragraph; Appendix A, after BroRL",
    says="Scaling G ensures that the total correct mass does not fall in a step.",
    refuted_by="a group, however large, of positive probability in which total correct mass falls",
    reading="Group by group, of mixed rewards alone: a large group can miss the likely correct action and fall. The "
    "chance that G rollouts miss an action of probability p is (1 - p)^G, so that the condition is met with "
    "probability tending to one; on the reading 'in the limit' the claim holds without it.",
    statement=lambda change, batch: change >= 0,
    condition=Amended(
        "every action is sampled, or the unsampled coupling S_R (Q_pos U_neg2 - Q_neg U_pos2) is not negative",
        lambda change, batch: (
            change >= 0 if batch.S_R * (batch.Q_pos * batch.U_neg2 - batch.Q_neg * batch.U_pos2) >= 0 else None
        ),
    ),
    met="partly: losses get rarer as G grows; in the simulation not even G = 131072 draws every action at first",
    planted={"it always falls": lambda change, batch: change < 0},
)
def ensures(statement):
    """The derived change of Q_pos for every set of distinct actions that a large group can hold."""
    yield from satisfies(statement, ACTIVE, lambda batch: derived_mass(batch, batch.correct))


def sampled_set(policy, members, G):
    """The probability that the distinct actions among G draws are these, by inclusion and exclusion."""
    inside = [p for p, member in zip(policy, members, strict=True) if member]
    return sum(
        (-1) ** (len(inside) - size) * sum(chosen) ** G
        for size in range(1, len(inside) + 1)
        for chosen in itertools.combinations(inside, size)
    )


def gains_by_group_size(policy, correct):
    """For each of ``GROWING``: the mean of Delta Q_pos in two units, and the probability that it is not negative."""
    sets = [members for members in itertools.product((0, 1), repeat=len(policy)) if any(members)]
    changes = {members: derived_mass(batch_of(policy, correct, members), correct) for members in sets}
    gained: dict[str, list[Fraction]] = {unit: [] for unit in UNITS}
    for G in GROWING:
        chances = {members: sampled_set(policy, members, G) for members in sets}
        mean = sum((chances[members] * changes[members] for members in sets), start=Fraction(0))
        sure = sum((chances[members] for members in sets if changes[members] >= 0), start=Fraction(0))
        for unit, value in zip(UNITS, (mean / G, mean, sure), strict=True):
            gained[unit].append(value)
    return gained


@claim(
    "f-grpo:sec-3.2-mass-grows-with-group-size",
    where="Section 3.2, Eq. 9, the sentence before it",
    says="Total correct mass tends to increase with the group size in the local categorical slice, by Eq. 17.",
    refuted_by="a policy at which a group, however large, loses correct mass with a probability that does not vanish",
    reading="The stored text has lost what it tends to increase with. It is taken as BroRL has it, whom the section "
    "follows: how surely a step does not lose correct mass tends to one in the limit of large groups.",
    caveat="No more than in the limit. From one group size to the next that probability can fall. The mean change "
    "falls with G at a fixed learning rate, since each distinct action counts once and 1/G beats the rest; in units of "
    "eta/G it rises at many policies, but not where the only correct action is rare among a few likely incorrect ones.",
    statement=lambda gains, unit: gains[-1] > 1 - Fraction(1, 1000) if unit == SURE else None,
    planted={
        "the mean, at a fixed learning rate": lambda gains, unit: (
            sorted(gains) == gains if unit == "at a fixed learning rate" else None
        ),
        "in units of eta/G": lambda gains, unit: sorted(gains) == gains if unit == "in units of eta/G" else None,
        "from each group size to the next": lambda gains, unit: sorted(gains) == gains if unit == SURE else None,
        "at four rollouts already": lambda gains, unit: gains[2] > 1 - Fraction(1, 1000) if unit == SURE else None,
    },
)
def mass_grows_with_group_size(statement):
    """The exact distribution of the derived change over all sets that a group can hold, by group size."""
    yield from satisfies(
        lambda value, policy, correct, unit: statement(value, unit),
        [{"policy": p, "correct": c, "unit": unit} for p, c in (*POLICIES, *LOPSIDED, *RARE) for unit in UNITS],
        lambda policy, correct, unit: gains_by_group_size(policy, correct)[unit],
    )


@claim(
    "f-grpo:sec-3.2-both-terms",
    where="Section 3.2, below Proposition 3.2",
    says="The direct drift is negative in reward-positive batches that miss correct actions, and then the coupling "
    "can be negative too.",
    refuted_by="a reward-positive batch with a drift of zero or more, or none with both terms negative",
    reading="'Can' is existence for the coupling. It can also be positive: where sampled incorrect actions are "
    "concentrated, the unsampled correct gain in a reward-positive batch.",
    statement=lambda drift, coupling: (all(value < 0 for value in drift), any(value < 0 for value in coupling)),
    planted={
        "the coupling always": lambda drift, coupling: (
            all(value < 0 for value in drift),
            all(value < 0 for value in coupling),
        )
    },
)
def both_terms(statement):
    """The two parts of the derived change: unsampled correct logits alone, and the rest."""
    batches = [
        point["batch"] for point in BATCHES if reward_positive(point["batch"]) and any(point["batch"].unsampled_correct)
    ]
    drift, coupling = [], []
    for batch in batches:
        moves = derived_logits(batch)
        direct = sum(p * z for p, z, missed in zip(batch.policy, moves, batch.unsampled_correct, strict=True) if missed)
        drift.append(direct)
        coupling.append(derived_mass(batch, batch.unsampled_correct) - direct)
    yield from satisfies(
        lambda value, **_: all(value), [{"batches": len(batches)}], lambda batches: statement(drift, coupling)
    )


def by_own_logits(batch, members):
    """The derived changes of some actions when their logits alone move."""
    direction = [z if member else 0 for z, member in zip(derived_logits(batch), members, strict=True)]
    return tuple(itertools.compress(derived_policy_change(batch.policy, direction), members))


def component(statement, kind):
    """The derived changes of the sampled correct or incorrect actions: by their own logits alone, and in all."""

    def changes(batch):
        members = [sampled and correct == kind for correct, sampled in zip(batch.correct, batch.sampled, strict=True)]
        return by_own_logits(batch, members), tuple(itertools.compress(derived_change(batch), members))

    points = [point for point in MANY if (point["batch"].P_pos if kind else point["batch"].P_neg) > 0]
    yield from satisfies(lambda value, batch: statement(*value, batch), points, changes)


@claim(
    "f-grpo:app-g-sampled-gain",
    where="Appendix G, component 1 of the coupling",
    says="Sampled correct actions gain probability by their component (R_c - S_R) A_2, and draw it from the others.",
    refuted_by="a batch in which the logit changes of the sampled correct actions, taken alone, do not give to them",
    reading="What the component does, taken alone, to their mass as a whole. A rare one among them can lose to a "
    "likely one, since the step p_j (R_j - S_R) favours the likely.",
    caveat="After the whole step they can lose in a reward-negative batch, where the rising unsampled outweigh them; "
    "with the rewards 1 and 0 of the LLM runs there is none.",
    statement=lambda alone, whole, batch: sum(alone) > 0 if batch.R_c > batch.S_R else None,
    planted={
        "each gains": lambda alone, whole, batch: min(alone) > 0 if batch.R_c > batch.S_R else None,
        "also after the whole step": lambda alone, whole, batch: sum(whole) >= 0,
    },
)
def sampled_gain(statement):
    """The derived changes of the sampled correct actions."""
    yield from component(statement, kind=True)


@claim(
    "f-grpo:app-g-sampled-loss",
    where="Appendix G, component 2 of the coupling",
    says="Sampled incorrect actions lose probability by their component (R_w - S_R) B_2, and give it to all others.",
    refuted_by="a batch in which the logit changes of the sampled incorrect actions, taken alone, do not take from "
    "them",
    reading="What the component does, taken alone, to their mass as a whole, as for the first one.",
    caveat="After the whole step they can gain in a reward-positive batch, where likelier actions, unsampled, lose "
    "more.",
    statement=lambda alone, whole, batch: sum(alone) < 0 if batch.R_w < batch.S_R else None,
    planted={
        "they gain": lambda alone, whole, batch: sum(alone) > 0,
        "also after the whole step": lambda alone, whole, batch: sum(whole) <= 0,
    },
)
def sampled_loss(statement):
    """The derived changes of the sampled incorrect actions."""
    yield from component(statement, kind=False)


def likeliest(batch):
    """The probability of the likeliest sampled correct action."""
    members = zip(batch.policy, batch.correct, batch.sampled, strict=True)
    return max(p for p, correct, sampled in members if correct and sampled)


@claim(
    "f-grpo:app-g-coupling",
    where="Appendix G, end, item 2",
    says="In a reward-positive batch with concentrated sampled correct mass the coupling is dominated by "
    "(R_c - S_R) A_2 and drains unsampled correct mass.",
    refuted_by="such a batch with a negative bracket in Eq. 10",
    reading="Concentrated as Appendix G has the word, for a second moment: A_2 is large. Half of all probability in "
    "one sampled correct action is enough, whatever the others do; three tenths are not.",
    caveat="It is not enough that one action holds all of the sampled correct mass, also on a prompt of high success: "
    "the unsampled together can outweigh it. In the simulation of Appendix J the likeliest correct action starts with "
    "probability 0.0005.",
    statement=lambda held, batch: held[1] >= 0 if held[0] >= Fraction(1, 2) else None,
    planted={
        "in every reward-positive batch": lambda held, batch: held[1] >= 0,
        "one action holds the sampled correct mass": lambda held, batch: (
            held[1] >= 0 if held[0] == batch.P_pos else None
        ),
        "three tenths are enough": lambda held, batch: held[1] >= 0 if held[0] >= Fraction(3, 10) else None,
        "on a prompt of high success": lambda held, batch: (
            held[1] >= 0 if held[0] == batch.P_pos and batch.Q_pos >= Fraction(9, 10) else None
        ),
    },
)
def coupling(statement):
    """In mixed groups with S_R > 0: the likeliest sampled correct action, the policy's mean of the logit update."""

    def held(batch):
        return likeliest(batch), sum(p * z for p, z in zip(batch.policy, derived_logits(batch), strict=True))

    points = [point for point in ACTIVE if reward_positive(point["batch"]) and any(point["batch"].unsampled_correct)]
    yield from satisfies(statement, points, held)


@claim(
    "f-grpo:app-g-unsampled",
    where="Appendix G, component 3 of the coupling",
    says="When S_R > 0, unsampled actions, correct and incorrect, lose probability through baseline subtraction.",
    refuted_by="a reward-positive batch in which baseline subtraction, taken alone, gives to the unsampled actions",
    reading="What baseline subtraction alone does, the logit change -S_R p_j of the unsampled, to their mass as a "
    "whole. Not each of them: one less likely than U_2 gains from the loss of the others. After the whole step the "
    "mass can grow, if sampled incorrect actions give more than it loses.",
    statement=lambda moved, batch: moved < 0,
    planted={
        "they gain": lambda moved, batch: moved > 0,
        "by more than their second moment": lambda moved, batch: moved < -batch.S_R * batch.U_2,
    },
)
def unsampled_lose(statement):
    """The derived change of the unsampled mass under the unsampled logits' part of the step."""

    points = [point for point in MANY if reward_positive(point["batch"]) and not all(point["batch"].sampled)]
    yield from satisfies(
        statement, points, lambda batch: sum(by_own_logits(batch, [not sampled for sampled in batch.sampled]))
    )


@claim(
    "f-grpo:app-g-total-grows",
    where="Appendix G, end, item 3",
    says="In a reward-positive batch of concentrated sampled correct mass on a prompt of high success the total "
    "correct mass still grows, since the first two terms of Eq. 17 outweigh the coupling.",
    refuted_by="such a batch, of mixed rewards, in which total correct mass falls",
    reading="The regime of the list that it closes: S_R > 0, Q_pos of 1/2 or more, half of all probability in one "
    "sampled correct action, correct and incorrect actions sampled.",
    caveat="Without that concentration it can fall on a prompt of high success: where (R_c - S_R) A_2 < S_R U_pos2.",
    statement=lambda change, batch: change > 0 if likeliest(batch) >= Fraction(1, 2) else None,
    planted={
        "without concentration": lambda change, batch: change > 0,
        "it falls": lambda change, batch: change < 0,
    },
)
def total_grows(statement):
    """The derived change of Q_pos in reward-positive batches of high success."""
    points = [point for point in ACTIVE if reward_positive(point["batch"]) and point["batch"].Q_pos >= Fraction(1, 2)]
    yield from satisfies(statement, points, lambda batch: derived_mass(batch, batch.correct))
