"""Refuse what cannot run: a problem with settings that do not fit it, and steps or seeds outside their range."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from simlab.errors import InputError, check_range, check_whole
from simlab.estimators.registry import check_domain
from simlab.problems.base import Problem
from simlab.simulator.resources import devices_by
from simlab.simulator.settings import LARGEST_INT, STORAGES, Settings, check_fits
from simlab.simulator.storage import EMPTY
from simlab.simulator.verifier import check_accepted, correct_rewards

LARGEST_SEED = 2**32 - 1  # of a larger one JAX reads the last 32 bits alone


def check(problem: Problem, settings: Settings) -> None:
    """Raise ``InputError`` if a problem cannot be learned with these settings."""
    for name in ("reward_correct", "reward_incorrect"):
        check_fits(name, getattr(problem, name), settings.dtype)
    method, rewards = settings.build(), judged_rewards(problem, settings)
    check_accepted(float(rewards[0, 0]), settings.verifier_correction, settings.false_positive, settings.false_negative)
    check_domain(method.estimator, rewards)
    check_range("top_n", settings.top_n, 0, problem.actions)
    check_range("prompts_per_step", settings.prompts_per_step, 0, problem.prompts)
    if (prompts := problem.prompts_a_step(settings)) % settings.minibatches:
        allowed = "allowed: whole numbers that divide it"
        raise InputError(f"minibatches = {settings.minibatches} of {prompts} prompts a step; {allowed}")
    _check_allocation(problem, settings, prompts)
    check_range("candidates", method.surrogate.candidates, 0, problem.choices)
    cannot = [name for name, can in (("lumped", problem.lumps), ("sharded", problem.shards)) if not can]
    if settings.storage in cannot:
        allowed = ", ".join(name for name in STORAGES if name not in cannot)
        why = f"of a {type(problem).__name__}, none of whose parameters is that of one action alone"
        raise InputError(f"storage = {settings.storage!r} {why}; allowed: {allowed}")
    if settings.truncates and settings.storage in ("lumped", "sharded"):
        raise InputError(f"sampler = {settings.sampler!r} in {settings.storage} storage; allowed: auto, dense")
    if settings.supervised and not draws_single_actions(problem):
        why = f"of a {type(problem).__name__}, whose policy is not one softmax over all answers"
        raise InputError(f"supervised = {settings.supervised} {why}; allowed: 0")
    problem.check(settings)
    largest = float(np.finfo(settings.dtype).max) if settings.storage == "dense" else abs(EMPTY) / 10
    for value in (problem.parameters.min(), problem.parameters.max()):
        if abs(value) > largest:
            where = f"{settings.dtype}, {settings.storage}"
            raise InputError(f"a logit is {value:g}; allowed in {where}: up to {largest:g}")


def judged_rewards(problem: Problem, settings: Settings) -> Float[np.ndarray, "1 2"]:
    """Return the rewards of what the verifier accepts and rejects, corrected for its errors."""
    rates = settings.false_positive, settings.false_negative
    shares = correct_rewards(np.array([[1.0, 0.0]]), settings.verifier_correction, *rates)
    rewards: np.ndarray = problem.reward_incorrect + shares * (problem.reward_correct - problem.reward_incorrect)
    return rewards


def draws_single_actions(problem: Problem) -> bool:
    """Return True if each rollout is one draw from one softmax."""
    return problem.tokens == 1 and type(problem).policy is Problem.policy


def _check_allocation(problem: Problem, settings: Settings, prompts: int) -> None:
    """Refuse an allocation of rollouts that does not fit a problem, or the other settings."""
    static, setting = settings.static, f"allocation = {settings.allocation!r}"
    if settings.allocation == "even":
        return
    if settings.storage not in ("auto", "dense"):
        raise InputError(f"storage = {settings.storage!r} with {setting}; allowed: dense")
    if settings.allocation == "dynamic" and (static.gradient_steps > 1 or settings.lag):
        allowed = "1 epoch, 1 minibatch, lag 0 and isolation 0"
        raise InputError(f"{setting} beside epochs, minibatches, lag or isolation; allowed: {allowed}")
    if settings.allocation == "learnable" and prompts == problem.prompts:
        allowed = f"prompts_per_step below {prompts}"
        raise InputError(f"{setting} with all {prompts} prompts in each step; allowed: {allowed}")
    if not static.is_ragged:
        return
    if prompts == 1:
        raise InputError(f"{setting} of 1 prompt a step; allowed: 2 prompts or more")
    if not draws_single_actions(problem):
        raise InputError(f"{setting} of a {type(problem).__name__}, whose rollouts are not one action; allowed: even")
    if not static.exchangeable:
        raise InputError(f"{setting} with {settings.name}, which tells the rollouts of a group apart; allowed: even")
    if not settings.smallest_group <= settings.group_size <= static.room:
        span = f"smallest_group = {settings.smallest_group} and largest_group = {static.room}"
        raise InputError(f"{span} with group_size = {settings.group_size}; allowed: a group size between the two")


def check_shards(problem: Problem, settings: Settings, shards: int) -> None:
    """Raise ``InputError`` unless a run can be spread over so many devices."""
    if settings.storage != "sharded":
        raise InputError(f"shard_actions = {shards} with {settings.storage} storage; allowed: sharded storage")
    devices_by(shards)
    if shards > problem.actions:
        raise InputError(f"shard_actions = {shards} of {problem.actions} actions; allowed: up to one an action")


def check_run(steps: Int[np.ndarray, " R"], seeds: Sequence[int]) -> None:
    """Raise ``InputError`` for recorded steps that do not increase from 1 up, no seed, or one outside its range."""
    if np.ndim(steps) != 1 or not len(steps) or not np.issubdtype(np.asarray(steps).dtype, np.integer):
        raise InputError(f"steps = {steps!r}; allowed: one or more whole numbers, increasing")
    check_whole("steps", int(steps[-1]), 1, LARGEST_INT)
    if int(steps[0]) < 1 or np.any(np.diff(steps) < 1):
        raise InputError(f"steps = {list(map(int, steps))}; allowed: whole numbers from 1 up, increasing")
    if not seeds:
        raise InputError("there is no seed to run; allowed: one or more")
    for seed in seeds:
        check_whole("seed", seed, 0, LARGEST_SEED)
