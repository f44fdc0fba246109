"""List the figures, as their scripts describe them."""

import importlib
import json
import pkgutil
import re
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from matplotlib.figure import Figure

import figures
from simlab.errors import check_choice

_TAGS = re.compile(r"\[([a-z-]+:[a-z0-9.-]+)\]")


@dataclass(frozen=True)
class Script:
    """One figure.

    Attributes:
        name: of its script and files, such as ``"f_grpo_fig3"``.
        title: what it shows, the first line of the script.
        message: what is to be seen in it, its headline.
        tags: of the paper's figures and statements that it shows, such as ``"f-grpo:fig-3"``.
        differs: what differs from the paper's figure and why, one line.
        configuration: what its numbers come from: the settings of formulas, or the provenance of runs.
        module: the script.
        given: what it is drawn from.
        data: the file of these numbers, None if it is drawn from formulas.
    """

    name: str
    title: str
    message: str
    tags: tuple[str, ...]
    differs: str
    configuration: Any
    module: ModuleType
    given: Any
    data: Path | None

    def draw(self) -> Figure:
        """The figure, anew."""
        figure: Figure = self.module.draw(self.given)
        return figure


def names() -> list[str]:
    """The names of all figures, in order."""
    return sorted(module.name for module in pkgutil.iter_modules(figures.__path__) if not module.ispkg)


def script(name: str, folder: Path | None = None) -> Script:
    """A figure by its name, drawn from the numbers kept here, or in another folder by the same file's name.

    Raises:
        InputError: for an unknown name.
    """
    check_choice("figure", name, [*names(), "all"])
    module = importlib.import_module(f"figures.{name}")
    head = str(module.__doc__).split("\n\n", 1)[0].replace("\n", " ")
    data = getattr(module, "DATA", None) if not hasattr(module, "CONFIGURATION") else None
    if folder is not None and data is not None:
        data = folder / data.name
    given = module.CONFIGURATION if data is None else json.loads(data.read_text())
    return Script(
        name=name,
        title=re.sub(r",? ``\[[^`]*\]``(,? and)?", "", head),
        message=module.MESSAGE,
        tags=tuple(_TAGS.findall(head)),
        differs=module.DIFFERS,
        configuration=given if data is None else given.get("provenance") or given["run.json"],
        module=module,
        given=given,
        data=data,
    )


def in_words(one: Script) -> str:
    """A figure in three lines: name and tags, what it shows, and what differs."""
    tags = " ".join(f"[{tag}]" for tag in one.tags)
    return f"{one.name}  {tags}\n    {one.title}\n    {one.differs}"
