"""Run a ``simlab`` command in a process of its own, and tell how much memory it took at most."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from typing import NamedTuple


class Child(NamedTuple):
    """The outcome of a process.

    Attributes:
        peak: bytes, the ``ru_maxrss`` that the system reports of it and its children; never less than the calling
            process held at its start.
        code: its exit code.
        output: its stdout.
        complaint: the last line of its stderr.
    """

    peak: int
    code: int
    output: str
    complaint: str


def run_simlab(arguments: list[str], environment: Mapping[str, str] | None = None) -> Child:
    """Run ``simlab`` with these arguments to its end, with variables added to this process's."""
    command, variables = [sys.executable, "-m", "simlab.cli", *arguments], {**os.environ, **(environment or {})}
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        # Not subprocess.run: only wait4 gives the peak of this one child.
        process = subprocess.Popen(command, stdout=output, stderr=errors, env=variables)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        for file in (output, errors):
            file.seek(0)
        lines = errors.read().decode().strip().splitlines()
        return Child(usage.ru_maxrss * 1024, process.returncode, output.read().decode(), lines[-1] if lines else "")
