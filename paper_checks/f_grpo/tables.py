"""The tables' arithmetic, and the text's claims about them."""

import itertools
from collections.abc import Mapping

from paper_checks.claim import COSMETIC, Amended, claim
from paper_checks.evidence import Printed, arithmetic, satisfies
from paper_checks.f_grpo.printed import (
    METHODS,
    MODELS,
    TABLE_1,
    TABLE_2,
    TABLE_3,
    TABLE_6,
    TABLE_7,
    TABLE_10,
    TABLE_11,
    averages,
    by_model,
    pairs,
)
from paper_checks.f_grpo.printed_pass_at_k import PASS_AT_K, K

ROUNDED = 0.05  # half a unit of the last digit
PASS = ("pass@1", "pass@256")
SETUPS = tuple(itertools.product(MODELS, METHODS))


def altered(table: Mapping, row: str, column: int, cell: tuple) -> dict:
    """A table with one cell exchanged: a planted error."""
    return {**table, row: (*table[row][:column], cell, *table[row][column + 1 :])}


def compared(label, printed, computed, slack=0.0):
    """Two cells, number by number."""
    for name, left, right in zip(PASS, printed, computed, strict=False):
        yield Printed(f"{label}, {name}", left, right, slack)


@claim(
    "f-grpo:tables-averages",
    where="Section 5.5, Table 1; Appendices M and N, Tables 10 and 11",
    says="The two averages of each row are the means of its six math and three OOD benchmarks.",
    refuted_by="an average that rounding of the benchmarks cannot explain",
    reading="Unweighted over benchmarks. Some averages differ by 0.07 from the mean of the printed cells, which is "
    "within what rounding allows (0.1).",
    statement={**TABLE_1, **TABLE_10, **TABLE_11},
    planted={"one average": altered(TABLE_1, "Qwen2.5-7B GRPO", 0, (37.6, 64.1))},
)
def table_averages(statement):
    """Recompute both averages of every row."""

    def mean(row):
        return tuple(sum(values) / len(row) for values in zip(*row, strict=True))

    yield from arithmetic(
        printed
        for name, row in statement.items()
        for label, cell, members in (("math", row[0], row[1:7]), ("OOD", row[7], row[8:11]))
        for printed in compared(f"{name} {label}", cell, mean(members), 2 * ROUNDED)
    )


@claim(
    "f-grpo:tables-repeated",
    where="Section 5.5, Table 1; Tables 2, 3, 6, 7, 10 and 11",
    says="A run that appears in several tables has the same numbers in each.",
    refuted_by="two cells of one run that differ",
    reading="No sentence says it. Which runs are the same follows from method, model, G and Table 7.",
    inferred=True,
    statement=TABLE_1,
    planted={"one cell of Table 1": altered(TABLE_1, "Llama-3.2-3B-Instruct F-DAPO", 7, (24.7, 55.4))},
)
def repeated_rows(statement):
    """Compare every such pair of rows, without slack."""
    same = [
        *((f"Tables 2, 10: {name}", row, averages(TABLE_10[name])) for name, row in TABLE_2.items()),
        *((f"Tables 3, 11: {name}", row, averages(TABLE_11[name])) for name, row in TABLE_3.items()),
        ("Tables 1, 10: GRPO", statement["Qwen2.5-7B GRPO"], TABLE_10["GRPO 8"]),
        ("Tables 1, 10: F-GRPO", statement["Qwen2.5-7B F-GRPO"], TABLE_10["F-GRPO 8"]),
        ("Tables 1, 11: F-GRPO", statement["Qwen2.5-7B F-GRPO"], TABLE_11["F-GRPO"]),
    ]
    for (name, plain, focal), (model, method) in zip(pairs(statement), SETUPS, strict=True):
        same.append((f"Tables 1, 6: {name}", plain, by_model(TABLE_6[f"{method} 0.0"], model)))
        selected = TABLE_6[f"{method} {TABLE_7[model][method]}"]
        same.append((f"Tables 1, 6, 7: F- {name}", focal, by_model(selected, model)))
    yield from arithmetic(
        printed
        for label, first, second in same
        for left, right in zip(first, second, strict=True)
        for printed in compared(label, left, right)
    )


