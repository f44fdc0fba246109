"""Say in a sentence what each parameter of an estimator does, for whoever points at it on the page."""

from collections.abc import Mapping

_OWN = "a parameter of your own estimator"
# By parameter, or by estimator and parameter where they differ.
_HELP: Mapping[str, str] = {
    "ddof": "0: the standard deviation of the rewards themselves; 1: the unbiased one",
    "base": "the estimator whose advantages are weighed; 0 where that gives 0",
    "gamma": "exponent of the focal weight (1 − p)^γ; 0 leaves the base as it is",
    "power_norm.gamma": "exponent of the variance that divides; 0.5 is GRPO, 0 is Dr. GRPO",
    "hard_focused.gamma": "factor of γ / sqrt(p), which favours prompts that are seldom solved",
    "easy_focused.gamma": "factor of γ / sqrt(1 − p), which favours prompts that are often solved",
    "linked.gamma": "exponent of the difficulty focal, easy or asymmetric",
    "alpha": "α − 1 is the exponent of the difficulty weight; 1 favours no difficulty",
    "t2t.alpha": "how much length counts in the reward; 0 is GRPO",
    "a_grae.alpha": "mean reward of the batch below which successes are attenuated",
    "grpo_lead.alpha": "how much a success loses with its length; 0 lets no length count",
    "entropy_advantage.alpha": "what a token gains for each nat of its entropy; 0 is the base",
    "entropy_advantage.kappa": "a token gains at most a share 1 / κ of its advantage",
    "advantage_reweighting.alpha": "how much less unlikely tokens weigh; 0 is the base",
    "strength": "how much less rollouts of high entropy weigh; 0 is the base",
    "least_spread": "entropies of a group that differ by less change nothing",
    "alpha_success": "α − 1 is the exponent of 1 − p on successes",
    "alpha_failure": "α − 1 is the exponent of p on failures",
    "alpha_max": "the largest exponent that the schedule takes",
    "delta": "negative advantages are divided by it: below 1, failures weigh more",
    "asym_rl.delta": "shift of the baseline; above 0, successes weigh less and failures more",
    "delta_min": "the smallest divisor of failures that the schedule takes",
    "fade.baseline": "what is subtracted from rewards: the group's mean, or the whole batch's",
    "tau": "share of the group whose rewards lie below the baseline",
    "threshold": "solve rate above which a group is left out",
    "factor": "how many times one sign weighs as much as the other",
    "success": "what a success weighs, beside 1 for a failure",
    "ds_grpo.success": "how much less likely successes weigh, for each nat",
    "ds_grpo.failure": "how much more likely failures weigh, for each nat",
    "k": "of the pass@k whose weight this is; 1 is pass@1",
    "linked.k": "of the pass@k whose standard deviation divides, by the scale pass_at_k",
    "beta": "inverse temperature of exp(β r): large values favour rare successes",
    "fade.beta": "share of the past in the running average of the solve rate",
    "fade_entropy.beta": "share of the past in the running average of the entropy",
    "unlikeliness.beta": "how much the likeliest rollout's reward is discounted; 0 is GRPO",
    "ranking": "how likeliness is ranked: as the paper writes it, or as its code does",
    "last": "step at which the schedule has come to its end",
    "scale": "factor of all advantages",
    "mc_grpo.scale": "what divides: nothing, or the median absolute deviation as in the published code",
    "decay": "share of the past in the running mean",
    "initial": "the running mean before the first batch",
    "most": "the largest factor 1 / f that a group may get",
    "penalty": "what a failure costs",
    "low": "the least weight, that of easy prompts on success",
    "high": "the greatest weight, that of hard prompts on success",
    "midpoint": "solve rate at which the weight lies midway",
    "steepness": "how fast the weight falls there",
    "scope": "whether means run over the tokens of a group, or of the batch",
    "easy_term": "the weight of easy prompts: as the paper prints it, or as its code has it",
    "pkpo.baseline": "what each subset's maximum is compared with: nothing, or the subset without the rollout",
    "linked.baseline": "what is subtracted from the rewards",
    "linked.scale": "what divides or multiplies afterwards",
    "linked.difficulty": "which prompts weigh more",
    "linked.sign": "how successes and failures differ",
}


def help_of(name: str, key: str) -> str:
    """What a parameter of an estimator does; of the user's own files only that it is theirs.

    >>> help_of("reject_easy", "threshold")
    'solve rate above which a group is left out'
    """
    return _OWN if ":" in name else _HELP.get(f"{name}.{key}") or _HELP[key]
