"""The papers' estimators by name, each a chain of links."""

from simlab.estimators.base import Estimator, chain
from simlab.estimators.baseline import center
from simlab.estimators.difficulty import focal, power, shift_difficulty
from simlab.estimators.registry import estimator, register
from simlab.estimators.scale import divide_by_mean, divide_by_std
from simlab.estimators.schedule import fade_schedule
from simlab.estimators.sign import attenuate_successes, divide_failures, outcome
from simlab.rollouts import Scalar


@register("fade:reinforce")
def reinforce() -> Estimator:
    """The reward itself: A = r."""
    return chain()


@register("fade:dr-grpo")
def dr_grpo() -> Estimator:
    """Mean GRPO (Dr. GRPO): A = r - mean(r).

    >>> import simlab, numpy as np
    >>> simlab.advantages("dr_grpo", np.array([1.0, 0.0]))
    array([ 0.5, -0.5])
    """
    return chain(center("mean"))


@register("f-grpo:eq-3")
def grpo(ddof: int = 0, eps: Scalar = 1e-6) -> Estimator:
    """GRPO: A = (r - mean(r)) / (std(r) + eps).

    The papers state neither ``eps`` nor whether the std is the population's (``ddof=0``, from which FADE derives)
    or the sample's (``ddof=1``, verl). Groups of equal rewards get exactly 0.

    >>> import simlab, numpy as np
    >>> simlab.advantages("grpo", np.array([1.0, 0.0]), eps=0.0)
    array([ 1., -1.])
    """
    return chain(center("mean"), divide_by_std(ddof, eps))


@register("fade:rloo")
def rloo() -> Estimator:
    """RLOO: A = r - mean of the other rollouts' rewards; 0 for a group of one."""
    return chain(center("leave_one_out"))


@register("fade:maxrl")
def maxrl() -> Estimator:
    """MaxRL: A = (r - mean(r)) / mean(r), and 0 where the mean is 0; for rewards in [0, 1]."""
    return chain(center("mean"), divide_by_mean())


@register("fade:psr")
def psr() -> Estimator:
    """Positive-sample reinforcement: A = 1 on correct rollouts, 0 on others."""
    return chain(outcome(1.0, 0.0))


@register("fade:nsr")
def nsr() -> Estimator:
    """Negative-sample reinforcement: A = -1 on incorrect rollouts, 0 on others."""
    return chain(outcome(0.0, -1.0))


@register("fade:w-reinforce")
def w_reinforce(success: Scalar = 0.1) -> Estimator:
    """W-REINFORCE: A = ``success`` on correct rollouts, -1 on incorrect ones."""
    return chain(outcome(success, -1.0))


@register("f-grpo:eq-13")
def f_grpo(gamma: Scalar = 1.0, base: str | Estimator = "grpo") -> Estimator:
    """F-GRPO: the base's advantages times the focal weight (1 - X/G)^gamma.

    ``base`` is any registered name or estimator; ``gamma=0`` is the base itself.

    Raises:
        InputError: for a negative ``gamma`` or an unknown ``base``.

    >>> import simlab, numpy as np
    >>> simlab.advantages("f_grpo", np.array([1.0, 0.0, 0.0, 0.0]), gamma=1.0, base="dr_grpo")
    array([ 0.5625, -0.1875, -0.1875, -0.1875])
    """
    return chain(base if isinstance(base, Estimator) else estimator(base), focal(gamma))


@register("fade:asym-grpo")
def asym_grpo(delta: Scalar = 1.0) -> Estimator:
    """AsymGRPO: mean GRPO with the failures divided by delta."""
    return chain(center("mean"), divide_failures(delta))


@register("fade:power-alpha")
def power_alpha(alpha: Scalar = 2.0) -> Estimator:
    """Power-alpha: A = (1 - mean(r))^(alpha - 1) (r - mean(r)); for rewards in [0, 1]."""
    return chain(center("mean"), power(alpha))


@register("a-grae:eq-12")
def a_grae(alpha: Scalar = 1.0, easy_term: str = "paper", ddof: int = 0, eps: Scalar = 1e-6) -> Estimator:
    """A-GRAE: GRPO moved from easy to hard groups as the batch improves, successes attenuated early.

    ``[a-grae:eq-12]`` then ``[a-grae:eq-13]``, both steered by the batch's mean reward; for rewards in [0, 1].
    ``alpha`` is 1 for MATH, 0.5 for multimodal tasks; the published code fixes 1 and takes ``easy_term="code"``.
    """
    return chain(grpo(ddof, eps), shift_difficulty(easy_term), attenuate_successes(alpha))


@register("fade:eq-11")
def fade(
    alpha_max: Scalar = 3.0,
    delta_min: Scalar = 0.3,
    beta: Scalar = 0.02,
    target_entropy: Scalar | None = None,
    baseline: str = "mean",
) -> Estimator:
    """FADE: Power-alpha with divided failures, both scheduled by running averages; for rewards in [0, 1].

    ``beta`` 0.02 is Algorithm 2's printed constant, x <- beta x + (1 - beta) x_batch, and hardly averages; 0.98 is
    the other reading. The printed mean runs over the batch (``baseline="batch_mean"``); the masses that the paper
    derives from it need the mean of the prompt's group, the default.
    """
    schedule = fade_schedule(alpha_max, delta_min, beta, target_entropy, baseline)
    return chain(center(baseline), schedule)
