"""Run the sweeps of the frontier, the weights that are tables of numbers by one program.

    python -m figures.shared.frontier_runs frontier.nc [SWEEP or CONDITION ...]     (goes on where it was stopped)

The numbers are those of ``simlab sweep --preset frontier``, to rounding: compiling each weight takes longer than its
runs. ``named`` gives the weights of such a result their names.
"""

import sys
from pathlib import Path

import xarray as xr

from figures.shared.by_number import labelled, tabled
from simlab.errors import check_choice
from simlab.sweeps.grid import Sweep
from simlab.sweeps.presets.frontier import CONDITIONS, FRONTIER
from simlab.sweeps.result import read
from simlab.sweeps.run import run


def path_of(out: Path, name: str) -> Path:
    """Return where a sweep's result is."""
    return out.with_stem(f"{out.stem}-{name}")


def quick(name: str) -> Sweep:
    """Return a sweep of the preset with its weights as tables, those that are one table once."""
    settings = FRONTIER[name]
    if not name.startswith(("weight", "rest", "judged")):
        return Sweep(**settings)
    return Sweep(**settings | {"arms": tuple(dict.fromkeys(map(tabled, settings["arms"])))})


def named(name: str, out: Path) -> xr.Dataset:
    """Read a result, each method of the preset under its name."""
    return labelled(read(path_of(out, name)), FRONTIER[name]["arms"])


def main(arguments: list[str]) -> None:
    """Run the sweeps that are named, by their names or the conditions that these end with, or all."""
    out, asked = Path(arguments[0]), arguments[1:] or list(FRONTIER)
    for each in asked:
        check_choice("sweep", each, [*CONDITIONS, *FRONTIER])
    for name in [name for each in asked for name in FRONTIER if name == each or name.endswith(f"-{each}")]:
        if not path_of(out, name).exists():
            print(name, flush=True)
            run(quick(name), path_of(out, name))


if __name__ == "__main__":
    main(sys.argv[1:])
