"""Train the model that the arms of a seed begin from, and each arm, by simlab's own steps or by TRL's trainer."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from simlab.errors import InputError
from simlab.interference.record import FOLDER, Record
from simlab.llm.checkpoint import read_checkpoint
from simlab.llm.completions import CompletionBatch, filled_up, longest
from simlab.llm.instruments.rare_solutions import Tracked, Trajectories
from simlab.llm.model import Parameters, init
from simlab.llm.tasks.base import TaskProblem
from simlab.llm.training.evaluate import Evaluator, Start
from simlab.llm.training.folder import EVALUATIONS, METRICS, MODEL, ROLLOUTS, ArmFolder, TrainerState
from simlab.llm.training.gradient import DecoderPolicy
from simlab.llm.training.groups import Reader, RolloutGroups, rollout_records
from simlab.llm.training.optimizer import ascend, first_state
from simlab.llm.training.policy_gradient import Trainer
from simlab.llm.training.probe import Gradients, probe, write_records
from simlab.llm.training.progress import TrainingProgress, catch_interrupts
from simlab.llm.training.remedies import first_again
from simlab.llm.training.settings import WarmStartSettings
from simlab.llm.training.setup import ARM_PROBLEMS, SEED_PROBLEMS, VERIFIER_KEY, Setup, step_key

MAPS, MAPS_LIMIT = Path("/proc/self/maps"), Path("/proc/sys/vm/max_map_count")  # on Linux alone

SILENT_STEPS = 10  # without any gradient, after which a run stops: minutes are lost, not hours
LEAST_TAUGHT = 0.1  # share of the groups of a run; where fewer teach, its end says so


def make_start(setup: Setup, seed: int, folder: ArmFolder) -> Start:
    """Return the model that the arms of a seed begin from; a finished one is read from ``folder``."""
    settings = setup.settings
    parameters = setup.loaded.parameters or init(setup.loaded.config, jax.random.key(seed))
    if record := folder.finished_record():
        if settings.warm_start.steps:
            parameters = read_checkpoint(folder.path / MODEL).parameters
        return Start(parameters, Tracked(**record["tracked"]), Trajectories(**record["rare"]))
    if settings.warm_start.steps:
        parameters = _warm_up(setup, seed, folder, parameters)
    else:
        folder.cut_lines({})
    start, _ = Evaluator(setup, seed).write(folder, parameters, 0, settings.rl.group_size)
    if settings.warm_start.steps or settings.engine == "trl":  # TRL reads its model from a folder
        setup.save_model(folder, parameters, settings.rl.temperature)
    folder.finish(tracked=start.tracked._asdict(), rare=start.rare._asdict())
    return start


def _warm_up(setup: Setup, seed: int, folder: ArmFolder, parameters: Parameters) -> Parameters:
    settings, policy, first = setup.settings.warm_start, setup.policy(), seed * SEED_PROBLEMS
    state, label = folder.begin(TrainerState(parameters, first_state(settings, parameters))), f"warm start, seed {seed}"
    with TrainingProgress(label, settings.steps, state.step) as progress, catch_interrupts() as interrupted:
        while state.step < settings.steps:
            try:
                state, line = supervised_step(policy, setup.reader, settings, state, first)
            except InputError as error:
                raise folder.explain_stop(state, f"step {state.step + 1} of the warm start", error) from None
            folder.append(METRICS, {"step": state.step, **line})
            due = state.step % setup.settings.record.checkpoint_every == 0 or state.step == settings.steps
            if due or interrupted():
                folder.save(state)
            progress.step(state.step, loss=line["loss"])
            if interrupted():
                raise KeyboardInterrupt
    return state.parameters


def demonstrations(reader: Reader, problems: list[TaskProblem]) -> CompletionBatch:
    """Return one demonstration of each problem, as groups of one."""
    prompts, answers = [reader.prompt(problem) for problem in problems], list(map(reader.answer, problems))
    tokens, sizes = filled_up(answers, len(answers), longest(answers))
    mask = np.arange(tokens.shape[1]) < sizes[:, None]
    return CompletionBatch(*filled_up(prompts, len(prompts), longest(prompts)), tokens[:, None], mask[:, None])


def supervised_step(
    policy: DecoderPolicy, reader: Reader, settings: WarmStartSettings, state: TrainerState, first: int
) -> tuple[TrainerState, dict[str, float]]:
    """Take one step on the training problems from ``first`` on; return its loss in nats a token too."""
    numbers = range(first + state.cursor, first + state.cursor + settings.batch)
    batch = demonstrations(reader, [reader.task.training(number) for number in numbers])
    weights = batch.mask / np.float32(batch.mask.sum())
    gradient, objective = policy.gradient(state.parameters, batch, weights.astype(np.float32))
    rate = settings.rate(state.step + 1, settings.steps)
    parameters, optimizer, norm = ascend(settings, state.parameters, state.optimizer, gradient, rate)
    state = TrainerState(parameters, optimizer, step=state.step + 1, cursor=state.cursor + settings.batch)
    return state, {"loss": -objective, "grad_norm": norm, "learning_rate": rate}


class ArmRun:
    """An arm of a seed, whichever engine trains it; ``settings`` are the run's, with the arm's overrides as ``rl``."""

    def __init__(self, setup: Setup, name: str, seed: int, start: Start, folder: ArmFolder):
        self.setup, self.seed, self.start, self.folder = setup, seed, start, folder
        self.settings, self.method = setup.settings.select_arm(name)
        self.label, self.first = f"{name}, seed {seed}", seed * SEED_PROBLEMS + ARM_PROBLEMS

    def train(self, start_model: Path) -> None:
        """Train the arm from its checkpoint, or from its start, and write its model; skip a finished one."""
        keep_checkpoint, by_trl = self.settings.record.keep_checkpoint, self.settings.engine == "trl"
        if not self.folder.finished_record(keep_checkpoint=keep_checkpoint):
            parameters = self._train_by_trl(start_model) if by_trl else self._train_by_simlab()
            self.setup.save_model(self.folder, parameters, self.settings.rl.temperature)
            self.folder.finish(keep_checkpoint=keep_checkpoint)

    def remark(self) -> str | None:
        """Say at the end that nearly all groups were all wrong, or all right; None where more of them taught.

        Graded rewards may teach in groups that are all wrong, and have no such sentence.
        """
        lines = [line for line in self.folder.lines(METRICS) if "all_wrong" in line]
        if not lines or any(line["reward"] != line["solve_rate"] for line in lines):
            return None
        right, wrong = (sum(line[name] for line in lines) / len(lines) for name in ("all_right", "all_wrong"))
        if (taught := 1 - right - wrong) >= LEAST_TAUGHT:
            return None
        groups = len(lines) * self.settings.rl.prompts
        return (
            f"{self.label}: {round(taught * groups)} of the {groups} groups of {len(lines)} steps taught anything "
            f"({wrong:.0%} all wrong, {right:.0%} all right), too few to learn from; what helps: {_helps(right, wrong)}"
        )

    def _evaluate(self, step: int, parameters: Callable[[], Parameters]) -> dict[str, Any] | None:
        """Evaluate the arm after a step if that is due, and has not been done; return the line that was written."""
        due = step % self.settings.evaluation.every == 0 or step == self.settings.rl.steps
        if step == 0 or not due or any(line["step"] == step for line in self.folder.lines(EVALUATIONS)):
            return None
        release_programs()
        evaluator, group_size = Evaluator(self.setup, self.seed), self.settings.rl.group_size
        return evaluator.write(self.folder, parameters(), step, group_size, self.start)[1]

    def _train_by_simlab(self) -> Parameters:
        rl, record, start = self.settings.rl, self.settings.record, self.start.parameters
        policy, trained = self.setup.trainable(rl, self.seed, start)
        key = step_key(self.seed, VERIFIER_KEY)
        teacher = self.setup.teacher(rl) if "teacher_logp" in self.method.needs else None
        common = policy, self.setup.reader, self.method, rl, trained
        trainer = Trainer(*common, self.first, record.top_n, key, teacher, self.settings.probe)
        memories = (jax.tree.map(np.float32, link.init()) for link in (self.method.estimator, self.method.surrogate))
        fresh = TrainerState(trained, first_state(rl, trained), *memories)
        state = self.folder.begin(fresh._replace(older=(trained,) * rl.lag, again=first_again(rl)))

        def evaluate() -> dict[str, Any] | None:
            try:
                return self._evaluate(state.step, lambda: self.setup.merge(state.parameters, start))
            except InputError as error:
                raise self.folder.explain_stop(state, f"the evaluation after step {state.step}", error) from None

        with TrainingProgress(self.label, rl.steps, state.step) as progress, catch_interrupts() as interrupted:
            evaluate()  # an error or Ctrl-C may have left only this to do
            while state.step < rl.steps:
                began = time.perf_counter()
                state, line, texts = self._step(trainer, state)
                if texts:
                    self.folder.append(ROLLOUTS, {"step": state.step, "groups": texts})
                self.folder.append(METRICS, {"step": state.step, **line, "seconds": time.perf_counter() - began})
                if state.step == SILENT_STEPS and not any(line["grad_norm"] for line in self.folder.lines(METRICS)):
                    raise self.folder.explain_stop(state, self.label, _nothing_learned(line))
                if interrupted():
                    self.folder.save(state)
                    raise KeyboardInterrupt
                if evaluation := evaluate():
                    progress.evaluated(evaluation)
                if state.step % record.checkpoint_every == 0 or state.step == rl.steps:
                    self.folder.save(state)
                progress.trained(state.step, line)
        return self.setup.merge(state.parameters, start)

    def _step(self, trainer: Trainer, state: TrainerState) -> tuple[TrainerState, dict[str, Any], list[dict[str, Any]]]:
        """Take a step; return the state after it, its metrics, and its records of texts."""
        step, record, texts = state.step + 1, self.settings.record, list[dict[str, Any]]()
        records, gradients, probing = list[Record](), dict[str, Gradients](), self.settings.probe
        due = bool(probing.every) and step % probing.every == 0

        def watch(groups: RolloutGroups, advantages: np.ndarray) -> None:
            texts.extend(rollout_records(groups, advantages, self.setup.reader, record.rollouts))
            if due:
                key = step_key(self.seed, step)
                records.extend(probe(trainer, state, groups, probing, key, gradients=gradients))

        try:
            after, line = trainer.step(state, step_key(self.seed, step), step % record.instruments_every == 0, watch)
        except InputError as error:
            raise self.folder.explain_stop(state, f"{self.label}, step {step}", error) from None
        moved = {name: each.change(state.parameters, after.parameters) for name, each in gradients.items()}
        write_records(self.folder.path / FOLDER, records, line, trainer.settings.max_norm, moved)
        return after, line, texts

    def _train_by_trl(self, start_model: Path) -> Parameters:
        from simlab.adapters import trl_engine  # noqa: PLC0415  # of an extra

        with TrainingProgress(self.label, self.settings.rl.steps, 0) as progress:

            def after_step(step: int, line: Mapping[str, Any], parameters: Callable[[], Parameters]) -> None:
                self.folder.append(METRICS, {"step": step, **line})
                if evaluation := self._evaluate(step, parameters):
                    progress.evaluated(evaluation)
                progress.trained(step, line)

            common = self.method, self.settings, self.setup.reader, start_model, self.folder
            return trl_engine.train_arm(*common, seed=self.seed, first=self.first, after_step=after_step)


def _nothing_learned(line: Mapping[str, Any]) -> InputError:
    """Say why no step has had a gradient, and what helps."""
    right, wrong = line["all_right"], line["all_wrong"]
    return InputError(
        f"no group of the first {SILENT_STEPS} steps taught anything; of the last, {right:.0%} are all right and "
        f"{wrong:.0%} all wrong; allowed: {_helps(right, wrong)}; the same command goes on all the same"
    )


def _helps(right: float, wrong: float) -> str:
    """Say what gives groups a signal, of which such shares are all right and all wrong."""
    if right >= wrong:
        return "harder problems, or fewer warm_start.steps"
    return "easier problems, more warm_start.steps, or a larger rl.group_size"


def release_programs() -> None:
    """Release compiled programs if they hold over half of the memory maps that Linux grants a process."""
    if MAPS.exists() and MAPS_LIMIT.exists():
        with MAPS.open("rb") as lines:
            count = sum(1 for _ in lines)
        if count > int(MAPS_LIMIT.read_text()) // 2:
            clear: Any = jax.clear_caches  # which has no type
            clear()
