"""Printed numbers: Figure 8's table, the set-up of Appendix 11 and the sizes of the benchmarks."""

from typing import NamedTuple

from mpmath import mpf

from paper_checks.claim import COSMETIC, Amended, claim, undecided
from paper_checks.evidence import Printed, arithmetic, equals, grid, satisfies


class Run(NamedTuple):
    """A row of Figure 8's table: target entropy, step, and in per cent except for the ratio, as printed."""

    target: float
    step: int
    head_share: float
    ratio: float
    rank_one: float
    inner: float


RUNS = (
    Run(0.5, 10_000, 6.1, 4.10, 38.7, 3.32),
    Run(0.5, 33_000, 6.3, 3.84, 54.4, 3.32),
    Run(1.0, 10_000, 13.2, 3.51, 55.9, 3.07),
    Run(1.0, 40_000, 66.9, 5.34, 88.2, 1.17),
    Run(1.3, 10_000, 23.9, 3.25, 68.3, 2.69),
    Run(1.3, 30_000, 72.7, 5.77, 91.2, 0.96),
)
# Ranges printed for static failure-biased runs.
STATIC_RATIO, STATIC_RANK_ONE = (6.96, 8.51), (78.0, 96.0)
# The least rank-1 fraction printed for sign-balanced runs.
BALANCED_RANK_ONE = 61.0


@claim(
    "fade:fig-8-shares",
    where="Section 5, Figure 8, right: columns 'OH L2' and 'Inner'; Section 15.1 (28 layers)",
    says="The share of the output head and 28 times the share of an inner layer leave 0 to 1 % for the rest of the "
    "update.",
    refuted_by="a row in which the shares add up to more than 100 % or to less than 99 %",
    reading="'Inner' is read as the mean share of one of the 28 layers. That all rows add up to 99.1 to 99.8 % "
    "supports it. The shares then are of a quantity that adds up, squared norms or a sum of norms; the text has '|W| "
    "to 67 %' for the norm itself.",
    inferred=True,
    caveat="What the columns share out is not said; the sentence is our reading of them.",
    statement=28,
    planted={"48 layers": 48, "one layer": 1},
)
def shares(statement):
    """Add up each row, with the rounding of its two numbers."""
    for_rounding = 0.05 + statement * 0.005
    yield from arithmetic(
        Printed(f"H* = {run.target}, step {run.step}", 99.5, run.head_share + statement * run.inner, 0.5 + for_rounding)
        for run in RUNS
    )


@claim(
    "fade:fig-8-ratio-and-share",
    where="Section 5, Figure 8, right: columns 's1/s2' and 'rank-1%'; Section 15.1, r1",
    says="The rank-1 fraction is possible with its ratio of singular values: at most x^2 / (1 + x^2) for s1/s2 = x.",
    formula=r"r_1\le\frac{x^2}{1+x^2}",
    refuted_by="a row whose rank-1 fraction is above the bound",
    reading="r1 = s1^2 / sum s^2, as defined. Were it the share s1 / sum s, the bound would be x / (1 + x), and the "
    "last rows of H* = 1.0 and 1.3 would break it.",
    inferred=True,
    statement=lambda fraction, bound: fraction <= bound,
    planted={"over half of the bound": lambda fraction, bound: fraction > bound / 2},
)
def ratio_and_share(statement):
    """Compare each row with the share of an update of two singular values."""
    yield from satisfies(
        lambda bound, run: statement(RUNS[run].rank_one / 100, bound),
        grid(run=list(range(len(RUNS)))),
        lambda run: 1 / (1 + RUNS[run].ratio ** -2),
        method="arithmetic",
    )


