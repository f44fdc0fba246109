"""Figure 10: what the pseudo-code does beside what the text says, by differentiating its loss."""

from fractions import Fraction as F

from paper_checks.casp.candidates import RANKED, numerical_gradient, smoothed_target
from paper_checks.casp.single_updates import old
from paper_checks.casp.smoothing import times_ratio
from paper_checks.claim import Amended, claim
from paper_checks.evidence import equals, grid

ALPHA, TOP, LAMBDA = F(1, 100), 2, F(11, 10)


@claim(
    "casp:figure-10-k",
    where="Appendix E.3, Figure 10; Table 4",
    says="The pseudo-code of CaSP puts 1 - alpha on the sampled token's ratio and alpha / K on that of each of the top "
    "N candidates.",
    refuted_by="a K at which the weights on the sampled token and the candidates do not sum to 1",
    reading="K is the sampling budget from the abstract on; here and in Table 4 it stands for N (k in its caption). "
    "The paper's earlier version (SimKO) called the candidates top-K, and there the pseudo-code is Eq. 4. Anyone who "
    "passes one K to both gets alpha N/K of smoothing.",
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


def pseudo_code(p, y, advantage, gate, *, detach=True, divisor=TOP):
    """Figure 10 line by line, as a function of the current probabilities: advantage times ratio.

    What ``.detach()`` holds is taken at p; the sampling policy is ``old(p)``.
    """
    before, w = old(p), int(gate)
    held = [(p[y] / before[y]) / (p[v] / before[v]) if detach else 1 for v in range(TOP)]

    def objective(current, log):
        ratio = current[y] / before[y]
        topn_ratio = sum(held[v] * current[v] / before[v] for v in range(TOP))
        if advantage > 0:
            ratio = (1 - ALPHA * w) * ratio + ALPHA * w / divisor * topn_ratio
        if advantage < 0 and y == 0 and w:
            ratio *= LAMBDA
        return advantage * ratio

    return objective


def by_equations(p, y, advantage, gate):
    """The gradient by Eqs. 1, 4 and 5: A gamma (target - p), with lambda on a failure of rank 1."""
    target = smoothed_target(p, y, ALPHA if gate and advantage > 0 else F(0), TOP)
    strength = LAMBDA if gate and advantage < 0 and y == 0 else 1
    return times_ratio(p, y, [strength * advantage * (t - q) for t, q in zip(target, p, strict=True)])


@claim(
    "casp:figure-10-update",
    where="Appendix E.3, Figure 10, steps 2 and 3",
    says="The pseudo-code's loss has the gradient of Eqs. 4 and 5: smoothed for a success, lambda times for a failure "
    "of rank 1, plain where the gate is shut.",
    refuted_by="an advantage, token and gate at which the gradient of the pseudo-code's loss is another",
    reading="K read as N (casp:figure-10-k). Off policy, by differentiating the code through the softmax with what is "
    "detached held; before the clip. The gate's percentile has no axis and is passed tau, the threshold, where the "
    "level q belongs; it is read as the text has it, within the response.",
    statement=pseudo_code,
    planted={
        "no gate": lambda p, y, advantage, gate: pseudo_code(p, y, advantage, True),
        "penalty on all": lambda p, y, advantage, gate: (
            lambda current, log: (LAMBDA if gate and advantage < 0 else 1) * advantage * current[y] / old(p)[y]
        ),
        "no detach": lambda p, y, advantage, gate: pseudo_code(p, y, advantage, gate, detach=False),
        "a sum for the mean": lambda p, y, advantage, gate: pseudo_code(p, y, advantage, gate, divisor=1),
    },
)
def pseudo_code_update(statement):
    """Differentiate the code's objective numerically, and put the equations' gradient beside it."""
    yield from equals(
        lambda p, y, advantage, gate: numerical_gradient(statement(p, y, advantage, gate), p),
        grid(
            lambda p, y, advantage, gate: y < len(p),
            gate=(True, False),
            advantage=(1, -1, 0),
            p=RANKED[:3],
            y=range(3),
        ),
        enumerated=by_equations,
    )
