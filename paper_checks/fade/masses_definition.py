"""Section 2.1, Table 1 and Appendix 8 as a whole: what a mass is, its scale, and over what its mean runs."""

from fractions import Fraction

from paper_checks.claim import COSMETIC, Amended, claim
from paper_checks.evidence import Disagreement, equals, grid, number, satisfies
from paper_checks.exact import binomial
from paper_checks.fade import masses_baselines as baselines
from paper_checks.fade import masses_centred as centred
from paper_checks.fade import masses_exponential as exponential
from paper_checks.fade import masses_fixed as fixed
from paper_checks.fade import masses_power as powers
from paper_checks.fade.masses_chen import chen
from paper_checks.fade.masses_common import HALF, enumerated, masses, mixed, power, ratio, rollouts, root, solve_rates
from paper_checks.fade.masses_pass_at_k import pkpo, tang
from simlab.theory import CLOSED_FORMS, closed_form
from simlab.theory import masses as masses_of_estimator

WEIGHTS = {
    "reinforce": fixed.reinforce,
    "dr_grpo": centred.mean_grpo,
    "grpo": centred.grpo,
    "rloo": centred.rloo,
    "skew_r": centred.skew_r,
    "maxrl": centred.maxrl,
    "power_norm": lambda reward, batch: centred.power_norm(reward, batch, Fraction(1, 4)),
    "power_alpha": lambda reward, batch: powers.power_alpha(reward, batch, Fraction(2)),
    "easy_power": lambda reward, batch: powers.easy_power(reward, batch, Fraction(2)),
    "asym_power": lambda reward, batch: powers.asym_power(reward, batch, Fraction(3), Fraction(2)),
    "asym_grpo": lambda reward, batch: powers.asym_grpo(reward, batch, HALF),
    "pass_at_k_tang": tang,
    "pass_at_k_chen": lambda reward, batch: chen(reward, batch, 2),
    "pkpo": lambda reward, batch: pkpo(reward, batch, 2),
    "asym_rl": lambda reward, batch: baselines.asym_rl(reward, batch, Fraction(1, 100)),
    "quantile": lambda reward, batch: baselines.quantile(reward, batch, HALF),
    "binary_contrastive": fixed.binary_contrastive,
    "softmax": lambda reward, batch: exponential.softmax(reward, batch, Fraction(1)),
    "log_mean_exp": lambda reward, batch: exponential.log_mean_exp(reward, batch, Fraction(1)),
    "rs_grpo": lambda reward, batch: exponential.rs_grpo(reward, batch, Fraction(1)),
    "relu": fixed.relu,
}


def mean_of(vectors):
    """The mean of a list of vectors, entry by entry."""
    return [sum(entries) * Fraction(1, len(vectors)) for entries in zip(*vectors, strict=True)]


def gradients_of(G):
    """A vector for each of G rollouts, of no special symmetry."""
    return [[Fraction(i * i + 1, i + 2), Fraction((-1) ** i * (i + 3), 2)] for i in range(G)]


@claim(
    "fade:masses",
    where="Section 2.1, Eq. 3; Appendix 8",
    says="For a weight w_S on success and -w_F on failure, m_S = w_S p and m_F = w_F q are the means over the group of "
    "the weight on successes and of its negative on failures.",
    formula=r"\underbrace{w_S\cdot\bar p}_{\bar m_S}\bar\nabla_S - \underbrace{w_F\cdot\bar q}_{\bar m_F}\bar\nabla_F",
    refuted_by="a weight and a mixed group for which they differ",
    reading="Every weight of the appendix that is a function of the outcome and the group. T2T and HA-DW with rollout "
    "rewards are not; there the means over each side stand for w (fade:t2t).",
    identity=True,
    statement=lambda p, success, failure: (success * p, -failure * (1 - p)),
    planted={"unweighted": lambda p, success, failure: (success, -failure)},
)
def masses_of_weights(statement):
    """Rollout by rollout against the weights of one success and one failure; then as in our library."""
    points = [{"name": name} | point for name in WEIGHTS for point in solve_rates([2, 3, 5], mixed)]

    def stated(name, p, G):
        batch = rollouts(p, G)
        return statement(p, *(WEIGHTS[name](reward, batch) for reward in (1, 0)))

    ours_agree()
    yield from equals(stated, points, enumerated=lambda name, p, G: enumerated(WEIGHTS[name])(p, G))


