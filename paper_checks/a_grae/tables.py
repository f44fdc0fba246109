"""Sections 4.2-5.4 and Appendices A, C.2 and D.5: the text's claims about the printed tables, and pass@k (Eq. 37)."""

from fractions import Fraction
from math import comb

import numpy as np

from paper_checks.a_grae.printed import KS, MARKS_2, TABLE_2, TABLE_3, TABLE_4, TABLE_5, TABLE_6
from paper_checks.claim import CHANGES, CONDITIONS, Amended, claim
from paper_checks.evidence import Estimate, Printed, arithmetic, equals, grid, satisfies
from paper_checks.exact import binomial
from paper_checks.simulated import drawn, estimate

TABLES = {"Table 2": TABLE_2, "Table 3": TABLE_3, "Table 4": TABLE_4, "Table 5": TABLE_5, "Table 6": TABLE_6}
BENCHMARKS = tuple(TABLE_2)
FULL, SAMPLE_LEVEL, GROUP_LEVEL = (f"GRPO + A-GRAE ({variant})" for variant in ("full", "sample level", "group level"))
# Table 6 calls the two parts by other names.
DDAS, ASS = "GRPO + DDAS (sample level)", "GRPO + ASS (group level)"
SAME_RUNS = {FULL: "GRPO + A-GRAE", DDAS: SAMPLE_LEVEL, ASS: GROUP_LEVEL}


def gain(table, benchmark, method, other, column):
    """Points by which one method is ahead of another."""
    rows = TABLES[table][benchmark]
    return round(rows[method][column] - rows[other][column], 1)


def ahead(statement, **values):
    """A predicate on the gain of ``method`` over ``other``, at every benchmark and k unless they are given."""

    def points_ahead(table, benchmark, method, other, k):
        return gain(table, benchmark, method, other, KS.index(k))

    values = {"benchmark": BENCHMARKS, "k": KS} | values
    ordered = {name: values[name] for name in ("table", "benchmark", "method", "other", "k")}
    yield from satisfies(statement, grid(**ordered), points_ahead, method="arithmetic")


def better(points, **_):
    """Ahead."""
    return points > 0


def worse(points, **_):
    """Behind."""
    return points < 0


@claim(
    "a-grae:eq-37",
    where="Appendix C.2, Eq. 37",
    says="1 - C(n - c, k)/C(n, k), c the correct ones among n responses, is an unbiased estimate of pass@k.",
    formula=r"E [ 1 - \binom{n-c}{k} / \binom{n}{k} ]",
    refuted_by="n, k and a success probability at which its mean differs from 1 - (1 - p)^k",
    reading="n >= k, independent responses. n is not printed; the public evaluation scripts draw 256. On the reading "
    "that the 16 and 4 runs are n it is not defined for the larger k.",
    identity=True,
    statement=lambda n, k, p: 1 - (1 - p) ** k,
    planted={
        "n for k": lambda n, k, p: 1 - (1 - p) ** n,
        "k p": lambda n, k, p: k * p,
    },
)
def pass_at_k(statement):
    """The mean of the estimator over all counts of correct responses, and over drawn ones."""

    def expected(n, k, p):
        return sum(chance * (1 - Fraction(comb(n - c, k), comb(n, k))) for c, chance in enumerate(binomial(n, p)))

    def sampled(n, k, p) -> Estimate:
        correct = (drawn((p, 1 - p), n) == 0).sum(axis=1)
        return estimate(np.array([1 - comb(n - c, k) / comb(n, k) for c in range(n + 1)])[correct])

    yield from equals(
        statement,
        grid(lambda n, k, p: k <= n, n=[2, 4, 8], k=[1, 2, 4], p=[Fraction(1, 10), Fraction(1, 2)]),
        enumerated=expected,
        sampled=sampled,
        sampled_points=[{"n": 8, "k": 4, "p": Fraction(1, 2)}],
    )


