"""Answer the questions of the page that need no simulation: masses, the bank's solve rates, formulas.

The server answers each as it is asked. A page without a server looks its questions up among those of
``answers_in_advance``, and draws the nearest one if its own is not there.

python -m simlab.explore.answers   (writes linked_tables.json anew, in a minute)
"""

import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from simlab.errors import InputError, check_choice, check_whole
from simlab.estimators import REGISTRY
from simlab.explore import formula
from simlab.explore.controls import controls_of_panel, rounded
from simlab.explore.in_advance import in_advance
from simlab.explore.masses import RATES, group_masses, has_masses, limit_curve, mass_curves, push_of
from simlab.explore.panel_settings import check_plain, hold_panel
from simlab.explore.presets import PRESETS
from simlab.explore.weights import SEPARATOR, WeightParameter, hold_weight, parameters_of, read_weight, write_weight
from simlab.files import write_whole
from simlab.problems.exact import pass_at_k
from simlab.problems.prompt_bank import PromptBank, prompt_bank

LARGEST_GROUP = 1024
DIGITS, DIGITS_IN_ADVANCE = 12, 4
BANK_SETTINGS = ("prompts", "beta_a", "beta_b", "second_share", "second_a", "second_b", "modes", "rare_ratio")
MARGIN = 1e-6  # solve rates are moved into [margin, 1 - margin]
BANK_KS = sorted({round(2 ** (power / 6)) for power in range(121)})  # 1 to 2^20
BINS = 20  # of the histogram of solve rates
SIZES = (2, 4, 8, 16, 32, 64)  # of groups whose masses are computed in advance
STOPS = 9  # about so many values of a parameter have masses in advance
STEPS = (0.1, 0.25, 0.5, 1, 5)  # between these
LINKED = "linked"
LINKED_TABLES = Path(__file__).with_name("linked_tables.json")
LINKED_SIZES = (4, 8, 16)

Answer = dict[str, Any]


def answer(path: str, body: Any) -> Answer:
    """Return the answer to a question at one of ``QUESTIONS``.

    Raises:
        InputError: for a question of another form, or settings that cannot be read.
    """
    names, function = QUESTIONS[path]
    if not isinstance(body, dict):
        raise InputError(f"the request is no object; allowed: {', '.join(names)}")
    for name in body:
        check_choice("entry", name, names)
    return dict(rounded(function(body), DIGITS))


def answer_masses(body: Mapping[str, Any]) -> Answer:
    """Return ``mass_curves`` of a ``weight`` in groups of ``group_size``."""
    size = body.get("group_size", 8)
    check_whole("group_size", size, 1, LARGEST_GROUP)
    text = _weight_text(body)
    name, parameters = read_weight(text)
    with np.errstate(all="ignore"):  # a formula counts as 0 where it is not finite
        return mass_curves(name, parameters, size, formula.split(text)[0] if formula.is_formula(text) else "")


def _weight_text(body: Mapping[str, Any]) -> str:
    text = body.get("weight", "grpo")
    check_plain("weight", text)
    return hold_weight(str(text), closed=True)[0]


def answer_formula(body: Mapping[str, Any]) -> Answer:
    """Return what the page needs to know of a ``weight`` that is a formula: its parameters and its Python lines."""
    text = _weight_text(body)
    if not formula.is_formula(text):
        raise InputError(f"weight = {text!r} is no formula; allowed: such as =(1 - p)^g * (r - p)/s")
    _, parameters = read_weight(text)
    return {
        "name": formula.SIGN + formula.split(text)[0],
        "parameters": parameters,
        "python": formula.python_lines(text),
    }


def answer_bank(body: Mapping[str, Any]) -> Answer:
    """Return a base model's pass@k over a bank of prompts, of ``any`` answer and of a ``rare`` mode, at each of ``k``.

    ``shares`` (``BINS``,) is the histogram of solve rates, ``rare_modes`` the number that the bank has.
    """
    settings, _ = hold_panel("bank", dict(body))
    bank = bank_of(settings)
    rates = bank.solve_rates
    likely = np.exp(bank.logits)
    rare = (likely * bank.target).sum(axis=1) / likely.sum(axis=1)
    return {
        "k": BANK_KS,
        "any": [float(pass_at_k(rates, k).mean()) for k in BANK_KS],
        "rare": [float(pass_at_k(rare, k).mean()) for k in BANK_KS],
        "shares": np.bincount(np.minimum((rates * BINS).astype(int), BINS - 1), minlength=BINS) / len(rates),
        "rare_modes": rare_modes(settings),
    }


def bank_of(settings: Mapping[str, Any]) -> PromptBank:
    """Return the prompts of the panel of pass@k, listed."""
    values = {name: settings[name] for name in BANK_SETTINGS}
    return prompt_bank(rare_modes=rare_modes(settings), margin=MARGIN, **values).listed()


def rare_modes(settings: Mapping[str, Any]) -> int:
    """Return how many of a prompt's modes are rare: fewer than all."""
    return int(min(settings["rare_modes"], settings["modes"] - 1))


