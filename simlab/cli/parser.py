"""The parser of the command: its complaints are one line with a suggestion, and its help is wide."""

import argparse
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from simlab.errors import InputError, did_you_mean


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are one line."""

    def __init__(self, *arguments: Any, **options: Any):
        super().__init__(*arguments, **options)
        self.formatter_class = Wide
        # As Python 3.14 has it: "-1,0" is a value and no option, so that a complaint can say what is wrong with it.
        self._negative_number_matcher = re.compile(r"-\.?\d")

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing usage and exiting."""
        raise InputError(f"{message} (see {self.prog} --help)")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """End after --help, once that is written: Python would complain in several lines if it cannot be."""
        sys.stdout.flush()
        super().exit(status, message)

    def flags(self) -> list[str]:
        """The options that it takes, such as ``--seeds``."""
        return sorted(self._option_string_actions)


class Wide(argparse.RawDescriptionHelpFormatter):
    """Help of 110 columns, whose description and examples are printed as they stand."""

    def __init__(self, prog: str):
        super().__init__(prog, max_help_position=32, width=110)


def add_command(
    commands: Any,
    name: str,
    *,
    summary: str,
    about: str,
    examples: Sequence[str],
    run: Callable[[argparse.Namespace], int],
) -> Parser:
    """Add a subcommand and return its parser, to which options are to be added.

    Args:
        commands: what ``add_subparsers`` returned.
        name: the name of the subcommand.
        summary: one line of ``simlab --help``.
        about: what stands above its options.
        examples: command lines, which stand below them.
        run: does the work, and returns the exit code.
    """
    shown = "\n".join(["examples:", *(f"  {line}" for line in examples)])
    parser: Parser = commands.add_parser(name, help=summary, description=about, epilog=shown)
    parser.set_defaults(run=run)
    return parser


def parsed(parser: Parser, commands: Mapping[str, Parser], arguments: Sequence[str]) -> argparse.Namespace:
    """The options that the arguments name.

    Raises:
        InputError: for a subcommand, an option or a value that there is not; it names the nearest.
    """
    _check_values(arguments)
    if arguments and not arguments[0].startswith("-"):
        _check_command(arguments[0], commands)
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        _refuse(unknown[0], commands[options.command] if options.command else parser)
    return options


def _check_values(arguments: Sequence[str]) -> None:
    """Refuse an option with the value ``--``: argparse would make a list of it."""
    for argument in arguments:
        name, _, value = argument.partition("=")
        if name.startswith("--") and value == "--":
            raise InputError(f"argument {name}: '--' is no value")


def _check_command(name: str, commands: Mapping[str, Parser]) -> None:
    if name not in commands:
        allowed = ", ".join(commands)
        raise InputError(f"unknown command {name!r}{did_you_mean(name, commands)}; allowed: {allowed}")


def _refuse(argument: str, parser: Parser) -> NoReturn:
    """Complain of what the parser takes no argument for."""
    name = argument.partition("=")[0]
    if not name.startswith("-"):
        raise InputError(f"unexpected argument {argument!r}; see {parser.prog} --help")
    hint = did_you_mean(name, parser.flags())
    raise InputError(f"{parser.prog} has no option {name}{hint}; see {parser.prog} --help")
