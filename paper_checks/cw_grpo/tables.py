"""The tables: Table 1's thresholds, Tables 2 and 3 and the text's claims about them."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from typing import Any

from paper_checks.claim import CHANGES, CONDITIONS, COSMETIC, Amended, claim, undecided
from paper_checks.evidence import Evidence, Printed, arithmetic, grid, satisfies

# Share of the tokens of each sign (percent), threshold of positive covariance, threshold of negative covariance.
TABLE_1 = ((0.01, 11.52, -13.62), (1, 3.32, -3.34), (20, 0.58, -0.36), (40, 0.33, -0.22), (100, 0.06, -0.04))

BENCHMARKS = {"AIME24": 30, "MATH-500": 500, "AMC23": 40, "Minerva": 272, "OlympiadBench": 675}  # sizes: Table 4
# Scores in the order of the benchmarks, the average, and its gain over the base model.
TABLE_2 = {
    ("1.5B", "Base"): ((28.8, 82.8, 62.9, 26.5, 43.3), 48.9, None),
    ("1.5B", "GRPO"): ((33.3, 85.0, 67.5, 27.2, 49.9), 52.6, 3.7),
    ("1.5B", "Clip-Cov"): ((33.3, 85.5, 70.0, 29.0, 50.0), 53.6, 4.7),
    ("1.5B", "CW-GRPO"): ((30.0, 87.0, 77.5, 29.8, 52.0), 55.3, 6.4),
    ("7B", "Base"): ((3.3, 82.6, 47.5, 33.1, 40.4), 41.4, None),
    ("7B", "GRPO"): ((10.0, 82.2, 55.0, 33.1, 40.3), 44.1, 2.7),
    ("7B", "Clip-Cov"): ((10.0, 82.4, 57.5, 32.4, 41.3), 44.7, 3.3),
    ("7B", "CW-GRPO"): ((13.3, 82.8, 62.5, 32.0, 42.7), 46.7, 4.3),
}
OTHERS = {
    "Llama-3.1-70B-Instruct": ((16.7, 64.6, 30.1, 35.3, 31.9), 35.7),
    "Still-3-1.5B-Preview": ((32.5, 84.4, 66.7, 29.0, 45.4), 51.6),
    "DeepScaleR-1.5B-Preview": ((43.1, 87.8, 73.6, 30.2, 50.0), 57.0),
    "Open-RS1": ((30.0, 83.8, 70.0, 29.0, 52.4), 53.0),
    "Eurus-2-7B-PRIME": ((26.7, 79.2, 57.8, 38.6, 42.1), 48.9),
    "Qwen2.5-7B-SimpleRL": ((26.7, 82.4, 62.5, 39.7, 43.3), 50.9),
}
FRACTIONS = {
    "AIME24": (3, 30),
    "MATH-500": (412, 500),
    "AMC23": (23, 40),
    "Minerva": (88, 272),
    "OlympiadBench": (279, 675),
}
# Steps -> (MATH-500, OlympiadBench).
TABLE_3 = {
    "GRPO": {100: (85.0, 49.9), 150: (82.0, 49.9), 200: (79.8, 47.8)},
    "CW-GRPO": {100: (87.0, 52.0), 150: (86.2, 53.9), 200: (86.4, 53.5)},
}


def gains(scale: str) -> dict[str, float]:
    """CW-GRPO's gain over GRPO by benchmark."""
    ours, grpo = TABLE_2[scale, "CW-GRPO"][0], TABLE_2[scale, "GRPO"][0]
    return {name: round(a - b, 1) for name, a, b in zip(BENCHMARKS, ours, grpo, strict=True)}


def agrees(stands: bool, figures: str) -> Iterator[Evidence]:
    """The outcome of a comparison of printed figures."""
    yield Evidence("arithmetic", stands, figures, "" if stands else figures)


