"""Tasks of a user's own data: rows of any content, sets that are kept apart, and runs that are resumed."""

import hashlib
import json
import sys
from pathlib import Path

import pytest
from data_cases import CHAT, lines, pretrained, sums
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusal
from training_cases import settings

from simlab import cli
from simlab.llm.compare import comparison_table, read_run, select_set, set_names
from simlab.llm.tasks import task
from simlab.llm.tasks.rows import rows
from simlab.llm.tokenizer import read_tokenizer
from simlab.llm.training.policy_gradient import Trainer
from simlab.llm.training.run import train
from simlab.llm.vocabulary import characters
from simlab.seals import sealed_json

pytestmark = pytest.mark.usefixtures("quickly")
SUMS = str(Path(__file__).parent / "data" / "sums.jsonl")
ANY = characters("".join(map(chr, range(32, 127))))


def data(train, **parameters):
    return task("data", train=train, **parameters).put_to(ANY, 1024, demonstrated=False)


def faults(here):
    return here.train.left_out


# Rows


def test_rows_that_cannot_be_used_are_left_out_counted_and_named(tmp_path):
    train = lines(tmp_path / "train.jsonl", [
        {"prompt": "a", "answer": "1"},
        "{not json",
        '["a list"]',
        "",
        {"prompt": "  ", "answer": "1"},
        {"prompt": None, "answer": "1"},
        {"prompt": 7, "answer": "1"},
        {"question": "b", "answer": "1"},
        {"prompt": "c"},
        {"prompt": "d", "answer": True},
        {"prompt": "e", "answer": ""},
        {"prompt": "f", "answer": "no number"},
        '{"prompt": "\\ud800", "answer": "1"}',
        '{"prompt": "g", "answer": NaN}',
        '{"prompt": "g", "answer": "1"',
        "[" * 10**5,
        '{"prompt": "' + "x" * 2**10 + 'y", "answer": "1"}',
        {"prompt": [], "answer": 1},
        {"prompt": [{"content": "no role"}], "answer": 1},
        {"prompt": [{"role": "user", "content": 5}], "answer": 1},
        {"prompt": "z", "answer": 2.5},
    ])  # fmt: skip
    here = data(train, verifier="number")
    (held_out,) = {1, 21} - {problem.line for problem in here.listed}
    assert faults(here) == {
        "no JSON": [2, 15, 16],
        "no JSON object": [3],
        "empty prompt": [5, 18],
        "no prompt": [6],
        "prompt that is no text": [7, 20],
        "no column 'prompt' among 'question', 'answer'": [8],
        "no answer": [9],
        "answer that is no text or number": [10, 14],
        "empty answer": [11],
        "answer that the verifier cannot read": [12],
        "prompt that is no Unicode": [13],
        "prompt of more than 768 tokens": [17],
        "prompt with a message that has no role": [19],
        "held out": [held_out],
    }
    assert len(here.listed) == len(here.evaluation) == 1
    (note, *_) = here.notes
    assert note.startswith(f"training: {train}: 1 of 20 rows; left out: 19 (no JSON: lines 2, 15, 16; ")


def test_a_file_of_which_nothing_is_left_is_refused_with_the_reasons(tmp_path):
    path = lines(tmp_path / "a.jsonl", [{"question": "b", "gold": "1"}, "{"])
    assert refusal(task, "data", train=path) == (
        f"no problem is left: {path}: 0 of 2 rows; left out: 2 (no column 'prompt' among 'question', 'gold': line 1; "
        "no JSON: line 2)"
    )
    assert "no problem is left" in refusal(task, "data", train=lines(tmp_path / "b.jsonl", []))
    single = lines(tmp_path / "c.jsonl", sums([(1, 2)]))
    assert f"{single} has one prompt, of which none can be held out; allowed: --evaluate" in refusal(
        task, "data", train=single
    )


CSV = '\ufeffquestion,gold\r\n"1+2=\r\n?","3"\n\n4+5=,9,10\n"broken"x,1\n6+1=,7\n,3\nnul\x00,4\n'


