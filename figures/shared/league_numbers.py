"""Condense the three results of ``league``: how well each did at each norm, which beats which, and which are alike."""

import json
from contextlib import suppress
from typing import Any

import numpy as np
import xarray as xr
from scipy.stats import spearmanr

from figures.shared.condensed import provenance, rounded
from figures.shared.rivals import best_settings, front, judge, mean_and_error
from simlab.errors import InputError
from simlab.estimators import REGISTRY, Estimator, estimator
from simlab.problems import PromptBank
from simlab.rollouts import Rollouts
from simlab.sweeps import Plan, Sweep
from simlab.theory import alike

METRICS = ("pass@1", "pass@256", "retained mass", "entropy")
SCORED = 3  # the first three, which lie in [0, 1]: their mean chooses the best norm
LEVEL = 0.65  # pass@1, where all that reach it are compared; the table and panel (b) have it
LEVELS = (0.55, 0.6, LEVEL, 0.7, 0.75)
MATCHED_NORM = 0.5  # norm of the first steps under a fixed learning rate
BATCHES = 64  # for the mean norm of the first steps


def finals(dataset: xr.Dataset, setting: str) -> dict[str, np.ndarray]:
    """Return each rival's metrics at the last record, (settings, seeds, metrics)."""
    last = dataset.isel(step=-1, group_size=0)
    columns = [last.pass_at_k.sel(k=1), last.pass_at_k.sel(k=256), last.retained_mass, last.entropy]
    table = xr.concat([column.drop_vars("k", errors="ignore") for column in columns], "metric")
    names = [str(name) for name in table.dims if name not in ("metric", "seed", setting)]
    stacked = table.stack(rival=names).transpose("rival", setting, "seed", "metric")
    rivals = [" ".join(link for link in key[1:] if link != "none") or "mean alone" for key in stacked.rival.values]
    if names == ["estimator"]:
        rivals = [str(name) for (name,) in stacked.rival.values]
    return dict(zip(rivals, stacked.values.astype(float), strict=True))


def choices(rival: str) -> dict[str, str]:
    """The parameters of ``linked`` that a rival of the sweep of links stands for."""
    roles = {"std": "scale", "mean": "scale", "focal": "difficulty", "divide_failures": "sign", "relu": "sign"}
    return {} if rival == "mean alone" else {roles[link]: link for link in rival.split()}


def at_level(values: np.ndarray, level: float) -> np.ndarray | None:
    """The metrics where pass@1 first rises to ``level``, (1, seeds, metrics): on a straight line between two settings.

    Settings are in increasing order of norm or rate. None if a seed of the rival never does, or starts above it.
    """
    rows = []
    for curve in np.moveaxis(values, 1, 0):  # one seed, (settings, metrics)
        above = np.flatnonzero((curve[:-1, 0] <= level) & (level <= curve[1:, 0]))
        if curve[0, 0] > level or not above.size:
            return None
        low, high = curve[above[0]], curve[above[0] + 1]
        rows.append(low + (level - low[0]) / (high[0] - low[0]) * (high - low))
    return np.array(rows)[None]


def kin(names: list[str], group_size: int) -> list[list[str]]:
    """The estimators by family, in the order of its first: a family's members are equal up to a factor."""
    families: list[list[str]] = []
    for name in names:
        home = next((some for some in families if alike(estimator(some[0]), estimator(name), group_size)), None)
        if home is None:
            families.append([name])
        else:
            home.append(name)
    return families


def written_down(names: list[str]) -> dict[str, Estimator]:
    """Return the estimators of papers: each at its defaults, over each base if it has one, and AsymGRPO at 1/2."""
    over = {f"{name}(base={base})": (name, {"base": base}) for name in names for base in names if has_base(name)}
    asked: dict[str, tuple[str, dict[str, Any]]] = {name: (name, {}) for name in names} | over
    asked["asym_grpo(delta=0.5)"] = ("asym_grpo", {"delta": 0.5})
    built = {}
    for call, (name, parameters) in asked.items():
        with suppress(InputError):  # a base reads more than a group's rewards
            built[call] = estimator(name, **parameters)
    return built


def has_base(name: str) -> bool:
    """Return True if an estimator builds on another."""
    return "base" in REGISTRY[name].parameters