@claim(
    "f-grpo:tables-12-14-ends",
    where="Appendix O, Tables 12 to 14; Section 5.5, Table 1",
    says="The pass@k tables are of the same checkpoints as Table 1: k = 1 and k = 256 agree.",
    refuted_by="a cell that differs",
    reading="All nine benchmarks, nine pairs of runs.",
    statement=PASS_AT_K,
    planted={"one cell": altered(PASS_AT_K, "Qwen2.5-7B DAPO", 8, PASS_AT_K["Qwen2.5-7B DAPO"][7])},
)
def pass_at_k_ends(statement):
    """Compare the first and last row of each block with both rows of Table 1."""
    benchmarks = (1, 2, 3, 4, 5, 6, 8, 9, 10)
    yield from arithmetic(
        Printed(f"{name} {PASS[end]}, column {column}", values[side], row[column][end], 0)
        for name, block in statement.items()
        for side, row in enumerate((TABLE_1[name], TABLE_1[" F-".join(name.rsplit(" ", 1))]))
        for end in (0, 1)
        for column, values in zip(benchmarks, block[-end], strict=True)
    )


@claim(
    "f-grpo:tables-12-14-shape",
    where="Appendix O, Tables 12 to 14",
    says="Each column is a pass@k curve: it rises with k, at a falling rate per sample.",
    refuted_by="a column that falls, or whose slope rises by more than rounding explains",
    reading="Any mean of 1 - (1-p)^k has this shape, and so has Eq. 27 for k <= n. The tables must have it too.",
    inferred=True,
    statement=PASS_AT_K,
    planted={
        "two rows exchanged": {
            "exchanged": (*PASS_AT_K["Qwen2.5-7B GRPO"][:3], *reversed(PASS_AT_K["Qwen2.5-7B GRPO"][3:5])),
        }
    },
)
def pass_at_k_shape(statement):
    """Slopes between neighbouring k, of all columns."""

    def slopes(name):
        block = statement[name]
        for column in range(len(block[0])):
            for side in (0, 1):
                values = [row[column][side] for row in block]
                gaps = list(zip(K, K[1:], values, values[1:], strict=False))
                yield [((later - earlier) / (k2 - k1), 2 * ROUNDED / (k2 - k1)) for k1, k2, earlier, later in gaps]

    def falling(value, name):
        return all(
            slope >= 0 and slope >= following - slack - later_slack
            for column in value
            for (slope, slack), (following, later_slack) in itertools.pairwise(column)
        )

    yield from satisfies(
        falling, [{"name": name} for name in statement], lambda name: list(slopes(name)), method="arithmetic"
    )


@claim(
    "f-grpo:abstract-numbers",
    where="Abstract",
    says="On Qwen2.5-7B average math pass@256 goes from 64.1 to 70.3, 69.3 to 72.5 and 73.2 to 76.8; OOD improves too.",
    refuted_by="other numbers in Table 1",
    reading="Table 1. On what it costs: f-grpo:abstract-no-extra-cost.",
    caveat="One run for each number. gamma was chosen among three values by math pass@1 on the same benchmarks.",
    statement={"GRPO": (64.1, 70.3), "DAPO": (69.3, 72.5), "CISPO": (73.2, 76.8)},
    planted={"one digit": {"GRPO": (64.1, 73.0)}},
)
def abstract_numbers(statement):
    """Look them up."""
    rows = {name.removeprefix("Qwen2.5-7B "): (plain, focal) for name, plain, focal in pairs(TABLE_1)[:3]}
    yield from arithmetic(
        Printed(f"{name} {label}", printed, rows[name][side][0][1], 0)
        for name, both in statement.items()
        for side, (label, printed) in enumerate(zip(("before", "after"), both, strict=True))
    )
    yield from satisfies(
        lambda value, name: value[1] > value[0],
        [{"name": name} for name in rows],
        lambda name: tuple(side[1][1] for side in rows[name]),
        method="arithmetic",
    )


