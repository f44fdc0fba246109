"""Completions that a run keeps of its evaluations, and the command that shows them."""

import json

import pytest
from pyarrow import parquet
from training_cases import TwoSets, contents, settings, task

from simlab.cli import main
from simlab.llm.tasks.base import Problem
from simlab.llm.training import arm
from simlab.llm.training.evaluator import Evaluator
from simlab.llm.training.folder import EVALUATIONS
from simlab.llm.training.kept_completions import kept_completions
from simlab.llm.training.lines import as_lines, name_of, read_lines
from simlab.llm.training.run import train

pytestmark = pytest.mark.usefixtures("quickly")
# Four problems in the set near and three in far, three and two of them sampled at once, four samples of each.
ASKED = {"rl": {"steps": 3}, "evaluation": {"every": 2, "rollouts": 12}, "record": {"completions": 6}}
SEED = "seed-0/completions.jsonl"


def two_sets():
    return TwoSets(**vars(task()))


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A run of two evaluation sets, and all completions of each evaluation: by step and set, a row a problem."""
    out, seen, evaluate_set = tmp_path_factory.mktemp("run") / "run", [], Evaluator._evaluate_set

    def watched(self, problems, parameters, key):
        found = evaluate_set(self, problems, parameters, key)
        rows = []
        groups = found.groups
        for place, problem in enumerate(groups.problems):
            tokens, mask = groups.sampled.tokens[place], groups.sampled.mask[place]
            texts = [task().vocabulary.decode(one[own].tolist()) for one, own in zip(tokens, mask, strict=True)]
            texts = [text.removesuffix("<eos>") for text in texts]
            answers = zip(texts, groups.rewards[place].tolist(), groups.solutions[place], strict=True)
            rows.append((problem.prompt, list(answers)))
        seen.append(rows)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Evaluator, "_evaluate_set", watched)
        train(settings(ASKED), out, own_task=two_sets())
    places = [(step, name) for step in (0, 2, 3) for name in ("near", "far")]
    return out, dict(zip(places, seen, strict=True))


def lines(out, step):
    path = out / "start" / SEED if step == 0 else out / "arms/grpo" / SEED
    return {line["step"]: line["sets"] for line in read_lines(path).lines}


def test_the_first_samples_of_all_problems_are_kept_as_they_were_drawn(kept):
    """Six of the set near are two of the first and second of its four problems, and one of the others."""
    out, seen = kept
    assert list(lines(out, 0)) == [0]
    assert list(lines(out, 2)) == [2, 3]
    samples = {"near": [2, 2, 1, 1], "far": [2, 2, 2]}
    for (step, name), rows in seen.items():
        found = lines(out, step)[step][name]
        assert [problem["prompt"] for problem in found] == [prompt for prompt, _ in rows]
        assert [len(problem["completions"]) for problem in found] == samples[name]
        for problem, (_, answers) in zip(found, rows, strict=True):
            for one, wanted in zip(problem["completions"], answers, strict=False):
                assert (one["text"], one["reward"], one["solution"]) == wanted


@pytest.mark.parametrize(("most", "samples"), [(0, []), (1, [1]), (3, [1, 1, 1]), (4, [1] * 4), (99, [4] * 4)])
def test_no_more_are_kept_than_is_asked_for_or_than_there_are(most, samples, tmp_path, monkeypatch):
    counted = []

    def watched(parts, reader, asked):
        assert asked == most
        found = kept_completions(parts, reader, asked)
        counted.append([len(problem["completions"]) for problem in found])
        return found

    monkeypatch.setattr("simlab.llm.training.evaluator.kept_completions", watched)
    train(settings({"record": {"completions": most}, "rl": {"steps": 1}}), tmp_path / "run", own_task=task())
    assert counted == [samples, samples], "at the start and at the end"
    assert len(list(tmp_path.rglob("completions.jsonl"))) == (2 if most else 0)


def test_the_models_of_a_run_do_not_depend_on_what_is_kept(kept, tmp_path):
    out = tmp_path / "run"
    train(settings(ASKED, {"record": {"completions": 0}}), out, own_task=two_sets())
    names = ["arms/grpo/seed-0/evaluation.jsonl", "arms/grpo/seed-0/model/model.safetensors"]
    with_texts, without = contents(kept[0]), contents(out)
    assert [with_texts[name] for name in names] == [without[name] for name in names]


# Kills


class Killed(BaseException):
    """Stands for a kill."""


def killed_before(what, out, monkeypatch, step):
    """The run of ``kept``, killed before it appends the completions or the evaluation of a step."""
    append = arm.ArmFolder.append

    def dying(self, name, line):
        if name == what and line["step"] == step:
            raise Killed
        append(self, name, line)

    with monkeypatch.context() as patch:
        patch.setattr(arm.ArmFolder, "append", dying)
        with pytest.raises(Killed):
            train(settings(ASKED, {"record": {"checkpoint_every": 1}}), out, own_task=two_sets())


@pytest.mark.parametrize("step", [2, 3])
@pytest.mark.parametrize("what", ["completions.jsonl", EVALUATIONS])
def test_a_run_that_is_killed_between_completions_and_evaluation_leaves_the_same_file(
    what, step, kept, tmp_path, monkeypatch
):
    """Also if the checkpoint is of the very step that is evaluated, as where Ctrl-C was pressed in it."""
    out = tmp_path / "run"
    asked = settings(ASKED, {"record": {"checkpoint_every": 1}})
    killed_before(what, out, monkeypatch, step)
    with monkeypatch.context() as patch:  # stopped before the evaluation, once its step is done
        patch.setattr("simlab.llm.training.arm_steps._evaluate", lambda arm, state: interrupted())
        with pytest.raises(KeyboardInterrupt):
            train(asked, out, own_task=two_sets())
    killed_before(what, out, monkeypatch, step)
    train(asked, out, own_task=two_sets())
    for name in ("arms/grpo/" + SEED, "start/" + SEED, "arms/grpo/seed-0/evaluation.jsonl"):
        assert (out / name).read_bytes() == (kept[0] / name).read_bytes()


def interrupted():
    raise KeyboardInterrupt


def test_completions_without_their_evaluation_do_not_count(kept, tmp_path):
    """They are of an evaluation that a kill has cut off, which is made again."""
    folder = arm.ArmFolder(tmp_path / "grpo" / "seed-0", [{}])
    for step in (2, 4):
        folder.append("completions.jsonl", {"step": step, "sets": {}})
    folder.append("metrics.jsonl", {"step": 1})
    for step in (2, 3, 4):
        folder.append("metrics.jsonl", {"step": step})
    folder.append(EVALUATIONS, {"step": 2})
    folder.keep(4)
    assert [line["step"] for line in folder.lines("completions.jsonl")] == [2]


# The command


def test_the_command_shows_a_row_a_completion_and_a_prompt_as_a_whole(kept, capsys):
    out, seen = kept
    assert main(["rollouts", str(out), "--evaluation", "far", "--step", "2"]) == 0
    shown = capsys.readouterr().out.splitlines()
    rewards = [answer[1] for _, answers in seen[2, "far"] for answer in answers[:2]]
    mean = f"{sum(rewards) / 6:.3g}"
    assert shown[0] == f"grpo, seed 0, step 2, evaluation set far: 6 completions of 3 prompts, mean reward {mean}"
    for row, (place, sample) in zip(shown[3:], [(p, s) for p in range(3) for s in range(2)], strict=True):
        prompt, answers = seen[2, "far"][place]
        text, reward, solution = answers[sample]
        assert row.split()[:4] == [str(place), str(sample), f"{reward:g}", solution or "-"]
        assert row.endswith(f"{prompt} | {text}")
    assert main(["rollouts", str(out), "--evaluation", "far", "--step", "2", "--prompt", "1"]) == 0
    prompt, answers = seen[2, "far"][1]
    wanted = [shown[0], f"prompt: {prompt}"]
    for sample, (text, reward, solution) in enumerate(answers[:2]):
        wanted += [f"sample {sample}: reward {reward:g}, solution {solution or '-'}", f"text: {text}"]
    assert capsys.readouterr().out.splitlines() == wanted


@pytest.mark.parametrize(("arguments", "step"), [([], 3), (["--step", "0"], 0)])
def test_by_default_it_is_the_last_evaluation_and_step_0_is_the_start(kept, capsys, arguments, step):
    assert main(["rollouts", str(kept[0]), "--evaluation", "near", *arguments]) == 0
    assert f"step {step}, evaluation set near: 6 completions of 4 prompts" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--evaluation", "nearer"], "evaluation = 'nearer' is unknown (did you mean 'near'?); allowed: near, far"),
        (["--evaluation", "near", "--step", "1"], "step 1 was not kept; allowed: 0, 2, 3"),
        (["--evaluation", "near", "--prompt", "4"], "prompt 4 was not kept; allowed: 0 to 3"),
        (["--evaluation", "near", "--arm", "f_grpo"], "arm = 'f_grpo' is unknown (did you mean 'grpo'?)"),
        (["--evaluation", "near", "--seed", "1"], "has no completions; allowed: runs with record.completions above 0"),
        (["--evaluation", "near", "--rollout", "0"], "--rollout is of training; allowed with --evaluation: --prompt"),
    ],
)
def test_what_was_not_kept_is_refused_in_one_line(kept, capsys, arguments, reason):
    assert main(["rollouts", str(kept[0]), *arguments]) == 2
    complaint = capsys.readouterr().err
    assert reason in complaint
    assert complaint.count("\n") == 1


@pytest.mark.parametrize(("arguments", "steps"), [([], [0, 2, 3]), (["--step", "2"], [2])])
def test_they_are_written_as_rows_of_a_table(kept, tmp_path, capsys, arguments, steps):
    out, seen = kept
    path = tmp_path / "completions.parquet"
    assert main(["rollouts", str(out), "--evaluation", "near", "--parquet", str(path), *arguments]) == 0
    assert capsys.readouterr().out == f"{6 * len(steps)} completions in {path}\n"
    wanted = [
        {"step": step, "set": "near", "prompt": prompt, "sample": s, "completion": text, "reward": reward}
        for step in steps
        for place, (prompt, answers) in enumerate(seen[step, "near"])
        for s, (text, reward, _) in enumerate(answers[: 2 if place < 2 else 1])
    ]
    assert parquet.read_table(path).to_pylist() == wanted


def test_a_damaged_file_is_named_and_only_its_texts_are_lost(kept, tmp_path, capsys):
    out = tmp_path / "run"
    train(settings(ASKED), out, own_task=two_sets())
    path = out / "arms/grpo" / SEED
    content = path.read_bytes()
    path.write_bytes(content.replace(b'"reward"', b'"rewerd"', 1))
    assert main(["rollouts", str(out), "--evaluation", "near"]) == 2
    assert f"{path} line 1 is damaged (its checksum differs)" in capsys.readouterr().err
    before = contents(out)["arms/grpo/seed-0/evaluation.jsonl"]
    train(settings(ASKED), out, own_task=two_sets())
    said = capsys.readouterr().err
    assert f"{path} line 1 is damaged" in said
    assert "what is lost is computed again, but for texts up to step 3" in said
    assert contents(out)["arms/grpo/seed-0/evaluation.jsonl"] == before
    assert path.with_name("completions.jsonl.damaged").exists()


def test_a_completion_cannot_command_the_terminal(kept, tmp_path, capsys):
    out = tmp_path / "run"
    train(settings(ASKED), out, own_task=two_sets())
    path = out / "arms/grpo" / SEED
    changed = json.loads(json.dumps(read_lines(path).lines))
    changed[-1]["sets"]["near"][0]["prompt"] = "why " * 50
    changed[-1]["sets"]["near"][0]["completions"][0]["text"] = "\x1b[2J\u202e\n" + "since " * 100
    path.write_bytes(as_lines(changed, name_of(path))[0])
    for arguments, width in ([], 200), (["--prompt", "0"], 2000):
        assert main(["rollouts", str(out), "--evaluation", "near", *arguments]) == 0
        shown = capsys.readouterr().out
        assert "\\x1b[2J\\u202e\\n" in shown
        assert "\x1b" not in shown
        assert "\u202e" not in shown
        assert max(map(len, shown.splitlines())) < width
    assert "since " * 100 in shown


def test_sets_of_one_problem_keep_samples_of_it(tmp_path):
    train(settings(ASKED), tmp_path / "run", own_task=task(evaluation=["1+9="]))
    (problem,) = lines(tmp_path / "run", 3)[3]["evaluation"]
    assert problem["prompt"] == Problem("1+9=").prompt
    assert len(problem["completions"]) == 4, "all samples"
