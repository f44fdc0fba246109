"""Estimators: from a batch of rollouts to the advantage of each.

They are written against the Python array API: NumPy, JAX (under ``jit`` and ``vmap``), torch and array-api-strict run
this one source, and importing it imports neither JAX nor torch. ``links`` has the links of each role, ``named`` the
methods made of them, ``linked`` joins any links. A parameter outside its range raises ``InputError``.
"""

from simlab.estimators.base import DOMAINS, Estimator, Link, chain, shape_rewards, stateless, weigh
from simlab.estimators.batch import (
    bnpo,
    curve_rl,
    divide_by_batch_std,
    divide_by_beta_density,
    gpg,
    ha_dw,
    over_mixed_groups,
    reinforce_pp,
    reinforce_pp_baseline,
    weigh_by_history,
    weigh_by_rank,
)
from simlab.estimators.distillation import follow_teacher, opd, tempered_grpo, weigh_by_escort
from simlab.estimators.exponential import (
    a_star_po,
    center_soft,
    log_mean_exp,
    lose_one_log_mean_exp,
    rs_grpo,
    softmax,
    tilt,
)
from simlab.estimators.least_variance import least_variance
from simlab.estimators.length import (
    center_by_length,
    grpo_lead,
    opo,
    shorten_successes,
    t2t,
    thicken_then_thin,
    weigh_by_logistic,
)
from simlab.estimators.linked import linked
from simlab.estimators.links import (
    asymmetric_power,
    attenuate_successes,
    center,
    center_greedy,
    center_quantile,
    center_running,
    contrast,
    divide_by_mad,
    divide_by_mean,
    divide_by_std,
    divide_by_std_of_others,
    divide_by_variance_power,
    divide_failures,
    easy_power_weight,
    focal,
    focus,
    gate_boundary,
    keep_positive,
    multiply_by_std,
    multiply_positive,
    outcome,
    power,
    reject,
    shift,
    shift_difficulty,
)
from simlab.estimators.named import (
    a_grae,
    asym_grpo,
    asym_power,
    asym_rl,
    bbg,
    binary_contrastive,
    dr_grpo,
    easy_focused,
    easy_power,
    f_grpo,
    grpo,
    hard_focused,
    maxrl,
    mc_grpo,
    negative_dominant,
    nsr,
    positive_dominant,
    power_alpha,
    power_norm,
    psr,
    quantile,
    reinforce,
    reject_easy,
    relu,
    remax,
    rloo,
    running_mean,
    skew_r,
    w_reinforce,
)
from simlab.estimators.parts import center_by_role, gdpo, rae
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
from simlab.estimators.schedule import fade, fade_entropy, fade_logarithmic, fade_schedule
from simlab.estimators.tokens import (
    add_entropy,
    advantage_reweighting,
    aem,
    center_by_energy,
    cw_grpo,
    discount_likely,
    ds_grpo,
    entropy_advantage,
    modulate_by_entropy,
    optimal_token_baseline,
    smooth_by_outcome,
    tame_covariance,
    unlikeliness,
    weigh_by_probability,
)

__all__ = [
    "DOMAINS", "REGISTRY", "Estimator", "Link", "Registered", "a_grae", "a_star_po", "add_entropy",
    "advantage_reweighting", "advantages", "aem", "asym_grpo", "asym_power", "asym_rl", "asymmetric_power",
    "attenuate_successes", "bbg", "best_of_subsets", "binary_contrastive", "bnpo", "center", "center_by_energy",
    "center_by_length", "center_by_role", "center_greedy", "center_quantile", "center_running", "center_soft", "chain",
    "contrast", "curve_rl", "cw_grpo", "discount_likely", "divide_by_batch_std", "divide_by_beta_density",
    "divide_by_mad", "divide_by_mean", "divide_by_pass_at_k_std", "divide_by_std", "divide_by_std_of_others",
    "divide_by_variance_power", "divide_failures", "dr_grpo", "ds_grpo", "easy_focused", "easy_power",
    "easy_power_weight", "entropy_advantage", "estimator", "f_grpo", "fade", "fade_entropy", "fade_logarithmic",
    "fade_schedule", "focal", "focus", "follow_teacher", "gate_boundary", "gdpo", "gpg", "grpo", "grpo_lead", "ha_dw",
    "hard_focused", "keep_positive", "least_variance", "linked", "log_mean_exp", "lose_one", "lose_one_log_mean_exp",
    "maxrl", "mc_grpo", "mix", "modulate_by_entropy", "multiply_by_std", "multiply_positive", "negative_dominant",
    "nsr", "opd", "opo", "optimal_token_baseline", "outcome", "over_mixed_groups", "pass_at_k_chen", "pass_at_k_tang",
    "pkpo", "positive_dominant", "power", "power_alpha", "power_norm", "psr", "quantile", "rae", "register",
    "reinforce", "reinforce_pp", "reinforce_pp_baseline", "reject", "reject_easy", "relu", "remax", "rloo", "rs_grpo",
    "running_mean", "shape_rewards", "shift", "shift_difficulty", "shorten_successes", "skew_r", "smooth_by_outcome",
    "softmax", "stateless", "t2t", "tame_covariance", "tempered_grpo", "thicken_then_thin", "tilt", "unlikeliness",
    "w_reinforce", "weigh", "weigh_by_escort", "weigh_by_history", "weigh_by_logistic", "weigh_by_probability",
    "weigh_by_rank",
]  # fmt: skip
