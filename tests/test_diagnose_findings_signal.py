"""Answers about signal, trainer and several rewards are right on logs that are made, and whose truth is known."""

from types import SimpleNamespace

import numpy as np
import pytest
from diagnose_logs import plain
from log_files import write_rows

from simlab.diagnose import batches, components, signal, trainer_check
from simlab.diagnose.dead_groups import dead_share, observe_groups
from simlab.diagnose.diagnosis import Diagnosis
from simlab.diagnose.reading import read_log
from simlab.diagnose.solve_rates import fit_population
from simlab.diagnose.summary import describe_log

LEVEL = 0.9


def reading_of(tmp_path, rows, **options):
    return read_log([write_rows(tmp_path, rows)], **options)


def diagnosis_of(reading):
    """The estimates that the answers read, of a log of one window."""
    now, observed = fit_population(reading.log, LEVEL), observe_groups(reading.log)
    sizes = (observed.group_size * 2**power for power in range(3))
    read = SimpleNamespace(
        level=LEVEL,
        solve_rates=SimpleNamespace(windows=[SimpleNamespace(first=int(reading.log.step.min()))]),
        groups=SimpleNamespace(
            observed=observed,
            at_sizes=[SimpleNamespace(group_size=size, dead=now.estimate("", dead_share(size))) for size in sizes],
        ),
    )
    return Diagnosis(**dict.fromkeys(Diagnosis._fields) | vars(read))


def answer(tmp_path, rows, question=signal.is_the_loss_broken, **options):
    reading = reading_of(tmp_path, rows, **options)
    result = question(reading, diagnosis_of(reading))
    assert result is None or len(result.sentence.split()) <= 40, result.sentence
    return result


def groups_of_rewards(groups, **columns):
    """Rows of one step; a group is a list of rewards, or of the names of columns with their values."""
    return [
        {"step": 1, "prompt": f"p{prompt}", **(entry if isinstance(entry, dict) else {"reward": entry})} | columns
        for prompt, group in enumerate(groups)
        for entry in group
    ]


# Signal


def drawn(rates, group_size, seed, visits=1):
    random = np.random.default_rng(seed)
    return [(random.random(group_size) < rate).astype(int).tolist() for _ in range(visits) for rate in rates]


@pytest.mark.parametrize(
    ("group", "start", "words", "concern"),
    [
        ([0] * 4, "Yes, nothing is learned: all 20 groups have equal rewards, and no rollout is right", "verifier", 1),
        ([1] * 4, "Nothing is left to learn: all 20 groups", "harder prompts", 1),
        ([0, 1], "Not broken: 0%", "sum to 0", signal.CALM),
    ],
)
def test_groups_that_are_all_alike_are_told_with_what_to_do(tmp_path, group, start, words, concern):
    result = answer(tmp_path, groups_of_rewards([group] * 20))
    assert result.sentence.startswith(start)
    assert words in result.sentence
    assert result.concern == concern
    assert (dict(result.rows)["groups without signal"].high < 0.1) == (group == [0, 1])


def test_share_without_signal_is_counted_and_its_interval_holds_the_truth(tmp_path):
    rates = np.array([0.0] * 30 + [0.5] * 70)
    groups = drawn(rates, 4, seed=2)
    dead = [len(set(group)) == 1 for group in groups]
    result = answer(tmp_path, groups_of_rewards(groups))
    estimate = dict(result.rows)["groups without signal"]
    assert estimate.value == np.mean(dead)
    assert estimate.low < 0.3 + 0.7 * 2 * 0.5**4 < estimate.high
    assert estimate.high - estimate.low < 0.2
    assert result.sentence.startswith("Not broken: ")
    assert "easier prompts" in result.sentence


def test_larger_groups_are_named_where_they_help(tmp_path):
    result = answer(tmp_path, groups_of_rewards(drawn([0.5] * 300, 2, seed=1)))
    assert "G = 4 leaves" in result.sentence
    hopeless = answer(tmp_path, groups_of_rewards([[0, 0, 0, 0]] * 150 + [[0, 0, 1, 1]] * 150))
    assert "G = 16 would leave" in hopeless.sentence


def test_graded_rewards_below_the_threshold_have_signal(tmp_path):
    rows = groups_of_rewards([[0.05, 0.05, 0.1, 0.15]] * 8 + [[0.1, 0.2, 1, 1]] * 8)
    result = answer(tmp_path, rows, threshold=1)
    assert result.concern == signal.CALM
    assert dict(result.rows)["groups without signal"].value == 0
    assert dict(result.rows)["all wrong or all right, but graded"].value == 0.5


