"""Check the library's shapes and types while the tests run; the hook must precede the first import of simlab."""

import gc
import os
import shutil
import signal
import sys
import tempfile
from importlib.metadata import version

import pytest
import shape_checks
from hypothesis import settings

collect_ignore = [
    "own_estimator.py",  # importing it registers an estimator, which one test alone does
    "golden/make_llm_golden.py",  # needs torch and transformers
    "trl_cases.py",  # and these need TRL
    "trl_processes.py",
    "verl_cases.py",  # and these verl
    "verl_on_cpu.py",
    "verl_runs.py",
    "release.py",  # it imports from tests, a name that verl's wheel has too
]

# The tests compile thousands of small programs, which takes a third of the time without the last optimisations of
# machine code, the generator of fused loops and wide vectors. With SIMLAB_OPTIMISED=1 they run what users run: .ci/run
# does so once more with the simulator's.
UNOPTIMISED = ["--xla_backend_optimization_level=0", "--xla_cpu_prefer_vector_width=128"]
if version("jaxlib").startswith("0.10."):  # later ones have that generator alone, and stop at a flag they do not know
    UNOPTIMISED.append("--xla_cpu_use_fusion_emitters=false")
if os.environ.get("SIMLAB_OPTIMISED") != "1":
    os.environ["XLA_FLAGS"] = " ".join([os.environ.get("XLA_FLAGS", ""), *UNOPTIMISED])

# Compiled once for the processes of the tests and the commands that they start.
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    compiled = tempfile.TemporaryDirectory()
    os.environ["JAX_COMPILATION_CACHE_DIR"] = compiled.name
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")

# A container may have switched it off: the tests start dozens of processes that import the same modules.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

shape_checks.install()


def pytest_configure(config):
    """Let JAX compile anew where it finds half an entry, which another process is writing to the shared folder."""
    config.addinivalue_line("filterwarnings", "ignore:Error (reading|writing) persistent compilation cache")


def pytest_collection_finish():
    """Freeze all objects that exist now: looking for garbage among them takes a tenth of the tests' time."""
    gc.collect()
    gc.freeze()


def pytest_runtest_teardown(item, nextitem):
    """Give up compiled programs after each file: they take gigabytes, and the next file needs few of them."""
    if nextitem is not None and nextitem.path == item.path:
        return
    if "simlab.simulator.compiled" in sys.modules:
        sys.modules["simlab.simulator.compiled"]._programs.clear()
    if "jax" in sys.modules:
        sys.modules["jax"].clear_caches()


if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # A shell starts tests in its background with interrupts ignored, which the programs that they start would inherit.
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("seeded", derandomize=True, deadline=None, max_examples=50)
settings.load_profile("seeded")


@pytest.fixture(scope="module")
def quickly():
    """A module compiles without most optimisations: ``pytestmark = pytest.mark.usefixtures("quickly")``."""
    from quick_compilation import quick_compilation  # noqa: PLC0415  # JAX reads the environment that is set above

    with quick_compilation():
        yield


@pytest.fixture
def double_precision():
    """JAX has 64-bit numbers."""
    import jax  # noqa: PLC0415  # it reads the environment that is set above

    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module")
def library_alone():
    """Forget after a module of tests what it registered or loaded from users' files."""
    from simlab import own_files  # noqa: PLC0415  # the hook above precedes it
    from simlab.estimators import registry  # noqa: PLC0415

    known, loaded = dict(registry._REGISTRY), dict(own_files._loaded)
    yield
    for name in registry._REGISTRY.keys() - known.keys():
        sys.modules.pop(registry._REGISTRY.pop(name).build.__module__)
    for path in own_files._loaded.keys() - loaded.keys():
        del own_files._loaded[path]


@pytest.fixture(scope="session")
def unbroken(tmp_path_factory):
    """The result of the ``SMALL`` sweep, run at once."""
    from sweep_cases import SMALL, asked  # noqa: PLC0415  # the hook above precedes it

    from simlab.sweeps.run import run  # noqa: PLC0415

    out = tmp_path_factory.mktemp("unbroken") / "sweep.nc"
    run(asked(*SMALL), out)
    return out


@pytest.fixture
def resumed(unbroken, tmp_path):
    """A path for the ``SMALL`` sweep beside which all its parts lie."""
    shutil.copytree(f"{unbroken}.parts", tmp_path / "sweep.nc.parts")
    return tmp_path / "sweep.nc"


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The folder of the built documentation site."""
    from simlab.pages import build_site  # noqa: PLC0415  # the hook above precedes it

    folder = tmp_path_factory.mktemp("site")
    build_site(folder)
    return folder


@pytest.fixture(scope="module")
def browser():
    """A Chromium without a network."""
    from explorer_cases import browsing  # noqa: PLC0415  # no other test needs one

    with browsing() as chromium:
        yield chromium


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The address of the explorer's page as a file."""
    from simlab.cli import main  # noqa: PLC0415  # the hook above precedes it

    path = tmp_path_factory.mktemp("exported") / "page.html"
    assert main(["explore", "--export", str(path)]) == 0
    return path.as_uri()
