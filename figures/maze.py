"""F-GRPO's maze with the model of the paper.

simlab train --preset maze --out maze
python figures/maze.py maze      (condenses the run, prints its table, then draws)
python figures/maze.py           (draws from the condensed numbers kept here)
"""

import sys
from pathlib import Path

from trained import draw

HERE = Path(__file__).parent


def main(arguments: list[str]) -> None:
    """Condense a run if one is given, then draw."""
    draw("maze", HERE, arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
