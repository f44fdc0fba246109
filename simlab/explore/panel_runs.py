"""Simulate the panels that need a server: one policy, a tree, a bank of prompts, and interfering prompts.

Each ``simulate_...`` takes the settings of its panel by name, and the first of ``BLOCK_SEEDS`` seeds. It returns
``step`` (R + 1,), the number of ``seeds``, and ``metrics``: of each metric its ``moments`` over the seeds, (R + 1,).
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float

from simlab.errors import InputError
from simlab.estimators import Estimator, advantages, estimator
from simlab.estimators.registry import REGISTRY
from simlab.explore.answers import BINS, bank_of
from simlab.explore.block import ACTIONS, BLOCK_SEEDS, Block, Say, fill_up, moments, record_steps
from simlab.explore.controls import rounded
from simlab.explore.drift import MOVES, POLICY_KS, expected_path, with_pass_at_k
from simlab.explore.masses import group_masses, has_table, is_of_rewards
from simlab.explore.panel_settings import hold_panel
from simlab.explore.presets import WARM
from simlab.explore.weights import arm_text, read_weight
from simlab.problems import Categorical, anchored, tree
from simlab.problems.exact import correct_mass, pass_at_k
from simlab.problems.interference import interference, overlap_edge
from simlab.simulator.checks import check
from simlab.simulator.metrics import POLICY, JointView, Metric, PolicyView
from simlab.simulator.settings import Settings
from simlab.simulator.storage import EMPTY
from simlab.theory import CLOSED_FORMS, tail_miss

POLICY_RECORDS, TREE_RECORDS, BANK_RECORDS, INTERFERENCE_RECORDS = 50, 20, 20, 40
BANK_KS = (1, 4, 16, 64, 256, 1024, 4096)
INTERFERENCE_KS = tuple(2**power for power in range(13))
LOST = 0.1  # of the base model's rare modes: a prompt that has less of them has lost them

PanelSettings = dict[str, Any]  # the settings of a panel, by their names there
Result = dict[str, Any]


def _settings_of_run(settings: PanelSettings, **more: Any) -> Settings:
    return Settings(
        f"{arm_text(settings['weight'])}+{settings.get('surrogate', 'reinforce')}",
        settings["group_size"],
        settings["optimizer"],
        {"learning_rate": settings["learning_rate"]},
        storage="dense",
        **more,
    )


# One policy


def _target_mass(whole: JointView) -> Float[Array, ""]:
    learner = whole.learner
    policy = jax.tree.map(lambda leaf: leaf[0], learner.policies_at(whole.state.parameters, whole.state.slots))
    mass: Float[Array, ""] = correct_mass(policy.shares, learner.target[0], policy.sum)
    return mass


TARGET_MASS = Metric("target_mass", "probability of the target set", POLICY, _target_mass, joint=True)


def panel_policy(settings: PanelSettings) -> Categorical:
    """Return the policy that the panel trains."""
    actions = settings["actions"]
    correct = min(max(round(settings["correct"] * actions), 2), actions - 1)
    logits = {name: settings[name] for name in ("anchor_logit", "correct_logit")}
    return anchored(actions, correct, **logits)


def policy_block(settings: PanelSettings) -> Block:
    """Return the seeds of the policy, its actions filled up to one of a few numbers by some that are never drawn."""
    run = _settings_of_run(settings, **{name: settings[name] for name in ("epochs", "lag", "false_positive")})
    policy = panel_policy(settings)
    check(policy, run)
    missing = 0, fill_up(policy.actions, ACTIONS) - policy.actions
    policy = policy.listed()
    filled = policy.replaced(
        logits=np.pad(policy.logits, missing, constant_values=EMPTY),
        correct=np.pad(policy.correct, missing),
        target=np.pad(policy.target, missing),
    )
    names = ("q_pos", "retained_mass", "entropy", "tail_miss_rate")
    return Block(filled, run, record_steps(settings["steps"], POLICY_RECORDS), names, (TARGET_MASS,))


def simulate_policy(settings: PanelSettings, first: int, say: Say) -> Result:
    """Simulate the policy; ``theory`` is what ``drift`` returns."""
    block = policy_block(settings)
    rows = block.rows(first, say)
    mass, target = (rows[name].astype(np.float64) for name in ("q_pos", "target_mass"))
    mass = np.clip(mass, 0, 1)
    missed = np.asarray(tail_miss(settings["group_size"], mass, np.clip(target, 0, mass)))
    if _is_on_policy_and_true(settings):
        rows["tail_miss_expected"] = np.concatenate([missed[:, :1], (missed[:, 1:] + missed[:, :-1]) / 2], axis=1)
    rows |= {f"pass_at_{k}": 1 - (1 - mass) ** k for k in POLICY_KS}
    metrics = {name: moments(values) for name, values in rows.items() if name != "target_mass"}
    return {"step": [0, *block.steps.tolist()], "seeds": BLOCK_SEEDS, "metrics": metrics, "theory": drift(settings)}


def _is_on_policy_and_true(settings: PanelSettings) -> bool:
    """Return True if the policy itself draws its groups, and the verifier does not err."""
    return bool(settings["lag"] == 0 and settings["false_positive"] == 0)


def drift(settings: PanelSettings) -> dict[str, list[float]] | None:
    """Return metrics along expected steps, see ``expected_path``; None unless a weight of rewards alone takes them.

    Adam's are without the noise of the groups.
    """
    name, parameters = read_weight(settings["weight"])
    parameters = REGISTRY[name].parameters | parameters
    has_form = name in CLOSED_FORMS or has_table(name)
    plain = settings["optimizer"] in MOVES and settings["epochs"] == 1
    if not (has_form and is_of_rewards(estimator(name, **parameters)) and plain and _is_on_policy_and_true(settings)):
        return None
    try:
        masses = group_masses(name, settings["group_size"], parameters)
    except InputError:  # it reads the order of the rollouts
        return None
    steps = record_steps(settings["steps"], POLICY_RECORDS)
    move = MOVES[settings["optimizer"]](settings["learning_rate"])
    path = expected_path(panel_policy(settings), masses, move, steps)
    return with_pass_at_k(rounded(path))


# A tree


def _policies(one: PolicyView) -> Float[Array, "nodes B"]:
    policies: Float[Array, "nodes B"] = jax.vmap(lambda node: node.p)(one.token_policy.nodes)
    return policies


NODE_POLICIES = Metric("policies", "probability of each action at each node", POLICY, _policies, ("node", "action"))


def tree_blocks(settings: PanelSettings) -> dict[str, Block]:
    """Return the seeds of the tree, by the name of the method."""
    gate = ",".join(f"{name}={settings[name]}" for name in ("alpha", "candidates", "quantile", "top_penalty"))
    return {
        "GRPO": _tree_block(settings, "grpo@constant"),
        "GRPO + entropy": _tree_block(settings, "grpo@constant", settings["entropy_bonus"]),
        "CaSP": _tree_block(settings, f"grpo+casp({gate})@constant"),
    }


def _tree_block(settings: PanelSettings, method: str, entropy_bonus: float = 0.0) -> Block:
    rate = {"learning_rate": settings["learning_rate"]}
    run = Settings(method, settings["group_size"], "sgd", rate, entropy_bonus=entropy_bonus, storage="dense")
    toy = tree()
    check(toy, run)
    names = ("q_pos", "modes_held", "mode_coverage")
    return Block(toy, run, record_steps(settings["steps"], TREE_RECORDS), names, (NODE_POLICIES,))


def simulate_tree(settings: PanelSettings, first: int, say: Say) -> Result:
    """Simulate the tree under its ``methods``, each with the first seed's ``policies`` (R + 1, nodes, B)."""
    methods = {}
    for name, block in tree_blocks(settings).items():
        rows = block.rows(first, say)
        policies = rows.pop("policies")[0]
        methods[name] = {
            "metrics": {metric: moments(values) for metric, values in rows.items()},
            "policies": np.round(policies, 5).tolist(),
        }
    step = [0, *record_steps(settings["steps"], TREE_RECORDS).tolist()]
    return {"step": step, "seeds": BLOCK_SEEDS, "methods": methods}


