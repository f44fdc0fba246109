"""SmolLM2-135M on few-shot arithmetic.

simlab train --preset fewshot --out fewshot
python -m figures.fewshot fewshot   (condenses the run, prints its table)
simlab figures fewshot              (draws from the condensed numbers kept here)
"""

import sys
from pathlib import Path

from figures.shared import trained

DATA = Path(__file__).parent / "data" / "fewshot.json"
MESSAGE = "Held-out accuracy triples under GRPO and F-GRPO alike, and pass@4 rises with it"
DIFFERS = "Not in the papers: a pretrained model of 135M parameters, one seed."
draw = trained.draw


if __name__ == "__main__":
    trained.keep_run(DATA, Path(sys.argv[1]))
