"""Remedies for interference in a step: naive loops, their limits, their records, and refusals."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from refusals import refusal

from simlab.problems import interference, linear_softmax, network, prompt_bank
from simlab.simulator.learner import Learner
from simlab.simulator.runner import check, simulate
from simlab.simulator.settings import Settings
from simlab.simulator.storage import DENSE, StoredProblem

pytestmark = pytest.mark.usefixtures("quickly")

PROBLEM = interference(prompts=5, actions=6, overlap=0.5, solve_rates=[0.6, 0.5, 0.3, 0.25, 0.2])
LISTED = PROBLEM.listed()
TEACHING, CORRECT = np.asarray(LISTED.teaching), np.asarray(LISTED.correct)
RATES, TEMPERATURE, B1, B2, EPS = {"sgd": 1.5, "adam": 0.05}, 0.9, 0.9, 0.999, 1e-8
REMEDIES, KNOWN_BY = ("damp", "drop", "project", "endangered"), ("memory", "step", "exact")


@pytest.fixture
def double():
    with jax.enable_x64(True):
        yield


@functools.partial(jax.jit, static_argnums=0)
def drawing(learner, index, state):
    state, _, prompts, drawn = learner.draw(index, state)
    return prompts, drawn.groups.slots


@functools.partial(jax.jit, static_argnums=0)
def stepped(learner, index, state):
    return learner.step(index, state)


def learner_of(problem, settings):
    check(problem, settings)
    stored = StoredProblem(DENSE.load(problem.listed(), settings.dtype), DENSE, None)
    key = jax.random.key(0, impl="threefry2x32")
    return Learner(settings.static, stored, key, jax.tree.map(jnp.asarray, settings.traced))


# Naive steps of Dr. GRPO on a linear head


def policy_of(weights, m):
    logits = np.asarray(LISTED.features)[m] @ weights.T / TEMPERATURE
    p = np.exp(logits - logits.max())
    return p / p.sum()


def score(p, action):
    return (np.arange(len(p)) == action).astype(float) / TEMPERATURE - p / TEMPERATURE


def objective_gradient(p, actions, m):
    rewards = [float(CORRECT[m][a]) for a in actions]
    mean = sum(rewards) / len(rewards)
    return sum((r - mean) * score(p, a) for r, a in zip(rewards, actions, strict=True)) / len(rewards)


def solve_rate_gradient(p, actions, m):
    rewards = [float(CORRECT[m][a]) for a in actions]
    mean = sum(rewards) / len(rewards)
    return sum((r - mean) * score(p, a) for r, a in zip(rewards, actions, strict=True)) / (len(rewards) - 1)


def exact_gradient(p, m):
    return sum(p[a] * score(p, a) for a in np.flatnonzero(CORRECT[m]))


class Adam:
    def __init__(self, shape):
        self.steps, self.m, self.v = 0, np.zeros(shape), np.zeros(shape)

    def spread(self, gradient):
        v = B2 * self.v + (1 - B2) * gradient**2
        return v, np.sqrt(v / (1 - B2 ** (self.steps + 1))) + EPS

    def preconditioner(self, gradient):
        v, spread = self.spread(gradient)
        return np.where(v > 0, 1 / spread, 0)

    def step(self, gradient):
        self.v, spread = self.spread(gradient)
        self.steps += 1
        self.m = B1 * self.m + (1 - B1) * gradient
        return RATES["adam"] * self.m / (1 - B1**self.steps) / spread


class Plain:
    def __init__(self, shape):
        self.shape = shape

    def preconditioner(self, gradient):
        return np.ones(self.shape)

    def step(self, gradient):
        return RATES["sgd"] * gradient


def weights_of(remedy, strength, pushes, net):
    """The weight of each prompt of a batch under damp and drop; ``pushes`` by source, then by target."""
    harms = {i: -sum(min(k, 0) for j, k in row.items() if net[j] < 0) for i, row in pushes.items()}
    harmful = sorted((i for i in harms if harms[i] > 0), key=lambda i: -harms[i])
    if remedy == "damp":
        return {i: 1 - strength * harms[i] / harms[harmful[0]] if harmful else 1 for i in harms}
    dropped = harmful[: int(np.ceil(strength * len(harmful)))]
    return {i: float(i not in dropped) for i in harms}


def turned(gradient, directions, spread, strength, net):
    """Go sixteen rounds over the known prompts: lift each to 0 if it is pushed down, or let it down to 0."""
    added = dict.fromkeys(directions, 0.0)
    for _, j in itertools.product(range(16), directions):
        more = sum(added[k] * (directions[j] * spread * directions[k]).sum() for k in directions)
        added[j] = max(0.0, added[j] - (net[j] + more) / (directions[j] ** 2 * spread).sum())
    return gradient + strength * sum(added[j] * directions[j] for j in directions)


def exact(value):
    """A sum that is 0 but for rounding is 0."""
    return value if abs(value) > 1e-13 else 0.0


def naive_step(weights, optimizer, batch, remembered, setting):
    """One step: the weights after it, and the net pushes on the prompts whose u is known."""
    remedy, by, strength = setting
    p = [policy_of(weights, m) for m in range(5)]
    each = {m: objective_gradient(p[m], drawn, m) for m, drawn in batch.items()}
    each = {m: np.where(abs(dz) > 1e-15, dz, 0) for m, dz in each.items()}  # actions that nobody drew, for Adam
    updates = {m: np.outer(dz, TEACHING[m]) / len(batch) for m, dz in each.items()}
    known = dict(remembered)
    if by == "exact":
        known = {m: exact_gradient(p[m], m) for m in range(5)}
    if by == "step":
        known = {m: solve_rate_gradient(p[m], drawn, m) for m, drawn in sorted(batch.items())}
    known = {m: np.outer(u, TEACHING[m]) for m, u in sorted(known.items()) if np.any(u != 0)}
    gradient = sum(updates.values())
    spread = optimizer.preconditioner(gradient)
    pushes = {
        i: {j: 0.0 if by == "step" and i == j else exact((u * spread * update).sum()) for j, u in known.items()}
        for i, update in updates.items()
    }
    net = {j: exact(sum(row[j] for row in pushes.values())) for j in known}
    if remedy in ("damp", "drop"):
        factors = weights_of(remedy, strength, pushes, net)
        gradient = sum(factors[i] * update for i, update in updates.items())
    if remedy == "project":
        gradient = turned(gradient, known, spread, strength, net)
    return weights + optimizer.step(gradient), net


def compare_steps(remedy, by, optimizer="sgd"):
    """Compare twelve steps with the loops' steps on the same groups."""
    strength = 0.6
    settings = Settings(
        "dr_grpo+reinforce", 4, optimizer, {"learning_rate": RATES[optimizer]}, prompts_per_step=3,
        dtype="float64", temperature=TEMPERATURE, remedy=remedy, remedy_by=by, remedy_strength=strength,
    )  # fmt: skip
    learner = learner_of(PROBLEM, settings)
    state, remembered, last, in_danger = learner.start(), {}, np.zeros(5), 0
    weights = np.asarray(LISTED.weights)
    naive = (Adam if optimizer == "adam" else Plain)(weights.shape)
    for index in range(12):
        prompts, actions = map(np.asarray, drawing(learner, jnp.int32(index), state))
        if remedy == "endangered":  # the worst has a seat: .6 of three seats, rounded down, is one
            assert last.min() == 0 or last[prompts[0]] == pytest.approx(last.min())
        batch = dict(zip(prompts.tolist(), actions, strict=True))
        p = {m: policy_of(weights, m) for m in batch}
        weights, net = naive_step(weights, naive, batch, remembered, (remedy, by, strength))
        for m, drawn in batch.items():
            u = solve_rate_gradient(p[m], drawn, m)
            remembered |= {m: u} if np.any(u != 0) else {}
        for m, value in net.items():
            last[m] = value
            in_danger += value < 0
        state = stepped(learner, jnp.int32(index), state)
        np.testing.assert_allclose(state.parameters, weights, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(state.known.net, last, rtol=1e-7, atol=1e-10)
    assert in_danger > 0


@pytest.mark.parametrize("by", KNOWN_BY)
@pytest.mark.parametrize("remedy", REMEDIES)
def test_steps_are_those_of_loops(double, remedy, by):
    compare_steps(remedy, by)


@pytest.mark.parametrize("by", KNOWN_BY)
@pytest.mark.parametrize("remedy", ["drop", "project"])
def test_steps_of_adam_are_those_of_loops_by_its_preconditioner(double, remedy, by):
    compare_steps(remedy, by, "adam")


# Limits


def last_parameters(problem=PROBLEM, steps=8, **changes):
    settings = Settings("dr_grpo+reinforce", **{"group_size": 4, "optimizer": "sgd", "dtype": "float64"} | changes)
    learner = learner_of(problem, settings)
    state = learner.start()
    for index in range(steps):
        state = stepped(learner, jnp.int32(index), state)
    return state.parameters


@pytest.mark.parametrize("by", KNOWN_BY)
@pytest.mark.parametrize("remedy", ["damp", "drop", "project"])
def test_a_strength_of_0_is_plain(double, remedy, by):
    none = last_parameters(remedy=remedy, remedy_by=by, remedy_strength=0.0)
    np.testing.assert_allclose(none, last_parameters(), rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("remedy", ["damp", "drop", "project"])
def test_without_an_overlap_nobody_harms_another_and_nothing_is_done(double, remedy):
    apart = interference(prompts=4, actions=6, overlap=0.0)
    parameters = last_parameters(apart, remedy=remedy, remedy_by="step")
    np.testing.assert_allclose(parameters, last_parameters(apart), rtol=1e-13, atol=1e-15)


SHARED = {
    "interference": PROBLEM,
    "linear_softmax": linear_softmax(prompts=6, actions=12, failure_modes=2),
    "network": network(prompts=4, actions=8, width=8, layers=2),
}


def largest_fall(problem, steps=20, **changes):
    """The largest fall of an exact solve rate in one of some steps, over the learning rate."""
    rate, falls = 1e-6, []
    settings = Settings("dr_grpo+reinforce", 4, "sgd", {"learning_rate": rate}, dtype="float64", **changes)
    learner = learner_of(problem, settings)
    solved = jax.jit(
        lambda state: learner.map_prompts(learner.solve_rate)(
            None, learner.policies_at(state.parameters, None), learner.correct
        )
    )
    state = learner.start()
    for index in range(steps):
        before, state = solved(state), stepped(learner, jnp.int32(index), state)
        falls.append(float((before - solved(state)).max()))
    return max(falls) / rate


@pytest.mark.parametrize("problem", SHARED.values(), ids=SHARED)
def test_by_exact_rates_a_short_projected_step_lowers_no_solve_rate_and_a_plain_one_does(double, problem):
    assert largest_fall(problem) > 1e-4
    assert largest_fall(problem, remedy="project", remedy_by="exact") < 1e-8


# Records, and what is refused


def test_records_are_the_same_however_runs_are_batched_and_recorded():
    common = {"group_size": 4, "remedy": "project", "optimizer": "sgd", "pass_at_k": (1, 4)}
    together = simulate(PROBLEM, "grpo", seeds=3, steps=12, record_every=4, **common)
    alone = simulate(PROBLEM, "grpo", seeds=1, steps=12, record_every=12, **common)
    np.testing.assert_array_equal(together.q_pos.sel(seed=0, step=12), alone.q_pos.sel(seed=0, step=12))
    plain = simulate(PROBLEM, "grpo", seeds=1, steps=12, record_every=12, **common | {"remedy": "none"})
    assert (plain.q_pos.isel(step=-1) != alone.q_pos.isel(step=-1)).any()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"remedy": "dampen"}, "remedy = 'dampen'"),
        ({"remedy_by": "rates"}, "remedy_by = 'rates'"),
        ({"remedy_strength": 1.5}, "remedy_strength = 1.5 is outside its range [0, 1]"),
        ({"remedy": "drop", "storage": "lumped"}, "remedy = 'drop' in lumped storage; allowed: auto, dense"),
        ({"remedy": "drop", "epochs": 2}, "epochs = 2 with remedy = 'drop'; allowed: 1"),
        ({"remedy": "drop", "lag": 1}, "lag = 1 with remedy = 'drop'; allowed: 0"),
        ({"remedy": "drop", "group_size": 1}, "group_size = 1 with remedy = 'drop'; allowed: 2 or more"),
        ({"remedy": "drop", "allocation": "dynamic"}, "allocation = dynamic with remedy = 'drop'; allowed: even"),
        ({"remedy": "endangered"}, "remedy = 'endangered' with all 5 prompts in each step"),
    ],
)
def test_what_has_no_meaning_is_refused_in_one_line(changes, message):
    assert message in refusal(lambda: check(PROBLEM, Settings("dr_grpo", **changes)))


def test_prompts_that_share_no_parameters_have_no_remedy():
    bank = prompt_bank(solve_rates=[0.2, 0.5], actions=6)
    message = "remedy = 'project' of a PromptBank, whose prompts share no parameters; allowed: none"
    assert message in refusal(lambda: check(bank, Settings("grpo", remedy="project")))
