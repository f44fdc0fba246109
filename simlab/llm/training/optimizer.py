"""Update parameters by AdamW, with the gradient clipped and the learning rate given at each step."""

import functools
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float

from simlab.errors import Diverged, check_choice, check_range, check_whole
from simlab.llm.model import Parameters
from simlab.truths import all_true

DECAYS = ("constant", "cosine")


@dataclass(frozen=True)
class OptimizerSettings:
    """Settings of AdamW in a phase of training.

    Attributes:
        learning_rate: the rate from the end of the warm-up on.
        warmup: steps over which the learning rate rises linearly.
        decay: ``"constant"``, or ``"cosine"``, which falls from the first step on and would be 0 after the last.
        weight_decay: decoupled, of matrices; norms and biases have none.
        b1, b2, eps: Adam's.
        max_norm: a gradient with a larger Euclidean norm, over all parameters together, is scaled down to it.

    Raises:
        InputError: for numbers outside their ranges.
    """

    learning_rate: float = 1e-4
    warmup: int = 0
    decay: str = "constant"
    weight_decay: float = 0.01
    b1: float = 0.9
    b2: float = 0.95
    eps: float = 1e-8
    max_norm: float = 1.0

    def __post_init__(self) -> None:
        check_range("learning_rate", self.learning_rate, 0)
        check_whole("warmup", self.warmup, 0)
        check_choice("decay", self.decay, DECAYS)
        check_range("weight_decay", self.weight_decay, 0)
        check_range("b1", self.b1, 0, 1)
        check_range("b2", self.b2, 0, 1)
        check_range("eps", self.eps, 0)
        check_range("max_norm", self.max_norm, 0, open_low=True)

    def rate(self, step: int, steps: int) -> float:
        """Return the learning rate of a step, from 1 to ``steps``."""
        rising = min(1.0, step / (self.warmup + 1))
        falling = 0.5 + 0.5 * math.cos(math.pi * (step - 1) / steps) if self.decay == "cosine" else 1.0
        return self.learning_rate * rising * falling

    def init(self, parameters: Parameters) -> Any:
        """Return the optimiser's state before the first step."""
        return jax.jit(_compiled_settings(self).transformation().init)(parameters)


def ascend(
    settings: OptimizerSettings, parameters: Parameters, state: Any, gradient: Parameters, rate: float
) -> tuple[Parameters, Any, float]:
    """Take one step up a gradient; return parameters, state, and the gradient's norm before clipping.

    The buffers of ``state`` and ``gradient`` are reused, so that neither can be read afterwards.

    Raises:
        Diverged: for a gradient, or parameters after the step, that are not finite.
    """
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

    weight_decay: float
    b1: float
    b2: float
    eps: float
    max_norm: float

    def transformation(self) -> optax.GradientTransformation:
        """Build the optimiser without its learning rate."""
        return optax.chain(
            optax.clip_by_global_norm(self.max_norm),
            optax.scale_by_adam(self.b1, self.b2, self.eps),
            optax.add_decayed_weights(self.weight_decay, mask=_matrices),
        )


def _compiled_settings(settings: OptimizerSettings) -> CompiledSettings:
    return CompiledSettings(*(getattr(settings, name) for name in CompiledSettings._fields))


def _matrices(parameters: Parameters) -> Any:
    """Return a mask of the matrices; by name, since stacked layers give each array one more axis."""
    return jax.tree_util.tree_map_with_path(lambda path, _: not path[-1].key.endswith(("norm", "bias")), parameters)
