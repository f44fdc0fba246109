"""``simlab fit``: fit sigmoids to the curves of a sweep."""

import argparse
from typing import Any

from simlab.cli.options import add_baseline
from simlab.cli.parser import add_command
from simlab.cli.values import read_number, read_path


def add_to(commands: Any) -> None:
    """Add the subcommand."""
    parser = add_command(
        commands,
        "fit",
        summary="ceiling or clock: fit sigmoids to a sweep's curves against compute",
        about=(
            "Fit ScaleRL's sigmoid to a metric of each cell against rollouts: asymptote A, exponent B and midpoint\n"
            "C_mid, with 95 % intervals over seeds. A curve that does not tell its asymptote is refused."
        ),
        examples=[
            "simlab fit long-weights.nc",
            "simlab fit long-weights.nc --metric pass@1,pass@64 --from 4096 --baseline grpo",
        ],
        run=_fit,
    )
    parser.add_argument("result", type=read_path, metavar="RESULT", help="result that simlab sweep wrote")
    parser.add_argument(
        "--metric",
        default="pass@1",
        metavar="LIST",
        help="pass@K, or another share; a wrong name lists all (default pass@1)",
    )
    parser.add_argument(
        "--from",
        dest="first",
        type=read_number,
        default=0.0,
        metavar="ROLLOUTS",
        help="ignore records before this many rollouts, as ScaleRL does with the first epoch (default 0)",
    )
    add_baseline(parser, "CELL", "compare the other cells with this one, paired by seed")


def _fit(options: argparse.Namespace) -> int:
    from simlab.scaling import scaling_tables
    from simlab.sweeps.curves import UNIT, curves
    from simlab.sweeps.result import read

    dataset = read(options.result)
    for place, metric in enumerate(options.metric.split(",")):
        arms = {name: own.between(options.first) for name, own in curves(dataset, metric).items()}
        print(*[""] * (place > 0), *scaling_tables(metric, UNIT, arms, options.baseline), sep="\n")
    return 0
