"""The options that several subcommands share: each is spelled, and its value read, in one place."""

import argparse
from pathlib import Path
from typing import Any

from simlab.cli.values import read_file, read_path, read_whole

Group = argparse.ArgumentParser | Any  # or a group of its options, whose class argparse does not name in public


def add_seeds(group: Group) -> None:
    """``--seeds N``."""
    group.add_argument("--seeds", type=read_whole, metavar="N", help="number of seeds")


def add_steps(group: Group, about: str) -> None:
    """``--steps N``."""
    group.add_argument("--steps", type=read_whole, metavar="N", help=about)


def add_arms(group: Group, about: str) -> None:
    """``--arms ARMS``."""
    group.add_argument("--arms", metavar="ARMS", help=about)


def add_preset(group: Group, about: str) -> None:
    """``--preset NAME``."""
    group.add_argument("--preset", metavar="NAME", help=about)


def add_param(group: Group, metavar: str, about: str) -> None:
    """``--param``, as often as there are parameters to set."""
    group.add_argument("--param", action="append", default=[], metavar=metavar, help=about)


def add_columns(group: Group, about: str) -> None:
    """``--columns ROLE=NAME,...``."""
    group.add_argument("--columns", metavar="ROLE=NAME,...", help=about)


def add_baseline(group: Group, metavar: str, about: str) -> None:
    """``--baseline``."""
    group.add_argument("--baseline", metavar=metavar, help=about)


def add_out(group: Group, metavar: str, default: str, about: str) -> None:
    """``--out``: where what is made is put."""
    group.add_argument(
        "--out", type=read_path, default=Path(default), metavar=metavar, help=f"{about} (default {default})"
    )


def add_figure(group: Group, default: str) -> None:
    """``--figure FILE``."""
    group.add_argument(
        "--figure", type=read_file, metavar="FILE", help=f"figure: .png, .svg or .pdf (default {default})"
    )


def add_overwrite(group: Group, about: str) -> None:
    """``--overwrite``."""
    group.add_argument("--overwrite", action="store_true", help=about)


def add_json(group: Group, about: str) -> None:
    """``--json FILE``."""
    group.add_argument("--json", type=read_file, metavar="FILE", help=about)


def add_html(group: Group, about: str) -> None:
    """``--html FILE``."""
    group.add_argument("--html", type=read_file, metavar="FILE", help=about)


def add_server(group: Group, port: str) -> None:
    """``--port N`` and ``--no-browser``, of what serves a page."""
    group.add_argument("--port", type=read_whole, metavar="N", help=f"port of the page (default {port})")
    group.add_argument("--no-browser", action="store_true", help="only print the address")
