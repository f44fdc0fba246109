"""Adapters of low rank to the matrices of a decoder (LoRA): a matrix W becomes W + scale A B.

A is (in, r) and B is (r, out), for each of the seven matrices of every layer; embedding, head, norms and biases stay
as they are. A is drawn and B is 0 at first, so that training begins at the base. [Hu et al. 2021, arXiv 2106.09685,
section 4.1, which writes W + (alpha / r) B A for matrices that are stored the other way round.]
"""

import functools

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from simlab.errors import check_range
from simlab.llm.config import ModelConfig
from simlab.llm.model import Parameters, shapes


def _matrices(config: ModelConfig) -> dict[str, tuple[int, int, int]]:
    return {name: shape for name, shape in shapes(config)["layers"].items() if name.endswith("_proj")}


def adapter_shapes(config: ModelConfig, rank: int) -> Parameters:
    """Return the shapes of adapters, nested as parameters are: ``q_proj_a`` (L, in, r), ``q_proj_b`` (L, r, out)."""
    pairs: dict[str, tuple[int, ...]] = {}
    for name, (layers, wide, out) in _matrices(config).items():
        pairs |= {f"{name}_a": (layers, wide, rank), f"{name}_b": (layers, rank, out)}
    return {"layers": pairs}


def check_rank(config: ModelConfig, rank: int) -> None:
    """Raise ``InputError`` for a rank above the number of rows or of columns of a matrix."""
    check_range("model.lora_rank", rank, 0, min(min(wide, out) for _, wide, out in _matrices(config).values()))


@functools.partial(jax.jit, static_argnums=(0, 1))
def adapters(config: ModelConfig, rank: int, key: PRNGKeyArray) -> Parameters:
    """Return new adapters in float32: A normal with standard deviation in^(-1/2), B zero."""
    new = {}
    for index, (name, shape) in enumerate(adapter_shapes(config, rank)["layers"].items()):
        drawn = jax.random.normal(jax.random.fold_in(key, index), shape) / jnp.sqrt(shape[1])
        new[name] = drawn if name.endswith("_a") else jnp.zeros(shape)
    return {"layers": new}


def with_adapters(base: Parameters, own_adapters: Parameters, scale: float) -> Parameters:
    """Return parameters that the decoder computes x W + scale x A B with, without a matrix of the size of W."""
    scaled = {name: scale * leaf if name.endswith("_b") else leaf for name, leaf in own_adapters["layers"].items()}
    return {**base, "layers": {**base["layers"], **scaled}}


@functools.partial(jax.jit, static_argnums=2)
def merged(base: Parameters, own_adapters: Parameters, scale: float) -> Parameters:
    """Return parameters of a decoder without adapters, W + scale A B, in the dtype of W."""
    layers = dict(base["layers"])
    for name, leaf in own_adapters["layers"].items():
        if name.endswith("_a"):
            matrix = name.removesuffix("_a")
            product = jnp.matmul(leaf, own_adapters["layers"][f"{matrix}_b"], precision="highest")
            layers[matrix] = (layers[matrix] + scale * product).astype(layers[matrix].dtype)
    return {**base, "layers": layers}
