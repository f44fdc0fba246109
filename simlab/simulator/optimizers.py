"""The optimisers, from optax, with the parameters that a sweep may vary."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from simlab.errors import build, check_range
from simlab.rollouts import Scalar


def sgd(learning_rate: Scalar = 0.01) -> optax.GradientTransformation:
    """Plain gradient steps.

    Raises:
        InputError: for a negative ``learning_rate``.
    """
    check_range("learning_rate", learning_rate, 0)
    return optax.sgd(learning_rate)


def adam(
    learning_rate: Scalar = 0.01, b1: Scalar = 0.9, b2: Scalar = 0.999, eps: Scalar = 1e-8
) -> optax.GradientTransformation:
    """Adam, bias-corrected, eps outside the root (PyTorch's convention too).

    Raises:
        InputError: for a negative ``learning_rate``, ``b1`` or ``b2`` outside [0, 1), or ``eps`` not above 0, which
            would divide 0 by 0 at every action that was never drawn.
    """
    _check_adam(learning_rate, b1, b2, eps)
    return optax.adam(learning_rate, b1=b1, b2=b2, eps=eps)


def adamw(
    learning_rate: Scalar = 0.01, b1: Scalar = 0.9, b2: Scalar = 0.999, eps: Scalar = 1e-8, weight_decay: Scalar = 0.01
) -> optax.GradientTransformation:
    """Adam with decoupled weight decay: every logit decays, sampled or not.

    Raises:
        InputError: as ``adam``, and for a negative ``weight_decay``.
    """
    _check_adam(learning_rate, b1, b2, eps)
    check_range("weight_decay", weight_decay, 0)
    return optax.adamw(learning_rate, b1=b1, b2=b2, eps=eps, weight_decay=weight_decay)


def _check_adam(learning_rate: Scalar, b1: Scalar, b2: Scalar, eps: Scalar) -> None:
    check_range("learning_rate", learning_rate, 0)
    check_range("b1", b1, 0, BELOW_ONE)
    check_range("b2", b2, 0, BELOW_ONE)
    check_range("eps", eps, 0, open_low=True)


BELOW_ONE = 1 - 2.0**-24  # the largest number below 1 in float32
OPTIMIZERS: dict[str, Callable[..., optax.GradientTransformation]] = {"sgd": sgd, "adam": adam, "adamw": adamw}


def optimizer_defaults(name: str) -> dict[str, float]:
    """The parameters of an optimiser at their defaults."""
    return {key: parameter.default for key, parameter in inspect.signature(OPTIMIZERS[name]).parameters.items()}


@functools.cache
def moments_kept(name: str) -> int:
    """How many numbers an optimiser keeps of each parameter."""
    state = jax.eval_shape(optimizer(name).init, jax.ShapeDtypeStruct((1,), jnp.float32))  # type: ignore[no-untyped-call]
    return sum(leaf.size for leaf in jax.tree.leaves(state) if leaf.ndim)


def optimizer(name: str, **parameters: Any) -> optax.GradientTransformation:
    """Build an optimiser by name.

    Raises:
        InputError: for an unknown name or parameter, or one outside its range.
    """
    built: optax.GradientTransformation = build("optimizer", name, OPTIMIZERS, parameters)
    return built
