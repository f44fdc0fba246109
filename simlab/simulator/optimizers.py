"""The optimisers, with the parameters that a sweep may vary; all but Muon are bit by bit those of optax.

optax itself takes long to import.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from simlab.errors import build, check_range
from simlab.rollouts import Scalar
from simlab.simulator.storage import Dense

Parameters = Any  # arrays, in any tree


class Optimizer(NamedTuple):
    """A rule that moves parameters along the gradients of a loss: ``update`` returns their change, and the moments."""

    init: Callable[[Parameters], Any]
    update: Callable[[Parameters, Any, Parameters], tuple[Parameters, Any]]


class Moments(NamedTuple):
    """Moving averages of gradients and of their squares, in the tree of the parameters, after so many ``steps``."""

    steps: Int[Array, ""]
    first: Parameters
    second: Parameters


def sgd(learning_rate: Scalar = 0.01) -> Optimizer:
    """Plain gradient steps."""
    check_range("learning_rate", learning_rate, 0)
    return Optimizer(lambda _: (), lambda gradients, moments, _: (_downhill(learning_rate, gradients), moments))


def momentum(learning_rate: Scalar = 0.01, decay: Scalar = 0.9) -> Optimizer:
    """Steps along m = ``decay`` m + g, so that a constant gradient is taken 1 / (1 - decay) times."""
    check_range("learning_rate", learning_rate, 0)
    check_range("decay", decay, 0, BELOW_ONE)

    def update(gradients: Parameters, moments: Parameters, _: Parameters) -> tuple[Parameters, Parameters]:
        moments = jax.tree.map(lambda gradient, old: gradient + decay * old, gradients, moments)
        return _downhill(learning_rate, moments), moments

    return Optimizer(lambda parameters: jax.tree.map(jnp.zeros_like, parameters), update)


def adam(learning_rate: Scalar = 0.01, b1: Scalar = 0.9, b2: Scalar = 0.999, eps: Scalar = 1e-8) -> Optimizer:
    """Adam, bias-corrected, eps outside the root (PyTorch's convention too)."""
    return _adam(learning_rate, b1, b2, eps, None)


def adamw(
    learning_rate: Scalar = 0.01, b1: Scalar = 0.9, b2: Scalar = 0.999, eps: Scalar = 1e-8, weight_decay: Scalar = 0.01
) -> Optimizer:
    """Adam with decoupled weight decay: every logit decays, sampled or not."""
    check_range("weight_decay", weight_decay, 0)
    return _adam(learning_rate, b1, b2, eps, weight_decay)


def _adam(learning_rate: Scalar, b1: Scalar, b2: Scalar, eps: Scalar, weight_decay: Scalar | None) -> Optimizer:
    check_range("learning_rate", learning_rate, 0)
    check_range("b1", b1, 0, BELOW_ONE)
    check_range("b2", b2, 0, BELOW_ONE)
    check_range("eps", eps, 0, open_low=True)  # 0 would divide 0 by 0 at every action that was never drawn

    def init(parameters: Parameters) -> Moments:
        zeros = jax.tree.map(jnp.zeros_like, parameters)
        return Moments(jnp.zeros((), jnp.int32), zeros, zeros)

    def update(gradients: Parameters, moments: Moments, parameters: Parameters) -> tuple[Parameters, Moments]:
        steps = moments.steps + 1
        first = jax.tree.map(lambda gradient, old: (1 - b1) * gradient + b1 * old, gradients, moments.first)
        second = jax.tree.map(lambda gradient, old: (1 - b2) * gradient**2 + b2 * old, gradients, moments.second)
        corrections = 1 - b1**steps, 1 - b2**steps

        def direction(first: Array, second: Array) -> Array:
            bias = [correction.astype(first.dtype) for correction in corrections]
            return first / bias[0] / _root(second, bias[1], eps)

        directions = jax.tree.map(direction, first, second)
        if weight_decay is not None:
            directions = jax.tree.map(lambda towards, value: towards + weight_decay * value, directions, parameters)
        return _downhill(learning_rate, directions), Moments(steps, first, second)

    return Optimizer(init, update)


def _root(second: Array, correction: Array, eps: Scalar) -> Array:
    """sqrt(v) + eps, by which Adam divides."""
    root: Array = jnp.sqrt(second / correction) + eps
    return root


def preconditioner(rule: Optimizer, gradient: Parameters, state: tuple[Any, Parameters], numbers: Any) -> Parameters:
    """Return M of Adam in the step by this gradient, 1 / (sqrt(v) + eps), and 0 where v is; None for the identity.

    ``state`` are the moments and parameters before the step; all optimisers but Adam and AdamW have the identity.
    """
    _, moments = rule.update(gradient, *state)
    if not isinstance(moments, Moments):
        return None
    correction = 1 - numbers["b2"] ** moments.steps

    def of_leaf(second: Array) -> Array:
        return jnp.where(second > 0, 1 / _root(second, correction.astype(second.dtype), numbers["eps"]), 0)

    return jax.tree.map(of_leaf, moments.second)


def muon(learning_rate: Scalar = 0.01, decay: Scalar = 0.95) -> Optimizer:
    """Muon: steps along the nearest orthogonal matrix to the momentum of each matrix of parameters.

    With m = ``decay`` m + (1 - decay) g, a step goes along the polar factor of decay m + (1 - decay) g, by five
    Newton-Schulz iterations, times sqrt(max(1, rows / columns)). A vector is a matrix of one column, whose polar factor
    is the vector over its length. Source: Jordan et al., "Muon: an optimizer for hidden layers in neural networks"
    (2024), which leaves vectors and the last layer to Adam.
    """
    check_range("learning_rate", learning_rate, 0)
    check_range("decay", decay, 0, BELOW_ONE)

    def mix(first: Parameters, second: Parameters) -> Parameters:
        return jax.tree.map(lambda new, old: (1 - decay) * new + decay * old, first, second)

    def update(gradients: Parameters, moments: Parameters, _: Parameters) -> tuple[Parameters, Parameters]:
        moments = mix(gradients, moments)
        return _downhill(learning_rate, jax.tree.map(_orthogonal, mix(gradients, moments))), moments

    return Optimizer(lambda parameters: jax.tree.map(jnp.zeros_like, parameters), update)


QUINTIC = (3.4445, -4.775, 2.0315)  # Jordan's: in five steps singular values from .01 on come to .68 to 1.14


def _orthogonal(array: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return about the polar factor of a matrix or vector, times sqrt(max(1, rows / columns)); 0 for 0."""
    matrix = array.reshape(len(array), -1)
    rows, columns = matrix.shape
    wide = matrix.T if rows > columns else matrix
    length = jnp.linalg.norm(wide)
    wide = wide / jnp.where(length > 0, length, 1)
    for _ in range(5):
        square = product(wide, wide.T)
        wide = QUINTIC[0] * wide + product(QUINTIC[1] * square + QUINTIC[2] * product(square, square), wide)
    factor = wide.T if rows > columns else wide
    orthogonal: Array = (max(1, rows / columns) ** 0.5 * factor).reshape(array.shape)
    return orthogonal


product = functools.partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST)


def _downhill(learning_rate: Scalar, directions: Parameters) -> Parameters:
    return jax.tree.map(lambda direction: -learning_rate * direction, directions)


BELOW_ONE = 1 - 2.0**-24  # the largest number below 1 in float32
OPTIMIZERS: dict[str, Callable[..., Optimizer]] = {
    "sgd": sgd, "momentum": momentum, "adam": adam, "adamw": adamw, "muon": muon
}  # fmt: skip


def optimizer_defaults(name: str) -> dict[str, float]:
    """Return the parameters of an optimiser at their defaults."""
    return {key: parameter.default for key, parameter in inspect.signature(OPTIMIZERS[name]).parameters.items()}


@functools.cache
def moments_per_parameter(name: str) -> int:
    """Return how many numbers an optimiser keeps of each parameter."""
    state = jax.eval_shape(optimizer(name).init, jax.ShapeDtypeStruct((1,), jnp.float32))  # type: ignore[no-untyped-call]
    return sum(leaf.size for leaf in jax.tree.leaves(state) if leaf.ndim)


def optimizer(name: str, **parameters: Any) -> Optimizer:
    """Build an optimiser by name, or refuse a name, a parameter, or a value outside its range."""
    built: Optimizer = build("optimizer", name, OPTIMIZERS, parameters)
    return built


def scale_to_norm(
    change: Parameters, norm: Float[Array, ""], members: Float[Array, "..."] | float, storage: Dense
) -> Parameters:
    """Scale the change of the parameters to a Euclidean norm, each entry counting as often as it has ``members``."""
    largest = functools.reduce(jnp.maximum, map(storage.largest_parameter, jax.tree.leaves(change)))
    direction = jax.tree.map(lambda values: values / jnp.where(largest > 0, largest, 1), change)
    squares = [storage.sum_parameters(members * values**2) for values in jax.tree.leaves(direction)]
    length = jnp.sqrt(jnp.maximum(functools.reduce(jnp.add, squares), 1))
    factor = jnp.where(largest > 0, norm / length, 0)
    return jax.tree.map(lambda values: values * factor, direction)
