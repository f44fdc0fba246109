"""Section 3, Theorem 1 and Eqs. 6-9, and Appendix B.3: one group's change of a tabular softmax's logits."""

import functools
from fractions import Fraction

import numpy as np
import sympy
from mpmath import mp, mpf

from paper_checks.a_grae.advantage import FACTORS, action_weights, probability_change
from paper_checks.claim import CONDITIONS, COSMETIC, Amended, claim
from paper_checks.evidence import Estimate, equals, number, satisfies, vanishes
from paper_checks.exact import POLICIES, compositions, logits, score_gradient, stepped
from paper_checks.simulated import simulated_step

ETA = Fraction(1, 10)
SIMULATED, CORRECT = POLICIES[2]
SIMULATED_SIZE = 3
# One action dominates: among the correct ones, and among the incorrect ones.
PEAKED = (
    ((Fraction(9, 10), Fraction(1, 20), Fraction(1, 20)), (True, True, False)),
    ((Fraction(1, 20), Fraction(9, 10), Fraction(1, 20)), (True, False, False)),
)


def groups_of(sizes, policies=POLICIES[:3], factors=(1,), keep=lambda counts: True):
    """Points: every group of these sizes from these policies, by its counts, with positive advantages rescaled."""
    return [
        {"policy": policy, "correct": correct, "counts": counts, "factor": factor}
        for size in sizes
        for policy, correct in policies
        for counts in compositions(size, len(policy))
        for factor in factors
        if keep(counts)
    ]


def distinct(counts):
    """Test that no action recurs."""
    return max(counts) <= 1


@functools.cache
def gradient_function(objective, actions):
    """The gradient of an objective of a softmax policy, by symbolic differentiation, as a 50-digit function."""
    scores, weights = sympy.symbols(f"h:{actions}"), sympy.symbols(f"w:{actions}")
    total = sum(sympy.exp(score) for score in scores)
    policy = [sympy.exp(score) / total for score in scores]
    frozen = sympy.symbols(f"q:{actions}")  # the policy that sampled, a constant of the differentiation
    terms = {
        "log": [sympy.log(p) for p in policy],
        "ratio": [p / q for p, q in zip(policy, frozen, strict=True)],
        "probability": policy,
    }[objective]
    value = sum(weight * term for weight, term in zip(weights, terms, strict=True))
    return sympy.lambdify((scores, weights, frozen), [value.diff(score) for score in scores], "mpmath")


def differentiated(policy, correct, counts, factor, objective="log"):
    """The logit change, by differentiating Eq. 24 summed over all rollouts."""
    gradient = gradient_function(objective, len(policy))
    return tuple(gradient(logits(policy), action_weights(counts, correct, factor), [number(p) for p in policy]))


def summed(policy, correct, counts, factor):
    """The logit change, rollout by rollout: A (e_action - policy)."""
    p = [number(value) for value in policy]
    change = [mpf(0)] * len(p)
    for action, (count, weight) in enumerate(zip(counts, action_weights(counts, correct, factor), strict=True)):
        for _ in range(count):
            rollout = [weight / count * (index == action) for index in range(len(p))]
            change = [old + new for old, new in zip(change, score_gradient(p, rollout), strict=True)]
    return tuple(change)


def simulated_change(policy, correct, counts, factor, update_rule="simulator"):
    """The simulator's logit change, from the seeds that drew an equal group; it averages over the group."""
    estimator = next(name for name, value in FACTORS.items() if value == factor)
    rate = float(ETA * sum(counts))
    step = simulated_step(
        policy, correct, sum(counts), f"{estimator}(eps=0)", learning_rate=rate, update_rule=update_rule
    )
    tally = np.stack([(step.actions == action).sum(axis=1) for action in range(len(policy))], axis=1)
    changes = step.logit_change[(tally == counts).all(axis=1)] / float(ETA)
    return [
        Estimate(float(value), float(spread)) for value, spread in zip(changes.mean(0), changes.std(0), strict=True)
    ]


def theorem_1(policy, correct, counts, factor, sign=-1):
    """Eq. 6 at eta = 1: the advantage of b if b was sampled, less C times its probability."""
    weights = action_weights(counts, correct, factor)
    advantage = [weight / count if count else mpf(0) for weight, count in zip(weights, counts, strict=True)]
    total = mp.fsum(weights)
    return tuple(value + sign * total * number(p) for value, p in zip(advantage, policy, strict=True))