@claim(
    "cw-grpo:table-1-dominance",
    where="Section 2.2, Table 1 and Figure 3 ('a small fraction of tokens ... disproportionately dominate')",
    says="A small fraction of the tokens has covariances of large magnitude, which disproportionately dominate the "
    "overall covariance.",
    refuted_by="a sign at which Table 1 allows one of the two fractions no more than three times its share",
    reading="Rows of Table 1 as thresholds among the tokens of one sign: each token between two percentiles has at "
    "least the one and at most the other. The first 0.01 % then make up at least 0.1 %, the first 1 % at least 3.4 % "
    "(positive) and 3.9 % (negative), the first 20 % at least 31 % and 33 %. The paper gives no measure of 'small' and "
    "'disproportionately'; 1 % and three times are ours. That the largest exceed their share at all would be empty: "
    "it holds of all numbers that differ.",
    caveat="Out of proportion to their number, not most of it: Table 1 leaves open whether 1 % of the tokens hold half "
    "of the covariance. Figure 3, which would tell, is not in the stored text.",
    statement=lambda least, share: least > 3 * share if share <= Fraction(1, 100) else None,
    planted={
        "half of it, from 1 % on": lambda least, share: least > Fraction(1, 2) if share >= Fraction(1, 100) else None,
        "five times their share": lambda least, share: least > 5 * share if share <= Fraction(1, 100) else None,
        "three times, at any percentile": lambda least, share: least > 3 * share,
    },
)
def table_1_dominance(statement):
    """The least share of the sum that the thresholds allow the tokens up to a percentile."""
    shares = [Fraction(str(row[0])) / 100 for row in TABLE_1]
    widths = [shares[0], *(after - before for before, after in pairwise(shares))]

    def least(rows, sign):
        thresholds = [abs(Fraction(str(row[sign]))) for row in TABLE_1]
        above = sum(w * t for w, t in zip(widths[:rows], thresholds[:rows], strict=True))
        below = sum(w * t for w, t in zip(widths[rows:], thresholds[rows - 1 : -1], strict=True))
        return above / (above + below)

    yield from satisfies(
        lambda value, rows, sign: statement(value, shares[rows - 1]),
        grid(sign=[1, 2], rows=range(1, len(TABLE_1))),
        lambda sign, rows: least(rows, sign),
        method="arithmetic",
    )


@claim(
    "cw-grpo:table-2-averages",
    where="Section 3.2, Table 2, the column of averages",
    says="The averages are the means of the five benchmarks.",
    refuted_by="a row whose average is off by more than rounding",
    reading="All rows with five scores; each score and the average rounded to 0.1, so that 0.1 can be off.",
    statement={**{key: row[:2] for key, row in TABLE_2.items()}, **OTHERS},
    planted={"one digit": {"row": ((28.8, 82.8, 62.9, 26.5, 43.3), 49.8)}},
)
def table_2_averages(statement):
    """The mean of each row."""
    yield from arithmetic(
        Printed(str(key), average, sum(scores) / 5, 0.1) for key, (scores, average) in statement.items()
    )


def percentage(score: float, size: int) -> float:
    """The score unrounded: that of the nearest whole number of problems solved."""
    return 100 * round(score * size / 100) / size


def unrounded(key: tuple[str, str]) -> float:
    """The average of a row from numbers of problems, or from the score where no such number rounds to it."""
    exact = [(score, percentage(score, size)) for score, size in zip(TABLE_2[key][0], BENCHMARKS.values(), strict=True)]
    return sum(value if abs(value - score) <= 0.05 else score for score, value in exact) / len(exact)


def decide_gains(statement: Any, over: str) -> Iterator[Evidence]:
    """Differences of the unrounded averages, beside the printed ones, within what rounding both averages explains."""
    yield from arithmetic(
        Printed(f"{scale} {method}", printed, unrounded((scale, method)) - unrounded((scale, over)), 0.1)
        for (scale, method), printed in statement.items()
    )


PRINTED_GAINS = {key: row[2] for key, row in TABLE_2.items() if row[2] is not None}


