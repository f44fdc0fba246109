"""``simlab docs``: build the documentation and show it in a browser."""

import argparse
from pathlib import Path
from typing import Any

from simlab.cli.options import add_out, add_server
from simlab.cli.parser import add_command
from simlab.errors import check_range


def add_to(commands: Any) -> None:
    """Add the subcommand."""
    parser = add_command(
        commands,
        "docs",
        summary="build the documentation and open it",
        about="Build the documentation of a checkout, without the network, and show it on this machine alone.",
        examples=["simlab docs", "simlab docs --out site --no-browser"],
        run=_docs,
    )
    add_out(parser, "FOLDER", "site", "folder of the pages, whose content is replaced")
    add_server(parser, "any that is free")


def _docs(options: argparse.Namespace) -> int:
    from simlab.docs_site import build_site, check_docs, check_folder, serve

    if options.port is not None:
        check_range("port", options.port, 0, 65535)
    check_docs()
    check_folder(options.out)
    folder: Path = options.out
    build_site(folder)
    serve(folder, options.port, browser=not options.no_browser)
    return 0