def when_distinct(formula):
    """A formula of a group, silent where an action was drawn twice."""
    return lambda policy, correct, counts, factor: (
        formula(policy, correct, counts, factor) if distinct(counts) else None
    )


SIMULATED_GROUPS = [
    {"policy": SIMULATED, "correct": CORRECT, "counts": counts, "factor": factor}
    for counts in ((1, 0, 1, 1), (1, 1, 1, 0))
    for factor in (FACTORS["grpo"], FACTORS["negative_dominant"])
]


@claim(
    "a-grae:thm-1",
    where="Section 3, Theorem 1, Eq. 6; Appendix B.3, Eqs. 24-29",
    says="A group changes the logit of path b by eta (A_b if b was sampled, less C times its probability), C the sum "
    "of the group's advantages.",
    formula=r"\eta [\mathbb{I}(b_i \in \mathcal{G}) A_i - C \pi_{b_i}]",
    refuted_by="a group for which the gradient of sum of A log pi over its rollouts differs",
    reading="Appendix B.3 defines the group as a set of G different paths; eta takes up the 1/G of Eq. 4. What changes "
    "when a path is drawn twice: a-grae:thm-1-zero-sum.",
    statement=when_distinct(theorem_1),
    planted={
        "a repeated path counted once": theorem_1,
        "the sign of C": functools.partial(theorem_1, sign=1),
        "without C": when_distinct(functools.partial(theorem_1, sign=0)),
    },
)
def logit_update(statement):
    """Differentiate the log-likelihoods symbolically, add up rollout by rollout, and ask the simulator."""
    yield from equals(
        statement,
        groups_of([2, 3], factors=FACTORS.values()),
        derived=differentiated,
        enumerated=summed,
        sampled=simulated_change,
        sampled_points=[point for point in SIMULATED_GROUPS if point["factor"] != 1],
    )


@claim(
    "a-grae:thm-1-zero-sum",
    where="Section 3, 'In the standard GRPO setting ... C = 0'; Appendix B.3, the sampled group as a set",
    says="GRPO's normalisation makes C zero, C being summed over the sampled set, when rollouts are drawn one by one.",
    formula=r"C = \sum_{o_i \in \mathcal{G}} A_i = 0",
    refuted_by="a group whose distinct paths' advantages do not sum to zero",
    reading="A set holds each path once, while A is normalised over the G rollouts. All that repeated paths change in "
    "Section 3 is gathered here: a path drawn n times has the term n A, and beside a likely path drawn twice, a path "
    "of its own side drawn once can move against the sign of its advantage. On the reading that C runs over rollouts "
    "it holds always (a-grae:eq-19).",
    inferred=True,
    severity=COSMETIC,
    met="yes: Appendix B.3 takes the group to be a set, and long responses sampled at temperature 1 hardly repeat.",
    statement=lambda policy, correct, counts, factor: 0,
    condition=Amended("no path is sampled twice", when_distinct(lambda policy, correct, counts, factor: 0)),
    planted={"minus one": when_distinct(lambda policy, correct, counts, factor: -1)},
)
def set_sum(statement):
    """Sum the advantages of the distinct actions of every group."""

    def total(policy, correct, counts, factor):
        weights = action_weights(counts, correct, factor)
        return mp.fsum(weight / count for weight, count in zip(weights, counts, strict=True) if count)

    yield from equals(statement, groups_of([2, 3, 4]), enumerated=total)


@claim(
    "a-grae:thm-1-probability",
    where="Section 3, Theorem 1 ('probability updates'), Eq. 6",
    says="Eq. 6 gives the update of the probability of path b.",
    formula=r"\nabla_{\theta} J = \eta [\mathbb{I}(b_i \in \mathcal{G}) A_i - C \pi_{b_i}]",
    refuted_by="a group after which probabilities change otherwise, to first order in eta",
    reading="By the letter; the theorem's title, Eq. 7 and Appendix B.3 say logits, so the word is a slip. The "
    "difference matters: with C = 0 it turns unchanged logits into unchanged probabilities (a-grae:app-b5-constant).",
    severity=COSMETIC,
    same_error_as="a-grae:app-b5-increase",
    statement=lambda policy, change: change,
    slip=Amended("the update of the logit; the probability changes by p_b (dh_b - sum of p dh)", probability_change),
    planted={
        "without normalisation": lambda policy, change: [number(p) * d for p, d in zip(policy, change, strict=True)]
    },
)
def probability_update(statement):
    """Compare the stated change with the exact one of the softmax, for steps that shrink."""

    def error(step, policy, correct, counts, factor):
        change = summed(policy, correct, counts, factor)
        after = stepped(policy, change, step)
        stated = statement(policy, change)
        return max(abs(new - number(old) - step * move) for new, old, move in zip(after, policy, stated, strict=True))

    mixed = [
        point
        for point in groups_of([2, 3], factors=FACTORS.values(), keep=distinct)
        if any(action_weights(point["counts"], point["correct"]))
    ]
    yield from vanishes(error, mixed, order=2)


