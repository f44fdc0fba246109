"""Control Experiment I in expectation over groups: exploration, entropy (Section 4.2) and displacement (B.5).

Appendix B.5 follows one group. Over all groups of i.i.d. rollouts the correct ones push along +grad log Q and the
incorrect ones along -grad log(1 - Q), Q the correct mass; both are multiples of grad Q. Rescaling either side
rescales the expected step of a prompt and leaves its direction alone. That GRPO and its kin climb a transform of Q
is due to Davis and Recht (arXiv:2510.13651).
"""

import functools
import itertools
from fractions import Fraction

from mpmath import mp, mpf

from paper_checks.a_grae.advantage import FACTORS, action_weights, binary_group, grae, probability_change, tilted
from paper_checks.a_grae.logits import ETA, PEAKED, SIMULATED_SIZE
from paper_checks.claim import CHANGES, CONDITIONS, Amended, claim
from paper_checks.evidence import Evidence, equals, grid, number, satisfies
from paper_checks.exact import POLICIES, binomial, entropy, expectation, groups, mass, score_gradient, stepped
from paper_checks.simulated import estimate, simulated_step

STEP = mpf("1e-25")
RATE_TOLERANCE = mpf("1e-15")  # of a rate measured over that step in 50 digits
# Correct and incorrect modes in turn, the latter with entropy to gain; two answers, then three and four.
POOL = (
    *POLICIES[:3],
    ((Fraction(3, 5), Fraction(2, 5)), (True, False)),
    *PEAKED,
    ((Fraction(1, 50), Fraction(97, 100), Fraction(1, 100)), (True, False, False)),
)


def group_change(policy, correct, counts, success, failure):
    """A group's logit change with positive advantages times ``success`` and negative ones times ``failure``."""
    weights = [
        number(failure) * weight if weight < 0 else weight for weight in action_weights(counts, correct, success)
    ]
    return score_gradient([number(p) for p in policy], weights)


def expected_change(policy, correct, G, success=1, failure=1):
    """Each logit's expected change, group by group."""
    changes = [
        (number(chance), group_change(policy, correct, counts, success, failure))
        for chance, counts in groups(policy, G)
    ]
    return [mp.fsum(chance * change[action] for chance, change in changes) for action in range(len(policy))]


def one_side(G, right):
    """The mean sum of the positive advantages of a group of G whose rollouts are correct with this probability."""
    return mp.fsum(
        number(chance) * mp.fsum(value for value in grae(binary_group(G, s)) if value > 0)
        for s, chance in enumerate(binomial(G, right))
    )


def conditioned_change(policy, correct, G, success=1, failure=1):
    """The same by conditioning on s: given s, rollouts are i.i.d. from either side, and each side weighs the same."""
    right = mass(policy, correct)
    half = one_side(G, right)
    change = []
    for p, is_right in zip(policy, correct, strict=True):
        up, down = (p / right - p, p) if is_right else (-p, p - p / (1 - right))
        change.append(half * (number(success) * number(up) + number(failure) * number(down)))
    return change


def change_while_unsampled(policy, correct, G, success=1, failure=1):
    """Each logit's expected change by the groups that do not contain its action, group by group."""
    return [
        mp.fsum(
            number(chance) * group_change(policy, correct, counts, success, failure)[action]
            for chance, counts in groups(policy, G)
            if not counts[action]
        )
        for action in range(len(policy))
    ]


def conditioned_while_unsampled(policy, correct, G, success=1, failure=1):
    """The same as the mean of -C p over groups of the other actions, times the chance of such a group."""
    change = []
    for p, is_right in zip(policy, correct, strict=True):
        right = (mass(policy, correct) - p * is_right) / (1 - p)
        imbalance = (number(failure) - number(success)) * one_side(G, right)
        change.append(imbalance * number(p * (1 - p) ** G))
    return change


NEGATIVE = FACTORS["negative_dominant"]
VARIANTS = {name: (factor, Fraction(1)) for name, factor in FACTORS.items()}


