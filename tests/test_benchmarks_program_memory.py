"""Bytes that a program holds and moves: those counted by hand of small programs, and of the simulator's own."""

import functools

import jax
import jax.numpy as jnp
import pytest

from benchmarks.accelerator_programs import Program, measured, report, step_of
from benchmarks.program_memory import estimate
from simlab.problems import anchored
from simlab.simulator.settings import Settings

KILO = jax.ShapeDtypeStruct((1000,), jnp.float32)
SOME = jax.ShapeDtypeStruct((10,), jnp.int32)


def found(program, *shapes, kept=True, fused=True, platform="cuda"):
    """Held, peak, moved and least."""
    return tuple(estimate(jax.make_jaxpr(program)(*shapes), platform, [kept] * len(shapes), fused=fused))


def scaled_sum(x, y):
    return 2 * x + y


def test_element_wise_operations_are_one_pass_where_they_are_fused():
    assert found(scaled_sum, KILO, KILO) == (8000, 12_000, 12_000, 12_000)


def test_without_fusion_each_operation_reads_and_writes():
    # 2 x is written, 8000 bytes; it and y are read and the sum is written in its place, 12,000.
    assert found(scaled_sum, KILO, KILO, fused=False) == (8000, 12_000, 20_000, 12_000)


def test_an_input_that_is_used_up_lends_its_place():
    assert found(scaled_sum, KILO, KILO, kept=False) == (8000, 8000, 12_000, 12_000)


def test_a_softmax_reads_its_logits_as_often_as_it_sums():
    def softmax(x):
        weights = jnp.exp(x - jnp.max(x))
        return weights / jnp.sum(weights)

    # The largest: 4000 and 4. The sum: the logits, the largest, itself. The shares: both, the logits and themselves.
    assert found(softmax, KILO) == (4000, 8008, 4004 + 4008 + 8008, 8000)


def test_a_gather_reads_what_it_returns_and_a_scatter_writes_in_place():
    # Ten indices and ten numbers.
    assert found(lambda x, i: x.at[i].get(mode="promise_in_bounds"), KILO, SOME)[2:] == (120, 120)
    changed = found(lambda x, i: x.at[i].add(1.0, mode="promise_in_bounds"), KILO, SOME, kept=False)
    assert changed[1] == 4040


def test_a_loop_counts_as_often_as_it_runs():
    def program(x, y):
        return jax.lax.fori_loop(0, 5, lambda _, x: x + y, x)

    held, peak, moved, least = found(program, KILO, KILO, kept=False)
    assert (held, peak, least) == (8000, 8004, 12_000)  # with the loop's counter
    assert moved == 5 * (12_000 + 8)


def test_a_choice_between_platforms_is_made():
    program = functools.partial(
        jax.lax.platform_dependent, cpu=lambda x: x * 2, default=lambda x: jnp.cumsum(jnp.cumsum(x))
    )
    assert found(program, KILO, platform="cpu")[2] == 8000
    assert found(program, KILO, platform="cuda")[2] == 16_000


def test_a_step_moves_its_state_at_least_and_what_xla_counts_at_most():
    problem, settings = anchored(2000, 200), Settings("grpo", group_size=8, storage="dense")
    row = measured(step_of("dense", problem, settings))
    state = 256 * 3 * 4 * 2000  # 256 runs, with logits and two moments
    assert state < row["held"] < 1.1 * state
    assert 2 * state < row["moved_least"] < 2.1 * state
    assert row["moved_least"] < row["moved_fused"] < row["moved_apart"]
    assert row["moved_apart"] == pytest.approx(row["moved_by_xla"], rel=0.3)
    assert report([row]).count("\n") == 2


def test_a_program_that_returns_its_input_moves_nothing():
    program = Program("nothing", 1, jax.jit(lambda x: x).trace(KILO), [False])
    assert measured(program)["moved_least"] == measured(program)["moved_fused"] == 0
