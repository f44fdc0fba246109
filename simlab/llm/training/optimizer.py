"""Update parameters by AdamW or plain steps, with the gradient clipped and the learning rate given at each step."""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float

from simlab.errors import Diverged
from simlab.llm.model import Parameters
from simlab.llm.training.settings import OptimizerSettings
from simlab.truths import all_true

COMPILED = ("weight_decay", "b1", "b2", "eps", "max_norm", "optimizer")  # one program serves all learning rates


def first_state(settings: OptimizerSettings, parameters: Parameters) -> Any:
    """Return the optimiser's state before the first step."""
    return jax.jit(transformation(settings).init)(parameters)


def ascend(
    settings: OptimizerSettings, parameters: Parameters, state: Any, gradient: Parameters, rate: float
) -> tuple[Parameters, Any, float]:
    """Step up, in the buffers of state and gradient; return parameters, state, and the norm before clipping."""
    compiled = OptimizerSettings(**{name: getattr(settings, name) for name in COMPILED})
    parameters, state, norm, finite = _ascend(compiled, parameters, state, gradient, rate)
    if not math.isfinite(norm):
        raise Diverged(f"the norm of the gradient is {float(norm)}; allowed: finite numbers")
    if not finite:
        raise Diverged(f"the update with learning rate {rate} leaves parameters that are not finite")
    return parameters, state, float(norm)


@functools.partial(jax.jit, static_argnums=0, donate_argnums=(2, 3))
def _ascend(
    settings: OptimizerSettings,
    parameters: Parameters,
    state: Any,
    gradient: Parameters,
    rate: Float[Array, ""] | float,
) -> tuple[Parameters, Any, Float[Array, ""], Bool[Array, ""]]:
    downhill = jax.tree.map(lambda leaf: -leaf, gradient)
    updates, state = transformation(settings).update(downhill, state, parameters)
    moved = jax.tree.map(lambda old, update: (old - rate * update).astype(old.dtype), parameters, updates)
    finite = all_true(jnp.array([all_true(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(moved)]))
    return moved, state, optax.global_norm(gradient), finite


def transformation(settings: OptimizerSettings) -> optax.GradientTransformation:
    """Build the optimiser without its learning rate."""
    adam = optax.scale_by_adam(settings.b1, settings.b2, settings.eps)
    return optax.chain(
        optax.clip_by_global_norm(settings.max_norm),
        adam if settings.optimizer == "adamw" else optax.identity(),
        optax.add_decayed_weights(settings.weight_decay, mask=_matrices),
    )


def _matrices(parameters: Parameters) -> Any:
    """Return a mask of the matrices; by name, since stacked layers give each array one more axis."""
    return jax.tree_util.tree_map_with_path(lambda path, _: not path[-1].key.endswith(("norm", "bias")), parameters)