# The run of the group-level part is printed in Tables 5 and 6.
BENT = {
    ("Table 2", "MATH", "Dr.GRPO + A-GRAE", 8),
    ("Table 2", "AIME 2025", "Dr.GRPO + A-GRAE", 64),
    ("Table 2", "AMC23", "Dr.GRPO + A-GRAE", 128),
    ("Table 4", "AMC23", "GRPO + A-GRAE", 64),
    ("Table 4", "AMC23", "DAPO + A-GRAE", 64),
    ("Table 5", "MATH", GROUP_LEVEL, 128),
    ("Table 6", "MATH", ASS, 128),
    ("Table 6", "AIME 2025", "Easy-Focused", 128),
}


@claim(
    "a-grae:tables-concave",
    where="Appendix C.2, Eq. 37, against Tables 2 and 4-6",
    says="The printed pass@k are values of Eq. 37, with one n for all k: each further sample adds no more than the one "
    "before.",
    inferred=True,
    refuted_by="a row whose mean slope in k rises by more than rounding can explain",
    reading="Eq. 37 is concave in k for every question, so any average over questions and runs is. Dr.GRPO + A-GRAE on "
    "AIME 2025 gains 3.1 points from k = 32 to 64 and 10.1 from 64 to 128. The public evaluation scripts draw n = 256 "
    "responses and compute every k from them; the paper prints no n. If each k was measured with responses of its own, "
    "noise could explain it.",
    severity=CONDITIONS,
    statement=lambda slopes, **_: slopes[1] <= slopes[0] + slopes[2],
    correction=Amended(
        "59 of the 66 different rows are; seven bend upwards, each at one k",
        lambda slopes, table, benchmark, method, k: (
            (slopes[1] > slopes[0] + slopes[2]) == ((table, benchmark, method, k) in BENT)
        ),
    ),
    planted={
        "each adds more": lambda slopes, **_: slopes[1] >= slopes[0],
        "all but the AIME 2025 rows": lambda slopes, benchmark, **_: (
            slopes[1] <= slopes[0] + slopes[2] if benchmark != "AIME 2025" else None
        ),
    },
)
def concave(statement):
    """Mean slopes before and after each k in every row, and the error that rounding to 0.1 can make in both."""

    def slopes(table, benchmark, method, k):
        index, row = KS.index(k), [Fraction(str(figure)) for figure in TABLES[table][benchmark][method]]
        widths = [KS[index] - KS[index - 1], KS[index + 1] - KS[index]]
        rises = [row[index] - row[index - 1], row[index + 1] - row[index]]
        return (
            *(rise / width for rise, width in zip(rises, widths, strict=True)),
            sum(Fraction(1, 10 * width) for width in widths),
        )

    points = [
        {"table": name, "benchmark": benchmark, "method": method, "k": k}
        for name in ("Table 2", "Table 4", "Table 5", "Table 6")
        for benchmark in BENCHMARKS
        for method in TABLES[name][benchmark]
        for k in KS[1:-1]
    ]
    yield from satisfies(
        statement, points, slopes, method="arithmetic", names=("slope before", "slope after", "error by rounding")
    )


RUNS = {"AIME 2025": (30, 16), "AMC23": (40, 16)}  # questions (Appendix C.1), runs averaged (Appendix C.2)
OFF_GRID = {
    ("Table 4", "AIME 2025", "GRPO + A-GRAE"),
    ("Table 4", "AIME 2025", "DAPO"),
    ("Table 6", "AIME 2025", "Hard-Focused"),
}


