"""The command: what it prints and writes, and how it refuses bad input: one line, exit code 2, nothing lost."""

import io
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from full_disk import full_from
from sweep_cases import SMALL, SMALL_UNITS, TINY, asked, command, parts_of
from tqdm import tqdm

from simlab.cli import main
from simlab.seals import sealed_json, unsealed_json
from simlab.sweeps import options as sweep_options
from simlab.sweeps.result import read
from simlab.sweeps.run import parts_folder, run


@pytest.fixture
def refused(capsys):
    def run_refused(*arguments):
        capsys.readouterr()
        assert main([*map(str, arguments)]) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        name, _, message = printed.err.partition(": ")
        assert name == "simlab"
        assert message.endswith("\n")
        assert message.count("\n") == 1
        return message.rstrip("\n")

    return run_refused


def test_a_sweep_ends_with_a_table_a_result_and_a_figure(resumed, capsys):
    assert main(["sweep", "--out", str(resumed), *SMALL]) == 0
    what, storage, _, header, units, *lines = capsys.readouterr().out.splitlines()
    assert what.startswith("f_grpo, dr_grpo with ppo_clip on anchored: G = 2, 4; gamma = 0, 1; actions = 60")
    assert storage.startswith("storage dense for G = 2, 4: ")
    assert header.split()[:5] == ["estimator", "group_size", "gamma", "q_pos", "retained_mass"]
    assert header.index("entropy") <= units.index("nats") < header.index("tail_miss_rate")
    end = lines.index("")
    assert "mean over 12 seeds at step 20" in lines[end + 1]
    assert lines[-3].startswith(f"parts   {resumed}.parts (")
    assert lines[-2:] == [f"result  {resumed}", f"figure  {resumed.with_suffix('.png')}"]
    assert resumed.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    rows = [line.split() for line in lines[:end]]
    assert [row[:3] for row in rows] == [
        *(["f_grpo", size, gamma] for size in "24" for gamma in "01"),
        *(["dr_grpo", size, "-"] for size in "24"),  # it has no gamma
    ]
    last = read(resumed)["entropy"].isel(step=-1)
    for row in rows:
        gamma = 0.0 if row[2] == "-" else float(row[2])
        values = last.sel(estimator=row[0], group_size=int(row[1]), gamma=gamma).values
        mean, _, error = row[5].rstrip(")").partition("(")
        digit = 10.0 ** -len(mean.partition(".")[2])  # the value of the last digit
        assert float(mean) == pytest.approx(values.mean(), abs=0.51 * digit)
        assert int(error) * digit == pytest.approx(values.std(ddof=1) / np.sqrt(12), abs=0.51 * digit)


def test_a_bar_goes_on_from_where_the_last_run_ended(resumed, monkeypatch):
    """One unit of twelve is missing, of six cells with twelve seeds of twenty steps."""
    sorted(parts_folder(resumed).glob("*.npz"))[0].unlink()
    bars = []

    class Bar(tqdm):
        def __init__(self, **options):
            super().__init__(**options | {"disable": False, "file": io.StringIO()})
            self.began = self.n
            bars.append(self)

    monkeypatch.setattr(sys.modules["simlab.sweeps.run"], "tqdm", Bar)  # the package has a function of that name
    run(asked(*SMALL), resumed)
    (bar,) = bars
    assert bar.total == bar.n == 6 * 12 * 20
    assert 0 < bar.began < bar.total


