"""The parts of a sweep's processor time are those of its programs, and add up to all of it."""

import json

import pytest

from benchmarks import sweep_parts
from benchmarks.machine import RESULTS

TINY = ("--preset", "f-grpo-fig2", "--param", "actions=100", "--param", "correct=10", "--group-size", "2")
SHORT = (*TINY, "--gamma", "0", "--seeds", "1", "--steps", "2", "--record-every", "1", "--storage", "dense")


def test_a_program_belongs_to_its_storage_and_its_steps_to_their_group_size():
    assert sweep_parts.part_of("made", "lumped", 2) == "programs of lumped storage: traced, and compiled or read"
    assert sweep_parts.part_of("run", "lumped", 131072) == "steps in lumped storage"
    dense = [sweep_parts.part_of("run", "dense", size) for size in (2, 4096, 8192, 32768, 65536, 131072)]
    ends = ["up to 4096"] * 2 + ["8192 to 32,768"] * 2 + ["65,536 and 131,072"] * 2
    assert dense == [f"steps in dense storage, G = {end}" for end in ends]


@pytest.mark.slow
def test_a_full_cache_spares_the_compilation_and_nothing_else(monkeypatch):
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    monkeypatch.delenv("JAX_ENABLE_COMPILATION_CACHE", raising=False)
    found = sweep_parts.measured(SHORT)
    assert list(found) == ["empty cache", "full cache"]
    empty, full = found.values()
    made = "programs of dense storage: traced, and compiled or read"
    rest = "start, plan, records, result and figure"
    assert set(empty) == set(full) == {made, "steps in dense storage, G = up to 4096", rest}
    assert min(*empty.values(), *full.values()) > 0
    assert empty[made] > 1.5 * full[made]


def test_the_last_row_is_the_sum_of_the_others():
    found = {"empty cache": {"a": 1.25, "b": 2.5}, "full cache": {"b": 2.0, "c": 0.5}}
    assert sweep_parts.rows(found) == [
        ["a", "1.2", "0.0"],
        ["b", "2.5", "2.0"],
        ["c", "0.0", "0.5"],
        ["all of it", "3.8", "2.5"],
    ]


def test_the_committed_parts_are_of_both_caches():
    committed = json.loads((RESULTS / "sweep_parts.json").read_text())
    assert list(committed["seconds"]) == list(sweep_parts.CACHES)
    assert set(committed["seconds"]["empty cache"]) == set(committed["seconds"]["full cache"])