@claim(
    "a-grae:pass-256-counts",
    where="Appendix C.2 (16 runs for AIME 2025 and AMC23; Eq. 37), against Tables 2 and 4-6",
    says="All but three Pass@256 on AIME 2025 and AMC23 can be averages over 16 runs of whole numbers of questions.",
    refuted_by="other figures, or another number of them, that are no multiple of one question in one of 16 runs, up "
    "to rounding",
    reading="With n = k = 256 Eq. 37 is 0 or 1 for a question, so a mean over 16 runs of 30 questions is a multiple of "
    "1/480, over 40 questions of 1/640. 55 of the 58 figures are; AIME 2025 has 74.3, 73.6 and 50.3. That n is 256 is "
    "taken from the public evaluation scripts; the paper does not say it.",
    caveat="With more than 256 responses a question in one run, or another number of runs, other figures are "
    "possible: the paper does not print n.",
    inferred=True,
    statement=OFF_GRID,
    planted={
        "all": set(),
        "all of Table 4": {row for row in OFF_GRID if row[0] == "Table 6"},
        "all but the trained models' of Table 4": {row for row in OFF_GRID if row[0] == "Table 4"},
    },
)
def pass_256_counts(statement):
    """The nearest multiple of one question in one run, beside each printed figure."""

    def off_grid(tables):
        for table in tables:
            for benchmark, (questions, runs) in RUNS.items():
                for method, row in TABLES[table][benchmark].items():
                    counted = row[-1] * questions * runs / 100
                    if abs(row[-1] - 100 * round(counted) / (questions * runs)) > 0.05 + 1e-9:
                        yield table, benchmark, method

    yield from satisfies(
        lambda cells, **_: set(cells) == statement,
        [{"tables": ("Table 2", "Table 4", "Table 5", "Table 6")}],
        lambda tables: sorted(off_grid(tables)),
        method="arithmetic",
    )


def ranked(benchmark, k):
    """The methods with the largest and with the second-largest figure of Table 2 at a k."""
    figures = {method: row[KS.index(k)] for method, row in TABLE_2[benchmark].items()}
    levels = sorted(set(figures.values()), reverse=True)
    return tuple(frozenset(method for method in figures if figures[method] == level) for level in levels[:2])


def marked(benchmark, k):
    """The methods whose figure is bold, and those whose figure is underlined."""
    marks = {method: row[KS.index(k)] for method, row in MARKS_2[benchmark].items()}
    return tuple(frozenset(method for method, mark in marks.items() if mark == kind) for kind in "BU")


MISMARKED = {"MATH": (1, 2, 4, 64, 128, 256), "AIME 2025": (16, 32, 64, 256), "AMC23": (1, 2, 128)}


@claim(
    "a-grae:table-2-marks",
    where="Section 5.2, Table 2, caption",
    says="Bold figures of Table 2 are the best at their k, underlined ones the second-best.",
    refuted_by="a bold figure that is not the largest of its column, or an underlined one that is not the second",
    reading="Every printed mark; ties share a rank. 14 of 59 marks are on another figure. W-REINFORCE has no mark, "
    "though it is best twice (MATH at k = 128, a tie on AMC23 at k = 64) and second seven times.",
    caveat="The stored text is a conversion; its marks were not compared with the PDF.",
    statement=lambda counts, **_: counts == (0, 0),
    slip=Amended(
        "in 14 of the 27 columns they are; in the other 13 a mark is on another figure",
        lambda counts, benchmark, k: (counts != (0, 0)) == (k in MISMARKED[benchmark]),
    ),
    planted={
        "bold ones are": lambda counts, **_: counts[0] == 0,
        "underlined ones are": lambda counts, **_: counts[1] == 0,
    },
)
def table_2_marks(statement):
    """Count bold figures that are not the best of their column, and underlined ones that are not the second."""

    def wrong(benchmark, k):
        pairs = zip(marked(benchmark, k), ranked(benchmark, k), strict=True)
        return tuple(len(marks - level) for marks, level in pairs)

    yield from satisfies(
        statement,
        grid(benchmark=BENCHMARKS, k=KS),
        wrong,
        method="arithmetic",
        names=("bold figures that are not the best", "underlined ones that are not the second"),
    )


