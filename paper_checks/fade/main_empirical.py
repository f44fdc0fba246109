"""Headline findings of FADE's experiments, which nothing here can decide."""

from paper_checks.claim import undecided

LARGE = "RL runs of Qwen 2.5 7B and CWM 32B on 25,000 programming problems, with the authors' data"

undecided(
    "fade:fig-1",
    where="Abstract; Figure 1; Section 5",
    says="FADE reaches peak pass@1 20k steps earlier than the best static weight at 7B and 2k steps earlier at 32B.",
    needs=LARGE,
    reading="The steps of Table 6, of which the stored text has no body.",
)
undecided(
    "fade:sec-4-speed",
    where="Section 4, first paragraph",
    says="A better weight gives 14 % more pass@1 in half the training steps of REINFORCE.",
    needs=LARGE,
    reading="The best weight of Sections 4.1 to 4.3 against REINFORCE.",
)
undecided(
    "fade:fig-3",
    where="Section 4.1 and 4.2; Figure 3",
    says="Scaling failures down (delta > 1) collapses the entropy, scaling them up (delta < 1) the rank of the update.",
    needs=LARGE,
    reading="A finding about these models; fade:sec-4-1-delta-above shows that Equation 7 does not explain it.",
)
undecided(
    "fade:fig-4",
    where="Section 4.1; Figure 4",
    says="Final entropy goes with the ratio m_S p / (m_F q) over the weights, and not with pass@100.",
    needs=LARGE,
    reading="Whatever the ratio should be called: fade:sec-4-1-advantage-ratio.",
)
undecided(
    "fade:fig-5-sweet-spot",
    where="Section 4.3; Figure 5, right",
    says="Focusing on solve rates from .3 to .5 maximises pass@1 and pass@100.",
    needs=LARGE,
    reading="A sweep of alpha.",
)
undecided(
    "fade:fig-6",
    where="Section 4.3; Figure 6",
    says="All weights lose scaling slope b in training but those driven by pass@k.",
    needs=LARGE,
    reading="Fits of exp(-a (k + c)^-b) to pass@k curves.",
)
undecided(
    "fade:fig-9",
    where="Section 5; Figure 9",
    says="Without delta the entropy collapses, without alpha diversity is lost; fixed or entropy-only schedules are "
    "worse.",
    needs=LARGE,
    reading="Ablations on Qwen 2.5 7B.",
)
