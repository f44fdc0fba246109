"""Make verl's advantage functions of estimators (``memory`` holds their states), and policy losses of surrogates."""

import contextlib
import functools
import inspect
import logging
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any

import torch
from verl.trainer.ppo.core_algos import agg_loss

from simlab.adapters.grouping import Grouping, read_state, state_numbers
from simlab.errors import InputError
from simlab.estimators import Estimator, estimator
from simlab.estimators.registry import check_domain
from simlab.rollouts import Rollouts, check_finite, check_rollouts
from simlab.surrogates import SURROGATES, Surrogate, surrogate

PREFIX = "simlab_"
# Fields of Rollouts that verl's dispatcher does not hand to advantage functions, and their names in its batches.
TOKEN_FIELDS = {"old_logp": "old_log_probs", "entropy": "entropy"}
# Parameters of surrogates, and the settings of verl's actor that say the same.
SETTINGS = {
    "eps_low": "clip_ratio_low", "eps_high": "clip_ratio_high", "cap": "clip_ratio_c", "tau_pos": "tau_pos",
    "tau_neg": "tau_neg", "delta_low": "clip_ratio_low", "delta_high": "clip_ratio_high",
}  # fmt: skip
OF_A_BATCH = ("clip_cov", "kl_cov", "forking_tokens")  # surrogates that choose among all its tokens
LARGEST_LOG_RATIO = 20.0  # as in verl's own losses: the exponential of more overflows

memory: dict[str, list[float]] = {}  # by the text of the estimator, the numbers of its state
_supplied: ContextVar[Mapping[str, torch.Tensor] | None] = ContextVar("_supplied", default=None)


# Estimators


@contextlib.contextmanager
def supplied(**fields: torch.Tensor) -> Iterator[None]:
    """Supply advantage functions with these fields of ``Rollouts``, (rows, T) or (rows, R), beside verl's arguments."""
    token = _supplied.set(fields)
    try:
        yield
    finally:
        _supplied.reset(token)


def configured_estimator(name: str, algorithm: Any) -> tuple[Estimator, str]:
    """Return an estimator with the settings ``algorithm.simlab`` of verl, and its text, such as ``f_grpo(gamma=1)``."""
    settings = dict((algorithm or {}).get("simlab") or {})
    text = ",".join(f"{key}={settings[key]}" for key in sorted(settings))
    return estimator(name, **settings), f"{name}({text})"


@functools.cache
def advantage_function(name: str) -> Callable[..., tuple[torch.Tensor, torch.Tensor]]:
    """Return the function that verl registers for the estimator of this name, always the same object."""

    @torch.no_grad()
    def advantages(
        *, token_level_rewards: torch.Tensor, response_mask: torch.Tensor, index: Any, config: Any = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return advantages and, the same, returns: (rows, T), of rewards, a mask and the prompt of each row."""
        chosen, text = configured_estimator(name, config)
        fields = _supplied.get()
        _check_supply(name, chosen, fields)
        grouping = Grouping(list(index))
        tokens = grouping.groups(response_mask > 0)
        rewards = token_level_rewards.sum(dim=-1)
        rollouts = Rollouts(
            grouping.groups(rewards),
            # A group without any token is verl's filling of a batch.
            mask=grouping.mask(rewards) & tokens.any(dim=-1).any(dim=-1, keepdim=True),
            token_mask=tokens,
            **{field: grouping.groups(values) for field, values in (fields or {}).items()},
        )
        check_rollouts(rollouts, chosen.needs)
        check_domain(chosen, rollouts.rewards[rollouts.mask], name)
        first = chosen.init()
        result, state = chosen.update(rollouts, read_state(first, memory[text]) if text in memory else first)
        check_finite(text, "advantages", result, rollouts)
        if numbers := state_numbers(state):
            memory[text] = numbers
        rows = grouping.rows(result)
        rows = (rows if rows.ndim == 2 else rows[:, None]) * response_mask
        return rows, rows

    return advantages


def _check_supply(name: str, chosen: Estimator, fields: Mapping[str, torch.Tensor] | None) -> None:
    """Raise ``InputError`` for fields that verl's trainer does not have; warn where it does not save a state."""
    if "greedy_reward" in chosen.needs:
        raise InputError(
            f"algorithm.adv_estimator = {PREFIX}{name} needs the reward of a greedy answer, which verl samples for its "
            "own remax alone; allowed: remax"
        )
    if lacking := chosen.needs - {"rewards"} - (fields or {}).keys():
        raise InputError(
            f"algorithm.adv_estimator = {PREFIX}{name} needs {', '.join(sorted(lacking))} of the whole batch; "
            "allowed: with trainer.v1.trainer_mode=simlab_sync"
        )
    if fields is None and chosen.remembers and not memory:
        logging.getLogger(__name__).warning(
            "%s%s remembers the batches before, and verl's own trainer keeps that in no checkpoint; "
            "trainer.v1.trainer_mode=simlab_sync does",
            PREFIX,
            name,
        )


# Surrogates


def configured_surrogate(name: str, actor: Any) -> Surrogate:
    """Return a surrogate with the clip bounds of verl's ``actor_rollout_ref.actor``, see ``SETTINGS``."""
    bounds = {}
    for parameter in inspect.signature(SURROGATES[name]).parameters:
        if parameter in SETTINGS:
            value = getattr(actor, SETTINGS[parameter])
            bounds[parameter] = actor.clip_ratio if value is None else value
    chosen = surrogate(name, **bounds)
    reasons = {
        "changes from batch to batch, and verl's policy losses see micro-batches": chosen.schedule is not None,
        "moves candidates beside the sampled token, and verl hands policy losses no logits": chosen.candidates,
        "chooses among the tokens of the whole batch, and verl's policy losses see micro-batches": name in OF_A_BATCH,
    }
    for reason, holds in reasons.items():
        if holds:
            raise InputError(f"policy_loss.loss_mode = {PREFIX}{name} {reason}; allowed: surrogates without that")
    return chosen


@functools.cache
def policy_loss(name: str) -> Callable[..., tuple[torch.Tensor, dict[str, Any]]]:
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
        """Return minus the aggregated coefficient log pi, (rows, T) each, whose gradient counts, and two metrics."""
        chosen = configured_surrogate(name, config)
        log_ratio = (log_prob.detach() - old_log_prob).clamp(-LARGEST_LOG_RATIO, LARGEST_LOG_RATIO)
        tokens = response_mask > 0
        # All rows form one group, for surrogates do not compare rollouts and do not read rewards.
        rewards = torch.zeros_like(log_ratio[None, :, 0])
        batch = Rollouts(rewards, old_logp=old_log_prob[None], token_mask=tokens[None])
        coefficients = chosen(log_ratio.exp()[None], advantages[None], batch)[0]
        terms = torch.where(coefficients == 0, 0, coefficients * log_prob)
        if rollout_is_weights is not None:
            terms = terms * rollout_is_weights
        total = agg_loss(-terms, response_mask, loss_agg_mode, **config.global_batch_info)
        clipped = (coefficients == 0) & (advantages != 0) & tokens
        count = tokens.sum().clamp(min=1)
        kl = (-(log_ratio * tokens).sum() / count).item()
        return total, {"actor/ppo_kl": kl, "actor/pg_clipfrac": (clipped.sum() / count).item()}

    return loss
