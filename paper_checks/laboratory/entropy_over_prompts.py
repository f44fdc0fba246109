"""The weights for which one step lowers the entropy of several prompts, in expectation: here weights do decide."""

import itertools
from fractions import Fraction

from mpmath import mp

from paper_checks.claim import claim
from paper_checks.evidence import Evidence, equals, number, satisfies
from paper_checks.exact import POLICIES
from paper_checks.laboratory.each_estimator import estimators_of_rewards, library_weight
from paper_checks.laboratory.entropy_change import RIGHT_PEAK, WRONG_PEAK, entropy_pull, entropy_slope
from paper_checks.laboratory.weights import WEIGHTS, focal, pull

TWINS = (RIGHT_PEAK, WRONG_PEAK)  # of opposite K, solved at 7/10 and 3/10
LIKELY_FAILURE = ((Fraction(1, 4), Fraction(3, 4)), (True, False))
BATCHES = (TWINS, (POLICIES[0], POLICIES[2]), (POLICIES[0], POLICIES[1], WRONG_PEAK))


def mean_slope(prompts, G, weight):
    """The mean over prompts of the first-order change of the entropy over eta, from all groups."""
    return mp.fsum(entropy_slope(policy, correct, G, weight) for policy, correct in prompts) / len(prompts)


def pulls_by(speed):
    """Minus the mean over the prompts of a speed times K."""

    def stated(prompts, G, weight):
        speeds = [number(speed(prompt, G, WEIGHTS[weight])) for prompt in prompts]
        return -mp.fsum(k * entropy_pull(*prompt) for k, prompt in zip(speeds, prompts, strict=True)) / len(prompts)

    return stated


@claim(
    "simlab:mean-entropy-change",
    where="Beyond the papers, question 4",
    says="Averaged over prompts that share no parameters, the expected first-order entropy change is -eta times the "
    "mean of kappa_i K_i: a weight enters by how fast it moves each prompt.",
    formula=r"\mathbb{E}[\Delta \bar H] = -\frac{\eta}{M}\sum_i \kappa_i K_i",
    refuted_by="prompts, a group size and a weight with another expected mean change",
    reading="Each prompt has free logits of its own and makes a plain gradient step of size eta; K and kappa as in "
    "simlab:expected-entropy-change, of which this is the mean. A search (2026-11) did not find it said of weights. "
    "It needs two levels of reward.",
    caveat="With shared parameters each prompt also changes the entropy of the others, which is not counted here.",
    identity=True,
    statement=pulls_by(lambda prompt, G, weight: pull(prompt[0], prompt[1], G, weight)),
    planted={
        "one speed for all": pulls_by(lambda prompt, G, weight: pull(*RIGHT_PEAK, G, weight)),
        "no weight enters": pulls_by(lambda prompt, G, weight: 1),
    },
)
def mean_entropy_change(statement):
    """The enumerated change at several batches of prompts."""
    points = [
        {"prompts": prompts, "G": size, "weight": weight}
        for prompts in BATCHES
        for size in (2, 3)
        for weight in WEIGHTS
    ]
    yield from equals(
        statement,
        points,
        enumerated=mean_slope,
    )


# At their defaults; and AsymGRPO with failures weighed twice as much, and half as much.
ARMS: list[tuple[str, tuple[tuple[str, float], ...]]] = [
    *((name, ()) for name in estimators_of_rewards()),
    ("asym_grpo", (("delta", 0.5),)),
    ("asym_grpo", (("delta", 2.0),)),
]
SAME = 1e-12  # float64 of the library's masses


def direction_of(value):
    """1, -1, or 0 for what rounding of the masses can explain."""
    return 0 if abs(value) < SAME else 1 if value > 0 else -1


def changes_and_speeds(name, parameters, G):
    """The mean change of the twins' entropy, and the speeds at the harder and at the easier twin."""
    weight = library_weight(name, G, **dict(parameters))
    return mean_slope(TWINS, G, weight), pull(*WRONG_PEAK, G, weight), pull(*RIGHT_PEAK, G, weight)


