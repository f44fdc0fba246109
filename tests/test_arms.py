"""Arms: their language, the methods that they build, their floats, and what shapes a program of them."""

from keyword import iskeyword

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sweep_cases import refusal

from simlab.arms import parse, parse_list
from simlab.estimators import REGISTRY
from simlab.grammar import ArmTerms, Term, read, split, write
from simlab.methods import METHODS
from simlab.rollouts import Rollouts
from simlab.surrogates import AGGREGATIONS, SURROGATES
from simlab.text import read_value

# Text, and what it says: base, added parts and aggregation, each part a name and its parameters in their order.
VALID = {
    "grpo": (("grpo", {}), [], None),
    " 2_grpo( ) ": (("2_grpo", {}), [], None),
    " f_grpo ( gamma = 0.5 , base = maxrl ) ": (("f_grpo", {"gamma": 0.5, "base": "maxrl"}), [], None),
    "grpo + casp(alpha=.05) + kl_penalty(form=k1) @ constant": (
        ("grpo", {}), [("casp", {"alpha": 0.05}), ("kl_penalty", {"form": "k1"})], "constant",
    ),
    "a(x=1,y=-2,z=+3,u=1.5e3,v=1e-3,w=2.,t=1.7e308,s=-0)": (
        ("a", {"x": 1, "y": -2, "z": 3, "u": 1500, "v": 0.001, "w": 2, "t": 1.7e308, "s": 0}), [], None,
    ),
    "a(x=none,y=None,z=TRUE,u=false,v=nan)": (
        ("a", {"x": "none", "y": "none", "z": "true", "u": "false", "v": "nan"}), [], None,
    ),
    "a(file='dir/mine.py:weight',__proto__='in')": (("a", {"file": "dir/mine.py:weight", "__proto__": "in"}), [], None),
    "mine.py:weight": (("mine.py:weight", {}), [], None),
    "../some-dir/mine.py:Weight_2(gamma=2)@constant": (("../some-dir/mine.py:Weight_2", {"gamma": 2}), [], "constant"),
    "grpo+/home/me/größe.py:clip": (("grpo", {}), [("/home/me/größe.py:clip", {})], None),
    "a(x=" + "1" * 32 + ")": (("a", {"x": 11111111111111111111111111111111}), [], None),
}  # fmt: skip

# Text, and the term of it that cannot be read.
INVALID = {
    "": "", "  ": "", "GRPO": "GRPO", "grpo+": "", "+grpo": "", "grpo++casp": "", "grpo casp": "grpo casp",
    "grpo;casp": "grpo;casp", "grpo(": "grpo(", "grpo)": "grpo)", "a+grpo()()": "grpo()()", "a((x=1))": "a((x=1))",
    "f_grpo(base=f_grpo(gamma=1))": "f_grpo(base=f_grpo(gamma=1))", "grpo@": "", "grpo@a@b": "a@b", "grpo@3": "3",
    "../grpo": "../grpo", "mine.py": "mine.py", "mine.py:": "mine.py:", "mine.py:2": "mine.py:2",
    "my file.py:weight": "my file.py:weight", "grpo\n": "grpo\n", "grpo\0": "grpo\0", "a(x=1\n)": "a(x=1\n)",
    "a(x=1#)": "a(x=1#)", "a+f_grpo(0.5)": "f_grpo(0.5)", "a(gamma)": "a(gamma)", "a(gamma=)": "a(gamma=)",
    "a(=1)": "a(=1)", "a(x=1=2)": "a(x=1=2)", "a(x=1 2)": "a(x=1 2)", "a(,)": "a(,)", "a(2x=1)": "a(2x=1)",
    "a(x=1,x=2)": "a(x=1,x=2)", "a(x=1e400)": "a(x=1e400)", "a(x=[1])": "a(x=[1])", "a(x=1j)": "a(x=1j)",
    "a(x=y.z)": "a(x=y.z)", "a(x=1+y)": "a(x=1+y)", "a(**x)": "a(**x)",
}  # fmt: skip


@pytest.mark.parametrize("text", VALID)
def test_an_arm_is_a_base_with_what_is_added_and_an_aggregation(text):
    (base, added, aggregation) = VALID[text]
    expected = [Term(name, tuple(parameters.items())) for name, parameters in (base, *added)]
    assert read(text) == ArmTerms(expected[0], tuple(expected[1:]), aggregation)
    assert read(write(*read(text))) == read(text)


def test_what_is_no_arm_is_refused_with_its_term_and_what_is_allowed():
    for text, term in INVALID.items():
        assert refusal(read, text).startswith(f"arm {text!r} cannot be read at {term!r}; allowed: such as grpo, ")


def test_a_list_of_arms_is_parted_by_commas_outside_of_brackets():
    text = "grpo, f_grpo(gamma=0.5,base=maxrl),grpo+casp(alpha=0.05,candidates=4)@token_mean"
    assert split(text) == ("grpo", "f_grpo(gamma=0.5,base=maxrl)", "grpo+casp(alpha=0.05,candidates=4)@token_mean")
    assert [arm.base.name for arm in parse_list(text)] == ["grpo", "f_grpo", "grpo"]