@claim(
    "cw-grpo:table-2-gains",
    where="Section 3.2, Table 2, in parentheses",
    says="The figures in parentheses are the improvements of the average over the base model.",
    refuted_by="a figure that is not the difference of the averages",
    reading="Rounding can explain 0.1. CW-GRPO's 7B row prints +4.3 beside 46.7 and a base of 41.4: the difference is "
    "5.3, so that the slip is to the method's disadvantage. On the reading that the average is the misprint, its five "
    "scores would have to be others too.",
    statement=PRINTED_GAINS,
    slip=Amended("+5.3 for CW-GRPO at 7B.", PRINTED_GAINS | {("7B", "CW-GRPO"): 5.3}),
    planted={"the 1.5B row too": PRINTED_GAINS | {("7B", "CW-GRPO"): 5.3, ("1.5B", "CW-GRPO"): 4.6}},
)
def table_2_gains(statement):
    """Each average less the base model's."""
    yield from decide_gains(statement, "Base")


@claim(
    "cw-grpo:text-gains",
    where="Section 3.2: +2.7 (1.5B) and +2.4 (7B) over vanilla GRPO",
    says="CW-GRPO's average is 2.7 points above GRPO's at 1.5B and 2.4 at 7B.",
    refuted_by="an average difference in Table 2 that is another",
    reading="Differences of averages from numbers of problems solved, which the scores determine; 0.1 is allowed, as "
    "for a difference of two rounded averages. At 7B the difference is 2.54, and that of the printed averages 2.6; "
    "2.4 is the gain on OlympiadBench alone. The slip is to the method's disadvantage.",
    statement={("1.5B", "CW-GRPO"): 2.7, ("7B", "CW-GRPO"): 2.4},
    slip=Amended("+2.5 at 7B (2.6 between the rounded averages).", {("1.5B", "CW-GRPO"): 2.7, ("7B", "CW-GRPO"): 2.5}),
    planted={"the other way round": {("1.5B", "CW-GRPO"): 2.5, ("7B", "CW-GRPO"): 2.7}},
)
def text_gains(statement):
    """CW-GRPO's average less GRPO's."""
    yield from decide_gains(statement, "GRPO")


def solved_more(scale: str) -> dict[str, int]:
    """CW-GRPO's lead over GRPO in problems on each benchmark."""
    return {name: round(points * BENCHMARKS[name] / 100) for name, points in gains(scale).items()}


@claim(
    "cw-grpo:gain-from-amc23",
    where="Section 3.2 ('consistent improvements') beside Table 2",
    says="No single benchmark makes up most of the gain of the average over GRPO.",
    refuted_by="a benchmark with more than half of the gain of the average",
    reading="A benchmark's part is a fifth of its own gain. At 1.5B AMC23 gives 2.0 of the 2.7 points: four problems "
    "of 40. At 7B it gives 1.5 of the 2.5: three problems.",
    caveat="The paper does not say that the gain is spread evenly; a reader of the average may take it so.",
    inferred=True,
    severity=CHANGES,
    statement=lambda shares: max(shares.values()) <= 0.5,
    correction=Amended(
        "AMC23, with 40 problems the second-smallest, makes up more than half at both scales",
        lambda shares: shares["AMC23"] > 0.5,
    ),
    planted={
        "MATH-500 does": lambda shares: shares["MATH-500"] > 0.5,
        "AMC23 all of it": lambda shares: shares["AMC23"] >= 1,
    },
)
def gain_from_amc23(statement):
    """The share of each benchmark in the sum of the gains."""

    def shares(scale):
        return {name: points / sum(gains(scale).values()) for name, points in gains(scale).items()}

    def judged(values, scale):
        return statement(dict(zip(BENCHMARKS, values, strict=True)))

    yield from satisfies(
        judged,
        grid(scale=["1.5B", "7B"]),
        lambda scale: tuple(shares(scale).values()),
        method="arithmetic",
        names=[*BENCHMARKS],
    )


