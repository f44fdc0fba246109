"""The folder of a run: ``run.json``, which says what the run is and who made it, and the folders of its arms."""

import contextlib
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

from simlab.errors import InputError
from simlab.files import write_whole
from simlab.llm.checkpoint import CHECKSUMS
from simlab.llm.tensorboard import Scalars
from simlab.llm.training.folder import CHECKPOINT, MODEL, RUN, ArmFolder, arm_folder, complain
from simlab.llm.training.origin import CONTINUED, Origin, difference, first_difference, makers
from simlab.llm.training.scalars import Writer
from simlab.llm.training.settings import Settings
from simlab.llm.training.state import saved_step
from simlab.llm.wandb_files import WandbFiles
from simlab.seals import Damaged, sealed_json, unsealed_json

START = "start"  # in place of an arm's name
ALLOWED = "allowed: the code that made it, --other-code to go on, --overwrite, or another --out"


class RunFolder:
    """Where a run is written; ``begin`` comes before all else.

    Args:
        out: the folder.
        settings: the settings of the run.
        tensorboard: whether its arms write files for TensorBoard too.
        wandb: whether they write files for W&B too.
    """

    def __init__(self, out: Path, settings: Settings, *, tensorboard: bool = False, wandb: bool = False):
        self.out, self.settings, self.tensorboard, self.wandb = out, settings, tensorboard, wandb
        self.makers: list[Origin] = []  # known from ``begin`` on

    def begin(self, here: Origin, *, overwrite: bool, other_code: bool) -> None:
        """Write ``run.json``, or find it there and say in it who goes on from where.

        Args:
            here: who makes the numbers of this process.
            overwrite: whether what the folder holds may be replaced.
            other_code: whether to go on with what other code began.

        Raises:
            InputError: for a run of other settings or by other code, and for a folder that holds something else.
        """
        path, data = self.out / RUN, self.settings.as_data()
        found = _found(path, data, overwrite) if path.exists() else None
        if found is not None and (differs := difference(makers(found)[-1], here)) and not other_code:
            if not overwrite:
                raise InputError(f"{self.out} was made by other code ({differs}); {ALLOWED}")
            found = None
        if found is None:
            self._clear(overwrite)
            seeds = list(range(self.settings.seeds))
            found = {"settings": data, "arms": list(self.settings.arms), "seeds": seeds, **here}
            write_whole(path, sealed_json(found, RUN))
        elif (differs or makers(found)[-1]["processor"] != here["processor"]) and (steps := self._unfinished()):
            found = {**found, CONTINUED: [*found.get(CONTINUED, []), {**here, "from": steps}]}
            write_whole(path, sealed_json(found, RUN))
            complain(f"{self.out} goes on with other code or another processor: {RUN} says from which steps")
        self.makers = makers(found)

    def arm(self, name: str, seed: int) -> ArmFolder:
        """The folder of an arm and seed, or of the start of a seed."""
        path, whose = self._path(name, seed), {"arm": name, "seed": seed, "settings": _digest(self.settings)}
        writers = [] if name == START else self._writers(name, seed, path)
        return ArmFolder(path, [{**whose, **made_by} for made_by in self.makers], writers)

    def _writers(self, name: str, seed: int, path: Path) -> list[Writer]:
        writers: list[Writer] = [Scalars(path / "tensorboard")] if self.tensorboard else []
        if self.wandb:
            identity = hashlib.sha256(f"{path.resolve()} {_digest(self.settings)}".encode()).hexdigest()[:16]
            group, config = self.out.resolve().name, {**self.settings.as_data(), "arm": name, "seed": seed}
            path.mkdir(parents=True, exist_ok=True)
            writers.append(WandbFiles(path, name=f"{name}, seed {seed}", group=group, identity=identity, config=config))
        return writers

    def _path(self, name: str, seed: int) -> Path:
        return (self.out / START if name == START else arm_folder(self.out, name)) / f"seed-{seed}"

    def _unfinished(self) -> dict[str, dict[str, int]]:
        """By arm and seed, how many steps are done of what is not finished; the warm start is ``START``."""
        names = [*([START] if self.settings.warm_start.steps else []), *self.settings.arms]
        left = {
            name: {
                str(seed): self._steps_done(name, self._path(name, seed))
                for seed in range(self.settings.seeds)
                if not (self._path(name, seed) / MODEL / CHECKSUMS).exists()
            }
            for name in names
        }
        return {name: steps for name, steps in left.items() if steps}

    def _steps_done(self, name: str, path: Path) -> int:
        if self.settings.engine == "simlab" or name == START:
            return saved_step(path / CHECKPOINT)
        from simlab.adapters import trl_engine  # noqa: PLC0415  # of an extra

        return trl_engine.steps_done(path, self.settings.rl_of(name).updates)

    def _clear(self, overwrite: bool) -> None:
        """Remove a former run."""
        folders = [folder for folder in (self.out / START, self.out / "arms") if folder.exists()]
        if folders and not overwrite:
            raise InputError(f"{folders[0]} is there without {RUN}; allowed: --overwrite, or another --out")
        # Without run.json, what a kill leaves of the old run is not taken for a run.
        (self.out / RUN).unlink(missing_ok=True)
        for folder in folders:
            shutil.rmtree(folder)


def _digest(settings: Settings) -> str:
    """A hash of the settings that a state depends on: the others are what is recorded, and which arms and seeds."""
    learnt = {name: settings.as_data()[name] for name in ("task", "model", "warm_start", "rl", "engine")}
    return hashlib.sha256(json.dumps(learnt, sort_keys=True).encode()).hexdigest()[:16]


def _read(path: Path) -> dict[str, Any]:
    try:
        return unsealed_json(path.read_bytes(), RUN)
    except Damaged as reason:
        raise InputError(f"{path} is damaged ({reason}); allowed: --overwrite, or another --out") from None


def _found(path: Path, settings: dict[str, Any], overwrite: bool) -> dict[str, Any] | None:
    """The ``run.json`` of these settings; None for another, or a damaged one, that may be overwritten."""
    try:
        found = _read(path)
    except InputError:
        if overwrite:
            return None
        raise
    before, wanted = _whole(found.get("settings")), json.loads(json.dumps(settings))
    if before == wanted:
        return found
    if overwrite:
        return None
    raise InputError(
        f"{path.parent} holds a run of other settings ({first_difference(before, wanted)}); "
        "allowed: the same settings, --overwrite, or another --out"
    )


def _whole(settings: Any) -> Any:
    """Settings of a file, with those that a former version did not know yet at their defaults."""
    with contextlib.suppress(InputError, TypeError, AttributeError):
        return json.loads(json.dumps(Settings.from_data(settings).as_data()))
    return settings
