"""Sweeps by name: the settings of ``Sweep`` that differ from its defaults, one file a paper."""

from simlab.sweeps.presets.a_grae import A_GRAE
from simlab.sweeps.presets.allocation import ALLOCATION
from simlab.sweeps.presets.budget import BUDGET
from simlab.sweeps.presets.casp import CASP
from simlab.sweeps.presets.ceiling import CEILING
from simlab.sweeps.presets.cw_grpo import CW_GRPO
from simlab.sweeps.presets.f_grpo import F_GRPO, F_GRPO_FIG2, THREE_REGIMES
from simlab.sweeps.presets.fade import FADE, FADE_RANK
from simlab.sweeps.presets.interference import INTERFERENCE
from simlab.sweeps.presets.interference_countdown import INTERFERENCE_COUNTDOWN
from simlab.sweeps.presets.interference_league import INTERFERENCE_LEAGUE
from simlab.sweeps.presets.interference_papers import INTERFERENCE_PAPERS
from simlab.sweeps.presets.league import LEAGUE
from simlab.sweeps.presets.minibatches import MINIBATCHES
from simlab.sweeps.presets.off_policy import LAG, MISMATCH
from simlab.sweeps.presets.remax import REMAX
from simlab.sweeps.presets.settings import Settings
from simlab.sweeps.presets.surrogates import COMPARED
from simlab.sweeps.presets.verifier import VERIFIER

# A preset is one sweep or several, each with a name of its own; one alone has none.
PRESETS: dict[str, dict[str, Settings]] = {
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
    "surrogates": COMPARED,
    "three-regimes": {"": THREE_REGIMES},
    "verifier": VERIFIER,
}

__all__ = ["F_GRPO_FIG2", "PRESETS", "Settings"]
