"""Sign-balanced estimators: on rewards 0 and 1 they put the same mass on successes as on failures."""

from simlab.estimators.base import Estimator, chain
from simlab.estimators.links import (
    center,
    divide_by_mean,
    divide_by_std,
    divide_by_variance_power,
    easy_power_weight,
    focal,
    focus,
    multiply_by_std,
    power,
    reject,
)
from simlab.estimators.registry import base_estimator, register
from simlab.rollouts import Scalar


@register("fade:dr-grpo", "r_i - mean(r)")
def dr_grpo() -> Estimator:
    """Mean GRPO (Dr. GRPO): A = r - mean(r); groups of equal rewards get 0.

    >>> import simlab, numpy as np
    >>> simlab.advantages("dr_grpo", np.array([1.0, 0.0]))
    array([ 0.5, -0.5])
    """
    return chain(center("mean"))


@register("f-grpo:eq-3", "(r_i - mean(r)) / (std(r) + eps)")
def grpo(ddof: int = 0, eps: Scalar = 1e-6) -> Estimator:
    """GRPO: A = (r - mean(r)) / (std(r) + eps).

    The papers state neither ``eps`` nor whether the std is the population's (``ddof=0``, from which FADE derives)
    or the sample's (``ddof=1``, verl). Groups of equal rewards get exactly 0.

    >>> import simlab, numpy as np
    >>> simlab.advantages("grpo", np.array([1.0, 0.0]), eps=0.0)
    array([ 1., -1.])
    """
    return chain(center("mean"), divide_by_std(ddof, eps))


@register("fade:rloo", "r_i - mean(r without i)")
def rloo() -> Estimator:
    """RLOO: A = r - mean of the other rollouts' rewards; 0 for a group of one and for equal rewards.

    >>> import simlab, numpy as np
    >>> simlab.advantages("rloo", np.array([1.0, 0.0, 0.0]))
    array([ 1. , -0.5, -0.5])
    """
    return chain(center("leave_one_out"))


@register("fade:skew-r", "std(r) (r_i - mean(r))")
def skew_r(ddof: int = 0) -> Estimator:
    """Skew-R: mean GRPO times the std, sqrt(p (1 - p)) for rewards 0 and 1; groups of equal rewards get 0.

    >>> import simlab, numpy as np
    >>> simlab.advantages("skew_r", np.array([1.0, 0.0]))
    array([ 0.25, -0.25])
    """
    return chain(center("mean"), multiply_by_std(ddof))


@register("fade:power-norm", "(r_i - m) / [m (1 - m)]^gamma, m = mean(r)")
def power_norm(gamma: Scalar = 0.5) -> Estimator:
    """Power Norm: mean GRPO over a power of the Bernoulli variance; for rewards in [0, 1]; equal rewards get 0.

    For rewards 0 and 1, ``gamma`` 1/2 (FADE names no default) is GRPO with eps 0, and 0 is Dr. GRPO.

    >>> import simlab, numpy as np
    >>> simlab.advantages("power_norm", np.array([1.0, 0.0]), gamma=1.0)
    array([ 2., -2.])
    """
    return chain(center("mean"), divide_by_variance_power(gamma))


@register("fade:maxrl", "(r_i - mean(r)) / mean(r)")
def maxrl() -> Estimator:
    """MaxRL: A = (r - mean(r)) / mean(r), and 0 where the mean is 0 or rewards are equal; for rewards in [0, 1].

    >>> import simlab, numpy as np
    >>> simlab.advantages("maxrl", np.array([1.0, 0.0, 0.0, 0.0]))
    array([ 3., -1., -1., -1.])
    """
    return chain(center("mean"), divide_by_mean())


