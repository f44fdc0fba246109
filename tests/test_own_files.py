"""Code in a user's file: the file names it, it runs once, is told from other code, and is rebuilt elsewhere."""

import json
import pickle
import subprocess
import sys

import numpy as np
import pytest
from sweep_cases import asked, refusal

from simlab import own_files
from simlab.arms import parse
from simlab.cli import main
from simlab.estimators import center, chain
from simlab.fingerprint import own_source
from simlab.methods import Method
from simlab.rollouts import Rollouts
from simlab.surrogates import clip_higher
from simlab.sweeps.plan import Plan

REWARDS = np.array([[1.0, 0.0, 0.0, 0.0]])
HEAD = """
from simlab import chain
from simlab.estimators import center, focal
from simlab.methods import Method, method
from simlab.surrogates import Surrogate, clip_higher, cispo
"""


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A folder of the user's, which is the current one."""
    monkeypatch.chdir(tmp_path)
    before, modules = dict(own_files._loaded), set(sys.modules)
    yield tmp_path
    own_files._loaded.clear()
    own_files._loaded.update(before)
    for name in set(sys.modules) - modules:
        if name.startswith("own_file_"):
            del sys.modules[name]


def written(folder, body, name="mine.py"):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(HEAD + body)
    return path


def advantages(text):
    chosen = parse(text).build().estimator
    return chosen.update(Rollouts(REWARDS), chosen.init())[0]


def coefficient(text):
    """The coefficient of a token whose ratio is beyond every clip but that of 0.5."""
    method = parse(text).build()
    batch = Rollouts(REWARDS, token_mask=np.ones((1, 4, 1), bool))
    return method.coefficients(np.full((1, 4, 1), 1.4), batch, method.estimator.init())[0][0, 0, 0]


CENTRED = chain(center("mean")).update(Rollouts(REWARDS), ((),))[0]
KINDS = {
    "an estimator": "weight = chain(center('mean'))",
    "a link": "weight = center('mean')",
    "a method": "weight = Method(chain(center('mean')), clip_higher())",
    "a constructor of an estimator": "def weight(power=1.0): return chain(center('mean'))",
    "a constructor of a method": "def weight(): return Method(chain(center('mean')), clip_higher())",
    "a plain link": "def weight(advantages, rollouts): return advantages - advantages.mean(-1, keepdims=True)",
    "an object that can be called": """
class Weight:
    def __call__(self, advantages, rollouts):
        return advantages - advantages.mean(-1, keepdims=True)
weight = Weight()""",
}


def test_it_is_an_estimator_a_method_a_constructor_of_one_or_a_plain_function_of_rollouts(here):
    for number, (kind, body) in enumerate(KINDS.items()):
        written(here, body, f"mine{number}.py")
        name = f"mine{number}.py:weight"
        np.testing.assert_allclose(advantages(name), CENTRED)
        assert parse(name).build().aggregation == ("token_mean" if "method" in kind else "sequence_mean")


def test_the_parameters_with_defaults_are_those_in_brackets(here):
    written(
        here,
        "def made(power=1.0, base='mean'): return chain(center(base), focal(power))\n"
        "def plain(advantages, rollouts, factor=2.0): return factor * advantages",
    )
    np.testing.assert_allclose(advantages("mine.py:made(power=2)"), CENTRED * 0.75**2)
    np.testing.assert_allclose(advantages("mine.py:plain(factor=3)"), REWARDS * 3)
    assert parse("mine.py:made(power=2)").floats == {"estimator.power": 2.0}
    assert parse("mine.py:plain").floats == {"estimator.factor": 2.0}
    assert parse("mine.py:made(power=2)").without_floats() == parse("mine.py:made(base=mean)").without_floats()
    message = refusal(parse("mine.py:made(gamma=2)").build)
    assert message == "mine.py:made has no parameter 'gamma'; it takes: power, base"


def test_after_a_plus_it_is_a_surrogate_a_constructor_of_one_or_a_plain_function(here):
    written(
        here,
        "wide = clip_higher(0.5, 0.5)\n"
        "def made(eps=0.5): return clip_higher(eps, eps)\n"
        "def plain(ratio, advantages, rollouts, factor=1.0): return factor * ratio * advantages",
    )
    expected = Method(chain(center("mean")), clip_higher(0.5, 0.5), "sequence_mean")
    batch = Rollouts(REWARDS, token_mask=np.ones((1, 4, 1), bool))
    expected = expected.coefficients(np.full((1, 4, 1), 1.4), batch, ((),))[0][0, 0, 0]
    assert expected > 0
    for added in ("wide", "made", "plain"):
        assert coefficient(f"dr_grpo+mine.py:{added}@sequence_mean") == pytest.approx(expected)
    assert coefficient("dr_grpo+mine.py:made(eps=0.1)@sequence_mean") == 0
    assert parse("grpo+mine.py:plain(factor=2)").floats["surrogate.0.factor"] == 2.0
    assert "would lose what stands before mine.py:wide" in refusal(parse("grpo+casp+mine.py:wide").build)


