"""Simulate a method on a problem; the package is called as its function ``simlab.simulate.api.simulate``."""

from simlab.callable_package import make_callable

make_callable(__name__)
