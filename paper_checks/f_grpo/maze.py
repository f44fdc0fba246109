"""Section 5.2 and Appendix K: how many action sequences solve a maze with one path."""

import random

from paper_checks.claim import Amended, claim
from paper_checks.evidence import grid, satisfies


def perfect_maze(size, seed):
    """Passages of a perfect maze, cell -> neighbours: a spanning tree of the square grid, grown as Prim's."""
    choose = random.Random(seed)
    cells = [(row, column) for row in range(size) for column in range(size)]
    passages: dict[tuple[int, int], list[tuple[int, int]]] = {cell: [] for cell in cells}
    reached = {cells[0]}
    while len(reached) < len(cells):
        here, there = choose.choice(
            [
                ((row, column), cell)
                for row, column in sorted(reached)
                for cell in ((row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1))
                if cell in passages and cell not in reached
            ]
        )
        reached.add(there)
        passages[here].append(there)
        passages[there].append(here)
    return passages


def walks(passages, goal, walk, steps):
    """All walks on from ``walk`` that end when they first reach the goal, in at most so many steps."""
    if walk[-1] == goal:
        yield walk
    elif steps:
        for cell in passages[walk[-1]]:
            yield from walks(passages, goal, (*walk, cell), steps - 1)


RULES = {
    "no cell twice": lambda walk: len(set(walk)) == len(walk),
    "any walk to the goal": lambda walk: True,
}


@claim(
    "f-grpo:sec-5.2-single-solution",
    where="Section 5.2; Appendix K",
    says="In the maze each prompt has exactly one correct action sequence.",
    refuted_by="a perfect maze with two walks that a reward counts as correct",
    reading="A perfect maze, from corner to corner. Appendix K compares with one target sequence, which meets the "
    "condition. The published reward of Tajwar et al., whose set-up is used, accepts any walk that reaches the goal "
    "(paper-facts.md): with it a walk may turn back, there are many, and coverage within a prompt could be lost.",
    statement=lambda count, rule, **_: count == 1,
    condition=Amended(
        "a walk that enters a cell twice does not count as correct",
        lambda count, rule, **_: count == 1 if rule == "no cell twice" else None,
    ),
    planted={"several even so": lambda count, rule, **_: count > 1},
)
def single_solution(statement):
    """Enumerate the walks from corner to corner of up to ten steps, in small mazes."""

    def count(rule, size, seed):
        found = walks(perfect_maze(size, seed), (size - 1, size - 1), ((0, 0),), 10)
        return sum(RULES[rule](walk) for walk in found)

    yield from satisfies(statement, grid(rule=RULES, size=[2, 3], seed=range(4)), count)
