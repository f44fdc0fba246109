"""A ``Setting`` of the naive simulator as the library's, and the naive simulation of one of the library's runs."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import naive_simulator
import naive_steps
import numpy as np
from naive_simulator import Setting

from simlab.problems import Categorical, custom
from simlab.simulator.learner import Learner
from simlab.simulator.metrics import ASCENT_METRICS
from simlab.simulator.sampling import draw
from simlab.simulator.settings import Settings
from simlab.simulator.storage import DENSE, Dense, StoredProblem

ADAM = {"learning_rate": 0.1, "b1": 0.8, "b2": 0.95, "eps": 1e-5}


def problem(setting: Setting) -> Categorical:
    correct, incorrect = setting.rewards
    return custom(list(setting.logits), sorted(setting.correct), sorted(setting.target), correct, incorrect)


def called(name: str, parameters: dict[str, Any]) -> str:
    """An estimator or a surrogate as it is written in an arm."""
    return f"{name}({','.join(f'{key}={value}' for key, value in parameters.items())})" if parameters else name


def arguments(setting: Setting, dtype: str = "float64", **others: Any) -> dict[str, Any]:
    """Arguments of ``Settings`` and ``simulate``: the method as text, as users write it, unless ``others`` give it."""
    estimator = called(setting.estimator, setting.estimator_parameters)
    surrogate = called(setting.surrogate, setting.surrogate_parameters)
    named = (
        "group_size", "optimizer", "optimizer_parameters", "temperature", "kl", "entropy_bonus", "supervised",
        "update_norm", "epochs", "update_rule", "pass_at_k", "top_n",
    )  # fmt: skip
    values = {name: getattr(setting, name) for name in named}
    return {"method": f"{estimator}+{surrogate}@token_mean", "dtype": dtype, "storage": "dense"} | values | others


def settings(setting: Setting, dtype: str = "float64", **others: Any) -> Settings:
    return Settings(**arguments(setting, dtype, **others))


def arrays(setting: Setting, dtype: str) -> tuple[Any, Any]:
    """The problem and the floats on the device; to be called with 64-bit types enabled if ``dtype`` needs them."""
    traced = jax.tree.map(lambda value: jnp.asarray(value, dtype), settings(setting, dtype).traced)
    return DENSE.load(problem(setting), dtype), traced


def run_key(seed: int) -> jax.Array:
    """The key of the library's run of that seed."""
    return jax.random.key(seed, impl="threefry2x32")


def learner(  # noqa: PLR0917
    setting: Setting, dtype: str, laid: Any, traced: Any, key: jax.Array, storage: Dense = DENSE, slots: Any = None
) -> Learner:
    """The learner of a run, in dense storage unless another is given with its first slots."""
    return Learner(
        settings(setting, dtype, storage=storage.name).static, StoredProblem(laid, storage, slots), key, traced
    )


@functools.partial(jax.jit, static_argnums=3)
def drawn(run, index, weights, group_size):
    return draw(jax.random.fold_in(run, index), weights, group_size)


def replay(setting, seed, steps):
    """Logits before, group, and logits after each step of a naive run that draws what the library's run draws."""
    naive, history = naive_steps.of_one_prompt(setting), []
    memory = naive_steps.start(naive)
    with jax.enable_x64(True):
        for index in range(steps):
            scores = (memory.logits - memory.logits.max()) / setting.temperature
            group = drawn(run_key(seed), index, jnp.asarray(np.exp(scores)), setting.group_size).tolist()
            following = naive_steps.step_of_one_prompt(naive, memory, group)
            history.append((memory.logits, group, following.logits))
            memory = following
    return history


def expected_records(setting, seed, recorded):
    """The record of each recorded step; rates are means over the steps since the last record."""
    history = replay(setting, seed, recorded[-1])
    updates = [naive_simulator.update_record(setting, before, after, group) for before, group, after in history]
    for first, last in zip((0, *recorded), recorded, strict=False):
        record = naive_simulator.policy_record(setting, history[last - 1][2]) | updates[last - 1]
        rates = ("accepted_rate", "active_rate", "tail_miss_rate")
        yield record | {rate: np.mean([update[rate] for update in updates[first:last]]) for rate in rates}


def assert_records(rows, run, index, expected):
    """One record of one run, every metric of it; lists that the settings leave out are left out.

    Those of gradient steps are compared in test_problem_contract.py.
    """
    expected = {metric: value for metric, value in expected.items() if np.size(value)}
    assert rows.keys() - {metric.name for metric in ASCENT_METRICS} == expected.keys()
    for metric, value in expected.items():
        np.testing.assert_allclose(rows[metric][run, index], value, rtol=0, atol=1e-9, err_msg=metric)
