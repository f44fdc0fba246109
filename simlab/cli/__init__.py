"""The ``simlab`` command: a module a subcommand, each of which imports the heavy libraries when it runs."""

import argparse
import sys
from collections.abc import Sequence

import simlab
from simlab.cli import (
    check,
    compare,
    completion,
    diagnose,
    docs,
    estimators,
    explore,
    figures,
    fit,
    merge,
    notebooks,
    rollouts,
    sweep,
    train,
    where,
)
from simlab.cli.parser import Parser, parsed
from simlab.cli.streams import check_streams, complain, give_up_output
from simlab.errors import InputError

_WELCOME = """simlab: a laboratory for policy-gradient weights in RLVR. To begin:

  simlab sweep                                         what group size and focal weight do to correct answers (30 s)
  simlab explore                                       the same and more on a page, as you drag
  simlab sweep --estimator grpo,maxrl --group-size 8   two estimators on one problem
  simlab diagnose LOGS                                 what the logs of your own training run tell
  simlab train                                         train a small language model by two methods (minutes)

simlab estimators lists the weights, simlab --help all commands, simlab COMMAND --help one, with examples."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; its exit code: 0, 1 for verdicts other than recorded, 2 for bad input, 130 when interrupted."""
    try:
        check_streams()
        options = _options(sys.argv[1:] if arguments is None else arguments)
        code = int(options.run(options))
        sys.stdout.flush()
        return code
    except InputError as error:
        return complain(str(error), 2)
    except MemoryError:
        return complain("the machine has too little memory for this; use fewer actions or a smaller group", 2)
    except KeyboardInterrupt:
        return complain("interrupted; finished parts are kept, the same command goes on from them", 130)
    except OSError as error:
        give_up_output()
        return 0 if isinstance(error, BrokenPipeError) else complain(str(error), 2)


def _welcome(_options: argparse.Namespace) -> int:
    print(_WELCOME)
    return 0


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser, commands = build_parser()
    return parsed(parser, commands, arguments)


def _parser() -> argparse.ArgumentParser:
    return build_parser()[0]


def build_parser() -> tuple[Parser, dict[str, Parser]]:
    """The parser of the command, and those of its subcommands by name."""
    about = "A laboratory for policy-gradient weights in RLVR. simlab COMMAND --help shows options and examples."
    parser = Parser(prog="simlab", description=about)
    parser.add_argument("--version", action="version", version=f"simlab {simlab.__version__}")
    parser.set_defaults(run=_welcome)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands", parser_class=Parser)
    for module in (
        *(sweep, merge, fit, estimators, where, check, figures, explore),
        *(train, compare, rollouts, diagnose, notebooks, docs, completion),
    ):
        module.add_to(commands)
    return parser, dict(commands.choices)
