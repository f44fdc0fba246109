"""Record what makes a run, in ``run.json`` and in each checkpoint: code, versions, platform and processor."""

import hashlib
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import jax

from simlab.fingerprint import Unhashable, fingerprint, own_source
from simlab.identity import NUMERIC, code_fingerprint, commit, processor, versions
from simlab.llm.tasks import TASKS, Task
from simlab.llm.training.arm_text import read_arm
from simlab.llm.training.settings import Settings
from simlab.own_files import file_of, source_of

Origin = Mapping[str, Any]
COMPARED = ("versions", "platform", "files", "own", "code")  # what must not differ unless the user says so
CONTINUED = "continued"  # in run.json: who went on, and from which steps
UNSEEN = "cannot be compared"
SIDES = ("there", "here")
# The libraries that compute, judge or read text; and those of TRL's engine.
LIBRARIES = (*NUMERIC, "tokenizers", "reasoning-gym", "math-verify")
OF_TRL = ("trl", "transformers", "torch", "accelerate")


def maker(settings: Settings, own_task: Task | None, built: Task | None = None) -> dict[str, Any]:
    """Who makes the numbers of this process, as plain data: ``COMPARED``, the commit and the processor.

    ``own`` are fingerprints of the user's own code: of arms, of reward functions, and of a task that is handed in or
    put into ``TASKS``. Of files that arms and rewards name, ``files`` has the SHA-256 and ``texts`` the text, as they
    were run; of the files of data, ``files`` has the SHA-256. Both are absent where none are.

    Args:
        settings: the settings of the run.
        own_task: that was handed in, in place of the settings'.
        built: the task that is trained, whichever of these it is.
    """
    libraries = ("simlab", *LIBRARIES, *(OF_TRL if settings.engine == "trl" else ()))
    methods = {name: read_arm(name).method for name in settings.arms}
    own = {f"arm {name}": _seen(own_source, method.build()) for name, method in methods.items()}
    # Of a task that is handed in the settings say nothing, whoever's code it is.
    own["task"] = _seen(own_source, TASKS[settings.task["name"]]) if own_task is None else _seen(fingerprint, own_task)
    functions = built.own_functions if built is not None else {}
    own |= {f"reward {reference}": _seen(own_source, function) for reference, function in functions.items()}
    named = [*(file for method in methods.values() for file in method.files), *functions]
    texts = {file_of(reference): source_of(reference) for reference in named}
    files = {file: _sha256(text) for file, text in texts.items()} | dict(built.files if built is not None else {})
    return {
        "commit": commit(),
        "code": code_fingerprint(),
        "own": {name: found for name, found in own.items() if found is not None},
        "versions": versions(libraries),
        "platform": jax.default_backend(),
        "processor": processor(jax.local_devices()[0].device_kind),
        **({"files": files} if files else {}),
        **({"texts": texts} if texts else {}),
    }


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def _seen(look: Callable[[Any], str | None], value: Any) -> str | None:
    """What is seen of a value, or why nothing can be."""
    try:
        return look(value)
    except Unhashable as error:
        return f"{UNSEEN}: {error}"


def makers(run: Mapping[str, Any]) -> list[Origin]:
    """All who made a run, in order, by what ``run.json`` says."""
    return [{name: entry[name] for name in (*COMPARED, "processor") if name in entry} for entry in _entries(run)]


def _entries(run: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [run, *run.get(CONTINUED, [])]


def difference(found: Origin, here: Origin, sides: tuple[str, str] = SIDES) -> str | None:
    """What two makers differ in, in words, if numbers of theirs should not follow one another; else None."""
    for name in COMPARED:
        one, other = (_compared(entry.get(name)) for entry in (found, here))
        if one != other:
            return first_difference(one, other, name, sides)
    return next((f"{name}: {own}" for name, own in here["own"].items() if own.startswith(UNSEEN)), None)


def _compared(value: Any) -> Any:
    """The value; of versions without simlab's, whose code counts, and without the last number of Python's."""
    if not isinstance(value, Mapping) or "python" not in value:
        return value
    kept = {name: version for name, version in value.items() if name != "simlab"}
    return kept | {"python": kept["python"].rpartition(".")[0]}


def first_difference(found: Any, wanted: Any, name: str = "", sides: tuple[str, str] = SIDES) -> str:
    """Where two pieces of plain data part, in words; ``sides`` are those for the one and the other."""
    if isinstance(found, Mapping) and isinstance(wanted, Mapping):
        for key in sorted({*found, *wanted}):
            if found.get(key) != wanted.get(key):
                return first_difference(found.get(key), wanted.get(key), key, sides)
    return f"{name}: {found} {sides[0]}, {wanted} {sides[1]}"


def changes(run: Mapping[str, Any]) -> list[str]:
    """Line by line, from which steps others went on with a run, and how they differ from those before them."""
    entries, sides, lines = _entries(run), ("before", "then"), list[str]()
    for before, after in pairwise(entries):
        what = difference(before, after, sides)
        what = what or first_difference(before["processor"], after["processor"], "processor", sides)
        for name, steps in after["from"].items():
            where = ", ".join(f"step {step} of seed {seed}" for seed, step in steps.items())
            lines.append(f"{name}: from {where} on, another made it ({what})")
    return lines
