"""Perfect mazes on a square grid: between any two cells there is exactly one path."""

import functools
from dataclasses import dataclass
from random import Random

Position = tuple[int, int]  # row and column
MOVES = {"UP": (-1, 0), "DOWN": (1, 0), "LEFT": (0, -1), "RIGHT": (0, 1)}
START: Position = (1, 1)


@dataclass(frozen=True)
class Wall:
    """A wall between a cell and one of its neighbours.

    Attributes:
        before: the cell on this side.
        gap: the place between.
        behind: the cell on the other side.
        move: from ``before`` to ``gap``, and from there to ``behind``.
    """

    before: Position
    gap: Position
    behind: Position
    move: str


def goal_of(size: int) -> Position:
    """The cell in the corner opposite to the start."""
    return size - 2, size - 2


def perfect_maze(size: int, random: Random) -> tuple[frozenset[Position], tuple[str, ...]]:
    """A maze of ``size`` times ``size`` places: which are open, and the moves of the path from start to goal.

    Open are the cells, at odd places, and the gaps between some. Randomised Prim's algorithm: from the start on, one
    of the walls between a cell inside and one outside is opened, each with equal probability, until all are inside.
    """
    opened, walls, entrance = {START}, list(_walls_around(START, size)), dict[Position, Wall]()
    while walls:
        chosen = int(random.random() * len(walls))
        wall, walls[chosen] = walls[chosen], walls[-1]
        walls.pop()
        if wall.behind not in opened:
            opened.add(wall.gap)
            opened.add(wall.behind)
            entrance[wall.behind] = wall
            walls += _walls_around(wall.behind, size)
    return frozenset(opened), _path(entrance, goal_of(size))


def _path(entrance: dict[Position, Wall], goal: Position) -> tuple[str, ...]:
    """The moves to the goal, found from there backwards: through which wall was each cell entered?"""
    cell, moves = goal, list[str]()
    while cell != START:
        moves += [entrance[cell].move] * 2
        cell = entrance[cell].before
    return tuple(reversed(moves))


@functools.cache
def _walls_around(cell: Position, size: int) -> tuple[Wall, ...]:
    """The walls between a cell and its neighbours."""
    around = []
    for move in MOVES:
        gap = moved(cell, move)
        behind = moved(gap, move)
        if all(0 < position < size for position in behind):
            around.append(Wall(cell, gap, behind, move))
    return tuple(around)


def moved(position: Position, move: str) -> Position:
    """The place after one of the four moves."""
    down, right = MOVES[move]
    return position[0] + down, position[1] + right


def arrival(opened: frozenset[Position], size: int, moves: list[str]) -> int | None:
    """After how many moves the walk first is at the goal; None if it runs into a wall before, or never gets there."""
    position = START
    for count, move in enumerate(moves, 1):
        position = moved(position, move)
        if position not in opened:
            return None
        if position == goal_of(size):
            return count
    return None