# A bank of prompts


def _rare_rates(whole: JointView) -> Float[Array, " P"]:
    learner = whole.learner
    policies = learner.policies_at(whole.state.parameters, whole.state.slots)
    rates: Float[Array, " P"] = jax.vmap(lambda policy, target: correct_mass(policy.shares, target, policy.sum))(
        policies, learner.target
    )
    return rates


SOLVE_RATES = Metric("solve_rates", "solve rate", POLICY, lambda whole: whole.each["q_pos"], ("prompt",), joint=True)
RARE_RATES = Metric("rare_rates", "probability of a rare mode", POLICY, _rare_rates, ("prompt",), joint=True)


def bank_block(settings: PanelSettings) -> Block:
    """Return the seeds of the bank."""
    run, bank = _settings_of_run(settings), bank_of(settings)
    check(bank, run)
    return Block(bank, run, record_steps(settings["steps"], BANK_RECORDS), ("q_pos",), (SOLVE_RATES, RARE_RATES))


def simulate_bank(settings: PanelSettings, first: int, say: Say) -> Result:
    """Simulate the bank.

    Its metrics are ``pass_at_K`` and ``rare_at_K``, means over prompts of any correct answer and of a rare mode in K
    samples; ``share_I``, the share of prompts whose solve rate is in bin I of ``BINS``; and ``lost``, the share whose
    rare modes have less than ``LOST`` of the base model's.
    """
    block = bank_block(settings)
    rows = block.rows(first, say)
    solved, rare = (np.clip(rows[name].astype(np.float64), 0, 1) for name in ("solve_rates", "rare_rates"))
    metrics = {f"pass_at_{k}": moments(pass_at_k(solved, k).mean(axis=-1)) for k in BANK_KS}
    metrics |= {f"rare_at_{k}": moments(pass_at_k(rare, k).mean(axis=-1)) for k in BANK_KS}
    bins = np.minimum((solved * BINS).astype(int), BINS - 1)
    metrics |= {f"share_{index}": moments((bins == index).mean(axis=-1)) for index in range(BINS)}
    metrics["lost"] = moments((rare < LOST * rare[:, :1]).mean(axis=-1))
    return {"step": [0, *block.steps.tolist()], "seeds": BLOCK_SEEDS, "k": BANK_KS, "metrics": metrics}


