"""Estimators: from a batch of rollouts to the advantage of each.

They are written against the Python array API: NumPy, JAX (under ``jit`` and ``vmap``), torch and array-api-strict run
this one source, and importing it imports neither JAX nor torch. Links stand in a file for each role (``baseline``,
``scale``, ``difficulty``, ``sign``), the named methods made of them in ``balanced`` and ``biased``; methods with a link
of their own stand beside it: ``pass_at_k``, ``exponential``, ``history``, ``likelihood``, ``length``, ``tokens`` and
``schedule``, ``schedule_ablations``. ``linked`` joins any of the links, one a role.
"""

from simlab.estimators.balanced import (
    dr_grpo,
    easy_focused,
    easy_power,
    f_grpo,
    grpo,
    hard_focused,
    maxrl,
    power_alpha,
    power_norm,
    rloo,
    skew_r,
)
from simlab.estimators.base import DOMAINS, Estimator, Link, chain, shape_rewards, stateless, weigh
from simlab.estimators.baseline import center, center_quantile, center_running, shift
from simlab.estimators.biased import (
    a_grae,
    asym_grpo,
    asym_power,
    asym_rl,
    binary_contrastive,
    mc_grpo,
    negative_dominant,
    nsr,
    positive_dominant,
    psr,
    quantile,
    reinforce,
    relu,
    running_mean,
    w_reinforce,
)
from simlab.estimators.difficulty import asymmetric_power, easy_power_weight, focal, focus, power, shift_difficulty
from simlab.estimators.exponential import log_mean_exp, lose_one_log_mean_exp, rs_grpo, softmax, tilt
from simlab.estimators.history import ha_dw, weigh_by_history
from simlab.estimators.length import t2t, thicken_then_thin
from simlab.estimators.likelihood import discount_likely, ds_grpo, smooth_by_outcome, unlikeliness
from simlab.estimators.linked import linked
from simlab.estimators.pass_at_k import (
    best_of_subsets,
    divide_by_pass_at_k_std,
    lose_one,
    mix,
    pass_at_k_chen,
    pass_at_k_tang,
    pkpo,
)
from simlab.estimators.registry import REGISTRY, Registered, advantages, estimator, register
from simlab.estimators.scale import (
    divide_by_mad,
    divide_by_mean,
    divide_by_std,
    divide_by_variance_power,
    multiply_by_std,
)
from simlab.estimators.schedule import fade, fade_schedule
from simlab.estimators.schedule_ablations import fade_entropy, fade_logarithmic
from simlab.estimators.sign import (
    attenuate_successes,
    contrast,
    divide_failures,
    keep_positive,
    multiply_positive,
    outcome,
)
from simlab.estimators.tokens import add_entropy, cw_grpo, entropy_advantage, tame_covariance

__all__ = [
    "DOMAINS",
    "REGISTRY",
    "Estimator",
    "Link",
    "Registered",
    "a_grae",
    "add_entropy",
    "advantages",
    "asym_grpo",
    "asym_power",
    "asym_rl",
    "asymmetric_power",
    "attenuate_successes",
    "best_of_subsets",
    "binary_contrastive",
    "center",
    "center_quantile",
    "center_running",
    "chain",
    "contrast",
    "cw_grpo",
    "discount_likely",
    "divide_by_mad",
    "divide_by_mean",
    "divide_by_pass_at_k_std",
    "divide_by_std",
    "divide_by_variance_power",
    "divide_failures",
    "dr_grpo",
    "ds_grpo",
    "easy_focused",
    "easy_power",
    "easy_power_weight",
    "entropy_advantage",
    "estimator",
    "f_grpo",
    "fade",
    "fade_entropy",
    "fade_logarithmic",
    "fade_schedule",
    "focal",
    "focus",
    "grpo",
    "ha_dw",
    "hard_focused",
    "keep_positive",
    "linked",
    "log_mean_exp",
    "lose_one",
    "lose_one_log_mean_exp",
    "maxrl",
    "mc_grpo",
    "mix",
    "multiply_by_std",
    "multiply_positive",
    "negative_dominant",
    "nsr",
    "outcome",
    "pass_at_k_chen",
    "pass_at_k_tang",
    "pkpo",
    "positive_dominant",
    "power",
    "power_alpha",
    "power_norm",
    "psr",
    "quantile",
    "register",
    "reinforce",
    "relu",
    "rloo",
    "rs_grpo",
    "running_mean",
    "shape_rewards",
    "shift",
    "shift_difficulty",
    "skew_r",
    "smooth_by_outcome",
    "softmax",
    "stateless",
    "t2t",
    "tame_covariance",
    "thicken_then_thin",
    "tilt",
    "unlikeliness",
    "w_reinforce",
    "weigh",
    "weigh_by_history",
]
