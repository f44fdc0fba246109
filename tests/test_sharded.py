"""One run spread over devices: equal on any number of them, the result of dense storage, in a share of room."""

from dataclasses import replace

import numpy as np
import pytest
import runs
from naive_simulator import Setting
from runs import ADAM
from several_devices import DEVICES, called
from sharded_runs import DENSE, SEED

from simlab.problems import linear_softmax, prompt_bank
from simlab.simulator.settings import Settings

RECORDED = (1, 2, 3, 8)
FEW = (DENSE, 1, DEVICES)
# 8 blocks, of which 3 devices hold 3, 3 and 2; the last block has 124 actions.
LOGITS = tuple(np.random.default_rng(0).normal(scale=1.5, size=1020).round(2).tolist())
BASE = Setting(LOGITS, frozenset(range(0, 1020, 3)), frozenset(range(0, 210, 6)), group_size=24)

# Weights that do not sum to zero move every action, and everything that is summed over actions takes part.
REGULARISED = replace(
    BASE, estimator="reinforce", rewards=(1.0, -0.5), temperature=0.8, kl=0.3, entropy_bonus=0.05, supervised=0.2,
    optimizer="adamw", optimizer_parameters=ADAM | {"weight_decay": 0.2}, update_rule="theorem", epochs=2, top_n=5,
)  # fmt: skip
ZERO_SUM = replace(BASE, estimator="grpo", optimizer="adam")
STEPS = 40
LARGE = Setting((0.0,) * 2**16, frozenset(range(2**10)), frozenset({0}), 8, "grpo", optimizer="adam")


@pytest.fixture(scope="module")
def results():
    """The results that several tests read, computed in one process."""
    names = ("records", "drawn_and_learnt", "room")
    calls = (
        ("all_records", REGULARISED, "float64", RECORDED, FEW),
        ("all_drawn_and_learnt", ZERO_SUM, "float32", STEPS, FEW),
        ("room", runs.problem(LARGE), runs.settings(LARGE), FEW[1:]),
    )
    return dict(zip(names, called("sharded_runs", *calls), strict=True))


def assert_equal_on_any_number_of_devices(records):
    """Compare bit by bit, but d_q, the difference of two policies, to rounding: XLA may take one pass for it or two."""
    alone, *several = (rows for shards, rows in records.items() if shards != DENSE)
    rounding = 16 * np.finfo(alone["q_pos"].dtype).eps
    for rows in several:
        assert rows.keys() == alone.keys()
        for metric, values in rows.items():
            if metric.startswith("d_q"):
                np.testing.assert_allclose(values, alone[metric], rtol=0, atol=rounding, err_msg=metric)
            else:
                np.testing.assert_array_equal(values, alone[metric], err_msg=metric)


def assert_those_of_dense_storage(records, tolerance, one_action=0.0):
    """Compare to rounding, which decides if the probability of one action that hardly moved is below its start."""
    for metric, values in records[1].items():
        bound = max(tolerance, one_action) if metric == "share_correct_kept" else tolerance
        np.testing.assert_allclose(values, records[DENSE][metric], rtol=tolerance, atol=bound, err_msg=metric)


# The result


@pytest.mark.slow
def test_records_are_those_of_dense_storage_and_of_the_naive_loops_on_any_number_of_devices(results):
    assert_equal_on_any_number_of_devices(results["records"])
    assert_those_of_dense_storage(results["records"], 1e-13)
    rows = {metric: values[None] for metric, values in results["records"][DEVICES].items()}
    for index, expected in enumerate(runs.expected_records(REGULARISED, SEED, RECORDED), start=1):
        runs.assert_records(rows, 0, index, expected)


@pytest.mark.slow
def test_zero_sum_weights_draw_and_learn_what_dense_storage_does_to_the_last_bit(results):
    """In float32: which actions are drawn, 40 groups one after the other, and every logit in the end."""
    groups, logits = results["drawn_and_learnt"][DENSE]
    assert len(np.unique(groups)) > 100
    assert 0 < np.count_nonzero(logits != np.array(LOGITS, np.float32)) < len(LOGITS)
    for shards in FEW[1:]:
        own_groups, own_logits = results["drawn_and_learnt"][shards]
        np.testing.assert_array_equal(own_groups, groups, err_msg=f"on {shards}")
        np.testing.assert_array_equal(own_logits, logits, err_msg=f"on {shards}")


# Banks and heads

SEVERAL = {
    "bank": prompt_bank(prompts=5, actions=300, beta_b=0.6),  # none at .5, where rounding would choose a bin
    # Rates that are at no edge of a bin, where rounding would decide.
    "head": linear_softmax(prompts=6, actions=300, failure_modes=3, easy_rate=0.83, hard_rate=0.23),
}
KINDS = {
    "some prompts": Settings("f_grpo(gamma=0.5)", prompts_per_step=3, optimizer_parameters={"learning_rate": 0.05}),
    "all prompts, moved everywhere": Settings(
        "psr+ppo_clip",
        optimizer="adamw",
        kl=0.2,
        entropy_bonus=0.05,
        supervised=0.1,
        temperature=0.8,
        epochs=2,
        top_n=5,
    ),
    "minibatches, and a verifier that errs": Settings(
        "grpo+ppo_clip", minibatches=3, epochs=2, prompts_per_step=3, false_positive=0.2, errors_of="answer"
    ),
    "candidates, updates of one norm": Settings(
        "dr_grpo+casp(quantile=0.0)", epochs=2, update_norm=0.5, pass_at_k=(1, 4), prompts_per_step=3
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SEVERAL)
def test_banks_and_heads_are_those_of_dense_storage_on_any_number_of_devices(name, kind):
    settings = replace(KINDS[kind], dtype="float64")
    (records,) = called("sharded_runs", ("records_of", SEVERAL[name], settings, RECORDED, FEW))
    tolerance = 1e-9
    # Values near 0 are rounding alone: singular values, and the remainder of a first-order prediction.
    up_to_rounding = {"share_correct_kept", *(metric for metric in records[1] if "singular_gap" in metric)}
    for shards in FEW[1:]:
        assert records[shards].keys() == records[DENSE].keys()
        for metric in records[shards].keys() - up_to_rounding:
            mine, wanted = records[shards][metric], records[DENSE][metric]
            np.testing.assert_allclose(mine, wanted, rtol=tolerance, atol=tolerance, err_msg=f"{metric}, {shards}")


# Room


@pytest.mark.slow
def test_a_device_holds_its_share_and_never_an_array_of_all_actions(results):
    (bytes_alone, largest_alone), (bytes_each, largest_each) = (results["room"]["taken"][shards] for shards in FEW[1:])
    assert largest_alone == 2**16
    assert largest_each == 2**16 // DEVICES
    assert bytes_each < 1.1 * bytes_alone / DEVICES


@pytest.mark.slow
def test_a_run_is_spread_over_as_few_devices_as_hold_it(results):
    """Each has room for a whole run, for a byte less, for 0.6 of one, and for a quarter, or a byte less than that."""
    *chosen, refused = results["room"]["chosen"]
    assert chosen == [1, 2, 2, 4]
    assert "a simulation of 65536 actions takes " in refused
