"""Turn command-line options into settings: those of a preset or a file, changed by single options."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from simlab.errors import InputError, check_choice, check_no_option, did_you_mean
from simlab.grammar import split
from simlab.llm.tasks.rewards import is_verifier
from simlab.llm.training.folder import RUN
from simlab.llm.training.presets import preset
from simlab.llm.training.settings import SECTIONS, TrainingSettings, merge_layers
from simlab.reading import read_json
from simlab.seals import CHECKSUM, Damaged, verified
from simlab.text import read_value

# The settings that have options: of the task ``data``, of others, and of the run as a whole.
DATA = {"data": "train"} | {name: name for name in ("verifier", "reward", "max_new_tokens")}
RL = ("steps", "prompts", "group_size", "learning_rate", "optimizer")
RUNS = ("seeds", "engine")
NO_SETTINGS = (*RL, *RUNS, *DATA, "arms", "preset", "model", "task")  # options that a person may take for settings


def build_settings(options: Any) -> TrainingSettings:
    """Build a command line's settings: a preset or a file, and single options over it; ``InputError`` for others."""

    def chosen(**settings: str) -> dict[str, Any]:
        values = {name: getattr(options, option) for option, name in settings.items()}
        return {name: value for name, value in values.items() if value not in (None, ())}

    base = _read_settings(options.config) if options.config else preset(options.preset, options.model)
    task, data = chosen(task="name"), chosen(**DATA)
    if options.columns is not None:
        data["columns"] = _read_pairs("--columns", options.columns.split(","), "prompt=question,answer=gold")
    if options.evaluate:
        data["evaluate"] = _read_pairs("--evaluate", options.evaluate, "test=test.jsonl")
    if data and options.task not in (None, "data"):
        raise InputError(f"--task {options.task} with {', '.join(data)}; allowed: these options with --data alone")
    if options.verifier is not None and options.reward and not any(map(is_verifier, options.reward)):
        raise InputError("--verifier and --reward are both given; allowed: one of them, or --reward verifier too")
    if "reward" in data:
        data["reward"] = options.reward[0] if len(options.reward) == 1 else [*options.reward]
    sections = {
        "task": (task or {"name": "data"}) | data if data else task,
        "model": chosen(model="source"),
        "rl": chosen(**dict(zip(RL, RL, strict=True))),
    }
    layer: dict[str, Any] = {name: section for name, section in sections.items() if section}
    layer |= chosen(**dict(zip(RUNS, RUNS, strict=True)))
    if options.arms is not None:
        layer["arms"] = list(split(options.arms))
    return TrainingSettings.from_data(merge_layers(base, layer, *_read_params(options.param)))


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


def _read_params(pairs: Iterable[str]) -> Iterable[dict[str, Any]]:
    params: dict[str, dict[str, Any]] = {}
    for pair in pairs:
        path, equals, text = pair.partition("=")
        section, _, name = path.partition(".")
        if path in params:
            raise InputError(f"parameter {path!r} is given twice; allowed: once")
        if not equals or not name:
            check_no_option(pair, path, text, NO_SETTINGS)
            known = [f"{name}.{setting}" for name, kind in SECTIONS.items() for setting in vars(kind())]
            hint = did_you_mean(next((each for each in known if each.endswith(f".{path}")), path), known)
            allowed = "SECTION.NAME=VALUE, such as task.digits=3"
            raise InputError(f"--param {pair!r} cannot be read{hint}; allowed: {allowed}")
        check_choice("section", section, ["task", *SECTIONS])
        params[path] = {section: {name: read_value(text)}}
    return params.values()
