"""The ``simlab`` command: subcommands by subject, each of which imports the heavy libraries when it runs."""

import io
import os
import sys
from collections.abc import Sequence

import simlab
from simlab.cli import library, simulate, training
from simlab.cli.parser import Command, Parser, add_command, parsed
from simlab.errors import InputError, one_line

NAMES = (
    "sweep merge fit estimators alike challenge where check figures explore train compare rollouts diagnose notebooks "
    "docs completion"
)
TRACEBACK = "--traceback"  # anywhere in a command
CLASSES = vars(simulate) | vars(library) | vars(training)
COMMANDS: dict[str, type[Command]] = {name: CLASSES[f"{name.capitalize()}Command"] for name in NAMES.split()}
_WELCOME = """simlab: a laboratory for policy-gradient weights in RLVR. To begin:

  simlab sweep                                         what group size and focal weight do to correct answers (30 s)
  simlab explore                                       the same and more on a page, as you drag
  simlab sweep --estimator grpo,maxrl --group-size 8   two estimators on one problem
  simlab diagnose LOGS                                 what the logs of your own training run tell
  simlab train                                         train a small language model by two methods (minutes)

simlab estimators lists the weights, simlab --help all commands, simlab COMMAND --help one, with examples."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; its exit code: 0, 1 for verdicts other than recorded, 2 for bad input, 130 when interrupted."""
    interrupted = Command.interrupted
    arguments = [*(sys.argv[1:] if arguments is None else arguments)]
    if shows_traceback := TRACEBACK in arguments:
        arguments.remove(TRACEBACK)
    try:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")  # a path may have letters that the terminal has not
        parser, commands = build_parser()
        options = parsed(parser, commands, arguments)
        interrupted = options.interrupted
        code = options.run(options)
        sys.stdout.flush()
        return code or 0
    except InputError as error:
        return _complain(str(error), 2)
    except MemoryError:
        return _complain("the machine has too little memory for this; use fewer actions or a smaller group", 2)
    except KeyboardInterrupt:
        return _complain(f"interrupted; {interrupted}", 130)
    except OSError as error:
        try:
            sys.stdout.flush()
        except OSError:  # what cannot be written could not be when Python exits either
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        described = _of_own_file(error)
        if described and shows_traceback:
            raise
        return 0 if isinstance(error, BrokenPipeError) else _complain(described or str(error), 2)
    except (Exception, SystemExit) as error:
        described = None if shows_traceback else _of_own_file(error)
        if described is None:
            raise
        return _complain(described, 2)


def _of_own_file(error: BaseException) -> str | None:
    """Describe an error from the code of a user's file; None for any other, and where no such file was loaded."""
    own_files = sys.modules.get("simlab.own_files")
    described = own_files and own_files.raised_in_own_file(error)
    return str(described) if described else None


def build_parser() -> tuple[Parser, dict[str, Parser]]:
    """Make the parser of the command, and those of its subcommands by name."""
    about = "A laboratory for policy-gradient weights in RLVR. simlab COMMAND --help shows options and examples."
    parser = Parser(prog="simlab", description=about)
    parser.add_argument("--version", action="version", version=f"simlab {simlab.__version__}")
    parser.add_argument(TRACEBACK, action="store_true", help="show the whole traceback of an error in a file of yours")
    parser.set_defaults(run=lambda _: print(_WELCOME), interrupted="")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands", parser_class=Parser)
    for name, command in COMMANDS.items():
        add_command(commands, name, command)
    return parser, dict(commands.choices)


def _complain(message: str, code: int) -> int:
    print(f"simlab: {one_line(message)}", file=sys.stderr)
    return code
