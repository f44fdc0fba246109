"""One step of group-sampled policy gradients: sample, judge, estimate advantages, ascend."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from simlab.estimators.tokens import of_tokens
from simlab.finite import check_finite
from simlab.llm.instruments.entropy_change import entropy_change
from simlab.llm.instruments.groups import group_metrics
from simlab.llm.instruments.tokens import token_metrics
from simlab.llm.model import Parameters
from simlab.llm.training.gradient import Policy
from simlab.llm.training.groups import Groups, Reader, joined
from simlab.llm.training.microbatches import microbatches
from simlab.llm.training.optimizer import ascend
from simlab.llm.training.settings import PolicyGradient
from simlab.llm.training.state import State
from simlab.methods import Method
from simlab.rollouts import Rollouts, check_rollouts

ROLLOUTS, NOISE = 0, 1  # what the random numbers of a step are for
Metrics = dict[str, float | list[float]]


class Trainer(NamedTuple):
    """What stays the same during all steps of one arm.

    Attributes:
        policy: how the model is computed.
        reader: how the task is put to it.
        method: the arm's.
        settings: of the steps.
        reference: parameters that a penalty pulls to; the start.
        first: the first training problem.
        top_n: candidates to record.
    """

    policy: Policy
    reader: Reader
    method: Method
    settings: PolicyGradient
    reference: Parameters
    first: int
    top_n: int

    def step(self, state: State, key: PRNGKeyArray, instruments: bool) -> tuple[State, Metrics]:
        """The state after one batch, and what was seen of it.

        Raises:
            InputError: for an update that is not finite, and what the task does wrong.
        """
        groups, cursor, seen = self.collect(state, key)
        rollouts = self.rollouts(groups, jax.random.fold_in(key, NOISE))
        check_rollouts(rollouts, self.method.needs)
        advantages, remembered = self.method.estimator.update(rollouts, state.estimator)
        check_finite(self.method.estimator.name, "advantages", advantages, rollouts)
        after, norm = self.ascended(state, groups, rollouts, advantages)
        metrics = self.metrics(groups, advantages) | seen | {"grad_norm": norm}
        if instruments:
            metrics |= self.entropy_change(state.parameters, after.parameters, groups, advantages)
        return after._replace(estimator=remembered, step=state.step + 1, cursor=cursor), metrics

    def collect(self, state: State, key: PRNGKeyArray) -> tuple[Groups, int, Metrics]:
        """The groups to learn from, the next problem, and what was seen of all groups that were sampled.

        With ``rounds`` only groups of unequal rewards are kept, and batches are sampled until there are enough.
        """
        cursor, parts, rewards = state.cursor, list[Groups](), list[np.ndarray]()
        for round_ in range(max(1, self.settings.rounds)):
            groups = self._sample(
                self.policy.cast(state.parameters),
                cursor,
                jax.random.fold_in(jax.random.fold_in(key, ROLLOUTS), round_),
            )
            cursor += self.settings.prompts
            rewards.append(groups.rewards)
            parts.append(groups.chosen(np.flatnonzero(groups.mixed)) if self.settings.rounds else groups)
            if sum(len(part.problems) for part in parts) >= self.settings.prompts:
                break
        found = joined(parts)
        if not len(found.problems):  # nothing to learn from: the batch is used as it is, and moves nothing by itself
            found = groups
        seen: Metrics = {"reward": float(np.mean(rewards)), "sampled_groups": float(sum(map(len, rewards)))}
        return found.chosen(np.arange(min(len(found.problems), self.settings.prompts))), cursor, seen

    def _sample(self, parameters: Parameters, cursor: int, key: PRNGKeyArray) -> Groups:
        settings = self.settings
        problems = [self.reader.task.training(self.first + cursor + place) for place in range(settings.prompts)]
        top_n = max(self.top_n, self.method.surrogate.candidates)
        return self.reader.sample(
            parameters, problems, settings.group_size, key=key, temperature=settings.temperature, top_n=top_n
        )

    def rollouts(self, groups: Groups, key: PRNGKeyArray) -> Rollouts:
        """What estimators and surrogates read."""
        sampled, needs = groups.sampled, self.method.needs
        of_reference = self.policy.logp(self.reference, groups.batch) if "ref_logp" in needs else None
        noise = np.asarray(jax.random.uniform(key, sampled.tokens.shape)) if "noise" in needs else None
        return Rollouts(
            groups.rewards,
            old_logp=sampled.logp,
            entropy=sampled.entropy,
            topn_logp=sampled.topn_logp,
            ref_logp=of_reference,
            noise=noise,
            token_mask=sampled.mask,
        )

    def ascended(self, state: State, groups: Groups, rollouts: Rollouts, advantages: np.ndarray) -> tuple[State, float]:
        """The state after an update by each minibatch, in all epochs, and the norm of the first one's gradient."""
        rate, norms = self.settings.rate(state.step + 1, self.settings.steps), []
        parts = minibatches(len(groups.problems), self.settings.minibatches)
        for number, places in enumerate(parts * self.settings.epochs):
            own, read = groups.chosen(places), jax.tree.map(lambda values, some=places: values[some], rollouts)
            ratio = self.ratio(state.parameters, own, number)
            coefficients = np.asarray(self.method.from_advantages(ratio, advantages[places], read), np.float32)
            check_finite(self.method.surrogate.name, "coefficients", coefficients, read)
            gradient, _ = self.policy.gradient(state.parameters, own.batch, coefficients, own.sampled.topn_ids)
            parameters, optimizer, norm = ascend(self.settings, state.parameters, state.optimizer, gradient, rate)
            state = state._replace(parameters=parameters, optimizer=optimizer)
            norms.append(norm)
        return state, norms[0]

    def ratio(self, parameters: Parameters, groups: Groups, update: int) -> np.ndarray:
        """(P, G, T) pi over the policy that sampled; that is this policy at the first update of a batch."""
        if update == 0:
            return np.ones(groups.batch.tokens.shape, np.float32)
        now = self.policy.logp(parameters, groups.batch)
        ratio: np.ndarray = np.exp(np.where(groups.batch.mask, now - groups.sampled.logp, 0))
        return ratio

    def metrics(self, groups: Groups, advantages: np.ndarray) -> Metrics:
        """What the instruments say of the groups that were learnt from."""
        sampled, advantages = groups.sampled, np.asarray(advantages)
        own = group_metrics(groups.rewards, advantages, sampled.mask, groups.solutions)
        tokens = token_metrics(
            sampled.logp, sampled.entropy, advantages, mask=sampled.mask, topn_logp=sampled.topn_logp
        )
        return {**own, **tokens, "length": float(sampled.mask.sum(axis=2).mean())}

    def entropy_change(self, before: Parameters, after: Parameters, groups: Groups, advantages: np.ndarray) -> Metrics:
        """The change of entropy in the contexts of some of the rollouts: those of one microbatch."""
        microbatch = next(microbatches(groups.batch, self.policy.microbatch))
        spread = np.broadcast_to(of_tokens(advantages), groups.batch.mask.shape)
        found = entropy_change(
            before,
            after,
            self.policy.config,
            microbatch.batch,
            microbatch.gather(spread),
            temperature=self.settings.temperature,
        )
        return dict(found)


def minibatches(prompts: int, number: int) -> list[np.ndarray]:
    """The places of the prompts of each minibatch, in their order; dynamic sampling may leave fewer prompts.

    >>> [part.tolist() for part in minibatches(5, 2)]
    [[0, 1, 2], [3, 4]]
    """
    return [part for part in np.array_split(np.arange(prompts), number) if len(part)]


def key_of(seed: int, step: int) -> PRNGKeyArray:
    """The random numbers of a step; the arms of a seed have the same ones."""
    return jax.random.fold_in(jax.random.key(seed), jnp.uint32(step))
