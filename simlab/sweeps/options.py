"""Read the options of ``simlab sweep``: presets, what overrides them, lists and sizes."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from simlab.arms import parse_list
from simlab.errors import InputError, check_choice
from simlab.sweeps.budget import Budget
from simlab.sweeps.grid import Sweep, parse_values
from simlab.sweeps.presets import PRESETS, SweepSettings

LONGEST = 10**5  # items that "..." fills in
MOST_K = 1000  # values of k of pass@k, each of which is recorded in every step
MOST_CELLS = 10**5  # of one sweep: each is checked before the first is run

_GRID_OPTIONS = (
    "preset", "arms", "estimator", "surrogate", "group_size", "gamma", "learning_rate", "seeds", "problem", "optimizer",
    "steps", "record_every", "budget", "rollout_cost", "update_cost", "records", "pass_at_k", "top_n", "dtype",
    "storage",
)  # fmt: skip
DEFAULT = "three-regimes"  # of a command that names no method, problem or parameter
CHANGES_OF_DEFAULT = {"group_size", "seeds", "steps", "record_every", "pass_at_k", "top_n"}
_LENGTHS = ("steps", "record_every")
# The options of a budget, and the names that they have there.
_OF_BUDGET = {"budget": "total"} | {name: name for name in ("rollout_cost", "update_cost", "records")}
_PLAIN = ("seeds", "steps", "record_every", "top_n", "problem", "optimizer", "dtype", "storage")


def build_sweeps(options: Any) -> dict[str, Sweep]:
    """The sweeps that the options ask for, by the names that they have in a preset; one alone has the name ``""``.

    Raises:
        InputError: for an unknown name, or a value outside its range.
    """
    given = {name: getattr(options, name) for name in _GRID_OPTIONS if getattr(options, name) is not None}
    preset = given.pop("preset", None)
    if preset is None and given.keys() <= CHANGES_OF_DEFAULT and not options.param:
        preset = DEFAULT
    if options.shard_actions is not None:
        given.setdefault("storage", "sharded")
    if preset is None:
        return {"": _overridden({}, given, options.param)}
    check_choice("preset", preset, sorted(PRESETS))
    return {name: _overridden(settings, given, options.param) for name, settings in PRESETS[preset].items()}


def _overridden(settings: SweepSettings, given: Mapping[str, Any], pairs: Sequence[str]) -> Sweep:
    """A sweep of some settings, and of options that override them."""
    settings = _with_methods(settings, given) | {name: given[name] for name in _PLAIN if name in given}
    settings = _with_budget(settings, given)
    inherited = settings.pop("parameters", {})
    for option, name in (("group_size", "group_sizes"), ("pass_at_k", "pass_at_k")):
        if option in given:
            settings[name] = tuple(_whole(option, item) for item in expand(given[option]))
    if len(settings.get("pass_at_k", ())) > MOST_K:
        raise InputError(f"--pass-at-k lists {len(settings['pass_at_k'])} values; allowed: up to {MOST_K}")
    bare = Sweep(**settings)
    known = bare.known_parameters()
    # A preset's parameters that an overriding method, problem or optimizer does not have fall away with it.
    parameters = {name: values for name, values in inherited.items() if name in known}
    sweep = Sweep(**settings, parameters=parameters | _parameters(bare, _named_lists(given, pairs)))
    cells = math.prod(len(values) for values in sweep.dimensions().values())
    if cells > MOST_CELLS:
        raise InputError(f"the lists make a grid of {cells} cells; allowed: up to {MOST_CELLS}")
    return sweep


def _with_methods(settings: SweepSettings, given: Mapping[str, Any]) -> SweepSettings:
    """Return settings with the methods of the options; arms take the place of a preset's estimators and surrogates."""
    pair = {f"{name}s": tuple(expand(given[name])) for name in ("estimator", "surrogate") if name in given}
    if "arms" not in given:
        return {**settings, **pair}
    if pair:
        raise InputError(f"--arms and --{next(iter(pair))[:-1]} both name methods; allowed: one of them")
    kept = {name: value for name, value in settings.items() if name not in ("estimators", "surrogates")}
    return kept | {"arms": tuple(map(str, parse_list(given["arms"])))}


