"""``simlab completion``: what a shell needs to complete commands and options."""

import argparse
from typing import Any

from simlab.cli.parser import add_command
from simlab.errors import check_choice

_BASH = """_simlab() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} options=
    if [ "$COMP_CWORD" -gt 1 ]; then
        case ${{COMP_WORDS[1]}} in
{cases}
        esac
        case $word in -*) COMPREPLY=($(compgen -W "$options" -- "$word")) ;; *) COMPREPLY=() ;; esac
    else
        COMPREPLY=($(compgen -W "{commands}" -- "$word"))
    fi
}}
complete -o default -F _simlab simlab"""
_CASE = '            {name}) options="{flags}" ;;'
_ZSH = "autoload -U +X bashcompinit && bashcompinit\n"  # zsh reads bash's
SHELLS = ("bash", "zsh", "fish")


def add_to(commands: Any) -> None:
    """Add the subcommand."""
    parser = add_command(
        commands,
        "completion",
        summary="print the completion of commands and options for a shell",
        about="Print what a shell reads to complete simlab's commands and options by the tab key.",
        examples=[
            'eval "$(simlab completion bash)"     in ~/.bashrc',
            'eval "$(simlab completion zsh)"      in ~/.zshrc, after compinit',
            "simlab completion fish | source      in ~/.config/fish/config.fish",
        ],
        run=_completion,
    )
    parser.add_argument("shell", metavar="SHELL", help="bash, zsh or fish")


def _completion(options: argparse.Namespace) -> int:
    from simlab.cli import build_parser

    check_choice("shell", options.shell, SHELLS)
    _, commands = build_parser()
    flags = {name: [flag for flag in parser.flags() if flag.startswith("--")] for name, parser in commands.items()}
    print(_fish(flags) if options.shell == "fish" else (_ZSH if options.shell == "zsh" else "") + _bash(flags))
    return 0


def _bash(flags: dict[str, list[str]]) -> str:
    cases = "\n".join(_CASE.format(name=name, flags=" ".join(own)) for name, own in flags.items())
    return _BASH.format(cases=cases, commands=" ".join(flags))


def _fish(flags: dict[str, list[str]]) -> str:
    lines = [f"complete -c simlab -n __fish_use_subcommand -f -a {name}" for name in flags]
    for name, own in flags.items():
        seen = f"'__fish_seen_subcommand_from {name}'"
        lines += [f"complete -c simlab -n {seen} -l {flag.removeprefix('--')}" for flag in own]
    return "\n".join(lines)