def first_norm(name: str, bank: PromptBank, group_size: int, prompts: int) -> float:
    """The mean Euclidean norm of the gradient of a first batch, at learning rate 1."""
    bank = bank.listed()
    draw, chosen, norms = np.random.default_rng(0), estimator(name), []
    p = np.exp(bank.logits - bank.logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    for _ in range(BATCHES):
        batch = draw.choice(bank.prompts, prompts, replace=False)
        actions = np.stack([draw.choice(bank.actions, group_size, p=p[prompt]) for prompt in batch])
        logp = np.log(np.take_along_axis(p[batch], actions, axis=1))[..., None]
        rewards = np.take_along_axis(bank.correct[batch], actions, axis=1).astype(float)
        advantages = chosen.update(Rollouts(rewards, old_logp=logp), chosen.init())[0]
        scores = np.eye(bank.actions)[actions] - p[batch][:, None]
        norms.append(np.linalg.norm((advantages[..., None] * scores).sum(axis=1)) / actions.size)
    return float(np.mean(norms))


def condense(named: xr.Dataset, links: xr.Dataset, fixed_rate: xr.Dataset) -> dict[str, Any]:
    """Return the numbers of the figure and the tables, with the provenance of the three results."""
    results, chains = finals(named, "update_norm"), finals(links, "update_norm")
    size, papers = int(named.group_size[0]), written_down(list(results))
    families = kin(list(results), size)
    one_each = {some[0]: results[some[0]] for some in families}
    same = {
        rival: [call for call, other in papers.items() if alike(estimator("linked", **choices(rival)), other, size)]
        for rival in chains
    }
    unwritten = {rival: chains[rival] for rival, calls in same.items() if not calls}
    return {
        "provenance": [provenance(dataset) for dataset in (named, links, fixed_rate)],
        "metrics": METRICS,
        "seeds": named.sizes["seed"],
        "steps": int(named.step[-1]),
        "norms": named.update_norm.values.tolist(),
        "kin": families,
        "written_down": same,
        "named": statistics(results),
        "links": statistics(chains),
        "beaten": {
            "four": judge(one_each),
            "three": judge({name: values[..., :SCORED] for name, values in one_each.items()}),
        },
        "levels": by_level(one_each),
        "levels_with_links": by_level(one_each | unwritten),
        "front": front({name: values[..., [0, 2]] for name, values in (one_each | chains).items()}),
        "fixed_rate": without_norm(fixed_rate, results, named.update_norm.values.tolist()),
    }


def levelled(results: dict[str, np.ndarray], level: float) -> dict[str, np.ndarray]:
    """Return the other metrics where pass@1 is ``level``, of the rivals that reach it."""
    readings = {name: at_level(values, level) for name, values in results.items()}
    return {name: values[..., 1:] for name, values in readings.items() if values is not None}


def by_level(results: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    """Return the rivals that reach each of ``LEVELS``, and the beaten ones of them."""
    rows = []
    for level in LEVELS:
        there = levelled(results, level)
        rows.append({"level": level, "runners": list(there), "beaten": judge(there)})
    return rows


def statistics(results: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return each rival's mean and standard error at each norm, its best norm, and the second half of seeds there."""
    best, numbers = best_settings(results, SCORED), {}
    for name, values in results.items():
        mean, error = mean_and_error(values, axis=1)
        judged, doubt = mean_and_error(values[best[name], values.shape[1] // 2 :], axis=0)
        numbers[name] = {"mean": rounded(mean), "error": rounded(error, 3), "best": best[name]}
        numbers[name] |= {"judged": rounded(judged), "judged_error": rounded(doubt, 3)}
        if (level := at_level(values, LEVEL)) is not None:
            there, doubt = mean_and_error(level[0], axis=0)
            numbers[name] |= {"level": rounded(there), "level_error": rounded(doubt, 3)}
    return numbers


def without_norm(dataset: xr.Dataset, results: dict[str, np.ndarray], norms: list[float]) -> dict[str, Any]:
    """Metrics at the learning rate that matches the first steps' norm, beside those at that norm, of the same seeds."""
    sweep = Sweep.from_configuration(json.loads(dataset.attrs["configuration"]))
    bank, prompts = Plan(sweep).distinct[0].problem, sweep.parameters["run.prompts_per_step"][0]
    assert isinstance(bank, PromptBank)
    rates, rows = dataset.learning_rate.values, {}
    for name, values in finals(dataset, "learning_rate").items():
        wanted = MATCHED_NORM / first_norm(name, bank, sweep.group_sizes[0], prompts)
        nearest = int(np.abs(np.log(rates / wanted)).argmin())
        mean, error = mean_and_error(values[nearest], axis=0)
        fixed, doubt = mean_and_error(results[name][norms.index(MATCHED_NORM), : sweep.seeds], axis=0)
        rows[name] = {"wanted": rounded(np.array(wanted)), "rate": float(rates[nearest])}
        rows[name] |= {"mean": rounded(mean), "error": rounded(error, 3)}
        rows[name] |= {"at_norm": rounded(fixed), "at_norm_error": rounded(doubt, 3)}
        if (level := at_level(values, LEVEL)) is not None:
            there, doubt = mean_and_error(level[0], axis=0)
            rows[name] |= {"level": rounded(there), "level_error": rounded(doubt, 3)}
    both = [np.array([row[key] for row in rows.values()]) for key in ("mean", "at_norm")]
    ranks = [float(spearmanr(both[0][:, metric], both[1][:, metric]).statistic) for metric in range(len(METRICS))]
    return {"estimators": rows, "rank_correlation": rounded(np.array(ranks), 3)}
