"""The methods of a sweep: which parameters an arm leaves open, and the arm with values for them.

A sweep lists whole arms, or estimators and surrogates, of which each pair makes an arm. Parameters that an arm fixes in
brackets stay as they are; the others can be swept by ``--param``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from simlab.arms import Arm
from simlab.constructors import added_constructor, base_constructor, estimator_constructor, is_file
from simlab.errors import check_choice
from simlab.estimators import REGISTRY
from simlab.grammar import Term
from simlab.surrogates import SURROGATES

WRITTEN = str | int | float | None  # what a parameter must be by default to be swept, or to be written in an arm


def pair(estimator: str, surrogate: str) -> Arm:
    """The arm of an estimator and a surrogate."""
    return Arm(f"{estimator}+{surrogate}", Term(estimator), (Term(surrogate),))


def check_pair(estimator: str, surrogate: str) -> None:
    """Raise ``InputError`` for the name of no estimator or no surrogate, registered or in a file."""
    if is_file(estimator):
        estimator_constructor(estimator)
    else:
        check_choice("estimator", estimator, sorted(REGISTRY))
    if is_file(surrogate):
        added_constructor(surrogate)
    else:
        check_choice("surrogate", surrogate, sorted(SURROGATES))


def open_parameters(arm: Arm, *, is_pair: bool) -> dict[str, dict[str, Any]]:
    """The defaults of the parameters that an arm does not fix, by section: ``estimator`` and ``surrogate``.

    The base of a pair is an estimator alone, without the parameters of the method that may have the same name.

    Raises:
        InputError: for an unknown name, and as ``simlab.own_files.load``.
    """
    found: dict[str, dict[str, Any]] = {"estimator": {}, "surrogate": {}}
    for section, part in _sections(arm):
        found[section] |= _open(part, _defaults(section, part.name, is_pair))
    return found


def fixes(arm: Arm, parameter: str) -> bool:
    """Whether an arm gives a parameter a value in brackets."""
    return any(parameter in dict(part.parameters) for _, part in _sections(arm))


def owners_of(parameter: str) -> str:
    """The estimators, or else the surrogates, that have a parameter, in words; empty if none has it."""
    estimators = [name for name, entry in REGISTRY.items() if parameter in entry.parameters]
    named = estimators or [name for name in SURROGATES if parameter in added_constructor(name).defaults]
    return " or ".join(sorted(named))


def with_values(arm: Arm, values: Mapping[str, Mapping[str, Any]], aggregation: str | None) -> Arm:
    """The arm with values, by section, for parameters that it leaves open, and with an aggregation."""
    base, *added = (_filled(section, part, values[section]) for section, part in _sections(arm))
    filled = replace(arm, base=base, added=tuple(added), aggregation=aggregation)
    return replace(filled, text=str(filled))


def _sections(arm: Arm) -> Iterator[tuple[str, Term]]:
    yield "estimator", arm.base
    for part in arm.added:
        yield "surrogate", part


def _defaults(section: str, name: str, is_pair: bool) -> Mapping[str, Any]:
    if section == "surrogate":
        return added_constructor(name).defaults
    if not is_pair:
        return base_constructor(name).defaults
    return estimator_constructor(name).defaults if is_file(name) else REGISTRY[name].parameters


def _open(part: Term, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the defaults that the part does not fix, and that can be written in an arm."""
    fixed = dict(part.parameters)
    return {name: default for name, default in defaults.items() if name not in fixed and isinstance(default, WRITTEN)}


def _filled(section: str, part: Term, values: Mapping[str, Any]) -> Term:
    known = _open(part, _defaults(section, part.name, is_pair=False))
    written = {name: _word(value) for name, value in values.items() if name in known}
    return Term(part.name, tuple(sorted([*part.parameters, *written.items()])))


def _word(value: Any) -> Any:
    """A value as an arm has it: None and truth values are words."""
    return str(value).lower() if value is None or isinstance(value, bool) else value
