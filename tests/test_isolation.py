"""Lopti: unlikely tokens are learned from first, the others afterwards. Steps equal naive loops in the contract."""

import numpy as np
import pytest

from simlab.errors import InputError
from simlab.problems import custom, prompt_bank
from simlab.simulator.api import simulate
from simlab.simulator.isolation import takes_part
from simlab.simulator.settings import Settings

pytestmark = pytest.mark.usefixtures("quickly")
FAST = {"optimizer": "sgd", "seeds": 3, "steps": 5, "record_every": 1, "group_size": 6}


def ends(problem, method, rate=0.5, **settings):
    """(seeds, records) of pass@1 and of the entropy."""
    found = simulate(problem, method, optimizer_parameters={"learning_rate": rate}, dtype="float64", **FAST, **settings)
    return np.stack([found.target_mass.values, found.entropy.values])


def test_each_token_takes_part_in_one_turn():
    logp = np.log([0.1, 0.3, 0.5, 0.9, 1.0])
    first, second = (takes_part(logp, 0.5, turn) for turn in (True, False))
    assert first.tolist() == [True, True, False, False, False]
    np.testing.assert_array_equal(second, ~first)


def test_the_threshold_itself_counts_as_likely_whatever_the_rounding():
    for dtype in (np.float32, np.float64):
        logp = np.log(np.array([0.3, 0.5, 0.7], dtype))
        for own, isolation in zip(logp, (0.3, 0.5, 0.7), strict=True):
            assert not takes_part(own, isolation, True)


def test_where_all_tokens_are_on_one_side_it_is_a_step_of_all_and_one_of_none():
    """Of equal logits each has a tenth: below .5, and not below .05. With SGD a step of none moves nothing."""
    bank = custom([0.0] * 10, [0, 1, 2], [2])
    together = ends(bank, "grpo", rate=1e-3)
    for isolation in (0.05, 0.5):
        np.testing.assert_allclose(ends(bank, "grpo", rate=1e-3, isolation=isolation), together, rtol=0, atol=1e-12)


@pytest.mark.slow
def test_small_steps_of_both_turns_add_up_to_one_of_all():
    """To first order, with an error that falls with the square of the rate."""
    bank = prompt_bank(prompts=4, actions=6)
    gaps = [
        np.abs(ends(bank, "grpo+unclipped", rate, isolation=0.3) - ends(bank, "grpo+unclipped", rate)).max()
        for rate in (0.02, 0.002)
    ]
    assert gaps[0] > 1e-8
    assert gaps[1] < gaps[0] / 50


def test_it_pays_for_two_gradient_steps():
    for epochs in (1, 3):
        alone, isolated = (Settings("grpo", isolation=isolation, epochs=epochs).static for isolation in (0.0, 0.5))
        assert (alone.gradient_steps, isolated.gradient_steps) == (epochs, 2 * epochs)
        assert isolated.is_off_policy


@pytest.mark.parametrize("isolation", [-0.1, 1.5, float("nan")])
def test_a_threshold_is_a_probability(isolation):
    with pytest.raises(InputError, match="isolation"):
        simulate(custom([0.0, 1.0], [0], [0]), "grpo", isolation=isolation, **FAST)


def test_it_is_refused_beside_dynamic_sampling():
    with pytest.raises(InputError, match="beside epochs, minibatches, lag or isolation"):
        simulate(prompt_bank(prompts=4, actions=6), "grpo", isolation=0.5, allocation="dynamic", **FAST)
