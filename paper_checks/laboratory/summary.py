"""What the laboratory found by itself that changes what a reader does, and what it rests on."""

from paper_checks.summary import Sentence, Summary
from paper_checks.verdict import HOLDS


def said(text: str, *labels: str) -> Sentence:
    """A sentence whose claims all hold."""
    return Sentence(text, {f"simlab:{label}": HOLDS for label in labels})


SUMMARY = Summary(
    findings=[
        said(
            "A weight that sees only a rollout's reward and its group's solve rate chooses how fast a prompt teaches, "
            "never in which direction: in expectation learning from successes, from failures or from both is the same "
            "step. So compare such weights at equal pass@1, not at equal steps; what then remains between them is noise, "
            "clipping, the optimiser, or which prompts they prefer.",
            "expected-update",
            "sign-axis-in-expectation",
            "interference-sign",
        ),
        said(
            "Pass@k can fall while pass@1 rises without any loss of support and without sampling noise: it is enough "
            "that easy prompts gain and hard prompts lose because they share features and disagree about the answer. "
            "The number of attempts from which on it falls has a formula; at large k the hardest prompts decide alone. "
            "So look at the solve rates of the hardest prompts, not at the mean.",
            "interference-crossing",
            "interference-large-k",
            "interference-threshold",
        ),
        said(
            "What a prompt does to its own log-odds vanishes with its solve rate under every such weight at a given group "
            "size, and groups that are all wrong teach next to nothing on average, even when failures are punished. "
            "Under weights of constant strength, such as learning from successes or from failures alone, larger groups do "
            "not help a hard prompt to hold out against the others; under MaxRL they do, from a size that can be computed.",
            "interference-drift",
            "interference-all-wrong",
            "interference-bound",
            "interference-group-size",
        ),
        said(
            "At one prompt no such weight decides whether a small expected step raises or lowers the entropy: the policy "
            "does. Averaged over prompts the weight does decide, through the prompts it prefers: among two twin prompts, "
            "weights that turn to the hard one raise the mean entropy, weights that turn to the easy one lower it, and "
            "learning from successes or failures alone leaves it. So do not read an entropy curve of a batch as a "
            "property of one prompt, or of positive and negative samples.",
            "entropy-sign",
            "entropy-over-prompts",
            "focal-entropy-first-order",
            "focal-entropy-over-prompts",
        ),
        said(
            "Most weights lower the probability of correct answers that a group happened to miss: at the start of F-GRPO's "
            "own simulation, 36 of 39 weights do so on average, F-GRPO's among them, and the three that do not put more "
            "weight on failures. For one rare answer the balanced weights differ in how fast it is lost, not in whether. "
            "Second-order effects can go either way, with the prompt.",
            "unsampled-mass-each-estimator",
            "unsampled-mass-balanced-sign",
            "unsampled-mass-balanced-sum",
            "unsampled-mass-noise",
            "unsampled-mass-noise-gives",
        ),
    ],
    stands=[
        said(
            "All of this is exact for small policies with free logits or a shared linear head, to first order in a plain "
            "gradient step unless it says otherwise; most was enumerated over all groups, and part of it proved for any "
            "policy. With Adam, clipping or large steps it need not hold.",
            "expected-update",
            "interference-transfer",
            "unsampled-drift",
        ),
        said(
            "The step along the gradient of the solve rate is in essence the result of Davis and Recht (2510.13651), the "
            "entropy formula rests on Cui et al. (2505.22617), and that prompts interfere was known before; each entry "
            "says on whose work it stands and where a search found nothing.",
            "expected-update",
            "expected-entropy-change",
            "interference-transfer",
        ),
    ],
)
