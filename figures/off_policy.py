"""Bias, variance, effective sample size and rare actions of a step from an old, imprecise or truncated sampler.

    python -m figures.off_policy     (minutes: computes what is kept here)
    simlab figures off_policy        (draws it)

Every number is exact, by enumeration (``figures.shared.off_policy_moments``), of one step on all prompts at one policy;
the seeds are runs of plain GRPO that lead to it, under the settings of the preset ``lag``.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib as mpl
import matplotlib.style
import numpy as np
from jaxtyping import Array, Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures.shared.condensed import keep, mean_and_error, rounded
from figures.shared.end_labels import end_labels
from figures.shared.off_policy_moments import (
    Correction,
    Outcomes,
    enumerate_outcomes,
    gradient_moments,
    on_policy,
    speed,
)
from simlab.arms import parse
from simlab.identity import commit, versions
from simlab.plotting import STYLE
from simlab.problems import Problem, problem
from simlab.simulator.learner import Learner
from simlab.simulator.mismatch import sampler_logits
from simlab.simulator.settings import Settings
from simlab.simulator.storage import DENSE, StoredProblem
from simlab.sweeps.presets import PRESETS

DATA = Path(__file__).parent / "data" / "off_policy.json"
MESSAGE = "Decoupled weights keep what happens to rare actions, for variance; nothing mends a truncated sampler"
DIFFERS = "Not in the papers: exact moments of one GRPO step from another sampler, on a bank of prompts and on a tree."
SEEDS, STEP, GROUP_SIZE = 12, 64, 8
LAGS = (0, 1, 2, 4, 8, 16, 32, 64)
METHOD = "grpo+ppo_clip"
BOUND = 2.0
CORRECTIONS = {
    "none": Correction("none"),
    "ratio, clipped": Correction("ratio"),
    "decoupled": Correction("decoupled"),
    "truncated": Correction("truncated", "token", BOUND),
    "masked": Correction("masked", "token", BOUND),
}
SEQUENCES = {f"{name}, sequence": Correction(name, "sequence", BOUND) for name in ("decoupled", "truncated", "masked")}
SAMPLERS: dict[str, dict[str, Any]] = {
    "float16": {"sampler": "float16"},
    "bfloat16": {"sampler": "bfloat16"},
    **{f"p = {share:g}": {"sampler": "top_p", "top_p": share} for share in (0.99, 0.95, 0.9, 0.8, 0.6)},
    **{f"k = {count}": {"sampler": "top_k", "top_k": count} for count in (32, 16, 8, 4)},
}
QUANTITIES = {
    "bias": "|bias| / |gradient|",
    "variance": "variance / on-policy",
    "effective": "effective share of data",
    "rare": "change of rare mass",
}
VARIANCES = (5e-3, 2e2)  # shown
ROWS = ("bank, lag", "bank, sampler", "tree of six tokens, lag, a weight a token", "the tree, a weight a sequence")
NAMES = {"ratio, clipped": "ratio, clip"} | {name: name.partition(",")[0] for name in SEQUENCES}
LOOKS = {
    "none": ("0.45", ":"),
    "ratio, clipped": ("C3", "--"),
    "decoupled": ("C0", "-"),
    "truncated": ("C1", "-."),
    "masked": ("C2", (0, (5, 1, 1, 1, 1, 1))),
}


def made(name: str) -> tuple[Problem, float]:
    """The problem of a sweep of the preset ``lag``, and its learning rate."""
    parameters = {key: values[0] for key, values in PRESETS["lag"][name]["parameters"].items()}
    options = {key.removeprefix("problem."): value for key, value in parameters.items() if key.startswith("problem.")}
    return problem(PRESETS["lag"][name]["problem"], **options).listed(), parameters["optimizer.learning_rate"]


def trajectory(of: Problem, rate: float, seed: int) -> Float[Array, "step ..."]:
    """Return the parameters at the start of each step of a run that draws by itself."""
    settings = Settings(METHOD, GROUP_SIZE, "sgd", {"learning_rate": rate}, dtype="float64", storage="dense")
    traced = jax.tree.map(lambda value: jnp.asarray(value, "float64"), settings.traced)
    stored = StoredProblem(DENSE.load(of, "float64"), DENSE, None)
    learner = Learner(settings.static, stored, jax.random.key(seed, impl="threefry2x32"), traced)

    def advance(state: Any, index: Array) -> tuple[Any, Array]:
        return learner.step(index, state), state.parameters

    return jax.lax.scan(advance, learner.start(), jnp.arange(STEP + 1, dtype=jnp.int32))[1]


def measured(of: Problem, corrections: dict[str, Correction]) -> Callable[[Array, Array], dict[str, dict[str, Array]]]:
    """Return a function of the logits of all prompts and of their samplers: each quantity of each correction."""
    method, target = parse(METHOD).build(), jnp.atleast_2d(jnp.asarray(of.target))

    def compare(outcomes: Outcomes, target: Array) -> dict[str, dict[str, Array]]:
        exact = gradient_moments(on_policy(outcomes), method, GROUP_SIZE, Correction())
        laws = {name: gradient_moments(outcomes, method, GROUP_SIZE, kind) for name, kind in corrections.items()}
        return {
            name: {
                "squared_bias": jnp.sum((law.mean - exact.mean) ** 2),
                "squared": jnp.sum(exact.mean**2),
                "variance": law.variance,
                "variance_before": exact.variance,
                "effective": law.effective_share,
                "rare": speed(outcomes, target, law.mean),
                "rare_before": speed(outcomes, target, exact.mean),
            }
            for name, law in laws.items()
        }

    def of_all(logits: Array, sampled: Array) -> dict[str, dict[str, Array]]:
        sums: dict[str, dict[str, Array]] = {}
        for prompt in range(of.prompts):
            row = compare(enumerate_outcomes(of, logits[prompt], sampled[prompt], prompt), target[prompt])
            sums = row if not sums else jax.tree.map(jnp.add, sums, row)
        return {name: _ratios(total, of.prompts) for name, total in sums.items()}

    return jax.jit(of_all)


def _ratios(sums: dict[str, Array], prompts: int) -> dict[str, Array]:
    """Return the quantities from sums over prompts."""
    return {
        "bias": jnp.sqrt(sums["squared_bias"] / sums["squared"]),
        "variance": sums["variance"] / sums["variance_before"],
        "effective": sums["effective"] / prompts,
        "rare": sums["rare"] / sums["rare_before"],
        "rare_before": sums["rare_before"] / prompts,
    }


def condensed(rows: list[list[dict[str, dict[str, Array]]]]) -> dict[str, Any]:
    """Return the mean of rows (seeds, values) and its error, by quantity and correction."""
    return {
        quantity: {
            name: mean_and_error(np.array([[float(row[name][quantity]) for row in seed] for seed in rows]).T)
            for name in rows[0][0]
        }
        for quantity in (*QUANTITIES, "rare_before")
    }


def computed() -> dict[str, Any]:
    """Everything that is drawn."""
    settings = {"method": METHOD, "group_size": GROUP_SIZE, "seeds": SEEDS, "step": STEP, "bound": BOUND}
    made_by = {"commit": commit(Path(__file__)), "versions": versions(), "platform": jax.default_backend()}
    data: dict[str, Any] = {"provenance": {"settings": settings, **made_by}}
    data |= {"lags": list(LAGS), "samplers": list(SAMPLERS), "solve_rate": {}}
    with jax.enable_x64(True):
        for name, corrections in (("bank", CORRECTIONS), ("tree", {**CORRECTIONS, **SEQUENCES})):
            task, rate = made(name)
            run, moments = (
                jax.jit(lambda seed, task=task, rate=rate: trajectory(task, rate, seed)),
                measured(task, corrections),
            )
            paths = [run(seed) for seed in range(SEEDS)]
            logits = [task.logits_of(path[STEP]) for path in paths]
            older = [[task.logits_of(path[STEP - lag]) for lag in LAGS] for path in paths]
            data[f"{name}-lag"] = condensed(
                [[moments(now, then) for then in each] for now, each in zip(logits, older, strict=True)]
            )
            if name == "bank":
                seen = [[sampler_logits(logits=now, **sampler) for sampler in SAMPLERS.values()] for now in logits]
                data["bank-sampler"] = condensed(
                    [[moments(now, then) for then in each] for now, each in zip(logits, seen, strict=True)]
                )
            data["solve_rate"][name] = rounded(np.mean([solve_rate(task, now) for now in logits]))
    return data


def solve_rate(of: Problem, logits: Array) -> float:
    """The mean probability of a correct rollout."""
    each = [enumerate_outcomes(of, row, row, prompt) for prompt, row in enumerate(logits)]
    return float(np.mean([float(outcomes.p @ outcomes.correct) for outcomes in each]))


def draw(data: dict[str, Any]) -> Figure:
    """A row for each of ``ROWS``, a column for each quantity."""
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 8.4), layout="constrained")
        rows = figure.subplots(4, len(QUANTITIES))
        lags = np.array(data["lags"])
        by_sequence = ("none", *SEQUENCES)
        for row, name, corrections in zip(
            rows, ("bank-lag", "bank-sampler", "tree-lag", "tree-lag"), (*[CORRECTIONS] * 3, by_sequence), strict=True
        ):
            for axes, quantity in zip(row, QUANTITIES, strict=True):
                curves = {key: numbers for key, numbers in shown(data[name], quantity).items() if key in corrections}
                if name == "bank-sampler":
                    _draw_samplers(axes, data["samplers"], curves)
                else:
                    _draw_lines(axes, lags, curves)
                    _scale_lags(axes)
        _name(rows)
        for row in rows:
            end_labels(row[-1], NAMES, size=7.5)
    return figure


def _scale_lags(axes: Axes) -> None:
    axes.set_xscale("symlog", base=2, linthresh=1)
    axes.set_xticks([0, 1, 4, 16, 64], ["0", "1", "4", "16", "64"])
    axes.set_xlabel("lag k")


def shown(data: dict[str, Any], quantity: str) -> dict[str, Any]:
    """A quantity by correction; the change of rare mass, a share of the on-policy change, has that change's sign."""
    if quantity != "rare":
        return dict(data[quantity])
    sign = np.sign(data["rare_before"]["none"]["mean"][0])
    return {name: curve | {"mean": (sign * np.array(curve["mean"])).tolist()} for name, curve in data[quantity].items()}


