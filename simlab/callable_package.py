"""Let a package be called: ``simlab.simulate(...)`` and ``simlab.sweep(...)`` run the function of that name inside it.

Once anything has imported ``simlab.simulate.runner``, Python binds ``simlab.simulate`` to the package, whatever stood
there before. So the package itself takes the call, and hands it to ``simlab.simulate.api.simulate``.
"""

import importlib
import inspect
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any


class CallablePackage(ModuleType):
    """A package whose module ``api`` has a function of the package's name."""

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        """The function, which is imported when it is first needed."""
        found: Callable[..., Any] = getattr(importlib.import_module(f"{self.__name__}.api"), _last(self.__name__))
        return found

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self.__wrapped__)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """What the function returns."""
        return self.__wrapped__(*arguments, **options)


def make_callable(name: str) -> None:
    """Turn the package of this name, which is being imported, into one that can be called."""
    sys.modules[name].__class__ = CallablePackage


def _last(name: str) -> str:
    return name.rpartition(".")[2]
