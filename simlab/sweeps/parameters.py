"""Read and explain the parameters of a sweep: each has the type of its default, words, and perhaps choices."""

import math
from typing import Any

from simlab.arms import parse_list
from simlab.errors import InputError, check_choice
from simlab.simulator.settings import CHOICES
from simlab.sweeps.grid import Sweep
from simlab.text import read_as

LONGEST = 10**5  # items that "..." fills in
WORDS = {
    "group_size": "rollouts of a group, G",
    "seed": "seed of the random numbers",
    "estimator": "estimator: the weight of a rollout",
    "surrogate": "surrogate: the coefficient of grad log pi",
    "arm": "method: estimator, surrogate and aggregation",
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
    "learning_rate": "learning rate of the optimizer",
    "b1": "decay of Adam's first moment",
    "b2": "decay of Adam's second moment",
    "weight_decay": "decay of the parameters at each step",
    "gamma": "focal exponent",
    "delta": "weight of negative advantages against positive ones",
    "temperature": "sampling temperature, which divides the logits",
    "kl": "coefficient of the KL divergence from the base model",
    "entropy_bonus": "coefficient of the policy's entropy",
    "supervised": "coefficient of the log-likelihood of the base model's correct answers",
    "update_norm": "norm to which every update is scaled; 0: off",
    "epochs": "passes over a batch",
    "minibatches": "minibatches of the prompts of a batch",
    "prompts_per_step": "prompts of a bank that one step draws; 0: all",
    "update_rule": "how a rollout moves the logits",
    "false_positive": "rate at which the verifier accepts an incorrect rollout",
    "false_negative": "rate at which the verifier rejects a correct rollout",
    "errors_of": "whether the verifier errs per rollout, answer or prompt",
    "verifier_correction": "correction for the verifier's errors: none, backward or forward",
    "reward": "rewards, or a placebo that no answer earns",
    "lag": "age of the sampler in steps",
    "sampler": "distribution that draws",
    "top_p": "share of probability that the sampler top_p keeps",
    "top_k": "actions that the sampler top_k keeps; 0: all",
    "correction": "importance correction",
    "correction_unit": "what has an importance weight",
    "correction_bound": "largest importance weight, truncated or masked",
    "isolation": "tokens below this probability get their gradient steps first (Lopti); 0: off",
    "tempering": "how many times hotter an unsolved prompt is sampled (PTGS); 1: off",
    "tempering_target": "solve rate of a prompt that is sampled at the temperature itself",
    "tempering_memory": "share of a prompt's counts that is kept",
    "remedy": "what is done where prompts harm one another",
    "remedy_by": "by what it is known who harms whom",
    "remedy_strength": "strength of the remedy, from 0 to 1",
    "teacher": "added to the base model's logits of correct answers, to make a teacher",
    "allocation": "how a step's rollouts are allocated",
    "allocation_by": "solve rates on which the allocation relies",
    "smallest_group": "smallest group of an allocation",
    "largest_group": "largest group of an allocation; 0: 4 G",
    "aggregation": "average over a rollout's tokens: token_mean, sequence_mean or constant",
}


def parameter_table(sweep: Sweep) -> str:
    """List every parameter of a sweep with its default, meaning and choices, one section after the other."""
    defaults, lines, last = sweep.known_parameters(), list[str](), ""
    width = max(map(len, defaults))
    for name, default in defaults.items():
        section, _, bare = name.partition(".")
        if section != last:
            lines += [""] if lines else ["--param NAME=LIST sets one, by its name with or without the section:", ""]
        last = section
        text = ",".join(map(str, default)) if isinstance(default, tuple) else str(default)
        meaning = ": ".join(filter(None, [WORDS.get(bare, ""), ", ".join(CHOICES.get(bare, ()))]))
        lines.append(f"{name:{width}}  {text or 'none':10}  {meaning}".rstrip())
    return "\n".join(lines)


def as_values(values: Any, default: Any) -> tuple[Any, ...]:
    """Return the values of a parameter: those of a list, or one; whole numbers as floats where the default is one."""
    if isinstance(default, tuple):  # takes tuples, or a list of tuples
        return tuple(values) if isinstance(values, list) else (values,)
    items = tuple(values) if isinstance(values, list | tuple | range) else (values,)
    return tuple(float(item) if type(item) is int and isinstance(default, float) else item for item in items)


def read_values(name: str, text: str, default: Any) -> tuple[Any, ...]:
    """Return the values in a list, typed like the default; where that is a list, the text is one value, or a path."""
    if not isinstance(default, tuple):
        return tuple(_read_value(name, item, default) for item in expand(text))
    items = tuple(item.strip() for item in text.split(","))
    if default and isinstance(default[0], str):
        return (items if len(items) > 1 else text,)
    try:
        return (tuple(read_as(float, item) for item in items),)
    except ValueError:
        return (text,)


def _read_value(name: str, text: str, default: Any) -> Any:
    if isinstance(default, str):
        return text
    if default is None and text.lower() == "none":
        return None
    if isinstance(default, bool):
        check_choice(name, text.lower(), ("true", "false"))
        return text.lower() == "true"
    try:
        return read_as(int if isinstance(default, int) else float, text)
    except ValueError:
        kind = "whole numbers" if isinstance(default, int) else "numbers"
        raise InputError(f"{name} = {text!r} cannot be read; allowed: {kind}, separated by commas") from None


def whole_numbers(text: str) -> tuple[int, ...]:
    """Return the whole numbers in a list."""
    return read_values("item", text, 0)


def arm_texts(text: str) -> tuple[str, ...]:
    """Return the arms in a list, each in the one way that equal ones have."""
    return tuple(map(str, parse_list(text)))


def expand(text: str) -> tuple[str, ...]:
    """Return the items of a comma-separated list; ``2,4,...,1024`` is filled in, geometrically where that fits.

    >>> expand("2,4,...,32")
    ('2', '4', '8', '16', '32')
    >>> expand("0,0.5,...,2")
    ('0', '0.5', '1', '1.5', '2')
    """
    items = tuple(item.strip() for item in text.split(","))
    if "..." not in items:
        if "" in items:
            raise InputError(f"list {text!r} has an empty item; allowed: values separated by commas")
        return items
    try:
        *before, _, last = items
        if len(before) < 2 or items.index("...") != len(before):
            raise ValueError
        values = _progression(float(before[-2]), float(before[-1]), float(last))
    except (ValueError, ArithmeticError):
        raise InputError(f"list {text!r} does not fit; allowed: first,second,...,last, such as 2,4,...,64") from None
    return *before[:-2], *(f"{value:.12g}" for value in values)


def _progression(first: float, second: float, last: float) -> list[float]:
    if first > 0 and second > 0 and last > 0 and first != second:
        steps = math.log(last / first) / math.log(second / first)
        if 1 <= steps <= LONGEST and abs(steps - round(steps)) < 1e-9:
            return [first * (second / first) ** index for index in range(round(steps) + 1)]
    steps = (last - first) / (second - first)
    if not 1 <= steps <= LONGEST or abs(steps - round(steps)) > 1e-9:
        raise ValueError
    return [first + (second - first) * index for index in range(round(steps) + 1)]