def test_parts_that_cancel_are_told_from_parts_that_are_equal(tmp_path):
    def rewards(correct, short):
        return {"reward_correct": float(correct), "reward_short": float(short), "reward": float(correct + short)}

    cancels = [rewards(0, 1), rewards(1, 0), rewards(1, 0), rewards(0, 1)]
    equal = [rewards(1, 0)] * 4
    teaches = [rewards(1, 1), rewards(1, 0), rewards(0, 0), rewards(0, 0)]
    result = answer(tmp_path, [row | {"correct": row["reward_correct"]} for row in
                               groups_of_rewards([cancels] * 3 + [equal] * 2 + [teaches] * 5)])  # fmt: skip
    shares = dict(result.rows)
    assert shares["groups without signal"].value == 0.5
    assert shares["of parts that cancel"].value == 0.3
    assert result.concern >= 0.5
    assert "cancel in the sum" in result.sentence


def test_sums_that_differ_by_rounding_have_no_signal(tmp_path):
    residue = [{"r_a": 0.1, "r_b": 0.2, "r_c": 0.3}, {"r_a": 0.3, "r_b": 0.2, "r_c": 0.1}] * 2
    assert 0.1 + 0.2 + 0.3 != 0.3 + 0.2 + 0.1
    reading = reading_of(tmp_path, [row | {"correct": 1} for row in groups_of_rewards([residue] * 5)])
    groups = signal.group_signal(reading, 0)
    assert groups.silent.all()
    assert groups.residue.all()
    assert groups.cancel.all()


def test_groups_of_one_rollout_have_no_answer(tmp_path):
    assert answer(tmp_path, groups_of_rewards([[0], [1], [1]])) is None
    for groups in ([[0], [1], [1]], [[0, 0], [0, 1]]):  # nor has a log with dead groups been filtered
        assert answer(tmp_path, groups_of_rewards(groups), signal.were_prompts_filtered) is None


# Filter


def kept_groups(rates, group_size, seed):
    return [group for group in drawn(rates, group_size, seed) if 0 < sum(group) < group_size]


def test_a_filtered_log_is_told_with_a_bound_on_the_prompts_drawn(tmp_path):
    rates = np.random.default_rng(5).uniform(size=600)
    groups = kept_groups(rates, 4, seed=5)
    result = answer(tmp_path, groups_of_rewards(groups), signal.were_prompts_filtered)
    assert result.sentence.startswith(f"Filtered: none of {len(groups)} groups")
    assert result.concern > 0.4  # before advice that is drawn from what the filter keeps
    draws = float(dict(result.rows)["prompts drawn for a group that is kept"].removeprefix("at least "))
    assert 1.15 < draws < 1 / (1 - 2 / 5)  # a uniform rate makes E p^4 = 1/5


def test_a_log_without_dead_groups_by_chance_is_not_called_filtered(tmp_path):
    groups = [group for group in drawn([0.5] * 60, 8, seed=1) if 0 < sum(group) < 8]
    result = answer(tmp_path, groups_of_rewards(groups), signal.were_prompts_filtered)
    assert result.sentence.startswith("It cannot be told")


@pytest.mark.slow
@pytest.mark.parametrize(("a", "b"), [(1.0, 1.0), (0.3, 0.3), (1.0, 4.0)])
def test_bound_on_draws_is_below_the_truth(a, b):
    """The lower end of a 90 % interval, in 40 logs: a right one is above the truth in 2 of them."""
    rates = np.random.default_rng(0).beta(a, b, size=200_000)
    truth, above = 1 / np.mean(1 - rates**8 - (1 - rates) ** 8), 0
    for seed in range(40):
        groups = kept_groups(np.random.default_rng(seed).beta(a, b, size=200), 8, seed)
        log = plain([sum(group) for group in groups], 8)
        above += signal.least_draws(log, 8, LEVEL) > truth
    assert above <= 6


# Advantages


def by_hand(groups, ddof, eps):
    """(r - mean) / (std + eps) of each group, by loops."""
    result = []
    for group in groups:
        mean = sum(group) / len(group)
        std = (sum((reward - mean) ** 2 for reward in group) / (len(group) - ddof)) ** 0.5
        result.append([(reward - mean) / (std + eps) for reward in group])
    return result


