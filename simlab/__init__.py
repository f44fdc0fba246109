"""simlab: a laboratory for policy-gradient weights in reinforcement learning with verifiable rewards.

``import simlab`` loads nothing: what a name needs is loaded by its first use, and JAX only by that of ``problems``,
``Settings``, ``simulate`` or ``sweep``.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simlab import arms, estimators, problems, surrogates, theory
    from simlab.errors import InputError
    from simlab.estimators import advantages, chain, estimator
    from simlab.methods import Method, method
    from simlab.rollouts import Rollouts
    from simlab.simulator.runner import simulate
    from simlab.simulator.settings import Settings
    from simlab.sweeps.run import sweep

__version__ = "0.1.0"
__all__ = [
    "InputError", "Method", "Rollouts", "Settings", "advantages", "arms", "chain", "estimator", "estimators",
    "method", "problems", "simulate", "surrogates", "sweep", "theory",
]  # fmt: skip
# The modules of names that are no modules themselves.
_LAZY = {
    "InputError": "errors", "Method": "methods", "Rollouts": "rollouts", "Settings": "simulator.settings",
    "advantages": "estimators", "chain": "estimators", "estimator": "estimators", "method": "methods",
    "simulate": "simulator.runner", "sweep": "sweeps.run",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import a name when it is first used; some of them load JAX."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"simlab.{_LAZY.get(name, name)}")
    return getattr(module, name) if name in _LAZY else module


def __dir__() -> list[str]:
    return [*__all__, "__doc__", "__version__"]
