"""A sweep whose files are damaged, renamed or exchanged: the same numbers, or one line that names the file."""

import json
import os
import shutil

import h5py
import numpy as np
import pytest
import xarray as xr
from damaged_copies import damaged
from sweep_cases import SMALL, SMALL_UNITS, asked, parts_of, refusal

from simlab.errors import InputError
from simlab.sweeps.result import configuration, read
from simlab.sweeps.run import merge, parts_folder, run
from simlab.sweeps.store import MANIFEST, load_manifest

SWEEP = asked(*SMALL)


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    """The path of a result that nothing has happened to."""
    out = tmp_path_factory.mktemp("unbroken") / "sweep.nc"
    run(SWEEP, out)
    return out


@pytest.fixture
def out(unbroken, tmp_path):
    """A copy of result and parts."""
    shutil.copytree(unbroken.parent, tmp_path, dirs_exist_ok=True)
    return tmp_path / unbroken.name


def tried(call, path):
    """What a call returns, or None and the one line with which it refuses."""
    try:
        return call(path), ""
    except InputError as error:
        return None, str(error)


# The result


@pytest.mark.parametrize("seed", range(5))
def test_a_damaged_result_is_refused_or_reads_as_it_was(seed, unbroken, out):
    """Of 500 damaged ones; no error of a library comes through."""
    whole, refused = read(unbroken), 0
    for content in damaged(unbroken.read_bytes(), 100, seed):
        out.write_bytes(content)
        found, message = tried(read, out)
        refused += found is None
        assert message.startswith(f"{out} ") if found is None else found.identical(whole)
    assert refused > 90


def test_every_bit_counts_of_what_says_where_a_result_ends(unbroken, out):
    """The superblock of HDF5."""
    whole, content = read(unbroken), bytearray(unbroken.read_bytes())
    for bit in range(64 * 8):
        content[bit // 8] ^= 1 << bit % 8
        out.write_bytes(content)
        found, _ = tried(read, out)
        assert found is None or found.identical(whole)
        content[bit // 8] ^= 1 << bit % 8


def test_a_result_is_refused_also_by_what_only_asks_whose_it_is(unbroken, out):
    """So that a sweep does not take a damaged one for its own and write over it."""
    content = bytearray(unbroken.read_bytes())
    content[len(content) // 2] ^= 1
    out.write_bytes(content)
    assert refusal(configuration, out) == f"{out} is damaged (its checksum differs)"
    assert refusal(run, SWEEP, out) == (
        f"{out} is damaged (its checksum differs); allowed: another --out, or --overwrite"
    )
    assert out.read_bytes() == content


def test_a_result_without_its_seal_but_with_something_there_is_refused(unbroken, out):
    content = unbroken.read_bytes()
    out.write_bytes(content[:-8] + bytes(8))
    assert refusal(read, out) == f"{out} is damaged (its seal is missing)"


def test_one_that_another_program_wrote_has_no_seal_and_is_read(unbroken, out):
    """As do those of earlier versions: nothing stands behind what HDF5 takes for the end."""
    with xr.open_dataset(unbroken) as dataset:
        half = dataset.isel(seed=slice(2)).load()
    for engine in ("h5netcdf", None):
        half.to_netcdf(out, engine=engine)
        assert read(out).identical(half)


def test_one_that_another_program_has_changed_has_lost_its_seal_and_is_read(unbroken, out):
    with h5py.File(out, "r+") as file:
        file.attrs["comment"] = "mine"
    assert read(out).identical(read(unbroken).assign_attrs(comment="mine"))


# Parts


def test_a_part_under_the_name_of_another_is_named_and_both_are_right_in_the_end(unbroken, out, capsys):
    parts = sorted(parts_folder(out).glob("*.npz"))
    renamed, gone = parts[2], parts[5]
    shutil.copy(parts[3], parts[0])
    os.remove(out)
    assert f"part {parts[0]} is damaged (its checksum differs)" in refusal(merge, out, [parts_folder(out)])
    gone.replace(renamed)
    assert run(SWEEP, out).identical(read(unbroken))
    complaints = capsys.readouterr().err.splitlines()
    assert len(complaints) == 3
    for path in (parts[0], renamed):
        assert (
            f"part {path} is damaged (its checksum differs); its sweep, run again, computes it anew, "
            "and it is set aside"
        ) in complaints
    assert complaints[-1] == f"{SMALL_UNITS - 3} of {SMALL_UNITS} units are finished already"
    assert parts_of(out) == parts_of(unbroken)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_damaged_parts_are_refused_by_merge(seed, unbroken, out):
    path = sorted(parts_folder(out).glob("*.npz"))[seed]
    for content in damaged(path.read_bytes(), 25, seed):
        path.write_bytes(content)
        assert refusal(merge, out, [parts_folder(out)]).startswith(f"part {path} is damaged (")
    assert read(out).identical(read(unbroken))


# The manifest


@pytest.mark.parametrize("seed", range(2))
def test_a_damaged_manifest_is_refused_or_says_the_same(seed, unbroken, out):
    path, refused = parts_folder(out) / MANIFEST, 0
    whole = load_manifest(path.parent)
    for content in damaged(path.read_bytes(), 200, seed):
        path.write_bytes(content)
        found, message = tried(load_manifest, path.parent)
        refused += found is None
        assert message.startswith(f"{path} is damaged (it") if found is None else found == whole
    assert refused > 150


def test_a_manifest_changed_by_hand_is_refused(out):
    path = parts_folder(out) / MANIFEST
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"code": "another"}))
    assert refusal(merge, out, [parts_folder(out)]) == (
        f"{path} is damaged (its checksum differs); run the sweep again to write it anew"
    )
    path.write_text('{"a":' * 100_000)
    assert "it is no JSON" in refusal(merge, out, [parts_folder(out)])


def test_numbers_of_a_sealed_file_are_those_of_the_file(unbroken):
    """For any reader of NetCDF: the seal stands behind what such a reader reads."""
    with xr.open_dataset(unbroken) as dataset, h5py.File(unbroken) as file:
        np.testing.assert_array_equal(file["q_pos"][...], dataset["q_pos"])
        assert dataset.identical(read(unbroken))
