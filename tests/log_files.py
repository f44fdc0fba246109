"""Logs of training runs, written as plainly as can be, and the groups in them, by loops over rows."""

import json
from collections import Counter, defaultdict

import pandas

# Columns of each format; what a row lacks is left out.
TABLE = {name: name for name in ("step", "prompt", "completion", "answer", "reward", "log_probability", "length")}
VERL = {"step": "step", "prompt": "input", "completion": "output", "reward": "score"}
TRL = {"step": "step", "prompt": "prompt", "completion": "completion", "reward": "accuracy_reward"}


def row(step, prompt, reward, answer="7", **others):
    """One rollout, whose completion says its answer."""
    return {
        "step": step, "prompt": prompt, "completion": f"so 2 and then \\boxed{{{answer}}}", "answer": answer,
        "reward": reward, "log_probability": -1.5, "length": 3, **others,
    }  # fmt: skip


def renamed(rows, names):
    return [{names[role]: value for role, value in row.items() if role in names} for row in rows]


def by_step(rows):
    """The rows of each step."""
    steps = defaultdict(list)
    for rollout in rows:
        steps[rollout["step"]].append(rollout)
    return steps


def write_csv(folder, rows):
    pandas.DataFrame(renamed(rows, TABLE)).to_csv(folder / "log.csv", index=False)
    return folder / "log.csv"


def write_rows(folder, rows, name="log.jsonl"):
    """Write rows of any columns."""
    (folder / name).write_text("".join(json.dumps(each) + "\n" for each in rows))
    return folder / name


def write_jsonl(folder, rows):
    return write_rows(folder, renamed(rows, TABLE))


def write_parquet(folder, rows):
    pandas.DataFrame(renamed(rows, TABLE)).to_parquet(folder / "log.parquet")
    return folder / "log.parquet"


def write_verl(folder, rows):
    """Write as verl does: a file a step, with the ground truth and what the reward function adds."""
    for step, batch in by_step(rows).items():
        lines = [{**rollout, "gts": "7", "acc": rollout["score"] == 1} for rollout in renamed(batch, VERL)]
        (folder / f"{step}.jsonl").write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
    return folder


def write_trl(folder, rows):
    """Write as TRL does: a file a step, with an advantage that tells the rows of two steps apart."""
    (folder / "completions").mkdir()
    for step, batch in by_step(rows).items():
        frame = pandas.DataFrame([{**line, "note": "x", "advantage": step / 8} for line in renamed(batch, TRL)])
        frame.to_parquet(folder / "completions" / f"completions_{step:05d}.parquet")
    return folder


WRITERS = {"csv": write_csv, "jsonl": write_jsonl, "parquet": write_parquet, "verl": write_verl, "trl": write_trl}


def groups_of(rows, threshold=1.0):
    """By step and prompt: rollouts, correct ones, and how often the answers of these occur."""
    groups = defaultdict(list)
    for rollout in rows:
        groups[rollout["step"], rollout["prompt"]].append(rollout["answer"] if rollout["reward"] >= threshold else None)
    right = {key: [answer for answer in answers if answer is not None] for key, answers in groups.items()}
    return {key: (len(answers), len(right[key]), Counter(right[key])) for key, answers in groups.items()}


def solutions_of(groups):
    """The prompt of each correct answer, and how often it occurs in each step; without the answer's text."""
    occurrences = defaultdict(Counter)
    for (step, prompt), (_, _, answers) in groups.items():
        for answer, count in answers.items():
            occurrences[prompt, answer][step] += count
    return sorted((prompt, sorted(steps.items())) for (prompt, _), steps in occurrences.items())


def read_groups(log):
    """The groups of a log in the form of ``groups_of``; answers are numbers."""
    groups = {}
    for group in range(len(log.prompt)):
        key = int(log.step[group]), log.prompts[log.prompt[group]]
        assert key not in groups, "a group stands twice"
        groups[key] = int(log.group_size[group]), int(log.correct[group]), Counter()
    for group, answer, count in zip(log.answers.group, log.answers.answer, log.answers.count, strict=True):
        answers = groups[int(log.step[group]), log.prompts[log.prompt[group]]][2]
        assert int(answer) not in answers, "an answer of a group stands twice"
        answers[int(answer)] = int(count)
    return groups
