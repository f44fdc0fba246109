"""Findings about CW-GRPO, in plain words."""

from paper_checks.summary import Sentence, Summary
from paper_checks.verdict import FAILS, HOLDS, HOLDS_IF, IDENTITY, SLIP, UNDECIDED

SUMMARY = Summary(
    findings=[
        Sentence(
            "AMC23 alone, four problems at 1.5B and three at 7B, gives 2.0 of the 2.7 points gained and 1.5 of the "
            "2.5.",
            {
                "cw-grpo:gain-from-amc23": FAILS,
                "cw-grpo:pooled-gains": FAILS,
                "cw-grpo:accuracy-gain": UNDECIDED,
            },
        ),
        Sentence(
            "GRPO is ahead on AIME24 at 1.5B and on Minerva at 7B.",
            {
                "cw-grpo:all-benchmarks": FAILS,
            },
        ),
        Sentence(
            "Covariance drives entropy exactly under the natural gradient; under GRPO's plain one a rare token "
            "counts by its probability.",
            {
                "cw-grpo:entropy-covariance": HOLDS,
                "cw-grpo:entropy-covariance-in-grpo": HOLDS_IF,
                "cw-grpo:token-term": HOLDS_IF,
            },
        ),
        Sentence(
            "The kernel damps unlikely successes as much as unlikely failures, and a small policy's entropy can "
            "change faster with it.",
            {
                "cw-grpo:rare-success": HOLDS_IF,
                "cw-grpo:entropy-stability": FAILS,
            },
        ),
        Sentence(
            "Normalised weights do not keep the expected loss, since they depend on the advantages; answers that "
            "nobody sampled then move.",
            {
                "cw-grpo:expected-loss": FAILS,
                "cw-grpo:unsampled-logits": FAILS,
            },
        ),
    ],
    stands=[
        Sentence(
            "The kernel shrinks outliers with no scale to set; the averages are right, two gains misprinted to the "
            "method's disadvantage; on MATH-500 CW-GRPO keeps its score where GRPO falls.",
            {
                "cw-grpo:kernel-outliers": IDENTITY,
                "cw-grpo:kernel-adaptive": IDENTITY,
                "cw-grpo:table-1-dominance": HOLDS,
                "cw-grpo:table-2-averages": HOLDS,
                "cw-grpo:table-3-text": HOLDS,
                "cw-grpo:table-2-gains": SLIP,
                "cw-grpo:text-gains": SLIP,
            },
        ),
    ],
)
