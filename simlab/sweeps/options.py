"""Read the options of ``simlab sweep``: presets, what overrides them, lists and sizes."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from simlab.arms import parse_list
from simlab.errors import InputError, check_choice
from simlab.sweeps.budget import Budget
from simlab.sweeps.grid import Sweep
from simlab.sweeps.presets import PRESETS, SweepSettings

LONGEST = 10**5  # items that "..." fills in
MOST_K = 1000  # values of k of pass@k, each of which is recorded in every step
MOST_CELLS = 10**5  # of one sweep: each is checked before the first is run
DEFAULT = "three-regimes"  # of a command that names no method, problem or parameter
SIZES = ("group_size", "seeds", "steps", "record_every", "pass_at_k", "top_n")  # options that change the default sweep
LENGTHS = ("steps", "record_every")
BUDGET_OPTIONS = {"budget": "total", "rollout_cost": "rollout_cost", "update_cost": "update_cost", "records": "records"}
FIELDS = ("seeds", "steps", "record_every", "top_n", "problem", "optimizer", "dtype", "storage")  # of ``Sweep``
LISTS = {"group_size": "group_sizes", "pass_at_k": "pass_at_k"}
SHORT_FOR_PARAM = ("gamma", "learning_rate")
GRID_OPTIONS = ("arms", "estimator", "surrogate", *SHORT_FOR_PARAM, *FIELDS, *LISTS, *BUDGET_OPTIONS)


def build_sweeps(options: Any) -> dict[str, Sweep]:
    """Return the sweeps that the options ask for, by their names in a preset; one alone has the name ``""``.

    Raises:
        InputError: for an unknown name, or a value outside its range.
    """
    values = {name: value for name in GRID_OPTIONS if (value := getattr(options, name)) is not None}
    preset = options.preset
    if preset is None and values.keys() <= set(SIZES) and not options.param:
        preset = DEFAULT
    if options.shard_actions is not None:
        values.setdefault("storage", "sharded")
    if preset is None:
        return {"": _build_sweep({}, values, options.param)}
    check_choice("preset", preset, sorted(PRESETS))
    return {name: _build_sweep(settings, values, options.param) for name, settings in PRESETS[preset].items()}


def _build_sweep(settings: SweepSettings, values: Mapping[str, Any], pairs: Sequence[str]) -> Sweep:
    """Return a sweep with some settings, and with options that override them."""
    settings = _with_methods(settings, values) | {name: values[name] for name in FIELDS if name in values}
    settings = _with_budget(settings, values)
    inherited = settings.pop("parameters", {})
    for option, name in LISTS.items():
        if option in values:
            settings[name] = tuple(_read_whole(option, item) for item in expand(values[option]))
    if len(settings.get("pass_at_k", ())) > MOST_K:
        raise InputError(f"--pass-at-k lists {len(settings['pass_at_k'])} values; allowed: up to {MOST_K}")
    bare = Sweep(**settings)
    defaults = bare.known_parameters()
    # A preset's parameters that an overriding method, problem or optimizer does not have fall away with it.
    parameters = {name: chosen for name, chosen in inherited.items() if name in defaults}
    sweep = Sweep(**settings, parameters=parameters | _read_parameters(bare, defaults, values, pairs))
    cells = math.prod(len(labels) for labels in sweep.dimensions().values())
    if cells > MOST_CELLS:
        raise InputError(f"the lists make a grid of {cells} cells; allowed: up to {MOST_CELLS}")
    return sweep


def _with_methods(settings: SweepSettings, values: Mapping[str, Any]) -> SweepSettings:
    """Return settings with the methods of the options; arms take the place of estimators and surrogates."""
    pair = {f"{name}s": tuple(expand(values[name])) for name in ("estimator", "surrogate") if name in values}
    if "arms" not in values:
        return {**settings, **pair}
    if pair:
        raise InputError(f"--arms and --{next(iter(pair))[:-1]} both name methods; allowed: one of them")
    others = {name: value for name, value in settings.items() if name not in ("estimators", "surrogates")}
    return others | {"arms": tuple(map(str, parse_list(values["arms"])))}


def _with_budget(settings: SweepSettings, values: Mapping[str, Any]) -> SweepSettings:
    """Return settings with the budget of the options in place of steps, or their steps in place of a budget."""
    changes = {name: values[option] for option, name in BUDGET_OPTIONS.items() if option in values}
    lengths = [name for name in LENGTHS if name in values]
    if not changes:
        return {name: value for name, value in settings.items() if name != "budget" or not lengths}
    if lengths:
        raise InputError(f"{_flag(lengths[0])} beside a budget, which sets the steps; allowed: one of the two")
    if "total" not in changes and "budget" not in settings:
        first = next(option for option in BUDGET_OPTIONS if option in values)
        raise InputError(f"{_flag(first)} without --budget; allowed: beside one, such as --budget 1e6")
    budget = replace(settings["budget"], **changes) if "budget" in settings else Budget(**changes)
    return {name: value for name, value in settings.items() if name not in LENGTHS} | {"budget": budget}


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _read_parameters(
    sweep: Sweep, defaults: Mapping[str, Any], values: Mapping[str, Any], pairs: Sequence[str]
) -> dict[str, tuple[Any, ...]]:
    """Return the values of ``--param`` and its short forms, by the qualified names of parameters."""
    lists = [(name, values[name]) for name in SHORT_FOR_PARAM if name in values]
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name or not text:
            raise InputError(f"--param {pair!r} is not a list; allowed: NAME=LIST, such as gamma=0,1")
        lists.append((name, text))
    parameters: dict[str, tuple[Any, ...]] = {}
    for name, text in lists:
        full = sweep.resolve(name)
        if full in parameters:
            raise InputError(f"parameter {name!r} is given twice; allowed: one list, such as {name}=0,1")
        parameters[full] = _read_values(name, text, defaults[full])
    return parameters


def _read_values(name: str, text: str, default: Any) -> tuple[Any, ...]:
    """Return the values in a list, typed like the parameter's default.

    A parameter whose default is a list (``logits``, ``correct`` of the custom problem) takes the whole text as one
    value: a list of numbers, or of words where the default is one (``rewarded`` of a tree), or a path.
    """
    if not isinstance(default, tuple):
        return tuple(_read_value(name, item, default) for item in expand(text))
    items = tuple(item.strip() for item in text.split(","))
    if default and isinstance(default[0], str):
        return (items if len(items) > 1 else text,)
    try:
        return (tuple(map(float, items)),)
    except ValueError:
        return (text,)


def _read_value(name: str, text: str, default: Any) -> Any:
    if isinstance(default, str):
        return text
    if default is None and text.lower() == "none":
        return None
    if isinstance(default, bool):
        check_choice(name, text.lower(), ("true", "false"))
        return text.lower() == "true"
    try:
        return int(text) if isinstance(default, int) else float(text)
    except ValueError:
        kind = "whole numbers" if isinstance(default, int) else "numbers"
        raise InputError(f"{name} = {text!r} cannot be read; allowed: {kind}, separated by commas") from None


def _read_whole(option: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        allowed = "allowed: whole numbers, separated by commas"
        raise InputError(f"{_flag(option)} {text!r} cannot be read; {allowed}") from None


def expand(text: str) -> list[str]:
    """Return the items of a comma-separated list; ``2,4,...,1024`` is filled in, geometrically where that fits.

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
    dots = items.index("...")
    try:
        if dots < 2 or dots != len(items) - 2:
            raise ValueError
        values = _progression(float(items[dots - 2]), float(items[dots - 1]), float(items[-1]))
    except (ValueError, ArithmeticError):
        raise InputError(f"list {text!r} does not fit; allowed: first,second,...,last, such as 2,4,...,64") from None
    return items[: dots - 2] + [f"{value:.12g}" for value in values]


