"""Claims about order and shape in the printed tables: across K, temperatures and hyper-parameters."""

from itertools import pairwise

from paper_checks.casp.printed import ABLATIONS, CURVES, LLAMA_3B, MATH_7B, TEMPERATURES
from paper_checks.casp.tables import average
from paper_checks.claim import CHANGES, Amended, claim
from paper_checks.evidence import Printed, arithmetic, grid, satisfies

DATA = ["Synlogic", "AIME24", "AIME25", "BBH"]


@claim(
    "casp:abstract-full-spectrum",
    where="Abstract; Sections 1 and 5; Tables 2 and 7",
    says="CaSP improves pass@K over GRPO across the full spectrum of K.",
    refuted_by="a data set and K at which CaSP's printed pass@K is not above GRPO's",
    reading="The reference is GRPO, as in Figure 2, which the sentence of Section 1 cites; the abstract names none.",
    statement=lambda lead, data, reference, doublings: lead > 0 if reference == "GRPO" and lead is not None else None,
    planted={
        "below": lambda lead, data, reference, doublings: None if lead is None else lead < 0,
        "over the base model too": lambda lead, data, reference, doublings: None if lead is None else lead > 0,
    },
    caveat="On BBH the base model is ahead of CaSP from K = 8 on, which Section 5.3 calls a small decrease at 128.",
)
def full_spectrum(statement):
    """Subtract printed scores."""

    def lead(data, reference, doublings):
        ours, theirs = CURVES[data, "CaSP"], CURVES[data, reference]
        return ours[doublings] - theirs[doublings] if doublings < len(ours) else None

    yield from satisfies(
        statement, grid(data=DATA, reference=["GRPO", "Base"], doublings=range(11)), lead, method="arithmetic"
    )


ALPHAS = {
    "0": "GRPO",
    "0.01": "CaSP",
    "0.02": "alpha 0.02",
    "0.03": "alpha 0.03",
    "0.05": "alpha 0.05",
    "0.1": "alpha 0.1",
}


@claim(
    "casp:section-5.4-alpha",
    where="Section 5.4; Table 4; Figure 6",
    says="Increasing alpha improves pass@256 monotonically.",
    refuted_by="two neighbouring values of alpha of which the larger has the smaller printed pass@256",
    reading="Averages of Table 4 with GRPO as alpha = 0, as the section says: 76.1, 80.5, 79.7, 79.4, 80.4, 80.4. On "
    "the reading that each alpha above 0 is better than GRPO it would hold. But alpha = 0 with lambda 1.1 is the row "
    "without gamma+, 79.9, which alpha .02 and .03 do not reach.",
    statement=lambda scores: all(later >= earlier for earlier, later in pairwise(scores)),
    correction=Amended(
        "every alpha above 0 has 3.3 to 4.4 points more than GRPO, the smallest the most",
        lambda scores: min(scores[1:]) - scores[0] > 3.2 and max(scores) == scores[1],
    ),
    planted={"falls": lambda scores: list(scores) == sorted(scores, reverse=True)},
    severity=CHANGES,
)
def alpha_pass_256(statement):
    """The printed averages in order of alpha."""
    yield from satisfies(
        lambda scores, metric: statement(scores),
        [{"metric": "pass@256"}],
        lambda metric: tuple(average(ABLATIONS, row, 1) for row in ALPHAS.values()),
        method="arithmetic",
        names="pass@256 as alpha grows",
    )


@claim(
    "casp:section-5.4-figures",
    where="Section 5.4",
    says="The figures quoted in the ablations are those of Table 4.",
    refuted_by="a quoted number that the printed table does not give",
    reading="Gains over GRPO by alpha from 3.3 to 4.4; the pass@1 drop of 9.3 at tau_0 is from CaSP, not from GRPO "
    "(7.6); N from 1 to 5 spans 79.1 to 80.5 and 42.6 to 43.4.",
    statement=(3.3, 4.4, 9.3, 79.1, 80.5, 42.6, 43.4),
    planted={"from GRPO": (3.3, 4.4, 7.6, 79.1, 80.5, 42.6, 43.4)},
)
def quoted_in_ablations(statement):
    """Differences, minima and maxima of printed averages."""
    gains = [average(ABLATIONS, row, 1) - average(ABLATIONS, "GRPO", 1) for row in list(ALPHAS.values())[1:]]
    candidates = [[average(ABLATIONS, row, end) for row in CANDIDATES] for end in (1, 0)]
    computed = [min(gains), max(gains), average(ABLATIONS, "CaSP", 0) - average(ABLATIONS, "tau 0", 0)]
    computed += [bound(scores) for scores in candidates for bound in (min, max)]
    yield from arithmetic(
        Printed(f"figure {index + 1}", value, figure, 1e-6)
        for index, (value, figure) in enumerate(zip(statement, computed, strict=True))
    )


GATES = {"0": "tau 0", "0.4": "tau 0.4", "0.6": "tau 0.6", "0.8": "CaSP"}


@claim(
    "casp:section-5.4-tau",
    where="Section 5.4; Table 4",
    says="CaSP has a larger pass@256 than GRPO at most thresholds tau_q.",
    refuted_by="a printed pass@256 at or below GRPO's for half of the thresholds or more",
    reading="Averages of Table 4 at q = 0, .4 and .6, and CaSP's own .8. Of pass@1 it would fail: GRPO's 41.7 is "
    "passed at .8 alone.",
    statement=lambda leads, metric: sum(lead > 0 for lead in leads) > len(leads) / 2 if metric == "pass@256" else None,
    planted={
        "on pass@1 too": lambda leads, metric: sum(lead > 0 for lead in leads) > len(leads) / 2,
        "by two points each": lambda leads, metric: min(leads) > 2 if metric == "pass@256" else None,
    },
    caveat="On pass@1 only q = .8 is above GRPO; at 0 it loses 7.6 points.",
)
def thresholds(statement):
    """Subtract GRPO's printed averages, by threshold."""
    yield from satisfies(
        statement,
        grid(metric=["pass@256", "pass@1"]),
        lambda metric: tuple(
            average(ABLATIONS, row, int(metric == "pass@256")) - average(ABLATIONS, "GRPO", int(metric == "pass@256"))
            for row in GATES.values()
        ),
        method="arithmetic",
    )


