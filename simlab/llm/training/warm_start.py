"""Make the model that the arms of a seed begin from: after a supervised warm start if there is one, and evaluated."""

import jax
import numpy as np

from simlab.errors import InputError
from simlab.llm.checkpoint import read_checkpoint
from simlab.llm.completions import CompletionBatch, filled_up, longest
from simlab.llm.instruments.rare_solutions import Tracked, Trajectories
from simlab.llm.model import Parameters, init
from simlab.llm.tasks.base import TaskProblem
from simlab.llm.training.evaluate import Evaluator, Start
from simlab.llm.training.folder import METRICS, MODEL, ArmFolder
from simlab.llm.training.gradient import DecoderPolicy
from simlab.llm.training.groups import Reader
from simlab.llm.training.optimizer import ascend, first_state
from simlab.llm.training.progress import TrainingProgress, catch_interrupts
from simlab.llm.training.settings import WarmStartSettings
from simlab.llm.training.setup import SEED_PROBLEMS, Setup
from simlab.llm.training.state import TrainerState


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
    state = folder.begin(TrainerState(parameters, first_state(settings, parameters)))
    with (
        TrainingProgress(f"warm start, seed {seed}", settings.steps, state.step) as progress,
        catch_interrupts() as interrupted,
    ):
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
