"""``simlab estimators``: list the estimators."""

import argparse
import json
from typing import Any

from simlab.cli.parser import add_command


def add_to(commands: Any) -> None:
    """Add the subcommand."""
    parser = add_command(
        commands,
        "estimators",
        summary="list the estimators",
        about="List the estimators: names for --estimator, parameters for --param, and what each does.",
        examples=["simlab estimators", "simlab estimators --markdown > estimators.md"],
        run=_estimators,
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="as JSON")
    form.add_argument("--markdown", action="store_true", help="as a table with formulas, masses, signs and peaks")


def _estimators(options: argparse.Namespace) -> int:
    from simlab.estimators_table import as_entries, markdown_table, plain_list

    if options.json:
        print(json.dumps(as_entries(), indent=1))
    else:
        print(markdown_table() if options.markdown else plain_list())
    return 0
