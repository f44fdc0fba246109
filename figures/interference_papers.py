"""Claims of five papers about pass@k, on prompts that share features and on prompts that do not.

    simlab sweep --preset interference-papers --out interference-papers.nc   (six minutes on one core)
    python -m figures.interference_papers interference-papers.nc             (condenses)
    simlab sweep --preset network-papers --out network-papers.nc             (the same in a network, with Adam)
    python -m figures.interference_papers --network network-papers.nc        (adds it to what is kept)
    python -m figures.interference_papers --table                            (judges, and prints the table of README.md)
    simlab figures interference_papers                                       (draws from what is kept here)

Every arm is read twice: at one learning rate for all, where its own pass@1 is highest, as papers do; and where pass@1
is the same for all, at the learning rate that keeps most of pass@256. Half of the seeds choose, the others are judged.
"""

import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures.shared.chosen import best_setting
from figures.shared.claims_of_papers import BASE, CLAIMS, FOCAL, GRPO, OF_CLIPS, Arms, Claim, Found, in_words, judge
from figures.shared.condensed import keep, provenance, results, rounded
from figures.shared.end_labels import end_labels
from figures.shared.method_colours import METHOD_COLOURS
from simlab.columns import at_equal_mass
from simlab.plotting import STYLE
from simlab.sweeps.presets.interference import BANKS, GROUPS, RATE

DATA = Path(__file__).parent / "data" / "interference_papers.json"
MESSAGE = (
    "Of the claims that hold at one rate, 3 of 12 hold at equal pass@1 on a linear head, 5 of 8 in a network with Adam"
)
DIFFERS = "Prompts of one token in place of a language model; the table of figures/README.md has all numbers."
PRESET, IN_A_NETWORK = "interference-papers", "network-papers"
NETWORK = "network"
ONE_RATE, EQUAL = "one rate", "equal pass@1"
LEVELS = {"shared": 0.45, "rare": 0.45, "apart": 0.3, NETWORK: 0.45}  # of pass@1; apart, most runs are slower
KS = (1, 8, 128, 256)
COEFFICIENTS = ("kl", "entropy_bonus")
BANK_NAMES = {
    "shared": "shared features",
    "rare": "shared features and rare answers",
    "apart": "rare answers alone",
    NETWORK: "network, Adam",
}


def runs(name: str, dataset: xr.Dataset) -> Iterator[tuple[str, xr.Dataset]]:
    """The arms of one sweep by name, each with dimensions of its learning rate, seeds and steps."""
    rate = RATE.rpartition(".")[2]
    listed = [dim for dim in ("arm", "group_size", *COEFFICIENTS) if dim in dataset.pass_at_k.dims]
    for indices in itertools.product(*(range(dataset.sizes[dim]) for dim in listed)):
        cell = dataset.isel(dict(zip(listed, indices, strict=True))).squeeze(drop=True)
        yield _written(name, cell), cell.transpose(rate, "seed", "step", ...)


def _written(sweep: str, cell: xr.Dataset) -> str:
    """``grpo, G = 2, 64 rollouts``: the name of an arm among all others."""
    words = [str(cell.arm.item()).removesuffix("+reinforce")]
    if sweep.startswith(("groups", "rollouts")):
        words.append(f"G = {cell.group_size.item()}")
    if sweep.startswith("rollouts"):
        words.append("64 rollouts")
    if sweep.startswith("low-rate"):
        words.append("low rate")
    words += [f"{name} = {cell[name].item():g}" for name in COEFFICIENTS if name in cell.coords]
    return ", ".join(words)


def measures(cell: xr.Dataset) -> dict[str, np.ndarray]:
    """The measures of an arm, (learning rates, seeds, steps)."""
    curves = {f"pass@{k}": cell.pass_at_k.sel(k=k).values for k in KS}
    return curves | {"rare NLL": cell.target_nll_by_kind.sel(kind="hard").values, "entropy": cell.entropy.values}


def read_twice(cell: xr.Dataset, level: float) -> dict[str, Any]:
    """The measures of an arm by either reading, for each seed of the half that is judged."""
    curves = measures(cell)
    return {ONE_RATE: at_one_rate(curves), EQUAL: at_equal_pass_at_1(curves, level)}


def at_one_rate(curves: dict[str, np.ndarray]) -> dict[str, Any]:
    """Measures at the smaller rate, at the record with the highest mean pass@1 over the choosing seeds."""
    half = curves["pass@1"].shape[1] // 2
    best = int(curves["pass@1"][0, :half].mean(axis=0).argmax())
    return {name: rounded(values[0, half:, best], 5) for name, values in curves.items()}


def at_equal_pass_at_1(curves: dict[str, np.ndarray], level: float) -> dict[str, Any]:
    """Measures where pass@1 first reaches a level, at the rate with the highest pass@256 there over the choosing seeds.

    No numbers if no rate lets all seeds reach it.
    """
    pass_at_1, levels = curves["pass@1"], np.array([level])
    half = pass_at_1.shape[1] // 2
    there = {
        name: np.array([at_equal_mass(mass, curve, levels)[0] for mass, curve in zip(pass_at_1, values, strict=True)])
        for name, values in curves.items()
    }
    best = best_setting(there["pass@256"])
    if best is None:
        return dict.fromkeys(there)
    return {name: rounded(values[best, half:], 5) for name, values in there.items()}


