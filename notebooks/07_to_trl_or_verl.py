"""Take your estimator to TRL or verl

One source on torch too, the adapters' grouping on verl's uids and token masks, and both trainers' formulas
``[f-grpo:eq-3]``.
"""

import marimo

__generated_with = "0.25.2"
app = marimo.App(app_title="Take your estimator to TRL or verl")

with app.setup(hide_code=True):
    import importlib.util
    import statistics

    import marimo as mo
    import numpy as np
    import pandas as pd
    from array_api_compat import array_namespace

    import simlab
    from simlab.adapters.grouping import Grouping
    from simlab.estimators import center, chain, stateless

    if importlib.util.find_spec("torch"):
        import torch as xp
    else:
        import array_api_compat.numpy as xp


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # Take your estimator to TRL or verl

    After this notebook you will be able to

    - run an estimator of this laboratory on the tensors of a trainer;
    - hand it verl's batch: groups by uid, scattered and of unequal sizes, and a mask of tokens;
    - say where TRL's and verl's own GRPO differ from one another and from the papers'.

    **The adapters.** `simlab.adapters.trl` and `simlab.adapters.verl` put an estimator into the trainers; `docs/trl.md`
    and `docs/verl.md` say how, and are tested inside the trainers. Here you see what they rest on, checked against the
    trainers' formulas written out: neither trainer needs to be installed.
    """)
    return


@app.cell
def _():
    mo.md(f"This notebook runs on **{xp.__name__}**. It takes torch where torch is installed, and else NumPy.")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## One source, any array

    Estimators use the array's own library. This is the one of notebook 03; it knows nothing of torch.
    """)
    return


@app.function
def signed_power(power=0.5):
    def raised(advantages, rollouts):
        library = array_namespace(advantages)
        return library.sign(advantages) * library.abs(advantages) ** power

    # It looks at each advantage alone, so that neither the order nor absent rollouts matter to it.
    return chain(center("mean"), stateless(raised, exchangeable=True))


@app.cell
def _():
    mine = signed_power(0.5)
    group = [1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    on_tensors = simlab.advantages(mine, xp.asarray(group, dtype=xp.float64))
    on_numpy = simlab.advantages(mine, np.array(group))

    assert type(on_tensors) is type(xp.asarray(0.0)), "what goes in as a tensor comes out as one"
    assert np.allclose(np.asarray(on_tensors), on_numpy, rtol=1e-12), "with the same numbers"
    mo.plain_text(repr(on_tensors))
    return (mine,)


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## TRL

    TRL's trainer has the rewards of a batch in one tensor, the `num_generations` completions of a prompt side by side.
    So the groups are a reshape. Its own formula is (r - mean) / (std + 1e-4) with the *sample* standard deviation: set
    both, they are arguments here. In the trainer itself: `SimlabGRPOTrainer(..., estimator=mine)`.
    """)
    return


@app.cell
def _():
    generations = mo.ui.slider(2, 16, value=8, label="num_generations", show_value=True)
    generations
    return (generations,)


@app.cell
def _(generations, mine):
    flat = np.random.default_rng(0).integers(0, 2, size=6 * generations.value).astype(float)
    grouped = xp.reshape(xp.asarray(flat), (6, generations.value))
    as_trl = xp.reshape(simlab.advantages("grpo", grouped, ddof=1, eps=1e-4), (-1,))
    own_in_trl = xp.reshape(simlab.advantages(mine, grouped), (-1,))

    naive = []
    for start in range(0, len(flat), generations.value):
        rewards_of_prompt = flat[start : start + generations.value].tolist()
        spread = statistics.stdev(rewards_of_prompt) + 1e-4
        naive += [(reward - statistics.fmean(rewards_of_prompt)) / spread for reward in rewards_of_prompt]
    assert np.allclose(np.asarray(as_trl), naive, rtol=1e-9, atol=1e-12), "TRL's advantages, from its own formula"
    assert own_in_trl.shape == as_trl.shape, "yours has the shape that the trainer wants"
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## verl

    verl gives token-level rewards (B, T), a response mask (B, T), and for each of the B responses the uid of its
    prompt. The responses of a prompt need not lie side by side, and after filtering the groups may have unequal sizes.
    Here a group is a row with a mask; `Grouping` of the adapters goes from one to the other:
    """)
    return


