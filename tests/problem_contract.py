"""Problems, kinds of step, and runs for test_problem_contract.py, told in words of their actions.

A new problem is one row of ``ROWS``: how it is made, small and with actions that start alike, what its logits are to
NumPy, and the naive records of its metrics.
"""

import dataclasses
import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import naive_bank
import naive_interference
import naive_linear
import naive_network
import naive_simulator
import naive_tree
import numpy as np
from jax.flatten_util import ravel_pytree
from naive_simulator import Setting
from naive_steps import Naive, Taken, ascent_record, start, step
from own_problem import Ring, ring

from simlab.arms import parse
from simlab.problems import (
    InterferingPrompts,
    LinearSoftmax,
    Network,
    Problem,
    PromptBank,
    Tree,
    anchored,
    custom,
    interference,
    network,
)
from simlab.simulator.call import pads_groups
from simlab.simulator.learner import Learner
from simlab.simulator.lumped import Lumped
from simlab.simulator.settings import Settings
from simlab.simulator.state import LearnerState
from simlab.simulator.storage import DENSE, StoredProblem
from simlab.simulator.trajectory import record

# Problems


class Row(NamedTuple):
    """A problem of the contract.

    Attributes:
        problem: small, and with actions that start alike if there are storages that make use of it.
        logits: makes ``Naive.logits_of`` of a problem whose actions are listed.
        records: makes every metric of a naive problem and the steps that were taken.
        storages: on which it can run.
        own_rows: the axis of the parameters that has a row for each action; None where they are no action's own.
        learned: 1 for parameters that gradients move, 0 for the others.
        derivatives: makes ``Naive.derivatives`` of a problem.
    """

    problem: Problem
    logits: Callable[[Any], Callable[[np.ndarray], np.ndarray]]
    records: Callable[[Naive, list[Taken]], list[dict[str, Any]]]
    storages: tuple[str, ...] = ("dense", "lumped")
    own_rows: int | None = 0
    learned: np.ndarray | float = 1.0
    derivatives: Callable[[Any], Callable[[np.ndarray], np.ndarray]] | None = None


def records_of_one_prompt(naive: Naive, steps: list[Taken]) -> list[dict[str, Any]]:
    setting, rows = naive.of_prompt(0), []
    for taken in steps:
        old, new = (naive.logits_of(memory.logits)[0, 0] for memory in (taken.before, taken.after))
        update = naive_simulator.update_record(setting, old, new, taken.actions(0))
        rows.append(naive_simulator.policy_record(setting, new) | update | ascent_record(naive, taken))
    return rows


def head_of(problem: LinearSoftmax) -> Callable[[np.ndarray], np.ndarray]:
    """(M, 1, A), entry by entry of W."""

    def logits(weights: np.ndarray) -> np.ndarray:
        return np.array([[[sum(weights[a] * h) for a in range(len(weights))]] for h in problem.features])

    return logits


def waves_of(problem: Ring) -> Callable[[np.ndarray], np.ndarray]:
    def logits(amplitudes: np.ndarray) -> np.ndarray:
        angles = 2 * np.pi * np.arange(problem.actions) / problem.actions
        pairs = amplitudes.reshape(-1, 2)
        return sum(c * np.cos(k * angles) + s * np.sin(k * angles) for k, (c, s) in enumerate(pairs, 1))[None, None]

    return logits


def records_of_a_ring(naive: Naive, steps: list[Taken]) -> list[dict[str, Any]]:
    rows = records_of_one_prompt(naive, steps)
    common, rare = naive.correct[0] - naive.target[0], naive.target[0]
    for taken, row in zip(steps, rows, strict=True):
        p = naive_simulator.probabilities(naive.logits_of(taken.after.logits)[0, 0], naive.setting.temperature)
        row["arc_mass"] = [sum(p[a] for a in arc) for arc in (common, rare)]
        row["signal"] = np.mean(np.abs(taken.advantages[0]))
    return rows


def row_of_interference(problem: InterferingPrompts) -> Row:
    records = functools.partial(naive_interference.records, hard=problem.hard)
    return Row(problem, head_of, records, learned=problem.learned.astype(float))


