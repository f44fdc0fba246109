"""Tables 1 to 7: their arithmetic, the figures quoted from them, and numbers printed twice."""

from math import sqrt

from paper_checks.casp.printed import (
    ABLATIONS,
    CODE,
    COLUMNS,
    CURVES,
    LLAMA_3B,
    MATH_7B,
    QWEN_32B,
    SHARES,
    TEMPERATURES,
    edited,
)
from paper_checks.claim import CONDITIONS, COSMETIC, Amended, claim
from paper_checks.evidence import Printed, arithmetic, grid, satisfies

ROUNDING = 0.05  # of a number printed with one decimal
TABLE_1 = {"Math-7B": MATH_7B, "32B": QWEN_32B, "Llama": LLAMA_3B}
METRICS = ("pass@1", "pass@K")
PROBLEMS = {"AIME24": 30, "AIME25": 30, "AMC23": 40, "MATH500": 500, "Minerva": 272, "Olympiad": 675}
SAMPLES = {name: 300 if name.startswith(("AIME", "AMC")) else 256 for name in PROBLEMS}  # Appendix E.2


def averages(tables):
    """Each row's average beside its six entries'."""
    yield from arithmetic(
        Printed(f"{label} {name} {metric}", pairs[-1][end], sum(pair[end] for pair in pairs[:-1]) / 6, 2 * ROUNDING)
        for label, table in tables.items()
        for name, pairs in table.items()
        if name != "difference"
        for end, metric in enumerate(METRICS)
    )


def enter_averages(number, tables, *, where, finding, **amended):
    """The claim that a table's averages are those of its rows."""
    wrong = {label: edited(table, next(iter(table)), "Avg.", (1.0, 1.0)) for label, table in tables.items()}
    claim(
        f"casp:table-{number}-averages",
        where=f"{where}, Table {number}",
        says=f"The averages of Table {number} are the means of the six benchmarks.",
        refuted_by="an average off by more than rounding (0.05 of the entries and 0.05 of itself) can explain",
        reading=f"Unweighted means, as nearly all rows confirm; a mean weighted by problems fits none. {finding}",
        statement=tables,
        planted={"a wrong average": wrong},
        **amended,
    )(averages)


enter_averages(
    1,  # [casp:table-1-averages]
    TABLE_1,
    where="Section 5.2",
    finding="Llama GRPO's pass@1 entries average 22.8, not 23.3; the six differences average 1.2, not the printed 0.7. "
    "If an entry is wrong instead, the gain may be 0.7.",
    slip=Amended(
        "Llama GRPO averages 22.8 at pass@1, so that CaSP gains 1.2",
        TABLE_1 | {"Llama": edited(LLAMA_3B, "GRPO", "Avg.", (22.8, 69.5))},
    ),
)
enter_averages(
    4,  # [casp:table-4-averages]
    {"ablation": ABLATIONS},
    where="Appendix F.1",
    finding="Without gamma- the pass@1 entries average 42.65, not 42.8.",
    slip=Amended(
        "42.7 without gamma-",
        {"ablation": edited(ABLATIONS, "without gamma-", "Avg.", (42.7, 78.9))},
    ),
)
enter_averages(
    5,  # [casp:table-5-averages]
    {"temperature": TEMPERATURES},
    where="Appendix F.2",
    finding="The base model's AIME24 at 0.8, 26.2 / 75.5, is GRPO's at 1.0 over again; its averages imply 11.1 / 65.5.",
    slip=Amended(
        "11.1 / 65.5 for the base model's AIME24 at 0.8, and an average of 76.5 for GRPO's pass@256 at 1.0",
        {
            "temperature": edited(
                edited(TEMPERATURES, "Base Model 0.8", "AIME24", (11.1, 65.5)), "GRPO 1.0", "Avg.", (41.3, 76.5)
            )
        },
    ),
)
enter_averages(6, {"shares": SHARES}, where="Appendix F.3", finding="All four rows agree.")  # [casp:table-6-averages]


@claim(
    "casp:table-1-differences",
    where="Section 5.2; Table 1, rows Delta(CaSP - GRPO)",
    says="The rows of differences are CaSP's entries less GRPO's.",
    refuted_by="a difference that is not that of the printed entries",
    reading="For Qwen2.5-32B CaSP is the row with alpha .05. The Llama average of +0.7 is the difference of the "
    "printed averages, one of which is wrong (casp:table-1-averages).",
    statement=TABLE_1,
    planted={"a gain too many": TABLE_1 | {"Llama": edited(LLAMA_3B, "difference", "AIME24", (1.1, 0.5))}},
)
def differences(statement):
    """Subtract the printed rows."""
    yield from arithmetic(
        Printed(f"{label} {COLUMNS[column]} {METRICS[end]}", pair[end], best[end] - base[end], 1e-6)
        for label, table in statement.items()
        for best_row in [table.get("CaSP") or table["CaSP (alpha 0.05)"]]
        for column, (pair, best, base) in enumerate(zip(table["difference"], best_row, table["GRPO"], strict=True))
        for end in (0, 1)
    )


