"""The folder of a run: ``run.json`` says what the run is and who made it; below it are the folders of its arms."""

import contextlib
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

from simlab.errors import InputError
from simlab.files import write_whole
from simlab.llm.loggers import Scalars, WandbFiles
from simlab.llm.training.folder import CHECKPOINT, FINISHED, RUN, START, ArmFolder, Writer, arm_folder, warn
from simlab.llm.training.origin import CONTINUED, Origin, describe_difference, first_difference, list_origins
from simlab.llm.training.settings import TrainingSettings
from simlab.llm.training.state import saved_record
from simlab.seals import Damaged, sealed_json, unsealed_json


class RunFolder:
    """The folder of a run; ``begin`` comes first.

    Args:
        out: the folder.
        settings: the settings of the run.
        tensorboard: write the numbers of arms for TensorBoard too.
        wandb: write them for W&B too.
    """

    def __init__(self, out: Path, settings: TrainingSettings, *, tensorboard: bool = False, wandb: bool = False):
        self.out, self.settings, self.tensorboard, self.wandb = out, settings, tensorboard, wandb
        self.origins: list[Origin] = []

    def begin(self, origin: Origin, *, overwrite: bool, other_code: bool) -> None:
        """Write ``run.json``; in that of a former process, record who goes on, and from which steps.

        Args:
            origin: code, versions and platform of this process.
            overwrite: replace the content of the folder.
            other_code: go on with a run that other code began.

        Raises:
            InputError: for a run of other settings or by other code, and for a folder with something else in it.
        """
        path, data = self.out / RUN, self.settings.as_data()
        record = _read_run(path, data, overwrite) if path.exists() else None
        if record is not None:
            difference = describe_difference(list_origins(record)[-1], origin)
            if difference and not other_code:
                if not overwrite:
                    raise InputError(
                        f"{self.out} was made by other code ({difference}); allowed: the code that made it, "
                        "--other-code to go on, --overwrite, or another --out"
                    )
                record = None
        if record is None:
            self._clear(overwrite)
            seeds = list(range(self.settings.seeds))
            record = {"settings": data, "arms": list(self.settings.arms), "seeds": seeds, **origin}
            write_whole(path, sealed_json(record, RUN))
        elif (difference or list_origins(record)[-1]["processor"] != origin["processor"]) and (
            steps := self._unfinished_steps()
        ):
            record = {**record, CONTINUED: [*record.get(CONTINUED, []), {**origin, "from": steps}]}
            write_whole(path, sealed_json(record, RUN))
            warn(f"{self.out} goes on with other code or another processor: {RUN} says from which steps")
        self.origins = list_origins(record)

    def arm(self, name: str, seed: int) -> ArmFolder:
        """Return the folder of an arm and seed, or of the start of a seed."""
        path, owner = self._path(name, seed), {"arm": name, "seed": seed, "settings": _digest(self.settings)}
        writers = [] if name == START else self._writers(name, seed, path)
        return ArmFolder(path, [{**owner, **origin} for origin in self.origins], writers)

    def _path(self, name: str, seed: int) -> Path:
        return (self.out / START if name == START else arm_folder(self.out, name)) / f"seed-{seed}"

    def _writers(self, name: str, seed: int, path: Path) -> list[Writer]:
        writers: list[Writer] = [Scalars(path / "tensorboard")] if self.tensorboard else []
        if self.wandb:
            identity = hashlib.sha256(f"{path.resolve()} {_digest(self.settings)}".encode()).hexdigest()[:16]
            group, config = self.out.resolve().name, {**self.settings.as_data(), "arm": name, "seed": seed}
            path.mkdir(parents=True, exist_ok=True)
            writers.append(WandbFiles(path, name=f"{name}, seed {seed}", group=group, identity=identity, config=config))
        return writers

    def _unfinished_steps(self) -> dict[str, dict[str, int]]:
        """Return the finished steps of unfinished folders, by arm and seed; the warm start is ``START``."""
        names = [*([START] if self.settings.warm_start.steps else []), *self.settings.arms]
        steps = {
            name: {
                str(seed): self._steps_done(name, self._path(name, seed))
                for seed in range(self.settings.seeds)
                if not (self._path(name, seed) / FINISHED).exists()
            }
            for name in names
        }
        return {name: seeds for name, seeds in steps.items() if seeds}

    def _steps_done(self, name: str, path: Path) -> int:
        if self.settings.engine == "simlab" or name == START:
            return int(saved_record(path / CHECKPOINT).get("step", 0))
        from simlab.adapters import trl_engine  # noqa: PLC0415  # of an extra

        return trl_engine.steps_done(path, self.settings.arm_rl(name).updates)

    def _clear(self, overwrite: bool) -> None:
        """Remove a former run."""
        folders = [folder for folder in (self.out / START, self.out / "arms") if folder.exists()]
        if folders and not overwrite:
            raise InputError(f"{folders[0]} is there without {RUN}; allowed: --overwrite, or another --out")
        # run.json goes first: after a kill, the remains of the former run do not look like a run.
        (self.out / RUN).unlink(missing_ok=True)
        for folder in folders:
            shutil.rmtree(folder)


def _digest(settings: TrainingSettings) -> str:
    """Return a hash of the settings that a state depends on: not of records, and not of the list of arms and seeds."""
    data = {name: settings.as_data()[name] for name in ("task", "model", "warm_start", "rl", "engine")}
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]


def _read_run(path: Path, settings: dict[str, Any], overwrite: bool) -> dict[str, Any] | None:
    """Read the ``run.json`` of these settings; None for another, or a damaged one, that may be overwritten."""
    try:
        record = unsealed_json(path.read_bytes(), RUN)
    except Damaged as reason:
        if overwrite:
            return None
        raise InputError(f"{path} is damaged ({reason}); allowed: --overwrite, or another --out") from None
    before, now = _fill_defaults(record.get("settings")), json.loads(json.dumps(settings))
    if before == now:
        return record
    if overwrite:
        return None
    raise InputError(
        f"{path.parent} holds a run of other settings ({first_difference(before, now)}); "
        "allowed: the same settings, --overwrite, or another --out"
    )


def _fill_defaults(settings: Any) -> Any:
    """Add the defaults of settings that a former version did not have."""
    with contextlib.suppress(InputError, TypeError, AttributeError):
        return json.loads(json.dumps(TrainingSettings.from_data(settings).as_data()))
    return settings
