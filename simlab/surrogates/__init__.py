"""Surrogates: from importance ratio and advantage to the coefficient of grad log pi, and loss aggregation."""

from collections.abc import Callable
from typing import Any

from simlab.errors import build
from simlab.surrogates.base import AGGREGATIONS, Schedule, Surrogate, add, aggregation_weights, scheduled
from simlab.surrogates.clip import (
    aspo,
    casp,
    ce_gppo,
    cispo,
    clip_higher,
    dual_clip,
    entropy_target_clip,
    forking_tokens,
    ppo_clip,
    reinforce,
    sapo,
    sequence_clip,
    unclipped,
)
from simlab.surrogates.masks import dppo_kl, dppo_tv, ipo_mask, opsm, sequence_mask
from simlab.surrogates.penalties import adaptive_entropy_bonus, entropy_bonus, kl_penalty, log_ratio_penalty
from simlab.surrogates.sequences import clip_cov, gmpo, kl_cov, mirror_descent, topr, vespo

SURROGATES: dict[str, Callable[..., Surrogate]] = {
    constructor.__name__: constructor
    for constructor in (
        reinforce, unclipped, ppo_clip, clip_higher, dual_clip, cispo, sequence_clip, clip_cov, kl_cov,
        casp, sapo, ce_gppo, aspo, gmpo, vespo, topr, mirror_descent, forking_tokens,
        entropy_target_clip, dppo_tv, dppo_kl, ipo_mask, opsm, sequence_mask,
    )
}  # fmt: skip


def surrogate(name: str, **parameters: Any) -> Surrogate:
    """Build a surrogate by name."""
    built: Surrogate = build("surrogate", name, SURROGATES, parameters)
    return built


__all__ = [
    "AGGREGATIONS", "SURROGATES", "Schedule", "Surrogate", "adaptive_entropy_bonus", "add", "aggregation_weights",
    "aspo", "casp", "ce_gppo", "cispo", "clip_cov", "clip_higher", "dppo_kl", "dppo_tv", "dual_clip", "entropy_bonus",
    "entropy_target_clip", "forking_tokens", "gmpo", "ipo_mask", "kl_cov", "kl_penalty", "log_ratio_penalty",
    "mirror_descent", "opsm", "ppo_clip", "reinforce", "sapo", "scheduled", "sequence_clip", "sequence_mask",
    "surrogate", "topr", "unclipped", "vespo",
]  # fmt: skip
