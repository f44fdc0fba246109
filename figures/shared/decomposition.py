"""Take apart what a weight does to pass@256: how far it is another clock on the path of a reference, and the rest.

Pairs of weights differ in one factor, by their masses in closed form (``simlab.theory.CLOSED_FORMS``, for rewards 0 and
1) and the speed that these give ``[simlab:interference-speed]``:

- difficulty: both put as much on successes as on failures, and only the speed differs as a function of the solve rate.
  ``power_alpha`` is F-GRPO of ``dr_grpo``, and ``rs_grpo`` is ``dr_grpo`` as its beta vanishes.
- sign: the speed is the same at every solve rate, up to a factor, and its shares of successes and failures differ.
  ``rloo`` is the symmetric one of ``psr`` and ``nsr``. (``asym_grpo`` at its default is ``dr_grpo``.)
- rollouts: the masses are the same, or those of the base where all log-probabilities are equal, and rollouts of one
  outcome get different shares. Two of the four have no closed form because of that.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from figures.shared.condensed import mean_and_error
from simlab.columns import at_equal_mass

REFERENCE = "grpo"
LEVEL = 0.45  # pass@1 of the reference when the two are compared
PARTS = ("total", "clock", "rest")
PAIRS = {
    "difficulty": (
        ("dr_grpo", "power_alpha"),
        ("dr_grpo", "easy_power"),
        ("dr_grpo", "rs_grpo"),
        ("rloo", "maxrl"),
        ("grpo", "f_grpo"),
        ("grpo", "reject_easy"),
        ("grpo", "pass_at_k_chen"),
    ),
    "sign": (("rloo", "psr"), ("rloo", "nsr"), ("rloo", "w_reinforce")),
    "rollouts": (
        ("grpo", "unlikeliness"),
        ("grpo", "cw_grpo"),
        ("grpo", "entropy_advantage"),
        ("grpo", "ds_grpo"),
    ),
}


class Curves(NamedTuple):
    """Runs of one method at one setting: pass@1 and pass@256 (seeds, records), and the step of each record."""

    pass_at_1: np.ndarray
    pass_at_256: np.ndarray
    steps: np.ndarray

    def of_each_seed(self) -> zip:
        """Pass@1, pass@256 and steps, seed by seed."""
        steps = np.broadcast_to(self.steps.astype(float), self.pass_at_1.shape)
        return zip(self.pass_at_1, self.pass_at_256, steps, strict=True)


def taken_apart(curves: Mapping[str, Curves]) -> dict[str, Any]:
    """Compare every weight with GRPO, and every pair's second with its first; None where ``parts`` gives none."""
    pairs = [(factor, *pair) for factor, group in PAIRS.items() for pair in group if curves.keys() >= set(pair)]
    return {
        "weights": {name: parts(curves[REFERENCE], curve) for name, curve in curves.items() if name != REFERENCE},
        "pairs": [
            {"factor": factor, "from": first, "to": second, "parts": parts(curves[first], curves[second])}
            for factor, first, second in pairs
        ],
    }


def joined(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Return old results with the weights and pairs of later runs, which replace their like."""
    pairs = {(pair["from"], pair["to"]): pair for pair in (*old["pairs"], *new["pairs"])}
    return {"weights": old["weights"] | new["weights"], "pairs": list(pairs.values())}


def parts(reference: Curves, weight: Curves, level: float = LEVEL) -> dict[str, Any] | None:
    """Split the difference of pass@256 in two parts, at the step where the reference reaches a level of pass@1.

    ``total`` is the weight's pass@256 at that step less the reference's. ``clock`` is by how much the reference's
    changes if it is read where its pass@1 is the weight's, and ``rest`` is what is left where pass@1 is the same. Means
    over seeds with the standard errors of these differences; None where the reference never has such a pass@1.
    """
    pairs = zip(reference.of_each_seed(), weight.of_each_seed(), strict=True)
    each = np.array([_of_a_seed(first, second, level) for first, second in pairs])
    if not np.isfinite(each).all():
        return None
    return {name: mean_and_error(values) for name, values in zip(("step", *PARTS), each.T, strict=True)}


def _of_a_seed(reference: tuple[np.ndarray, ...], weight: tuple[np.ndarray, ...], level: float) -> list[float]:
    """The step of comparison, and the three differences at it."""
    mass, passed, steps = reference
    step = _read(mass, steps, level)
    mass_of_weight, passed_of_weight = (np.interp(step, weight[2], values) for values in weight[:2])
    at_step, at_mass = _read(mass, passed, level), _read(mass, passed, mass_of_weight)
    return [step, passed_of_weight - at_step, at_mass - at_step, passed_of_weight - at_mass]


def _read(mass: np.ndarray, values: np.ndarray, level: float) -> float:
    """Return ``values`` where ``mass`` first reaches a level."""
    return float(at_equal_mass(mass[None], values[None], np.array([level]))[0, 0])


def tables(results: Mapping[str, Any]) -> str:
    """The table of README.md, of pairs, one of every weight against GRPO, the largest rest first, and the shares."""
    first = next(iter(results.values()))
    pairs = [
        (f"{row['factor']}: `{row['from']}` to `{row['to']}`", [each["pairs"][i]["parts"] for each in results.values()])
        for i, row in enumerate(first["pairs"])
    ]
    weights = [(f"`{name}`", [each["weights"][name] for each in results.values()]) for name in first["weights"]]
    weights.sort(key=lambda row: -abs(row[1][0]["rest"]["mean"]) if row[1][0] else 0.0)
    both = [_table(head, list(results), rows) for head, rows in (("pair", pairs), ("weight", weights))]
    shares = [f"{name}: the clock explains {share_of_clock(each):.1%} of the squares" for name, each in results.items()]
    return "\n\n".join([*both, "\n".join(shares)])


def share_of_clock(result: Mapping[str, Any]) -> float:
    """1 less the sum of squares of what is left of the weights' differences, over that of the whole differences."""
    whole, rest = (
        sum(entry[term]["mean"] ** 2 for entry in result["weights"].values() if entry) for term in ("total", "rest")
    )
    return float(1 - rest / whole)


def _table(head: str, sweeps: list[str], rows: list[tuple[str, list[dict[str, Any] | None]]]) -> str:
    """Rows of a name and its parts in each sweep, in thousandths with standard errors."""
    heads = [f"{sweep}: {term}" for sweep in sweeps for term in PARTS]
    lines = [f"| {head} | {' | '.join(heads)} |", f"|---|{'---:|' * len(heads)}"]
    for name, entries in rows:
        cells = [_cell(entry[term]) if entry else "" for entry in entries for term in PARTS]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(number: dict[str, float]) -> str:
    """Mean and standard error in thousandths."""
    return f"{1000 * number['mean']:.1f}({1000 * number['error']:.1f})"
