"""Choose the evaluation of each training that is compared: at one step, after as many rollouts, or at one pass@1."""

from collections.abc import Sequence

from simlab.errors import InputError
from simlab.llm.compare.runs import Evaluation
from simlab.values import read_number

ALLOWED = "last, best, a step, rollouts=NUMBER or pass@1=NUMBER"
EQUAL = ("rollouts", "pass@1")


def read_moment(text: str) -> str | int:
    """A moment as a person writes it: ``last``, ``best``, a step, ``rollouts=NUMBER`` or ``pass@1=NUMBER``.

    Raises:
        InputError: for anything else.

    >>> read_moment("20"), read_moment("pass@1=0.5")
    (20, 'pass@1=0.5')
    """
    if text in ("last", "best"):
        return text
    name, _, number = text.partition("=")
    try:
        value = read_number(number if name in EQUAL else text)
    except InputError:
        value = None
    if value is None or (name not in EQUAL and not isinstance(value, int)):
        raise InputError(f"{text!r} cannot be read; allowed: {ALLOWED}")
    return text if name in EQUAL else int(value)


def in_words(at: str | int) -> str:
    """A moment as a table's head says it."""
    if isinstance(at, int):
        return f"step {at}"
    name, _, number = at.partition("=")
    words = {
        "rollouts": f"last evaluation within {number} rollouts",
        "pass@1": f"first evaluation with a pass@1 of {number} or more",
    }
    return words.get(name, f"{at} evaluation")


def short(at: str | int) -> str:
    """A moment as a figure's title says it."""
    return str(at).replace("=", " ") if str(at).startswith(EQUAL) else in_words(at)


def chosen(
    at: str | int, whose: str, evaluations: Sequence[Evaluation], rollouts: int | None = None
) -> Evaluation | None:
    """The evaluation of that moment; None where pass@1 has not been reached, or none was within so many rollouts.

    The best is that of the highest pass@1, the first of several: what is shown of it is too good by that choice.

    Args:
        at: see ``read_moment``.
        whose: the training, in the complaint.
        evaluations: the evaluations of one training, in the order of their steps.
        rollouts: the rollouts of one of its steps; None where its run does not say.

    Raises:
        InputError: for an unknown moment, a step without an evaluation, and rollouts that are not known.
    """
    if at == "last":
        return evaluations[-1]
    if at == "best":
        return max(evaluations, key=_pass_at_1)
    name, _, number = str(at).partition("=")
    if name == "pass@1":
        return next((one for one in evaluations if _pass_at_1(one) >= float(number)), None)
    if name == "rollouts":
        if rollouts is None:
            raise InputError(f"{whose}: its run does not say its prompts and group_size; allowed: runs that do")
        return next((one for one in reversed(evaluations) if one.step * rollouts <= float(number)), None)
    steps = [evaluation.step for evaluation in evaluations]
    if at not in steps:
        raise InputError(f"{whose}, was not evaluated at {at!r}; allowed: last, best, or a step of {steps}")
    return evaluations[steps.index(int(at))]


def _pass_at_1(evaluation: Evaluation) -> float:
    return float(evaluation.correct.mean() / evaluation.samples)
