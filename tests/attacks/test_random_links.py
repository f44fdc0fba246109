"""Random links of one's own, most of them reading the mean or the order of a group, learn the same in every storage."""

import numpy as np
import pytest
from array_api_compat import array_namespace

from simlab import chain
from simlab.methods import Method
from simlab.problems import anchored
from simlab.simulator.runner import run
from simlab.simulator.settings import Settings
from simlab.surrogates import reinforce

SEEDS, STEPS = 64, np.array([5, 40])
LEAVES = ("advantages", "rewards", "mean", "highest", "place", "parity", "so_far", "neighbour", "size")


def leaf(name, advantages, rewards):
    xp = array_namespace(rewards)
    unit = xp.ones_like(rewards)
    position = xp.cumulative_sum(unit, axis=-1)
    return {
        "advantages": advantages,
        "rewards": rewards,
        "mean": unit * xp.mean(rewards, axis=-1, keepdims=True),
        "highest": unit * xp.max(rewards, axis=-1, keepdims=True),
        "place": position / rewards.shape[-1],
        "parity": position % 2,
        "so_far": xp.cumulative_sum(rewards, axis=-1),
        "neighbour": xp.roll(rewards, 1, axis=-1),
        "size": unit * float(rewards.shape[-1]),
    }[name]


def expression(generator, depth):
    """A random expression of the leaves, as (text, function of advantages and rewards)."""
    if depth == 0:
        name = LEAVES[generator.integers(len(LEAVES))]
        return name, lambda advantages, rewards: leaf(name, advantages, rewards)
    (left_text, left), (right_text, right) = (expression(generator, depth - 1) for _ in range(2))
    kind = generator.integers(4)
    text = f"({left_text} {('+', '-', '*', '>')[kind]} {right_text})"

    def join(advantages, rewards):
        first, second = left(advantages, rewards), right(advantages, rewards)
        if kind == 3:
            xp = array_namespace(rewards)
            return xp.where(first > second, first, -second)
        return (first + second, first - second, first * second)[kind]

    return text, join


def random_link(seed):
    """A bounded random expression times the centred rewards, or in place of them."""
    text, inner = expression(np.random.default_rng(seed), 2)

    def link(advantages, rollouts):
        xp = array_namespace(advantages)
        return xp.tanh(inner(advantages, rollouts.rewards))

    return text, chain(link)


def q_pos(link, storage, group_size, actions=200):
    # Other seeds on lumped storage: dense and sharded draw the same numbers, which their means may share.
    seeds = [seed + 1000 * (storage == "lumped") for seed in range(SEEDS)]
    method = Method(link, reinforce())
    settings = Settings(method, group_size, storage=storage, optimizer_parameters={"learning_rate": 0.05})
    return run(anchored(actions, actions // 10), [settings] * SEEDS, seeds, STEPS)["q_pos"][:, 1:].astype(float)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_a_random_plain_link_has_one_law_on_dense_lumped_and_sharded(seed):
    """Means of 64 seeds within 4.5 standard errors after 5 and 40 steps; and of the squares, that is, of the spread."""
    text, link = random_link(seed)
    group_size = (3, 5, 16, 33)[seed % 4]
    masses = {storage: q_pos(link, storage, group_size) for storage in ("dense", "lumped", "sharded")}
    for storage in ("lumped", "sharded"):
        for power in (1, 2):
            dense, other = masses["dense"] ** power, masses[storage] ** power
            error = np.sqrt((dense.var(axis=0, ddof=1) + other.var(axis=0, ddof=1)) / SEEDS) + 1e-5
            assert (np.abs(dense.mean(axis=0) - other.mean(axis=0)) <= 4.5 * error).all(), (text, storage, power)
