"""A user's own code in a sweep: what it was when its parts were made."""

from collections.abc import Mapping

from simlab.errors import InputError
from simlab.identity.source import Unseen, own_source
from simlab.sweep.grid import Cell, Sweep


def own_code(sweep: Sweep, cell: Cell) -> str | None:
    """A fingerprint of the user's own code in a cell; None if all of it is the library's.

    Raises:
        InputError: for code, or what it holds, that cannot be told from another: its parts could not be reused.
    """
    try:
        found = (sweep.program(cell).own_code(), own_source(type(sweep.build_problem(cell))))
    except Unseen as error:
        where = f"estimator {cell.estimator}, surrogate {cell.surrogate}"
        raise InputError(
            f"{where}: {error}; allowed: functions, classes, numbers, arrays, what can be pickled"
        ) from None
    return " ".join(filter(None, found)) or None


def own_codes(sweep: Sweep) -> dict[str, list[str]]:
    """The fingerprints of the user's own code, by the estimator and surrogate that it is in."""
    found: dict[str, set[str]] = {}
    for _, cell in sweep.cells():
        if (code := own_code(sweep, cell)) is not None:
            found.setdefault(f"{cell.estimator}, {cell.surrogate}", set()).add(code)
    return {name: sorted(codes) for name, codes in found.items()}


def check_own(sweep: Sweep, made: Mapping[str, list[str]]) -> None:
    """Raise ``InputError`` unless the user's own code is what it was when parts were made."""
    here = own_codes(sweep)
    differing = [name for name in sorted({*here, *made}) if here.get(name) != made.get(name)]
    if differing:
        raise InputError(
            f"the parts are of other code of your own than there is here (in {differing[0]}); allowed: the same code"
        )
