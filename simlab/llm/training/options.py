"""Turn command-line options into settings: those of a preset or a file, changed by single options."""

from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

from simlab.errors import InputError, check_choice, did_you_mean
from simlab.grammar import split
from simlab.llm.training.folder import RUN
from simlab.llm.training.presets import preset
from simlab.llm.training.settings import SECTIONS, Settings, merged
from simlab.reading import read_json
from simlab.seals import CHECKSUM, Damaged, verified
from simlab.text import read_value

NAMED = {"steps": "rl", "prompts": "rl", "group_size": "rl", "learning_rate": "rl"}


def build_settings(options: Any) -> Settings:
    """The settings that the options ask for.

    Raises:
        InputError: for an unknown name, a value outside its range, or a file that cannot be read.
    """
    layers = [_of_file(options.config)] if options.config else [preset(options.preset, options.model)]
    own: dict[str, Any] = {}
    if options.task is not None:
        own["task"] = {"name": options.task}
    if of_data := _of_data(options):
        own["task"] = own.get("task", {"name": "data"}) | of_data
    if options.model is not None:
        own["model"] = {"source": options.model}
    if options.arms is not None:
        own["arms"] = list(split(options.arms))
    for name in ("seeds", "engine"):
        if (value := getattr(options, name)) is not None:
            own[name] = value
    for name, section in NAMED.items():
        if (value := getattr(options, name)) is not None:
            own.setdefault(section, {})[name] = value
    return Settings.from_data(merged(*layers, own, *map(_of_pair, options.param)))


def _of_data(options: Any) -> dict[str, Any]:
    """The task's settings that have options of their own.

    Raises:
        InputError: for such an option of another task, a verifier beside a reward function, and for what is no
            NAME=VALUE.
    """
    given = {"train": options.data, "verifier": options.verifier, "reward": options.reward}
    own: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if options.max_new_tokens is not None:
        own["max_new_tokens"] = options.max_new_tokens
    if options.columns is not None:
        own["columns"] = _pairs("--columns", options.columns.split(","), "prompt=question,answer=gold")
    if options.evaluate:
        own["evaluate"] = _pairs("--evaluate", options.evaluate, "test=test.jsonl")
    if own and options.task not in (None, "data"):
        raise InputError(f"--task {options.task} with {', '.join(own)}; allowed: these options with --data alone")
    if options.verifier is not None and options.reward is not None:
        raise InputError("--verifier and --reward are both given; allowed: one of them")
    return own


def _pairs(option: str, texts: Iterable[str], example: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals and value) or name in found:
            raise InputError(
                f"{option} {text!r} cannot be read; allowed: NAME=VALUE, each name once, such as {example}"
            )
        found[name] = value
    return found


def _of_file(path: Path) -> dict[str, Any]:
    """The settings in a ``run.json``, or in a file of settings alone."""
    content = read_json(path)
    if CHECKSUM in content:
        try:
            content = verified(content, RUN)
        except Damaged as reason:
            raise InputError(f"{path} is damaged ({reason})") from None
    found = content.get("settings", content)
    if not isinstance(found, dict):
        raise InputError(f"{path} holds no settings")
    return found


def _of_pair(pair: str) -> dict[str, Any]:
    place, equals, text = pair.partition("=")
    section, _, name = place.partition(".")
    if not equals or not name:
        hint = did_you_mean(section, [f"{own}.{field.name}" for own in SECTIONS for field in fields(SECTIONS[own])])
        raise InputError(f"--param {pair!r} cannot be read{hint}; allowed: SECTION.NAME=VALUE, such as task.digits=3")
    check_choice("section", section, ["task", *SECTIONS])
    return {section: {name: read_value(text)}}
