"""simlab: a laboratory for policy-gradient weights in reinforcement learning with verifiable rewards.

``import simlab`` is cheap: JAX is loaded by the first use of ``problems``, ``Settings``, ``simulate`` or ``sweep``.
"""

import pkgutil
from typing import TYPE_CHECKING, Any

from simlab import estimators, theory
from simlab.errors import InputError
from simlab.estimators import advantages, chain, estimator
from simlab.rollouts import Rollouts

if TYPE_CHECKING:
    from simlab import arms, problems, surrogates
    from simlab.methods import Method, method
    from simlab.simulator.api import simulate
    from simlab.simulator.settings import Settings
    from simlab.sweeps.api import sweep

__version__ = "0.1.0"
__all__ = [
    "InputError",
    "Method",
    "Rollouts",
    "Settings",
    "advantages",
    "arms",
    "chain",
    "estimator",
    "estimators",
    "method",
    "problems",
    "simulate",
    "surrogates",
    "sweep",
    "theory",
]
_WHEN_ASKED_FOR = {
    "Method": "simlab.methods:Method",
    "Settings": "simlab.simulator.settings:Settings",
    "arms": "simlab.arms",
    "method": "simlab.methods:method",
    "problems": "simlab.problems",
    "simulate": "simlab.simulator.api:simulate",
    "surrogates": "simlab.surrogates",
    "sweep": "simlab.sweeps.api:sweep",
}


def __getattr__(name: str) -> Any:
    """What is imported when it is first asked for; some of it loads JAX."""
    if name not in _WHEN_ASKED_FOR:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return pkgutil.resolve_name(_WHEN_ASKED_FOR[name])


def __dir__() -> list[str]:
    return [*__all__, "__doc__", "__version__"]