def sampling_slack(first, second, column, samples):
    """Four standard errors of the difference of two pass@1 of one model, problems fixed, and rounding."""
    rate = (first + second) / 200
    variance = rate * (1 - rate) / PROBLEMS[column]  # the largest for rollouts of problems of this mean
    return 400 * sqrt(variance * (1 / SAMPLES[column] + 1 / samples)) + 2 * ROUNDING


@claim(
    "casp:table-1-repeats",
    where="Section 5.2; Table 1 beside Table 5 (temperature 0.6) and Table 7 (K = 1)",
    says="Up to sampling, a model's pass@1 at one temperature is the same in Tables 1, 5 and 7.",
    refuted_by="two printed pass@1 that differ by more than four standard errors of the sampling",
    reading="Evaluation at temperature 0.6 and top-p 0.95 with the sample sizes of Appendix E.2, at least 1024 for "
    "Table 7; the standard error is the largest possible one. The base model's "
    "row is one in Tables 1 and 5. At pass@256 CaSP's AIME24 is 78.0, 84.0 and 76.5.",
    statement=(MATH_7B, TEMPERATURES, CURVES),
    planted={"base apart": (edited(MATH_7B, "Base Model", "AIME24", (19.0, 66.0)), TEMPERATURES, CURVES)},
    inferred=True,
    severity=CONDITIONS,
    caveat="Tables 5 and 7 may show other training runs, but the paper does not say so.",
)
def repeats(statement):
    """Compare pass@1, with the slack of sampling."""
    first, temperatures, curves = statement
    models = ("Base Model", "GRPO", "CaSP")
    table_5 = [
        Printed(
            f"{model} {column}, Table 5",
            temperatures[f"{model} 0.6"][index][0],
            first[model][index][0],
            sampling_slack(temperatures[f"{model} 0.6"][index][0], first[model][index][0], column, SAMPLES[column]),
        )
        for model in models
        for index, column in enumerate(PROBLEMS)
    ]
    table_7 = [
        Printed(
            f"{model} {column}, Table 7",
            curves[column, model.removesuffix(" Model")][0],
            first[model][index][0],
            sampling_slack(curves[column, model.removesuffix(" Model")][0], first[model][index][0], column, 1024),
        )
        for model in models
        for index, column in enumerate(("AIME24", "AIME25"))
    ]
    yield from arithmetic(table_5 + table_7)


@claim(
    "casp:app-e-2-resolution",
    where="Appendix E.2, with Tables 1, 4, 5 and 6",
    says="With n = 256 samples pass@256 is the share of problems solved at all, a multiple of one problem.",
    refuted_by="a printed pass@256 of MATH500, Minerva or OlympiadBench that no number of problems rounds to",
    reading="500, 272 and 675 problems; for n = K the unbiased estimator is 'any solved', with no averaging. AIME "
    "and AMC have n = 300 and are left out. The test has power: an arbitrary decimal of MATH500 would fail half the "
    "time.",
    statement={"1": MATH_7B, "4": ABLATIONS, "5": TEMPERATURES, "6": SHARES},
    planted={"half a problem": {"1": edited(MATH_7B, "CaSP", "MATH500", (77.6, 96.7))}},
    inferred=True,
)
def resolution(statement):
    """The nearest share of a whole number of problems."""

    def nearest(value, column):
        return 100 * round(value / 100 * PROBLEMS[column]) / PROBLEMS[column]

    yield from arithmetic(
        Printed(f"Table {label}, {name}, {column}", pair[1], nearest(pair[1], column), ROUNDING)
        for label, table in statement.items()
        for name, pairs in table.items()
        if name != "difference"
        for column in ("MATH500", "Minerva", "Olympiad")
        for pair in [pairs[COLUMNS.index(column)]]
    )


def average(table, name, end):
    """The printed average of a row."""
    return table[name][-1][end]


