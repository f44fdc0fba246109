"""The preset ``ceiling``: long runs of every weight, to see which raise what pass@1 and pass@256 come to.

``simlab fit`` fits a sigmoid to each curve. Learning rates are fixed, so that a weight has the pace that is its own.
On interfering prompts GRPO's pass@1 has done nearly all of its way after a quarter of the steps: the rest shows what
fits to that quarter have foretold.
"""

from simlab.sweeps.presets.interference_league import INTERFERENCE_LEAGUE
from simlab.sweeps.presets.league import NAMED
from simlab.sweeps.presets.settings import Settings

_PLAIN = INTERFERENCE_LEAGUE["rate"]
_BANK = {name: values for name, values in NAMED["parameters"].items() if name != "run.update_norm"}

CEILING: dict[str, Settings] = {
    "interference": _PLAIN
    | {"seeds": 8, "steps": 3200, "record_every": 40, "parameters": {"optimizer.learning_rate": (2.0,)}},
    "bank": NAMED
    | {"seeds": 16, "steps": 3200, "record_every": 40, "parameters": _BANK | {"optimizer.learning_rate": (8.0,)}},
}
