"""What a reader of A-GRAE should know, in plain words."""

from paper_checks.summary import Sentence, Summary

SUMMARY = Summary(
    findings=[
        Sentence(
            "The released A-GRAE scripts train with GRPO's plain advantages. The code takes A-GRAE's branch only at a "
            "weight of exactly 2.0, which the trainer has lowered by its first step, or which the script never passes; "
            "to rerun the paper, pass the weight 2.0 unchanged. In that branch one of the two terms is not Eq. 12's.",
            {"a-grae:code-branch": "fails", "a-grae:code-easy-term": "fails"},
        ),
        Sentence(
            "Damping successes explores less than the one-group argument suggests. A group that misses a path does "
            "lift it; but counted over all groups, the expected update at one prompt is GRPO's own, in the same "
            "direction and smaller. In a batch this shifts weight to easy prompts, and that alone can make entropy "
            "rise.",
            {
                "a-grae:eq-36": "holds",
                "a-grae:app-b5-exploration": "holds if",
                "a-grae:sec-4.2-negative": "holds if",
            },
        ),
        Sentence(
            "The lift of unsampled answers is proportional to their probability. The likely ones gain most, and a "
            "rare answer, which exploration is meant to find, can lose.",
            {"a-grae:app-b5-increase": "fails", "a-grae:against-casp": "fails"},
        ),
        Sentence(
            "Which part to use depends on k. With GRPO the full method is better than its parts at Pass@1; at Pass@256 "
            "its group-level part alone is ahead on all three benchmarks, and the full method is behind W-REINFORCE "
            "on one and level on two.",
            {"a-grae:sec-5.4-full": "fails", "a-grae:sec-5.3-baselines": "fails"},
        ),
        Sentence(
            "Read the pass@k tables with care at large k. Seven of 66 rows bend upwards, which the stated estimator "
            "cannot do if one set of answers gives all k; in Table 2, 14 of 59 marks for best and second-best are on "
            "another figure.",
            {"a-grae:tables-concave": "fails", "a-grae:table-2-marks": "fails"},
        ),
    ],
    stands=[
        Sentence(
            "The symmetry itself stands: correct and incorrect rollouts of a group weigh the same, a group's weights "
            "sum to 2 G sqrt(p (1 - p)), and a group leaves the logits of answers that it does not contain unchanged "
            "(for a policy without shared parameters).",
            {"a-grae:eq-5": "holds", "a-grae:thm-1": "holds", "a-grae:thm-2": "holds", "a-grae:eq-9": "holds"},
        ),
        Sentence(
            "In the printed figures each of GRPO, DAPO and Dr. GRPO gains from A-GRAE at every k and on every "
            "benchmark, but for ties at 100. Whether the gains repeat over seeds is not known.",
            {"a-grae:abstract-gains": "holds", "a-grae:table-2": "not decidable here"},
        ),
    ],
)
