"""Coverage of the intervals of ``simlab.diagnose``, on simulated logs whose truth is known.

    python -m benchmarks.diagnose_coverage                 # 200 logs a bank; an hour of one core
    python -m benchmarks.diagnose_coverage --quick         # 20 logs of the small settings; a minute
    python -m benchmarks.diagnose_coverage --solutions     # estimates from answers, in a table of its own
    python -m benchmarks.diagnose_coverage --table         # prints the stored table
    python -m benchmarks.diagnose_coverage --repetitions 50 --settings 3   # fifteen of the twenty banks

The truth of a distribution comes from the shape that the prompts are drawn from, the truth of the undrawn mass from
these very prompts. Predictions are of later steps of the same bank, whose policy stays as it is.

Intervals that only shift and scale another one are not listed, since they hold the truth where it does: the groups of a
step that teach are the dead ones. Not measured are the brackets of ``--simulate``, and the effect of
selecting the recommended split among several.

The same command continues a run that ended early, and a command for more logs continues a run of fewer: the logs of the
same code stay.
"""

import argparse
import functools
import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import beta

from benchmarks.machine import RESULTS, describe
from simlab.diagnose.dead_groups import RANGES, expected_masses, predict_groups
from simlab.diagnose.estimate import LEVEL, IntervalEstimate, bootstrap, jackknife
from simlab.diagnose.log import Log
from simlab.diagnose.predict import score
from simlab.diagnose.recommend import evaluate_split
from simlab.diagnose.solve_rates import (
    count_by_prompt,
    fit_population,
    learnability,
    mean_change,
    mean_solve_rate,
    pass_at_k,
    share_below,
    split_windows,
)
from simlab.diagnose.tail_misses import estimate_tail_misses, estimate_unseen, typical_solution
from simlab.diagnose.unseen import count_solutions, estimate_unseen_mass
from simlab.files import write_whole
from simlab.identity import code_fingerprint

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from diagnose_logs import MOST_SOLUTIONS, SHAPES, Bank, bank, log, surprises, undrawn, zipf

DATA, OF_SOLUTIONS = RESULTS / "diagnose_coverage.json", RESULTS / "diagnose_coverage_solutions.json"
SETTINGS = ((4, 100), (64, 100), (16, 1000), (4, 10_000))  # G and prompts, each visited once
QUICK = ((4, 100), (64, 100))
REPETITIONS, AT_ONCE = 200, 25  # logs of a bank, in all and before the next bank
STEPS = 24  # steps of a log whose later half is predicted
MEAN_SURPRISE, OF_CORRECT = 20.0, 0.8  # a wrong rollout's, and the ratio of a correct one's to it
MEAN_LENGTH = 10
OF_PROMPTS = tuple(f"gradient from {which} prompts" for which in ("hard", "middling", "easy"))  # in ``RANGES``
OF_GROUPS = tuple(f"gradient from groups of {which} correct" for which in ("few", "some", "many"))


class Seeds(NamedTuple):
    """The seeds of one simulated log."""

    bank: int
    log: int
    log_probabilities: int
    later: int
    resamples: int


class Checked(NamedTuple):
    """An estimate and its truth."""

    estimate: IntervalEstimate
    truth: float


def expectation(shape: str, function, points: int = 50_000) -> float:
    """The mean of a function of the solve rate over all prompts of a shape, by their quantiles."""
    return float(sum(share * np.mean(function(quantiles(of, points))) for share, of in SHAPES[shape]))


@functools.cache
def quantiles(of, points: int) -> np.ndarray:
    """The solve rates at the middles of equal parts of a Beta, or the single solve rate."""
    return np.array([of]) if isinstance(of, float) else beta.ppf((np.arange(points) + 0.5) / points, *of)


