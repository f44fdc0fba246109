"""Every registered estimator keeps its promises, refuses bad input, and gives the numbers of its paper."""

import inspect
import math
import re
from functools import partial
from itertools import groupby

import array_api_strict
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from contract import CHECKS
from reference_cases import CASES, assert_close, check_against_reference, record, sequences
from references import REFERENCES
from refusals import refusal

import simlab
from simlab.estimators import DOMAINS, REGISTRY, Link, center, chain, divide_failures, estimator, register
from simlab.rollouts import FIELDS

pytestmark = pytest.mark.usefixtures("double_precision")

# Of the registered ones test_compiled_programs compiles one program each, and compares it with the papers.
COMPILED = "one_program_serves_jit_vmap_and_scan"


@pytest.mark.parametrize("name", REGISTRY)
def test_the_contract_is_kept(name):
    for check in CHECKS.values():
        if check.__name__ != COMPILED:
            check(REGISTRY[name].build())


@pytest.mark.slow
@pytest.mark.parametrize("name", REGISTRY)
def test_batches_without_masks_are_the_same_under_jit(name):
    CHECKS[COMPILED](REGISTRY[name].build())


def test_entries_name_a_source_and_their_defaults_suffice():
    for entry in REGISTRY.values():
        assert re.fullmatch(r"[a-z-]+:[a-z0-9.-]+", entry.tag)
        assert entry.summary.endswith(".")
        assert entry.formula
        assert ">>> simlab.advantages" in entry.build.__doc__
        assert {"rewards"} <= entry.build().needs <= FIELDS
        assert entry.build().domain in DOMAINS
        assert entry.build().exchangeable


# Bad parameters

# A value that is outside, and the range that the message names: by the name of a parameter, and where names differ.
USUAL_METRICS = {
    "base": ("ppo", "dr_grpo"),
    "ddof": (2, "0 (population), 1 (sample)"),
    "eps": (-1e-9, "[0, inf)"),
    "gamma": (-0.5, "[0, inf)"),
    "k": (0, "[1, inf)"),
    "decay": (1.5, "[0, 1]"),
    "alpha_max": (0.5, "[1, inf)"),
    "delta_min": (1.5, "(0, 1]"),
}
OUTSIDE = {
    "a_grae": {"alpha": (0.0, "(0, inf)"), "easy_term": ("hard", "paper, code")},
    "a_star_po": {"beta": (0.0, "(0, inf)")},
    "advantage_reweighting": {"alpha": (1.5, "[0, 1]")},
    "aem": {"strength": (-1.0, "[0, inf)"), "least_spread": (0.0, "(0, inf)")},
    "asym_grpo": {"delta": (0, "(0, inf)")},
    "asym_power": {"alpha_success": (0.5, "[1, inf)"), "alpha_failure": (0.0, "[1, inf)")},
    "asym_rl": {"delta": ("small", "not a number")},
    "bbg": {"tau": (1.5, "[0, 1]")},
    "bnpo": {"most": (0.0, "(0, inf)")},
    "cw_grpo": {"scope": ("token", "group, batch")},
    "ds_grpo": {"success": (-0.05, "[0, inf)"), "failure": (-0.05, "[0, inf)")},
    "easy_power": {"alpha": (0.5, "[1, inf)")},
    "entropy_advantage": {"alpha": (-0.4, "[0, inf)"), "kappa": (0.0, "(0, inf)")},
    "fade": {"beta": (-1, "[0, 1]"), "target_entropy": (-1.0, "[0, inf)"), "baseline": ("median", "mean, batch_mean")},
    "fade_entropy": {"beta": (1.1, "[0, 1]")},
    "fade_logarithmic": {"last": (0.0, "(0, inf)")},
    "gdpo": {"code": ("axolotl", "trl, verl, nemo_rl")},
    "grpo_lead": {
        "alpha": (-0.05, "[0, inf)"), "penalty": (-1.0, "[0, inf)"), "low": (-0.4, "[0, inf)"),
        "high": (-1.5, "[0, inf)"), "midpoint": (True, "not a number"), "steepness": (-10.0, "[0, inf)"),
    },
    "ha_dw": {"scale": (-1.0, "[0, inf)"), "initial": (-0.5, "[0, 1]")},
    "linked": {
        "baseline": ("max", "none, mean, leave_one_out, batch_mean, median"),
        "scale": ("mad", "none, std, std_of_others, times_std, mean, pass_at_k"),
        "difficulty": ("hard", "none, focal, easy, asymmetric, sqrt_hard, sqrt_easy, shift, history"),
        "sign": ("both", "none, divide_failures, relu, attenuate"), "delta": (0.0, "(0, inf)"),
    },
    "log_mean_exp": {"beta": (-1.0, "(0, inf)")},
    "mc_grpo": {"scale": ("std", "none, mad")},
    "negative_dominant": {"factor": (0.0, "(0, inf)")},
    "pkpo": {"baseline": ("mean", "none, leave_one_out")},
    "opd": {"gamma": (-0.5, "[0, inf)"), "bound": (0.0, "(0, inf)")},
    "optimal_token_baseline": {"eps": (0.0, "(0, inf)")},
    "positive_dominant": {"factor": (-1.0, "[0, inf)")},
    "power_alpha": {"alpha": (0.5, "[1, inf)")},
    "quantile": {"tau": (1.5, "[0, 1]")},
    "rae": {"roles": (0, "[1, 64]")},
    "least_variance": {"successes": (-1.0, "[0, inf)"), "failures": (-1.0, "[0, inf)")},
    "reject_easy": {"threshold": (1.5, "[0, 1]")},
    "rs_grpo": {"beta": (0.0, "(0, inf)")},
    "running_mean": {"initial": ("half", "not a number")},
    "softmax": {"beta": (0.0, "(0, inf)")},
    "t2t": {"alpha": (1.5, "[0, 1]")},
    "tempered_grpo": {"beta": (-0.5, "[0, inf)")},
    "unlikeliness": {"beta": (1.5, "[0, 1]"), "ranking": ("best", "paper, code")},
    "w_reinforce": {"success": (None, "not a number")},
}  # fmt: skip


