"""A sweep on Dask's workers: the same numbers as here, whatever becomes of the workers. Run with ``-m dask``."""

import pytest
from sweep_cases import SMALL, SMALL_UNITS, asked, parts_of

from simlab.sweep.result import read
from simlab.sweep.run import run

pytestmark = [
    pytest.mark.dask,
    pytest.mark.filterwarnings("default"),  # of Dask and tornado
]
cluster = pytest.importorskip("simlab.sweep.cluster")

SWEEP = asked(*SMALL)


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory):
    """A killed worker may leave half a compiled program, which the tests of this process must not find."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path_factory.mktemp("compiled")))
        yield


@pytest.fixture(scope="module")
def workers():
    """Two processes of this machine."""
    with cluster.connected("local:2") as found:
        yield found


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    """The path of the small sweep's result, made in this process."""
    out = tmp_path_factory.mktemp("unbroken") / "sweep.nc"
    run(SWEEP, out)
    return out


def test_the_numbers_and_parts_are_those_of_this_process(workers, unbroken, tmp_path):
    out = tmp_path / "sweep.nc"
    assert run(SWEEP, out, workers=workers).identical(read(unbroken))
    assert read(out).identical(read(unbroken))
    assert parts_of(out) == parts_of(unbroken)


@pytest.mark.parametrize("first", ["here", "there"])
def test_what_was_begun_here_goes_on_there_and_the_other_way_round(workers, unbroken, tmp_path, capsys, first):
    out = tmp_path / "sweep.nc"
    run(asked(*SMALL, "--group-size", 2), out, workers=None if first == "here" else workers)
    capsys.readouterr()
    result = run(SWEEP, out, workers=workers if first == "here" else None, overwrite=True)
    assert f"{SMALL_UNITS // 2} of {SMALL_UNITS} units are finished already" in capsys.readouterr().err
    assert result.identical(read(unbroken))
