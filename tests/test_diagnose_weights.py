"""What difficulty weights would change: intervals over banks, brackets over overlaps, and when none is recommended."""

import json

import numpy as np
import pytest
from diagnose_logs import bank, log, plain

from simlab.cli import main
from simlab.diagnose import difficulty
from simlab.diagnose.difficulty import weigh
from simlab.diagnose.solve_rates import population
from simlab.diagnose.summary import weights

LEVEL, SEEDS = 0.9, 4
STUDENT = 2.3533634348018264  # quantile of 3 at 95 %


@pytest.fixture
def simulated(monkeypatch):
    """A simulator in which a weight adds to pass@1 and pass@k what the test says, by its name and the overlap."""
    said, asked = {}, []

    def fake(rates, overlap, method, group_size):
        asked.append((method, overlap, group_size, len(rates)))
        noise = np.array([-0.01, 0.0, 0.0, 0.01])
        base = np.full(SEEDS, 0.4)
        if method == "grpo":
            return base, base
        first, many = said[method, overlap]
        return base + first + noise, base + many + noise

    monkeypatch.setattr(difficulty, "_simulated", fake)
    return said, asked


def now():
    return population(plain([0, 1, 2, 4, 4], 4), LEVEL)


def test_an_interval_is_students_over_seeds(simulated):
    said, asked = simulated
    said |= {("a", 0.0): (0.1, -0.2)}
    found = weigh(now(), "grpo", 4, weights=("a", "grpo"), overlaps=(0.0,))
    half = STUDENT * np.sqrt(0.0002 / 3) / 2
    [effect] = found.effects
    assert (effect.weight, effect.overlap) == ("a", 0.0)
    assert effect.pass_at_1.value == pytest.approx(0.1)
    assert (effect.pass_at_1.low, effect.pass_at_1.high) == (pytest.approx(0.1 - half), pytest.approx(0.1 + half))
    assert effect.pass_at_k.high == pytest.approx(-0.2 + half)
    assert len(asked) == 6  # three banks, each with the weight and what is in use
    assert {own[2:] for own in asked} == {(4, difficulty.PROMPTS)}


def test_a_weight_is_recommended_where_every_overlap_agrees(simulated):
    said, _ = simulated
    said |= {("a", 0.0): (0.05, 0.1), ("a", 0.3): (-0.05, 0.2)}
    said |= {("b", 0.0): (-0.1, 0.3), ("b", 0.3): (-0.1, 0.05)}
    found = weigh(now(), "grpo", 4, weights=("a", "b"), overlaps=(0.0, 0.3))
    assert found.for_pass_at_1 is None  # the bracket of a holds both signs, and b is lower
    assert found.for_pass_at_k.weight == "a"
    first = found.brackets[0]
    assert first.overlap is None
    assert first.pass_at_1.sign == 0
    assert first.pass_at_1.low < -0.05
    assert first.pass_at_1.high > 0.05
    assert first.pass_at_1.value == pytest.approx(0.05)


def test_banks_that_disagree_leave_it_open(simulated, monkeypatch):
    said, _ = simulated
    said |= {("a", 0.0): (0.05, 0.05)}
    inner, calls = difficulty._simulated, []

    def disagreeing(rates, overlap, method, group_size):
        calls.append(method)
        sign = 1 if len(calls) <= 2 else -1  # of the first bank, and of the others
        return tuple(0.4 + sign * (own - 0.4) for own in inner(rates, overlap, method, group_size))

    monkeypatch.setattr(difficulty, "_simulated", disagreeing)
    found = weigh(now(), "grpo", 4, weights=("a",), overlaps=(0.0,))
    assert found.effects[0].pass_at_1.sign == 0
    assert found.for_pass_at_1 is None
    assert found.for_pass_at_k is None


def test_the_summary_names_the_weight_its_change_and_the_interval(simulated):
    said, _ = simulated
    said |= {("a", 0.0): (0.0, 0.1), ("a", 0.3): (0.0, 0.1)}
    found = weigh(now(), "grpo", 4, weights=("a",), overlaps=(0.0, 0.3))
    half = STUDENT * np.sqrt(0.0002 / 3) / 2
    interval = f"[{0.1 - half:+.3g}, {0.1 + half:+.3g}]"
    assert weights(found) == f"simulated; pass@1: none is surely higher; pass@64: a +0.1 {interval}"


@pytest.mark.slow
def test_the_simulator_says_what_a_weight_would_change():
    seen = population(log(bank("many at 0", 400, 0), 8, 1), LEVEL)
    found = weigh(seen, "grpo", 8, weights=("grpo", "easy_power(alpha=4)"), overlaps=(0.0, 0.3))
    assert [(own.weight, own.overlap) for own in found.effects] == [
        ("easy_power(alpha=4)", 0.0),
        ("easy_power(alpha=4)", 0.3),
    ]
    assert found.effects[0].pass_at_1.sign < 0  # it learns from what is solved already
    assert all(own.pass_at_1.low <= own.pass_at_1.value <= own.pass_at_1.high for own in found.effects)
    assert found.for_pass_at_1 is None


@pytest.mark.slow
def test_the_command_simulates_weights(tmp_path, capsys):
    path, out = tmp_path / "log.jsonl", tmp_path / "found.json"
    rows = ({"prompt": f"p{i % 20}", "reward": float(i % 20 > i // 20 + 6)} for i in range(160))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["diagnose", str(path), "--simulate", "--json", str(out)]) == 0
    assert "weights   simulated; pass@1: " in capsys.readouterr().out
    found = json.loads(out.read_text())["diagnosis"]["weights"]
    assert len(found["effects"]) == len(difficulty.WEIGHTS) * len(difficulty.OVERLAPS)
    for own in (*found["effects"], *found["brackets"]):
        for change in (own["pass_at_1"], own["pass_at_k"]):
            assert -1 <= change["low"] <= change["value"] <= change["high"] <= 1
