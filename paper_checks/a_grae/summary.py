"""Findings about A-GRAE, in plain words."""

from paper_checks.summary import Sentence, Summary
from paper_checks.verdict import FAILS, HOLDS, HOLDS_IF, IDENTITY, UNDECIDED

SUMMARY = Summary(
    findings=[
        Sentence(
            "The released scripts train with GRPO's plain advantages: A-GRAE's branch asks for a weight of exactly "
            "2.0; to rerun the paper, hold it there.",
            {
                "a-grae:code-branch": FAILS,
                "a-grae:code-easy-term": FAILS,
            },
        ),
        Sentence(
            "A group with damped successes lifts what it missed; averaged over groups, one prompt's step is GRPO's "
            "own, shorter.",
            {
                "a-grae:eq-36": IDENTITY,
                "a-grae:app-b5-exploration": HOLDS_IF,
            },
        ),
        Sentence(
            "Unsampled answers are lifted in proportion to their probability, so that a rare one can lose.",
            {
                "a-grae:app-b5-increase": FAILS,
                "a-grae:against-casp": HOLDS,
            },
        ),
        Sentence(
            "At Pass@256 the group-level part alone, with GRPO, is ahead of the full method on all three benchmarks.",
            {
                "a-grae:sec-5.4-full": FAILS,
                "a-grae:sec-5.3-baselines": FAILS,
            },
        ),
        Sentence(
            "W-REINFORCE, which damps successes alone, raises Pass@1 and Pass@256 at once; seven of 66 pass@k rows "
            "bend upwards, as those of one set of answers cannot.",
            {
                "a-grae:sec-4.4-simultaneously": FAILS,
                "a-grae:tables-concave": FAILS,
            },
        ),
    ],
    stands=[
        Sentence(
            "The symmetry within a group, and the gains as printed, without seeds.",
            {
                "a-grae:eq-5": HOLDS,
                "a-grae:thm-1": HOLDS,
                "a-grae:thm-2": HOLDS,
                "a-grae:eq-9": IDENTITY,
                "a-grae:abstract-gains": HOLDS,
                "a-grae:table-2": UNDECIDED,
            },
        ),
    ],
)
