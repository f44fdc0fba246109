"""Turn estimators into verl's advantage functions: rows of a batch in, advantages of their tokens out."""

import contextlib
import functools
import logging
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any

import torch

from simlab.adapters.grouping import Grouping
from simlab.adapters.verl.memory import memory, recall, remember, remembers
from simlab.errors import InputError
from simlab.estimators import Estimator, estimator
from simlab.estimators.registry import check_domain
from simlab.finite import check_finite
from simlab.rollouts import Rollouts, check_rollouts

AdvantageFunction = Callable[..., tuple[torch.Tensor, torch.Tensor]]

PREFIX = "simlab_"
# Fields of Rollouts that verl's dispatcher does not hand to advantage functions, and their names in its batches.
TOKEN_FIELDS = {"old_logp": "old_log_probs", "entropy": "entropy"}

_token_fields: ContextVar[Mapping[str, torch.Tensor] | None] = ContextVar("_token_fields", default=None)


@contextlib.contextmanager
def token_fields(**fields: torch.Tensor) -> Iterator[None]:
    """Within this, advantage functions find these fields of ``Rollouts``, (rows, T), beside what verl hands them."""
    token = _token_fields.set(fields)
    try:
        yield
    finally:
        _token_fields.reset(token)


def configured(name: str, algorithm: Any) -> tuple[Estimator, str]:
    """The estimator of this name with its own settings, and its text, such as ``f_grpo(gamma=0.5)``.

    Args:
        name: the name of a registered estimator.
        algorithm: verl's ``algorithm``; the settings are those under ``simlab`` in it. None for no settings.

    Raises:
        InputError: for an unknown name, a setting that the estimator does not take, or one outside its range.
    """
    settings = dict((algorithm or {}).get("simlab") or {})
    text = ",".join(f"{key}={settings[key]}" for key in sorted(settings))
    return estimator(name, **settings), f"{name}({text})"


@functools.cache
def advantage_function(name: str) -> AdvantageFunction:
    """The function that verl registers for the estimator of this name: the same one whenever it is asked for."""

    @torch.no_grad()
    def advantages(
        *, token_level_rewards: torch.Tensor, response_mask: torch.Tensor, index: Any, config: Any = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Advantages and, the same, returns: (rows, T), of rewards and mask (rows, T) and the prompt of each row.

        Raises:
            InputError: as ``configured``; for fields that only the trainer ``simlab_sync`` has; for rewards outside
                the domain of the estimator.
        """
        chosen, text = configured(name, config)
        given = _token_fields.get()
        _check_supply(name, chosen, given)
        grouping = Grouping(list(index))
        rollouts = _rollouts(grouping, token_level_rewards.sum(dim=-1), response_mask > 0, given or {})
        check_rollouts(rollouts, chosen.needs)
        check_domain(chosen, rollouts.rewards[rollouts.mask])
        found, state = chosen.update(rollouts, recall(text, chosen))
        check_finite(text, "advantages", found, rollouts)
        remember(text, state)
        rows = grouping.rows(found)
        rows = (rows if rows.ndim == 2 else rows[:, None]) * response_mask
        return rows, rows

    return advantages


def _check_supply(name: str, chosen: Estimator, given: Mapping[str, torch.Tensor] | None) -> None:
    """Refuse what verl's trainers cannot give an estimator, and say what its own does not keep."""
    if "greedy_reward" in chosen.needs:
        raise InputError(
            f"algorithm.adv_estimator = {PREFIX}{name} needs the reward of a greedy answer, which verl samples for its "
            "own remax alone; allowed: remax"
        )
    if lacking := chosen.needs - {"rewards"} - (given or {}).keys():
        raise InputError(
            f"algorithm.adv_estimator = {PREFIX}{name} needs {', '.join(sorted(lacking))} of the whole batch; "
            "allowed: with trainer.v1.trainer_mode=simlab_sync"
        )
    if given is None and remembers(chosen) and not memory:
        logging.getLogger(__name__).warning(
            "%s%s remembers the batches before, and verl's own trainer keeps that in no checkpoint; "
            "trainer.v1.trainer_mode=simlab_sync does",
            PREFIX,
            name,
        )


def _rollouts(
    grouping: Grouping, rewards: torch.Tensor, tokens: torch.Tensor, fields: Mapping[str, torch.Tensor]
) -> Rollouts:
    """Rows as groups. A group without any token is what verl fills its batches up with, and no rollouts."""
    token_mask = grouping.groups(tokens)
    written = token_mask.any(dim=-1).any(dim=-1, keepdim=True)
    return Rollouts(
        grouping.groups(rewards),
        mask=grouping.mask(rewards) & written,
        token_mask=token_mask,
        **{name: grouping.groups(values) for name, values in fields.items()},
    )
