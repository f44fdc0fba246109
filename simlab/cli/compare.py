"""``simlab compare``: a table and a figure of training runs, or of sweeps."""

import argparse
from pathlib import Path
from typing import Any

from simlab.cli.options import add_baseline, add_figure
from simlab.cli.parser import add_command
from simlab.cli.values import read_file, read_moment, read_number, read_path, read_whole_list
from simlab.errors import InputError


def add_to(commands: Any) -> None:
    """Add the subcommand."""
    parser = add_command(
        commands,
        "compare",
        summary="compare training runs, or sweeps: a table and a figure",
        about=(
            "A table and a figure of the arms of training runs, which may still be going; or of the cells of sweeps,\n"
            "with the differences to the first, paired by seed."
        ),
        examples=[
            "simlab compare run other-run --baseline grpo",
            "simlab compare run --at rollouts=20000",
            "simlab compare a.nc b.nc --figure both.png",
        ],
        run=_compare,
    )
    parser.add_argument(
        "runs",
        type=read_path,
        nargs="+",
        metavar="RUN",
        help="folder that simlab train wrote, or result of simlab sweep",
    )
    add_figure(parser, "compare.png")
    parser.add_argument(
        "--at",
        type=read_moment,
        default="last",
        metavar="MOMENT",
        help="evaluation to compare: last, best (highest pass@1), a step number, or the arms at equal cost or equal "
        "pass@1: rollouts=NUMBER, pass@1=NUMBER (default last)",
    )
    parser.add_argument(
        "--pass-at-k", type=read_whole_list, metavar="LIST", help="k of pass@k (default 1,4,16,... up to the samples)"
    )
    parser.add_argument("--set", metavar="NAME", help="which evaluation set, of runs with several (default the first)")
    add_baseline(parser, "ARM", "add the differences to this arm, paired by seed and problem, and tests")
    parser.add_argument(
        "--histograms",
        type=read_file,
        metavar="FILE",
        help="another figure: tokens by entropy, and candidates by probability (of record.top_n)",
    )
    parser.add_argument(
        "--fit",
        type=read_number,
        nargs="?",
        const=0.0,
        metavar="ROLLOUTS",
        help="ceiling or clock: fit ScaleRL's sigmoid to pass@k from so many rollouts on (default 0)",
    )


def _compare(options: argparse.Namespace) -> int:
    return _compare_sweeps(options) if all(one.suffix == ".nc" for one in options.runs) else _compare_runs(options)


def _compare_sweeps(options: argparse.Namespace) -> int:
    """Compare results of ``simlab sweep``, which take none of the options of training runs."""
    from simlab.files import check_replaceable, make_folder
    from simlab.plotting import check_figure, save_final_states
    from simlab.sweeps.compare import compared, read_results

    of_runs = ("pass_at_k", "set", "baseline", "fit", "histograms")
    given = [name for name in of_runs if getattr(options, name) is not None]
    if given or options.at != "last":
        option = f"--{(given or ['at'])[0].replace('_', '-')}"
        raise InputError(f"{option} is for training runs; allowed with results of sweeps: --figure")
    figure = options.figure or Path("compare.png")
    check_figure(figure)
    check_replaceable(figure)
    results = read_results(options.runs)
    print(compared(results))
    make_folder(figure.parent)
    save_final_states(results, figure)
    print(f"\nfigure  {figure}")
    return 0


def _compare_runs(options: argparse.Namespace) -> int:
    from simlab.files import check_replaceable, make_folder
    from simlab.llm.compare import (
        comparison_table,
        draw_comparison,
        draw_histograms,
        fit_tables,
        of_set,
        read_run,
    )
    from simlab.plotting import check_figure

    figures = {options.figure or Path("compare.png"): draw_comparison}
    if options.histograms in figures:
        raise InputError(f"--figure and --histograms are both {options.histograms}; allowed: two files")
    if options.histograms is not None:
        figures[options.histograms] = draw_histograms
    for path in figures:
        check_figure(path)
        check_replaceable(path)
    runs = [read_run(folder) for folder in options.runs]
    if options.set is not None:
        runs = [of_set(run, options.set) for run in runs]
    print(comparison_table(runs, at=options.at, pass_at_k=options.pass_at_k, baseline=options.baseline))
    if options.fit is not None:
        print("", *fit_tables(runs, options.fit, pass_at_k=options.pass_at_k, baseline=options.baseline), sep="\n")
    print()
    for path, draw in figures.items():
        make_folder(path.parent)
        draw(runs, path, at=options.at)
        print(f"figure  {path}")
    return 0
