"""Read and check the body of a request to simulate, and make the job that it asks for."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from simlab.errors import InputError, check_choice, check_whole
from simlab.explore.bounded import check_plain
from simlab.explore.controls import SIMULATED
from simlab.explore.refused import Refused
from simlab.explore.settings import hold_panel
from simlab.explore.shapes import ACTIONS, SEEDS, filled_to
from simlab.text import read_number

ENTRIES = ("panel", "settings", "first", "page")
LARGEST_WORK = 2**27  # actions x seeds x steps of one block
BANK_ACTIONS = 32  # of each prompt
SEEDS_AHEAD = 2**16  # by which a block may lie behind the first seed


class Asked(NamedTuple):
    """What a request asks for.

    Attributes:
        job: panel, settings and first seed, as the simulating process takes them.
        held: what is to be said of settings that were held to their ranges.
        page: the name that the asking page has given itself; empty if it has none.
    """

    job: dict[str, Any]
    held: list[str]
    page: str


def json_of(body: bytes) -> Any:
    """The JSON of a body, its numbers finite and of bounded length.

    Raises:
        Refused: for a body that is no JSON.
        InputError: for a number that is too long or too large.
    """
    try:
        return json.loads(body, parse_int=read_number, parse_float=read_number, parse_constant=_no_constant)
    except InputError:
        raise
    except (ValueError, RecursionError):
        raise Refused(400, "the request is no JSON") from None


def _no_constant(name: str) -> None:
    raise ValueError(name)


def asked_of(body: Any) -> Asked:
    """What a request asks for, held to the ranges of its settings and to ``LARGEST_WORK``.

    Raises:
        InputError: for a request of another form, an unknown setting, or a value that cannot be read.
    """
    if not isinstance(body, dict) or "panel" not in body:
        raise InputError(f"the request is no object with a panel; allowed: {', '.join(ENTRIES)}")
    for name, value in body.items():
        check_plain("entry", name)
        check_choice("entry", name, ENTRIES)
        if name in ("first", "page"):
            check_plain(name, value)
    panel, page = body["panel"], body.get("page", "")
    check_plain("panel", panel, ", ".join(SIMULATED))
    check_choice("panel", panel, SIMULATED)
    if not isinstance(page, str):
        raise InputError(f"page = {page!r} is no text")
    settings, held = hold_panel(panel, body.get("settings", {}))
    first = body.get("first", settings["seed"])
    check_whole("first", first, 0)
    if not 0 <= first - settings["seed"] <= SEEDS_AHEAD:
        raise InputError(f"first = {first} lies too far from seed = {settings['seed']}; allowed: {SEEDS_AHEAD} ahead")
    if panel in ACTIONS_OF:
        held += _hold_work(settings, ACTIONS_OF[panel](settings))
    return Asked({"panel": panel, "settings": settings, "first": first}, held, page)


ACTIONS_OF: dict[str, Callable[[dict[str, Any]], int]] = {
    "run": lambda settings: filled_to(settings["actions"], ACTIONS),
    "bank": lambda settings: settings["prompts"] * max(BANK_ACTIONS, settings["group_size"]),
}


def _hold_work(settings: dict[str, Any], actions: int) -> list[str]:
    """Shorten a run of many actions, and say so."""
    most = LARGEST_WORK // (SEEDS * actions)
    if settings["steps"] <= most:
        return []
    said = f"steps = {settings['steps']} are too many for {actions} actions; held at {most}"
    settings["steps"] = most
    return [said]
