"""When a prompt is lost to another, what hides it, and what batches and weights can do about it."""

import itertools
from fractions import Fraction

from mpmath import mp, mpf

from paper_checks.claim import claim
from paper_checks.evidence import grid, number, satisfies, vanishes
from paper_checks.laboratory.interference import WHERE
from paper_checks.laboratory.shared_head import enumerated_changes, heads, product
from paper_checks.laboratory.weights import as_weight, mass_gradient, pull
from simlab.theory.loss_time import time_until_lost

LAZY = "the neural tangent kernel (Jacot et al., 1806.07572)"


def rate(x):
    """Q of log-odds."""
    return 1 / (1 + mp.exp(-x))


PACES = {
    "one speed": lambda x: rate(x) * (1 - rate(x)),
    "grpo": lambda x: mp.sqrt(rate(x) * (1 - rate(x))),
}


def flown(easy_rate, hard_rate, features, *, time, pace, steps=400):
    """Log-odds of both after a flow of the head: two answers, right for one prompt where wrong for the other."""
    easy, hard = features
    speed = PACES[pace]
    start = mp.log(easy_rate / (1 - easy_rate)), -mp.log(hard_rate / (1 - hard_rate))
    determinant = easy[0] * hard[1] - easy[1] * hard[0]
    head = [
        (start[0] * hard[1] - start[1] * easy[1]) / determinant,
        (start[1] * easy[0] - start[0] * hard[0]) / determinant,
    ]

    def slope(head):
        gains = speed(product(easy, head)), -speed(-product(hard, head))
        return [gains[0] * e + gains[1] * h for e, h in zip(easy, hard, strict=True)]

    size = time / steps
    for _ in range(steps):  # Runge and Kutta's, of order 4
        slopes = [slope(head)]
        for stride in (size / 2, size / 2, size):
            slopes.append(slope([w + stride * s for w, s in zip(head, slopes[-1], strict=True)]))
        head = [w + size / 6 * (a + 2 * b + 2 * c + d) for w, a, b, c, d in zip(head, *slopes, strict=True)]
    return product(easy, head), -product(hard, head)


def missed_by(clock):
    """The hard prompt's distance from a drop at the time stated for it, as its solve rate goes to 0."""

    def error(step, easy_rate, drop, features, pace):
        hold, pull = (float(product(features[0], other)) for other in features)
        time = mpf(clock(float(easy_rate), float(drop), own=hold, pull=pull, pace=pace))
        end = flown(mpf(easy_rate), step, features, time=time, pace=pace)
        return mp.log(step / (1 - step)) - end[1] - drop

    return error


def linear(easy_rate, drop, *, own, pull, pace):
    """The first push, for ever."""
    return drop / (pull * float(PACES[pace](mp.log(mpf(easy_rate) / (1 - mpf(easy_rate))))))


@claim(
    "simlab:interference-time",
    where=WHERE,
    says="Where the kernel stays fixed, a hard prompt loses pull / own of the log-odds that an easy one gains, and the "
    "time until it has lost L is (F(x + L own / pull) - F(x)) / own, with F the integral of 1 / (kappa Q (1 - Q)) "
    "over the easy prompt's log-odds: exponential in L at one speed, and as its square root under GRPO.",
    formula=r"t_L=\frac{F(x_e+L\,a/b)-F(x_e)}{a},\quad F_{\text{one speed}}=2x+2\sinh x,\ "
    r"F_{\mathrm{GRPO}}=4\sinh(x/2)",
    refuted_by="an easy prompt, a pull and a drop that is reached at another time as the hard prompt's rate goes to 0",
    reading="Two answers, one right for each prompt, a linear head, gradient flow in expectation, a = K_ee, b = -K_eh; "
    f"the hard prompt's own part is left out and vanishes with its rate. A fixed kernel is the regime of {LAZY}; that "
    "the faster feature starves the slower is gradient starvation (Pezeshki et al., 2011.09468). A search (2026-11) "
    "found no such time. In steps of one length the time is L / b: it is the fading gradient of solved prompts alone "
    "that protects hard ones, and Adam takes the protection away.",
    statement=time_until_lost,
    planted={
        "the first push for ever": linear,
        "a ratio inverted": lambda easy, drop, *, own, pull, pace: time_until_lost(
            easy, drop * pull**2 / own**2, own=own, pull=pull, pace=pace
        ),
    },
)
def time(statement):
    """The flow of the head by Runge-Kutta steps, for hard prompts of ever lower rates."""
    features = (((mpf(1), mpf(0)), (mpf(3) / 5, mpf(4) / 5)), ((mpf(1), mpf(1)), (mpf(1) / 2, mpf(1))))
    for pace, order in (("one speed", 1), ("grpo", 0.5)):  # as m of the hard prompt does
        points = grid(easy_rate=("0.3", "0.6"), drop=(mpf(1) / 2, mpf(3) / 2), features=features, pace=(pace,))
        yield from vanishes(missed_by(statement), points, order=order, steps=("1e-4", "1e-5", "1e-6"))