@claim(
    "cw-grpo:pooled-gains",
    where="Section 3.2 (+2.7 and +2.4 over vanilla GRPO) beside Tables 2 and 4",
    says="The gains over GRPO are as large if every problem counts once.",
    refuted_by="a gain over the 1,517 problems of the five benchmarks that differs by more than rounding",
    reading="34 more problems solved at 1.5B and 20 at 7B, of 1,517: +2.2 and +1.3. The mean of the five benchmarks "
    "weighs a problem of AIME24 over twenty times as much as one of OlympiadBench.",
    caveat="The paper claims the mean of benchmarks, as is usual. The pooled difference has a standard error of about "
    "1.8 points if the problems' outcomes are independent, less if they are paired.",
    inferred=True,
    severity=CONDITIONS,
    statement={"1.5B": 2.7, "7B": 2.4},
    correction=Amended("+2.2 at 1.5B and +1.3 at 7B", {"1.5B": 2.2, "7B": 1.3}),
    planted={"the other way round": {"1.5B": 1.3, "7B": 2.2}, "twice as large at 7B": {"1.5B": 2.2, "7B": 2.6}},
)
def pooled_gains(statement):
    """Problems that CW-GRPO solves beyond GRPO, over all problems."""
    total = sum(BENCHMARKS.values())
    yield from arithmetic(
        Printed(scale, printed, 100 * sum(solved_more(scale).values()) / total, 0.05)
        for scale, printed in statement.items()
    )


@claim(
    "cw-grpo:all-benchmarks",
    where="Section 3.2: outperforms vanilla GRPO across both model scales and all benchmarks",
    says="CW-GRPO is above GRPO at each scale on every benchmark.",
    refuted_by="a benchmark in Table 2 on which it is not",
    reading="Cells of Table 2. AIME24 at 1.5B (30.0 against 33.3) and Minerva at 7B (32.0 against 33.1) are below. On "
    "the reading 'on average' it holds at both scales.",
    severity=CHANGES,
    statement=tuple(BENCHMARKS),
    correction=Amended("On three benchmarks at both scales.", ("MATH-500", "AMC23", "OlympiadBench")),
    planted={"with AIME24": ("AIME24", "MATH-500")},
)
def all_benchmarks(statement):
    """The gain in each cell."""
    yield from satisfies(
        lambda gain, **_: gain > 0,
        [{"scale": scale, "benchmark": name} for scale in ("1.5B", "7B") for name in statement],
        lambda scale, benchmark: gains(scale)[benchmark],
        method="arithmetic",
    )


def decide_largest(scale: str, statement: Any) -> Iterator[Evidence]:
    """Check that these two benchmarks gain most."""
    leads = gains(scale)
    largest = sorted(leads, key=lambda name: -leads[name])[:2]
    yield from agrees(set(largest) == set(statement), f"the largest gains at {scale} are on {largest} of {leads}")


@claim(
    "cw-grpo:notable-gains-1.5b",
    where="Section 3.2: particularly notable gains on AMC23 and Minerva",
    says="At 1.5B the two largest gains over GRPO are on AMC23 and Minerva.",
    refuted_by="a larger gain elsewhere",
    reading="Points of Table 2. In problems Minerva's gain is 7 of 272, MATH-500's 10 of 500 and OlympiadBench's 14 "
    "of 675.",
    statement=("AMC23", "Minerva"),
    planted={"others": ("AMC23", "AIME24")},
)
def notable_gains(statement):
    """Order the gains."""
    yield from decide_largest("1.5B", statement)


@claim(
    "cw-grpo:substantial-gains-7b",
    where="Section 3.2: the most substantial gain on AMC23 and OlympiadBench",
    says="At 7B the two largest gains over GRPO are on AMC23 and OlympiadBench.",
    refuted_by="a larger gain elsewhere",
    reading="Points of Table 2: AIME24 gains 3.3, OlympiadBench 2.4. AIME24's gain is one problem of 30; on the "
    "reading that counts problems OlympiadBench has the largest gain and AMC23 ties with MATH-500 at 3.",
    severity=COSMETIC,
    statement=("AMC23", "OlympiadBench"),
    correction=Amended("AMC23 and AIME24.", ("AMC23", "AIME24")),
    planted={"Minerva": ("AMC23", "Minerva")},
)
def substantial_gains(statement):
    """Order the gains."""
    yield from decide_largest("7B", statement)