@claim(
    "fade:fig-8-continuous",
    where="Section 5; Figure 8, caption: 'H* continuously controls the sign-balanced-to-failure-biased transition'",
    says="The target entropy continuously controls the transition from sign-balanced to failure-biased updates.",
    refuted_by="rows of the three targets in which either measure falls as the target rises",
    reading="Tested so: the higher the target entropy, the closer to rank 1, by both measures of the table. The text "
    "compares the last rows printed, of 33k, 40k and 30k steps: there both rise. The one step printed for all three "
    "targets is 10k: there s1/s2 falls, 4.10, 3.51, 3.25, while the rank-1 fraction rises, and the two measures "
    "disagree. On the reading that only the last rows are meant, it would hold.",
    met="yes: the text compares the last rows; they are of different steps, 33k, 40k and 30k",
    statement=lambda measures, rows, measure: measures[0] < measures[1] < measures[2],
    condition=Amended(
        "the last rows printed, at different steps; at 10k steps by the rank-1 fraction only",
        lambda measures, rows, measure: (
            measures[0] < measures[1] < measures[2] if rows == "last" or measure == "rank_one" else None
        ),
    ),
    planted={"falls": lambda measures, rows, measure: measures[0] > measures[1] > measures[2]},
)
def continuous(statement):
    """Order the rows of the three targets, at step 10k and at the last step."""
    chosen = {
        "10k": [run for run in RUNS if run.step == 10_000],
        "last": [run for run in RUNS if run.step > 10_000],
    }
    yield from satisfies(
        statement,
        grid(rows=list(chosen), measure=["ratio", "rank_one"]),
        lambda rows, measure: tuple(getattr(run, measure) for run in sorted(chosen[rows])),
        method="arithmetic",
        names="measure of each target",
    )


@claim(
    "fade:fig-8-reproduces",
    where="Section 5: H* = 1.3 'reproduces the rank-1 collapse seen in static failure-biased methods'",
    says="H* = 1.3 reproduces the rank-1 collapse of static failure-biased methods: s1/s2 > 5, rank-1 fraction 91 %.",
    refuted_by="a last row with s1/s2 of 5 or less, or a rank-1 fraction outside the printed range of those methods",
    reading="By the criterion of the same sentence, s1/s2 > 5, and a rank-1 fraction in the printed 78 to 96 %.",
    caveat="s1/s2 = 5.77 is below the 6.96 to 8.51 printed for those methods, and H* = 1.0 meets the criterion too "
    "(fade:sec-5-target-sweep).",
    statement=lambda ratio, fraction: ratio > 5 and STATIC_RANK_ONE[0] <= fraction <= STATIC_RANK_ONE[1],
    planted={
        "as sharp as theirs": lambda ratio, fraction: ratio >= STATIC_RATIO[0],
        "full rank": lambda ratio, fraction: fraction < BALANCED_RANK_ONE,
    },
)
def reproduces(statement):
    """Look up the last row."""
    yield from satisfies(
        lambda measures, row: statement(*measures),
        [{"row": len(RUNS) - 1}],
        lambda row: (RUNS[row].ratio, RUNS[row].rank_one),
        method="arithmetic",
    )


@claim(
    "fade:sec-5-full-rank",
    where="Section 5, last paragraph: H* = 0.5 keeps the update full-rank",
    says="H* = 0.5 keeps the update of the output head full-rank.",
    refuted_by="a row of H* = 0.5 whose rank-1 fraction is that of sign-balanced runs or more",
    reading="By the measure of the table: the leading direction has less of the energy than in sign-balanced runs, "
    "38.7 % at step 10k and 54.4 % at 33k against 61 to 62 %; failure-biased ones have 78 to 96 %. Taken literally, "
    "any noisy update has full rank.",
    caveat="One direction has 54.4 % of the energy at the last row: as much as in an update of 1.84 equal directions, "
    "of 3584.",
    statement=lambda share, step, against: share < against if against == BALANCED_RANK_ONE else None,
    planted={
        "no direction has half": lambda share, step, against: share < against,
        "as collapsed as failure-biased runs": lambda share, step, against: share > STATIC_RANK_ONE[0],
    },
)
def full_rank(statement):
    """Compare the rank-1 fractions of H* = 0.5 with one half and with that of sign-balanced runs."""
    rows = {run.step: run.rank_one for run in RUNS if run.target == 0.5}
    yield from satisfies(
        statement,
        grid(against=[50.0, BALANCED_RANK_ONE], step=list(rows)),
        lambda against, step: rows[step],
        method="arithmetic",
    )


@claim(
    "fade:fig-8-quoted",
    where="Section 5, last paragraph",
    says="The text quotes the table's last rows: 67 % for the head's share at H* = 1.0, a rank-1 fraction of 91 % at "
    "H* = 1.3.",
    refuted_by="a quoted number that does not round from the table's",
    reading="Last rows of each target. '|W| grows to 67 %' is the head's share of the norm, not a norm.",
    statement=(67, 91),
    planted={"the other target": (73, 88)},
)
def quoted(statement):
    """Compare with the table."""
    middle, last = RUNS[3], RUNS[5]
    yield from arithmetic(
        [
            Printed("head's share", statement[0], middle.head_share, 0.5),
            Printed("rank-1 %", statement[1], last.rank_one, 0.5),
        ]
    )


