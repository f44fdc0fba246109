"""Answer which of several rewards a run learns from: what each drives, which never vary, and which pull apart."""

import itertools
from collections.abc import Mapping

import numpy as np
from jaxtyping import Bool, Float

from simlab.diagnose.batches import Table, recompute, step_batches
from simlab.diagnose.diagnosis import Diagnosis, Finding
from simlab.diagnose.estimate import (
    IntervalEstimate,
    jackknife,
    percent,
    percentile_interval,
    ratio,
    resample_sums,
    share,
    shown,
)
from simlab.diagnose.reading import LoggedRollouts, Reading
from simlab.diagnose.solve_rates import share_over_prompts
from simlab.estimators import advantages

QUESTION = "which of the rewards is learned?"
LOOKED_AT = 100_000  # rollouts by which weights are fitted
EXACT = 1e-5  # of the reward's spread that a sum may miss: float32's rounding, and that of a log's decimals
NAMED = 3  # parts that are named in the sentence
MOST_PAIRED = 6  # parts, of the largest variance, whose correlations are estimated
SCALE = {"ddof": 1, "eps": 1e-4}  # of GRPO and GDPO in TRL


def which_reward_leads(reading: Reading, result: Diagnosis) -> Finding | None:
    """Say how much of the advantage each part of the reward drives; None where parts make up no reward."""
    weights, first = reward_weights(reading), result.solve_rates.windows[-1].first
    if not weights:
        return None
    products, *driving, turned_signs, compared = _sum_parts(reading.rollouts, weights, first)
    names = [name.rpartition(".")[2] for name in weights]
    spread = np.sqrt(np.einsum("pcc->c", products))
    varying = [index for index in np.argsort(-spread).tolist() if spread[index] > EXACT * spread.max()]
    idle = [names[index] for index in range(len(names)) if index not in varying]
    late = reading.rollouts.step >= first
    scores = {name: values[late] for name, values in reading.rollouts.components.items() if name not in weights}
    idle += [name.rpartition(".")[2] for name in sorted(scores) if np.ptp(np.nan_to_num(scores[name])) == 0]
    if len(varying) + len(idle) < 2 or driving[0].sum() <= 0:
        return None
    driven, decoupled = (
        {names[i]: jackknife(names[i], table[:, i], table.sum(axis=1), result.level) for i in varying}
        for table in driving
    )
    pulls = _correlations(products, names, varying[:MOST_PAIRED], result.level)
    order = sorted(driven, key=lambda name: -driven[name].value)
    leader, others = order[0], order[1:NAMED]
    how_much = share(driven[leader]) if others else "all"
    sentence = f"{leader} drives {how_much} of the advantage"
    sentence += "".join(f", {name} {percent(driven[name].value)}" for name in others) + "."
    trouble, concern = _trouble(pulls, idle)
    rows: list[tuple[str, IntervalEstimate | str]] = [(f"driven by {name}", driven[name]) for name in order]
    if len(varying) > 1:
        turned = share_over_prompts("signs that GDPO would turn", turned_signs, compared.astype(int), result.level)
        trouble += f" GDPO would give {leader} {percent(decoupled[leader].value)} and turn"
        trouble += f" {percent(turned.value)} of the signs."
        rows += [*((f"by {name} under GDPO", decoupled[name]) for name in order), (turned.name, turned)]
    rows += [(f"correlation of {pull.name}", pull) for pull in pulls]
    rows += [(name, "never varies in a group") for name in idle]
    return Finding(QUESTION, sentence + trouble, concern, tuple(rows))


def _trouble(pulls: list[IntervalEstimate], idle: list[str]) -> tuple[str, float]:
    """Return what is wrong with the parts, in words, and its concern."""
    against = min((pull for pull in pulls if pull.sign < 0), key=lambda pull: pull.value, default=None)
    if against is not None:
        return f" {against.name} pull against each other (correlation {shown(against, form='.2f')}).", 0.4
    if idle:
        return f" {' and '.join(idle[:NAMED])} never var{'ies' if len(idle) == 1 else 'y'} in a group: no signal.", 0.25
    return "", 0.15