GAINS = [{"name": name} for name, *_ in pairs(TABLE_1)]


def gains(name, domain, which):
    """The focal weight's gain in Table 1: domain 0 math, 1 OOD; which 0 pass@1, 1 pass@256."""
    plain, focal = next((plain, focal) for label, plain, focal in pairs(TABLE_1) if label == name)
    return round(focal[domain][which] - plain[domain][which], 1)


@claim(
    "f-grpo:sec-5.5-nine-of-nine",
    where="Section 5.5",
    says="Focal weighting improves math and OOD pass@256 in all nine combinations of method and model.",
    refuted_by="a combination in Table 1 with no gain",
    reading="The rows of Table 1, with gamma chosen for each combination.",
    caveat="One run each, with gamma chosen by math pass@1 on the same benchmarks; no single gamma improves all nine "
    "(f-grpo:table-6-one-gamma).",
    statement=lambda math, ood: math > 0 and ood > 0,
    planted={"by two points at least": lambda math, ood: math >= 2 and ood >= 2},
)
def nine_of_nine(statement):
    """Differences in Table 1."""
    yield from satisfies(
        lambda value, **_: statement(*value),
        GAINS,
        lambda name: (gains(name, 0, 1), gains(name, 1, 1)),
        method="arithmetic",
    )


@claim(
    "f-grpo:sec-5.5-pass-at-1",
    where="Section 5.5",
    says="Math pass@1 is preserved or improved in 9 of 9 cases, OOD pass@1 improves in 7 of 9.",
    refuted_by="other counts in Table 1",
    reading="Preserved: the same printed digit.",
    caveat="The 9 of 9 come after gamma was chosen, of three, by this very math pass@1.",
    statement=(9, 7),
    planted={"8 of 9": (9, 8)},
)
def pass_at_1_counts(statement):
    """Count differences in Table 1."""
    counted = (
        sum(gains(domain=0, which=0, **point) >= 0 for point in GAINS),
        sum(gains(domain=1, which=0, **point) > 0 for point in GAINS),
    )
    yield from arithmetic(
        Printed(label, value, count, 0) for label, value, count in zip(("math", "OOD"), statement, counted, strict=True)
    )


@claim(
    "f-grpo:table-6-one-gamma",
    where="Section 5.5, with Appendix L.3, Table 6",
    says="No one gamma gives the gains of Section 5.5 in all nine combinations of method and model: at 0.5, the best "
    "of the three, math pass@1 is preserved in 7, math pass@256 improved in 8 and OOD pass@256 in 9.",
    refuted_by="other counts in Table 6",
    reading="The paper chooses gamma for each combination (Table 7) and does not say otherwise: what is fixed in its "
    "fixed reweighting that transfers the stored text has lost, and it may be the group size. gamma = 1 preserves math "
    "pass@1 in 4, gamma = 2 in 2.",
    statement=lambda counts: counts == {"0.5": (7, 8, 9), "1.0": (4, 9, 7), "2.0": (2, 9, 8)},
    inferred=True,
    planted={
        "one gamma for all": lambda counts: (9, 9, 9) in counts.values(),
        "all nine at 0.5 for pass@256": lambda counts: counts["0.5"][1:] == (9, 9),
        "pass@256 at 1": lambda counts: counts["1.0"][1:] == (9, 9),
    },
)
def one_gamma(statement):
    """For each gamma, count the combinations, of nine, in which each of the three averages is as claimed."""

    def counted(gammas):
        tally = {}
        for gamma in gammas:
            rows = [
                [by_model(TABLE_6[f"{method} {value}"], model) for value in ("0.0", gamma)] for model, method in SETUPS
            ]
            tally[gamma] = (
                sum(focal[0][0] >= plain[0][0] for plain, focal in rows),
                sum(focal[0][1] > plain[0][1] for plain, focal in rows),
                sum(focal[1][1] > plain[1][1] for plain, focal in rows),
            )
        return tally

    yield from satisfies(
        lambda value, **_: statement(value), [{"gammas": ("0.5", "1.0", "2.0")}], counted, method="arithmetic"
    )


