"""Section 5.1, Eqs. 11-13, with their constants (Appendix C.2) and the published code: A-GRAE's schedules."""

import functools
from fractions import Fraction

import numpy as np
from mpmath import mp, mpf

import simlab
from paper_checks.a_grae.advantage import binary_group, grae, tilted
from paper_checks.a_grae.difficulty import focused, total
from paper_checks.claim import CHANGES, COSMETIC, Amended, claim
from paper_checks.evidence import Printed, arithmetic, equals, grid, number, satisfies
from paper_checks.exact import binomial
from paper_checks.simulated import drawn, estimate

NO_ATTENUATION = 1e-9  # an alpha below any mean reward of a batch that holds a correct rollout
FLOATING = mpf("1e-12")  # simlab computes in float64
BATCH = 5  # groups in a batch: the one looked at, and others all right or all wrong
BATCHES = grid(lambda G, s, solved: 0 < s < G, G=[2, 3, 8], s=[1, 2, 4, 7], solved=[0, 2, 4])


def omega(G, s, solved):
    """The mean reward of a batch of five groups, ``solved`` of the other four being all right (Eq. 11)."""
    return Fraction(s + solved * G, BATCH * G)


def implemented(G, s, solved, **parameters):
    """simlab's A-GRAE advantages of the group looked at."""
    others = [binary_group(G, G)] * solved + [binary_group(G, 0)] * (BATCH - 1 - solved)
    batch = np.array([binary_group(G, s), *others], dtype=float)
    return np.asarray(simlab.advantages("a_grae", batch, eps=0.0, **parameters))[0]


def eq_12(G, s, solved):
    """Eq. 12, as printed."""
    rate, p = number(omega(G, s, solved)), number(Fraction(s, G))
    factor = rate / 2 / mp.sqrt(p) + (1 - rate) / 2 / mp.sqrt(1 - p)
    return tuple(factor * value for value in grae(binary_group(G, s)))


def blended(weights, gamma=Fraction(1, 2)):
    """A blend of the hard- and the easy-focused advantages of Control Experiment II."""

    def advantages(G, s, solved):
        hard, easy = (number(weight) for weight in weights(omega(G, s, solved)))
        pairs = zip(focused("hard_focused", G, s, gamma), focused("easy_focused", G, s, gamma), strict=True)
        return tuple(hard * first + easy * second for first, second in pairs)

    return advantages


