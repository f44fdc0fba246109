"""``simlab notebooks``: open the notebooks in marimo."""

import argparse
from typing import Any

from simlab.cli.options import add_server
from simlab.cli.parser import add_command
from simlab.cli.values import read_path


def add_to(commands: Any) -> None:
    """Add the subcommand."""
    parser = add_command(
        commands,
        "notebooks",
        summary="open the notebooks in marimo",
        about=(
            "Open the notebooks in marimo, on this machine alone (127.0.0.1). Those of a checkout are opened where\n"
            "they are; an installed package copies them first, and never over a file that is there."
        ),
        examples=["simlab notebooks", "simlab notebooks --list", "simlab notebooks --folder copies --no-browser"],
        run=_notebooks,
    )
    parser.add_argument("--list", action="store_true", help="say what each is about, and exit")
    parser.add_argument(
        "--folder",
        type=read_path,
        metavar="FOLDER",
        help="where to work on copies (default the checkout's own, or simlab-notebooks)",
    )
    add_server(parser, "2718, or the next that is free")


def _notebooks(options: argparse.Namespace) -> int:
    from simlab.bundled import bundled_folder
    from simlab.notebooks import check_marimo, check_port, notebooks, open_in_marimo, working_folder

    if options.list:
        listed = notebooks(bundled_folder("notebooks"))
        print(*(f"{name:26}{about}" for name, about in listed.items()), sep="\n")
        return 0
    if options.port is not None:
        check_port(options.port)
    check_marimo()
    folder = working_folder(options.folder)
    print(f"notebooks  {folder}")
    open_in_marimo(folder, options.port, browser=not options.no_browser)