CANDIDATES = ("N 1", "N 2", "CaSP", "N 4", "N 5")


@claim(
    "casp:section-5.4-n",
    where="Section 5.4; Table 4",
    says="As N grows pass@256 and pass@1 first rise, then fall, and are above GRPO's.",
    refuted_by="a printed average that breaks the order, or lies at or below GRPO's",
    reading="Averages of Table 4; N = 1 moves mass to rank 1 and N = 2 to ranks 1 and 2. Ties count as either.",
    statement=lambda scores, end: is_hill(scores) and min(scores) > average(ABLATIONS, "GRPO", end),
    planted={"rises throughout": lambda scores, end: list(scores) == sorted(scores)},
)
def rise_and_fall(statement):
    """The printed averages in order of N."""
    yield from satisfies(
        statement,
        grid(end=[1, 0]),
        lambda end: tuple(average(ABLATIONS, row, end) for row in CANDIDATES),
        method="arithmetic",
    )


def is_hill(scores):
    """Check that scores rise to a maximum, then fall."""
    top = scores.index(max(scores))
    return list(scores[: top + 1]) == sorted(scores[: top + 1]) and list(scores[top:]) == sorted(
        scores[top:], reverse=True
    )


@claim(
    "casp:app-f.1",
    where="Appendix F.1; Table 4",
    says="Each of the two designs alone has a smaller pass@256 than both together.",
    refuted_by="one of the two rows with a printed average at or above CaSP's",
    reading="Averages; 'without gamma-' has the larger loss, 1.6 points, 'without gamma+' 0.6. So the rank-1 penalty "
    "alone brings 3.8 of the 4.4 points over GRPO, smoothing alone 2.8. On pass@1 the two are equal as printed "
    "(casp:table-4-averages).",
    statement=lambda loss, row: loss > 0,
    planted={"gain": lambda loss, row: loss < 0},
)
def both_designs(statement):
    """Subtract printed averages."""
    yield from satisfies(
        statement,
        grid(row=["without gamma-", "without gamma+"]),
        lambda row: average(ABLATIONS, "CaSP", 1) - average(ABLATIONS, row, 1),
        method="arithmetic",
    )


@claim(
    "casp:app-f.2",
    where="Appendix F.2; Table 5",
    says="At every temperature CaSP is above GRPO on both pass@1 and pass@256.",
    refuted_by="a temperature at which a printed average of CaSP is not above GRPO's",
    reading="Averages over the benchmarks. Benchmark by benchmark it would fail.",
    statement=lambda lead, temperature, end: lead > 0,
    planted={"below": lambda lead, temperature, end: lead < 0},
    caveat="On averages. On AMC23 at temperature 0.2 CaSP's pass@1 is 0.1 below GRPO's.",
)
def temperatures(statement):
    """Subtract printed averages."""
    yield from satisfies(
        statement,
        grid(temperature=["0.2", "0.4", "0.6", "0.8", "1.0"], end=[0, 1]),
        lambda temperature, end: (
            average(TEMPERATURES, f"CaSP {temperature}", end) - average(TEMPERATURES, f"GRPO {temperature}", end)
        ),
        method="arithmetic",
    )


@claim(
    "casp:app-f.4",
    where="Appendix F.4; Table 7",
    says="At K = 1024 the base model surpasses GRPO, and CaSP the base model.",
    refuted_by="a data set on which the printed order is another",
    reading="AIME24 and AIME25, as printed. Whether CaSP's improvement is 'large' is not judged.",
    statement=lambda scores, data: scores[0] < scores[1] < scores[2],
    planted={"the base model last": lambda scores, data: scores[1] < scores[0]},
    caveat="CaSP leads the base model by 4.8 and 3.4 points, on 30 problems each.",
)
def thousand_samples(statement):
    """The printed scores at the largest K."""
    yield from satisfies(
        statement,
        grid(data=["AIME24", "AIME25"]),
        lambda data: tuple(CURVES[data, method][-1] for method in ("GRPO", "Base", "CaSP")),
        method="arithmetic",
    )


@claim(
    "casp:app-c-2-nsr",
    where="Appendix C.2; Section 5.2",
    says="Negative-only training has a larger pass@K than GRPO and a smaller pass@1.",
    refuted_by="a backbone with the other order of printed averages",
    reading="Compared with GRPO, as in Section 5.2. NSR is the only negative-only row; W-REINFORCE on Llama has the "
    "smaller pass@256. Beside the base model it would fail.",
    statement=lambda change, model: change[0] < 0 < change[1],
    planted={"the other way": lambda change, model: change[1] < 0 < change[0]},
    caveat="Beside the base model, NSR's pass@1 is larger by 13.7 and 8.3 points.",
)
def negative_only(statement):
    """Subtract printed averages."""
    models = {"Math-7B": MATH_7B, "Llama": LLAMA_3B}
    yield from satisfies(
        statement,
        grid(model=list(models)),
        lambda model: tuple(
            round(average(models[model], "NSR", end) - average(models[model], "GRPO", end), 6) for end in (0, 1)
        ),
        method="arithmetic",
    )