def condense(path: Path, preset: str = PRESET) -> dict[str, Any]:
    """The judged and drawn numbers, with the provenance of all sweeps."""
    sweeps = results(preset, path)
    banks: dict[str, dict[str, Any]] = {name.rpartition("-")[2]: {} for name in sweeps}
    for name, dataset in sweeps.items():
        bank = name.rpartition("-")[2]
        arms = banks[bank]
        for arm, cell in runs(name, dataset):
            arms[arm] = read_twice(cell, LEVELS[bank])
            start = {
                measure: rounded(values[0, values.shape[1] // 2 :, 0], 5) for measure, values in measures(cell).items()
            }
            arms.setdefault(BASE, {ONE_RATE: start, EQUAL: start})
    return {"provenance": [provenance(dataset) for dataset in sweeps.values()], "levels": LEVELS, "banks": banks}


def with_network(data: dict[str, Any], path: Path) -> dict[str, Any]:
    """The data with the arms of the network."""
    added = condense(path, IN_A_NETWORK)
    origins = [entry for entry in data["provenance"] if entry["configuration"]["problem"] != NETWORK]
    both = {"provenance": origins + added["provenance"], "banks": data["banks"] | added["banks"]}
    return data | both | {"levels": LEVELS}


def of_reading(data: dict[str, Any], bank: str, reading: str) -> Arms:
    """The measures of all arms on one bank by one reading."""
    return {arm: readings[reading] for arm, readings in data["banks"][bank].items()}


def table(data: dict[str, Any]) -> str:
    """The table of README.md: each claim, what its paper reports, what the banks give, and the verdict."""
    shown = [(bank, reading) for bank in ("shared", "apart", NETWORK) for reading in (ONE_RATE, EQUAL)]
    heads = ["claim", "paper", *(f"{BANK_NAMES[bank]}, {reading}" for bank, reading in shown), "verdict"]
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for claim in CLAIMS:
        verdicts = judged(claim, data)
        cells = [str(verdicts[reading][bank] or "") for bank, reading in shown]
        row = (f"{claim.says} `[{claim.tag}]`", claim.reported, *cells, in_words(verdicts[ONE_RATE], verdicts[EQUAL]))
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)


def judged(claim: Claim, data: dict[str, Any]) -> dict[str, dict[str, Found | None]]:
    """The verdicts on a claim, by reading and bank."""
    return {
        reading: {
            bank: judge(claim, of_reading(data, bank, reading), equal_pass_at_1=reading == EQUAL) for bank in BANK_NAMES
        }
        for reading in (ONE_RATE, EQUAL)
    }


def draw(data: dict[str, Any]) -> Figure:
    """Pass@256 over G by either reading, and all other arms beside GRPO at equal pass@1."""
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 6.4), layout="constrained")
        left, right = figure.subfigures(1, 2, width_ratios=(1, 1.3))
        panels = left.subplots(len(BANKS), 1, sharex=True)
        for letter, axes, bank in zip("abc", panels, BANKS, strict=True):
            _draw_groups(axes, data, bank)
            axes.set_title(f"({letter}) {BANK_NAMES[bank]}", loc="left")
        panels[-1].set_xlabel("group size G")
        _draw_arms(right.subplots(), data)
    return figure


def _draw_groups(axes: Axes, data: dict[str, Any], bank: str) -> None:
    """Pass@256 of a bank against G, at one rate and at equal pass@1, with and without a focal weight."""
    for reading, dashes in ((ONE_RATE, "-"), (EQUAL, "--")):
        arms = of_reading(data, bank, reading)
        for arm, name in ((GRPO, "grpo"), (FOCAL, "f_grpo")):
            drawn = [arms[arm.replace("8", str(size))]["pass@256"] for size in GROUPS]
            means = [np.nan if values is None else np.mean(values) for values in drawn]
            label = f"{arm.partition('(')[0].partition(',')[0]}, {reading}"
            axes.plot(GROUPS, means, dashes, marker="o", color=METHOD_COLOURS[name], markersize=3, label=label)
    axes.set_xscale("log", base=2)
    axes.margins(y=0.15)
    axes.set(ylabel="pass@256", xticks=GROUPS, xticklabels=GROUPS)
    end_labels(axes, size=7)


def _draw_arms(axes: Axes, data: dict[str, Any]) -> None:
    """Means and 95 % intervals of the difference in pass@256 to GRPO with as many gradient steps a batch."""
    rows = [arm for arm in data["banks"]["shared"] if arm not in {BASE, OF_CLIPS} and "G = " not in arm][::-1]
    for number, (bank, label) in enumerate(BANK_NAMES.items()):
        arms = of_reading(data, bank, EQUAL)
        for row, arm in enumerate(rows):
            reference = OF_CLIPS if "+" in arm else GRPO
            tested, plain = arms[arm]["pass@256"], arms[reference]["pass@256"]
            if tested is None or plain is None:
                continue
            gap = np.array(tested) - np.array(plain)
            style = {"color": f"C{number}", "markersize": 3, "elinewidth": 0.8, "label": label if row == 0 else None}
            error = 1.96 * gap.std(ddof=1) / np.sqrt(len(gap))
            axes.errorbar(gap.mean(), row + 0.2 * (1 - number), xerr=error, fmt="o", **style)
    axes.axvline(0, color="0.3", linewidth=0.8, linestyle="--")
    axes.set_yticks(range(len(rows)), rows, fontsize=7)
    axes.set_xlabel(f"at {EQUAL}")
    axes.set_title("(d) pass@256 less GRPO's", loc="left")
    axes.grid(axis="y", color="0.92", linewidth=0.6)
    axes.set_ylim(-3.4, len(rows) - 0.4)
    axes.legend(fontsize=7, loc="lower right")


def main(arguments: list[str]) -> None:
    """Condense results, or print the table of README.md."""
    if arguments == ["--table"]:
        print(table(json.loads(DATA.read_text())))
    elif arguments[:1] == ["--network"]:
        keep(DATA, with_network(json.loads(DATA.read_text()), Path(arguments[1])))
    else:
        keep(DATA, condense(*map(Path, arguments)))


if __name__ == "__main__":
    main(sys.argv[1:])