def moved(policy, correct, counts, factor):
    """Exact changes of all probabilities by one step of size eta."""
    after = stepped(policy, summed(policy, correct, counts, factor), number(ETA))
    return tuple(new - number(old) for new, old in zip(after, policy, strict=True))


def direction_of_sampled(changes, correct, counts, side, sign):
    """Check that a side's sampled actions all moved in a direction; None if either side has none."""
    chosen = [change for change, right, count in zip(changes, correct, counts, strict=True) if count and right == side]
    kinds = {right for right, count in zip(correct, counts, strict=True) if count}
    return all(sign * change > 0 for change in chosen) if len(kinds) == 2 else None


def sampled_side_moves(side, sign, only_distinct=False):
    """The predicate that sampled actions of one side move in one direction."""
    return lambda changes, policy, correct, counts, factor: (
        None if only_distinct and not distinct(counts) else direction_of_sampled(changes, correct, counts, side, sign)
    )


SIDES = groups_of([2, 3, 4], policies=(*POLICIES[:3], *PEAKED))


@claim(
    "a-grae:eq-7",
    where="Section 3, Case A, Eq. 7",
    says="Under GRPO every sampled correct path gains probability.",
    formula=r"\Delta h_{b_i} = \eta A_{pos}",
    refuted_by="a mixed group after which a sampled correct action is less likely",
    reading="Exact probabilities after a step of 0.1 of GRPO, the group a set of different paths as in Appendix B.3. "
    "With repeats (a-grae:thm-1-zero-sum) a correct path drawn once can lose beside a dominant one drawn twice.",
    statement=sampled_side_moves(True, 1, only_distinct=True),
    planted={
        "loses": sampled_side_moves(True, -1, only_distinct=True),
        "also beside repeated paths": sampled_side_moves(True, 1),
    },
)
def sampled_correct_gain(statement):
    """Take the step in every mixed group of up to four rollouts."""
    yield from satisfies(statement, SIDES, moved)


@claim(
    "a-grae:eq-8",
    where="Section 3, Case B, Eq. 8",
    says="Under GRPO every sampled incorrect path loses probability.",
    formula=r"\Delta h_{b_i} = \eta A_{neg}",
    refuted_by="a mixed group after which a sampled incorrect action is more likely",
    reading="As a-grae:eq-7, the group being a set. With repeats (a-grae:thm-1-zero-sum) an error drawn once can gain "
    "beside a dominant one drawn twice.",
    statement=sampled_side_moves(False, -1, only_distinct=True),
    planted={
        "gains": sampled_side_moves(False, 1, only_distinct=True),
        "also beside repeated paths": sampled_side_moves(False, -1),
    },
)
def sampled_incorrect_lose(statement):
    """Take the step in every mixed group of up to four rollouts."""
    yield from satisfies(statement, SIDES, moved)


def unsampled(values, counts):
    """The entries of actions that were not drawn."""
    return tuple(value for value, count in zip(values, counts, strict=True) if not count)


