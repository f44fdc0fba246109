"""Find the constructor that a name in an arm stands for: the library's, or ``FILE.py:NAME`` of the user's."""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from simlab import own_files
from simlab.errors import InputError, check_choice, check_parameters
from simlab.estimators import REGISTRY, Estimator, Link, chain, estimator
from simlab.methods import METHODS, Method, method
from simlab.surrogates import (
    SURROGATES,
    Surrogate,
    adaptive_entropy_bonus,
    entropy_bonus,
    kl_penalty,
    log_ratio_penalty,
    ppo_clip,
)

# Added to a surrogate, not put in its place.
PENALTIES = {term.__name__: term for term in (kl_penalty, entropy_bonus, adaptive_entropy_bonus, log_ratio_penalty)}


@dataclass(frozen=True)
class Constructor:
    """A function of named parameters, and their defaults."""

    name: str
    make: Callable[..., Any]
    defaults: Mapping[str, Any]

    def __call__(self, **parameters: Any) -> Any:
        """Call it; ``InputError`` for a parameter that it does not take or allow, and for an error in a user's code."""
        check_parameters(self.name, parameters, self.defaults)
        try:
            return self.make(**parameters)
        except Exception as error:
            if isinstance(error, InputError) or not is_file(self.name):
                raise
            raise own_files.failure(f"{self.name} cannot be built", own_files.file_of(self.name), error) from None


def _as_method(item: Any) -> Method:
    """Turn an estimator, a link or a plain one into a method: with the PPO clip and the mean over each sequence."""
    return item if isinstance(item, Method) else Method(chain(item), ppo_clip(), "sequence_mean")


def _as_surrogate(item: Any) -> Surrogate:
    return item if isinstance(item, Surrogate) else Surrogate(item)


# What a term accepts of a user: types, the arguments of a plain function, and what turns either into what is built.
METHOD = (Method, Estimator, Link), ("advantages", "rollouts"), _as_method
ESTIMATOR = (Estimator, Link), ("advantages", "rollouts"), chain
SURROGATE = (Surrogate,), ("ratio", "advantages", "rollouts"), _as_surrogate


def is_file(name: str) -> bool:
    """Return True for ``FILE.py:NAME``."""
    return ":" in name


def base_constructor(name: str) -> Constructor:
    """Find the constructor of a method by name, or of the usual method around an estimator; or ``InputError``."""
    if is_file(name):
        return _from_file(name, *METHOD)
    check_choice("arm", name, sorted({*METHODS, *REGISTRY}))
    of_method = _defaults(METHODS[name]) if name in METHODS else {}
    of_estimator = REGISTRY[name].parameters if name in REGISTRY else {}

    def make(**values: Any) -> Method:
        inner = {key: value for key, value in values.items() if key in of_estimator}
        outer = {key: value for key, value in values.items() if key not in of_estimator}
        if name not in METHODS:
            return _as_method(estimator(name, **inner))
        built = method(name, **outer)
        return dataclasses.replace(built, estimator=estimator(name, **inner)) if name in REGISTRY else built

    return Constructor(name, make, {**of_method, **of_estimator})


def estimator_constructor(name: str) -> Constructor:
    """Find the constructor of an estimator, registered or ``FILE.py:NAME``; ``InputError`` if there is none."""
    if is_file(name):
        return _from_file(name, *ESTIMATOR)
    check_choice("estimator", name, sorted(REGISTRY))
    return Constructor(name, functools.partial(estimator, name), REGISTRY[name].parameters)


def added_constructor(name: str) -> Constructor:
    """Find the constructor of a surrogate or of a penalty; ``InputError`` for an unknown name."""
    if is_file(name):
        return _from_file(name, *SURROGATE)
    makers = {**SURROGATES, **PENALTIES}
    check_choice("surrogate", name, sorted(makers))
    return Constructor(name, makers[name], _defaults(makers[name]))


def _from_file(
    name: str, kinds: tuple[type, ...], arguments: tuple[str, ...], finish: Callable[[Any], Any]
) -> Constructor:
    loaded = own_files.load(name)
    if isinstance(loaded, kinds):
        return Constructor(name, lambda: finish(loaded), {})
    required, defaults = _parameters(loaded)

    def refusal(what: str) -> InputError:
        allowed = ", ".join(kind.__name__ for kind in kinds)
        return InputError(
            f"{name} {what}; allowed: {allowed}, a function with defaults for all parameters that makes one, "
            f"or a plain function ({', '.join(arguments)})"
        )

    def join(**values: Any) -> Any:
        bound = functools.partial(loaded, **values)
        bound.__name__ = getattr(loaded, "__name__", type(loaded).__name__)  # type: ignore[attr-defined]
        return finish(bound)

    def make(**values: Any) -> Any:
        built = loaded(**values)
        if not isinstance(built, kinds):
            raise refusal(f"makes a {type(built).__name__}")
        return finish(built)

    if required == len(arguments) and not isinstance(loaded, type):
        return Constructor(name, join, defaults)
    if required != 0:
        wrong = ", ".join(inspect.signature(loaded).parameters) if inspect.isfunction(loaded) else None
        raise refusal(f"is a {type(loaded).__name__}" + ("" if wrong is None else f" of the wrong arguments ({wrong})"))
    return Constructor(name, make, defaults)


def _parameters(function: Any) -> tuple[int | None, dict[str, Any]]:
    """Number of required arguments and defaults of the others; None where there is no way to call it with arguments."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # nothing that can be called, or a built-in function without a signature
        return None, {}
    named = [each for each in parameters if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]
    bare = [each for each in named if each.default is each.empty]
    if any(each.kind is each.KEYWORD_ONLY for each in bare):
        return None, {}
    optional = [each for each in named if each not in bare and each.kind is not each.POSITIONAL_ONLY]
    return len(bare), {each.name: each.default for each in optional}


def _defaults(constructor: Callable[..., Any]) -> dict[str, Any]:
    return {name: parameter.default for name, parameter in inspect.signature(constructor).parameters.items()}
