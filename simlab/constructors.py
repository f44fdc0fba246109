"""Find the constructor that a name in an arm stands for: the library's, or ``FILE.py:NAME`` of the user's."""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from simlab import own_files
from simlab.errors import InputError, check_choice, check_parameters
from simlab.estimators import REGISTRY, Estimator, Link, chain, estimator
from simlab.methods import METHODS, Method, method
from simlab.surrogates import SURROGATES, Surrogate, entropy_bonus, kl_penalty, ppo_clip

PENALTIES = {"kl_penalty": kl_penalty, "entropy_bonus": entropy_bonus}  # added to a surrogate, not put in its place


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
        except InputError:
            raise
        except Exception as error:
            if not is_file(self.name):
                raise
            raise own_files.failure(f"{self.name} cannot be built", own_files.file_of(self.name), error) from None


class Accepted(NamedTuple):
    """Objects of the user's that a term of an arm accepts, ``InputError`` for others.

    Attributes:
        kinds: types; a function with defaults for all its parameters may make one of these too.
        arguments: the arguments without a default of a plain function.
        join: makes one of ``kinds`` from such a function.
        finish: turns one of ``kinds`` into what the term builds.
    """

    kinds: tuple[type, ...]
    arguments: tuple[str, ...]
    join: Callable[[Any], Any]
    finish: Callable[[Any], Any]

    def refusal(self, name: str, what: str) -> InputError:
        """Name the object, what it is, and what is allowed."""
        kinds = ", ".join(kind.__name__ for kind in self.kinds)
        return InputError(
            f"{name} {what}; allowed: {kinds}, a function with defaults for all parameters that makes one, "
            f"or a plain function ({', '.join(self.arguments)})"
        )


def _as_method(item: Method | Estimator | Link) -> Method:
    """Turn an estimator or link into a method: with the PPO clip and the mean over each sequence."""
    return item if isinstance(item, Method) else Method(chain(item), ppo_clip(), "sequence_mean")


LINK_ARGUMENTS = ("advantages", "rollouts")
METHOD = Accepted((Method, Estimator, Link), LINK_ARGUMENTS, chain, _as_method)
ESTIMATOR = Accepted((Estimator, Link), LINK_ARGUMENTS, chain, chain)
SURROGATE = Accepted((Surrogate,), ("ratio", *LINK_ARGUMENTS), Surrogate, lambda surrogate: surrogate)


def is_file(name: str) -> bool:
    """Return True for ``FILE.py:NAME``."""
    return ":" in name


def base_constructor(name: str) -> Constructor:
    """Find the constructor of a method by name, or of the usual method around an estimator; ``InputError`` if none is.

    A name that is both, such as ``grpo``, is the method with that estimator in it, and takes the parameters of both.
    """
    if is_file(name):
        return _from_file(name, METHOD)
    check_choice("arm", name, sorted({*METHODS, *REGISTRY}))
    if name not in METHODS:
        return Constructor(name, lambda **values: _as_method(estimator(name, **values)), REGISTRY[name].parameters)
    of_method, of_estimator = _defaults(METHODS[name]), REGISTRY[name].parameters if name in REGISTRY else None
    if of_estimator is None:
        return Constructor(name, METHODS[name], of_method)

    def make(**values: Any) -> Method:
        inner = {key: value for key, value in values.items() if key in of_estimator}
        outer = {key: value for key, value in values.items() if key not in of_estimator}
        return dataclasses.replace(method(name, **outer), estimator=estimator(name, **inner))

    return Constructor(name, make, {**of_method, **of_estimator})


def estimator_constructor(name: str) -> Constructor:
    """Find the constructor of an estimator, registered or ``FILE.py:NAME``; ``InputError`` if there is none."""
    if is_file(name):
        return _from_file(name, ESTIMATOR)
    check_choice("estimator", name, sorted(REGISTRY))
    return Constructor(name, functools.partial(estimator, name), REGISTRY[name].parameters)


def added_constructor(name: str) -> Constructor:
    """Find the constructor of a surrogate or of a penalty; ``InputError`` for an unknown name."""
    if is_file(name):
        return _from_file(name, SURROGATE)
    makers = {**SURROGATES, **PENALTIES}
    check_choice("surrogate", name, sorted(makers))
    return Constructor(name, makers[name], _defaults(makers[name]))


def _from_file(name: str, accepted: Accepted) -> Constructor:
    """Make a constructor of the object ``FILE.py:NAME``: see ``simlab.arms``."""
    loaded = own_files.load(name)
    if isinstance(loaded, accepted.kinds):
        return Constructor(name, lambda: accepted.finish(loaded), {})
    required, defaults = _parameters(loaded)
    if required == len(accepted.arguments) and not isinstance(loaded, type):
        return Constructor(name, lambda **values: accepted.finish(accepted.join(_bind(loaded, values))), defaults)
    if required != 0:
        raise accepted.refusal(name, f"is a {type(loaded).__name__}")

    def make(**values: Any) -> Any:
        built = loaded(**values)
        if not isinstance(built, accepted.kinds):
            raise accepted.refusal(name, f"makes a {type(built).__name__}")
        return accepted.finish(built)

    return Constructor(name, make, defaults)


def _bind(function: Callable[..., Any], parameters: Mapping[str, Any]) -> Callable[..., Any]:
    """Set some parameters of a function, and keep its name."""
    bound = functools.partial(function, **parameters)
    bound.__name__ = getattr(function, "__name__", type(function).__name__)  # type: ignore[attr-defined]
    return bound


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
