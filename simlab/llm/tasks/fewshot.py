"""Few-shot prompts of arithmetic, for models that were pretrained on text and follow no instructions."""

from dataclasses import dataclass, field
from random import Random

from simlab.errors import InputError, check_whole
from simlab.llm.tasks.base import DrawnTask, TaskProblem, is_held_out

OPERATIONS = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__}


@dataclass(frozen=True)
class Question:
    """An operation, one of ``+ - *``, on two numbers, as written from left to right."""

    first: int
    operator: str
    second: int

    def __str__(self) -> str:
        return f"{self.first} {self.operator} {self.second} ="

    @property
    def answer(self) -> str:
        """The value, as Python writes it."""
        return str(OPERATIONS[self.operator](self.first, self.second))

    @property
    def identity(self) -> str:
        """The operation, with the numbers in increasing order where their order does not matter."""
        first, second = self.first, self.second
        if self.operator in "+*":
            first, second = sorted((first, second))
        return f"{first} {self.operator} {second}"


@dataclass(frozen=True)
class FewShotProblem(TaskProblem):
    """A question, the last line of the prompt, after some answered ones."""

    question: Question


@dataclass(frozen=True, kw_only=True)
class FewShot(DrawnTask[FewShotProblem]):
    """Lines like ``12 + 7 = 19``; the last one stops after the equals sign.

    The answer is the first line of the completion, spaces and tabs around it aside; it must be the value, as Python
    writes it. Anything after the line break is ignored, and sampling stops there.

    No question that is held out for evaluation is answered in the lines of any prompt, nor is the prompt's own.

    Attributes:
        shots: answered lines before the question.
        digits: numbers are uniform from 0 up to so many digits.
        operators: which of ``+ - *`` occur, each as often.

    Raises: InputError: for numbers outside their ranges, and for what ``DrawnTask`` refuses.

    >>> task = FewShot(shots=2)
    >>> problem = FewShotProblem("3 + 4 = 7\\n12 + 7 =", Question(12, "+", 7))
    >>> task.solution(problem, " 19\\n8 + 8 = 16"), task.reward(problem, " 19 + 0")
    ('19', 0.0)
    """

    shots: int = 4
    digits: int = 2
    operators: str = "+"
    name: str = field(default="fewshot", init=False)
    vocabulary: None = field(default=None, init=False)
    stop: str | None = field(default="\n", init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("shots", self.shots, 0)
        check_whole("digits", self.digits, 1, 9)
        operators = set(self.operators)
        if not operators or len(operators) < len(self.operators) or not operators <= OPERATIONS.keys():
            raise InputError(f"operators = {self.operators!r}; allowed: some of {' '.join(OPERATIONS)}, each once")

    @property
    def max_new_tokens(self) -> int:
        """A token for each digit of the longest answer, for space, sign, line break and end; and four to spare."""
        return 2 * self.digits + 8

    def draw(self, random: Random) -> FewShotProblem:
        """Draw a question, and before it answered ones that are not held out."""
        question = self._question(random)
        lines: list[str] = []
        while len(lines) < self.shots:
            shot = self._question(random)
            if shot.identity != question.identity and not is_held_out(shot.identity):
                lines.append(f"{shot} {shot.answer}")
        return FewShotProblem("\n".join((*lines, str(question))), question)

    def _question(self, random: Random) -> Question:
        first, second = random.randrange(10**self.digits), random.randrange(10**self.digits)
        return Question(first, random.choice(self.operators), second)

    def identity(self, problem: FewShotProblem) -> str:
        """Return the question's identity, without the lines before it."""
        return problem.question.identity

    def demonstration(self, problem: FewShotProblem) -> str:
        """Return a space, the answer and a line break."""
        return f" {problem.question.answer}\n"

    def solution(self, problem: FewShotProblem, completion: str) -> str | None:
        """Return the answer."""
        first_line = completion.partition("\n")[0].strip(" \t\r")
        return first_line if first_line == problem.question.answer else None