def row_of_network(problem: Network) -> Row:
    records = functools.partial(naive_network.records, hard=problem.hard)
    return Row(problem, naive_network.logits_of, records, ("dense",), None, derivatives=naive_network.derivatives_of)


def as_array(parameters: Any) -> Any:
    """The parameters; a tree of them as one vector, by name."""
    return ravel_pytree(parameters)[0] if isinstance(parameters, dict) else parameters


RANDOM = np.random.default_rng(4)
CORRECT = np.array([[1, 1, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]], bool)
TARGET = np.array([[0, 1, 0], [1, 0, 0], [0, 1, 0], [1, 0, 0]], bool)
OF_LEAVES = np.isin(np.arange(27), [0, 7, 13, 14, 22])
ROWS = {
    "anchored": Row(
        anchored(7, 4, target=2, anchor_logit=1.0, correct_logit=0.4),
        lambda _: lambda logits: logits[None, None],
        records_of_one_prompt,
    ),
    "custom": Row(
        custom([0.7, -0.4, 0.2, 1.1, -0.9, 0.2, -0.9], [0, 2, 3, 5], [3]),
        lambda _: lambda logits: logits[None, None],
        records_of_one_prompt,
    ),
    "prompt_bank": Row(
        PromptBank(RANDOM.normal(size=(4, 3)).round(2), CORRECT, TARGET, counts=np.array([2, 1, 3])),
        lambda _: lambda logits: logits[:, None],
        naive_bank.records,
        own_rows=1,
    ),
    "linear_softmax": Row(
        LinearSoftmax(
            RANDOM.normal(size=(3, 4)).round(2),
            (RANDOM.normal(size=(4, 4)) + 0.5).round(2),
            CORRECT,
            TARGET,
            counts=np.array([2, 1, 3]),
        ),
        head_of,
        naive_linear.records,
    ),
    "interference": row_of_interference(
        interference(4, 6, overlap=-0.4, features="random", dimension=2, easy_rate=0.5, hard_rate=0.02)
    ),
    "network": row_of_network(
        network(
            4,
            6,
            layers=2,
            width=5,
            activation="gelu",
            layer_norm=True,
            tolerance=0.1,
            network_seed=1,
            overlap=-0.4,
            features="random",
            dimension=3,
            easy_rate=0.5,
            hard_rate=0.02,
        )
    ),
    "tree": Row(
        Tree(RANDOM.normal(scale=0.8, size=(13, 3)).round(2), OF_LEAVES, OF_LEAVES & (np.arange(27) == 13)),
        lambda _: lambda logits: logits[None],
        naive_tree.records,
        ("dense",),
        None,
    ),
    "ring": Row(ring(9, 2, 2), waves_of, records_of_a_ring, ("dense",), None),
}
# Problems at the edge of what can be, for two kinds of step.
EDGES = {
    "all but one action correct": ROWS["anchored"]._replace(
        problem=anchored(4, 3, anchor_logit=1.0, correct_logit=0.4)
    ),
    "all actions alike": ROWS["custom"]._replace(problem=custom([0.0] * 6, [0, 1], [1])),
    "a bank of one prompt": ROWS["prompt_bank"]._replace(
        problem=PromptBank(np.array([[0.4, -0.3, 0.1]]), CORRECT[:1], TARGET[:1], counts=np.array([2, 1, 3]))
    ),
    "a head of one prompt": ROWS["linear_softmax"]._replace(
        problem=LinearSoftmax(
            np.array([[0.4, 1.0], [-0.3, 0.2], [0.1, -0.5]]), np.array([[0.6, 0.8]]), CORRECT[:1], TARGET[:1],
            counts=np.array([2, 1, 3]),
        )
    ),
    "easy prompts alone": row_of_interference(interference(2, 4, easy_share=1.0, easy_rate=0.35, rare_modes=1)),
    "a network of one prompt": row_of_network(network(1, 4, width=3, activation="relu", easy_share=1.0)),
    "a tree of one level": ROWS["tree"]._replace(
        problem=Tree(np.array([[0.3, -0.7, 1.1, 0.2]]), np.array([1, 0, 0, 1], bool), np.array([0, 0, 0, 1], bool))
    ),
}  # fmt: skip

