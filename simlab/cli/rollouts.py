"""``simlab rollouts``: show the rollouts of a training run."""

import argparse
from typing import Any

from simlab.cli.parser import add_command
from simlab.cli.values import read_path, read_whole


def add_to(commands: Any) -> None:
    """Add the subcommand."""
    parser = add_command(
        commands,
        "rollouts",
        summary="show rollouts of a training run, token by token",
        about=(
            "Show what a training run has kept of its rollouts: prompt, rewards, advantages and texts of a group.\n"
            "With --rollout, one of them token by token."
        ),
        examples=["simlab rollouts run", "simlab rollouts run --step 20 --rollout 0"],
        run=_rollouts,
    )
    parser.add_argument("folder", type=read_path, metavar="RUN", help="folder that simlab train wrote")
    parser.add_argument("--arm", metavar="ARM", help="which method (default the first)")
    parser.add_argument("--seed", type=read_whole, default=0, metavar="N", help="which seed (default 0)")
    parser.add_argument("--step", type=read_whole, metavar="N", help="which step (default the last)")
    parser.add_argument(
        "--prompt",
        type=read_whole,
        metavar="N",
        help="which group of the step, from 0 (default one of unequal rewards)",
    )
    parser.add_argument(
        "--rollout", type=read_whole, metavar="N", help="which rollout of the group, from 0, to see by token"
    )


def _rollouts(options: argparse.Namespace) -> int:
    from simlab.llm.compare import read_run
    from simlab.llm.rollouts_view import show_rollouts

    chosen = {name: getattr(options, name) for name in ("arm", "seed", "step", "prompt", "rollout")}
    print(show_rollouts(read_run(options.folder), **chosen))
    return 0