@claim(
    "casp:section-5.2-figures",
    where="Section 5.2",
    says="The gains quoted in Section 5.2 are those of Table 1.",
    refuted_by="a quoted number that the printed table does not give",
    reading="Differences of printed averages, in points, which the text calls percent. The gain over GRPO at pass@1 on "
    "Llama is not quoted; it would inherit the wrong average.",
    statement={
        "7B base pass@1": 17.6, "7B base pass@256": 4.1, "Llama base pass@1": 9.8, "Llama base pass@256": 1.9,
        "32B base pass@1": 19.6, "32B base pass@128": 0.6, "7B GRPO pass@256": 4.4, "Llama GRPO pass@256": 1.3,
        "32B GRPO pass@128": 4.9,
    },
    planted={"the alpha .01 row": {"32B base pass@1": 18.7}},
)  # fmt: skip
def quoted_in_math(statement):
    """Subtract printed averages."""
    tables = {"7B": (MATH_7B, "CaSP"), "Llama": (LLAMA_3B, "CaSP"), "32B": (QWEN_32B, "CaSP (alpha 0.05)")}

    def gain(label):
        model, reference, metric = label.split()
        table, best = tables[model]
        end = int(metric != "pass@1")
        return average(table, best, end) - average(table, "Base Model" if reference == "base" else "GRPO", end)

    yield from arithmetic(Printed(label, value, gain(label), 1e-6) for label, value in statement.items())


@claim(
    "casp:section-5.2-pass-256",
    where="Section 5.2",
    says="Neither Entropy-Adv nor training on forking tokens improves pass@256 over GRPO.",
    refuted_by="one of them having a larger printed average than GRPO's 76.1",
    reading="Printed averages on Qwen2.5-Math-7B. On the reading that 0.7 points are no improvement, it would hold; "
    "but the text counts 0.6 (32B against the base model) as one.",
    statement=lambda gains, method: gains <= 1e-9,
    correction=Amended(
        "Entropy-Adv does not (76.1); forking tokens improve it by 0.7 (76.8)",
        lambda gains, method: gains <= 1e-9 if method == "Entropy-Adv" else abs(gains - 0.7) < 1e-6,
    ),
    planted={"both do": lambda gains, method: gains > 1e-9},
    severity=COSMETIC,
)
def no_gain(statement):
    """Subtract GRPO's printed average."""
    yield from satisfies(
        statement,
        grid(method=["forking tokens", "Entropy-Adv"]),
        lambda method: average(MATH_7B, f"GRPO w/ {method}", 1) - average(MATH_7B, "GRPO", 1),
        method="arithmetic",
    )


NAMED = ("GRPO", "KL-Cov", "GRPO w/ Entropy-Adv", "GRPO w/ forking tokens", "P@k T.")


def best_row(model):
    """CaSP's row from which the text takes a model's gains."""
    return "CaSP (alpha 0.05)" if model == "32B" else "CaSP"


def lead_over(model, method, column, place):
    """CaSP's printed score less a method's; None if the method was not run on the model."""
    table, index = TABLE_1[model], COLUMNS.index(column)
    if method not in table:
        return None
    return table[best_row(model)][index][place] - table[method][index][place]


def is_average(column):
    """Tell if a column holds averages over benchmarks."""
    return column == "Avg."


@claim(
    "casp:section-5.2-outperforms",
    where="Section 5.2; Table 1",
    says="CaSP consistently outperforms GRPO, KL-Cov, Entropy-Adv, forking tokens and P@k T. across all backbones and "
    "K.",
    refuted_by="a backbone, baseline, benchmark and metric of Table 1 at which CaSP's printed score is not the larger, "
    "or at which the baseline has none",
    reading="The four methods named beside GRPO were run on Qwen2.5-Math-7B alone. There KL-Cov has 81.2 on AIME24 at "
    "pass@256 and CaSP 78.0. On the reading that averages are meant, over the runs that there are, it would hold.",
    statement=lambda lead, model, method, column, place: lead is not None and lead > 0,
    condition=Amended(
        "averages over the six benchmarks, and for the methods beside GRPO one backbone, Qwen2.5-Math-7B",
        lambda lead, model, method, column, place: lead > 0 if is_average(column) and lead is not None else None,
    ),
    met="partly: the text quotes averages, but says 'across all backbones'",
    planted={
        "by a point": lambda lead, model, method, column, place: lead > 1 if lead is not None else None,
        "on each benchmark where it was run": lambda lead, model, method, column, place: (
            lead > 0 if lead is not None else None
        ),
    },
    caveat="One training run a method. The lead over all rows of the table is as small as .2 at pass@256 (NSR).",
)
def outperforms(statement):
    """Subtract printed scores."""
    yield from satisfies(
        statement,
        grid(model=list(TABLE_1), method=NAMED, column=COLUMNS[::-1], place=(0, 1)),
        lead_over,
        method="arithmetic",
    )


# In points: "KL-Cov slightly improves pass@1 over GRPO (42.5% vs. 41.7%)".
SLIGHT = average(MATH_7B, "KL-Cov", 0) - average(MATH_7B, "GRPO", 0)


