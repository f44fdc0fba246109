"""Turn command-line options into settings: those of a preset or a file, changed by single options."""

from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

from simlab.errors import InputError, check_choice, did_you_mean
from simlab.grammar import split
from simlab.llm.training.folder import RUN
from simlab.llm.training.presets import preset
from simlab.llm.training.settings import SECTIONS, TrainingSettings, merge_layers
from simlab.reading import read_json
from simlab.seals import CHECKSUM, Damaged, verified
from simlab.text import read_value

RL_OPTIONS = ("steps", "prompts", "group_size", "learning_rate")


def build_settings(options: Any) -> TrainingSettings:
    """Build the settings of a command line: a preset or a file, and single options over it.

    Raises:
        InputError: for an unknown name, a value outside its range, or a file that cannot be read.
    """
    base = _read_settings(options.config) if options.config else preset(options.preset, options.model)
    layer: dict[str, Any] = {}
    if options.task is not None:
        layer["task"] = {"name": options.task}
    if data := _data_task(options):
        layer["task"] = layer.get("task", {"name": "data"}) | data
    if options.model is not None:
        layer["model"] = {"source": options.model}
    if options.arms is not None:
        layer["arms"] = list(split(options.arms))
    for name in ("seeds", "engine"):
        if (value := getattr(options, name)) is not None:
            layer[name] = value
    for name in RL_OPTIONS:
        if (value := getattr(options, name)) is not None:
            layer.setdefault("rl", {})[name] = value
    return TrainingSettings.from_data(merge_layers(base, layer, *map(_read_param, options.param)))


def _data_task(options: Any) -> dict[str, Any]:
    """Return the settings of the task ``data`` that have options.

    Raises:
        InputError: for such an option with another task, a verifier beside a reward function, and for a text that is
            not NAME=VALUE.
    """
    texts = {"train": options.data, "verifier": options.verifier, "reward": options.reward}
    task: dict[str, Any] = {name: text for name, text in texts.items() if text is not None}
    if options.max_new_tokens is not None:
        task["max_new_tokens"] = options.max_new_tokens
    if options.columns is not None:
        task["columns"] = _read_pairs("--columns", options.columns.split(","), "prompt=question,answer=gold")
    if options.evaluate:
        task["evaluate"] = _read_pairs("--evaluate", options.evaluate, "test=test.jsonl")
    if task and options.task not in (None, "data"):
        raise InputError(f"--task {options.task} with {', '.join(task)}; allowed: these options with --data alone")
    if options.verifier is not None and options.reward is not None:
        raise InputError("--verifier and --reward are both given; allowed: one of them")
    return task


def _read_pairs(option: str, texts: Iterable[str], example: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals and value) or name in pairs:
            raise InputError(
                f"{option} {text!r} cannot be read; allowed: NAME=VALUE, each name once, such as {example}"
            )
        pairs[name] = value
    return pairs


def _read_settings(path: Path) -> dict[str, Any]:
    """Read the settings in a ``run.json``, or in a file of settings alone."""
    content = read_json(path)
    if CHECKSUM in content:
        try:
            content = verified(content, RUN)
        except Damaged as reason:
            raise InputError(f"{path} is damaged ({reason})") from None
    settings = content.get("settings", content)
    if not isinstance(settings, dict):
        raise InputError(f"{path} holds no settings")
    return settings


def _read_param(pair: str) -> dict[str, Any]:
    path, equals, text = pair.partition("=")
    section, _, name = path.partition(".")
    if not equals or not name:
        names = [f"{section}.{field.name}" for section in SECTIONS for field in fields(SECTIONS[section])]
        hint = did_you_mean(section, names)
        raise InputError(f"--param {pair!r} cannot be read{hint}; allowed: SECTION.NAME=VALUE, such as task.digits=3")
    check_choice("section", section, ["task", *SECTIONS])
    return {section: {name: read_value(text)}}
