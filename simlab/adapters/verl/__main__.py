"""Check that verl loads simlab's plug-in, and list the names that it then takes: ``python -m simlab.adapters.verl``."""

import subprocess
import sys

import verl

from simlab.adapters.verl import entries

# Run in a process that imports verl alone: a plug-in that fails is not among its modules.
PROBE = """
import sys, verl
if "simlab.adapters.verl" not in sys.modules:
    sys.exit("not loaded")
from simlab.adapters.verl import missing
sys.exit(", ".join(missing()) or None)
"""


def main() -> int:
    """Print the names that verl takes, or complain and return 1."""
    if subprocess.run([sys.executable, "-c", PROBE], check=False).returncode:
        print(
            f"verl {verl.__version__} does not load simlab's plug-in, for the reason above; where there is none: "
            "VERL_USE_EXTERNAL_MODULES=simlab.adapters.verl loads it, VERL_USE_EXTERNAL_PLUGINS=none keeps it out",
            file=sys.stderr,
        )
        return 1
    print(f"verl {verl.__version__} takes:")
    for setting, (_, _, named) in entries().items():
        print(f"{setting}: {', '.join(named)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
