"""Section 4.1: which way successes, failures and AsymGRPO's delta drive the entropy of a tabular softmax."""

from fractions import Fraction
from typing import Any

from mpmath import mp, mpf

from paper_checks.claim import Amended, claim
from paper_checks.evidence import grid, number, satisfies
from paper_checks.exact import entropy, groups, mass, stepped
from paper_checks.fade.main_gradients import (
    POINTS,
    WEIGHTS,
    derived_entropy_slope,
    derived_update,
    entropy_slope,
    expected_update,
    group_update,
    successes,
    wrong,
)

PEAKED: dict[str, Any] = {"policy": (Fraction(3, 4), Fraction(1, 8), Fraction(1, 8)), "correct": (True, False, False)}
SPREAD: dict[str, Any] = {
    "policy": (Fraction(2, 5), *[Fraction(1, 5)] * 3),
    "correct": (True, False, False, False),
}
RARE: dict[str, Any] = {"policy": (Fraction(1, 10), Fraction(1, 10), Fraction(4, 5)), "correct": (True, True, False)}
PLACES = [*POINTS[:3], PEAKED, SPREAD, RARE]


def all_likelier(policy, correct, members):
    """Whether the actions among ``members`` are all likelier than exp(-H), and all others less likely."""
    level = mp.exp(-entropy(policy))
    return all((number(p) > level) == bool(member) for p, member in zip(policy, members, strict=True))


def falls(weight):
    """The statement that a weight lowers the entropy."""
    return lambda slope, policy, correct, **other: slope < 0 if other["weight"] == weight else None


def falls_where_correct_is_likely(weight):
    """The same, silent unless the correct actions are likelier than exp(-H) and the wrong ones less."""
    return lambda slope, policy, correct, **other: (
        slope < 0 if other["weight"] == weight and all_likelier(policy, correct, correct) else None
    )


def harmless_at_low_rates(slope, policy, correct, weight):
    """The statement that REINFORCE does not lower the entropy where p < 1/2."""
    return slope >= 0 if weight == "REINFORCE" and mass(policy, correct) < Fraction(1, 2) else None


LIKELY = "every correct action is likelier than exp(-H) and every wrong one less likely"


@claim(
    "fade:takeaway-4-1",
    where="Section 4.1, takeaway",
    says="At low solve rates reinforcing successes does not collapse the entropy.",
    refuted_by="a policy with p < 1/2 whose entropy falls along the expected update of successes",
    reading="Low is p < 1/2, where the paper's ratio p / q is below 1. What counts is how likely single actions are: "
    "one success of 2/5 among failures of 1/5 each is the mode, and gains. With two actions the takeaway holds.",
    statement=harmless_at_low_rates,
    condition=Amended(
        "every correct action is less likely than exp(-H) and every wrong one likelier",
        lambda slope, policy, correct, weight: (
            harmless_at_low_rates(slope, policy, correct, weight)
            if all_likelier(policy, correct, wrong(correct))
            else None
        ),
    ),
    planted={"it does": lambda slope, weight, **_: slope < 0 if weight == "REINFORCE" else None},
)
@claim(
    "fade:sec-4-1-delta-one",
    where="Section 4.1, bullet delta = 1",
    says="Under a sign-balanced weight the entropy collapses, with no mechanism to recover.",
    refuted_by="a policy whose entropy rises along the expected update of mean GRPO",
    reading="Mean GRPO and a tabular softmax, first order in the step. The covariance is not of one sign: where wrong "
    "actions are the likely ones, learning raises the entropy until they no longer are.",
    statement=falls("mean GRPO"),
    condition=Amended(LIKELY, falls_where_correct_is_likely("mean GRPO")),
    planted={"it rises": lambda slope, weight, **_: slope > 0 if weight == "mean GRPO" else None},
)
@claim(
    "fade:sec-4-1-headline",
    where="Section 4.1, headline; Section 1, first trade-off",
    says="Reinforcing successes lowers the entropy.",
    refuted_by="a policy whose entropy rises along the expected update of successes",
    reading="REINFORCE on rewards 1 and 0 and a tabular softmax, first order in the step. At p < 1/2 with two actions "
    "it raises the entropy. For a policy that is already mostly right, as later in training, the headline is right.",
    statement=falls("REINFORCE"),
    condition=Amended(LIKELY, falls_where_correct_is_likely("REINFORCE")),
    planted={"it raises it": lambda slope, weight, **_: slope > 0 if weight == "REINFORCE" else None},
)
def entropy_direction(statement):
    """The entropy's slope along the expected update: over all groups of two, and by two sympy derivatives."""

    def derived(policy, correct, weight):
        success, failure = WEIGHTS[weight](mass(policy, correct))
        shrunk = Fraction(1, 2) if weight == "mean GRPO" else 1  # (G - 1)/G, from groups of two
        return derived_entropy_slope(policy, derived_update(policy, correct, shrunk * success, shrunk * failure))

    points = [place | {"weight": weight} for weight in ("REINFORCE", "mean GRPO") for place in PLACES]
    yield from satisfies(
        statement,
        points,
        lambda policy, correct, weight: entropy_slope(policy, expected_update(policy, correct, 2, WEIGHTS[weight])),
        derived=derived,
    )


