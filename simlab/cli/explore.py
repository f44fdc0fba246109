"""``simlab explore``: serve the page of panels, or write it into a file."""

import argparse
from typing import Any

from simlab.cli.options import add_preset, add_server
from simlab.cli.parser import add_command
from simlab.cli.values import read_path
from simlab.errors import InputError, check_range


def add_to(commands: Any) -> None:
    """Add the subcommand."""
    parser = add_command(
        commands,
        "explore",
        summary="look and drag: weights, tail miss, simulations, on a page",
        about=(
            "Serve a page of panels on the loopback interface and print its address; no request leaves the machine.\n"
            "Closed forms redraw as you drag; simulations run in a process of their own, compiled at start."
        ),
        examples=[
            "simlab explore",
            "simlab explore --preset f-grpo-fig2",
            "simlab explore --estimator mine.py:weight",
            "simlab explore sweep.nc",
            "simlab explore run/",
            "simlab explore --export page.html",
        ],
        run=_explore,
    )
    parser.add_argument(
        "results",
        nargs="*",
        type=read_path,
        metavar="RESULT",
        help="results to open: a sweep's result.nc, the folder of a training run, the report.json of a diagnosis",
    )
    add_preset(parser, "open a view named after a figure; a wrong name lists all")
    parser.add_argument("--estimator", metavar="LIST", help="estimators of your own to choose: mine.py:weight")
    add_server(parser, "8737, or any that is free if it is taken; 0: any that is free")
    parser.add_argument(
        "--export",
        type=read_path,
        metavar="FILE",
        help="write the closed forms and the map of interference as one .html file that needs no server",
    )


def _explore(options: argparse.Namespace) -> int:
    from simlab.grammar import split

    if options.port is not None:
        check_range("port", options.port, 0, 65535)
    try:
        from simlab.explore.html import export
        from simlab.explore.presets import preset
        from simlab.explore.server import serve
    except ModuleNotFoundError as error:
        missing = str(error.name).partition(".")[0]
        if missing not in {"starlette", "uvicorn"}:
            raise
        raise InputError(f'explore needs {missing}; install it with: pip install "simlab[explore]"') from None
    if options.preset is not None:
        preset(options.preset)
    if options.export is not None:
        if options.preset is not None:
            raise InputError(f"--export takes no --preset; allowed: the file's address with ?preset={options.preset}")
        if options.results:
            raise InputError("--export takes no result: its page has no server to read it; allowed: without --export")
        if options.estimator is not None:
            raise InputError("--export takes no --estimator: its page simulates nothing; allowed: without --export")
        export(options.export)
        print(f"page    {options.export}")
        return 0
    view = f"preset={options.preset}" if options.preset else "panel=results" if options.results else ""
    own = split(options.estimator) if options.estimator is not None else ()
    serve(options.port, browser=not options.no_browser, view=view, own=own, files=tuple(options.results))
    return 0
