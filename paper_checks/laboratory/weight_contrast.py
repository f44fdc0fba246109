"""The most a weight can favour hard prompts over easy ones, and the path that all weights share where it cannot."""

import functools

import sympy
from mpmath import exp, log, mpf

from paper_checks.claim import claim
from paper_checks.evidence import equals, grid, vanishes
from paper_checks.laboratory.interference import WHERE, enumerated_speed
from paper_checks.laboratory.weights import WEIGHTS, Weight, balanced, focal, pull

RATE = sympy.Symbol("rate", positive=True)


def grpo(p):
    """One over the standard deviation."""
    return 1 / sympy.sqrt(p * (1 - p))


TABLE = {
    "psr": (WEIGHTS["psr"], lambda G: 1),
    "nsr": (WEIGHTS["nsr"], lambda G: 1),
    "mean": (WEIGHTS["dr_grpo"], lambda G: 1),
    "grpo": (balanced(grpo), lambda G: 1),
    "grpo, focal 1": (balanced(lambda p: (1 - p) * grpo(p)), lambda G: G - 1),
    "grpo, focal 2": (balanced(lambda p: (1 - p) ** 2 * grpo(p)), lambda G: (G - 1) ** 2),
    "maxrl": (WEIGHTS["maxrl"], lambda G: G - 1),
    "power 3": (focal(2), lambda G: (G - 1) ** 2),
    "easy power 3": (balanced(lambda p: p**2), lambda G: 1 / sympy.Integer(G - 1) ** 2),
    "positives x 10": (
        Weight(lambda s, G: 10 * balanced(grpo).success(s, G), balanced(grpo).failure),
        lambda G: sympy.Integer(10),
    ),
}


def stated_contrast(weight, G):
    """The table's formula."""
    return sympy.Integer(1) * TABLE[weight][1](G)


def derived_contrast(weight, G):
    """A lone success and a lone failure: [w_S(1) + w_F(0)] / [w_S(G) + w_F(G - 1)]."""
    chosen = TABLE[weight][0]
    first = chosen.success(1, G) + chosen.failure(0, G)
    return sympy.simplify(sympy.sympify(first) / (chosen.success(G, G) + chosen.failure(G - 1, G)))


def enumerated_contrast(weight, G):
    """The speed from all groups, a polynomial of the solve rate, at 0 over that at 1."""
    speed = sympy.cancel(sympy.expand(enumerated_speed(RATE, G, TABLE[weight][0])))
    return sympy.simplify(speed.subs(RATE, 0) / speed.subs(RATE, 1))


@claim(
    "simlab:weight-contrast",
    where=WHERE,
    says="The speed of every weight is finite at a solve rate of 0, and so is the most that it can favour hard prompts "
    "over easy ones in groups of G: 1 for GRPO, PSR, NSR and the plain baseline at every G, G - 1 for MaxRL, "
    "(G - 1)^gamma for F-GRPO, (G - 1)^(alpha - 1) for a power.",
    formula=r"C=\frac{\kappa(0;G)}{\kappa(1;G)}=\frac{w_S(1)+w_F(0)}{w_S(G)+w_F(G-1)}",
    refuted_by="a weight of the table and a group size of another contrast, over all groups",
    reading="Positives times 10 have the contrast 10, though their G is the same; weights that are silent on solved "
    "prompts (Tang, Chen, rejection) have none, for their speed at 1 is 0. More rollouts do not make GRPO favour hard "
    "prompts. "
    "It needs two levels of reward.",
    caveat="Plain steps: Adam divides by each coordinate's own second moment.",
    statement=stated_contrast,
    planted={
        "the group in place of the others": lambda weight, G: TABLE[weight][1](G + 1),
        "GRPO favours hard prompts": lambda weight, G: G - 1 if weight == "grpo" else stated_contrast(weight, G),
        "no weight does": lambda weight, G: sympy.Integer(1),
    },
)
def contrast(statement):
    """A lone success and a lone failure; the polynomials from all groups at both ends."""
    points = grid(weight=TABLE, G=(2, 3, 4))
    yield from equals(statement, points, derived=derived_contrast, enumerated=enumerated_contrast)


