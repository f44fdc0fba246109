"""Sweeps by name: the settings of ``Sweep`` that differ from its defaults, one file a subject."""

from simlab.errors import check_choice
from simlab.sweeps.presets.base import Preset, SweepSettings
from simlab.sweeps.presets.interference import (
    INTERFERENCE,
    INTERFERENCE_COUNTDOWN,
    INTERFERENCE_LEAGUE,
    INTERFERENCE_PAPERS,
)
from simlab.sweeps.presets.papers import A_GRAE, CASP, CW_GRPO, F_GRPO, F_GRPO_FIG2, FADE, FADE_RANK, THREE_REGIMES
from simlab.sweeps.presets.samplers import LAG, MINIBATCHES, MISMATCH, SURROGATES_COMPARED, VERIFIER
from simlab.sweeps.presets.weights import ALLOCATION, BUDGET, CEILING, LEAGUE, REMAX

PRESETS: dict[str, Preset] = {
    "a-grae": A_GRAE,
    "allocation": ALLOCATION,
    "budget": BUDGET,
    "casp": CASP,
    "ceiling": CEILING,
    "cw-grpo": CW_GRPO,
    "f-grpo": F_GRPO,
    "f-grpo-fig2": {"": F_GRPO_FIG2},
    "fade": FADE,
    "fade-rank": FADE_RANK,
    "interference": INTERFERENCE,
    "interference-countdown": INTERFERENCE_COUNTDOWN,
    "interference-league": INTERFERENCE_LEAGUE,
    "interference-papers": INTERFERENCE_PAPERS,
    "lag": LAG,
    "league": LEAGUE,
    "minibatches": {"": MINIBATCHES},
    "mismatch": MISMATCH,
    "remax": REMAX,
    "surrogates": SURROGATES_COMPARED,
    "three-regimes": {"": THREE_REGIMES},
    "verifier": VERIFIER,
}


def known_preset(name: str) -> str:
    """Return the name of a preset; raises ``InputError`` for another name."""
    check_choice("preset", name, sorted(PRESETS))
    return name


__all__ = ["F_GRPO_FIG2", "PRESETS", "SweepSettings", "known_preset"]
