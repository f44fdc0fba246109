"""Headline findings of FADE's experiments, which nothing here can decide."""

from paper_checks.claim import COSMETIC, Amended, claim, undecided
from paper_checks.evidence import grid, satisfies

LARGE = "RL runs of Qwen 2.5 7B and CWM 32B on 25,000 programming problems, with the authors' data"

undecided(
    "fade:fig-1",
    where="Abstract; Figure 1; Section 5",
    says="FADE reaches peak pass@1 20k steps earlier than the best static weight at 7B and 2k steps earlier at 32B.",
    needs=LARGE,
    reading="The steps of Table 6, of which the stored text has no body.",
)
LEADS = {"7B": 20_000, "32B": 2_000}
# "Typically around 20 x 10^3 RL steps" (Appendix 11.2), and the least last step of Figure 8's runs at 7B.
TYPICAL_PEAK, LONG_RUN = 20_000, 30_000


@claim(
    "fade:app-11-peak-steps",
    where="Section 11.2, 'typically around 20 x 10^3 RL steps'; Abstract; Section 5",
    says="Weights peak at around step 20k, and FADE 20k steps before the best static weight at 7B, 2k steps at 32B.",
    refuted_by="a lead that leaves FADE no step to train",
    reading="Three sentences of the paper, put together. Weights are evaluated at their peak, typically around step "
    "20k. If the best static weight at "
    "7B peaks there, a lead of 20k steps is all of its training. 'Around' and 'typically' leave room: the runs of "
    "Figure 8 last 30k to 40k steps. Table 6, which has the step of each weight, is not in the stored text.",
    severity=COSMETIC,
    met="unknown: Table 6, which has the steps, is not in the stored text",
    inferred=True,
    statement=lambda left, model, peak: left > 0,
    condition=Amended(
        "the best static weight at 7B peaks at 30k steps or later",
        lambda left, model, peak: left > 0 if model == "32B" or peak >= LONG_RUN else None,
    ),
    planted={"all of it": lambda left, model, peak: left == 0},
)
def steps_left(statement):
    """Subtract each lead from the typical peak and from that of a long run."""
    yield from satisfies(
        statement,
        grid(model=list(LEADS), peak=[TYPICAL_PEAK, LONG_RUN]),
        lambda model, peak: peak - LEADS[model],
        method="arithmetic",
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
    says="Entropy is proportional to the ratio m_S p / (m_F q) over the weights, and correlated neither with pass@100 "
    "nor with learning speed.",
    needs=LARGE,
    reading="Whatever the ratio should be called: fade:sec-4-1-advantage-ratio.",
)
undecided(
    "fade:fig-14",
    where="Appendix 11.3; Figure 14",
    says="At one learning rate weights of lower scale keep more entropy, and higher gradient ratios go with a faster "
    "collapse.",
    needs=LARGE,
    reading="What scale does at one prompt is fade:fig-14-scale.",
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
undecided(
    "fade:sec-15-2-reset",
    where="Section 15.2, causal verification",
    says="Resetting the last four layers towards SFT from time to time erases most of AsymGRPO's gains at delta = .5, "
    "and helps symmetric GRPO.",
    needs=LARGE,
    reading="As a measurement; no table has its numbers.",
)
undecided(
    "fade:sec-15-2-scale",
    where="Section 15.2, Table 9 (body lost)",
    says="At 32B the rank-1 share of AsymGRPO's update is 45.6 %, not 78 to 96 %, and the methods' gaps shrink too.",
    needs=LARGE,
    reading="As a measurement. It limits the collapse to the smaller models.",
)
