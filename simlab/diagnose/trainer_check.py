"""Check a trainer's advantages: which estimator gives them from rewards and groups, and which rows stand out."""

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from simlab.diagnose.batches import Batch, Table, lay_out, recompute, step_batches
from simlab.diagnose.components import by_trust, gdpo, independent, reward_weights
from simlab.diagnose.diagnosis import Diagnosis, Finding, Rows
from simlab.diagnose.estimate import percent
from simlab.diagnose.reading import LoggedRollouts, Reading
from simlab.errors import InputError
from simlab.estimators import REGISTRY, estimator
from simlab.text import plain_number

QUESTION = "are the trainer's advantages right?"
ROUNDING = 1e-5  # of an advantage, at least of 1: float32's rounding, and less than an eps of 1e-4 moves it
RESIDUE = 1e-6  # of the largest reward: rewards closer than this differ by rounding alone
DECIMALS = (2, 3, 4, 5, 6)  # to which a log may round
FITS, MOSTLY = 0.999, 0.5  # shares of rollouts
LARGE = 100.0  # of an advantage by the spread of its rewards: no estimator of a group of fewer than 10,000 gives it
SCREENED = 2**16  # cells of tables on which every estimator is tried
REGROUPED = 2**13  # rollouts on which other groups are tried
MOST_GROUP = 256  # rollouts of another group, but for all of a step
LOOKED_AT = 1000  # rows that stand out of which the cause is sought
UNUSED = 1e-3  # of the largest weight of a part: the log's rounding
NAMED = 5  # parts
STEP_FACTOR = " times one factor a step"

# As trainers have them; of equal fits the first is named, the others of the registry come after.
COMMON: tuple[tuple[str, Mapping[str, float]], ...] = (
    *(("grpo", {"ddof": ddof, "eps": eps}) for ddof in (1, 0) for eps in (1e-4, 1e-6, 1e-8)),
    ("dr_grpo", {}),
    ("rloo", {}),
    *((name, {"ddof": ddof}) for name in ("reinforce_pp", "reinforce_pp_baseline") for ddof in (1, 0)),
)
OF_GROUPS = (0, 1, 4, 6, 7)  # of these, those by which other groups are tried


class Step(NamedTuple):
    """The rewards and advantages of a step, (P, G).

    ``counted`` is true where an advantage is logged, and rewards or advantages of the group differ: the others fit
    whatever centres rewards.
    """

    batch: Batch
    rewards: Table
    advantages: Table
    counted: Bool[np.ndarray, "P G"]

    def misses(self, predicted: Table, rounding: float) -> Bool[np.ndarray, "P G"]:
        """Return True for counted advantages that differ from the predicted ones by more than rounding."""
        allowed = rounding + ROUNDING * np.maximum(1, np.abs(self.advantages))
        return np.asarray(self.counted & (np.abs(predicted - self.advantages) > allowed))


class Candidate(NamedTuple):
    """An estimator, its advantages of a step, and the share and the mean error of those that are the logged ones."""

    name: str
    predict: Callable[[Step], Table]
    share: float = 0.0
    error: float = np.inf