@pytest.mark.parametrize("name", [name for name, entry in REGISTRY.items() if entry.parameters])
def test_a_parameter_outside_its_range_is_refused(name):
    for parameter, default in REGISTRY[name].parameters.items():
        value, allowed = OUTSIDE.get(name, {}).get(parameter) or USUAL_METRICS[parameter]
        message = refusal(simlab.estimator, name, **{parameter: value})
        assert {True} == {text in message for text in (parameter, str(value), allowed)}, message
        if isinstance(default, float):
            assert "nan" in refusal(simlab.estimator, name, **{parameter: math.nan})


# Bad batches

REWARDS = [1.0, 0.0, 0.0]
TOKENS = {"old_logp": np.zeros((4, 1)), "entropy": np.zeros((4, 1)), "greedy_reward": np.zeros(4), "role": np.zeros(4)}
TOKENS |= {"collision": np.ones((4, 1)), "teacher_logp": np.zeros((4, 1))}


@pytest.mark.parametrize("name", REGISTRY)
def test_rewards_outside_the_domain_of_the_formula_are_refused_and_others_taken(name):
    domain = REGISTRY[name].build().domain
    assert "NaN or infinity" in refusal(simlab.advantages, name, [*REWARDS, math.inf], **TOKENS)
    for value in (-0.5, 1.5, 0.5):
        if domain == "any" or (domain == "unit" and value == 0.5):
            correct = [reward > 0 for reward in (*REWARDS, value)]
            assert np.isfinite(simlab.advantages(name, [*REWARDS, value], correct=correct, **TOKENS)).all()
        else:
            message = refusal(simlab.advantages, name, [*REWARDS, value], **TOKENS)
            assert f"{value:g}; {name} is defined for {DOMAINS[domain]}" in message