def with_figure(table, benchmark, method, column, value):
    """The table with one figure replaced."""
    row = list(table[benchmark][method])
    row[column] = value
    return table | {benchmark: table[benchmark] | {method: tuple(row)}}


@claim(
    "a-grae:tables-2-5-6",
    where="Section 5.2, Table 2; Appendices D.4 and D.5, Tables 5 and 6",
    says="A run that is in several tables has the same figures in each.",
    refuted_by="a run with two figures for one k",
    reading="No sentence says it. GRPO on AMC23 has a Pass@1 of 60.2 in Table 2 and 59.2 in Tables 5 and 6; all other "
    "figures agree. Two tables against one; on the reading that Table 2 is right, they have the slip. A-GRAE's gain is "
    "2.4 or 3.4.",
    inferred=True,
    caveat="The stored text is a conversion; it was not compared with the PDF.",
    statement=TABLE_2,
    slip=Amended("59.2 in Table 2", with_figure(TABLE_2, "AMC23", "GRPO", 0, 59.2)),
    planted={
        "another": with_figure(with_figure(TABLE_2, "AMC23", "GRPO", 0, 59.2), "MATH", "GRPO", 8, 95.1),
    },
)
def repeated_runs(statement):
    """Compare the figures of every run of Tables 5 and 6 with those of Table 2, and of the parts with one another."""
    known = {benchmark: dict(rows) for benchmark, rows in statement.items()}
    printed = []
    for name in ("Table 5", "Table 6"):
        for benchmark, rows in TABLES[name].items():
            for method, row in rows.items():
                other = known[benchmark].setdefault(SAME_RUNS.get(method, method), row)
                printed += [
                    Printed(f"{method}, {benchmark}, k = {k}, Table 2 or 5", before, figure, 0)
                    for k, before, figure in zip(KS, other, row, strict=True)
                ]
    yield from arithmetic(printed)


@claim(
    "a-grae:table-6-repeated-row",
    where="Appendix D.5, Table 6",
    says="The rows of Table 6 are figures of their own methods: no two are the same.",
    refuted_by="two methods with the same nine figures on a benchmark",
    reading="On AMC23 the Positive-Dominant row is GRPO's, all nine figures. On the reading that the two runs agree "
    "to 0.1 at nine values of k by chance it would hold; on the other benchmarks they are 0.6 to 6.7 points apart.",
    caveat="The stored text is a conversion; it was not compared with the PDF.",
    inferred=True,
    statement=lambda rows, **_: len(set(rows)) == len(rows),
    slip=Amended(
        "on AMC23, and only there, two rows are the same (Positive-Dominant and GRPO)",
        lambda rows, benchmark: len(rows) - len(set(rows)) == (benchmark == "AMC23"),
    ),
    planted={"all the same": lambda rows, **_: len(set(rows)) == 1},
)
def different_runs(statement):
    """Look for equal rows."""
    yield from satisfies(
        statement,
        grid(benchmark=BENCHMARKS),
        lambda benchmark: tuple(TABLE_6[benchmark].values()),
        method="arithmetic",
        names="rows of the methods",
    )


@claim(
    "a-grae:abstract-gains",
    where="Abstract; Section 5.3; Tables 2, 3 and 4",
    says="A-GRAE consistently improves GRPO, DAPO and Dr. GRPO across all settings.",
    refuted_by="a printed figure at which a method is better without A-GRAE",
    reading="Every printed k and benchmark. Point estimates, ties at 100.0 allowed (DeepSeek-R1-7B on AMC23, k = 256).",
    caveat="One figure a method: no seeds and no errors are printed, and many gains are below one point.",
    statement=lambda points, ceiling, **_: points > 0 or ceiling,
    planted={"by a point": lambda points, ceiling, **_: points >= 1 or ceiling},
)
def consistent_gains(statement):
    """All differences between a method with and without A-GRAE."""
    points = [
        {"table": name, "benchmark": benchmark, "method": method, "column": column}
        for name in ("Table 2", "Table 3", "Table 4")
        for benchmark, rows in TABLES[name].items()
        for method in ("GRPO", "DAPO", "Dr.GRPO")
        for column in range(len(rows[method]))
    ]

    def difference(table, benchmark, method, column):
        return gain(table, benchmark, f"{method} + A-GRAE", method, column)

    def judged(value, table, benchmark, method, column):
        return statement(value, ceiling=TABLES[table][benchmark][method][column] == 100)

    yield from satisfies(judged, points, difference, method="arithmetic")


