"""Links that compare a group with the batches before it."""

from array_api_compat import array_namespace

from simlab.errors import check_range
from simlab.estimators.base import Estimator, Link, chain, weigh
from simlab.estimators.links import RunningMean
from simlab.estimators.registry import base_estimator, register
from simlab.rollouts import Array, Rollouts, Scalar, batch_mean, group_mean


def weigh_by_history(scale: Scalar = 1.0, decay: Scalar = 0.9, initial: Scalar = 0.5) -> Link:
    """Multiply by scale exp(-sgn(A) sgn(m - C) abs(m - C)), m the group's mean reward ``[fade:ha-dw]``.

    C is the running mean of the batches before, C <- decay C + (1 - decay) (mean of the batch): successes weigh more
    and failures less in groups harder than the past, and the other way round in easier ones. For rewards in [0, 1].
    """
    check_range("scale", scale, 0)
    check_range("decay", decay, 0, 1)
    check_range("initial", initial, 0, 1)

    def update(advantages: Array, rollouts: Rollouts, state: RunningMean) -> tuple[Array, RunningMean]:
        xp = array_namespace(advantages)
        past = RunningMean(*state).value
        gap = group_mean(rollouts.rewards, rollouts) - past  # sgn(gap) abs(gap) = gap
        easier = weigh(xp.sign(advantages), gap)
        following = decay * past + (1 - decay) * batch_mean(rollouts.rewards, rollouts)[0, 0]
        return advantages * scale * xp.exp(-easier), RunningMean(following)

    return Link(update, lambda: RunningMean(initial), domain="unit", exchangeable=True)


@register("fade:ha-dw", "A scale exp(-sgn(A) sgn(m - C) |m - C|), m = mean(r), C a running mean of m")
def ha_dw(scale: Scalar = 1.0, decay: Scalar = 0.9, initial: Scalar = 0.5, base: str | Estimator = "grpo") -> Estimator:
    """HA-DW: any base weighed by how the group's mean reward compares with past batches; for rewards in [0, 1].

    FADE states neither the constants nor the base (its masses read as Dr. GRPO's); the defaults were chosen for this
    library. Groups that are all right or all wrong get what the base gives there, times the weight.

    >>> import simlab, numpy as np
    >>> simlab.advantages("ha_dw", np.array([1.0, 0.0, 0.0, 0.0]), base="dr_grpo").round(4)
    array([ 0.963 , -0.1947, -0.1947, -0.1947])
    """
    return chain(base_estimator(base), weigh_by_history(scale, decay, initial))
