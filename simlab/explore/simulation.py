"""Simulate two of the panels that need a server: one policy, and a tree under three methods."""

from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float

from simlab.errors import InputError
from simlab.estimators import estimator
from simlab.estimators.registry import REGISTRY
from simlab.explore.block import Block, Recorded, Say
from simlab.explore.drift import MOVES, expected_path
from simlab.explore.mass_table import group_masses, has_table, is_of_rewards
from simlab.explore.moments import moments, record_steps
from simlab.explore.shapes import ACTIONS, SEEDS, filled_to
from simlab.explore.weights import arm_text, read_weight
from simlab.problems import Categorical, anchored, tree
from simlab.problems.exact import correct_mass
from simlab.simulator.checks import check
from simlab.simulator.metrics import POLICY, JointView, Metric, PolicyView
from simlab.simulator.settings import Settings
from simlab.simulator.storage import EMPTY
from simlab.theory import CLOSED_FORMS, tail_miss

RECORDS = 50
KS = (16, 256)  # of pass@k
SNAPSHOTS = 20  # of a tree

Given = dict[str, Any]  # the settings of a panel, by their names there


# One policy


def _target_mass(whole: JointView) -> Float[Array, ""]:
    learner = whole.learner
    policy = jax.tree.map(lambda leaf: leaf[0], learner.policies_at(whole.state.parameters, whole.state.slots))
    mass: Float[Array, ""] = correct_mass(policy.shares, learner.target[0], policy.sum)
    return mass


OF_A_POLICY = Recorded(
    ("q_pos", "retained_mass", "entropy", "tail_miss_rate"),
    (Metric("target_mass", "probability of the target set", POLICY, _target_mass, joint=True),),
)


def policy_of(given: Given) -> Categorical:
    """The policy that panel 4 trains."""
    actions = given["actions"]
    correct = min(max(round(given["correct"] * actions), 2), actions - 1)
    return anchored(actions, correct, anchor_logit=given["anchor_logit"], correct_logit=given["correct_logit"])


def policy_block(given: Given) -> Block:
    """The seeds of panel 4, its actions filled up to one of a few numbers."""
    settings = Settings(
        f"{arm_text(given['weight'])}+{given['surrogate']}",
        given["group_size"],
        given["optimizer"],
        {"learning_rate": given["learning_rate"]},
        epochs=given["epochs"],
        lag=given["lag"],
        false_positive=given["false_positive"],
        storage="dense",
    )
    policy = policy_of(given)
    check(policy, settings)
    filled = _filled(policy, filled_to(policy.actions, ACTIONS))
    return Block(filled, settings, record_steps(given["steps"], RECORDS), OF_A_POLICY)


def _filled(policy: Categorical, actions: int) -> Categorical:
    """The policy, listed, with actions at its end that are never drawn."""
    more = 0, actions - policy.actions
    policy = policy.listed()
    return policy.replaced(
        logits=np.pad(policy.logits, more, constant_values=EMPTY),
        correct=np.pad(policy.correct, more),
        target=np.pad(policy.target, more),
    )


def simulate_policy(given: Given, first: int, say: Say) -> dict[str, Any]:
    """A block of seeds of panel 4, from ``first`` up, and what theory says of it.

    Returns:
        ``step`` (R + 1,), the number of ``seeds``, and of each metric its ``mean`` and ``m2``, the sum of squared
        differences from the mean, both (R + 1,), with which blocks are joined. ``theory`` is what ``drift`` says.
    """
    block = policy_block(given)
    rows = block.rows(first, say)
    mass, target = (rows[name].astype(np.float64) for name in ("q_pos", "target_mass"))
    mass = np.clip(mass, 0, 1)
    missed = np.asarray(tail_miss(given["group_size"], mass, np.clip(target, 0, mass)))
    if _is_on_policy_and_true(given):
        rows["tail_miss_expected"] = np.concatenate([missed[:, :1], (missed[:, 1:] + missed[:, :-1]) / 2], axis=1)
    rows |= {f"pass_at_{k}": 1 - (1 - mass) ** k for k in KS}
    metrics = {name: moments(values) for name, values in rows.items() if name != "target_mass"}
    return {"step": [0, *block.steps.tolist()], "seeds": SEEDS, "metrics": metrics, "theory": drift(given)}


def _is_on_policy_and_true(given: Given) -> bool:
    """Whether the policy itself draws its groups, and the verifier does not err."""
    return bool(given["lag"] == 0 and given["false_positive"] == 0)


def drift(given: Given) -> dict[str, list[float]] | None:
    """Metrics along expected steps, as ``expected_path`` has them; None unless a weight of rewards alone takes them.

    Adam's are without the noise of the groups.
    """
    name, own = read_weight(given["weight"])
    parameters = REGISTRY[name].parameters | own
    known = name in CLOSED_FORMS or has_table(name)
    plain = given["optimizer"] in MOVES and given["epochs"] == 1
    if not (known and is_of_rewards(estimator(name, **parameters)) and plain and _is_on_policy_and_true(given)):
        return None
    try:
        masses = group_masses(name, given["group_size"], parameters)
    except InputError:  # it reads the order of the rollouts
        return None
    recorded = record_steps(given["steps"], RECORDS)
    path = expected_path(policy_of(given), masses, MOVES[given["optimizer"]](given["learning_rate"]), recorded)
    return {metric: [float(f"{value:.6g}") for value in values] for metric, values in path.items()}


# A tree


def _policies(one: PolicyView) -> Float[Array, "nodes B"]:
    policies: Float[Array, "nodes B"] = jax.vmap(lambda node: node.p)(one.token_policy.nodes)
    return policies


OF_A_TREE = Recorded(
    ("q_pos", "modes_held", "mode_coverage"),
    (Metric("policies", "probability of each action at each node", POLICY, _policies, ("node", "action")),),
)


def tree_blocks(given: Given) -> dict[str, Block]:
    """The seeds of panel 6, by the name of the method."""
    gate = ",".join(f"{name}={given[name]}" for name in ("alpha", "candidates", "quantile", "top_penalty"))
    return {
        "GRPO": _tree_block(given, "grpo@constant"),
        "GRPO + entropy": _tree_block(given, "grpo@constant", given["entropy_bonus"]),
        "CaSP": _tree_block(given, f"grpo+casp({gate})@constant"),
    }


def _tree_block(given: Given, method: str, entropy_bonus: float = 0.0) -> Block:
    rate = {"learning_rate": given["learning_rate"]}
    settings = Settings(method, given["group_size"], "sgd", rate, entropy_bonus=entropy_bonus, storage="dense")
    toy = tree()
    check(toy, settings)
    return Block(toy, settings, record_steps(given["steps"], SNAPSHOTS), OF_A_TREE)


def simulate_tree(given: Given, first: int, say: Say) -> dict[str, Any]:
    """A block of seeds of panel 6, from ``first`` up, under each of its methods.

    Returns:
        ``step`` (R + 1,), ``seeds``, and of each method its ``metrics``, as of ``simulate_policy``, and the
        ``policies`` of the first seed, (R + 1, nodes, B).
    """
    methods = {}
    for name, block in tree_blocks(given).items():
        rows = block.rows(first, say)
        policies = rows.pop("policies")[0]
        methods[name] = {
            "metrics": {metric: moments(values) for metric, values in rows.items()},
            "policies": np.round(policies, 5).tolist(),
        }
    return {"step": [0, *record_steps(given["steps"], SNAPSHOTS).tolist()], "seeds": SEEDS, "methods": methods}
