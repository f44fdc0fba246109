"""The named estimators made of the common links."""

from simlab.errors import check_choice, check_range
from simlab.estimators import links
from simlab.estimators.base import Estimator, chain
from simlab.estimators.registry import base_estimator, register
from simlab.rollouts import Scalar

# Sign-balanced: on rewards 0 and 1 they put the same mass on successes as on failures


@register("fade:dr-grpo", "r_i - mean(r)")
def dr_grpo() -> Estimator:
    """Mean GRPO (Dr. GRPO): A = r - mean(r); groups of equal rewards get 0.

    >>> simlab.advantages("dr_grpo", np.array([1.0, 0.0]))
    array([ 0.5, -0.5])
    """
    return chain(links.center("mean"))


@register("f-grpo:eq-3", "(r_i - mean(r)) / (std(r) + eps)")
def grpo(ddof: int = 0, eps: Scalar = 1e-6) -> Estimator:
    """GRPO: A = (r - mean(r)) / (std(r) + eps).

    The papers state neither ``eps`` nor whether the std is the population's (``ddof=0``, from which FADE derives)
    or the sample's (``ddof=1``, verl). Groups of equal rewards get exactly 0.

    >>> simlab.advantages("grpo", np.array([1.0, 0.0]), eps=0.0)
    array([ 1., -1.])
    """
    return chain(links.center("mean"), links.divide_by_std(ddof, eps))


@register("fade:rloo", "r_i - mean(r without i)")
def rloo() -> Estimator:
    """RLOO: A = r - mean of the other rollouts' rewards; 0 for a group of one and for equal rewards.

    >>> simlab.advantages("rloo", np.array([1.0, 0.0, 0.0]))
    array([ 1. , -0.5, -0.5])
    """
    return chain(links.center("leave_one_out"))


@register("fade:skew-r", "std(r) (r_i - mean(r))")
def skew_r(ddof: int = 0) -> Estimator:
    """Skew-R: mean GRPO times the std, sqrt(p (1 - p)) for rewards 0 and 1; groups of equal rewards get 0.

    >>> simlab.advantages("skew_r", np.array([1.0, 0.0]))
    array([ 0.25, -0.25])
    """
    return chain(links.center("mean"), links.multiply_by_std(ddof))


@register("fade:power-norm", "(r_i - m) / [m (1 - m)]^gamma, m = mean(r)")
def power_norm(gamma: Scalar = 0.5) -> Estimator:
    """Power Norm: mean GRPO over a power of the Bernoulli variance; for rewards in [0, 1]; equal rewards get 0.

    For rewards 0 and 1, ``gamma`` 1/2 (FADE names no default) is GRPO with eps 0, and 0 is Dr. GRPO.

    >>> simlab.advantages("power_norm", np.array([1.0, 0.0]), gamma=1.0)
    array([ 2., -2.])
    """
    return chain(links.center("mean"), links.divide_by_variance_power(gamma))


@register("fade:maxrl", "(r_i - mean(r)) / mean(r)")
def maxrl() -> Estimator:
    """MaxRL: A = (r - mean(r)) / mean(r), and 0 where the mean is 0 or rewards are equal; for rewards in [0, 1].

    >>> simlab.advantages("maxrl", np.array([1.0, 0.0, 0.0, 0.0]))
    array([ 3., -1., -1., -1.])
    """
    return chain(links.center("mean"), links.divide_by_mean())


@register("fade:power-alpha", "(1 - mean(r))^(alpha - 1) (r_i - mean(r))")
def power_alpha(alpha: Scalar = 2.0) -> Estimator:
    """Power-alpha: A = (1 - mean(r))^(alpha - 1) (r - mean(r)); for rewards in [0, 1]; equal rewards get 0.

    >>> simlab.advantages("power_alpha", np.array([1.0, 0.0]))
    array([ 0.25, -0.25])
    """
    return chain(links.center("mean"), links.power(alpha))


@register("fade:easy-power", "mean(r)^(alpha - 1) (r_i - mean(r))")
def easy_power(alpha: Scalar = 2.0) -> Estimator:
    """Easy power: the twin of Power-alpha for easy groups; for rewards in [0, 1]; equal rewards get 0.

    >>> simlab.advantages("easy_power", np.array([1.0, 1.0, 1.0, 0.0]))
    array([ 0.1875,  0.1875,  0.1875, -0.5625])
    """
    return chain(links.center("mean"), links.easy_power_weight(alpha))


