"""Simulate the panels that need a server: one policy, a tree, a bank of prompts, and interfering prompts.

A block of seeds runs by a program that is compiled once for a few sizes of the group: groups of 3 and of 17 run by that
for 32, with 29 or 15 absent rollouts, unless the method may not see these. Numbers are arguments of the program.
"""

import functools
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from simlab.errors import InputError
from simlab.estimators import Estimator, advantages, estimator
from simlab.estimators.registry import REGISTRY
from simlab.explore.answers import BINS, bank_of
from simlab.explore.controls import hold_panel, rounded
from simlab.explore.masses import OPTIMIZERS, POLICY_KS, expected_path, group_masses, is_of_rewards, with_pass_at_k
from simlab.explore.presets import WARM
from simlab.explore.weights import read_weight, write_weight
from simlab.problems import Categorical, Problem, anchored, network, tree
from simlab.problems.exact import correct_mass, pass_at_k
from simlab.problems.interference import interference, overlap_edge
from simlab.simulator.call import make_learners
from simlab.simulator.compiled import cached, is_cached
from simlab.simulator.metrics import POLICY, JointView, Metric, PolicyView
from simlab.simulator.runner import check
from simlab.simulator.settings import Settings, StaticSettings
from simlab.simulator.state import Records
from simlab.simulator.storage import DENSE, EMPTY
from simlab.simulator.trajectory import Inputs, RecordSchedule, advance, begin
from simlab.theory import tail_miss

BLOCK_SEEDS = 4
GROUP_SIZES = (32, 128, 512)  # for which programs are compiled
ACTIONS = (256, 2048, 32768)  # likewise, of one policy
RECORDS = {"run": 50, "tree": 20, "bank": 20, "interference": 80}
BANK_KS = (1, 4, 16, 64, 256, 1024, 4096)
INTERFERENCE_KS = tuple(2**power for power in range(13))
LOST = 0.1  # of the base model's rare modes: a prompt that has less of them has lost them

PanelSettings = dict[str, Any]  # the settings of a panel, by their names there
Result = dict[str, Any]
Rows = dict[str, Float[np.ndarray, "seeds records ..."]]
Say = Callable[[str], None]


def fill_up(size: int, sizes: tuple[int, ...]) -> int:
    """Return the least of ``sizes`` that is at least ``size``."""
    return next(larger for larger in sizes if larger >= size)


def record_steps(steps: int, records: int) -> Int[np.ndarray, " R"]:
    """Return the recorded steps, each once and evenly spread; the last one is the last step."""
    return np.unique(np.round(np.linspace(0, steps, records + 1)).astype(np.int64))[1:]


def moments(values: Float[np.ndarray, "seeds R"]) -> dict[str, list[Any]]:
    """Return the ``mean`` over seeds, ``m2``, the sum of squared differences from it, and the ``values`` themselves."""
    values = values.astype(np.float64)
    mean = values.mean(axis=0)
    return dict(rounded({"mean": mean, "m2": ((values - mean) ** 2).sum(axis=0), "values": values}))