def _name(rows: np.ndarray) -> None:
    """Titles, scales and reference lines."""
    for letter, row, what in zip("abcd", rows, ROWS, strict=True):
        row[0].set_title(f"({letter}) {what}", loc="left")
        for axes, (quantity, label) in zip(row, QUANTITIES.items(), strict=True):
            axes.set_ylabel(label, fontsize=8)
            if quantity in {"variance", "effective"}:
                axes.axhline(1, color="0.8", lw=0.6, zorder=0)
            elif quantity == "rare":
                axes.axhline(0, color="0.8", lw=0.6, zorder=0)
            if quantity == "variance":
                axes.set_yscale("log")
                axes.set_ylim(VARIANCES)
            elif quantity == "effective":
                axes.set_ylim(0, 1.05)


def _draw_samplers(axes: Axes, samplers: list[str], by_correction: dict[str, Any]) -> None:
    """Each kind of sampler as a line of its own."""
    for kind in ("float", "p =", "k ="):
        positions = np.array([index for index, name in enumerate(samplers) if kind in name])
        _draw_lines(axes, positions, by_correction, positions)
    axes.set_xticks(range(len(samplers)), samplers, rotation=90, fontsize=7)


def _draw_lines(axes: Axes, positions: np.ndarray, by_correction: dict[str, Any], at: np.ndarray | None = None) -> None:
    """Means and 95 % intervals over the runs; sequences in the colours of the tokens."""
    for name in (name for name in (*CORRECTIONS, *SEQUENCES) if name in by_correction):
        colour, dashes = LOOKS[name.removesuffix(", sequence")]
        numbers = by_correction[name]
        mean, error = (np.array(numbers[key], float)[slice(None) if at is None else at] for key in ("mean", "error"))
        label = "_" if name in _labels(axes) else name
        axes.plot(positions, mean, label=label, color=colour, linestyle=dashes)
        axes.fill_between(positions, mean - 1.96 * error, mean + 1.96 * error, color=colour, alpha=0.2, lw=0)


def _labels(axes: Axes) -> list[str]:
    """The names of lines already drawn."""
    return [str(line.get_label()) for line in axes.get_lines()]


if __name__ == "__main__":
    keep(DATA, computed())
