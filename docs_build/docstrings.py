"""Show the examples of docstrings as code: a griffe extension, and what the pages of estimators use."""

from typing import Any

import griffe

PROMPT = ">>>"


def fenced(text: str) -> str:
    """A docstring with its doctests in fences, each from its first prompt to the next empty line."""
    lines: list[str] = []
    inside = False
    for line in [*text.splitlines(), ""]:
        if line.startswith(PROMPT) and not inside:
            lines.append("```pycon")
            inside = True
        elif inside and not line.strip():
            lines.append("```")
            inside = False
        lines.append(line)
    return "\n".join(lines[:-1])


class Fenced(griffe.Extension):
    """Puts the doctests of every docstring in fences, before griffe looks for its sections."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Change the docstring of a module, class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