@claim(
    "a-grae:sec-5.3-baselines",
    where="Section 5.3, 'in comparison with W-REINFORCE and GRPO-LEAD'; Table 2",
    says="In comparison with W-REINFORCE and GRPO-LEAD, A-GRAE realizes consistent gains in both Pass@1 and Pass@k.",
    refuted_by="a printed k at which either is level or ahead",
    reading="GRPO with A-GRAE; W-REINFORCE is ahead of it at 9 of 27 figures, by up to 1.3, and level at 5. On the "
    "reading that the best of the three variants is meant, W-REINFORCE is still ahead on AMC23 at k = 128, and level "
    "at k = 64.",
    severity=CHANGES,
    statement=better,
    correction=Amended(
        "it is ahead of both at Pass@1 and of GRPO-LEAD at every k, and never of W-REINFORCE at k = 256",
        lambda points, benchmark, other, k, **_: (
            points > 0 if k == 1 or other == "GRPO-LEAD" else points <= 0 if k == 256 else None
        ),
    ),
    planted={"behind": worse},
)
def baselines(statement):
    """All differences in Table 2."""
    yield from ahead(statement, table=["Table 2"], method=["GRPO + A-GRAE"], other=["W-REINFORCE", "GRPO-LEAD"])


@claim(
    "a-grae:sec-4.4-simultaneously",
    where="Section 4.4, of negative learning and of the focus on hard samples; Table 2",
    says="Methods that break the symmetry at one of the two levels fail to improve accuracy and diversity at once.",
    refuted_by="such a method of Table 2 with a larger Pass@1 and a larger Pass@256 than GRPO",
    reading="W-REINFORCE, the method of Zhu et al. whom the section names for negative learning: on every benchmark it "
    "is ahead of GRPO at every printed k, on MATH at Pass@1 by 0.1. GRPO-LEAD, for difficulty, raises Pass@1 and "
    "Pass@256 on AIME 2025 alone. Beside the base model W-REINFORCE loses on AMC23 at Pass@256, where GRPO + A-GRAE "
    "has the same 97.5.",
    caveat="One figure a method.",
    severity=CONDITIONS,
    statement=lambda gains, **_: min(gains) <= 0,
    correction=Amended(
        "W-REINFORCE improves both on all three benchmarks, GRPO-LEAD on AIME 2025",
        lambda gains, method, benchmark: (min(gains) > 0) == (method == "W-REINFORCE" or benchmark == "AIME 2025"),
    ),
    planted={
        "they lose both": lambda gains, **_: max(gains) < 0,
        "GRPO-LEAD improves both": lambda gains, method, benchmark: min(gains) > 0 if method == "GRPO-LEAD" else None,
    },
)
def simultaneously(statement):
    """The gains over GRPO at Pass@1 and at Pass@256."""
    yield from satisfies(
        statement,
        grid(method=["W-REINFORCE", "GRPO-LEAD"], benchmark=BENCHMARKS),
        lambda method, benchmark: tuple(gain("Table 2", benchmark, method, "GRPO", column) for column in (0, -1)),
        method="arithmetic",
        names=("gain at pass@1", "at pass@256"),
    )


