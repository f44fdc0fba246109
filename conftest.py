"""Give the examples in docstrings the names that they begin with, as NumPy's do."""

import importlib

import pytest


@pytest.fixture(autouse=True)
def names_of_examples(request):
    """Add ``simlab`` and ``np``; here, since a doctest does not see the fixtures of ``tests``."""
    if isinstance(request.node, pytest.DoctestItem):
        modules = {"np": "numpy", "simlab": "simlab"}
        namespace = request.getfixturevalue("doctest_namespace")
        namespace |= {name: importlib.import_module(module) for name, module in modules.items()}