def test_rows_of_csv_are_known_by_the_line_they_begin_in(tmp_path):
    (tmp_path / "a.csv").write_bytes(CSV.encode() + b"\xff\xfe=,5\n")
    records = list(rows(tmp_path / "a.csv", ("question", "gold")))
    assert [(row.line, row.fault) for row in records if row.fault] == [
        (5, "other than 2 cells, as the first line has"),
        (6, "no CSV (',' expected after '\"')"),
    ]
    assert [row.line for row in records if not row.fault] == [2, 7, 8, 9, 10]
    assert records[0].values == {"question": "1+2=\r\n?", "gold": "3"}
    names = {"prompt": "question", "answer": "gold"}
    evaluate = {"e": lines(tmp_path / "e.jsonl", sums([(5, 5)], prompt="question", answer="gold"))}
    here = data(str(tmp_path / "a.csv"), columns=names, evaluate=evaluate)
    assert faults(here)["prompt that is no Unicode"] == [10]
    assert faults(here)["empty prompt"] == [8]


def test_parquet_holds_what_json_lines_hold(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    talk = [{"role": "user", "content": "1+1="}]
    table = {"prompt": ["1+2=", None, "3+4="], "answer": [3, 4, 7], "talk": [talk, talk, []], "unread": [b"\xff"] * 3}
    parquet.write_table(arrow.table(table), tmp_path / "a.parquet", row_group_size=2)
    assert [(row.line, row.values) for row in rows(tmp_path / "a.parquet", ("prompt", "answer"))] == [
        (1, {"prompt": "1+2=", "answer": 3}), (2, {"prompt": None, "answer": 4}), (3, {"prompt": "3+4=", "answer": 7}),
    ]  # fmt: skip
    assert faults(data(str(tmp_path / "a.parquet"), verifier="number"))["no prompt"] == [2]
    evaluate = {"e": lines(tmp_path / "e.jsonl", [{"talk": "5+5=", "answer": 10}])}
    talks = task(
        "data", train=str(tmp_path / "a.parquet"), evaluate=evaluate, verifier="number", columns={"prompt": "talk"}
    )
    assert talks.train.left_out == {"empty prompt": [3]}
    assert [problem.asked for problem in talks.listed] == [(("user", "1+1="),)] * 2
    whole = (tmp_path / "a.parquet").read_bytes()
    for damaged in (b"", whole[:-20], whole[:4] + b"\xff" * 60 + whole[64:], b"PAR1" + b"\xff" * 50 + b"PAR1"):
        (tmp_path / "b.parquet").write_bytes(damaged)
        assert f"{tmp_path / 'b.parquet'}" in refusal(task, "data", train=str(tmp_path / "b.parquet"))


@given(content=st.binary(max_size=300), ending=st.sampled_from([".jsonl", ".csv"]))
def test_any_bytes_are_rows_or_faults(tmp_path_factory, content, ending):
    path = tmp_path_factory.mktemp("any") / f"a{ending}"
    path.write_bytes(content)
    assert all(row.fault or row.values or ending == ".jsonl" for row in rows(path, ("prompt", "answer")))
    message = refusal(task, "data", train=str(path))
    assert "no problem is left" in message or "no row" in message


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"train": "a.txt"}, "the ending of a.txt = '.txt' is unknown; allowed: .jsonl, .csv, .parquet"),
        ({"train": "nowhere.jsonl"}, "nowhere.jsonl cannot be read: No such file"),
        ({"verifier": "llm"}, "verifier = 'llm' is unknown; allowed: exact, number"),
        ({"split": "test"}, "data has no parameter 'split'; it takes: train, evaluate, columns"),
    ],
)
def test_what_no_task_can_be_made_of_is_refused(parameters, message):
    assert message in refusal(task, "data", **{"train": SUMS} | parameters)


# Sets


def test_one_prompt_in_eight_is_held_out_whatever_the_order_of_the_rows(tmp_path):
    numbers = [(first, second) for first in range(8) for second in range(8)]
    here = data(lines(tmp_path / "a.jsonl", sums(numbers)), verifier="number")
    turned = data(lines(tmp_path / "b.jsonl", sums(numbers[::-1])), verifier="number")
    assert list(here.evaluation_sets) == ["held-out"]
    assert len(here.evaluation) == 8
    assert {problem.prompt for problem in here.evaluation} == {problem.prompt for problem in turned.evaluation}
    assert {problem.prompt for problem in here.evaluation}.isdisjoint(problem.prompt for problem in here.listed)


def test_each_pass_has_all_training_problems_in_an_order_of_its_own_or_in_that_of_the_file(tmp_path):
    path = lines(tmp_path / "a.jsonl", sums([(value, 1) for value in range(32)]))
    here, ordered = data(path, verifier="number"), data(path, verifier="number", shuffle=False)
    passes = [[here.training(28 * number + offset).line for offset in range(28)] for number in (0, 1, 2**40)]
    assert [sorted(order) for order in passes] == [[problem.line for problem in here.listed]] * 3
    assert len({tuple(order) for order in passes}) == 3
    assert [ordered.training(index).line for index in range(56)] == 2 * [problem.line for problem in ordered.listed]


