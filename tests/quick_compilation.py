"""Compilation without most optimisations, for models that a test runs for milliseconds."""

import contextlib

import jax


@contextlib.contextmanager
def quick_compilation():
    """Switch off most optimisations, which take seconds, for a program that runs for milliseconds."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
