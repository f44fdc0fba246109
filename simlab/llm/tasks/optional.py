"""Packages that only some tasks need."""

import importlib
from types import ModuleType

from simlab.errors import InputError


def optional(package: str, extra: str) -> ModuleType:
    """The package, imported.

    Raises:
        InputError: if it is not installed; the line says which extra of simlab brings it.
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise InputError(
            f"{package} cannot be imported ({error}); install it with: pip install 'simlab[{extra}]'"
        ) from None