@app.function
def advantages_by_uid(estimator, token_level_rewards, response_mask, index, **parameters):
    """(B, T) advantages: a score for each response, groups by uid, and the group's weight on every token."""
    grouping = Grouping(index.tolist())
    scores = xp.asarray(np.asarray(token_level_rewards).sum(axis=-1))
    weights = simlab.advantages(estimator, grouping.groups(scores), mask=grouping.mask(scores), **parameters)
    return grouping.rows(weights)[:, None] * response_mask


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    A batch as verl has it: uids shuffled, groups of 2 to 6, responses of different lengths, the score at the last
    token.
    """)
    return


@app.cell
def _():
    random = np.random.default_rng(1)
    index = random.permutation(np.repeat([f"u-{number}" for number in range(5)], [2, 3, 4, 6, 5]))
    lengths = random.integers(1, 9, size=len(index))
    response_mask = xp.asarray((np.arange(8) < lengths[:, None]).astype(float))
    token_level_rewards = np.zeros((len(index), 8))
    token_level_rewards[np.arange(len(index)), lengths - 1] = random.integers(0, 2, size=len(index))
    return index, lengths, random, response_mask, token_level_rewards


@app.cell
def _(index, lengths, mine, response_mask, token_level_rewards):
    as_verl = advantages_by_uid("grpo", token_level_rewards, response_mask, index, ddof=1, eps=1e-6)
    own_in_verl = advantages_by_uid(mine, token_level_rewards, response_mask, index)

    scores = token_level_rewards.sum(axis=1)
    for response, uid in enumerate(index):
        peers = [score for score, other in zip(scores.tolist(), index, strict=True) if other == uid]
        expected = (scores[response] - statistics.fmean(peers)) / (statistics.stdev(peers) + 1e-6)
        tokens = np.asarray(as_verl[response])
        assert np.allclose(tokens[: lengths[response]], expected, rtol=1e-9, atol=1e-12), "verl's formula, written out"
        assert not tokens[lengths[response] :].any(), "and nothing after the end of the response"
    assert own_in_verl.shape == as_verl.shape == token_level_rewards.shape
    return


@app.cell
def _(index, mine, random, response_mask, token_level_rewards):
    order = random.permutation(len(index))
    straight = advantages_by_uid(mine, token_level_rewards, response_mask, index)
    shuffled = advantages_by_uid(mine, token_level_rewards[order], response_mask[order], index[order])

    assert np.allclose(np.asarray(straight)[order], np.asarray(shuffled), atol=1e-12), (
        "the order of a batch is no matter"
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Where they part

    One case differs on purpose: a prompt with a single response. verl takes 0 for its mean and 1 for its std, so that
    its advantage is its reward. Here a group of one has nothing to compare with, and gets exactly 0.
    """)
    return


@app.cell
def _():
    alone = advantages_by_uid("grpo", np.array([[0.0, 1.0]]), xp.asarray([[1.0, 1.0]]), np.array(["u-0"]), ddof=1)
    in_verl = (1.0 - 0.0) / (1.0 + 1e-6)

    assert not np.asarray(alone).any()
    assert in_verl > 0.99
    mo.md(f"Here {np.asarray(alone).tolist()}, in verl {in_verl:.6f} on each token.")
    return


@app.cell
def _():
    binary = np.array([1.0, 0.0, 0.0, 0.0])
    conventions = {
        "the papers' (population std)": {"ddof": 0},
        "verl (sample std, eps 1e-6)": {"ddof": 1, "eps": 1e-6},
        "TRL (sample std, eps 1e-4)": {"ddof": 1, "eps": 1e-4},
    }
    found = {name: simlab.advantages("grpo", binary, **choice) for name, choice in conventions.items()}
    population, verl, trl = found.values()

    assert np.allclose(verl / population, np.sqrt(3 / 4), atol=1e-5), (
        "sample and population std differ by sqrt((G - 1) / G)"
    )
    assert (np.abs(trl) < np.abs(verl)).all(), "a larger eps shortens all advantages"
    pd.DataFrame(
        [
            {"convention": name, "success": round(value[0], 5), "failure": round(value[1], 5)}
            for name, value in found.items()
        ],
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Into the trainer

    - **TRL**: `SimlabGRPOTrainer(model, ..., estimator=mine)` puts your advantages in place of TRL's; `method=` brings
      surrogate and aggregation too. `docs/trl.md`.
    - **verl**: with `simlab` installed beside it, `algorithm.adv_estimator=simlab_f_grpo`; `docs/verl.md`.
    - Estimators that need more than rewards, such as log-probabilities or entropies, need these from the trainer too:
      `needs` says which fields. State, as FADE keeps it from step to step, is carried by
      `estimator.update(rollouts, state)`.
    """)
    return


@app.cell
def _(mine):
    assert mine.needs == {"rewards"}, "this one needs rewards alone"
    mo.plain_text(
        "\n".join(f"{name:20}{', '.join(sorted(simlab.estimator(name).needs))}" for name in ("grpo", "fade", "cw_grpo"))
    )
    return


if __name__ == "__main__":
    app.run()
