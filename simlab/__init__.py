"""simlab: a laboratory for policy-gradient weights in reinforcement learning with verifiable rewards.

``import simlab`` is cheap: JAX is loaded by the first use of ``simlab.simulate`` or ``simlab.sweep``.
"""

import importlib
from typing import TYPE_CHECKING, Any

from simlab import theory
from simlab.estimators import advantages, chain, estimator
from simlab.rollouts import Rollouts

if TYPE_CHECKING:
    from simlab.simulate.api import simulate
    from simlab.sweep.api import sweep

__version__ = "0.1.0"
__all__ = ["Rollouts", "advantages", "chain", "estimator", "simulate", "sweep", "theory"]


def __getattr__(name: str) -> Any:
    """The two packages that can be called, imported when they are first asked for."""
    if name in ("simulate", "sweep"):
        return importlib.import_module(f"simlab.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
