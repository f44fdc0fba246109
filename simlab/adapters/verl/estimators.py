"""Turn estimators into verl's advantage functions: rows of a batch in, advantages of their tokens out.

verl calls functions, and keeps nothing between calls; ``memory`` holds the states of estimators from batch to batch.
"""

import contextlib
import functools
import logging
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any

import torch

from simlab.adapters.grouping import Grouping
from simlab.errors import InputError
from simlab.estimators import Estimator, estimator
from simlab.estimators.base import State
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
    """Supply advantage functions with these fields of ``Rollouts``, (rows, T), beside verl's arguments."""
    token = _token_fields.set(fields)
    try:
        yield
    finally:
        _token_fields.reset(token)


def configured(name: str, algorithm: Any) -> tuple[Estimator, str]:
    """Return the estimator of this name with its settings, and its text, such as ``f_grpo(gamma=0.5)``.

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
    """Return the function that verl registers for the estimator of this name, always the same object."""

    @torch.no_grad()
    def advantages(
        *, token_level_rewards: torch.Tensor, response_mask: torch.Tensor, index: Any, config: Any = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return advantages and, the same, returns: (rows, T), from rewards, mask (rows, T) and the prompt of each row.

        Raises:
            InputError: as ``configured``; for fields that only the trainer ``simlab_sync`` has; for rewards outside
                the domain of the estimator.
        """
        chosen, text = configured(name, config)
        fields = _token_fields.get()
        _check_supply(name, chosen, fields)
        grouping = Grouping(list(index))
        rollouts = _rollouts(grouping, token_level_rewards.sum(dim=-1), response_mask > 0, fields or {})
        check_rollouts(rollouts, chosen.needs)
        check_domain(chosen, rollouts.rewards[rollouts.mask])
        result, state = chosen.update(rollouts, _recall(text, chosen))
        check_finite(text, "advantages", result, rollouts)
        if numbers := _numbers(state):
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
    if fields is None and has_state(chosen) and not memory:
        logging.getLogger(__name__).warning(
            "%s%s remembers the batches before, and verl's own trainer keeps that in no checkpoint; "
            "trainer.v1.trainer_mode=simlab_sync does",
            PREFIX,
            name,
        )


def _rollouts(
    grouping: Grouping, rewards: torch.Tensor, tokens: torch.Tensor, fields: Mapping[str, torch.Tensor]
) -> Rollouts:
    """Arrange rows into groups. A group without any token is verl's filling of a batch, and no rollouts."""
    token_mask = grouping.groups(tokens)
    written = token_mask.any(dim=-1).any(dim=-1, keepdim=True)
    return Rollouts(
        grouping.groups(rewards),
        mask=grouping.mask(rewards) & written,
        token_mask=token_mask,
        **{name: grouping.groups(values) for name, values in fields.items()},
    )


# States, as JSON holds them in a checkpoint: by the text of the estimator, the numbers of its state
memory: dict[str, list[float]] = {}


def has_state(chosen: Estimator) -> bool:
    """Return True if an estimator goes on from a state."""
    return bool(_numbers(chosen.init()))


def _recall(text: str, chosen: Estimator) -> State:
    """Return the state of an estimator of this text, or its first one before any batch."""
    first = chosen.init()
    return _fill(first, iter(memory.get(text, _numbers(first))))


def _numbers(state: State) -> list[float]:
    return [number for item in state for number in _numbers(item)] if isinstance(state, tuple) else [float(state)]


def _fill(first: State, numbers: Iterator[float]) -> State:
    """Return a state of the structure of ``first``, with these numbers in the order of ``_numbers``."""
    if not isinstance(first, tuple):
        return next(numbers)
    items = [_fill(item, numbers) for item in first]
    return type(first)(*items) if hasattr(first, "_fields") else tuple(items)
