"""Build a chain from any links, one for each role, for combinations that have no name."""

from simlab.errors import check_choice
from simlab.estimators.base import Estimator, chain
from simlab.estimators.batch import weigh_by_history
from simlab.estimators.links import (
    BASELINES,
    asymmetric_power,
    attenuate_successes,
    center,
    divide_by_mean,
    divide_by_std,
    divide_by_std_of_others,
    divide_failures,
    easy_power_weight,
    focal,
    focus,
    keep_positive,
    multiply_by_std,
    shift_difficulty,
)
from simlab.estimators.pass_at_k import divide_by_pass_at_k_std
from simlab.estimators.registry import register
from simlab.rollouts import Scalar


@register("fade:table-1", "(r_i - baseline) times scale, difficulty and sign, each the link that is named, or none")
def linked(
    *,
    baseline: str = "mean",
    scale: str = "none",
    difficulty: str = "none",
    sign: str = "none",
    gamma: Scalar = 1.0,
    delta: Scalar = 0.5,
    k: int = 4,
) -> Estimator:
    """Combine a baseline, a scale, a difficulty weight and a sign weight taken from the named methods.

    The links stand in this order, each at the defaults of its own function. With the baseline alone it is Dr. GRPO,
    and groups of equal rewards get 0. Without a baseline, or with the batch's, such groups get whatever the other links
    make of their rewards: divided by the std, 1e6 times as much.

    Args:
        baseline: none, or what ``center`` subtracts: mean, leave_one_out, batch_mean, median.
        scale: none, std, std_of_others and mean (divide by it), times_std, pass_at_k (Chen et al.'s, of ``k``).
        difficulty: none, focal ((1 - p)^gamma), easy (mean^gamma), asymmetric ((1 - mean)^gamma on success, mean^gamma
            on failure), sqrt_hard and sqrt_easy (A-GRAE's controls), shift (A-GRAE's schedule), history (HA-DW's).
        sign: none, divide_failures (by ``delta``), relu, attenuate (A-GRAE's successes).
        gamma: exponent of focal, easy and asymmetric.
        delta: what negative advantages are divided by.
        k: the k of the scale pass_at_k.

    >>> simlab.advantages("linked", np.array([1.0, 0.0, 0.0, 0.0]), scale="mean", sign="divide_failures")
    array([ 3., -2., -2., -2.])
    """
    roles = {
        "baseline": (baseline, {name: center(name) for name in BASELINES}),
        "scale": (
            scale,
            {
                "std": divide_by_std(),
                "std_of_others": divide_by_std_of_others(),
                "times_std": multiply_by_std(),
                "mean": divide_by_mean(),
                "pass_at_k": divide_by_pass_at_k_std(k),
            },
        ),
        "difficulty": (
            difficulty,
            {
                "focal": focal(gamma),
                "easy": easy_power_weight(1 + gamma),
                "asymmetric": asymmetric_power(1 + gamma, 1 + gamma),
                "sqrt_hard": focus("hard"),
                "sqrt_easy": focus("easy"),
                "shift": shift_difficulty(),
                "history": weigh_by_history(),
            },
        ),
        "sign": (
            sign,
            {
                "divide_failures": divide_failures(delta),
                "relu": keep_positive(),
                "attenuate": attenuate_successes(),
            },
        ),
    }
    for role, (choice, links) in roles.items():
        check_choice(role, choice, ("none", *links))
    return chain(*(links[choice] for choice, links in roles.values() if choice != "none"))
