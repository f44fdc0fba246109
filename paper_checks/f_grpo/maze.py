"""Section 5.2 and Appendix K: the action sequences that solve a maze with one path, and a group's misses there."""

import random
from fractions import Fraction

from paper_checks.claim import claim
from paper_checks.evidence import equals, grid, satisfies
from paper_checks.exact import POLICIES, groups, mass
from paper_checks.f_grpo.regimes import tail_miss
from paper_checks.f_grpo.sampled_sets import batch_of


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
    """All walks on from ``walk`` of at most ``steps`` steps that end when they first reach the goal."""
    if walk[-1] == goal:
        yield walk
    elif steps:
        for cell in passages[walk[-1]]:
            yield from walks(passages, goal, (*walk, cell), steps - 1)


def opened(passages):
    """The same maze with one more passage, between the first two neighbouring cells that have none."""
    here, there = next(
        (cell, other)
        for cell in sorted(passages)
        for other in ((cell[0] + 1, cell[1]), (cell[0], cell[1] + 1))
        if other in passages and other not in passages[cell]
    )
    more = {cell: list(neighbours) for cell, neighbours in passages.items()}
    more[here].append(there)
    more[there].append(here)
    return more


def paths(passages, size, *, simple=True):
    """Count walks of up to ten steps from corner to corner; simple ones enter no cell twice."""
    sequences = walks(passages, (size - 1, size - 1), ((0, 0),), 10)
    return sum(not simple or len(set(walk)) == len(walk) for walk in sequences)


@claim(
    "f-grpo:sec-5.2-single-solution",
    where="Section 5.2; Appendix K",
    says="In the maze each prompt has exactly one correct action sequence.",
    refuted_by="a perfect maze with no path from corner to corner that enters no cell twice, or with several",
    reading="That the mazes are perfect is from the code of the set-up's source, not from this paper; the check grows "
    "its own, of 2 x 2 and 3 x 3 cells. A perfect maze, with the target sequence that Appendix K compares with: its "
    "one path without a cell entered twice.",
    caveat="The published reward of the set-up's source (Tajwar et al., arXiv 2602.02710) accepts any walk that "
    "reaches the goal. With that reward a walk may turn back, and there are many correct sequences.",
    statement=lambda maze, size: paths(maze, size) == 1,
    planted={
        "any walk to the goal counts": lambda maze, size: paths(maze, size, simple=False) == 1,
        "also with one passage more": lambda maze, size: paths(opened(maze), size) == 1,
    },
)
def single_solution(statement):
    """Enumerate the walks from corner to corner of up to ten steps, in small mazes."""
    yield from satisfies(
        lambda holds, **_: holds,
        grid(size=[2, 3], seed=range(4)),
        lambda size, seed: statement(perfect_maze(size, seed), size),
    )


SINGLE = [{"policy": policy, "G": G} for policy, _ in POLICIES for G in (2, 3, 4)]


def missed_when_active(policy, correct, G):
    """The probability of a mixed group that misses a correct action, and the most correct mass that one misses."""
    chance, mass_missed = Fraction(0), Fraction(0)
    for probability, counts in groups(policy, G):
        batch = batch_of(policy, correct, counts)
        if 0 < mass(counts, correct) < G and any(batch.unsampled_correct):
            chance += probability
            mass_missed = max(mass_missed, batch.Q_pos - batch.P_pos)
    return chance, mass_missed


@claim(
    "f-grpo:sec-5.2-separates",
    where="Section 5.2; Appendix K",
    says="The maze separates the pass@k effect from the diversity of solutions within a prompt: no update there can "
    "lose one correct sequence to another.",
    refuted_by="an active group of a prompt with one correct action that leaves correct mass unsampled",
    reading="One correct sequence, tau = mu. An active group has then sampled it, so that Lemma 3.1 gives 0 and Q_upos "
    "of Eq. 9 is 0.",
    caveat="Nor is the maze then a test of Section 3, whose tail-miss probability and unsampled correct mass are 0 "
    "there: its gains have another cause, such as what the weight does across prompts. With the published reward of "
    "the set-up's source, which accepts any walk to the goal, a group could miss a correct sequence.",
    statement=lambda chance, missed: chance == 0 and missed == 0,
    planted={"a miss is possible": lambda chance, missed: chance > 0 or missed > 0},
)
def separates(statement):
    """Enumerate the groups of a prompt with one correct action, and compare the chance with Lemma 3.1 at tau = mu."""

    def outcome(policy, G):
        return missed_when_active(policy, (True, *(False,) * (len(policy) - 1)), G)

    yield from equals(
        lambda policy, G: tail_miss(G, policy[0], policy[0]),
        SINGLE,
        enumerated=lambda policy, G: outcome(policy, G)[0],
    )
    yield from satisfies(lambda value, **_: statement(*value), SINGLE, outcome)
