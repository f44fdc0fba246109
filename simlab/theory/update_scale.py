"""The mean factor by which a focal weight shortens GRPO's advantages: the learning rate of a fair control.

It is imported by its own name, ``simlab.theory.update_scale``, since it loads SciPy.
"""

from scipy.special import beta

from simlab.errors import check_range


def focal_scale(gamma: float) -> float:
    """lambda(gamma) = B(3/2, 3/2 + gamma) / B(3/2, 3/2) ``[f-grpo:app-n]``.

    The mean of |A| over a group with solve rate p is proportional to sqrt(p (1 - p)) under GRPO, and (1 - p)^gamma
    times that under F-GRPO; lambda is the ratio of the two after averaging over p uniform on [0, 1].

    Raises:
        InputError: for a negative ``gamma``.

    >>> focal_scale(1.0)
    0.5
    """
    check_range("gamma", gamma, 0)
    return float(beta(1.5, 1.5 + gamma) / beta(1.5, 1.5))
