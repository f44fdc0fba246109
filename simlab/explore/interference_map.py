"""Read the map of interference that the page shows: what thousands of runs came to, computed in advance.

python -m figures.interference_map --explorer   (writes the file anew from the numbers of the figure)
"""

import functools
import json
from pathlib import Path
from typing import Any

MAP = Path(__file__).with_name("interference_map.json")


@functools.cache
def interference_map() -> dict[str, Any]:
    """The maps, by name.

    Returns:
        The ``level`` of pass@1 at which every run is read, ``k``, and (C,) ``overlap``; and of each of the ``maps`` its
        ``label``, the panel's ``settings`` in all of its cells (others are at their defaults), the ``setting`` that its
        rows differ in, their (R,) ``values``, and of pass@k less the base model's (R, C) ``mean`` and standard
        ``error``, both null where not all seeds reach the level. ``crossing`` is the k from which on pass@k is below
        the base model's, and ``threshold`` (R, 2) the edge by theory, of negative and of positive overlaps, or null.
    """
    found: dict[str, Any] = json.loads(MAP.read_text(encoding="utf-8"))
    return found
