"""A small sweep, as options of the command and as Python, and ways to run the command and to read what it leaves."""

import os
import subprocess
import sys

from refusals import refusal  # noqa: F401  # for the tests of sweeps

from simlab import cli
from simlab.sweeps.options import build_sweeps
from simlab.sweeps.run import parts_folder

TINY = ("--param", "actions=60", "--param", "correct=6", "--steps", "20", "--record-every", "10")
SMALL = (*TINY, "--estimator", "f_grpo,dr_grpo", "--group-size", "2,4", "--gamma", "0,1", "--seeds", "12")
# 2 estimators x 2 group sizes x 2 gammas x 2 blocks of seeds, less dr_grpo's units at a second gamma: it has none.
SMALL_UNITS = 12


def asked(*arguments):
    """The one sweep that a command line asks for."""
    (sweep,) = build_sweeps(cli.build_parser()[0].parse_args(["sweep", *map(str, arguments)])).values()
    return sweep


def parts_of(out):
    """The finished parts of a result: content by name."""
    return {path.name: path.read_bytes() for path in parts_folder(out).glob("*.npz")}


def start(*arguments, program=("-m", "simlab.cli"), **options):
    """Start the command in a process of its own."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | options
    # JAX would say on stderr that it leaves a GPU alone; output is buffered unless someone asked for the contrary.
    environment = {"JAX_PLATFORMS": "cpu"} | os.environ | {"PYTHONUNBUFFERED": ""}
    return subprocess.Popen([sys.executable, *program, *map(str, arguments)], env=environment, **pipes)


def command(*arguments, **options):
    """Run the command in a process of its own: its exit code, output and complaints."""
    process = start(*arguments, **options)
    output, complaints = process.communicate()
    return process.returncode, output, complaints
