"""Sweeps by name: the settings of ``Sweep`` that differ from its defaults, a file a paper."""

from simlab.sweep.presets.casp import CASP
from simlab.sweep.presets.cw_grpo import CW_GRPO
from simlab.sweep.presets.f_grpo import F_GRPO_FIG2, THREE_REGIMES
from simlab.sweep.presets.fade import FADE
from simlab.sweep.presets.settings import Settings

__all__ = ["CASP", "CW_GRPO", "FADE", "F_GRPO_FIG2", "PRESETS", "THREE_REGIMES", "Settings"]

# A preset is one sweep or several, each with a name of its own; one alone has none.
PRESETS: dict[str, dict[str, Settings]] = {
    "f-grpo-fig2": {"": F_GRPO_FIG2},
    "three-regimes": {"": THREE_REGIMES},
    "fade": FADE,
    "casp": CASP,
    "cw-grpo": CW_GRPO,
}
