"""Find what a name in an arm makes, and from which parameters: the library's, or ``FILE.py:NAME`` of the user's own."""

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
        """What the constructor makes.

        Raises:
            InputError: for a parameter that it does not take, one outside its range, and what the user's own code
                raises.
        """
        check_parameters(self.name, parameters, self.defaults)
        if not is_file(self.name):
            return self.make(**parameters)
        try:
            return self.make(**parameters)
        except InputError:
            raise
        except Exception as error:
            raise own_files.failure(f"{self.name} cannot be built", own_files.file_of(self.name), error) from None


class Wanted(NamedTuple):
    """What an object of the user's may be at a place in an arm.

    Attributes:
        kinds: types; a function with defaults for all its parameters may make one of these too.
        arguments: the arguments of a plain function, those without a default.
        join: makes one of ``kinds`` of such a function.
        finish: makes what is wanted of one of ``kinds``.
    """

    kinds: tuple[type, ...]
    arguments: tuple[str, ...]
    join: Callable[[Any], Any]
    finish: Callable[[Any], Any]

    def refusal(self, name: str, what: str) -> InputError:
        """The line about an object that is something else."""
        kinds = ", ".join(kind.__name__ for kind in self.kinds)
        return InputError(
            f"{name} {what}; allowed: {kinds}, a function with defaults for all parameters that makes one, "
            f"or a plain function ({', '.join(self.arguments)})"
        )


def _as_method(found: Method | Estimator | Link) -> Method:
    """The method that an object stands for: an estimator takes the PPO clip and the mean over each sequence."""
    return found if isinstance(found, Method) else Method(chain(found), ppo_clip(), "sequence_mean")


LINK_ARGUMENTS = ("advantages", "rollouts")
METHOD = Wanted((Method, Estimator, Link), LINK_ARGUMENTS, chain, _as_method)
ESTIMATOR = Wanted((Estimator, Link), LINK_ARGUMENTS, chain, chain)
SURROGATE = Wanted((Surrogate,), ("ratio", *LINK_ARGUMENTS), Surrogate, lambda found: found)


def is_file(name: str) -> bool:
    """Whether a name is ``FILE.py:NAME``."""
    return ":" in name


def base_constructor(name: str) -> Constructor:
    """The constructor of a method: of a whole one, or of one around an estimator of this name.

    A name that is both, such as ``grpo``, is the method with that estimator in it, and takes the parameters of both.

    Raises:
        InputError: for an unknown name, and for a file without such an object.
    """
    if is_file(name):
        return _of_file(name, METHOD)
    check_choice("arm", name, sorted({*METHODS, *REGISTRY}))
    if name not in METHODS:
        return Constructor(name, lambda **own: _as_method(estimator(name, **own)), REGISTRY[name].parameters)
    of_method = _defaults(METHODS[name])
    if name not in REGISTRY:
        return Constructor(name, METHODS[name], of_method)
    of_estimator = REGISTRY[name].parameters
    return Constructor(name, functools.partial(_joined, name, of_estimator), {**of_method, **of_estimator})


def estimator_constructor(name: str) -> Constructor:
    """The constructor of an estimator of the user's own, ``FILE.py:NAME``.

    Raises:
        InputError: as ``base_constructor``.
    """
    return _of_file(name, ESTIMATOR)


def _joined(name: str, of_estimator: Mapping[str, Any], /, **parameters: Any) -> Method:
    """The method of this name around the estimator of this name."""
    inner = {key: value for key, value in parameters.items() if key in of_estimator}
    outer = {key: value for key, value in parameters.items() if key not in of_estimator}
    return dataclasses.replace(method(name, **outer), estimator=estimator(name, **inner))


def added_constructor(name: str) -> Constructor:
    """The constructor of a surrogate or of a penalty.

    Raises:
        InputError: as ``base_constructor``.
    """
    if is_file(name):
        return _of_file(name, SURROGATE)
    known = {**SURROGATES, **PENALTIES}
    check_choice("surrogate", name, sorted(known))
    return Constructor(name, known[name], _defaults(known[name]))


def _of_file(name: str, wanted: Wanted) -> Constructor:
    """The constructor that a user's own object is, or that makes it: see ``simlab.arms``."""
    found = own_files.load(name)
    if isinstance(found, wanted.kinds):
        return Constructor(name, lambda: wanted.finish(found), {})
    required, defaults = _parameters(found)
    if required == len(wanted.arguments) and not isinstance(found, type):
        return Constructor(name, lambda **own: wanted.finish(wanted.join(_with(found, own))), defaults)
    if required != 0:
        raise wanted.refusal(name, f"is a {type(found).__name__}")

    def make(**parameters: Any) -> Any:
        made = found(**parameters)
        if not isinstance(made, wanted.kinds):
            raise wanted.refusal(name, f"makes a {type(made).__name__}")
        return wanted.finish(made)

    return Constructor(name, make, defaults)


def _with(function: Callable[..., Any], parameters: Mapping[str, Any]) -> Callable[..., Any]:
    """The function with some of its parameters set, under its name; itself for none."""
    if not parameters:
        return function
    bound = functools.partial(function, **parameters)
    bound.__name__ = getattr(function, "__name__", type(function).__name__)  # type: ignore[attr-defined]
    return bound


def _parameters(found: Any) -> tuple[int | None, dict[str, Any]]:
    """How many arguments an object must be called with, and the others; None if it cannot be called with arguments."""
    try:
        parameters = [*inspect.signature(found).parameters.values()] if callable(found) else None
    except (TypeError, ValueError):  # a built-in function without a signature
        parameters = None
    if parameters is None:
        return None, {}
    own = [one for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
    bare = [one for one in own if one.default is one.empty]
    if any(one.kind is one.KEYWORD_ONLY for one in bare):
        return None, {}
    named = {one.name: one.default for one in own if one not in bare and one.kind is not one.POSITIONAL_ONLY}
    return len(bare), named


def _defaults(constructor: Callable[..., Any]) -> dict[str, Any]:
    return {name: parameter.default for name, parameter in inspect.signature(constructor).parameters.items()}