PAIRS = ((mpf("0.3"), mpf("0.3")), (mpf("0.1"), mpf("0.6")))  # the easy prompt's solve rate, the features' cosine
STEPS, LENGTH = 40, mpf("0.25")


def policy(logits):
    """Softmax."""
    powers = [exp(value) for value in logits]
    return [power / sum(powers) for power in powers]


@functools.cache
def hard_log_odds(rate, weight, G, pair):
    """A hard prompt's log-odds after expected steps that the easy prompt's speed is the clock of; weight None: silent.

    Three actions: action 0 solves the easy prompt and is the likely error of the hard one, which action 1 solves.
    """
    easy, overlap = pair
    logits = [
        [log(value) for value in (easy, (1 - easy) / 2, (1 - easy) / 2)],
        [log(value) for value in (mpf("0.4") * (1 - rate), rate, mpf("0.6") * (1 - rate))],
    ]
    right = ((True, False, False), (False, True, False))
    for _ in range(STEPS):
        policies = [policy(values) for values in logits]
        speeds = [1, 0] if weight is None else [pull(p, r, G, weight) for p, r in zip(policies, right, strict=True)]
        pushes = [
            [speed / speeds[0] * p * (correct - q) for p, correct in zip(values, mask, strict=True)]
            for speed, values, mask, q in zip(speeds, policies, right, (policies[0][0], policies[1][1]), strict=True)
        ]
        for prompt in (0, 1):
            for action in range(3):
                logits[prompt][action] += LENGTH * (pushes[prompt][action] + overlap * pushes[1 - prompt][action])
    solved = policy(logits[1])[1]
    return log(solved / (1 - solved)), log(rate / (1 - rate))


@claim(
    "simlab:silent-path",
    where=WHERE,
    says="At two pairs of an easy and a hard prompt, under plain steps and at a fixed group size, four weights of "
    "finite contrast take the hard prompt along one path as its solve rate goes to 0: that of the easy prompt alone, "
    "on which no weight is seen.",
    formula=r"\log\frac{Q_h}{1-Q_h}(t)-\Big[\log\frac{Q_h}{1-Q_h}(t)\Big]_{\kappa_h=0}=O(Q_h(0))",
    refuted_by="a weight of finite contrast whose path stays away from the silent one as the solve rate goes to 0",
    reading="The clock is the easy prompt's own speed; a learning rate and a factor on the weight are in it. PSR, mean "
    "GRPO, MaxRL and a power of 3; the easy prompt at .3 with the cosine .3 and at .1 with .6, 40 expected steps. The "
    "reason would be that of simlab:interference-drift, step by step; it is not proved. At a given Q_h the departure "
    "grows with the contrast, and so with G. "
    "It needs two levels of reward.",
    caveat="Numerical. With easy prompts of unequal solve rates weights part even so, since their speeds differ among "
    "these; and under Adam rare signals are not small.",
    statement=lambda path, silent, start, contrast: path - silent,
    planted={
        "the hard prompt stays": lambda path, silent, start, contrast: path - start,
        "apart by the contrast": lambda path, silent, start, contrast: path - silent - log(contrast + 1) / 10,
    },
)
def silent_path(statement):
    """Expected steps at solve rates down to a millionth, under four weights."""
    chosen = grid(weight=("psr", "mean", "maxrl", "power 3"), G=(4, 8), pair=PAIRS)

    def error(step, weight, G, pair):
        path, start = hard_log_odds(step, TABLE[weight][0], G, pair)
        silent, _ = hard_log_odds(step, None, None, pair)
        return statement(path, silent, start, mpf(int(TABLE[weight][1](G))))

    yield from vanishes(error, chosen, order=1)