CELLS = {
    (*key, name): (score, size)
    for key, (scores, *_) in TABLE_2.items()
    for score, (name, size) in zip(scores, BENCHMARKS.items(), strict=True)
}
NO_COUNTS = (
    ("1.5B", "Base", "AIME24"),
    ("1.5B", "Base", "AMC23"),
    ("1.5B", "Clip-Cov", "MATH-500"),
    ("1.5B", "Clip-Cov", "OlympiadBench"),
)


@claim(
    "cw-grpo:table-2-counts",
    where="Section 3.2, Table 2 (zero-shot pass@1) with the sizes of Table 4",
    says="Each score of the models trained and their bases is a whole number of problems solved out of the "
    "benchmark's.",
    refuted_by="a score that no count of problems rounds to",
    reading="The paper does not say it: it is what pass@1 from one answer a problem gives, as the printed 3/30, "
    "412/500... of the 7B Clip-Cov row are. The 1.5B base model's 28.8 (of 30) and 62.9 (of 40) are no such figures, "
    "nor are Clip-Cov's 85.5 (of 500) and 50.0 (of 675), which lie half a problem off; the other 36 are. If these four "
    "are averages of several answers or runs, or come from another paper, the rows compared are measured in different "
    "ways.",
    severity=CONDITIONS,
    inferred=True,
    statement=(),
    correction=Amended(
        "All but four: AIME24 and AMC23 of the 1.5B base model, MATH-500 and OlympiadBench of its Clip-Cov.", NO_COUNTS
    ),
    planted={"all but the base model": NO_COUNTS[:2], "one too few": NO_COUNTS[1:]},
)
def table_2_counts(statement):
    """The nearest whole number of problems, as a percentage, beside the score, but for the exceptions stated."""
    yield from arithmetic(
        Printed(" ".join(cell), score, percentage(score, size), 0.05)
        for cell, (score, size) in CELLS.items()
        if cell not in statement
    )


@claim(
    "cw-grpo:table-2-fractions",
    where="Section 3.2, Table 2, the 7B Clip-Cov row",
    says="The fractions printed are the percentages beside them, of the benchmarks' sizes.",
    refuted_by="a fraction that rounds to another percentage, or a denominator that is not the size in Table 4",
    reading="To 0.05.",
    statement=FRACTIONS,
    planted={"one problem": FRACTIONS | {"Minerva": (87, 272)}},
)
def table_2_fractions(statement):
    """Divide."""
    scores = dict(zip(BENCHMARKS, TABLE_2["7B", "Clip-Cov"][0], strict=True))
    yield from arithmetic(Printed(name, scores[name], 100 * n / size, 0.05) for name, (n, size) in statement.items())
    yield from arithmetic(Printed(name, size, BENCHMARKS[name], 0) for name, (_, size) in statement.items())


@claim(
    "cw-grpo:table-3-text",
    where="Section 3.2 beside Table 3",
    says="From step 100 to 200 GRPO falls from 85.0 to 79.8 on MATH-500, while CW-GRPO stays between 86.2 and 87.0.",
    refuted_by="a figure in Table 3 that is another",
    reading="MATH-500 alone, as the text says. The steps of low and high entropy are labelled alike for both methods, "
    "though CW-GRPO's is said to be stable.",
    caveat="On OlympiadBench CW-GRPO moves as much (52.0 to 53.9, upwards) as GRPO (49.9 to 47.8).",
    statement=(85.0, 79.8, 86.2, 87.0),
    planted={"a range": (85.0, 79.8, 86.4, 87.0)},
)
def table_3_text(statement):
    """Read the four figures off the table."""
    grpo, ours = ([TABLE_3[method][step][0] for step in (100, 150, 200)] for method in ("GRPO", "CW-GRPO"))
    figures = (grpo[0], grpo[-1], min(ours), max(ours))
    names = ("GRPO at 100", "GRPO at 200", "CW-GRPO lowest", "CW-GRPO highest")
    yield from arithmetic(Printed(*row, 0) for row in zip(names, statement, figures, strict=True))