def ours_agree():
    """Raise ``Disagreement`` where our library's closed forms differ from its estimators, at their own defaults."""
    for name in CLOSED_FORMS:
        table = masses_of_estimator(name, 5)
        for s, *pair in zip(table.successes, table.success, table.failure, strict=True):
            if any(abs(a - b) > 1e-9 for a, b in zip(pair, closed_form(name, s / 5, 5), strict=True)):
                raise Disagreement(f"simlab's closed form of {name} differs from its estimator at {s} of 5")


@claim(
    "fade:table-1",
    where="Section 2.2, Table 1, caption",
    says="The update of each weight is m_S times the mean gradient of successes less m_F times that of failures.",
    formula=r"m_S\cdot\bar\nabla_S - m_F\cdot\bar\nabla_F",
    refuted_by="a weight, a mixed group and gradients for which the weighted mean of the gradients differs",
    reading="The update is the mean over the group of weight times gradient, Eq. 3. On the reading of Eqs. 4-6 it is "
    "the sum, G times that; see fade:masses-normalisation.",
    identity=True,
    statement=lambda m_S, m_F, success, failure: m_S * success - m_F * failure,
    planted={"a sum": lambda m_S, m_F, success, failure: m_S * success + m_F * failure},
)
def table_1(statement):
    """Both sides for every weight and mixed group of 4, with gradients of no special symmetry."""
    points = grid(name=list(WEIGHTS), s=[1, 2, 3])

    def update(name, s):
        batch = rollouts(Fraction(s, 4), 4)
        weighed = [
            [WEIGHTS[name](reward, batch) * entry for entry in gradient]
            for reward, gradient in zip(batch.rewards, gradients_of(4), strict=True)
        ]
        return tuple(mean_of(weighed))

    def by_masses(name, s):
        m_S, m_F = enumerated(WEIGHTS[name])(Fraction(s, 4), 4)
        sides = mean_of(gradients_of(4)[:s]), mean_of(gradients_of(4)[s:])
        return tuple(statement(m_S, m_F, *pair) for pair in zip(*sides, strict=True))

    yield from equals(by_masses, points, enumerated=update)


@claim(
    "fade:table-1-notation",
    where="Section 2.2, Table 1, caption",
    says="p is the expected number of correct samples in a batch, and q = 1 - p that of incorrect ones.",
    refuted_by="a batch size at which the two expected numbers are not p and 1 - p",
    reading="A number of samples; it sums to B, and not to 1 as p + q does. The share is meant, as in Section 2.1.",
    statement=lambda p, B: (p, 1 - p),
    slip=Amended("the expected share: the numbers are B p and B q", lambda p, B: (B * p, B * (1 - p))),
    planted={"shares of B + 1": lambda p, B: ((B + 1) * p, (B + 1) * (1 - p))},
)
def table_1_notation(statement):
    """The expected numbers, summed over all batches."""

    def numbers(p, B):
        chances = binomial(B, p)
        successes = sum(chance * s for s, chance in enumerate(chances))
        return successes, B - successes

    yield from equals(statement, grid(B=[1, 2, 5], p=[Fraction(1, 4), HALF]), enumerated=numbers)


TRANSLATES = ("dr_grpo", "grpo", "rloo", "skew_r", "asym_grpo", "relu", "pass_at_k_tang", "quantile")


