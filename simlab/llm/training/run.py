"""Train a run: one start for every seed, and from it every arm; one folder records all that happened.

``run.json`` is written first. A run that was killed resumes from its checkpoints and gives the numbers that it would
have given: everything is a function of the settings, the seed and the step.
"""

import contextlib
import dataclasses
import hashlib
import itertools
import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from simlab.errors import Diverged, InputError
from simlab.file_lock import file_lock
from simlab.files import remove_unfinished, set_aside, write_whole
from simlab.llm.checkpoint import Model, read_checkpoint
from simlab.llm.checksums import CHECKSUMS
from simlab.llm.config import ModelConfig
from simlab.llm.device_memory import free_memory
from simlab.llm.extra import package
from simlab.llm.instruments.rare import Trajectories, length_normalised_nll, rarest
from simlab.llm.instruments.tracked import Tracked, choose, tracked_metrics
from simlab.llm.instruments.weight_change import weight_change_metrics, weight_changes
from simlab.llm.model import Parameters, init
from simlab.llm.pretrained import load
from simlab.llm.tasks import OWN, Problem, Task, task
from simlab.llm.tensorboard import Scalars, check_tensorboard
from simlab.llm.training.arm_text import read_arm
from simlab.llm.training.evaluate import Evaluated, evaluate
from simlab.llm.training.folder import (
    CHECKPOINT,
    EVALUATIONS,
    METRICS,
    MODEL,
    ROLLOUTS,
    RUN,
    ArmFolder,
    arm_folder,
    complain,
)
from simlab.llm.training.gradient import Policy
from simlab.llm.training.groups import Groups, Reader, word
from simlab.llm.training.interrupt import interrupts
from simlab.llm.training.kept_rollouts import kept_rollouts
from simlab.llm.training.lines import name_of
from simlab.llm.training.memory import check_memory, in_words, needed_memory
from simlab.llm.training.origin import CONTINUED, Origin, difference, first_difference, maker, makers
from simlab.llm.training.policy_gradient import Trainer, key_of
from simlab.llm.training.progress import Progress
from simlab.llm.training.settings import SCRATCH, ModelSettings, PolicyGradient, Settings
from simlab.llm.training.state import State, saved_step
from simlab.llm.training.supervised import supervised_step
from simlab.llm.training.warnings import warnings
from simlab.llm.vocabulary import Vocabulary
from simlab.seals import Damaged, sealed_json, unsealed_json
from simlab.simulator.compiled import keep_on_disk

PROBLEMS_OF_A_SEED = 2**40  # training problems of a seed: the first half for its start, the others for its arms
EVALUATION_KEY, VERIFIER_KEY = 2**31, 2**31 + 1  # beside the steps
FOLLOWED = "followed.json"
START = "start"  # in place of an arm's name
ALLOWED = "allowed: the code that made it, --other-code to go on, --overwrite, or another --out"


class Start(NamedTuple):
    """What the arms of a seed begin from.

    Attributes:
        parameters: of the model after the warm start.
        tracked: solutions whose tail-miss rate is followed.
        rare: correct trajectories that were rare at the start, whose likelihood is followed.
    """

    parameters: Parameters
    tracked: Tracked
    rare: Trajectories


def train(
    settings: Settings,
    out: Path,
    *,
    overwrite: bool = False,
    other_code: bool = False,
    own_task: Task | None = None,
    tensorboard: bool = False,
    say: Callable[[str], Any] | None = None,
) -> None:
    """Run all arms of all seeds, or go on where they were.

    Args:
        settings: what to run.
        out: the folder of the run.
        overwrite: whether a run of other settings, or by other code, at ``out`` is begun anew.
        other_code: whether to go on with a run that other code, versions or a platform began; ``run.json`` then says
            from which steps who made it.
        own_task: a task that is not in the registry, in place of the settings'. ``run.json`` then says ``"own"`` for
            the task's name, so that no other task is trained in its place.
        tensorboard: whether to write files for TensorBoard too.
        say: takes what is to be known before the work begins, line by line.

    Raises:
        InputError: for settings that cannot be met, another run at ``out``, one that another process is at, and what
            goes wrong in a step.
        OSError: if the folder cannot be written, as on a full disk; finished steps are kept.
    """
    keep_on_disk()
    if settings.engine == "trl":
        package("trl", "trl")
    if own_task is not None:
        settings = dataclasses.replace(settings, task={"name": OWN, "called": own_task.name})
    if tensorboard:
        check_tensorboard()
    if say is not None:
        for line in warnings(settings):
            say(line)
    run = Run(settings, out, task(**settings.task) if own_task is None else own_task, tensorboard)
    if say is not None:
        for note in run.reader.task.notes:
            say(note)
    if settings.engine == "simlab":
        needed = run.needed_memory()
        if say is not None:
            say(in_words(needed))
        check_memory(needed, free_memory())
    with file_lock(out):
        remove_unfinished(out, below=True)
        run.begin(maker(settings, own_task, run.reader.task), overwrite=overwrite, other_code=other_code)
        for seed in range(settings.seeds):
            start = run.start(seed)
            for name in settings.arms:
                run.arm(name, seed, start)


