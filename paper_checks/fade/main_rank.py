"""Section 4.2 and 6: the rank-1 part of an update, as far as the main text goes."""

from fractions import Fraction
from itertools import product

from paper_checks.claim import Amended, claim
from paper_checks.evidence import Disagreement, equals, grid, satisfies

SHARED = (Fraction(3, 5), Fraction(4, 5), Fraction(0))  # u_1, a unit vector
SAMPLES = [
    # A_i, v_i, h_i
    (Fraction(1, 2), (Fraction(2, 3), Fraction(-2, 3)), (Fraction(1), Fraction(2), Fraction(-1))),
    (Fraction(-1, 3), (Fraction(-1, 4), Fraction(1, 4)), (Fraction(0), Fraction(5), Fraction(2))),
    (Fraction(1), (Fraction(-1, 2), Fraction(1, 2)), (Fraction(3), Fraction(-1), Fraction(1))),
]


def along(h):
    """h . u_1."""
    return sum(x * y for x, y in zip(h, SHARED, strict=True))


def outer(v, h):
    """The entries of v h^T, row by row."""
    return tuple(a * b for a, b in product(v, h))


def added(matrices):
    """The sum of matrices given by their entries."""
    return tuple(sum(entries) for entries in zip(*matrices, strict=True))


def split(count, residual=True):
    """Equation 8's right-hand side: (sum A alpha v) u_1^T, and the sum of A v h_perp^T."""
    samples = SAMPLES[:count]
    shared = added(tuple(a * along(h) * entry for entry in v) for a, v, h in samples)
    rests = [
        outer([a * entry for entry in v], [x - along(h) * u for x, u in zip(h, SHARED, strict=True)])
        for a, v, h in samples
    ]
    return added([outer(shared, SHARED), *(rests if residual else [])])


@claim(
    "fade:eq-8",
    where="Section 4.2, Equation 8",
    says="A sum of A v h^T is its part along u_1, of rank 1, plus the sum of its residuals.",
    formula=r"\sum A_iv_i\otimes h_i = (\sum A_i\alpha_iv_i)\otimes u_1 + \sum A_iv_i\otimes h_i^\perp",
    refuted_by="vectors for which the two differ",
    reading="alpha_i = h_i . u_1 with a unit u_1 (the main text does not define alpha_i, and alpha is also the power). "
    "The change of the weights is read as one batch gradient, without its learning rate and over one step only.",
    identity=True,
    statement=split,
    planted={"without the residuals": lambda count: split(count, residual=False)},
)
def rank_one_split(statement):
    """Sum the outer products of one to three samples in fractions."""
    yield from equals(
        statement,
        [{"count": count} for count in (1, 2, 3)],
        enumerated=lambda count: added(outer([a * entry for entry in v], h) for a, v, h in SAMPLES[:count]),
    )


def residual_share(size, coupled):
    """Mean pairwise cosine of residuals +e and -e in equal number, and |M_2|^2 over |M_1|^2.

    All have A = 1 and alpha = 1. Where ``coupled``, v is x + y beside +e and x - y beside -e, x and y orthonormal;
    else x throughout.
    """
    signs = [1, -1] * (size // 2)
    cosines = [sign * other for index, sign in enumerate(signs) for other in signs[:index]]
    signal = (size, sum(signs) if coupled else 0)
    rest = (sum(signs), size if coupled else 0)
    share = Fraction(rest[0] ** 2 + rest[1] ** 2, signal[0] ** 2 + signal[1] ** 2)
    return Fraction(sum(cosines), len(cosines)), share


@claim(
    "fade:sec-4-2-uncorrelated",
    where="Section 4.2, condition 1",
    says="Where the residuals of the hidden states are uncorrelated across samples, their weighted sum cancels and the "
    "update becomes rank 1.",
    formula=r"\rho_\perp \to 0 \;\Rightarrow\; M_2 \to 0,\ r_1 \to 1",
    refuted_by="residuals of vanishing mean correlation whose weighted sum stays as large as the rank-1 part",
    reading="rho_perp is the mean pairwise cosine, M_2 is compared with M_1 as the batch grows. The residuals enter "
    "multiplied by A v: where the token error v goes with the residual (as it does when different states predict "
    "different tokens), nothing cancels. It holds if A v is independent of the residual and all are as long.",
    met="no: v = e_y - pi is a function of the hidden state, so that A v and the residual depend on one another",
    statement=lambda measured, size, coupled: measured[1] < Fraction(1, 100),
    condition=Amended(
        "the residuals are independent of A v, and equally long",
        lambda measured, size, coupled: None if coupled else measured[1] < Fraction(1, 100),
    ),
    planted={"never": lambda measured, size, coupled: measured[1] >= Fraction(1, 100)},
)
def uncorrelated_residuals(statement):
    """Residuals +e and -e in equal number, of mean cosine -1/(N-1), with errors that go with them or do not."""

    def measured(size, coupled):
        correlation, share = residual_share(size, coupled)
        if abs(correlation) > Fraction(1, 100):
            raise Disagreement("the residuals are correlated")
        return correlation, share

    yield from satisfies(
        statement,
        [{"size": 400, "coupled": coupled} for coupled in (False, True)],
        measured,
        names=("mean cosine", "|M_2|^2 / |M_1|^2"),
    )


@claim(
    "fade:sec-6-moalla",
    where="Section 6, 'correlating with our observations for delta > 1'",
    says="The low-rank updates of high-entropy runs are those that the paper finds for delta > 1.",
    refuted_by="a delta above 1 whose update is not failure-biased",
    reading="Section 4.2 finds high entropy and rank-1 updates together in failure-biased runs, m_F > m_S. With the "
    "paper's own masses these have delta < 1; delta > 1 is its case of collapsed entropy.",
    statement=lambda excess, delta, successes: (excess > 0) == (delta > 1),
    slip=Amended("delta < 1", lambda excess, delta, successes: (excess > 0) == (delta < 1)),
    planted={"any delta but 1": lambda excess, delta, successes: (excess > 0) == (delta != 1)},
)
def failure_biased(statement):
    """The excess m_F - m_S of AsymGRPO, r - mean with failures divided by delta, in all mixed groups of eight."""

    def excess(delta, successes):
        p = Fraction(successes, 8)
        return (1 - p) * p / delta - p * (1 - p)

    yield from satisfies(statement, grid(delta=[Fraction(n, 4) for n in range(1, 9)], successes=range(1, 8)), excess)
