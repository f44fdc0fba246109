"""What a reader of CW-GRPO should know, in plain words."""

from paper_checks.summary import Sentence, Summary

SUMMARY = Summary(
    findings=[
        Sentence(
            "The average gain rests on a few problems. AMC23 alone gives 2.0 of the 2.7 points at 1.5B (four "
            "problems) and 1.5 of the 2.5 at 7B (three). If every problem counts once, CW-GRPO is 2.2 and 1.3 points "
            "ahead of GRPO; no seeds and no spread are printed.",
            {
                "cw-grpo:gain-from-amc23": "fails",
                "cw-grpo:pooled-gains": "fails",
                "cw-grpo:accuracy-gain": "not decidable here",
            },
        ),
        Sentence(
            "The gain is not on every benchmark: GRPO is ahead on AIME24 at 1.5B and on Minerva at 7B.",
            {"cw-grpo:all-benchmarks": "fails"},
        ),
        Sentence(
            "The identity behind the method, that a token's covariance drives entropy, is exact for the natural "
            "gradient. GRPO follows the plain gradient, where a rare token counts only in proportion to its "
            "probability: an extreme covariance then has no extreme effect on entropy.",
            {
                "cw-grpo:entropy-covariance": "holds",
                "cw-grpo:entropy-covariance-in-grpo": "holds if",
                "cw-grpo:token-term": "holds if",
            },
        ),
        Sentence(
            "The kernel damps an unlikely success as much as an unlikely failure. The signal of rare correct answers "
            "shrinks, and the entropy of a small policy can change faster with the kernel than without it.",
            {"cw-grpo:rare-success": "holds if", "cw-grpo:entropy-stability": "fails"},
        ),
        Sentence(
            "Normalising the weights does not keep the loss what it was, since the weights depend on the advantages. "
            "A group's advantages then no longer sum to zero, and answers that nobody sampled move.",
            {"cw-grpo:expected-loss": "fails", "cw-grpo:unsampled-logits": "fails"},
        ),
    ],
    stands=[
        Sentence(
            "The method does what it says to outliers: the token of largest covariance loses share, and no scale has "
            "to be set. By Table 1 the largest 1 % of the covariances of either sign make up more than three times "
            "their share.",
            {
                "cw-grpo:kernel-outliers": "holds",
                "cw-grpo:kernel-adaptive": "holds",
                "cw-grpo:table-1-dominance": "holds",
            },
        ),
        Sentence(
            "The averages of Table 2 are right. Two gains are misprinted, both to the method's disadvantage: the 7B "
            "gain over the base model is +5.3, not +4.3, and over GRPO +2.5, not +2.4.",
            {
                "cw-grpo:table-2-averages": "holds",
                "cw-grpo:table-2-gains": "slip",
                "cw-grpo:text-gains": "slip",
            },
        ),
        Sentence(
            "On MATH-500 CW-GRPO keeps its score from step 100 to step 200, where GRPO's falls by five points.",
            {"cw-grpo:table-3-text": "holds"},
        ),
    ],
)