COUNTED = {
    "all groups": (expected_change, conditioned_change),
    "groups without the path": (change_while_unsampled, conditioned_while_unsampled),
}


def shrunk(changes, policy, correct):
    """Check that each entry of the first change is Q + (1 - Q)/10 of the second's, Q the correct mass."""
    rate = number(mass(policy, correct)) * mpf("0.9") + mpf("0.1")
    return all(abs(new - rate * old) < mpf("1e-30") for new, old in zip(*changes, strict=True))


def rise_more(changes, correct, **_):
    """Check that the logits of all correct actions rise more in the first change."""
    return all(new > old for new, old, right in zip(*changes, correct, strict=True) if right)


@claim(
    "a-grae:app-b5-exploration",
    where="Appendix B.5, Case C; abstract (i); Takeaway 1",
    says="Unsampled responses rise where GRPO leaves them as they are: suppressing positive advantages is an incentive "
    "to explore, which potentially helps to discover correct paths that went unsampled.",
    refuted_by="a correct action whose expected logit change is smaller than under GRPO",
    reading="Case C speaks of one group that does not contain the path, and there it holds (a-grae:eq-36). But the "
    "same path is in other groups, where its success counts a tenth, and over all groups that costs more than the "
    "drift brings: each logit's change is Q + (1 - Q)/10 of GRPO's.",
    severity=CHANGES,
    met="no: a training step is taken with all groups, also those that contain the path.",
    caveat="In expectation, on policy, at one prompt; enumerated for tabular policies. Davis and Recht (2510.13651) "
    "show for any policy that such an update follows grad Q. In a batch easy prompts keep more of their step than "
    "hard ones (a-grae:sec-4.2-negative).",
    statement=lambda changes, counted, policy, correct, G: rise_more(changes, correct),
    condition=Amended(
        "only groups without the path are counted; over all groups each logit's change is GRPO's times Q + (1 - Q)/10, "
        "Q the correct mass: a smaller step in the same direction",
        lambda changes, counted, policy, correct, G: (
            shrunk(changes, policy, correct) if counted == "all groups" else rise_more(changes, correct)
        ),
    ),
    planted={
        "a tenth of GRPO's": lambda changes, **_: all(
            abs(new - old / 10) < 1e-30 for new, old in zip(*changes, strict=True)
        ),
        "less, where unsampled": lambda changes, counted, correct, **_: (
            rise_more(changes[::-1], correct) if counted != "all groups" else None
        ),
    },
)
def exploration(statement):
    """Enumerate the groups under both, and derive both by conditioning on the number of correct rollouts."""

    def both(way):
        """All logits' changes in one row, negative-dominant before GRPO."""
        return lambda counted, policy, correct, G: tuple(
            move
            for name in ("negative_dominant", "grpo")
            for move in COUNTED[counted][way](policy, correct, G, *VARIANTS[name])
        )

    def judged(row, policy, **point):
        return statement((row[: len(policy)], row[len(policy) :]), policy=policy, **point)

    several_correct = [(policy, correct) for policy, correct in POOL[:6] if sum(correct) > 1]
    points = [
        {"counted": counted, "policy": policy, "correct": correct, "G": G}
        for counted in COUNTED
        for policy, correct in several_correct
        for G in (2, 3)
    ]
    yield from satisfies(
        judged, points, both(0), derived=both(1), names="changes of logits, negative-dominant before GRPO"
    )
    yield simulator_agrees()


