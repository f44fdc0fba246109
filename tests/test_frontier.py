"""The frontier of rollouts against retained mass: its choice, judgement and price, and its challengers."""

import itertools
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

from figures import frontier
from figures.shared import challenge
from figures.shared.by_number import tabled
from figures.shared.challenge import LEAST_GAIN, RIVALS, digest_of, hidden_problems, place, run_points
from figures.shared.front import Point, front, staircase, steps, with_more_seeds
from figures.shared.speed_classes import History, group_only, with_history, with_rates
from simlab.arms import parse
from simlab.cli import main
from simlab.errors import InputError
from simlab.estimators import REGISTRY
from simlab.rollouts import Rollouts
from simlab.sweeps.presets.frontier import CONDITIONS, FRONTIER, MANY, RARE

FINDING = Path(__file__).parent.parent / "docs" / "findings" / "frontier.md"


def point(method, rollouts, retained):
    return Point("weight", method, "", np.array(rollouts, float), np.array(retained, float))


def test_the_stairs_hold_what_nobody_beats_in_both_by_a_step():
    random = np.random.default_rng(0)
    rollouts, retained = random.uniform(size=40), random.uniform(size=40)
    chosen = staircase(rollouts, retained)
    best, expected = -1.0, []
    for cost, share, index in sorted(zip(rollouts, retained, range(40), strict=True)):
        if share >= best + max(0.001, min(0.02, (1 - best) / 2)):
            expected.append(index)
            best = share
        del cost
    assert chosen == expected
    for first, second in itertools.pairwise(chosen):
        assert rollouts[first] < rollouts[second]
        assert retained[second] >= retained[first] + max(0.001, min(0.02, (1 - retained[first]) / 2))


def test_a_front_is_chosen_on_the_first_half_of_the_seeds_and_judged_on_the_second():
    fast = point("fast", [1, 1, 10, 10], [0.5, 0.5, 0.4, 0.6])
    slow = point("slow", [2, 2, 40, 90], [0.9, 0.9, 0.6, 0.7])
    worse = point("worse", [3, 3, 1, 1], [0.8, 0.8, 1.0, 1.0])
    fails = point("fails", [0.5, math.nan, 1, 1], [1.0, math.nan, 1.0, 1.0])
    chosen = front([worse, slow, fails, fast])
    assert [entry.method for entry in chosen] == ["fast", "slow"]
    first, second = steps(chosen)
    assert (float(first.rollouts.mean), float(first.kept.mean)) == (10, pytest.approx(0.5))
    assert first.ratio is None
    assert first.holds
    assert float(second.ratio.mean) == pytest.approx(6)  # ratios 4 and 9
    assert float(second.gain.mean) == pytest.approx(0.15)
    assert not second.holds  # two seeds tell too little


def test_what_costs_more_and_keeps_more_in_every_seed_holds():
    low = point("low", [0] * 4 + [10, 11, 9, 10], [0] * 4 + [0.5, 0.51, 0.49, 0.5])
    high = point("high", [0] * 4 + [20, 21, 19, 21], [0] * 4 + [0.7, 0.7, 0.69, 0.71])
    assert steps([low, high])[1].holds
    assert not steps([high, low])[1].holds


REWARDS = np.array([[1.0, 0, 0, 0, 0, 0, 0, 0], [1, 1, 1, 0, 0, 0, 0, 0], [0] * 8, [1] * 8])


def weights_of(chosen, state=None, **fields):
    """The number by which r - mean(r) of each mixed group is multiplied, and the next state."""
    rewards = fields.pop("rewards", REWARDS)
    values, following = chosen.update(Rollouts(rewards, **fields), chosen.init() if state is None else state)
    centred = rewards - rewards.mean(axis=-1, keepdims=True)
    assert np.all(values[np.all(centred == 0, axis=-1)] == 0)
    return [row[0] / gap[0] for row, gap in zip(values, centred, strict=True) if gap[0]], following


def test_a_class_of_the_group_alone_has_a_speed_for_each_number_of_successes():
    weights, _ = weights_of(group_only(c1=0.5, c3=-1.0))
    assert weights == pytest.approx([math.exp(0.5), math.exp(-1.0)])