def grpo_mass(group_size: int) -> np.ndarray:
    """Mean |A| of groups with 0 to G correct rollouts under GRPO, from its definition."""
    masses = []
    for correct in range(group_size + 1):
        rewards = np.array([1.0] * correct + [0.0] * (group_size - correct))
        masses.append(np.abs((rewards - rewards.mean()) / (rewards.std() + 1e-6)).mean())
    return np.array(masses)


def chances(rate: np.ndarray, group_size: int) -> np.ndarray:
    """Pr(X = x), (rates, G + 1), by adding one rollout after the other."""
    probabilities = np.ones((len(rate), 1))
    for _ in range(group_size):
        right, wrong = probabilities * rate[:, None], probabilities * (1 - rate[:, None])
        probabilities = np.pad(right, ((0, 0), (1, 0))) + np.pad(wrong, ((0, 0), (0, 1)))
    return probabilities


def truths(shape: str, size: int) -> dict[str, float]:
    """True values of a shape."""

    def mean(function: Callable[[np.ndarray], np.ndarray]) -> float:
        return expectation(shape, function)

    def dead(group_size: int) -> float:
        return mean(lambda p: p**group_size + (1 - p) ** group_size)

    mass = grpo_mass(size)
    whole = mean(lambda p: chances(p, size) @ mass)
    shares = np.arange(size + 1) / size
    truth = {
        "mean solve rate": mean(lambda p: p),
        "mean of p (1 - p)": mean(lambda p: p * (1 - p)),
        "change of the mean solve rate": 0.0,
        "all right at G": mean(lambda p: p**size),
        "effective prompts at G": GROUPS_PER_STEP * (1 - dead(size)),
        "groups gained at 2 G": (1 - dead(2 * size)) / 2 - (1 - dead(size)),
    }
    for (low, high), hard, few in zip(RANGES, OF_PROMPTS, OF_GROUPS, strict=True):
        inside = mass * ((shares > low) | (low == 0)) * (shares <= high)
        truth[hard] = mean(lambda p, low=low, high=high: chances(p, size) @ mass * ((low < p) & (p <= high))) / whole
        truth[few] = mean(lambda p, inside=inside: chances(p, size) @ inside) / whole
    truth |= {f"share of prompts with p <= {rate:g}": mean(lambda p, r=rate: 1.0 * (p <= r)) for rate in RATES}
    truth |= of_surprise(truth["mean solve rate"])
    truth |= {f"dead at {name}": dead(int(times * size)) for name, times in SIZES.items()}
    truth |= {f"all wrong at {name}": mean(lambda p, k=k: (1 - p) ** (k * size)) for name, k in (("G", 1), ("4 G", 4))}
    truth |= {f"pass@{name}": mean(lambda p, k=k: 1 - (1 - p) ** (k * size)) for name, k in PASSES.items()}
    return truth | of_solutions(shape, size)


def of_surprise(rate: float) -> dict[str, float]:
    """True values of log-probabilities, at this mean solve rate of prompts."""
    entropy = MEAN_SURPRISE * (1 - (1 - OF_CORRECT) * rate)
    return {
        "entropy": entropy,
        "entropy per token": entropy / MEAN_LENGTH,
        "-log p of correct rollouts": OF_CORRECT * MEAN_SURPRISE,
        "-log p of wrong rollouts": MEAN_SURPRISE,
    }


RATES = (0.01, 0.1, 0.5, 0.9)
GROUPS_PER_STEP = 16
SIZES = {"G / 2": 0.5, "G": 1, "2 G": 2, "4 G": 4}
PASSES = {"G / 2, carried": 0.5, "G": 1, "2G": 2, "16G": 16}


