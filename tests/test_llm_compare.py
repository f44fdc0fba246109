"""``simlab compare``: run folders read, the table and the figure, against numbers worked out by hand."""

import math
import re
import statistics

import numpy as np
import pytest
from run_folders import evaluation, metrics, write_run
from sweep_cases import refusal

from simlab.cli import main
from simlab.llm.compare import comparison_table, read_run
from simlab.llm.compare.figure import comparison_figure, histogram_figure
from simlab.plotting import save_figure

STARTS = {seed: evaluation(0, [seed, 0, 1, 2]) for seed in (0, 1, 2)}
ARMS = {
    "grpo": {
        seed: (
            metrics([(step + seed) / 40 for step in range(20)]),
            [evaluation(10, [4 + seed, 0, 2, 8]), evaluation(20, [5 + seed, 0, 3 - seed, 8], [1, 0, 1, 3])],
        )
        for seed in (0, 1, 2)
    },
    "f_grpo(gamma=0.5)": {
        seed: (
            metrics([(step + 3 * seed) / 50 for step in range(20)]),
            [evaluation(10, [8, 1, 2, 8]), evaluation(20, [6 + seed, 1 + seed, 2, 7], [2, 1, 2, 4])],
        )
        for seed in (0, 1, 2)
    },
}
ONE_SEED = {name: {1: seeds[1]} for name, seeds in ARMS.items()}


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    """Two arms, three seeds, 20 steps, four problems of eight samples."""
    return read_run(write_run(tmp_path_factory.mktemp("runs") / "three", ARMS, STARTS))


@pytest.fixture(scope="module")
def one_seed(tmp_path_factory):
    return read_run(write_run(tmp_path_factory.mktemp("runs") / "one", ONE_SEED, {1: STARTS[1]}))


@pytest.fixture
def written(tmp_path):
    return lambda name, *content, **settings: read_run(write_run(tmp_path / name, *content, **settings))


def naive_pass_at_k(correct, k, samples=8):
    return statistics.mean(1 - math.comb(samples - count, k) / math.comb(samples, k) for count in correct)


def rows_of(text):
    lines = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in text.splitlines()]
    return {cells[0]: cells[1:] for cells in lines if len(cells) > 2}


def mean_and_interval(cell):
    mean, low, high = cell.replace("[", "").replace("]", "").replace(",", "").split()
    return float(mean), float(low), float(high)


def interval_over_both(rows, low, high, seed_t=4.302653, problem_t=3.182446):
    """The t-interval over three seeds (rows), widened by the variance of four problems.

    It is symmetric for the logarithm of (mean - low) / (high - mean).
    """
    seeds, problems = len(rows), len(rows[0])
    of_seeds, of_problems = [*map(statistics.mean, rows)], [*map(statistics.mean, zip(*rows, strict=True))]
    whole = statistics.mean(of_seeds)
    left = sum((rows[s][p] - of_seeds[s] - of_problems[p] + whole) ** 2 for s in range(seeds) for p in range(problems))
    added = statistics.variance(of_problems) - left / ((seeds - 1) * (problems - 1) * seeds)
    half = math.sqrt(seed_t**2 * statistics.variance(of_seeds) / seeds + problem_t**2 * max(0, added) / problems)
    odds = (whole - low) / (high - whole)
    step = half * (1 / (whole - low) + 1 / (high - whole))
    ends = [odds * math.exp(sign * step) for sign in (-1, 1)]
    return whole, *((low + high * end) / (1 + end) for end in ends)


def mean_and_error(cell):
    mean, _, error = cell.rstrip(")").partition("(")
    return float(mean), int(error) * 10.0 ** -len(mean.partition(".")[2])


def test_metrics_are_arrays_over_steps(written):
    lines = metrics([0.25, None, 1], masses=[[0.5, None], [1, 2, 3], [4]], gaps=[[], None, 2])
    lines[2]["late"] = 7
    arrays = written("run", {"grpo": {3: (lines, [evaluation(3, [1, 0])])}}).arms["grpo"][3].metrics
    np.testing.assert_array_equal(arrays["step"], [1, 2, 3])
    np.testing.assert_array_equal(arrays["reward"], [0.25, np.nan, 1])
    np.testing.assert_array_equal(arrays["masses"], [[0.5, np.nan, np.nan], [1, 2, 3], [4, np.nan, np.nan]])
    np.testing.assert_array_equal(arrays["gaps"], [[np.nan], [np.nan], [2]])
    np.testing.assert_array_equal(arrays["late"], [np.nan, np.nan, 7])