def _with_budget(settings: SweepSettings, given: Mapping[str, Any]) -> SweepSettings:
    """Return settings with the budget of the options, in place of a preset's steps, or steps in place of its budget."""
    asked = {_OF_BUDGET[name]: given[name] for name in _OF_BUDGET if name in given}
    lengths = [name for name in _LENGTHS if name in given]
    if not asked:
        return {name: value for name, value in settings.items() if name != "budget" or not lengths}
    if lengths:
        raise InputError(f"{_flag(lengths[0])} beside a budget, which sets the steps; allowed: one of the two")
    if "total" not in asked and "budget" not in settings:
        first = next(name for name in _OF_BUDGET if name in given)
        raise InputError(f"{_flag(first)} without --budget; allowed: beside one, such as --budget 1e6")
    budget = replace(settings["budget"], **asked) if "budget" in settings else Budget(**asked)
    return {name: value for name, value in settings.items() if name not in _LENGTHS} | {"budget": budget}


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _parameters(sweep: Sweep, lists: Sequence[tuple[str, str]]) -> dict[str, tuple[Any, ...]]:
    """The values of parameters by their qualified names."""
    known, parameters = sweep.known_parameters(), dict[str, tuple[Any, ...]]()
    for name, text in lists:
        full = sweep.resolve(name)
        if full in parameters:
            raise InputError(f"parameter {name!r} is given twice; allowed: one list, such as {name}=0,1")
        expanded = text if isinstance(known[full], tuple) else ",".join(expand(text))
        parameters[full] = parse_values(name, expanded, known[full])
    return parameters


def _named_lists(given: Mapping[str, Any], pairs: Sequence[str]) -> list[tuple[str, str]]:
    named: list[tuple[str, str]] = [(name, given[name]) for name in ("gamma", "learning_rate") if name in given]
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name or not text:
            raise InputError(f"--param {pair!r} is not a list; allowed: NAME=LIST, such as gamma=0,1")
        named.append((name, text))
    return named


def expand(text: str) -> list[str]:
    """Items of a comma-separated list; ``2,4,...,1024`` is filled in, geometrically where that fits.

    Raises:
        InputError: for an empty item, or a "..." that no progression fits.

    >>> expand("2,4,...,32")
    ['2', '4', '8', '16', '32']
    >>> expand("0,0.5,...,2")
    ['0', '0.5', '1', '1.5', '2']
    """
    items = [item.strip() for item in text.split(",")]
    if "..." not in items:
        if "" in items:
            raise InputError(f"list {text!r} has an empty item; allowed: values separated by commas")
        return items
    place = items.index("...")
    try:
        if place < 2 or place != len(items) - 2:
            raise ValueError
        first, second, last = float(items[place - 2]), float(items[place - 1]), float(items[-1])
        filled = _progression(first, second, last)
    except (ValueError, ArithmeticError):
        raise InputError(f"list {text!r} does not fit; allowed: first,second,...,last, such as 2,4,...,64") from None
    return items[: place - 2] + [f"{value:.12g}" for value in filled]


def _progression(first: float, second: float, last: float) -> list[float]:
    if first > 0 and second > 0 and last > 0 and first != second:
        steps = math.log(last / first) / math.log(second / first)
        if 1 <= steps <= LONGEST and abs(steps - round(steps)) < 1e-9:
            return [first * (second / first) ** index for index in range(round(steps) + 1)]
    steps = (last - first) / (second - first)
    if not 1 <= steps <= LONGEST or abs(steps - round(steps)) > 1e-9:
        raise ValueError
    return [first + (second - first) * index for index in range(round(steps) + 1)]


def _whole(option: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        option = option.replace("_", "-")
        raise InputError(f"--{option} {text!r} cannot be read; allowed: whole numbers, separated by commas") from None


def parse_size(text: str) -> int:
    """Bytes of a size such as ``2GB``, ``512MiB`` or ``1e9``; K, M and G count in powers of 1024.

    Raises:
        InputError: for anything else, or a size that is not above 0.
    """
    match = re.fullmatch(r"([0-9.]+(?:e[0-9]+)?)\s*([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    try:
        size = float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " ") if match else 0.0
    except ValueError:
        size = 0.0
    if not 0 < size < math.inf:
        raise InputError(f"--memory {text!r} is not a size; allowed: a number with MB or GB, such as 2GB")
    return int(size)


def parse_shard(text: str) -> tuple[int, int]:
    """(i, n) of a shard written ``i/n``.

    Raises:
        InputError: unless 1 <= i <= n.
    """
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    number, count = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= number <= count:
        raise InputError(f"--shard {text!r} is not a shard; allowed: I/N with 1 <= I <= N, such as 1/4")
    return number, count


def parse_scheduler(text: str) -> int | str:
    """N of ``local:N``, or the address of a Dask scheduler.

    Raises:
        InputError: for anything else.
    """
    local, address = re.fullmatch(r"local:(\d{1,4})", text), re.fullmatch(r"(tcp|tls)://[^\s/]+:\d{1,5}", text)
    if not address and not (local and int(local[1])):
        allowed = "local:N for N processes of this machine, tcp://HOST:PORT or tls://HOST:PORT"
        raise InputError(f"--scheduler {text!r} is no scheduler; allowed: {allowed}")
    return int(local[1]) if local else text
