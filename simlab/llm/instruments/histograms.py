"""Count tokens by the entropy that they were drawn with, and by the probabilities of the likeliest candidates."""

import numpy as np
from jaxtyping import Bool, Float, Int

PROBABILITIES = 10  # bins of width 1/10
ENTROPIES = 41  # bins of 1/10 nat, the last of which is 4 nats or more


def entropy_histogram(entropy: Float[np.ndarray, "P G T"], mask: Bool[np.ndarray, "P G T"]) -> Int[np.ndarray, " B"]:
    """How many tokens have an entropy of [0, .1), [.1, .2), ..., [3.9, 4), and 4 nats or more: CaSP's Figure 8.

    Args:
        entropy: nats, of the distribution that each token was drawn from.
        mask: true where there is a token; what ``entropy`` holds elsewhere is not read.
    """
    return _counts(entropy[mask], ENTROPIES)


def candidate_histogram(
    topn_logp: Float[np.ndarray, "P G T N"], mask: Bool[np.ndarray, "P G T"]
) -> Int[np.ndarray, "N B"]:
    """At how many tokens the n-th likeliest candidate has a probability of [0, .1), ..., [.9, 1]: CaSP's Figure 9.

    Args:
        topn_logp: log-probabilities of the N likeliest candidates, the likeliest first.
        mask: as for ``entropy_histogram``.
    """
    chances = np.exp(topn_logp[mask].astype(float))
    return np.stack([_counts(of_rank, PROBABILITIES) for of_rank in chances.T])


def _counts(values: Float[np.ndarray, " C"], bins: int) -> Int[np.ndarray, " B"]:
    """By tenths from 0; rounding may have put a value a little below 0."""
    place = np.searchsorted(np.arange(1, bins) / 10, values, side="right")
    return np.bincount(place, minlength=bins)
