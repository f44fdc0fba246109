"""A link that declares nothing: no storage shows it padding, or an order that is not the random one."""

import numpy as np
import pytest
from array_api_compat import array_namespace
from contract import CHECKS
from refusals import refusal

import simlab
from simlab import chain
from simlab.estimators import Estimator, center, stateless
from simlab.estimators.tokens import LOGP
from simlab.methods import Method
from simlab.problems import anchored, prompt_bank, tree
from simlab.rollouts import group_mean
from simlab.simulator.call import padded_group
from simlab.simulator.draw import counts_suffice
from simlab.simulator.runner import simulate
from simlab.simulator.settings import Settings
from simlab.simulator.sparse import may_be_sparse
from simlab.surrogates import SURROGATES, Surrogate, ppo_clip, surrogate
from simlab.theory import masses


def only_hard(advantages, rollouts):
    """The README's link."""
    return advantages * (rollouts.rewards.mean(-1, keepdims=True) < 0.5)


def only_hard_heeding(advantages, rollouts):
    """The same over the rollouts that exist."""
    return advantages * (group_mean(rollouts.rewards, rollouts) < 0.5)


def first(count):
    """A link that reads the order: only the first ``count`` rollouts of a group count."""

    def link(advantages, rollouts):
        xp = array_namespace(advantages)
        position = xp.cumulative_sum(xp.ones_like(advantages), axis=-1)
        return xp.where(position <= count, advantages, xp.zeros_like(advantages))

    return link


def estimator_of(link, **declared) -> Estimator:
    return chain(center("mean"), stateless(link, **declared))


def method_of(link, surrogate=None) -> Method:
    """Each rollout has one token, so that surrogates and aggregations are all alike."""
    return Method(link, surrogate or ppo_clip())


# The links that let a storage pad and sort.


def test_storages_fill_up_and_sort_groups_for_those_alone_that_are_declared_exchangeable():
    plain, declared = estimator_of(only_hard), estimator_of(only_hard_heeding, exchangeable=True)
    mine = Surrogate(lambda ratio, advantages, rollouts: ratio * advantages)
    methods = [method_of(simlab.estimator("grpo")), method_of(declared), method_of(plain)]
    methods.append(method_of(simlab.estimator("grpo"), mine))

    def answers(question, **settings):
        return [question(Settings(method, **settings).static, method) for method in methods]

    assert answers(lambda static, _: padded_group(static), group_size=5, storage="lumped") == [32, 32, 5, 5]
    many = anchored(10_000, 100).listed()
    counted = answers(lambda static, chosen: counts_suffice(static, chosen, many), group_size=20_000, storage="dense")
    assert counted == [1, 1, 0, 0]
    small = {"group_size": 5, "optimizer": "sgd", "storage": "lumped"}
    assert answers(lambda static, _: may_be_sparse(many, static), **small) == [1, 1, 0, 0]
    assert all(surrogate(name).exchangeable for name in SURROGATES)


@pytest.mark.parametrize(
    ("storage", "problem", "group_size"),
    [
        ("dense", anchored(60, 6), 5),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in [
                ("dense", anchored(60, 6), 4096),
                *((storage, prompt_bank(4, 8), 5) for storage in ("lumped", "sharded")),
                ("dense", tree(), 5),
            ]
        ),
    ],
)
def test_a_plain_link_and_a_plain_surrogate_see_the_whole_group_and_nothing_else(storage, problem, group_size):
    seen = []

    def link(advantages, rollouts):
        seen.append((rollouts.rewards.shape[1], rollouts.mask, rollouts.old_logp))
        return advantages

    def coefficient(ratio, advantages, rollouts):
        seen.append((ratio.shape[1], rollouts.mask, rollouts.old_logp))
        return ratio * advantages

    method = method_of(chain(link), Surrogate(coefficient))
    simulate(problem, method, group_size=group_size, seeds=1, steps=2, record_every=2, storage=storage)
    assert set(seen) == {(group_size, None, None)}