def test_a_run_that_was_killed_is_read_as_far_as_it_came(tmp_path):
    folder = write_run(tmp_path / "run", {"grpo": ONE_SEED["grpo"], "maxrl": {}})
    path = folder / "arms" / "grpo" / "seed-1" / "metrics.jsonl"
    content = path.read_bytes()
    start = content.rindex(b"{")
    for end in range(start, len(content) - 1, 14):
        path.write_bytes(content[:end])
        run = read_run(folder)
        assert run.arms["grpo"][1].metrics["step"].tolist() == [*range(1, 20)]
        assert run.arms["maxrl"] == {}
    (path.parent / "evaluation.jsonl").unlink()
    assert read_run(folder).arms["grpo"][1].evaluations == ()


def test_a_step_that_is_written_twice_counts_as_it_was_written_last(written):
    """A run that goes on from the checkpoint of step 2 writes step 3 once more."""
    lines = [*metrics([1, 2, 3]), *metrics([1, 2, 30, 40])[2:]]
    arrays = written("run", {"grpo": {0: (lines, [])}}).arms["grpo"][0].metrics
    assert arrays["step"].tolist() == [1, 2, 3, 4]
    assert arrays["reward"].tolist() == [1, 2, 30, 40]


@pytest.mark.parametrize(
    ("file", "change", "reason"),
    [
        ("run.json", lambda content: None, "is not a training run"),
        ("run.json", lambda content: b"{", "is no JSON"),
        ("run.json", lambda content: content.replace(b"grpo", b"ppo"), "run.json is damaged"),
        ("run.json", lambda content: b'{"arms": ["grpo"], "seeds": [1], "settings": {}}', "checksum is missing"),
        ("metrics.jsonl", lambda content: content.replace(b'{"step": 2,', b'"step": 2,'), "metrics.jsonl line 2"),
    ],
)
def test_a_damaged_file_is_named_in_one_line(tmp_path, file, change, reason):
    folder = write_run(tmp_path / "run", ONE_SEED)
    path = folder / file if file == "run.json" else folder / "arms" / "grpo" / "seed-1" / file
    content = change(path.read_bytes())
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    assert reason in refusal(read_run, folder)


# The table


def test_a_row_has_means_over_seeds_and_their_standard_errors(three):
    text = comparison_table([three])
    assert text.splitlines()[0] == (
        "last evaluation; mean over seeds (standard error of the last digits), "
        "of evaluations [95 % interval over seeds and problems]"
    )
    rows = rows_of(text)
    assert list(rows) == ["arm", "start", "grpo", "f_grpo(gamma=0.5)"]
    assert rows["arm"] == ["seeds", "steps", "reward", "entropy", "pass@1", "pass@4", "distinct"]
    assert rows["start"][:4] == ["3", "0", "-", "-"]
    seeds = {"start": [STARTS[seed] for seed in range(3)]}
    seeds |= {name: [runs[seed][1][-1] for seed in range(3)] for name, runs in ARMS.items()}
    for name, lines in seeds.items():
        for k, cell in ((1, rows[name][4]), (4, rows[name][5])):
            each = [[naive_pass_at_k([count], k) for count in line["correct"]] for line in lines]
            assert mean_and_interval(cell) == pytest.approx(interval_over_both(each, 0, 1), abs=5.1e-4)
        each = [line["distinct"] for line in lines]
        assert mean_and_interval(rows[name][6]) == pytest.approx(interval_over_both(each, 0, 8), abs=5.1e-3)


def test_reward_and_entropy_are_of_the_last_tenth_of_the_steps_up_to_the_evaluation(three):
    """Steps 19 and 20 of 20, step 10 of 10."""
    for at, steps in (("last", (19, 20)), (10, (10,))):
        rows = rows_of(comparison_table([three], at=at))
        each = [statistics.mean((step - 1 + seed) / 40 for step in steps) for seed in range(3)]
        expected = statistics.mean(each), statistics.stdev(each) / 3**0.5
        assert mean_and_error(rows["grpo"][2]) == pytest.approx(expected, abs=5.1e-4)
        quarter = expected[0] / 4, expected[1] / 4
        assert mean_and_error(rows["grpo"][3]) == pytest.approx(quarter, abs=5.1e-4)