@claim(
    "a-grae:sec-3-entrapment",
    where="Section 3, after Eq. 9 ('lacks an intrinsic active exploration mechanism')",
    says="That unsampled logits stay put proves that GRPO lacks an intrinsic active exploration mechanism for "
    "unsampled correct paths, leading to local optima entrapment.",
    refuted_by="no policy with correct and incorrect paths at which GRPO's mean step leaves a correct path where it is",
    reading="The first half holds, group by group: a-grae:eq-9. The second is judged in the model of Theorem 1: "
    "trapped is a correct path whose logit the mean step does not raise. There is none, since the groups that contain "
    "the path count too. Where all groups are wrong GRPO does stand still, as every weight that is 0 there. On the "
    "reading that a trapped path is one that loses probability in the mean step it would hold of rare correct paths: "
    "one of 1/20 beside another of 9/10 loses.",
    caveat="Tabular softmax, in the mean. Likely correct paths rise faster, so that a rare one can lose probability, "
    "and one of tiny probability waits long. Whether a language model is trapped is not decided here.",
    severity=CONDITIONS,
    statement=lambda least: least <= 0,
    correction=Amended(
        "over all groups every correct path's logit rises, so that no policy with correct and incorrect paths is a "
        "stationary point",
        lambda least: least > 0,
    ),
    planted={"a correct path loses": lambda least: least < 0},
)
def entrapment(statement):
    """The least mean logit change under GRPO of any correct path of any policy, enumerated and derived."""

    def least(way):
        return lambda G: min(
            change
            for policy, correct in POOL
            for change in itertools.compress(way(policy, correct, G, *VARIANTS["grpo"]), correct)
        )

    yield from satisfies(
        lambda value, G: statement(value), grid(G=[2, 3]), least(expected_change), derived=least(conditioned_change)
    )


def simulator_agrees():
    """The simulator's mean logit changes against the enumerated ones; this says nothing about a statement."""
    policy, correct = POLICIES[2]

    def sampled(G):
        step = simulated_step(policy, correct, G, "negative_dominant(eps=0)", learning_rate=float(ETA * G))
        return [estimate(column / float(ETA)) for column in step.logit_change.T]

    def enumerated(G):
        return tuple(expected_change(policy, correct, G, *VARIANTS["negative_dominant"]))

    points = [{"G": SIMULATED_SIZE}]
    *_, drawn = equals(enumerated, points, enumerated=enumerated, sampled=sampled, sampled_points=points)
    return Evidence("Monte Carlo", None, f"the enumerated change lies {drawn.figures}")


def overconfident(error):
    """A policy of two correct actions and an error with this probability, and another error."""
    rest = 1 - error
    return (rest / 2, rest / 4, error, rest / 4), (True, True, False, False)


def displaced(measure, error, G, success, failure):
    """First-order change of the correct mass: its mean over groups, or the least that one group makes."""
    policy, correct = overconfident(error)
    changes = [
        (chance, mass(probability_change(policy, group_change(policy, correct, counts, success, failure)), correct))
        for chance, counts in groups(policy, G)
    ]
    if measure == "mean over groups":
        return mp.fsum(number(chance) * change for chance, change in changes)
    return mp.chop(min(change for _, change in changes), tol=1e-40)


@claim(
    "a-grae:app-b5-displacement",
    where="Appendix B.5, Case B; Section 4.2 and Appendix D.3 (training collapse)",
    says="Under the negative-dominant control overconfident errors may occasionally displace correct paths.",
    refuted_by="an overconfident error under which no group lowers the correct mass, or a group of GRPO's that does",
    reading="Displaced, in a group: the step lowers the correct mass, as none does under GRPO. First-order changes, "
    "error of probability 0.9 and 0.97. 2 % of groups of four do so at 0.9, mostly with the error in it.",
    caveat="In single groups. On average over groups the correct mass rises, more slowly than under GRPO, so that no "
    "drift adds up over a training. Whether this makes runs collapse: a-grae:fig-9.",
    statement=lambda changes, measure, **_: changes[0] < 0 <= changes[1] if measure == "worst group" else None,
    planted={
        "on average too": lambda changes, **_: changes[0] < 0,
        "never": lambda changes, measure, **_: changes[0] >= 0 if measure == "worst group" else None,
    },
)
def displacement(statement):
    """Enumerate the groups of a policy with one overconfident error, under the control and under GRPO."""
    yield from satisfies(
        statement,
        grid(
            measure=["mean over groups", "worst group"],
            error=[Fraction(9, 10), Fraction(97, 100)],
            G=[2, 4, 8],
        ),
        lambda **point: tuple(displaced(**point, success=factor, failure=1) for factor in (NEGATIVE, 1)),
    )


