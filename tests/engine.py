"""A ``Setting`` of the naive simulator as the library's, and the naive simulation of one of the library's lanes."""

import functools

import jax
import jax.numpy as jnp
import naive_simulator
import numpy as np
from naive_simulator import Setting
from simlab.simulate.lane import Landscape

from simlab.problems import Categorical, custom
from simlab.simulate import Numbers, Program
from simlab.simulate.sampling import draw


def problem(setting: Setting) -> Categorical:
    correct, incorrect = setting.rewards
    return custom(list(setting.logits), sorted(setting.correct), sorted(setting.target), correct, incorrect)


def program(setting: Setting, dtype: str = "float64") -> Program:
    """``kl`` and ``entropy_bonus`` are compiled in whenever either is set, so that settings share programs."""
    choices, surrogate_choices = (
        {name: value for name, value in parameters.items() if not isinstance(value, float)}
        for parameters in (setting.estimator_parameters, setting.surrogate_parameters)
    )
    regularised = setting.kl != 0 or setting.entropy_bonus != 0
    return Program(
        setting.group_size,
        setting.estimator,
        tuple(sorted(choices.items())),
        setting.surrogate,
        tuple(sorted(surrogate_choices.items())),
        optimizer=setting.optimizer,
        update_rule=setting.update_rule,
        gradient_steps=setting.gradient_steps,
        uses_kl=regularised,
        uses_entropy_bonus=regularised,
        pass_at_k=setting.pass_at_k,
        top_n=setting.top_n,
        dtype=dtype,
    )


def numbers(setting: Setting) -> Numbers:
    floats, surrogate_floats = (
        {name: value for name, value in parameters.items() if isinstance(value, float)}
        for parameters in (setting.estimator_parameters, setting.surrogate_parameters)
    )
    return Numbers(
        floats,
        surrogate_floats,
        setting.optimizer_parameters,
        *setting.rewards,
        setting.temperature,
        setting.kl,
        setting.entropy_bonus,
    )


def arrays(setting: Setting, dtype: str) -> tuple[Landscape, Numbers]:
    """The problem and the numbers on the device; to be called with 64-bit types enabled if ``dtype`` needs them."""
    place = problem(setting)
    landscape = Landscape(jnp.asarray(place.logits, dtype), jnp.asarray(place.correct), jnp.asarray(place.target))
    return landscape, jax.tree.map(lambda value: jnp.asarray(value, dtype), numbers(setting))


def lane_key(seed: int) -> jax.Array:
    """The key of the engine's lane of that seed."""
    return jax.random.key(seed, impl="threefry2x32")


@functools.partial(jax.jit, static_argnums=3)
def drawn(lane, index, weights, group_size):
    return draw(jax.random.fold_in(lane, index), weights, group_size)


def replay(setting, seed, steps):
    """Logits before, group, and logits after each step of a naive lane that draws what the engine's lane draws."""
    memory, history = naive_simulator.start(setting), []
    with jax.enable_x64(True):
        for index in range(steps):
            scores = (memory.logits - memory.logits.max()) / setting.temperature
            group = drawn(lane_key(seed), index, jnp.asarray(np.exp(scores)), setting.group_size).tolist()
            following = naive_simulator.step(setting, memory, group)
            history.append((memory.logits, group, following.logits))
            memory = following
    return history


def expected_records(setting, seed, recorded):
    """Of each recorded step, what is recorded; rates are means over the steps since the last record."""
    history = replay(setting, seed, recorded[-1])
    updates = [naive_simulator.update_record(setting, before, after, group) for before, group, after in history]
    for first, last in zip((0, *recorded), recorded, strict=False):
        record = naive_simulator.policy_record(setting, history[last - 1][2]) | updates[last - 1]
        rates = ("active_rate", "tail_miss_rate")
        yield record | {rate: np.mean([update[rate] for update in updates[first:last]]) for rate in rates}


def assert_records(rows, lane, place, expected):
    """One record of one lane, every metric of it; lists that the program leaves out are left out."""
    expected = {metric: value for metric, value in expected.items() if np.size(value)}
    assert rows.keys() == expected.keys()
    for metric, value in expected.items():
        np.testing.assert_allclose(rows[metric][lane, place], value, rtol=0, atol=1e-9, err_msg=metric)
