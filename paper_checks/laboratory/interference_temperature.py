"""The effect of the rollouts' temperature on what prompts do to one another."""

from fractions import Fraction

from mpmath import mp, mpf

from paper_checks.claim import claim
from paper_checks.evidence import equals, number
from paper_checks.exact import groups, softmax
from paper_checks.laboratory.interference import WHERE, changes_by, simulated_changes
from paper_checks.laboratory.shared_head import (
    AGREEMENT,
    CONFLICT,
    TWO_ACTIONS,
    head_step,
    heads,
    moved_by_head,
    product,
    stated_transfer,
)
from paper_checks.laboratory.weights import WEIGHTS, coefficients


def at_temperature(logits, temperature):
    """softmax(z / T)."""
    return softmax([value / temperature for value in logits])


def slope(function, logits):
    """The gradient of a function of logits, by central differences in 50 digits."""
    width = mpf("1e-17")
    gradient = []
    for index in range(len(logits)):
        ahead, behind = ([*logits[:index], logits[index] + size, *logits[index + 1 :]] for size in (width, -width))
        gradient.append((function(ahead) - function(behind)) / (2 * width))
    return gradient


def differentiated_prompt(policy, correct, G, weight, temperature):
    """The expected move of a prompt's logits, and the slope of its solve rate, by differences of softmax(z / T)."""
    logits = [temperature * mp.log(number(p)) for p in policy]
    drawn = [
        mp.fsum(number(chance * coefficients(counts, correct, weight)[action]) for chance, counts in groups(policy, G))
        for action in range(len(policy))
    ]

    def likelihood(values):
        tempered = at_temperature(values, temperature)
        return mp.fsum(share * mp.log(p) for share, p in zip(drawn, tempered, strict=True))

    def solve_rate(values):
        return mp.fsum(p for p, right in zip(at_temperature(values, temperature), correct, strict=True) if right)

    return slope(likelihood, logits), slope(solve_rate, logits)


def differentiated_changes(temperature, weight, **head):
    """Both changes from all groups, with every gradient by differences of the policies themselves."""
    point = (head["G"], WEIGHTS[weight], number(temperature))
    pairs = [differentiated_prompt(*prompt, *point) for prompt in zip(head["policies"], head["correct"], strict=True)]
    moves, slopes = zip(*pairs, strict=True)
    rows = [[number(value) for value in feature] for feature in head["features"]]
    step = head_step(moves, rows)
    return tuple(product(change, moved_by_head(step, row)) for change, row in zip(slopes, rows, strict=True))


def scaled_changes(power):
    """The transfer identity at the policies of temperature T, over a power of T."""

    def stated(temperature, **point):
        return tuple(number(change) / number(temperature) ** power for change in changes_by(stated_transfer)(**point))

    return stated


@claim(
    "simlab:interference-temperature",
    where=WHERE,
    says="Sampling at temperature T divides every transfer by T^2, given the policies at T.",
    formula=r"\mathbb{E}[\Delta Q_j]=\frac{\eta}{P\,T^2}\sum_i K_{ij}\,m_i\,Q_j(1-Q_j)\langle u_i,u_j\rangle,\quad "
    r"p=\mathrm{softmax}(z/T)",
    refuted_by="a temperature at which a step, averaged over all groups, changes a solve rate otherwise",
    reading="Rollouts, gradient and solve rate all of softmax(z / T). The factor is common to what a prompt does to "
    "itself and what others do to it, and cancels from the overlap at which a prompt begins to fall and from the k at "
    "which pass@k turns: these move with T through the policies alone. Where pass@k is taken at another temperature "
    "than the rollouts, 1 / T comes once from the rollouts and once from the evaluation, and <u_i, u_j> mixes both "
    "policies. A low T sharpens: it lowers the solve rate of a prompt whose answer is not the likeliest, and with it "
    "m_i. That gradients through two tempered softmaxes scale as 1 / T^2 is known from distillation (Hinton et al., "
    "1503.02531); a search (2026-11) did not find it said of prompts that interfere. "
    "Rewards may have any levels.",
    statement=scaled_changes(2),
    planted={"once": scaled_changes(1), "not at all": scaled_changes(0), "the other way": scaled_changes(-2)},
)
def temperature_scales(statement):
    """All groups, with gradients by differences of the tempered softmax; the simulator at that temperature."""
    points = [
        point | {"temperature": temperature}
        for point in heads((TWO_ACTIONS, CONFLICT, AGREEMENT), weights=("nsr", "maxrl"))
        for temperature in (Fraction(1, 2), Fraction(3))
    ]
    yield from equals(
        statement,
        points,
        enumerated=differentiated_changes,
        sampled=simulated_changes,
        sampled_points=[point for point in points if point["policies"] == CONFLICT[0]],
        tolerance=mpf("1e-28"),
    )