class Run:
    """A task, a model and a folder.

    Raises:
        InputError: if the task cannot be put to the model.
    """

    def __init__(self, settings: Settings, out: Path, own_task: Task, tensorboard: bool = False):
        self.settings, self.out, self.tensorboard = settings, out, tensorboard
        self.makers: list[Origin] = []  # known from ``begin`` on
        self.loaded, vocabulary = _model(settings.model, own_task)
        shown = own_task.put_to(vocabulary, self.loaded.config.max_positions, settings.warm_start.steps > 0)
        self.reader = Reader(shown, self.loaded.config, vocabulary)
        self.policy = self._policy(settings.rl)

    def _policy(self, rl: PolicyGradient) -> Policy:
        return Policy(self.loaded.config, self.settings.model.dtype, rl.temperature, rl.microbatch)

    def needed_memory(self) -> dict[str, int]:
        """Bytes of the large arrays of the arm that needs most.

        The longest prompt is that of all that are listed; where training problems are drawn, that of the evaluation's.
        """
        own = self.reader.task
        known = itertools.chain(own.listed, *own.evaluation_sets.values())
        sizes = max(len(self.reader.prompt(problem)) for problem in known), own.max_new_tokens
        arms = [needed_memory(self.settings.of_arm(name), self.loaded.config, *sizes) for name in self.settings.arms]
        return max(arms, key=lambda needed: sum(needed.values()))

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
        folders = [folder for folder in (self.out / "start", self.out / "arms") if folder.exists()]
        if folders and not overwrite:
            raise InputError(f"{folders[0]} is there without {RUN}; allowed: --overwrite, or another --out")
        # Without run.json, what a kill leaves of the old run is not taken for a run.
        (self.out / RUN).unlink(missing_ok=True)
        for folder in folders:
            shutil.rmtree(folder)

    def start(self, seed: int) -> Start:
        """The model that the arms of a seed begin from, evaluated; after a warm start where that is asked for."""
        folder, settings = self._folder(START, seed), self.settings.warm_start
        parameters = self.loaded.parameters or init(self.loaded.config, jax.random.key(seed))
        if settings.steps:
            parameters = self._warm_start(folder, seed, parameters)
        if followed := _followed(folder):
            return Start(parameters, *followed)
        found = self._evaluate(parameters, seed, 0)
        start = Start(parameters, choose(found.solutions), _rare(found))
        content = {"tracked": start.tracked._asdict(), "rare": start.rare._asdict()}
        write_whole(folder.path / FOLLOWED, sealed_json(content, name_of(folder.path / FOLLOWED)))
        folder.rewrite(EVALUATIONS, [self._line(found, 0, parameters, self.settings.rl, start)])
        return start

    def _warm_start(self, folder: ArmFolder, seed: int, parameters: Parameters) -> Parameters:
        settings = self.settings.warm_start
        if folder.model_is_whole():
            (folder.path / CHECKPOINT).unlink(missing_ok=True)  # which a kill may have left
            return read_checkpoint(folder.path / MODEL).parameters
        state = folder.begin(State(parameters, settings.init(parameters)))
        with Progress(f"warm start, seed {seed}", settings.steps, state.step) as progress, interrupts() as interrupted:
            while state.step < settings.steps:
                try:
                    state, line = supervised_step(self.policy, self.reader, settings, state, seed * PROBLEMS_OF_A_SEED)
                except InputError as error:
                    raise _stopped(folder, state, f"step {state.step + 1} of the warm start", error) from None
                folder.append(METRICS, {"step": state.step, **line})
                if state.step % self.settings.record.checkpoint_every == 0:
                    folder.save(state)
                progress.step(state.step, loss=line["loss"])
                if interrupted():
                    folder.save(state)
                    raise KeyboardInterrupt
        self._save_model(folder, state.parameters, self.settings.rl)
        (folder.path / CHECKPOINT).unlink(missing_ok=True)
        return state.parameters

    def arm(self, name: str, seed: int, start: Start) -> None:
        """Train one arm from the start of a seed, or go on with it."""
        train_arm = self._by_trl if self.settings.engine == "trl" else self._by_simlab
        with self._folder(name, seed) as folder:
            parameters = train_arm(name, seed, start, folder)
            self._save_model(folder, parameters, self.settings.of_arm(name).rl)

    def _save_model(self, folder: ArmFolder, parameters: Parameters, rl: PolicyGradient) -> None:
        generation = generation_config(self.reader, rl.temperature)
        folder.save_model(Model(self.loaded.config, parameters), self.reader.vocabulary, generation)

    def _path(self, name: str, seed: int) -> Path:
        return (self.out / START if name == START else arm_folder(self.out, name)) / f"seed-{seed}"

    def _folder(self, name: str, seed: int) -> ArmFolder:
        """The folder of an arm and seed, or of the start of a seed."""
        path, whose = self._path(name, seed), {"arm": name, "seed": seed, "settings": _digest(self.settings)}
        scalars = Scalars(path / "tensorboard") if self.tensorboard and name != START else None
        return ArmFolder(path, [{**whose, **made_by} for made_by in self.makers], scalars)

    def _by_simlab(self, name: str, seed: int, start: Start, folder: ArmFolder) -> Parameters:
        rl, record, policy = self.settings.rl_of(name), self.settings.record, self._policy(self.settings.rl_of(name))
        method = read_arm(name).method.build()
        first, verifier = _first_problem(seed), key_of(seed, VERIFIER_KEY)
        trainer = Trainer(policy, self.reader, method, rl, start.parameters, first, record.top_n, verifier)
        remembered = jax.tree.map(np.float32, method.estimator.init())
        begun = State(start.parameters, rl.init(start.parameters), remembered, older=(start.parameters,) * rl.lag)
        state = folder.begin(begun, self.settings.evaluation.every)
        with Progress(f"{name}, seed {seed}", rl.steps, state.step) as progress, interrupts() as interrupted:
            self._evaluate_state(folder, state, rl, seed, start)  # which may be all that an error left undone
            while state.step < rl.steps:
                began = time.perf_counter()
                state, line = self._step(trainer, state, name, seed, folder)
                folder.append(METRICS, {"step": state.step, **line, "seconds": time.perf_counter() - began})
                if interrupted():
                    folder.save(state)
                    raise KeyboardInterrupt
                if found := self._evaluate_state(folder, state, rl, seed, start):
                    progress.evaluated(found)
                if state.step % record.checkpoint_every == 0 or state.step == rl.steps:
                    folder.save(state)
                _show(progress, state.step, line)
        return state.parameters

    def _by_trl(self, name: str, seed: int, start: Start, folder: ArmFolder) -> Parameters:
        from simlab.adapters import trl_engine  # noqa: PLC0415  # of an extra

        model = self._folder(START, seed)
        if not model.model_is_whole():  # there was no warm start
            self._save_model(model, start.parameters, self.settings.rl)
        settings = self.settings.of_arm(name)
        with Progress(f"{name}, seed {seed}", settings.rl.steps, 0) as progress:

            def after_step(step: int, line: Mapping[str, Any], parameters: Callable[[], Parameters]) -> None:
                folder.append(METRICS, {"step": step, **line})
                if self._is_due(folder, step, settings.rl):
                    progress.evaluated(
                        self._evaluate_arm(folder, step, parameters(), rl=settings.rl, seed=seed, start=start)
                    )
                folder.sync()  # before TRL writes a checkpoint
                _show(progress, step, line)

            return trl_engine.train_arm(
                read_arm(name).method.build(),
                settings,
                self.reader,
                model.path / MODEL,
                folder,
                seed=seed,
                first=_first_problem(seed),
                after_step=after_step,
            )

    def _step(
        self, trainer: Trainer, state: State, name: str, seed: int, folder: ArmFolder
    ) -> tuple[State, dict[str, Any]]:
        record = self.settings.record
        instruments = (state.step + 1) % record.instruments_every == 0

        def keep(groups: Groups, advantages: np.ndarray) -> None:
            if kept := kept_rollouts(groups, advantages, self.reader, record.rollouts):
                folder.append(ROLLOUTS, {"step": state.step + 1, "groups": kept})

        try:
            return trainer.step(state, key_of(seed, state.step + 1), instruments, keep)
        except InputError as error:
            raise _stopped(folder, state, f"{name}, seed {seed}, step {state.step + 1}", error) from None

    def _evaluate_state(
        self, folder: ArmFolder, state: State, rl: PolicyGradient, seed: int, start: Start
    ) -> dict[str, Any] | None:
        """Evaluate an arm after a step where that is due, unless it is done; what was written of it."""
        if not self._is_due(folder, state.step, rl):
            return None
        try:
            return self._evaluate_arm(folder, state.step, state.parameters, rl=rl, seed=seed, start=start)
        except InputError as error:
            raise _stopped(folder, state, f"the evaluation after step {state.step}", error) from None

    def _is_due(self, folder: ArmFolder, step: int, rl: PolicyGradient) -> bool:
        """Whether an arm is to be evaluated after a step, and has not been."""
        due = step % self.settings.evaluation.every == 0 or step == rl.steps
        return step > 0 and due and all(line["step"] != step for line in folder.lines(EVALUATIONS))

    def _evaluate_arm(
        self, folder: ArmFolder, step: int, parameters: Parameters, *, rl: PolicyGradient, seed: int, start: Start
    ) -> dict[str, Any]:
        line = self._line(self._evaluate(parameters, seed, step), step, parameters, rl, start)
        folder.append(EVALUATIONS, line)
        return line

    def _evaluate(self, parameters: Parameters, seed: int, step: int) -> Evaluated:
        """The first evaluation set, with what is found of the others in its line."""
        key = jax.random.fold_in(key_of(seed, EVALUATION_KEY), step)
        (name, problems), *others = self.reader.task.evaluation_sets.items()
        found = self._evaluate_set(problems, parameters, key)
        if others:
            lines = {
                other: self._evaluate_set(own, parameters, jax.random.fold_in(key, word(other))).line
                for other, own in others
            }
            found.line.update(set=name, sets=lines)
        return found

    def _evaluate_set(self, problems: Sequence[Problem], parameters: Parameters, key: PRNGKeyArray) -> Evaluated:
        evaluation = self.settings.evaluation
        return evaluate(
            self.reader,
            self.policy.cast(parameters),
            evaluation.samples,
            problems=problems,
            key=key,
            temperature=self.settings.rl.temperature if evaluation.temperature is None else evaluation.temperature,
            rollouts=evaluation.rollouts,
            truncation=evaluation.truncation,
        )

    def _line(
        self, found: Evaluated, step: int, parameters: Parameters, rl: PolicyGradient, start: Start
    ) -> dict[str, Any]:
        """An evaluation, with what is followed since the start."""
        config, group_size = self.loaded.config, min(rl.group_size, self.settings.evaluation.samples)
        followed: dict[str, Any] = dict(tracked_metrics(start.tracked, found.solutions, group_size))
        if start.rare.prompts:
            followed["rare_nll"] = float(length_normalised_nll(parameters, config, start.rare).mean())
        if step and self.settings.record.weight_changes:
            before, after = (jax.tree.map(np.asarray, each) for each in (start.parameters, parameters))
            followed |= weight_change_metrics(weight_changes(before, after))
        return {"step": step, **found.line, **followed}


