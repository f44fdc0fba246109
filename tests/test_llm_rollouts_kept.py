"""Rollouts that a run keeps, and the command that shows them."""

import json
import shutil

import numpy as np
import pytest
from pyarrow import parquet
from training_cases import settings, task

from simlab.cli import main
from simlab.diagnose.reading import read_log
from simlab.llm.training.lines import read_lines
from simlab.llm.training.policy_gradient import Trainer
from simlab.llm.training.run import train

pytestmark = pytest.mark.usefixtures("quickly")


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A run of two steps that keeps three of four groups, and the groups and advantages of each step."""
    out, seen, step = tmp_path_factory.mktemp("run") / "run", [], Trainer.step

    def watched(trainer, state, key, instruments, watch):
        def both(groups, advantages):
            seen.append((groups, advantages))
            watch(groups, advantages)

        return step(trainer, state, key, instruments, both)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "step", watched)
        train(settings({"record": {"rollouts": 15}}), out, own_task=task())
    return out, seen


def test_whole_groups_are_kept_as_they_were_learnt_from(kept):
    out, seen = kept
    lines = read_lines(out / "arms/grpo/seed-0/rollouts.jsonl").lines
    assert [line["step"] for line in lines] == [1, 2]
    vocabulary = task().vocabulary
    for line, (groups, advantages) in zip(lines, seen, strict=True):
        assert len(line["groups"]) == 3, "3 x 4 rollouts are at most 15"
        for place, group in enumerate(line["groups"]):
            assert group["prompt"] == groups.problems[place].prompt
            assert [one["reward"] for one in group["rollouts"]] == groups.rewards[place].tolist()
            assert tuple(one["solution"] for one in group["rollouts"]) == groups.solutions[place]
            for member, one in enumerate(group["rollouts"]):
                tokens = groups.batch.tokens[place, member][groups.batch.mask[place, member]]
                assert one["tokens"] == [vocabulary.decode([int(token)]) for token in tokens]
                np.testing.assert_allclose(one["logp"], groups.sampled.logp[place, member][: len(tokens)], atol=1e-5)
                np.testing.assert_allclose(one["advantages"], [advantages[place, member]] * len(tokens), atol=1e-5)


@pytest.mark.parametrize("most", [0, 3])
def test_nothing_is_kept_where_no_group_fits(tmp_path, most):
    train(settings({"record": {"rollouts": most}}), tmp_path / "run", own_task=task())
    assert not (tmp_path / "run/arms/grpo/seed-0/rollouts.jsonl").exists()


def test_the_command_shows_a_group_and_a_rollout_token_by_token(kept, capsys):
    out, seen = kept
    assert main(["rollouts", str(out), "--step", "1", "--prompt", "1"]) == 0
    shown = capsys.readouterr().out.splitlines()
    groups, advantages = seen[0]
    assert shown[0].startswith("grpo, seed 0, step 1, prompt 1 of 3 (unequal rewards: ")
    assert shown[1] == f"prompt: {groups.problems[1].prompt}"
    rows = [line.split() for line in shown[4:]]
    assert [row[:4] for row in rows] == [
        [str(n), f"{groups.rewards[1, n]:g}", groups.solutions[1][n] or "-", f"{advantages[1, n]:+.3f}"]
        for n in range(4)
    ]
    assert main(["rollouts", str(out), "--step", "1", "--prompt", "1", "--rollout", "2"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[1].startswith(f"rollout 2: reward {groups.rewards[1, 2]:g}, solution ")
    assert shown[2] == f"prompt: {groups.problems[1].prompt}"
    assert shown[3].startswith("text: ")
    tokens = shown[6:]
    assert len(tokens) == groups.batch.mask[1, 2].sum()
    assert {line.split()[2] for line in tokens} == {f"{advantages[1, 2]:+.3f}"}


def test_by_default_it_shows_unequal_rewards_of_the_last_step(kept, capsys):
    out, seen = kept
    assert main(["rollouts", str(out)]) == 0
    head = capsys.readouterr().out.splitlines()[0]
    mixed = [place for place in range(3) if len(set(seen[1][0].rewards[place])) > 1]
    assert head.startswith(f"grpo, seed 0, step 2, prompt {mixed[0] if mixed else 0} of 3")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--arm", "f_grpo"], "arm = 'f_grpo' is unknown (did you mean 'grpo'?); allowed: grpo"),
        (["--seed", "1"], "has no rollouts; allowed: runs of --engine simlab with record.rollouts above 0"),
        (["--step", "3"], "step 3 was not kept; allowed: 1 to 2"),
        (["--prompt", "3"], "prompt 3 was not kept; allowed: 0 to 2"),
        (["--prompt", "-1"], "prompt -1 was not kept; allowed: 0 to 2"),
        (["--rollout", "4"], "rollout 4 was not kept; allowed: 0 to 3"),
    ],
)
def test_what_was_not_kept_is_refused_in_one_line(kept, capsys, arguments, reason):
    assert main(["rollouts", str(kept[0]), *arguments]) == 2
    complaint = capsys.readouterr().err
    assert reason in complaint
    assert complaint.count("\n") == 1


def test_all_that_was_kept_is_written_as_trl_writes_it_and_diagnose_reads_it(kept, tmp_path, capsys):
    out, seen = kept
    path = tmp_path / "kept.parquet"
    assert main(["rollouts", str(out), "--parquet", str(path)]) == 0
    assert capsys.readouterr().out == f"24 rollouts in {path}\n"
    rows = parquet.read_table(path).to_pylist()
    places = [(step, prompt, member) for step in (0, 1) for prompt in range(3) for member in range(4)]
    for row, (step, prompt, member) in zip(rows, places, strict=True):
        groups, advantages = seen[step]
        own = groups.batch.tokens[prompt, member][groups.batch.mask[prompt, member]]
        assert list(row) == ["step", "prompt", "completion", "reward", "advantage"]
        assert row["step"] == step + 1
        assert row["prompt"] == groups.problems[prompt].prompt
        assert row["completion"] == task().vocabulary.decode(own.tolist()).removesuffix("<eos>")
        assert row["reward"] == groups.rewards[prompt, member]
        assert row["advantage"] == pytest.approx(advantages[prompt, member], abs=1e-5)
    log = read_log([path]).log
    assert log.format == "trl"
    assert log.refused.count == 0
    assert len(log.step) == 6, "groups"


def test_one_step_is_written_alone(kept, tmp_path):
    path = tmp_path / "kept.parquet"
    assert main(["rollouts", str(kept[0]), "--parquet", str(path), "--step", "2"]) == 0
    assert set(parquet.read_table(path)["step"].to_pylist()) == {2}


def test_what_is_no_text_of_utf_8_is_written_with_a_question_mark():
    from simlab.llm.rollouts_table import _encodable  # noqa: PLC0415

    assert _encodable("a\ud800b é") == "a?b é"


@pytest.mark.parametrize("arguments", [["--prompt", "0"], ["--rollout", "0"]])
def test_a_file_holds_whole_steps(kept, tmp_path, capsys, arguments):
    path = tmp_path / "kept.parquet"
    assert main(["rollouts", str(kept[0]), "--parquet", str(path), *arguments]) == 2
    assert f"{arguments[0]} chooses what is shown, and --parquet writes whole steps" in capsys.readouterr().err
    assert not path.exists()


def test_a_completion_cannot_command_the_terminal(tmp_path, capsys):
    """Escape sequences that a model writes are shown as text."""
    train(settings(), tmp_path / "run", own_task=task())
    path = tmp_path / "run/arms/grpo/seed-0/rollouts.jsonl"
    from simlab.llm.training.lines import as_lines, name_of  # noqa: PLC0415

    lines = json.loads(json.dumps(read_lines(path).lines))
    for line in lines:
        for group in line["groups"]:
            for one in group["rollouts"]:
                one["text"] = "\x1b[2J\x1b]0;owned\x07 \u202e\r\n"
    path.write_bytes(as_lines(lines, name_of(path))[0])
    assert main(["rollouts", str(tmp_path / "run")]) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "\\x1b[2J" in shown


def test_a_rollout_of_its_own_is_shown_whole(kept, tmp_path, capsys):
    """In a row of its group a long text is cut."""
    from simlab.llm.training.lines import as_lines, name_of  # noqa: PLC0415

    out = tmp_path / "run"
    shutil.copytree(kept[0], out)
    path = out / "arms/grpo/seed-0/rollouts.jsonl"
    lines = json.loads(json.dumps(read_lines(path).lines))
    group = lines[-1]["groups"][0]
    group["prompt"], group["rollouts"][0]["text"] = "why " * 300, "since " * 300
    path.write_bytes(as_lines(lines, name_of(path))[0])
    assert main(["rollouts", str(out), "--prompt", "0"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) < 420
    assert main(["rollouts", str(out), "--prompt", "0", "--rollout", "0"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[2:4] == ["prompt: " + "why " * 300, "text: " + "since " * 300]
