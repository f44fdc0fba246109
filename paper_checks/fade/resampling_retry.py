"""Section 9.2: retrying failed prompts, and the weight Power-alpha."""

from fractions import Fraction

from mpmath import mpf

from paper_checks.claim import COSMETIC, Amended, claim
from paper_checks.evidence import equals, grid, number, vanishes
from paper_checks.fade.variance_common import chances, power_weight
from simlab import advantages

POINTS = grid(B=[2, 3, 8], p=[Fraction(1, 4), Fraction(1, 2), Fraction(9, 10)])


def success_mass(p, group_size, alpha):
    """E[sum of the success advantages] of Power-alpha in a group, by the estimator, over the number of successes."""
    total = mpf(0)
    for successes, chance in enumerate(chances(p, group_size)):
        rewards = [1.0] * successes + [0.0] * (int(group_size) - successes)
        weights = advantages("power_alpha", rewards, alpha=float(alpha))
        total += chance * sum(float(weight) for weight in weights[:successes])
    return total


def resampled_less_weighted(rollouts):
    """A check: mass of the retry round, reached with probability q, less the mass of Power-2, per rollout."""

    def decide(statement):
        """Expected masses over all groups: GRPO's times q against Power-2's, both by the estimator."""
        yield from equals(
            statement,
            grid(B=rollouts, p=[Fraction(1, 4), Fraction(1, 2), Fraction(9, 10)]),
            enumerated=lambda B, p: (number(1 - p) * success_mass(p, B, 1) - success_mass(p, B, 2)) / B,
            tolerance=mpf("1e-12"),
        )

    return decide


claim(
    "fade:app-9-retry-exact",
    where="Section 9.2, title and Interpretation ('exactly')",
    says="A GRPO retry that is reached with probability q has exactly the mass of Power-2.",
    formula=r"m_S^{(2)}=\rho_2\cdot Bpq=Bpq^2",
    refuted_by="a (B, p) at which the expected masses of the two differ",
    reading="With rho_2 = q granted (but see fade:app-9-reach), and only round 2 counted: rounds 1 and 2 together "
    "have B p q (1 + q), and retries without end add up to B q, MaxRL's mass. Power-2 uses the square of the "
    "estimated q, the retry the true q times a fresh estimate. The statement is the difference per rollout. On the "
    "reading that masses are functions of the true solve rate, as the paper writes them, it would hold for all p: the "
    "limit of large B (fade:app-9-large-batch).",
    severity=COSMETIC,
    met="partly: exact only at p = 1/2, and the gap falls as 1/B",
    statement=lambda B, p: 0,
    condition=Amended(
        "p = 1/2; else only as B tends to infinity: the retry has (B - 1)/B^2 p q (q - p) more per rollout",
        lambda B, p: Fraction(B - 1, B**2) * p * (1 - p) * (1 - 2 * p),
    ),
    planted={"twice the correction": lambda B, p: 2 * Fraction(B - 1, B**2) * p * (1 - p) * (1 - 2 * p)},
)(resampled_less_weighted([2, 3, 8]))


@claim(
    "fade:app-9-large-batch",
    where="Section 9.2",
    says="For large batches a retry reached with probability q^(alpha - 1) has the mass of Power-alpha, p q^alpha "
    "per rollout.",
    formula=r"m_S=m_F=pq^\alpha",
    refuted_by="an alpha and p at which the mass per rollout of round alpha, or of Power-alpha, does not tend to the "
    "stated one",
    reading="The paper says 'exactly', and names no limit (fade:app-9-retry-exact); the limit is ours. Integer alpha; "
    "the prompt reaches round alpha after alpha - 1 single failures. Both masses at their limit.",
    inferred=True,
    statement=power_weight,
    planted={
        "q^(alpha - 1)": lambda p, alpha: power_weight(p, alpha - 1),
        "p^alpha q": lambda p, alpha: p**alpha * (1 - p),
    },
)
def large_batch(statement):
    """Masses per rollout over all groups of 8 to 64: reach times GRPO's, and Power-alpha's, against the limit."""

    def error(step, p, alpha):
        size = int(1 / step)
        limit = statement(mpf(p), alpha)
        retried = (1 - mpf(p)) ** (alpha - 1) * success_mass(p, size, 1) / size
        weighted = success_mass(p, size, alpha) / size
        return abs(retried - limit) + abs(weighted - limit)

    points = grid(p=[0.25, 0.75], alpha=[2, 3])
    yield from vanishes(error, points, order=0.9, steps=("0.03125", "0.015625"), method="enumerated")
