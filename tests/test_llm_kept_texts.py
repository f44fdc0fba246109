"""Rollouts and completions that a run keeps with their texts, and the command that shows them."""

import json
import shutil

import numpy as np
import pytest
from pyarrow import parquet
from training_cases import TwoSets, contents, settings, task

from simlab.cli import main
from simlab.diagnose.reading import read_log
from simlab.llm.training.evaluate import Evaluator
from simlab.llm.training.folder import ArmFolder, read_lines
from simlab.llm.training.policy_gradient import Trainer
from simlab.llm.training.run import train

pytestmark = [pytest.mark.usefixtures("quickly"), pytest.mark.slow]  # its runs take seconds
# Three of four groups of four are kept. Evaluated are four problems in the set near and three in far, three and two of
# them sampled at once, four samples of each.
ASKED = {
    "rl": {"steps": 3}, "evaluation": {"every": 2, "rollouts": 12}, "record": {"rollouts": 15, "completions": 6},
}  # fmt: skip
ROLLOUTS, COMPLETIONS = (f"arms/grpo/seed-0/{name}.jsonl" for name in ("rollouts", "completions"))


def two_sets():
    return TwoSets(**vars(task()))


def text_of(tokens, mask):
    return task().vocabulary.decode(tokens[mask].tolist()).removesuffix("<eos>")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out, steps, sets = tmp_path_factory.mktemp("run") / "run", [], []
    step, evaluate_set = Trainer.step, Evaluator.evaluate_set

    def watched_step(trainer, state, key, instruments, watch):
        def both(groups, advantages):
            steps.append((groups, advantages))
            watch(groups, advantages)

        return step(trainer, state, key, instruments, both)

    def watched_set(self, problems, parameters, key):
        result = evaluate_set(self, problems, parameters, key)
        groups, rows = result.groups, []
        for index, problem in enumerate(groups.problems):
            texts = map(text_of, groups.sampled.tokens[index], groups.sampled.mask[index])
            answers = zip(texts, groups.rewards[index].tolist(), groups.solutions[index], strict=True)
            rows.append((problem.prompt, list(answers)))
        sets.append(rows)
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "step", watched_step)
        patch.setattr(Evaluator, "evaluate_set", watched_set)
        train(settings(ASKED), out, own_task=two_sets())
    keys = [(number, name) for number in (0, 2, 3) for name in ("near", "far")]
    return out, steps, dict(zip(keys, sets, strict=True))


def test_whole_groups_are_kept_as_they_were_learnt_from(run):
    out, steps, _ = run
    lines = read_lines(out / ROLLOUTS)
    assert [line["step"] for line in lines] == [1, 2, 3]
    vocabulary = task().vocabulary
    for line, (groups, advantages) in zip(lines, steps, strict=True):
        assert len(line["groups"]) == 3, "3 x 4 rollouts are at most 15"
        for index, group in enumerate(line["groups"]):
            assert group["prompt"] == groups.problems[index].prompt
            assert [sample["reward"] for sample in group["rollouts"]] == groups.rewards[index].tolist()
            assert tuple(sample["solution"] for sample in group["rollouts"]) == groups.solutions[index]
            for member, sample in enumerate(group["rollouts"]):
                tokens = groups.batch.tokens[index, member][groups.batch.mask[index, member]]
                assert sample["tokens"] == [vocabulary.decode([int(token)]) for token in tokens]
                np.testing.assert_allclose(sample["logp"], groups.sampled.logp[index, member][: len(tokens)], atol=1e-5)
                np.testing.assert_allclose(sample["advantages"], [advantages[index, member]] * len(tokens), atol=1e-5)


def test_the_first_samples_of_all_problems_are_kept_as_they_were_drawn(run):
    out, _, sets = run
    start, arm = (read_lines(path) for path in (out / "start/seed-0/completions.jsonl", out / COMPLETIONS))
    assert [line["step"] for line in (*start, *arm)] == [0, 2, 3]
    samples = {"near": [2, 2, 1, 1], "far": [2, 2, 2]}
    for line in (*start, *arm):
        for name, problems in line["sets"].items():
            wanted = sets[line["step"], name]
            assert [problem["prompt"] for problem in problems] == [prompt for prompt, _ in wanted]
            assert [len(problem["completions"]) for problem in problems] == samples[name]
            for problem, (_, answers) in zip(problems, wanted, strict=True):
                for completion, answer in zip(problem["completions"], answers, strict=False):
                    assert (completion["text"], completion["reward"], completion["solution"]) == answer


def test_nothing_is_kept_where_nothing_is_to_be_and_numbers_do_not_depend_on_it(run, tmp_path):
    train(settings(ASKED, {"record": {"rollouts": 3, "completions": 0}}), tmp_path / "run", own_task=two_sets())
    without, with_texts = contents(tmp_path / "run"), contents(run[0])
    assert not any(name.endswith(("rollouts.jsonl", "completions.jsonl")) for name in without)
    for name in ("evaluation.jsonl", "metrics.jsonl", "model/model.safetensors"):
        assert without[f"arms/grpo/seed-0/{name}"] == with_texts[f"arms/grpo/seed-0/{name}"]


class Killed(BaseException):
    """Stands for a kill."""


def test_a_run_that_is_killed_between_completions_and_evaluation_leaves_the_same_file(run, tmp_path, monkeypatch):
    append = ArmFolder.append

    def dying(self, name, line):
        if name == "evaluation.jsonl" and line["step"] == 2:
            raise Killed
        append(self, name, line)

    out, asked = tmp_path / "run", settings(ASKED, {"record": {"checkpoint_every": 1}})
    with monkeypatch.context() as patch:
        patch.setattr(ArmFolder, "append", dying)
        with pytest.raises(Killed):
            train(asked, out, own_task=two_sets())
    train(asked, out, own_task=two_sets())
    for name in (COMPLETIONS, "start/seed-0/completions.jsonl", "arms/grpo/seed-0/evaluation.jsonl"):
        assert (out / name).read_bytes() == (run[0] / name).read_bytes()


