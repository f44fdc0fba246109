"""The optimisers, from optax, with the parameters that a sweep may vary."""

from collections.abc import Callable
from typing import Any

import optax

from simlab.errors import build, check_range
from simlab.rollouts import Scalar


def sgd(learning_rate: Scalar = 0.01) -> optax.GradientTransformation:
    """Plain gradient steps."""
    return optax.sgd(learning_rate)


def adam(
    learning_rate: Scalar = 0.01, b1: Scalar = 0.9, b2: Scalar = 0.999, eps: Scalar = 1e-8
) -> optax.GradientTransformation:
    """Adam, bias-corrected, eps outside the root (PyTorch's convention too)."""
    return optax.adam(learning_rate, b1=b1, b2=b2, eps=eps)


def adamw(
    learning_rate: Scalar = 0.01, b1: Scalar = 0.9, b2: Scalar = 0.999, eps: Scalar = 1e-8, weight_decay: Scalar = 0.01
) -> optax.GradientTransformation:
    """Adam with decoupled weight decay: every logit decays, sampled or not."""
    return optax.adamw(learning_rate, b1=b1, b2=b2, eps=eps, weight_decay=weight_decay)


OPTIMIZERS: dict[str, Callable[..., optax.GradientTransformation]] = {"sgd": sgd, "adam": adam, "adamw": adamw}

_RANGES = {
    "learning_rate": (0.0, float("inf")),
    "b1": (0.0, 1.0),
    "b2": (0.0, 1.0),
    "eps": (0.0, float("inf")),
    "weight_decay": (0.0, float("inf")),
}


def optimizer(name: str, **parameters: Any) -> optax.GradientTransformation:
    """Build an optimiser by name.

    Raises:
        InputError: for an unknown name or parameter, or one outside its range.
    """
    for parameter, value in parameters.items():
        check_range(parameter, value, *_RANGES.get(parameter, ()))
    built: optax.GradientTransformation = build("optimizer", name, OPTIMIZERS, parameters)
    return built
