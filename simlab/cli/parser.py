"""Make a parser from dataclasses: each subcommand is one, whose fields are its options.

A field's type says how its text is read, ``option`` and ``argument`` say what stands in the help:

    class MergeCommand(Command):
        '''Join the shards of a sweep into one result.'''

        out: Path = argument("OUT", "result to write", read=read_file)
        seeds: int | None = option("number of seeds", "N")
        overwrite: bool = switch("replace the result of another sweep at OUT")

reads ``simlab merge OUT [--seeds N] [--overwrite]``.
"""

import argparse
import dataclasses
import importlib
import inspect
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NoReturn, dataclass_transform, get_args

from simlab.errors import InputError, did_you_mean, nearest

Read = Callable[[str], Any]


def option(
    about: str,
    metavar: str | None = None,
    default: Any = None,
    *,
    read: Read | None = None,
    flag: str | None = None,
    bare: Any = None,
) -> Any:
    """Declare an option: its help, the word for its value there, and its default; () for a tuple given one by one.

    ``read`` turns the text into the value, ``flag`` is another name than the field's, ``bare`` the option alone.
    """
    declared = {"about": about, "metavar": metavar, "read": read, "flag": flag, "bare": bare}
    return dataclasses.field(default=default, metadata=declared)


def switch(about: str) -> Any:
    """Declare an option without a value, which is False unless it is given."""
    return option(about, default=False)


def argument(metavar: str, about: str, default: Any = dataclasses.MISSING, *, read: Read | None = None) -> Any:
    """Declare an argument without a name; of a tuple's type it takes all texts, one or more where it is required."""
    return dataclasses.field(default=default, metadata={"about": about, "metavar": metavar, "read": read})


@dataclass_transform(kw_only_default=True, field_specifiers=(option, switch, argument))
@dataclasses.dataclass(kw_only=True)
class Command:
    """A subcommand. Its docstring is the description in the help, and its fields are the options.

    Attributes:
        summary: one line of ``simlab --help``.
        examples: command lines, which stand at the end of the help.
        headings: the first option below each heading in the help, and the heading.
        exclusive: fields one after the other, of which one at most may be given.
        interrupted: what a Ctrl-C leaves, for the message.
    """

    summary: ClassVar[str]
    examples: ClassVar[Sequence[str]]
    headings: ClassVar[Sequence[tuple[str, str]]] = ()
    exclusive: ClassVar[Sequence[tuple[str, ...]]] = ()
    interrupted: ClassVar[str] = "finished parts are kept, the same command goes on from them"

    def __init_subclass__(cls) -> None:
        dataclasses.dataclass(kw_only=True)(cls)

    def run(self) -> int | None:
        """Do the work; returns the exit code, None for 0."""
        raise NotImplementedError


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are one line, and whose help is 110 columns wide."""

    def __init__(self, **options: Any):
        def wide(prog: str) -> argparse.HelpFormatter:
            return argparse.RawDescriptionHelpFormatter(prog, max_help_position=32, width=110)

        super().__init__(**options, formatter_class=wide, allow_abbrev=False)
        # As Python 3.14 has it: "-1,0" is a value and no option, so that a complaint can say what is wrong with it.
        self._negative_number_matcher = re.compile(r"-\.?\d")

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing usage and exiting."""
        raise InputError(f"{message} (see {self.prog} --help)")

    def flags(self) -> list[str]:
        """Return the options that it takes, such as ``--seeds``."""
        return sorted(self._option_string_actions)


