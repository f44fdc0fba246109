"""The maze of F-GRPO and MaxRL: a grid of tokens, to be answered by moves from start to goal."""

from dataclasses import dataclass, field
from random import Random

from simlab.errors import InputError, check_choice
from simlab.llm.tasks.base import TaskProblem
from simlab.llm.tasks.drawn import DrawnTask, check_width
from simlab.llm.tasks.maze_grid import MOVES, START, Position, arrival, goal_of, perfect_maze
from simlab.llm.vocabulary import BOS, EOS, PAD, Vocabulary, Words

REWARDS = ("walk", "strict")
DONE = "DONE"
TOKENS = (  # ids as in the tokenizer that the MaxRL authors published, in which a line break is never used either
    PAD, BOS, EOS, "<unk>", "GRID_START", "GRID_END", "PATH_START", DONE, "PATH", "WALL", "GOAL", "START", "NEWLINE",
    *MOVES, "\n", *(f"RESERVED_{number}" for number in range(14)),
)  # fmt: skip


@dataclass(frozen=True)
class MazeProblem(TaskProblem):
    """One maze.

    Attributes:
        opened: the places that are no wall, as (row, column).
        path: the moves of the one path from start to goal that visits no place twice.
    """

    opened: frozenset[Position]
    path: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Maze(DrawnTask[MazeProblem]):
    """Perfect mazes by Prim's algorithm, from the upper left to the lower right (F-GRPO, appendix K).

    The prompt has ``size`` (``size`` + 1) + 4 tokens, 310 at size 17; the answer is moves and then DONE. The authors'
    own generator is not published: these mazes are drawn as theirs are described, but are not the same ones.

    Attributes:
        size: places along a side, walls included; odd.
        accept: which answers are correct. ``"walk"``, as in the code: moves, any words of the four, until the first
            DONE, what follows being ignored; they must not leave the open places before they first are at the goal,
            and what they do after it is ignored. ``"strict"``, as F-GRPO describes it: the one path, DONE, no more.
        max_new_tokens: moves, DONE and end token of one answer.
        training_size: the paper has a million.

    Raises:
        InputError: for an even size or one below 5, too few new tokens for the longest path that such a maze may
            have, and for what ``DrawnTask`` refuses.
    """

    size: int = 17
    accept: str = "walk"
    max_new_tokens: int = 180
    training_size: int | None = 1_000_000
    name: str = field(default="maze", init=False)
    vocabulary: Vocabulary = field(default=Words(TOKENS), init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_width("size", self.size, 5, 101)
        if self.size % 2 == 0:
            raise InputError(f"size = {self.size} is even; allowed: odd numbers from 5 to 101")
        check_choice("accept", self.accept, REWARDS)
        cells = (self.size // 2) ** 2
        check_width("max_new_tokens", self.max_new_tokens, 2 * (cells - 1) + 2, 10**6)

    def draw(self, random: Random) -> MazeProblem:
        """A maze."""
        opened, path = perfect_maze(self.size, random)
        return MazeProblem(self._prompt(opened), opened, path)

    def _prompt(self, opened: frozenset[Position]) -> str:
        ends = {START: "START", goal_of(self.size): "GOAL"}
        rows = (
            [ends.get((row, column), "PATH" if (row, column) in opened else "WALL") for column in range(self.size)]
            for row in range(self.size)
        )
        grid = (word for row in rows for word in (*row, "NEWLINE"))
        return " ".join((BOS, "GRID_START", *grid, "GRID_END", "PATH_START"))

    def identity(self, problem: MazeProblem) -> str:
        """The grid."""
        return problem.prompt

    def demonstration(self, problem: MazeProblem) -> str:
        """The path, and DONE."""
        return " ".join((*problem.path, DONE))

    def solution(self, problem: MazeProblem, completion: str) -> str | None:
        """The moves until the walk is at the goal: walks that differ before count as different solutions.

        A word is at least a token, so that DONE has to be among the first ``max_new_tokens`` words; what follows these
        is not read.
        """
        if self.accept == "strict":
            return " ".join(problem.path) if completion == self.demonstration(problem) else None
        words = completion.split(maxsplit=self.max_new_tokens)[: self.max_new_tokens]
        if DONE not in words:
            return None
        moves = words[: words.index(DONE)]
        if not MOVES.keys() >= set(moves):
            return None
        count = arrival(problem.opened, self.size, moves)
        return None if count is None else " ".join(moves[:count])
