"""Make the numbers of a figure anew, by the commands that its script begins with."""

import contextlib
import importlib
import re
import runpy
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from unittest import mock

from figures.shared.condensed import kept_in
from figures.shared.registry import Script
from simlab.errors import InputError
from simlab.files import make_folder

# What prints a table, or gives numbers to others than the figure.
_BESIDE = {"--table", "--tables", "--decompose", "--explorer"}


def recipe(script: Script) -> list[list[str]]:
    """The commands that make a figure's numbers, as the first lines of its script name them, each as its words.

    Empty for a figure that is drawn from formulas, or from the numbers of another.
    """
    if script.data is None:
        return []
    text = re.sub(r"\\?\n\s+(?=--)", " ", str(script.module.__doc__))
    lines = [re.sub(r"\s{2,}\(.*", "", line.strip()) for line in text.splitlines()]
    commands = [shlex.split(line) for line in lines if line.startswith(("simlab ", "python -m figures."))]
    return [words for words in commands if words[1] != "figures" and not _BESIDE & set(words)]


def rerun(script: Script, folder: Path, simlab: Callable[[Sequence[str]], int]) -> int:
    """Run a figure's recipe in ``folder``, where its condensed numbers are left under the name that they have here.

    Sweeps and training runs that ``folder`` holds, finished or not, are gone on with.

    Args:
        script: the figure.
        folder: where to work.
        simlab: runs a ``simlab`` command, see ``simlab.cli.main``.

    Returns:
        The exit code of the first command that fails, or 0.

    Raises:
        InputError: for a figure without a recipe, and a folder that cannot be written.
    """
    commands = recipe(script)
    if not commands:
        why = "formulas, computed each time" if script.data is None else f"{script.data.stem}'s numbers"
        raise InputError(f"{script.name} is drawn from {why}: it has no runs of its own to make anew")
    make_folder(folder)
    with contextlib.chdir(folder), kept_in(Path.cwd()):
        for words in commands:
            print(f"running {shlex.join(words)}", flush=True)
            if words[0] == "simlab":
                if code := simlab(words[1:]):
                    return code
            else:
                with mock.patch.object(sys, "argv", words[2:]):
                    runpy.run_path(str(importlib.import_module(words[2]).__file__), run_name="__main__")
    return 0
