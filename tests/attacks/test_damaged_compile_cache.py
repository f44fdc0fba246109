"""Compiled programs on disk: what is damaged, cut off or of another name is compiled anew, never run."""

import json
import os
import subprocess
import sys

import pytest
from damaged_copies import damaged

from simlab.simulator.compile_cache import SUFFIX, Entries

KEY, PROGRAM = "jit_batch-0123", bytes(range(256)) * 40

# Programs that add 1 and 2 to a number, by what JAX keeps in a folder.
ADDING = """
import json, sys
import jax
from simlab.simulator import compiled

jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
if sys.argv[1] == "verified":
    compiled.keep_on_disk()

def add_one(x):
    return x + 1

def add_two(x):
    return x + 2

print(json.dumps([float(jax.jit(f)(0.0)) for f in (add_one, add_two)]))
"""


@pytest.fixture
def entries(tmp_path):
    entries = Entries(tmp_path / "compiled")
    entries.put(KEY, PROGRAM)
    return entries


def test_a_program_comes_back_as_it_was(entries):
    assert entries.get(KEY) == PROGRAM
    assert entries.get("another") is None


@pytest.mark.parametrize("seed", range(4))
def test_a_damaged_entry_is_removed_and_said_to_be(seed, entries, caplog):
    path = entries.path(KEY)
    for content in damaged(path.read_bytes(), 100, seed):
        path.write_bytes(content)
        caplog.clear()
        assert entries.get(KEY) is None
        assert f"compiled program {path} is damaged (" in caplog.text
        assert not path.exists()
        entries.put(KEY, PROGRAM)
        assert entries.get(KEY) == PROGRAM


def test_an_entry_under_another_name_is_removed(entries, caplog):
    entries.path("another").write_bytes(entries.path(KEY).read_bytes())
    assert entries.get("another") is None
    assert f"(it was written as {KEY}): compiled anew" in caplog.text
    assert not entries.path("another").exists()
    assert entries.get(KEY) == PROGRAM


def added(folder, kept):
    """What the two programs give, by a process of its own, and what it complains about."""
    variables = {"JAX_COMPILATION_CACHE_DIR": str(folder), "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", ADDING, kept]
    done = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, check=True)
    return json.loads(done.stdout), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("kept", ["verified", "by JAX alone"])
def test_exchanged_programs_are_noticed_which_jax_alone_runs(kept, tmp_path):
    suffix = SUFFIX if kept == "verified" else "-cache"
    assert added(tmp_path, kept) == ([1, 2], "")
    one, two = (next(tmp_path.glob(f"jit_add_{name}-*{suffix}")) for name in ("one", "two"))
    content = one.read_bytes(), two.read_bytes()
    two.write_bytes(content[0])
    one.write_bytes(content[1])
    found, complaints = added(tmp_path, kept)
    if kept == "by JAX alone":
        assert found == [2, 1]
        return
    assert found == [1, 2]
    assert complaints.count("compiled anew") == 2
    assert added(tmp_path, kept) == ([1, 2], "")
