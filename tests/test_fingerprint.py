"""The fingerprint of a user's code: any change of its results changes it."""

import functools
import importlib
import re
import subprocess
import sys
import threading
from fractions import Fraction

import jax
import numpy as np
import pytest
from beartype import beartype
from jaxtyping import jaxtyped

from simlab import fingerprint
from simlab.estimators import REGISTRY, chain, estimator
from simlab.fingerprint import Unhashable, own_source
from simlab.identity import PACKAGE
from simlab.llm.tasks.from_callable import from_callable
from simlab.surrogates import SURROGATES, Surrogate, surrogate

SIBLING = """
SIGN = 1

def flip(x):
    return SIGN * x
"""
MODULE = """
import functools
import sibling

SCALE = 1
TABLE = {"a": 1, "b": 2}
WORDS = {"one", "two", "three"}

def helper(x):
    return SCALE * x

def plain(x):
    return [helper(x)]

def with_default(x, scale=1, *, shift=0):
    return scale * x + shift

def closed_over(scale):
    def inner(x):
        return scale * x
    return inner

closure = closed_over(1)
partial = functools.partial(with_default, scale=1)

def by_module(x):
    return sibling.flip(x)

def by_local_import(x):
    from sibling import flip
    return flip(x)

def asks_words(x):
    return x if str(x) in WORDS or str(x) in {"four", "five", "six"} else -x

class Base:
    def scaled(self, x):
        return 1 * x

class Callable(Base):
    factor = 1

    def __init__(self, scale):
        self.scale = scale
        self.own = self.scaled

    def __call__(self, x):
        return self.scaled(self.factor * self.scale * x)

    @property
    def half(self):
        return 1 / 2

instance = Callable(1)
method = instance.scaled
everything = [plain, closure, partial, instance, method, asks_words, by_module, by_local_import, TABLE]
"""