def test_a_class_with_true_rates_reads_them_off_a_correct_rollout():
    logs = np.full((4, 8, 1), math.log(0.002))
    logs[0, 0], logs[1, :3] = math.log(0.05), math.log(0.4)
    weights, _ = weights_of(with_rates(c1=0.5, power=1.0, threshold=0.3, steep=10.0), old_logp=logs)
    expected = [math.exp(0.5) / 0.051 / (1 + math.exp(-2.5)), 1 / 0.401 / (1 + math.exp(1.0))]
    assert weights == pytest.approx(expected)


def test_a_class_with_history_follows_each_prompt():
    chosen = with_history(power=1.0, decay=0.5)
    state = tuple(History(np.array([0.1, 0.3, 0.2, 0.9])) if isinstance(x, History) else x for x in chosen.init())
    weights, following = weights_of(chosen, state)
    rates = [0.5 * 0.1 + 0.5 / 8, 0.5 * 0.3 + 0.5 * 3 / 8]
    assert weights == pytest.approx([0.5 / (rate + 0.001) for rate in rates])
    np.testing.assert_allclose(following[-1].rates, [*rates, 0.1, 0.95])


def test_a_weight_of_the_number_of_correct_rollouts_is_a_table_up_to_a_factor():
    for text in ("grpo+reinforce", "pass_at_k_chen(k=2)+reinforce", "nsr+reinforce"):
        whole, table = (parse(arm).build().estimator for arm in (text, tabled(text)))
        rewards = np.array([[1.0] * number + [0.0] * (8 - number) for number in range(9)])
        first, second = (chosen.update(Rollouts(rewards), chosen.init())[0] for chosen in (whole, table))
        np.testing.assert_allclose(second, first / np.abs(first).max(), atol=2e-7)
    for text in ("fade+reinforce", "grpo+ppo_clip", "bnpo+reinforce"):
        assert tabled(text) == text


def test_a_preset_holds_every_kind_in_every_condition_at_one_budget():
    sweeps = {name: settings for name, settings in FRONTIER.items() if name not in (RARE, MANY)}
    kinds = {name.partition("-")[0] for name in sweeps}
    assert len(sweeps) == len(kinds - {"judged"}) * len(CONDITIONS) + 1
    for condition in CONDITIONS:
        arms = [*FRONTIER[f"weight-{condition}"]["arms"], *FRONTIER[f"rest-{condition}"]["arms"]]
        assert {arm.partition("+")[0].partition("(")[0] for arm in arms} == set(REGISTRY) - {"linked", "opd"}
        assert len(set(arms)) == len(arms)
    for name, settings in sweeps.items():
        assert settings["budget"] == CONDITIONS[name.partition("-")[2]].shared["budget"]
        assert "steps" not in settings