# Estimators that ask which rollouts are correct; all others have a formula for graded rewards.
VERDICTS = {
    "a_grae", "asym_power", "bbg", "curve_rl", "ds_grpo", "easy_focused", "f_grpo", "hard_focused", "nsr", "psr",
    "reject_easy", "w_reinforce",
}  # fmt: skip
GRADED = np.array([[0.0, 0.1, 0.5, 0.9], [0.0, 0.0, 0.9, 0.9], [0.0, 0.0, 0.0, 0.5]])


@pytest.mark.parametrize("name", REGISTRY)
def test_graded_rewards_need_correct_wherever_the_advantages_depend_on_it(name):
    """An estimator refuses fractions, or asks for ``correct``, or gives the same whatever is marked as correct."""
    fields = {field: np.full((3, *values.shape), -1.0) for field, values in TOKENS.items()} | {"role": np.zeros((3, 4))}
    marked = partial(simlab.advantages, name, GRADED, **fields)
    if REGISTRY[name].build().domain == "binary":
        assert f"{name} is defined for rewards 0 and 1" in refusal(marked)
    elif name in VERDICTS:
        message = f"rewards hold 0.1 and 0.9; {name} asks which rollouts are correct; allowed: rewards 0 and 1, or"
        assert message in refusal(marked)
        assert np.isfinite(marked(correct=GRADED >= 0.5)).all()
    else:
        for cut in (0.0, 0.3, 0.7):
            np.testing.assert_array_equal(marked(correct=cut < GRADED), marked())


def test_rewards_of_one_level_above_0_need_no_correct():
    for low, high in ((0, 0.5), (-1, 1), (-0.2, 1.2)):
        assert simlab.advantages("psr", [low, high, low]).tolist() == [0, 1, 0]
    assert simlab.advantages("psr", [0.0, 1.0, 0.5], mask=[True, True, False]).tolist() == [0, 1, 0]