def does_the_trainer_agree(reading: Reading, result: Diagnosis) -> Finding | None:
    """Say which estimator gives the logged advantages; None where there are none, or only those of groups alike."""
    logged = reading.rollouts.advantage
    if logged is None:
        return None
    every = (_step(reading.rollouts, logged, batch) for batch in step_batches(reading.rollouts))
    steps = [step for step in every if step.counted.any()]
    if not steps:
        return None
    rounding = _decimal_rounding(logged)
    few = _first(steps, SCREENED)
    best = _score(_best(_score(fit, few, rounding) for fit in _candidates(reading, few)), steps, rounding)
    number = sum(int(step.counted.sum()) for step in steps)
    rows: Rows = (
        ("advantages compared", f"{number:,}"),
        ("estimator that fits best", best.name),
        ("advantages that it gives", f"{best.share:.4g}"),
    )
    if best.share >= FITS:
        sentence = f"Yes: {_many(best.share)} {number:,} advantages are those of {best.name}, recomputed from rewards"
        return Finding(QUESTION, f"{sentence} and groups.", 0.05, rows)
    if not any(step.advantages[step.counted].any() for step in steps):
        sentence = "Broken: all advantages are 0 although rewards differ in their groups, so that nothing is learned."
        return Finding(QUESTION, f"{sentence} Check what happens to rewards on their way to the loss.", 1.0, rows)
    other = _best([best, *_other_groups(_first(steps, REGROUPED), rounding)])
    if other.share >= FITS:
        sentence = f"Wrong groups: {_many(other.share)} advantages are those of {other.name}, and only"
        sentence += f" {percent(best.share)} those of {best.name} in the log's groups. Check group ids and row order."
        return Finding(QUESTION, sentence, 0.95, (*rows, ("groups that fit", other.name)))
    return _partial(best, steps, rounding, rows)


def _many(share: float) -> str:
    return "all" if share == 1 else f"{share:.2%} of"


def _step(rollouts: LoggedRollouts, logged: Float[np.ndarray, " N"], batch: Batch) -> Step:
    rewards, advantages = batch.take(rollouts.reward), batch.take(logged)
    differ = [np.ptp(np.where(batch.mask, values, values[:, :1]), axis=1) > 0 for values in (rewards, advantages)]
    there = batch.mask & np.isfinite(logged[batch.rollout])
    return Step(batch, rewards, advantages, there & ((differ[0] | differ[1])[:, None] | (advantages != 0)))


def _first(steps: list[Step], cells: int) -> list[Step]:
    """Return the first steps of at most so many cells, or the first alone."""
    totals = itertools.accumulate(step.counted.size for step in steps)
    return [step for step, total in zip(steps, totals, strict=True) if total <= cells] or steps[:1]


def _best(fits: Iterable[Candidate]) -> Candidate:
    return max(fits, key=lambda fit: (fit.share, -fit.error))


def _decimal_rounding(values: Float[np.ndarray, " N"]) -> float:
    """Return by how much the decimals of a log may move a value: half a unit of the last."""
    finite = values[np.isfinite(values)]
    places = next((decimals for decimals in DECIMALS if np.abs(finite - finite.round(decimals)).max() < 1e-12), None)
    return 0.0 if places is None else 0.5 * 10.0**-places


def _score(fit: Candidate, steps: list[Step], rounding: float) -> Candidate:
    """Return the fit with its share and error on these steps; 0 where the estimator refuses the rewards."""
    number, missed, error = sum(step.counted.sum() for step in steps), 0, 0.0
    with contextlib.suppress(InputError):
        for step in steps:
            predicted = fit.predict(step)
            missed += step.misses(predicted, rounding).sum()
            error += np.abs(predicted - step.advantages)[step.counted].sum()
        return fit._replace(share=1 - float(missed / number), error=float(error / number))
    return fit


def _candidates(reading: Reading, steps: list[Step]) -> Iterator[Candidate]:
    """Yield the estimators that read rewards alone and keep nothing from step to step, and what else trainers do."""
    for name, parameters in COMMON:
        yield _named(name, parameters)
    for name in REGISTRY:
        chosen = estimator(name)
        if name not in dict(COMMON) and chosen.needs == {"rewards"} and not chosen.remembers:
            yield _named(name, {})
    weights, columns = reward_weights(reading), reading.rollouts.components
    if len(weights) > 1:
        yield Candidate(
            "gdpo",
            lambda step: gdpo({name: step.batch.take(columns[name]) for name in weights}, weights, step.batch.mask),
        )
    yield from _weighted(reading, steps)
    for ddof in (0, 1):
        yield Candidate(f"the leave-one-out mean and std (ddof={ddof})", functools.partial(_leave_one_out, ddof=ddof))
    for name, parameters in (("dr_grpo", {}), COMMON[0]):
        yield _times_factor(_named(name, parameters))


