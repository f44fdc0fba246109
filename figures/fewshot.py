"""SmolLM2-135M on few-shot arithmetic.

simlab train --preset fewshot --out fewshot
python figures/fewshot.py fewshot      (condenses the run, prints its table, then draws)
python figures/fewshot.py              (draws from the condensed numbers kept here)
"""

import sys
from pathlib import Path

from trained import draw

HERE = Path(__file__).parent


def main(arguments: list[str]) -> None:
    """Condense a run if one is given, then draw."""
    draw("fewshot", HERE, arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