def _progression(first: float, second: float, last: float) -> list[float]:
    if first > 0 and second > 0 and last > 0 and first != second:
        steps = math.log(last / first) / math.log(second / first)
        if 1 <= steps <= LONGEST and abs(steps - round(steps)) < 1e-9:
            return [first * (second / first) ** index for index in range(round(steps) + 1)]
    steps = (last - first) / (second - first)
    if not 1 <= steps <= LONGEST or abs(steps - round(steps)) > 1e-9:
        raise ValueError
    return [first + (second - first) * index for index in range(round(steps) + 1)]


def parse_size(text: str) -> int:
    """Return the bytes of a size such as ``2GB``, ``512MiB`` or ``1e9``; K, M and G count in powers of 1024.

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
    """Return (i, n) of a shard written ``i/n``.

    Raises:
        InputError: unless 1 <= i <= n.
    """
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    number, count = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= number <= count:
        raise InputError(f"--shard {text!r} is not a shard; allowed: I/N with 1 <= I <= N, such as 1/4")
    return number, count


def parse_scheduler(text: str) -> int | str:
    """Return N of ``local:N``, or the address of a Dask scheduler.

    Raises:
        InputError: for anything else.
    """
    local, address = re.fullmatch(r"local:(\d{1,4})", text), re.fullmatch(r"(tcp|tls)://[^\s/]+:\d{1,5}", text)
    if not address and not (local and int(local[1])):
        allowed = "local:N for N processes of this machine, tcp://HOST:PORT or tls://HOST:PORT"
        raise InputError(f"--scheduler {text!r} is no scheduler; allowed: {allowed}")
    return int(local[1]) if local else text
