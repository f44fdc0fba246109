"""Folders such as ``simlab train`` writes, of lines that a test writes down."""

import json

from simlab.seals import sealed_json


def evaluation(step, correct, distinct=None, samples=8):
    """A line of evaluation.jsonl."""
    distinct = [min(count, 2) for count in correct] if distinct is None else distinct
    at_1 = sum(correct) / samples / len(correct)
    pass_at_k = {"1": {"mean": at_1, "low": at_1, "high": at_1}}
    return {
        "step": step, "samples": samples, "correct": correct, "distinct": distinct, "pass_at_k": pass_at_k,
        "length": 3.5,
    }  # fmt: skip


def metrics(rewards, **others):
    """Lines of metrics.jsonl: a reward a step, from step 1, and other metrics a step each."""
    columns = {"reward": rewards, "entropy": [reward and reward / 4 for reward in rewards], **others}
    return [
        {"step": step, **dict(zip(columns, values, strict=True))}
        for step, values in enumerate(zip(*columns.values(), strict=True), 1)
    ]


def write_run(folder, arms, starts=None, **settings):
    """A run; ``arms`` has by name and seed a pair of metrics and evaluations, ``starts`` an evaluation by seed."""
    seeds = sorted({seed for by_seed in arms.values() for seed in by_seed})
    folder.mkdir(parents=True)
    entries = {
        "settings": {"task": "countdown"} | settings,
        "arms": list(arms),
        "seeds": seeds,
        "commit": "c",
        "versions": {},
    }
    (folder / "run.json").write_bytes(sealed_json(entries | {"platform": "cpu"}, "run.json"))
    for seed, line in (starts or {}).items():
        write_lines(folder / "start" / f"seed-{seed}", [{"step": 1, "loss": 2.5}], [line])
    for name, by_seed in arms.items():
        for seed, (trained, evaluated) in by_seed.items():
            write_lines(folder / "arms" / name / f"seed-{seed}", trained, evaluated)
    return folder


def write_lines(folder, trained, evaluated):
    """The two files of a seed."""
    folder.mkdir(parents=True)
    for name, lines in (("metrics.jsonl", trained), ("evaluation.jsonl", evaluated)):
        (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