@claim(
    "simlab:entropy-over-prompts",
    where="Beyond the papers, question 4",
    says="Averaged over prompts the weight does decide: at two twin prompts, a likely success (K > 0, solved at .7) "
    "and a likely failure (-K, .3), weights that move the hard prompt faster raise the mean entropy, those that move "
    "the easy one faster lower it, and those that move both alike, PSR, NSR and GRPO among them, leave it.",
    refuted_by="a registered estimator of rewards whose mean change has another sign than the speed at the hard twin "
    "less that at the easy one, or of which all have one sign",
    reading="Free logits of each prompt, plain gradient, groups of four, all groups; the 38 registered estimators of "
    "rewards, and AsymGRPO with failures weighed twice (delta 1/2) and half as much (2). By simlab:mean-entropy-change "
    "the mean is eta K / 2 times the difference of the speeds. So failure bias acts through difficulty, not through "
    "sign. Papers that weigh by difficulty report what happens to entropy; a search (2026-11) found no such criterion. "
    "It needs two levels of reward.",
    caveat="Two twin prompts of opposite K and no shared parameters. At other batches the sign of the sum of kappa_i "
    "K_i decides, and one prompt of large |K| can fix it for all weights.",
    statement=lambda change, hard, easy: direction_of(change) == direction_of(hard - easy),
    planted={
        "for all or for none": lambda change, hard, easy: change <= SAME,
        "no weight matters": lambda change, hard, easy: direction_of(change) == 0,
        "the easy one faster": lambda change, hard, easy: direction_of(change) == direction_of(easy - hard),
    },
)
def entropy_over_prompts(statement):
    """The enumerated change at the twins under every registered estimator of rewards."""
    points = [{"name": name, "parameters": parameters, "G": 4} for name, parameters in ARMS]
    yield from satisfies(lambda values, **_: statement(*values), points, changes_and_speeds)
    signs = {direction_of(changes_and_speeds(**point)[0]) for point in points}
    yield Evidence("enumerated", signs == {-1, 0, 1}, f"signs of the mean change: {sorted(signs)}")


MIXED = [(RIGHT_PEAK, other) for other in (WRONG_PEAK, POLICIES[0], LIKELY_FAILURE)]
FOCAL_CASES = [
    {"prompts": prompts, "G": size, "gamma": gamma}
    for prompts, size, gamma in itertools.product(MIXED, (2, 3, 4), (1, 2))
]


def both_slopes(prompts, G, gamma):
    """The mean change without and with the Focal weight."""
    return tuple(mean_slope(prompts, G, focal(exponent)) for exponent in (0, gamma))


def turned_by(criterion):
    """The sign turns exactly where a criterion of the pulls and of the Focal speeds says so."""

    def holds(slopes, prompts, G, gamma):
        falling, rising = (entropy_pull(*prompt) for prompt in prompts)
        speeds = [
            [number(pull(policy, right, G, focal(exponent))) for policy, right in prompts] for exponent in (0, gamma)
        ]
        ratios = [other / easy for easy, other in speeds]
        turned = direction_of(slopes[0]) < 0 < direction_of(slopes[1])
        back = direction_of(slopes[1]) < 0 < direction_of(slopes[0])
        return not back and turned == criterion(falling / -rising, *ratios)

    return holds


@claim(
    "simlab:focal-entropy-over-prompts",
    where="Beyond the papers, question 4",
    says="Averaged over two prompts Focal weighting can turn the sign of the expected entropy change to first order: a "
    "mean that fell rises exactly where the ratio of the speeds, hard prompt over easy, comes to exceed the ratio of "
    "their pulls on the entropy, easy over hard.",
    formula=r"\frac{\kappa_h}{\kappa_e}\Big|_{\gamma=0} < \frac{K_e}{|K_h|} < \frac{\kappa_h}{\kappa_e}\Big|_{\gamma}",
    refuted_by="a pair of prompts whose mean change turns without it, does not turn with it, or turns from rising to "
    "falling, or no pair at which it turns",
    reading="Dr. GRPO with and without (1 - s/G)^gamma, gamma 1 and 2, G from 2 to 4; an easy prompt of K_e > 0 beside "
    "a hard one of K_h < 0, without shared parameters; plain gradient, all groups. At one prompt it never does: "
    "simlab:focal-entropy-first-order. A search (2026-11) found nothing of the kind. "
    "It needs two levels of reward.",
    caveat="Three pairs of small prompts; at most of their settings the sign does not turn.",
    statement=turned_by(lambda needed, plain, weighted: plain + SAME < needed < weighted - SAME),
    planted={
        "nowhere": turned_by(lambda needed, plain, weighted: False),
        "wherever the hard prompt gains speed": turned_by(lambda needed, plain, weighted: weighted > plain),
        "pulls exchanged": turned_by(lambda needed, plain, weighted: plain + SAME < 1 / needed < weighted - SAME),
    },
)
def focal_over_prompts(statement):
    """The enumerated change of pairs of prompts, with and without the weight."""
    yield from satisfies(statement, FOCAL_CASES, both_slopes)
