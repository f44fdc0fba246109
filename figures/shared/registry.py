"""List the figures, as their scripts describe them."""

import functools
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
from simlab.errors import InputError, check_choice

_TAGS = re.compile(r"\[([a-z-]+:[a-z0-9.-]+)\]")


@dataclass(frozen=True)
class Script:
    """One figure.

    Attributes:
        name: the name of its script and files, such as ``"f_grpo_fig3"``.
        title: its subject, the first line of the script.
        message: its headline.
        tags: the papers' figures and statements that it shows, such as ``"f-grpo:fig-3"``.
        differs: one line on the difference from the paper's figure, and why.
        module: the script.
        data: the file of its numbers, None if it is drawn from formulas.
    """

    name: str
    title: str
    message: str
    tags: tuple[str, ...]
    differs: str
    module: ModuleType
    data: Path | None

    @functools.cached_property
    def numbers(self) -> Any:
        """The settings of formulas, or the numbers of runs with their provenance.

        Raises:
            InputError: if the numbers are absent, as in an installed package.
        """
        if self.data is None:
            return self.module.CONFIGURATION
        if not self.data.exists():
            raise InputError(
                f"figure {self.name} draws numbers of runs, which an installed package lacks; allowed: a clone of the "
                "repository, or --rerun"
            )
        return json.loads(self.data.read_text())

    @property
    def configuration(self) -> Any:
        """The settings of formulas, or the provenance of runs."""
        return self.numbers if self.data is None else self.numbers.get("provenance") or self.numbers["run.json"]

    def draw(self) -> Figure:
        """Draw the figure anew."""
        figure: Figure = self.module.draw(self.numbers)
        return figure


def names() -> list[str]:
    """Return the names of all figures, in order."""
    return sorted(module.name for module in pkgutil.iter_modules(figures.__path__) if not module.ispkg)


def script(name: str, folder: Path | None = None) -> Script:
    """Return a figure by its name, drawn from the committed numbers, or from the file of that name in ``folder``.

    Raises:
        InputError: for an unknown name.
    """
    check_choice("figure", name, [*names(), "all"])
    module = importlib.import_module(f"figures.{name}")
    head = str(module.__doc__).split("\n\n", 1)[0].replace("\n", " ")
    data = getattr(module, "DATA", None) if not hasattr(module, "CONFIGURATION") else None
    if folder is not None and data is not None:
        data = folder / data.name
    return Script(
        name=name,
        title=re.sub(r",? ``\[[^`]*\]``(,? and)?", "", head),
        message=module.MESSAGE,
        tags=tuple(_TAGS.findall(head)),
        differs=module.DIFFERS,
        module=module,
        data=data,
    )


def describe(script: Script) -> str:
    """Describe a figure in three lines: name and tags, subject, and difference from the paper's."""
    tags = " ".join(f"[{tag}]" for tag in script.tags)
    return f"{script.name}  {tags}\n    {script.title}\n    {script.differs}"
