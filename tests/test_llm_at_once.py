"""Calls side by side: their order, their errors, their precision, and what is compiled."""

import functools
import logging
import threading

import jax
import jax.numpy as jnp
import pytest

from simlab.llm.at_once import compile_in_turn, compiled_once, side_by_side


def test_results_come_in_the_order_of_the_calls():
    """The first call waits for the second, so that one after the other they would never end."""
    second = threading.Event()

    def first():
        assert second.wait(60)
        return "first"

    assert side_by_side([first, lambda: second.set() or "second"]) == ["first", "second"]


def test_an_error_of_one_is_an_error_of_all():
    def broken():
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        side_by_side([lambda: 1, broken])


@pytest.mark.parametrize("wide", [False, True])
def test_they_compute_in_the_precision_of_their_caller(wide):
    with jax.enable_x64(wide):
        found = side_by_side([lambda: jnp.ones(2, float).dtype] * 2)
    assert [str(dtype) for dtype in found] == ["float64" if wide else "float32"] * 2


def test_a_program_that_two_need_is_compiled_once():
    traced = []

    @jax.jit
    def twice(values):
        traced.append(values.shape)
        return 2 * values

    calls = [lambda size=size: compiled_once(twice, jnp.ones(size)) for size in (3, 3, 3, 4)]
    assert [float(found.sum()) for found in side_by_side(calls)] == [6, 6, 6, 8]
    assert sorted(traced) == [(3,), (4,)]


def test_two_programs_in_turn_are_compiled_once_for_all_that_call_them(caplog):
    @jax.jit
    def thrice(values):
        return 3 * values

    @jax.jit
    def halved(values, by):
        return values / by

    values = jnp.ones(3)

    def following(given):
        assert (given.shape, given.dtype) == (values.shape, values.dtype)
        return functools.partial(halved, given, by=2)

    def called():
        compile_in_turn(functools.partial(thrice, values), following)
        return compiled_once(halved, compiled_once(thrice, values), by=2)

    with caplog.at_level(logging.DEBUG, logger="jax"):  # jax.log_compiles is of one thread alone
        assert [float(found.sum()) for found in side_by_side([called] * 3)] == [4.5] * 3
    for name in ("thrice", "halved"):
        assert sum(f"Finished XLA compilation of jit({name})" in line for line in caplog.messages) == 1
