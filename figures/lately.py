"""Claims of papers since July 2026 on paths, noise, erring verifiers and coverage, tried on banks and shared features.

    simlab sweep --preset lately --out lately.nc     (some minutes)
    python -m figures.lately lately.nc               (condenses lately-bank.nc, ...)
    python -m figures.lately --table                 (prints the tables of docs/lately.md)
    simlab figures lately                            (draws from what is kept here)

docs/lately.md quotes the papers. Bands are 95 % intervals of the mean over seeds.
"""

import itertools
import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from figures import frontier
from figures.budget import banded
from figures.shared.condensed import condense_or_print, mean_and_error, number_and_error, provenance, results, rounded
from figures.shared.front import margin
from figures.shared.oscillator import fit_oscillator
from simlab.columns import at_equal_mass
from simlab.plotting import STYLE
from simlab.scaling.sigmoid import fit

DATA = Path(__file__).parent / "data" / "lately.json"
MESSAGE = "A path depends on G where prompts are hard; a tax on retries needs no loss of coverage"
DIFFERS = "Not in the papers: exact banks and shared features in place of their language models."
PATHS = ("bank", "bank-adam", "bank-lag", "interference", "interference-adam", "interference-lag")
NAMED = {
    "bank": "bank, plain steps", "bank-adam": "bank, Adam", "bank-lag": "bank, sampler 16 steps old",
    "interference": "shared features, plain steps", "interference-adam": "shared features, Adam",
    "interference-lag": "shared features, sampler 16 steps old",
}  # fmt: skip
HALFWAY = {"bank": 0.6, "interference": 0.4}  # pass@1 at which a path is timed, by problem
LEVELS = (0.3, 0.45)  # of pass@1, at which weights are compared
ERRORS = {(0.0, 0.0): "none", (0.2, 0.0): "20 % false positives", (0.0, 0.2): "20 % false negatives"}
SIZES = {4: "C0", 16: "C1", 64: "C2"}
ON_THE_FRONTIER = {  # kind, method and setting of the points of each proposal
    "GRPO": ("weight", "grpo", ""), "NGU": ("allocation", "grpo", "allocation = until_solved"),
    "SignBalance": ("weight", "binary_contrastive", ""), "WAPO": ("weight", "relu", ""), "BBG": ("weight", "bbg", ""),
    "CurveRL": ("weight", "curve_rl", ""),
}  # fmt: skip
ROUNDED = 1e-4  # of a share that the frontier keeps by four digits
WHERE = ("linear-0.3", "network-adam", "linear-adam")  # of the frontier's conditions


def condense(path: Path) -> dict[str, Any]:
    """Paths and their fits, noise about them, the costs of errors, taxes, and weights at equal pass@1."""
    sweeps = results("lately", path)
    return {
        "provenance": [provenance(sweep) for sweep in sweeps.values()],
        "paths": {name: path_by_size(sweeps[name], HALFWAY[name.partition("-")[0]]) for name in PATHS},
        "noise": noise_of_a_path(sweeps["rest"]),
        "verifier": costs_of_errors(sweeps["verifier"]),
        "tax": {name: taxes(sweeps[f"tax-{name}"]) for name in ("bank", "interference")},
        "weights": {name: at_levels(sweeps[name]) for name in ("weights", "until-solved", "network-adam")},
    }


# Paths


