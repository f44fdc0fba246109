"""``simlab where``: find the code of an equation, lemma or claim."""

import argparse
from typing import Any

from simlab.cli.parser import add_command


def add_to(commands: Any) -> None:
    """Add the subcommand."""
    parser = add_command(
        commands,
        "where",
        summary="find the code of an equation, lemma or claim",
        about="List the lines of code, checks, figures and tests that carry the tag of an equation, lemma or claim.",
        examples=["simlab where f-grpo lemma-3.1", "simlab where fade eq-7"],
        run=_where,
    )
    parser.add_argument("paper", metavar="PAPER", help="f-grpo, a-grae, cw-grpo, fade, casp, brorl or simlab")
    parser.add_argument("tag", metavar="TAG", help="such as eq-12, lemma-3.1, app-j; a wrong one names the nearest")


def _where(options: argparse.Namespace) -> int:
    from simlab.find_tag import describe, find, roots

    print(describe(find(options.paper, options.tag, roots())))
    return 0
