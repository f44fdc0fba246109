"""Findings about CaSP, in plain words."""

from paper_checks.summary import Sentence, Summary
from paper_checks.verdict import FAILS, HOLDS, HOLDS_IF, IDENTITY, SLIP

SUMMARY = Summary(
    findings=[
        Sentence(
            "The likeliest token grows if it succeeds more often than the others, not because it is sampled most.",
            {
                "casp:observation-1-gap": HOLDS_IF,
                "casp:section-3-both-signs": HOLDS_IF,
                "casp:section-3.3-psr-nsr": FAILS,
            },
        ),
        Sentence(
            "In the toy example (groups of 16 or 64) an entropy bonus of .5 also keeps six modes at accuracy 1.00; "
            "CaSP, of the settings tried, at N = 4 and alpha .5.",
            {
                "casp:figure-5-entropy": FAILS,
                "casp:figure-5-casp": HOLDS_IF,
            },
        ),
        Sentence(
            "Smoothing evens out top candidates of nearly equal success; elsewhere it keeps a floor of alpha/N, "
            ".0033 in mathematics.",
            {
                "casp:figure-4-plateau": HOLDS_IF,
                "casp:eq-4-floor": HOLDS_IF,
            },
        ),
        Sentence(
            "Table 1 compares single runs; what reads as one model differs by up to 2.5 points between tables.",
            {
                "casp:section-5.2-outperforms": HOLDS_IF,
                "casp:table-1-repeats": FAILS,
                "casp:table-1-averages": SLIP,
            },
        ),
        Sentence(
            "Fewer distinct tokens need not mean a lower pass@K: where the likeliest token is correct, concentration"
            " raises it.",
            {
                "casp:section-1-explains": HOLDS_IF,
                "casp:abstract-responses": HOLDS_IF,
            },
        ),
    ],
    stands=[
        Sentence(
            "The derivation, and Proposition 3 as a count of tokens; as printed, CaSP is above GRPO on average at "
            "every temperature and K.",
            {
                "casp:eq-4-ratio": IDENTITY,
                "casp:figure-10-update": HOLDS,
                "casp:lemma-2-rank-1": HOLDS,
                "casp:prop-3": HOLDS,
                "casp:eq-5": HOLDS,
                "casp:app-f.2": HOLDS,
                "casp:app-f.1": HOLDS,
            },
        ),
    ],
)
