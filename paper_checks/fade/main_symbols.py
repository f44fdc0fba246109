"""Sections 2, 5 and 6: letters of two meanings, a sum that runs too far, and pass@1 against pass@k."""

from fractions import Fraction

from paper_checks.claim import Amended, claim
from paper_checks.evidence import equals, grid, satisfies
from paper_checks.fade.main_gradients import POINTS, derivative


@claim(
    "fade:sec-2-log-probability",
    where="Section 2, the log-probability of a trajectory",
    says="The log-probability of the tokens a_1 to a_T is the sum of T + 1 terms, t = 0 to T.",
    formula=r"\log\pi_\theta(\tau) = \sum_{t=0}^{T}\log\pi_\theta(a_t|q,a_{<t})",
    refuted_by="a length at which the number of terms is not the number of tokens",
    reading="tau = (a_1, ..., a_T), as defined in the same sentence; there is no a_0. With tokens a_0 to a_T it would "
    "hold.",
    statement=lambda T: len(range(T + 1)),
    slip=Amended("t = 1 to T", lambda T: len(range(1, T + 1))),
    planted={"one fewer": lambda T: len(range(1, T))},
)
def token_count(statement):
    """Count the tokens of a trajectory of length T."""
    yield from equals(statement, grid(T=[1, 2, 5]), enumerated=lambda T: len([f"a_{t}" for t in range(1, T + 1)]))


@claim(
    "fade:symbol-p-hat",
    where="Section 2.2, Table 1; Equation 9 against Equation 11 and Algorithm 2",
    says="p-hat is one quantity: the solve rate of a group estimated from its G rollouts.",
    formula=r"E[r] = \hat p;\quad \hat p = k/G;\quad \hat p\leftarrow\beta\hat p+(1-\beta)\bar r",
    refuted_by="a batch in which Algorithm 2's p-hat is not the group's solve rate",
    reading="In Section 2 and Equation 9 p-hat is the group's own rate, in Equation 11 an average over past batches, "
    "where r-bar takes its place. Equation 11's text says so, so that this is a matter of notation only.",
    statement=lambda rates, before: rates[0],
    slip=Amended(
        "in Equation 11 it is the average over batches of the mean over prompts",
        lambda rates, before: (before + 49 * sum(rates) / len(rates)) / 50,
    ),
    planted={"the batch's mean": lambda rates, before: sum(rates) / len(rates)},
)
def averaged_rate(statement):
    """Follow Algorithm 2 by one batch of two groups of equal size."""
    points = grid(rates=[(Fraction(1, 4), Fraction(3, 4)), (Fraction(1, 2),) * 2], before=[Fraction(1, 4)])
    beta = Fraction(1, 50)
    yield from equals(
        statement,
        points,
        enumerated=lambda rates, before: beta * before + (1 - beta) * sum(rates) / len(rates),
    )


@claim(
    "fade:sec-6-opposing",
    where="Section 6, on Barakat et al.",
    says="pass@1 and pass@k apply opposing forces on the policy.",
    refuted_by="a policy at which their gradients have a positive inner product",
    reading="At one prompt of a tabular softmax, where grad pass@k = k q^(k-1) grad p is never opposed. Prompts that "
    "share parameters and pull them apart can turn the sum around, which is what Barakat et al. mean.",
    met="yes: a language model's prompts share all parameters",
    caveat="The paper reports it of a cited work. One example of two prompts is tested.",
    statement=lambda product, place, k: product < 0,
    condition=Amended(
        "several prompts share parameters and interfere (and k is large enough)",
        lambda product, place, k: product < 0 if place == "shared" and k >= 3 else None,
    ),
    planted={"never": lambda product, place, k: product > 0},
)
def opposing_forces(statement):
    """The inner product of the gradients of pass@1 and pass@k: three policies, and two prompts with one parameter.

    The shared parameter raises a prompt of p = 3/5 and lowers one of p = 1/10.
    """

    def product(place, k):
        if place == "shared":
            pulls = [(Fraction(3, 5), 1), (Fraction(1, 10), -1)]
            one, many = (
                sum(sign * power * (1 - p) ** (power - 1) * p * (1 - p) for p, sign in pulls) for power in (1, k)
            )
            return one * many
        policy, correct = POINTS[place]["policy"], POINTS[place]["correct"]
        one, many = (
            derivative(
                policy,
                lambda actions, power=power: (
                    1 - (1 - sum(p for p, right in zip(actions, correct, strict=True) if right)) ** power
                ),
            )
            for power in (1, k)
        )
        return sum(left * right for left, right in zip(one, many, strict=True))

    yield from satisfies(statement, grid(place=[0, 1, "shared"], k=[2, 4]), product)
