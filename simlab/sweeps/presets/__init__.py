"""Sweeps by name: the settings of ``Sweep`` that differ from its defaults, one file a subject."""

from simlab.sweeps.presets import banks, frontier, interference, papers
from simlab.sweeps.presets.base import Preset, SweepSettings
from simlab.sweeps.presets.papers import F_GRPO_FIG2

PRESETS: dict[str, Preset] = {
    "a-grae": papers.A_GRAE,
    "allocation": banks.ALLOCATION,
    "budget": banks.BUDGET,
    "casp": papers.CASP,
    "ceiling": banks.CEILING,
    "cw-grpo": papers.CW_GRPO,
    "f-grpo": papers.F_GRPO,
    "f-grpo-fig2": {"": F_GRPO_FIG2},
    "fade": papers.FADE,
    "fade-rank": papers.FADE_RANK,
    "frontier": frontier.FRONTIER,
    "graded-rewards": banks.GRADED_REWARDS,
    "interference": interference.INTERFERENCE,
    "interference-countdown": interference.INTERFERENCE_COUNTDOWN,
    "interference-league": interference.INTERFERENCE_LEAGUE,
    "interference-papers": interference.INTERFERENCE_PAPERS,
    "lag": banks.LAG,
    "lately": papers.LATELY,
    "league": banks.LEAGUE,
    "least-variance": interference.LEAST_VARIANCE,
    "minibatches": {"": banks.MINIBATCHES},
    "mismatch": banks.MISMATCH,
    "network": interference.NETWORK,
    "network-law": interference.NETWORK_LAW,
    "network-league": interference.NETWORK_LEAGUE,
    "network-paths": interference.NETWORK_PATHS,
    "network-papers": interference.NETWORK_PAPERS,
    "remax": banks.REMAX,
    "surrogates": banks.SURROGATES_COMPARED,
    "three-regimes": {"": papers.THREE_REGIMES},
    "verifier": banks.VERIFIER,
}

__all__ = ["F_GRPO_FIG2", "PRESETS", "SweepSettings"]