def test_a_prompt_that_stands_twice_is_held_out_or_trained_on_with_all_its_rows(tmp_path):
    here = data(lines(tmp_path / "a.jsonl", sums([(1, 1), (1, 1), (2, 2), (2, 2)])), verifier="number")
    assert len(here.evaluation) == 1
    assert len(here.listed) == 2


def test_named_sets_are_kept_in_their_order_without_repeats_and_out_of_training(tmp_path):
    train = lines(tmp_path / "train.jsonl", sums([(1, 1), (2, 2), (3, 3), (4, 4)]))
    near = lines(tmp_path / "near.jsonl", sums([(9, 9), (2, 2), (9, 9), (8, 8), (7, 7)]))
    far = lines(tmp_path / "far.jsonl", sums([(50, 50), (4, 4)]))
    here = data(train, evaluate={"near": near, "far": far}, verifier="number", evaluation_size=3)
    prompts = {name: [problem.prompt for problem in problems] for name, problems in here.evaluation_sets.items()}
    assert prompts == {"near": ["9+9=", "2+2=", "8+8="], "far": ["50+50=", "4+4="]}
    assert here.evaluation == here.evaluation_sets["near"]
    assert [problem.prompt for problem in here.listed] == ["1+1=", "3+3="]
    assert here.notes[:3] == (
        f"training: {train}: 2 of 4 rows; left out: 2 (prompt of an evaluation set: lines 2, 4)",
        f"near: {near}: 3 of 5 rows; left out: 2 (prompt that stands there before: line 3; "
        "more than the 3 of task.evaluation_size: line 5)",
        f"far: {far}: 2 of 2 rows",
    )


# Inputs of a model


def test_prompts_are_put_into_the_chat_template_of_the_model(tmp_path):
    tokenizer = read_tokenizer(pretrained(tmp_path / "model"))
    talk = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "yes"},
        {"role": "user", "content": "2"},
    ]
    path = lines(tmp_path / "a.jsonl", [*sums([(1, 2), (3, 4)]), {"prompt": talk, "answer": 1}])
    held_out = lines(tmp_path / "e.jsonl", sums([(5, 5)]))
    unread = task("data", train=path, evaluate={"e": held_out}, verifier="number", system="Add", max_new_tokens=8)
    here = unread.put_to(tokenizer, 64, demonstrated=False)
    assert [problem.prompt for problem in here.listed] == [
        "[system]Add\n[user]1+2=\n[assistant]",
        "[system]Add\n[user]3+4=\n[assistant]",
        "[user]hi\n[assistant]yes\n[user]2\n[assistant]",
    ]
    assert here.notes[-1] == "prompts are given in the model's chat template"
    bare = task("data", train=path, verifier="number", max_new_tokens=8, template="none").put_to(tokenizer, 64, False)
    assert "messages without a chat template" in bare.train.left_out
    assert all(problem.prompt == problem.asked for problem in (*bare.listed, *bare.evaluation))
    assert bare.notes[-1] == "prompts are given as they stand, without a chat template"


def test_prompts_and_answers_that_are_too_long_are_left_out(tmp_path):
    tokenizer = read_tokenizer(pretrained(tmp_path / "model", chat_template=None))
    train = lines(tmp_path / "a.jsonl", [*sums([(1, 2), (10**20, 1), (3, 4)]), {"prompt": "5+5=", "answer": "9" * 12}])
    evaluate = {"e": lines(tmp_path / "e.jsonl", sums([(5, 6), (10**20, 2)]))}
    here = task("data", train=train, evaluate=evaluate, max_new_tokens=10)
    shown = here.put_to(tokenizer, 30, demonstrated=False)
    assert shown.train.left_out == {"prompt of more than 20 tokens": [2]}
    assert [problem.prompt for problem in shown.evaluation] == ["5+6="]
    learnt = here.put_to(tokenizer, 30, demonstrated=True)
    assert learnt.train.left_out == {
        "prompt of more than 20 tokens": [2], "answer of more than 9 tokens": [4],
    }  # fmt: skip
    assert "task.max_new_tokens = 10; allowed: less than the model's context of 10" in refusal(
        here.put_to, tokenizer, 10, False
    )
    assert "no problem is left" in refusal(here.put_to, tokenizer, 13, False)