def checked(tmp_path, groups, advantages):
    rows = [
        {"step": 0, "prompt": f"p{prompt}", "reward": float(reward), "advantage": float(advantage),
         "correct": bool(reward > 0)}
        for prompt, pair in enumerate(zip(groups, advantages, strict=True))
        for reward, advantage in zip(*pair, strict=True)
    ]  # fmt: skip
    return answer(tmp_path, rows, trainer_check.does_the_trainer_agree)


GROUPS = drawn([0.1, 0.3, 0.5, 0.7, 0.9, 0.0], 8, seed=4, visits=2)
WHOLE = np.array(GROUPS, float)
MEANS = WHOLE.mean(axis=1, keepdims=True)
LOGGED = {
    "float32": (np.float32(by_hand(GROUPS, 1, 1e-4)), "Yes: all ", "grpo(ddof=1, eps=0.0001)"),
    "float32, another eps": (np.float32(by_hand(GROUPS, 1, 1e-6)), "Yes: all ", "grpo(ddof=1, eps=1e-06)"),
    "float32, another ddof": (np.float32(by_hand(GROUPS, 0, 1e-4)), "Yes: all ", "grpo(ddof=0, eps=0.0001)"),
    "rounded": (np.round(by_hand(GROUPS, 1, 1e-4), 3), "Yes: all ", "grpo(ddof=1"),
    "means of the others": (WHOLE - (WHOLE.sum(axis=1, keepdims=True) - WHOLE) / 7, "", " rloo,"),
    "means": (WHOLE - MEANS, "", " dr_grpo,"),
    "std of the batch": ((WHOLE - MEANS) / (WHOLE.std(ddof=1) + 1e-4), "", "dr_grpo times one factor a step"),
    "pairs": (by_hand(WHOLE.reshape(-1, 2).tolist(), 1, 1e-4), "Wrong groups: ", "groups of 2 consecutive rows"),
    "two groups in one": (by_hand(WHOLE.reshape(-1, 16).tolist(), 1, 1e-4), "", "groups of 16 consecutive rows"),
    "strided": (np.transpose(by_hand(WHOLE.reshape(8, -1).T.tolist(), 1, 1e-4)), "", "groups of 8 rows, each 12 apart"),
    "turned round": (-np.array(by_hand(GROUPS, 1, 1e-4)), "It cannot be told", ""),
    "noise": (np.random.default_rng(0).normal(size=WHOLE.shape), "It cannot be told", ""),
    "zeros": (np.zeros(WHOLE.shape), "Broken: all advantages are 0 although rewards differ", ""),
}


@pytest.mark.parametrize("name", LOGGED)
def test_it_is_told_whose_the_advantages_are(tmp_path, name):
    logged, start, words = LOGGED[name]
    result = checked(tmp_path, GROUPS, np.reshape(logged, WHOLE.shape))
    assert result.sentence.startswith(start)
    assert words in result.sentence
    assert result.concern < 0.1 or not start.startswith("Yes")
    assert result.concern > 0.9 or not start.startswith(("Wrong", "Broken"))


def test_a_leave_one_out_std_of_rounding_residue_is_broken(tmp_path):
    def leave_one_out(group):
        advantages = []
        for index, reward in enumerate(group):
            others = np.array(group[:index] + group[index + 1 :], np.float32)
            residue = 3e-6 if others.std() == 0 else 0.0  # residue of equal rewards in a float32 kernel
            advantages.append((reward - others.mean()) / (others.std() + residue + 1e-12))
        return advantages

    single = [[1, 0, 0, 0, 0, 0, 0, 0], [0, 0, 1, 1, 0, 1, 0, 0], [1, 1, 0, 1, 1, 1, 0, 1]] * 4
    result = checked(tmp_path, single, [leave_one_out(group) for group in single])
    assert result.sentence.startswith("Broken: 4 advantages are as large as 330,000")
    assert result.concern == 1


@pytest.mark.parametrize("groups", [[[0, 0, 0, 0, 0, 0, 0, 300]] * 6, [[0], [300], [0], [300]]])
def test_a_critics_advantages_of_large_rewards_are_no_residue(tmp_path, groups):
    random = np.random.default_rng(0)
    logged = [[reward * random.uniform(0.7, 1.3) - 40 for reward in group] for group in groups]
    assert not checked(tmp_path, groups, logged).sentence.startswith("Broken")