@register("f-grpo:eq-13", "(1 - p)^gamma A_base")
def f_grpo(gamma: Scalar = 1.0, base: str | Estimator = "grpo") -> Estimator:
    """F-GRPO: the base's advantages times the focal weight (1 - X/G)^gamma.

    ``base`` is any registered name or estimator, of rollouts or of tokens; ``gamma=0`` is the base itself. Groups that
    are all right get 0 (for gamma above 0), all wrong what the base gives.

    >>> simlab.advantages("f_grpo", np.array([1.0, 0.0, 0.0, 0.0]), gamma=1.0, base="dr_grpo")
    array([ 0.5625, -0.1875, -0.1875, -0.1875])
    """
    return chain(base_estimator(base), links.focal(gamma))


@register("simlab:interference-speed", "A_base where p <= threshold, else 0")
def reject_easy(threshold: Scalar = 0.5, base: str | Estimator = "grpo") -> Estimator:
    """Rejection of easy prompts: the base's advantages, and 0 for groups whose solve rate is above the threshold.

    Such a prompt has no speed at which it could move others. Trainers reject when they sample: DAPO's dynamic sampling
    leaves out groups that are all right or all wrong, and draws other prompts in their place. Here nothing is drawn
    anew, and groups that are all wrong get what the base gives. ``threshold=1`` is the base itself.

    >>> simlab.advantages("reject_easy", np.array([[1.0, 0.0], [1.0, 1.0]]), threshold=0.75, base="reinforce")
    array([[1., 0.],
           [0., 0.]])
    """
    return chain(base_estimator(base), links.reject(threshold))


@register("a-grae:control-2", "gamma / sqrt(p) A_GRPO")
def hard_focused(gamma: Scalar = 0.5, ddof: int = 0, eps: Scalar = 1e-6) -> Estimator:
    """Hard-focused control: GRPO times gamma / sqrt(p), p the solve rate; groups of equal rewards get 0.

    >>> simlab.advantages("hard_focused", np.array([1.0, 0.0, 0.0, 0.0]), eps=0.0).round(4)
    array([ 1.7321, -0.5774, -0.5774, -0.5774])
    """
    return chain(grpo(ddof, eps), links.focus("hard", gamma))


@register("a-grae:control-2", "gamma / sqrt(1 - p) A_GRPO")
def easy_focused(gamma: Scalar = 0.5, ddof: int = 0, eps: Scalar = 1e-6) -> Estimator:
    """Easy-focused control: GRPO times gamma / sqrt(1 - p), p the solve rate; groups of equal rewards get 0.

    >>> simlab.advantages("easy_focused", np.array([1.0, 1.0, 1.0, 0.0]), eps=0.0).round(4)
    array([ 0.5774,  0.5774,  0.5774, -1.7321])
    """
    return chain(grpo(ddof, eps), links.focus("easy", gamma))


# Sign-biased: the mass on successes differs from the mass on failures


@register("fade:reinforce", "r_i")
def reinforce() -> Estimator:
    """The reward itself: A = r, in groups of equal rewards too.

    >>> simlab.advantages("reinforce", np.array([1.0, 0.0]))
    array([1., 0.])
    """
    return chain()


@register("fade:running-mean", "r_i - b, b a running mean of the batches before")
def running_mean(decay: Scalar = 0.9, initial: Scalar = 0.0) -> Estimator:
    """REINFORCE with a running mean of past batches as its baseline; groups of equal rewards r get r - b.

    >>> simlab.advantages("running_mean", np.array([1.0, 0.0]), initial=0.25)
    array([ 0.75, -0.25])
    """
    return chain(links.center_running(decay, initial))


@register("arxiv:2310.10505", "r_i - r(greedy answer)")
def remax() -> Estimator:
    """ReMax: A = r - the reward of the greedy answer, whose every token is the likeliest.

    arXiv 2310.10505, without its penalty, which a surrogate adds; verl's ``compute_remax_outcome_advantage`` computes
    the same. The paper draws one rollout a prompt, here G share a greedy answer, which costs one rollout more a prompt.
    The baseline depends on no rollout, so that the expected step is that of REINFORCE. On rewards 0 and 1 a
    prompt whose greedy answer is right learns from failures alone, as ``nsr``, and any other from successes alone, as
    ``psr``; groups of equal rewards teach unless the greedy answer has that reward too.

    >>> simlab.advantages("remax", np.array([1.0, 0.0, 0.0]), greedy_reward=np.array([1.0, 1.0, 1.0]))
    array([ 0., -1., -1.])
    """
    return chain(links.center_greedy())


