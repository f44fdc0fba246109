"""A sweep whose files are damaged, renamed or exchanged: the same numbers, or one line that names the file."""

import json
import os
import shutil

import h5py
import pytest
import xarray as xr
from damaged_copies import damaged
from sweep_cases import TINY, asked, parts_of, refusal

from simlab.errors import InputError
from simlab.sweeps.result import read
from simlab.sweeps.run import MANIFEST, load_manifest, merge, parts_folder, run

SWEEP = asked(*TINY, "--group-size", 2, "--gamma", "0,1", "--seeds", 24)  # six units of one program


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


@pytest.mark.slow
def test_a_damaged_result_is_refused_or_reads_as_it_was(unbroken, out):
    """No error of a library comes through, and no sweep takes a damaged one for its own and writes over it."""
    whole, refused = read(unbroken), 0
    for content in damaged(unbroken.read_bytes(), 40):
        out.write_bytes(content)
        dataset, message = tried(read, out)
        refused += dataset is None
        assert message.startswith(f"{out} ") if dataset is None else dataset.identical(whole)
    assert refused > 35
    content = bytearray(unbroken.read_bytes())
    content[len(content) // 2] ^= 1
    out.write_bytes(content)
    assert refusal(run, SWEEP, out).startswith(f"{out} is damaged")
    assert out.read_bytes() == content


@pytest.mark.slow
def test_one_that_another_program_has_changed_has_lost_its_seal_and_is_read(unbroken, out):
    """As do those of earlier versions: nothing stands behind what HDF5 takes for the end."""
    with h5py.File(out, "r+") as file:
        file.attrs["comment"] = "mine"
    assert read(out).identical(read(unbroken).assign_attrs(comment="mine"))
    with xr.open_dataset(unbroken) as dataset:
        half = dataset.isel(seed=slice(2)).load()
    half.to_netcdf(out, engine="h5netcdf")
    assert read(out).identical(half)


def test_a_part_under_the_name_of_another_is_named_and_both_are_right_in_the_end(unbroken, out, capsys):
    parts = sorted(parts_folder(out).glob("*.npz"))
    shutil.copy(parts[3], parts[0])
    os.remove(out)
    assert f"part {parts[0]} is damaged" in refusal(merge, out, [parts_folder(out)])
    parts[5].replace(parts[2])
    assert run(SWEEP, out).identical(read(unbroken))
    complaints = capsys.readouterr().err
    assert all(f"part {path} is damaged" in complaints for path in (parts[0], parts[2]))
    assert parts_of(out) == parts_of(unbroken)


def test_a_damaged_manifest_is_refused_or_says_the_same(unbroken, out):
    path, refused = parts_folder(out) / MANIFEST, 0
    content, whole = path.read_bytes(), load_manifest(path.parent)
    for copy in damaged(content, 40):
        path.write_bytes(copy)
        manifest, message = tried(load_manifest, path.parent)
        refused += manifest is None
        assert message.startswith(f"{path} is damaged") if manifest is None else manifest == whole
    assert refused > 30
    path.write_text(json.dumps(json.loads(content) | {"code": "another"}))  # changed by hand
    assert str(path) in refusal(merge, out, [parts_folder(out)])
