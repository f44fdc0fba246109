"""Section 4.1: the entropy of a tabular softmax under successes, failures and AsymGRPO's delta."""

from fractions import Fraction
from typing import Any

from mpmath import mp, mpf

from paper_checks.claim import CHANGES, Amended, claim
from paper_checks.evidence import TOLERANCE, grid, number, satisfies
from paper_checks.exact import entropy, mass, score_gradient, stepped
from paper_checks.fade.main_gradients import (
    ONE_PROMPT,
    POINTS,
    WEIGHTS,
    derived_entropy_slope,
    derived_update,
    entropy_slope,
    expected_update,
    wrong,
)

PEAKED: dict[str, Any] = {"policy": (Fraction(3, 4), Fraction(1, 8), Fraction(1, 8)), "correct": (True, False, False)}
SPREAD: dict[str, Any] = {
    "policy": (Fraction(2, 5), *[Fraction(1, 5)] * 3),
    "correct": (True, False, False, False),
}
RARE: dict[str, Any] = {"policy": (Fraction(1, 10), Fraction(1, 10), Fraction(4, 5)), "correct": (True, True, False)}
UNIFORM: dict[str, Any] = {"policy": (Fraction(1, 3),) * 3, "correct": (True, False, False)}
PLACES = [*POINTS[:3], PEAKED, SPREAD, RARE]


def all_likelier(policy, correct, members):
    """Check that the actions among ``members`` are all likelier than exp(-H), and no others are."""
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


LIKELY = "every correct action is likelier than exp(-H) and every wrong one less likely"