def path_by_size(sweep: xr.Dataset, halfway: float) -> list[dict[str, Any]]:
    """Each group size: pass@1 by step, the steps to halfway, and how well the oscillator fits the batches' rewards."""
    rows = []
    for size in sweep.group_size.values:
        cell = sweep.sel(group_size=size).squeeze(drop=True)
        passes = cell.pass_at_k.transpose("seed", "step").values
        rewards = cell.accepted_rate.transpose("seed", "step").values[:, 1:]
        steps = cell.step.values.astype(float)
        reached = at_equal_mass(passes, np.broadcast_to(steps, passes.shape), np.array([halfway]))[0]
        shares = [explained(steps[1:], reward, float(base)) for reward, base in zip(rewards, passes[:, 0], strict=True)]
        rows.append(
            {"group_size": int(size), "step": steps[::5].tolist(), "pass_at_1": mean_and_error(passes[:, ::5].T)}
            | {"halfway": mean_and_error(reached)}
            | {name: rounded(np.median([share[name] for share in shares]), 4) for name in shares[0]}
            | {"least": rounded(min(share["oscillator"] for share in shares), 4)}
        )
    return rows


def explained(steps: np.ndarray, rewards: np.ndarray, base: float) -> dict[str, float]:
    """R^2 of three forms on a run's rewards, and mean errors of two forms and of no change on the second half."""
    half = len(steps) // 2
    line = np.polynomial.Polynomial.fit(steps, rewards, 1)
    early, sigmoid = fit_oscillator(steps[:half], rewards[:half], base), fit(steps[:half], rewards[:half], base)
    return {
        "oscillator": r_squared(rewards, fit_oscillator(steps, rewards, base).at(steps)),
        "sigmoid": r_squared(rewards, fit(steps, rewards, base).at(steps)),
        "line": r_squared(rewards, line(steps)),
        "oscillator_ahead": mean_error(rewards[half:], early.at(steps[half:])),
        "sigmoid_ahead": mean_error(rewards[half:], sigmoid.at(steps[half:])),
        "no_change_ahead": mean_error(rewards[half:], np.full(len(steps) - half, rewards[half - 10 : half].mean())),
    }


def r_squared(seen: np.ndarray, told: np.ndarray) -> float:
    """The share of the variance that a curve explains."""
    return float(1 - np.sum((seen - told) ** 2) / np.sum((seen - seen.mean()) ** 2))


def mean_error(seen: np.ndarray, told: np.ndarray) -> float:
    """The mean absolute error."""
    return float(np.mean(np.abs(seen - told)))