def _model(settings: ModelSettings, own_task: Task) -> tuple[Model, Vocabulary]:
    """The config and vocabulary, and of a pretrained model the parameters."""
    if settings.source != SCRATCH:
        return load(settings.source, "float32")
    vocabulary = own_task.vocabulary
    if vocabulary is None:
        raise InputError(f"task {own_task.name} has no vocabulary for a model from scratch; allowed: a pretrained one")
    sizes = {name: value for name, value in vars(settings).items() if name not in ("source", "dtype")}
    config = ModelConfig(
        vocab_size=vocabulary.size,
        bos_id=vocabulary.bos,
        eos_ids=(vocabulary.eos,),
        pad_id=vocabulary.pad,
        **sizes,
    )
    return Model(config, {}), vocabulary


def generation_config(reader: Reader, temperature: float) -> dict[str, Any]:
    """What ``transformers`` and vLLM sample by, unless they are told otherwise: what the run sampled by.

    Without it they take other settings than the run's, and from ``config.json`` alone perhaps fewer tokens that end a
    completion.
    """
    vocabulary = reader.vocabulary
    ends = {
        "eos_token_id": sorted(reader.ends),
        "pad_token_id": vocabulary.pad,
        "max_new_tokens": reader.task.max_new_tokens,
    }
    begins = {} if vocabulary.bos is None else {"bos_token_id": vocabulary.bos}
    return begins | ends | {"do_sample": True, "temperature": temperature, "top_p": 1.0, "top_k": 0}


