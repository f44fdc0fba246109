"""Simulate blocks of seeds for two panels, with programs that are compiled once for a few shapes.

Group size, learning rate, steps and an estimator's numbers are arguments of the compiled programs. The group and the
actions are filled up to one of a few sizes, with absent rollouts and with actions that are never drawn. Anything else
(the estimator itself, its choices, the optimiser) needs another program.
"""

import functools
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from simlab.estimators import estimator
from simlab.estimators.registry import REGISTRY
from simlab.explore.drift import expected_correct_mass, group_masses
from simlab.explore.shapes import ACTIONS, GROUPS, LANES, TREE_GROUP, filled_to
from simlab.explore.weights import read_weight
from simlab.problems import Tree, anchored
from simlab.problems.categorical import correct_mass
from simlab.problems.classes import Classes
from simlab.problems.tree import tree
from simlab.simulate.compiled import Compiled, kept
from simlab.simulate.dense import landscape, lane_arrays
from simlab.simulate.lane import Landscape, Lane, State
from simlab.simulate.policy import EMPTY
from simlab.simulate.program import Numbers, Program
from simlab.simulate.tree_lane import TreeLane
from simlab.theory import CLOSED_FORMS, tail_miss

RECORDS = 50
SNAPSHOTS = 20  # of a tree
OPTIMISER_OF_TREE = "sgd"

Settings = dict[str, Any]
Row = dict[str, Array]
Say = Callable[[str], None]


class Shared(NamedTuple):
    """What all seeds of a call have in common: the problem, the steps after which to record, and G."""

    place: Landscape
    steps: Int[Array, " R"]
    group_size: Int[Array, ""]


Trajectory = Callable[[Program, Shared, PRNGKeyArray, Numbers], Row]


class Call(NamedTuple):
    """A program, and everything that it is called with but the seeds."""

    program: Program
    place: Landscape
    steps: Int[np.ndarray, " R"]
    numbers: Numbers
    group_size: int
    trajectory: Trajectory


def record_steps(steps: int, records: int) -> Int[np.ndarray, " R"]:
    """The steps after which is recorded, evenly spread; the last one is the last."""
    return np.round(np.linspace(0, steps, records + 1)[1:]).astype(np.int64)


# One policy


def policy_of(settings: Settings) -> Classes:
    """The policy that panel 4 trains."""
    actions = settings["actions"]
    correct = min(max(round(settings["correct"] * actions), 2), actions - 1)
    return anchored(actions, correct, anchor_logit=settings["anchor_logit"], correct_logit=settings["correct_logit"])


def policy_call(settings: Settings) -> Call:
    """The program of panel 4."""
    name, floats, choices = weight_parts(settings["weight"])
    program = Program(
        filled_to(settings["group_size"], GROUPS),
        name,
        choices,
        surrogate="reinforce",
        optimizer=settings["optimizer"],
        engine="dense",
    )
    problem = policy_of(settings)
    numbers = _numbers(problem, floats, {}, settings["learning_rate"], 0.0)
    place = _filled(landscape(program, problem), filled_to(problem.actions, ACTIONS))
    steps = record_steps(settings["steps"], RECORDS)
    return Call(program, place, steps, numbers, settings["group_size"], policy_trajectory)


def weight_parts(text: str) -> tuple[str, dict[str, float], tuple[tuple[str, Any], ...]]:
    """Name, numbers and choices of an estimator, the others at their defaults."""
    name, given = read_weight(text)
    parameters = REGISTRY[name].parameters | given
    floats = {key: value for key, value in parameters.items() if isinstance(REGISTRY[name].parameters[key], float)}
    return name, floats, tuple(sorted((key, value) for key, value in parameters.items() if key not in floats))


def _numbers(
    problem: Classes | Tree, floats: dict[str, float], surrogate: dict[str, float], rate: float, entropy_bonus: float
) -> Numbers:
    rewards = (problem.reward_correct, problem.reward_incorrect)
    return Numbers(floats, surrogate, {"learning_rate": rate}, *rewards, entropy_bonus=entropy_bonus)


def _filled(place: Landscape, actions: int) -> Landscape:
    """The landscape with actions that are never drawn added at its end."""
    more = actions - len(place.logits)
    return Landscape(
        jnp.pad(place.logits, (0, more), constant_values=EMPTY),
        jnp.pad(place.correct, (0, more)),
        jnp.pad(place.target, (0, more)),
    )