# Kinds of step

ADAM = {"optimizer": "adam", "optimizer_parameters": {"learning_rate": 0.1, "b1": 0.8, "b2": 0.95, "eps": 1e-5}}
TIGHT = {"eps_low": 0.1, "eps_high": 0.15}
CASP = {"alpha": 0.3, "candidates": 2, "quantile": 0.0, "top_penalty": 1.15}
SOME = {"share": 0.3, "low": 0.02, "high": 2.0}


@dataclass(frozen=True)
class Kind:
    """A kind of step: its changes of ``BASE``, and the number of prompts that it draws if there are more, 0 for all."""

    changes: dict[str, Any] = field(default_factory=dict)
    prompts: int = 2
    aggregation: str = "token_mean"


KINDS = {
    "rewards": Kind({"surrogate": "reinforce"}),
    "focal, clipped": Kind(
        ADAM
        | {"estimator": "f_grpo", "estimator_parameters": {"gamma": 0.5}, "epochs": 3, "temperature": 1.3}
        | {"surrogate": "ppo_clip", "surrogate_parameters": TIGHT},
        prompts=3,
        aggregation="constant",
    ),
    "remembers batches, sequence ratios": Kind(
        {"estimator": "ha_dw", "surrogate": "sequence_clip", "epochs": 3}
        | {"surrogate_parameters": {"eps_low": 0.02, "eps_high": 0.02}},
        aggregation="sequence_mean",
    ),
    "reads the batch": Kind({"estimator": "a_grae"}, prompts=0),
    "remembers entropies, regularised": Kind(
        ADAM
        | {"estimator": "fade", "estimator_parameters": {"beta": 0.7, "target_entropy": 1.2}}
        | {"kl": 0.3, "entropy_bonus": 0.05, "temperature": 1.3},
        prompts=3,
    ),
    "reads log-probabilities": Kind(
        {"estimator": "cw_grpo", "epochs": 2, "rewards": (1.0, -1.0)}, aggregation="sequence_mean"
    ),
    "reads entropies, regularised": Kind(
        ADAM | {"estimator": "entropy_advantage", "kl": 0.3, "entropy_bonus": 0.2, "epochs": 2}
    ),
    "reads greedy answers of an older sampler": Kind(
        {"estimator": "remax", "rewards": (2.0, -0.5), "temperature": 1.3, "lag": 1, "correction": "truncated"}
    ),
    "noise": Kind(
        {"surrogate": "clip_cov", "surrogate_parameters": SOME, "epochs": 2}
        | {"optimizer_parameters": {"learning_rate": 1.5}}
    ),
    "candidates, regularised": Kind(
        ADAM
        | {"estimator": "cw_grpo", "surrogate": "casp", "surrogate_parameters": CASP, "epochs": 2}
        | {"kl": 0.3, "entropy_bonus": 0.2}
    ),
    "not zero-sum": Kind(
        {"optimizer": "adamw", "optimizer_parameters": {"learning_rate": 0.1, "weight_decay": 0.3}}
        | {"estimator": "w_reinforce", "rewards": (2.0, -0.5), "temperature": 1.3}
    ),
    "one rollout": Kind(ADAM | {"estimator": "w_reinforce", "group_size": 1, "kl": 0.1}, aggregation="constant"),
    "theorem": Kind({"estimator": "psr", "update_rule": "theorem"}),
    "literal": Kind(
        {"estimator": "asym_grpo", "estimator_parameters": {"delta": 0.4}, "update_rule": "simulator_literal"}
    ),
    "supervised": Kind(
        ADAM | {"estimator": "psr", "supervised": 0.4, "kl": 0.1, "temperature": 1.3, "epochs": 2}
    ),
    "in minibatches": Kind(
        ADAM
        | {"estimator": "f_grpo", "surrogate": "ppo_clip", "surrogate_parameters": TIGHT}
        | {"epochs": 2, "minibatches": 2}
    ),
    "all prompts in minibatches": Kind({"estimator": "a_grae", "minibatches": 2, "kl": 0.2}, prompts=0),
    "older sampler": Kind({"lag": 2, "optimizer_parameters": {"learning_rate": 1.0}}),
    "older sampler, clipped against it": Kind(
        ADAM
        | {"surrogate": "ppo_clip", "surrogate_parameters": TIGHT, "epochs": 2}
        | {"lag": 1, "correction": "ratio", "temperature": 1.3}
    ),
    "older sampler, truncated, in minibatches": Kind(
        ADAM
        | {"surrogate": "ppo_clip", "surrogate_parameters": TIGHT, "epochs": 2, "minibatches": 2}
        | {"lag": 3, "correction": "truncated", "correction_bound": 1.05}
    ),
    "older sampler, masked by sequence": Kind(
        {"lag": 2, "correction": "masked", "correction_unit": "sequence", "correction_bound": 1.1}
        | {"estimator": "cw_grpo", "rewards": (1.0, -1.0), "optimizer_parameters": {"learning_rate": 1.0}}
    ),
    "candidates after a warm-up": Kind(
        {"estimator": "dr_grpo", "surrogate": "casp", "surrogate_parameters": CASP | {"warm_up": 1}, "epochs": 2},
        prompts=3,
    ),
    "bound by entropy": Kind(
        {"surrogate": "entropy_target_clip", "epochs": 3, "optimizer_parameters": {"learning_rate": 2.0}}
        | {"surrogate_parameters": {"step": 0.1, "narrowest": -0.04, "widest": 0.4, "eps_high": 0.05}}
    ),
    "unlikely tokens first": Kind(
        {"isolation": 0.3, "estimator": "advantage_reweighting", "estimator_parameters": {"alpha": 0.6}}
        | {"optimizer_parameters": {"learning_rate": 1.5}},
        prompts=3,
    ),
    "weighed by entropy": Kind(
        {"estimator": "aem", "estimator_parameters": {"strength": 2.0, "least_spread": 0.01}}, prompts=3
    ),
    "sampler of another precision": Kind(
        {"sampler": "bfloat16", "correction": "decoupled", "kl": 0.2, "epochs": 2}
    ),
    "truncated sampler, masked": Kind(
        {"sampler": "top_p", "top_p": 0.8, "correction": "masked", "correction_bound": 1.4, "lag": 1}
        | {"estimator": "w_reinforce", "rewards": (1.0, -0.5), "optimizer_parameters": {"learning_rate": 1.0}}
    ),
    "two likeliest, ratio to the sampler": Kind(
        ADAM
        | {"sampler": "top_k", "top_k": 2, "correction": "ratio", "epochs": 2, "temperature": 1.3}
        | {"estimator": "w_reinforce", "rewards": (1.0, -0.5)}
    ),
    "of one norm": Kind(ADAM | {"estimator": "nsr", "update_norm": 0.3, "epochs": 2}),
}  # fmt: skip
BASE = Setting(
    (), frozenset(), frozenset(), 5, "grpo", surrogate="unclipped", optimizer_parameters={"learning_rate": 0.5}, top_n=3
)