@claim(
    "a-grae:eq-11",
    where="Section 5.1, Eq. 11",
    says="The batch's mean reward is a proxy of the training state: a higher value implies a more proficient model.",
    formula=r"\omega_s = \frac{\sum_{i=1}^B r_i}{B}",
    refuted_by="prompts whose mean probability of success differs from the expected mean reward",
    reading="Proficiency as the mean probability of success, which is the mean of omega. Binary rewards, B rollouts in "
    "groups of one size. With the multimodal reward it is mostly the share of well-formed answers "
    "(a-grae:app-c2-alpha-format), and on that reading it would fail.",
    identity=True,
    statement=lambda chances, G: sum(chances) / len(chances),
    planted={
        "any success": lambda chances, G: sum(1 - (1 - chance) ** G for chance in chances) / len(chances),
        "the median prompt": lambda chances, G: sorted(chances)[len(chances) // 2],
    },
)
def proficiency(statement):
    """The expected mean over all groups of two and three prompts, and over drawn ones."""

    def expected(chances, G):
        return sum(
            probability * Fraction(s, G) for chance in chances for s, probability in enumerate(binomial(G, chance))
        ) / len(chances)

    def sampled(chances, G):
        return estimate(np.mean([drawn((chance, 1 - chance), G) == 0 for chance in chances], axis=(0, 2)))

    chances = [(Fraction(1, 2), Fraction(1, 4)), (Fraction(0), Fraction(1, 10), Fraction(9, 10))]
    yield from equals(
        statement,
        grid(chances=chances, G=[1, 2, 8]),
        enumerated=expected,
        sampled=sampled,
        sampled_points=[{"chances": chances[0], "G": 8}],
    )


@claim(
    "a-grae:eq-12",
    where="Section 5.1, Eq. 12",
    says="The advantage blends the hard-focused and the easy-focused one with weights omega and 1 - omega.",
    formula=r"A_i = \frac{\omega_s}{2} \frac{r_i - \text{mean}}{\text{std} \sqrt{p}} "
    r"+ \frac{1 - \omega_s}{2} \frac{r_i - \text{mean}}{\text{std} \sqrt{1 - p}}",
    refuted_by="a batch with a group whose advantages are another blend",
    reading="gamma = 1/2 as in Control Experiment II. The sum of |A| is G (omega sqrt(1 - p) + (1 - omega) sqrt(p)), "
    "whose largest value G sqrt(omega^2 + (1 - omega)^2) is below GRPO's G except at omega = 0 and 1. On the reading "
    "of the published code it would fail (a-grae:code-easy-term).",
    identity=True,
    statement=blended(lambda rate: (rate, 1 - rate)),
    planted={
        "the weights exchanged": blended(lambda rate: (1 - rate, rate)),
        "gamma = 1": blended(lambda rate: (rate, 1 - rate), gamma=Fraction(1)),
    },
)
def blend(statement):
    """Eq. 12 as printed, and simlab's implementation without the attenuation, in batches of several mean rewards."""
    yield from equals(
        statement,
        BATCHES,
        derived=eq_12,
        enumerated=lambda **batch: tuple(map(float, implemented(**batch, alpha=NO_ATTENUATION))),
        tolerance=FLOATING,
    )


def blended_sum(rate, p):
    """Sum of |A| of Eq. 12 over G, from Eq. 12's factor and Theorem 2's sum."""
    rate, p = number(rate), number(p)
    return 2 * mp.sqrt(p * (1 - p)) * (rate / 2 / mp.sqrt(p) + (1 - rate) / 2 / mp.sqrt(1 - p))


RATES = [Fraction(tenth, 10) for tenth in range(11)]


@claim(
    "a-grae:eq-12-transition",
    where="Section 5.1, before and after Eq. 12",
    says="As the mean reward rises attention shifts from easy to hard prompts.",
    refuted_by="a rise of omega after which a harder prompt weighs no more, relative to a simpler one, than before",
    reading="Sums of |A| of two mixed groups. The success rate of most weight is (1 - omega)^2 / (omega^2 + (1 - "
    "omega)^2), falling from 1 to 0.",
    identity=True,
    statement=lambda ratios, **_: ratios[1] > ratios[0],
    planted={"from hard to easy": lambda ratios, **_: ratios[1] < ratios[0]},
)
def transition(statement):
    """Compare the ratio of a harder to a simpler prompt's weight at two values of omega."""

    def ratios(low, high, hard, easy):
        return tuple(blended_sum(rate, hard) / blended_sum(rate, easy) for rate in (low, high))

    eighths = [Fraction(eighth, 8) for eighth in (1, 3, 5, 7)]
    points = grid(
        lambda low, high, hard, easy: low < high and hard < easy, low=RATES, high=RATES, hard=eighths, easy=eighths
    )
    yield from satisfies(statement, points, ratios, method="numerical")


BASE_ACCURACY = {  # Tables 2, 3 and 4, base model, Pass@1
    "Qwen2.5-Math-7B on MATH": Fraction(634, 1000),
    "DeepSeek-R1-7B on MATH": Fraction(843, 1000),
    "Qwen2.5-VL-3B-Instruct on Geo3K": Fraction(278, 1000),
}


@claim(
    "a-grae:eq-12-easy-first",
    where="Section 5.1, Eq. 12; abstract (ii); Section 4.3, Takeaway 2",
    says="Training starts with the weight on simpler prompts.",
    refuted_by="a run of the paper whose first batch puts more weight on p = 0.25 than on p = 0.75",
    reading="The first batch's omega is taken to be the base model's printed Pass@1: at 0.634, on MATH, the schedule "
    "is hard-focused from the first step and most so at p = 0.25. On the reading that only the direction of the "
    "shift matters it holds (a-grae:eq-12-transition).",
    met="unknown: no first batch is printed. On test problems the base models solve 63.4 % and 84.3 % of MATH and "
    "27.8 % of Geo3K.",
    caveat="Test problems at temperature 0.6 stand in for training rollouts at temperature 1, which are solved less "
    "often.",
    statement=lambda sums, **_: sums[1] > sums[0],
    condition=Amended(
        "the first batch's mean reward is below 1/2 (0.634 and 0.843 are printed for MATH, 0.278 for Geo3K)",
        lambda sums, run: sums[1] > sums[0] if BASE_ACCURACY[run] < Fraction(1, 2) else None,
    ),
    planted={"always on harder ones": lambda sums, **_: sums[1] < sums[0]},
)
def easy_first(statement):
    """The weights of a hard and of a simple prompt at the omega that each run's base model has."""
    yield from satisfies(
        statement,
        grid(run=list(BASE_ACCURACY)),
        lambda run: tuple(blended_sum(BASE_ACCURACY[run], Fraction(quarter, 4)) for quarter in (1, 3)),
        method="arithmetic",
        names=("weight of a hard prompt", "of a simple one"),
    )


@claim(
    "a-grae:eq-12-degenerate",
    where="Section 5.1, after Eq. 12; Appendix C.2, reward of the multimodal experiments",
    says="At a success rate of 0 or 1 there is nothing to rescale, since the standard advantage is 0, in the "
    "multimodal experiments too.",
    inferred=True,
    refuted_by="a group all right or all wrong with an advantage that is not 0",
    reading="The paper says it where the reward is binary; two places are put together. p the share of correct "
    "answers. With the multimodal reward (as intended, a-grae:app-b2-sign) a group that is all wrong but not all "
    "well-formed has advantages; they are left as in GRPO, so that nothing breaks. On the reading that p is the mean "
    "reward it would hold, since all rewards are then equal.",
    severity=COSMETIC,
    met="partly: on MATH; the multimodal reward has a part for format.",
    statement=lambda largest, **_: largest == 0,
    condition=Amended(
        "rewards are 0 or 1 for accuracy alone",
        lambda largest, form_weight, **_: largest == 0 if form_weight == 0 else None,
    ),
    planted={"positive": lambda largest, **_: largest > 0},
)
def nothing_to_rescale(statement):
    """The largest advantage of groups of five with one accuracy and all numbers of well-formed answers."""

    def largest(form_weight, right, formatted):
        return max(grae([(1 - form_weight) * right + form_weight * (index < formatted) for index in range(5)]))

    yield from satisfies(
        statement, grid(form_weight=[Fraction(1, 10), Fraction(0)], right=[0, 1], formatted=range(6)), largest
    )


def attenuated(G, s, solved, alpha):
    """Eqs. 12 and 13: the group's advantages, positive ones times min(1, omega / alpha)."""
    return tilted(eq_12(G, s, solved), min(Fraction(1), omega(G, s, solved) / alpha))


def side_ratio(advantages):
    """Sum of the positive advantages over the absolute sum of the negative ones."""
    return total(value for value in advantages if value > 0) / total(value for value in advantages if value < 0)


@claim(
    "a-grae:eq-13",
    where="Section 5.1, Eq. 13",
    says="Positive advantages are multiplied by min(1, omega / alpha), the others are left as they are.",
    formula=r"A_i^* = A_i \min(1, \omega_s / \alpha) \text{ if } A > 0",
    refuted_by="a batch in which the two sums of |A| are in another ratio",
    reading="Tested by the two sums of |A|, with the advantages of Eq. 12, whose factor both sides share: the same "
    "from omega = alpha on. With alpha = 1 (MATH) symmetry returns only in a batch without an error, so that C < 0 "
    "throughout; at the base model's 0.634 the factor is far from Control I's 0.1.",
    identity=True,
    statement=lambda G, s, solved, alpha: min(Fraction(1), omega(G, s, solved) / alpha),
    planted={
        "without the bound": lambda G, s, solved, alpha: omega(G, s, solved) / alpha,
        "of the group": lambda G, s, solved, alpha: min(Fraction(1), Fraction(s, G) / alpha),
    },
)
def attenuation(statement):
    """The ratio of the two sums by definition and by simlab, for alpha 1 and 0.5."""
    points = [point | {"alpha": alpha} for alpha in (Fraction(1), Fraction(1, 2)) for point in BATCHES]
    yield from equals(
        statement,
        points,
        derived=lambda **batch: side_ratio(attenuated(**batch)),
        enumerated=lambda **batch: side_ratio(implemented(**batch | {"alpha": float(batch["alpha"])})),
        tolerance=FLOATING,
    )


@claim(
    "a-grae:app-c2-alpha",
    where="Appendix C.2 (alpha 1 for MATH, 0.5 for Geo3K and medical data)",
    says="A smaller alpha keeps closer to the symmetric update.",
    inferred=True,
    identity=True,
    refuted_by="a batch in which the smaller alpha leaves the two sums further apart",
    reading="Closer to symmetry in the sense of Eq. 5. The paper says that a smaller alpha keeps stability, not why.",
    caveat="That the symmetric update is more stable is the paper's observation, and is not tested here.",
    statement=lambda ratios, **_: ratios[0] >= ratios[1],
    planted={"a larger one does": lambda ratios, **_: ratios[0] <= ratios[1]},
)
def smaller_alpha(statement):
    """The ratio of the two sums under alpha 0.5 and under 1."""

    def ratios(**batch):
        return tuple(side_ratio(attenuated(**batch, alpha=alpha)) for alpha in (Fraction(1, 2), Fraction(1)))

    yield from satisfies(statement, BATCHES, ratios)


@claim(
    "a-grae:app-c2-alpha-format",
    where="Appendix C.2: alpha = 0.5 with the reward 0.1 accuracy + 0.9 format; Eq. 13",
    says="With alpha = 0.5 a model that is well-formed but mostly wrong has its positive advantages attenuated.",
    refuted_by="a model of low accuracy whose attenuation factor is 1",
    reading="Reward weights as printed: omega is at least 0.9 for well-formed answers, so that nothing is ever "
    "attenuated and A-GRAE is hard-focused from the start. The public code has the weights the other way round "
    "(a-grae:app-b2-sign). On the reading that omega is accuracy alone it would hold.",
    inferred=True,
    same_error_as="a-grae:app-b2-sign",
    statement=(Fraction(1, 10), Fraction(9, 10)),
    slip=Amended("r = 0.9 acc + 0.1 format", (Fraction(9, 10), Fraction(1, 10))),
    planted={"equal weights": (Fraction(1, 2), Fraction(1, 2))},
)
def attenuated_while_wrong(statement):
    """The factor of Eq. 13 at three accuracies, all answers being well-formed."""
    yield from satisfies(
        lambda factor, accuracy: factor < 1,
        grid(accuracy=[Fraction(0), Fraction(1, 10), Fraction(278, 1000)]),
        lambda accuracy: min(Fraction(1), (statement[0] * accuracy + statement[1]) / Fraction(1, 2)),
    )


def printed_sum(G, s, solved):
    """Sum of |A| of Eq. 12."""
    return total(eq_12(G, s, solved))


def code_sum(G, s, solved, sample_deviation=True):
    """The same with 1 - sqrt(p) in place of sqrt(1 - p), and with the deviation of a sample."""
    rate, p = number(omega(G, s, solved)), number(Fraction(s, G))
    blend = rate * mp.sqrt(1 - p) + (1 - rate) * mp.sqrt(p * (1 - p)) / (1 - mp.sqrt(p))
    return G * blend * (mp.sqrt(mpf(G - 1) / G) if sample_deviation else 1)


def code_advantages(G, s, solved):
    """The public function's advantages of a group, rollout by rollout, without its attenuation of successes."""
    eps, rate, p = mpf("1e-6"), number(omega(G, s, solved)), number(Fraction(s, G))
    spread = mp.sqrt(mp.fsum((number(r) - p) ** 2 for r in binary_group(G, s)) / (G - 1))
    blend = rate / 2 / (mp.sqrt(p) + eps) + (1 - rate) / 2 / (1 - mp.sqrt(p) + eps)
    return tuple((number(reward) - p) / (spread + eps) * blend for reward in binary_group(G, s))


@claim(
    "a-grae:code-easy-term",
    where="Section 5.1, Eq. 12, against the public code",
    says="The public code computes Eq. 12.",
    inferred=True,
    refuted_by="a batch whose advantages the code scales otherwise",
    reading="Read in compute_grpo_outcome_advantage of the paper's repository (commit c5aa316), and transcribed here: "
    "the easy term is divided by 1 - sqrt(p) + 1e-6, and the standard deviation is that of a sample, "
    "sqrt(G / (G - 1)) larger. simlab's copy, of the population deviation, agrees but for that factor. At seven "
    "right of eight the easy term alone sums to 38 where Eq. 12 gives 7.5.",
    severity=CHANGES,
    statement=printed_sum,
    correction=Amended(
        "it divides the easy term by 1 - sqrt(p) and uses the standard deviation of a sample, up to 1e-6", code_sum
    ),
    planted={
        "but for the deviation": functools.partial(code_sum, sample_deviation=False),
        "hard term only": lambda G, s, solved: total(focused("hard_focused", G, s)),
    },
)
def published_code(statement):
    """The transcription, rollout by rollout, and simlab's copy with the sample's deviation."""

    def of_simlab(G, s, solved):
        advantages = implemented(G, s, solved, alpha=NO_ATTENUATION, easy_term="code")
        return mpf(float(np.abs(advantages).sum())) * mp.sqrt(mpf(G - 1) / G)

    yield from equals(
        statement,
        BATCHES,
        derived=lambda **batch: total(code_advantages(**batch)),
        enumerated=of_simlab,
        tolerance=mpf("1e-4"),
    )


# The weight with which each released A-GRAE script starts training: set in the script, or the default of the code.
SCRIPTS = {"GRPO + A-GRAE": 2.0, "DAPO + A-GRAE": 1.0, "Dr.GRPO + A-GRAE": 1.0, "GRPO + A-GRAE, DeepSeek": 1.0}


def weight_at(step, steps, first):
    """The trainer's weight at a step: the first one, moved linearly to 1 over the training."""
    return first + (step / steps) * (1 - first)


@claim(
    "a-grae:code-branch",
    where="Section 5.1, Eqs. 12 and 13, against the public code",
    says="Each released A-GRAE script trains with A-GRAE's advantages.",
    inferred=True,
    refuted_by="a script whose training never takes the branch of the code that holds Eqs. 12 and 13",
    reading="Commit c5aa316, whose two files have one version. The branch is taken if grpo_weight == 2.0. The trainer "
    "passes the script's weight plus (step / steps)(1 - weight), and counts steps from 1: a start at 2.0 is already "
    "below 2.0 at the first step. The scripts for Dr.GRPO and DeepSeek-R1 have the weight 1, and that for DAPO "
    "sets a variable to 2.0 without passing it on, so that the default, 1, counts. In all other cases the function "
    "returns GRPO's advantages.",
    caveat="This is the released code, not necessarily the one that gave the paper's tables. Passing the script's "
    "weight itself, a line that stands there as a comment, restores the branch for GRPO + A-GRAE.",
    severity=CHANGES,
    statement=lambda taken, steps, **_: taken == steps,
    correction=Amended("no step of any of the four scripts does", lambda taken, **_: taken == 0),
    planted={
        "the first step only": lambda taken, script, **_: taken == (SCRIPTS[script] == 2.0),
        "the script for GRPO": lambda taken, steps, script: taken == steps * (SCRIPTS[script] == 2.0),
    },
)
def code_branch(statement):
    """Count, in the floating point of the trainer, the steps at which the weight is 2.0."""

    def taken(script, steps):
        return sum(weight_at(step, steps, SCRIPTS[script]) == 2.0 for step in range(1, steps + 1))

    yield from satisfies(statement, grid(script=list(SCRIPTS), steps=[1, 100, 140, 1000]), taken)


# Settings of Section 4.1 and Appendix C.2, and those of the released scripts for MATH (commit c5aa316).
PRINTED_SETTINGS = {
    "batch": 1024,
    "mini-batch": 256,
    "epochs": 20,
    "responses a prompt": 8,
    "learning rate": 1e-6,
    "longest response in training": 2048,
    "temperature of evaluation": 0.6,
    "top-p of evaluation": 0.95,
    "longest response in evaluation": 4096,
}
RELEASED_SETTINGS = {
    "batch": 1024,
    "mini-batch": 256,
    "epochs": 20,
    "responses a prompt": 8,
    "learning rate": 1e-6,
    "longest response in training": 3072,
    "temperature of evaluation": 0.6,
    "top-p of evaluation": 0.95,
    "longest response in evaluation": 4096,
}


@claim(
    "a-grae:code-settings",
    where="Appendix C.2, with Section 4.1, against the public code",
    says="The released scripts for MATH have the settings that the paper prints.",
    inferred=True,
    refuted_by="a setting with two values",
    reading="run_qwen2.5-math-7b-grpo-agrae.sh and eval.sh, commit c5aa316. Eight of nine settings agree; the longest "
    "response in training is 2,048 tokens in the paper and 3,072 in the script. The scripts for Dr.GRPO leave "
    "norm_adv_by_std_in_grpo at its default, True: they divide by the standard deviation, which Dr.GRPO leaves out.",
    caveat="The scripts for DeepSeek-R1-7B load Qwen2.5-Math-7B; none is there for A-GRAE's multimodal runs.",
    severity=COSMETIC,
    statement=PRINTED_SETTINGS,
    correction=Amended(
        "all but the longest response in training, 3,072", PRINTED_SETTINGS | {"longest response in training": 3072}
    ),
    planted={
        "another batch": PRINTED_SETTINGS | {"longest response in training": 3072, "batch": 512},
        "another learning rate": PRINTED_SETTINGS | {"longest response in training": 3072, "learning rate": 2e-6},
    },
)
def released_settings(statement):
    """Compare setting by setting."""
    yield from arithmetic(Printed(name, value, RELEASED_SETTINGS[name], 0) for name, value in statement.items())
