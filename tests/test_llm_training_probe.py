"""The probe in the trainer: its predictions against the step, and its files."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from training_cases import contents, settings, task, trainer_and_state

from simlab.interference import read_record, read_records
from simlab.llm.model import forward
from simlab.llm.training.probe import probe
from simlab.llm.training.run import train
from simlab.llm.training.settings import ProbeSettings

KEY = jax.random.key(3)
PANEL = {"every": 1, "estimator": "both", "panel": 4, "rollouts": 16}

pytestmark = pytest.mark.usefixtures("quickly")


def solve_rates(trainer, parameters, problems):
    """The chance that the first token is a digit below 5, which is all that is rewarded."""
    good = [token for token in range(trainer.policy.config.vocab_size) if trainer.reader.text([token]) in set("01234")]
    rates = []
    for problem in problems:
        logits = forward(parameters, trainer.policy.config, jnp.array([trainer.reader.prompt(problem)]))[0, -1]
        weights = np.exp(np.asarray(logits, float))
        rates.append(weights[good].sum() / weights.sum())
    return np.array(rates)


def watched(optimizer, steps, rl, probing):
    """After some steps: the records of the next batch, and the exact solve rates before and after its step."""
    trainer, state = trainer_and_state("grpo", {"optimizer": optimizer, "max_norm": 1e9, "weight_decay": 0.0} | rl)
    for step in range(steps):
        state, _ = trainer.step(state, jax.random.fold_in(KEY, step), False)
    records, problems = [], []

    def watch(groups, _):
        records.extend(probe(trainer, state, groups, ProbeSettings(**probing), jax.random.fold_in(KEY, 99)))
        problems.extend(groups.problems)

    before = jax.tree.map(jnp.copy, state.parameters)
    after, line = trainer.step(state, jax.random.fold_in(KEY, 98), False, watch)
    problems += trainer.reader.task.evaluation
    rates = [solve_rates(trainer, parameters, problems) for parameters in (before, after.parameters)]
    return records, rates, line["learning_rate"]


@pytest.mark.slow
@pytest.mark.parametrize(("optimizer", "steps", "rate"), [("sgd", 0, 1e-3), ("adamw", 8, 1e-5)])
def test_what_the_full_estimator_predicts_is_what_the_step_does(optimizer, steps, rate):
    """Predictions for prompts outside of the batch, by 512 rollouts each, hold within 4 small standard errors.

    The errors hold the luck of the batch too, of groups of 128. Without momentum, which would move
    the step by former gradients too.
    """
    rl = {"learning_rate": rate, "b1": 0.0, "prompts": 4, "group_size": 128, "temperature": 1.0}
    probing = {"every": 1, "panel": 4, "rollouts": 512, "sketch": 0}
    (record,), (before, after), pace = watched(optimizer, steps, rl, probing)
    estimate = record.interference
    panel = ~record.batch
    moved = ((after - before) / pace)[panel]
    error = np.maximum(estimate.error.net[panel], 0.02 * np.abs(moved).max())
    assert (np.abs(estimate.push.net[panel] - moved) < 4 * error).all(), (estimate.push.net[panel], moved, error)
    assert np.abs(moved).max() > 8 * estimate.error.net[panel].max(), "the test could see a difference"
    assert record.facts["preconditioner"] == ("adam" if steps else "none")
    np.testing.assert_allclose(record.solve_rate[panel], before[panel], atol=0.05)


@pytest.mark.slow
@pytest.mark.parametrize(("optimizer", "rate", "sketch"), [("sgd", 0.01, 0), ("adamw", 1e-4, 0), ("adamw", 1e-4, 1021)])
def test_what_a_step_moves_is_told_with_momentum_clipping_and_decay(optimizer, rate, sketch):
    """Against exact solve rates, by the mean of ten panels with 128 rollouts each; within 4 standard errors of it."""
    trainer, state = trainer_and_state("grpo", {"optimizer": optimizer, "learning_rate": rate, "weight_decay": 1.0})
    for step in range(6):
        state, _ = trainer.step(state, jax.random.fold_in(KEY, step), False)
    waiting = []

    def watch(groups, _):
        for number in range(10):
            settings, gradients = ProbeSettings(every=1, panel=4, rollouts=128, sketch=sketch), {}
            probe(trainer, state, groups, settings, jax.random.fold_in(KEY, 100 + number), gradients=gradients)
            waiting.append(gradients["full"])

    before = jax.tree.map(jnp.copy, state.parameters)
    after, _ = trainer.step(state, jax.random.fold_in(KEY, 98), False, watch)
    rates = [
        solve_rates(trainer, parameters, trainer.reader.task.evaluation) for parameters in (before, after.parameters)
    ]
    moved = np.array([each.change(before, after.parameters)[4:] for each in waiting])
    error = moved.std(axis=0, ddof=1) / np.sqrt(10)
    truth = rates[1] - rates[0]
    assert (np.abs(moved.mean(axis=0) - truth) < 4 * error + 0.02 * np.abs(truth).max()).all(), (
        moved.mean(axis=0),
        truth,
    )
    assert np.abs(truth).max() > 5 * error.max(), "the test could see a difference"


def test_a_run_writes_a_record_of_each_estimator_when_it_is_due(tmp_path):
    asked = settings({"probe": PANEL | {"every": 2}, "rl": {"steps": 5}})
    train(asked, tmp_path / "run", own_task=task())
    plain = settings({"rl": {"steps": 5}})
    train(plain, tmp_path / "plain", own_task=task())
    folder = tmp_path / "run" / "arms" / "grpo" / "seed-0" / "probe"
    full, head = read_records(folder), read_records(folder, "head")
    assert [record.step for record in full] == [record.step for record in head] == [2, 4]
    (first, _), (other, _) = full, head
    assert first.batch.tolist() == [True] * 4 + [False] * 4
    assert first.prompts[4:] == [f"{number}+9=" for number in range(1, 5)]
    assert first.rollouts.tolist() == [4] * 4 + [16] * 4
    np.testing.assert_array_equal(first.solve_rate, other.solve_rate)
    assert (first.facts["sketch"], other.facts["sketch"]) == (1021, 0)
    assert (first.facts["preconditioner"], other.facts["preconditioner"]) == ("adam", "none")
    assert 0 < first.facts["clip"] <= 1
    assert np.isfinite(first.interference.kernel).all()
    assert np.isnan(first.moved).tolist() == [True] * 4 + [False] * 4
    assert other.moved is None
    lines = [contents(tmp_path / name)["arms/grpo/seed-0/metrics.jsonl"] for name in ("run", "plain")]
    assert lines[0] == lines[1], "a run is not changed by being watched"


def test_records_after_the_checkpoint_go_and_come_again_with_the_same_bits(tmp_path):
    """A kill is in test_llm_training_kill.py; this is a run that ends, and its folder with a record too many."""
    asked = settings({"probe": PANEL, "rl": {"steps": 3}, "record": {"keep_checkpoint": True, "checkpoint_every": 2}})
    train(asked, tmp_path / "run", own_task=task())
    whole, arm = contents(tmp_path / "run"), tmp_path / "run" / "arms" / "grpo" / "seed-0"
    later = (arm / "probe" / "00000003.full.npz").rename(arm / "probe" / "00000009.full.npz")
    (arm / "finished.json").unlink()
    (arm / "state.npz").unlink()
    train(asked, tmp_path / "run", own_task=task())
    assert not later.exists()
    assert contents(tmp_path / "run") == whole
    assert read_record(arm / "probe" / "00000003.head.npz").step == 3
