"""Record what makes a run, in ``run.json`` and in each checkpoint: code, versions, platform and processor."""

import hashlib
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import jax

from simlab.fingerprint import Unhashable, fingerprint, own_source
from simlab.identity import NUMERIC, code_fingerprint, commit, processor, versions
from simlab.llm.tasks import TASKS, Task
from simlab.llm.training.settings import TrainingSettings, read_arm
from simlab.own_files import file_of, opened_files, source_of

Origin = Mapping[str, Any]
COMPARED = ("versions", "platform", "files", "own", "code")  # may differ only with --other-code
CONTINUED = "continued"  # the list in run.json of processes with other code that went on, and from which steps
UNKNOWN = "cannot be compared"
SIDES = ("there", "here")
# Libraries that compute, judge or read text; and those of TRL's engine.
LIBRARIES = (*NUMERIC, "tokenizers", "reasoning-gym", "math-verify")
TRL_LIBRARIES = ("trl", "transformers", "torch", "accelerate")


def current_origin(settings: TrainingSettings, own_task: Task | None, built: Task | None = None) -> dict[str, Any]:
    """Return the origin of this process's numbers, as plain data: ``COMPARED``, the commit and the processor.

    ``own`` has fingerprints of the user's arms, reward functions and task; ``files`` the SHA-256 of files of arms,
    rewards and data, and ``texts`` the text of the code among them. ``own_task`` is a task from Python, and ``built``
    the one that is trained.
    """
    libraries = ("simlab", *LIBRARIES, *(TRL_LIBRARIES if settings.engine == "trl" else ()))
    methods = {name: read_arm(name).method for name in settings.arms}
    own = {f"arm {name}": _hash(own_source, method.build()) for name, method in methods.items()}
    # The settings do not describe a task from Python, so that its hash counts even if it is simlab's.
    own["task"] = _hash(own_source, TASKS[settings.task["name"]]) if own_task is None else _hash(fingerprint, own_task)
    functions = built.own_functions if built is not None else {}
    own |= {f"reward {reference}": _hash(own_source, function) for reference, function in functions.items()}
    references = [*(file for method in methods.values() for file in method.files), *functions]
    texts = {file_of(reference): source_of(reference) for reference in references}
    hashes = {file: hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest() for file, text in texts.items()}
    sources = {
        "files": hashes | opened_files(references) | dict(built.files if built is not None else {}),
        "texts": texts,
    }
    return {
        "commit": commit(),
        "code": code_fingerprint(),
        "own": {name: value for name, value in own.items() if value is not None},
        "versions": versions(libraries),
        "platform": jax.default_backend(),
        "processor": processor(jax.local_devices()[0].device_kind),
        **{name: value for name, value in sources.items() if value},
    }


def _hash(function: Callable[[Any], str | None], value: Any) -> str | None:
    try:
        return function(value)
    except Unhashable as error:
        return f"{UNKNOWN}: {error}"


def list_origins(run: Mapping[str, Any]) -> list[Origin]:
    """Return the origins of a run in order, from its ``run.json``."""
    entries = [run, *run.get(CONTINUED, [])]
    return [{name: entry[name] for name in (*COMPARED, "processor") if name in entry} for entry in entries]


def describe_difference(before: Origin, after: Origin, sides: tuple[str, str] = SIDES) -> str | None:
    """Describe a difference that should keep a process from going on with another's run; None if there is none."""
    for name in COMPARED:
        first, second = before.get(name), after.get(name)
        if name == "versions":  # without simlab's, since its code is compared, and the last number of Python's
            first, second = (
                {**versions, "simlab": "", "python": versions.get("python", "").rpartition(".")[0]}
                for versions in (first or {}, second or {})
            )
        if first != second:
            return first_difference(first, second, name, sides)
    return next((f"{name}: {value}" for name, value in after["own"].items() if value.startswith(UNKNOWN)), None)


def first_difference(before: Any, after: Any, name: str = "", sides: tuple[str, str] = SIDES) -> str:
    """Describe the first difference of two pieces of plain data; ``sides`` name the two."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in sorted({*before, *after}):
            if before.get(key) != after.get(key):
                return first_difference(before.get(key), after.get(key), key, sides)
    return f"{name}: {before} {sides[0]}, {after} {sides[1]}"


def describe_changes(run: Mapping[str, Any]) -> list[str]:
    """Describe in lines from which steps other code went on with a run, and how it differs from the code before."""
    entries, sides, lines = [run, *run.get(CONTINUED, [])], ("before", "then"), list[str]()
    for before, after in pairwise(entries):
        difference = describe_difference(before, after, sides)
        difference = difference or first_difference(before["processor"], after["processor"], "processor", sides)
        for name, steps in after["from"].items():
            where = ", ".join(f"step {step} of seed {seed}" for seed, step in steps.items())
            lines.append(f"{name}: from {where} on, another made it ({difference})")
    return lines
