"""Simulate: check what is asked, choose a storage, send batches of runs to the device, and label their records."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
import xarray as xr
from jaxtyping import Float, Int

from simlab.arms import Arm
from simlab.errors import InputError, check_range, check_whole
from simlab.estimators import DOMAINS
from simlab.estimators.registry import check_domain
from simlab.methods import Method
from simlab.problems.base import Problem
from simlab.simulator.call import Call, Rows, computing
from simlab.simulator.metrics import DECADES, Metric
from simlab.simulator.resources import (
    Devices,
    batch_size,
    devices_by,
    platform_of,
    refuse_out_of_memory,
    resolved,
    shards_needed,
)
from simlab.simulator.settings import ENDANGERED, LARGEST_INT, NO_REMEDY, STORAGES, Settings, check_fits
from simlab.simulator.storage import EMPTY
from simlab.simulator.verifier import check_accepted, correct_rewards

LARGEST_SEED = 2**32 - 1  # of a larger one JAX reads the last 32 bits alone
MOST_SEEDS = MOST_RECORDS = 10**6
SAMPLED_AS_USUAL = {"lag": 0, "sampler": "exact", "allocation": "even"}
COORDINATES = {
    "seed": ("seed of the random numbers", "1"),
    "step": ("steps of the policy gradient so far", "1"),
    "k": ("samples of pass@k", "1"),
    "rank": ("place by probability, from 1, the likeliest", "1"),
    "decade": ("probability of a token under the sampler", "1"),
    "part": ("part of the reward", "1"),
}


def simulate(
    problem: Problem,
    method: str | Arm | Method = "grpo",
    *,
    seeds: int = 4,
    steps: int = 1000,
    record_every: int = 50,
    **settings: Any,
) -> xr.Dataset:
    """Simulate a method on a problem, for seeds 0 to ``seeds`` - 1, and return the records.

    Args:
        problem: such as ``anchored(1000, 100)``, see ``simlab.problems``.
        method: text such as ``"f_grpo(gamma=0.5)"`` (see ``simlab.arms``), an ``Arm`` or a ``Method``.
        record_every: steps between two records; the last step is always recorded.
        settings: everything else, see ``Settings``: ``group_size=64, optimizer="sgd", kl=0.1``, ...

    Returns:
        A dataset with dimensions ``seed`` and ``step``, and a variable for each metric of the problem.

    Raises:
        InputError: if the problem cannot be learned with these settings.
        Diverged: if a number of a run is not finite.

    >>> from simlab.problems import anchored
    >>> result = simulate(anchored(100, 10), "grpo", group_size=8, steps=100)
    >>> bool((result.q_pos.isel(step=-1) > result.q_pos.isel(step=0)).all())
    True
    """
    check_seeds(seeds)
    checked = Settings(method, **settings)
    recorded = recorded_steps(steps, record_every)
    rows = run(problem, [checked] * seeds, range(seeds), recorded)
    return labelled(problem.recorded, labels_of(problem, checked), rows, {"seed": np.arange(seeds)}, recorded)


def run(
    problem: Problem,
    settings: Sequence[Settings],
    seeds: Sequence[int],
    steps: Int[np.ndarray, " R"],
    devices: Devices | None = None,
) -> Rows:
    """Simulate runs of one problem, each with its own settings and seed, and return their records.

    Args:
        settings: the settings of each run; they may differ in floats alone.
        seeds: the seeds of each run, from 0 to 2^32 - 1.
        steps: the R steps after which to record, increasing, the last one being the length of the runs.
        devices: one device, or those that sharded storage spreads each run over; by default as few as hold a run.

    Returns:
        Arrays (runs, R + 1, ...) by metric; the first record is of step 0. Metrics along an empty axis are left out.

    Raises:
        InputError: if the problem cannot be learned with these settings on these devices.
        Diverged: if a number of a run is not finite.
    """
    check_run(steps, seeds)
    # Many runs share one object of settings, which takes longer to resolve than a step.
    distinct = {id(each): each for each in settings}
    distinct = {key: resolved(problem, each, int(steps[-1])) for key, each in distinct.items()}
    settings = [distinct[id(each)] for each in settings]
    for each in distinct.values():
        check(problem, each)
    if len({each.static for each in distinct.values()}) > 1:
        raise InputError("these settings shape different programs; allowed in one call: those that differ in floats")
    together = batch_size(problem, settings[0], platform_of(devices))
    if devices and len(devices) > 1:
        check_shards(problem, settings[0], len(devices))
    if settings[0].storage == "sharded":
        devices = devices or devices_by(shards_needed(problem, settings[0], steps))[0]
    batches = []
    with computing(settings[0], devices), refuse_out_of_memory(problem, settings[0]):
        for first in range(0, len(seeds), together):
            chosen = [min(first + index, len(seeds) - 1) for index in range(together)]  # the last fills the batch up
            call = Call(problem, [settings[run] for run in chosen], [seeds[run] for run in chosen], steps, devices)
            batches.append({name: values[: len(seeds) - first] for name, values in records(call).items()})
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


def records(call: Call) -> Rows:
    """Return the records of a batch; runs with sparse steps go together, and so do the others."""
    sparse = call.are_sparse()
    if not sparse.any():
        return call.rows()
    rows: Rows = {}
    for kind in np.unique(sparse):
        chosen = np.flatnonzero(sparse == kind)
        filled = np.resize(chosen, len(sparse)).tolist()
        own = [call.settings[run] for run in filled], [call.seeds[run] for run in filled]
        same_kind = Call(call.problem, *own, call.steps, call.devices, sparse=bool(kind))
        for name, values in same_kind.rows().items():
            rows.setdefault(name, np.empty_like(values))[chosen] = values[: len(chosen)]
    return rows


# What is refused


def _refuse(wrong: Any, message: str) -> None:
    if wrong:
        raise InputError(message)


def check(problem: Problem, settings: Settings) -> None:
    """Raise ``InputError`` if a problem cannot be learned with these settings."""
    for name in ("reward_correct", "reward_incorrect"):
        check_fits(name, getattr(problem, name), settings.dtype)
    method, rewards, kind = settings.build(), judged_rewards(problem, settings), type(problem).__name__
    if problem.rewards is None:
        rates = settings.false_positive, settings.false_negative
        check_accepted(float(rewards[0, 0]), settings.verifier_correction, *rates)
    else:
        _check_graded(problem, settings, rewards)
    check_domain(method.estimator, rewards, settings.name)
    check_range("top_n", settings.top_n, 0, problem.actions)
    check_range("prompts_per_step", settings.prompts_per_step, 0, problem.prompts)
    prompts, parts, storage = problem.prompts_a_step(settings), settings.minibatches, settings.storage
    divides = "allowed: whole numbers that divide it"
    _refuse(prompts % parts, f"minibatches = {parts} of {prompts} prompts a step; {divides}")
    _check_allocation(problem, settings, prompts)
    pulls = {"kl": 0, "entropy_bonus": 0, "supervised": 0}
    _check_alone(settings, f"tempering = {settings.tempering:g}", settings.tempering != 1, **SAMPLED_AS_USUAL, **pulls)
    _check_remedy(problem, settings, prompts)
    check_range("candidates", method.surrogate.candidates, 0, problem.choices)
    cannot = [name for name, can in (("lumped", problem.lumps), ("sharded", problem.shards)) if not can]
    others = ", ".join(name for name in STORAGES if name not in cannot)
    why = f"of a {kind}, whose parameters are not all of one action each"
    _refuse(storage in cannot, f"storage = {storage!r} {why}; allowed: {others}")
    setting = settings.dense_alone
    _refuse(setting and storage in ("lumped", "sharded"), f"{setting} in {storage} storage; allowed: auto, dense")
    why = f"of a {kind}, whose policy is not one softmax over all answers"
    wrong = settings.supervised and not draws_single_actions(problem)
    _refuse(wrong, f"supervised = {settings.supervised} {why}; allowed: 0")
    wrong = "teacher_logp" in method.needs and not draws_single_actions(problem)
    _refuse(wrong, f"{settings.name}, which follows a teacher, {why}; allowed: methods that follow none")
    problem.check(settings)
    largest = float(np.finfo(settings.dtype).max) if storage == "dense" else abs(EMPTY) / 10
    for value in (extreme for leaf in jax.tree.leaves(problem.parameters) for extreme in (leaf.min(), leaf.max())):
        where = f"{settings.dtype}, {storage}"
        _refuse(abs(value) > largest, f"a logit is {value:g}; allowed in {where}: up to {largest:g}")


def _check_graded(problem: Problem, settings: Settings, rewards: Float[np.ndarray, "1 L"]) -> None:
    """Refuse what is for right and wrong alone, and numbers that the dtype does not hold."""
    for value in (
        *(extreme for values in (problem.rewards, rewards) for extreme in (values.min(), values.max())),
        *problem.reward_weights,
    ):
        check_fits("a reward or its weight", value, settings.dtype)
    for name in ("false_positive", "false_negative"):
        wrong = f"{name} = {getattr(settings, name):g} of graded rewards; allowed: 0, and the problem's reward_noise"
        _refuse(getattr(settings, name), wrong)
    domain, noise = settings.build().estimator.domain, problem.reward_noise
    message = f"reward_noise = {noise} with {settings.name}, which is defined for {DOMAINS[domain]}; allowed: None"
    _refuse(noise is not None and np.any(noise > 0) and domain != "any", message)


def judged_rewards(problem: Problem, settings: Settings) -> Float[np.ndarray, "1 L"]:
    """Return the rewards of what the verifier accepts and rejects, corrected for its errors, or all that are graded."""
    if problem.rewards is not None:
        return np.unique(problem.totals)[None]
    rates = settings.false_positive, settings.false_negative
    shares = correct_rewards(np.array([[1.0, 0.0]]), settings.verifier_correction, *rates)
    rewards: np.ndarray = problem.reward_incorrect + shares * (problem.reward_correct - problem.reward_incorrect)
    return rewards


def draws_single_actions(problem: Problem) -> bool:
    """Return True if each rollout is one draw from one softmax."""
    return problem.tokens == 1 and type(problem).policy is Problem.policy


def _check_alone(settings: Settings, chosen: str, is_chosen: bool, **others: Any) -> None:
    """Refuse other values of some settings beside one that takes them to be the usual ones."""
    wrong = [name for name, usual in others.items() if is_chosen and getattr(settings, name) != usual]
    for name in wrong[:1]:
        raise InputError(f"{name} = {getattr(settings, name)} with {chosen}; allowed: {others[name]}")


def _check_remedy(problem: Problem, settings: Settings, prompts: int) -> None:
    """Refuse a remedy where prompts share nothing, or where a step is more than one gradient step on one batch."""
    rule, setting = settings.remedy, f"remedy = {settings.remedy!r}"
    if rule == NO_REMEDY:
        return
    shares = problem.prompts > 1 and not problem.has_own_parameters and draws_single_actions(problem)
    why = f"of a {type(problem).__name__}, whose prompts share no parameters; allowed: {NO_REMEDY}"
    _refuse(not shares, f"{setting} {why}")
    once = {"tempering": 1, "epochs": 1, "minibatches": 1, "isolation": 0}
    _check_alone(settings, setting, True, **SAMPLED_AS_USUAL, **once)
    _refuse(settings.group_size < 2, f"group_size = {settings.group_size} with {setting}; allowed: 2 or more")
    fewer = f"with all {prompts} prompts in each step; allowed: prompts_per_step below {prompts}"
    _refuse(rule == ENDANGERED and prompts == problem.prompts, f"{setting} {fewer}")


def _check_allocation(problem: Problem, settings: Settings, prompts: int) -> None:
    """Refuse an allocation of rollouts that does not fit a problem, or the other settings."""
    static, rule, setting = settings.static, settings.allocation, f"allocation = {settings.allocation!r}"
    if rule == "even":
        return
    _refuse(settings.storage not in ("auto", "dense"), f"storage = {settings.storage!r} with {setting}; allowed: dense")
    steps = "epochs, minibatches, lag or isolation; allowed: 1 epoch, 1 minibatch, lag 0 and isolation 0"
    _refuse(rule == "dynamic" and (static.gradient_steps > 1 or settings.lag), f"{setting} beside {steps}")
    fewer = f"with all {prompts} prompts in each step; allowed: prompts_per_step below {prompts}"
    _refuse(rule == "learnable" and prompts == problem.prompts, f"{setting} {fewer}")
    if not static.is_ragged:
        return
    _refuse(prompts == 1, f"{setting} of 1 prompt a step; allowed: 2 prompts or more")
    why = f"of a {type(problem).__name__}, whose rollouts are not one action; allowed: even"
    _refuse(not draws_single_actions(problem), f"{setting} {why}")
    why = f"with {settings.name}, which tells the rollouts of a group apart; allowed: even"
    _refuse(not static.exchangeable, f"{setting} {why}")
    span = f"smallest_group = {settings.smallest_group} and largest_group = {static.room}"
    message = f"{span} with group_size = {settings.group_size}; allowed: a group size between the two"
    _refuse(not settings.smallest_group <= settings.group_size <= static.room, message)


def check_shards(problem: Problem, settings: Settings, shards: int) -> None:
    """Raise ``InputError`` unless a run can be spread over so many devices."""
    setting = f"shard_actions = {shards}"
    _refuse(settings.storage != "sharded", f"{setting} with {settings.storage} storage; allowed: sharded storage")
    devices_by(shards)
    _refuse(shards > problem.actions, f"{setting} of {problem.actions} actions; allowed: up to one an action")


def check_run(steps: Int[np.ndarray, " R"], seeds: Sequence[int]) -> None:
    """Raise ``InputError`` for recorded steps that do not increase from 1 up, no seed, or one outside its range."""
    are_whole = np.ndim(steps) == 1 and len(steps) and np.issubdtype(np.asarray(steps).dtype, np.integer)
    _refuse(not are_whole, f"steps = {steps!r}; allowed: one or more whole numbers, increasing")
    check_whole("steps", int(steps[-1]), 1, LARGEST_INT)
    falls = int(steps[0]) < 1 or np.any(np.diff(steps) < 1)
    _refuse(falls, f"steps = {list(map(int, steps))}; allowed: whole numbers from 1 up, increasing")
    _refuse(not seeds, "there is no seed to run; allowed: one or more")
    for seed in seeds:
        check_whole("seed", seed, 0, LARGEST_SEED)


# Labels


def check_seeds(seeds: int) -> None:
    """Raise ``InputError`` unless ``seeds`` is a whole number from 1 to 10^6."""
    check_whole("seeds", seeds, 1, MOST_SEEDS)


def recorded_steps(steps: int, record_every: int) -> np.ndarray:
    """Return the recorded steps, every ``record_every``-th and the last, of which there may be 10^6."""
    check_whole("steps", steps, 1, LARGEST_INT)
    check_whole("record_every", record_every, 1, LARGEST_INT)
    check_range("steps / record_every", steps / record_every, 0, MOST_RECORDS)
    recorded = np.arange(record_every, steps + 1, record_every)
    return recorded if recorded.size and recorded[-1] == steps else np.append(recorded, steps)


def labels_of(problem: Problem, settings: Settings) -> dict[str, Sequence[Any]]:
    """Return the labels of the dimensions that metrics may have beside seed and step."""
    shared = {"k": settings.pass_at_k, "rank": range(1, settings.top_n + 1), "decade": DECADES}
    return {**shared, "part": problem.reward_parts, **problem.labels()}


def labelled(
    metrics: Sequence[Metric],
    labels: Mapping[str, Sequence[Any]],
    rows: Mapping[str, np.ndarray],
    leading: Mapping[str, Any],
    recorded: np.ndarray,
    *,
    attributes: Mapping[str, str] | None = None,
) -> xr.Dataset:
    """Label records by metric, (leading..., step[, other dimensions]), as a dataset; ``recorded`` leaves out step 0."""
    by_name = {metric.name: metric for metric in metrics}
    used = dict.fromkeys(dimension for name in rows for dimension in by_name[name].dimensions)
    coordinates = dict(leading) | {"step": np.concatenate([[0], recorded])}
    coordinates |= {dimension: list(labels[dimension]) for dimension in labels if dimension in used}
    variables = {
        name: ((*leading, "step", *metric.dimensions), values, {"long_name": metric.description, "units": metric.units})
        for name, values in sorted(rows.items())
        for metric in [by_name[name]]
    }
    dataset = xr.Dataset(variables, coordinates, dict(attributes or {}))
    for name, (meaning, units) in COORDINATES.items():
        if name in dataset.coords:
            dataset[name].attrs = {"long_name": meaning, "units": units}
    return dataset
