"""Compilation without most optimisations, for models of which a test runs milliseconds."""

import contextlib

import jax


@contextlib.contextmanager
def quick_compilation():
    """What runs for milliseconds need not be optimised for as many seconds."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
