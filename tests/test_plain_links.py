"""A link of one's own that declares nothing: no engine shows it padding, or an order that is not the random one."""

import numpy as np
import pytest
from array_api_compat import array_namespace
from contract import CHECKS
from simlab.simulate.counted import counts_suffice
from simlab.simulate.windows import padded

import simlab
from simlab import Rollouts, chain
from simlab.errors import InputError
from simlab.estimators import REGISTRY, Estimator, center, stateless
from simlab.estimators.likelihood import LOGP
from simlab.methods import Method
from simlab.problems import anchored, prompt_bank, tree
from simlab.rollouts import group_mean
from simlab.simulate import Numbers, Program, run_lanes, simulate
from simlab.simulate.sparse import may_be_sparse
from simlab.surrogates import SURROGATES, Surrogate, ppo_clip, surrogate
from simlab.theory import masses


def only_hard(advantages, rollouts):
    """The README's link."""
    return advantages * (rollouts.rewards.mean(-1, keepdims=True) < 0.5)


def only_hard_heeding(advantages, rollouts):
    """The same, of the rollouts that exist."""
    return advantages * (group_mean(rollouts.rewards, rollouts) < 0.5)


def first(count):
    """A link that reads the order: only so many rollouts of a group count."""

    def link(advantages, rollouts):
        xp = array_namespace(advantages)
        place = xp.cumulative_sum(xp.ones_like(advantages), axis=-1)
        return xp.where(place <= count, advantages, xp.zeros_like(advantages))

    return link


def own(link, **declared) -> Estimator:
    return chain(center("mean"), stateless(link, **declared))


# The same law on every engine.


def finals(program, seeds, steps):
    """Q_pos of each seed after the last step."""
    lanes = [(seed, Numbers({}, {}, {})) for seed in range(seeds)]
    return run_lanes(program, anchored(1000, 100), np.array([steps]), lanes)["q_pos"][:, -1].astype(float)


@pytest.mark.parametrize("group_size", [5, pytest.param(16, marks=pytest.mark.slow)])
def test_the_links_of_the_readme_learn_the_same_on_dense_and_lumped(group_size):
    """Means of 16 seeds within 4.5 standard errors; padded to 32 rollouts they were 22 and 9 of these apart."""
    programs = [Program(group_size, own(only_hard), engine=engine) for engine in ("dense", "lumped")]
    dense, lumped = (finals(program, seeds=16, steps=300) for program in programs)
    error = np.sqrt((dense.var(ddof=1) + lumped.var(ddof=1)) / 16)
    assert error < 0.002
    assert abs(dense.mean() - lumped.mean()) < 4.5 * error


def test_a_link_that_reads_the_order_learns_the_same_from_large_groups_on_dense_and_sharded():
    """Of 4096 rollouts of 2000 actions 32 count: dense listed those correct first, which taught nothing."""
    large = {"group_size": 4096, "estimator": own(first(32))}
    dense, sharded = (
        simulate(anchored(2000, 100), Program(**large, engine=engine), seeds=2, steps=10, record_every=10)
        for engine in ("dense", "sharded")
    )
    np.testing.assert_allclose(dense.q_pos, sharded.q_pos, rtol=1e-4)


# What an engine may do with whom.


def test_engines_fill_up_and_sort_groups_for_those_alone_that_are_declared_exchangeable():
    plain, declared = own(only_hard), own(only_hard_heeding, exchangeable=True)
    assert [padded(Program(5, estimator)) for estimator in ("grpo", declared, plain)] == [32, 32, 5]
    large = {"group_size": 20_000, "optimizer": "sgd"}
    assert [counts_suffice(Program(estimator=e, **large), 10_000) for e in ("grpo", declared, plain)] == [1, 1, 0]
    assert [may_be_sparse(Program(5, e, optimizer="sgd")) for e in ("grpo", declared, plain)] == [1, 1, 0]
    mine = Surrogate(lambda ratio, advantages, rollouts: ratio * advantages)
    assert padded(Program(5, "grpo", surrogate=mine)) == 5
    assert not counts_suffice(Program(estimator="grpo", surrogate=mine, **large), 10_000)
    assert not may_be_sparse(Program(5, "grpo", surrogate=mine, optimizer="sgd"))


@pytest.mark.parametrize("name", REGISTRY)
def test_every_estimator_of_the_library_is_declared_exchangeable(name):
    assert REGISTRY[name].build().exchangeable


@pytest.mark.parametrize("name", SURROGATES)
def test_every_surrogate_of_the_library_is_declared_exchangeable(name):
    assert surrogate(name).exchangeable


@pytest.mark.parametrize(
    ("engine", "problem", "group_size"),
    [
        ("dense", anchored(60, 6), 5),
        ("lumped", anchored(60, 6), 5),
        ("sharded", anchored(60, 6), 5),
        ("dense", prompt_bank(prompts=4, actions=8), 5),
        ("dense", tree(), 5),
        ("dense", anchored(60, 6), 4096),
    ],
)
def test_a_plain_link_and_a_plain_surrogate_see_the_whole_group_and_nothing_else(engine, problem, group_size):
    seen = []

    def link(advantages, rollouts):
        seen.append((rollouts.rewards.shape[1], rollouts.mask, rollouts.old_logp))
        return advantages

    def coefficient(ratio, advantages, rollouts):
        seen.append((ratio.shape[1], rollouts.mask, rollouts.old_logp))
        return ratio * advantages

    program = Program(group_size, chain(link), surrogate=Surrogate(coefficient), engine=engine)
    simulate(problem, program, seeds=1, steps=2, record_every=2)
    assert set(seen) == {(group_size, None, None)}