@claim(
    "cw-grpo:tables-2-and-3",
    where="Section 3.2, Tables 2 and 3, step 100",
    says="Table 2's 1.5B scores are those of Table 3 at step 100.",
    refuted_by="a score that differs",
    reading="The paper does not say it. MATH-500 and OlympiadBench of GRPO and CW-GRPO; 100 is the number of steps in "
    "Table 5.",
    inferred=True,
    statement=100,
    planted={"step 200": 200},
)
def tables_2_and_3(statement):
    """Compare the four scores."""
    yield from arithmetic(
        Printed(f"{method} {name}", TABLE_2["1.5B", method][0][column], TABLE_3[method][statement][index], 0)
        for method in TABLE_3
        for index, (name, column) in enumerate((("MATH-500", 1), ("OlympiadBench", 4)))
    )


undecided(
    "cw-grpo:accuracy-gain",
    where="Section 3.2; Table 2",
    says="CW-GRPO improves average accuracy over GRPO by 2.7 points at 1.5B and by 2.4 at 7B.",
    needs="training runs of the 1.5B and 7B models with several seeds, and each run's answers problem by problem: one "
    "problem of AIME24 is 3.3 points, one of AMC23 2.5, and the paper states neither seeds nor spread",
    reading="The averages are consistent with the scores: cw-grpo:table-2-averages. If each problem's outcome is "
    "drawn independently, the difference of two such averages has a standard error of about 3 points, more than the "
    "gain; pairing the problems would lower it.",
)
undecided(
    "cw-grpo:figure-1",
    where="Section 3.2, Figure 1",
    says="CW-GRPO keeps the policy's entropy at a reasonable level during training, while GRPO's is unstable.",
    needs="the entropy curves of several training runs of the 1.5B model",
    reading="Figures are not in the stored text. What the method does to entropy in a bandit: "
    "cw-grpo:entropy-stability.",
)
undecided(
    "cw-grpo:figure-3",
    where="Section 2.2, Figure 3",
    says="In 50 steps of GRPO a small fraction of tokens with extreme covariance disproportionately dominates the "
    "updates.",
    needs="the token-level covariances of the authors' run, or the figure",
    reading="What Table 1 implies: cw-grpo:table-1-dominance.",
)


@claim(
    "cw-grpo:stable-entropy",
    where="Section 3.2 beside Table 3, 'stable entropy correlates with better reasoning performance'",
    says="Stable entropy goes with better reasoning: no checkpoint of unstable entropy is above one of stable entropy.",
    refuted_by="a benchmark of Table 3 on which GRPO at step 150 (entropy low) or 200 (high) is above another row",
    reading="Stable: GRPO at step 100 and CW-GRPO at all three steps. On OlympiadBench GRPO's 49.9 at step 150 ties "
    "with its 49.9 at step 100. Table 3 labels CW-GRPO's steps 150 and 200 'entropy low' and 'entropy high' too; on "
    "the reading that they are then unstable it would fail.",
    caveat="Two unstable checkpoints of one run, and three of the four stable ones are the other method's; no entropy "
    "is printed. An order, and no cause.",
    statement=lambda stable, unstable: min(stable) >= max(unstable) and sum(stable) / 4 > sum(unstable) / 2,
    planted={
        "without a tie": lambda stable, unstable: min(stable) > max(unstable),
        "by ten points": lambda stable, unstable: sum(stable) / 4 > sum(unstable) / 2 + 10,
    },
)
def stable_entropy(statement):
    """Sort the checkpoints of Table 3 on either benchmark."""

    def checkpoints(benchmark):
        grpo, ours = ([TABLE_3[method][step][benchmark] for step in (100, 150, 200)] for method in ("GRPO", "CW-GRPO"))
        return [grpo[0], *ours], grpo[1:]

    yield from satisfies(
        lambda pair, benchmark: statement(*pair),
        [{"benchmark": 0}, {"benchmark": 1}],
        checkpoints,
        method="arithmetic",
    )
