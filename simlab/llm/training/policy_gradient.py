"""One step of group-sampled policy gradients: sample, judge, estimate advantages, ascend."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, PRNGKeyArray

from simlab.estimators.registry import check_domain
from simlab.estimators.tokens import of_tokens
from simlab.interference.weights import rollout_weights
from simlab.llm.instruments import batch_metrics, model_changes
from simlab.llm.model import Parameters
from simlab.llm.tasks.base import TaskProblem
from simlab.llm.training.features import features_by, root_preconditioner
from simlab.llm.training.folder import TrainerState
from simlab.llm.training.gradient import DecoderPolicy, microbatches
from simlab.llm.training.groups import (
    Reader,
    RolloutGroups,
    absent_rollouts,
    concatenate_groups,
    true_verdicts,
    weighted_parts,
)
from simlab.llm.training.optimizer import ascend
from simlab.llm.training.remedies import Change, MeasuredPushes, change, measured, prompt_numbers
from simlab.llm.training.settings import PolicyGradientSettings, ProbeSettings
from simlab.methods import Method
from simlab.rollouts import Rollouts, check_finite, check_rollouts
from simlab.simulator.mismatch import importance_weights, takes_part
from simlab.simulator.settings import NO_REMEDY, PLACEBO, TRUE_REWARD
from simlab.simulator.verifier import shared_chances, verdicts

ROLLOUTS, NOISE, VERDICTS, PAID = 0, 1, 2, 3  # purposes of the random numbers of a step
Metrics = dict[str, float | list[float]]


class Trainer(NamedTuple):
    """The constants of all steps of one arm.

    A step goes through these stages::

        collect -> proximal -> rollouts -> estimator -> surrogate -> gradient -> ascend
        groups     (P, G, T)   Rollouts    advantages   coefficients  per minibatch

    ``reference`` are the parameters of the start, which a penalty pulls to, ``first`` is the first training problem,
    ``top_n`` candidates are recorded, ``verifier_key`` is for a verifier that errs about answers or prompts,
    ``teacher`` is a model with its parameters, for methods that follow one, and ``probe`` says how a remedy measures.
    """

    policy: DecoderPolicy
    reader: Reader
    method: Method
    settings: PolicyGradientSettings
    reference: Parameters
    first: int
    top_n: int
    verifier_key: PRNGKeyArray
    teacher: tuple[DecoderPolicy, Parameters] | None = None
    probe: ProbeSettings = ProbeSettings()

    def step(
        self,
        state: TrainerState,
        key: PRNGKeyArray,
        instruments: bool,
        watch: Callable[[RolloutGroups, np.ndarray], None] | None = None,
    ) -> tuple[TrainerState, Metrics]:
        """Take one step; return state and metrics. ``watch`` sees the groups and advantages before the update."""
        groups, cursor, sampled_metrics = self.collect(state, key)
        proximal = self.proximal(state.parameters, groups)
        rollouts = self.rollouts(groups, proximal, jax.random.fold_in(key, NOISE))
        check_rollouts(rollouts, self.method.needs)
        check_domain(self.method.estimator, groups.rewards)
        advantages, estimator = self.method.estimator.update(rollouts, state.estimator)
        check_finite(self.method.estimator.name, "advantages", advantages, rollouts)
        if watch is not None:
            watch(groups, np.asarray(advantages))
        state = state._replace(surrogate=self.method.surrogate.follow(rollouts, state.surrogate))
        weights = self.importance(groups, proximal)
        remedy = self.remedy(state, groups, rollouts)
        after, update_metrics = self.ascend_minibatches(state, groups, rollouts, advantages, weights, remedy=remedy)
        metrics = self.metrics(groups, advantages) | sampled_metrics | update_metrics
        if rollouts.ref_logp is not None:
            gap = (rollouts.ref_logp - proximal)[groups.batch.mask]
            metrics["reference_kl"] = batch_metrics.kl_from_log_ratio(gap.astype(float))
        if remedy is not None:
            metrics |= remedy.metrics
            after = after if remedy.again is None else after._replace(again=remedy.again)
        if instruments:
            metrics |= self.entropy_change(state.parameters, after.parameters, groups, advantages)
        older = (state.parameters, *state.older)[: self.settings.lag]
        return after._replace(estimator=estimator, step=state.step + 1, cursor=cursor, older=older), metrics

    def collect(self, state: TrainerState, key: PRNGKeyArray) -> tuple[RolloutGroups, int, Metrics]:
        """Return groups to learn from (of unequal rewards with ``rounds``), the next problem, and metrics of all."""
        settings, cursor = self.settings, state.cursor
        batches, rewards, accepted, count = list[RolloutGroups](), list[np.ndarray](), list[np.ndarray](), 0
        sampler = self.policy.cast(state.older[-1] if state.older else state.parameters, settings.sampler)
        for number in range(max(1, settings.rounds)):
            numbers = prompt_numbers(state.again, self.first, cursor, settings.prompts)
            problems = list(map(self.reader.task.training, numbers))
            own_key = jax.random.fold_in(jax.random.fold_in(key, ROLLOUTS), number)
            groups = self.sample(sampler, problems, settings.group_size, own_key)
            cursor += sum(number >= self.first + cursor for number in numbers)
            rewards.append(groups.rewards[~absent_rollouts(groups)])
            count += len(groups.problems)
            if settings.verifier_errs:
                verdicts = self.verdicts(groups, jax.random.fold_in(jax.random.fold_in(key, VERDICTS), number))
                accepted.append(verdicts)
                groups = groups._replace(rewards=settings.correct_rewards(verdicts.astype(np.float32)), correct=None)
            if settings.reward != TRUE_REWARD:
                groups = self.placebo(groups, sampler, jax.random.fold_in(jax.random.fold_in(key, PAID), number))
            batches.append(groups.select(np.flatnonzero(groups.mixed)) if settings.rounds else groups)
            if sum(len(batch.problems) for batch in batches) >= settings.prompts:
                break
        selected = concatenate_groups(batches)
        if not len(selected.problems):  # no group is mixed: the last batch is used, and moves nothing by itself
            selected = groups
        metrics: Metrics = {"reward": float(np.mean(np.concatenate(rewards))), "sampled_groups": float(count)}
        if accepted:
            metrics["accepted_rate"] = float(np.mean(accepted))
        return selected.select(np.arange(min(len(selected.problems), settings.prompts))), cursor, metrics

    def sample(
        self, parameters: Parameters, problems: Sequence[TaskProblem], group_size: int, key: PRNGKeyArray
    ) -> RolloutGroups:
        """Sample groups of rollouts as the method reads them."""
        settings = self.settings
        common, top_n = {"key": key, "at_once": settings.rollouts}, max(self.top_n, self.method.surrogate.candidates)
        groups = self.reader.sample(
            parameters, problems, group_size, temperature=settings.temperature, top_n=top_n, **common
        )
        if "greedy_reward" not in self.method.needs:
            return groups
        # The answer of the likeliest tokens, which no random number changes.
        greedy = self.reader.sample(parameters, problems, 1, temperature=0.0, **common)
        return groups._replace(greedy_reward=np.broadcast_to(greedy.rewards, groups.rewards.shape))

    def placebo(self, groups: RolloutGroups, sampler: Parameters, key: PRNGKeyArray) -> RolloutGroups:
        """Pay each rollout what another answer to its prompt gets, or deal the rewards of a group out at random."""
        settings, names = self.settings, ("rewards", "correct", "parts")
        if settings.reward == PLACEBO:
            choices = {"temperature": settings.temperature, "at_once": settings.rollouts, "key": key}
            others = self.reader.sample(sampler, groups.problems, settings.group_size, **choices)
            return groups._replace(**{name: getattr(others, name) for name in names})
        order = np.argsort(jax.random.uniform(key, groups.rewards.shape), axis=1)
        rows = np.arange(len(order))[:, None]
        dealt = jax.tree.map(lambda values: values[rows, order], {name: getattr(groups, name) for name in names})
        return groups._replace(**dealt)

    def verdicts(self, groups: RolloutGroups, key: PRNGKeyArray) -> Bool[np.ndarray, "P G"]:
        """Return the mask of the rollouts that the verifier accepts."""
        settings = self.settings
        if settings.errors_of == "rollout":
            chances = jax.random.uniform(key, groups.rewards.shape)
        else:
            prompts, judged = map(jnp.asarray, self.reader.verifier_words(groups, settings.errors_of))
            chances = shared_chances(self.verifier_key, prompts, judged, jnp.float32)
        rates = settings.false_positive, settings.false_negative
        return np.asarray(verdicts(jnp.asarray(true_verdicts(groups)), chances, *rates))

    def proximal(self, parameters: Parameters, groups: RolloutGroups) -> np.ndarray:
        """Return log pi (P, G, T) before the updates; the sampler's own where nothing is divided by them."""
        divides = self.settings.off_policy or self.settings.updates > 1
        return self.policy.logp(parameters, groups.batch) if divides else groups.sampled.logp

    def importance(self, groups: RolloutGroups, proximal: np.ndarray) -> np.ndarray | None:
        """Return importance weights (P, G, T) or (P, G, 1) for a sampler that is another policy; None for 1."""
        choices = self.settings.correction, self.settings.correction_unit, self.settings.correction_bound
        weights = importance_weights(jnp.where(groups.batch.mask, proximal - groups.sampled.logp, 0), *choices)
        return None if weights is None else np.asarray(weights)

    def rollouts(self, groups: RolloutGroups, proximal: np.ndarray, key: PRNGKeyArray) -> Rollouts:
        """Return the input of estimators and surrogates."""
        sampled, needs = groups.sampled, self.method.needs
        absent, teacher_logp = absent_rollouts(groups), None
        if self.teacher and "teacher_logp" in needs:
            teacher, parameters = self.teacher
            teacher_logp = teacher.logp(parameters, groups.batch)
        return Rollouts(
            groups.rewards,
            mask=~absent if absent.any() else None,
            correct=groups.correct,
            **(weighted_parts(groups) if "parts" in needs else {}),
            old_logp=sampled.logp if self.settings.correction == "ratio" else proximal,
            entropy=sampled.entropy,
            collision=sampled.collision,
            topn_logp=sampled.topn_logp,
            ref_logp=self.policy.logp(self.reference, groups.batch) if "ref_logp" in needs else None,
            teacher_logp=teacher_logp,
            noise=np.asarray(jax.random.uniform(key, sampled.tokens.shape)) if "noise" in needs else None,
            token_mask=sampled.mask,
            greedy_reward=groups.greedy_reward,
        )

    def remedy(self, state: TrainerState, groups: RolloutGroups, rollouts: Rollouts) -> Change | None:
        """Return what the settings' remedy makes of a batch; None without one."""
        settings = self.settings
        if settings.remedy == NO_REMEDY:
            return None
        numbers = prompt_numbers(state.again, self.first, state.cursor, settings.prompts)
        return change(self.measured(state, groups, rollouts), settings.remedy, settings.remedy_strength, numbers)

    def measured(self, state: TrainerState, groups: RolloutGroups, rollouts: Rollouts) -> MeasuredPushes:
        """Measure by the rollouts of a batch what its prompts do to one another."""
        scale = root_preconditioner(self.settings, state.optimizer)
        batch, sketch = groups.batch, self.probe.sketch
        features, _ = features_by(
            self.probe.estimators[0], self.policy, state.parameters, batch, scale=scale, sketch=sketch
        )
        weighed = rollout_weights(self.method.at(state.surrogate), rollouts, state.estimator)
        return measured(features, groups, weighed)

    def ascend_minibatches(
        self,
        state: TrainerState,
        groups: RolloutGroups,
        rollouts: Rollouts,
        advantages: np.ndarray,
        importance: np.ndarray | None,
        *,
        remedy: Change | None = None,
    ) -> tuple[TrainerState, Metrics]:
        """Update by each minibatch, in all epochs; return the state after them, and metrics of the updates."""
        method, updates = self.method.at(state.surrogate), []
        rate = self.settings.rate(state.step + 1, self.settings.steps)
        order = minibatches(len(groups.problems), self.settings.minibatches) * self.settings.epochs
        for number, rows in enumerate(order * (2 if self.settings.isolation else 1)):
            minibatch = groups.select(rows)
            read = jax.tree.map(lambda values, rows=rows: values[rows], rollouts)
            ratio = self.ratio(state.parameters, minibatch, read, number)
            coefficients = np.asarray(method.from_advantages(ratio, advantages[rows], read), np.float32)
            check_finite(method.surrogate.name, "coefficients", coefficients, read)
            metrics = batch_metrics.update_values(
                ratio, coefficients, np.asarray(advantages[rows]), minibatch.batch.mask
            )
            if self.settings.isolation:
                mask = takes_part(read.old_logp, self.settings.isolation, number < len(order))
                coefficients = np.where(_expand(mask, coefficients), coefficients, 0)
            if importance is not None:
                coefficients = coefficients * _expand(importance[rows], coefficients)
            if remedy is not None:  # of a batch that makes one update
                coefficients = remedy.applied(coefficients, minibatch.batch.mask)
            candidates = minibatch.sampled.topn_ids
            gradient, _ = self.policy.gradient(state.parameters, minibatch.batch, coefficients, candidates)
            parameters, optimizer, norm = ascend(self.settings, state.parameters, state.optimizer, gradient, rate)
            state = state._replace(parameters=parameters, optimizer=optimizer)
            updates.append(metrics | {"grad_norm": norm})
        return state, {**batch_metrics.batch_values(updates, rate)}

    def ratio(self, parameters: Parameters, groups: RolloutGroups, rollouts: Rollouts, update: int) -> np.ndarray:
        """Return the ratios (P, G, T) of pi to the policy before: 1 at the first update, unless it is the sampler's."""
        against_sampler = self.settings.off_policy and self.settings.correction == "ratio"
        if update == 0 and not against_sampler:
            return np.ones(groups.batch.tokens.shape, np.float32)
        now = self.policy.logp(parameters, groups.batch)
        ratio: np.ndarray = np.exp(np.where(groups.batch.mask, now - rollouts.old_logp, 0))
        return ratio

    def metrics(self, groups: RolloutGroups, advantages: np.ndarray) -> Metrics:
        """Return the metrics of the groups that are learned from."""
        sampled, mask, advantages = groups.sampled, groups.sampled.mask, np.asarray(advantages)
        return {
            **batch_metrics.group_metrics(groups.rewards, advantages, mask, groups.solutions, groups.correct),
            **batch_metrics.part_metrics(groups.parts, groups.part_weights, advantages, mask),
            **batch_metrics.token_metrics(sampled.logp, sampled.entropy, advantages, mask, sampled.topn_logp),
            "length": float(mask.sum(axis=2).mean()),
            "unfinished": self.reader.unfinished(groups),
        }

    def entropy_change(
        self, before: Parameters, after: Parameters, groups: RolloutGroups, advantages: np.ndarray
    ) -> Metrics:
        """Return the change of entropy in the contexts of the rollouts of one microbatch."""
        microbatch = next(microbatches(groups.batch, self.policy.microbatch))
        spread = np.broadcast_to(of_tokens(advantages), groups.batch.mask.shape)
        batch, advantages = microbatch.batch, microbatch.gather(spread)
        before, after = self.policy.merge(before), self.policy.merge(after)
        config, temperature = self.policy.config, self.settings.temperature
        return {**model_changes.entropy_change(before, after, config, batch, advantages, temperature=temperature)}


def _expand(weights: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
    """Add the axis of candidates to weights of tokens, if the coefficients have one."""
    return weights.reshape(*weights.shape, *[1] * (coefficients.ndim - 3))


def minibatches(prompts: int, number: int) -> list[np.ndarray]:
    """Return the rows of the prompts of each minibatch, in their order; dynamic sampling may leave fewer prompts.

    >>> [rows.tolist() for rows in minibatches(5, 2)]
    [[0, 1, 2], [3, 4]]
    """
    return [rows for rows in np.array_split(np.arange(prompts), number) if len(rows)]
