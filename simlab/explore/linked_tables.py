"""Keep the masses of all linked choices: a page that is exported draws these, for it has no server to compute others.

python -m simlab.explore.linked_tables   (writes linked_tables.json anew)
"""

import functools
import itertools
import json
from pathlib import Path

from simlab.errors import InputError
from simlab.explore.mass_table import group_masses
from simlab.explore.weights import parameters_of
from simlab.files import write_whole

LINKED = "linked"
TABLES = Path(__file__).with_name("linked_tables.json")
SIZES = (4, 8, 16)  # of groups
DIGITS = 4

Tables = dict[str, dict[str, list[list[float]]]]


@functools.cache
def linked_tables() -> Tables:
    """By group size, then by the choices with spaces between: m_S and m_F at 0 to G successes, (2, G + 1).

    Numbers, such as gamma, are at their defaults. Choices that read more than the rewards of a step have no table.
    """
    found: Tables = json.loads(TABLES.read_text(encoding="utf-8"))
    return found


def computed_tables(sizes: tuple[int, ...] = SIZES) -> Tables:
    """The same, computed by the estimator itself."""
    roles = {key: own.choices for key, own in parameters_of(LINKED).items() if own.choices}
    tables: Tables = {str(size): {} for size in sizes}
    for choices in itertools.product(*roles.values()):
        for size in sizes:
            try:
                masses = group_masses(LINKED, size, dict(zip(roles, choices, strict=True)))
            except InputError:
                break
            tables[str(size)][" ".join(choices)] = [[float(f"{one:.{DIGITS}g}") for one in side] for side in masses]
    return tables


if __name__ == "__main__":
    write_whole(TABLES, (json.dumps(computed_tables(), separators=(",", ":")) + "\n").encode())
