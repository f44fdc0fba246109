"""Compiled programs are kept up to a bound, and nothing stays of those that are given up."""

import threading
from types import SimpleNamespace

import pytest

from simlab.simulator import compiled


class Program:
    """What a compilation gives."""

    def memory_analysis(self):
        return SimpleNamespace(temp_size_in_bytes=1, argument_size_in_bytes=2, output_size_in_bytes=4)


@pytest.fixture(autouse=True)
def nothing_is_kept(monkeypatch):
    monkeypatch.setattr(compiled, "_kept", {})
    monkeypatch.setattr(compiled, "KEPT_PROGRAMS", 3)


def test_the_latest_used_programs_stay_and_no_lock_of_any():
    for key in range(10):
        compiled.kept(key, Program)
        compiled.kept(0, Program)
    assert [key for key in range(10) if compiled.is_kept(key)] == [0, 8, 9]
    assert len(compiled._kept) == 3
    assert len(compiled._locks) == 0


def test_a_program_that_was_given_up_is_compiled_anew():
    times = []
    for key in (0, 1, 2, 3, 0):
        compiled.kept(key, lambda key=key: times.append(key) or Program())
    assert times == [0, 1, 2, 3, 0]


def test_threads_that_ask_for_the_same_program_wait_for_its_only_compilation():
    times, entered, go = [], threading.Event(), threading.Event()

    def compile_it():
        times.append(1)
        entered.set()
        assert go.wait(30)
        return Program()

    found = []
    threads = [threading.Thread(target=lambda: found.append(compiled.kept("same", compile_it))) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert entered.wait(30)
    assert not compiled.is_kept("same")
    compiled.kept("other", Program)  # another one need not wait
    go.set()
    for thread in threads:
        thread.join(30)
    assert len(times) == 1
    assert len(found) == 4
    assert found.count(found[0]) == 4
    assert len(compiled._locks) == 0