def _sum_parts(rollouts: LoggedRollouts, weights: Mapping[str, float], first_step: int) -> tuple[np.ndarray, ...]:
    """Return sums over the rollouts of each of P prompts, from a step on, for C weighted parts centred in their groups.

    These are the products of each pair of parts, (P, C, C); of a part and the advantage, the logged one or else GRPO's,
    (P, C), and the same under GDPO; how many advantages GDPO gives the other sign, and of how many both have one, (P,).
    """
    prompts, index = np.unique(rollouts.prompt, return_inverse=True)
    count = len(weights)
    columns = np.zeros((len(prompts), count * count + 2 * count + 2))
    for batch in step_batches(rollouts, first_step):
        mask, of = batch.mask, index[batch.rollout[:, 0]]
        tables = {name: batch.take(rollouts.components[name]) for name in weights}
        parts = np.stack([weight * recompute("dr_grpo", tables[name], mask) for name, weight in weights.items()])
        logged = None if rollouts.advantage is None else batch.take(rollouts.advantage)
        advantage = recompute("grpo", batch.take(rollouts.reward), mask, **SCALE) if logged is None else logged
        apart = gdpo(tables, weights, mask)
        scaled = [weight * recompute("grpo", tables[name], mask, **SCALE) for name, weight in weights.items()]
        compared = (np.abs(advantage) > EXACT) & (np.abs(apart) > EXACT)
        sums = [
            np.einsum("cpg,dpg->pcd", parts, parts).reshape(len(of), -1),
            np.einsum("cpg,pg->pc", parts, advantage),
            np.einsum("cpg,pg->pc", np.stack(scaled), apart),
            (compared & (advantage * apart < 0)).sum(axis=1, keepdims=True),
            compared.sum(axis=1, keepdims=True),
        ]
        np.add.at(columns, of, np.concatenate(sums, axis=1))
    products, driven, decoupled, turned, both = np.split(columns, np.cumsum([count**2, count, count, 1]), axis=1)
    return products.reshape(-1, count, count), driven, decoupled, turned[:, 0], both[:, 0]


def _correlations(
    products: Float[np.ndarray, "P C C"], names: list[str], parts: list[int], level: float
) -> list[IntervalEstimate]:
    """Return the correlation within groups of each pair of parts, with a bootstrap over prompts."""
    sums = resample_sums(products.reshape(len(products), -1), 0).reshape(-1, *products.shape[1:])
    estimates = []
    for first, second in itertools.combinations(parts, 2):
        draws = ratio(sums[:, first, second], np.sqrt(sums[:, first, first] * sums[:, second, second]))
        name = f"{names[first]} and {names[second]}"
        estimates.append(percentile_interval(name, float(draws[0]), draws[1:], level, "bootstrap over prompts"))
    return estimates


def reward_weights(reading: Reading) -> dict[str, float]:
    """Return the weight of each column whose weighted sum is the reward; none where no sum is.

    Columns that never vary, or that others make up (a verdict beside the reward for it), are left out. An empty cell
    counts as 0, as trainers leave it out of the sum.
    """
    rollouts = reading.rollouts
    if len(reading.columns.rewards) > 1:
        return {name: 1.0 for name in reading.columns.rewards if name in rollouts.components}
    every = slice(None, None, 1 + len(rollouts.reward) // LOOKED_AT)
    reward = _centred(rollouts.reward[every])
    table = independent({name: _centred(np.nan_to_num(rollouts.components[name][every])) for name in by_trust(reading)})
    if not table:
        return {}
    columns = np.stack(list(table.values()), axis=1)
    weights = np.linalg.lstsq(columns, reward, rcond=None)[0]
    scale = np.linalg.norm(reward)
    if np.linalg.norm(reward - columns @ weights) > EXACT * scale:
        return {}
    used = np.abs(weights) * np.linalg.norm(columns, axis=0) > EXACT * scale
    return {name: float(weight) for name, weight, is_used in zip(table, weights, used, strict=True) if is_used}


def by_trust(reading: Reading) -> list[str]:
    """Return the names of all parts and scores, the verdict, which may stand beside the reward for it, last."""
    verdict = reading.columns.of.get("correct")
    return sorted(reading.rollouts.components, key=lambda name: (name == verdict, name))


def independent(columns: Mapping[str, Float[np.ndarray, " N"]]) -> dict[str, Float[np.ndarray, " N"]]:
    """Return the columns that are not 0, nor made up of those before."""
    chosen: dict[str, np.ndarray] = {}
    basis: list[np.ndarray] = []
    for name, column in columns.items():
        residue = column
        for axis in basis:
            residue = residue - (axis @ residue) * axis
        if np.linalg.norm(residue) > EXACT * max(float(np.linalg.norm(column)), EXACT):
            basis.append(residue / np.linalg.norm(residue))
            chosen[name] = column
    return chosen


def _centred(values: np.ndarray) -> np.ndarray:
    return np.asarray(values - values.mean())


def gdpo(parts: Mapping[str, Table], weights: Mapping[str, float], mask: Bool[np.ndarray, "P G"]) -> Table:
    """Return the advantages of GDPO, as the paper's trainer has it, of a batch ``[arxiv:2601.05242]``."""
    table = np.stack([parts[name] for name in weights], axis=-1)
    return np.where(mask, advantages("gdpo", parts=table, weights=list(weights.values()), mask=mask), 0.0)