@functools.cache
def entropy_rate(policy, correct, G, success=1, failure=1):
    """The expected change of entropy over groups, by a step so small that it is first-order, over that step."""
    before = entropy(policy)
    total = mpf(0)
    for chance, counts in groups(policy, G):
        change = group_change(policy, correct, counts, success, failure)
        total += number(chance) * (entropy(stepped(policy, change, STEP)) - before)
    return total / STEP


@functools.cache
def derived_entropy_rate(policy, correct, G, success=1, failure=1):
    """Minus the covariance, under the policy, of log-probability and expected logit change."""
    change = conditioned_change(policy, correct, G, success, failure)
    p = [number(value) for value in policy]
    return -mp.fsum(q * (mp.log(q) + entropy(policy)) * move for q, move in zip(p, change, strict=True))


# A prompt of several right answers and one likely error, whose entropy GRPO raises; one whose right answer is already
# the likeliest, whose entropy it lowers.
RISING = ((Fraction(3, 10), Fraction(3, 10), Fraction(2, 5)), (True, True, False))
FALLING = ((Fraction(41, 100), Fraction(59, 200), Fraction(59, 200)), (True, False, False))
BATCHES = {prompts: list(itertools.combinations((*POOL, RISING, FALLING), prompts)) for prompts in (1, 2)}
ENTROPY_POINTS = [{"batch": batch, "G": G} for batch in (*BATCHES[1], *BATCHES[2]) for G in (2, 4)]


def batch_rates(rate, batch, G, variants):
    """The mean entropy rates of a batch of prompts under several variants."""
    return tuple(mp.fsum(rate(*prompt, G, *variant) for prompt in batch) / len(batch) for variant in variants)


def judge_entropy(statement, names, *variants):
    """A predicate on the entropy rates of several named variants, which are both enumerated and derived."""

    def by(rate):
        return lambda batch, G: batch_rates(rate, batch, G, variants)

    return satisfies(
        statement,
        ENTROPY_POINTS,
        by(entropy_rate),
        derived=by(derived_entropy_rate),
        tolerance=RATE_TOLERANCE,
        names=names,
    )


def at_one_prompt(predicate):
    """A predicate on entropy rates, silent on batches of several prompts."""
    return lambda rate, batch, **point: predicate(rate, **point) if len(batch) == 1 else None


def faster_with_weight(rate, **_):
    """Check that entropy falls faster with more weight on correct rollouts; None if the second does not lower it."""
    return rate[0] < rate[1] < rate[2] if rate[1] < 0 else None


@claim(
    "a-grae:sec-4.2-positive",
    where="Section 4.2, 'Over-emphasizing correct paths triggers entropy collapse'; Figure 3",
    says="The more weight correct rollouts have the faster entropy falls: positive-dominant, GRPO, negative-dominant.",
    inferred=True,
    refuted_by="a batch at which entropy falls no faster the larger the weight",
    reading="Expected first-order entropy change of tabular softmaxes, in batches of one and of two prompts. Where "
    "GRPO raises entropy, as with a likely error to be unlearned, more weight raises it faster; in a batch each "
    "prompt has its own factor, which can turn the order. The paper says so of Figure 3's runs, of which nothing can "
    "be decided here (a-grae:fig-3); that it is so in general is the inference.",
    met="partly: Section 4.2 says that entropy falls under GRPO (Figure 3), in batches of 1,024 prompts.",
    statement=lambda rate, **_: rate[0] < rate[1] < rate[2],
    condition=Amended("at a single prompt whose entropy GRPO itself lowers", at_one_prompt(faster_with_weight)),
    planted={
        "the other way round": at_one_prompt(lambda rate, **_: rate[0] > rate[1] > rate[2] if rate[1] < 0 else None),
        "also in a batch": faster_with_weight,
    },
)
def entropy_order(statement):
    """Enumerate the entropy after a vanishing step under the three variants, and derive it as a covariance."""
    names = ("positive_dominant", "grpo", "negative_dominant")
    yield from judge_entropy(statement, names, *(VARIANTS[name] for name in names))


