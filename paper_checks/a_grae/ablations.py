"""Section 4.3, Section 5.4 and Appendix D.5: the printed ablations, and how often training collapsed."""

from fractions import Fraction
from math import comb

from paper_checks.a_grae.printed import KS, TABLE_5, TABLE_6
from paper_checks.a_grae.tables import BENCHMARKS, DDAS, FULL, GROUP_LEVEL, SAMPLE_LEVEL, ahead, better, gain, worse
from paper_checks.claim import CHANGES, CONDITIONS, COSMETIC, Amended, claim
from paper_checks.evidence import equals, grid, satisfies

LARGER_K = (2, 4, 8, 16, 32, 64, 128, 256)


def best(rows, column=0):
    """The method with the largest figure in a column."""
    return max(rows, key=lambda method: rows[method][column])


@claim(
    "a-grae:sec-4.3-focus",
    where="Section 4.3; Table 6",
    says="Hard-focused is best on AIME 2025, and easy-focused marginally ahead on AMC23 and MATH at Pass@1.",
    refuted_by="a benchmark with another best method",
    reading="Among the base model, GRPO and the two variants, Pass@1. Hard-focused is also best of the four at "
    "Pass@256 on AIME 2025.",
    caveat="Among four of the eight rows of Table 6; with the paper's own two parts included easy-focused is not best "
    "on AMC23 and MATH.",
    statement={"MATH": "Easy-Focused", "AMC23": "Easy-Focused", "AIME 2025": "Hard-Focused"},
    planted={"one for all": dict.fromkeys(BENCHMARKS, "Easy-Focused")},
)
def best_focus(statement):
    """The best of the four at Pass@1."""
    methods = ("Base Model", "GRPO", "Easy-Focused", "Hard-Focused")
    yield from satisfies(
        lambda leader, benchmark: leader == statement[benchmark],
        grid(benchmark=list(statement)),
        lambda benchmark: best({method: TABLE_6[benchmark][method] for method in methods}),
        method="arithmetic",
    )


@claim(
    "a-grae:sec-5.4-sample-level",
    where="Section 5.4; Table 5",
    says="The sample-level part alone is second at Pass@1 on all three benchmarks.",
    refuted_by="a benchmark where it has another rank",
    reading="Among the five rows of Table 5. On AIME 2025 the group-level part has 11.0 to its 10.9, a difference of "
    "no weight. On the reading that 0.1 is a tie for second it would hold.",
    severity=COSMETIC,
    statement={"MATH": 2, "AIME 2025": 2, "AMC23": 2},
    correction=Amended("second on MATH and AMC23, third on AIME 2025", {"MATH": 2, "AIME 2025": 3, "AMC23": 2}),
    planted={"first": {"MATH": 1, "AIME 2025": 1, "AMC23": 1}},
)
def sample_level_rank(statement):
    """One more than the number of methods ahead of it."""

    def rank(benchmark):
        rows = TABLE_5[benchmark]
        return 1 + sum(row[0] > rows[SAMPLE_LEVEL][0] for row in rows.values())

    yield from satisfies(
        lambda value, benchmark: value == statement[benchmark], grid(benchmark=BENCHMARKS), rank, method="arithmetic"
    )


@claim(
    "a-grae:sec-5.4-group-level",
    where="Section 5.4; Table 5",
    says="The group-level part has the more pronounced impact on Pass@k, beside the sample-level one.",
    refuted_by="a benchmark on which it is not ahead on average over the printed k above 1, or not at 16 and more",
    reading="A comparison of impacts, not of every figure.",
    caveat="Not at every k: on MATH and AMC23 the sample-level part is ahead at some k up to 8.",
    statement=lambda leads, **_: sum(leads) > 0 and min(leads[LARGER_K.index(16) :]) > 0,
    planted={"at every k": lambda leads, **_: min(leads) > 0, "less": lambda leads, **_: sum(leads) < 0},
)
def group_level_lead(statement):
    """All differences between the two parts, benchmark by benchmark."""
    yield from satisfies(
        statement,
        grid(benchmark=BENCHMARKS),
        lambda benchmark: tuple(gain("Table 5", benchmark, GROUP_LEVEL, SAMPLE_LEVEL, KS.index(k)) for k in LARGER_K),
        method="arithmetic",
    )


@claim(
    "a-grae:sec-5.4-full",
    where="Section 5.4; Table 5",
    says="The full framework yields the most significant gains across all evaluation metrics.",
    refuted_by="a printed figure at which one part alone is level or ahead",
    reading="All 27 figures; a part alone is ahead at 12 of them, among them Pass@256 on all three benchmarks (by 0.5, "
    "3.3 and 2.5). On the reading of Pass@1 only it would hold, as the correction does.",
    severity=CHANGES,
    statement=better,
    correction=Amended(
        "it is best at Pass@1; at Pass@256 the group-level part is, on all three",
        lambda points, other, k, **_: (
            points > 0 if k == 1 else points < 0 if k == 256 and other == GROUP_LEVEL else None
        ),
    ),
    planted={"behind": worse},
)
def full_framework(statement):
    """All differences between the full method and its parts."""
    yield from ahead(statement, table=["Table 5"], method=[FULL], other=[SAMPLE_LEVEL, GROUP_LEVEL])


@claim(
    "a-grae:app-d5-shift",
    where="Appendix D.5, Dynamic Difficulty Attention Shift; Table 6",
    says="In comparison with the fixed difficulty preferences the dynamic shift achieves substantial gains at Pass@1 "
    "on all datasets.",
    refuted_by="a benchmark where a fixed focus has a Pass@1 as high",
    reading="Against both fixed variants, with which the paragraph sets out to compare. On AIME 2025 hard-focused has "
    "11.8 to its 10.9, a larger gap than its leads on MATH and AMC23 (0.8). On the reading that the gains are over "
    "GRPO it would hold; then nothing is said on fixed against dynamic focus.",
    severity=CONDITIONS,
    statement=better,
    correction=Amended(
        "it does on MATH and AMC23; on AIME 2025 hard-focused is ahead",
        lambda points, benchmark, other, **_: (points > 0) == ((benchmark, other) != ("AIME 2025", "Hard-Focused")),
    ),
    planted={"behind": worse},
)
def dynamic_shift(statement):
    """The differences at Pass@1."""
    yield from ahead(statement, table=["Table 6"], method=[DDAS], other=["Easy-Focused", "Hard-Focused"], k=[1])


@claim(
    "a-grae:app-d5-collapses",
    where="Appendix D.5, Attenuation Suppression Strategy",
    says="Three collapses in ten runs of the negative-dominant control against none in ten of the attenuation strategy "
    "are enough to tell the two apart, at the usual levels of 5 % and 10 %.",
    refuted_by="a level at which three against none is no significant difference",
    reading="Fisher's exact test, one-sided, which favours the claim: if all runs collapse equally often, three "
    "collapses are all in the one group with a chance of 10.5 %. Fewer collapses are what Eq. 13 is made for.",
    caveat="The paper reports the counts and names no test; the test and its levels are ours.",
    inferred=True,
    severity=CONDITIONS,
    statement=3,
    correction=Amended("it takes four collapses in ten, at either level", 4),
    planted={"two": 2, "five": 5},
)
def collapses(statement):
    """The least number of collapses, all in one of two groups of ten runs, that is rarer than a level by chance."""
    yield from equals(
        lambda level: statement,
        grid(level=[Fraction(1, 20), Fraction(1, 10)]),
        enumerated=lambda level: next(c for c in range(1, 11) if Fraction(comb(10, c), comb(20, c)) < level),
    )
