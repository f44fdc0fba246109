"""Packages of extras, imported when they are needed."""

import importlib
from typing import Any

from simlab.errors import InputError


def package(name: str, extra: str = "llm") -> Any:
    """A package of an extra of simlab's, imported.

    Raises:
        InputError: if it cannot be imported; the line says which extra brings it.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise InputError(
            f"{name} cannot be imported ({error}); install it with: pip install 'simlab[{extra}]'"
        ) from None