def test_a_list_with_what_is_no_arm_is_refused():
    assert "arm '' cannot be read" in refusal(parse_list, "grpo,,maxrl")
    assert "arm 'grpo(' cannot be read" in refusal(parse_list, "grpo(,maxrl")


def test_spelling_makes_no_other_arm_and_no_other_text():
    for first, second in (
        ("grpo", " grpo() "),
        ("f_grpo(gamma=0.5,base=maxrl)", "f_grpo( base = maxrl, gamma = 5e-1 )"),
        ("maxrl+clip_higher@token_mean", "maxrl + clip_higher() @ token_mean"),
        ("f_grpo(gamma=1)", "f_grpo(gamma=1.0)"),
        ("fade(target_entropy=none)", "fade(target_entropy=None)"),
        ("a(x=1e22)", "a(x=10000000000000000000000)"),
    ):
        assert {parse(first)} == {parse(second)}
        assert str(parse(first)) == str(parse(second))


names = st.from_regex(r"[a-z0-9_]{1,12}|[a-zA-Z_/.-]{0,9}\.py:[A-Za-z_]\w{0,9}", fullmatch=True)
numbers = st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False)
words = st.from_regex(r"[\w.+/:-]{1,9}", fullmatch=True).map(str).filter(lambda word: isinstance(read_value(word), str))
keys = st.from_regex(r"[a-z_]\w{0,9}", fullmatch=True).filter(lambda key: key.isascii() and not iskeyword(key))
terms = st.builds(
    Term, names, st.dictionaries(keys, numbers | words, max_size=4).map(lambda parameters: tuple(parameters.items()))
)


@settings(max_examples=20)
@given(terms, st.lists(terms, max_size=3), st.none() | st.sampled_from(AGGREGATIONS))
def test_what_is_written_reads_back(base, added, aggregation):
    text = write(base, added, aggregation)
    assert read(text) == (base, tuple(added), aggregation)
    assert parse(str(parse(text))) == parse(text)
    assert str(parse(str(parse(text)))) == str(parse(text))


def test_a_value_is_no_number_without_bounds():
    assert "(400 characters) is too long; allowed: up to 32 characters" in refusal(read_value, "1" * 400)
    assert "the number 1e400 is too large" in refusal(read_value, "1e400")


def build(text):
    return parse(text).build()


def summary(method):
    """A method without its functions."""
    return sorted(method.needs), method.surrogate.candidates, method.aggregation


def coefficients(method):
    """A method's coefficients of a batch of two groups that carries every field, in NumPy and 64 bits."""
    random = np.random.default_rng(0)
    logp = -random.uniform(0.1, 3, (2, 4, 3))
    batch = Rollouts(
        np.array([[1.0, 0, 0, 0], [1, 1, 0, 1]]),
        old_logp=logp,
        ref_logp=logp - 0.1,
        teacher_logp=logp + random.uniform(-0.5, 0.05, logp.shape),
        collision=np.exp(2 * logp) + 0.1,
        entropy=random.uniform(0.1, 1, logp.shape),
        noise=random.uniform(0, 1, logp.shape),
        greedy_reward=np.array([[1.0] * 4, [0.0] * 4]),
        parts=random.uniform(0, 1, (2, 4, 2)),
        role=np.array([[0.0] * 4, [1.0] * 4]),
        topn_logp=-np.sort(random.uniform(0.1, 3, (*logp.shape, method.surrogate.candidates)), axis=-1),
        token_mask=np.ones(logp.shape, bool),
    )
    return method.coefficients(np.full(logp.shape, 1.3), batch, method.estimator.init())[0]


BUILT = {
    "dapo": ("", 0, "token_mean"),
    "f_grpo(gamma=0.5,base=maxrl)": ("", 0, "sequence_mean"),
    "maxrl+clip_higher@token_mean": ("", 0, "token_mean"),
    "mc_grpo(scale=none)": ("", 0, "sequence_mean"),
    "fade(target_entropy=none)": ("old_logp", 0, "sequence_mean"),
    "grpo+casp(alpha=0.05,candidates=4)": ("entropy old_logp topn_logp", 4, "sequence_mean"),
    "grpo+kl_penalty": ("old_logp ref_logp", 0, "sequence_mean"),
    "grpo+kl_penalty(coefficient=1e+2,form=k1)": ("", 0, "sequence_mean"),
    "grpo+clip_cov+kl_penalty+entropy_bonus(coefficient=0.1)@constant": (
        "entropy noise old_logp ref_logp", 0, "constant",
    ),
}  # fmt: skip


def test_an_arm_is_a_method_with_a_surrogate_penalties_and_an_aggregation():
    for text, (needs, candidates, aggregation) in BUILT.items():
        assert summary(build(text)) == (sorted({"rewards", *needs.split()}), candidates, aggregation)