@claim(
    "fade:table-6-problems",
    where="Section 11.2, Table 6, caption",
    says="279 easy, 330 medium and 270 hard problems make the 879 of LiveCodeBench v5.",
    refuted_by="another sum",
    reading="No other reading.",
    statement=879,
    planted={"880": 880},
)
def problems(statement):
    """Add up."""
    yield from arithmetic([Printed("problems", statement, 279 + 330 + 270, 0)])


@claim(
    "fade:table-7-balanced",
    where="Section 11.3; Table 7",
    says="All sign-balanced methods have the ratio rho(p) = p / (1 - p): 0.43 at p = 0.3 and 1 at p = 0.5.",
    formula=r"\rho(p)=\frac{m_Sp}{m_Fq}=\frac{p}{1-p}",
    refuted_by="a balanced weight with another ratio",
    reading="rho as defined, at the solve rates that Section 11.3 gives for mid-training; Section 3 gives the same "
    "two, 0.3 and 0.5, for the start. The table's body is not in the stored text.",
    caveat="It is not the ratio of advantages, which is its inverse: fade:sec-4-1-advantage-ratio.",
    identity=True,
    statement=lambda p: p / (1 - p),
    planted={"inverse": lambda p: (1 - p) / p},
)
def balanced(statement):
    """Masses from the advantages of three balanced weights: success advantage times p, failure advantage times q."""
    advantages = {
        "mean GRPO": lambda p: (1 - p, p),
        "MaxRL": lambda p: ((1 - p) / p, mpf(1)),
        "Power 2": lambda p: ((1 - p) ** 2, p * (1 - p)),
    }

    def ratio(weight, p):
        success, failure = advantages[weight](p)
        return (success * p) * p / ((failure * (1 - p)) * (1 - p))

    points = grid(weight=list(advantages), p=[mpf("0.3"), mpf("0.5")])
    yield from equals(lambda weight, p: statement(p), points, enumerated=ratio)


@claim(
    "fade:app-11-clip",
    where="Section 11.1, after Eq. 20; Algorithms 1 and 2 (epsilon = 0.2)",
    says="The algorithms' one clip epsilon = 0.2 is the one that the runs use.",
    formula=r"\varepsilon=0.2;\quad\varepsilon_{\mathrm{low}}=0.2,\ \varepsilon_{\mathrm{high}}=0.25",
    refuted_by="a model whose lower or upper clip is printed differently",
    reading="The paper does not say so: Algorithms 1 and 2 are stated for both models, and CWM 32B is run with 0.25 "
    "above.",
    severity=COSMETIC,
    met="partly: at 7B; 32B runs with .25 above",
    inferred=True,
    statement=lambda model: 0.2,
    condition=Amended("Qwen 2.5 7B", lambda model: 0.2 if model == "7B" else None),
    planted={"0.25": lambda model: 0.25 if model == "7B" else None},
)
def clip(statement):
    """Compare with the clips printed for each model."""
    used = {"7B": (0.2, 0.2), "32B": (0.2, 0.25)}
    yield from arithmetic(
        Printed(f"{model}, {side}", statement(model), value, 0)
        for model, values in used.items()
        if statement(model) is not None
        for side, value in zip(("low", "high"), values, strict=True)
    )


undecided(
    "fade:tables-3-to-6",
    where="Section 4.3, Tables 3 and 4; Figure 1 and Section 5",
    says="Power-2 gives 5 % more pass@k than GRPO at 7B, and FADE more at every k than GRPO and the best "
    "static weights.",
    needs="the bodies of Tables 3 to 6, which the stored text lacks, and for more than arithmetic the authors' runs",
    reading="An empirical statement. Captions are in the stored text, rows are not.",
)

undecided(
    "fade:table-12-alignment",
    where="Section 15.3, Table 12",
    says="The output head's direction of GRPO is fixed by step 1,200, those of inner layers not before step 6,000.",
    needs="the authors' checkpoints, and the body of Table 12, which the stored text lacks",
    reading="An empirical statement. Section 15.2 has the alignment of symmetric methods 'lower', there of "
    "successive steps.",
)
