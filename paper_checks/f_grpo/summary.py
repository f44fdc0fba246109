"""Findings about F-GRPO, in plain words."""

from paper_checks.summary import Sentence, Summary
from paper_checks.verdict import FAILS, HOLDS, HOLDS_IF

SUMMARY = Summary(
    findings=[
        Sentence(
            "F-GRPO with 8 rollouts matches GRPO with 32 on pass@256; GRPO with 2 has more, at the price of pass@1.",
            {
                "f-grpo:sec-5.4-matches-32": HOLDS,
                "f-grpo:sec-5.4-shape": HOLDS,
            },
        ),
        Sentence(
            "In the paper's simulation (one prompt, free logits, Adam) the focal weight keeps more rare answers "
            "after equal steps, and little or nothing more at equal correct mass.",
            {
                "f-grpo:fig-2-gamma": HOLDS,
                "f-grpo:fig-2-gamma-equal-mass": FAILS,
            },
        ),
        Sentence(
            "The nine gains are single runs, with gamma chosen for each by reported math pass@1; no one gamma gives "
            "all.",
            {
                "f-grpo:table-6-one-gamma": HOLDS,
                "f-grpo:sec-5.5-nine-of-nine": HOLDS,
                "f-grpo:table-7": HOLDS,
            },
        ),
        Sentence(
            "Lemma 3.1 is right; it does not say which group sizes lose mass, and in the maze, with one solution a "
            "prompt, its probability is 0.",
            {
                "f-grpo:lemma-3.1": HOLDS,
                "f-grpo:sec-5.2-separates": HOLDS,
                "f-grpo:sec-5.1-lemma-locates-zone": FAILS,
            },
        ),
        Sentence(
            "Figure 2 can be reproduced with Adam and importance ratios, our reading of a text without its formulas;"
            " there unsampled actions move by normalisation alone, unlike in Proposition 3.2.",
            {
                "f-grpo:fig-2": HOLDS_IF,
                "f-grpo:prop-3.2": HOLDS,
                "f-grpo:sec-5.1-direct-drift": FAILS,
                "f-grpo:sec-2.3-unbiased": FAILS,
            },
        ),
    ],
    stands=[
        Sentence(
            "The mathematics, in formulas restored by us; Figure 2's three regimes; the tables' arithmetic.",
            {
                "f-grpo:lemma-3.1": HOLDS,
                "f-grpo:eq-17": HOLDS,
                "f-grpo:prop-3.2": HOLDS,
                "f-grpo:lemma-h.1": HOLDS,
                "f-grpo:cor-h.2": HOLDS,
                "f-grpo:app-n": HOLDS,
                "f-grpo:tables-averages": HOLDS,
                "f-grpo:sec-5.6-order": HOLDS,
                "f-grpo:fig-2": HOLDS_IF,
            },
        ),
    ],
)
