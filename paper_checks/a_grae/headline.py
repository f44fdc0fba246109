"""What only the authors' models and data can decide."""

from paper_checks.claim import undecided

NEEDS = "training Qwen2.5-Math-7B on MATH with 8 H200 GPUs, several seeds"

undecided(
    "a-grae:table-2",
    where="Section 5.3, Table 2",
    says="A-GRAE raises Pass@1 and Pass@k of GRPO, DAPO and Dr. GRPO on MATH, AIME 2025 and AMC23.",
    needs=NEEDS,
    reading="The printed figures do support it (a-grae:abstract-gains); whether the differences repeat is not known.",
)
undecided(
    "a-grae:fig-3",
    where="Section 4.2, Figure 3",
    says="Training entropy rises under the negative-dominant control and falls under GRPO and positive-dominant.",
    needs=NEEDS,
    reading="As a measurement. The update rule can give such a turn in a batch of prompts: a-grae:sec-4.2-negative.",
)
undecided(
    "a-grae:fig-5",
    where="Section 4.3, Figure 5",
    says="Easy-focused training solves more at first, hard-focused training more in the end.",
    needs=NEEDS,
    reading="As a measurement; the figure is not stored.",
)
undecided(
    "a-grae:fig-9",
    where="Appendix D.3, Figure 9",
    says="Negative-dominant training can collapse late, with a surge of fully unsolved questions.",
    needs=NEEDS,
    reading="As a measurement. The printed cause is in single groups, not in the mean: a-grae:app-b5-displacement.",
)