PASSED_ON = (
    "group_size", "optimizer", "optimizer_parameters", "temperature", "kl", "entropy_bonus", "supervised",
    "update_norm", "epochs", "minibatches", "update_rule", "lag", "sampler", "top_p", "top_k", "correction",
    "correction_unit", "correction_bound", "isolation", "pass_at_k", "top_n",
)  # fmt: skip


def can(row: Row, kind: Kind) -> bool:
    """Return True if a kind of step has a meaning on a problem."""
    of_one_token = kind.changes.get("update_rule", "simulator") != "simulator" or "supervised" in kind.changes
    splits_prompts = "minibatches" in kind.changes
    return (row.problem.tokens == 1 or not of_one_token) and (row.problem.prompts > 1 or not splits_prompts)


def storages_of(row: Row, kind: Kind) -> tuple[str, ...]:
    """The storages on which a kind of step can run: truncated samplers list all actions."""
    return ("dense",) if kind.changes.get("sampler") in ("top_p", "top_k") else row.storages


def setting_of(row: Row, kind: Kind) -> Setting:
    setting = dataclasses.replace(BASE, **kind.changes)
    if setting.surrogate == "casp" and row.problem.tokens > 1:  # a single token is never above a quantile
        return dataclasses.replace(setting, surrogate_parameters=setting.surrogate_parameters | {"quantile": 0.4})
    return setting


