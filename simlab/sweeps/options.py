"""Turn the options of ``simlab sweep`` into sweeps: presets, and what overrides them."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from simlab.errors import InputError, check_choice, check_no_option
from simlab.sweeps.grid import LENGTHS, Budget, Sweep
from simlab.sweeps.parameters import read_values
from simlab.sweeps.presets import PRESETS, SweepSettings

MOST_CELLS = 10**5  # of one sweep: each is checked before the first is run
DEFAULT = "three-regimes"  # of a command that names no method, problem or parameter
SIZES = {"group_sizes", "seeds", "steps", "record_every", "pass_at_k", "top_n"}  # options that change the default sweep
SHORT_FOR_PARAM = ("gamma", "learning_rate")
NO_PARAMETERS = (  # options that a person may take for parameters
    "arms", "estimator", "surrogate", "problem", "optimizer", "group_size", "budget", "seeds", "steps", "record_every",
    "records", "pass_at_k", "top_n", "dtype", "storage",
)  # fmt: skip


def build_sweeps(options: Any) -> dict[str, Sweep]:
    """Return the sweeps that the options ask for, by their names in a preset; one alone has the name ``""``."""
    names = {field.name for field in fields(Sweep)} - {"parameters", "budget"}
    chosen = {name: value for name in names if (value := getattr(options, name)) is not None}
    budget = {field.name: value for field in fields(Budget) if (value := getattr(options, field.name)) is not None}
    short = [f"{name}={value}" for name in SHORT_FOR_PARAM if (value := getattr(options, name)) is not None]
    pairs, preset = [*short, *options.param], options.preset
    if preset is None and chosen.keys() <= SIZES and not budget and not pairs:
        preset = DEFAULT
    if preset is not None:
        check_choice("preset", preset, sorted(PRESETS))
    if options.shard_actions is not None:
        chosen.setdefault("storage", "sharded")
    presets = {"": {}} if preset is None else PRESETS[preset]
    return {name: _build_sweep(settings, chosen, budget, pairs) for name, settings in presets.items()}


def _build_sweep(
    preset: SweepSettings, chosen: SweepSettings, budget: Mapping[str, Any], pairs: Sequence[str]
) -> Sweep:
    settings = dict(preset)
    replaced = ("estimators", "surrogates") if "arms" in chosen else ()
    for name in (*replaced, "budget") if LENGTHS.keys() & chosen.keys() else replaced:
        settings.pop(name, None)
    if budget:
        if "total" not in budget and "budget" not in settings:
            flag = next(iter(budget)).replace("_", "-")
            raise InputError(f"--{flag} without --budget; allowed: beside one, such as --budget 1e6")
        changed = replace(settings["budget"], **budget) if "budget" in settings else Budget(**budget)
        settings = {name: value for name, value in settings.items() if name not in LENGTHS} | {"budget": changed}
    inherited = settings.pop("parameters", {})
    bare = Sweep(**settings | chosen)
    defaults = bare.known_parameters()
    # A preset's parameters that an overriding method, problem or optimizer does not have fall away with it.
    parameters = {name: values for name, values in inherited.items() if name in defaults}
    sweep = replace(bare, parameters=parameters | _read_parameters(bare, defaults, pairs))
    cells = math.prod(len(labels) for labels in sweep.dimensions().values())
    if cells > MOST_CELLS:
        raise InputError(f"the lists make a grid of {cells} cells; allowed: up to {MOST_CELLS}")
    return sweep


def _read_parameters(sweep: Sweep, defaults: Mapping[str, Any], pairs: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    parameters: dict[str, tuple[Any, ...]] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if name.rpartition(".")[2] not in {full.rpartition(".")[2] for full in defaults}:
            check_no_option(pair, name.removeprefix("run."), text, NO_PARAMETERS)
        if not equals or not name:
            raise InputError(f"--param {pair!r} is not a list; allowed: NAME=LIST, such as gamma=0,1")
        full = sweep.resolve(name)
        if full in parameters:
            raise InputError(f"parameter {name!r} is given twice; allowed: one list, such as {name}=0,1")
        parameters[full] = read_values(name, text, defaults[full])
    return parameters


def parse_size(text: str) -> int:
    """Return the bytes of a size such as ``2GB``, ``512MiB`` or ``1e9``; K, M and G count in powers of 1024."""
    match = re.fullmatch(r"((?:\d+\.?\d*|\.\d+)(?:e\d+)?)\s*([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    size = float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " ") if match else 0.0
    if not 0 < size < math.inf:
        raise InputError(f"{text!r} is not a size; allowed: a number with MB or GB, such as 2GB")
    return int(size)


def parse_shard(text: str) -> tuple[int, int]:
    """Return (i, n) of a shard written ``i/n``."""
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    number, count = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= number <= count:
        raise InputError(f"{text!r} is not a shard; allowed: I/N with 1 <= I <= N, such as 1/4")
    return number, count


def parse_scheduler(text: str) -> int | str:
    """Return N of ``local:N``, or the address of a Dask scheduler."""
    local, address = re.fullmatch(r"local:(\d{1,4})", text), re.fullmatch(r"(tcp|tls)://[^\s/]+:\d{1,5}", text)
    if not address and not (local and int(local[1])):
        allowed = "local:N for N processes of this machine, tcp://HOST:PORT or tls://HOST:PORT"
        raise InputError(f"--scheduler {text!r} is no scheduler; allowed: {allowed}")
    return int(local[1]) if local else text