# The command


def test_the_command_shows_a_group_and_a_rollout_token_by_token(run, capsys):
    out, steps, _ = run
    assert main(["rollouts", str(out), "--step", "1", "--prompt", "1"]) == 0
    shown = capsys.readouterr().out.splitlines()
    groups, advantages = steps[0]
    assert shown[0].startswith("grpo, seed 0, step 1, prompt 1 of 3 (unequal rewards: ")
    assert shown[1] == f"prompt: {groups.problems[1].prompt}"
    assert [line.split()[:4] for line in shown[4:]] == [
        [str(n), f"{groups.rewards[1, n]:g}", groups.solutions[1][n] or "-", f"{advantages[1, n]:+.3f}"]
        for n in range(4)
    ]
    assert main(["rollouts", str(out), "--step", "1", "--prompt", "1", "--rollout", "2"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[1].startswith(f"rollout 2: reward {groups.rewards[1, 2]:g}, solution ")
    assert shown[3].startswith("text: ")
    assert len(shown[6:]) == groups.batch.mask[1, 2].sum()
    assert {line.split()[2] for line in shown[6:]} == {f"{advantages[1, 2]:+.3f}"}


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--arm", "f_grpo"], "arm = 'f_grpo' is unknown (did you mean 'grpo'?)"),
        (["--seed", "-1"], "seed = -1 is outside its range [0, 0]"),
        (["--parquet", "kept.txt"], "--parquet kept.txt has the suffix '.txt'; allowed: .parquet"),
        (["--step", "4"], "step 4 was not kept; allowed: 1 to 3"),
        (["--evaluation", "near", "--step", "1"], "step 1 was not kept; allowed: 0, 2, 3"),
    ],
)
def test_what_was_not_kept_is_refused_in_one_line(run, capsys, arguments, reason):
    assert main(["rollouts", str(run[0]), *arguments]) == 2
    complaint = capsys.readouterr().err
    assert reason in complaint
    assert complaint.count("\n") == 1


def test_rollouts_are_written_as_trl_writes_them_and_diagnose_reads_them(run, tmp_path, capsys):
    out, steps, _ = run
    path = tmp_path / "kept.parquet"
    assert main(["rollouts", str(out), "--parquet", str(path)]) == 0
    assert capsys.readouterr().out == f"36 rollouts in {path}\n"
    rows = parquet.read_table(path).to_pylist()
    indices = [(step, prompt, member) for step in range(3) for prompt in range(3) for member in range(4)]
    for row, (step, prompt, member) in zip(rows, indices, strict=True):
        groups, advantages = steps[step]
        assert row == {
            "step": step + 1,
            "prompt": groups.problems[prompt].prompt,
            "completion": text_of(groups.batch.tokens[prompt, member], groups.batch.mask[prompt, member]),
            "reward": groups.rewards[prompt, member],
            "advantage": pytest.approx(advantages[prompt, member], abs=1e-5),
        }
    log = read_log([path]).log
    assert log.format == "trl"
    assert len(log.step) == 9, "groups"


@pytest.mark.parametrize(("arguments", "steps"), [([], [0, 2, 3]), (["--step", "2"], [2])])
def test_completions_are_written_as_rows_of_a_table(run, tmp_path, arguments, steps):
    out, _, sets = run
    path = tmp_path / "completions.parquet"
    assert main(["rollouts", str(out), "--evaluation", "near", "--parquet", str(path), *arguments]) == 0
    wanted = [
        {"step": step, "set": "near", "prompt": prompt, "sample": s, "completion": text, "reward": reward}
        for step in steps
        for index, (prompt, answers) in enumerate(sets[step, "near"])
        for s, (text, reward, _) in enumerate(answers[: 2 if index < 2 else 1])
    ]
    assert parquet.read_table(path).to_pylist() == wanted


def test_a_model_cannot_command_the_terminal_and_a_long_text_is_cut_in_a_row(run, tmp_path, capsys):
    out, text = tmp_path / "run", "\x1b[2J\x1b]0;owned\x07 \u202e\r\n" + "since " * 300
    shutil.copytree(run[0], out)
    for name in (ROLLOUTS, COMPLETIONS):
        lines = read_lines(out / name)
        groups = lines[-1]["groups"] if name == ROLLOUTS else lines[-1]["sets"]["near"]
        group = groups[0]
        group["prompt"] = "why " * 50
        group["rollouts" if name == ROLLOUTS else "completions"][0]["text"] = text
        (out / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    alone = ["--prompt", "0", "--rollout", "0"], ["--evaluation", "near", "--prompt", "0"]
    for arguments, width in (
        (["--prompt", "0"], 450),
        (["--evaluation", "near"], 200),
        *((options, 4000) for options in alone),
    ):
        assert main(["rollouts", str(out), *arguments]) == 0
        shown = capsys.readouterr().out
        assert "\\x1b[2J" in shown
        assert "\x1b" not in shown
        assert "\u202e" not in shown
        assert max(map(len, shown.splitlines())) < width
        assert ("since " * 300 in shown) == (width == 4000)


def test_a_damaged_file_of_texts_is_named(run, tmp_path, capsys):
    path = tmp_path / "run" / COMPLETIONS
    shutil.copytree(run[0], tmp_path / "run")
    path.write_bytes(path.read_bytes()[1:])
    assert main(["rollouts", str(tmp_path / "run"), "--evaluation", "near"]) == 2
    assert f"{path} line 1 is damaged" in capsys.readouterr().err