@dataclass(frozen=True, eq=False)
class Block:
    """``BLOCK_SEEDS`` seeds of one problem under one method; the state after each of the ``steps`` is recorded.

    The program has room for ``records`` of them.
    """

    problem: Problem
    settings: Settings
    steps: Int[np.ndarray, " R"]
    records: int
    metrics: tuple[str, ...]
    more_metrics: tuple[Metric, ...] = ()

    @functools.cached_property
    def static(self) -> StaticSettings:
        """The settings that shape the program, with the group size that it is compiled for."""
        static = self.settings.static
        size = fill_up(static.group_size, GROUP_SIZES) if static.exchangeable else static.group_size
        return replace(static, group_size=size)

    def rows(self, first: int, say: Say) -> Rows:
        """Return the records of the seeds from ``first`` up; ``say`` hears of the stages."""
        schedule, inputs = self._arguments(first)
        if not is_cached(self._key(inputs)):
            say("compiling")
        code = self.compile()
        say("simulating")
        recorded = slice(len(self.steps) + 1)
        return {name: np.moveaxis(np.asarray(row)[recorded], 0, 1) for name, row in code(schedule, inputs).items()}

    def compile(self) -> Any:
        """Return the compiled program; threads that need the same one wait for its only compilation."""
        schedule, inputs = self._arguments(0)
        program = functools.partial(_program, self.static, self.metrics, self.more_metrics)
        return cached(self._key(inputs), lambda: jax.jit(program).lower(schedule, inputs).compile())

    def _arguments(self, first: int) -> tuple[RecordSchedule, Inputs]:
        dtype = self.static.dtype
        loaded = DENSE.load(self.problem, dtype)
        keys = jnp.stack([jax.random.key(first + seed, impl="threefry2x32") for seed in range(BLOCK_SEEDS)])
        traced = jax.tree.map(lambda value: jnp.full(BLOCK_SEEDS, value, dtype), self.settings.traced)
        steps = np.pad(self.steps, (0, self.records - len(self.steps)), mode="edge")
        schedule = RecordSchedule(jnp.asarray(steps, jnp.int32), jnp.int32(len(self.steps)))
        return schedule, Inputs(loaded, None, jnp.int32(self.settings.group_size), keys, traced)

    def _key(self, inputs: Inputs) -> Hashable:
        leaves, structure = jax.tree.flatten(inputs)
        shapes = tuple(leaf.shape for leaf in leaves)
        return "explore", self.static, self.metrics, self.more_metrics, self.records, structure, shapes


def _program(
    settings: StaticSettings, names: tuple[str, ...], more: tuple[Metric, ...], schedule: RecordSchedule, inputs: Inputs
) -> Records:
    """Return the records, (R + 1, seeds, ...), of step 0 and of those scheduled."""
    metrics = (*(metric for metric in inputs.problem.recorded if metric.name in names), *more)
    learners = make_learners(settings, DENSE, inputs, are_padded=settings.exchangeable, metrics=metrics)
    return advance(learners, schedule, begin(learners, schedule)).rows


# Blocks of each panel, by the names of the methods


def _run_of(settings: PanelSettings, method: str = "", **more: Any) -> Settings:
    return Settings(
        method or f"{write_weight(*read_weight(settings['weight']))}+{settings.get('surrogate', 'reinforce')}",
        settings["group_size"],
        settings.get("optimizer", "sgd"),
        {"learning_rate": settings["learning_rate"]},
        storage="dense",
        **more,
    )


def _rare_rates(view: JointView) -> Float[Array, " P"]:
    learner = view.learner
    policies = learner.policies_at(view.state.parameters, view.state.slots)
    rates: Float[Array, " P"] = jax.vmap(lambda policy, target: correct_mass(policy.shares, target, policy.sum))(
        policies, learner.target
    )
    return rates


def _node_policies(view: PolicyView) -> Float[Array, "nodes B"]:
    policies: Float[Array, "nodes B"] = jax.vmap(lambda node: node.p)(view.token_policy.nodes)
    return policies


NODE_POLICIES = Metric("policies", "probability of each action at a node", POLICY, _node_policies, ("node", "action"))
SOLVE_RATES = Metric("solve_rates", "solve rate", POLICY, lambda whole: whole.each["q_pos"], ("prompt",), joint=True)
RARE_RATES = Metric("rare_rates", "probability of the target set", POLICY, _rare_rates, ("prompt",), joint=True)


def _prompts(settings: PanelSettings) -> dict[str, Any]:
    return {name: settings[name] for name in ("conflict", "hard_rate")} | {"easy_share": 1 - settings["hard_share"]}


def panel_policy(settings: PanelSettings) -> Categorical:
    """Return the policy that the panel trains."""
    actions = settings["actions"]
    correct = min(max(round(settings["correct"] * actions), 2), actions - 1)
    logits = {name: settings[name] for name in ("anchor_logit", "correct_logit")}
    return anchored(actions, correct, **logits)


