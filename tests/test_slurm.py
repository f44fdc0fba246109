"""The job array of docs/slurm.md, run by programs that do at once what SLURM and an environment would do."""

import os
import stat
import subprocess
import sys

import pytest
import xarray

from docs_build.shown_blocks import ROOT, blocks

SIMLAB = f'#!/bin/sh\nexec "{sys.executable}" -m simlab.cli "$@"\n'
SBATCH = """#!/bin/bash
set -e
case "$1" in
--parsable)
    export SLURM_ARRAY_TASK_COUNT=4
    for SLURM_ARRAY_TASK_ID in 1 2 3 4; do
        export SLURM_ARRAY_TASK_ID
        bash "$2" >&2
    done
    echo 17
    ;;
--dependency=afterok:17) [ "$2" = --wrap ] && bash -c "$3" ;;
*) exit 3 ;;
esac
"""


@pytest.mark.slow
def test_the_job_array_that_is_shown_makes_a_whole_result(tmp_path):
    (job,) = [block for block in blocks(ROOT / "docs" / "slurm.md", "sh") if "#SBATCH" in block]
    (submit,) = [block for block in blocks(ROOT / "docs" / "slurm.md", "sh") if block.startswith("array=")]
    (tmp_path / "array.sbatch").write_text(job.replace("--out", "--seeds 4 --steps 10 --out"))  # in less time
    for name, program in (("venv/bin/simlab", SIMLAB), ("bin/sbatch", SBATCH)):
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.write_text(program)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    there = os.environ | {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    subprocess.run(["bash", "-euc", submit], cwd=tmp_path, env=there, check=True)
    with xarray.open_dataset(tmp_path / "array.nc") as result:
        assert result.sizes["seed"] == 4
        assert not result.q_pos.isnull().any()
