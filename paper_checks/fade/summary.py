"""What was found about FADE, in a few sentences."""

from paper_checks.summary import Sentence, Summary
from paper_checks.verdict import FAILS, HOLDS, HOLDS_IF, IDENTITY, SLIP, UNDECIDED

SUMMARY = Summary(
    findings=[
        Sentence(
            "The imbalance of successes and failures gives the entropy no drift to first order: a constant added to "
            "all weights leaves the expected update as it is, while the drift term of Equation 7 changes with it. "
            "What the authors see in their runs needs another explanation than this law.",
            {
                "fade:eq-24": FAILS,
                "fade:thm-13.1": FAILS,
                "fade:eq-7": FAILS,
                "fade:sec-4-1-drift": FAILS,
            },
        ),
        Sentence(
            "Which way delta acts on entropy depends on the learning rate. At one rate and one prompt it changes the "
            "pace of learning only: delta < 1 loses entropy faster and delta > 1 more slowly, as Appendix 8.2 says and "
            "Section 4.1 does not. At the learning rates of Appendix 11.3 both lose it more slowly than delta = 1.",
            {
                "fade:sec-4-1-delta-below": FAILS,
                "fade:sec-4-1-delta-above": FAILS,
                "fade:app-8-2-diversity": HOLDS_IF,
                "fade:sec-4-1-equalised": HOLDS_IF,
            },
        ),
        Sentence(
            "The update quality of Equation 10 cannot choose a weight, since it grows fourfold when all weights are "
            "halved. Under a true signal-to-noise ratio alpha = 3 overtakes mean GRPO when prompts at solve rate 1/4 "
            "carry 1.36 to 1.47 times the signal, not 2.25 times.",
            {
                "fade:eq-10": FAILS,
                "fade:eq-10-argmax": FAILS,
                "fade:sec-4-3-enrichment": FAILS,
                "fade:table-8-minimum": FAILS,
            },
        ),
        Sentence(
            "The collapse to rank 1 is measured and not yet explained. Uncorrelated hidden states alone do not bring "
            "it about, the residual norms of Table 11 do not show that failures leave less per token, and Proposition "
            "15.1 is about the output head and says nothing of the other layers.",
            {
                "fade:sec-4-2-uncorrelated": HOLDS_IF,
                "fade:app-15-decorrelated": FAILS,
                "fade:sec-15-2-last-layers": FAILS,
            },
        ),
        Sentence(
            "To implement FADE, read the print with care. The moving average with beta = .02 is nearly the newest "
            "batch alone, the masses are right only with the mean of each prompt's own group, and the algorithms leave "
            "out the constant that gives Power-alpha the height of GRPO. Among the other weights, the masses of "
            "LogMeanExp and of the quantile baseline are not those of their definitions.",
            {
                "fade:alg-2-ema": SLIP,
                "fade:alg-2-masses": HOLDS_IF,
                "fade:app-14-peak-in-algorithm-1": FAILS,
                "fade:log-mean-exp": FAILS,
                "fade:quantile": FAILS,
            },
        ),
    ],
    stands=[
        Sentence(
            "The framework stands: a weight that depends on the outcome and the group's solve rate acts through two "
            "masses, and most of the masses that Appendix 8 derives, those of Power-alpha and AsymGRPO among them, are "
            "right.",
            {
                "fade:eq-2": IDENTITY,
                "fade:eq-3": IDENTITY,
                "fade:any-advantage": HOLDS_IF,
                "fade:power-alpha": IDENTITY,
                "fade:asym-grpo": IDENTITY,
            },
        ),
        Sentence(
            "Power-alpha is a sound way to focus on hard prompts: its mass peaks at 1 / (1 + alpha), and with whole "
            "alpha its expected update, at the true solve rate, is the gradient of pass@k with k = alpha, over k.",
            {"fade:sec-4-3-mode": HOLDS, "fade:sec-4-3-pass-at-k": HOLDS},
        ),
        Sentence(
            "Whether FADE learns faster and keeps more pass@100 is a matter of the authors' runs, which nothing here "
            "contradicts or confirms.",
            {"fade:fig-1": UNDECIDED, "fade:tables-3-to-6": UNDECIDED, "fade:fig-9": UNDECIDED},
        ),
    ],
)
