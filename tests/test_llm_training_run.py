"""A whole run: the draws that arms and seeds share, its evaluations, and its files at the end."""

import json

import jax
import numpy as np
import pytest
from naive_training import sequence_tables
from training_cases import parameters_of, settings, task

from simlab.llm.checkpoint import read_checkpoint
from simlab.llm.tasks import task as named_task
from simlab.llm.tasks.from_callable import CallableTask
from simlab.llm.tokenizer import read_tokenizer
from simlab.llm.training.evaluate import Evaluator
from simlab.llm.training.folder import TrainerState, load_state
from simlab.llm.training.optimizer import first_state
from simlab.llm.training.policy_gradient import Trainer
from simlab.llm.training.run import train
from simlab.llm.training.setup import Setup

pytestmark = pytest.mark.usefixtures("quickly")


TWO_SEEDS = {
    "rl": {"steps": 2}, "seeds": 2, "arms": ["grpo", "f_grpo(gamma=2)"], "evaluation": {"every": 1},
    "record": {"keep_checkpoint": True},
}  # fmt: skip


@pytest.fixture(scope="module")
def two_seeds(tmp_path_factory):
    out, groups, collect = tmp_path_factory.mktemp("run") / "run", [], Trainer.collect

    def recorded(trainer, state, key):
        result = collect(trainer, state, key)
        groups.append(result[0])
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "collect", recorded)
        train(settings(TWO_SEEDS), out, own_task=task())
    names = [(seed, name) for seed in range(2) for name in TWO_SEEDS["arms"]]
    return out, {pair: groups[2 * index : 2 * index + 2] for index, pair in enumerate(names)}


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_arms_of_a_seed_see_the_same_rollouts_in_their_first_step(two_seeds):
    _, groups = two_seeds
    for seed in range(2):
        first, other = (groups[seed, name] for name in TWO_SEEDS["arms"])
        assert first[0].problems == other[0].problems
        assert first[1].problems == other[1].problems, "and the same problems ever after"
        for field in ("tokens", "logp", "entropy"):
            np.testing.assert_array_equal(getattr(first[0].sampled, field), getattr(other[0].sampled, field))
        assert (first[1].sampled.logp != other[1].sampled.logp).any()
    assert (groups[0, "grpo"][0].sampled.tokens != groups[1, "grpo"][0].sampled.tokens).any()
    assert (groups[0, "grpo"][0].sampled.tokens != groups[0, "grpo"][1].sampled.tokens).any()


def test_another_seed_has_another_start_and_other_problems_of_a_task_that_draws_them(two_seeds):
    out, _ = two_seeds
    evaluated = [(out / "start" / f"seed-{seed}" / "evaluation.jsonl").read_text() for seed in range(2)]
    assert evaluated[0] != evaluated[1]
    setup = Setup(settings(), named_task("addition", digits=6))
    training = setup.reader.task.training
    first = {(seed, start): training(seed * 2**40 + start) for seed in range(2) for start in (0, 2**39)}
    assert len(set(first.values())) == 4


@pytest.mark.slow
def test_arms_meet_no_problem_of_the_warm_start_or_of_another_seed(tmp_path, monkeypatch):
    numbers, training = [], CallableTask.training

    def recorded(self, number):
        numbers.append(number)
        return training(self, number)

    monkeypatch.setattr(CallableTask, "training", recorded)
    asked = settings({"seeds": 2, "rl": {"steps": 2, "prompts": 3}, "warm_start": {"steps": 2, "batch": 4}})
    train(asked, tmp_path / "run", own_task=task())
    assert len(numbers) == len(set(numbers)) == 2 * (2 * 4 + 2 * 3)


@pytest.mark.parametrize(("temperature", "separate"), [(0.01, False), (1.0, False), (3.0, True)])
def test_evaluations_are_at_the_temperature_of_training_or_at_their_own(temperature, separate):
    """Their entropy is that of the temperature: next to none at .01."""
    asked = {"rl": {"temperature": 2.0}, "evaluation": {"temperature": temperature}} if separate else {}
    setup = Setup(settings(asked or {"rl": {"temperature": temperature}}), task())
    config, parameters = setup.loaded.config, parameters_of(setup.loaded.config)
    evaluation = Evaluator(setup, 0).evaluate(parameters, 0)["evaluation"]
    tables = sequence_tables(parameters, config, evaluation.groups.batch, temperature)
    naive = [-np.sum(np.exp(table) * table, axis=1) for _, table, _ in tables]
    assert evaluation.line["entropy"] == pytest.approx(np.concatenate(naive).mean(), rel=1e-4, abs=1e-6)