def _followed(folder: ArmFolder) -> tuple[Tracked, Trajectories] | None:
    """What is followed since the start, once that is evaluated; None if it is not, or the files of it are damaged."""
    path = folder.path / FOLLOWED
    try:
        if not folder.lines(EVALUATIONS) or not path.exists():
            return None
        content = unsealed_json(path.read_bytes(), name_of(path))
    except Damaged as error:
        complain(f"{path} or {EVALUATIONS} beside it is damaged ({error}): they are set aside, and made anew")
        for damaged in filter(Path.exists, (path, folder.path / EVALUATIONS)):
            set_aside(damaged)
        return None
    return Tracked(**content["tracked"]), Trajectories(**content["rare"])


def _rare(found: Evaluated) -> Trajectories:
    """The rarest of the correct completions, by their likelihood per token at the temperature of sampling."""
    prompts, completions, nll = list[list[int]](), list[list[int]](), list[float]()
    for part in found.groups:
        for place, forms in enumerate(part.solutions):
            prompt = part.batch.prompts[place, : part.batch.lengths[place]].tolist()
            for member in (member for member, form in enumerate(forms) if form is not None):
                mask = part.sampled.mask[place, member]
                prompts.append(prompt)
                completions.append(part.sampled.tokens[place, member][mask].tolist())
                nll.append(-float(part.sampled.logp[place, member][mask].mean()))
    return rarest(Trajectories(prompts, completions), np.array(nll)) if nll else Trajectories([], [])


