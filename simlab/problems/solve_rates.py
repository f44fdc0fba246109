"""How difficult the prompts of a bank are: solve rates that stand for a distribution, without being random."""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float

from simlab.errors import InputError, check_range
from simlab.problems.reading import numbers

Rates = Float[np.ndarray, " M"]
SMALLEST_RATE = 1e-30


def chosen_rates(
    prompts: int, solve_rates: Sequence[float] | str, otherwise: Callable[[], Rates], margin: float
) -> Rates:
    """(M,) the solve rates that are listed, or else those of ``otherwise``, moved inside by ``margin``.

    Raises:
        InputError: for an unreadable file or one without a number, and as ``moved_inside``.
    """
    listed = numbers("solve_rates", solve_rates)
    if isinstance(solve_rates, str) and not listed.size:
        raise InputError(f"solve_rates = {solve_rates!r} holds no number; allowed: one or more")
    return moved_inside(listed_rates(listed, prompts) if listed.size else otherwise(), margin)


def midpoints(count: int) -> Rates:
    """The probabilities (i + 1/2) / M, whose quantiles stand for a distribution."""
    return (np.arange(count) + 0.5) / count


def beta_rates(prompts: int, beta_a: float, beta_b: float) -> Rates:
    """(M,) the quantiles of Beta(a, b) at the midpoints, in increasing order.

    Raises:
        InputError: unless both parameters are above 0.
    """
    from scipy.special import betaincinv  # noqa: PLC0415  # a fifth of a second that other problems do without

    check_range("Beta parameter", beta_a, 0, open_low=True)
    check_range("Beta parameter", beta_b, 0, open_low=True)
    quantiles: Rates = betaincinv(beta_a, beta_b, midpoints(prompts))
    return quantiles


def mixed_rates(prompts: int, first: tuple[float, float], second: tuple[float, float], second_share: float) -> Rates:
    """(M,) two Betas side by side, each by its quantiles: round(``second_share`` M) prompts belong to the second.

    Raises:
        InputError: for Beta parameters that are not above 0, or a share outside [0, 1].
    """
    check_range("second_share", second_share, 0, 1)
    of_second = round(second_share * prompts)
    return np.sort(np.concatenate([beta_rates(prompts - of_second, *first), beta_rates(of_second, *second)]))


def listed_rates(rates: Float[np.ndarray, " L"], prompts: int) -> Rates:
    """(M,) the listed solve rates themselves if M is 0, and else their quantiles at the midpoints.

    A quantile is one of the rates, the smallest that a share of at least (i + 1/2) / M does not exceed.
    """
    if prompts == 0:
        return rates
    places = np.ceil(midpoints(prompts) * len(rates) - 1e-9).astype(int) - 1
    quantiles: Rates = np.sort(rates)[places]
    return quantiles


def moved_inside(rates: Rates, margin: float) -> Rates:
    """The solve rates, those below ``margin`` or above 1 - ``margin`` moved there.

    Raises:
        InputError: for a margin outside [0, 1/2], a rate outside [0, 1], or one that is still 1, or below 1e-30: no
            policy of float32 logits has it.
    """
    check_range("margin", margin, 0, 0.5)
    for index, rate in enumerate(rates.tolist()):
        check_range(f"solve rate {index}", rate, 0, 1)
    moved: Rates = np.clip(rates, margin, 1 - margin)
    certain = (moved < SMALLEST_RATE) | (moved >= 1)
    if certain.any():
        first = int(np.argmax(certain))
        raise InputError(
            f"solve rate {first} is {moved[first]:g}; allowed: from {SMALLEST_RATE:g} to below 1, or a margin such as "
            "margin=1e-6"
        )
    return moved