PARTS = {
    "rewards/correct/mean": [0.5] * 18 + [0.25, 0.75], "rewards/correct/spread": [0.2] * 20,
    "rewards/correct/silent": [0.75] * 20, "rewards/correct/driven": [0.9] * 19 + [None],
    "rewards/form/mean": [0.75] * 20, "rewards/form/spread": [0.1] * 20,
    "rewards/form/silent": [0.5] * 20, "rewards/form/driven": [0.5] * 18 + [0.25, None],
}  # fmt: skip


@pytest.fixture
def parted(written):
    """Two arms of four seeds, the first with parts of its rewards."""
    line = [evaluation(20, [5, 0, 3, 8])]
    lines = {seed: metrics([seed / 4] * 20, **PARTS) for seed in range(4)}
    plain = {seed: (metrics([0.5] * 20), line) for seed in range(4)}
    return written("parted", {"grpo": {seed: (lines[seed], line) for seed in range(4)}, "maxrl": plain})


def test_parts_of_the_reward_have_a_row_each(parted):
    text = comparison_table([parted])
    table = [line.split() for line in text[text.index("parts of the reward") :].splitlines()[1:]]
    assert table == [
        ["arm", "part", "mean", "spread", "silent", "driven"],
        ["grpo", "correct", "0.500(0)", "0.200(0)", "0.750(0)", "0.900(0)"],
        ["grpo", "form", "0.750(0)", "0.100(0)", "0.500(0)", "0.250(0)"],
    ]


def test_one_seed_has_the_interval_over_problems(three, one_seed):
    text = comparison_table([one_seed])
    assert text.splitlines()[0] == "last evaluation; of one seed [95 % interval over problems]"
    for cell in rows_of(text)["grpo"][4:]:
        mean, low, high = mean_and_interval(cell)
        assert low < mean < high
    assert "(" not in "".join(rows_of(text)["grpo"])
    head = comparison_table([three, one_seed]).splitlines()[0]
    assert head.endswith("[95 % interval over seeds and problems]; of one seed [95 % interval over problems]")


def test_the_evaluation_is_the_last_the_best_or_that_of_a_step(written):
    """The best is the first of those with the highest pass@1."""
    lines = [evaluation(10, [8, 1, 2, 8]), evaluation(15, [8, 2, 1, 8]), evaluation(20, [8, 0, 0, 8])]
    run = written("run", {"grpo": {0: (metrics([1] * 20), lines)}})
    for at, steps, pass_at_1 in (("last", "20", "0.50"), ("best", "10", "0.59"), (10, "10", "0.59")):
        row = rows_of(comparison_table([run], at=at))["grpo"]
        assert (row[1], row[4][:4]) == (steps, pass_at_1)


def test_the_start_is_the_warm_start_or_the_evaluation_at_step_0(written, one_seed):
    arms = {"grpo": {0: (metrics([0.5]), [STARTS[1], evaluation(1, [8, 8, 8, 8])])}}
    of_arm, warm = (rows_of(comparison_table([run])) for run in (written("arm", arms), one_seed))
    assert of_arm["start"] == warm["start"]
    none = {"grpo": {0: (metrics([0.5]), [evaluation(1, [8, 8, 8, 8])])}}
    assert "start" not in comparison_table([written("none", none)])


def test_arms_of_one_name_are_told_apart_by_their_folders(written, three, one_seed):
    assert [name for name in rows_of(comparison_table([three, one_seed])) if "grpo" in name] == [
        "three/grpo", "three/f_grpo(gamma=0.5)", "one/grpo", "one/f_grpo(gamma=0.5)",
    ]  # fmt: skip
    other = written("other/three", {"grpo": ARMS["grpo"]})
    names = list(rows_of(comparison_table([three, other])))
    assert names[1:] == ["start", f"{three.folder}/grpo", "f_grpo(gamma=0.5)", f"{other.folder}/grpo"]