# Interfering prompts


def interference_block(settings: PanelSettings) -> Block:
    """Return the seeds of interfering prompts."""
    run = _settings_of_run(settings, temperature=settings["temperature"], pass_at_k=INTERFERENCE_KS)
    problem = interference(**{name: settings[name] for name in ("overlap", "conflict", "hard_rate")}).listed()
    check(problem, run)
    return Block(problem, run, record_steps(settings["steps"], INTERFERENCE_RECORDS), ("pass_at_k",))


def simulate_interference(settings: PanelSettings, first: int, say: Say) -> Result:
    """Simulate interfering prompts: pass@k at each of the ``k``, and the ``edge``; step 0 is the base model."""
    block = interference_block(settings)
    passed = block.rows(first, say)["pass_at_k"]
    metrics = {f"pass_at_{k}": moments(passed[:, :, index]) for index, k in enumerate(INTERFERENCE_KS)}
    step = [0, *block.steps.tolist()]
    return {"step": step, "seeds": BLOCK_SEEDS, "k": INTERFERENCE_KS, "metrics": metrics, "edge": edge(settings)}


def edge(settings: PanelSettings) -> list[float | None] | None:
    """Return the overlaps, below and above 0, beyond which the first step harms a hard prompt; None for no such one.

    The whole is None where the theory does not apply.
    """
    name, parameters = read_weight(settings["weight"])
    weight = estimator(name, **parameters)
    if settings["optimizer"] != "sgd" or not _reads_its_group_alone(weight, settings["group_size"]):
        return None
    shared = {name: settings[name] for name in ("group_size", "temperature", "conflict", "hard_rate")}
    return list(rounded([sign * float(overlap_edge(sign, weight, **shared)) for sign in (-1, 1)]))


def _reads_its_group_alone(weight: Estimator, group_size: int) -> bool:
    """Return True if advantages follow from the group's rewards alone, neither from other groups nor from the past."""
    if weight.needs != {"rewards"} or jax.tree.leaves(weight.init()):
        return False
    group = (np.arange(group_size) < 1).astype(float)
    beside = (advantages(weight, np.stack([group, np.full(group_size, other)]))[0] for other in (0.0, 1.0))
    return bool(np.array_equal(*beside))


# All of them

SIMULATIONS: Mapping[str, Callable[[PanelSettings, int, Say], Result]] = {
    "run": simulate_policy,
    "tree": simulate_tree,
    "interference": simulate_interference,
    "bank": simulate_bank,
}
BLOCKS: Mapping[str, Callable[[PanelSettings], list[Block]]] = {
    "run": lambda settings: [policy_block(settings)],
    "tree": lambda settings: [*tree_blocks(settings).values()],
    "interference": lambda settings: [interference_block(settings)],
    "bank": lambda settings: [bank_block(settings)],
}


def compile_presets() -> Iterator[int]:
    """Compile the programs of the presets, one after another; yield how many are left."""
    for remaining, (panel, settings) in zip(reversed(range(len(WARM))), WARM, strict=True):
        for block in BLOCKS[panel](hold_panel(panel, settings)[0]):
            block.compile()
        yield remaining
