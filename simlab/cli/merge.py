"""``simlab merge``: join the shards of a sweep."""

import argparse
from typing import Any

from simlab.cli.options import add_overwrite
from simlab.cli.parser import add_command
from simlab.cli.values import read_file, read_path


def add_to(commands: Any) -> None:
    """Add the subcommand."""
    parser = add_command(
        commands,
        "merge",
        summary="join the shards of a sweep into one result",
        about="Join the shards of a sweep, from one machine or several, into one result.",
        examples=["simlab sweep --shard 1/2; simlab sweep --shard 2/2; simlab merge sweep.nc"],
        run=_merge,
    )
    parser.add_argument("out", type=read_file, metavar="OUT", help="result to write")
    parser.add_argument(
        "folders", type=read_path, nargs="*", metavar="PARTS", help="folders of parts (default OUT.parts)"
    )
    add_overwrite(parser, "replace the result of another sweep at OUT")


def _merge(options: argparse.Namespace) -> int:
    from simlab.files import check_replaceable
    from simlab.sweeps.run import merge, parts_folder
    from simlab.sweeps.table import final_table
    from simlab.sweeps.words import in_words

    check_replaceable(options.out)
    dataset = merge(options.out, options.folders or [parts_folder(options.out)], overwrite=options.overwrite)
    print(in_words(dataset), "", final_table(dataset), sep="\n")
    print(f"\nresult  {options.out}")
    return 0