def test_arms_without_evaluation_and_seeds_at_other_steps_are_shown_as_they_are(written):
    arms = {
        "grpo": {0: ARMS["grpo"][0], 1: (metrics([0.5] * 12), ARMS["grpo"][1][1][:1])},
        "maxrl": {0: (metrics([0.5]), [])},
    }
    text = comparison_table([written("run", arms)])
    assert rows_of(text)["grpo"][:2] == ["2", "10-20"]
    assert "maxrl: not evaluated yet" in text


def test_the_k_are_those_asked_for_or_powers_of_4(three):
    assert rows_of(comparison_table([three], pass_at_k=[8, 2]))["arm"][4:6] == ["pass@8", "pass@2"]
    assert "pass@9" in refusal(comparison_table, [three], pass_at_k=[1, 9])
    assert "[1, inf)" in refusal(comparison_table, [three], pass_at_k=[0])


# Against a baseline


def test_differences_are_paired_by_seed_and_problem(three):
    text = comparison_table([three], baseline="grpo").partition("\n\n")[2]
    assert text.startswith(
        "difference from grpo: would other seeds and problems show it too? paired by seed and problem; mean"
    )
    row = rows_of(text.partition("\n\n")[0])["f_grpo(gamma=0.5)"]
    hits, other = ([ARMS[name][seed][1][-1]["correct"] for seed in range(3)] for name in ("f_grpo(gamma=0.5)", "grpo"))
    for k, cell in ((1, row[3]), (4, row[4])):
        each = [
            [naive_pass_at_k([a], k) - naive_pass_at_k([b], k) for a, b in zip(mine, theirs, strict=True)]
            for mine, theirs in zip(hits, other, strict=True)
        ]
        assert cell[0] in "+-"
        assert mean_and_interval(cell) == pytest.approx(interval_over_both(each, -1, 1), abs=5.1e-4)


def test_one_sentence_says_what_the_seeds_show_and_what_not(written, three, one_seed):
    """The difference of each measure is the same in all seeds, but for a little."""

    def arm(shift):
        return {
            seed: (metrics([0.5 + shift * (5 + seed) / 100] * 20), [evaluation(20, [4 + shift * (2 + seed % 2)] * 4)])
            for seed in range(4)
        }

    run = written("apart", {"grpo": arm(0), "above": arm(1), "below": arm(-1)})
    lines = comparison_table([run], baseline="grpo", pass_at_k=[1]).splitlines()
    assert "in short: above is higher in reward, entropy, pass@1, by 4 seeds and intervals without 0" in lines
    assert "in short: below is lower in reward, entropy, pass@1, by 4 seeds and intervals without 0" in lines
    few = "in short: 3 seeds are too few to say how f_grpo(gamma=0.5) differs; 4 or more may tell"
    assert few in comparison_table([three], baseline="grpo").splitlines()
    single = comparison_table([one_seed], baseline="grpo")
    assert "in short" not in single
    assert "difference from grpo: would other problems show it too? paired" in single


def seeds_of(*rows):
    """A training for each row of correct completions."""
    return {seed: (metrics([0.5]), [evaluation(1, row)]) for seed, row in enumerate(rows)}


BETTER = seeds_of([5, 4, 6, 5], [6, 4, 6, 5], [5, 5, 6, 5], [5, 4, 7, 5])
SAME = seeds_of([2, 4, 2, 1], [1, 3, 4, 2], [4, 1, 3, 2], [3, 2, 1, 4])
CHANCE = seeds_of([3, 2, 3, 2], [2, 3, 3, 1], [3, 2, 2, 3], [2, 3, 2, 3])
PLACEBO = "f_grpo(gamma=0.50)@reward=placebo@group_size=4"


def test_an_arm_is_told_from_its_placebo_or_not(written):
    """The placebo is that of its own method, in any spelling."""
    arms = {"grpo": BETTER, "f_grpo(gamma=0.5)@group_size=4": SAME, "grpo@reward=placebo_by_group": CHANCE}
    run = written("placebo", arms | {PLACEBO: CHANCE})
    lines = [line for line in comparison_table([run], pass_at_k=[1, 4]).splitlines() if "paired by" in line]
    assert [line.partition(":")[0] for line in lines] == [
        "grpo is told from grpo@reward=placebo_by_group in pass@1 and pass@4",
        f"f_grpo(gamma=0.5)@group_size=4 is not told from {PLACEBO}",
    ]
    table = comparison_table([run], pass_at_k=[1, 4], baseline=PLACEBO)
    cells = rows_of(table[table.index("difference from") : table.index("in short")])["grpo"]
    assert f"pass@1 {cells[3]}, pass@4 {cells[4]}, paired by 4 seeds" in lines[0]