@claim(
    "casp:section-5.2-much-lower",
    where="Section 5.2; Table 1",
    says="NSR and W-REINFORCE keep a strong pass@256, often at the expense of a much lower pass@1.",
    refuted_by="a much lower pass@1 with a pass@256 above GRPO's in less than half of the four printed cases",
    reading="Pass@1 beside CaSP's, as the next sentences compare, 'much' being more than the 0.8 points that the "
    "section calls slight: 1.5 to 3.9 points in all four cases. 'Strong' is above GRPO's: in three of four, "
    "W-REINFORCE on Llama being below.",
    caveat="Beside GRPO pass@1 is much lower in one case (NSR on Qwen2.5-Math-7B, 2.2 points), .8 and .9 lower in two, "
    "and .2 in one.",
    statement=lambda cases: 2 * sum(loss > SLIGHT + 1e-6 and lead > 0 for loss, lead in cases) >= len(cases),
    planted={
        "always": lambda cases: all(loss > SLIGHT + 1e-6 and lead > 0 for loss, lead in cases),
        "at the expense of pass@256": lambda cases: 2 * sum(lead < 0 for _, lead in cases) >= len(cases),
    },
)
def price_of_exploration(statement):
    """Loss of pass@1 to CaSP and lead in pass@256 over GRPO, on printed averages."""

    def cases(models):
        listed = grid(method=["W-REINFORCE", "NSR"], model=models)
        return [
            (
                average(TABLE_1[case["model"]], "CaSP", 0) - average(TABLE_1[case["model"]], case["method"], 0),
                average(TABLE_1[case["model"]], case["method"], 1) - average(TABLE_1[case["model"]], "GRPO", 1),
            )
            for case in listed
        ]

    yield from satisfies(
        lambda pairs, models: statement(pairs), [{"models": ("Math-7B", "Llama")}], cases, method="arithmetic"
    )


@claim(
    "casp:app-e-1-alpha",
    where="Appendix E.1, Mathematics; Table 1",
    says="CaSP's gains in mathematics are those of alpha = .01.",
    refuted_by="a model whose printed gains over GRPO are not those of its row with alpha .01",
    reading="Appendix E.1 sets alpha to .01 for the mathematics tasks. On Qwen2.5-32B Table 1 prints rows for .01 and "
    ".05, and the row of differences and the text take .05: 2.5 and 4.9 points over GRPO, where .01 has 1.6 and 4.6.",
    statement=lambda model: {"32B": "CaSP (alpha 0.01)"}.get(model, "CaSP"),
    condition=Amended("Qwen2.5-32B is left out, where alpha is .05", lambda model: None if model == "32B" else "CaSP"),
    inferred=True,
    severity=COSMETIC,
    met="partly: true of two of the three models",
    planted={"the other way": lambda model: {"32B": "CaSP (alpha 0.05)"}.get(model, "Base Model")},
    caveat="Both rows are printed. The better of two settings on the test benchmarks is the one that is quoted.",
)
def one_alpha(statement):
    """Put the row of differences beside the stated row less GRPO's."""
    yield from arithmetic(
        Printed(
            f"{model} average {METRICS[end]}",
            average(table, "difference", end),
            average(table, row, end) - average(table, "GRPO", end),
            1e-6,
        )
        for model, table in TABLE_1.items()
        for row in [statement(model)]
        if row is not None
        for end in (0, 1)
    )


@claim(
    "casp:section-5.3-figures",
    where="Section 5.3",
    says="The gains and losses quoted in Section 5.3 are those of Tables 2 and 3.",
    refuted_by="a quoted number that the printed tables do not give",
    reading="Differences in points. For code the text says pass@1 where Table 3 has Avg@16, its estimate.",
    statement=(31.5, 26.4, 6.5, 11.5, 16.0, -2.1, -7.4, -11.4, 5.17, 7.17, 2.1, 1.07),
    planted={"one digit": (31.5, 26.4, 6.5, 11.5, 16.0, -2.1, -7.4, -11.4, 5.17, 7.17, 2.1, 1.7)},
)
def quoted_in_logic_and_code(statement):
    """Subtract printed scores, in the order in which the text quotes them."""

    def curve(data, model, base, end):
        return CURVES[data, model][end] - CURVES[data, base][end]

    computed = (
        curve("Synlogic", "CaSP", "Base", 0),
        curve("Synlogic", "CaSP", "Base", -1),
        curve("Synlogic", "CaSP", "GRPO", -1),
        curve("Synlogic", "CaSP", "PSR", -1),
        curve("BBH", "CaSP", "Base", 0),
        *(curve("BBH", method, "Base", -1) for method in ("CaSP", "GRPO", "PSR")),
        *(CODE["CaSP"][end] - CODE[reference][end] for reference in ("Base", "GRPO") for end in (0, 1)),
    )
    yield from arithmetic(
        Printed(f"figure {index + 1}", value, figure, 1e-6)
        for index, (value, figure) in enumerate(zip(statement, computed, strict=True))
    )
