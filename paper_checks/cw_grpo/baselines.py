"""Table 2's baseline Clip-Cov, and its sister KL-Cov, as published with arXiv 2505.22617."""

import numpy as np
from mpmath import mp, mpf

from paper_checks.claim import Amended, claim
from paper_checks.cw_grpo.batches import terms
from paper_checks.cw_grpo.tables import TABLE_1
from paper_checks.evidence import equals, grid, satisfies
from simlab.rollouts import Rollouts
from simlab.surrogates import clip_cov, kl_cov

NEGLIGIBLE = mpf("1e-12")


def half_and_half(tokens):
    """Log-probabilities and advantages of two responses; the terms c lie in (1, 5) for tokens of -3 and -7 only."""
    half = tokens // 2
    logp = np.full((1, 2, half), -5.0)
    logp[0, :, : half // 4] = -3.0
    logp[0, :, half // 4 : half // 2] = -7.0
    return logp, np.array([[[1.0], [-1.0]]])


def untouched(surrogate, tokens, seed=0):
    """Which tokens keep the coefficient A at ratios of 1, and the c of each."""
    logp, advantages = half_and_half(tokens)
    noise = np.random.default_rng(seed).random(logp.shape)
    rollouts = Rollouts(np.zeros((1, 2)), old_logp=logp, noise=noise)
    found = surrogate.coefficient(np.ones_like(logp), advantages, rollouts)
    spread = np.broadcast_to(advantages, logp.shape)
    return (found == spread).ravel(), np.array(terms(list(logp.ravel()), list(spread.ravel())))


@claim(
    "cw-grpo:clip-cov",
    where="Table 2, the baseline Clip-Cov",
    says="Clip-Cov takes the gradient from a share of 2e-4 of the tokens, drawn among those with 1 < c < 5.",
    refuted_by="a number of tokens at which another number loses its gradient",
    reading="Constants of the published code, which this paper does not print; all ratios 1; enough eligible tokens. "
    "The code takes max(1, int(2e-4 N)): of a micro-batch under 5,000 tokens it takes one, a larger share, and "
    "otherwise it rounds down. On the reading 'about that share, of large batches' it would hold.",
    statement=lambda tokens: mpf(tokens) * 2 / 10_000,
    condition=Amended(
        "The number of tokens is a multiple of 5,000.",
        lambda tokens: mpf(tokens) * 2 / 10_000 if tokens % 5000 == 0 else None,
    ),
    planted={"a hundred times as many": lambda tokens: mpf(tokens) * 2 / 100},
)
def clip_cov_share(statement):
    """Count by the published rule, and in simlab, where every token that loses its gradient must be eligible."""

    def by_simlab(tokens):
        kept, c = untouched(clip_cov(), tokens)
        return int(np.sum(~kept)) if np.all((c[~kept] > 1) & (c[~kept] < 5)) else -1

    yield from equals(
        statement,
        [{"tokens": tokens} for tokens in (1000, 5000, 8000, 20_000)],
        derived=lambda tokens: max(1, int(2e-4 * tokens)),
        enumerated=by_simlab,
    )


@claim(
    "cw-grpo:clip-cov-extremes",
    where="Table 1 beside the baseline of Table 2",
    says="Clip-Cov acts on the extreme covariance tokens of Table 1, those beyond the 0.01 % threshold.",
    refuted_by="a 0.01 % threshold outside the interval from which Clip-Cov draws",
    reading="Table 1's rows read as thresholds and Clip-Cov's published interval (1, 5), which the table's own "
    "figures leave: 11.52 and -13.62. So the baseline leaves alone what this paper calls extreme, on the negative "
    "side by design. On the reading that extreme begins at the 1 % row its positive side (3.32) is inside. With other "
    "constants, if the authors used them, it could be otherwise.",
    statement=(1, 5),
    planted={"a little higher": (1, 10)},
)
def clip_cov_extremes(statement):
    """The two thresholds, against the interval."""
    low, high = statement
    yield from satisfies(
        lambda threshold, side: low < threshold < high,
        [{"side": 0}, {"side": 1}],
        lambda side: TABLE_1[0][1 + side],
        method="arithmetic",
    )


@claim(
    "cw-grpo:kl-cov",
    where="Appendix D, covariance-based methods of arXiv 2505.22617",
    says="KL-Cov's penalty |log pi - log pi_old| acts on the tokens of largest covariance.",
    refuted_by="a ratio at which the penalised tokens have the gradient they had without it",
    reading="The method as published. |log r| has no derivative at r = 1; PyTorch, in which it is written, takes 0, "
    "as the symmetric derivative is. At the first step on fresh rollouts, the only one on policy, KL-Cov is then "
    "plain GRPO without a clip. With JAX, which takes 1, it would pull there. On the reading 'in later steps on the "
    "same rollouts' it holds.",
    statement=lambda pull, r: pull > NEGLIGIBLE,
    condition=Amended(
        "The ratio is not 1: after the first step on a batch.", lambda pull, r: pull > NEGLIGIBLE if r != 1 else None
    ),
    planted={"nowhere": lambda pull, r: pull < NEGLIGIBLE if r != 1 else None},
)
def kl_cov_on_policy(statement):
    """The symmetric derivative of |log r|, and, at the token of largest c, the coefficient in simlab."""

    def by_simlab(r):
        logp = np.array([[[-1.0, -3.0], [-1.0, -1.0]]])
        ratio = np.full(logp.shape, float(r))
        advantages = np.array([[[1.0], [-1.0]]])
        found = kl_cov().coefficient(ratio, advantages, Rollouts(np.zeros((1, 2)), old_logp=logp))
        return mpf(float(np.max(np.abs(ratio * advantages - found))))

    def symmetric(r):
        return abs(r * mp.diff(lambda x: abs(mp.log(x)), r))

    yield from satisfies(
        statement,
        grid(r=[mpf(1), mpf("1.1"), mpf("0.9")]),
        symmetric,
        method="numerical",
        derived=by_simlab,
        tolerance=NEGLIGIBLE,
    )
