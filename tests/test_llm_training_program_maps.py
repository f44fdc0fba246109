"""A process gives compiled programs up before it holds more memory maps than it may."""

import jax
import jax.numpy as jnp
import pytest

from simlab.llm.training.program_maps import LIMIT, MAPS, give_up_many

needs_linux = pytest.mark.skipif(not MAPS.exists(), reason="only Linux tells the maps of a process")


@pytest.fixture
def program():
    compiled = jax.jit(lambda x: jnp.tanh(x @ x.T).sum())
    compiled(jnp.ones((3, 3)))
    return compiled


def files(folder, held, limit):
    maps, most = folder / "maps", folder / "limit"
    maps.write_text("7f00-7f01 r-xp\n" * held)
    most.write_text(f"{limit}\n")
    return maps, most


def test_programs_are_given_up_beyond_half_the_limit_and_compiled_again(program, tmp_path):
    assert give_up_many(*files(tmp_path, held=51, limit=100))
    assert program._cache_size() == 0
    assert float(program(jnp.zeros((3, 3)))) == 0.0
    assert program._cache_size() == 1


def test_they_are_kept_up_to_half_the_limit(program, tmp_path):
    assert not give_up_many(*files(tmp_path, held=50, limit=100))
    assert program._cache_size() == 1


def test_they_are_kept_where_no_system_tells(program, tmp_path):
    assert not give_up_many(tmp_path / "maps", tmp_path / "limit")
    assert program._cache_size() == 1


@needs_linux
def test_giving_programs_up_gives_their_maps_back(tmp_path):
    def held():
        return len(MAPS.read_text().splitlines())

    before = held()
    programs = [jax.jit(lambda x, size=size: jnp.sort(jnp.tanh(x @ x.T)) * size) for size in range(8)]
    for one in programs:
        one(jnp.ones((4, 4)))
    assert int(LIMIT.read_text()) > held() > before
    compiled = held()
    assert give_up_many(*files(tmp_path, held=2, limit=1))
    assert held() < compiled