def test_a_template_that_fails_for_a_row_leaves_that_row_out_and_for_all_ends_the_run(tmp_path):
    strict = "{% if messages[0].content == '2+2=' %}{{ raise_exception('never 2+2') }}{% endif %}" + CHAT
    path = lines(tmp_path / "a.jsonl", sums([(1, 1), (2, 2), (3, 3)]))
    evaluate = {"e": lines(tmp_path / "e.jsonl", sums([(5, 5)]))}
    here = task("data", train=path, evaluate=evaluate, verifier="number", max_new_tokens=8)
    shown = here.put_to(read_tokenizer(pretrained(tmp_path / "strict", strict)), 64, False)
    assert shown.train.left_out == {"the chat template is refused: never 2+2": [2]}
    broken = read_tokenizer(pretrained(tmp_path / "broken", "{% if %}"))
    assert refusal(here.put_to, broken, 64, False).startswith("the chat template cannot be read: ")
    hostile = read_tokenizer(pretrained(tmp_path / "hostile", "{{ ''.__class__.__mro__ }}"))
    assert "(the chat template is refused: " in refusal(here.put_to, hostile, 64, False)
    chat = task("data", train=path, evaluate=evaluate, verifier="number", template="chat")
    assert "task.template = 'chat' of a model without a chat template" in refusal(chat.put_to, ANY, 1024, False)


# Runs

TINY = (
    "--model", "scratch", "--steps", "3", "--prompts", "4", "--group-size", "4", "--max-new-tokens", "4",
    "--arms", "grpo",
    "--param", "warm_start.steps=2", "--param", "warm_start.batch=4", "--param", "evaluation.samples=4",
    "--param", "evaluation.every=2", "--param", "record.checkpoint_every=1", "--param", "model.hidden_size=16",
    "--param", "model.intermediate_size=16", "--param", "model.num_layers=1", "--param", "model.num_heads=2",
    "--param", "model.num_kv_heads=1", "--param", "rl.microbatch=8", "--param", "evaluation.rollouts=16",
    "--param", "record.instruments_every=1000", "--param", "task.evaluation_size=4",
)  # fmt: skip


def trained(out, *options, stop_after=None):
    count = iter(range(1, 1000))
    with pytest.MonkeyPatch.context() as patch:
        step = Trainer.step

        def stopping(trainer, *arguments):
            if stop_after is not None and next(count) > stop_after:
                raise KeyboardInterrupt
            return step(trainer, *arguments)

        patch.setattr(Trainer, "step", stopping)
        return cli.main(["train", *TINY, *options, "--out", str(out)])


@pytest.mark.slow
def test_a_run_on_a_file_ends_with_a_table_and_says_which_rows_it_used(tmp_path, capsys):
    options = ("--data", SUMS, "--verifier", "number")
    assert trained(tmp_path / "whole", *options) == 0
    text = capsys.readouterr().out
    assert f"training: {SUMS}: 44 of 48 rows; left out: 4 (held out: lines " in text
    assert "prompts are given as they stand" in text
    assert "grpo" in text
    line = json.loads((tmp_path / "whole" / "run.json").read_text())
    assert line["settings"]["task"] == {
        "name": "data", "train": SUMS, "verifier": "number", "max_new_tokens": 4, "evaluation_size": 4,
    }  # fmt: skip
    assert line["files"] == {SUMS: hashlib.sha256(Path(SUMS).read_bytes()).hexdigest()}


REWARD = """
WORTH = 1.0

def reward(prompt, completion, answer):
    assert prompt.endswith("=") and isinstance(answer, int)
    return WORTH if completion.strip().startswith(str(answer)[0]) else 0.25
"""


