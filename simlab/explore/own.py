"""Put estimators of the user's own files among the names of the page; only the command line says which."""

import inspect
from collections.abc import Iterable
from typing import Any

from simlab.arms import parse
from simlab.constructors import estimator_constructor
from simlab.errors import InputError
from simlab.estimators import REGISTRY, Estimator, register

Plain = bool | int | float | str | None  # what the page can be told of a default


def register_files(references: Iterable[str]) -> None:
    """Register estimators under their texts, ``FILE.py:NAME``; one that is registered stays as it is.

    A text that a page or a request sends is only ever looked up among the registered names: it opens no file.

    Raises:
        InputError: for a text of another form, and for what is no estimator of the user's.
    """
    for text in references:
        arm = parse(text)
        if arm.files != (str(arm),):
            raise InputError(f"--estimator {text!r} is no estimator of a file; allowed: FILE.py:NAME")
        if arm.estimator_name not in REGISTRY:
            _register(arm.estimator_name)


def _register(name: str) -> None:
    constructor = estimator_constructor(name)
    plain = {key: default for key, default in constructor.defaults.items() if isinstance(default, Plain)}
    constructor(**plain)  # what is wrong with it is said now

    def build(**parameters: Any) -> Estimator:
        """An estimator of the user's own."""
        found: Estimator = constructor(**parameters)
        return found

    build.__name__ = name
    build.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=default) for key, default in plain.items()]
    )
    register("own", name)(build)
