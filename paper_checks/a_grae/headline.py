"""Claims for the authors' models and data to decide."""

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
    says="Training entropy rises under the negative-dominant control, except at the very beginning, and falls under "
    "GRPO and positive-dominant.",
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
undecided(
    "a-grae:sec-4.2-support",
    where="Section 4.2, 'fails to discover novel solutions that lie outside the base model's ... support'",
    says="Pass@256 below the base model's suggests that GRPO finds no solution outside the base model's sampling "
    "support.",
    needs="Problem by problem, the solve rates of the base model and of the trained one in many samples.",
    reading="An average of Pass@256 below the base model's does not tell: problems can be won while others are lost.",
)
undecided(
    "a-grae:fig-10",
    where="Section 5.4, Figure 10",
    says="Under A-GRAE the training entropy drops at first and then stays, where GRPO's falls on and on; its entropy "
    "on the test set rises first, and late in training its greedy accuracy is well above GRPO's.",
    needs=NEEDS,
    reading="As a measurement; the figure is not stored.",
)
undecided(
    "a-grae:app-d1-llama",
    where="Appendix D.1, Figures 7 and 8",
    says="On Llama-3.2-3B-Instruct suppressed positive advantages enhance reasoning too, Pass@k above all, and no "
    "difficulty re-weighting is best everywhere.",
    needs=NEEDS.replace("Qwen2.5-Math-7B", "Llama-3.2-3B-Instruct"),
    reading="As a measurement; the figures are not stored, and no table has the numbers.",
)
undecided(
    "a-grae:app-d1-below-base",
    where="Appendix D.1, Figures 7 and 8, at k = 256",
    says="On Llama-3.2-3B-Instruct all methods are below the base model at Pass@256, the negative-dominant one least.",
    needs=NEEDS.replace("Qwen2.5-Math-7B", "Llama-3.2-3B-Instruct"),
    reading="As a measurement. It bounds the claim beside it (a-grae:app-d1-llama) to smaller k: there suppressed "
    "successes preserve what the base model can do, and do not add to it.",
)