def test_hidden_problems_are_drawn_by_what_the_entry_says(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("def weight(advantages, rollouts):\n    return advantages\n")
    first = digest_of("grpo"), digest_of("maxrl"), digest_of(f"{path}:weight")
    assert len(set(first)) == 3
    problems = [hidden_problems(digest) for digest in first]
    assert problems == [hidden_problems(digest) for digest in first]
    assert problems[0] != problems[1]
    for problem in itertools.chain(*problems):
        assert 0.15 <= problem["overlap"] <= 0.6
        assert 0.005 <= problem["hard_rate"] <= 0.03


def test_an_entry_is_ahead_if_all_of_its_interval_is_well_below_what_the_front_takes():
    rivals = [point("low", [10] * 8, [0.5] * 8), point("high", [100] * 8, [0.9] * 8)]
    cheap, dear = point("mine", [49, 50, 51, 50] * 2, [0.8] * 8), point("mine", [149, 150, 151, 150] * 2, [0.9] * 8)
    (placed,) = place([cheap], rivals)
    assert (placed.price, placed.is_ahead) == (100, True)
    (placed,) = place([dear], rivals)
    assert (placed.price, placed.is_ahead) == (100, False)
    (placed,) = place([point("mine", [500, 510] * 4, [0.95] * 8)], rivals)
    assert (placed.price, placed.is_ahead) == (math.inf, True)  # nobody keeps as much


def test_what_a_rival_varies_by_and_a_small_gain_are_no_lead():
    """0.9 of a rival that varies threefold by seed is a lead; 0.96 of it is less than the least gain."""
    varied, retained = np.array([50, 100, 150, 80] * 2), [0.8] * 8
    rival = point("rival", varied, retained)
    assert place([point("mine", 0.9 * varied, retained)], [rival])[0].is_ahead
    assert not place([point("mine", 0.96 * varied, retained)], [rival])[0].is_ahead
    assert not place([point("mine", [85] * 8, retained)], [rival])[0].is_ahead  # against 95, standard error 21
    noisy = point("noisy", [10] * 8, [0.2, 0.95, 0.9, 0.5] * 2)  # may keep as much
    assert place([point("mine", [90] * 8, retained)], [rival, noisy])[0].price == 10


def test_raw_rewards_and_grpo_are_alike_and_neither_is_ahead_of_the_other(monkeypatch):
    monkeypatch.setattr(challenge, "LENGTHS", (0.8, 1.6))
    arms = ["reinforce+reinforce", "grpo+reinforce"]
    _, problem = hidden_problems(digest_of("reinforce+reinforce"))
    every = run_points(arms, 8, problem)
    raw, grpo = every[:2], every[2:]
    for entries, rivals in ((raw, grpo), (grpo, raw), (raw, raw)):
        assert not any(placed.is_ahead for placed in place(entries, rivals))
    assert set(arms) <= set(RIVALS)
    ratios = [float(placed.ratio.mean) for placed in place(raw, grpo)]
    assert 1 - LEAST_GAIN < min(ratios) < 1  # the lead that is too small


@pytest.mark.slow
def test_an_entry_of_the_registry_is_told_that_the_front_has_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(challenge, "LENGTHS", (0.8, 1.6))
    assert main(["challenge", "grpo", "--seeds", "4"]) == 0
    printed = capsys.readouterr().out
    assert "ahead of the front on 0 of 2 hidden problems, and not on the one that is shown\n" in printed
    assert "grpo is among the weights that stand for the front: it cannot be ahead\n" in printed
    assert "ahead: 5% fewer rollouts beyond the 95 % interval" in printed


@pytest.mark.slow
def test_a_weight_of_a_users_own_is_placed_and_drawn(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code = "def slow(advantages, rollouts):\n    mean = rollouts.rewards.mean(-1, keepdims=True)\n"
    (tmp_path / "mine.py").write_text(f"{code}    return (rollouts.rewards - mean) * (1 - mean)\n")
    monkeypatch.setattr(challenge, "LENGTHS", (0.4, 0.8))
    assert main(["challenge", "mine.py:slow", "--seeds", "4"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("mine.py:slow: rollouts to pass@1 = 0.45, and pass@256 there\n")
    assert re.search(r"^shown +update_norm = 0\.\d", printed, re.MULTILINE)
    assert "hidden 2: prompts " in printed
    assert re.search(r"ahead of the front on \d of 2 hidden problems, and (also|not) on the one that is shown", printed)
    assert (tmp_path / "challenge.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["challenge", "nothing"], "arm = 'nothing'"),
        (["challenge", "grpo", "--seeds", "3"], "seeds = 3"),
        (["challenge", "grpo", "--figure", "a.txt"], "a.txt"),
    ],
)
def test_a_challenge_that_cannot_be_run_is_refused_in_a_line(arguments, words, capsys):
    assert main(arguments) == 2
    told = capsys.readouterr().err
    assert words in told
    assert told.count("\n") == 1


def test_a_challenge_without_the_numbers_of_the_front_says_where_they_are(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(frontier, "DATA", tmp_path / "frontier.json")
    assert main(["challenge", "grpo"]) == 2
    told = "simlab: challenge reads frontier.json, which an installed package lacks; allowed: a clone\n"
    assert capsys.readouterr().err == told


def test_more_seeds_judge_where_there_are_some():
    few, other = point("a", [1] * 8, [0.5] * 8), point("b", [2] * 8, [0.9] * 8)
    many = point("a", [1] * 8 + [3] * 8, [0.5] * 8 + [0.7] * 8)._replace(kind="judged")
    first, second = with_more_seeds([few, other], [many])
    assert (len(first.kept), first.kind, second) == (16, "weight", other)
    assert float(steps([first])[0].rollouts.mean) == pytest.approx((4 * 1 + 8 * 3) / 12)
    assert float(steps([first, second])[1].gain.mean) == pytest.approx(0.4)  # seeds that both have


def test_the_rows_of_the_finding_are_points_of_the_fronts():
    data = json.loads(frontier.DATA.read_text())
    judged = {which: frontier.front_steps(data, "linear-0.3", which) for which in frontier.FRONTS}
    every = [step for entries in judged.values() for step in entries]
    known = {f"{float(step.rollouts.mean):,.0f}": f"{float(step.kept.mean):.3f}".lstrip("0") for step in every}
    section = FINDING.read_text().partition("### The front, ")[2].partition("\n###")[0]
    rows = [[cell.strip() for cell in line.split("|")] for line in section.splitlines() if line.startswith("| ")][1:]
    rows = [row for row in rows if row[2] != "norm"]
    assert {row[3] for row in rows} == set(known)  # none is left out
    priced = [(row[3], row[6]) for row in rows if row[6]]
    by_front = [
        {(f"{float(entry.rollouts.mean):,.0f}", "yes" if entry.holds else "no") for entry in judged[which]}
        for which in judged
    ]
    assert set(priced) <= set.union(*by_front)
    for _, name, _, rollouts, retained, *_ in rows:
        assert known[rollouts] == retained.partition(" ")[0], name


def test_what_was_run_where_adds_up_to_the_points():
    data = json.loads(frontier.DATA.read_text())
    heads, *rows = [line.split("\t") for line in frontier.covered(data).splitlines()]
    for column, name in enumerate(heads[1:], 1):
        points = [int(row[column].partition("(")[2].rstrip(")")) for row in rows]
        assert sum(points) == len(data["conditions"].get(name, {"points": {"kind": []}})["points"]["kind"])


def test_points_that_were_not_run_anew_stay_and_may_leave_the_front():
    def numbers(*points, before=None):
        base = {"points": list(points), "more": [], "base": [0.9]}
        return frontier.merged("linear-0.3", base, before or {})

    first = numbers(point("a", [10] * 8, [0.5] * 8), point("b", [30] * 8, [0.8] * 8), point("c", [40] * 8, [0.7] * 8))
    assert [entry["method"] for entry in first["front"]] == ["a", "b"]
    second = numbers(point("d", [20] * 8, [0.9] * 8), point("a", [11] * 8, [0.6] * 8), before=first)
    assert [entry["method"] for entry in second["front"]] == ["a", "d"]
    assert second["points"]["method"] == ["d", "a", "b", "c"]
    assert second["points"]["rollouts"] == [20, 11, 30, 40]
    assert len(second["front"][0]["kept"]) == 8
    with pytest.raises(InputError, match=r"linear-0\.3 was kept without the seeds of c;"):
        numbers(point("b", [90] * 8, [0.8] * 8), before=first)


def test_a_sweep_replaces_one_whose_points_it_holds():
    shared = {
        "problem": "bank",
        "optimizer": "sgd",
        "budget": {"total": 1.0},
        "group_sizes": [8],
        "arms": ["a", "b"],
        "seeds": 8,
    }
    large = {"configuration": shared | {"parameters": {"norm": [1, 2]}}}
    small = {"configuration": shared | {"parameters": {"norm": [2]}, "arms": ["a"]}}
    assert frontier.replaces(large, small)
    assert not frontier.replaces(small, large)
    for changed in (
        {"optimizer": "adam"},
        {"group_sizes": [4]},
        {"arms": ["c"]},
        {"parameters": {"kl": [1]}},
        {"seeds": 9},
    ):
        assert not frontier.replaces(large, {"configuration": small["configuration"] | changed})
    assert not frontier.replaces(large, {"configuration": {"search": ["group_only", 30.0, None]}})


def test_no_provenance_that_is_kept_is_of_runs_that_were_replaced():
    origins = json.loads(frontier.DATA.read_text())["provenance"]
    for new, old in itertools.permutations([origin for origin in origins if "arms" in origin["configuration"]], 2):
        assert not frontier.replaces(new, old)