@claim(
    "f-grpo:sec-1-preserves-pass-at-1",
    where="Section 1, last contribution",
    says="Focal weighting improves math and OOD pass@256 while preserving or improving pass@1.",
    refuted_by="a combination in Table 1 whose average pass@1, math or OOD, falls",
    reading="Both averages, since the sentence names math and OOD. Section 7 says 'in most reported settings', "
    "Section 5.5 '7/9' for OOD; only the introduction has no qualification. On the reading that pass@1 is math pass@1 "
    "it holds.",
    statement=lambda math, ood: math >= 0 and ood >= 0,
    condition=Amended("pass@1 is the math average", lambda math, ood: math >= 0),
    severity=COSMETIC,
    met="no: the sentence names math and OOD, and OOD pass@1 falls in 2 of 9 cases, as Section 5.5 says",
    planted={"improves always": lambda math, ood: math > 0 and ood > 0},
)
def preserves_pass_at_1(statement):
    """Differences in Table 1."""
    yield from satisfies(
        lambda value, **_: statement(*value),
        GAINS,
        lambda name: (gains(name, 0, 0), gains(name, 1, 0)),
        method="arithmetic",
        names=("gain in math", "in OOD"),
    )


@claim(
    "f-grpo:table-7",
    where="Appendix L.3, Tables 6 and 7",
    says="The gamma of each setup is the one of highest average math pass@1, and is always 0.5 or 1.",
    refuted_by="a setup whose chosen gamma is not the best of Table 6, or is 2",
    reading="Of 0.5, 1 and 2; gamma 0 is the baseline.",
    statement=TABLE_7,
    planted={"one setup": {"Qwen2.5-7B": {"GRPO": "1.0"}}},
)
def table_7(statement):
    """The best row of Table 6 for each setup."""

    def best(model, method):
        return max(("0.5", "1.0", "2.0"), key=lambda gamma: by_model(TABLE_6[f"{method} {gamma}"], model)[0][0])

    points = [{"model": model, "method": method} for model, chosen in statement.items() for method in chosen]
    yield from satisfies(
        lambda value, model, method: value == statement[model][method] and value in ("0.5", "1.0"),
        points,
        best,
        method="arithmetic",
    )


@claim(
    "f-grpo:app-l.3-larger-gamma",
    where="Appendix L.3",
    says="Larger gamma sometimes improves pass@256 further, but more often costs pass@1.",
    refuted_by="no further gain of math pass@256 in Table 6, or fewer losses of pass@1 than such gains",
    reading="Gammas above the chosen one.",
    caveat="That pass@1 falls in every case follows from the choice: the chosen gamma is the one of highest pass@1.",
    statement=lambda better, worse: better > 0 and worse > better,
    planted={"never improves": lambda better, worse: better == 0},
)
def larger_gamma(statement):
    """Count over Table 6."""

    def counts(gammas):
        better = worse = 0
        for model, method in SETUPS:
            chosen = TABLE_7[model][method]
            base = by_model(TABLE_6[f"{method} {chosen}"], model)[0]
            for gamma in gammas:
                if float(gamma) > float(chosen):
                    cell = by_model(TABLE_6[f"{method} {gamma}"], model)[0]
                    better, worse = better + (cell[1] > base[1]), worse + (cell[0] < base[0])
        return better, worse

    yield from satisfies(
        lambda value, **_: statement(*value), [{"gammas": ("0.5", "1.0", "2.0")}], counts, method="arithmetic"
    )
