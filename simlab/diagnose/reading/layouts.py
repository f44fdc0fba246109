"""The layouts of trainers' logs: which columns they have, and how a line with several rollouts becomes rows.

TRL: with ``log_completions=True`` its trainers write a parquet file at each step that they log. Its columns are
``step``, ``prompt``, ``completion``, one for each reward function, others that reward functions log, and ``advantage``
(``GRPOTrainer.log``, trl/trainer/grpo_trainer.py, TRL 1.16). The files do not say

- the weights of the reward functions (``reward_weights``): several are summed as they are;
- which columns are rewards: those of floats between ``completion`` and ``advantage`` are taken for rewards;
- that rollouts are old: where one generation serves several steps (``num_iterations``, ``steps_per_generation``), each
  of them writes its rows again. A step whose rows are those of the step before is left out;
- steps in between: with ``logging_steps`` above 1 only the rollouts of the last generation are written.

verl: with ``trainer.rollout_data_dir`` its trainers write a JSONL file a step, named by the step. Its lines have
``input``, ``output``, ``gts`` (the ground truth), ``score`` and ``step``, and whatever the reward function returns
besides (``_write_generations``, verl/trainer/ppo/ray_trainer.py and v1/trainer_base.py, verl 0.9). The score is the sum
of the rewards of the tokens; ``--reward acc`` takes the reward function's own column.

simlab: a line of ``rollouts.jsonl`` has the first groups of a step (``simlab.llm.training.groups.rollout_records``), a
line of ``evaluation.jsonl`` how many samples of each problem are right. ``simlab compare`` checks that lines are as
they were written; here they are only read.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from simlab.diagnose.reading.columns import ROLES, Format, Unreadable

MOST_SAMPLES = 10**6  # of a problem in an evaluation


def _trl_rewards(row: Mapping[str, Any]) -> list[str]:
    """Return the columns of floats between the completion and the advantage."""
    names = list(row)
    if "completion" not in names or "advantage" not in names:
        return []
    between = names[names.index("completion") + 1 : names.index("advantage")]
    return [name for name in between if isinstance(row[name], float)]


TRL = Format(
    "trl",
    {"prompt": "prompt", "completion": "completion", "step": "step"},
    frozenset({"step", "prompt", "completion", "advantage"}),
    _trl_rewards,
    repeats=True,
)
VERL = Format(
    "verl",
    {"prompt": "input", "completion": "output", "reward": "score", "step": "step"},
    frozenset({"input", "output", "score", "step"}),
)
SIMLAB = Format(
    "simlab",
    {
        "prompt": "prompt",
        "reward": "reward",
        "step": "step",
        "completion": "text",
        "answer": "solution",
        "log_probability": "logp",
        "length": "length",
    },
    frozenset({"step", "prompt", "reward", "rollout", "text"}),
)
SIMLAB_EVALUATIONS = Format(
    "simlab",
    {"prompt": "prompt", "reward": "reward", "step": "step"},
    frozenset({"step", "prompt", "reward", "rollout"}),
    note="the run recorded no rollouts (record.rollouts): these are its evaluations, not what it learned from",
)
TABLE = Format("table", {role: role for role in ROLES}, frozenset())
FORMATS = (TRL, VERL, SIMLAB, SIMLAB_EVALUATIONS, TABLE)
NAMES = tuple(dict.fromkeys(form.name for form in FORMATS))


def recognise_format(row: Mapping[str, object], name: str | None = None) -> Format:
    """Return the first format, of this name if any, that has the columns of a row; or the last of them."""
    allowed = [form for form in FORMATS if name in (None, form.name)]
    return next((form for form in allowed if form.marks <= row.keys()), allowed[-1])


def expand_line(line: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield one row a rollout: those of a step of ``simlab train``, or else the line itself.

    Raises:
        Unreadable: for a step whose groups are not as ``simlab train`` writes them.
    """
    try:
        if isinstance(line.get("groups"), list):
            yield from _recorded_rollouts(line)
        elif isinstance(line.get("correct"), list) and "samples" in line:
            yield from _evaluation_samples(line)
        else:
            yield line
    except (KeyError, TypeError, AttributeError, ValueError):
        raise Unreadable("the line is no step of simlab train") from None


def _recorded_rollouts(line: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for group in line["groups"]:
        for number, rollout in enumerate(group["rollouts"]):
            logp = rollout["logp"]
            yield {
                "step": line["step"],
                "prompt": group["prompt"],
                "rollout": number,
                "reward": rollout["reward"],
                "text": rollout["text"],
                "solution": rollout["solution"],
                "logp": sum(logp),
                "length": len(logp),
            }


def _evaluation_samples(line: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    samples = line["samples"]
    for problem, correct in enumerate(line["correct"]):
        if not 0 <= correct <= samples <= MOST_SAMPLES:
            raise ValueError
        for sample in range(samples):
            reward = float(sample < correct)
            yield {"step": line["step"], "prompt": f"evaluation problem {problem}", "rollout": sample, "reward": reward}
