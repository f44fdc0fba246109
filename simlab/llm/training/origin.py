"""Whose a checkpoint is and who made it."""

from collections.abc import Mapping
from typing import Any

Origin = Mapping[str, Any]


def first_difference(found: Any, wanted: Any, name: str = "") -> str:
    """Where two pieces of plain data part, in words."""
    if isinstance(found, Mapping) and isinstance(wanted, Mapping):
        for key in sorted({*found, *wanted}):
            if found.get(key) != wanted.get(key):
                return first_difference(found.get(key), wanted.get(key), key)
    return f"{name}: {found} there, {wanted} here"