def test_rows_that_were_changed_later_stand_out(tmp_path):
    logged = by_hand(GROUPS, 1, 1e-4)
    logged[0][0] += 0.5
    result = checked(tmp_path, GROUPS, logged)
    assert result.sentence.startswith("Mostly: grpo(ddof=1, eps=0.0001)")
    assert "1 stand out" in result.sentence


def test_advantages_of_dead_groups_alone_tell_nothing(tmp_path):
    assert checked(tmp_path, [[1, 1], [0, 0]], [[0, 0], [0, 0]]) is None


def test_uneven_groups_are_recomputed_group_by_group(tmp_path):
    groups = [[0, 1, 1], [1, 0], [0, 1, 0, 0, 0], [1, 1, 0, 1]]
    assert "Yes: all 14" in checked(tmp_path, groups, by_hand(groups, 1, 1e-4)).sentence


def test_tables_of_steps_hold_every_rollout_once(tmp_path):
    rows = [{"step": i % 3, "prompt": f"p{i % 2}", "reward": float(i % 5 == 0)} for i in range(20)]
    reading = reading_of(tmp_path, rows)
    rollouts = [batch.rollout[batch.mask] for batch in batches.step_batches(reading.rollouts)]
    assert sorted(np.concatenate(rollouts).tolist()) == list(range(20))
    for batch in batches.step_batches(reading.rollouts):
        for group, mask in zip(batch.rollout, batch.mask, strict=True):
            assert len(set(reading.rollouts.group[group[mask]])) == 1


# Several rewards


def scored(seed, prompts=60, size=8, **weights):
    """Rows of ``correct`` (rates of all kinds), ``format`` (mostly kept) and ``brevity`` (rarer where correct)."""
    random, rows = np.random.default_rng(seed), []
    for prompt in range(prompts):
        rate = random.uniform(0.1, 0.9)
        for _ in range(size):
            right = float(random.random() < rate)
            scores = {"correct": right, "format": float(random.random() < 0.9),
                    "brevity": float(random.random() < 0.7 - 0.5 * right), "language": 1.0}  # fmt: skip
            total = sum(weights.get(name, 1.0) * scores[name] for name in scores)
            rewards = {f"reward_{name}": value for name, value in scores.items()}
            rows.append({"step": 0, "prompt": f"p{prompt}", "reward": total, "acc": right} | rewards)
    return rows


def z_scores(values):
    values = np.asarray(values, float)
    return (values - values.mean()) / (values.std(ddof=1) + 1e-4)


def parts_by_hand(rows, weights):
    """Shares that parts drive under GRPO and under GDPO, and the share of signs that differ: loops over groups."""
    names = list(weights)
    groups = [[row for row in rows if row["prompt"] == prompt] for prompt in dict.fromkeys(r["prompt"] for r in rows)]
    grpo, apart, centred, scaled = [], [], {name: [] for name in names}, {name: [] for name in names}
    for group in groups:
        grpo += z_scores([row["reward"] for row in group]).tolist()
        for name in names:
            column = [row[name] for row in group]
            centred[name] += [weights[name] * (value - np.mean(column)) for value in column]
            scaled[name] += (weights[name] * z_scores(column)).tolist()
        rows_of = slice(len(grpo) - len(group), len(grpo))
        apart += np.sum([scaled[name][rows_of] for name in names], axis=0).tolist()
    gdpo = z_scores(apart)
    by = {name: np.dot(centred[name], grpo) for name in names}
    under = {name: np.dot(scaled[name], gdpo) for name in names}
    both = (np.abs(grpo) > 1e-5) & (np.abs(gdpo) > 1e-5)
    turned = np.mean((np.array(grpo) * gdpo < 0)[both])
    return [{name: value / sum(of.values()) for name, value in of.items()} for of in (by, under)], turned, gdpo


@pytest.mark.parametrize("weights", [{}, {"format": 0.1, "brevity": 2.0}])
def test_shares_of_parts_are_those_of_loops(tmp_path, weights):
    rows = scored(1, **weights)
    reading = reading_of(tmp_path, rows)
    known = {f"reward_{name}": weights.get(name, 1.0) for name in ("correct", "format", "brevity")}
    assert components.reward_weights(reading) == pytest.approx(known)
    result = answer(tmp_path, rows, components.which_reward_leads)
    table = dict(result.rows)
    (grpo, gdpo), turned, _ = parts_by_hand(rows, known)
    for name in known:
        assert table[f"driven by {name}"].value == pytest.approx(grpo[name], abs=1e-6)
        assert table[f"by {name} under GDPO"].value == pytest.approx(gdpo[name], abs=1e-6)
        assert table[f"driven by {name}"].low < grpo[name] < table[f"driven by {name}"].high
    assert table["signs that GDPO would turn"].value == pytest.approx(turned)
    assert table["reward_language"] == "never varies in a group"


