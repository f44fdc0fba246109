"""simlab: a categorical-policy laboratory for reinforcement learning with verifiable rewards.

``import simlab`` is cheap: JAX is loaded by ``simlab.simulate`` and ``simlab.sweep`` alone.
"""

from simlab import theory
from simlab.estimators import advantages, chain, estimator
from simlab.rollouts import Rollouts

__version__ = "0.1.0"
__all__ = ["Rollouts", "advantages", "chain", "estimator", "theory"]
