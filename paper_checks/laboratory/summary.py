"""The laboratory's own findings that change what a reader does, and what they rest on."""

from paper_checks.summary import Sentence, Summary
from paper_checks.verdict import HOLDS

SUMMARY = Summary(
    findings=[
        Sentence(
            "At one prompt a weight of rewards and solve rate sets how fast it teaches on average, never the "
            "direction: compare weights at equal pass@1.",
            {
                "simlab:expected-update": HOLDS,
                "simlab:sign-axis-in-expectation": HOLDS,
                "simlab:interference-sign": HOLDS,
            },
        ),
        Sentence(
            "On a linear head with plain steps pass@k can fall while pass@1 rises, once hard prompts lose to easy "
            "ones of shared features and another answer.",
            {
                "simlab:interference-crossing": HOLDS,
                "simlab:interference-large-k": HOLDS,
                "simlab:interference-threshold": HOLDS,
            },
        ),
        Sentence(
            "There, the lower a prompt's solve rate, the less its own rollouts move it; larger groups help under "
            "MaxRL, not under weights of constant strength.",
            {
                "simlab:interference-drift": HOLDS,
                "simlab:interference-all-wrong": HOLDS,
                "simlab:interference-bound": HOLDS,
                "simlab:interference-group-size": HOLDS,
            },
        ),
        Sentence(
            "At one prompt no such weight decides whether a small step raises entropy; over prompts it does, by "
            "favouring hard or easy ones.",
            {
                "simlab:entropy-sign": HOLDS,
                "simlab:entropy-over-prompts": HOLDS,
                "simlab:focal-entropy-over-prompts": HOLDS,
            },
        ),
        Sentence(
            "At the start of F-GRPO's simulation every registered weight but four, F-GRPO's included, lowers on "
            "average the correct answers that its group missed.",
            {
                "simlab:unsampled-mass-each-estimator": HOLDS,
                "simlab:unsampled-mass-balanced-sign": HOLDS,
            },
        ),
    ],
    stands=[
        Sentence(
            "All this is exact for small problems (free logits or a linear head, plain steps); Adam, clipping and "
            "large steps can undo it. The first is in essence Davis and Recht's (2510.13651), the entropy formula "
            "Cui et al.'s (2505.22617).",
            {
                "simlab:expected-update": HOLDS,
                "simlab:expected-entropy-change": HOLDS,
                "simlab:interference-transfer": HOLDS,
                "simlab:unsampled-mass-noise": HOLDS,
            },
        ),
    ],
)