def test_an_arm_that_cannot_be_built_is_refused():
    for text, message in (
        ("ppo", "arm = 'ppo' is unknown (did you mean 'pkpo'?); allowed: "),
        ("grpo+ppo", "surrogate = 'ppo' is unknown (did you mean 'ppo_clip'?); allowed: "),
        ("grpo@mean", "aggregation = 'mean' is unknown; allowed: token_mean, sequence_mean, constant"),
        ("grpo(gamma=1)", "grpo has no parameter 'gamma'; it takes: ddof, eps"),
        ("dapo(gamma=1)", "dapo has no parameter 'gamma'; it takes: none"),
        ("grpo+casp(beta=1)", "casp has no parameter 'beta'"),
        ("f_grpo(gamma=-1)", "gamma = -1 is outside its range"),
        ("f_grpo(gamma=nan)", "gamma = 'nan' is not a number"),
        ("f_grpo(base=none)", "base = 'none' is unknown; allowed: "),
        ("grpo+kl_penalty+casp", "would lose what stands before casp; allowed: one surrogate, put first"),
        ("grpo+casp+clip_higher", "would lose what stands before clip_higher"),
    ):
        assert message in refusal(build, text)


def test_floats_are_the_parameters_of_the_base_and_of_what_is_added_those_at_their_defaults_too():
    assert parse("f_grpo(gamma=2,base=maxrl)+clip_higher(eps_high=0.3)+kl_penalty(form=k2)").floats == {
        "estimator.gamma": 2.0,
        "surrogate.0.eps_low": 0.2,
        "surrogate.0.eps_high": 0.3,
        "surrogate.1.coefficient": 1e-3,
    }
    assert type(parse("f_grpo(gamma=2)").floats["estimator.gamma"]) is float
    assert parse("pkpo(k=2)").floats == {}
    assert "estimator.target_entropy" not in parse("fade(target_entropy=0.5)").floats


@pytest.mark.parametrize("text", sorted({*REGISTRY, *METHODS} | {f"grpo+{name}" for name in SURROGATES}))
def test_a_method_of_its_own_floats_is_the_method(text):
    arm = parse(text)
    expected = coefficients(arm.build())
    np.testing.assert_allclose(coefficients(arm.build(arm.floats)), expected, rtol=1e-12)
    np.testing.assert_allclose(coefficients(arm.without_floats().build(arm.floats)), expected, rtol=1e-12)


def test_floats_may_be_traced_and_one_program_serves_all_arms_of_a_shape():
    compiled, rewards = [], jnp.array([[1.0, 0, 0, 0]])

    def run(shape, floats):
        compiled.append(shape)
        built = shape.build(floats)
        return built.coefficients(jnp.full((1, 4, 1), 1.3), Rollouts(rewards), built.estimator.init())[0]

    program = jax.jit(run, static_argnums=0)
    for text in ("f_grpo(gamma=0.5)+clip_higher", "f_grpo(gamma=2)+clip_higher(eps_high=0.1)"):
        arm = parse(text)
        np.testing.assert_allclose(program(arm.without_floats(), arm.floats), run(arm, {}), rtol=1e-5)
    assert [shape.text for shape in compiled].count("f_grpo+clip_higher") == 1


def test_arms_that_differ_in_floats_alone_have_one_shape():
    for first, second in (
        ("f_grpo(gamma=0.5,base=grpo)", "f_grpo(gamma=7)"),
        ("pkpo(k=4)", "pkpo"),
        ("mc_grpo(scale=none,eps=0.1)", "mc_grpo"),
        ("grpo+casp(alpha=0.1)@constant", "grpo(eps=1)+casp(quantile=0)@constant"),
    ):
        left, right = parse(first), parse(second)
        assert {left.without_floats()} == {right.without_floats()}
        assert left.floats.keys() == right.floats.keys()
        assert parse(str(left.without_floats())) == left.without_floats() == left.without_floats().without_floats()


def test_arms_that_differ_in_anything_else_have_shapes_of_their_own():
    for first, second in (
        ("f_grpo(base=maxrl)", "f_grpo"),
        ("pkpo(k=2)", "pkpo"),
        ("fade(target_entropy=0.5)", "fade"),
        ("dr_grpo(max_tokens=10)", "dr_grpo"),
        ("grpo+casp(weights=proportional)", "grpo+casp"),
        ("grpo@token_mean", "grpo"),
        ("grpo+ppo_clip", "grpo"),
    ):
        assert parse(first).without_floats() != parse(second).without_floats()


def test_floats_that_an_arm_has_not_are_refused():
    message = refusal(parse("f_grpo").build, {"estimator.delta": 1.0})
    hint = " (did you mean 'estimator.gamma'?)"
    assert message == f"arm 'f_grpo' has no parameter 'estimator.delta'{hint}; it takes: estimator.gamma"
    assert "gamma = -1.0 is outside its range" in refusal(parse("f_grpo").build, {"estimator.gamma": -1.0})
