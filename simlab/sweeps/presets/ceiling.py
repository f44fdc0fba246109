"""The preset ``ceiling``: long runs of every weight, to see which raise what pass@1 and pass@256 come to.

``simlab fit`` fits a sigmoid to each curve. Learning rates are fixed, so that a weight has the pace that is its own.
"""

from typing import Any

from simlab.sweeps.presets.interference_league import INTERFERENCE_LEAGUE
from simlab.sweeps.presets.league import NAMED
from simlab.sweeps.presets.settings import Settings

# Whose asymptotes the fits have found to differ from GRPO's or to be open, and some that they have not.
LONGER = (
    "grpo", "maxrl", "skew_r", "f_grpo", "power_alpha", "relu", "cw_grpo", "log_mean_exp", "reject_easy",
    "pass_at_k_chen", "pkpo", "positive_dominant",
)  # fmt: skip

_PLAIN = INTERFERENCE_LEAGUE["rate"]
# All that the league's bank has but a norm: GRPO's pass@1 has done half of its way after a tenth of these steps.
_BANK: dict[str, tuple[Any, ...]] = {
    name: values for name, values in NAMED["parameters"].items() if name != "run.update_norm"
}

CEILING: dict[str, Settings] = {
    "interference": _PLAIN
    | {"seeds": 6, "steps": 800, "record_every": 20, "parameters": {"optimizer.learning_rate": (2.0,)}},
    # The same runs, four times as long: did the fits foretell them?
    "longer": _PLAIN
    | {
        "estimators": LONGER,
        "seeds": 4,
        "steps": 3200,
        "record_every": 80,
        "parameters": {"optimizer.learning_rate": (2.0,)},
    },
    "bank": NAMED
    | {"seeds": 16, "steps": 1200, "record_every": 30, "parameters": _BANK | {"optimizer.learning_rate": (8.0,)}},
}
