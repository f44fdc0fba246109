"""What the parameters of a sweep mean, in a few words: for ``simlab sweep --parameters``, tables and results."""

from simlab.sweeps.grid import Sweep

WORDS = {
    "group_size": "rollouts of a group, G",
    "seed": "seed of the random numbers",
    "estimator": "estimator: the weight of a rollout",
    "surrogate": "surrogate: the coefficient of grad log pi",
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
    "temperature": "sampling temperature, which divides the logits",
    "kl": "coefficient of the KL divergence from the base model",
    "entropy_bonus": "coefficient of the policy's entropy",
    "supervised": "coefficient of the log-likelihood of the base model's correct answers",
    "update_norm": "norm to which every update is scaled; 0: off",
    "epochs": "passes over a batch",
    "minibatches": "minibatches of the prompts of a batch",
    "prompts_per_step": "prompts of a bank that one step draws; 0: all",
    "update_rule": "simulator, simulator_literal or theorem",
    "false_positive": "rate at which the verifier accepts an incorrect rollout",
    "false_negative": "rate at which the verifier rejects a correct rollout",
    "errors_of": "whether the verifier errs per rollout, answer or prompt",
    "verifier_correction": "correction for the verifier's errors: none, backward or forward",
    "lag": "age of the sampler in steps",
    "sampler": "distribution that draws: exact, bfloat16, float16, top_p or top_k",
    "top_p": "share of probability that the sampler top_p keeps",
    "top_k": "actions that the sampler top_k keeps; 0: all",
    "correction": "importance correction: none, ratio, decoupled, truncated or masked",
    "correction_unit": "whether a token or a sequence has an importance weight",
    "correction_bound": "largest importance weight, truncated or masked",
    "isolation": "tokens below this probability get their gradient steps first (Lopti); 0: off",
    "allocation": "how a step's rollouts are allocated: even, knapsack, variance, learnable, dynamic or sequential",
    "allocation_by": "solve rates on which the allocation relies: estimate or exact",
    "smallest_group": "smallest group of an allocation",
    "largest_group": "largest group of an allocation; 0: 4 G",
    "aggregation": "average over a rollout's tokens: token_mean, sequence_mean or constant",
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
