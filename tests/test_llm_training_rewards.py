"""Rewards in several parts in the trainer: reading, judgement, steps and records."""

import json

import jax
import numpy as np
import pytest
from run_folders import write_run
from training_cases import PART_WEIGHTS, in_parts, reward, settings, task, trainer_and_state

from simlab import advantages
from simlab.diagnose.reading import read_log
from simlab.errors import InputError
from simlab.llm.compare import read_run
from simlab.llm.instruments.batch_metrics import part_metrics
from simlab.llm.kept_texts import show_rollouts, write_texts
from simlab.llm.tasks.data import data
from simlab.llm.training.groups import absent_rollouts, rollout_records

KEY = jax.random.key(3)
MINE = """
def correct(prompt, completion, answer):
    return completion == answer

def short(prompt, completion, answer):
    return None if completion == "?" else 1 / len(completion)

def both(prompt, completion, answer):
    return {"right": completion == answer, "short": short(prompt, completion, answer)}

def changing(prompt, completion, answer):
    return {completion: 1.0}

def nothing(prompt, completion, answer):
    return {}

def endless(prompt, completion, answer):
    return {"right": float("inf")}

def unknown(prompt, completion, answer):
    return float("nan")
"""

pytestmark = pytest.mark.usefixtures("quickly")


@pytest.fixture
def rows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MINE)
    lines = [{"prompt": f"{number}+1=", "answer": str(number + 1)} for number in range(9)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return lambda *rewards, **others: data(train="rows.jsonl", reward=[*rewards], **others)


def judged(judge, completion):
    problem = judge.training(0)
    answer = problem.answer if completion == "right" else completion
    return judge.verdict(problem, answer)


def test_rewards_are_summed_by_weight_and_the_first_says_what_is_correct(rows):
    judge = rows("mine.py:short@0.5", "mine.py:correct")
    verdict = judged(judge, "right")
    assert verdict.reward == 1.5
    assert verdict.parts == (("short", 0.5, 1.0), ("correct", 1.0, 1.0))
    assert judged(judge, "12").solution is None
    assert judged(rows("mine.py:short@0.5", "mine.py:correct", correct_from=0.5), "12").solution == "12"
    assert [*judge.own_functions] == ["mine.py:short", "mine.py:correct"]


def test_the_verifier_is_one_of_several_rewards(rows):
    verdict = judged(rows("verifier", "mine.py:short@0.2"), "right")
    assert verdict.parts == (("verifier", 1.0, 1.0), ("short", 0.2, 1.0))
    assert verdict.solution == "1" or len(verdict.solution) == 1


def test_a_function_may_return_its_parts_by_name(rows):
    assert judged(rows("mine.py:both@short=0.2"), "right").reward == 1.2
    assert judged(rows("mine.py:both@0.5"), "right").reward == 1.0
    assert judged(rows("mine.py:correct"), "right").parts == ()


def test_a_missing_part_counts_nothing(rows):
    verdict = judged(rows("mine.py:correct", "mine.py:short"), "?")
    assert verdict.reward == 0
    assert np.isnan(verdict.parts[1].value)
    assert np.isnan(judged(rows("mine.py:short", "mine.py:unknown"), "?").reward)


@pytest.mark.parametrize(
    ("rewards", "message"),
    [
        (("mine.py:correct", "mine.py:correct"), "two parts of the reward are called 'correct'; allowed: different"),
        (("mine.py:correct@much",), "has the weight 'much'; allowed: a number"),
        (("mine.py:both@long=2",), "mine.py:both has a weight for 'long'; allowed: of its parts right, short"),
        (("mine.py:nothing",), r"returned '\{\}'; allowed: finite numbers, or a dictionary of them"),
        (("mine.py:endless",), "inf.*; allowed: finite numbers, or a dictionary"),
        (("mine.py:unknown",), "returned 'nan'; allowed: finite numbers, or a dictionary"),
    ],
)
def test_what_makes_no_reward_is_refused(rows, rewards, message):
    with pytest.raises(InputError, match=message):
        judged(rows(*rewards), "12")


def total(prompt, completion):
    scores = in_parts(prompt, completion)
    return scores["correct"] + 0.25 * (scores["size"] or 0)


def parted(**others):
    return task(rewards=in_parts, weights=PART_WEIGHTS, **others)


def test_a_step_on_parts_is_that_on_their_sum():
    (ours, state), (plain, start) = (
        trainer_and_state("grpo", own_task=parted()),
        trainer_and_state("grpo", own_task=task(total)),
    )
    (after, line), (expected, _) = ours.step(state, KEY, False), plain.step(start, KEY, False)
    jax.tree.map(np.testing.assert_array_equal, after.parameters, expected.parameters)
    assert line["rewards/correct/mean"] == line["solve_rate"] < line["reward"], "correct is what the first part says"
    assert line["rewards/correct/driven"] + line["rewards/size/driven"] == pytest.approx(1)


def test_gdpo_is_told_the_parts_and_which_are_missing():
    trainer, state = trainer_and_state("gdpo", own_task=parted())
    groups, _, _ = trainer.collect(state, KEY)
    missing = np.isnan(groups.parts)
    assert missing[..., 1].any()
    assert not missing[..., 0].any()
    seen = []
    trainer.step(state, KEY, False, lambda _, values: seen.append(values))
    expected = advantages("gdpo", parts=np.nan_to_num(groups.parts), weights=[1.0, 0.25], mask=~missing)
    np.testing.assert_allclose(seen[0], expected, rtol=1e-5, atol=1e-6)


def test_kept_rollouts_show_the_parts(tmp_path):
    trainer, state = trainer_and_state("grpo", own_task=parted())
    seen = []

    def keep(groups, values):
        seen.extend([groups.parts[0], rollout_records(groups, values, trainer.reader, 4)])

    trainer.step(state, KEY, False, keep)
    scores, records = seen
    folder = write_run(tmp_path / "run", {"grpo": {0: ([], [])}}, seeds=1)
    path = folder / "arms/grpo/seed-0/rollouts.jsonl"
    path.write_text(json.dumps({"step": 1, "groups": records}) + "\n")
    text = show_rollouts(read_run(folder))
    head, *rows = [line.split() for line in text.splitlines()[3:]]
    assert head[:4] == ["rollout", "reward", "reward/correct", "reward/size"]
    assert [row[2:4] for row in rows] == [["-" if np.isnan(value) else f"{value:g}" for value in row] for row in scores]
    assert np.isnan(scores).any()
    assert write_texts(read_run(folder), tmp_path / "kept.parquet") == 4
    for log in (path, tmp_path / "kept.parquet"):
        rollouts = read_log([log]).rollouts
        assert rollouts.reward.tolist() == [entry["reward"] for entry in records[0]["rollouts"]]
        read = [rollouts.components[f"reward_components.{name}"] for name in PART_WEIGHTS]
        np.testing.assert_array_equal(np.stack(read, axis=1), scores)


def test_gdpo_trains_on_a_reward_of_one_number():
    trainer, state = trainer_and_state("gdpo")
    assert trainer.step(state, KEY, False)[1]["grad_norm"] > 0


def test_a_rollout_without_any_part_is_left_out_of_its_group():
    def some(prompt, completion):
        return {"correct": None if completion[:1] in set("5678") else reward(prompt, completion)}

    trainer, state = trainer_and_state("grpo", {"rounds": 3}, own_task=task(rewards=some))
    seen = []
    _, line = trainer.step(state, KEY, False, lambda *both: seen.append(both))
    groups, advantage = seen[0]
    absent = absent_rollouts(groups)
    assert absent.any()
    assert not advantage[absent].any()
    for row in range(len(advantage)):
        present = ~absent[row]
        rewards = groups.rewards[row][present]
        assert rewards.min() < rewards.max(), "of unequal rewards among those that are there"
        np.testing.assert_allclose(advantage[row][present], advantages("grpo", rewards), rtol=1e-5)
    assert line["rewards/correct/driven"] == 1


def test_the_parts_are_the_same_for_every_completion(rows):
    addition = task(rewards=lambda prompt, completion: {completion[:1]: 1.0})
    trainer, state = trainer_and_state("grpo", own_task=addition)
    with pytest.raises(InputError, match=r"the parts of a reward are .*; allowed: the same, None if missing"):
        trainer.step(state, KEY, False)


@pytest.mark.parametrize(
    ("name", "rl", "message"),
    [
        ("grpo", {"false_positive": 0.1}, "2 rewards under a verifier that errs; allowed: one, of 0 and 1"),
        ("least_variance", {}, r"rewards span .* hold .*defined for"),
    ],
)
def test_what_takes_no_parts_says_so(name, rl, message):
    trainer, state = trainer_and_state(name, rl, own_task=parted())
    with pytest.raises(InputError, match=message):
        trainer.step(state, KEY, False)


def naive_part_metrics(scores, weights, advantage):
    """Loop over numbers; None is missing."""
    names, lines = [*weights], {}
    sums = dict.fromkeys(names, 0.0)
    for group, values in zip(scores, advantage, strict=True):
        there = [index for index, each in enumerate(group) if any(value is not None for value in each)]
        for number, name in enumerate(names):
            paid = {index: weights[name] * (group[index][number] or 0) for index in there}
            mean = sum(paid.values()) / len(paid) if paid else 0
            sums[name] += sum((paid[index] - mean) * values[index] for index in there)
    for number, name in enumerate(names):
        each = [[entry[number] for entry in group if entry[number] is not None] for group in scores]
        groups = [group for group in each if group]
        means = [sum(group) / len(group) for group in groups]
        spreads = [
            (sum((value - mean) ** 2 for value in group) / len(group)) ** 0.5
            for group, mean in zip(groups, means, strict=True)
        ]
        every = [value for group in groups for value in group]
        lines |= {
            f"rewards/{name}/mean": sum(every) / len(every),
            f"rewards/{name}/spread": sum(spreads) / len(spreads),
            f"rewards/{name}/silent": sum(len(set(group)) < 2 for group in each) / len(each),
            f"rewards/{name}/driven": sums[name] / sum(sums.values()),
        }
    return lines


def test_metrics_of_parts_are_those_of_loops():
    random = np.random.default_rng(5)
    scores = random.integers(0, 3, (6, 4, 3)).astype(float)
    scores[random.random(scores.shape) < 0.3] = np.nan
    scores[2, 1] = np.nan
    scores[3, :, 1] = np.nan
    scores[4, :, 0] = 2.0
    advantage = random.normal(size=(6, 4))
    advantage[2, 1] = 0
    weights = {"a": 1.0, "b": 0.2, "c": -0.5}
    lists = [[[None if np.isnan(value) else value for value in each] for each in group] for group in scores.tolist()]
    metrics = part_metrics(scores, weights, advantage)
    assert metrics == pytest.approx(naive_part_metrics(lists, weights, advantage.tolist()), rel=1e-12)


def collected(reward_setting, own_task, steps, **rl):
    trainer, state = trainer_and_state("grpo", {"reward": reward_setting, **rl}, own_task=own_task)
    true, _ = trainer_and_state("grpo", rl, own_task=own_task)
    for step in range(steps):
        key = jax.random.fold_in(KEY, step)
        (paid, cursor, _), (groups, _, _) = trainer.collect(state, key), true.collect(state, key)
        np.testing.assert_array_equal(paid.sampled.tokens, groups.sampled.tokens)
        yield paid, groups
        state = state._replace(cursor=cursor)


def test_a_placebo_by_group_deals_out_the_rewards_of_a_group():
    moved = 0
    for paid, groups in collected("placebo_by_group", parted(), 4):
        every = [
            np.concatenate([each.parts, each.rewards[..., None], each.correct[..., None]], -1)
            for each in (paid, groups)
        ]
        for dealt, earned in zip(*every, strict=True):
            assert sorted(map(repr, dealt.tolist())) == sorted(map(repr, earned.tolist()))
            moved += repr(dealt.tolist()) != repr(earned.tolist())
        assert paid.solutions == groups.solutions
    assert moved > 4


def test_a_placebo_pays_what_another_answer_would_get():
    addition = task(rewards=lambda prompt, text: prompt[0] in "12" and reward(prompt, text))
    pairs = list(collected("placebo", addition, 12, prompts=16, group_size=8))
    solvable = [problem.prompt[0] in "12" for problem in pairs[0][0].problems]
    paid, earned = (np.stack([pair[index].rewards for pair in pairs]) for index in (0, 1))
    assert not paid[:, np.logical_not(solvable)].any(), "at the rate of the prompt"
    paid, earned = (values[:, solvable].reshape(-1) for values in (paid, earned))
    apart = paid - earned
    assert abs(apart.mean()) < 4 * apart.std() / apart.size**0.5
    assert abs(np.corrcoef(paid, earned)[0, 1]) < 4 / apart.size**0.5, "whatever the answer"
    assert all((paid.correct == (paid.rewards > 0)).all() for paid, _ in pairs)


def test_an_arm_says_what_it_is_paid():
    asked = settings({"arms": ["grpo@reward=true", "maxrl@reward=placebo"]})
    assert [asked.arm_rl(arm).reward for arm in asked.arms] == ["true", "placebo"]
