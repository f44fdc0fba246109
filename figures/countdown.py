"""Countdown from scratch: seven methods from the same starts, and how many different solutions are left.

simlab train --preset countdown --out countdown
python figures/countdown.py countdown      (condenses the run, prints its table, then draws)
python figures/countdown.py                (draws from the condensed numbers kept here)
"""

import sys
from pathlib import Path

from trained import draw

HERE = Path(__file__).parent


def main(arguments: list[str]) -> None:
    """Condense a run if one is given, then draw."""
    draw("countdown", HERE, arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
