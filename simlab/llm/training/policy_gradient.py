"""One step of group-sampled policy gradients: sample, judge, estimate advantages, ascend."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, PRNGKeyArray

from simlab.estimators.tokens import of_tokens
from simlab.finite import check_finite
from simlab.llm.instruments.batch_metrics import (
    batch_values,
    group_metrics,
    kl_from_log_ratio,
    token_metrics,
    update_values,
)
from simlab.llm.instruments.model_changes import entropy_change
from simlab.llm.model import Parameters
from simlab.llm.training.gradient import Policy
from simlab.llm.training.groups import Groups, Reader, correct, joined
from simlab.llm.training.microbatches import microbatches
from simlab.llm.training.optimizer import ascend
from simlab.llm.training.settings import PolicyGradient
from simlab.llm.training.state import State
from simlab.methods import Method
from simlab.rollouts import Rollouts, check_rollouts
from simlab.simulator.mismatch import importance_weights, takes_part
from simlab.simulator.verifier import shared_chances, verdicts

ROLLOUTS, NOISE, VERDICTS = 0, 1, 2  # what the random numbers of a step are for
Metrics = dict[str, float | list[float]]


class Trainer(NamedTuple):
    """What stays the same during all steps of one arm.

    Attributes:
        policy: how the model is computed.
        reader: how the task is put to it.
        method: the arm's.
        settings: the settings of the steps.
        reference: parameters that a penalty pulls to; the start.
        first: the first training problem.
        top_n: candidates to record.
        verifier: the random numbers of a verifier that errs about answers or prompts.
    """

    policy: Policy
    reader: Reader
    method: Method
    settings: PolicyGradient
    reference: Parameters
    first: int
    top_n: int
    verifier: PRNGKeyArray

    def step(
        self,
        state: State,
        key: PRNGKeyArray,
        instruments: bool,
        watch: Callable[[Groups, np.ndarray], None] | None = None,
    ) -> tuple[State, Metrics]:
        """The state after one batch, and what was seen of it.

        ``watch`` is shown the groups and their advantages before the model moves.

        Raises:
            InputError: for an update that is not finite, and what the task does wrong.
        """
        groups, cursor, seen = self.collect(state, key)
        proximal = self.proximal(state.parameters, groups)
        rollouts = self.rollouts(groups, proximal, jax.random.fold_in(key, NOISE))
        check_rollouts(rollouts, self.method.needs)
        advantages, remembered = self.method.estimator.update(rollouts, state.estimator)
        check_finite(self.method.estimator.name, "advantages", advantages, rollouts)
        if watch is not None:
            watch(groups, np.asarray(advantages))
        state = state._replace(surrogate=self.method.surrogate.follow(rollouts, state.surrogate))
        after, updates = self.ascended(state, groups, rollouts, advantages, self.importance(groups, proximal))
        metrics = self.metrics(groups, advantages) | seen | updates
        if rollouts.ref_logp is not None:
            gap = (rollouts.ref_logp - proximal)[groups.batch.mask]
            metrics["reference_kl"] = kl_from_log_ratio(gap.astype(float))
        if instruments:
            metrics |= self.entropy_change(state.parameters, after.parameters, groups, advantages)
        older = (state.parameters, *state.older)[: self.settings.lag]
        return after._replace(estimator=remembered, step=state.step + 1, cursor=cursor, older=older), metrics

    def collect(self, state: State, key: PRNGKeyArray) -> tuple[Groups, int, Metrics]:
        """The groups to learn from, the next problem, and what was seen of all groups that were sampled.

        With ``rounds`` only groups of unequal rewards are kept, and batches are sampled until there are enough. Rewards
        are what the verifier says and a correction makes of it; ``reward``, of what was seen, is the task's own.
        """
        cursor, parts, rewards, accepted = state.cursor, list[Groups](), list[np.ndarray](), list[np.ndarray]()
        sampler = self.policy.cast(state.older[-1] if state.older else state.parameters, self.settings.sampler)
        for round_ in range(max(1, self.settings.rounds)):
            groups = self._sample(sampler, cursor, jax.random.fold_in(jax.random.fold_in(key, ROLLOUTS), round_))
            cursor += self.settings.prompts
            rewards.append(groups.rewards)
            if self.settings.errs:
                verdicts = self.verdicts(groups, jax.random.fold_in(jax.random.fold_in(key, VERDICTS), round_))
                accepted.append(verdicts)
                groups = groups._replace(rewards=self.settings.reward_of(verdicts.astype(np.float32)))
            parts.append(groups.chosen(np.flatnonzero(groups.mixed)) if self.settings.rounds else groups)
            if sum(len(part.problems) for part in parts) >= self.settings.prompts:
                break
        found = joined(parts)
        if not len(found.problems):  # nothing to learn from: the batch is used as it is, and moves nothing by itself
            found = groups
        seen: Metrics = {"reward": float(np.mean(rewards)), "sampled_groups": float(sum(map(len, rewards)))}
        if accepted:
            seen["accepted_rate"] = float(np.mean(accepted))
        return found.chosen(np.arange(min(len(found.problems), self.settings.prompts))), cursor, seen

    def _sample(self, parameters: Parameters, cursor: int, key: PRNGKeyArray) -> Groups:
        settings = self.settings
        problems = [self.reader.task.training(self.first + cursor + place) for place in range(settings.prompts)]
        groups = self.reader.sample(
            parameters,
            problems,
            settings.group_size,
            key=key,
            temperature=settings.temperature,
            top_n=max(self.top_n, self.method.surrogate.candidates),
            at_once=settings.rollouts,
        )
        return self._beside_greedy(parameters, groups, key) if "greedy_reward" in self.method.needs else groups

    def _beside_greedy(self, parameters: Parameters, groups: Groups, key: PRNGKeyArray) -> Groups:
        """The groups with the rewards of the answers of the likeliest tokens, which no random number changes."""
        at_once = self.settings.rollouts
        greedy = self.reader.sample(parameters, groups.problems, 1, key=key, temperature=0.0, at_once=at_once)
        return groups._replace(greedy_reward=np.broadcast_to(greedy.rewards, groups.rewards.shape))

    def verdicts(self, groups: Groups, key: PRNGKeyArray) -> Bool[np.ndarray, "P G"]:
        """What the verifier accepts of groups that the task has judged."""
        settings = self.settings
        if settings.errors_of == "rollout":
            chances = jax.random.uniform(key, groups.rewards.shape)
        else:
            prompts, judged = map(jnp.asarray, self.reader.words(groups, settings.errors_of))
            chances = shared_chances(self.verifier, prompts, judged, jnp.float32)
        rates = settings.false_positive, settings.false_negative
        return np.asarray(verdicts(jnp.asarray(correct(groups)), chances, *rates))

    def proximal(self, parameters: Parameters, groups: Groups) -> np.ndarray:
        """(P, G, T) log-probabilities of the tokens under the policy before the updates.

        The sampler's own serve where nothing is divided by them. Elsewhere the trainer computes them: in bfloat16 the
        two differ by up to .2 nats, so that a ratio to the sampler's would be clipped before the policy has moved.
        """
        divides = self.settings.samples_otherwise or self.settings.updates > 1
        return self.policy.logp(parameters, groups.batch) if divides else groups.sampled.logp

    def importance(self, groups: Groups, proximal: np.ndarray) -> np.ndarray | None:
        """(P, G, T) or (P, G, 1) what a token weighs because another policy sampled it; None for 1."""
        settings = self.settings
        log_ratio = jnp.where(groups.batch.mask, proximal - groups.sampled.logp, 0)
        unit, bound = settings.correction_unit, settings.correction_bound
        weights = importance_weights(log_ratio, settings.correction, unit, bound)
        return None if weights is None else np.asarray(weights)

    def rollouts(self, groups: Groups, proximal: np.ndarray, key: PRNGKeyArray) -> Rollouts:
        """What estimators and surrogates read."""
        sampled, needs = groups.sampled, self.method.needs
        of_reference = self.policy.logp(self.reference, groups.batch) if "ref_logp" in needs else None
        noise = np.asarray(jax.random.uniform(key, sampled.tokens.shape)) if "noise" in needs else None
        return Rollouts(
            groups.rewards,
            old_logp=sampled.logp if self.settings.correction == "ratio" else proximal,
            entropy=sampled.entropy,
            topn_logp=sampled.topn_logp,
            ref_logp=of_reference,
            noise=noise,
            token_mask=sampled.mask,
            greedy_reward=groups.greedy_reward,
        )

    def ascended(
        self,
        state: State,
        groups: Groups,
        rollouts: Rollouts,
        advantages: np.ndarray,
        importance: np.ndarray | None = None,
    ) -> tuple[State, Metrics]:
        """The state after an update by each minibatch, in all epochs, and what was seen of these updates.

        With an isolation all of that happens twice, by unlikely tokens and then by the others.
        """
        method, updates = self.method.at(state.surrogate), []
        rate = self.settings.rate(state.step + 1, self.settings.steps)
        parts = minibatches(len(groups.problems), self.settings.minibatches) * self.settings.epochs
        for number, places in enumerate(parts * self.settings.turns):
            own, read = groups.chosen(places), jax.tree.map(lambda values, some=places: values[some], rollouts)
            ratio = self.ratio(state.parameters, own, read, number)
            coefficients = np.asarray(method.from_advantages(ratio, advantages[places], read), np.float32)
            check_finite(method.surrogate.name, "coefficients", coefficients, read)
            seen = update_values(ratio, coefficients, np.asarray(advantages[places]), own.batch.mask)
            if self.settings.isolation:
                part = takes_part(read.old_logp, self.settings.isolation, number < len(parts))
                coefficients = np.where(part.reshape(*part.shape, *[1] * (coefficients.ndim - 3)), coefficients, 0)
            if importance is not None:
                coefficients = coefficients * importance[places].reshape(
                    *importance[places].shape, *[1] * (coefficients.ndim - 3)
                )
            gradient, _ = self.policy.gradient(state.parameters, own.batch, coefficients, own.sampled.topn_ids)
            parameters, optimizer, norm = ascend(self.settings, state.parameters, state.optimizer, gradient, rate)
            state = state._replace(parameters=parameters, optimizer=optimizer)
            updates.append(seen | {"grad_norm": norm})
        return state, {**batch_values(updates, rate)}

    def ratio(self, parameters: Parameters, groups: Groups, rollouts: Rollouts, update: int) -> np.ndarray:
        """(P, G, T) pi over the policy that the ratio is against.

        That is this policy itself at the first update of a batch, unless the ratio is against another sampler.
        """
        against_sampler = self.settings.samples_otherwise and self.settings.correction == "ratio"
        if update == 0 and not against_sampler:
            return np.ones(groups.batch.tokens.shape, np.float32)
        now = self.policy.logp(parameters, groups.batch)
        ratio: np.ndarray = np.exp(np.where(groups.batch.mask, now - rollouts.old_logp, 0))
        return ratio

    def metrics(self, groups: Groups, advantages: np.ndarray) -> Metrics:
        """What the instruments say of the groups that were learnt from."""
        sampled, advantages = groups.sampled, np.asarray(advantages)
        own = group_metrics(groups.rewards, advantages, sampled.mask, groups.solutions)
        tokens = token_metrics(
            sampled.logp, sampled.entropy, advantages, mask=sampled.mask, topn_logp=sampled.topn_logp
        )
        lengths = {"length": float(sampled.mask.sum(axis=2).mean()), "unfinished": self.reader.unfinished(groups)}
        return {**own, **tokens, **lengths}

    def entropy_change(self, before: Parameters, after: Parameters, groups: Groups, advantages: np.ndarray) -> Metrics:
        """The change of entropy in the contexts of some of the rollouts: those of one microbatch."""
        microbatch = next(microbatches(groups.batch, self.policy.microbatch))
        spread = np.broadcast_to(of_tokens(advantages), groups.batch.mask.shape)
        found = entropy_change(
            self.policy.whole(before),
            self.policy.whole(after),
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
