"""What was found about CaSP, in a few sentences."""

from paper_checks.summary import Sentence, Summary
from paper_checks.verdict import FAILS, HOLDS, HOLDS_IF, IDENTITY, SLIP

SUMMARY = Summary(
    findings=[
        Sentence(
            "Being sampled most does not by itself make the likeliest token grow: averaged over the sampled tokens, "
            "it gains if it succeeds more often than the others, and with equal success nothing changes. Training on "
            "successes alone and training on failures alone have the same expected update to first order, so that "
            "these facts do not explain why their runs differ.",
            {
                "casp:observation-1-gap": HOLDS_IF,
                "casp:section-3-both-signs": HOLDS_IF,
                "casp:section-3.3-psr-nsr": FAILS,
            },
        ),
        Sentence(
            "In the toy example, with groups of 16 or 64, GRPO with an entropy bonus of .5 also ends with all six "
            "modes at an accuracy of 1.00, in 7 of 8 runs or more (with the experiments' .01 it keeps one or two). "
            "Of the settings tried, CaSP does so only with N = 4, which is every action, and alpha .5; with the "
            "experiments' N = 3 and alpha of .01 or .05 most runs keep one mode.",
            {
                "casp:figure-5-entropy": FAILS,
                "casp:figure-5-casp": HOLDS_IF,
            },
        ),
        Sentence(
            "Smoothing makes the top candidates about equally likely, within a factor of two, only where their "
            "success rates differ by less than about two thirds of alpha times the highest; otherwise it keeps a "
            "floor of alpha/N, which is .0033 in mathematics. Table 4 does not improve steadily with alpha: its best "
            "pass@256 is that of the smallest, .01.",
            {
                "casp:figure-4-plateau": HOLDS_IF,
                "casp:eq-4-floor": HOLDS_IF,
                "casp:section-5.4-alpha": FAILS,
            },
        ),
        Sentence(
            "Table 1 shows CaSP ahead on averages of one run each, and four of the methods named were run on one "
            "model only. What reads as the same model scores up to 2.5 points apart in different tables; the gain on "
            "Llama is 1.2 points rather than the printed 0.7, if the printed entries are right.",
            {
                "casp:section-5.2-outperforms": HOLDS_IF,
                "casp:table-1-repeats": FAILS,
                "casp:table-1-averages": SLIP,
            },
        ),
        Sentence(
            "Fewer distinct tokens do not by themselves mean a lower pass@K: Proposition 3 does not ask which tokens "
            "are correct, and where the likeliest one is correct, pass@K rises as the policy concentrates. If it is "
            "wrong on some prompts, pass@K does fall for large K. Nor does one concentrated position leave one "
            "response, if other positions stay open.",
            {
                "casp:section-1-explains": HOLDS_IF,
                "casp:abstract-responses": HOLDS_IF,
            },
        ),
    ],
    stands=[
        Sentence(
            "The method is derived correctly: the smoothed ratio has the intended gradient and leaves the clip where "
            "it was, the pseudo-code computes it, and a penalised token below rank 1 does pass the most to rank 1.",
            {
                "casp:eq-4-ratio": HOLDS,
                "casp:eq-4-value": IDENTITY,
                "casp:figure-10-update": HOLDS,
                "casp:lemma-2-rank-1": HOLDS,
            },
        ),
        Sentence(
            "Proposition 3 is right as a count of distinct tokens, and the extra penalty on rank 1 flattens a policy "
            "on average if candidates fail equally often.",
            {"casp:prop-3": HOLDS, "casp:prop-3-limit": HOLDS, "casp:eq-5": HOLDS},
        ),
        Sentence(
            "As printed, CaSP is above GRPO on average at every temperature and on the printed curves at every K, and "
            "its two halves together do better at pass@256 than either alone.",
            {"casp:app-f.2": HOLDS, "casp:abstract-full-spectrum": HOLDS_IF, "casp:app-f.1": HOLDS},
        ),
    ],
)