@claim(
    "a-grae:sec-4.2-pass-256",
    where="Section 4.2; Table 6",
    says="On AMC23 and MATH GRPO falls below the base model at Pass@256; the negative-dominant control does not, on "
    "any benchmark.",
    refuted_by="a printed figure on the other side",
    reading="Point estimates of Table 6, as the curves of Figure 2 are not stored. No other reading was found.",
    statement={"GRPO": {"MATH": -1, "AMC23": -1}, "Negative-Dominant": {"MATH": 1, "AIME 2025": 1, "AMC23": 0}},
    planted={"GRPO gains": {"GRPO": {"MATH": 1}}},
)
def at_256(statement):
    """The sign of the difference from the base model."""
    points = [{"method": method, "benchmark": benchmark} for method, signs in statement.items() for benchmark in signs]
    yield from satisfies(
        lambda sign, method, benchmark: sign == statement[method][benchmark],
        points,
        lambda method, benchmark: int(np.sign(gain("Table 6", benchmark, method, "Base Model", KS.index(256)))),
        method="arithmetic",
    )


@claim(
    "a-grae:app-a-shrinkage",
    where="Appendix A, 'we also observe that GRPO exhibits a performance drop at pass@256 compared to the base model'",
    says="GRPO's Pass@256 is observed to drop below the base model's.",
    refuted_by="no such drop on MATH or AMC23 with the model of Figure 2",
    reading="An observation, not a law: Qwen2.5-Math-7B, the model of Figure 2 and Table 2, on MATH and AMC23.",
    caveat="Not everywhere: Qwen2.5-Math-7B ties on AIME 2025, and DeepSeek-R1-7B gains on MATH and AIME 2025.",
    statement=lambda points, table, benchmark, **_: (
        points < 0 if table == "Table 2" and benchmark != "AIME 2025" else None
    ),
    planted={"on every model and benchmark": worse, "above": better},
)
def shrinkage(statement):
    """GRPO less the base model at k = 256 in Tables 2 and 4."""
    yield from ahead(statement, table=["Table 2", "Table 4"], method=["GRPO"], other=["Base Model"], k=[256])


@claim(
    "a-grae:sec-4.2-positive-dominant",
    where="Section 4.2; Table 6",
    says="On MATH and AIME 2025 the positive-dominant control is behind all others for k > 16.",
    refuted_by="a printed k > 16 at which it is level with or ahead of the base model, GRPO or negative-dominant",
    reading="The four methods of Figure 2, figures of Table 6. On AMC23 its printed row is GRPO's, so it would fail "
    "there.",
    statement=worse,
    planted={"by two points": lambda points, **_: points < -2},
)
def positive_dominant_lags(statement):
    """All differences at k above 16."""
    yield from ahead(
        statement,
        table=["Table 6"],
        benchmark=["MATH", "AIME 2025"],
        method=["Positive-Dominant"],
        other=["Base Model", "GRPO", "Negative-Dominant"],
        k=[32, 64, 128, 256],
    )


@claim(
    "a-grae:sec-4.2-growing-gain",
    where="Section 4.2; Table 6",
    says="The negative-dominant control is ahead of GRPO, the more the larger k.",
    refuted_by="a k at which it is not ahead, or a benchmark on which its lead does not grow with k",
    reading="Ahead at every printed k, and a trend: the least-squares slope of the lead in log k.",
    caveat="As a trend; not at every step. The lead falls at k = 32 on MATH and AMC23 and at k = 8 and 16 on AIME "
    "2025.",
    statement=lambda trend, **_: trend[0] > 0 and trend[1] > 0,
    planted={"the less": lambda trend, **_: trend[0] > 0 > trend[1], "by a point": lambda trend, **_: trend[0] > 1},
)
def growing_gain(statement):
    """The least lead over all k, and the slope of the lead."""

    def trend(benchmark):
        leads = [gain("Table 6", benchmark, "Negative-Dominant", "GRPO", column) for column in range(len(KS))]
        return min(leads), float(np.polyfit(np.log2(KS), leads, 1)[0])

    yield from satisfies(statement, grid(benchmark=BENCHMARKS), trend, method="arithmetic")
