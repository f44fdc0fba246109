"""Build a chain from any links, one for each role, for combinations that have no name."""

from simlab.errors import check_choice
from simlab.estimators import links
from simlab.estimators.base import Estimator, chain
from simlab.estimators.batch import weigh_by_history
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
    scales = {
        "std": links.divide_by_std(),
        "std_of_others": links.divide_by_std_of_others(),
        "times_std": links.multiply_by_std(),
        "mean": links.divide_by_mean(),
        "pass_at_k": divide_by_pass_at_k_std(k),
    }
    difficulties = {
        "focal": links.focal(gamma),
        "easy": links.easy_power_weight(1 + gamma),
        "asymmetric": links.asymmetric_power(1 + gamma, 1 + gamma),
        "sqrt_hard": links.focus("hard"),
        "sqrt_easy": links.focus("easy"),
        "shift": links.shift_difficulty(),
        "history": weigh_by_history(),
    }
    signs = {
        "divide_failures": links.divide_failures(delta),
        "relu": links.keep_positive(),
        "attenuate": links.attenuate_successes(),
    }
    roles = {
        "baseline": (baseline, {name: links.center(name) for name in links.BASELINES}),
        "scale": (scale, scales),
        "difficulty": (difficulty, difficulties),
        "sign": (sign, signs),
    }
    for role, (choice, named) in roles.items():
        check_choice(role, choice, ("none", *named))
    return chain(*(named[choice] for choice, named in roles.values() if choice != "none"))