def settings_of(row: Row, kind: Kind, storage: str = "dense", dtype: str = "float64") -> Settings:
    """The library's settings: the method as text, as a user writes it."""
    setting = setting_of(row, kind)

    def called(name: str, parameters: dict[str, Any]) -> str:
        return f"{name}({','.join(f'{key}={value}' for key, value in parameters.items())})" if parameters else name

    return Settings(
        parse(
            f"{called(setting.estimator, setting.estimator_parameters)}"
            f"+{called(setting.surrogate, setting.surrogate_parameters)}@{kind.aggregation}"
        ),
        prompts_per_step=min(kind.prompts, row.problem.prompts - 1),
        dtype=dtype,
        storage=storage,
        **{name: getattr(setting, name) for name in PASSED_ON},
    )


def problem_of(row: Row, kind: Kind) -> Problem:
    correct, incorrect = setting_of(row, kind).rewards
    return dataclasses.replace(row.problem, reward_correct=correct, reward_incorrect=incorrect)


def naive_of(row: Row, kind: Kind, group_size: int = 0) -> Naive:
    problem = row.problem.listed()
    correct, target = (
        tuple(frozenset(np.flatnonzero(marks).tolist()) for marks in np.atleast_2d(members))
        for members in (problem.correct, problem.target)
    )
    setting = setting_of(row, kind)
    setting = dataclasses.replace(setting, group_size=group_size or setting.group_size)
    parameters = problem.parameters
    parameters = naive_network.vector(parameters) if isinstance(parameters, dict) else np.asarray(parameters)
    derivatives = row.derivatives and row.derivatives(problem)
    shape = problem.tokens, kind.aggregation, row.learned, derivatives
    return Naive(parameters, row.logits(problem), correct, target, setting, *shape)


def row_of(name: str) -> Row:
    return (ROWS | EDGES)[name]


# Runs

PLACES = 1024  # slots of lumped storage
FILLED = 3  # rollouts that only fill a group up, as the runner fills it


class Run(NamedTuple):
    """The steps of a run: their groups in words and noise, the parameters after each, and their records.

    ``parameters`` are those of all actions, whatever the storage.
    """

    groups: list[dict[int, list[tuple[int, ...]]]]
    noise: list[dict[int, Any]]
    parameters: np.ndarray
    rows: dict[str, np.ndarray]


def key_of(seed: int) -> Any:
    return jax.random.key(seed, impl="threefry2x32")


