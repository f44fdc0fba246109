"""Arms: the methods that they build, their floats, and what shapes a program of them."""

import dataclasses
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sweep_cases import refusal

from simlab.arms import parse
from simlab.estimators import REGISTRY
from simlab.methods import METHODS, method
from simlab.rollouts import Rollouts
from simlab.surrogates import SURROGATES


def build(text):
    return parse(text).build()


def made_of(whole):
    """What a method is made of, without its functions."""
    return sorted(whole.needs), whole.surrogate.candidates, whole.aggregation


def coefficients(whole):
    """What a method makes of a batch of two groups, of which all fields are there."""
    random = np.random.default_rng(0)
    logp = -random.uniform(0.1, 3, (2, 4, 3))
    batch = Rollouts(
        np.array([[1.0, 0, 0, 0], [1, 1, 0, 1]]),
        old_logp=logp,
        ref_logp=logp - 0.1,
        entropy=random.uniform(0.1, 1, logp.shape),
        noise=random.uniform(0, 1, logp.shape),
        greedy_reward=np.array([[1.0] * 4, [0.0] * 4]),
        topn_logp=-np.sort(random.uniform(0.1, 3, (*logp.shape, whole.surrogate.candidates)), axis=-1),
        token_mask=np.ones(logp.shape, bool),
    )
    batch = jax.tree.map(jnp.asarray, batch)
    found, _ = whole.coefficients(jnp.full(logp.shape, 1.3), batch, whole.estimator.init())
    return found


# What is built


@pytest.mark.parametrize(
    ("text", "needs", "candidates", "aggregation"),
    [
        ("grpo", ["rewards"], 0, "sequence_mean"),
        ("dapo", ["rewards"], 0, "token_mean"),
        ("maxrl", ["rewards"], 0, "sequence_mean"),
        ("f_grpo(gamma=0.5,base=maxrl)", ["rewards"], 0, "sequence_mean"),
        ("maxrl+clip_higher@token_mean", ["rewards"], 0, "token_mean"),
        ("mc_grpo(scale=none)", ["rewards"], 0, "sequence_mean"),
        ("fade(target_entropy=none)", ["old_logp", "rewards"], 0, "sequence_mean"),
        ("grpo+casp(alpha=0.05,candidates=4)", ["entropy", "old_logp", "rewards", "topn_logp"], 4, "sequence_mean"),
        ("grpo+kl_penalty", ["old_logp", "ref_logp", "rewards"], 0, "sequence_mean"),
        ("grpo+kl_penalty(coefficient=1e+2,form=k1)", ["rewards"], 0, "sequence_mean"),
        (
            "grpo+clip_cov+kl_penalty+entropy_bonus(coefficient=0.1)@constant",
            ["entropy", "noise", "old_logp", "ref_logp", "rewards"],
            0,
            "constant",
        ),
    ],
)
def test_an_arm_is_a_method_with_a_surrogate_penalties_and_an_aggregation(text, needs, candidates, aggregation):
    assert made_of(build(text)) == (needs, candidates, aggregation)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_the_name_of_a_whole_method_is_that_method(name):
    assert made_of(build(name)) == made_of(method(name))
    np.testing.assert_array_equal(coefficients(build(name)), coefficients(method(name)))


def test_a_name_that_is_a_method_and_an_estimator_takes_the_parameters_of_both():
    assert build("dr_grpo(max_tokens=7)").normaliser == 7
    changed = build("grpo(ddof=1)")
    assert changed.aggregation == method("grpo").aggregation
    np.testing.assert_allclose(coefficients(changed)[0], coefficients(build("grpo"))[0] * np.sqrt(3 / 4), rtol=1e-4)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ppo", "arm = 'ppo' is unknown (did you mean 'pkpo'?); allowed: "),
        ("grpo+ppo", "surrogate = 'ppo' is unknown (did you mean 'ce_gppo'?); allowed: "),
        ("grpo@mean", "aggregation = 'mean' is unknown; allowed: token_mean, sequence_mean, constant"),
        ("grpo(gamma=1)", "grpo has no parameter 'gamma'; it takes: ddof, eps"),
        ("dapo(gamma=1)", "dapo has no parameter 'gamma'; it takes: none"),
        ("grpo+casp(beta=1)", "casp has no parameter 'beta'"),
        ("f_grpo(gamma=-1)", "gamma = -1 is outside its range"),
        ("f_grpo(gamma=much)", "gamma = 'much' is not a number"),
        ("f_grpo(gamma=nan)", "gamma = 'nan' is not a number"),
        ("f_grpo(base=none)", "base = 'none' is unknown; allowed: "),
        ("grpo+kl_penalty+casp", "would lose what stands before casp; allowed: one surrogate, put first"),
        ("grpo+casp+clip_higher", "would lose what stands before clip_higher"),
    ],
)
def test_an_arm_that_cannot_be_built_is_refused(text, message):
    assert message in refusal(build, text)


