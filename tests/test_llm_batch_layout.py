"""Where completions go when a batch changes: none is lost, and none meets another prompt."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simlab.llm.batch_layout import (
    BatchLayout,
    BatchSize,
    batch_size,
    part_count,
    regrouped,
    row_width,
    rows_needed,
    smaller_shape,
)


def completions(places):
    """The completions of the places that have one, in order."""
    return sorted(zip(places.prompt[places.filled], places.member[places.filled], strict=True))


def test_those_alive_move_together_and_lose_nothing():
    """In 600 random batches each one alive has one place after the move, in its group; a power of two of rows of 4."""
    random = np.random.default_rng(0)
    places = BatchLayout.of(5, 11, 6, 12)
    powers = np.array([1, 2, 4, 8, 16, 32])
    moves = 0
    for _ in range(600):
        alive = places.filled & (random.random((6, 12)) < random.random() * random.random((6, 1)))
        if not alive.any():
            continue
        needed = sum(math.ceil(count / 4) for count in alive.sum(axis=1))
        shape = smaller_shape(places, alive)
        assert shape == (powers[powers >= needed].min(), 4)
        move = regrouped(places, alive, shape)
        moved = places.moved(*move)
        moves += 1
        assert completions(moved) == sorted(zip(*np.nonzero(alive), strict=True))
        assert (moved.prompt == moved.prompt[:, :1]).all()
        assert moved.group.max() < shape[0]
    assert moves > 500


@given(st.integers(1, 6), st.integers(1, 12), st.integers(0, 10_000))
def test_those_of_a_prompt_fill_as_few_rows_as_they_can(prompts, group_size, seed):
    """Groups in rows of ``row_width``, of which some have ended, moved twice."""
    random = np.random.default_rng(seed)
    width = row_width(group_size)
    rows = prompts * group_size // width + seed % 3
    whole = BatchLayout.of(prompts, group_size, prompts, group_size)
    places = BatchLayout.of(0, 0, rows, width).with_rows(0, whole)
    for share in random.random(2):
        alive = places.filled & (random.random(places.filled.shape) < share)
        before = sorted(zip(places.prompt[alive], places.member[alive], strict=True))
        move = regrouped(places, alive, alive.shape)
        places = places.moved(*move)
        assert completions(places) == before
        left = Counter(prompt for prompt, _ in before)
        needed = sum(math.ceil(count / width) for count in left.values())
        assert rows_needed(places.filled, places.prompt, width) == needed
        assert places.filled.any(axis=1).tolist() == [True] * needed + [False] * (rows - needed)
        assert (places.prompt == places.prompt[:, :1]).all()


@given(st.integers(1, 100), st.integers(1, 40), st.integers(1, 5000))
def test_a_batch_has_room_for_what_is_sampled_at_once(prompts, group_size, most):
    """No more places than are asked for; all of the next prompts fit into an empty batch."""
    at_once = max(most, group_size)
    size = batch_size(prompts, group_size, at_once)
    if prompts * group_size <= at_once:
        assert size == batch_size(prompts, group_size) == BatchSize(*size[:2], 0)
        assert size.rows >= prompts
        assert size.width >= group_size
    else:
        assert size.rows * size.width <= at_once
        assert group_size % size.width == 0
        assert size.joining >= 1
        assert size.joining * group_size <= size.rows * size.width


@pytest.mark.parametrize(("group_size", "width"), [(1, 1), (4, 4), (6, 3), (7, 1), (10, 2), (16, 4), (64, 4)])
def test_a_row_has_the_largest_divisor_of_a_group_up_to_four(group_size, width):
    assert row_width(group_size) == width


@pytest.mark.parametrize(
    ("prompts", "group_size", "at_once", "parts"),
    [(2, 16, None, 2), (1, 64, None, 1), (4, 6, None, 1), (64, 16, 32, 2), (64, 64, 127, 1), (64, 64, 128, 2)],
)
def test_two_parts_are_sampled_side_by_side_where_each_has_16_places_and_a_group(prompts, group_size, at_once, parts):
    assert part_count(prompts, group_size, at_once) == parts