class Bench:
    """A problem, a kind of step and a storage, and the learner of a key; ``others`` are settings that no kind has."""

    def __init__(self, row: Row, kind: Kind, storage: str, dtype: str = "float64", group_size: int = 0, **others: Any):
        self.row, self.kind, self.dtype = row, kind, dtype
        settings = dataclasses.replace(settings_of(row, kind, storage, dtype), **others)
        settings = dataclasses.replace(settings, group_size=group_size) if group_size else settings
        self.group_size, self.static = settings.group_size, settings.static
        self.storage = Lumped(PLACES) if storage == "lumped" else DENSE
        self.problem = problem_of(row, kind)
        self.filled = pads_groups(self.static)
        if self.filled:
            self.static = dataclasses.replace(self.static, group_size=self.group_size + FILLED)
        self.traced = settings.traced

    def arrays(self) -> tuple[Any, Any, Any]:
        """The problem, its slots and the floats on the device."""
        laid = self.storage.load(self.problem, self.dtype)
        traced = jax.tree.map(lambda value: jnp.asarray(value, self.dtype), self.traced)
        lumped = isinstance(self.storage, Lumped)
        return laid, self.storage.initial_slots(self.problem.by_classes() if lumped else self.problem), traced

    def learner(self, problem: Any, slots: Any, traced: Any, key: Any) -> Learner:
        present = jnp.arange(self.static.group_size) < self.group_size if self.filled else None
        return Learner(self.static, StoredProblem(problem, self.storage, slots), key, traced, present)

    def run(self, seed: int, steps: int) -> Run:
        """A run, recorded after each step."""

        def move(learner: Learner, state: Any, index: Any) -> Any:
            before = learner.begin_window(state)
            after, keys, prompts, drawn = learner.draw(index, before)
            batch, memory = learner.weigh(keys, prompts, drawn, after)
            after = learner.ascend(batch, after._replace(memory=memory))
            start = learner.align(before.parameters, before.slots, after)
            row = record(learner, start, after, jnp.int32(1))
            return after, (
                prompts,
                drawn.groups.slots,
                batch.rollouts.noise,
                as_array(after.parameters),
                after.slots,
                row,
            )

        def all_steps(key: Any, *arrays: Any) -> Any:
            learner = self.learner(*arrays, key)
            indices = jnp.arange(steps, dtype=jnp.int32)
            return jax.lax.scan(functools.partial(move, learner), learner.start(), indices)[1]

        with jax.enable_x64(self.dtype == "float64"):
            outputs = jax.tree.map(np.asarray, jax.jit(all_steps)(key_of(seed), *self.arrays()))
        return self.told(*outputs)

    def taught(self, prompts: Any, slots: Any) -> np.ndarray:
        """(n, ...) the parameters after a first step on each of n batches: prompts (n, P), and what they drew."""
        parameters: np.ndarray = self.states_after(prompts, slots).parameters
        return parameters

    def states_after(self, prompts: Any, slots: Any) -> LearnerState:
        """The states after a first step on each of n batches."""

        def move(arrays: Any, prompts: Any, slots: Any) -> LearnerState:
            learner = self.learner(*arrays, key_of(0))
            state, keys, _, drawn = learner.draw(jnp.int32(0), learner.start())
            policies = learner.policies(state, prompts)
            drawn = drawn._replace(policies=policies, groups=drawn.groups._replace(slots=slots))
            batch, memory = learner.weigh(keys, prompts, drawn, state)
            after = learner.ascend(batch, state._replace(memory=memory))
            return after._replace(parameters=as_array(after.parameters))

        with jax.enable_x64(self.dtype == "float64"):
            data = (jnp.asarray(values, jnp.int32) for values in (prompts, slots))
            states: LearnerState = jax.tree.map(np.asarray, jax.jit(jax.vmap(move, (None, 0, 0)))(self.arrays(), *data))
            return states

    def first_steps(self, seeds: int) -> Run:
        """The first steps of ``seeds`` runs, in the form of one run of as many steps, without records."""

        def move(arrays: Any, seed: Any) -> Any:
            learner = self.learner(*arrays, key_of(seed))
            after, _, prompts, drawn = learner.draw(jnp.int32(0), learner.start())
            after = learner.step(jnp.int32(0), learner.start())
            return prompts, drawn.groups.slots, as_array(after.parameters), after.slots

        with jax.enable_x64(self.dtype == "float64"):
            numbers = jnp.arange(seeds, dtype=jnp.uint32)
            prompts, drawn, parameters, slots = jax.tree.map(
                np.asarray, jax.jit(jax.vmap(move, (None, 0)))(self.arrays(), numbers)
            )
        return self.told(prompts, drawn, None, parameters, slots, {})

    def told(self, prompts: Any, drawn: Any, noise: Any, parameters: Any, slots: Any, rows: Any) -> Run:  # noqa: PLR0917
        """A run in words of the problem's actions and in parameters of all of them."""
        groups, noises, listed = [], [], []
        words = naive_of(self.row, self.kind).words
        for index, batch in enumerate(prompts.tolist()):
            at = jax.tree.map(lambda leaf, index=index: leaf[index], slots)
            actions = self.actions_of(at)
            sampled = [actions(m)[drawn[index, p, : self.group_size]] for p, m in enumerate(batch)]
            groups.append({m: [words[a] for a in group.tolist()] for m, group in zip(batch, sampled, strict=True)})
            shape = (len(batch), self.group_size, self.problem.tokens)
            random = np.zeros(shape) if noise is None else noise[index].reshape(len(batch), -1, shape[2])
            noises.append(
                {m: of_prompt[: self.group_size].tolist() for m, of_prompt in zip(batch, random, strict=True)}
            )
            listed.append(self.listed(parameters[index], actions, at))
        return Run(groups, noises, np.array(listed), rows)

    def actions_of(self, slots: Any) -> Callable[[int], np.ndarray]:
        """A function of a prompt: the action of each of its slots. The members of a class leave it in their order."""
        if slots is None:
            return lambda prompt: np.arange(self.problem.actions)
        counts = self.problem.by_classes().counts
        order = np.argsort(self.order_by_class(), kind="stable")
        first = np.concatenate([[0], np.cumsum(counts)[:-1]])

        def actions(prompt: int) -> np.ndarray:
            prompt_slots = jax.tree.map(lambda leaf: leaf[prompt], slots) if self.problem.has_own_parameters else slots
            left, held = [0] * len(counts), np.full(PLACES, -1)
            for slot in range(len(counts), len(counts) + int(prompt_slots.touched)):
                of_class = int(prompt_slots.class_of[slot])
                held[slot] = order[first[of_class] + left[of_class]]
                left[of_class] += 1
            return held

        return actions

    def order_by_class(self) -> np.ndarray:
        """The class of each action."""
        if self.problem.counts is not None:
            return np.repeat(np.arange(len(self.problem.counts)), self.problem.counts)
        listed = np.stack([self.problem.logits, self.problem.correct, self.problem.target], axis=1).tolist()
        seen: list[Any] = []
        for traits in listed:
            if traits not in seen:
                seen.append(traits)
        return np.array([seen.index(traits) for traits in listed])

    def listed(self, parameters: np.ndarray, actions: Callable[[int], np.ndarray], slots: Any) -> np.ndarray:
        """The parameters of all actions: an action without a slot of its own has its class's."""
        if slots is None:
            return parameters
        of_class, axis = self.order_by_class(), self.row.own_rows
        several = self.problem.has_own_parameters
        rows = []
        for prompt, row in enumerate(parameters if several else [parameters]):
            full, held = row[of_class], actions(prompt)
            touched = held >= 0
            full[held[touched]] = row[touched]
            rows.append(full)
        assert axis is not None
        return np.array(rows) if several else rows[0]

    def alike(self, parameters: np.ndarray, decimals: int = 7) -> tuple[Any, ...]:
        """Parameters of all actions as a tuple that, as storages, does not tell apart actions that start alike."""
        rounded = np.round(parameters, decimals) + 0.0
        if self.row.own_rows is None:
            return tuple(rounded.reshape(-1).tolist())
        of_class = self.order_by_class()
        several = rounded if self.problem.has_own_parameters else rounded[None]
        return tuple(
            tuple(sorted(row[of_class == c].tolist() if row.ndim == 1 else map(tuple, row[of_class == c].tolist())))
            for row in several
            for c in range(of_class.max() + 1)
        )


@functools.cache
def run_of(name: str, kind: str, storage: str, dtype: str = "float64", steps: int = 10) -> Run:
    """A run of seed 3."""
    return Bench(row_of(name), KINDS[kind], storage, dtype).run(3, steps)


@functools.cache
def naive_run(name: str, kind: str, storage: str) -> list[Taken]:
    """The naive steps on the groups that a run drew."""
    naive, drawn = naive_of(row_of(name), KINDS[kind]), run_of(name, kind, storage)
    memory, taken = start(naive), []
    for groups, noise in zip(drawn.groups, drawn.noise, strict=True):
        taken.append(step(naive, memory, groups, noise))
        memory = taken[-1].after
    return taken
