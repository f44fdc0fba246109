"""Packages of the extra ``llm``, imported when they are needed."""

import importlib
from typing import Any

from simlab.errors import InputError


def package(name: str) -> Any:
    """A package of the extra ``llm``.

    Raises:
        InputError: if it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise InputError(
            f"the package {error.name} is not installed; allowed after: pip install 'simlab[llm]'"
        ) from None
