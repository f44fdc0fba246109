"""The layouts of trainers' logs: which columns they have, and how a line with several rollouts becomes rows.

TRL (``log_completions=True``; ``GRPOTrainer.log``, TRL 1.16) writes a parquet file at each step that it logs. Several
rewards are summed as they are, for the files do not say ``reward_weights``. Where one generation serves several steps
(``num_iterations``, ``steps_per_generation``) each of them writes its rows again: such a step is left out.

verl (``trainer.rollout_data_dir``; ``_write_generations``, verl 0.9) writes a JSONL file a step. The score is the sum
of the rewards of the tokens; ``--reward acc`` takes the reward function's own column.

simlab: a line of ``rollouts.jsonl`` has the first groups of a step (``simlab.llm.training.groups.rollout_records``), a
line of ``evaluation.jsonl`` how many samples of each problem are right.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

MAY_BE_ABSENT = ("answer", "log_probability", "length")  # from some of the rows
OPTIONAL = ("step", "completion", *MAY_BE_ABSENT)
ROLES = ("prompt", "reward", *OPTIONAL)
MOST_SAMPLES = 10**6  # of a problem in an evaluation

Row = Mapping[str, Any]  # the values of a rollout by column


class Unreadable(Exception):
    """A row that is left out; the message says why."""


class Layout(NamedTuple):
    """The columns of a trainer's logs.

    Attributes:
        name: of the trainer.
        columns: the usual column of each role.
        marks: columns by which a file is recognised; a row has all of them.
        rewards_between: two columns between which all columns of floats are rewards.
        repeats: true if a step may hold the rows of the step before once more, as they are.
        note: a remark for the reader of such a log.
    """

    name: str
    columns: Mapping[str, str]
    marks: tuple[str, ...]
    rewards_between: tuple[str, str] | None = None
    repeats: bool = False
    note: str = ""

    def rewards(self, row: Row) -> list[str]:
        """Return the reward columns of a row, where there may be several."""
        names = list(row)
        if self.rewards_between is None or not set(self.rewards_between) <= set(names):
            return []
        first, last = map(names.index, self.rewards_between)
        return [name for name in names[first + 1 : last] if isinstance(row[name], float)]


IDENTITY = {role: role for role in ROLES}
ROLLOUT_COLUMNS = IDENTITY | {"completion": "text", "answer": "solution", "log_probability": "logp"}
NO_ROLLOUTS = "the run recorded no rollouts (record.rollouts): these are its evaluations, not what it learned from"
LAYOUTS = (
    Layout(
        "trl",
        {"prompt": "prompt", "completion": "completion", "step": "step"},
        ("step", "prompt", "completion", "advantage"),
        rewards_between=("completion", "advantage"),
        repeats=True,
    ),
    Layout(
        "verl",
        {"prompt": "input", "completion": "output", "reward": "score", "step": "step"},
        ("input", "output", "score", "step"),
    ),
    Layout("simlab", ROLLOUT_COLUMNS, ("step", "prompt", "reward", "rollout", "text")),
    Layout(
        "simlab",
        {"prompt": "prompt", "reward": "reward", "step": "step"},
        ("step", "prompt", "reward", "rollout"),
        note=NO_ROLLOUTS,
    ),
    Layout("table", IDENTITY, ()),
)
NAMES = tuple(dict.fromkeys(layout.name for layout in LAYOUTS))


def recognise_layout(row: Row, name: str | None = None) -> Layout:
    """Return the first layout, of this name if any, that has the columns of a row; or the last of them."""
    allowed = [layout for layout in LAYOUTS if name in (None, layout.name)]
    return next((layout for layout in allowed if row.keys() >= set(layout.marks)), allowed[-1])


def expand_line(line: Row) -> list[Row]:
    """Return one row a rollout: those of a step of ``simlab train``, or else the line itself."""
    try:
        if isinstance(line.get("groups"), list):
            return [
                {"step": line["step"], "prompt": group["prompt"], "rollout": number}
                | {name: rollout[name] for name in ("reward", "text", "solution")}
                | {"logp": sum(rollout["logp"]), "length": len(rollout["logp"])}
                for group in line["groups"]
                for number, rollout in enumerate(group["rollouts"])
            ]
        if not isinstance(line.get("correct"), list) or "samples" not in line:
            return [line]
        samples = line["samples"]
        if not 0 <= min(line["correct"]) <= max(line["correct"]) <= samples <= MOST_SAMPLES:
            raise ValueError
        return [
            {"step": line["step"], "prompt": f"evaluation problem {problem}"}
            | {"rollout": sample, "reward": float(sample < correct)}
            for problem, correct in enumerate(line["correct"])
            for sample in range(samples)
        ]
    except (KeyError, TypeError, AttributeError, ValueError):
        raise Unreadable("the line is no step of simlab train") from None