def _named(name: str, parameters: Mapping[str, float]) -> Candidate:
    options = ", ".join(f"{key}={value:g}" for key, value in parameters.items())
    title = f"{name}({options})" if options else name
    return Candidate(title, lambda step: recompute(name, step.rewards, step.batch.mask, **parameters))


def _times_factor(fit: Candidate) -> Candidate:
    """Return advantages times the median ratio of each step, as where a trainer divides by the std of its batch."""

    def predict(step: Step) -> Table:
        values = fit.predict(step)
        used = step.counted & (values != 0)
        factor = np.median(step.advantages[used] / values[used]) if used.any() else 1.0
        return values * (factor if factor > 0 else 1.0)  # 0 would fit advantages that are lost, -1 those turned round

    return Candidate(fit.name + STEP_FACTOR, predict)


def _weighted(reading: Reading, steps: list[Step]) -> Iterator[Candidate]:
    """Yield GRPO of parts of the reward with other weights than the log's sum, as ``reward_weights`` of TRL are.

    GRPO's advantages of a group are the centred weighted sum over its std, which is another one in each group. So the
    weights w are those for which the centred parts C of each group give C w along its advantages A: the eigenvector
    of the least eigenvalue of the sum over groups of C'C - C'A A'C / A'A.
    """
    parts = reading.rollouts.components
    flat = {name: np.concatenate([_part(step, parts[name]).ravel() for step in steps]) for name in by_trust(reading)}
    names = list(independent(flat))
    if len(names) < 2:
        return
    sizes = np.array([np.linalg.norm(flat[name]) for name in names])
    total, towards = np.zeros((len(names), len(names))), np.zeros(len(names))
    for step in steps:
        table = np.stack([_part(step, parts[name]) for name in names]) / sizes[:, None, None]
        along = np.einsum("cpg,pg->pc", table, step.advantages)
        towards += along.sum(axis=0)
        taught = (step.advantages**2).sum(axis=1)
        total += np.einsum("cpg,dpg->cd", table, table)
        total -= np.einsum("pc,pd->cd", along, along / np.where(taught > 0, taught, np.inf)[:, None])
    weights = np.linalg.eigh(total)[1][:, 0]
    weights *= np.sign(weights @ towards) / sizes
    used = np.abs(weights) > UNUSED * np.abs(weights).max()
    for scale in (np.abs(weights[used]).max(), np.abs(weights[used]).min()):
        by_name = {names[index]: float(weights[index] / scale) for index in np.flatnonzero(used)}
        shown = ", ".join(f"{name.rpartition('.')[2]} x {weight:.3g}" for name, weight in list(by_name.items())[:NAMED])
        for index in OF_GROUPS[:3]:
            fit = _named(*COMMON[index])
            predict = functools.partial(_of_parts, fit=fit, parts=parts, weights=by_name)
            yield Candidate(f"{fit.name} of {shown}", predict)


def _part(step: Step, values: Float[np.ndarray, " N"]) -> Table:
    """Return a part of the reward centred in each group."""
    return recompute("dr_grpo", step.batch.take(values), step.batch.mask)


def _of_parts(step: Step, fit: Candidate, parts: Mapping[str, np.ndarray], weights: Mapping[str, float]) -> Table:
    rewards = np.zeros(step.rewards.shape)
    for name, weight in weights.items():
        rewards += weight * step.batch.take(parts[name])
    return fit.predict(step._replace(rewards=rewards))


def _leave_one_out(step: Step, ddof: int) -> Table:
    """Return (r_i - mean) / std of the other rollouts' rewards; 0 where these are all equal."""
    mask, others = step.batch.mask, step.batch.mask.sum(axis=1, keepdims=True) - 1
    centred = recompute("dr_grpo", step.rewards, mask)
    squares = (centred**2).sum(axis=1, keepdims=True) - centred**2
    mean = -centred / np.maximum(others, 1)
    variance = (squares - others * mean**2) / np.maximum(others - ddof, 1)
    scale = (centred**2).max(axis=1, keepdims=True)
    differ = variance > RESIDUE * scale
    return np.where(mask & differ, (centred - mean) / np.sqrt(np.where(differ, variance, 1)), 0.0)


