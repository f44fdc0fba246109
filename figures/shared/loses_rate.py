"""Judge who says beforehand which prompts lose solve rate, against a prediction that was committed before the runs.

The rule. A window is 20 steps of an arm, which trains on other prompts than those that are judged. A prompt falls
(rises) in it if its solve rate, by other samples at each end, is lower (higher) at the end by more than ``CLEAR_FALL``
standard errors. A predictor gives each prompt a score before the window, from rollouts that are none of these samples.
What counts is the area under the curve: the chance that a prompt that falls has a higher score than one that does not,
over the pairs of a seed's windows, with Student's interval over seeds. Only prompts that have
been solved and missed among the rollouts are read: nobody knows anything of the others.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from scipy.stats import rankdata

from figures.shared.by_optimizer import interval
from figures.shared.watched_runs import USUAL, WATCHED
from simlab.interference import danger

PREDICTION = Path(__file__).parents[1] / "data" / "loses_rate_prediction.json"
WINDOWS = {10: (0, 10, 30), 30: (20, 30, 50)}  # the step of a window's start: of the rate before it, start and end
LAGS = (5, 10, 20)  # steps after the first that is watched
CLEAR_FALL = 2.0
DANGERS = ((0.0, 0.1), (0.1, 0.9), (0.9, 2.0))  # chances that a net push is down, by which prompts are grouped
ESTIMATORS = ("full", "head")
PREDICTORS = (*ESTIMATORS, "rate", "rate, learned", "trend", "constant")
FEWEST_SPREAD = 3  # prompts of a window whose pushes have a spread
NEIGHBOURS = 32  # prompts of other seeds by which a solve rate learns how often such a rate falls
Values = Float[np.ndarray, " N"]


class Window(NamedTuple):
    """The prompts of one arm and seed: what is known before 20 steps, and what became of them.

    Attributes:
        rate, earlier: solve rates by rollouts at the start, and 10 steps before it.
        pushes: by estimator the net push, and that by each half of the rollouts.
        pace: the change of a solve rate in the window by a net push of 1.
        danger: chance that the net push is below 0, by the full estimator.
        before, after: solve rates by other samples at both ends.
        samples: how many of a prompt.
    """

    rate: Values
    earlier: Values
    pushes: dict[str, tuple[Values, Float[np.ndarray, "2 N"]]]
    pace: float
    danger: Values
    before: Values
    after: Values
    samples: int = USUAL.samples

    @property
    def known(self) -> Bool[np.ndarray, " N"]:
        """Mask of the prompts that were both solved and missed."""
        return np.asarray((self.rate > 0) & (self.rate < 1))

    @property
    def change(self) -> Values:
        """Measured change of the solve rates."""
        return np.asarray(self.after - self.before)

    @property
    def falls(self) -> Bool[np.ndarray, " N"]:
        """Mask of the prompts that clearly lose."""
        return self._clearly(self.before - self.after)

    @property
    def rises(self) -> Bool[np.ndarray, " N"]:
        """Mask of the prompts that clearly gain."""
        return self._clearly(self.change)

    def _clearly(self, difference: Values) -> Bool[np.ndarray, " N"]:
        # A rate of 0 or 1 has an error too: one success and one failure are added.
        smooth = [(rate * self.samples + 1) / (self.samples + 2) for rate in (self.before, self.after)]
        error = np.sqrt(sum(rate * (1 - rate) / self.samples for rate in smooth))
        return np.asarray(difference > CLEAR_FALL * error)

    def read(self, kind: str) -> Bool[np.ndarray, " N"]:
        """Mask of the prompts that an area of this kind reads."""
        return self.known & (self.falls | self.rises) if kind == "area, rises" else self.known

    def pairs(self, kind: str) -> int:
        """Number of pairs of a prompt that falls and one that does not."""
        falls = self.falls[self.read(kind)]
        return int(falls.sum() * (~falls).sum())

    def scores(self) -> dict[str, Values]:
        """Return the scores of the predictors that read nothing of other seeds; a high one says that it falls."""
        return {
            **{name: -net for name, (net, _) in self.pushes.items()},
            "rate": -self.rate,
            "trend": self.earlier - self.rate,
            "constant": np.zeros(len(self.rate)),
        }


def others(arm: dict[str, Any]) -> slice:
    """Return the rows of the prompts that are not trained."""
    return slice(arm.get("outside", USUAL.outside))


def trained_rows(arm: dict[str, Any]) -> slice:
    """Return the rows of the prompts that are trained."""
    return slice(others(arm).stop, None)


def windows_of(arm: dict[str, Any]) -> list[int]:
    """Return the first steps of the windows of which an arm has both ends."""
    return [step for step, (_, start, end) in WINDOWS.items() if {str(start), str(end)} <= arm["measured"].keys()]


def window(arm: dict[str, Any], name: str, step: int, rows: slice | None = None) -> Window:
    """Read a window from what ``watched_runs`` keeps of an arm of this name: of the prompts that are not trained."""
    rows = others(arm) if rows is None else rows
    earlier, start, end = WINDOWS[step]
    watched, measured = arm["watched"], arm["measured"]
    before = watched[str(earlier)]["rate"] if str(earlier) in watched else measured[str(earlier)]
    pushes = {
        name: (np.array(watched[str(start)][name]["net"])[rows], np.array(watched[str(start)][name]["halves"])[:, rows])
        for name in ESTIMATORS
    }
    pace = float(name.rpartition("learning_rate=")[2]) * (end - start)
    rates = (watched[str(start)]["rate"], before, measured[str(start)], measured[str(end)])
    rate, before, start_rate, end_rate = np.array(rates)[:, rows]
    in_danger = danger(pushes["full"][0], np.array(watched[str(start)]["full"]["error"])[rows])
    samples = arm.get("samples", USUAL.samples)
    return Window(rate, before, pushes, pace, in_danger, start_rate, end_rate, samples)


def area(scores: Values, falls: Bool[np.ndarray, " N"]) -> float:
    """Chance that one that falls has a higher score than one that does not; a tie counts half. NaN without both.

    >>> area(np.array([3.0, 1.0, 2.0, 0.0]), np.array([True, True, False, False]))
    0.75
    """
    hits, misses = int(falls.sum()), int((~falls).sum())
    if not hits or not misses:
        return float("nan")
    return float((rankdata(scores)[falls].sum() - hits * (hits + 1) / 2) / (hits * misses))


def learned(rates: Values, others: list[Window]) -> Values:
    """Share that fell among the prompts of other seeds that had the nearest solve rates."""
    known = np.concatenate([other.rate[other.known] for other in others])
    fell = np.concatenate([other.falls[other.known] for other in others])
    nearest = np.argsort(np.abs(known - rates[:, None]), axis=1, kind="stable")[:, :NEIGHBOURS]
    return np.asarray(fell[nearest].mean(axis=1))


def slope(seeds: list[list[Window]], estimator: str) -> float:
    """Measured change by predicted change, over the prompts of all windows of some seeds.

    One half of the rollouts stands for the prediction, and the other is its instrument, as noise in a prediction would
    flatten a slope: cov(change, half) / (pace cov(half, other half)), with both halves in both parts.
    """
    above = below = 0.0
    for each in (each for windows in seeds for each in windows):
        halves = each.pace * each.pushes[estimator][1][:, each.known]
        if not each.known.any():
            continue
        change = each.change[each.known] - each.change[each.known].mean()
        centred = halves - halves.mean(axis=1, keepdims=True)
        above, below = above + float((centred @ change).sum()) / 2, below + float(centred[0] @ centred[1])
    return above / below if below else float("nan")


def ages(trained: list[dict[str, Any]], estimator: str, lag: int) -> float:
    """Correlation over prompts of the net push at the first step that is watched with that of ``lag`` steps later.

    It is one of true pushes: covariances pair a half of the rollouts at one step with a half at the other, variances
    the two halves of a step; they are summed over seeds. Prompts count that were solved and missed at both.
    """
    sums = np.zeros(3)
    for arm in trained:
        first, later = (arm["watched"][str(WATCHED[0] + shift)] for shift in (0, lag))
        rows = others(arm)
        rates = np.array([first["rate"], later["rate"]])[:, rows]
        known = ((rates > 0) & (rates < 1)).all(axis=0)
        if not known.any():
            continue
        halves = [np.array(each[estimator]["halves"])[:, rows][:, known] for each in (first, later)]
        early, late = (each - each.mean(axis=1, keepdims=True) for each in halves)
        sums += [(early @ late.T).mean(), early[0] @ early[1], late[0] @ late[1]]
    between, *variances = sums
    # Noise can bring the estimate of a variance below 0: then there is no number.
    return float(between / np.sqrt(np.prod(variances))) if min(variances) > 0 else float("nan")


def sharper(trained: list[dict[str, Any]], name: str, end: int) -> dict[str, float]:
    """Read the sharper net push at the first step; no part of the rule.

    Returns: ``reliability``, the correlation of two that share no rollout; the ``slope`` of the change to step ``end``
    on it, where one is the other's instrument; the mean areas by it, by the push of fewer rollouts, and by the trend,
    where a prompt falls if its rate is lower at all; and the intervals of the first of these less the last, and less
    the second. Rates at ``end`` are by the samples that count if there are any, else by rollouts.
    """
    pace = float(name.rpartition("learning_rate=")[2]) * (end - WATCHED[0])
    sums, ordered = np.zeros(3), []
    for arm in trained:
        first = window(arm, name, WATCHED[0])
        after = np.array(arm["measured"].get(str(end)) or arm["watched"][str(end)]["rate"])[others(arm)]
        rate, nets = np.array(arm["sharper"]["rate"]), pace * np.array(arm["sharper"]["net"])
        known = (rate > 0) & (rate < 1)
        change = (after - first.before)[known]
        halves = nets[:, :, known] - nets[:, :, known].mean(axis=-1, keepdims=True)
        crossed = [halves[0, 0] @ halves[1, 1], halves[0, 1] @ halves[1, 0]]
        sums += [(halves @ (change - change.mean())).mean(), np.mean(crossed), np.mean(halves**2) * known.sum()]
        fewer = [first.scores()[of][known] for of in ("full", "trend")]
        ordered.append([area(scores, change < 0) for scores in (-halves.mean(axis=(0, 1)), *fewer)])
    areas_by = dict(zip(("sharper", "full", "trend"), np.mean(ordered, axis=0).tolist(), strict=True))
    less = {f"less {of}": over_seeds([row[0] - row[at] for row in ordered]) for of, at in (("trend", 2), ("full", 1))}
    ends = {f"{of}, {end}": bounds[at] for of, bounds in less.items() for end, at in (("low", 1), ("high", 2))}
    return {"reliability": float(sums[1] / sums[2]), "slope": float(sums[0] / sums[1]), **areas_by, **ends}


def sizes(trained: list[dict[str, Any]], name: str) -> dict[str, float]:
    """Read how large net pushes are beside their errors and beside what comes; no part of the rule.

    Returns: over the windows of all seeds and the known prompts, the median of ``noise``, the root mean square of the
    standard errors by the standard deviation of the pushes, and the mean correlation of the two ``halves`` of a
    target's rollouts; and the mean change of the solve rates of trained prompts in a window, as ``predicted`` and as
    ``measured``.
    """
    noise, halves, trained_changes = list[float](), list[float](), list[list[float]]()
    for arm in trained:
        for step in windows_of(arm):
            targets, sources = window(arm, name, step), window(arm, name, step, trained_rows(arm))
            trained_changes.append([sources.pace * sources.pushes["full"][0].mean(), sources.change.mean()])
            known = targets.known
            if known.sum() < FEWEST_SPREAD:
                continue
            net, both = targets.pushes["full"]
            errors = np.array(arm["watched"][str(step)]["full"]["error"])[others(arm)][known]
            noise.append(float(np.sqrt(np.mean(errors**2)) / net[known].std()))
            halves.append(float(np.corrcoef(both[:, known])[0, 1]))
    predicted, measured = np.mean(trained_changes, axis=0).tolist()
    return {
        "noise": float(np.median(noise)),
        "halves": float(np.mean(halves)),
        "predicted": predicted,
        "measured": measured,
    }


Numbers = dict[str, dict[str, list[float]]]


def arm_names(seeds: dict[str, Any]) -> list[str]:
    """Return the names of the arms of all seeds, those of AdamW first."""
    return sorted({name for arms in seeds.values() for name in arms}, key=lambda name: ("=sgd" in name, name))


def judged(seeds: dict[str, Any]) -> dict[str, Numbers]:
    """Return by arm, kind and predictor the mean over the seeds that have the arm, two at least, with its interval.

    ``area`` is against all that do not fall, ``area, rises`` against those that clearly rise, ``less`` the area by
    ``full`` less that by another predictor, ``slope`` measured by predicted change, ``slope, trained`` that of the
    prompts that are trained, ``age`` the correlations after each of ``LAGS``, ``falls`` the share of prompts that fall.
    """
    result = {}
    for name in arm_names(seeds):
        trained = [content[name] for content in seeds.values() if name in content]
        if len(trained) < 2:
            continue
        kinds = numbers(trained, name)
        result[name] = {kind: {of: over_seeds(row) for of, row in by.items()} for kind, by in kinds.items()}
    return result


def over_seeds(row: list[float]) -> list[float]:
    """Mean and interval over the seeds that have a number; none from fewer than two."""
    finite = np.array(row)[np.isfinite(row)]
    return interval(finite) if len(finite) > 1 else [float("nan")] * 3


def numbers(trained: list[dict[str, Any]], name: str) -> Numbers:
    """Return what ``judged`` averages, by seed; of ratios of sums over seeds the jackknife's pseudo-values."""
    windows = [[window(arm, name, step) for step in windows_of(arm)] for arm in trained]
    result: Numbers = {"area": {}, "area, rises": {}, "less": {}}
    for seed, some in enumerate(windows):
        others = [list(each) for each in zip(*(windows[:seed] + windows[seed + 1 :]), strict=True)] or [[]] * len(some)
        for kind in ("area", "area, rises"):
            each = [areas(before, rest, kind) for before, rest in zip(some, others, strict=True)]
            pairs = [each_window.pairs(kind) for each_window in some]
            for of in each[0]:
                total = sum(number * values[of] for number, values in zip(pairs, each, strict=True) if number)
                result[kind].setdefault(of, []).append(total / sum(pairs) if sum(pairs) else float("nan"))
    full = np.array(result["area"]["full"])
    result["less"] = {of: list(full - values) for of, values in result["area"].items() if of != "full"}
    trained_windows = [[window(arm, name, step, trained_rows(arm)) for step in windows_of(arm)] for arm in trained]
    for kind, rows in (("slope", windows), ("slope, trained", trained_windows)):
        result[kind] = {of: pseudo_values(functools.partial(slope, estimator=of), rows) for of in ESTIMATORS}
    for of in ESTIMATORS:
        lags = [lag for lag in LAGS if str(WATCHED[0] + lag) in trained[0]["watched"]]
        aged = {lag: functools.partial(ages, estimator=of, lag=lag) for lag in lags}
        result[f"age, {of}"] = {str(lag): pseudo_values(statistic, trained) for lag, statistic in aged.items()}
    result["falls"] = {"share": [_share_that_falls(row) for row in windows]}
    return result


def _share_that_falls(windows: list[Window]) -> float:
    """The mean over the windows in which something is known; NaN where there is none."""
    shares = [each.falls[each.known].mean() for each in windows if each.known.any()]
    return float(np.mean(shares)) if shares else float("nan")


def pseudo_values(statistic: Callable[[list[Any]], float], seeds: list[Any]) -> list[float]:
    """Return n s - (n - 1) s without a seed, for each seed; NaN where s rests on a single seed."""
    whole, count = statistic(seeds), len(seeds)
    if count < 2:
        return [whole]
    without = np.array([statistic(seeds[:at] + seeds[at + 1 :]) for at in range(count)])
    return list(count * whole - (count - 1) * without if np.isfinite(without).all() else without * np.nan)


def areas(current: Window, others: list[Window], kind: str) -> dict[str, float]:
    """Return the areas of all predictors in a window, by what the same window of other seeds says if there are any."""
    scores = current.scores()
    if others:
        scores["rate, learned"] = learned(current.rate, others)
    read = current.read(kind)
    return {name: area(scores[name][read], current.falls[read]) for name in PREDICTORS if name in scores}
