"""Coq accepts every proof of ``paper_checks/proofs``, from the axioms of its real numbers alone."""

import functools
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


def axioms(printed):
    """The names in what ``Print Assumptions`` says: each begins a line, and its type is indented below."""
    names = {line.split()[0] for line in printed.splitlines() if line and not line.startswith((" ", "Closed under"))}
    return names - {"Axioms:"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A copy of the proofs, beside which Coq writes."""
    return shutil.copytree(FOLDER, tmp_path_factory.mktemp("coq") / "proofs")


@pytest.fixture(scope="module")
def coq(folder):
    """Compile a file of the copy, once, after those that it requires."""

    @functools.cache
    def compiled(name):
        for required in re.findall(
            r"^From proofs Require \w+ (\w+)\.", (folder / f"{name}.v").read_text(), re.MULTILINE
        ):
            compiled(required)
        command = [COQC, "-q", "-Q", ".", "proofs", f"{name}.v"]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)

    return compiled


@pytest.mark.parametrize("name", [path.stem for path in FILES])
def test_coq_accepts_a_proof_and_prints_what_each_theorem_rests_on(folder, coq, name):
    done, text = coq(name), (folder / f"{name}.v").read_text()
    assert (done.returncode, done.stderr) == (0, "")
    theorems = re.findall(r"^Theorem (\w+)", text, re.MULTILINE)
    assert theorems == re.findall(r"^Print Assumptions (\w+)\.$", text, re.MULTILINE)
    assert len(re.findall("^(?:Axioms:|Closed under)", done.stdout, re.MULTILINE)) == len(theorems) > 0
    assert axioms(done.stdout) <= AXIOMS


@pytest.mark.parametrize("gap", ["Theorem t : 0 = 1. Admitted.", "Axiom t : 0 = 1."])
def test_a_gap_in_a_proof_is_an_axiom_that_is_not_allowed(folder, coq, gap):
    coq.cache_clear()
    (folder / "gap.v").write_text(f"{gap}\nPrint Assumptions t.\n")
    assert (coq("gap").returncode, axioms(coq("gap").stdout)) == (0, {"t"})