def test_a_reward_of_ones_own_is_used_and_kept_and_an_edited_one_is_noticed(tmp_path, capsys, monkeypatch):
    (tmp_path / "mine.py").write_text(REWARD)
    options = ("--data", SUMS, "--reward", f"{tmp_path / 'mine.py'}:reward")
    assert trained(tmp_path / "run", *options, stop_after=1) == 130
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["texts"] == {str(tmp_path / "mine.py"): REWARD}
    assert record["files"].keys() == {str(tmp_path / "mine.py"), SUMS}
    (line,) = (tmp_path / "run" / "arms" / "grpo" / "seed-0" / "metrics.jsonl").read_text().splitlines()
    assert 0.25 <= json.loads(line)["reward"] <= 1
    monkeypatch.setattr("simlab.own_files._loaded", {})  # as in another process
    (tmp_path / "mine.py").write_text(REWARD.replace("WORTH = 1.0", "WORTH = 2.0"))
    monkeypatch.setattr("sys.modules", {name: entry for name, entry in sys.modules.items() if "own_file_" not in name})
    assert trained(tmp_path / "run", *options) == 2
    assert "was made by other code" in capsys.readouterr().err


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("option", ["--data", "--evaluate", "--reward", "--arms", "--model", "--config", "run.json"])
def test_overwriting_never_removes_an_input(option, linked, tmp_path, capsys):
    (inside := tmp_path / "run" / "arms" / "grpo" / "seed-0").mkdir(parents=True)
    before = sealed_json({"settings": {}, "arms": ["grpo"], "seeds": [0]}, "run.json")
    (tmp_path / "run" / "run.json").write_bytes(before)
    code = REWARD + "def weight(advantages, rollouts): return advantages\n"
    for name, text in (("d.jsonl", Path(SUMS).read_text()), ("mine.py", code), ("set.json", "{}")):
        (inside / name).write_text(text)
    pretrained(inside)  # a model
    folder = tmp_path / "link" if linked else inside
    (tmp_path / "link").symlink_to(inside)
    chosen = {
        "--data": f"{folder}/d.jsonl", "--evaluate": f"set={folder}/d.jsonl", "--reward": f"{folder}/mine.py:reward",
        "--arms": f"{folder}/mine.py:weight", "--model": str(folder), "--config": f"{folder}/set.json",
    }.get(option, f"{folder}/../../../run.json")  # fmt: skip
    judge = () if option == "--reward" else ("--verifier", "number")
    flag = "--config" if option == "run.json" else option
    assert trained(tmp_path / "run", "--data", SUMS, *judge, flag, chosen, "--overwrite") == 2
    assert "is an input of this command, which would remove it" in capsys.readouterr().err
    assert (tmp_path / "run" / "run.json").read_bytes() == before
    assert (inside / "d.jsonl").exists()


@pytest.mark.slow
def test_sets_are_evaluated_and_shown_apart(tmp_path, capsys):
    near = lines(tmp_path / "near.jsonl", sums([(9, other) for other in range(3)]))
    far = lines(tmp_path / "far.jsonl", sums([(number, number) for number in (3, 5)]))
    options = ("--data", SUMS, "--verifier", "number", "--evaluate", f"near={near}", "--evaluate", f"far={far}")
    assert trained(tmp_path / "run", *options) == 0
    text = capsys.readouterr().out
    assert text.index("evaluation set near:") < text.index("evaluation set far:")
    run = read_run(tmp_path / "run")
    assert set_names(run) == ["near", "far"]
    path = tmp_path / "run" / "arms" / "grpo" / "seed-0" / "evaluation.jsonl"
    last = json.loads(path.read_text().splitlines()[-1])
    assert (len(last["correct"]), len(last["sets"]["far"]["correct"])) == (3, 2)
    (shown,) = select_set(run, "far").arms["grpo"][0].evaluations[-1:]
    assert shown.correct.tolist() == last["sets"]["far"]["correct"]
    assert comparison_table([select_set(run, "near")]) == comparison_table([run])
    assert f"{tmp_path / 'run'} has no evaluation set 'test'; allowed: near, far" in refusal(select_set, run, "test")
    assert cli.main(["compare", str(tmp_path / "run"), "--set", "far", "--figure", str(tmp_path / "far.png")]) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--data", SUMS, "--task", "addition"),
            "--task addition with train, max_new_tokens; allowed: these options with --data alone",
        ),
        (("--data", SUMS, "--verifier", "number", "--reward", "a.py:b"), "--verifier and --reward are both given"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options, message, tmp_path, capsys):
    assert trained(tmp_path / "run", *options) == 2
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_an_own_task_is_named_in_the_run_and_no_other_is_trained_in_its_place(tmp_path, capsys):
    from training_cases import task as own_task  # noqa: PLC0415  # its name is taken here

    train(settings({"rl": {"steps": 1}}), tmp_path / "run", own_task=own_task(name="mirror"))
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["settings"]["task"] == {"name": "own", "called": "mirror"}
    assert cli.main(["train", "--config", str(tmp_path / "run" / "run.json"), "--out", str(tmp_path / "other")]) == 2
    assert "the task 'mirror' was handed in from Python; allowed: train(own_task=...)" in capsys.readouterr().err
    for another in (own_task(name="glass"), own_task(training=["1+1="], name="mirror")):
        assert "other" in refusal(train, settings({"rl": {"steps": 1}}), tmp_path / "run", own_task=another)
    assert "other settings (" in refusal(train, settings({"rl": {"steps": 1}}), tmp_path / "run")
