"""A problem of one's own: registered by one call, or named by its file, it is a problem like any other."""

from pathlib import Path

import own_problem
import pytest
from refusals import refusal

from simlab.problems import PROBLEMS, problem, register
from simlab.problems.registry import problem_constructor

pytestmark = pytest.mark.usefixtures("quickly")
FILE = Path(own_problem.__file__)


def test_it_is_listed_with_its_parameters_and_built_by_name_or_by_file():
    assert PROBLEMS["ring"] is own_problem.ring
    assert problem_constructor("ring").defaults == {"actions": 24, "waves": 3, "width": 3, "height": 1.5}
    by_name, by_file = (problem(name, actions=9, width=2) for name in ("ring", f"{FILE}:ring"))
    assert by_name.fingerprint == by_file.fingerprint != problem("ring").fingerprint


def test_what_cannot_be_a_problem_is_refused_in_one_line(tmp_path):
    def ring(actions=3):
        return None

    def bare(actions, correct=1):
        return None

    assert refusal(register, ring) == "problem 'ring' is registered already; choose another name"
    allowed = "a Problem, or a function with defaults for all parameters that makes one"
    assert refusal(register, bare) == f"bare has no default for 'actions'; allowed: {allowed}"
    (tmp_path / "mine.py").write_text("three = 3\ndef nothing(actions=3): pass\n")
    assert refusal(problem, f"{tmp_path}/mine.py:three").endswith(f"three is a int; allowed: {allowed}")
    assert "makes a NoneType; allowed: a Problem" in refusal(problem, f"{tmp_path}/mine.py:nothing")
    assert "has no parameter 'width'" in refusal(problem, f"{tmp_path}/mine.py:nothing", width=3)
    assert "problem = 'rings' is unknown (did you mean 'ring'?); allowed: anchored, custom" in refusal(problem, "rings")
    assert "actions = 5 is outside its range [7, inf)" in refusal(problem, "ring", actions=5)