QUESTIONS: Mapping[str, tuple[tuple[str, ...], Callable[[Mapping[str, Any]], Answer]]] = {
    "masses": (("weight", "group_size"), answer_masses),
    "formula": (("weight",), answer_formula),
    "bank": ((*BANK_SETTINGS, "rare_modes"), answer_bank),
}


# In advance, for a page without a server


def answers_in_advance() -> dict[str, Any]:
    """Return what an exported page holds.

    Returns:
        ``masses``: by estimator, a list of ``parameters`` (all that the page shows), ``limit``, and ``groups`` by their
        size, as ``mass_curves`` has them; a ``failure`` that equals ``success`` is null, and so are the usual
        ``rates``. ``bank``: a list of questions with their answers, for the banks that were simulated in advance.
    """
    tables = {name: [*tables_in_advance(name)] for name in sorted(filter(has_masses, REGISTRY)) if name != LINKED}
    tables[LINKED] = json.loads(LINKED_TABLES.read_text(encoding="utf-8"))
    banks = {}
    for run in in_advance():
        if run["panel"] == "bank":
            settings = hold_panel("bank", run["settings"])[0]
            question = {name: settings[name] for name in (*BANK_SETTINGS, "rare_modes")}
            banks[json.dumps(question)] = {"question": question, "answer": rounded(answer_bank(question), 5)}
    return {"masses": tables, "bank": [*banks.values()]}


def tables_in_advance(name: str) -> Iterator[dict[str, Any]]:
    """Yield the tables of an estimator: each parameter at its stops or choices, the others at their defaults."""
    defaults = {key: parameter.default for key, parameter in parameters_of(name).items()}
    variants = [defaults]
    for key, parameter in parameters_of(name).items():
        variants += [defaults | {key: value} for value in (parameter.choices or _stops(key, parameter))]
    variants += [defaults | parameters for parameters in _pinned_in_presets(name)]
    unique = {write_weight(name, parameters): parameters for parameters in variants}
    for parameters in unique.values():
        yield table_in_advance(name, parameters, SIZES)


def table_in_advance(name: str, parameters: dict[str, Any], sizes: tuple[int, ...]) -> dict[str, Any]:
    """Return one table of an estimator, as ``answers_in_advance`` has it."""
    limit = limit_curve(name, parameters)
    groups = {}
    for size in sizes:
        masses = group_masses(name, size, REGISTRY[name].parameters | parameters)
        push = push_of(*(limit or (np.arange(size + 1) / size, *masses)))
        groups[str(size)] = _sides(*masses) | {"push": push}
    rates = limit and (limit[0] if len(limit[0]) > len(RATES) else None)
    table = {"parameters": parameters, "limit": limit and {"rates": rates, **_sides(*limit[1:])}, "groups": groups}
    return dict(rounded(table, DIGITS_IN_ADVANCE))


def _sides(success: np.ndarray, failure: np.ndarray) -> dict[str, Any]:
    return {"success": success, "failure": None if np.array_equal(success, failure, equal_nan=True) else failure}


def _stops(key: str, parameter: WeightParameter) -> list[float]:
    """Return about ten values of a slider, round ones if it is linear; of gamma twice as many."""
    low, high = parameter.low, parameter.high
    if parameter.whole or parameter.scale == "log":
        values = np.geomspace(low, high, STOPS)
        return sorted({round(value) if parameter.whole else float(f"{value:.3g}") for value in values})
    step = 0.5 if key == "gamma" and high > 1 else next(step for step in STEPS if (high - low) / step <= STOPS + 1)
    return sorted(
        {low, *(round(step * count, 2) for count in range(math.ceil(low / step), math.floor(high / step) + 1))}
    )


def _pinned_in_presets(name: str) -> Iterator[dict[str, Any]]:
    defaults = controls_of_panel("masses")["pinned"].default
    for preset in PRESETS.values():
        texts = [str(preset.settings.get(key, defaults)) for key in ("weight", "pinned") if preset.panel == "masses"]
        for text in itertools.chain.from_iterable(text.split(SEPARATOR) for text in texts):
            if text and read_weight(text)[0] == name:
                yield read_weight(text)[1]


def linked_tables() -> Iterator[dict[str, Any]]:
    """Yield the tables of all linked choices, with numbers such as gamma at their defaults."""
    parameters = parameters_of(LINKED)
    defaults = {key: parameter.default for key, parameter in parameters.items()}
    choices = {key: parameter.choices for key, parameter in parameters.items() if parameter.choices}
    for values in itertools.product(*choices.values()):
        try:
            yield table_in_advance(LINKED, defaults | dict(zip(choices, values, strict=True)), LINKED_SIZES)
        except InputError:  # it reads more than the rewards of a step
            continue


if __name__ == "__main__":
    text = json.dumps([*linked_tables()], separators=(",", ":"))
    write_whole(LINKED_TABLES, (text + "\n").encode())