# The contract finds out what is declared and does not hold.


def test_a_link_that_counts_absent_rollouts_breaks_the_contract_if_it_is_declared_exchangeable():
    with pytest.raises(AssertionError):
        CHECKS["absent_rollouts_and_prompts_are_not_there"](own(only_hard, exchangeable=True))
    for keeps in (own(only_hard), own(only_hard_heeding, exchangeable=True)):
        CHECKS["absent_rollouts_and_prompts_are_not_there"](keeps)


def test_a_link_that_reads_the_order_breaks_the_contract_if_it_is_declared_exchangeable():
    with pytest.raises(AssertionError):
        CHECKS["order_does_not_matter"](own(first(3), exchangeable=True))
    CHECKS["order_does_not_matter"](own(first(3)))


def test_a_link_that_counts_absent_tokens_breaks_the_contract_if_it_is_declared_exchangeable():
    def mean_logp(advantages, rollouts):
        return advantages + rollouts.old_logp.mean(-1)

    with pytest.raises(AssertionError):
        CHECKS["absent_tokens_are_not_there"](own(mean_logp, needs=LOGP, exchangeable=True))
    CHECKS["absent_tokens_are_not_there"](own(mean_logp, needs=LOGP))


# What is absent is refused, and a mask that excludes nothing is no mask.

REWARDS = np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]])
HALF = np.array([[True, True, False], [True, True, True]])
TOKENS = np.ones((2, 3, 2), dtype=bool)


def refused(call, message):
    with pytest.raises(InputError, match=message) as refusal:
        call()
    assert "\n" not in str(refusal.value)


def test_absent_rollouts_are_refused_to_a_plain_link():
    refused(lambda: simlab.advantages(own(only_hard), REWARDS, mask=HALF), "mask leaves out rollouts, and only_hard is")
    whole = simlab.advantages(own(only_hard), REWARDS)
    np.testing.assert_array_equal(simlab.advantages(own(only_hard), REWARDS, mask=np.ones_like(HALF)), whole)
    heeding, absent = own(only_hard_heeding, exchangeable=True), [[True, True, True, False]]
    found = simlab.advantages(heeding, np.array([[1.0, 0.0, 0.0, 1.0]]), mask=np.array(absent))
    np.testing.assert_allclose(found[0, :3], simlab.advantages(own(only_hard), [1.0, 0.0, 0.0]))


def test_absent_tokens_are_refused_to_a_plain_link_of_tokens():
    def add_logp(advantages, rollouts):
        return advantages + rollouts.old_logp.mean(-1)

    ragged = TOKENS.copy()
    ragged[0, 0, 1] = False
    given = {"old_logp": -np.ones((2, 3, 2)), "token_mask": ragged}
    estimator = own(add_logp, needs=LOGP)
    refused(lambda: simlab.advantages(estimator, REWARDS, **given), "token_mask leaves out tokens, and add_logp is")
    simlab.advantages(estimator, REWARDS, **(given | {"token_mask": TOKENS}))
    after_tokens = chain(simlab.estimator("cw_grpo"), lambda advantages, rollouts: advantages - advantages.mean())
    refused(lambda: simlab.advantages(after_tokens, REWARDS, **given), "token_mask leaves out tokens")
    simlab.advantages(own(only_hard), REWARDS, **given)  # which reads no tokens


def test_absent_rollouts_and_tokens_are_refused_to_a_plain_surrogate():
    mine = Surrogate(lambda ratio, advantages, rollouts: ratio * advantages)
    ragged = TOKENS.copy()
    ragged[0, 0, 1] = False
    for rollouts, message in (
        (Rollouts(REWARDS, token_mask=ragged), "token_mask leaves out tokens"),
        (Rollouts(REWARDS, mask=HALF), "mask leaves out rollouts"),
    ):
        for moves in (mine, simlab.surrogates.add(ppo_clip(), mine)):
            method = Method(simlab.estimator("grpo"), moves)
            refused(lambda: method.from_advantages(np.ones((2, 3, 2)), REWARDS, rollouts), message)  # noqa: B023
    Method(simlab.estimator("grpo"), mine).from_advantages(np.ones((2, 3, 2)), REWARDS, Rollouts(REWARDS))


def test_a_link_sees_the_token_fields_that_it_needs_and_no_others():
    """What it reads without saying so would be missing in another engine."""
    seen = {}

    def link(advantages, rollouts):
        seen.update(rollouts._asdict())
        return advantages

    fields = {"old_logp": -np.ones((2, 3, 2)), "entropy": np.ones((2, 3, 2))}
    simlab.advantages(chain(stateless(link, needs=LOGP)), REWARDS, **fields)
    assert seen["old_logp"] is not None
    assert seen["entropy"] is None


def test_the_masses_of_a_link_that_reads_the_order_are_refused():
    refused(lambda: masses(own(first(2)), 4), "the masses of chain.* depend on the order of the rollouts")
    assert masses(own(only_hard), 4).success.max() > 0