def turned_upward(rates):
    """Test that the first rate is negative, the second positive."""
    return rates[0] < -RATE_TOLERANCE and rates[1] > RATE_TOLERANCE


ONE_PROMPT, EASY_GAINS, OTHERS = "one prompt", "an easy prompt gains, a harder one loses", "other pairs"


def kind_of(rate, batch, G):
    """Sort a batch: one prompt, an easy one that gains entropy under GRPO and a harder one that loses, or others."""
    if len(batch) == 1:
        return ONE_PROMPT
    (_, hard), (_, easy) = sorted((mass(*prompt), rate(*prompt, G, *VARIANTS["grpo"])) for prompt in batch)
    differ = mass(*batch[0]) != mass(*batch[1])
    return EASY_GAINS if differ and hard < -RATE_TOLERANCE and easy > RATE_TOLERANCE else OTHERS


@claim(
    "a-grae:sec-4.2-negative",
    where="Section 4.2, 'a trend diametrically opposed to the other groups', put down to the suppression; Figure 3",
    says="Suppressing positive advantages can make the entropy of a batch rise where under GRPO it falls.",
    refuted_by="no batch of prompts whose entropy falls under GRPO and rises under the negative-dominant control",
    reading="Expected first-order entropy change of tabular softmaxes, averaged over the batch. At one prompt both "
    "rates have the same sign: the control's is Q + (1 - Q)/10 of GRPO's, Q the correct mass. In a batch each prompt "
    "has its own factor: an easy prompt that gains entropy keeps more of its rate than a hard one that loses it. Of "
    "the 36 pairs of prompts tried one is of this kind and turns; the others, most of them of different difficulty, "
    "do not.",
    caveat="At a single prompt never, and in a batch only where an easy prompt gains entropy under GRPO and a harder "
    "one loses it. The laboratory shows that the update rule can turn the trend, by weighing easy prompts more than "
    "hard ones; whether this is the cause of Figure 3 it does not show (a-grae:fig-3). Not every such pair turns: the "
    "gain must be smaller than the loss, but larger than f_h / f_e of it, f = Q + (1 - Q)/10 of the harder prompt and "
    "of the easier.",
    inferred=True,
    statement=lambda turns, kind: turns if kind == EASY_GAINS else None,
    planted={
        "never": lambda turns, kind: not turns,
        "in any batch": lambda turns, kind: turns,
        "at a single prompt only": lambda turns, kind: turns == (kind == ONE_PROMPT),
        "in other batches too": lambda turns, kind: turns == (kind != ONE_PROMPT),
    },
)
def entropy_reversal(statement):
    """Search the batches of each kind for a turned sign, with enumerated and derived rates."""

    variants = (VARIANTS["grpo"], VARIANTS["negative_dominant"])

    def turns(rate):
        return lambda kind: any(
            turned_upward(batch_rates(rate, batch, G, variants))
            for point in ENTROPY_POINTS
            if kind_of(rate, **point) == kind
            for batch, G in [point.values()]
        )

    yield from satisfies(
        statement, grid(kind=[ONE_PROMPT, EASY_GAINS, OTHERS]), turns(entropy_rate), derived=turns(derived_entropy_rate)
    )


BIASES = {"failures / 0.3": (Fraction(1), Fraction(10, 3)), "successes / 10": VARIANTS["negative_dominant"]}


def slower_loss(rate, **_):
    """Check that the second, biased update loses entropy more slowly; None if the first one loses none."""
    return rate[1] > rate[0] if rate[0] < 0 else None


