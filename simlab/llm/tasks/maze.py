"""The maze of F-GRPO and MaxRL: a grid of tokens, to be answered by moves from start to goal."""

import functools
from dataclasses import dataclass, field
from random import Random

from simlab.errors import InputError, check_choice, check_whole
from simlab.llm.tasks.base import DrawnTask, TaskProblem
from simlab.llm.vocabulary import BOS, EOS, PAD, Vocabulary, Words

Position = tuple[int, int]  # row and column
Wall = tuple[Position, Position, Position, str]  # a cell, the gap beside it, the cell behind that, and the move to it
MOVES = {"UP": (-1, 0), "DOWN": (1, 0), "LEFT": (0, -1), "RIGHT": (0, 1)}
START: Position = (1, 1)
REWARDS = ("walk", "strict")
DONE = "DONE"
TOKENS = (  # ids as in the tokenizer that the MaxRL authors published, in which a line break is never used either
    PAD, BOS, EOS, "<unk>", "GRID_START", "GRID_END", "PATH_START", DONE, "PATH", "WALL", "GOAL", "START", "NEWLINE",
    *MOVES, "\n", *(f"RESERVED_{number}" for number in range(14)),
)  # fmt: skip


def perfect_maze(size: int, random: Random) -> tuple[frozenset[Position], tuple[str, ...]]:
    """Draw a maze of ``size`` squared places by randomised Prim: open places, and the path's moves to the goal."""
    opened, walls, entrance = {START}, list(_walls_around(START, size)), dict[Position, Wall]()
    while walls:
        chosen = int(random.random() * len(walls))
        wall, walls[chosen] = walls[chosen], walls[-1]
        walls.pop()
        _, gap, behind, _ = wall
        if behind not in opened:
            opened |= {gap, behind}
            entrance[behind] = wall
            walls += _walls_around(behind, size)
    cell, moves = (size - 2, size - 2), list[str]()
    while cell != START:
        cell, _, _, move = entrance[cell]
        moves += [move] * 2
    return frozenset(opened), tuple(reversed(moves))


@functools.cache
def _walls_around(cell: Position, size: int) -> tuple[Wall, ...]:
    ways = [(_moved(cell, move), _moved(_moved(cell, move), move), move) for move in MOVES]
    return tuple((cell, gap, behind, move) for gap, behind, move in ways if all(0 < x < size for x in behind))


def _moved(position: Position, move: str) -> Position:
    down, right = MOVES[move]
    return position[0] + down, position[1] + right


@dataclass(frozen=True)
class MazeProblem(TaskProblem):
    """One maze."""

    opened: frozenset[Position]  # the places that are no wall
    path: tuple[str, ...]  # the moves of the one path from start to goal that visits no place twice


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

    Raises: InputError: for an even size or one below 5, too few new tokens for the longest path that such a maze may
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
        check_whole("size", self.size, 5, 101)
        if self.size % 2 == 0:
            raise InputError(f"size = {self.size} is even; allowed: odd numbers from 5 to 101")
        check_choice("accept", self.accept, REWARDS)
        cells = (self.size // 2) ** 2
        check_whole("max_new_tokens", self.max_new_tokens, 2 * (cells - 1) + 2, 10**6)

    @property
    def goal(self) -> Position:
        """The cell in the corner opposite to the start."""
        return self.size - 2, self.size - 2

    def draw(self, random: Random) -> MazeProblem:
        """Draw a maze."""
        opened, path = perfect_maze(self.size, random)
        words = {**dict.fromkeys(opened, "PATH"), START: "START", self.goal: "GOAL"}
        grid = [
            word
            for row in range(self.size)
            for word in (*(words.get((row, column), "WALL") for column in range(self.size)), "NEWLINE")
        ]
        return MazeProblem(" ".join((BOS, "GRID_START", *grid, "GRID_END", "PATH_START")), opened, path)

    def identity(self, problem: MazeProblem) -> str:
        """Return the grid."""
        return problem.prompt

    def demonstration(self, problem: MazeProblem) -> str:
        """Return the path, and DONE."""
        return " ".join((*problem.path, DONE))

    def solution(self, problem: MazeProblem, completion: str) -> str | None:
        """Return the moves until the walk is at the goal: walks that differ before count as different solutions."""
        if self.accept == "strict":
            return " ".join(problem.path) if completion == self.demonstration(problem) else None
        words = completion.split(maxsplit=self.max_new_tokens)[: self.max_new_tokens]
        moves = words[: words.index(DONE)] if DONE in words else []
        if not MOVES.keys() >= set(moves):
            return None
        position = START
        for count, move in enumerate(moves, 1):
            position = _moved(position, move)
            if position not in problem.opened:
                return None
            if position == self.goal:
                return " ".join(moves[:count])
        return None