# Floats and shape


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
    """In 64 bits, as a default that is a float may be written as a whole number."""
    with jax.enable_x64(True):
        arm = parse(text)
        expected = coefficients(arm.build())
        np.testing.assert_allclose(coefficients(arm.build(arm.floats)), expected, rtol=1e-12)
        np.testing.assert_allclose(coefficients(arm.without_floats().build(arm.floats)), expected, rtol=1e-12)


def test_floats_that_are_given_take_the_place_of_those_written():
    arm = parse("f_grpo(gamma=0.5)+clip_higher")
    given = {"estimator.gamma": 2.0, "surrogate.0.eps_high": 0.1}
    expected = coefficients(build("f_grpo(gamma=2)+clip_higher(eps_high=0.1)"))
    np.testing.assert_array_equal(coefficients(arm.build(given)), expected)
    assert np.any(coefficients(arm.build()) != expected)


def test_floats_may_be_traced_and_one_program_serves_all_arms_of_a_shape():
    compiled = []

    def run(shape, floats):
        compiled.append(shape)
        return coefficients(shape.build(floats))

    program = jax.jit(run, static_argnums=0)
    for text in ("f_grpo(gamma=0.5)+clip_higher", "f_grpo(gamma=2)+clip_higher(eps_high=0.1)"):
        arm = parse(text)
        np.testing.assert_allclose(program(arm.without_floats(), arm.floats), coefficients(arm.build()), rtol=1e-5)
    assert compiled == [parse("f_grpo+clip_higher")]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("f_grpo(gamma=0.5)", "f_grpo"),
        ("f_grpo(gamma=0.5,base=grpo)", "f_grpo(gamma=7)"),
        ("pkpo(k=4)", "pkpo"),
        ("mc_grpo(scale=none,eps=0.1)", "mc_grpo"),
        ("grpo+casp(alpha=0.1)@constant", "grpo(eps=1)+casp(quantile=0)@constant"),
    ],
)
def test_arms_that_differ_in_floats_alone_have_one_shape(one, other):
    one, other = parse(one), parse(other)
    assert one.without_floats() == other.without_floats()
    assert hash(one.without_floats()) == hash(other.without_floats())
    assert one.floats.keys() == other.floats.keys()
    assert parse(str(one.without_floats())) == one.without_floats() == one.without_floats().without_floats()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("f_grpo(base=maxrl)", "f_grpo"),
        ("pkpo(k=2)", "pkpo"),
        ("fade(target_entropy=0.5)", "fade"),
        ("dr_grpo(max_tokens=10)", "dr_grpo"),
        ("grpo+casp(candidates=2)", "grpo+casp"),
        ("grpo+casp(weights=proportional)", "grpo+casp"),
        ("grpo@token_mean", "grpo"),
        ("grpo+ppo_clip", "grpo"),
    ],
)
def test_arms_that_differ_in_anything_else_have_shapes_of_their_own(one, other):
    assert parse(one).without_floats() != parse(other).without_floats()


def test_floats_that_an_arm_has_not_are_refused():
    message = refusal(parse("f_grpo").build, {"estimator.delta": 1.0})
    hint = " (did you mean 'estimator.gamma'?)"
    assert message == f"arm 'f_grpo' has no parameter 'estimator.delta'{hint}; it takes: estimator.gamma"
    assert "gamma = -1.0 is outside its range" in refusal(parse("f_grpo").build, {"estimator.gamma": -1.0})


# Identity


def test_an_arm_is_a_value():
    arm = parse("f_grpo(gamma=0.5)+clip_higher@token_mean")
    assert pickle.loads(pickle.dumps(arm)) == arm
    assert {arm: 1}[parse("f_grpo( gamma=0.50 )+clip_higher@token_mean")] == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        arm.aggregation = None