def _other_groups(steps: list[Step], rounding: float) -> Iterator[Candidate]:
    """Yield how estimators fit other groups: so many rows of the log in turn, or every so many."""
    rows = int(steps[0].batch.mask.sum())
    for size in (size for size in range(2, rows + 1) if rows % size == 0 and (size <= MOST_GROUP or size == rows)):
        for kind, in_turn in (("consecutive rows", True), (f"rows, each {rows // size} apart", False)):
            regrouped = [_regroup(step, size, in_turn=in_turn) for step in steps]
            for index in OF_GROUPS:
                fit = _score(_named(*COMMON[index]), regrouped, rounding)
                yield fit._replace(name=f"{fit.name} in groups of {size} {kind}")


def _regroup(step: Step, size: int, *, in_turn: bool) -> Step:
    """Return a step in groups of so many rows of the log, or of every so many; of all where there are too few."""
    rollout = step.batch.rollout[step.batch.mask]
    order = np.argsort(rollout)
    groups = max(1, len(order) // size)
    position = np.arange(len(order))
    table = lay_out(np.minimum(position // size, groups - 1) if in_turn else position % groups)
    rewards, logged, counted = (values[step.batch.mask][order] for values in step[1:])
    batch = Batch(rollout[order][table.rollout], table.mask)
    cells = [np.where(table.mask, values[table.rollout], 0) for values in (rewards, logged, counted)]
    return Step(batch, cells[0], cells[1], cells[2].astype(bool))


def _partial(best: Candidate, steps: list[Step], rounding: float, rows: Rows) -> Finding:
    """Say which rows stand out, where an estimator fits most, or that none fits."""
    misses = [step.misses(best.predict(step), rounding) for step in steps]
    sizes = [np.where(mask, np.abs(step.advantages), 0) for step, mask in zip(steps, misses, strict=True)]
    number, largest = sum(int(mask.sum()) for mask in misses), max(float(size.max()) for size in sizes)
    huge = [
        np.argwhere(size >= LARGE * np.maximum(1, _spread(step))).tolist()[:LOOKED_AT]
        for step, size in zip(steps, sizes, strict=True)
    ]
    alone = [_others_are_equal(step, *cell) for step, cells in zip(steps, huge, strict=True) for cell in cells]
    rows, size = (*rows, ("largest advantage that does not fit", plain_number(largest))), plain_number(largest, 2)
    if alone and np.mean(alone) > MOSTLY:
        sentence = f"Broken: {len(alone):,} advantages are as large as {size}. The other rewards of their groups"
        sentence += " are equal, so that a leave-one-out std is rounding residue: use the std of the group."
        return Finding(QUESTION, sentence, 1.0, rows)
    if best.share >= MOSTLY:
        sentence = f"Mostly: {best.name} gives {percent(best.share)} of the advantages; {number:,} stand out, up to"
        sentence += f" {size} in size. Are rollouts of their groups missing, or were advantages changed later?"
        return Finding(QUESTION, sentence, 0.9 if alone else 0.4, rows)
    sentence = f"It cannot be told: no estimator gives these advantages from rewards ({best.name} gives"
    sentence += f" {percent(best.share)}). A penalty, a critic or weights of rewards may be in them."
    return Finding(QUESTION, sentence, 0.9 if alone else 0.3, rows)


def _spread(step: Step) -> Table:
    return np.asarray(np.ptp(np.where(step.batch.mask, step.rewards, step.rewards[:, :1]), axis=1, keepdims=True))


def _others_are_equal(step: Step, prompt: int, rollout: int) -> bool:
    others = step.batch.mask[prompt].copy()
    others[rollout] = False
    rewards = step.rewards[prompt][others]
    return bool(len(rewards) > 0 and np.ptp(rewards) <= RESIDUE * max(1.0, float(np.abs(rewards).max())))