def policy_trajectory(program: Program, shared: Shared, key: PRNGKeyArray, numbers: Numbers) -> Row:
    """The records of one seed of one policy, each (R + 1,): step 0, where there is no rate yet, and ``steps``."""
    lane = Lane(program, shared.place, key, numbers, _present(program, shared.group_size))

    def record(state: State, length: Array) -> Row:
        metrics = lane.policy_metrics(state)
        row = {name: metrics[name] for name in ("q_pos", "retained_mass", "entropy")}
        row["target_mass"] = correct_mass(lane.policy(state).p, shared.place.target)
        return row | {"tail_miss_rate": state.tail_missed / length}

    return _windows(lane, shared.steps, record)


def _present(program: Program, group_size: Array) -> Array:
    return jnp.arange(program.group_size) < group_size


def _windows(lane: Lane, steps: Array, record: Callable[[State, Array], Row]) -> Row:
    """What is recorded of the start and after each of ``steps``."""

    def window(state: State, bounds: Array) -> tuple[State, Row]:
        first, last = bounds[0], bounds[1]
        state = jax.lax.fori_loop(first, last, lane.step, lane.counted_anew(state))
        return state, record(state, (last - first).astype(state.logits.dtype))

    bounds = jnp.stack([jnp.concatenate([jnp.zeros_like(steps[:1]), steps[:-1]]), steps], axis=1)
    start = lane.start()
    _, rows = jax.lax.scan(window, start, bounds)
    first = record(start, jnp.full((), jnp.nan, start.logits.dtype))
    return {name: jnp.concatenate([first[name][None], row]) for name, row in rows.items()}


def simulate_policy(settings: Settings, first: int, say: Say) -> dict[str, Any]:
    """A block of seeds of panel 4, from ``first`` up, and what theory says of it.

    Returns:
        ``step`` (R + 1,), the number of ``seeds``, and of each metric its ``mean`` and ``m2``, the sum of squared
        differences from the mean, both (R + 1,), with which blocks are joined.
    """
    call = policy_call(settings)
    rows = _run(call, first, say)
    mass, target = (rows[name].astype(np.float64) for name in ("q_pos", "target_mass"))
    mass = np.clip(mass, 0, 1)
    missed = np.asarray(tail_miss(settings["group_size"], mass, np.clip(target, 0, mass)))
    rows["tail_miss_expected"] = np.concatenate([missed[:, :1], (missed[:, 1:] + missed[:, :-1]) / 2], axis=1)
    metrics = {name: _moments(values) for name, values in rows.items() if name != "target_mass"}
    return {"step": [0, *call.steps.tolist()], "seeds": LANES, "metrics": metrics, "theory": drift(settings)}


def drift(settings: Settings) -> list[float] | None:
    """Q_pos along expected steps, where these are known: plain steps by an estimator of this group's rewards alone."""
    name, floats, choices = weight_parts(settings["weight"])
    parameters = dict(choices) | floats
    built = estimator(name, **parameters)
    known = name in CLOSED_FORMS and built.needs == {"rewards"} and not jax.tree.leaves(built.init())
    if settings["optimizer"] != "sgd" or not known:
        return None
    masses = group_masses(name, settings["group_size"], parameters)
    recorded = record_steps(settings["steps"], RECORDS)
    path = expected_correct_mass(policy_of(settings), masses, settings["learning_rate"], recorded)
    return [float(f"{value:.6g}") for value in path]


# A tree


def tree_calls(settings: Settings) -> dict[str, Call]:
    """The programs of panel 6, by the name of the method."""
    gate = {"alpha": settings["alpha"], "top_penalty": settings["top_penalty"], "quantile": settings["quantile"]}
    candidates = (("candidates", int(settings["candidates"])),)
    return {
        "GRPO": _tree_call(settings, "ppo_clip", {}, (), 0.0),
        "GRPO + entropy": _tree_call(settings, "ppo_clip", {}, (), settings["entropy_bonus"], uses_entropy_bonus=True),
        "CaSP": _tree_call(settings, "casp", gate, candidates, 0.0),
    }


