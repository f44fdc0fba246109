"""Pass@k of two logs, or of the first and last steps of one, is compared as by counting subsets, and surely enough."""

import itertools
import json

import numpy as np
import pytest
from diagnose_logs import bank, plain, windows_of

from simlab.cli import main
from simlab.diagnose.against import compare, compare_logs, does_it_learn
from simlab.diagnose.reading import read_log

LEVEL = 0.9


def subsets(counts, k):
    """The mean over prompts of the share of k-subsets of its rollouts that hold a correct one."""
    shares = []
    for correct, size in counts:
        drawn = list(itertools.combinations([1] * correct + [0] * (size - correct), k))
        shares.append(sum(any(subset) for subset in drawn) / len(drawn))
    return sum(shares) / len(shares)


def write(path, counts, step=0):
    """Correct rollouts and rollouts of each prompt."""
    with path.open("a") as file:
        for prompt, (correct, size) in enumerate(counts):
            row = {"step": step, "prompt": f"{'the same beginning ' * 9}p{prompt}"}
            file.writelines(json.dumps(row | {"reward": int(rollout < correct)}) + "\n" for rollout in range(size))
    return path


# Prompts all solved now and then, and prompts half of them solved always.
WIDE = [(2, 8)] * 30 + [(3, 8)] * 9 + [(0, 8)] * 5
NARROW = [(8, 8)] * 22 + [(1, 8)] * 3 + [(0, 8)] * 19


def test_the_headline_says_both_ends_and_both_ways(tmp_path):
    base, trained = write(tmp_path / "base.jsonl", WIDE), write(tmp_path / "trained.jsonl", NARROW)
    finding = compare_logs(read_log([trained]), read_log([base]), ("base", "trained"), LEVEL)
    values = [subsets(counts, k) for k in (1, 8) for counts in (WIDE, NARROW)]
    assert finding.sentence.startswith("From base to trained, pass@1 .247 -> .509 (+.261 [")
    assert " while pass@8 .886 -> .568 (-.318 [" in finding.sentence
    assert values == pytest.approx([0.247, 0.509, 0.886, 0.568], abs=5e-4)
    assert len(finding.sentence.split()) <= 40
    assert finding.concern > 0.5
    rows = dict(finding.rows)
    for k in (1, 2, 4, 8):
        assert rows[f"change of pass@{k}"].value == pytest.approx(subsets(NARROW, k) - subsets(WIDE, k))
    assert rows["change of pass@1"].low > 0 > rows["change of pass@8"].high
    assert rows["prompts"] == "44 that both have"


def test_the_same_sentence_is_said_of_first_and_last_steps(tmp_path):
    path = tmp_path / "run.jsonl"
    for step, counts in enumerate((WIDE, WIDE, NARROW, NARROW)):
        write(path, counts, step=step)
    reading = read_log([path])
    finding = does_it_learn(reading, windows_of(reading))
    assert finding.sentence.startswith("It learns and narrows: pass@1 .247 -> .509 (+.261 [")
    assert {f"pass@8, step {step}" for step in range(4)} < dict(finding.rows).keys()
    once = read_log([write(tmp_path / "once.jsonl", WIDE)])
    assert does_it_learn(once, windows_of(once)) is None


def test_uneven_groups_count_prompt_by_prompt():
    """One aborted rollout does not shrink pass@k to pass@1, and values do not fall in k."""
    early, late = [(1, 8)] * 7 + [(1, 1)], [(5, 8)] * 7 + [(1, 1)]
    logs = [plain([c for c, _ in counts], [n for _, n in counts]) for counts in (early, late)]
    comparison = compare(logs, LEVEL)
    assert comparison.k == (1, 2, 4, 8)
    assert comparison.change[0].value == pytest.approx(subsets(late, 1) - subsets(early, 1))
    for curve in comparison.curves:
        values = [(each.low, each.value, each.high) for each in curve]
        assert (np.diff(values, axis=0) >= 0).all()
        assert np.min(values) >= 0
        assert np.max(values) <= 1


def test_prompts_in_common_make_a_difference_surer():
    first, last = [0] * 20 + [8] * 20, [1] * 20 + [8] * 20
    paired = compare([plain(first, 8), plain(last, 8)], LEVEL).change[0]
    others = compare([plain(first, 8), plain(last, 8, prompt=list(range(40, 80)))], LEVEL)
    assert others.prompts == "40 and 40, 0 of them in both"
    assert paired.value == others.change[0].value
    assert paired.high - paired.low < 0.7 * (others.change[0].high - others.change[0].low)


def test_what_is_always_right_has_an_interval():
    change = compare([plain([4] * 5, 4), plain([4] * 5, 4)], LEVEL).change[0]
    assert change.value == 0
    assert -1 <= change.low < 0 < change.high <= 1


def test_the_command_compares_with_an_earlier_log(tmp_path, capsys):
    """Texts of prompts are compared as a whole; they begin alike."""
    base = write(tmp_path / "base.jsonl", [(0, 1)] * 20)
    new = write(tmp_path / "new.jsonl", [(1, 1)] * 15 + [(0, 1)] * 5)
    out, page = tmp_path / "found.json", tmp_path / "page.html"
    assert main(["diagnose", str(new), "--against", str(base), "--json", str(out), "--html", str(page)]) == 0
    sentence = json.loads(out.read_text())["findings"][0]["sentence"]
    assert sentence.startswith("From base.jsonl to new.jsonl, pass@1 .000 -> .750 (+.750 [")
    assert sentence in " ".join(capsys.readouterr().out.split())
    assert "pass@1 .000 -&gt; .750" in page.read_text()


def test_metrics_are_not_compared(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "reward/mean": 0.5, "entropy": 1.0}\n' * 9)
    log = write(tmp_path / "log.jsonl", [(0, 1)] * 3)
    for paths in ((tmp_path / "metrics.jsonl", log), (log, tmp_path / "metrics.jsonl")):
        assert main(["diagnose", str(paths[0]), "--against", str(paths[1])]) == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "shared"), [("u-shaped", 1.0), ("u-shaped", 0.0), ("many at 1", 1.0), ("uniform", 0.6)]
)
def test_intervals_of_the_change_hold_the_truth(shape, shared):
    """Solve rates p become p^2; logs share some of their 60 prompts, 8 rollouts."""
    held, count = np.zeros(4), 200
    many = bank(shape, 200_000, 0).rates
    truth = [np.mean((1 - (1 - many**2) ** k) - (1 - (1 - many) ** k)) for k in (1, 2, 4, 8)]
    for seed in range(count):
        random, rates = np.random.default_rng([seed, 1]), bank(shape, 60, seed).rates
        late = np.where(np.arange(60) < 60 * shared, rates, bank(shape, 60, seed + 10_000).rates) ** 2
        prompts = np.where(np.arange(60) < 60 * shared, np.arange(60), np.arange(60, 120)).tolist()
        logs = [plain(random.binomial(8, rates).tolist(), 8), plain(random.binomial(8, late).tolist(), 8, prompts)]
        changes = compare(logs, LEVEL).change
        held += [change.low <= value <= change.high for change, value in zip(changes, truth, strict=True)]
    assert (held / count > 0.85).all()
