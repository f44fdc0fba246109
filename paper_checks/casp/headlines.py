"""The empirical claims that need the authors' models, runs or figures."""

from paper_checks.claim import undecided

undecided(
    "casp:table-1",
    where="Section 5.2; Table 1",
    says="CaSP improves average pass@1 and pass@256 (pass@128) over GRPO on six mathematics benchmarks and three "
    "models.",
    needs="Training of 3B, 7B and 32B models (120 to 192 GPU hours each), several seeds; the paper reports one run "
    "each.",
    reading="Its arithmetic is checked (casp:table-1-averages, casp:table-1-differences). How far two evaluations of "
    "one model lie apart (casp:table-1-repeats) is not small beside the gains.",
)
undecided(
    "casp:table-2",
    where="Section 5.3; Table 2",
    says="CaSP improves pass@K over GRPO on Synlogic and BBH at every K, and W-REINFORCE fails to train effectively.",
    needs="Training of Qwen2.5-7B on Synlogic-easy, several seeds.",
    reading="The printed order is checked (casp:abstract-full-spectrum).",
)
undecided(
    "casp:table-3",
    where="Section 5.3; Table 3",
    says="CaSP improves Avg@16 and Pass@16 over GRPO on LiveCodeBench and HumanEval+.",
    needs="Training of DeepSeek-R1-Distill-Qwen-7B on DeepCoder, several seeds.",
    reading="The quoted differences are checked (casp:section-5.3-figures).",
)
undecided(
    "casp:figure-3",
    where="Section 3.3; Figure 3",
    says="During training the sampled log-probability moves toward rank 1's, most under PSR and least under NSR.",
    needs="The runs on Llama3.2-3B and Qwen2.5-Math-7B, or the figure's data.",
    reading="That Observation 1 and Lemma 2 explain it is checked and refuted to first order "
    "(casp:section-3.3-psr-nsr).",
)
undecided(
    "casp:figure-7",
    where="Appendix D.1; Figures 2 (right), 7 and 8",
    says="CaSP has the lowest rank-1 and the highest rank-2 and rank-3 log-probability of all methods compared.",
    needs="The trained models, or the figures' data.",
    reading="Whether such averages mean what is said of them is checked (casp:eq-2-sample, casp:app-d-1-top-1).",
)
undecided(
    "casp:figure-5-runs",
    where="Section 4.3; Figure 5",
    says="In sampled runs of the toy GRPO ends in BDC alone, GRPO with entropy in six modes at .48, CaSP in six at "
    "1.00.",
    needs="The toy's learning rate, group size, steps, alpha, N, lambda, quantile and entropy coefficient, none of "
    "which is given.",
    reading="What sampled runs end with under settings of ours is checked (casp:figure-5-grpo, "
    "casp:figure-5-entropy-modes, casp:figure-5-casp).",
)
undecided(
    "casp:figures-11-16",
    where="Appendix G; Figures 11-16",
    says="The CaSP model shows more candidates per position than the GRPO model, and the base model some.",
    needs="The three models and the two responses.",
    reading="A single candidate does mean p_1 >= .95; beyond that the count follows neither p_1 nor entropy strictly.",
)
undecided(
    "casp:section-1-generalize",
    where="Abstract; Section 1; Section 5.3",
    says="CaSP's gains generalize to mathematics, logic and coding.",
    needs="Runs of all tasks with one setting, and several seeds.",
    reading="As printed there are gains in Tables 1 to 3. Appendix E.1 has another alpha for each task (.01, .005, "
    ".05), and another lambda and warm-up for logic: what carries over is a method tuned by task.",
)
undecided(
    "casp:section-1-top-n",
    where="Section 1",
    says="The top-N candidates are a tractable yet faithful approximation of the full distribution.",
    needs="The candidates' probabilities behind Figure 2.",
    reading="Faithful as to probability: how much of it the top three hold, at the tokens that the method changes.",
)