@register("fade:asym-rl", "r_i - (mean(r) + delta)")
def asym_rl(delta: Scalar = 0.01) -> Estimator:
    """AsymRL: mean GRPO with its baseline shifted by delta; groups of equal rewards get -delta.

    >>> simlab.advantages("asym_rl", np.array([1.0, 0.0]), delta=0.25)
    array([ 0.25, -0.75])
    """
    return chain(links.center("mean"), links.shift(delta))


@register("fade:quantile", "r_i - Q_tau(r)")
def quantile(tau: Scalar = 0.5) -> Estimator:
    """Quantile baseline: A = r - the smallest reward that a share tau does not exceed; equal rewards get 0.

    For rewards 0 and 1 the quantile is 1 where p > 1 - tau. FADE prints p > tau, which is the (1 - tau)-quantile.

    >>> simlab.advantages("quantile", np.array([1.0, 0.0, 0.0, 0.0]), tau=0.8)
    array([ 0., -1., -1., -1.])
    """
    return chain(links.center_quantile(tau))


MC_SCALES = ("none", "mad")


@register("fade:mc-grpo", "r_i - median(r)")
def mc_grpo(scale: str = "none", eps: Scalar = 1e-3) -> Estimator:
    """MC-GRPO: A = r - median(r), the lower median; groups of equal rewards get 0.

    FADE describes it without a scale. The published code (``scale="mad"``) divides by MAD + ``eps``: for rewards 0
    and 1 the MAD is 0 in every group and the advantages are multiplied by 1 / ``eps``.

    >>> simlab.advantages("mc_grpo", np.array([1.0, 0.0, 0.0]))
    array([1., 0., 0.])
    >>> simlab.advantages("mc_grpo", np.array([1.0, 0.5, 0.0]), scale="mad", eps=0.0)
    array([ 1.,  0., -1.])
    """
    check_choice("scale", scale, MC_SCALES)
    check_range("eps", eps, 0)
    return chain(links.center("median"), links.divide_by_mad(eps)) if scale == "mad" else chain(links.center("median"))


@register("fade:asym-power", "(1 - m)^(alpha_success - 1) (r_i - m) on success, m^(alpha_failure - 1) (r_i - m) else")
def asym_power(alpha_success: Scalar = 2.0, alpha_failure: Scalar = 2.0) -> Estimator:
    """Asymmetric power: mean GRPO with an exponent for each sign; for rewards in [0, 1]; equal rewards get 0.

    FADE names no defaults. With both exponents 1 it is Dr. GRPO.

    >>> simlab.advantages("asym_power", np.array([1.0, 0.0, 0.0, 0.0]))
    array([ 0.5625, -0.0625, -0.0625, -0.0625])
    """
    return chain(links.center("mean"), links.asymmetric_power(alpha_success, alpha_failure))


@register("fade:asym-grpo", "r_i - mean(r), divided by delta where negative")
def asym_grpo(delta: Scalar = 1.0) -> Estimator:
    """AsymGRPO: mean GRPO with the failures divided by delta; groups of equal rewards get 0.

    >>> simlab.advantages("asym_grpo", np.array([1.0, 0.0]), delta=0.5)
    array([ 0.5, -1. ])
    """
    return chain(links.center("mean"), links.divide_failures(delta))


@register("a-grae:control-1", "A_GRPO, multiplied by factor where positive")
def positive_dominant(factor: Scalar = 10.0, ddof: int = 0, eps: Scalar = 1e-6) -> Estimator:
    """Positive-dominant control: GRPO with positive advantages multiplied by 10; groups of equal rewards get 0.

    >>> simlab.advantages("positive_dominant", np.array([1.0, 0.0]), eps=0.0)
    array([10., -1.])
    """
    return chain(grpo(ddof, eps), links.multiply_positive(factor))


@register("a-grae:control-1", "A_GRPO, divided by factor where positive")
def negative_dominant(factor: Scalar = 10.0, ddof: int = 0, eps: Scalar = 1e-6) -> Estimator:
    """Negative-dominant control: GRPO with positive advantages divided by 10; groups of equal rewards get 0.

    >>> simlab.advantages("negative_dominant", np.array([1.0, 0.0]), eps=0.0)
    array([ 0.1, -1. ])
    """
    check_range("factor", factor, 0, open_low=True)
    return chain(grpo(ddof, eps), links.multiply_positive(1 / factor))


