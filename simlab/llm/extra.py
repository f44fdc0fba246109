"""Import the packages of an extra when they are needed, or say which extra to install."""

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
