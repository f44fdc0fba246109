"""The command line as a newcomer meets it: what it says first, its help, its options, and what a shell completes."""

import argparse
import shlex
import subprocess
from pathlib import Path

import pytest

from simlab.cli import build_parser, main
from simlab.cli.library import SHELLS
from simlab.cli.parser import Command, Parser, add_command, argument, option, switch
from simlab.errors import InputError
from simlab.simulator.settings import Settings
from simlab.sweeps.grid import RUN_PARAMETERS, Sweep
from simlab.sweeps.parameters import WORDS, parameter_table

PARSER, COMMANDS = build_parser()


class ToyCommand(Command):
    """About."""

    summary, examples = "a toy", ()
    headings = (("rate", "numbers"),)

    paths: tuple[Path, ...] = argument("PATH", "paths")
    again: bool = switch("again")
    rate: float | None = option("rate", "X", bare=0.5)
    seeds: int = option("seeds", "N", 4)
    param: tuple[str, ...] = option("parameters", "P", ())
    first: str | None = option("from where", "F", flag="from")

    def run(self):
        seen.append(self)


seen: list[ToyCommand] = []
TWO_SCREENS = 72  # lines
# One word in one subcommand and a list of them in another, or a column in a log and a function of one's own.
OTHERWISE = {"--estimator", "--group-size", "--learning-rate", "--param", "--reward", "--baseline", "--out", "--json"}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a", {}),
        ("a b --again", {"paths": (Path("a"), Path("b")), "again": True}),
        ("--rate --from x a --rate", {"rate": 0.5, "first": "x"}),
        ("a --rate 3 --seeds -1", {"rate": 3.0, "seeds": -1}),
        ("a --param x --param y=1", {"param": ("x", "y=1")}),
    ],
)
def test_the_fields_of_a_command_are_its_options(line, expected):
    parser = Parser(prog="toys")
    add_command(parser.add_subparsers(parser_class=Parser), "toy", ToyCommand)
    options = parser.parse_args(["toy", *line.split()])
    options.run(options)
    assert seen[-1] == ToyCommand(**{"paths": (Path("a"),), **expected})
    for wrong in ("toy", "toy a --seeds x", "toy a --rate x"):
        with pytest.raises(InputError):
            parser.parse_args(wrong.split())


def test_the_command_alone_says_what_to_try_first(capsys):
    assert main([]) == 0
    shown = capsys.readouterr().out
    lines = [line.split("   ")[0].strip() for line in shown.splitlines() if line.startswith("  simlab")]
    assert len(lines) > 3
    for line in lines:
        assert PARSER.parse_args(shlex.split(line)[1:]).run


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_subcommand_fits_two_screens_and_has_examples_that_are_understood(name):
    text = COMMANDS[name].format_help()
    assert len(text.splitlines()) <= TWO_SCREENS
    assert max(map(len, text.splitlines())) <= 116
    _, _, examples = text.partition("examples:\n")
    lines = [line.split("   ")[0] for line in examples.replace("; ", "\n").splitlines()]
    commands = [line[line.index("simlab ") :].split(")")[0].split(" > ")[0].split(" | ")[0] for line in lines]
    assert commands
    for command in commands:
        assert PARSER.parse_args(shlex.split(command)[1:]).command


def test_an_option_of_several_subcommands_is_spelled_and_explained_alike():
    uses = {}
    for command in COMMANDS.values():
        for action in command._actions:
            for flag in action.option_strings:
                if action.help != argparse.SUPPRESS:
                    uses.setdefault(flag, []).append((action.metavar, type(action).__name__))
    shared = {flag: set(forms) for flag, forms in uses.items() if len(forms) > 1 and flag not in OTHERWISE}
    assert len(shared) > 10
    assert {flag: forms for flag, forms in shared.items() if len(forms) > 1} == {}


def test_every_parameter_of_a_run_is_explained(capsys):
    assert set(RUN_PARAMETERS) <= set(WORDS)
    assert main(["sweep", "--parameters", "--estimator", "f_grpo", "--problem", "tree"]) == 0
    shown = {line.split()[0]: line.split()[1] for line in capsys.readouterr().out.splitlines()[1:] if line}
    assert shown["estimator.gamma"] == "1.0"
    assert shown["problem.depth"] == "3"
    assert float(shown["run.temperature"]) == Settings(method="grpo").temperature
    assert set(shown) == set(Sweep(problem="tree").known_parameters())
    assert parameter_table(Sweep()).startswith("--param NAME=LIST")


@pytest.mark.parametrize("shell", SHELLS)
def test_the_completion_of_a_shell_names_every_command_and_option(capsys, shell):
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for name, command in COMMANDS.items():
        assert name in script
        assert [flag for flag in command.flags() if flag[:2] == "--" and flag.removeprefix("--") not in script] == []


def test_bash_completes_a_command_and_an_option(capsys):
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    for typed, completed in ((["simlab", "sw"], "sweep"), (["simlab", "sweep", "--est"], "--estimator")):
        program = (
            f'{script}\nCOMP_WORDS=({" ".join(typed)}); COMP_CWORD={len(typed) - 1}; _simlab; echo "${{COMPREPLY[@]}}"'
        )
        ran = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)
        assert ran.stdout.split() == [completed]