@register("fade:relu", "max(0, r_i - mean(r))")
def relu() -> Estimator:
    """ReLU: A = max(0, r - mean(r)); groups of equal rewards get 0.

    It is the weight of WAPO (arXiv 2606.16154), which is a method here: ``wapo``.

    >>> simlab.advantages("relu", np.array([1.0, 0.0]))
    array([0.5, 0. ])
    """
    return chain(links.center("mean"), links.keep_positive())


@register("fade:binary-contrastive", "1 on success, -p / (1 - p) on failure")
def binary_contrastive() -> Estimator:
    """Binary contrastive: A = 1 on success, -p / (1 - p) on failure, p the solve rate; for rewards 0 and 1.

    Groups that are all right get 1, all wrong 0. The two masses are equal but in a solved group. SignBalance (arXiv
    2609.04063) is this times c, and c is 1: A = c on success, -c n+ / n- on failure, as two public summaries of the
    paper quote it (4 September 2026); the paper itself could not be had.

    >>> simlab.advantages("binary_contrastive", np.array([1.0, 1.0, 1.0, 0.0]))
    array([ 1.,  1.,  1., -3.])
    """
    return chain(links.contrast())


@register("fade:psr", "1 on success, 0 on failure")
def psr() -> Estimator:
    """Positive-sample reinforcement: A = 1 on correct rollouts, 0 on others, whatever their group.

    >>> simlab.advantages("psr", np.array([1.0, 0.0]))
    array([1., 0.])
    """
    return chain(links.outcome(1.0, 0.0))


@register("fade:nsr", "0 on success, -1 on failure")
def nsr() -> Estimator:
    """Negative-sample reinforcement: A = -1 on incorrect rollouts, 0 on others, whatever their group.

    >>> simlab.advantages("nsr", np.array([1.0, 0.0]))
    array([ 0., -1.])
    """
    return chain(links.outcome(0.0, -1.0))


@register("fade:w-reinforce", "success on success, -1 on failure")
def w_reinforce(success: Scalar = 0.1) -> Estimator:
    """W-REINFORCE: A = ``success`` on correct rollouts, -1 on incorrect ones, whatever their group.

    >>> simlab.advantages("w_reinforce", np.array([1.0, 0.0]))
    array([ 0.1, -1. ])
    """
    return chain(links.outcome(success, -1.0))


@register("arxiv:2606.15455", "w A_base, w = C(F + k - 1, k - 1) / C(G + k - 1, k - 1), 0 where w k / (G + k) < tau")
def bbg(k: int = 16, tau: Scalar = 0.01, base: str | Estimator = "w_reinforce") -> Estimator:
    """Bayesian boundary gating: the base weighed by what pass@k has yet to gain, most in unsolved groups.

    The weight is 1 in a group that is all wrong and falls with each success, like (1 - p)^(k - 1) in large groups, with
    a solve rate that is uniform beforehand; it is 0 below the share ``tau``. GRPO as a base gives unsolved groups 0.
    ``k=1, tau=0`` is the base itself.

    arXiv 2606.15455, of which the abstract and Section 5.1 were read; Eqs 8 and 9 as a public re-implementation quotes
    them (``bbg_utility``, October 2026), whose k and tau these are. The scale, 1 where nothing was solved, is ours. The
    paper fills its batch up with other prompts for those that are gated, here they stay in with 0.

    >>> simlab.advantages("bbg", np.array([[0.0, 0.0], [1.0, 0.0]]), k=3, base="reinforce")
    array([[0. , 0. ],
           [0.5, 0. ]])
    """
    return chain(base_estimator(base), links.gate_boundary(k, tau))


@register(
    "a-grae:eq-12", "A_GRPO [w / (2 sqrt(p)) + (1 - w) / (2 sqrt(1 - p))], min(1, w / alpha) of it where positive"
)
def a_grae(alpha: Scalar = 1.0, easy_term: str = "paper", ddof: int = 0, eps: Scalar = 1e-6) -> Estimator:
    """A-GRAE: GRPO moved from easy to hard groups as the batch improves, successes attenuated early.

    ``[a-grae:eq-12]`` then ``[a-grae:eq-13]``, both steered by w, the batch's mean reward; for rewards in [0, 1].
    ``alpha`` is 1 for MATH, 0.5 for multimodal tasks; the published code fixes 1 and takes ``easy_term="code"``.
    Groups of equal rewards get 0; in a batch without a correct rollout every group is one.

    >>> simlab.advantages("a_grae", np.array([1.0, 0.0]), eps=0.0).round(4)
    array([ 0.3536, -0.7071])
    """
    return chain(grpo(ddof, eps), links.shift_difficulty(easy_term), links.attenuate_successes(alpha))
