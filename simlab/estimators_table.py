"""List the registered estimators: what each computes and needs, and the mass it puts on successes and failures."""

from typing import Any

import numpy as np
from jaxtyping import Float

from simlab.errors import InputError
from simlab.estimators import REGISTRY, Registered
from simlab.theory import CLOSED_FORMS, Masses, masses

HEADINGS = ("estimator", "advantage of rollout i", "m_S, m_F", "needs", "for rewards", "signs", "mass peaks at p")
REWARDS = {"any": "any", "unit": "[0, 1]", "binary": "0 and 1"}
GROUP_SIZE = 64  # of the signs and peaks
UNKNOWN = "-"
TIE = 1e-9  # masses that differ by less, relatively, are equal


def as_entries() -> list[dict[str, Any]]:
    """Describe each estimator by a dictionary that JSON can hold."""
    described = []
    for entry in REGISTRY.values():
        fields = {name: getattr(entry, name) for name in ("name", "tag", "parameters", "formula")}
        built = entry.build()
        described.append({**fields, "domain": built.domain, "needs": sorted(built.needs), "summary": entry.summary})
    return described


def plain_list() -> str:
    """List two lines an estimator: its call and its needs, and its summary."""
    return "\n".join(
        f"{call(entry)}  [{entry.tag}]  needs {', '.join(sorted(entry.build().needs))}\n    {entry.summary}"
        for entry in REGISTRY.values()
    )


def markdown_table() -> str:
    """Write all registered estimators, one a line, as a GitHub table; signs and peaks computed at groups of 64."""
    heads = _line(*HEADINGS), _line(*["---"] * len(HEADINGS))
    return "\n".join([*heads, *map(markdown_line, REGISTRY.values())])


def _line(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


def markdown_line(entry: Registered) -> str:
    """Write one estimator's line of the table."""
    built = entry.build()
    try:
        computed = masses(built, GROUP_SIZE)
        described = signs(computed), peak(computed)
    except InputError:  # it needs more than the outcomes of a group
        described = UNKNOWN, UNKNOWN
    form = CLOSED_FORMS.get(entry.name)
    texts = [form.success, form.failure] if form else []
    of_masses = ", ".join(map(code, dict.fromkeys(texts))) or "none (computed)"
    formula = code(entry.formula) if entry.formula else UNKNOWN
    name, needs = f"{code(call(entry))} [{entry.tag}]", ", ".join(sorted(built.needs))
    return _line(name, formula, of_masses, needs, REWARDS[built.domain], *described)


def call(entry: Registered) -> str:
    """The estimator's name with its parameters and their defaults.

    >>> call(REGISTRY["grpo"])
    'grpo(ddof=0, eps=1e-06)'
    """
    return f"{entry.name}({', '.join(f'{name}={value}' for name, value in entry.parameters.items())})"


def code(text: str) -> str:
    """Text as code in a cell of a table, where a bar would end the cell.

    >>> print(code("|A|"))
    `\\|A\\|`
    """
    return "`" + text.replace("|", r"\|") + "`"


def signs(computed: Masses) -> str:
    """Describe the balance of masses: at every number of successes, on one side alone, or in sum over all numbers.

    >>> signs(masses("nsr", 4))
    'failures only'
    """
    if np.allclose(computed.success, computed.failure, rtol=TIE, atol=0):
        return "balanced"
    if not computed.failure.any():
        return "successes only"
    if not computed.success.any():
        return "failures only"
    success, failure = computed.success.sum(), computed.failure.sum()
    if np.isclose(success, failure, rtol=TIE, atol=0):
        return "biased, evens out"
    return "biased +" if success > failure else "biased -"


def peak(computed: Masses) -> str:
    """Find the solve rate at which the two masses together are largest, or that of each if they peak apart.

    >>> peak(masses("maxrl", 4)), peak(masses("asym_power", 64))
    ('0.25', 'm_S 0.33, m_F 0.67')
    """
    success, failure = np.abs(computed.success), np.abs(computed.failure)
    if not (success + failure).any():
        return UNKNOWN

    def rate(mass: Float[np.ndarray, " counts"]) -> str:
        first = int(np.flatnonzero(mass >= mass.max() * (1 - TIE))[0])
        return f"{computed.successes[first] / computed.successes[-1]:.2f}"

    if success.any() and failure.any() and rate(success) != rate(failure):
        return f"m_S {rate(success)}, m_F {rate(failure)}"
    return rate(success + failure)
