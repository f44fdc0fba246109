"""One arm of one seed: what it begins from, where it is written, and when it is evaluated."""

from typing import Any

from simlab.llm.model import Parameters
from simlab.llm.training.arm_text import read_arm
from simlab.llm.training.evaluator import Evaluator
from simlab.llm.training.folder import COMPLETIONS, EVALUATIONS, ArmFolder
from simlab.llm.training.kept_completions import completion_lines
from simlab.llm.training.setup import Setup
from simlab.llm.training.start import Start


class Arm:
    """An arm of a seed, whoever trains it.

    Attributes:
        setup: what the run shares.
        folder: of this arm and seed.
        seed: see above.
        start: what it begins from.
        settings: the settings of the run, with the arm's own as ``rl``.
        method: its estimator and surrogate.
        label: name and seed, in words.
    """

    def __init__(self, setup: Setup, name: str, seed: int, start: Start, folder: ArmFolder):
        self.setup, self.seed, self.start, self.folder = setup, seed, start, folder
        self.settings, self.method = setup.settings.of_arm(name), read_arm(name).method.build()
        self.label = f"{name}, seed {seed}"
        self._evaluator = Evaluator(setup, seed)

    def is_due(self, step: int) -> bool:
        """Whether it is to be evaluated after a step, and has not been."""
        due = step % self.settings.evaluation.every == 0 or step == self.settings.rl.steps
        return step > 0 and due and all(line["step"] != step for line in self.folder.lines(EVALUATIONS))

    def evaluate(self, parameters: Parameters, step: int) -> dict[str, Any]:
        """Evaluate it after a step; what was written of it.

        Raises:
            InputError: as ``Evaluator.evaluate``.
        """
        found, kept = self._evaluator.evaluate(parameters, step)
        group_size = self.settings.rl.group_size
        line = self._evaluator.line(found, parameters, step=step, group_size=group_size, start=self.start)
        for completions in completion_lines(step, kept):
            self.folder.append(COMPLETIONS, completions)
            self.folder.sync()  # before the evaluation counts as done
        self.folder.append(EVALUATIONS, line)
        return line