def blocks_of(panel: str, settings: PanelSettings) -> dict[str, Block]:
    """Return the blocks that a panel simulates, by the name of the method where there are several."""
    runs: dict[str, Settings] = {}
    metrics: tuple[str, ...] = ("q_pos",)
    more: tuple[Metric, ...] = (SOLVE_RATES, RARE_RATES)
    problem: Problem
    if panel == "run":
        runs[""] = _run_of(settings, **{name: settings[name] for name in ("epochs", "lag", "false_positive")})
        problem = panel_policy(settings)
        check(problem, runs[""])
        missing = 0, fill_up(problem.actions, ACTIONS) - problem.actions
        policy = problem.listed()
        problem = policy.replaced(
            logits=np.pad(policy.logits, missing, constant_values=EMPTY),
            correct=np.pad(policy.correct, missing),
            target=np.pad(policy.target, missing),
        )
        metrics, more = ("q_pos", "retained_mass", "entropy", "tail_miss_rate"), (RARE_RATES,)
    elif panel == "tree":
        gate = ",".join(f"{name}={settings[name]}" for name in ("alpha", "candidates", "quantile", "top_penalty"))
        runs["GRPO"] = _run_of(settings, "grpo@constant")
        runs["GRPO + entropy"] = _run_of(settings, "grpo@constant", entropy_bonus=settings["entropy_bonus"])
        runs["CaSP"] = _run_of(settings, f"grpo+casp({gate})@constant")
        problem, metrics, more = tree(), ("q_pos", "modes_held", "mode_coverage"), (NODE_POLICIES,)
    elif panel == "bank":
        runs[""], problem = _run_of(settings), bank_of(settings)
    else:
        runs[""] = _run_of(settings, temperature=settings["temperature"], pass_at_k=INTERFERENCE_KS)
        prompts = _prompts(settings) | {"overlap": settings["overlap"]}
        problem = network(**prompts) if settings["representation"] == "network" else interference(**prompts).listed()
        metrics, more = ("pass_at_k",), ()
    if panel != "run":
        for run in runs.values():
            check(problem, run)
    steps = record_steps(settings["steps"], RECORDS[panel])
    return {name: Block(problem, run, steps, RECORDS[panel], metrics, more) for name, run in runs.items()}


def compile_presets() -> Iterator[int]:
    """Compile the programs of the presets, one after another; yield how many are left."""
    for remaining, (panel, settings) in zip(reversed(range(len(WARM))), WARM, strict=True):
        for block in blocks_of(panel, hold_panel(panel, dict(settings))[0]).values():
            block.compile()
        yield remaining


# Their results


def simulate_panel(panel: str, settings: PanelSettings, first: int, say: Say) -> Result:
    """Simulate the seeds of a panel from ``first`` up: ``step``, ``seeds``, ``moments`` of ``metrics``, and others."""
    rows = {name: block.rows(first, say) for name, block in blocks_of(panel, settings).items()}
    step = [0, *record_steps(settings["steps"], RECORDS[panel]).tolist()]
    return {"step": step, "seeds": BLOCK_SEEDS, **RESULTS[panel](settings, rows)}


def _policy_result(settings: PanelSettings, rows: dict[str, Rows]) -> Result:
    records = rows[""]
    mass = np.clip(records["q_pos"].astype(np.float64), 0, 1)
    target = np.clip(records.pop("rare_rates")[..., 0].astype(np.float64), 0, mass)
    missed = np.asarray(tail_miss(settings["group_size"], mass, target))
    if _is_on_policy_and_true(settings):
        records["tail_miss_expected"] = np.concatenate([missed[:, :1], (missed[:, 1:] + missed[:, :-1]) / 2], axis=1)
    records |= {f"pass_at_{k}": 1 - (1 - mass) ** k for k in POLICY_KS}
    return {"metrics": {name: moments(values) for name, values in records.items()}, "theory": drift(settings)}