def test_a_run_may_be_the_placebo_of_another_and_few_seeds_tell_nothing(written):
    paid = written("paid", {"grpo": BETTER, "maxrl": {0: BETTER[0]}})
    text = comparison_table([paid, written("dealt", {"grpo": CHANCE}, rl={"reward": "placebo_by_group"})])
    assert "paid/grpo is told from dealt/grpo in pass@1" in text
    assert "1 seed is too few to say if maxrl differs from dealt/grpo; 4 or more may tell" in text


def test_an_interval_of_different_solutions_ends_at_the_samples_of_a_problem(written):
    """One of two seeds has found all of 8 for one problem in 4: without a bound it went to thousands."""
    seeds = {
        0: (metrics([0.5]), [evaluation(1, [8] * 4, [8, 0, 0, 0])]),
        1: (metrics([0.5]), [evaluation(1, [8] * 4, [0] * 4)]),
    }
    run = written("few", {"grpo": seeds, "maxrl": {seed: seeds[1 - seed] for seed in seeds}})
    table, differences = comparison_table([run], baseline="grpo").split("difference from grpo")
    for text, least in ((table, 0), (differences, -8)):
        low, high = map(
            float,
            re.findall(r"\[(\S+), (\S+)\]", next(line for line in text.splitlines() if line.startswith("maxrl")))[-1],
        )
        assert least <= low < high <= 8


def test_an_arm_without_a_common_seed_is_named(written, one_seed):
    other = written("other", {"maxrl": {0: ARMS["grpo"][0]}})
    assert "grpo: no seed in common with maxrl" in comparison_table([one_seed, other], baseline="maxrl").splitlines()


def test_the_baseline_is_found_in_any_spelling(written, three):
    expected = comparison_table([three], baseline="f_grpo(gamma=0.5)")
    assert "difference from f_grpo(gamma=0.5)" in expected
    assert comparison_table([three], baseline=" f_grpo ( gamma = 5e-1 ) ") == expected
    arms = dict.fromkeys(("f_grpo(base=rloo,gamma=2)", "f_grpo(gamma=1.0)", "f_grpo(gamma=1)"), ARMS["grpo"])
    runs = [written(folder, arms) for folder in ("first", "second")]
    text = comparison_table(runs, baseline="second/f_grpo( gamma=2.0, base=rloo )")
    assert "difference from second/f_grpo(base=rloo,gamma=2)" in text
    assert "is no evaluated arm" in refusal(comparison_table, runs, baseline="f_grpo( gamma=2.0, base=rloo )")
    # The spelling of the baseline itself comes first.
    assert "difference from f_grpo(gamma=1):" in comparison_table(runs[:1], baseline="f_grpo(gamma=1)")
    line = refusal(comparison_table, [three], baseline="ppo")
    assert line.startswith("baseline 'ppo'")
    assert "grpo, f_grpo(gamma=0.5)" in line


def test_runs_that_do_not_compare_are_refused(written, one_seed):
    other = written("other", {"grpo": {0: (metrics([1]), [evaluation(1, [1, 2])])}})
    for call in (comparison_table, comparison_figure):
        assert "evaluation problems differ: 2 in " in refusal(call, [one_seed, other])
    bare = written("bare", {"grpo": {0: (metrics([1]), [])}}, {0: STARTS[0]})
    assert "bare has no evaluation" in refusal(comparison_table, [one_seed, bare])
    assert "twice" in refusal(comparison_table, [one_seed, one_seed])
    assert "no run" in refusal(comparison_table, [])


