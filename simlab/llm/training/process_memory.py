"""Estimate the memory of a process on a CPU beside its arrays: Python, JAX, the compiler and compiled programs."""

import math
from collections.abc import Iterable

from simlab.llm.batch import FEWEST_PLACES
from simlab.llm.config import ModelConfig
from simlab.llm.places import parts_of
from simlab.llm.sampling import FIRST_CAPACITY
from simlab.llm.training.computed import AtOnce, Computed

MIB = 2**20
PROCESS = 375 * MIB  # when all that the command needs is imported
# Fitted to what is resident beside arrays at the peaks of the runs that ``benchmarks.training_peak`` names as fitted.
COMPILER = 320 * MIB  # that XLA compiles with and does not give back
SAMPLER_LAYER = 5 * MIB  # of a layer of a program that samples; it has no loop over layers
GRADIENT = 60 * MIB  # of a program of gradients, most of it what XLA has compiled it with
TOKENS_OF_HALF = 16  # half of the rollouts seldom end sooner, so that fewer or shorter ones take a program of their own
SIZES_OF_LENGTHS = 5  # of microbatches: the longest of their completions has seldom less than a quarter of the room


def process_memory(config: ModelConfig, each: Iterable[AtOnce]) -> dict[str, int]:
    """Bytes of a process that runs these arms, with no program compiled before."""
    each = list(each)
    samplers = {one for own in each for one in (own.sampled, own.judged)}
    gradients = {(own.learnt, _lengths(own)) for own in each}
    programs = SAMPLER_LAYER * config.num_layers * sum(map(_programs, samplers))
    programs += GRADIENT * sum(lengths for _, lengths in gradients)
    return {"Python and JAX": PROCESS, "compiler and programs": COMPILER + programs}


def _programs(one: Computed) -> int:
    """How many programs sample further tokens: one, and one more for each time that places halve or room doubles."""
    places = one.prompts * one.members / parts_of(one.prompts, one.members)
    halvings = max(0, math.ceil(math.log2(places / FEWEST_PLACES)))
    doublings = max(0, math.ceil(math.log2(one.own / FIRST_CAPACITY)))
    return 1 + min(halvings, one.own // TOKENS_OF_HALF) + doublings


def _lengths(own: AtOnce) -> int:
    """How many lengths the microbatches of a step have; a program is compiled for each."""
    return min(own.microbatches, SIZES_OF_LENGTHS, 1 + own.learnt.own // TOKENS_OF_HALF)
