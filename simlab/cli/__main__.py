"""``python -m simlab.cli`` is ``simlab``."""

import sys

from simlab.cli import main

if __name__ == "__main__":
    sys.exit(main())
