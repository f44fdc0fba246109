"""Problems by name."""

from collections.abc import Callable
from typing import Any

from simlab.errors import build
from simlab.problems.categorical import Categorical, anchored, custom
from simlab.problems.classes import Classes
from simlab.problems.prompt_bank import PromptBank, prompt_bank

Problem = Categorical | Classes | PromptBank

PROBLEMS: dict[str, Callable[..., Problem]] = {"anchored": anchored, "custom": custom, "prompt_bank": prompt_bank}


def problem(name: str, **parameters: Any) -> Problem:
    """Build a problem by name.

    Raises:
        InputError: for an unknown name or parameter, and what the constructor refuses.
    """
    built: Problem = build("problem", name, PROBLEMS, parameters)
    return built
