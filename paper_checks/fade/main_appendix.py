"""Appendix 11: the clipped objective, the set-up, and learning rates of equal scale."""

from fractions import Fraction

from paper_checks.claim import CONDITIONS, Amended, claim
from paper_checks.evidence import Printed, arithmetic, equals, grid, satisfies

NEW, OLD = (Fraction(1, 2), Fraction(1, 3), Fraction(1, 6)), (Fraction(1, 4), Fraction(1, 4), Fraction(1, 2))


@claim(
    "fade:eq-19",
    where="Appendix 11.1, Equation 19",
    says="The ratio of a token is its probability under the policy over that under the old one.",
    formula=r"r_t(\theta) = \pi_\theta(a_t|s_t)/\pi_{\theta_{\mathrm{old}}}(a_t|s_t)",
    refuted_by="a value whose mean over the old policy times the ratio is not its mean over the new",
    reading="A definition, tested by what it is for: with it the mean of any value over rollouts of the old policy is "
    "the new policy's. One token. r is also the reward, and t also a turn and a training step.",
    identity=True,
    statement=lambda new, old: new / old,
    planted={"inverted": lambda new, old: old / new},
)
def ratio(statement):
    """Sum indicator values over the actions."""
    yield from equals(
        lambda action: OLD[action] * statement(NEW[action], OLD[action]),
        [{"action": action} for action in range(3)],
        enumerated=lambda action: NEW[action],
    )


def clipped_loss(ratio, advantage, low, high, *, sign=-1, choose=min):
    """Equation 20."""
    inside = min(max(ratio, 1 - low), 1 + high)
    return sign * choose(ratio * advantage, inside * advantage)


@claim(
    "fade:eq-20",
    where="Appendix 11.1, Equation 20",
    says="The clipped loss gives the weight A at ratios inside its bounds, and none beyond the bound that A pushes to.",
    formula=r"L_t = -\min(r_t\hat A_i, \mathrm{clip}(r_t, 1-\varepsilon_{low}, 1+\varepsilon_{high})\hat A_i)",
    refuted_by="a ratio and sign of A at which the slope of the loss differs",
    reading="On-policy, where the ratio is 1, the update is that of Equation 3; off-policy the masses lose the clipped "
    "tokens, differently for successes and failures.",
    identity=True,
    statement=clipped_loss,
    planted={
        "a gain": lambda *point: clipped_loss(*point, sign=1),
        "the maximum": lambda *point: clipped_loss(*point, choose=max),
    },
)
def clipped_slope(statement):
    """The slope by a central difference, exact for a loss that is linear there."""
    step, bounds = Fraction(1, 1000), (Fraction(1, 5), Fraction(1, 4))

    def slope(ratio, advantage):
        ends = [statement(ratio + side * step, advantage, *bounds) for side in (1, -1)]
        return (ends[0] - ends[1]) / (2 * step)

    def enumerated(ratio, advantage):
        beyond = ratio > 1 + bounds[1] if advantage > 0 else ratio < 1 - bounds[0]
        return Fraction(0) if beyond else -advantage

    ratios = [Fraction(1), Fraction(1, 2), Fraction(3, 2)]
    yield from equals(slope, grid(ratio=ratios, advantage=[Fraction(2), Fraction(-2)]), enumerated=enumerated)


@claim(
    "fade:app-11-samples",
    where="Appendix 11.1",
    says="A batch of 32768 tokens holds at least 4 answers of 8192 tokens, and at least 1 of 32768.",
    refuted_by="a quotient that differs",
    reading="Full-length answers, shorter ones fit more often.",
    statement={8192: 4, 32768: 1},
    planted={"8 of 8192": {8192: 8, 32768: 1}},
)
def samples(statement):
    """Divide the token budget by the length."""
    yield from arithmetic(
        Printed(f"{length} tokens", printed, 32768 // length, 0) for length, printed in statement.items()
    )


@claim(
    "fade:app-11-trainers",
    where="Appendix 11.1",
    says="The trainer/sampler ratio is roughly .14 for 7B (1 and 7 nodes) and .375 for 32B (12 and 20 nodes).",
    refuted_by="a quotient of the printed node counts that differs beyond rounding",
    reading=".375 = 12 / 32 is trainers over all nodes, by which 7B would be 1 / 8 = .125: the two are of different "
    "kinds. No one reading of 'ratio' gives both.",
    statement={(1, 7): 0.14, (12, 20): 0.375},
    slip=Amended(".6 for 32B; .375 is 12 of all 32 nodes", {(1, 7): 0.14, (12, 20): 0.6}),
    planted={".125 for 7B": {(1, 7): 0.125, (12, 20): 0.6}},
)
def trainers(statement):
    """Divide trainer nodes by sampler nodes."""
    yield from arithmetic(
        Printed(f"{trainer} and {sampler} nodes", printed, trainer / sampler, 0.005)
        for (trainer, sampler), printed in statement.items()
    )


@claim(
    "fade:app-11-equalised",
    where="Appendix 11.3",
    says="Learning rates that equalise eta max|A| equalise the overall scale of the weights.",
    formula=r"\eta\cdot\max_i|A_i|",
    refuted_by="two weights of the same largest |A| whose masses have different peaks",
    reading="The paper equalises eta max|A|, and says that differences are then 'not due to its overall scale'. That "
    "scale is the peak of the larger mass over solve rates, to which C equalises Power-alpha, is our reading; the "
    "largest |A| is over the solve rates of groups of 64. Mean GRPO and Power-2 both reach nearly 1, with masses of "
    "1/4 and 4/27.",
    severity=CONDITIONS,
    caveat="If the largest |A| is the scale, there is nothing to refute.",
    inferred=True,
    statement=lambda ratios, alpha: abs(ratios[1] - ratios[0]) < Fraction(1, 20),
    correction=Amended(
        "at the same largest |A|, Power-2's peak mass is 16/27 of mean GRPO's",
        lambda ratios, alpha: abs(ratios[1] / ratios[0] - Fraction(16, 27)) < Fraction(1, 50),
    ),
    planted={"half": lambda ratios, alpha: abs(ratios[1] / ratios[0] - Fraction(1, 2)) < Fraction(1, 50)},
)
def equalised(statement):
    """The peak mass over the largest weight, of mean GRPO and of Power-2."""

    def ratios(alpha):
        rates = [Fraction(s, 64) for s in range(1, 64)]
        peaks = []
        for power in (1, alpha):
            largest = max(max((1 - p) ** power, p * (1 - p) ** (power - 1)) for p in rates)
            peaks.append(max(p * (1 - p) ** power for p in rates) / largest)
        return tuple(peaks)

    yield from satisfies(
        statement, [{"alpha": 2}], ratios, names=("peak mass over the largest weight of mean GRPO", "of Power-2")
    )
