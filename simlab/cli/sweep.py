"""``simlab sweep``: simulate a grid of runs."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from simlab.cli import options as shared
from simlab.cli.parser import Parser, add_command
from simlab.cli.values import read_file, read_number, read_whole
from simlab.errors import InputError

DEFAULT_OUT = Path("sweep.nc")

_ABOUT = """Simulate a grid of runs and write one NetCDF file, a table and a figure.
Without arguments: a small sweep of group size and gamma that shows the three regimes of F-GRPO. Options that name
no method, problem or parameter change that sweep; the first line of the output says what ran.

LIST is comma-separated: 2,4,...,1024 continues a geometric sequence, 0,0.5,...,2 an arithmetic one.
ARMS are methods: grpo, "f_grpo(gamma=0.5)+clip_higher", maxrl@token_mean (see simlab train --help).
FILE.py:NAME stands for an estimator, surrogate, method or problem that you have written yourself.
Finished work is kept in OUT.parts; after a kill, run the same command to resume."""


def add_to(commands: Any) -> None:
    """Add the subcommand."""
    parser = add_command(
        commands,
        "sweep",
        summary="simulate a grid of runs",
        about=_ABOUT,
        examples=[
            "simlab sweep --seeds 2",
            "simlab sweep --estimator grpo,f_grpo --gamma 0.5,1 --group-size 2,8 --steps 200",
            "simlab sweep --preset league --out league.nc",
        ],
        run=_sweep,
    )
    _add_grid(parser)
    _add_setting(parser)
    _add_work(parser)


def _add_grid(parser: Parser) -> None:
    grid = parser.add_argument_group("grid")
    shared.add_preset(grid, "start from a preset, which other options override; a wrong name lists all")
    shared.add_arms(grid, "methods, separated by commas, in place of the next two options")
    grid.add_argument("--estimator", metavar="LIST", help="estimators, see simlab estimators")
    grid.add_argument(
        "--surrogate", metavar="LIST", help="ppo_clip, cispo, casp, reinforce, ...; a wrong name lists all"
    )
    grid.add_argument("--group-size", metavar="LIST", help="rollouts of a group, G")
    grid.add_argument("--gamma", metavar="LIST", help="focal exponent; short for --param gamma=LIST")
    grid.add_argument("--learning-rate", metavar="LIST", help="short for --param learning_rate=LIST")
    shared.add_seeds(grid)
    shared.add_param(grid, "NAME=LIST", "any parameter that --parameters lists")
    grid.add_argument(
        "--parameters",
        action="store_true",
        help="list the parameters of this problem, these methods and their runs, with their defaults, and exit",
    )


def _add_setting(parser: Parser) -> None:
    setting = parser.add_argument_group("setting")
    setting.add_argument(
        "--problem",
        metavar="NAME",
        help="anchored (F-GRPO App. J), custom (logits=, correct=), prompt_bank, linear_softmax, interference, tree",
    )
    setting.add_argument("--optimizer", metavar="NAME", help="adam, adamw or sgd")
    shared.add_steps(setting, "steps of each run")
    setting.add_argument("--record-every", type=read_whole, metavar="N", help="steps between two records")
    setting.add_argument(
        "--budget",
        type=read_number,
        metavar="COST",
        help="budget of each run, instead of --steps, in rollouts (or in the unit of --rollout-cost); larger groups "
        "take fewer steps",
    )
    setting.add_argument(
        "--rollout-cost",
        type=read_number,
        metavar="X",
        help="cost of one rollout, including its verification (default 1)",
    )
    setting.add_argument("--update-cost", type=read_number, metavar="X", help="cost of one gradient step (default 0)")
    setting.add_argument(
        "--records", type=read_whole, metavar="N", help="records of each run of a budget, at equal costs (default 20)"
    )
    setting.add_argument("--pass-at-k", metavar="LIST", help="k of the recorded pass@k")
    setting.add_argument("--top-n", type=read_whole, metavar="N", help="how many top log-probabilities to record")
    setting.add_argument("--dtype", metavar="NAME", help="float32 or float64")
    setting.add_argument(
        "--storage",
        metavar="NAME",
        help="how actions are kept: auto (default, the cheaper one), dense (every action), lumped (those sampled, and "
        "classes of the others: up to 10^18 actions) or sharded (every action, spread over devices)",
    )
    setting.add_argument("--engine", dest="storage", help=argparse.SUPPRESS)  # the former name of --storage


def _add_work(parser: Parser) -> None:
    work = parser.add_argument_group("work")
    work.add_argument(
        "--out",
        type=read_file,
        metavar="FILE",
        help=f"result (default {DEFAULT_OUT}, sweep-2.nc, sweep-3.nc, ...: the first name not taken by another sweep)",
    )
    shared.add_figure(work, "OUT with .png")
    work.add_argument(
        "--memory", default="2GB", metavar="SIZE", help="of this process, and of each worker (default 2GB)"
    )
    work.add_argument("--shard", default="1/1", metavar="I/N", help="run only the I-th of N parts; join with merge")
    work.add_argument(
        "--scheduler",
        metavar="WHERE",
        help="simulate on workers of a Dask scheduler: tcp://HOST:PORT, tls://HOST:PORT, or local:N, N processes here",
    )
    work.add_argument(
        "--shard-actions",
        type=read_whole,
        metavar="N",
        help="devices over which sharded storage spreads each run (default as few as hold it)",
    )
    shared.add_overwrite(work, "replace the result of another sweep at OUT")


def _sweep(options: argparse.Namespace) -> int:
    from simlab.files import make_folder
    from simlab.sweeps.options import build_sweeps, parse_shard, parse_size
    from simlab.sweeps.parameter_words import parameter_table

    shard, memory = parse_shard(options.shard), parse_size(options.memory)
    sweeps = build_sweeps(options)
    if options.parameters:
        print(*(parameter_table(sweep) for sweep in sweeps.values()), sep="\n\n")
        return 0
    places = {name: _places(options, name, sweep) for name, sweep in sweeps.items()}
    for _, figure in places.values():
        make_folder(figure.parent)
    with _workers(options) as workers:
        for name, sweep in sweeps.items():
            if name:
                print(f"\n{name}:")
            _run(options, sweep, *places[name], shard=shard, memory=memory, workers=workers)
            if options.out is None and (usual := _own(DEFAULT_OUT, name)) != places[name][0]:
                print(f"{usual} holds the result of another sweep; this one's is {places[name][0]}")
    return 0


def _places(options: argparse.Namespace, name: str, sweep: Any) -> tuple[Path, Path]:
    """The paths of the result and the figure of one of several sweeps: its name is put after the stem.

    Raises:
        InputError: for a path that cannot be written.
    """
    from simlab.files import check_replaceable
    from simlab.plotting import check_figure
    from simlab.sweeps.run import free_path

    out = _own(options.out or DEFAULT_OUT, name)
    if options.out is None and not options.overwrite:
        out = free_path(out, sweep)
    check_replaceable(out)
    figure = _own(options.figure, name) if options.figure else out.with_suffix(".png")
    if figure.resolve() == out.resolve():
        raise InputError(f"--out {out} is the figure's path too; allowed: a path of its own, such as sweep.nc")
    check_figure(figure)
    check_replaceable(figure)
    return out, figure


def _own(path: Path, name: str) -> Path:
    return path.with_stem(f"{path.stem}-{name}") if name else path


def _run(
    options: argparse.Namespace,
    sweep: Any,
    out: Path,
    figure: Path,
    *,
    shard: tuple[int, int],
    memory: int,
    workers: Any,
) -> None:
    """Run one sweep, and print what it ran, the table, and where the files are."""
    from simlab.plotting import save_final_state
    from simlab.sweeps.plan import Plan
    from simlab.sweeps.run import run
    from simlab.sweeps.storages import storages_in_words
    from simlab.sweeps.table import final_table
    from simlab.sweeps.words import in_words

    plan = Plan(sweep)
    dataset = run(
        plan,
        out,
        memory=memory,
        shard=shard,
        workers=workers,
        overwrite=options.overwrite,
        shard_actions=options.shard_actions,
    )
    if dataset is None:
        print(f"shard {options.shard} is finished; when all are: simlab merge {out}")
        return
    ran = in_words(dataset)
    print(ran, *storages_in_words(plan), "", final_table(dataset), sep="\n")
    save_final_state(dataset, figure, ran)
    print(f"\nresult  {out}\nfigure  {figure}")


@contextmanager
def _workers(options: argparse.Namespace) -> Iterator[Any]:
    """Who simulates in place of this process; nobody if the options name no scheduler."""
    if options.scheduler is None:
        yield None
        return
    if options.shard != "1/1":
        raise InputError(f"--scheduler and --shard {options.shard} both spread a sweep; allowed: one of them")
    if options.shard_actions is not None:
        raise InputError("--shard-actions is for the devices of this process; allowed: without --scheduler")
    try:
        from simlab.sweeps.cluster import connected
    except ModuleNotFoundError as error:
        missing = str(error.name).partition(".")[0]
        if missing not in {"dask", "distributed"}:
            raise
        raise InputError(f'--scheduler needs {missing}; install it with: pip install "simlab[dask]"') from None
    with connected(options.scheduler) as workers:
        yield workers
