"""Recognise logs of metrics, a row a step, and read them as one table: they hold no rollouts."""

import dataclasses
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from simlab.diagnose.reading.cells import Row, Unreadable, is_absent, read_number, read_whole
from simlab.diagnose.reading.names import candidates
from simlab.diagnose.reading.nesting import GROUP

# By metric, the ends of the names under which trainers log it, the most trusted first (docs/diagnose.md).
NAMES: dict[str, str] = {
    "loss": "loss policy_loss actor/pg_loss pg_loss loss/policy_avg train/loss loss/mean total_loss",
    "reward": "reward reward/mean reward/all/mean critic/rewards/mean critic/score/mean reward/total rewards/mean "
    "rollout/rewards rollout/raw_reward reward_mean mean_reward task_reward/avg avg_raw_reward objective/scores scores "
    "train_reward",
    "reward_std": "reward_std rewards/std reward/std group_reward_std reward_std_mean",
    "no_signal": "frac_reward_zero_std frac_zero_std zero_std_ratio frac_zero_variance",
    "mixed": "by_group/frac_mixed solved_some",
    "all_right": "by_group/frac_all_good solved_all",
    "all_wrong": "by_group/frac_all_bad solved_none",
    "entropy": "entropy actor/entropy entropy/mean entropy/all/mean policy/entropy_avg policy_entropy optim/entropy "
    "entropy_loss approx_entropy entropy/avg",
    "kl": "kl actor/kl_loss kl_loss objective/kl ppo_kl kl_penalty loss/kl_avg objective/kl1_avg mismatch_kl/all/mean "
    "kl_sample_train_v1 kl_mean",
    "clip_share": "clip_ratio/region_mean clip_ratio pg_clipfrac clipfrac policy/clipfrac_avg clip_ratio/avg "
    "cispo_clip_ratio ppo_clip_ratio",
    "length": "completions/mean_length completion_length response_length/mean response_length sequence_lengths "
    "mean_gen_tokens_per_sample num_output_tokens/mean ac_tokens_per_turn response_len/mean gen_len seqlen/avg",
    "truncated": "completions/clipped_ratio response_length/clip_ratio truncated_ratio is_truncated/mean truncated "
    "truncation_rate no_eos_ratios/avg",
    "learning_rate": "learning_rate lr actor/lr optim/lr actor_lr",
    "grad_norm": "grad_norm actor/grad_norm optim/grad_norm gradient_norm",
}
WORDS = {metric: names.split() for metric, names in NAMES.items()}
STEPS = (
    "step", "global_step", "global step", "train/global_step", "trainer/global_step", "training/global_step",
    "rollout/step", "train/step", "iteration", "iter", "global_step/max_steps", "global_steps", "training_step",
    "_step",
)  # fmt: skip
NOT_TRAINING = re.compile(r"(^|/)(eval|test|valid|validation)([/_]|$)|(^|/)val[-_]")
PASS_AT = re.compile(r"pass[@_]?(\d+)$")
OF_STEPS = {"loss", "no_signal", "mixed", "grad_norm", "learning_rate", "clip_share"}  # no rollout has them
SUFFIX = re.compile(r"__(MIN|MAX)$")  # of an export of Weights & Biases


@dataclasses.dataclass(frozen=True)
class Metrics:
    """A table of metrics over steps.

    Attributes:
        step: (S,) ascending.
        values: (S,) each, NaN where a step lacks it: ``NAMES``, and ``pass@k``; ``no_signal`` is the share of groups
            whose rewards are all equal.
        sources: the column that each was read from, in words.
        others: every other number that was logged, by its own name.
        files: how many there were.
    """

    step: np.ndarray
    values: Mapping[str, np.ndarray]
    sources: Mapping[str, str]
    others: Mapping[str, np.ndarray]
    files: int