def test_at_equal_rollouts_each_arm_shows_its_last_evaluation_within_them(written):
    """Arms of other group sizes take other steps: 20 steps of 4 x 2 rollouts are 10 of 4 x 4."""
    arms = {"grpo": ARMS["grpo"], "grpo@group_size=4": ARMS["f_grpo(gamma=0.5)"]}
    run = written("run", arms, STARTS, rl={"prompts": 4, "group_size": 2})
    rows = rows_of(text := comparison_table([run], at="rollouts=160", pass_at_k=[1]))
    assert text.splitlines()[0].startswith("last evaluation within 160 rollouts")
    assert [rows[name][1] for name in arms] == ["20", "10"]
    few = comparison_table([run], at="rollouts=159", pass_at_k=[1])
    assert [rows_of(few)["grpo"][1], "grpo@group_size=4" in rows_of(few)] == ["10", False]
    assert "grpo@group_size=4: 0 of 3 seeds have a last evaluation within 159 rollouts" in few


def test_at_equal_pass_at_1_each_seed_shows_the_first_evaluation_that_reaches_it(three):
    """grpo has 14, 15, 16 of 4 x 8 samples right after 10 steps and 16 always after 20; f_grpo has 19 after 10."""
    rows = rows_of(text := comparison_table([three], at="pass@1=0.5", pass_at_k=[1, 8]))
    assert text.splitlines()[0].startswith("first evaluation with a pass@1 of 0.5 or more")
    assert [rows[name][1] for name in ARMS] == ["10-20", "10"]
    higher = comparison_table([three], at="pass@1=0.55", pass_at_k=[1])
    assert "grpo: 0 of 3 seeds have a first evaluation with a pass@1 of 0.55 or more" in higher
    assert "does not say its prompts" in refusal(comparison_table, [three], at="rollouts=100")
    assert "not evaluated at 15" in refusal(comparison_table, [three], at=15)


# The figure


def panels_of(figure):
    return {axes.get_title(loc="left").partition(" ")[2]: axes for axes in figure.axes}


def band_of(axes, number):
    (path,) = axes.collections[number].get_paths()
    corners = path.vertices
    return [
        (corners[corners[:, 0] == x, 1].min(), corners[corners[:, 0] == x, 1].max()) for x in np.unique(corners[:, 0])
    ]


def test_the_figure_has_means_over_seeds_and_shows_three_seeds_themselves(three):
    panels = panels_of(comparison_figure([three]))
    assert list(panels) == ["reward", "entropy", "pass@1", "pass@8", "distinct solutions", "pass@k, last evaluation"]
    line = panels["reward"].lines[0]
    np.testing.assert_allclose(line.get_xdata(), np.arange(1, 21))
    np.testing.assert_allclose(line.get_ydata(), (np.arange(20) + 1) / 40)
    assert not panels["reward"].collections  # three seeds are too few for a band: they are drawn, 1/40 apart
    np.testing.assert_allclose([seed.get_ydata()[4] for seed in panels["reward"].lines[1:4]], [4 / 40, 5 / 40, 6 / 40])
    level, grpo, *_ = panels["pass@1"].lines
    start = statistics.mean(naive_pass_at_k(line["correct"], 1) for line in STARTS.values())
    np.testing.assert_allclose(level.get_ydata(), start)
    assert grpo.get_xdata().tolist() == [0, 10, 20]
    assert grpo.get_ydata()[0] == pytest.approx(start)
    grpo = panels["pass@k, last evaluation"].lines[0]
    assert grpo.get_xdata().tolist() == [1, 2, 4, 8]
    lines = [ARMS["grpo"][seed][1][-1]["correct"] for seed in range(3)]
    for k, value in zip((1, 2, 4, 8), grpo.get_ydata(), strict=True):
        assert value == pytest.approx(statistics.mean(naive_pass_at_k(correct, k) for correct in lines))


def test_a_baseline_adds_the_paired_differences(three):
    panels = panels_of(comparison_figure([three], baseline="grpo"))
    assert list(panels)[6:] == ["pass@1, difference", "pass@8, difference", "pass@k, difference"]
    pairs = [(ARMS["f_grpo(gamma=0.5)"][seed][1][-1], ARMS["grpo"][seed][1][-1]) for seed in range(3)]
    for k, panel, index in ((1, "pass@1", -1), (8, "pass@8", -1), (4, "pass@k", 2)):
        shares, other = ([naive_pass_at_k(pair[side]["correct"], k) for pair in pairs] for side in (0, 1))
        level, line, *seeds = panels[f"{panel}, difference"].lines
        assert set(level.get_ydata()) == {0}
        assert line.get_ydata()[index] == pytest.approx(statistics.mean(shares) - statistics.mean(other))
        each = [seed.get_ydata()[index] for seed in seeds]
        assert each == pytest.approx([a - b for a, b in zip(shares, other, strict=True)])
    assert "ppo" in refusal(comparison_figure, [three], baseline="ppo")


