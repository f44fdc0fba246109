"""Arms: the methods that a run compares, written as text.

``maxrl`` is an estimator with the PPO clip and the mean over each sequence; ``dapo`` a whole method of
``simlab.methods``. ``+`` puts another surrogate in place of its own or adds a penalty or bonus, ``@`` another
aggregation, and brackets give parameters::

    f_grpo(gamma=0.5)    grpo+casp(alpha=0.05,candidates=4)    maxrl+clip_higher@token_mean    grpo+kl_penalty
"""

import dataclasses
import inspect
import json
import re
from dataclasses import dataclass
from typing import Any

from simlab.errors import InputError, build, check_choice
from simlab.estimators import REGISTRY, estimator
from simlab.methods import METHODS, Method, method
from simlab.surrogates import AGGREGATIONS, SURROGATES, Surrogate, add, entropy_bonus, kl_penalty, ppo_clip

ADDED = {"kl_penalty": kl_penalty, "entropy_bonus": entropy_bonus}
PART = r"[a-z0-9_]+(?:\([^()]*\))?"
ARM = re.compile(rf"({PART})((?:\+{PART})*)(?:@([a-z_]+))?")


@dataclass(frozen=True)
class Arm:
    """A method under the name that it was written as."""

    name: str
    method: Method


def arms(text: str) -> tuple[str, ...]:
    """The names in a list separated by commas, those within brackets aside.

    >>> arms("grpo, f_grpo(gamma=0.5,base=maxrl)")
    ('grpo', 'f_grpo(gamma=0.5,base=maxrl)')
    """
    return tuple(name.strip() for name in re.split(r",(?![^()]*\))", text))


def arm(name: str) -> Arm:
    """The arm that a text says.

    Raises:
        InputError: for a text that cannot be read, an unknown name or parameter, or one outside its range.

    >>> arm("f_grpo(gamma=0.5)@token_mean").method.aggregation
    'token_mean'
    """
    match = ARM.fullmatch(name)
    if match is None:
        raise InputError(
            f"arm {name!r} cannot be read; allowed: such as grpo, f_grpo(gamma=0.5)+clip_higher@token_mean"
        )
    whole = _whole(*_part(match[1]))
    for text in filter(None, match[2].split("+")):
        whole = _with_surrogate(whole, *_part(text))
    if match[3]:
        check_choice("aggregation", match[3], AGGREGATIONS)
        whole = dataclasses.replace(whole, aggregation=match[3])
    return Arm(name, whole)


def _whole(name: str, parameters: dict[str, Any]) -> Method:
    """The method of this name; where only its estimator takes the parameters, with that in place of its own."""
    if name in METHODS:
        taken = inspect.signature(METHODS[name]).parameters
        if parameters.keys() <= taken.keys() or name not in REGISTRY:
            return method(name, **parameters)
        return dataclasses.replace(method(name), estimator=estimator(name, **parameters))
    check_choice("arm", name, sorted({*METHODS, *REGISTRY}))
    return Method(estimator(name, **parameters), ppo_clip(), "sequence_mean")


def _with_surrogate(whole: Method, name: str, parameters: dict[str, Any]) -> Method:
    built: Surrogate = build("surrogate", name, {**SURROGATES, **ADDED}, parameters)
    return dataclasses.replace(whole, surrogate=add(whole.surrogate, built) if name in ADDED else built)


def _part(text: str) -> tuple[str, dict[str, Any]]:
    name, _, inside = text.rstrip(")").partition("(")
    parameters = {}
    for pair in filter(None, inside.split(",")):
        parameter, equals, value = pair.partition("=")
        if not equals:
            raise InputError(f"{pair!r} in {text!r} cannot be read; allowed: NAME=VALUE")
        parameters[parameter.strip()] = read_value(value.strip())
    return name, parameters


def read_value(text: str) -> Any:
    """A number, true, false, none, or else the text itself."""
    try:
        return {"none": None, "true": True, "false": False}[text.lower()]
    except KeyError:
        pass
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, (int, float)) else text
