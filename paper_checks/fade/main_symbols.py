"""Section 2: a sum that runs too far."""

from paper_checks.claim import Amended, claim
from paper_checks.evidence import equals, grid


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