@pytest.mark.slow
def test_greedy_and_truncated_evaluations_see_fewer_completions():
    """Among 64 samples of a prompt; the greedy answer takes the likeliest token each time."""
    seen = {}
    for name, changes in {
        "all": {},
        "top_k": {"top_k": 2},
        "min_p": {"min_p": 0.5},
        "top_p": {"top_p": 0.3},
        "greedy": {"temperature": 0, "samples": 1},
    }.items():
        setup = Setup(settings({"evaluation": {"samples": 64, "rollouts": 64} | changes}), task())
        evaluation = Evaluator(setup, 0).evaluate(parameters_of(setup.loaded.config), 0)["evaluation"]
        seen[name] = [set(map(tuple, rows.tolist())) for rows in evaluation.groups.batch.tokens]
    for name in ("top_k", "min_p", "top_p"):
        assert all(len(few) < len(every) for few, every in zip(seen[name], seen["all"], strict=True)), name
        assert all(best <= few for best, few in zip(seen["greedy"], seen[name], strict=True)), name
    assert {len(completions) for completions in seen["greedy"]} == {1}
    assert all(len({tokens[0] for tokens in few}) <= 2 for few in seen["top_k"])


def test_a_run_says_what_it_is_and_ends_with_a_model_of_its_last_step(two_seeds):
    out, _ = two_seeds
    record = json.loads((out / "run.json").read_text())
    handed_in = {"task": {"name": "own", "called": "own"}}
    assert record["settings"] == json.loads(json.dumps(settings(TWO_SEEDS, handed_in).as_data()))
    assert (record["arms"], record["seeds"]) == (TWO_SEEDS["arms"], [0, 1])
    assert {"simlab", "jax", "optax"} <= record["versions"].keys()
    folder = out / "arms" / "f_grpo(gamma=2)" / "seed-1"
    model = read_checkpoint(folder / "model")
    assert read_tokenizer(folder / "model").encode("12+") == task().vocabulary.encode("12+")
    setup = Setup(settings(TWO_SEEDS), task())
    assert model.config == setup.loaded.config
    start = parameters_of(setup.loaded.config)
    state = load_state(folder / "state.npz", TrainerState(start, first_state(setup.settings.rl, start), ()))
    assert (state.step, state.cursor) == (2, 8)
    jax.tree.map(np.testing.assert_array_equal, model.parameters, state.parameters)


def test_lines_of_metrics_and_evaluations_hold_what_the_comparison_reads(two_seeds):
    out, groups = two_seeds
    for (seed, name), seen in groups.items():
        folder = out / "arms" / name / f"seed-{seed}"
        metrics, evaluations = lines(folder / "metrics.jsonl"), lines(folder / "evaluation.jsonl")
        assert [line["step"] for line in metrics] == [line["step"] for line in evaluations] == [1, 2]
        for line, batch in zip(metrics, seen, strict=True):
            assert line["reward"] == pytest.approx(batch.rewards.mean())
            assert line["entropy"] == pytest.approx(batch.sampled.entropy[batch.sampled.mask].mean(), rel=1e-5)
            assert line["length"] == pytest.approx(batch.sampled.mask.sum(axis=2).mean())
            assert line["seconds"] > 0
        for line in evaluations:
            assert line["samples"] == 4
            assert len(line["correct"]) == len(line["distinct"]) == 4
            assert line["pass_at_k"].keys() == {"1", "2", "4"}
            assert line["pass_at_k"]["1"]["mean"] == pytest.approx(np.mean(line["correct"]) / 4)
            assert line["pass_at_k"]["4"]["mean"] == pytest.approx(np.mean(np.array(line["correct"]) > 0))
            assert line["weight_change_norm"] > 0
    (start,) = lines(out / "start" / "seed-0" / "evaluation.jsonl")
    assert start["step"] == 0
    assert "weight_change_norm" not in start


@pytest.mark.slow
def test_instruments_that_compute_with_the_model_are_used_when_they_are_due(tmp_path):
    addition = task(evaluation=["1+9="])
    asked = settings(
        {"rl": {"steps": 3}, "warm_start": {"steps": 3}, "evaluation": {"samples": 1}},
        {"record": {"instruments_every": 2, "top_n": 2}},
    )
    train(asked, tmp_path / "run", own_task=addition)
    metrics = lines(tmp_path / "run" / "arms" / "grpo" / "seed-0" / "metrics.jsonl")
    assert ["entropy_change" in line for line in metrics] == [False, True, False]
    assert [line["step"] for line in lines(tmp_path / "run" / "start" / "seed-0" / "metrics.jsonl")] == [1, 2, 3]


@pytest.mark.slow
def test_a_warm_start_teaches_and_the_arms_begin_there(tmp_path):
    """One-digit addition, shown 200 batches: right answers become likely, which an untrained model never finds."""
    asked = settings(
        {"task": {"name": "addition", "digits": 1, "evaluation_size": 8}, "model": {"hidden_size": 32}},
        {"warm_start": {"steps": 200, "batch": 32, "learning_rate": 1e-2, "eps": 1e-8}, "rl": {"steps": 1}},
    )
    train(asked, tmp_path / "run")
    losses = [line["loss"] for line in lines(tmp_path / "run" / "start" / "seed-0" / "metrics.jsonl")]
    assert losses[0] == pytest.approx(np.log(15), rel=0.05)
    assert np.mean(losses[-10:]) < 0.5
    (line,) = lines(tmp_path / "run" / "arms" / "grpo" / "seed-0" / "metrics.jsonl")
    assert line["reward"] > 0.1
