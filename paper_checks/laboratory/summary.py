"""What the laboratory found by itself that changes what a reader does, and what it rests on."""

from paper_checks.summary import Sentence, Summary
from paper_checks.verdict import HOLDS


def said(text: str, *labels: str) -> Sentence:
    """A sentence of claims that all hold."""
    return Sentence(text, {f"simlab:{label}": HOLDS for label in labels})


SUMMARY = Summary(
    findings=[
        said(
            "A weight that sees only a rollout's reward and its group's solve rate chooses how fast a prompt "
            "teaches, never in which direction: on average, learning from successes, from failures or from both is "
            "one step of different length. Compare such weights at equal pass@1, not at equal steps.",
            "expected-update",
            "sign-axis-in-expectation",
            "interference-sign",
        ),
        said(
            "Pass@k can fall while pass@1 rises, with no loss of support and no sampling noise, as soon as hard "
            "prompts lose to easy ones that share features and have another answer. At large k the hardest prompts "
            "decide alone, so watch their solve rates and not the mean.",
            "interference-crossing",
            "interference-large-k",
            "interference-threshold",
        ),
        said(
            "At a given group size, the lower a prompt's solve rate, the less its own rollouts move its log-odds, "
            "under every such weight and even where failures are punished; what other prompts do to them does not "
            "shrink. Larger groups help a hard prompt to hold out under MaxRL, and not under a weight of constant "
            "strength such as learning from successes or from failures alone.",
            "interference-drift",
            "interference-all-wrong",
            "interference-bound",
            "interference-group-size",
        ),
        said(
            "At one prompt no such weight decides whether a small average step raises or lowers the entropy; "
            "averaged over prompts it does, by favouring hard prompts or easy ones and not by favouring failures or "
            "successes. Do not read a batch's entropy curve as an effect of negative samples before you know which "
            "prompts moved.",
            "entropy-sign",
            "entropy-over-prompts",
            "focal-entropy-first-order",
            "focal-entropy-over-prompts",
        ),
        said(
            "At the start of F-GRPO's own simulation all weights registered here but three, F-GRPO's among them, "
            "lower on average the probability of correct answers that their group missed; the three weigh failures "
            "more. Among weights that balance successes and failures the choice changes how fast one rare answer is "
            "lost, not whether.",
            "unsampled-mass-each-estimator",
            "unsampled-mass-balanced-sign",
        ),
    ],
    stands=[
        said(
            "All this is exact for small problems: free logits or a shared linear head, a plain gradient step, "
            "mostly to first order. With Adam, clipping or large steps it need not hold, and finite groups can turn "
            "an effect of second order either way.",
            "expected-update",
            "interference-transfer",
            "unsampled-mass-noise",
            "unsampled-mass-noise-gives",
        ),
        said(
            "The first finding is in essence that of Davis and Recht (2510.13651), the entropy formula rests on Cui "
            "et al. (2505.22617), and that prompts interfere was known. Each entry says whose work it stands on, "
            "and where a search found none.",
            "expected-update",
            "expected-entropy-change",
            "interference-transfer",
        ),
    ],
)