def test_four_seeds_have_a_band_that_stays_between_0_and_1(written):
    """The rewards of each step are 0, 0, 0 and 1, whose t-interval is .25 +- 3.18 x .25."""
    seeds = {seed: (metrics([float(seed == 3)] * 2), [evaluation(2, [seed, 1])]) for seed in range(4)}
    panels = panels_of(comparison_figure([written("run", {"grpo": seeds})]))
    low, high = band_of(panels["reward"], 0)[0]
    step = 3.182446 * 0.25 * (1 / 0.25 + 1 / 0.75)
    odds = [math.exp(sign * step) / 3 for sign in (-1, 1)]
    np.testing.assert_allclose([low, high], [each / (1 + each) for each in odds], rtol=1e-6)
    assert 0 < low < high < 1


@pytest.mark.slow
def test_a_figure_is_the_same_file_every_time(tmp_path, one_seed):
    paths = tmp_path / "first.svg", tmp_path / "second.svg"
    for path in paths:
        save_figure(comparison_figure([one_seed]), path)
    assert paths[0].read_bytes() == paths[1].read_bytes()


# The command


def test_the_command_prints_the_table_and_draws_the_figure(tmp_path, capsys, three):
    figure = tmp_path / "new" / "figure.png"
    arguments = ["--figure", str(figure), "--at", "10", "--pass-at-k", "2,4,...,8", "--baseline", "grpo"]
    assert main(["compare", str(three.folder), *arguments]) == 0
    printed = capsys.readouterr().out
    table = comparison_table([three], at=10, pass_at_k=[2, 4, 8], baseline="grpo")
    assert printed == f"{table}\n\nfigure  {figure}\n"
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_the_command_refuses_bad_input_in_one_line(capsys, monkeypatch, one_seed):
    monkeypatch.chdir(one_seed.folder)
    for arguments, reason in (
        (["missing"], "missing is not a training run"),
        (["--at", "lst"], "argument --at: 'lst'"),
        (["--at", "pass@1=high"], "argument --at: 'pass@1=high'"),
        (["--pass-at-k", "1,,2"], "'1,,2'"),
        (["--fit", "nan"], "--fit = nan is outside its range [0, inf)"),
        (["--fit", "inf"], "--fit = inf is outside its range [0, inf)"),
        (["--fit", "-1"], "--fit = -1.0 is outside its range [0, inf)"),
    ):
        assert main(["compare", str(one_seed.folder), *arguments]) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        (complaint,) = printed.err.splitlines()
        assert reason in complaint
    assert not list(one_seed.folder.glob("*.png"))


# Histograms of tokens


def counted(step, index, candidates=()):
    line = {**evaluation(step, [4, 0]), "entropy_histogram": [0] * 41}
    line["entropy_histogram"][index] = 7
    if candidates:
        line["candidate_histogram"] = [[5 * (candidate == number) for number in range(10)] for candidate in candidates]
    return line


@pytest.fixture
def counted_run(tmp_path):
    arms = {"grpo": {seed: (metrics([0.5]), [counted(1, 10 * seed, (9 - seed, 0))]) for seed in (0, 1)}}
    return write_run(tmp_path / "run", arms, {seed: counted(0, 20, (5, 1, 0)) for seed in (0, 1)})


def test_the_command_draws_them_beside_the_comparison(counted_run, tmp_path, capsys):
    out = tmp_path / "new" / "histograms.svg"
    options = ["compare", str(counted_run), "--figure", str(tmp_path / "a.svg")]
    assert main([*options, "--histograms", str(out)]) == 0
    assert out.stat().st_size > 1000
    assert capsys.readouterr().out.splitlines()[-1] == f"figure  {out}"
    assert main([*options, "--histograms", str(tmp_path / "a.svg")]) == 2
    assert "allowed: a path each" in capsys.readouterr().err


def test_runs_without_histograms_are_refused(written):
    run = written("old", {"grpo": {0: (metrics([0.5]), [evaluation(1, [4, 0])])}})
    assert "grpo has no histogram" in refusal(histogram_figure, [run])
