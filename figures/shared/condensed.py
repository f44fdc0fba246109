"""Condense results for figures: provenance, short numbers, and runs compared at equal Q_pos."""

import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from simlab.files import write_whole
from simlab.sweeps.presets import PRESETS
from simlab.sweeps.result import read


def results(preset: str, path: Path) -> dict[str, xr.Dataset]:
    """The results of a preset's sweeps by their names, where ``simlab sweep --out`` ``path`` has put them."""
    return {name: read(file) for name, file in _files(preset, path).items()}


def finished(preset: str, path: Path) -> dict[str, xr.Dataset]:
    """Return the ``results`` whose files are there."""
    return {name: read(file) for name, file in _files(preset, path).items() if file.exists()}


def _files(preset: str, path: Path) -> dict[str, Path]:
    return {name: path.with_stem(f"{path.stem}-{name}") for name in PRESETS[preset]}


def origins(data: dict[str, Any], sweeps: dict[str, xr.Dataset]) -> list[dict[str, Any]]:
    """The provenance of kept data and of the sweeps that are added, each configuration once."""
    every = (*data["provenance"], *map(provenance, sweeps.values()))
    return list({json.dumps(origin.get("configuration", origin)): origin for origin in every}.values())


def origins_of_arms(
    earlier: list[dict[str, Any]], arms: dict[str, Any], new: dict[str, dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return by seed the origins of new runs, and the earlier ones of which arms stay.

    Args:
        earlier: origins, each with its ``seed`` and ``settings``.
        arms: by seed and name, before the new ones replace some.
        new: runs by seed, each with its ``seed``, ``provenance`` and ``arms``.
    """
    origins = [{"seed": run["seed"], **run["provenance"]} for run in new.values()]
    for origin in earlier:
        seed = str(origin["seed"])
        replaced = new[seed]["arms"] if seed in new else {}
        if any(name in arms[seed] and name not in replaced for name in origin["settings"]["arms"]):
            origins.append(origin)
    return sorted(origins, key=lambda origin: int(origin["seed"]))


def each_cell(dataset: xr.Dataset) -> Iterator[xr.Dataset]:
    """The runs of every cell of a sweep, with the dimensions ``seed`` and ``step`` first."""
    names = [name for name in dataset["q_pos"].dims if name not in ("seed", "step")]
    for index in itertools.product(*(range(dataset.sizes[name]) for name in names)):
        yield dataset.isel(dict(zip(names, index, strict=True))).transpose("seed", "step", ...)


def decoded(value: str) -> Any:
    """An attribute of a result, which may hold JSON."""
    return json.loads(value) if value.startswith("{") else value


def provenance(dataset: xr.Dataset) -> dict[str, Any]:
    """Return the attributes of a result, which say how it was made."""
    return {name: decoded(value) for name, value in dataset.attrs.items()}


def rounded(values: Any, digits: int = 6) -> Any:
    """Nested lists with ``digits`` significant digits; null where there is no number."""
    values = np.asarray(values, dtype=float)
    if values.ndim:
        return [rounded(row, digits) for row in values]
    return float(f"{values:.{digits}g}") if np.isfinite(values) else None


def mean_and_error(values: np.ndarray) -> dict[str, Any]:
    """Mean over seeds, the last axis, and its standard error; null where a seed has no number."""
    error = values.std(axis=-1, ddof=1) / np.sqrt(values.shape[-1])
    return {"mean": rounded(values.mean(axis=-1)), "error": rounded(error)}


def number_and_error(mean: float | None, error: float | None, digits: int = 3) -> str:
    """``0.684(4)``, the error in units of the last digit; nothing where a seed has no number.

    >>> number_and_error(0.68412, 0.0041), number_and_error(612.4, 8.6, 0), number_and_error(None, None)
    ('0.684(4)', '612(9)', '')
    """
    return "" if mean is None or error is None else f"{mean:.{digits}f}({round(error * 10**digits)})"


_KEPT_IN: ContextVar[Path | None] = ContextVar("kept_in", default=None)


@contextmanager
def kept_in(folder: Path) -> Iterator[None]:
    """Have ``keep`` write into a folder, and leave the numbers here as they are."""
    token = _KEPT_IN.set(folder)
    try:
        yield
    finally:
        _KEPT_IN.reset(token)


def keep(path: Path, content: dict[str, Any]) -> Path:
    """Write condensed numbers where their script looks for them, or where ``kept_in`` says, and return that path."""
    folder = _KEPT_IN.get()
    path = path if folder is None else folder / path.name
    write_whole(path, (json.dumps(content, separators=(",", ":")) + "\n").encode())
    return path


def condense_or_print(
    arguments: list[str], path: Path, condense: Callable[..., dict[str, Any]], table: Callable[[Any], str]
) -> None:
    """Condense the results at the arguments into the numbers kept at ``path``; print their table for ``--table``."""
    if arguments == ["--table"]:
        print(table(json.loads(path.read_text())))
    else:
        keep(path, condense(*map(Path, arguments)))
