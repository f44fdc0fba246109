"""The identity of a number: the library's code, the versions of libraries, and the processor."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
from sweep_cases import command

from simlab import identity
from simlab.identity import NUMERIC, PACKAGE, code_fingerprint, processor
from simlab.sweeps.result import read
from simlab.sweeps.run import merge, parts_folder

AVX512 = frozenset({"sse4_2", "avx", "avx2", "fma", "avx512f"})


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of the package, to be edited."""
    folder = tmp_path_factory.mktemp("copied") / "simlab"
    shutil.copytree(PACKAGE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@pytest.mark.parametrize("name", ["theory/masses.py", "llm/training/run.py", "__init__.py"])
def test_every_source_counts_and_nothing_else(copy, name):
    before, path = code_fingerprint.__wrapped__(copy), copy / name
    assert before == code_fingerprint()
    (copy / "simlab.mplstyle").write_text("lines.linewidth: 9")
    assert code_fingerprint.__wrapped__(copy) == before
    content = path.read_text()
    path.write_text(content + "\nONE_MORE = 1\n")
    assert code_fingerprint.__wrapped__(copy) != before
    path.write_text(content)
    moved = path.rename(path.with_stem("moved"))
    assert code_fingerprint.__wrapped__(copy) != before
    moved.rename(path)


def test_another_version_of_a_library_that_computes_is_other_code(monkeypatch):
    before, versions = code_fingerprint(), identity.versions(NUMERIC)
    for library in NUMERIC:
        monkeypatch.setattr(identity, "versions", lambda names, library=library: versions | {library: "0.0.0"})
        assert code_fingerprint.__wrapped__() != before


def test_the_same_code_has_the_same_fingerprint_in_any_process_without_jax():
    program = "import sys; from simlab.identity import *; print(code_fingerprint(), 'jax' in sys.modules)"
    environment = {"PYTHONPATH": str(PACKAGE.parent), "PYTHONHASHSEED": "1"}
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment, cwd="/"
    )
    assert run.stdout.split() == [code_fingerprint(), "False"]


# The processor


@pytest.mark.parametrize(
    ("features", "flags", "expected"),
    [
        (AVX512, "", "x86-64 AVX512"),
        (AVX512 - {"avx512f"}, "", "x86-64 AVX2"),
        (frozenset(), "", "x86-64, of unknown instructions"),
        (AVX512, "--xla_cpu_max_isa=AVX --xla_cpu_max_isa=SSE4_2", "x86-64 SSE4.2"),
        (AVX512, "--xla_cpu_max_isa=avx", "x86-64 AVX"),
        (AVX512, "--xla_cpu_max_isa=AVX512_BF16", "x86-64 AVX512"),
        (AVX512, "--xla_cpu_max_isa=AMX", "x86-64 AVX512"),
        (frozenset({"sse4_2"}), "--xla_cpu_max_isa=AVX512", "x86-64 SSE4.2"),
    ],
)
def test_the_instructions_are_the_widest_of_the_processor_that_the_flags_allow(features, flags, expected, monkeypatch):
    monkeypatch.setattr(identity, "processor_features", lambda: features)
    monkeypatch.setattr(identity.platform, "machine", lambda: "x86_64")
    monkeypatch.setenv("XLA_FLAGS", f"{flags} --xla_force_host_platform_device_count=2")
    flags_entry = {"XLA_FLAGS": flags} if flags else {}
    assert processor("cpu") == {"device": "cpu", "instructions": expected, **flags_entry}
    monkeypatch.setattr(identity.platform, "machine", lambda: "arm64")
    assert processor("cpu")["instructions"] == "arm64"


@pytest.mark.slow
def test_results_of_two_processors_agree_to_rounding_and_say_which_they_are_from(tmp_path, capsys):
    """A sweep for SSE4.2 and one for AVX2 draw the same actions; their parts join, with a warning."""
    if processor("cpu")["instructions"] not in ("x86-64 AVX2", "x86-64 AVX512"):
        pytest.skip("this processor has no AVX2")
    options = ("--estimator", "f_grpo", "--group-size", 8, "--seeds", 16, "--steps", 50, "--record-every", 10)
    options += ("--param", "actions=200", "--param", "correct=40", "--learning-rate", 0.1)
    paths = {name: tmp_path / f"{name}.nc" for name in ("SSE4_2", "AVX2")}
    for name, path in paths.items():
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XLA_FLAGS", f"--xla_cpu_max_isa={name}")  # optimised as for users, else they do not differ
            status, _, complaints = command("sweep", "--out", path, *options)
        assert (status, complaints) == (0, "")
    narrow, wide = map(read, paths.values())
    kinds = [json.loads(result.attrs["processors"]) for result in (narrow, wide)]
    assert [[kind["instructions"] for kind in each] for each in kinds] == [["x86-64 SSE4.2"], ["x86-64 AVX2"]]
    differences = [float(np.abs(narrow[name] - wide[name]).max()) for name in narrow.data_vars]
    assert 0 < max(differences) < 1e-5  # numbers are around 1, in float32
    for number, path in enumerate(paths.values()):
        for file in sorted(parts_folder(path).glob("*.npz"))[number::2]:
            file.unlink()
    joined = merge(tmp_path / "joined.nc", [parts_folder(path) for path in paths.values()])
    runs = {kind["instructions"]: kind["runs"] for kind in json.loads(joined.attrs["processors"])}
    assert runs == {"x86-64 SSE4.2": 8, "x86-64 AVX2": 8}
    assert "different processors" in capsys.readouterr().err
