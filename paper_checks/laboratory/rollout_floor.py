"""A floor under the rollouts that a hard prompt needs before it can be kept, where weights wait for successes."""

import functools
import random
from fractions import Fraction

from mpmath import exp, log, mpf

from paper_checks.claim import claim
from paper_checks.evidence import equals, grid, satisfies
from paper_checks.laboratory.interference import WHERE

HALF = Fraction(3, 2)  # the odds' factor of half of the largest rise in a step


def chance_of_a_success(odds, G):
    """1 - (1 - Q)^G."""
    return 1 - (1 / (1 + odds)) ** G


def waiting_by(odds_after):
    """The chance that enough waiting times fit into N groups, with odds after i successful ones."""

    def stated(odds, G, halves, N):
        stages = [chance_of_a_success(odds_after(odds, i), G) for i in range(-(-halves // 2))]
        waiting = [Fraction(1)] + [Fraction(0)] * len(stages)
        for _ in range(N):
            moved = [chance * p for chance, p in zip(stages, waiting, strict=False)]
            waiting = [
                p - (moved[i] if i < len(stages) else 0) + (moved[i - 1] if i else 0) for i, p in enumerate(waiting)
            ]
        return waiting[-1]

    return stated


def best_strategy(odds, G, halves, N):
    """The largest chance that a prompt's own rises reach a sum, over all that a learner may choose in each group.

    A success raises the log-odds by nothing, by half of the largest rise or by all of it; other prompts take nothing or
    half of it. What the learner knows does not bound it: it chooses for every group and every past.
    """

    @functools.cache
    def value(left, risen, lost):
        if risen >= halves:
            return Fraction(1)
        if not left:
            return Fraction(0)
        best = Fraction(0)
        for pull in (0, 1):
            chance = chance_of_a_success(odds * HALF ** (risen - lost - pull), G)
            for rise in (0, 1, 2):
                after, without = value(left - 1, risen + rise, lost + pull), value(left - 1, risen, lost + pull)
                best = max(best, chance * after + (1 - chance) * without)
        return best

    return value(N, 0, 0)


@claim(
    "simlab:rollout-floor",
    where=WHERE,
    says="Whatever a learner knows and chooses, the chance that a hard prompt's own rollouts have made good a loss of "
    "R in log-odds within N groups is at most that of ceil(R / b) waiting times for a success, with log-odds that rise "
    "by b at each: b is the largest rise in a step. At small solve rates these are (1 - exp(-R)) / (Q b) rollouts in "
    "the mean, at every group size.",
    formula=r"\Pr\Big[\sum_t \Delta_t\ge R\Big]\le\Pr\Big[\sum_{i<\lceil R/b\rceil} T_i\le N\Big],\quad T_i\sim"
    r"\mathrm{Geom}\big(1-(1-Q_i)^G\big),\ \operatorname{logit}Q_i=\operatorname{logit}Q_0+ib",
    refuted_by="a strategy that makes it good more often",
    reading="Weights that are silent on groups of equal rewards, on prompts whose log-odds then rise in a step only if "
    "their group holds a success, by b at most, and are not raised by other prompts. So it is on a linear head, with "
    "b = eta sqrt(2) / sqrt(1 - c) for steps of norm eta and overlap c, if hard prompts do not help one another. "
    "It needs two levels of reward.",
    caveat="Not for PSR, NSR, entropy bonuses or penalties, which move a prompt without a success; nor for Adam, which "
    "bounds no rise. By a factor of some ten below what the best of the weights takes.",
    statement=waiting_by(lambda odds, i: odds * HALF ** (2 * i)),
    planted={
        "the solve rate stays": waiting_by(lambda odds, i: odds),
        "half a rise": waiting_by(lambda odds, i: odds * HALF**i),
    },
)
def floor(statement):
    """The best strategy, by dynamic programming over all that it may choose, in exact numbers."""
    points = grid(odds=(Fraction(1, 9), Fraction(1, 2)), G=(1, 3), halves=(1, 2, 3, 5), N=(1, 3, 6))
    yield from equals(statement, points, enumerated=best_strategy)


ACTIONS = 5  # 0 solves the easy prompts and is the likeliest error of the hard one, which 1 solves


def softmax(logits):
    """Return the policy."""
    powers = [exp(value) for value in logits]
    return [power / sum(powers) for power in powers]


def log_odds(logits, right):
    """The log-odds of the correct action."""
    return logits[right] - log(sum(exp(value) for action, value in enumerate(logits) if action != right))


def walked(easy, overlap, steps, seed):
    """The loss of the hard prompt, the mean gain of the easy ones, the margin at first, and the largest easy error.

    Each easy prompt moves by alpha (e_0 - f), f between the failures of a group of 4 and the policy's, as every weight
    moves it that has as much on successes as on failures, or more. The hard prompt's groups have no success.
    """
    draw = random.Random(seed)
    logits = [[log(mpf(value)) for value in (3, 1, 1, 1, 1)] for _ in range(easy)]
    hard = [log(mpf(value)) for value in ("0.6", "0.02", "0.3", "0.2", "0.2")]
    first, begun = log_odds(hard, 1), [log_odds(row, 0) for row in logits]
    wrong = [value / (1 - softmax(hard)[1]) for action, value in enumerate(softmax(hard)) if action != 1]
    margin, likeliest = wrong[0] - max(wrong[1:]), mpf(0)
    for _ in range(steps):
        moves = []
        for row in logits:
            chances = softmax(row)
            likeliest = max(likeliest, max(chances[1:]) / sum(chances[1:]))
            failed = draw.choices(range(1, ACTIONS), [float(chance) for chance in chances[1:]], k=draw.randint(1, 3))
            scale, share = mpf(draw.uniform(0, 1)), mpf(draw.choice((0, 0.5, 1)))
            expected = [0, *(chance / sum(chances[1:]) for chance in chances[1:])]
            drawn = [mpf(failed.count(action)) / len(failed) for action in range(ACTIONS)]
            wrong = [share * frequency + (1 - share) * other for frequency, other in zip(drawn, expected, strict=True)]
            moves.append([scale * ((action == 0) - value) for action, value in enumerate(wrong)])
        together = [sum(values) for values in zip(*moves, strict=True)]
        for row, move in zip(logits, moves, strict=True):
            for action in range(ACTIONS):
                row[action] += (1 - overlap) * move[action] + overlap * together[action]
        hard = [value + overlap * change for value, change in zip(hard, together, strict=True)]
        likeliest = max(likeliest, *(max(softmax(row)[1:]) / sum(softmax(row)[1:]) for row in logits))
    gain = sum(log_odds(row, 0) - at for row, at in zip(logits, begun, strict=True)) / easy
    return first - log_odds(hard, 1), gain, margin, likeliest


def loses(factor, share):
    """The hard prompt loses that factor of the bound, whose denominator has this function of the largest error."""

    def stated(walk, easy, overlap, **_):
        loss, gain, margin, likeliest = walk
        return loss >= factor * overlap * easy * margin * gain / (share(likeliest) * (1 + overlap * (easy - 1)))

    return stated


@claim(
    "simlab:unseen-falls",
    where=WHERE,
    says="While no hard prompt has been solved, every weight that is silent on groups of equal rewards and gives "
    "failures no more than successes, whatever it knows, pays for a mean gain D of n easy prompts in log-odds with a "
    "loss of c n m D / ((1 + l) (1 + c (n - 1))) at least at every hard prompt.",
    formula=r"\ell_h(0)-\ell_h(t)\ \ge\ \frac{c\,n\,m}{(1+l)(1+c(n-1))}\,D",
    refuted_by="a path of groups on which a hard prompt without a success loses less",
    reading="A linear head, features of one cosine c > 0, one answer that solves the easy prompts and is the likeliest "
    "error of the hard ones by a margin m of their errors; l is the largest share of one error in those of an easy "
    "prompt on the way, 1 at most. Plain steps of any length, normed or not. A hard prompt of solve rate Q has no "
    "success in its first n rollouts with the chance (1 - Q)^n. It needs two levels of reward.",
    caveat="Adam moves each coordinate by its own measure, and need not lower a hard prompt so.",
    statement=loses(1, lambda likeliest: 1 + likeliest),
    planted={
        "ten times as much": loses(10, lambda likeliest: 1 + likeliest),
        "no margin is needed": lambda walk, easy, overlap, **_: (
            walk[0] >= overlap * easy * walk[1] / ((1 + walk[3]) * (1 + overlap * (easy - 1)))
        ),
    },
)
def falls(statement):
    """Random paths: all easy prompts drawn and moved by random speeds, in 50 digits."""
    points = grid(easy=(1, 3), overlap=(mpf("0.1"), mpf("0.5"), mpf("0.9")), steps=(1, 12), seed=range(4))
    yield from satisfies(statement, points, walked, method="numerical")
