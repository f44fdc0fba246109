"""What was found about F-GRPO, in plain words."""

from paper_checks.summary import Sentence, Summary
from paper_checks.verdict import FAILS, HOLDS, HOLDS_IF

SUMMARY = Summary(
    findings=[
        Sentence(
            "In the paper's Table 2 plain GRPO with 2 rollouts a prompt has a higher pass@256 than F-GRPO with 8: 75.0 "
            "against 70.3 on math, 67.3 against 63.3 out of domain, at a quarter of the rollouts. F-GRPO has the "
            "higher pass@1, and does match GRPO with 32 rollouts on pass@256, as the paper says.",
            {"f-grpo:sec-5.4-shape": HOLDS, "f-grpo:sec-5.4-matches-32": HOLDS},
        ),
        Sentence(
            "In the paper's simulation the focal weight keeps more of the rare correct actions after equally many "
            "steps. Where the correct actions have reached the same total probability, little or nothing of this gain "
            "is left: with one prompt the weight slows learning and forgetting alike.",
            {"f-grpo:fig-2-gamma": HOLDS_IF},
        ),
        Sentence(
            "The gains in nine of nine combinations are single runs, with the exponent gamma chosen for each by the "
            "math pass@1 that is then reported. With one gamma for all, math pass@1 is preserved in at most 7 of the "
            "9, and no gamma improves pass@256 on math and out of domain in all.",
            {
                "f-grpo:table-6-one-gamma": FAILS,
                "f-grpo:sec-5.5-nine-of-nine": HOLDS,
                "f-grpo:sec-5.5-pass-at-1": HOLDS,
                "f-grpo:table-7": HOLDS,
            },
        ),
        Sentence(
            "Lemma 3.1, the probability that a group learns and yet misses a rare solution, fits the largest groups of "
            "the simulation, which miss and lose almost nothing. It does not say why small groups lose little: with "
            "12,800 actions groups of 4 miss a rare action more often than groups of 1024, and keep over nine tenths "
            "of the correct mass where those keep under a tenth. In the maze, with one correct sequence a prompt, the "
            "probability is 0, so that the gains there have another cause.",
            {
                "f-grpo:lemma-3.1": HOLDS,
                "f-grpo:app-j-figure-5": HOLDS,
                "f-grpo:sec-5.1-lemma-locates-zone": FAILS,
                "f-grpo:sec-5.2-separates": HOLDS,
                "f-grpo:sec-5-maze-tests-theory": FAILS,
            },
        ),
        Sentence(
            "Proposition 3.2 is right about its own update, which lowers the logits of actions that were not sampled "
            "where successes outweigh failures. The simulation takes another one: Figure 2 comes back with Adam and "
            "importance ratios, which the paper does not state, and there such actions have no push of their own.",
            {
                "f-grpo:prop-3.2": HOLDS,
                "f-grpo:fig-2": HOLDS_IF,
                "f-grpo:sec-5.1-direct-drift": FAILS,
                "f-grpo:sec-2.3-unbiased": FAILS,
            },
        ),
    ],
    stands=[
        Sentence(
            "The mathematics stands: Lemma 3.1, the one-step formulas for the total and the unsampled correct mass, "
            "Lemma H.1 with its corollary, the multiplier of Appendix N. (The stored text of this paper has no "
            "formulas; those judged here are the ones that the project's facts file restores.)",
            {
                "f-grpo:lemma-3.1": HOLDS,
                "f-grpo:eq-17": HOLDS,
                "f-grpo:prop-3.2": HOLDS,
                "f-grpo:lemma-h.1": HOLDS,
                "f-grpo:cor-h.2": HOLDS,
                "f-grpo:app-n": HOLDS,
            },
        ),
        Sentence(
            "The three regimes of Figure 2 can be reproduced: small and large groups keep rare correct actions, "
            "middling ones lose them.",
            {"f-grpo:fig-2": HOLDS_IF},
        ),
        Sentence(
            "The tables agree with one another, their averages are right, and the text quotes them correctly.",
            {
                "f-grpo:tables-averages": HOLDS,
                "f-grpo:tables-repeated": HOLDS,
                "f-grpo:tables-12-14-ends": HOLDS,
                "f-grpo:abstract-numbers": HOLDS,
                "f-grpo:sec-5.2-maze-ranges": HOLDS,
                "f-grpo:sec-5.4-shape": HOLDS,
                "f-grpo:sec-5.6-order": HOLDS,
            },
        ),
    ],
)
