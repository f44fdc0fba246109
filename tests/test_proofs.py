"""Coq accepts every proof of ``paper_checks/proofs``, from the axioms of its real numbers alone."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "paper_checks" / "proofs"
FILES = sorted(FOLDER.glob("*.v"))
COQC = os.environ.get("SIMLAB_COQC") or shutil.which("coqc")  # where the variable is set, Coq must be there
# On these Coq's standard library builds the reals and their analysis; one may use them in any proof of mathematics.
AXIOMS = {
    "ClassicalDedekindReals.sig_forall_dec",
    "ClassicalDedekindReals.sig_not_dec",
    "FunctionalExtensionality.functional_extensionality_dep",
    "Classical_Prop.classic",
}

pytestmark = [pytest.mark.proofs, pytest.mark.skipif(COQC is None, reason="no coqc on the PATH: apt-get install coq")]


def coq(folder, file):
    command = [COQC, "-q", "-Q", ".", "proofs", file]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def axioms(printed):
    """The names in what ``Print Assumptions`` says: each begins a line, and its type is indented below."""
    names = {line.split()[0] for line in printed.splitlines() if line and not line.startswith((" ", "Closed under"))}
    return names - {"Axioms:"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A copy of the proofs, in which what others rest on is compiled."""
    copy = shutil.copytree(FOLDER, tmp_path_factory.mktemp("coq") / "proofs")
    for file in ("groups.v", "softmax.v"):
        assert coq(copy, file).returncode == 0
    return copy


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_coq_accepts_a_proof_and_prints_what_each_theorem_rests_on(folder, file):
    done, text = coq(folder, file.name), file.read_text(encoding="utf-8")
    assert (done.returncode, done.stderr) == (0, "")
    theorems = re.findall(r"^Theorem (\w+)", text, re.MULTILINE)
    assert theorems == re.findall(r"^Print Assumptions (\w+)\.$", text, re.MULTILINE)
    assert len(re.findall("^(?:Axioms:|Closed under)", done.stdout, re.MULTILINE)) == len(theorems) > 0
    assert axioms(done.stdout) <= AXIOMS


@pytest.mark.parametrize("gap", ["Theorem t : 0 = 1. Admitted.", "Axiom a : 0 = 1. Theorem t : 0 = 1. exact a. Qed."])
def test_a_gap_in_a_proof_is_an_axiom_that_is_not_allowed(folder, gap):
    (folder / "gap.v").write_text(f"{gap}\nPrint Assumptions t.\n", encoding="utf-8")
    done = coq(folder, "gap.v")
    assert done.returncode == 0
    assert axioms(done.stdout) in ({"t"}, {"a"})