def is_metrics(rows: Sequence[Row]) -> bool:
    """Return True for rows of a step each: numbers with names of metrics, and neither prompts nor completions."""
    paths = list(dict.fromkeys(path for row in rows for path in row))
    if any(candidates(role, paths) for role in ("prompt", "completion", "conversation")):
        return False
    metrics = {rank[0] for path in paths if _is_numeric(rows, path) and (rank := rank_name(path)) is not None}
    of_rollouts = any(candidates(role, paths) for role in ("id", "group")) and not metrics & OF_STEPS
    if not metrics or of_rollouts:
        return False
    step = _step_of(paths)
    steps = [row[step] for row in rows if not is_absent(row.get(step))] if step is not None else []
    return len(metrics) > 1 or len(set(map(str, steps))) > len(rows) / 2


def _step_of(paths: Iterable[str]) -> str | None:
    names = {path.lower(): path for path in paths}
    return next((names[name] for name in STEPS if name in names), None)


def _is_numeric(rows: Sequence[Row], path: str) -> bool:
    cells = [row[path] for row in rows if not is_absent(row.get(path))]
    return bool(cells) and all(isinstance(cell, int | float | str) and _number(cell) is not None for cell in cells)


def _number(cell: Any) -> float | None:
    try:
        return read_number(cell, "")
    except Unreadable:
        return None


def rank_name(path: str) -> tuple[str, int] | None:
    """Return the metric that a column's name stands for, and how much it is trusted: lower is more.

    >>> rank_name("run-7 - train/frac_reward_zero_std"), rank_name("data.actor/entropy"), rank_name("eval_reward")
    (('no_signal', 0), ('entropy', 2), None)
    """
    name = path.rpartition(" - ")[2].replace(".", "/").lower().removeprefix("data/").removeprefix("train/").lstrip("_")
    if SUFFIX.search(path) or NOT_TRAINING.search(name):
        return None
    if match := PASS_AT.search(name):
        return f"pass@{match[1]}", 0
    matches = [
        (len(word), -(2 * number + (name != word)), metric)
        for metric, words in WORDS.items()
        for number, word in enumerate(words)
        if name == word or name.endswith(f"/{word}")
    ]
    _, trust, metric = max(matches, default=(0, 0, ""))
    return (metric, -trust) if matches else None


def read_metrics(rows: Iterable[Row], files: int) -> Metrics:
    """Join rows of metrics by their steps, the later of two counts."""
    table: dict[str, dict[int, float]] = {}
    for number, row in enumerate(rows):
        path = _step_of(row)
        try:
            step = number if path is None else read_whole(str(row[path]).partition("/")[0], path)
        except Unreadable:
            continue
        for name, cell in row.items():
            value = None if name in (path, GROUP) or is_absent(cell) or isinstance(cell, list | dict) else _number(cell)
            if value is not None:
                table.setdefault(name, {})[step] = value
    steps = np.array(sorted(set().union(*table.values())), dtype=np.int64)
    columns = {name: np.array([cells.get(step, math.nan) for step in steps.tolist()]) for name, cells in table.items()}
    ranks = sorted((rank[1], rank[0], name) for name in columns if (rank := rank_name(name)) is not None)
    sources = {metric: name for _, metric, name in reversed(ranks)}
    order = {metric: number for number, metric in enumerate(WORDS)}
    values = {
        metric: columns[sources[metric]] for metric in sorted(sources, key=lambda name: order.get(name, math.inf))
    }
    others = {name: column for name, column in columns.items() if name not in sources.values()}
    if "no_signal" not in values and "mixed" in values:
        values["no_signal"], sources["no_signal"] = 1 - values["mixed"], f"1 - {sources['mixed']}"
    elif "no_signal" not in values and {"all_right", "all_wrong"} <= values.keys():
        values["no_signal"] = values["all_right"] + values["all_wrong"]
        sources["no_signal"] = f"{sources['all_right']} + {sources['all_wrong']}"
    return Metrics(steps, values, sources, others, files)
