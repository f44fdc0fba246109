"""Import the packages of an extra when they are needed."""

import importlib
from typing import Any

from simlab.errors import InputError


def package(name: str, extra: str = "llm") -> Any:
    """Import a package of an extra, or raise ``InputError`` with the extra that brings it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        allowed = f"pip install 'simlab[{extra}]'"
        raise InputError(f"{name} cannot be imported ({error}); install it with: {allowed}") from None
