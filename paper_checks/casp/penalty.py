"""Section 4.2, Equation 5: the stronger penalty on the rank-1 candidate, and what is left of the squeeze."""

from fractions import Fraction as F

from paper_checks.casp.candidates import RANKED, SAMPLED, average, entropy_slope, mass_change, penalty
from paper_checks.claim import Amended, claim
from paper_checks.evidence import equals, grid, satisfies
from paper_checks.simulated import estimate, simulated_step
from simlab.surrogates import surrogate

LAMBDA = F(11, 10)
CLIP = F(1, 5)


def penalised(p, y, strength):
    """The update of a negative sample under Eq. 5."""
    return [(strength if y == 0 else 1) * entry for entry in penalty(p, y)]


def expected_penalty(p, strength):
    """Its expectation over the sampled token, every candidate's rollouts failing equally often."""
    return [average(p, column) for column in zip(*(penalised(p, y, strength) for y in range(len(p))), strict=True)]


DOUBLE = surrogate("casp", candidates=1, quantile=0.0, top_penalty=2.0)


def sampled_penalty(p, strength):
    """The mean logit change by the simulator's CaSP on one failure, lambda 2, gate open."""
    steps = simulated_step(p, (False,) * len(p), 1, "nsr", surrogate=DOUBLE)
    return tuple(estimate(steps.logit_change[:, v]) for v in range(len(p)))


@claim(
    "casp:eq-5",
    where="Section 4.2, Eq. 5",
    says="With lambda > 1 negative updates flatten: on average rank 1 falls, every other candidate gains, and the "
    "entropy rises.",
    formula=r"\gamma^{-}=\lambda_{\mathrm{top1}}\gamma\ \text{if } y=v^{(1)},\quad\gamma\ \text{otherwise}",
    refuted_by="a policy at which the expected first-order change lowers another candidate, or the entropy",
    reading="Expected over the sampled token, candidates alike in failure, where plain updates expect no change; what "
    "is left is -(lambda - 1) p_1 (e_1 - p). A single sample below rank 1 still sharpens (casp:eq-5-squeeze).",
    statement=lambda effect, p, strength: (
        effect[0][0] < 0 and all(entry > 0 for entry in effect[0][1:]) and effect[1] > 0
    ),
    planted={
        "sharpens": lambda effect, p, strength: effect[1] < 0,
        "rank 2 falls too": lambda effect, p, strength: effect[0][1] < 0,
    },
)
def flattens(statement):
    """The exact expected change of the probabilities, and that of the entropy."""
    yield from satisfies(
        statement,
        grid(p=RANKED, strength=[LAMBDA, F(2)]),
        lambda p, strength: (
            mass_change(p, expected_penalty(p, strength)),
            entropy_slope(p, expected_penalty(p, strength)),
        ),
    )


@claim(
    "casp:eq-5-expected",
    where="Section 4.2, Eq. 5, with Lemma 2",
    says="The extra penalty is (lambda - 1) times the rank-1 penalty, as often as rank 1 is drawn; it raises the other "
    "logits in proportion to p_v.",
    refuted_by="a policy at which the expected logit change is not (lambda - 1) p_1 (p - e_1)",
    reading="Candidates alike in failure. The raise is a squeeze of its own: rank 2 gains most. At lambda 1.1 and p_1 "
    ".9 rank 1's logit falls by .009 for each failure of unit advantage.",
    statement=lambda p, strength: tuple((strength - 1) * p[0] * entry for entry in penalty(p, 0)),
    planted={"not weighed by p_1": lambda p, strength: tuple((strength - 1) * entry for entry in penalty(p, 0))},
)
def extra_penalty(statement):
    """Sum over the sampled token, and the simulator's own CaSP step."""
    yield from equals(
        statement,
        grid(p=RANKED, strength=[LAMBDA, F(2)]),
        enumerated=lambda p, strength: tuple(expected_penalty(p, strength)),
        sampled=sampled_penalty,
        sampled_points=[{"p": RANKED[4], "strength": F(2)}],
    )