@claim(
    "fade:sec-4-1-delta-one",
    where="Section 4.1, bullet delta = 1",
    says="Under a sign-balanced weight the entropy collapses, with no mechanism to recover.",
    refuted_by="a policy whose entropy rises along the expected update of mean GRPO",
    reading="Mean GRPO and a tabular softmax: the expected update at one prompt, first order. The covariance is not of "
    "one sign: where wrong actions are the likely ones, learning raises the entropy until they no longer are.",
    met="unknown: it takes the probability of single answers, which the paper does not report",
    statement=falls("mean GRPO"),
    condition=Amended(LIKELY, falls_where_correct_is_likely("mean GRPO")),
    planted={"it rises": lambda slope, weight, **_: slope > 0 if weight == "mean GRPO" else None},
)
@claim(
    "fade:sec-4-1-headline",
    where="Section 4.1, headline; Section 1, first trade-off",
    says="Reinforcing successes collapses the entropy.",
    refuted_by="a policy whose entropy rises along the expected update of successes",
    reading="REINFORCE on rewards 1 and 0 and a tabular softmax: the expected update at one prompt, first order. At p "
    "< 1/2 with two actions it raises the entropy. For a policy that is already mostly right, as later in training, "
    "the headline is right. As a report of the authors' runs it is fade:fig-3. Whether rewarding or suppressing is at "
    "work makes no difference here: simlab:entropy-sign.",
    met="partly: solve rates of .3 to .5 do not decide it; late in training, where the likeliest answer is right, "
    "it is met",
    caveat="Failures weighted alone have the same expected update, so that this is no difference between successes "
    "and failures.",
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

    points = [prompt | {"weight": weight} for weight in ("REINFORCE", "mean GRPO") for prompt in PLACES]
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


def paced(predicate):
    """A predicate, and that delta multiplies the slope by q + p / delta."""

    def stated(slopes, policy, correct, delta):
        answer = predicate(slopes, policy, correct, delta)
        pace = mass(policy, wrong(correct)) + mass(policy, correct) / delta
        return answer and abs(slopes[0] - number(pace) * slopes[1]) < TOLERANCE

    return stated


ASYMMETRY = (
    "Groups of three, and one learning rate as in Equation 7. AsymGRPO's update is q + p / delta times mean GRPO's, so "
    "that delta changes the pace of all change and the sign of none. Appendix 11.3 compares runs at other rates: "
    "fade:sec-4-1-equalised. The noise of a step adds what first order leaves out; what the authors' runs show "
    "(many prompts, shared parameters, PPO) is fade:fig-3."
)


@claim(
    "fade:sec-4-1-delta-below",
    where="Section 4.1, bullet delta < 1",
    says="At one learning rate delta < 1 (failures scaled up) is a restoring force that slows the loss of entropy.",
    refuted_by="a policy that loses entropy faster with delta 1/2 than with delta 1",
    reading=ASYMMETRY,
    severity=CHANGES,
    same_error_as="fade:eq-24",
    caveat=ONE_PROMPT,
    statement=slower(above=False),
    correction=Amended("delta < 1 accelerates it, by the factor q + p / delta", paced(faster(above=False))),
    planted={"it turns it into a gain": lambda slopes, delta, **_: slopes[0] > 0 if delta < 1 else None},
)
@claim(
    "fade:sec-4-1-delta-above",
    where="Section 4.1, bullet delta > 1; Figure 3",
    says="delta > 1 (failures scaled down) accelerates the collapse of entropy beyond what the covariance predicts.",
    refuted_by="a policy that loses entropy more slowly with delta 2 than with delta 1",
    reading=ASYMMETRY,
    severity=CHANGES,
    same_error_as="fade:eq-24",
    caveat=ONE_PROMPT,
    statement=faster(above=True),
    correction=Amended("delta > 1 slows it, by the factor q + p / delta", paced(slower(above=True))),
    planted={"as fast": lambda slopes, delta, **_: slopes[0] == slopes[1] if delta > 1 else None},
)
def asymmetric_pace(statement):
    """The slopes of the entropy under delta and under 1: over all groups of three, and by sympy derivatives."""
    yield from satisfies(
        statement,
        PACES,
        slopes_of_delta,
        derived=derived_slopes_of_delta,
        names=("entropy slope under delta", "under 1"),
    )


@claim(
    "fade:app-8-2-diversity",
    where="Appendix 8.2, item 3",
    says="delta > 1, which suppresses the negative gradient, preserves diversity.",
    formula=r"\delta>1:\ m_F<m_S",
    refuted_by="a policy that has less entropy after a step with delta 2 than after one with delta 1",
    reading=f"Diversity is the entropy. {ASYMMETRY} Here the policies of both kinds are tested: those that lose "
    "entropy lose less with delta > 1, those that gain entropy gain less.",
    met="yes: by Section 4.1 all methods lose entropy; but Figure 3 reports the contrary of this sentence for "
    "delta > 1",
    caveat=f"Section 4.1 says the contrary of the same delta. {ONE_PROMPT}",
    statement=lambda slopes, **_: slopes[0] > slopes[1],
    condition=Amended(
        "the entropy falls under delta = 1",
        lambda slopes, **_: slopes[0] > slopes[1] if slopes[1] < 0 else None,
    ),
    planted={"it costs diversity, as Section 4.1 has it": lambda slopes, **_: slopes[0] < slopes[1]},
)
def failures_suppressed(statement):
    """The slopes of the entropy under delta 2 and under 1: over all groups of three, and by sympy derivatives."""
    points = [prompt | {"delta": Fraction(2)} for prompt in (POINTS[1], PEAKED, RARE)]
    yield from satisfies(
        statement,
        points,
        slopes_of_delta,
        derived=derived_slopes_of_delta,
        names=("entropy slope under delta", "under 1"),
    )


PACES = [prompt | point for point in grid(delta=[Fraction(2), Fraction(1, 2)]) for prompt in (POINTS[1], PEAKED)]


def slopes_of_delta(policy, correct, delta):
    """The slopes of the entropy under delta and under 1, over all groups of three."""
    return tuple(
        entropy_slope(policy, expected_update(policy, correct, 3, lambda p, each=each: (1 - p, p / each)))
        for each in (delta, 1)
    )


def derived_slopes_of_delta(policy, correct, delta):
    """The same by sympy derivatives."""
    # Two in three: a group of three has p q (G - 1) / G as its expected mass.
    p, q = (Fraction(2, 3) * mass(policy, members) for members in (correct, wrong(correct)))
    return tuple(derived_entropy_slope(policy, derived_update(policy, correct, q, p / each)) for each in (delta, 1))


@claim(
    "fade:sec-4-1-equalised",
    where="Section 4.1, bullets; Appendix 11.3, learning rates by eta max|A|",
    says="At learning rates that equalise eta max|A|, delta > 1 accelerates the loss of entropy and delta < 1 slows "
    "it.",
    formula=r"\eta\cdot\max_i|A_i|",
    refuted_by="a policy that loses entropy more slowly with delta 2, or faster with delta 1/2, than with delta 1",
    reading="The bullets are of one rate, the rates of Appendix 11.3 of the runs; together they are our sentence. "
    "delta < 1 raises the largest |A| by 1 / delta, so that its rate is delta times GRPO's and its pace delta q + p: "
    "slower, at everything, its gain in solve rate too. delta > 1 leaves the largest |A|, a lone success's, and the "
    "rate as they are: its pace is still q + p / delta. At one learning rate both fail (fade:sec-4-1-delta-above).",
    met="partly: Figure 3 and Figure 4 have runs with delta < 1 and with delta > 1",
    caveat=ONE_PROMPT,
    inferred=True,
    statement=lambda slopes, delta, **_: slopes[0] < slopes[1] if delta > 1 else slopes[1] < slopes[0],
    condition=Amended(
        "delta < 1: its learning rate is cut to delta times GRPO's",
        lambda slopes, delta, **_: slopes[1] < slopes[0] < 0 if delta < 1 else None,
    ),
    planted={"the other way round": lambda slopes, delta, **_: (slopes[0] < slopes[1]) == (delta < 1)},
)
def equalised_pace(statement):
    """The slopes, divided by the largest |A| that groups of three contain."""

    def equalised(slopes):
        def scaled(policy, correct, delta):
            rates = [Fraction(1, 3), Fraction(2, 3)]
            largest = [max(max(1 - rate, rate / each) for rate in rates) for each in (delta, 1)]
            return tuple(s / number(a) for s, a in zip(slopes(policy, correct, delta), largest, strict=True))

        return scaled

    yield from satisfies(
        statement,
        PACES,
        equalised(slopes_of_delta),
        derived=equalised(derived_slopes_of_delta),
        names=("entropy slope under delta", "under 1"),
    )


@claim(
    "fade:fig-14-scale",
    where="Appendix 11.3, Figure 14, caption",
    says="Lower scale preserves entropy: at one learning rate and step a weight of half the scale keeps more of it.",
    refuted_by="a policy that keeps no more entropy under mean GRPO halved",
    reading="Two and twenty expected plain gradient steps of mean GRPO, of rate 1, at one prompt of a tabular softmax. "
    "Scale is a clock: where learning first raises the entropy, as where a wrong answer is the likely one, the smaller "
    "scale has less of it at the same early step.",
    met="unknown: it takes the probability of single answers, which the paper does not report",
    caveat="At one prompt, with plain steps: under Adam the scale cancels (fade:scale-axis). The figure itself is "
    "fade:fig-14.",
    statement=lambda final, **_: final[0] > final[1],
    condition=Amended(
        LIKELY,
        lambda final, policy, correct, steps: final[0] > final[1] if all_likelier(policy, correct, correct) else None,
    ),
    planted={"it costs entropy": lambda final, **_: final[0] < final[1]},
)
def entropy_by_scale(statement):
    """The exact entropy after these steps, at half the scale and at the whole."""

    def after(policy, correct, steps, scale):
        for _ in range(steps):
            p = mass(policy, correct)
            pulls = [each * (1 - p if right else -p) for each, right in zip(policy, correct, strict=True)]
            policy = stepped(policy, score_gradient(policy, pulls), scale)
        return entropy(policy)

    yield from satisfies(
        statement,
        [prompt | {"steps": steps} for steps in (2, 20) for prompt in PLACES],
        lambda **point: tuple(after(**point, scale=scale) for scale in (mpf("0.5"), mpf(1))),
        method="numerical",
        names=("entropy at half the scale", "at the whole"),
    )


@claim(
    "fade:vs-casp",
    where="Section 4.1, bullet delta < 1, against CaSP's Lemma 2 (squeeze effect)",
    says="Suppressing a failure raises the entropy.",
    refuted_by="a failure whose suppression lowers the entropy",
    reading="One step down on one sampled failure, a tabular softmax, first order; averaged over the failures drawn "
    "it is fade:sec-4-1-delta-below. FADE calls failure bias a restoring force, CaSP says that negative updates "
    "concentrate too. Both are right of different failures: the entropy rises where the failure is the likeliest "
    "action, falls where it is less likely than exp(-H), and of a uniform policy does not move at first order.",
    inferred=True,
    met="unknown: the paper does not report how likely the sampled failures are",
    caveat="The sentence compares two papers; neither states it of every failure.",
    statement=lambda slope, policy, action: slope > 0,
    condition=Amended(
        "the failure is the likeliest action, the case that CaSP's penalty picks out, and the policy is not uniform",
        lambda slope, policy, action: slope > 0 if policy[action] == max(policy) > min(policy) else None,
    ),
    planted={"CaSP's squeeze for all": lambda slope, policy, action: slope < 0},
)
def suppressed_failure(statement):
    """The entropy's slope along minus the score of each action in turn, by formula and by sympy."""

    def minus_score(policy, action):
        return [p - (index == action) for index, p in enumerate(policy)]

    points = [
        {"policy": prompt["policy"], "action": action}
        for prompt in (POINTS[0], POINTS[1], PEAKED, RARE, UNIFORM)
        for action in range(len(prompt["policy"]))
    ]
    yield from satisfies(
        statement,
        points,
        lambda policy, action: entropy_slope(policy, minus_score(policy, action)),
        derived=lambda policy, action: derived_entropy_slope(policy, minus_score(policy, action)),
        method="numerical",
    )