def _first_problem(seed: int) -> int:
    """The first training problem of a seed's arms."""
    return seed * PROBLEMS_OF_A_SEED + PROBLEMS_OF_A_SEED // 2


def _show(progress: Progress, step: int, line: Mapping[str, Any]) -> None:
    progress.step(step, reward=line["reward"], entropy=line["entropy"])


def _stopped(folder: ArmFolder, state: State, where: str, error: InputError) -> InputError:
    """The complaint about a step; what was done before it is kept."""
    # A task fails before anything is changed; an update that fails has used up the optimiser's state.
    if not isinstance(error, Diverged) and not any(
        leaf.is_deleted() for leaf in jax.tree.leaves((state.parameters, state.optimizer))
    ):
        folder.save(state)
    return InputError(f"{where}: {error}; {_kept(folder)}")


def _digest(settings: Settings) -> str:
    """A hash of the settings that a state depends on: the others are what is recorded, and which arms and seeds."""
    learnt = {name: settings.as_data()[name] for name in ("task", "model", "warm_start", "rl", "engine")}
    return hashlib.sha256(json.dumps(learnt, sort_keys=True).encode()).hexdigest()[:16]


def _kept(folder: ArmFolder) -> str:
    checkpoint = folder.path / CHECKPOINT
    return f"the last checkpoint is kept: {checkpoint}" if checkpoint.exists() else "there was no checkpoint yet"


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
