"""The Monte Carlo laboratory: the simulator itself, thousands of seeds of one step, in float64."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float64, Int, PRNGKeyArray
from simlab.simulate.lane import Landscape, Lane

from paper_checks.evidence import Estimate
from simlab.simulate import Numbers, Program
from simlab.simulate.sampling import draw

LANES = 20_000


class Steps(NamedTuple):
    """One step of many seeds.

    Attributes:
        actions: (lanes, G) the groups drawn.
        before: (N,) the policy.
        logit_change: (lanes, N).
        after: (lanes, N) the policies.
    """

    actions: Int[np.ndarray, "lanes G"]
    before: Float64[np.ndarray, " N"]
    logit_change: Float64[np.ndarray, "lanes N"]
    after: Float64[np.ndarray, "lanes N"]


@functools.cache
def simulated_step(
    policy: tuple[float, ...],
    correct: tuple[bool, ...],
    group_size: int,
    estimator: str,
    *,
    parameters: tuple[tuple[str, float], ...] = (),
    rewards: tuple[float, float] = (1.0, 0.0),
    learning_rate: float = 1.0,
    update_rule: str = "simulator",
    surrogate: str = "reinforce",
    optimizer: str = "sgd",
    lanes: int = LANES,
    seed: int = 0,
) -> Steps:
    """The simulator's first step, by ``lanes`` seeds at once.

    Args:
        policy: (N,) probabilities, floats or fractions.
        correct: (N,) which actions are correct.
        group_size: G.
        estimator: a registered estimator.
        parameters: its float parameters, as pairs.
        rewards: of correct and incorrect actions.
        learning_rate: of the optimiser; with "sgd" the logit change is it times the policy gradient.
        update_rule, surrogate, optimizer: as in ``simlab.simulate.Program``.
        lanes: number of seeds.
        seed: from which theirs are derived.
    """
    program = Program(
        group_size, estimator, surrogate=surrogate, optimizer=optimizer, update_rule=update_rule, dtype="float64"
    )
    with jax.enable_x64(True):
        logits = jnp.log(jnp.asarray([float(p) for p in policy], jnp.float64))
        place = Landscape(logits, jnp.asarray(correct), jnp.asarray(correct))
        rate = {"learning_rate": learning_rate}
        numbers = jax.tree.map(
            lambda value: jnp.asarray(float(value), jnp.float64), Numbers(dict(parameters), {}, rate, *rewards)
        )
        keys = jax.random.split(jax.random.key(seed), lanes)
        actions, after = _first_step(program, keys, place, numbers)
        change = np.asarray(after - logits)
        return Steps(
            np.asarray(actions),
            np.asarray(jax.nn.softmax(logits)),
            change,
            np.asarray(jax.nn.softmax(after)),
        )


@functools.cache
def drawn(
    policy: tuple[float, ...], group_size: int, *, lanes: int = LANES, seed: int = 0
) -> Int[np.ndarray, "lanes G"]:
    """Groups drawn by the simulator's sampler, (lanes, G) actions."""
    with jax.enable_x64(True):
        weights = jnp.asarray([float(p) for p in policy], jnp.float64)
        return np.asarray(_groups(jax.random.split(jax.random.key(seed), lanes), weights, group_size))


@functools.partial(jax.jit, static_argnums=0)
def _first_step(
    program: Program, keys: PRNGKeyArray, place: Landscape, numbers: Numbers
) -> tuple[Int[Array, "lanes G"], Float64[Array, "lanes N"]]:
    """Groups and logits after the first step; compiled once a program and shape, for all policies and numbers."""

    def one(key: PRNGKeyArray) -> tuple[Array, Array]:
        lane = Lane(program, place, key, numbers)
        state = lane.step(jnp.int32(0), lane.start())
        return state.actions, state.logits

    return jax.vmap(one)(keys)


@functools.partial(jax.jit, static_argnums=2)
def _groups(keys: PRNGKeyArray, weights: Float64[Array, " N"], group_size: int) -> Int[Array, "lanes G"]:
    return jax.vmap(lambda key: draw(key, weights, group_size))(keys)


def estimate(values: Float64[np.ndarray, " lanes"]) -> Estimate:
    """The mean of independent values and its standard error."""
    return Estimate(float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values))))
