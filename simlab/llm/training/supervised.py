"""The supervised warm start: raise the mean log-probability of demonstrations, given their prompts."""

import numpy as np

from simlab.llm.completions import Batch, filled_up, longest
from simlab.llm.tasks.base import Problem
from simlab.llm.training.gradient import Policy
from simlab.llm.training.groups import Reader
from simlab.llm.training.optimizer import ascend
from simlab.llm.training.settings import WarmStart
from simlab.llm.training.state import State


def demonstrations(reader: Reader, problems: list[Problem]) -> Batch:
    """One demonstration of each problem, as groups of one."""
    prompts, answers = [reader.prompt(problem) for problem in problems], list(map(reader.answer, problems))
    tokens, sizes = filled_up(answers, len(answers), longest(answers))
    mask = np.arange(tokens.shape[1]) < sizes[:, None]
    return Batch(*filled_up(prompts, len(prompts), longest(prompts)), tokens[:, None], mask[:, None])


def supervised_step(
    policy: Policy, reader: Reader, settings: WarmStart, state: State, first: int
) -> tuple[State, dict[str, float]]:
    """One step on the training problems from ``first`` on, and its loss: nats a token."""
    task = reader.task
    batch = demonstrations(reader, [task.training(first + state.cursor + place) for place in range(settings.batch)])
    weights = batch.mask / np.float32(batch.mask.sum())
    gradient, objective = policy.gradient(state.parameters, batch, weights.astype(np.float32))
    rate = settings.rate(state.step + 1, settings.steps)
    parameters, optimizer, norm = ascend(settings, state.parameters, state.optimizer, gradient, rate)
    state = State(parameters, optimizer, step=state.step + 1, cursor=state.cursor + settings.batch)
    return state, {"loss": -objective, "grad_norm": norm, "learning_rate": rate}
