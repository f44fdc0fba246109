"""Answer the page's questions that need no simulation: masses, advantages, the bank's solve rates, formulas."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from simlab.errors import InputError, check_whole
from simlab.estimators import advantages, estimator
from simlab.estimators.registry import check_domain
from simlab.explore import formula
from simlab.explore.controls import hold_panel, rounded
from simlab.explore.masses import mass_curves
from simlab.explore.weights import hold_weight, read_weight
from simlab.problems.exact import pass_at_k
from simlab.problems.prompt_bank import PromptBank, prompt_bank

LARGEST_GROUP = 1024
DIGITS = 12
BANK_SETTINGS = ("prompts", "beta_a", "beta_b", "second_share", "second_a", "second_b", "modes", "rare_ratio")
MARGIN = 1e-6  # solve rates are moved into [margin, 1 - margin]
BANK_KS = sorted({round(2 ** (power / 6)) for power in range(121)})  # 1 to 2^20
BINS = 20  # of the histogram of solve rates

Answer = dict[str, Any]


def answer(path: str, body: Any) -> Answer:
    """Return the answer to a question at one of ``QUESTIONS``."""
    return dict(rounded(QUESTIONS[path](body), DIGITS))


def answer_masses(body: Mapping[str, Any]) -> Answer:
    """Return ``mass_curves`` of a ``weight`` in groups of ``group_size``."""
    size = body.get("group_size", 8)
    check_whole("group_size", size, 1, LARGEST_GROUP)
    text, _ = hold_weight(body.get("weight", "grpo"), closed=True)
    name, parameters = read_weight(text)
    with np.errstate(all="ignore"):  # a formula counts as 0 where it is not finite
        return mass_curves(name, parameters, size, formula.split(text)[0] if formula.is_formula(text) else "")


def answer_advantages(body: Mapping[str, Any]) -> Answer:
    """Return the ``advantages`` of a group with ``rewards`` (G,) by a ``weight``, or why it is ``refused``.

    ``correct`` (G,) says which rollouts are; without it rewards above 0 do. From a fresh state, at log-probabilities
    and entropies of 0, as masses are.
    """
    rewards = np.asarray(body["rewards"], dtype=float)
    check_whole("rollouts", rewards.size, 1, LARGEST_GROUP)
    correct = np.asarray(body["correct"], dtype=bool) if "correct" in body else None
    text, _ = hold_weight(body.get("weight", "grpo"), closed=True)
    name, parameters = read_weight(text)
    chosen, tokens = estimator(name, **parameters), np.zeros((rewards.size, 1))
    try:
        check_domain(chosen, rewards, text)
        with np.errstate(all="ignore"):  # as in masses
            return {"advantages": advantages(chosen, rewards, old_logp=tokens, entropy=tokens, correct=correct)}
    except InputError as error:  # a line of the panel, so that other rewards asked for beside these are answered
        return {"refused": str(error)}


def answer_formula(body: Mapping[str, Any]) -> Answer:
    """Return what the page needs to know of a ``weight`` that is a formula: its parameters and its Python lines."""
    text, _ = hold_weight(body["weight"], closed=True)
    if not formula.is_formula(text):
        raise InputError(f"weight = {text!r} is no formula; allowed: such as =(1 - p)^g * (r - p)/s")
    _, parameters = read_weight(text)
    name = formula.SIGN + formula.split(text)[0]
    return {"name": name, "parameters": parameters, "python": formula.python_lines(text)}


def answer_bank(body: Mapping[str, Any]) -> Answer:
    """Return a base model's pass@k over a bank of prompts, of ``any`` answer and of a ``rare`` mode, at each of ``k``.

    ``shares`` (``BINS``,) is the histogram of solve rates, ``rare_modes`` the number that the bank has.
    """
    settings, _ = hold_panel("bank", dict(body))
    bank = bank_of(settings)
    rates, likely = bank.solve_rates, np.exp(bank.logits)
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


QUESTIONS: Mapping[str, Callable[[Mapping[str, Any]], Answer]] = {
    "masses": answer_masses,
    "advantages": answer_advantages,
    "formula": answer_formula,
    "bank": answer_bank,
}