def test_without_arguments_the_default_sweep_is_written_beside_where_one_stands(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    small = asked(*TINY, "--group-size", 2).configuration()
    monkeypatch.setitem(sweep_options.PRESETS, "three-regimes", {"": small})
    assert main(["sweep"]) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == ["result  sweep.nc", "figure  sweep.png"]
    assert {path.name for path in tmp_path.iterdir()} == {"sweep.nc", "sweep.png", "sweep.nc.parts"}

    for _ in range(2):  # another sweep does not take its place, and finds its own result again
        assert main(["sweep", "--seeds", "1"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[-3:-1] == ["result  sweep-2.nc", "figure  sweep-2.png"]
        assert lines[-1] == "sweep.nc holds the result of another sweep; this one's is sweep-2.nc"
    assert read(Path("sweep.nc")).sizes["seed"] == 4
    assert read(Path("sweep-2.nc")).sizes["seed"] == 1
    assert {path.name for path in tmp_path.glob("*.nc")} == {"sweep.nc", "sweep-2.nc"}


@pytest.mark.slow
def test_a_preset_of_several_sweeps_runs_each_into_files_of_its_own(tmp_path, monkeypatch, capsys):
    small, large = (asked(*TINY, "--group-size", size).configuration() for size in (2, 4))
    monkeypatch.setitem(sweep_options.PRESETS, "both", {"small": small, "large": large})
    out = tmp_path / "result.nc"
    assert main(["sweep", "--preset", "both", "--seeds", "1", "--out", str(out)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"2 sweeps: {tmp_path}/result-small.nc, {tmp_path}/result-large.nc"
    assert [line for line in lines if line.endswith(":")] == ["small:", "large:"]
    for name, size in (("small", 2), ("large", 4)):
        result = read(tmp_path / f"result-{name}.nc")
        assert (result["group_size"].item(), result.sizes["seed"]) == (size, 1)
        assert (tmp_path / f"result-{name}.png").exists()
    assert not out.exists()


def test_the_figure_goes_where_it_is_asked_for(resumed):
    figure = resumed.parent / "new folder" / "figure.svg"
    assert main(["sweep", "--out", str(resumed), "--figure", str(figure), *SMALL]) == 0
    assert figure.read_bytes().startswith(b"<?xml")
    assert not resumed.with_suffix(".png").exists()


def test_shards_are_announced_and_merged(unbroken, tmp_path, capsys):
    out = tmp_path / "sweep.nc"
    for shard in ("1/2", "2/2"):
        assert main(["sweep", "--out", str(out), "--shard", shard, *SMALL]) == 0
        assert capsys.readouterr().out == f"shard {shard} is finished; when all are: simlab merge {out}\n"
    assert main(["merge", str(out)]) == 0
    assert capsys.readouterr().out.endswith(f"\nresult  {out}\n")
    assert read(out).identical(read(unbroken))


def test_a_scheduler_without_dask_names_the_extra(refused, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("simlab.sweeps.cluster")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "dask", None)
    message = refused("sweep", "--scheduler", "local:2")
    assert message.startswith("dask cannot be imported")
    assert message.endswith("install it with: pip install 'simlab[dask]'")


def test_help_is_shown_without_loading_jax():
    program = (
        "import atexit, sys; from simlab.cli import main; "
        "atexit.register(lambda: print({'jax', 'matplotlib', 'xarray'} & set(sys.modules))); main()"
    )
    code, output, complaints = command("sweep", "--help", program=("-c", program))
    assert (code, complaints) == (0, "")
    assert output.startswith("usage: ")
    assert output.endswith("\nset()\n")


@pytest.mark.parametrize(
    ("arguments", "value", "allowed"),
    [
        (("compare", "two\nlines"), "two\\nlines", "is not a training run"),
        (("compare", "a.nc", "a.nc"), "a result is given twice", "different files"),
        (("compare", "missing.nc"), "missing.nc does not exist", "a result that simlab sweep wrote"),
        (("merge", ""), "'' is no path", "the name of a file or folder"),
        (("sweep", f"--pass-at-k={'9' * 29}"), "is outside its range", "[1, 2147483647]"),
        (("sweeep",), "'sweeep'", "did you mean 'sweep'?"),
        (("sweep", "--estimater", "grpo"), "--estimater", "did you mean '--estimator'?"),
        (("sweep", "--param", "actions=1000"), "correct = 10000", "actions=1000 and correct=100"),
        (("sweep", "--out", "folder/"), "'folder/'", "folder/sweep.nc"),
        (("train", "--param", "rl.stepz=3"), "'stepz'", "did you mean 'steps'?"),
        (("train", "--param", "rl.decay=0", "--param", "rl.decay=1"), "'rl.decay' is given twice", "allowed: once"),
        (("train", "--param", "group-size=4"), "'group-size=4'", "allowed: --group-size 4"),
        (("train", "--param", "microbatch=4"), "'microbatch=4'", "did you mean 'rl.microbatch'?"),
        (("sweep", "--param", "steps=4"), "'steps=4'", "allowed: --steps 4"),
        (("sweep", "--param", "run.seeds"), "'run.seeds'", "allowed: --seeds VALUE"),
        (("train", "--data", "x.jsonl", "--verifier", "numbr"), "'numbr'", "did you mean 'number'?"),
        (("fit", "x.nc", "--from", "1e-400"), "'1e-400'", "allowed: a number"),
        (("sweep", "--param", "learning_rate=1e-400"), "'1e-400'", "allowed: numbers"),
        (("sweep", "--arms", "f_grpo(gamma=1e-400)"), "gamma=1e-400", "such as grpo"),
        (("sweep", "--budget", "1e-400"), "'1e-400'", "allowed: such as 262144"),
        (("train", "--param", "rl.learning_rate=1e-400"), "1e-400", "allowed: 0, or from 5e-324"),
        (("compare", "run", "--at", "rollouts=-5"), "'rollouts=-5'", "allowed: above 0"),
        (("diagnose", "x.jsonl", "--seed", "1_0"), "'1_0'", "allowed: a whole number"),
        (("diagnose", "x.jsonl", "--contents", "--simulate"), "--simulate", "allowed: one of them"),
        (("completion", "bsh"), "'bsh'", "did you mean 'bash'?"),
        (("figures", "caps"), "'caps'", "did you mean 'casp'?"),
        (("estimators", "grpo"), "'grpo'", "see simlab estimators --help"),
        (("where", "fad", "eq-11"), "'fad'", "fade"),
        (("estimators", "--jason"), "--jason", "(did you mean '--json'?); see simlab estimators --help"),
    ],
)
def test_a_bad_command_is_refused(refused, arguments, value, allowed):
    message = refused(*arguments)
    assert value in message
    assert allowed in message


@pytest.mark.parametrize(
    ("arguments", "value", "allowed"),
    [
        (["--gamma", "-1,0"], "gamma = -1", "[0, inf)"),
        (["--estimator", "maxrl", "--param", "reward_incorrect=-1"], "[-1, 1]", "[0, 1]"),
        (["--memory", "100MB"], "--memory 100MB", "MB or more"),
        (["--shard", "3/2"], "'3/2'", "1 <= I <= N"),
        (["--scheduler", "local:2", "--shard", "1/2"], "--shard", "not allowed with argument --scheduler"),
    ],
    ids=str,
)
def test_a_bad_option_is_refused_before_anything_is_written(refused, tmp_path, arguments, value, allowed):
    out = tmp_path / "sweep.nc"
    message = refused("sweep", "--out", out, *TINY, "--group-size", 2, *arguments)
    assert value in message
    assert allowed in message
    assert parts_of(out) == {}
    assert not out.exists()


PLACES = {
    "below a file": ("--out", "file/sweep.nc", "not a folder"),
    "a folder": ("--out", "folder", "not a regular file"),
    "parts that are a file": ("--out", "taken.nc", "taken.nc.parts: it is not a folder"),
    "no result": ("--out", "file", "simlab did not write the file there"),
    "a NetCDF file of others": ("--out", "foreign.nc", "simlab did not write the file there"),
    "the figure's path": ("--out", "sweep.png", "two outputs are both sweep.png"),
    "a figure of an unknown kind": ("--figure", "figure.xyz", ".pdf, .png, .svg"),
    "a figure below a file": ("--figure", "file/figure.png", "not a folder"),
}


@pytest.mark.parametrize("name", PLACES)
def test_a_place_that_cannot_be_written_is_refused_before_anything_is_simulated(refused, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    for file in ("file", "taken.nc.parts"):
        (tmp_path / file).write_text("precious")
    (tmp_path / "folder").mkdir()
    xr.Dataset({"x": 1}).to_netcdf("foreign.nc", engine="h5netcdf")
    before = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}

    option, value, reason = PLACES[name]
    message = refused("sweep", *TINY, "--group-size", 2, option, value)
    assert reason in message
    assert not list(tmp_path.rglob("*.npz"))
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize("write", [5, SMALL_UNITS + 2])
def test_a_disk_that_becomes_full_loses_nothing(unbroken, refused, tmp_path, monkeypatch, write):
    """The manifest is written first, then the parts, then the result."""
    out = tmp_path / "sweep.nc"
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full_from(write))
        message = refused("sweep", "--out", out, *SMALL)
    assert message.startswith(f"cannot write {out}")
    assert message.endswith(": No space left on device; finished parts are kept")
    assert len(parts_of(out)) == write - 2
    assert parts_of(out).items() <= parts_of(unbroken).items()
    assert not out.exists()
    assert not list(tmp_path.rglob(".unfinished-*"))

    assert run(asked(*SMALL), out).identical(read(unbroken))
    assert parts_of(out) == parts_of(unbroken)


def test_a_damaged_part_is_named_set_aside_and_made_anew(unbroken, resumed, refused, capsys):
    victim = sorted(parts_folder(resumed).glob("*.npz"))[3]
    whole = victim.read_bytes()
    content = whole[: len(whole) // 2]
    victim.write_bytes(content)
    message = refused("merge", resumed)
    assert message.startswith(f"part {victim} is damaged (")
    assert message.endswith("); its sweep, run again, computes it anew")
    assert not resumed.exists()

    assert run(asked(*SMALL), resumed).identical(read(unbroken))
    assert capsys.readouterr().err.splitlines() == [
        f"{message}, and it is set aside",
        f"{SMALL_UNITS - 1} of {SMALL_UNITS} units are finished already",
    ]
    assert parts_of(resumed) == parts_of(unbroken)
    assert victim.with_name(f"{victim.name}.damaged").read_bytes() == content


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        ("code", "other"),
        ("platform", "gpu"),
        ("configuration", asked(*TINY).configuration()),
        ("own", {"mine": "other"}),
    ],
)
def test_parts_of_different_sweeps_are_not_joined(refused, resumed, tmp_path, entry, value):
    other = tmp_path / "other.parts"
    shutil.copytree(parts_folder(resumed), other)
    path = other / "sweep.json"
    path.write_bytes(sealed_json(unsealed_json(path.read_bytes(), path.name) | {entry: value}, path.name))
    message = refused("merge", resumed, parts_folder(resumed), other)
    assert message == f"the folders hold different sweeps (they differ in {entry})"


def test_a_folder_without_a_sweep_is_refused_and_a_merge_replaces_nothing_else(refused, resumed, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("precious")
    for name in ("missing", "file", "folder"):
        assert "holds no sweep.json" in refused("merge", tmp_path / "sweep.nc.new", tmp_path / name)
    assert "not a regular file" in refused("merge", tmp_path / "folder", parts_folder(resumed))
    assert "simlab did not write" in refused("merge", tmp_path / "file", parts_folder(resumed))
    assert (tmp_path / "file").read_text() == "precious"
