"""Turn command-line options into settings: those of a preset or a file, changed by single options."""

import argparse
from pathlib import Path
from typing import Any

from simlab.errors import InputError, check_choice
from simlab.grammar import split
from simlab.llm.training.folder import RUN
from simlab.llm.training.presets import preset
from simlab.llm.training.settings import SECTIONS, Settings, merged
from simlab.reading import read_json
from simlab.seals import CHECKSUM, Damaged, verified
from simlab.values import read_value

NAMED = {"steps": "rl", "prompts": "rl", "group_size": "rl", "learning_rate": "rl"}


def build_settings(options: argparse.Namespace) -> Settings:
    """The settings that the options ask for.

    Raises:
        InputError: for an unknown name, a value outside its range, or a file that cannot be read.
    """
    layers = [_of_file(options.config)] if options.config else [preset(options.preset, options.model)]
    own: dict[str, Any] = {}
    if options.task is not None:
        own["task"] = {"name": options.task}
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
        raise InputError(f"--param {pair!r} cannot be read; allowed: SECTION.NAME=VALUE, such as task.digits=3")
    check_choice("section", section, ["task", *SECTIONS])
    return {section: {name: read_value(text)}}