def faster(above):
    """The statement that delta above 1 (or below) loses entropy faster than delta = 1."""
    return lambda slopes, policy, correct, delta: (
        abs(slopes[0]) > abs(slopes[1]) if (delta > 1) == above and slopes[1] < 0 else None
    )


def slower(above):
    """The statement that delta above 1 (or below) loses entropy, but slower than delta = 1."""
    return lambda slopes, policy, correct, delta: (
        slopes[1] < slopes[0] < 0 if (delta > 1) == above and slopes[1] < 0 else None
    )


ASYMMETRY = (
    "Expected update of AsymGRPO over groups of three, tabular softmax, first order in the step: it is q + p / delta "
    "times mean GRPO's, so that delta changes the pace of all change and the sign of none. At equal pace only noise is "
    "left, of second order: fade:sec-4-1-equal-pace."
)


@claim(
    "fade:sec-4-1-delta-below",
    where="Section 4.1, bullet delta < 1",
    says="delta < 1 (failures scaled up) is a restoring force that slows the loss of entropy.",
    refuted_by="a policy that loses entropy faster with delta 1/2 than with delta 1",
    reading=ASYMMETRY,
    statement=slower(above=False),
    correction=Amended("delta < 1 accelerates it, by the factor q + p / delta", faster(above=False)),
)
@claim(
    "fade:sec-4-1-delta-above",
    where="Section 4.1, bullet delta > 1; Figure 3",
    says="delta > 1 (failures scaled down) accelerates the loss of entropy.",
    refuted_by="a policy that loses entropy more slowly with delta 2 than with delta 1",
    reading=ASYMMETRY,
    statement=faster(above=True),
    correction=Amended("delta > 1 slows it, by the factor q + p / delta", slower(above=True)),
)
def asymmetric_pace(statement):
    """The slopes of the entropy under delta and under 1: over all groups of three, and by sympy derivatives."""

    def enumerated(policy, correct, delta):
        return tuple(
            entropy_slope(policy, expected_update(policy, correct, 3, lambda p, each=each: (1 - p, p / each)))
            for each in (delta, 1)
        )

    def derived(policy, correct, delta):
        # Two in three: a group of three has p q (G - 1) / G as its expected mass.
        p = Fraction(2, 3) * mass(policy, correct)
        q = Fraction(2, 3) * mass(policy, wrong(correct))
        return tuple(derived_entropy_slope(policy, derived_update(policy, correct, q, p / each)) for each in (delta, 1))

    points = [place | point for point in grid(delta=[Fraction(2), Fraction(1, 2)]) for place in (POINTS[1], PEAKED)]
    yield from satisfies(statement, points, enumerated, derived=derived)


@claim(
    "fade:sec-4-1-equal-pace",
    where="Section 4.1; Figure 3, at the equalised learning rates of Appendix 11.3",
    says="At learning rates that learn equally fast, delta > 1 loses more entropy than delta < 1.",
    refuted_by="a policy that loses less with delta 2 than with delta 1/2, the rates divided by q + p / delta",
    reading="The reading most favourable to Section 4.1: full steps at rate 1, groups of four, expected over all "
    "groups. What differs is the noise of either side: weighting up the more diverse outcome costs entropy. With "
    "several correct actions and one wrong one the claim mostly comes true; the paper has successes few and similar "
    "and failures diverse, the case in which it mostly does not.",
    statement=lambda changes, **_: changes[0] < changes[1],
    planted={"much more": lambda changes, **_: changes[0] < 2 * changes[1]},
)
def equal_pace(statement):
    """The exact expected change of the entropy over all groups, after steps of equal first order."""

    def change(policy, correct, delta):
        p = mass(policy, correct)
        total = mpf(0)
        for chance, counts in groups(policy, 4):
            rate = Fraction(successes(counts, correct), 4)
            step = group_update(policy, correct, counts, 1 - rate, rate / delta)
            total += number(chance) * entropy(stepped(policy, step, 1 / number(1 - p + p / delta)))
        return total - entropy(policy)

    diverse = {"policy": (Fraction(3, 5), Fraction(1, 5), Fraction(1, 5)), "correct": (True, True, False)}
    yield from satisfies(
        statement,
        [diverse, SPREAD],
        lambda policy, correct: tuple(change(policy, correct, delta) for delta in (Fraction(2), Fraction(1, 2))),
    )


