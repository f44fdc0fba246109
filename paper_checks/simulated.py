"""The Monte Carlo laboratory: the simulator itself, thousands of seeds of one step, in float64."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float64, Int, PRNGKeyArray

from paper_checks.evidence import Estimate
from simlab.problems import LinearSoftmax, Problem, custom
from simlab.simulator.learner import Learner
from simlab.simulator.policy import Listed
from simlab.simulator.sampling import draw
from simlab.simulator.settings import Settings, StaticSettings, TracedSettings
from simlab.simulator.storage import DENSE, StoredProblem

SEEDS = 20_000


class Steps(NamedTuple):
    """One step of many seeds.

    Attributes:
        actions: (seeds, G) the groups drawn.
        before: (N,) the policy.
        logit_change: (seeds, N).
        after: (seeds, N) the policies.
    """

    actions: Int[np.ndarray, "seeds G"]
    before: Float64[np.ndarray, " N"]
    logit_change: Float64[np.ndarray, "seeds N"]
    after: Float64[np.ndarray, "seeds N"]


@functools.cache
def simulated_step(
    policy: tuple[float, ...],
    correct: tuple[bool, ...],
    group_size: int,
    estimator: str,
    *,
    surrogate: str = "reinforce",
    rewards: tuple[float, float] = (1.0, 0.0),
    learning_rate: float = 1.0,
    update_rule: str = "simulator",
    optimizer: str = "sgd",
    error_rates: tuple[float, float] = (0.0, 0.0),
    seeds: int = SEEDS,
    seed: int = 0,
) -> Steps:
    """The simulator's first step, by many seeds at once.

    Args:
        policy: (N,) probabilities, floats or fractions.
        correct: (N,) which actions are correct.
        group_size: G.
        estimator: as it is written in an arm, ``"asym_grpo(delta=0.5)"``.
        surrogate: likewise.
        rewards: of correct and incorrect actions.
        learning_rate: of the optimiser; with "sgd" the logit change is it times the policy gradient.
        update_rule, optimizer: as in ``simlab.simulator.settings.Settings``.
        error_rates: of the verifier, that of false positives and that of false negatives; of each rollout by itself.
        seeds: how many.
        seed: from which theirs are derived.
    """
    settings = Settings(
        f"{estimator}+{surrogate}",
        group_size,
        optimizer,
        {"learning_rate": learning_rate},
        update_rule=update_rule,
        false_positive=error_rates[0],
        false_negative=error_rates[1],
        dtype="float64",
        storage="dense",
    )
    with jax.enable_x64(True):
        logits = jnp.log(jnp.asarray([float(p) for p in policy], jnp.float64))
        members = np.asarray(correct)
        arrays = {"logits": logits, "correct": members, "target": members}
        # Nothing is checked: some claims are of policies of which no rollout is correct, or of one reward for all.
        problem = custom().replaced(**arrays, reward_correct=rewards[0], reward_incorrect=rewards[1])
        laid = DENSE.load(problem, settings.dtype)
        traced = jax.tree.map(lambda value: jnp.asarray(value, settings.dtype), settings.traced)
        actions, after = _first_step(settings.static, jax.random.split(jax.random.key(seed), seeds), laid, traced)
        return Steps(
            np.asarray(actions),
            np.asarray(jax.nn.softmax(logits)),
            np.asarray(after - logits),
            np.asarray(jax.nn.softmax(after)),
        )


@functools.cache
def simulated_head_change(
    policies: tuple[tuple[float, ...], ...],
    correct: tuple[tuple[bool, ...], ...],
    features: tuple[tuple[float, ...], ...],
    group_size: int,
    estimator: str,
    *,
    temperature: float = 1.0,
    seeds: int = SEEDS,
    seed: int = 0,
) -> Float64[np.ndarray, "seeds A d"]:
    """The change of a head that prompts share by the simulator's first plain gradient step, at learning rate 1.

    Args:
        policies: (M, A) probabilities, floats or fractions, of softmax(W h_i / temperature).
        correct: (M, A) which actions are correct.
        features: (M, d) of independent rows, so that a head with these policies exists.
        group_size: G.
        estimator: as it is written in an arm.
        temperature: of the policies.
        seeds: how many.
        seed: from which theirs are derived.
    """
    settings = Settings(
        f"{estimator}+reinforce",
        group_size,
        "sgd",
        {"learning_rate": 1.0},
        temperature=temperature,
        dtype="float64",
        storage="dense",
    )
    logits, rows, members = (np.array(values, dtype=float) for values in (policies, features, correct))
    weights = (np.linalg.pinv(rows) @ (temperature * np.log(logits))).T
    with jax.enable_x64(True):
        laid = DENSE.load(LinearSoftmax(weights, rows, members > 0, members > 0), settings.dtype)
        traced = jax.tree.map(lambda value: jnp.asarray(value, settings.dtype), settings.traced)
        _, after = _first_step(settings.static, jax.random.split(jax.random.key(seed), seeds), laid, traced)
        return np.asarray(after - weights)


@functools.cache
def drawn(
    policy: tuple[float, ...], group_size: int, *, seeds: int = SEEDS, seed: int = 0
) -> Int[np.ndarray, "seeds G"]:
    """Groups drawn by the simulator's sampler, (seeds, G) actions."""
    with jax.enable_x64(True):
        weights = jnp.asarray([float(p) for p in policy], jnp.float64)
        return np.asarray(_groups(jax.random.split(jax.random.key(seed), seeds), weights, group_size))


@functools.partial(jax.jit, static_argnums=0)
def _first_step(
    settings: StaticSettings, keys: PRNGKeyArray, problem: Problem, traced: TracedSettings
) -> tuple[Int[Array, "seeds G"], Float64[Array, "seeds ..."]]:
    """Groups of the first prompt and parameters after the first step; compiled once for all numbers of one shape."""

    def step(key: PRNGKeyArray) -> tuple[Array, Array]:
        learner = Learner(settings, StoredProblem(problem, DENSE, None), key, traced)
        state = learner.step(jnp.int32(0), learner.start())
        groups = state.last.groups
        assert isinstance(groups, Listed)  # only the largest are counted
        return groups.slots[0], state.parameters

    return jax.vmap(step)(keys)


@functools.partial(jax.jit, static_argnums=2)
def _groups(keys: PRNGKeyArray, weights: Float64[Array, " N"], group_size: int) -> Int[Array, "seeds G"]:
    return jax.vmap(lambda key: draw(key, weights, group_size))(keys)


def estimate(values: Float64[np.ndarray, " seeds"]) -> Estimate:
    """The mean of independent values and its standard error."""
    return Estimate(float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values))))
