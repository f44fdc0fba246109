"""Section 4.2, Equation 5: the stronger penalty on the rank-1 candidate, and what is left of the squeeze."""

from fractions import Fraction as F

from paper_checks.casp.candidates import RANKED, SAMPLED, average, entropy_slope, mass_change, penalty, score
from paper_checks.casp.expected_updates import rates
from paper_checks.claim import Amended, claim
from paper_checks.evidence import equals, grid, satisfies
from paper_checks.simulated import estimate, simulated_step

LAMBDA = F(11, 10)
CLIP = F(1, 5)


def penalised(p, y, strength):
    """The update of a negative sample under Eq. 5."""
    return [(strength if y == 0 else 1) * entry for entry in penalty(p, y)]


def expected_penalty(p, strength):
    """Its expectation over the sampled token, every candidate's rollouts failing equally often."""
    return [average(p, column) for column in zip(*(penalised(p, y, strength) for y in range(len(p))), strict=True)]


DOUBLE = "casp(candidates=1,quantile=0,top_penalty=2)"


def sampled_penalty(p, strength):
    """The mean logit change by the simulator's CaSP on one failure, lambda 2, gate open."""
    steps = simulated_step(p, (False,) * len(p), 1, "nsr", surrogate=DOUBLE)
    return tuple(estimate(steps.logit_change[:, v]) for v in range(len(p)))


@claim(
    "casp:eq-5",
    where="Section 4.2, Eq. 5",
    says="What lambda > 1 adds to negative updates flattens: on average rank 1 falls, every other candidate gains, and "
    "the entropy rises.",
    formula=r"\gamma^{-}=\lambda_{\mathrm{top1}}\gamma\ \text{if } y=v^{(1)},\quad\gamma\ \text{otherwise}",
    refuted_by="a policy at which the expected first-order change lowers another candidate, or the entropy",
    reading="The paper says that Eq. 5 penalises overconfident errors strongly and avoids the squeeze on lower ranks; "
    "what it adds on average is ours. Expected over the sampled token, candidates alike in failure, where plain "
    "updates expect no change; what is left is -(lambda - 1) p_1 (e_1 - p). A single sample below rank 1 still raises "
    "rank 1; of candidates that fail unequally see casp:eq-5-squeeze.",
    inferred=True,
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
    identity=True,
    statement=lambda p, strength: tuple((strength - 1) * p[0] * entry for entry in penalty(p, 0)),
    planted={"not weighed by p_1": lambda p, strength: tuple((strength - 1) * entry for entry in penalty(p, 0))},
    inferred=True,
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
    says="The stronger penalty on rank 1 prevents the squeeze from pushing mass back to it.",
    refuted_by="failure rates at which the expected negative update under Eq. 5 does not lower the rank-1 probability",
    reading="Expected over the sampled token, v failing with rate f_v: Eq. 5 acts as if rank 1's rate were lambda f_1. "
    "Where another candidate fails more often than that, negative updates can still push mass to rank 1. On the "
    "reading that the stronger penalty adds no squeeze of its own it would hold; on the reading that a single sample "
    "below rank 1 no longer raises rank 1 it would fail, for its ratio is the plain gamma.",
    statement=lambda change, p, f: change < 0,
    condition=Amended(
        "lambda times the failure rate of rank 1 is larger than that of every other candidate",
        lambda change, p, f: change < 0 if LAMBDA * f[0] > max(f[1:]) else None,
    ),
    planted={"raises rank 1": lambda change, p, f: change > 0},
    met="unknown: the failure rates of candidates are not reported",
)
def squeeze_prevented(statement):
    """Sum over the sampled token, and derive by the score-function identity: dz_v = p_v (mean rate - rate_v)."""

    def by_identity(p, f):
        effective = (LAMBDA * f[0], *f[1:])
        return mass_change(p, [q * (average(p, effective) - rate) for q, rate in zip(p, effective, strict=True)])[0]

    yield from satisfies(
        statement,
        [{"p": p, "f": f} for p in RANKED for f in failure_rates(len(p))],
        lambda p, f: sum(p[y] * f[y] * mass_change(p, penalised(p, y, LAMBDA))[0] for y in range(len(p))),
        derived=by_identity,
    )


def failure_rates(size):
    """All alike, rank 1 failing most, least, and a little less often than the others (by less than lambda)."""
    return [*rates(size), (F(1, 2), *[F(27, 50)] * (size - 1))]


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
    says="A negative sample of rank 1 is penalised lambda times as strongly as by GRPO, at any ratio.",
    refuted_by="a ratio at which the clipped objective's slope under Eq. 5 is not lambda times GRPO's",
    reading="The paper calls lambda the strength of the penalty. Eq. 5 and the pseudo-code put lambda into the ratio, "
    "before the clip (1 +- 0.2). From (1 - .2)/lambda = .727 to .8 GRPO has stopped and CaSP has not: lambda also "
    "widens the trust region. On the reading that lambda multiplies the advantage, it would hold everywhere. On policy "
    "(ratio 1) it holds.",
    inferred=True,
    statement=lambda ratio, strength: strength * clipped_slope(ratio, 1),
    condition=Amended(
        "the ratio is above 1 - epsilon or below (1 - epsilon)/lambda",
        lambda ratio, strength: (
            strength * clipped_slope(ratio, 1) if not (1 - CLIP) / strength <= ratio <= 1 - CLIP else None
        ),
    ),
    planted={"as strongly": lambda ratio, strength: clipped_slope(ratio, 1)},
    met="partly: the first of four minibatches is on policy, where it is met; later ratios are not reported",
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
    says="The point alpha = 0 of the ablation, which is GRPO, differs from the other points in alpha alone.",
    refuted_by="a policy and a negative sample that GRPO and CaSP with alpha = 0 move differently",
    reading="'With alpha = 0 representing the performance of GRPO', which the paper says and does: 41.7 / 76.1. Who "
    "reads the curve as that of alpha alone is misled: the other points have lambda 1.1. CaSP without gamma+, alpha = "
    "0 with that lambda, has 42.8 / 79.9.",
    inferred=True,
    statement=lambda p, y, strength: tuple(penalty(p, y)),
    condition=Amended("lambda = 1", lambda p, y, strength: tuple(penalty(p, y)) if strength == 1 else None),
    planted={"no penalty": lambda p, y, strength: (0,) * len(p)},
    met="partly: the point alpha = 0 is GRPO, with lambda 1; the other points have lambda 1.1",
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
    says="Amplifying all negative samples alike also strengthens the penalties below rank 1, which together sharpen.",
    refuted_by="a policy at which the penalties below rank 1, together, lower p_1 or raise the entropy",
    reading="Expected over the sampled tokens below rank 1, candidates alike in failure: p_1 (e_1 - p). On the reading "
    "that uniform amplification as a whole sharpens, it would fail: the penalties of rank 1 are amplified with the "
    "rest and balance the squeeze exactly, E[e_y - p] = 0.",
    statement=lambda effect, p: effect[0] > 0 > effect[1],
    planted={"flatten": lambda effect, p: effect[1] > 0},
)
def uniform_amplification(statement):
    """The change of p_1 and of the entropy, sampled tokens summed and by the identity."""

    def effect(p, direction):
        return mass_change(p, direction)[0], entropy_slope(p, direction)

    def below(p):
        return [sum(p[y] * penalty(p, y)[v] for y in range(1, len(p))) for v in range(len(p))]

    yield from satisfies(
        statement,
        grid(p=RANKED),
        lambda p: effect(p, below(p)),
        derived=lambda p: effect(p, [p[0] * entry for entry in score(p, 0)]),
    )