@claim(
    "casp:eq-5-squeeze",
    where="Section 4.2, end; Figure 4(b); Section 4.3, Discussion",
    says="Eq. 5 avoids the squeeze effect: penalising a token below rank 1 no longer raises the rank-1 probability.",
    refuted_by="a policy and a token below rank 1 whose CaSP penalty raises the rank-1 probability",
    reading="'Avoiding the squeeze effect on lower-ranked candidates', 'prevents the squeeze effect from pushing mass "
    "back'. Such a sample's ratio is the printed gamma, so its squeeze is GRPO's. On the reading that the squeeze is "
    "only not amplified, or is outweighed on average (casp:eq-5), it would hold.",
    statement=lambda pair, p, y: pair[0] <= 0,
    correction=Amended(
        "each such sample squeezes exactly as under GRPO",
        lambda pair, p, y: pair[0] == pair[1] > 0,
    ),
    planted={"less than under GRPO": lambda pair, p, y: pair[0] < pair[1]},
)
def squeeze_stays(statement):
    """Rank 1's first-order change by a sample below it, under CaSP and under GRPO."""
    yield from satisfies(
        statement,
        [point for point in SAMPLED if point["y"] > 0],
        lambda p, y: (mass_change(p, penalised(p, y, LAMBDA))[0], mass_change(p, penalty(p, y))[0]),
    )


def clipped_slope(ratio, strength):
    """The derivative in gamma of min(lambda gamma A, clip(lambda gamma) A) at A = -1."""

    def objective(value):
        scaled = strength * value
        return min(-scaled, -min(max(scaled, 1 - CLIP), 1 + CLIP))

    step = F(1, 10**6)  # the objective is linear but for its kinks
    return (objective(ratio + step) - objective(ratio - step)) / (2 * step)


@claim(
    "casp:eq-5-clip",
    where="Section 4.2, Eq. 5; Figure 10",
    says="A negative sample of rank 1 is penalised lambda times as strongly as by GRPO.",
    refuted_by="a ratio at which the clipped objective's slope under Eq. 5 is not lambda times GRPO's",
    reading="Eq. 5 and the pseudo-code put lambda into the ratio, before the clip (1 +- 0.2). From (1 - .2)/lambda = "
    ".727 to .8 GRPO has stopped and CaSP has not: lambda also widens the trust region. On the reading that lambda "
    "multiplies the advantage, it would hold everywhere. On policy (ratio 1) it holds.",
    statement=lambda ratio, strength: strength * clipped_slope(ratio, 1),
    condition=Amended(
        "the ratio is above 1 - epsilon or below (1 - epsilon)/lambda",
        lambda ratio, strength: (
            strength * clipped_slope(ratio, 1) if not (1 - CLIP) / strength <= ratio <= 1 - CLIP else None
        ),
    ),
    planted={"as strongly": lambda ratio, strength: clipped_slope(ratio, 1)},
)
def penalty_in_the_clip(statement):
    """Differences of the clipped objective, exactly."""
    yield from equals(
        statement,
        grid(ratio=[F(1), F(9, 10), F(3, 4), F(7, 10), F(3, 2)], strength=[LAMBDA, F(21, 20)]),
        enumerated=clipped_slope,
    )


@claim(
    "casp:section-5.4-alpha-0",
    where="Section 5.4; Table 4",
    says="CaSP with alpha = 0 is GRPO.",
    refuted_by="a policy and a negative sample that the two move differently",
    reading="'With alpha = 0 representing the performance of GRPO'; in the ablation of alpha, lambda stays at 1.1. "
    "The paper has both results: GRPO 41.7 / 76.1, CaSP without gamma+, which is alpha = 0, 42.8 / 79.9. On the "
    "reading that alpha = 0 switches CaSP off as a whole, it would hold.",
    statement=lambda p, y, strength: tuple(penalty(p, y)),
    condition=Amended("lambda = 1", lambda p, y, strength: tuple(penalty(p, y)) if strength == 1 else None),
    planted={"no penalty": lambda p, y, strength: (0,) * len(p)},
)
def without_smoothing(statement):
    """A negative sample's update, which alpha does not enter."""
    yield from equals(
        statement,
        [{**point, "strength": strength} for strength in (LAMBDA, 1) for point in SAMPLED],
        enumerated=lambda p, y, strength: tuple(penalised(p, y, strength)),
    )


@claim(
    "casp:section-4.2-uniform",
    where="Section 4.2",
    says="Amplifying all negative samples alike sharpens the distribution by the squeeze effect.",
    refuted_by="a policy at which the expected entropy does not fall when all negative samples weigh more",
    reading="Expected over the sampled token, candidates alike in failure. Penalties of rank 1 are amplified with the "
    "rest and balance the squeeze exactly, E[e_y - p] = 0. On single samples below rank 1 see "
    "casp:section-4.2-lower-ranks.",
    statement=lambda slope, p: slope < 0,
    correction=Amended("on average it leaves the distribution as it is, to first order", lambda slope, p: slope == 0),
    planted={"flattens": lambda slope, p: slope > 0},
)
def uniform_amplification(statement):
    """The expected entropy change by penalties twice as strong on every token."""
    yield from satisfies(
        statement, grid(p=RANKED), lambda p: entropy_slope(p, [2 * entry for entry in expected_penalty(p, 1)])
    )
