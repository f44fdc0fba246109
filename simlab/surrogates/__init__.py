"""Surrogates: from importance ratio and advantage to the coefficient of grad log pi, and loss aggregation."""

from collections.abc import Callable
from typing import Any

from simlab.errors import build
from simlab.surrogates.aggregation import AGGREGATIONS, aggregation_weights
from simlab.surrogates.base import Surrogate, add
from simlab.surrogates.candidates import casp
from simlab.surrogates.clip import cispo, clip_higher, dual_clip, ppo_clip, reinforce, sequence_clip, unclipped
from simlab.surrogates.covariance import clip_cov, kl_cov
from simlab.surrogates.forking import forking_tokens
from simlab.surrogates.penalties import entropy_bonus, kl_penalty
from simlab.surrogates.sequences import gmpo, mirror_descent, topr, vespo
from simlab.surrogates.soft import aspo, ce_gppo, sapo

SURROGATES: dict[str, Callable[..., Surrogate]] = {
    "reinforce": reinforce,
    "unclipped": unclipped,
    "ppo_clip": ppo_clip,
    "clip_higher": clip_higher,
    "dual_clip": dual_clip,
    "cispo": cispo,
    "sequence_clip": sequence_clip,
    "clip_cov": clip_cov,
    "kl_cov": kl_cov,
    "casp": casp,
    "sapo": sapo,
    "ce_gppo": ce_gppo,
    "aspo": aspo,
    "gmpo": gmpo,
    "vespo": vespo,
    "topr": topr,
    "mirror_descent": mirror_descent,
    "forking_tokens": forking_tokens,
}


def surrogate(name: str, **parameters: Any) -> Surrogate:
    """Build a surrogate by name.

    Raises:
        InputError: for an unknown name or parameter, or a parameter outside its range.
    """
    built: Surrogate = build("surrogate", name, SURROGATES, parameters)
    return built


__all__ = [
    "AGGREGATIONS",
    "SURROGATES",
    "Surrogate",
    "add",
    "aggregation_weights",
    "aspo",
    "casp",
    "ce_gppo",
    "cispo",
    "clip_cov",
    "clip_higher",
    "dual_clip",
    "entropy_bonus",
    "forking_tokens",
    "gmpo",
    "kl_cov",
    "kl_penalty",
    "mirror_descent",
    "ppo_clip",
    "reinforce",
    "sapo",
    "sequence_clip",
    "surrogate",
    "topr",
    "unclipped",
    "vespo",
]