BAD_BATCHES = [
    ({"rewards": [[1.0, 0.0], [1.0]]}, "rewards given as ragged lists"),
    ({"rewards": ["right", "wrong"]}, "rewards given as ragged lists, or not numbers"),
    ({"rewards": []}, "shape (1, 0)"),
    ({"rewards": np.ones((2, 3, 4))}, "shape (2, 3, 4); allowed: (G,) or (P, G)"),
    ({"mask": np.ones(2, dtype=bool)}, "mask has shape (1, 2); allowed: (1, 3)"),
    ({"mask": np.ones(3)}, "mask has dtype float64; allowed: bool"),
    ({"old_logp": np.zeros((2, 5))}, "old_logp has shape (1, 2, 5); allowed: 3 axes, the first two (1, 3)"),
    ({"token_mask": np.ones((3, 5))}, "token_mask has dtype float64; allowed: bool"),
    ({"old_logp": np.zeros((3, 5)), "token_mask": np.ones((3, 4), dtype=bool)}, "token_mask has 4 tokens a rollout"),
    ({"name": "cw_grpo", "old_logp": [[0.0, math.nan], [0.0, 0.0], [0.0, 0.0]]}, "old_logp holds NaN"),
    ({"name": "entropy_advantage"}, "rollouts carry no entropy"),
    ({"name": "remax", "greedy_reward": np.ones(2)}, "greedy_reward has shape (1, 2); allowed: (1, 3)"),
    ({"name": "remax", "greedy_reward": [1.0, math.nan, 1.0]}, "greedy_reward holds NaN or infinity"),
    ({"rewards": np.ma.array(REWARDS, mask=[0, 0, 1])}, "rewards: a masked array; allowed: an array, and mask= true"),
    ({"rewards": [1.0, None, 0.0]}, "but where mask= is false"),
    ({"rewards": np.array([1.0, None, 0.0])}, "rewards have dtype object; allowed: real numbers, and mask= false"),
    ({"name": "ppo"}, "estimator = 'ppo' is unknown (did you mean 'pkpo'?); allowed: a_grae"),
    ({"gamma": 1.0}, "dr_grpo has no parameter 'gamma'; it takes: none"),
    ({"name": chain(center()), "gamma": 1.0}, "parameters ['gamma'] belong to a named estimator"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD_BATCHES)
def test_arguments_that_fit_no_batch_are_refused(arguments, message):
    assert message in refusal(simlab.advantages, **{"name": "dr_grpo", "rewards": REWARDS, **arguments})


def test_what_is_absent_is_not_checked():
    """Padding may hold anything, also for a formula whose rewards must lie in [0, 1]."""
    padded = simlab.advantages("maxrl", [1.0, 0.0, -7.0, math.nan], mask=[True, True, False, False])
    np.testing.assert_array_equal(padded, [1.0, -1.0, 0.0, 0.0])
    logp, mask = [[-1.0, math.nan], [-1.0, -2.0]], [[True, False], [True, True]]
    weighed = simlab.advantages("cw_grpo", [1.0, 0.0], old_logp=logp, token_mask=mask)
    assert np.isfinite(weighed).all()
    assert weighed[0, 1] == 0


def test_stages_that_cannot_be_chained_are_refused():
    plain_chain = inspect.unwrap(chain)  # without the type checker, which would refuse it first
    needy = Link(lambda advantages, rollouts, state: (advantages, state), needs=frozenset({"value"}))
    assert "needs ['value']" in refusal(plain_chain, needy)
    assert "stage 'center' is not a link" in refusal(plain_chain, "center")


def test_constructors_that_cannot_be_registered_are_refused():
    def grpo():
        return chain()

    def divided(delta):
        return chain(divide_failures(delta))

    for build, message in ((grpo, "registered already"), (divided, "['delta'] need a default")):
        assert message in refusal(register("own:method"), build)
        assert build not in [entry.build for entry in REGISTRY.values()]


# Every registered estimator gives the numbers of its paper: in NumPy, by the array API alone, and compiled


def test_no_estimator_is_without_a_reference():
    assert {name for name, _ in CASES} == set(REFERENCES) == set(REGISTRY)


@pytest.mark.parametrize(("name", "parameters"), CASES)
def test_arrays(name, parameters):
    check_against_reference(name, parameters, "ragged", np, "float64")
    check_against_reference(name, parameters, "full", np, "float64")
    check_against_reference(name, parameters, "ragged", array_api_strict, "float32")


# One program serves all cases of an estimator that differ in floats alone.


def floats_of(name, parameters):
    values = REGISTRY[name].parameters | parameters
    return {key: value for key, value in values.items() if isinstance(value, float)}


def choices_of(case):
    name, parameters = case
    return name, *((key, value) for key, value in parameters.items() if key not in floats_of(name, parameters))


def program_of(case):
    return str((choices_of(case), sorted(floats_of(*case))))


PROGRAMS = [list(cases) for _, cases in groupby(sorted(CASES, key=program_of), program_of)]
FIRST = {cases[0][0]: cases for cases in reversed(PROGRAMS)}


@pytest.mark.parametrize(
    "cases", [cases if cases in FIRST.values() else pytest.param(cases, marks=pytest.mark.slow) for cases in PROGRAMS]
)
def test_compiled_programs(cases):
    """Under jit: sequences side by side (vmap), their ragged steps in turn (scan), and floats that are traced."""
    name, choices = cases[0][0], dict(choices_of(cases[0])[1:])

    @jax.jit
    def program(batches, floats):
        chosen = estimator(name, **choices, **floats)

        def step(state, record):
            advantages, state = chosen.update(record, state)
            return state, advantages

        return jax.vmap(lambda batches: jax.lax.scan(step, chosen.init(), batches)[1])(batches)

    several = sequences(name, "ragged")
    stacked = [
        jax.tree.map(lambda *steps: jnp.stack(steps), *(record(step, "ragged", jnp, "float32") for step in sequence))
        for sequence in several
    ]
    stacked = jax.tree.map(lambda *batches: jnp.stack(batches), *stacked)
    for _, parameters in cases:
        histories = program(stacked, floats_of(name, parameters))
        assert histories.dtype == "float32"
        for history, sequence in zip(histories, several, strict=True):
            assert_close(name, parameters, list(history), sequence, "float32")
    assert program._cache_size() == 1
