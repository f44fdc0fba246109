"""Condense a run of a paper's preset of ``simlab train``, and compare its arms with one of them, paired by seed."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from figures.shared.condensed import rounded
from figures.shared.rank_runs import run_file
from simlab.llm.compare.run_arms import MeanEstimate, estimate_mean
from simlab.llm.training.folder import EVALUATIONS, METRICS, arm_folder, read_lines
from simlab.seals import CHECKSUM

MEASURES = ("pass@1", "pass@4", "pass@32", "distinct", "rare_nll")
COMPARED = ("pass@1", "pass@32", "rare_nll")
TRAINING = ("entropy", "clipped_share", "rank_logp")  # the last only of runs that record it
HISTOGRAMS = ("entropy_histogram", "candidate_histogram")  # in the same runs
START = "(start)"
POINTS = 20  # points of a long run's training curve; a short one has a point for each step

Data = dict[str, Any]


def condense(run: Path) -> Data:
    """Return every arm's ``MEASURES`` at each evaluation, the start first, and ``TRAINING`` by windows of steps.

    Both are lists (seeds, evaluations or windows, ...). A run that records candidates also has ``HISTOGRAMS`` over the
    tokens of the last evaluation, and of ``START``, summed over seeds.
    """
    file = {name: value for name, value in run_file(run).items() if name != CHECKSUM}
    seeds, arms = file["seeds"], file["arms"]
    start = [read_lines(run / f"start/seed-{seed}" / EVALUATIONS) for seed in seeds]
    window = max(1, file["settings"]["rl"]["steps"] // POINTS)
    data: Data = {"provenance": file, "window": window, "arms": {}, "training": {}, "histograms": {}}
    for arm in arms:
        folders = [arm_folder(run, arm) / f"seed-{seed}" for seed in seeds]
        evaluations = [
            [*first, *read_lines(folder / EVALUATIONS)] for first, folder in zip(start, folders, strict=True)
        ]
        data["step"] = [line["step"] for line in evaluations[0]]
        data["arms"][arm] = {
            name: rounded([[_number(line, name) for line in lines] for lines in evaluations], 4) for name in MEASURES
        }
        metrics = [read_lines(folder / METRICS) for folder in folders]
        data["training"][arm] = {
            name: rounded(np.stack([windows([line[name] for line in lines], window) for lines in metrics]), 4)
            for name in TRAINING
            if name in metrics[0][0]
        }
        if HISTOGRAMS[-1] in evaluations[0][-1]:
            data["histograms"][START] = histograms([lines[0] for lines in evaluations])
            data["histograms"][arm] = histograms([lines[-1] for lines in evaluations])
    return data


def histograms(lines: Sequence[Data]) -> Data:
    """The histograms of evaluations, summed.

    >>> histograms([{"entropy_histogram": [1, 2], "candidate_histogram": [[3, 0]]}] * 2)
    {'entropy_histogram': [2, 4], 'candidate_histogram': [[6, 0]]}
    """
    return {name: np.sum([line[name] for line in lines], axis=0).tolist() for name in HISTOGRAMS}


def _number(line: Data, name: str) -> float:
    kind, at, k = name.partition("@")
    return float(line["pass_at_k"][k]["mean"] if at else np.mean(line[kind]))


def windows(values: Sequence[Any], window: int) -> np.ndarray:
    """(steps / window, ...) means over windows of steps.

    >>> windows([0.0, 0.0, 1.0, 3.0], 2).tolist()
    [0.0, 2.0]
    """
    each = np.array(values, float)
    means: np.ndarray = each.reshape(-1, window, *each.shape[1:]).mean(axis=1)
    return means


def ends(data: Data, arm: str, measure: str) -> np.ndarray:
    """(seeds,) a measure after the last step."""
    last: np.ndarray = np.array(data["arms"][arm][measure])[:, -1]
    return last


def gained(data: Data, arm: str, baseline: str, measure: str) -> MeanEstimate:
    """Return the lead of an arm over another at the end, paired by seed, with Student's interval."""
    return estimate_mean(ends(data, arm, measure) - ends(data, baseline, measure))


def table(data: Data, baseline: str, most: str = "pass@32") -> str:
    """Return a row for the start and for each arm: measures at the end, ``most`` less the baseline's, and its steps.

    The entropy is that of the last window, the clipped share that of the whole run.
    """
    heads = ("arm", *MEASURES, "entropy", "clipped share", f"{most} less `{baseline}`")
    lines = [f"| {' | '.join(heads)} |", f"|---|{'---:|' * (len(heads) - 1)}"]
    start = [np.array(data["arms"][baseline][name])[:, 0] for name in MEASURES]
    lines.append(f"| (start) | {' | '.join(shown(estimate_mean(values)) for values in start)} | | | |")
    for arm, training in data["training"].items():
        columns = [ends(data, arm, name) for name in MEASURES]
        columns += [np.array(training["entropy"])[:, -1], np.mean(training["clipped_share"], axis=1)]
        less = "" if arm == baseline else interval(gained(data, arm, baseline, most))
        lines.append(f"| `{arm}` | {' | '.join(shown(estimate_mean(values)) for values in columns)} | {less} |")
    return "\n".join(lines)


def pairs_table(data: Data, pairs: Sequence[tuple[str, str]]) -> str:
    """Return the lead of each pair's first arm over the second at the end, in ``COMPARED``, with 95 % intervals."""
    lines = [f"| | {' | '.join(COMPARED)} |", f"|---|{'---:|' * len(COMPARED)}"]
    for arm, other in pairs:
        cells = [interval(gained(data, arm, other, name)) for name in COMPARED]
        lines.append(f"| `{arm}` less `{other}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def shown(estimate: MeanEstimate) -> str:
    """A mean with its standard error."""
    return f"{estimate.mean:.3f}({estimate.error:.3f})"


def interval(estimate: MeanEstimate) -> str:
    """A difference with its 95 % interval."""
    return f"{estimate.mean:+.3f} [{estimate.low:+.3f}, {estimate.high:+.3f}]"
