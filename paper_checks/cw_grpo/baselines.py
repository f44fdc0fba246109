"""Table 2's baseline Clip-Cov, as published with arXiv 2505.22617."""

import numpy as np

from paper_checks.claim import claim
from paper_checks.cw_grpo.batches import terms
from paper_checks.evidence import equals
from simlab.rollouts import Rollouts
from simlab.surrogates import clip_cov


def half_and_half(tokens):
    """Log-probabilities and advantages of two responses; the terms c lie in (1, 5) for tokens of -3 and -7 only."""
    half = tokens // 2
    logp = np.full((1, 2, half), -5.0)
    logp[0, :, : half // 4] = -3.0
    logp[0, :, half // 4 : half // 2] = -7.0
    return logp, np.array([[[1.0], [-1.0]]])


def untouched(surrogate, tokens, seed=0):
    """Tokens that keep the coefficient A at ratios of 1, and the c of each."""
    logp, advantages = half_and_half(tokens)
    noise = np.random.default_rng(seed).random(logp.shape)
    rollouts = Rollouts(np.zeros((1, 2)), old_logp=logp, noise=noise)
    coefficient = surrogate.coefficient(np.ones_like(logp), advantages, rollouts)
    spread = np.broadcast_to(advantages, logp.shape)
    return (coefficient == spread).ravel(), np.array(terms(list(logp.ravel()), list(spread.ravel())))


@claim(
    "cw-grpo:clip-cov",
    where="Section 3.2, Table 2, the baseline Clip-Cov",
    says="Clip-Cov removes the gradient of max(1, 2e-4 N) of N tokens, rounded down, drawn among those with 1 < c < 5.",
    refuted_by="a number of tokens at which another number loses its gradient",
    reading="The published code and its constants, which this paper does not print; all ratios 1; enough eligible "
    "tokens. A micro-batch under 5,000 tokens loses one, a larger share.",
    inferred=True,
    identity=True,
    statement=lambda tokens: max(1, tokens * 2 // 10_000),
    planted={
        "none of a small batch": lambda tokens: tokens * 2 // 10_000,
        "rounded up": lambda tokens: -(-tokens * 2 // 10_000),
    },
)
def clip_cov_share(statement):
    """Count in simlab, where every token that loses its gradient must be eligible."""

    def dropped(tokens):
        mask, c = untouched(clip_cov(), tokens)
        return int(np.sum(~mask)) if np.all((c[~mask] > 1) & (c[~mask] < 5)) else -1

    yield from equals(statement, [{"tokens": tokens} for tokens in (1000, 5000, 8000, 20_000)], enumerated=dropped)
