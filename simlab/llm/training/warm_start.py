"""Make what the arms of a seed begin from: a model, after a warm start where that is asked for, evaluated."""

import jax

from simlab.errors import InputError
from simlab.llm.checkpoint import read_checkpoint
from simlab.llm.model import Parameters, init
from simlab.llm.training.evaluator import Evaluator
from simlab.llm.training.folder import COMPLETIONS, EVALUATIONS, METRICS, MODEL, ArmFolder
from simlab.llm.training.interrupt import interrupts
from simlab.llm.training.kept_completions import completion_lines
from simlab.llm.training.progress import Progress
from simlab.llm.training.seeds import first_demonstration
from simlab.llm.training.setup import Setup
from simlab.llm.training.start import Start, choose_followed, read_followed, write_followed
from simlab.llm.training.state import State
from simlab.llm.training.stops import stopped
from simlab.llm.training.supervised import supervised_step


def make_start(setup: Setup, seed: int, folder: ArmFolder) -> Start:
    """The model that the arms of a seed begin from, or what ``folder`` has of it.

    Raises:
        InputError: for what goes wrong in a step of the warm start or in the evaluation.
    """
    parameters = setup.loaded.parameters or init(setup.loaded.config, jax.random.key(seed))
    if setup.settings.warm_start.steps:
        parameters = _warm_start(setup, seed, folder, parameters)
    if followed := read_followed(folder):
        return Start(parameters, followed)
    evaluator = Evaluator(setup, seed)
    found, kept = evaluator.evaluate(parameters, 0)
    start = Start(parameters, choose_followed(found))
    write_followed(folder, start.followed)
    line = evaluator.line(found, parameters, step=0, group_size=setup.settings.rl.group_size, start=start)
    if lines := completion_lines(0, kept):
        folder.rewrite(COMPLETIONS, lines)
    folder.rewrite(EVALUATIONS, [line])
    return start


def _warm_start(setup: Setup, seed: int, folder: ArmFolder, parameters: Parameters) -> Parameters:
    settings = setup.settings.warm_start
    if folder.model_is_whole():
        folder.remove_state()  # which a kill may have left
        return read_checkpoint(folder.path / MODEL).parameters
    policy, first = setup.policy(), first_demonstration(seed)
    state = folder.begin(State(parameters, settings.init(parameters)))
    with Progress(f"warm start, seed {seed}", settings.steps, state.step) as progress, interrupts() as interrupted:
        while state.step < settings.steps:
            try:
                state, line = supervised_step(policy, setup.reader, settings, state, first)
            except InputError as error:
                raise stopped(folder, state, f"step {state.step + 1} of the warm start", error) from None
            folder.append(METRICS, {"step": state.step, **line})
            if state.step % setup.settings.record.checkpoint_every == 0:
                folder.save(state)
            progress.step(state.step, loss=line["loss"])
            if interrupted():
                folder.save(state)
                raise KeyboardInterrupt
    setup.save_model(folder, state.parameters, setup.settings.rl.temperature)
    folder.remove_state()
    return state.parameters