# The contract finds out what is declared and does not hold.


def test_a_link_that_is_wrongly_declared_exchangeable_breaks_the_contract():
    """It counts absent rollouts, reads their order, or counts absent tokens."""
    with pytest.raises(AssertionError):
        CHECKS["absent_rollouts_and_prompts_are_not_there"](estimator_of(only_hard, exchangeable=True))
    for keeps in (estimator_of(only_hard), estimator_of(only_hard_heeding, exchangeable=True)):
        CHECKS["absent_rollouts_and_prompts_are_not_there"](keeps)
    with pytest.raises(AssertionError):
        CHECKS["order_does_not_matter"](estimator_of(first(3), exchangeable=True))
    CHECKS["order_does_not_matter"](estimator_of(first(3)))

    def mean_logp(advantages, rollouts):
        return advantages + rollouts.old_logp.mean(-1)

    with pytest.raises(AssertionError):
        CHECKS["absent_tokens_are_not_there"](estimator_of(mean_logp, needs=LOGP, exchangeable=True))
    CHECKS["absent_tokens_are_not_there"](estimator_of(mean_logp, needs=LOGP))


# Absence is refused, and a mask that excludes nothing is no mask.

REWARDS = np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]])
HALF = np.array([[True, True, False], [True, True, True]])
TOKENS = np.ones((2, 3, 2), dtype=bool)


def test_absent_rollouts_are_refused_to_a_plain_link():
    message = refusal(simlab.advantages, estimator_of(only_hard), REWARDS, mask=HALF)
    assert "mask leaves out rollouts, and only_hard is" in message
    whole = simlab.advantages(estimator_of(only_hard), REWARDS)
    np.testing.assert_array_equal(simlab.advantages(estimator_of(only_hard), REWARDS, mask=np.ones_like(HALF)), whole)
    heeding, absent = estimator_of(only_hard_heeding, exchangeable=True), [[True, True, True, False]]
    advantages = simlab.advantages(heeding, np.array([[1.0, 0.0, 0.0, 1.0]]), mask=np.array(absent))
    np.testing.assert_allclose(advantages[0, :3], simlab.advantages(estimator_of(only_hard), [1.0, 0.0, 0.0]))


def test_absent_tokens_are_refused_to_a_plain_link_of_tokens():
    def add_logp(advantages, rollouts):
        return advantages + rollouts.old_logp.mean(-1)

    ragged = TOKENS.copy()
    ragged[0, 0, 1] = False
    fields = {"old_logp": -np.ones((2, 3, 2)), "token_mask": ragged}
    estimator = estimator_of(add_logp, needs=LOGP)
    message = refusal(simlab.advantages, estimator, REWARDS, **fields)
    assert "token_mask leaves out tokens, and add_logp is" in message
    simlab.advantages(estimator, REWARDS, **(fields | {"token_mask": TOKENS}))
    after_tokens = chain(simlab.estimator("cw_grpo"), lambda advantages, rollouts: advantages - advantages.mean())
    assert "token_mask leaves out tokens" in refusal(simlab.advantages, after_tokens, REWARDS, **fields)
    simlab.advantages(estimator_of(only_hard), REWARDS, **fields)  # this link reads no tokens


def test_a_link_sees_the_token_fields_that_it_needs_and_no_others():
    """A field that the link does not declare is None."""
    seen = {}

    def link(advantages, rollouts):
        seen.update(rollouts._asdict())
        return advantages

    fields = {"old_logp": -np.ones((2, 3, 2)), "entropy": np.ones((2, 3, 2))}
    simlab.advantages(chain(stateless(link, needs=LOGP)), REWARDS, **fields)
    assert seen["old_logp"] is not None
    assert seen["entropy"] is None


def test_the_masses_of_a_link_that_reads_the_order_are_refused():
    assert "depend on the order of the rollouts" in refusal(masses, estimator_of(first(2)), 4)
    assert masses(estimator_of(only_hard), 4).success.max() > 0
