"""``simlab rollouts``: show the rollouts of a training run, and the completions of its evaluations."""

import argparse
from typing import Any

from simlab.cli.parser import add_command
from simlab.cli.values import read_file, read_path, read_whole


def add_to(commands: Any) -> None:
    """Add the subcommand."""
    parser = add_command(
        commands,
        "rollouts",
        summary="show rollouts of a training run, token by token",
        about=(
            "Show what a training run has kept of its rollouts: prompt, rewards, advantages and texts of a group.\n"
            "With --rollout, one of them token by token. With --evaluation, completions of an evaluation instead.\n"
            "With --parquet, write all of an arm and seed to a file."
        ),
        examples=[
            "simlab rollouts run",
            "simlab rollouts run --step 20 --rollout 0",
            "simlab rollouts run --evaluation evaluation --step 0",
            "simlab rollouts run --parquet kept.parquet",
            "simlab rollouts run --evaluation evaluation --parquet completions.parquet",
        ],
        run=_rollouts,
    )
    parser.add_argument("folder", type=read_path, metavar="RUN", help="folder that simlab train wrote")
    parser.add_argument("--arm", metavar="ARM", help="which method (default the first)")
    parser.add_argument("--seed", type=read_whole, default=0, metavar="N", help="which seed (default 0)")
    parser.add_argument(
        "--evaluation", metavar="SET", help="completions of this evaluation set, not rollouts; step 0 is the start"
    )
    parser.add_argument("--step", type=read_whole, metavar="N", help="which step (default the last)")
    parser.add_argument(
        "--prompt",
        type=read_whole,
        metavar="N",
        help="which group of the step, from 0 (default one of unequal rewards; of an evaluation all prompts)",
    )
    parser.add_argument(
        "--rollout", type=read_whole, metavar="N", help="which rollout of the group, from 0, to see by token"
    )
    parser.add_argument(
        "--parquet",
        type=read_file,
        metavar="FILE",
        help="write them there, rollouts in TRL's columns, for simlab diagnose; all steps, unless --step says which",
    )


def _rollouts(options: argparse.Namespace) -> int:
    from simlab.errors import InputError
    from simlab.files import check_replaceable
    from simlab.llm.compare import read_run
    from simlab.llm.completions_view import show_completions
    from simlab.llm.rollouts_table import write_completions, write_rollouts
    from simlab.llm.rollouts_view import show_rollouts

    if options.evaluation is not None and options.rollout is not None:
        raise InputError("--rollout is of training; allowed with --evaluation: --prompt, which shows its completions")
    run, steps = read_run(options.folder), {name: getattr(options, name) for name in ("arm", "seed", "step")}
    one = {name: getattr(options, name) for name in ("prompt", "rollout")}
    evaluation = options.evaluation
    if options.parquet is None:
        if evaluation is None:
            print(show_rollouts(run, **steps, **one))
        else:
            print(show_completions(run, evaluation, **steps, prompt=options.prompt))
        return 0
    for name, value in one.items():
        if value is not None:
            raise InputError(f"--{name} chooses what is shown, and --parquet writes whole steps; allowed: one of them")
    check_replaceable(options.parquet)
    if evaluation is None:
        print(f"{write_rollouts(run, options.parquet, **steps)} rollouts in {options.parquet}")
    else:
        print(f"{write_completions(run, options.parquet, evaluation, **steps)} completions in {options.parquet}")
    return 0