@claim(
    "a-grae:eq-9",
    where="Section 3, Case C, Eq. 9; abstract (i); Figure 1",
    says="GRPO leaves the logits of unsampled paths exactly as they are.",
    formula=r"\Delta h_{b_i} = \eta (0 - 0 \cdot \pi_{b_i}) = 0",
    refuted_by="a group that moves the logit of an action it does not contain",
    reading="Logits of a tabular softmax, any group, repeated paths included. On the reading that 'unchanged' speaks "
    "of probabilities it would fail (a-grae:app-b5-constant).",
    caveat="That GRPO is trapped in local optima does not follow: a-grae:sec-3-entrapment. Where paths share "
    "parameters, unsampled ones move too.",
    identity=True,
    statement=lambda policy, correct, counts, factor: (0,) * counts.count(0),
    planted={"-C p": lambda policy, correct, counts, factor: unsampled([-number(p) for p in policy], counts)},
)
def unsampled_static(statement):
    """Differentiate, add up, and simulate every group that leaves an action out."""

    def only_unsampled(change):
        return lambda policy, correct, counts, factor: unsampled(change(policy, correct, counts, factor), counts)

    yield from equals(
        statement,
        groups_of([2, 3], keep=lambda counts: 0 in counts),
        derived=only_unsampled(differentiated),
        enumerated=only_unsampled(summed),
        sampled=only_unsampled(simulated_change),
        sampled_points=[point for point in SIMULATED_GROUPS if point["factor"] == 1],
    )


def rescaled_tail(policy, correct, counts, factor):
    """Unsampled probabilities divided by the new normalising constant, from the advantages alone."""
    weights = action_weights(counts, correct, factor)
    total = mp.fsum(number(p) * mp.exp(number(ETA) * weight) for p, weight in zip(policy, weights, strict=True))
    return unsampled([number(p) / total for p in policy], counts)


@claim(
    "a-grae:app-b5-constant",
    where="Appendix B.5, Case C ('whereas they remain constant under GRPO')",
    says="Under GRPO the probabilities of unsampled responses remain constant.",
    refuted_by="a group after which an unsampled action has another probability",
    reading="Output probabilities, as the sentence says. A constant logit is not a constant probability: the sampled "
    "ones change the normalisation. On the reading that logits are meant it would hold (a-grae:eq-9).",
    severity=CONDITIONS,
    same_error_as="a-grae:app-b5-increase",
    statement=lambda policy, correct, counts, factor: unsampled([number(p) for p in policy], counts),
    correction=Amended(
        "all unsampled probabilities change by one common factor, so that only their ratios remain constant",
        rescaled_tail,
    ),
    planted={"halved": lambda policy, correct, counts, factor: unsampled([number(p) / 2 for p in policy], counts)},
)
def unsampled_probability(statement):
    """The softmax after one step of GRPO, for every group that leaves an action out."""

    def after(policy, correct, counts, factor):
        return unsampled(stepped(policy, summed(policy, correct, counts, factor), number(ETA)), counts)

    yield from equals(statement, groups_of([2, 3], keep=lambda counts: 0 in counts), enumerated=after)


@claim(
    "a-grae:against-f-grpo",
    where="Section 3, Case C, against F-GRPO Section 2.3 (dz_j = -(eta/G) S_R p_j for unsampled j)",
    says="Zero-sum advantages leave unsampled logits unchanged, whichever of the two papers' objectives is taken.",
    refuted_by="an objective and group for which an unsampled logit moves",
    reading="F-GRPO maximises the mean of A times *probability*, so that the probability-weighted sum S of the "
    "advantages moves unsampled logits though the plain sum C is 0; A-GRAE maximises A times log-probability. Each "
    "theorem is right for its own objective, and A-GRAE's is the on-policy gradient of GRPO.",
    inferred=True,
    met="yes: Eq. 1 is of ratios, and Appendix B.3 of log-probabilities.",
    statement=lambda objective, policy, correct, counts, factor: (0,) * counts.count(0),
    condition=Amended(
        "the objective is of log-probabilities or of ratios to the sampling policy",
        lambda objective, policy, correct, counts, factor: (
            None if objective == "probability" else (0,) * counts.count(0)
        ),
    ),
    planted={"p": lambda objective, policy, correct, counts, factor: unsampled(list(policy), counts)},
)
def objectives(statement):
    """Differentiate the three objectives, and let the simulator follow the last two."""

    def change(objective, **group):
        return unsampled(differentiated(objective=objective, **group), group["counts"])

    def simulated(objective, **group):
        rule = {"ratio": "simulator", "probability": "simulator_literal"}[objective]
        return unsampled(simulated_change(update_rule=rule, **group), group["counts"])

    tail = groups_of([2, 3], keep=lambda counts: 0 in counts)
    yield from equals(
        statement,
        [{"objective": objective} | point for objective in ("probability", "ratio", "log") for point in tail],
        derived=change,
        sampled=simulated,
        sampled_points=[
            {"objective": objective} | point
            for objective in ("ratio", "probability")
            for point in SIMULATED_GROUPS
            if point["factor"] == 1
        ],
    )