def of_solutions(shape: str, size: int) -> dict[str, float]:
    """The mass of the typical solution, and how often groups miss it.

    Each is a mean over the bank: every solution of every number of solutions, at every solve rate, by its own mass.
    """

    def mean(function: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> float:
        """The sum over a prompt's solutions of a function of solve rate and mass, on average over prompts."""
        return sum(
            expectation_of_grid(shape, lambda p, q=share: function(p, p * q)) / MOST_SOLUTIONS
            for count in range(1, MOST_SOLUTIONS + 1)
            for share in zipf(count).tolist()
        )

    def missed(G: int, p: np.ndarray, pi: np.ndarray) -> np.ndarray:
        return (1 - pi) ** G - (p - pi) ** G - (1 - p) ** G

    def teaches(G: int, p: np.ndarray) -> np.ndarray:
        return 1 - p**G - (1 - p) ** G

    correct = mean(lambda p, pi: pi)
    truth = {
        "mass of a typical solution": mean(lambda p, pi: pi**2) / correct,
        "solve rate of prompts with a typical solution": mean(lambda p, pi: pi * p) / correct,
    }
    of_groups: dict[str, tuple[float, float]] = {}
    for where, times in SIZES.items():
        G = int(times * size)
        gone, reached = mean(lambda p, pi, G=G: pi * missed(G, p, pi)), mean(lambda p, pi, G=G: pi * teaches(G, p))
        teaching = expectation(shape, lambda p, G=G: teaches(G, p))
        truth[f"tail miss at {where}"] = gone / correct
        truth[f"taught against at {where}"] = gone / reached
        of_groups[where] = (teaching * gone / reached / times, teaching * (1 - gone / reached) / times)
    for index, name in enumerate(("groups against it", "groups holding it")):
        truth[f"{name} at G / 2"] = of_groups["G / 2"][index]
        truth[f"more {name} at G / 2"] = of_groups["G / 2"][index] - of_groups["G"][index]
    return truth


def expectation_of_grid(shape: str, function: Callable[[np.ndarray], np.ndarray]) -> float:
    """``expectation`` by fewer quantiles: these functions are smooth."""
    return expectation(shape, function, points=400)


def checked(seen: Log, truth: dict[str, float], size: int, seeds: Seeds) -> Iterator[tuple[str, Checked]]:
    """Estimates from rewards and log-probabilities with their truths, by name."""
    now, counts = fit_population(seen, LEVEL), count_by_prompt(seen)
    yield "mean solve rate", Checked(mean_solve_rate(now), truth["mean solve rate"])
    of_window = bootstrap("mean solve rate", counts.successes / counts.trials, LEVEL, seeds.resamples)
    yield "mean solve rate of a window", Checked(of_window, truth["mean solve rate"])
    yield "mean of p (1 - p)", Checked(learnability(now), truth["mean of p (1 - p)"])
    yield "change of the mean solve rate", Checked(mean_change(*split_windows(seen, 2), LEVEL, seeds.resamples), 0.0)
    for rate in RATES:
        name = f"share of prompts with p <= {rate:g}"
        yield name, Checked(now.estimate(name, share_below(rate)), truth[name])
    predicted = predict_groups(now, [int(times * size) for times in SIZES.values()], GROUPS_PER_STEP)
    at_sizes = dict(zip(SIZES, predicted, strict=True))
    for where, there in at_sizes.items():
        yield f"dead at {where}", Checked(there.dead, truth[f"dead at {where}"])
    here = at_sizes["G"]
    yield "all right at G", Checked(here.all_right, truth["all right at G"])
    yield "all wrong at G", Checked(here.all_wrong, truth["all wrong at G"])
    yield "effective prompts at G", Checked(here.effective_prompts, truth["effective prompts at G"])
    yield "all wrong at 4 G", Checked(at_sizes["4 G"].all_wrong, truth["all wrong at 4 G"])
    by_prompt, by_group, whole = expected_masses("grpo", size)
    for names, masses in ((OF_PROMPTS, by_prompt), (OF_GROUPS, by_group)):
        for name, mass in zip(names, masses.values(), strict=True):
            yield name, Checked(now.ratio(name, mass, whole), truth[name])
    gain = evaluate_split(now, None, at_sizes["2 G"], here, size).gain
    yield "groups gained at 2 G", Checked(gain, truth["groups gained at 2 G"])
    for where, curve in zip(PASSES, pass_at_k(now, [int(times * size) for times in PASSES.values()]), strict=True):
        yield f"pass@{where}", Checked(curve, truth[f"pass@{where}"])
    drawn = surprises(seen, seeds.log_probabilities, MEAN_SURPRISE, OF_CORRECT)
    means = {
        "entropy": (drawn.surprise, np.ones(len(drawn.right))),
        "entropy per token": (drawn.surprise, drawn.length),
        "-log p of correct rollouts": (drawn.surprise * drawn.right, drawn.right),
        "-log p of wrong rollouts": (drawn.surprise * ~drawn.right, ~drawn.right),
    }
    for name, columns in means.items():
        estimate = jackknife(name, *(np.bincount(drawn.prompt, column) for column in columns), LEVEL, 0.0)
        yield name, Checked(estimate, truth[name])


def of_answers(source: Bank, seen: Log, truth: dict[str, float], size: int, seed: int) -> Iterator[tuple[str, Checked]]:
    """Estimates from answers, by name."""
    drawn = count_solutions(seen)
    left, share = undrawn(source, seen)
    unseen = estimate_unseen_mass(drawn, LEVEL)
    yield "undrawn mass", Checked(unseen.mass, left)
    yield "undrawn share", Checked(unseen.share, share)
    without = unseen.share._replace(low=np.nan, high=np.nan)
    yield "undrawn share, error", Checked(without, share)
    yield "change of the undrawn share", change_of_share(source, seen, seed)
    naive = without._replace(value=unseen.good_turing)
    yield "undrawn share by Good-Turing, error", Checked(naive, share)
    sizes = tuple(int(times * size) for times in SIZES.values())
    solution = typical_solution(drawn, LEVEL, seed, sizes)
    usual = estimate_tail_misses(solution, sizes)
    yield "mass of a typical solution", Checked(usual.mass, truth["mass of a typical solution"])
    name = "solve rate of prompts with a typical solution"
    yield name, Checked(usual.solve_rate, truth[name])
    for where, missed, against in zip(SIZES, usual.missed, usual.against, strict=True):
        yield f"tail miss at {where}", Checked(missed, truth[f"tail miss at {where}"])
        yield f"taught against at {where}", Checked(against, truth[f"taught against at {where}"])
    now = fit_population(seen, LEVEL)
    half, whole = predict_groups(now, (size // 2, size), GROUPS_PER_STEP)
    split = evaluate_split(now, solution, half, whole, size)
    of_groups = {"groups against it": (split.against, split.loss), "groups holding it": (split.holding, split.net)}
    for name, (estimate, more) in of_groups.items():
        assert estimate is not None
        assert more is not None
        yield f"{name} at G / 2", Checked(estimate, truth[f"{name} at G / 2"])
        yield f"more {name} at G / 2", Checked(more, truth[f"more {name} at G / 2"])


def change_of_share(source: Bank, seen: Log, seed: int) -> Checked:
    """The share that the second half of the steps leaves undrawn, less the first half's."""
    windows = split_windows(seen, 2)
    unseen = estimate_unseen(windows, LEVEL, seed, ())
    assert unseen is not None
    assert unseen.change is not None
    first, last = (undrawn(source, window)[1] for window in windows)
    return Checked(unseen.change, last - first)


def predicted(source: Bank, size: int, seed: int) -> Iterator[tuple[str, Checked]]:
    """Predictions of the later half of a log, of a visit or more a prompt."""
    for forecast in score(log(source, size, seed, steps=STEPS), 0.5, LEVEL):
        yield f"next steps: {forecast.predicted.name.split('@')[0]}", Checked(forecast.predicted, forecast.truth)


def seeds_of_logs(shape: str, size: int, prompts: int, repetitions: int) -> list[Seeds]:
    """Seeds of the logs of one bank, which no other bank has: an odd log then counts once. More logs begin alike."""
    random = np.random.default_rng([list(SHAPES).index(shape), size, prompts])
    return [Seeds(*row) for row in random.integers(2**31, size=(repetitions, len(Seeds._fields))).tolist()]


def cell(shape: str, size: int, prompts: int, logs: range, solutions_alone: bool) -> dict[str, Any]:
    """Coverage, widths and errors of these logs of a bank."""
    truth, rows = truths(shape, size), defaultdict(list)
    for seeds in seeds_of_logs(shape, size, prompts, logs.stop)[logs.start :]:
        source = bank(shape, prompts, seeds.bank)
        seen = log(source, size, seeds.log, steps=2)
        checks = (
            of_answers(source, seen, truth, size, seeds.resamples)
            if solutions_alone
            else (*checked(seen, truth, size, seeds), *predicted(source, size, seeds.later))
        )
        for name, check in checks:
            estimate = check.estimate
            rows[name].append((estimate.value, estimate.low, estimate.high, check.truth))
    return {
        "shape": shape,
        "group_size": size,
        "prompts": prompts,
        "repetitions": len(logs),
        "code": code(),
        "estimates": {name: summary(np.array(numbers, dtype=float)) for name, numbers in rows.items()},
    }


def code() -> str:
    """A hash of the library."""
    return code_fingerprint()


def summary(rows: np.ndarray) -> dict[str, float | None]:
    """Summarise (repetitions, 4) values, lows, highs and truths; a missing interval counts as not holding."""
    value, low, high, truth = rows.T
    told, bounded = np.isfinite(value), np.isfinite(low)
    off = (value - truth)[told]
    return {
        "logs": len(rows),
        "values": int(told.sum()),
        "intervals": int(bounded.sum()),
        "held": float(((low <= truth) & (truth <= high)).mean()) if bounded.any() else None,
        "width": float(np.mean((high - low)[bounded])) if bounded.any() else None,
        "bias": float(off.mean()) if told.any() else None,
        "error": float(np.sqrt((off**2).mean())) if told.any() else None,
        "truth": float(truth.mean()),
    }


def joined(first: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """One cell of all logs of two cells of one bank."""
    estimates = {name: both(numbers, more["estimates"][name]) for name, numbers in first["estimates"].items()}
    return first | {"repetitions": first["repetitions"] + more["repetitions"], "estimates": estimates}


def both(first: dict[str, Any], last: dict[str, Any]) -> dict[str, Any]:
    """The summary of the rows of two summaries."""
    counts = {name: first[name] + last[name] for name in ("logs", "values", "intervals")}

    def mean(name: str, of: str, power: int = 1) -> float | None:
        if first[name] is None and last[name] is None:
            return None
        return (sum((half[name] or 0.0) ** power * half[of] for half in (first, last)) / counts[of]) ** (1 / power)

    means = {"held": mean("held", "logs"), "width": mean("width", "intervals"), "bias": mean("bias", "values")}
    return counts | means | {"error": mean("error", "values", 2), "truth": mean("truth", "logs")}


def table(content: dict[str, Any]) -> str:
    """A row an estimate: in each setting, the coverage or the error of each shape."""
    cells = content["cells"]
    settings = list(dict.fromkeys(map(_setting, cells)))
    logs = [min(entry["repetitions"] for entry in cells if _setting(entry) == setting) for setting in settings]
    heads = [
        f"G = {size}, {prompts} prompts, {count} logs" for (size, prompts), count in zip(settings, logs, strict=True)
    ]
    lines = [f"| estimate | {' | '.join(heads)} |", f"|---|{'---|' * len(heads)}"]
    for name in cells[0]["estimates"]:
        row = [[entry for entry in cells if _setting(entry) == setting] for setting in settings]
        lines.append(f"| {name} | {' | '.join(_held(group, name) for group in row)} |")
    return "\n".join(lines)


def _setting(entry: dict[str, Any]) -> tuple[int, int]:
    return entry["group_size"], entry["prompts"]


def _held(cells: list[dict[str, Any]], name: str) -> str:
    """The coverage of each shape, in the order of ``SHAPES``; errors where there is no interval."""
    summaries = [entry["estimates"].get(name) for entry in cells]
    if summaries[0]["held"] is None:
        return " ".join(f"({numbers['error']:.3f})" for numbers in summaries)
    return " ".join(f"{100 * numbers['held']:.0f}" for numbers in summaries)


def main() -> None:
    """Run every setting on some processes, or print the stored table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="20 logs of the small settings; writes nothing")
    parser.add_argument(
        "--solutions", action="store_true", help="what is estimated from answers, in a table of its own"
    )
    parser.add_argument("--table", action="store_true", help="print the table of what is kept")
    parser.add_argument("--repetitions", type=int, default=REPETITIONS, help="logs of a bank")
    parser.add_argument("--settings", type=int, default=len(SETTINGS), help="how many of the settings")
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    path = OF_SOLUTIONS if options.solutions else DATA
    if options.table:
        print(table(json.loads(path.read_text())))
        return
    settings, repetitions = (QUICK, 20) if options.quick else (SETTINGS[: options.settings], options.repetitions)
    cells = {} if options.quick else read_cells(path)
    left = [
        (*key, range(first, min(first + AT_ONCE, repetitions)), options.solutions)
        for key in ((shape, *setting) for setting in settings for shape in SHAPES)
        for first in range(cells[key]["repetitions"] if key in cells else 0, repetitions, AT_ONCE)
    ]
    left.sort(key=lambda task: task[3].start)  # some logs of every bank before more of any
    content = {"level": LEVEL, "shapes": list(SHAPES), "machine": describe(), "cells": list(cells.values())}
    with ProcessPoolExecutor(options.processes) as pool:
        for entry in pool.map(cell, *zip(*left, strict=True)) if left else ():
            key = key_of(entry)
            cells[key] = joined(cells[key], entry) if key in cells else entry
            content["cells"] = list(cells.values())
            print(*key, cells[key]["repetitions"], flush=True)
            if not options.quick:  # whatever is finished stays if the run ends early
                keep(path, content)
    print(table(content))


def key_of(entry: dict[str, Any]) -> tuple[str, int, int]:
    """The bank and setting of a cell."""
    return entry["shape"], entry["group_size"], entry["prompts"]


def read_cells(path: Path) -> dict[tuple[str, int, int], dict[str, Any]]:
    """Read the cells of the same code, by bank."""
    if not path.exists():
        return {}
    now = code()
    return {key_of(entry): entry for entry in json.loads(path.read_text())["cells"] if entry.get("code") == now}


def keep(path: Path, content: dict[str, Any]) -> None:
    """Write the numbers, and their table."""
    write_whole(path, (json.dumps(content, separators=(",", ":")) + "\n").encode())
    title = TITLE.replace("COMMAND", f"diagnose_coverage{' --solutions' * (path == OF_SOLUTIONS)}")
    done = f"{len(content['cells'])} of {len(SETTINGS) * len(SHAPES)} banks are in this table.\n\n"
    write_whole(path.with_suffix(".md"), (title + done + table(content) + "\n").encode())


TITLE = f"""# Coverage of the intervals of `simlab diagnose`

Per cent of simulated logs of a bank whose {LEVEL:.0%} interval holds the truth (standard error 2 for 200 logs, 3 for
100, 4 for 50), by `python -m benchmarks.COMMAND`; `--repetitions` gives the logs. The numbers of a cell are banks of
the shapes {", ".join(SHAPES)}. In brackets: the root mean squared error, of an estimate without an interval too.

Where an estimator changed, its rows alone were measured again, on the same logs: on 2026-11-27 those of the mean solve
rate, p (1 - p), pass@k and the next steps.

"""


if __name__ == "__main__":
    main()
