"""Figure 10: what the pseudo-code does beside what the text says."""

from fractions import Fraction as F

from paper_checks.casp.candidates import SAMPLED, smoothed_target
from paper_checks.claim import Amended, claim
from paper_checks.evidence import equals, grid

ALPHA, TOP, LAMBDA = F(1, 100), 2, F(11, 10)


@claim(
    "casp:figure-10-k",
    where="Figure 10; Table 4",
    says="The pseudo-code's divisor K is the K of the text, the sampling budget.",
    refuted_by="a K at which the weights on the sampled token and the candidates do not sum to 1",
    reading="K is the sampling budget from the abstract on, here and in Table 4 it stands for N (k in its caption). "
    "With N in its place the pseudo-code is Eq. 4. Anyone who passes one K to both gets alpha N/K of smoothing.",
    statement=lambda n, budget: budget,
    slip=Amended("alpha/N", lambda n, budget: n),
    planted={"no divisor": lambda n, budget: 1},
)
def divisor(statement):
    """Add up the weights under the stated divisor."""
    yield from equals(
        lambda n, budget: (1 - ALPHA) + n * ALPHA / statement(n, budget),
        grid(n=[3, 5], budget=[256, 1024]),
        enumerated=lambda n, budget: sum(smoothed_target((F(1, 8),) * 8, 0, ALPHA, n)),
    )


def pseudo_code(p, y, advantage, gate):
    """Figure 10 line by line, as the weight of each token's ratio."""
    w = int(gate)
    ratio = [F(int(v == y)) for v in range(len(p))]
    topn_ratio = [F(int(v < TOP)) for v in range(len(p))]
    if advantage > 0:
        ratio = [(1 - ALPHA * w) * own + ALPHA * w / TOP * top for own, top in zip(ratio, topn_ratio, strict=True)]
    if advantage < 0 and y == 0 and w:
        ratio = [LAMBDA * own for own in ratio]
    return tuple(ratio)


@claim(
    "casp:figure-10-update",
    where="Figure 10, steps 2 and 3",
    says="With its gate open the pseudo-code gives a success the weights of Eq. 4 and a failure of rank 1 lambda.",
    refuted_by="an advantage, token and gate at which the pseudo-code's weights differ from Eqs. 4 and 5",
    reading="K read as N; `ratio` and `topn_ratio` on policy. The gate's percentile has no axis and is passed tau, the "
    "threshold, where the level q belongs; it is read as the text has it, within the response.",
    statement=pseudo_code,
    planted={
        "no gate": lambda p, y, advantage, gate: pseudo_code(p, y, advantage, True),
        "penalty on all": lambda p, y, advantage, gate: pseudo_code(p, 0, advantage, gate),
    },
)
def pseudo_code_update(statement):
    """Each token's weight by the equations."""

    def by_equations(p, y, advantage, gate):
        plain = [F(int(v == y)) for v in range(len(p))]
        if not gate or advantage == 0:
            return tuple(plain)
        if advantage > 0:
            return tuple(smoothed_target(p, y, ALPHA, TOP))
        return tuple((LAMBDA if y == 0 else 1) * entry for entry in plain)

    yield from equals(
        statement,
        [
            {**point, "advantage": advantage, "gate": gate}
            for gate in (True, False)
            for advantage in (1, -1, 0)
            for point in SAMPLED[:8]
        ],
        enumerated=by_equations,
    )