@claim(
    "fade:vs-casp",
    where="Section 4.1, bullet delta < 1, against CaSP's Lemma 2 (squeeze effect)",
    says="Suppressing a failure raises the entropy.",
    refuted_by="a failure whose suppression lowers the entropy",
    reading="One step down on one sampled failure, a tabular softmax, first order. FADE calls failure bias a restoring "
    "force, CaSP says that negative updates concentrate too. Both are right of different failures: the entropy rises "
    "where the failure is the likeliest action, and falls where it is less likely than exp(-H).",
    statement=lambda slope, policy, action: slope > 0,
    condition=Amended(
        "the failure is the likeliest action, the one case that CaSP's penalty picks out",
        lambda slope, policy, action: slope > 0 if policy[action] == max(policy) else None,
    ),
    planted={"CaSP's squeeze for all": lambda slope, policy, action: slope < 0},
)
def suppressed_failure(statement):
    """The entropy's slope along minus the score of each action in turn, by formula and by sympy."""

    def minus_score(policy, action):
        return [p - (place == action) for place, p in enumerate(policy)]

    points = [
        {"policy": place["policy"], "action": action}
        for place in (POINTS[0], POINTS[1], PEAKED, RARE)
        for action in range(len(place["policy"]))
    ]
    yield from satisfies(
        statement,
        points,
        lambda policy, action: entropy_slope(policy, minus_score(policy, action)),
        derived=lambda policy, action: derived_entropy_slope(policy, minus_score(policy, action)),
        method="numerical",
    )


@claim(
    "fade:vs-f-grpo",
    where="Section 4.3 takeaway, with F-GRPO's Section 4 (hard focus keeps rare solutions)",
    says="At one prompt a hard-focused weight spreads its update otherwise over the correct solutions than mean GRPO.",
    refuted_by="a policy at which Power-2's expected update is a multiple of mean GRPO's",
    reading="Both papers credit hard focus with diversity. At a single prompt a weight that sees only the solve rate "
    "scales the expected update and leaves its direction grad p; what it does to diversity it does across prompts, "
    "through noise, or by ending the training of solved prompts sooner. A batch of several prompts does turn.",
    statement=lambda found, **_: found != 0,
    correction=Amended("it is the same update, scaled", lambda found, **_: found == 0),
)
def hard_focus(statement):
    """The squared area between the two expected updates, over all groups of four."""

    def area(policy, correct):
        ours, theirs = (expected_update(policy, correct, 4, WEIGHTS[name]) for name in ("Power-2", "mean GRPO"))
        return sum(
            (ours[i] * theirs[j] - ours[j] * theirs[i]) ** 2 for i in range(len(policy)) for j in range(len(policy))
        )

    yield from satisfies(statement, POINTS[1:3], area)


def a_grae_ratio(solve_rate, entropy_level):
    """m_S / m_F of A-GRAE's Equation 13 with alpha = 1: successes times min(1, mean reward)."""
    return min(Fraction(1), solve_rate)


def fade_ratio(solve_rate, entropy_level, target=Fraction(1, 2)):
    """m_S / m_F of FADE's Equation 11: delta, from the entropy, the initial one being 1."""
    return min(max(1 + entropy_level - target, Fraction(3, 10)), Fraction(1))


@claim(
    "fade:vs-a-grae",
    where="Section 5 against A-GRAE's Equation 13",
    says="FADE and A-GRAE suppress successes in the same phase of training.",
    refuted_by="a run of rising solve rate and falling entropy along which their ratios m_S / m_F move oppositely",
    reading="Both papers favour failures at some time: A-GRAE early, for exploration (and it calls this what raises "
    "the entropy), FADE late, for exploitation. At first order of a tabular softmax neither is exploration: the ratio "
    "sets the pace, q + p / delta. The sentence is ours; FADE does not compare itself with A-GRAE.",
    statement=lambda ratios, start, end: (ratios[0] < ratios[1]) == (ratios[2] < ratios[3]),
    correction=Amended(
        "A-GRAE's ratio rises to 1 as problems are solved, FADE's falls from 1 as entropy is spent",
        lambda ratios, start, end: ratios[0] < ratios[1] and ratios[2] > ratios[3],
    ),
)
def schedules(statement):
    """The two ratios at the start and at the end of a run."""

    def ratios(start, end):
        return a_grae_ratio(*start), a_grae_ratio(*end), fade_ratio(*start), fade_ratio(*end)

    start, end = (Fraction(3, 10), Fraction(1)), (Fraction(4, 5), Fraction(1, 5))
    yield from satisfies(statement, [{"start": start, "end": end}], ratios, method="numerical")
