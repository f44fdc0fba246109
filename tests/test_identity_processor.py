"""What processor a number is from, and how far apart those of two kinds are."""

import json
import re
import shutil

import jax
import numpy as np
import pytest
from sweep_cases import command, parts_of

from simlab.identity.processor import instructions, processor
from simlab.sweeps.result import read
from simlab.sweeps.run import merge, parts_folder

AVX512 = frozenset({"sse4_2", "avx", "avx2", "fma", "avx512f"})
OPTIONS = ("--estimator", "f_grpo", "--group-size", 8, "--seeds", 16, "--steps", 50, "--record-every", 10)
OPTIONS += ("--param", "actions=200", "--param", "correct=40", "--learning-rate", 0.1)
# To which XLA is held in place of the widest that it finds; AVX2 is the first with fused multiply-adds.
NARROW, WIDE = ("--xla_cpu_max_isa=SSE4_2", "--xla_cpu_max_isa=AVX2")
APART = 1e-5  # at most, of numbers around 1 in float32


@pytest.mark.parametrize(
    ("features", "flags", "expected"),
    [
        (AVX512, "", "x86-64 AVX512"),
        (AVX512 - {"avx512f"}, "", "x86-64 AVX2"),
        (frozenset({"sse4_2"}), "", "x86-64 SSE4.2"),
        (frozenset(), "", "x86-64, of unknown instructions"),
        (AVX512, "--xla_cpu_max_isa=AVX2", "x86-64 AVX2"),
        (AVX512, "--xla_cpu_max_isa=avx", "x86-64 AVX"),
        (AVX512, "--xla_cpu_max_isa=AVX --xla_cpu_max_isa=SSE4_2", "x86-64 SSE4.2"),
        (AVX512, "--xla_cpu_max_isa=AVX512_BF16", "x86-64 AVX512"),
        (AVX512, "--xla_cpu_max_isa=AMX", "x86-64 AVX512"),
        (frozenset({"sse4_2"}), "--xla_cpu_max_isa=AVX512", "x86-64 SSE4.2"),
    ],
)
def test_the_instructions_are_the_widest_of_the_processor_that_the_flags_allow(features, flags, expected):
    assert instructions(flags, features, "x86_64") == expected


def test_those_of_other_machines_go_by_the_machine():
    assert instructions("", frozenset({"asimd"}), "aarch64") == "aarch64"
    assert instructions("", frozenset({"asimd", "sve"}), "aarch64") == "aarch64 SVE"
    assert instructions("", frozenset(), "arm64") == "arm64"


def test_flags_are_said_but_for_how_many_devices_there_are():
    flags = "--xla_force_host_platform_device_count=2 --xla_cpu_enable_fast_math=true"
    assert processor("cpu", flags, AVX512)["XLA_FLAGS"] == "--xla_cpu_enable_fast_math=true"
    assert "XLA_FLAGS" not in processor("cpu", "--xla_force_host_platform_device_count=2", AVX512)


def test_they_are_those_that_xla_compiles_for():
    """As XLA itself notes them in a program."""
    program = jax.jit(lambda x: 2 * x).lower(np.ones(8)).compile().runtime_executable()
    if jax.default_backend() != "cpu" or not hasattr(program, "serialize"):
        pytest.skip("only programs for CPUs that can be serialised say it")
    said = {name.decode() for name in re.findall(rb"[+]((?:avx|avx2|avx512f|sse4.2)),", program.serialize())}
    if not said:
        pytest.skip("this XLA notes no instructions of x86-64")
    names = {"sse4.2": "SSE4.2", "avx": "AVX", "avx2": "AVX2", "avx512f": "AVX512"}
    widest = [name for name in names if name in said][-1]
    assert processor("cpu")["instructions"] == f"x86-64 {names[widest]}"


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The same sweep by code for SSE4.2 and for AVX2."""
    if processor("cpu", "")["instructions"] not in ("x86-64 AVX2", "x86-64 AVX512"):
        pytest.skip("this processor has no AVX2")
    found = {}
    for name, flag in (("narrow", NARROW), ("wide", WIDE)):
        out = tmp_path_factory.mktemp(name) / "sweep.nc"
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XLA_FLAGS", flag)  # optimised as for users, without which they do not differ
            code, _, complaints = command("sweep", "--out", out, *OPTIONS)
        assert (code, complaints) == (0, "")
        found[name] = out
    return found


@pytest.mark.slow
def test_numbers_of_two_kinds_of_processor_agree_to_rounding_and_say_which_they_are_from(results):
    """Seeds draw the same actions on both; so long as no draw falls between two roundings, only last digits differ."""
    narrow, wide = (read(results[name]) for name in ("narrow", "wide"))
    kinds = [json.loads(result.attrs["processors"]) for result in (narrow, wide)]
    assert [[kind["instructions"] for kind in each] for each in kinds] == [["x86-64 SSE4.2"], ["x86-64 AVX2"]]
    assert [kinds[0][0]["XLA_FLAGS"], kinds[1][0]["XLA_FLAGS"]] == [NARROW, WIDE]
    assert kinds[0][0]["runs"] == 16
    differences = {name: float(np.abs(narrow[name] - wide[name]).max()) for name in narrow.data_vars}
    assert 0 < max(differences.values()) < APART, differences
    drop = ("processors",)
    same = {name: value for name, value in narrow.attrs.items() if name not in drop}
    assert same == {name: value for name, value in wide.attrs.items() if name not in drop}


@pytest.mark.slow
def test_parts_of_two_kinds_of_processor_join_and_it_is_said(results, tmp_path, capsys):
    folders = [tmp_path / name for name in ("narrow", "wide")]
    for place, (folder, out) in enumerate(zip(folders, results.values(), strict=True)):
        shutil.copytree(parts_folder(out), folder)
        for path in sorted(folder.glob("*.npz"))[place::2]:
            path.unlink()
    joined = merge(tmp_path / "joined.nc", folders)
    assert len(parts_of(results["wide"])) == 2
    assert {kind["instructions"]: kind["runs"] for kind in json.loads(joined.attrs["processors"])} == {
        "x86-64 SSE4.2": 8,
        "x86-64 AVX2": 8,
    }
    assert "made by different processors, which round differently: x86-64 AVX2 (cpu): 8" in capsys.readouterr().err