def noise_of_a_path(sweep: xr.Dataset) -> dict[str, Any]:
    """The variance of pass@1 about a cubic through the second half of each run, by estimator and group size."""
    noise: dict[str, Any] = {"group_size": sweep.group_size.values.tolist()}
    for name in sweep.estimator.values:
        passes = sweep.pass_at_k.sel(estimator=name).squeeze(drop=True).transpose("step", "group_size", "seed").values
        late = passes[len(passes) // 2 :]
        times = np.linspace(-1, 1, len(late))
        cubic = np.polynomial.polynomial.polyfit(times, late.reshape(len(late), -1), 3)
        variance = (late - np.polynomial.polynomial.polyval(times, cubic).T.reshape(late.shape)).var(axis=0)
        slope = np.polynomial.Polynomial.fit(np.log(noise["group_size"]), np.log(variance.mean(axis=1)), 1).convert()
        noise[str(name)] = {
            "variance": mean_and_error(variance),
            "last": mean_and_error(passes[-1]),
            "slope": rounded(slope.coef[1], 3),
        }
    return noise


# Verifiers that err


def costs_of_errors(sweep: xr.Dataset) -> list[dict[str, Any]]:
    """Pass@1 by step of each weight, group size and kind of errors."""
    passes = sweep.pass_at_k.squeeze("k", drop=True)
    cells = itertools.product(passes.estimator.values.tolist(), ERRORS.items(), passes.group_size.values.tolist())
    rows = []
    for weight, ((positive, negative), errors), size in cells:
        of = {"estimator": weight, "group_size": size, "false_positive": positive, "false_negative": negative}
        cell = passes.sel(of).squeeze(drop=True).transpose("step", "seed")
        row = {"weight": weight, "errors": errors, "group_size": size, "step": cell.step.values.tolist()}
        rows.append(row | {"pass_at_1": mean_and_error(cell.values)})
    return rows


# Coverage


def scalability(passes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A(K) and S(K) of curves of pass@k, k from 1 to K in the last axis (arXiv 2610.01509, Eqs. 1 and 2)."""
    raw = np.sum(passes[..., -1:] - passes, axis=-1)
    return raw, raw / ((passes.shape[-1] - 1) * (1 - passes[..., 0]))


def taxes(sweep: xr.Dataset) -> dict[str, Any]:
    """Curves of pass@k before and after, and both taxes at the last k."""
    passes = sweep.pass_at_k.squeeze(drop=True).transpose("step", "seed", "k").values.astype(float)
    before, after = scalability(passes[0]), scalability(passes[-1])
    return {
        "k": sweep.k.values.tolist(),
        "before": rounded(passes[0].mean(axis=0), 4),
        "after": mean_and_error(passes[-1].T),
        "raw": mean_and_error(before[0] - after[0]),
        "calibrated": mean_and_error(before[1] - after[1]),
        "retained_mass": mean_and_error(sweep.retained_mass.squeeze(drop=True).isel(step=-1).values),
    }


def at_levels(sweep: xr.Dataset) -> dict[str, Any]:
    """Pass@256 and steps of each arm where pass@1 first reaches each level, and both passes at the end."""
    arms = {}
    for arm in sweep.arm.values:
        cell = sweep.sel(arm=arm).squeeze(drop=True).pass_at_k.transpose("k", "seed", "step")
        pass_at_1, pass_at_256 = cell.sel(k=1).values, cell.sel(k=256).values
        steps = np.broadcast_to(cell.step.values.astype(float), pass_at_1.shape)
        arms[str(arm).partition("+")[0]] = {
            "pass_at_256": mean_and_error(at_equal_mass(pass_at_1, pass_at_256, np.array(LEVELS))),
            "steps": mean_and_error(at_equal_mass(pass_at_1, steps, np.array(LEVELS))),
            "base": rounded(pass_at_256[:, 0].mean(), 4),
            "last": [rounded(values[:, -1].mean(), 4) for values in (pass_at_1, pass_at_256)],
        }
    return arms


# The figure


def draw(data: dict[str, Any]) -> Figure:
    """Paths by group size, noise about them, the costs of errors, and pass@k before and after."""
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 5.6), layout="constrained")
        (paths, noise), (errors, coverage) = figure.subplots(2, 2)
        _draw_paths(paths, data["paths"])
        _draw_noise(noise, data["noise"])
        _draw_errors(errors, data["verifier"])
        _draw_coverage(coverage, data["tax"])
    return figure


def _draw_paths(axes: Axes, paths: dict[str, Any]) -> None:
    for row in paths["bank"]:
        size = row["group_size"]
        banded(axes, np.array(row["step"]), row["pass_at_1"], color=SIZES[size], label=f"G = {size}")
    axes.set(xlabel="steps", ylabel="pass@1")
    axes.set_title("(a) GRPO on a bank", loc="left")
    axes.legend()


def _draw_noise(axes: Axes, noise: dict[str, Any]) -> None:
    sizes = np.array(noise["group_size"])
    for name, colour, label in (("dr_grpo", "C0", "mean GRPO"), ("grpo", "C1", "GRPO")):
        variance = np.array(noise[name]["variance"]["mean"])
        axes.plot(sizes, variance, "o-", color=colour, label=label)
        axes.plot(sizes, variance[0] * sizes[0] / sizes, color=colour, linestyle=":")
    axes.set(xscale="log", yscale="log", xlabel="group size G", ylabel="variance of pass@1 about its path")
    axes.set_xticks(sizes, labels=[str(size) for size in sizes])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_title("(b) Noise; dotted: 1/G", loc="left")
    axes.legend()


def _draw_errors(axes: Axes, rows: list[dict[str, Any]]) -> None:
    for errors, colour in zip(ERRORS.values(), ("0.4", "C3", "C0"), strict=True):
        for size, style in ((8, "-"), (64, "--")):
            cell = next(
                row for row in rows if (row["weight"], row["errors"], row["group_size"]) == ("grpo", errors, size)
            )
            label = f"{errors}" if size == 8 else None
            axes.plot(cell["step"], cell["pass_at_1"]["mean"], style, color=colour, label=label)
    axes.set(xlabel="steps", ylabel="pass@1")
    axes.set_title("(c) GRPO under errors; dashed: G = 64", loc="left")
    axes.legend()


def _draw_coverage(axes: Axes, tax: dict[str, Any]) -> None:
    for name, colour, label in (("bank", "C0", "bank"), ("interference", "C3", "shared features")):
        axes.plot(tax[name]["k"], tax[name]["before"], "--", color=colour)
        axes.plot(tax[name]["k"], tax[name]["after"]["mean"], color=colour, label=label)
    axes.set(xscale="log", xlabel="k", ylabel="pass@k")
    axes.set_title("(d) Before (dashed) and after; both pay Tax_A", loc="left")
    axes.legend()


# The tables


def table(data: dict[str, Any]) -> str:
    """All tables of docs/lately.md."""
    tables = (path_table(data), noise_table(data), error_table(data), tax_table(data), weight_table(data))
    return "\n\n".join((*tables, frontier_table(json.loads(frontier.DATA.read_text()))))


def path_table(data: dict[str, Any]) -> str:
    """The steps to halfway by group size, and the R^2 of the fits."""
    lines = [
        "| path | G | steps to halfway | R²: oscillator (least) | sigmoid | line | mean error ahead: oscillator "
        "| sigmoid | no change |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for name, rows in data["paths"].items():
        for row in rows:
            shown = [number_and_error(*row["halfway"].values(), 1), f"{row['oscillator']:.3f} ({row['least']:.3f})"]
            shown += [
                f"{row[key]:.3f}" for key in ("sigmoid", "line", "oscillator_ahead", "sigmoid_ahead", "no_change_ahead")
            ]
            lines.append(f"| {NAMED[name]} | {row['group_size']} | {' | '.join(shown)} |")
    return "\n".join(lines)


def noise_table(data: dict[str, Any]) -> str:
    """The variance of pass@1 about its path times G, and the end of paths with a penalty."""
    sizes = data["noise"]["group_size"]
    heads = [f"{what}, G = {size}" for what in ("10⁶ variance x G", "pass@1") for size in sizes]
    lines = [f"| weight | {' | '.join(heads)} | slope |", f"|---{'|--:' * (len(heads) + 1)}|"]
    for name in ("dr_grpo", "grpo"):
        noise = data["noise"][name]
        scaled = [f"{1e6 * value * size:.2g}" for value, size in zip(noise["variance"]["mean"], sizes, strict=True)]
        last = [number_and_error(mean, error) for mean, error in zip(*noise["last"].values(), strict=True)]
        lines.append(f"| `{name}` | {' | '.join([*scaled, *last])} | {noise['slope']:.2f} |")
    return "\n".join(lines)


def error_table(data: dict[str, Any]) -> str:
    """Pass@1 under errors, by group size and by steps."""
    shown = (100, 300, 600)
    lines = [
        f"| weight | errors | G | {' | '.join(f'pass@1 at {step}' for step in shown)} |",
        "|---|---|--:|--:|--:|--:|",
    ]
    for row in data["verifier"]:
        values = [
            number_and_error(*(values[row["step"].index(step)] for values in row["pass_at_1"].values()))
            for step in shown
        ]
        lines.append(f"| `{row['weight']}` | {row['errors']} | {row['group_size']} | {' | '.join(values)} |")
    return "\n".join(lines)


def tax_table(data: dict[str, Any]) -> str:
    """Both taxes beside pass@1 and pass@128, and the share of the base model's correct mass that is left."""
    heads = ["problem", "pass@1", "pass@128", "Tax_A(128)", "Tax_S(128)", "correct mass kept"]
    lines = [f"| {' | '.join(heads)} |", f"|---|{'--:|' * (len(heads) - 1)}"]
    for name, tax in data["tax"].items():
        ends = [f"{tax['before'][index]:.3f} to {tax['after']['mean'][index]:.3f}" for index in (0, -1)]
        taxes = [number_and_error(*tax["raw"].values(), 2), number_and_error(*tax["calibrated"].values())]
        mass = number_and_error(*tax["retained_mass"].values())
        lines.append(f"| {name} | {' | '.join([*ends, *taxes, mass])} |")
    return "\n".join(lines)


def weight_table(data: dict[str, Any]) -> str:
    """Pass@256 and steps at equal pass@1, and both at the end of an arm that does not come to the last level."""
    heads = [f"{what} at pass@1 = {level}" for level in LEVELS for what in ("pass@256", "steps")]
    lines = [f"| problem | weight | {' | '.join(heads)} |", f"|---|---|{'--:|' * len(heads)}"]
    for name, arms in data["weights"].items():
        for arm, numbers in arms.items():
            shown = []
            for index in range(len(LEVELS)):
                coverage, steps = (
                    {key: numbers[what][key][index] for key in ("mean", "error")} for what in ("pass_at_256", "steps")
                )
                end = f"ends at {numbers['last'][0]:.3f} with {numbers['last'][1]:.3f}"
                shown += [number_and_error(*coverage.values()) or end, number_and_error(*steps.values(), 0)]
            lines.append(f"| {name} | `{arm}` | {' | '.join(shown)} |")
    return "\n".join(lines)


def frontier_table(data: dict[str, Any]) -> str:
    """Points of the frontier by proposal: one of the fewest rollouts, and one that keeps most, if it keeps more.

    Both are chosen on the first seeds and read on the others, as the front beside them.
    """
    heads = ["problem", "proposal", "step", "rollouts", "pass@256", "the front of rewards alone, for as much"]
    lines = [f"| {' | '.join(heads)} |", "|---|---|---|--:|--:|--:|"]
    for name, proposal in itertools.product(WHERE, ON_THE_FRONTIER):
        judged = frontier.front_steps(data, name, frontier.REWARDS)
        front = [(float(point.rollouts.mean), float(point.kept.mean) + ROUNDED) for point in judged]
        for setting, rollouts, coverage, error in _fastest_and_best(data["conditions"][name]["points"], proposal):
            step = setting.partition(", ")[0].replace("update_norm", "norm").replace("learning_rate", "rate")
            price = min((fewest for fewest, keeps in front if keeps >= coverage), default=float("inf"))
            shown = [f"{rollouts:,.0f}", number_and_error(coverage, error, 4), f"{price:,.0f}"]
            lines.append(f"| {frontier.TITLES[name]} | {proposal} | {step} | {' | '.join(shown)} |")
    return "\n".join(lines)


def _fastest_and_best(points: dict[str, list[Any]], proposal: str) -> list[tuple[str, float, float, float]]:
    kind, method, setting = ON_THE_FRONTIER[proposal]
    of_kind = [row for row in zip(*points.values(), strict=True) if frontier.ALSO.get(row[0], row[0]) == kind]
    rows = [row for row in of_kind if row[1] == method and setting in row[2]]
    able = sorted((row for row in rows if None not in row), key=lambda row: row[4])
    if not able:
        return []
    fastest, best = able[0], max(able, key=lambda row: row[5])
    chosen = [fastest, best] if best[5] >= fastest[5] + margin(fastest[5]) else [fastest]
    return [(row[2], *row[6:]) for row in chosen]


def main(arguments: list[str]) -> None:
    """Condense results into the numbers kept here, or print the tables."""
    condense_or_print(arguments, DATA, condense, table)


if __name__ == "__main__":
    main(sys.argv[1:])
