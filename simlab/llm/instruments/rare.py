"""F-GRPO's rare-correct trajectories: correct ones that the base model finds unlikely, and how likely they become."""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from simlab.errors import InputError, check_range, check_whole
from simlab.llm.completions import Batch, filled_up, longest, target_logp
from simlab.llm.config import ModelConfig
from simlab.llm.model import Parameters
from simlab.llm.places import rounded_up

SHARE = 0.01  # as in the paper
AT_ONCE = 8
SLACK = 1e-9  # of a whole number that rounding has left just short


class Trajectories(NamedTuple):
    """Prompts with a completion of each, as lists that JSON holds: ``Trajectories(**json.loads(...))`` reads them back.

    Attributes:
        prompts: n lists of tokens.
        completions: n lists of tokens, each with the token that ended it.
    """

    prompts: list[list[int]]
    completions: list[list[int]]


def rarest(trajectories: Trajectories, nll: Float[np.ndarray, " n"], share: float = SHARE) -> Trajectories:
    """The share of correct trajectories with the highest NLL under the base model ``[f-grpo:sec-5.4-nll]``.

    The share is rounded down, to one trajectory at least; of equal NLLs the earlier ones are taken. As in the paper the
    share is that of all trajectories together, so that problems with many correct and long-winded samples give more.

    Args:
        trajectories: correct ones, sampled from the base model; what was sampled twice counts twice.
        nll: the nll of each, from ``length_normalised_nll``.
        share: in (0, 1].

    Raises:
        InputError: for no trajectory, another number of NLLs or one that is not finite, or a share outside its range.
    """
    check_range("share", share, 0, 1, open_low=True)
    count = len(trajectories.completions)
    if not count:
        raise InputError("there is no correct trajectory to choose rare ones from; allowed: one or more")
    if len(nll) != count or not np.isfinite(nll).all():
        raise InputError(f"nll is not {count} finite numbers, one for each trajectory")
    places = np.argsort(-nll, kind="stable")[: max(1, math.floor(share * count + SLACK))]
    return Trajectories(
        [trajectories.prompts[place] for place in places], [trajectories.completions[place] for place in places]
    )


def length_normalised_nll(
    parameters: Parameters, config: ModelConfig, trajectories: Trajectories, *, at_once: int = AT_ONCE
) -> Float[np.ndarray, " n"]:
    """-(1 / |y|) sum over t of log pi(y_t | x, y before t), at temperature 1 ``[f-grpo:sec-5.4-nll]``.

    Its mean over the rare-correct trajectories is what the paper reports; it rises as the policy leaves them.

    Args:
        parameters: the parameters of the model.
        config: its config.
        trajectories: n of them.
        at_once: how many are evaluated together.

    Raises:
        InputError: for a prompt or completion that is empty, holds a token outside the vocabulary, or is too long for
            the model, or another number of completions than of prompts.
    """
    check_whole("at_once", at_once, 1)
    _check(trajectories, config)
    count = len(trajectories.prompts)
    rows = min(at_once, rounded_up(max(count, 1)))
    (prompts, lengths), (tokens, sizes) = (
        filled_up(sequences, rows * math.ceil(count / rows), rounded_up(longest(sequences)))
        for sequences in trajectories
    )
    mask = np.arange(tokens.shape[1]) < sizes[:, None]
    found = np.zeros(len(tokens))
    for start in range(0, count, rows):
        here = slice(start, start + rows)
        found[here] = _nll(
            parameters, config, Batch(prompts[here], lengths[here], tokens[here, None], mask[here, None])
        )
    return found[:count]


@functools.partial(jax.jit, static_argnames="config")
def _nll(parameters: Parameters, config: ModelConfig, batch: Batch) -> Float[Array, " P"]:
    own = target_logp(parameters, config, batch, jnp.asarray(batch.tokens)[..., None])[..., 0]
    present = jnp.asarray(batch.mask)
    return -jnp.sum(jnp.where(present, own, 0), axis=(1, 2)) / jnp.sum(present, axis=(1, 2))


def _check(trajectories: Trajectories, config: ModelConfig) -> None:
    prompts, completions = trajectories
    if len(prompts) != len(completions):
        raise InputError(f"there are {len(completions)} completions; allowed: {len(prompts)}, one for each prompt")
    for index, (prompt, completion) in enumerate(zip(prompts, completions, strict=True)):
        if not prompt or not completion:
            raise InputError(f"trajectory {index} has an empty part; allowed: one token or more in each")
        outside = [token for token in (*prompt, *completion) if not 0 <= token < config.vocab_size]
        if outside:
            raise InputError(f"trajectory {index} has token {outside[0]}; allowed: 0 to {config.vocab_size - 1}")
        if len(prompt) + len(completion) > config.max_positions:
            raise InputError(
                f"trajectory {index} has {len(prompt) + len(completion)} tokens; "
                f"allowed: {config.max_positions}, the model's context"
            )