HARD = {
    "policies": (
        (Fraction(3, 10), Fraction(1, 10), Fraction(3, 5)), (Fraction(3, 5), Fraction(1, 50), Fraction(19, 50))
    ),
    "correct": ((True, False, False), (False, True, False)),
    "features": ((1, 0), (Fraction(4, 5), Fraction(3, 5))),
}  # fmt: skip


def gradients(policies, correct, features):
    """grad Q of each prompt by the head."""
    return [
        [d * h for d in mass_gradient(policy, right) for h in feature]
        for policy, right, feature in zip(policies, correct, features, strict=True)
    ]


ONE_SPEED = ("psr", "nsr", "dr_grpo")


@claim(
    "simlab:interference-mean",
    where=WHERE,
    says="Under a weight of one speed the mean solve rate of the batch never falls in expectation, however far a "
    "prompt of it falls: its change is eta kappa |sum of grad Q|^2 / P^2. The reward curve cannot show who is lost.",
    formula=r"\mathbb{E}\Big[\tfrac1P\sum_j\Delta Q_j\Big]=\eta\kappa\,\Big|\tfrac1P\sum_j\nabla Q_j\Big|^2\ge 0",
    refuted_by="a head and such a weight under which the mean falls, or under which it can only rise together",
    reading="First order, plain steps, prompts of the batch alone; what is not in it may fall, and so may the mean "
    "under a weight that favours some prompts (Barakat et al., 2602.21189, for pass@k). "
    "It needs two levels of reward.",
    statement=lambda figures, **_: figures[0] + figures[1] == 2 * figures[2],
    planted={
        "nor does a prompt": lambda figures, **_: figures[0] + figures[1] == 2 * figures[2] and min(figures[:2]) >= 0,
        "each by itself": lambda figures, **_: figures[0] + figures[1] == 2 * figures[3],
    },
)
def mean(statement):
    """All groups of both prompts under weights of one speed: conflict, agreement, a hard prompt beside an easy one."""

    def figures(weight, policies, correct, features, G):
        """Both changes over eta, the square of the mean gradient times kappa, and the mean square by 2."""
        changes = enumerated_changes(policies, correct, features, G, as_weight(weight))
        kappa = pull(policies[0], correct[0], G, as_weight(weight))
        slopes = gradients(policies, correct, features)
        whole = [sum(values) / 2 for values in zip(*slopes, strict=True)]
        return (*changes, kappa * product(whole, whole), kappa * sum(product(s, s) for s in slopes) / 4)

    points = [*heads(group_sizes=(2,), weights=ONE_SPEED), *(HARD | {"G": 3, "weight": name} for name in ONE_SPEED)]
    yield from satisfies(statement, points, figures)


def unit_steps(policies, correct, features, **_):
    """The change of each Q by steps of one length: one by both prompts together, or one by each, half as long."""
    slopes = [[number(d) for d in slope] for slope in gradients(policies, correct, features)]

    def unit(vector):
        length = mp.sqrt(product(vector, vector))
        return [value / length for value in vector]

    together = unit([sum(values) for values in zip(*slopes, strict=True)])
    apart = [sum(values) / 2 for values in zip(*map(unit, slopes), strict=True)]
    return tuple(product(step, slope) for step in (together, apart) for slope in slopes)


@claim(
    "simlab:interference-pure-batches",
    where=WHERE,
    says="In steps of one length, as of Adam or of a clipped norm, two prompts in batches of their own push neither "
    "down over both steps: Q_j moves by |grad Q_j| (1 + cos) / 2 >= 0. In one batch the prompt of the smaller gradient "
    "falls where that is shorter than -cos times the other's.",
    formula=r"\Delta Q_h=\tfrac{\eta}{2}|\nabla Q_h|\,(1+\cos\theta)\ge 0",
    refuted_by="two prompts of which one falls over both steps",
    reading="First order, weights of one speed, steps eta g / |g|. With plain steps the sum over an epoch does not "
    "depend on how it is cut into batches: composition matters through what the optimiser divides by. Gradient surgery "
    "(PCGrad, Yu et al., 2001.06782) removes the conflict within a step instead. A search (2026-11) did not find it.",
    caveat="Two prompts, one step each: of n batches without the prompt and one with it, the sum is 1 + n cos.",
    statement=lambda changes, **_: changes[2] >= 0 and changes[3] >= 0,
    planted={
        "nor does one batch": lambda changes, **_: min(changes) >= 0,
        "batches of their own never push down less": lambda changes, **_: (
            changes[2] >= changes[0] and changes[3] >= changes[1]
        ),
    },
)
def pure_batches(statement):
    """Over conflict and agreement, and an easy prompt beside a hard one."""
    points = [*heads(group_sizes=(2,), weights=("psr",)), HARD]
    yield from satisfies(statement, points, unit_steps, method="numerical")