@pytest.mark.parametrize(
    ("body", "text", "message"),
    [
        ("weight = 3", "mine.py:weight", "mine.py:weight is a int; allowed: Method, Estimator, Link, a function with"),
        ("def weight(): return 3", "mine.py:weight", "mine.py:weight makes a int; allowed: Method, Estimator, Link"),
        (
            "def weight(a, b, c): return a",
            "mine.py:weight",
            "mine.py:weight is a function of the wrong arguments (a, b, c); allowed: ",
        ),
        ("weight = clip_higher(0.1, 0.1)", "mine.py:weight", "mine.py:weight is a Surrogate; allowed: Method"),
    ],
)
def test_anything_else_is_refused(body, text, message, here):
    written(here, body)
    assert message in refusal(parse(text).build)


def test_a_file_or_name_that_is_not_there_is_refused(here):
    written(here, "weight = chain(center('mean'))")
    (here / "mine.txt").write_text("weight = 1")
    (here / "folder.py").mkdir()
    (here / "loop.py").symlink_to(here / "loop.py")
    for text, message in (
        ("none.py:weight", "none.py cannot be read: No such file or directory"),
        ("mine.txt:weight", "'mine.txt:weight' names nothing in a .py file; allowed: FILE.py:NAME, such as mine.py"),
        ("folder.py:weight", "folder.py is no regular file"),
        ("loop.py:weight", "loop.py"),
        ("mine.py:wieght", "'mine.py:wieght': mine.py has no 'wieght'; its names: Method, Surrogate, center, chain,"),
    ):
        assert message in refusal(parse(text).build)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("1 / 0", "mine.py cannot be imported: ZeroDivisionError: division by zero, line 6 of mine.py"),
        ("\n\ndef f(:", "mine.py cannot be imported: SyntaxError: invalid syntax, line 8 of mine.py"),
        ("def weight(): return gone", "mine.py:weight cannot be built: NameError: name 'gone' is not defined, line 6"),
        ("\0", "mine.py cannot be imported: "),
    ],
)
def test_what_a_file_raises_is_said_in_one_line_with_its_place(body, message, here):
    written(here, body)
    for _ in range(2):  # the second time as the first
        assert message in refusal(parse("mine.py:weight").build)


def test_a_file_finds_data_in_its_own_folder_and_is_run_once(here):
    (here / "lab").mkdir()
    np.save(here / "lab" / "table.npy", np.array([3.0]))
    written(
        here,
        "import pathlib, numpy\n"
        "folder = pathlib.Path(__file__).parent\n"
        "with (folder / 'runs').open('a') as file: file.write('x')\n"
        "table = numpy.load(folder / 'table.npy')\n"
        "def weight(advantages, rollouts): return advantages * float(table[0])",
        "lab/mine.py",
    )
    for text in ("lab/mine.py:weight", "./lab/../lab/mine.py:weight", f"{here}/lab/mine.py:weight"):
        np.testing.assert_array_equal(advantages(text), 3 * REWARDS)
    assert (here / "lab" / "runs").read_text() == "x"
    assert own_files.source_of("lab/mine.py:weight") == (here / "lab" / "mine.py").read_text()
    written(here, "def weight(advantages, rollouts): return 5 * advantages")  # another file of that name
    np.testing.assert_array_equal(advantages("mine.py:weight"), 5 * REWARDS)


def test_a_file_that_has_been_imported_is_that_module(here, monkeypatch):
    """An estimator of that file is thus registered once."""
    written(here, "marker = object()\nweight = center('mean')", "imported_by_name.py")
    monkeypatch.syspath_prepend(here)
    import imported_by_name  # noqa: PLC0415

    assert own_files.load("imported_by_name.py:marker") is imported_by_name.marker
    del sys.modules["imported_by_name"]


BODY = """
FACTOR = 2.0
def helper(advantages): return FACTOR * advantages
def weight(advantages, rollouts): return helper(advantages)
"""
REBUILT = """
import json, pickle, sys
from simlab.fingerprint import own_source
arm = pickle.loads(bytes.fromhex(sys.argv[1]))
print(json.dumps([str(arm), own_source(arm.build()), arm.floats]))
"""


