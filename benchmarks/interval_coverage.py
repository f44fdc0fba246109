"""Coverage of the 95 % intervals of ``simlab.intervals``, on seeds drawn from laws whose mean is known.

    python -m benchmarks.interval_coverage           # a minute; writes results/interval_coverage.json and .md
    python -m benchmarks.interval_coverage --table   # prints the stored table

Two intervals of the same seeds stand side by side: Student's, cut at the bounds, and that of simlab. Samples whose
seeds are all equal have no interval and are counted apart.
"""

import argparse
import json
from collections.abc import Callable

import numpy as np

from benchmarks.machine import RESULTS, table
from simlab.files import write_whole
from simlab.intervals import ANY, POSITIVE, SHARE, Bounds, over_seeds

DATA = RESULTS / "interval_coverage.json"
SEEDS, SAMPLES = (2, 3, 4, 8, 32), 20_000
Draw = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]


def beta(mean: float, concentration: float) -> tuple[float, Draw]:
    """Return the mean and the draw of a Beta law; its variance is mean (1 - mean) / (concentration + 1)."""
    shape = mean * concentration, (1 - mean) * concentration
    return mean, lambda random, size: random.beta(*shape, size)


def two_points(low: float, high: float, share: float) -> tuple[float, Draw]:
    """Return the mean and the draw of a law that is ``high`` in a share of seeds, and else ``low``."""
    mean = low + (high - low) * share
    return mean, lambda random, size: np.where(random.random(size) < share, float(high), float(low))


def gamma(shape: float) -> tuple[float, Draw]:
    """Return the mean and the draw of a gamma law of scale 1."""
    return shape, lambda random, size: random.gamma(shape, 1.0, size)


LAWS: dict[str, tuple[Bounds, tuple[float, Draw]]] = {
    "Beta, mean .5, sd .07": (SHARE, beta(0.5, 50)),
    "Beta, mean .5, sd .20": (SHARE, beta(0.5, 5)),
    "Beta, mean .9, sd .04": (SHARE, beta(0.9, 50)),
    "Beta, mean .9, sd .12": (SHARE, beta(0.9, 5)),
    "Beta, mean .1, sd .12": (SHARE, beta(0.1, 5)),
    "Beta, mean .98, sd .02": (SHARE, beta(0.98, 50)),
    "Beta, mean .98, sd .06": (SHARE, beta(0.98, 5)),
    "0 or 1, mean .5": (SHARE, two_points(0, 1, 0.5)),
    "0 or 1, mean .2": (SHARE, two_points(0, 1, 0.2)),
    "0 or 1, mean .95": (SHARE, two_points(0, 1, 0.95)),
    ".02 or .2, mean .11": (SHARE, two_points(0.02, 0.2, 0.5)),
    ".02 or .2, mean .03": (SHARE, two_points(0.02, 0.2, 0.05)),
    "0 or .1, mean .005": (SHARE, two_points(0, 0.1, 0.05)),
    "gamma, sd / mean .5": (POSITIVE, gamma(4)),
    "gamma, sd / mean 1.4": (POSITIVE, gamma(0.5)),
}


def measure(law: str, seeds: int, samples: int) -> dict[str, float]:
    """Return the share of samples without an interval; of the others, the coverage and median width of each method."""
    bounds, (mean, draw) = LAWS[law]
    values = draw(np.random.default_rng(seeds), (seeds, samples))
    told = np.isfinite(over_seeds(values, bounds).low)
    student, inside = (over_seeds(values[:, told], each) for each in (ANY, bounds))
    ends = {
        "cut": (np.maximum(student.low, bounds[0]), np.minimum(student.high, bounds[1])),
        "simlab": (inside.low, inside.high),
    }
    row = {"none": 1 - float(told.mean())}
    for name, (low, high) in ends.items():
        row[name] = round(float(((low <= mean) & (mean <= high)).mean()), 4)
        row[f"{name}_width"] = round(float(np.median(high - low)), 4)
    return row


def page(content: dict[str, dict[str, dict[str, float]]]) -> str:
    """Write the tables of coverage, of width, and of samples without an interval."""
    header = ["law of a seed", *(f"{seeds} seeds" for seeds in SEEDS)]

    def rows(write: Callable[[dict[str, float]], str]) -> str:
        return table(header, [[law, *(write(content[law][str(seeds)]) for seeds in SEEDS)] for law in LAWS])

    return "\n\n".join(
        [
            "# Coverage of the intervals over seeds",
            f"`python -m benchmarks.interval_coverage`, {SAMPLES:,} samples each. An interval is meant to hold "
            "the mean in .95 of samples.",
            "## Coverage",
            "Student's interval, cut at the bounds (which changes no coverage), and behind it simlab's. Samples "
            "whose seeds are all equal are left out.",
            rows(lambda row: f"{row['cut']:.3f} {row['simlab']:.3f}"),
            "## Median width",
            "The same two.",
            rows(lambda row: f"{row['cut_width']:.2f} {row['simlab_width']:.2f}"),
            "## Samples whose seeds are all equal",
            "Their share; they have no interval.",
            rows(lambda row: f"{row['none']:.2f}"),
        ]
    )


def main() -> None:
    """Measure and write, or only print the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--table", action="store_true", help="print the page of what is kept")
    if not parser.parse_args().table:
        content = {law: {str(seeds): measure(law, seeds, SAMPLES) for seeds in SEEDS} for law in LAWS}
        write_whole(DATA, (json.dumps(content, indent=1) + "\n").encode())
        write_whole(DATA.with_suffix(".md"), (page(content) + "\n").encode())
    print(page(json.loads(DATA.read_text())))


if __name__ == "__main__":
    main()