def _is_on_policy_and_true(settings: PanelSettings) -> bool:
    return bool(settings["lag"] == 0 and settings["false_positive"] == 0)


def drift(settings: PanelSettings) -> dict[str, list[float]] | None:
    """Return metrics along ``expected_path``; None unless a weight of rewards alone takes those steps."""
    name, parameters = read_weight(settings["weight"])
    parameters = REGISTRY[name].parameters | parameters
    plain = settings["optimizer"] in OPTIMIZERS and settings["epochs"] == 1
    if not (is_of_rewards(estimator(name, **parameters)) and plain and _is_on_policy_and_true(settings)):
        return None
    try:
        masses = group_masses(name, settings["group_size"], parameters)
    except InputError:  # it reads the order of the rollouts
        return None
    steps = record_steps(settings["steps"], RECORDS["run"])
    policy, rate = panel_policy(settings), settings["learning_rate"]
    return with_pass_at_k(rounded(expected_path(policy, masses, settings["optimizer"], rate, steps)))


def _tree_result(settings: PanelSettings, rows: dict[str, Rows]) -> Result:
    policies = {name: np.round(records.pop("policies")[0], 5).tolist() for name, records in rows.items()}
    metrics = {name: {metric: moments(values) for metric, values in records.items()} for name, records in rows.items()}
    return {"methods": {name: {"metrics": metrics[name], "policies": policies[name]} for name in rows}}


def _bank_result(settings: PanelSettings, rows: dict[str, Rows]) -> Result:
    """Return ``pass_at_K`` of any correct answer, ``rare_at_K`` of a rare mode, ``share_I`` in bin I, and ``lost``."""
    solved, rare = (np.clip(rows[""][name].astype(np.float64), 0, 1) for name in ("solve_rates", "rare_rates"))
    bins = np.minimum((solved * BINS).astype(int), BINS - 1)
    of_prompts = {f"pass_at_{k}": pass_at_k(solved, k) for k in BANK_KS}
    of_prompts |= {f"rare_at_{k}": pass_at_k(rare, k) for k in BANK_KS}
    of_prompts |= {f"share_{index}": bins == index for index in range(BINS)}
    of_prompts["lost"] = rare < LOST * rare[:, :1]
    return {"k": BANK_KS, "metrics": {name: moments(values.mean(axis=-1)) for name, values in of_prompts.items()}}


def _interference_result(settings: PanelSettings, rows: dict[str, Rows]) -> Result:
    passed = rows[""]["pass_at_k"]
    metrics = {f"pass_at_{k}": moments(passed[:, :, index]) for index, k in enumerate(INTERFERENCE_KS)}
    return {"k": INTERFERENCE_KS, "metrics": metrics, "edge": edge(settings)}


def edge(settings: PanelSettings) -> list[float | None] | None:
    """Return the overlaps, of either sign, beyond which the first step harms a hard prompt; None without theory."""
    name, parameters = read_weight(settings["weight"])
    weight = estimator(name, **parameters)
    plain = settings["representation"] == "linear head" and settings["optimizer"] == "sgd"
    if not plain or not _reads_its_group_alone(weight, settings["group_size"]):
        return None
    shared = _prompts(settings) | {name: settings[name] for name in ("group_size", "temperature")}
    return list(rounded([sign * float(overlap_edge(sign, weight, **shared)) for sign in (-1, 1)]))


def _reads_its_group_alone(weight: Estimator, group_size: int) -> bool:
    if not is_of_rewards(weight):
        return False
    group = (np.arange(group_size) < 1).astype(float)
    beside = (advantages(weight, np.stack([group, np.full(group_size, other)]))[0] for other in (0.0, 1.0))
    return bool(np.array_equal(*beside))


RESULTS: Mapping[str, Callable[[PanelSettings, dict[str, Rows]], Result]] = {
    "run": _policy_result,
    "tree": _tree_result,
    "interference": _interference_result,
    "bank": _bank_result,
}