def add_command(commands: Any, name: str, command: type[Command]) -> None:
    """Add a subcommand with the options of its fields; the parsed ``run`` does its work."""
    about, examples = inspect.cleandoc(command.__doc__ or ""), "\n  ".join(["examples:", *command.examples])
    parser: Parser = commands.add_parser(name, help=command.summary, description=about, epilog=examples)

    def run(namespace: argparse.Namespace) -> int | None:
        values = {field.name: getattr(namespace, field.name) for field in dataclasses.fields(command)}
        tuples = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
        return command(**values | tuples).run()

    parser.set_defaults(run=run, interrupted=command.interrupted)
    group: Any = parser
    headings, exclusive = dict(command.headings), {name: names for names in command.exclusive for name in names}
    together: Any = None
    for field in dataclasses.fields(command):
        if field.name in headings:
            group = parser.add_argument_group(headings[field.name])
        if exclusive.get(field.name, ("",))[0] == field.name:
            together = group.add_mutually_exclusive_group()
        names, options = _as_argparse(field)
        (together if field.name in exclusive else group).add_argument(*names, **options)


def _as_argparse(field: dataclasses.Field) -> tuple[list[str], dict[str, Any]]:
    declared, kinds = field.metadata, get_args(field.type) or (field.type,)
    options: dict[str, Any] = {"help": declared["about"], "metavar": declared["metavar"], "default": field.default}
    is_list, required = kinds[-1] is Ellipsis, field.default is dataclasses.MISSING
    if field.type is not bool:
        options["type"] = declared["read"] or next((read for kind, read in READERS.items() if kind in kinds), str)
    if required:
        del options["default"]
    if "flag" not in declared:
        if is_list or not required:
            options["nargs"] = "?" if not is_list else "+" if required else "*"
        return [field.name], options
    if field.type is bool:
        options |= {"action": "store_true"}
        del options["metavar"]
    elif is_list:
        options |= {"action": "append", "default": []}
    elif declared["bare"] is not None:
        options |= {"nargs": "?", "const": declared["bare"]}
    return [f"--{declared['flag'] or field.name.replace('_', '-')}"], options | {"dest": field.name}


def parsed(parser: Parser, commands: Mapping[str, Parser], arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments."""
    if arguments and not arguments[0].startswith("-") and arguments[0] not in commands:
        hint = did_you_mean(arguments[0], commands)
        raise InputError(f"unknown command {arguments[0]!r}{hint}; allowed: {', '.join(commands)}")
    if empty := next((text for text in arguments if text.endswith("=--")), None):  # argparse would drop the option
        raise InputError(f"{empty} gives no value; see {parser.prog} --help")
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        name, _, _ = unknown[0].partition("=")
        parser = commands[options.command] if options.command else parser
        near = nearest(name.lstrip("-"), [flag.lstrip("-") for flag in parser.flags()])
        hint = f" (did you mean '--{near}'?)" if near else ""
        problem = f"has no option {name}{hint}" if name.startswith("-") else f"takes no argument {unknown[0]!r}"
        raise InputError(f"{parser.prog} {problem}; see {parser.prog} --help")
    return options


def read_path(text: str) -> Path:
    """Read the name of a file or folder."""
    if not text:
        raise argparse.ArgumentTypeError(f"{text!r} is no path; allowed: the name of a file or folder")
    return Path(text)


def _read_as(kind: type, allowed: str) -> Read:

    def read(text: str) -> Any:
        from simlab.text import read_as  # imports NumPy, which --help does not need

        try:
            return read_as(kind, text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} cannot be read; allowed: {allowed}") from None

    return read


READERS: Mapping[Any, Read] = {
    int: _read_as(int, "a whole number"),
    float: _read_as(float, "a number"),
    Path: read_path,
}


def read_file(text: str) -> Path:
    """Read the name of a file, which does not end as that of a folder does."""
    if text.endswith(("/", os.sep)):
        raise argparse.ArgumentTypeError(f"{text!r} is a folder; allowed: a file, such as {text}sweep.nc")
    return read_path(text)


def read_by(place: str) -> Read:
    """Make a reader of ``module:function``, which is imported when it is used; its errors name the option."""

    def read(text: str) -> Any:
        module, _, name = place.partition(":")
        try:
            return getattr(importlib.import_module(module), name)(text)
        except InputError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read


WORDS, NUMBERS = read_by("simlab.sweeps.parameters:expand"), read_by("simlab.sweeps.parameters:whole_numbers")