@claim(
    "fade:table-1-reward-range",
    where="Section 2.2, Table 1, caption",
    says="The masses generalise to rewards of another range than 0 and 1 with a multiplier.",
    refuted_by="a weight and two reward values for which the masses of two groups, or outcomes, take different ones",
    reading="Rewards 2 and -1 for success and failure; any multiplier, fixed for a weight. Weights that compare "
    "rewards with one another only have one; the others see the values. For ranges [0, c], that scale without a shift, "
    "it holds of REINFORCE and MaxRL too, but not of Power-alpha or the exponential weights.",
    severity=COSMETIC,
    met="yes: all rewards in the paper are 0 and 1",
    statement=lambda multipliers, name: len(multipliers) == 1,
    condition=Amended(
        "the weight compares rewards only with one another: " + ", ".join(TRANSLATES),
        lambda multipliers, name: len(multipliers) == 1 if name in TRANSLATES else None,
    ),
    planted={"none": lambda multipliers, name: multipliers == (1,)},
)
def table_1_reward_range(statement):
    """The ratios of the masses of all mixed groups of 4 under both ranges, to 12 digits."""

    def multipliers(name):
        pairs = [
            pair
            for p in (Fraction(1, 4), HALF, Fraction(3, 4))
            for pair in zip(
                masses(WEIGHTS[name], rollouts(p, 4, (2, -1))), enumerated(WEIGHTS[name])(p, 4), strict=True
            )
        ]
        changed = [(number(ours), number(theirs)) for ours, theirs in pairs if (ours, theirs) != (0, 0)]
        return tuple(sorted({round(float(ours / theirs), 12) if theirs else float("inf") for ours, theirs in changed}))

    names = ["dr_grpo", "reinforce", "maxrl", "power_alpha", "softmax", *TRANSLATES[1:]]
    yield from satisfies(statement, grid(name=names), multipliers, names="ratios of the masses")


def printed_masses(name, p, G):
    """The masses as the appendix prints them, batch size and all, at the parameters of ``WEIGHTS``; B = G."""
    q = 1 - p
    return {
        "grpo": lambda: (G * root(p * q),) * 2,
        "skew_r": lambda: (p * q * root(p * q),) * 2,
        "power_alpha": lambda: (G * p * q**2,) * 2,
        "asym_power": lambda: (G * p * q**3, G * p**2 * q),
        "asym_grpo": lambda: (G * p * q, G * p * q / HALF),
        "power_norm": lambda: (power(p * q, Fraction(3, 4)),) * 2,
        "quantile": lambda: (p, 0) if p <= HALF else (0, q),
        "binary_contrastive": lambda: (p, p),
        "softmax": lambda: exponential.printed_softmax(p, Fraction(1)),
        "relu": lambda: (p * q, 0),
    }[name]()


SUMMED = ("grpo", "power_alpha", "asym_power", "asym_grpo", "softmax")


@claim(
    "fade:masses-normalisation",
    where="Appendix 8 throughout; Section 2.1, Eq. 3",
    says="The masses printed in the appendix are those of Eq. 3, m_S = w_S p and m_F = w_F q, on one scale.",
    formula=r"m_S = m_F = B\sqrt{pq};\quad m_S = m_F = pq/(pq)^\gamma",
    refuted_by="a weight whose printed masses are a multiple of w_S p and w_F q",
    reading="Some are sums over the batch, B times Eq. 3 (GRPO, the Power series, AsymGRPO; Softmax, in which B has "
    "cancelled; Tang's, in expectation), the others means; Table 1 compares them. Skew-R, the product of two masses, "
    "is printed without B beside a GRPO with it. Read one by one, as coefficients of each derivation's sum, they hold.",
    statement=printed_masses,
    slip=Amended(
        "those of " + ", ".join(SUMMED) + " are to be divided by the batch size",
        lambda name, p, G: tuple(ratio(mass, G if name in SUMMED else 1) for mass in printed_masses(name, p, G)),
    ),
    planted={"all sums": lambda name, p, G: tuple(ratio(mass, G) for mass in printed_masses(name, p, G))},
)
def masses_normalisation(statement):
    """The masses of each weight, rollout by rollout."""
    names = ["grpo", "skew_r", "power_alpha", "asym_power", "asym_grpo", "power_norm", "quantile"]
    names += ["binary_contrastive", "softmax", "relu"]
    points = [{"name": name} | point for name in names for point in solve_rates([2, 3, 4], mixed)]
    yield from equals(statement, points, enumerated=lambda name, p, G: enumerated(WEIGHTS[name])(p, G))
