"""Update parameters by AdamW or plain steps, with the gradient clipped and the learning rate given at each step."""

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float

from simlab.errors import Diverged
from simlab.llm.model import Parameters
from simlab.llm.training.settings import OptimizerSettings
from simlab.truths import all_true


def first_state(settings: OptimizerSettings, parameters: Parameters) -> Any:
    """Return the optimiser's state before the first step."""
    return jax.jit(_compiled_settings(settings).transformation().init)(parameters)


def ascend(
    settings: OptimizerSettings, parameters: Parameters, state: Any, gradient: Parameters, rate: float
) -> tuple[Parameters, Any, float]:
    """Step up, in the buffers of state and gradient; return parameters, state, and the norm before clipping."""
    parameters, state, norm, finite = _ascend(_compiled_settings(settings), parameters, state, gradient, rate)
    if not math.isfinite(norm):
        raise Diverged(f"the norm of the gradient is {float(norm)}; allowed: finite numbers")
    if not finite:
        raise Diverged(f"the update with learning rate {rate} leaves parameters that are not finite")
    return parameters, state, float(norm)


@functools.partial(jax.jit, static_argnums=0, donate_argnums=(2, 3))
def _ascend(
    settings: "CompiledSettings",
    parameters: Parameters,
    state: Any,
    gradient: Parameters,
    rate: Float[Array, ""] | float,
) -> tuple[Parameters, Any, Float[Array, ""], Bool[Array, ""]]:
    downhill = jax.tree.map(lambda leaf: -leaf, gradient)
    updates, state = settings.transformation().update(downhill, state, parameters)
    moved = jax.tree.map(lambda old, update: (old - rate * update).astype(old.dtype), parameters, updates)
    finite = all_true(jnp.array([all_true(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(moved)]))
    return moved, state, optax.global_norm(gradient), finite


class CompiledSettings(NamedTuple):
    """Fields of ``OptimizerSettings`` that a compiled program depends on; one program serves all learning rates."""

    optimizer: str
    weight_decay: float
    b1: float
    b2: float
    eps: float
    max_norm: float

    def transformation(self) -> optax.GradientTransformation:
        """Build the optimiser without its learning rate."""
        return optax.chain(
            optax.clip_by_global_norm(self.max_norm),
            optax.scale_by_adam(self.b1, self.b2, self.eps) if self.optimizer == "adamw" else optax.identity(),
            optax.add_decayed_weights(self.weight_decay, mask=_matrices),
        )


def _compiled_settings(settings: OptimizerSettings) -> CompiledSettings:
    return CompiledSettings(*(getattr(settings, name) for name in CompiledSettings._fields))


def _matrices(parameters: Parameters) -> Any:
    """Return a mask of the matrices; by name, since stacked layers give each array one more axis."""
    return jax.tree_util.tree_map_with_path(lambda path, _: not path[-1].key.endswith(("norm", "bias")), parameters)
