"""What the parameters of a sweep mean, in a few words: for ``simlab sweep --parameters``, tables and results."""

from simlab.sweeps.grid import Sweep

WORDS = {
    "group_size": "rollouts of a group, G",
    "seed": "seed of the random numbers",
    "estimator": "what makes the weight of a rollout",
    "surrogate": "what makes the coefficient of grad log pi",
    "arm": "method: estimator, surrogate and aggregation",
    # problems
    "actions": "actions of a policy, N",
    "correct": "correct actions",
    "target": "actions of the target set of the tail-miss rate",
    "anchor_logit": "initial logit of the anchor, the likeliest correct action",
    "correct_logit": "initial logit of the other correct actions",
    "incorrect_logit": "initial logit of the incorrect actions",
    "reward_correct": "reward of a correct rollout",
    "reward_incorrect": "reward of an incorrect rollout",
    "logits": "initial logits: a list, or a file of them",
    "prompts": "prompts",
    # optimizers
    "learning_rate": "learning rate of the optimizer",
    "b1": "decay of Adam's first moment",
    "b2": "decay of Adam's second moment",
    "weight_decay": "decay of the parameters at each step",
    # methods
    "gamma": "focal exponent",
    "delta": "weight of negative advantages against positive ones",
    # runs
    "temperature": "of sampling: logits are divided by it",
    "kl": "coefficient of the KL divergence from the base model",
    "entropy_bonus": "coefficient of the policy's entropy",
    "supervised": "coefficient of the log-likelihood of the base model's correct answers",
    "update_norm": "norm that every update is scaled to; 0: as it comes",
    "epochs": "passes over a batch",
    "minibatches": "minibatches of the prompts of a batch",
    "prompts_per_step": "prompts of a step, of a bank; 0: all",
    "update_rule": "simulator, simulator_literal or theorem",
    "false_positive": "rate at which the verifier accepts an incorrect rollout",
    "false_negative": "rate at which the verifier rejects a correct rollout",
    "errors_of": "what the verifier errs on: rollout, answer or prompt",
    "verifier_correction": "for the verifier's errors: none, backward or forward",
    "lag": "steps that the sampler is older than the policy",
    "sampler": "exact, bfloat16, float16, top_p or top_k",
    "top_p": "share of probability that the sampler top_p keeps",
    "top_k": "actions that the sampler top_k keeps; 0: all",
    "correction": "for another sampler: none, ratio, decoupled, truncated or masked",
    "correction_unit": "token or sequence",
    "correction_bound": "bound of a truncated or masked importance weight",
    "isolation": "learn from tokens below this probability first, and then from the others (Lopti); 0: together",
    "allocation": "of a step's rollouts: even, knapsack, variance, learnable or dynamic",
    "allocation_by": "what an allocation knows of solve rates: estimate or exact",
    "smallest_group": "of an allocation",
    "largest_group": "of an allocation; 0: a multiple of the group size",
    "aggregation": "of a rollout's tokens: token_mean, sequence_mean or constant",
}


def parameter_table(sweep: Sweep) -> str:
    """Every parameter of a sweep with its default and a few words, a section at a time."""
    known, lines, last = sweep.known_parameters(), list[str](), ""
    wide = max(len(name) for name in known)
    for name, default in known.items():
        section, _, own = name.partition(".")
        if section != last:
            lines += [""] if lines else ["--param NAME=LIST sets one, by its name with or without the section:", ""]
        last = section
        shown = ",".join(map(str, default)) if isinstance(default, tuple) else str(default)
        lines.append(f"{name:{wide}}  {shown or 'none':10}  {WORDS.get(own, '')}".rstrip())
    return "\n".join(lines)