def rebuilt(arm):
    """Rebuild a pickled arm in another process: its text, its fingerprint and its floats."""
    command = [sys.executable, "-c", REBUILT, pickle.dumps(arm).hex()]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def test_an_edit_of_what_a_weight_calls_changes_its_fingerprint_in_another_process(here):
    path = written(here, BODY, "lib/site-packages/mine.py")
    arm = parse("lib/site-packages/mine.py:weight")
    in_this_process = own_source(arm.build())
    first = rebuilt(arm)
    assert first == [str(arm), in_this_process, {}]
    path.write_text(path.read_text().replace("FACTOR * advantages", "FACTOR + advantages"))
    assert rebuilt(arm)[1] != first[1]
    assert own_source(arm.build()) == in_this_process, "this process has run the file as it was"
    assert own_files.source_of(arm.files[0]) == HEAD + BODY


def test_a_parameter_of_a_plain_function_is_part_of_its_fingerprint_and_its_name_is_in_messages(here):
    written(here, "def weight(advantages, rollouts, factor=2.0): return factor * advantages.mean(-1)")
    sources = [own_source(parse(f"mine.py:weight{options}").build()) for options in ("", "(factor=3)", "(factor=4)")]
    assert len({*sources}) == 3
    assert "weight gave advantages of shape (1,)" in refusal(advantages, "mine.py:weight(factor=3)")


RAISING = """
def branches(advantages, rollouts):
    if advantages.mean() > 0.5:
        return advantages
    return -advantages

def turns(advantages, rollouts):
    while advantages.mean() > 0.5:
        advantages = advantages / 2
    return advantages

def asserts(advantages, rollouts):
    assert advantages.mean() < 0.5
    return advantages

def picks(advantages, rollouts):
    return advantages[rollouts.rewards > 0]

def leaves(advantages, rollouts):
    raise SystemExit(7)

def opens(advantages, rollouts):
    return advantages * float(open("nothere.txt").read())

def fails(advantages, rollouts):
    raise KeyError("x")
"""


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("branches", 'mine.py:LINE: "if" on a traced array; use jnp.where'),
        ("turns", 'mine.py:LINE: "while" on a traced array; use a fixed number of turns, and jnp.where'),
        ("asserts", 'mine.py:LINE: "assert" on a traced array; leave it out'),
        pytest.param("picks", "mine.py:LINE: a mask as the index of a traced array", marks=pytest.mark.slow),
        pytest.param("leaves", "SystemExit: 7, line LINE of mine.py", marks=pytest.mark.slow),
        pytest.param("opens", "No such file or directory, line LINE of mine.py", marks=pytest.mark.slow),
        pytest.param("fails", "KeyError: 'x', line LINE of mine.py", marks=pytest.mark.slow),
    ],
)
def test_an_error_in_a_users_function_is_one_line_with_file_line_and_advice(here, capsys, name, words):
    path = written(here, RAISING)
    definition, at = f"def {name}(", path.read_text().splitlines()
    line = next(number for number, text in enumerate(at, 1) if text.startswith(definition)) + 1
    arguments = ["sweep", "--arms", f"mine.py:{name}", "--steps", "1", "--seeds", "1", "--group-size", "2"]
    assert main(arguments) == 2
    (printed,) = capsys.readouterr().err.splitlines()
    assert words.replace("LINE", str(line)) in printed
    raised = {"leaves": "7", "opens": "nothere", "fails": "x"}.get(name, "boolean")
    with pytest.raises((Exception, SystemExit), match=raised):
        main([*arguments, "--traceback"])


READING = """
from pathlib import Path

ATTRIBUTE = Path("at_import.json").read_text()

def scaled(advantages, rollouts):
    with open("at_trace.json") as file:
        return advantages * float(file.read())
"""


def test_a_unit_is_named_by_the_files_that_a_users_code_opens_when_it_is_imported_or_traced(here):
    def unit(files):
        for name, text in ({"at_import.json": "1", "at_trace.json": "1", "other.json": "1"} | files).items():
            (here / name).write_text(text)
        own_files._loaded.clear()  # like another process
        return Plan(asked("--arms", "mine.py:scaled", "--seeds", 1, "--group-size", 2)).units("code", "cpu")[0].name

    written(here, READING)
    first = unit({})
    assert unit({"other.json": "2"}) == first
    assert unit({"at_trace.json": "2"}) != first
    assert unit({"at_import.json": "2"}) != first