def least_norm(slopes):
    """The weights of the shortest vector in the hull of some, by trying every face; they sum to 1."""
    best = (product(slopes[0], slopes[0]), [Fraction(int(i == 0)) for i in range(len(slopes))])
    for size in range(1, len(slopes) + 1):
        for face in itertools.combinations(range(len(slopes)), size):
            gram = [[product(slopes[i], slopes[j]) for j in face] for i in face]
            weights = solved(gram)
            if weights is None or min(weights) < 0:
                continue
            whole = [Fraction(0)] * len(slopes)
            for index, weight in zip(face, weights, strict=True):
                whole[index] = weight / sum(weights)
            vector = [sum(w * s[k] for w, s in zip(whole, slopes, strict=True)) for k in range(len(slopes[0]))]
            length = product(vector, vector)
            if length < best[0]:
                best = (length, whole)
    return best[1]


def solved(gram):
    """The solution of gram x = 1 by elimination; None where there is not one."""
    size = len(gram)
    rows = [[*row, Fraction(1)] for row in gram]
    for column in range(size):
        pivot = next((r for r in range(column, size) if rows[r][column]), None)
        if pivot is None:
            return None
        rows[column], rows[pivot] = rows[pivot], rows[column]
        rows[column] = [value / rows[column][column] for value in rows[column]]
        for other in range(size):
            if other != column:
                rows[other] = [v - rows[other][column] * w for v, w in zip(rows[other], rows[column], strict=True)]
    return [row[-1] for row in rows]


def pushes(slopes, choose):
    """Change of each Q, over eta, under weights of the prompts; and these weights."""
    weights = choose(slopes)
    step = [sum(w * s[k] for w, s in zip(weights, slopes, strict=True)) for k in range(len(slopes[0]))]
    return tuple(product(step, slope) for slope in slopes)


@claim(
    "simlab:interference-spared",
    where=WHERE,
    says="Some weights of the prompts, none below 0, push no prompt of the batch down: those of the shortest vector in "
    "the hull of the gradients of their solve rates. What no weight of prompts can do is turn the sign of one "
    "prompt's push on another.",
    formula=r"\kappa^*=\arg\min_{\kappa\ge0,\ \sum\kappa=1}\Big|\sum_i\kappa_i\nabla Q_i\Big|^2\ \Rightarrow\ "
    r"\sum_i\kappa^*_i\langle\nabla Q_i,\nabla Q_j\rangle\ge\Big|\sum_i\kappa^*_i\nabla Q_i\Big|^2\ge0",
    refuted_by="prompts of which these weights push one down",
    reading="First order, plain steps. It is the multiple-gradient descent of Désidéri (2012) put to prompts: a weight "
    "scales the rows of K and nothing else, and rows of a Gram matrix always have such a scaling. A weight of rewards "
    "and solve rate reaches it only where it is a function of the solve rate, and within its contrast kappa(0) / "
    "kappa(1) (simlab:weight-contrast): sqrt(G - 1) under GRPO, G - 1 under MaxRL. Where prompts conflict outright "
    "the vector is 0 and nobody learns.",
    statement=least_norm,
    planted={
        "equal weights": lambda slopes: [Fraction(1, len(slopes))] * len(slopes),
        "each by its own push": lambda slopes: [1 / product(slope, slope) for slope in slopes],
        "the shortest alone": lambda slopes: [
            Fraction(int(product(s, s) == min(product(t, t) for t in slopes))) for s in slopes
        ],
    },
)
def spared(statement):
    """Every two and three of five gradients in whole numbers, short and long, of help and of conflict."""
    entries = ((1, 0, 1), (-1, 2, 0), (3, -1, 1), (-2, -1, 1), (0, 4, -1))
    slopes = [tuple(map(Fraction, entry)) for entry in entries]
    points = [{"slopes": chosen} for size in (2, 3) for chosen in itertools.combinations(slopes, size)]

    def changed(slopes):
        return pushes(slopes, statement)

    yield from satisfies(lambda changes, **_: min(changes) >= 0, points, changed)
