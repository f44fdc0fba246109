"""The simulator's mean over many runs against the exact expectation: every possible group of every step is enumerated.

Policies have two to five actions, so that all groups of one or two steps can be listed and each path simulated by
naive_steps.py. Means agree within 4 standard errors, the standard deviation being that of the enumeration, and
within 1e-6 where a quantity does not vary. Seeds are fixed.
"""

from itertools import product
from typing import NamedTuple

import jax
import jax.numpy as jnp
import naive_simulator
import naive_steps
import numpy as np
import pytest
import runs
from naive_simulator import Setting

from simlab.simulator.metrics import ASCENT_METRICS
from simlab.simulator.trajectory import Learners, RecordSchedule, advance, begin

RUNS = 30_000
LOGITS = (0.7, -0.4, 0.2, 1.1, -0.9)
FAST = {"learning_rate": 0.3}
CLIPPED = {"surrogate": "ppo_clip", "surrogate_parameters": {"eps_low": 0.1, "eps_high": 0.15}}


def setting(actions, group_size, estimator, optimizer, **others):
    """Actions 0 and 1 are correct where there are more than two; action 1 is then the target."""
    correct, target = ({0, 1}, {1}) if actions > 2 else ({0}, {0})
    base = {"surrogate": "reinforce", "optimizer_parameters": FAST, "pass_at_k": (), "top_n": 0}
    policy = LOGITS[:actions], frozenset(correct), frozenset(target)
    return Setting(*policy, group_size, estimator, optimizer=optimizer, **(base | others))


NOT_ZERO_SUM = {"update_rule": "theorem", "rewards": (2.0, -0.5), "temperature": 0.7}
REGULARISED = {"temperature": 1.6, "kl": 0.5, "entropy_bonus": 0.2, "epochs": 2}
# Steps, dtype, setting.
CASES = {
    "theorem, zero-sum": (2, "float32", setting(3, 2, "dr_grpo", "sgd", update_rule="theorem", rewards=(1.0, -1.0))),
    "theorem, not zero-sum": (2, "float64", setting(4, 2, "psr", "adam", **NOT_ZERO_SUM)),
    "clipped, zero-sum": (2, "float64", setting(3, 3, "f_grpo", "sgd", epochs=3, **CLIPPED)),
    "regularised": (2, "float64", setting(3, 2, "dr_grpo", "adam", **REGULARISED)),
}


class Exact(NamedTuple):
    """The expectation of a quantity, and the standard error of its mean over ``RUNS`` runs."""

    mean: float
    standard_error: float


def expectations(chosen, steps):
    """The exact expectation of every recorded quantity at each step."""
    paths, naive = [[] for _ in range(steps)], naive_steps.of_one_prompt(chosen)

    def walk(memory, probability, depth):
        p = naive_simulator.probabilities(memory.logits, chosen.temperature)
        for group in product(range(len(p)), repeat=chosen.group_size):
            following = naive_steps.step_of_one_prompt(naive, memory, list(group))
            path = probability * np.prod([p[action] for action in group])
            record = naive_simulator.policy_record(chosen, following.logits)
            record |= naive_simulator.update_record(chosen, memory.logits, following.logits, list(group))
            paths[depth].append((path, record))
            if depth + 1 < steps:
                walk(following, path, depth + 1)

    walk(naive_steps.start(naive), 1.0, 0)
    return [summarise(of_step) for of_step in paths]


def summarise(paths):
    weights = np.array([weight for weight, _ in paths])
    assert weights.sum() == pytest.approx(1, abs=1e-12)
    summary = {}
    for metric in paths[0][1].keys() - {"pass_at_k", "top_logp"}:
        values = np.array([record[metric] for _, record in paths])
        mean = weights @ values
        summary[metric] = Exact(mean, np.sqrt(weights @ (values - mean) ** 2 / RUNS))
    return summary


def simulated_means(chosen, steps, dtype):
    """The simulator's mean over runs of every record, (steps + 1,); a hundred runs at a time.

    Where a step leaves the policy as it was, the share of correct actions kept is 1 only if XLA rounds its
    probabilities as it rounded those of the start, which it does in batches about as large as the runner's.
    """
    schedule = RecordSchedule(jnp.arange(1, steps + 1, dtype=jnp.int32), jnp.int32(steps))

    def records(run):
        seed, traced = run
        setup = Learners(lambda key, values: runs.learner(chosen, dtype, laid, values, key), runs.run_key(seed), traced)
        return {name: row for name, row in advance(setup, schedule, begin(setup, schedule)).rows.items() if row.size}

    with jax.enable_x64(dtype == "float64"):
        laid, traced = runs.arrays(chosen, dtype)
        traced = jax.tree.map(lambda value: jnp.full(RUNS, value), traced)
        each = jnp.arange(RUNS, dtype=jnp.uint32), traced
        rows = jax.jit(lambda each: jax.lax.map(records, each, batch_size=100))(each)
    return {name: np.asarray(row, np.float64).mean(axis=0) for name, row in rows.items()}


SLOW = {"theorem, not zero-sum", "regularised"}


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in CASES])
def test_the_simulators_mean_is_the_exact_expectation(name):
    steps, dtype, chosen = CASES[name]
    means = simulated_means(chosen, steps, dtype)
    for step, exact in enumerate(expectations(chosen, steps), start=1):
        # test_problem_contract.py compares the metrics of gradient steps.
        assert means.keys() - {metric.name for metric in ASCENT_METRICS} == exact.keys()
        for metric, (mean, standard_error) in exact.items():
            assert abs(means[metric][step] - mean) <= max(4 * standard_error, 1e-6), (step, metric)
