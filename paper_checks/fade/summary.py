"""Findings about FADE, in plain words."""

from paper_checks.summary import Sentence, Summary
from paper_checks.verdict import FAILS, HOLDS_IF, IDENTITY, SLIP, UNDECIDED

SUMMARY = Summary(
    findings=[
        Sentence(
            "More weight on successes than failures gives entropy no drift to first order: a constant added to all "
            "weights changes Equation 7's drift, not the expected update.",
            {
                "fade:eq-24": FAILS,
                "fade:thm-13.1": FAILS,
                "fade:eq-7": FAILS,
                "fade:sec-4-1-drift": FAILS,
            },
        ),
        Sentence(
            "At one prompt and learning rate delta below 1 loses entropy faster, above 1 more slowly, as Appendix "
            "8.2 says and Section 4.1 does not.",
            {
                "fade:sec-4-1-delta-below": FAILS,
                "fade:sec-4-1-delta-above": FAILS,
                "fade:app-8-2-diversity": HOLDS_IF,
            },
        ),
        Sentence(
            "Equation 10's update quality cannot choose a weight: it grows fourfold when all weights are halved.",
            {
                "fade:eq-10": FAILS,
                "fade:eq-10-argmax": FAILS,
                "fade:sec-4-3-enrichment": FAILS,
            },
        ),
        Sentence(
            "Rank-1 collapse is measured, not explained: uncorrelated hidden states do not suffice, and Proposition "
            "15.1 is about the output head alone.",
            {
                "fade:sec-4-2-uncorrelated": HOLDS_IF,
                "fade:app-15-decorrelated": FAILS,
                "fade:sec-15-2-last-layers": FAILS,
            },
        ),
        Sentence(
            "With beta = .02 the moving average is nearly the newest batch, and Algorithm 1 lacks Power-alpha's "
            "constant.",
            {
                "fade:alg-2-ema": SLIP,
                "fade:alg-2-masses": HOLDS_IF,
                "fade:app-14-peak-in-algorithm-1": FAILS,
            },
        ),
    ],
    stands=[
        Sentence(
            "The two masses, most of Appendix 8, and Power-alpha as a focus on hard prompts. FADE's speed cannot be "
            "decided here; on a bank of separate prompts, with plain steps, it was behind the best static weight.",
            {
                "fade:eq-2": IDENTITY,
                "fade:power-alpha": IDENTITY,
                "fade:any-advantage": HOLDS_IF,
                "fade:sec-4-3-mode": IDENTITY,
                "fade:fig-1": UNDECIDED,
                "fade:tables-3-to-6": UNDECIDED,
            },
        ),
    ],
)