@claim(
    "a-grae:against-fade",
    where="Section 4.2 (failure bias is exploration), with FADE Sections 4.1 and 5 ('we force exploitation')",
    says="A failure-biased update keeps more entropy than the balanced one, where that one loses entropy.",
    refuted_by="a failure-biased update that loses entropy faster than GRPO",
    reading="A-GRAE divides successes by 10, FADE divides failures by delta = 0.3. In expectation, at one prompt, "
    "either rescales the same step, by Q + (1 - Q)/10 < 1 and by 1 - Q + Q/0.3 > 1: the balance of signs decides "
    "nothing. Both papers say that failure bias keeps entropy; under FADE's normalisation it does not "
    "(fade:sec-4-1-delta-below). In a batch each prompt has its own factor, and the "
    "outcome depends on the batch. On the reading that step sizes are matched the two lose the same at one prompt.",
    inferred=True,
    met="partly: A-GRAE's control weakens successes, but in batches of many prompts; FADE strengthens failures.",
    statement=lambda rate, bias, batch, G: slower_loss(rate),
    condition=Amended(
        "at a single prompt, with a bias that weakens successes; one that strengthens failures speeds the loss",
        at_one_prompt(
            lambda rate, bias, **_: None if (slow := slower_loss(rate)) is None else slow == (bias == "successes / 10")
        ),
    ),
    planted={
        "either bias": at_one_prompt(slower_loss),
        "in any batch": lambda rate, bias, **_: slower_loss(rate) if bias == "successes / 10" else None,
    },
)
def failure_bias(statement):
    """The entropy rates of GRPO and of either kind of failure bias."""

    def pair(rate):
        return lambda bias, batch, G: batch_rates(rate, batch, G, (VARIANTS["grpo"], BIASES[bias]))

    points = [{"bias": bias} | point for bias in BIASES for point in ENTROPY_POINTS]
    yield from satisfies(
        statement,
        points,
        pair(entropy_rate),
        derived=pair(derived_entropy_rate),
        tolerance=RATE_TOLERANCE,
        names=("entropy rate of GRPO", "with the bias"),
    )


@claim(
    "a-grae:sec-4.1-isolation",
    where="Section 4.1: Experiment I breaks symmetry within a group, Experiment II difficulty focus",
    says="Experiment I leaves the focus on difficulties as it is: its update is one multiple of GRPO's at every p.",
    refuted_by="two success rates at which the update is a different multiple of GRPO's",
    reading="The design implies it, no sentence says it. By Theorem 2's measure, the sum of |A|, the multiple is (1 + "
    "c)/2 everywhere, c the factor on successes. The expected step is p + (1 - p) c of GRPO's: with c = 1/10 a tenth "
    "on hard prompts and all of it on easy ones. By that measure the negative-dominant control is also an easy-focused "
    "one, and the positive-dominant (c = 10) a hard-focused one.",
    inferred=True,
    met="yes: Theorem 2's measure is the paper's; the expected step is not looked at.",
    statement=lambda multiples, **_: max(multiples) - min(multiples) < mpf("1e-30"),
    condition=Amended(
        "updates are measured by the sum of |A|",
        lambda multiples, measure, control: (
            max(multiples) - min(multiples) < mpf("1e-30") if measure == "sum of |A|" else None
        ),
    ),
    planted={
        "half of GRPO's": lambda multiples, **_: max(multiples) <= mpf("0.5"),
        "under the negative-dominant control": lambda multiples, control, **_: (
            max(multiples) - min(multiples) < mpf("1e-30") if control == "negative_dominant" else None
        ),
    },
)
def isolation(statement):
    """Both measures of either control over GRPO's, at three success rates, by enumeration."""

    def total(p, factor):
        return expectation(
            (p, 1 - p),
            4,
            lambda counts: mp.fsum(map(abs, tilted(grae(binary_group(4, counts[0])), factor))),
        )

    def multiples(control, measure):
        success, failure = VARIANTS[control]
        chances = (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4))
        if measure == "sum of |A|":
            return tuple(number(total(p, success)) / number(total(p, 1)) for p in chances)
        steps = [
            [expected_change((p, 1 - p), (True, False), 4, *pair)[0] for pair in ((success, failure), (1, 1))]
            for p in chances
        ]
        return tuple(biased / balanced for biased, balanced in steps)

    controls = ["negative_dominant", "positive_dominant"]
    yield from satisfies(
        statement,
        grid(control=controls, measure=["expected step", "sum of |A|"]),
        multiples,
        names=("multiple of GRPO's at p = 1/4", "at p = 1/2", "at p = 3/4"),
    )