@register("fade:power-alpha", "(1 - mean(r))^(alpha - 1) (r_i - mean(r))")
def power_alpha(alpha: Scalar = 2.0) -> Estimator:
    """Power-alpha: A = (1 - mean(r))^(alpha - 1) (r - mean(r)); for rewards in [0, 1]; equal rewards get 0.

    >>> import simlab, numpy as np
    >>> simlab.advantages("power_alpha", np.array([1.0, 0.0]))
    array([ 0.25, -0.25])
    """
    return chain(center("mean"), power(alpha))


@register("fade:easy-power", "mean(r)^(alpha - 1) (r_i - mean(r))")
def easy_power(alpha: Scalar = 2.0) -> Estimator:
    """Easy power: the twin of Power-alpha for easy groups; for rewards in [0, 1]; equal rewards get 0.

    >>> import simlab, numpy as np
    >>> simlab.advantages("easy_power", np.array([1.0, 1.0, 1.0, 0.0]))
    array([ 0.1875,  0.1875,  0.1875, -0.5625])
    """
    return chain(center("mean"), easy_power_weight(alpha))


@register("f-grpo:eq-13", "(1 - p)^gamma A_base")
def f_grpo(gamma: Scalar = 1.0, base: str | Estimator = "grpo") -> Estimator:
    """F-GRPO: the base's advantages times the focal weight (1 - X/G)^gamma.

    ``base`` is any registered name or estimator, of rollouts or of tokens; ``gamma=0`` is the base itself. Groups that
    are all right get 0 (for gamma above 0), all wrong what the base gives.

    >>> import simlab, numpy as np
    >>> simlab.advantages("f_grpo", np.array([1.0, 0.0, 0.0, 0.0]), gamma=1.0, base="dr_grpo")
    array([ 0.5625, -0.1875, -0.1875, -0.1875])
    """
    return chain(base_estimator(base), focal(gamma))


@register("simlab:interference-speed", "A_base where p <= threshold, else 0")
def reject_easy(threshold: Scalar = 0.5, base: str | Estimator = "grpo") -> Estimator:
    """Rejection of easy prompts: the base's advantages, and 0 for groups whose solve rate is above the threshold.

    Such a prompt has no speed at which it could move others. Trainers reject when they sample: DAPO's dynamic sampling
    leaves out groups that are all right or all wrong, and draws other prompts in their place. Here nothing is drawn
    anew, and groups that are all wrong get what the base gives. ``threshold=1`` is the base itself.

    >>> import simlab, numpy as np
    >>> simlab.advantages("reject_easy", np.array([[1.0, 0.0], [1.0, 1.0]]), threshold=0.75, base="reinforce")
    array([[1., 0.],
           [0., 0.]])
    """
    return chain(base_estimator(base), reject(threshold))


@register("a-grae:control-2", "gamma / sqrt(p) A_GRPO")
def hard_focused(gamma: Scalar = 0.5, ddof: int = 0, eps: Scalar = 1e-6) -> Estimator:
    """Hard-focused control: GRPO times gamma / sqrt(p), p the solve rate; groups of equal rewards get 0.

    >>> import simlab, numpy as np
    >>> simlab.advantages("hard_focused", np.array([1.0, 0.0, 0.0, 0.0]), eps=0.0).round(4)
    array([ 1.7321, -0.5774, -0.5774, -0.5774])
    """
    return chain(grpo(ddof, eps), focus("hard", gamma))


@register("a-grae:control-2", "gamma / sqrt(1 - p) A_GRPO")
def easy_focused(gamma: Scalar = 0.5, ddof: int = 0, eps: Scalar = 1e-6) -> Estimator:
    """Easy-focused control: GRPO times gamma / sqrt(1 - p), p the solve rate; groups of equal rewards get 0.

    >>> import simlab, numpy as np
    >>> simlab.advantages("easy_focused", np.array([1.0, 1.0, 1.0, 0.0]), eps=0.0).round(4)
    array([ 0.5774,  0.5774,  0.5774, -1.7321])
    """
    return chain(grpo(ddof, eps), focus("easy", gamma))