@pytest.fixture
def loaded(tmp_path, monkeypatch):
    """Load the two modules with other texts, as a new process would; remove them from Python afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def load(module=MODULE, sibling=SIBLING):
        for name, text in (("sibling", sibling), ("own_module", module)):
            (tmp_path / f"{name}.py").write_text(text)
            monkeypatch.delitem(sys.modules, name, raising=False)
        importlib.invalidate_caches()
        fingerprint._text.cache_clear()
        return importlib.import_module("own_module")

    yield load
    for name in ("sibling", "own_module"):
        sys.modules.pop(name, None)


def changed(text, old, new):
    assert text.count(old) == 1, (old, text.count(old))
    return text.replace(old, new)


CHANGES = [
    ("plain", "SCALE = 1", "SCALE = -1"),
    ("plain", "return SCALE * x", "return -SCALE * x"),
    ("with_default", "scale=1, *", "scale=2, *"),
    ("closure", "closed_over(1)", "closed_over(2)"),
    ("closure", "        return scale * x", "        return -scale * x"),
    ("partial", "with_default, scale=1", "with_default, scale=2"),
    ("asks_words", '"one", ', ""),
    ("asks_words", '"four", ', ""),
    ("instance", "instance = Callable(1)", "instance = Callable(2)"),
    ("instance", "factor = 1", "factor = 2"),
    ("instance", "        return 1 * x", "        return 2 * x"),
    ("instance", "1 / 2", "1 / 3"),
    ("method", "instance = Callable(1)", "instance = Callable(2)"),
]


@pytest.mark.parametrize("has_file", [True, False])
def test_what_changes_a_number_changes_the_fingerprint(loaded, has_file, monkeypatch):
    """Code without a file, as in a notebook, counts too."""
    if not has_file:
        monkeypatch.setattr(fingerprint, "_text", functools.cache(lambda name: ""))

    def sources(text):
        module = loaded(text)
        return {name: own_source(getattr(module, name)) for name, *_ in CHANGES}

    before = sources(MODULE)
    assert before == sources(MODULE)
    assert None not in before.values()
    for name, old, new in CHANGES:
        assert sources(changed(MODULE, old, new))[name] != before[name], (name, old)


def test_so_does_the_text_of_its_file_and_of_a_module_that_it_imports(loaded):
    def sources(*texts):
        module = loaded(*texts)
        return {own_source(getattr(module, name)) for name in ("plain", "by_module", "by_local_import")}

    assert len(sources()) == 3
    assert not sources() & sources(MODULE + "\n# more\n")
    assert not sources() & sources(MODULE, changed(SIBLING, "SIGN = 1", "SIGN = -1"))


def test_what_runs_counts_not_what_its_file_has_become(loaded, tmp_path):
    module = loaded()
    before = own_source(module.by_local_import)
    (tmp_path / "sibling.py").write_text(changed(SIBLING, "SIGN = 1", "SIGN = -1"))
    assert own_source(module.by_local_import) == before
    module.SCALE = -1
    assert own_source(module.plain) != own_source(loaded().plain)


def test_the_same_source_has_the_same_fingerprint_in_any_process(loaded, tmp_path):
    here = own_source(loaded().everything)
    program = "import own_module; from simlab.fingerprint import own_source; print(own_source(own_module.everything))"
    environment = {"PYTHONPATH": f"{PACKAGE.parent}:{tmp_path}", "PYTHONHASHSEED": "1"}
    run = [sys.executable, "-c", program]
    assert subprocess.run(run, capture_output=True, text=True, check=True, env=environment).stdout.strip() == here


def test_modules_that_hold_one_another_end(loaded):
    module = loaded(sibling=SIBLING + "\nimport own_module\n\ndef back(x):\n    return own_module.plain(x)\n")
    module.sibling.flip = module.by_module
    assert own_source(module.by_module) == own_source(module.by_module) is not None


# The library's own, and other people's


def test_what_the_library_has_adds_nothing():
    for name in REGISTRY:
        assert own_source((REGISTRY[name].build, estimator(name))) is None
    for name in SURROGATES:
        assert own_source((SURROGATES[name], surrogate(name))) is None


def test_a_link_of_ones_own_counts_within_a_chain_of_the_librarys():
    def scaled(factor):
        return chain(estimator("grpo"), lambda advantages, rollouts: factor * advantages)

    assert own_source(scaled(1.0)) == own_source(scaled(1.0)) is not None
    assert own_source(scaled(1.0)) != own_source(scaled(-1.0))
    assert own_source(estimator("f_grpo", base=scaled(1.0))) != own_source(estimator("f_grpo", base=scaled(-1.0)))


def test_a_surrogate_and_a_task_of_ones_own_count():
    plain, negated = (Surrogate(lambda ratio, advantages, rollouts, f=factor: f * advantages) for factor in (1.0, -1.0))
    assert own_source(plain) != own_source(negated)

    def task(rewards=lambda prompt, answer: 1.0, training=("a", "b"), **others):
        return own_source(from_callable(rewards, training, ["c"], 4, **others))

    assert task() == task() is not None
    assert len({task(), task(lambda prompt, answer: -1.0), task(training=("a",)), task(correct_from=0.5)}) == 4


def test_functions_that_jax_has_compiled_are_looked_into():
    plain, negated = (jax.jit(lambda x, f=factor: f * x) for factor in (1.0, -1.0))
    assert own_source(plain) != own_source(negated)
    assert own_source((jax.numpy.exp, np.exp, np.sum, functools.reduce, len, "text".join)) is None


def test_values_are_told_apart():
    def reads(value):
        return own_source(lambda: value)

    for first, second in (
        (np.arange(3.0), np.arange(1, 4.0)),
        (np.zeros(4, np.float32), np.zeros(4, np.int32)),
        (np.zeros(4), np.zeros((2, 2))),
        (jax.numpy.arange(3.0), jax.numpy.arange(1, 4.0)),
        (0.0, -0.0),
        ("1", b"1"),
        ({"a": 1, "b": 2}, {"a": 2, "b": 1}),
        ({1, 2}, {1, 3}),
        (["ab", "c"], ["a", "bc"]),
        (re.compile("a"), re.compile("a", re.IGNORECASE)),
        (Fraction(1, 2), Fraction(1, 3)),
        (np.random.default_rng(0), np.random.default_rng(1)),
    ):
        assert reads(first) == reads(first)
        assert reads(first) != reads(second), first


def test_what_checks_types_changes_nothing():
    def source(factor, *decorators):
        def scale(x: float) -> float:
            return factor * x

        for decorate in decorators:
            scale = decorate(scale)
        return own_source(scale)

    assert source(1.0) == source(1.0, beartype) == source(1.0, jaxtyped(typechecker=beartype)) != source(2.0, beartype)


def test_an_installed_package_goes_by_its_version(monkeypatch):
    def estimate(x):
        return np.exp(x)

    before = own_source(estimate)
    monkeypatch.setattr(fingerprint.importlib.metadata, "version", lambda name: "0.0")
    fingerprint.owner.cache_clear()
    assert own_source(estimate) != before
    fingerprint.owner.cache_clear()


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (threading.Lock(), "lock"),
        ((number for number in range(3)), "generator"),
        (np.frompyfunc(lambda x: -x, 1, 1), "ufunc"),
        (functools.reduce(lambda inner, _: [inner], range(10_000), []), "too deep"),
    ],
    ids=["lock", "generator", "ufunc", "depth"],
)
def test_what_cannot_be_hashed_is_refused_in_one_line(value, name):
    with pytest.raises(Unhashable, match=name) as error:
        own_source(lambda: value)
    assert "\n" not in str(error.value)