def test_parts_that_pull_against_each_other_are_named(tmp_path):
    result = answer(tmp_path, scored(2), components.which_reward_leads)
    assert "reward_brevity and reward_correct pull against each other" in result.sentence
    rows = dict(result.rows)
    assert rows["correlation of reward_brevity and reward_correct"].high < 0
    assert rows["correlation of reward_correct and reward_format"].sign == 0


def test_a_part_that_never_varies_is_named(tmp_path):
    rows = [{"prompt": f"p{i // 4}", "step": 0, "reward": 1.0 + i % 2, "reward_right": float(i % 2),
             "reward_format": 1.0, "acc": i % 2} for i in range(40)]  # fmt: skip
    result = answer(tmp_path, rows, components.which_reward_leads)
    assert result.sentence.startswith("reward_right drives all of the advantage.")
    assert "reward_format never varies in a group" in result.sentence


def test_scores_that_are_no_parts_of_the_reward_have_no_answer(tmp_path):
    rows = [row | {"reward": row["reward_correct"] * row["reward_format"]} for row in scored(3)]
    assert components.reward_weights(reading_of(tmp_path, rows)) == {}
    assert answer(tmp_path, rows, components.which_reward_leads) is None


def test_an_advantage_by_gdpo_is_told(tmp_path):
    rows = scored(4)
    *_, gdpo = parts_by_hand(rows, dict.fromkeys(["reward_correct", "reward_format", "reward_brevity"], 1.0))
    logged = [row | {"advantage": float(advantage)} for row, advantage in zip(rows, gdpo, strict=True)]
    assert " gdpo," in answer(tmp_path, logged, trainer_check.does_the_trainer_agree).sentence


def test_weights_of_rewards_that_the_log_does_not_hold_are_recovered(tmp_path):
    rows = scored(6)
    for row in rows:
        row["reward"] = row["reward_correct"] + row["reward_format"] + row["reward_brevity"]
    groups = [rows[start : start + 8] for start in range(0, len(rows), 8)]
    for group in groups:
        weighted = [0.5 * row["reward_correct"] + row["reward_format"] - 2 * row["reward_brevity"] for row in group]
        for row, advantage in zip(group, z_scores(weighted), strict=True):
            row["advantage"] = float(advantage)
    result = answer(tmp_path, rows, trainer_check.does_the_trainer_agree)
    assert "grpo(ddof=1, eps=0.0001) of reward_brevity x -4, reward_correct x 1, reward_format x 2" in result.sentence


def test_a_log_whose_advantages_are_all_0_is_not_called_whole(tmp_path):
    groups = [[1, 0, 0, 1]] * 6 + [[0] * 4] * 4
    assert answer(tmp_path, groups_of_rewards(groups)).sentence.startswith("Not broken: ")
    assert answer(tmp_path, groups_of_rewards(groups, advantage=0)).sentence.startswith("Not for want of signal: ")


def test_a_dictionary_of_parts_beside_their_weighted_sum_is_not_summed_with_it(tmp_path):
    rng = np.random.default_rng(3)
    verdicts = rng.random((320, 2)) < 0.5
    rows = [
        {"step": number // 32, "prompt": f"p{number // 8 % 4}", "completion": f"c{number}",
         "rewards": {"correct": float(right), "format": float(well_formed)},
         "reward": right + 0.2 * well_formed, "advantage": right - 0.5}
        for number, (right, well_formed) in enumerate(verdicts.tolist())
    ]  # fmt: skip
    reading = reading_of(tmp_path, rows)
    assert reading.columns.rewards == ("reward",)
    assert components.reward_weights(reading) == pytest.approx({"rewards.correct": 1, "rewards.format": 0.2})


def test_the_line_about_a_log_counts_rollouts_without_a_reward(tmp_path):
    rows = [{"prompt": "p", "step": step, "reward": reward} for step in range(4) for reward in (0, 1, None)]
    assert describe_log(reading_of(tmp_path, rows)).endswith("0 rows refused, 4 without a reward left out")
    assert describe_log(reading_of(tmp_path, rows[:2] * 4)).endswith("0 rows refused")
