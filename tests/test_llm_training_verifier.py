"""A verifier that errs in the trainer: its verdicts, errors of an answer or a prompt, and corrected rewards."""

import hashlib
import math

import jax
import numpy as np
import pytest
from jax.extend.random import threefry_2x32
from training_cases import reward, task, trainer_and_state

from simlab.errors import InputError
from simlab.llm.training.setup import VERIFIER_KEY, step_key

F, N = 0.3, 0.2
RATES = {"false_positive": F, "false_negative": N}
KEY = jax.random.key(3)

pytestmark = pytest.mark.usefixtures("quickly")


def texts_of(trainer, groups):
    texts = np.empty(groups.rewards.shape, object)
    for index in np.ndindex(texts.shape):
        texts[index] = trainer.reader.text(groups.sampled.tokens[index][groups.sampled.mask[index]])
    return texts


def collected(trainer, state, steps=24):
    rows = []
    for step in range(steps):
        groups, cursor, _ = trainer.collect(state, jax.random.fold_in(KEY, step))
        state = state._replace(cursor=cursor)
        for index in np.ndindex(groups.rewards.shape):
            prompt, text = groups.problems[index[0]].prompt, texts_of(trainer, groups)[index]
            rows.append((prompt, text, bool(reward(prompt, text)), bool(groups.rewards[index])))
    return rows


def near(share, rate, count):
    """Tell if they are within five standard errors."""
    return abs(share - rate) <= 5 * math.sqrt(rate * (1 - rate) / count)


def test_each_rollout_is_misjudged_as_often_as_the_rates_say():
    rows = collected(*trainer_and_state("grpo", RATES))
    right = [accepted for *_, correct, accepted in rows if correct]
    wrong = [accepted for *_, correct, accepted in rows if not correct]
    assert near(1 - np.mean(right), N, len(right))
    assert near(np.mean(wrong), F, len(wrong))
    assert len({row[:2] for row in rows}) < len({(*row[:2], row[3]) for row in rows}), "an answer has either verdict"


def naive_verdict(judged, prompt, text, seed=1):
    """The verdict by the words of their hashes, through JAX's own Threefry."""
    correct = bool(reward(prompt, text))
    words = [
        int.from_bytes(hashlib.sha256(prompt.encode()).digest()[:4], "big"),
        int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") if judged == "answer" else int(correct),
    ]
    key = jax.random.key_data(step_key(seed, VERIFIER_KEY))
    chance = (int(threefry_2x32(key, np.array(words, np.uint32))[0]) >> 8) / 2**24
    return chance >= N if correct else chance < F


@pytest.mark.parametrize("errors_of", ["answer", "prompt"])
def test_the_verdict_on_an_answer_or_a_prompt_is_the_same_at_every_step_and_in_every_arm(errors_of):
    rows = [
        row
        for name in ("grpo", "maxrl")
        for row in collected(*trainer_and_state(name, RATES | {"errors_of": errors_of}), steps=8)
    ]
    assert len(rows) == 2 * 8 * 16
    for prompt, text, _, accepted in rows:
        assert accepted == naive_verdict(errors_of, prompt, text)
    assert {row[2:] for row in rows} == {(True, True), (True, False), (False, True), (False, False)}


def test_a_step_is_that_of_a_task_whose_own_rewards_are_the_verdicts():
    erring, state = trainer_and_state("grpo", RATES | {"errors_of": "answer"})
    same = task(rewards=lambda prompt, text: float(naive_verdict("answer", prompt, text)))
    plain, plain_state = trainer_and_state("grpo", own_task=same)
    (after, line), (wanted, plain_line) = erring.step(state, KEY, False), plain.step(plain_state, KEY, False)
    jax.tree.map(np.testing.assert_array_equal, after.parameters, wanted.parameters)
    assert line["accepted_rate"] == plain_line["reward"] != line["reward"]
    assert line["solve_rate"] == plain_line["solve_rate"], "the metrics of groups go by what is accepted"


@pytest.mark.parametrize(
    ("correction", "accepted", "rejected"),
    [("none", 1, 0), ("backward", (1 - F) / (1 - F - N), -F / (1 - F - N)), ("forward", N, N - 1)],
)
def test_the_rewards_of_a_step_are_corrected(correction, accepted, rejected):
    plain, corrected = (
        trainer_and_state("grpo", RATES | {"verifier_correction": name})[0].collect(
            trainer_and_state("grpo", RATES)[1], KEY
        )[0]
        for name in ("none", correction)
    )
    np.testing.assert_allclose(corrected.rewards, np.where(plain.rewards == 1, accepted, rejected), rtol=1e-6)


def test_dynamic_sampling_drops_the_groups_that_the_verifier_judges_alike():
    trainer, state = trainer_and_state("grpo", {"false_positive": 1.0, "rounds": 2, "weight_decay": 0.0})
    after, line = trainer.step(state, KEY, False)
    assert line["sampled_groups"] == 8
    assert line["accepted_rate"] == 1
    jax.tree.map(np.testing.assert_array_equal, after.parameters, state.parameters)


def test_a_task_of_graded_rewards_has_nothing_to_misjudge():
    graded = task(rewards=lambda prompt, text: 0.5)
    trainer, state = trainer_and_state("grpo", RATES, own_task=graded)
    with pytest.raises(InputError, match=r"a reward of 0\.5 under a verifier that errs; allowed: rewards 0 and 1"):
        trainer.step(state, KEY, False)