def _tree_call(
    settings: Settings,
    surrogate: str,
    numbers: dict[str, float],
    choices: tuple[tuple[str, Any], ...],
    bonus: float,
    *,
    uses_entropy_bonus: bool = False,
) -> Call:
    program = Program(
        TREE_GROUP,
        "grpo",
        weight_parts("grpo")[2],
        surrogate,
        choices,
        OPTIMISER_OF_TREE,
        uses_entropy_bonus=uses_entropy_bonus,
        engine="dense",
        aggregation="constant",
    )
    toy = tree()
    steps = record_steps(settings["steps"], SNAPSHOTS)
    numbers_of_run = _numbers(toy, weight_parts("grpo")[1], numbers, settings["learning_rate"], bonus)
    return Call(program, landscape(program, toy), steps, numbers_of_run, settings["group_size"], tree_trajectory)


def tree_trajectory(program: Program, shared: Shared, key: PRNGKeyArray, numbers: Numbers) -> Row:
    """The records of one seed of the tree: the policies of its nodes, (R + 1, nodes, B), and what they amount to."""
    lane = TreeLane(program, shared.place, key, numbers, _present(program, shared.group_size))

    def record(state: State, length: Array) -> Row:
        metrics = lane.policy_metrics(state)
        policies: Float[Array, "nodes B"] = jax.nn.softmax(state.logits, axis=-1)
        return {name: metrics[name] for name in ("q_pos", "modes_held", "mode_coverage")} | {"policies": policies}

    return _windows(lane, shared.steps, record)


def simulate_tree(settings: Settings, first: int, say: Say) -> dict[str, Any]:
    """A block of seeds of panel 6, from ``first`` up, under each of its methods.

    Returns:
        ``step`` (R + 1,), ``seeds``, and of each method its ``metrics``, as of ``simulate_policy``, and the
        ``policies`` of the first seed, (R + 1, nodes, B).
    """
    methods = {}
    for name, call in tree_calls(settings).items():
        rows = _run(call, first, say)
        policies = rows.pop("policies")[0]
        methods[name] = {
            "metrics": {metric: _moments(values) for metric, values in rows.items()},
            "policies": np.round(policies, 5).tolist(),
        }
    return {"step": [0, *record_steps(settings["steps"], SNAPSHOTS).tolist()], "seeds": LANES, "methods": methods}


# Both


def compile_for(panel: str, settings: Settings) -> None:
    """Compile what a panel needs for these settings, unless it is there."""
    for call in [policy_call(settings)] if panel == "run" else tree_calls(settings).values():
        _compiled(call, _arguments(call, 0))


def _run(call: Call, first: int, say: Say) -> dict[str, np.ndarray]:
    """The records of a block of seeds, (lanes, R + 1, ...); ``say`` hears what has to be waited for."""
    arguments = _arguments(call, first)
    if _key(call, arguments) not in _ready:
        say("compiling")
    code = _compiled(call, arguments)
    say("simulating")
    return {name: np.asarray(row) for name, row in code.call(*arguments).items()}


_ready: set[Hashable] = set()


def _compiled(call: Call, arguments: tuple[Any, ...]) -> Compiled:
    """The compiled program; threads that ask for the same one wait for its only compilation."""
    key = _key(call, arguments)
    code = kept(
        key, lambda: jax.jit(functools.partial(_block, call.program, call.trajectory)).lower(*arguments).compile()
    )
    _ready.add(key)
    return code


def _arguments(call: Call, first: int) -> tuple[Any, ...]:
    keys, numbers = lane_arrays(call.program, [(first + lane, call.numbers) for lane in range(LANES)])
    return Shared(call.place, jnp.asarray(call.steps, jnp.int32), jnp.int32(call.group_size)), keys, numbers


def _key(call: Call, arguments: tuple[Any, ...]) -> Hashable:
    shapes = tuple(leaf.shape for leaf in jax.tree.leaves(arguments))
    return "explore", call.program, jax.tree.structure(arguments), shapes


def _block(program: Program, trajectory: Trajectory, shared: Shared, keys: Array, numbers: Numbers) -> Row:
    return dict(jax.vmap(lambda key, own: trajectory(program, shared, key, own))(keys, numbers))


def _moments(values: Float[np.ndarray, "lanes R"]) -> dict[str, list[float | None]]:
    """Mean over seeds and sum of squared differences from it, as JSON can hold them."""
    values = values.astype(np.float64)
    mean = values.mean(axis=0)
    return {"mean": _listed(mean), "m2": _listed(((values - mean) ** 2).sum(axis=0))}


def _listed(values: Float[np.ndarray, " R"]) -> list[float | None]:
    return [float(f"{value:.6g}") if np.isfinite(value) else None for value in values]
