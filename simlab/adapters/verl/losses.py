"""Turn surrogates into verl's policy losses, whose gradient is the surrogate's, token by token."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch
from verl.trainer.ppo.core_algos import agg_loss

from simlab.adapters.verl.estimators import PREFIX
from simlab.errors import InputError
from simlab.rollouts import Rollouts
from simlab.surrogates import SURROGATES, Surrogate, surrogate

PolicyLoss = Callable[..., tuple[torch.Tensor, dict[str, Any]]]

# Parameters of surrogates, and the settings of verl's actor that say the same.
SETTINGS = {
    "eps_low": "clip_ratio_low", "eps_high": "clip_ratio_high", "cap": "clip_ratio_c", "tau_pos": "tau_pos",
    "tau_neg": "tau_neg",
}  # fmt: skip
LARGEST_LOG_RATIO = 20.0  # as in verl's own losses: the exponential of more overflows


def configured(name: str, actor: Any) -> Surrogate:
    """Return the surrogate of this name with the clip bounds of verl's actor.

    Args:
        name: the name of a surrogate.
        actor: verl's ``actor_rollout_ref.actor``, of which are read ``clip_ratio_low`` and ``clip_ratio_high``, each
            ``clip_ratio`` where it is None, ``clip_ratio_c``, the cap of ``dual_clip`` and ``aspo``, and ``tau_pos``
            and ``tau_neg`` of ``sapo``.

    Raises:
        InputError: for a surrogate that verl cannot run, or a bound outside its range.
    """
    bounds = {}
    for parameter in inspect.signature(SURROGATES[name]).parameters:
        if parameter in SETTINGS:
            value = getattr(actor, SETTINGS[parameter])
            bounds[parameter] = actor.clip_ratio if value is None else value
    chosen = surrogate(name, **bounds)
    if chosen.schedule is not None:
        reason = "changes from batch to batch, and verl's policy losses see micro-batches"
        raise InputError(f"policy_loss.loss_mode = {PREFIX}{name} {reason}; allowed: surrogates that stay as they are")
    if chosen.candidates or chosen.needs:
        reason = (
            "moves candidates beside the sampled token, and verl hands policy losses no logits"
            if chosen.candidates
            else "chooses among the tokens of the whole batch, and verl's policy losses see micro-batches"
        )
        raise InputError(f"policy_loss.loss_mode = {PREFIX}{name} {reason}; allowed: surrogates of single responses")
    return chosen


@functools.cache
def policy_loss(name: str) -> PolicyLoss:
    """Return the function that verl registers for the surrogate of this name, always the same object."""

    def loss(
        *,
        old_log_prob: torch.Tensor,
        log_prob: torch.Tensor,
        advantages: torch.Tensor,
        response_mask: torch.Tensor,
        loss_agg_mode: str = "token-mean",
        config: Any = None,
        rollout_is_weights: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, dict[str, Any]]:
        """Return minus the aggregated coefficient log pi, of (rows, T) each, and two of verl's metrics.

        ``loss_agg_mode`` and ``rollout_is_weights`` act as in verl's own losses. The value says nothing, but its
        gradient is that of the surrogate's objective, negated.

        Raises:
            InputError: as ``configured``.
        """
        chosen = configured(name, config)
        log_ratio = (log_prob.detach() - old_log_prob).clamp(-LARGEST_LOG_RATIO, LARGEST_LOG_RATIO)
        tokens = response_mask > 0
        coefficients = _coefficients(chosen, log_ratio.exp(), advantages, tokens)
        terms = torch.where(coefficients == 0, 0, coefficients * log_prob)
        if rollout_is_weights is not None:
            terms = terms * rollout_is_weights
        total = agg_loss(-terms, response_mask, loss_agg_mode, **config.global_batch_info)
        return total, _metrics(log_ratio, (coefficients == 0) & (advantages != 0), tokens)

    return loss


def _coefficients(
    chosen: Surrogate, ratio: torch.Tensor, advantages: torch.Tensor, tokens: torch.Tensor
) -> torch.Tensor:
    """Return the coefficients of log pi, (rows, T); all rows form one group, for surrogates do not compare rollouts."""
    rewards = torch.zeros_like(ratio[None, :, 0])  # which surrogates do not read
    result: torch.Tensor = chosen(ratio[None], advantages[None], Rollouts(rewards, token_mask=tokens[None]))
    return result[0]


def _metrics(log_ratio: torch.Tensor, clipped: torch.Tensor, tokens: torch.Tensor) -> dict[str, Any]:
    count = tokens.sum().clamp(min=1)
    return {
        "actor/ppo_kl": (-(log_ratio * tokens).sum() / count).item(),
        "actor/pg_clipfrac": ((clipped & tokens).sum() / count).item(),
    }
