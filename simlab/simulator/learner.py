"""Take a step: draw groups, weigh them, and move the parameters; one learner for all problems and storages.

A learner is one seed with one set of traced settings. ``simlab.simulator.trajectory`` repeats the steps of many, and
``simlab.simulator.recording`` records them.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray, Shaped

from simlab.estimators.tokens import of_tokens
from simlab.problems.exact import correct_mass
from simlab.rollouts import Rollouts
from simlab.simulator.allocation import believed, first_rates, known_rates, most_learnable, stopped
from simlab.simulator.faults import ADVANTAGE, COEFFICIENT, LOGIT, MOMENT, Fault, no_fault
from simlab.simulator.gradients import with_norm
from simlab.simulator.groups import Group, Listed, counts_suffice, different
from simlab.simulator.isolation import takes_part
from simlab.simulator.metrics import EVERY_ASCENT, EVERY_STEP, Metric, OneAscent, Row
from simlab.simulator.mismatch import importance, seen_by
from simlab.simulator.optimizers import optimizer
from simlab.simulator.rounds import fill, nothing_pending
from simlab.simulator.settings import StaticSettings, TracedSettings
from simlab.simulator.state import MOVING, Batch, Drawn, Last, State, number_of
from simlab.simulator.storage import Places, Stored
from simlab.simulator.threefry import threefry
from simlab.simulator.verifier import accepted, corrected
from simlab.surrogates import aggregation_weights
from simlab.truths import all_true

NOISE_STREAM = 1  # folded into the key of a step, which itself draws the group
CHOOSING, GROUPS = 0, 1  # the first word of the counters of a step's key: which prompts, and the key of each


class Learner:
    """A seed's key and numbers, on a problem that is laid out in a storage.

    ``present`` (G,) is false for rollouts that only fill a group up to the size its program is compiled for; None where
    there are none. ``metrics`` are recorded in place of those of the problem.
    """

    def __init__(
        self,
        settings: StaticSettings,
        stored: Stored,
        key: PRNGKeyArray,
        numbers: TracedSettings,
        present: Bool[Array, " G"] | None = None,
        *,
        metrics: tuple[Metric, ...] | None = None,
    ):
        self.settings, self.key, self.numbers, self.present = settings, key, numbers, present
        self.problem, self.storage, self.first_places = stored
        self.method = settings.method(numbers.method)
        self.optimizer = optimizer(settings.optimizer, **numbers.optimizer)
        self.metrics = self.problem.metrics if metrics is None else metrics
        self.correct, self.target = (jnp.atleast_2d(values) for values in (self.problem.correct, self.problem.target))

    # Computed by what needs them: a program makes a learner in each of its loops and conditions.

    @functools.cached_property
    def first(self) -> Any:
        """The parameters at the start."""
        parameters = jnp.asarray(self.problem.parameters, self.settings.dtype)  # a user's problem may have NumPy's
        return self.by_prompt(self.storage.spread)(parameters)

    @functools.cached_property
    def initial(self) -> Any:
        """The policies of all prompts at the start."""
        return self.policies_of(self.first, self.first_places)

    @functools.cached_property
    def demonstrators(self) -> Any:
        """The policies of all prompts at the start, given that the answer is correct."""

        def demonstrator(places: Places, own: Any, correct: Array) -> Any:
            return own.given(self.storage.everywhere(correct, places))

        return self.each(demonstrator)(self.first_places, self.initial, self.correct)

    def start_places(self) -> Places:
        """What is known of the places when steps begin."""
        return self.first_places

    @property
    def surrogate(self) -> Any:
        """The method's surrogate."""
        return self.method.surrogate

    @property
    def group_size(self) -> int:
        """How many rollouts a group has room for: G, unless groups differ in size."""
        return self.settings.room

    @property
    def rollouts_present(self) -> Any:
        """How many rollouts of a group are there."""
        return self.group_size if self.present is None else jnp.sum(self.present, dtype=jnp.int32)

    @property
    def prompts_per_step(self) -> int:
        """P."""
        return self.problem.prompts_a_step(self.settings)

    @property
    def takes_all_in_order(self) -> bool:
        """Whether a batch is all prompts in their order: minibatches are parts of a random order."""
        return self.prompts_per_step == self.problem.prompts and self.settings.minibatches == 1

    # Functions of one prompt, or of one set of places, as functions of a batch

    def each(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function of the places and of what is one prompt's own, for all prompts of a batch."""
        own_places = 0 if self.problem.has_own_parameters else None

        def many(places: Any, *own: Any) -> Any:
            return jax.vmap(function, in_axes=(own_places, *[0] * len(own)))(places, *own)

        def alone(places: Any, *own: Any) -> Any:
            places = jax.tree.map(lambda leaf: leaf[0], places) if own_places == 0 else places
            only = function(places, *jax.tree.map(lambda leaf: leaf[0], own))
            return jax.tree.map(lambda leaf: leaf[None], only)

        return many if self.problem.prompts > 1 else alone

    def by_prompt(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function of one set of places as one of all: of each prompt's, if prompts have their own parameters."""
        return jax.vmap(function) if self.problem.has_own_parameters else function

    def of_batch(self, values: Any, prompts: Int[Array, " P"]) -> Any:
        """Of values of all prompts, those of a batch."""
        return values if self.problem.prompts == 1 else jax.tree.map(lambda leaf: leaf[prompts], values)

    def rows(self, values: Any, prompts: Int[Array, " P"]) -> Any:
        """Of values by prompt, where places are, those of a batch."""
        if not self.problem.has_own_parameters or self.takes_all_in_order:
            return values
        return jax.tree.map(lambda leaf: leaf[prompts], values)

    def put(self, values: Any, prompts: Int[Array, " P"], rows: Any) -> Any:
        """The values, with those of a batch in their places."""
        if not self.problem.has_own_parameters or self.takes_all_in_order:
            return rows
        return jax.tree.map(lambda leaf, row: leaf.at[prompts].set(row), values, rows)

    def kept_by_place(self, state: State) -> tuple[list[Array], ...]:
        """What moves with an action that gets a place of its own: parameters, moments, history."""
        parts = (jax.tree.leaves(getattr(state, name)) for name in MOVING)
        return tuple([leaf for leaf in part if leaf.ndim] for part in parts)

    def with_kept(self, state: State, places: Places, kept: tuple[list[Array], ...]) -> State:
        """The state with what ``kept_by_place`` gave, moved."""
        found = {}
        for name, moved in zip(MOVING, kept, strict=True):
            leaves, structure = jax.tree.flatten(getattr(state, name))
            left = iter(moved)
            found[name] = jax.tree.unflatten(structure, [next(left) if leaf.ndim else leaf for leaf in leaves])
        return state._replace(places=places, **found)

    # Policies

    def policies_of(self, parameters: Any, places: Places, prompts: Int[Array, " P"] | None = None) -> Any:
        """The policies of some prompts, or of all."""
        return self.policies_by(self.problem.logits_of(parameters, prompts), places)

    def policies_by(self, logits: Float[Array, "P ..."], places: Places) -> Any:
        """The policies that logits of prompts give."""

        def policy(places: Places, logits: Array) -> Any:
            return self.problem.policy(logits, self.numbers.temperature, self.storage, places)

        return self.each(policy)(places, logits)

    def policies(self, state: State, prompts: Int[Array, " P"]) -> Any:
        """The policies of the prompts of a batch."""
        return self.policies_of(state.parameters, self.rows(state.places, prompts), prompts)

    def samplers(self, state: State, prompts: Int[Array, " P"]) -> Any:
        """The policies that draw the groups of the prompts of a batch."""
        if not self.settings.samples_otherwise:
            return self.policies(state, prompts)
        parameters = state.older[-1] if state.older else state.parameters
        logits, numbers = self.problem.logits_of(parameters, prompts), self.numbers
        logits = seen_by(self.settings.sampler, logits, numbers.temperature, numbers.top_p, self.settings.top_k)
        return self.policies_by(logits, self.rows(state.places, prompts))

    # A step

    def start(self) -> State:
        """The state before the first step."""
        zero = jnp.zeros((), self.settings.dtype)
        moments = self.optimizer.init(self.first)
        parts = self.method.estimator, self.method.surrogate
        memory, schedule = (jax.tree.map(lambda value: zero + value, part.init()) for part in parts)
        unknown: Any = None
        older = (self.first,) * self.settings.lag
        bare = State(self.first, moments, memory, self.start_places(), unknown, {}, None, older, no_fault())
        bare = bare._replace(solved=first_rates(self), pending=nothing_pending(self), schedule=schedule)

        def of_a_step() -> tuple[Last, Row]:
            batch, _ = self.weigh(*self.draw(jnp.int32(0), bare)[1:], bare)
            return batch.last(), self.summed_shapes(batch, schedule)

        shapes = jax.eval_shape(of_a_step)
        last, sums = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        state = bare._replace(last=last, sums=sums)
        return state._replace(history=self.problem.first_history(self, state))

    def begun(self, state: State) -> State:
        """The state with nothing summed yet, as after a record."""
        state = state._replace(sums=jax.tree.map(jnp.zeros_like, state.sums))
        return state._replace(history=self.problem.recorded_history(state.history, state.parameters))

    def step(self, index: Int[Array, ""], state: State) -> State:
        """Choose prompts, draw a group for each, weigh them all, and take the gradient steps they pay for."""
        state, keys, prompts, drawn = self.draw(index, state)
        batch, memory = self.weigh(keys, prompts, drawn, state)
        return self.learn(batch, state._replace(memory=memory, solved=believed(batch, state.solved)))

    def draw(self, index: Int[Array, ""], state: State) -> tuple[State, Key[Array, " P"], Int[Array, " P"], Drawn]:
        """The state with a place for what a step drew, a key and a number for each prompt, and what was drawn.

        What a prompt draws at a step does not depend on the prompts beside it.
        """
        key = jax.random.fold_in(self.key, index)
        if self.problem.prompts == 1:
            keys, prompts = key[None], jnp.zeros(1, jnp.int32)
        else:
            prompts = self.choose(key, state)
            words = jnp.stack(_own_words(key, GROUPS, prompts), axis=-1)
            keys = jax.random.wrap_key_data(words, impl="threefry2x32")
        state, drawn = self.storage.sample(self, keys, prompts, state)
        return state, keys, prompts, drawn

    def choose(self, key: PRNGKeyArray, state: State) -> Int[Array, " P"]:
        """The prompts of a batch: different ones in a random order, or all of them in their own."""
        everyone = jnp.arange(self.problem.prompts, dtype=jnp.int32)
        if self.takes_all_in_order:
            return everyone
        words, _ = _own_words(key, CHOOSING, everyone)
        if self.settings.allocation == "learnable":
            return most_learnable(known_rates(self, state, everyone), words, self.prompts_per_step)
        # Those of the largest of 24 random bits each; the lower place wins a tie, of which there are too few to show.
        return jax.lax.top_k((words >> 8).astype(jnp.float32), self.prompts_per_step)[1]

    def solve_rate(self, places: Places, policy: Any, correct: Array) -> Float[Array, ""]:
        """The exact probability of a correct rollout of one prompt."""
        outcomes = policy.outcomes()
        rate: Array = correct_mass(outcomes.shares, self.storage.everywhere(correct, places), outcomes.sum)
        return rate

    def drawn(self, keys: Key[Array, " P"], policies: Any, sizes: Int[Array, " P"] | None = None) -> Drawn:
        """A group of each policy, all as large unless there are sizes."""
        counted = counts_suffice(self.settings, self.method, self.problem)

        def one(_: None, key: PRNGKeyArray, policy: Any, correct: Array, size: Any) -> tuple[Group, Array, Array]:
            group = policy.draw(key, self.group_size, correct if counted else None)
            present = self.present if size is None else jnp.arange(self.group_size, dtype=jnp.int32) < size
            group = group._replace(present=present) if isinstance(group, Listed) else group
            return group, *policy.candidates(group, self.surrogate.candidates)

        correct = self.correct if self.problem.prompts == 1 else jnp.zeros((len(keys), 0), bool)
        return Drawn(policies, *self.each(one)(None, keys, policies, correct, sizes))

    def weigh(self, keys: Key[Array, " P"], prompts: Int[Array, " P"], drawn: Drawn, state: State) -> tuple[Batch, Any]:
        """The batch with its advantages, and what the estimator remembers.

        From here on correct is what the verifier accepts; the records of policies go by the truth.
        """
        places = self.rows(state.places, prompts)
        proximal = self.policies(state, prompts) if self.settings.samples_otherwise else drawn.policies

        def marks(places: Places, group: Group, policy: Any, correct: Array, target: Array) -> tuple[Array, ...]:
            drawn = (group.marks(own, self.storage, places, self.group_size) for own in (correct, target))
            return *drawn, self.solve_rate(places, policy, correct)

        right, wanted = (self.of_batch(values, prompts) for values in (self.correct, self.target))
        correct, target, solve_rates = self.each(marks)(places, drawn.groups, proximal, right, wanted)
        if self.settings.errs:
            correct = accepted(self, keys, prompts, drawn.groups, correct)
        if self.settings.allocation == "sequential":
            drawn = self.stopped(drawn, correct)
        rollouts = self.rollouts(drawn, proximal, correct, keys)
        if "greedy_reward" in self.method.needs:
            greedy = self.greedy_reward(places, drawn.policies, prompts)
            rollouts = rollouts._replace(greedy_reward=jnp.broadcast_to(greedy[:, None], rollouts.rewards.shape))
        advantages, memory = self.method.estimator.update(rollouts, state.memory)
        size: Any = self.group_size
        if rollouts.mask is not None:
            correct, target = correct & rollouts.mask, target & rollouts.mask
            size = number_of(rollouts.mask)
        numbers = self.each(lambda _, group, marks, values: group.number(marks, values))
        number = numbers(None, drawn.groups, correct, right)
        holds_target = numbers(None, drawn.groups, target, wanted) > 0
        outcomes = (number > 0) & (number < size), holds_target, solve_rates
        weights = self.importance(proximal, drawn)
        batch = Batch(prompts, drawn, correct, number, rollouts, of_tokens(advantages), *outcomes, weights)
        return batch, memory

    def greedy_reward(self, places: Places, samplers: Any, prompts: Int[Array, " P"]) -> Float[Array, " P"]:
        """The reward of the answer of the samplers' likeliest tokens, by the truth."""

        def greedy(places: Places, sampler: Any, correct: Array) -> Array:
            found: Array = sampler.greedy(self.storage.everywhere(correct, places))
            return found

        is_correct = self.each(greedy)(places, samplers, self.of_batch(self.correct, prompts))
        rewards = jnp.where(is_correct, self.problem.reward_correct, self.problem.reward_incorrect)
        return rewards.astype(self.settings.dtype)

    def stopped(self, drawn: Drawn, accepted: Bool[Array, "P G"]) -> Drawn:
        """Of what could be drawn, the rollouts that were: what comes after a prompt's last round is absent."""
        sizes = stopped(accepted, self.settings.group_size, self.settings.smallest_group)
        present = jnp.arange(self.group_size, dtype=jnp.int32) < sizes[:, None]
        assert isinstance(drawn.groups, Listed)
        return drawn._replace(groups=drawn.groups._replace(present=present))

    def importance(self, proximal: Any, drawn: Drawn) -> Float[Array, "P G #T"] | None:
        """What each token weighs because another policy drew it; None for 1."""
        settings = self.settings
        if not settings.samples_otherwise:
            return None
        log_ratio = self.token_logp(proximal, drawn.groups) - self.token_logp(drawn.policies, drawn.groups)
        return importance(log_ratio, settings.correction, settings.correction_unit, self.numbers.correction_bound)

    def token_logp(self, policies: Any, groups: Group) -> Float[Array, "P G T"]:
        """The log-probability of each token of some groups."""
        found: Array = self.each(lambda _, own, group: own.token_logp(group))(None, policies, groups)
        return found

    def rollouts(self, drawn: Drawn, proximal: Any, correct: Bool[Array, "P G"], keys: Key[Array, " P"]) -> Rollouts:
        """The record of the groups, with what the estimator, the surrogate or a later gradient step reads.

        ``correct`` is what the verifier accepts, ``proximal`` the policies before the gradient steps.
        """
        problem, needs = self.problem, self.method.needs
        shape, dtype = (*correct.shape, problem.tokens), self.settings.dtype
        logp = entropy = noise = None
        if "old_logp" in needs or self.settings.gradient_steps > 1 or self.settings.samples_otherwise:
            logp = self.token_logp(drawn.policies if self.settings.correction == "ratio" else proximal, drawn.groups)
        if "entropy" in needs:
            entropies = self.each(lambda _, own, group: own.token_entropy(group))(None, proximal, drawn.groups)
            entropy = jnp.broadcast_to(entropies if entropies.ndim == 3 else entropies[:, None, None], shape)
        if "noise" in needs:
            noise = jax.vmap(
                lambda key: jax.random.uniform(jax.random.fold_in(key, NOISE_STREAM), (1, *shape[1:]), dtype)
            )(keys)[:, 0]
        top = drawn.top_logp
        rewards = jnp.where(correct, problem.reward_correct, problem.reward_incorrect).astype(dtype)
        if (correction := self.settings.verifier_correction) != "none":
            rates = self.numbers.false_positive, self.numbers.false_negative
            shares = corrected(correct.astype(dtype), correction, *rates)
            rewards = problem.reward_incorrect + shares * (problem.reward_correct - problem.reward_incorrect)
        return Rollouts(
            rewards,
            old_logp=logp,
            entropy=entropy,
            topn_logp=jnp.broadcast_to(top if top.ndim == 4 else top[:, None, None], (*shape, top.shape[-1]))
            if "topn_logp" in needs
            else None,
            noise=noise,
            mask=self.mask(drawn.groups, correct.shape),
        )

    def mask(self, groups: Group, shape: tuple[int, ...]) -> Bool[Array, "P G"] | None:
        """Which rollouts are there; None where all are."""
        present = groups.present if isinstance(groups, Listed) and self.settings.is_ragged else self.present
        return None if present is None else jnp.broadcast_to(present, shape)

    def learn(self, batch: Batch, state: State) -> State:
        """Take the gradient steps that a batch pays for."""
        number = batch.number_correct
        state = state._replace(schedule=self.surrogate.follow(batch.rollouts, state.schedule))
        differing = different(batch.drawn.groups, batch.advantages)
        fault = self.noticed(state.fault.begun(), ADVANTAGE, differing, number, batch)
        state = self.summed(state._replace(fault=fault), self.every_step(batch))
        policies, log_ratio = self.before_the_steps(batch, state)
        if self.settings.allocation == "dynamic":
            moved, gradients = fill(self, batch, state, policies, log_ratio)
        elif self.settings.minibatches > 1 or self.settings.isolates:
            coefficients = self.weighted(self.coefficients_at(log_ratio, batch, state.schedule), batch)
            gradients = self.gradients(coefficients, batch, state, policies)
            moved = self.ascend_in_parts(batch, state)
        else:
            moved, gradients = self.ascend(batch, state, policies, log_ratio, 0)
            if self.settings.epochs > 1:
                moved = jax.lax.fori_loop(
                    1, self.settings.epochs, lambda number, state: self.ascend_again(batch, state, number), moved
                )
        return moved._replace(
            last=batch.last(),
            history=self.problem.next_history(state.history, self, batch, gradients, state.parameters),
            older=(state.parameters, *moved.older)[: self.settings.lag],
            fault=self.noticed(moved.fault, LOGIT, self.drawn_logits(moved, batch), number, batch),
        )

    def every_step(self, batch: Batch) -> Row:
        """What is recorded as a mean over steps, of one of them."""
        return {metric.name: metric.value(batch) for metric in self.metrics if metric.of == EVERY_STEP}

    def every_ascent(
        self, batch: Batch, log_ratio: Float[Array, "P G T"], coefficients: Float[Array, "P G T D"], number: Any
    ) -> Row:
        """What is recorded of the gradient step of this number on a batch, from 0, or on a part of one."""
        chosen, steps = [metric for metric in self.metrics if metric.of == EVERY_ASCENT], self.settings.gradient_steps

        def recorded(metric: Metric, ascent: OneAscent) -> Array:
            value = metric.value(ascent)
            return value if self.settings.is_off_policy or not metric.off_policy else jnp.full_like(value, jnp.nan)

        def one(_: None, drawn: Drawn, correct: Array, present: Any, learned: tuple[Array, Array, Array]) -> Row:
            which = number == steps - 1, 1 / steps
            ascent = OneAscent(drawn.policies, drawn.groups, present, correct, *learned, *which)
            return {metric.name: recorded(metric, ascent) for metric in chosen}

        advantages = jnp.broadcast_to(batch.advantages, log_ratio.shape)
        learned = log_ratio, advantages, coefficients
        each = self.each(one)(None, batch.drawn, batch.correct, batch.rollouts.mask, learned)
        return {name: jnp.mean(found, axis=0) for name, found in each.items()}

    def summed_shapes(self, batch: Batch, schedule: Any) -> Row:
        """Of a batch, something of the shapes of all that is summed over steps."""
        _, log_ratio = self.on_policy(batch)
        coefficients = self.coefficients_at(log_ratio, batch, schedule)
        return self.every_step(batch) | self.every_ascent(batch, log_ratio, coefficients, 0)

    def before_the_steps(self, batch: Batch, state: State) -> tuple[Any, Float[Array, "P G T"]]:
        """The policies that the first gradient step starts from, and the logarithm of their ratio."""
        if self.settings.samples_otherwise:
            policies = self.policies(state, batch.prompts)
            return policies, self.log_ratio(policies, batch)
        return self.on_policy(batch)

    def on_policy(self, batch: Batch) -> tuple[Any, Float[Array, "P G T"]]:
        """The policies that drew a batch, whose ratio is 1."""
        return batch.drawn.policies, jnp.zeros((*batch.correct.shape, self.problem.tokens), batch.dtype)

    def log_ratio(self, policies: Any, batch: Batch) -> Float[Array, "P G T"]:
        """The logarithms of the probabilities of the tokens of a batch over those that it has on record."""
        assert batch.rollouts.old_logp is not None
        found: Array = self.token_logp(policies, batch.drawn.groups) - batch.rollouts.old_logp
        return found

    def ascend_in_parts(self, batch: Batch, state: State) -> State:
        """A gradient step on each minibatch, in the same order in all epochs, and in both turns of an isolation."""
        size = self.prompts_per_step // self.settings.minibatches

        def ascend(number: Int[Array, ""], state: State) -> State:
            first = number % self.settings.minibatches * size
            part = jax.tree.map(lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, first, size), batch)
            return self.ascend_again(part, state, number)

        moved: State = jax.lax.fori_loop(0, self.settings.gradient_steps, ascend, state)
        return moved

    def ascend_again(self, batch: Batch, state: State, number: Int[Array, ""]) -> State:
        """The gradient step of this number on a batch, or on a part of one, that an older policy sampled."""
        policies = self.policies(state, batch.prompts)
        return self.ascend(batch, state, policies, self.log_ratio(policies, batch), number)[0]

    def ascend(
        self, batch: Batch, state: State, policies: Any, log_ratio: Float[Array, "P G T"], number: Int[Array, ""] | int
    ) -> tuple[State, Float[Array, "P ..."]]:
        """One gradient step, at policies whose probabilities are a ratio times those on record; and the gradients.

        Its objective is the mean over the prompts of the batch of each one's.
        """
        gradients, state = self.noticed_gradients(batch, state, policies, log_ratio, number)
        gradient = self.problem.pulled_back(gradients / len(gradients), state.parameters, batch.prompts)
        return self.move(gradient, state), gradients

    def noticed_gradients(
        self, batch: Batch, state: State, policies: Any, log_ratio: Float[Array, "P G T"], number: Int[Array, ""] | int
    ) -> tuple[Float[Array, "P ..."], State]:
        """The gradient of each prompt's objective; and the state with what was noticed and recorded of this step."""
        coefficients = self.coefficients_at(log_ratio, batch, state.schedule)
        if self.settings.isolates:
            batch, coefficients = self.isolated(batch, coefficients, number)
        state = self.summed(state, self.every_ascent(batch, log_ratio, coefficients, number))
        coefficients = self.weighted(coefficients, batch)
        differing = different(batch.drawn.groups, coefficients)
        fault = self.noticed(state.fault, COEFFICIENT, differing, batch.number_correct, batch)
        return self.gradients(coefficients, batch, state, policies), state._replace(fault=fault)

    def isolated(
        self, batch: Batch, coefficients: Float[Array, "P G T D"], number: Int[Array, ""] | int
    ) -> tuple[Batch, Float[Array, "P G T D"]]:
        """A batch and its coefficients, without the tokens that the gradient step of this number leaves out."""
        part = takes_part(batch.rollouts.old_logp, self.numbers.isolation, number < self.settings.gradient_steps // 2)
        own = batch._replace(advantages=jnp.where(part, batch.advantages, 0))
        return own, jnp.where(part[..., None], coefficients, 0)

    def summed(self, state: State, row: Row) -> State:
        """The state with what was recorded of a gradient step added to its sums."""
        return state._replace(sums=state.sums | {name: state.sums[name] + value for name, value in row.items()})

    def coefficients_at(self, log_ratio: Float[Array, "P G T"], batch: Batch, schedule: Any) -> Float[Array, "P G T D"]:
        """The coefficients of a batch at the logarithm of a ratio, by what the surrogate remembers."""
        ratio: Array = jnp.exp(log_ratio)
        return self.coefficients(ratio, batch.advantages, batch.rollouts, schedule)

    def weighted(self, coefficients: Float[Array, "P G T D"], batch: Batch) -> Float[Array, "P G T D"]:
        """The coefficients of a batch, times what a token weighs because another policy drew it."""
        return coefficients if batch.importance is None else coefficients * batch.importance[..., None]

    def coefficients(
        self, ratio: Float[Array, "P G T"], advantages: Float[Array, "P G #T"], rollouts: Rollouts, schedule: Any
    ) -> Float[Array, "P G T D"]:
        """What the loss multiplies grad log pi with: of each token first, then of its candidates."""
        values: Array = self.surrogate.at(schedule)(ratio, advantages, rollouts)
        return values.reshape(*ratio.shape, -1) * self.averaging(rollouts, ratio.dtype)[..., None]

    def averaging(self, rollouts: Rollouts, dtype: Any) -> Float[Array, "P G T"]:
        """The weight of each token of a group in the loss; 1 / n where n rollouts of the group have one.

        All rollouts are as long, so that ``"constant"`` adds up the tokens of each unless the method has a normaliser.
        """
        normaliser = 1.0 if self.method.normaliser is None else self.method.normaliser

        def of_group(present: Bool[Array, " G"]) -> Float[Array, "G T"]:
            tokens = jnp.broadcast_to(present[None, :, None], (1, len(present), self.problem.tokens))
            weights: Array = aggregation_weights(tokens, self.method.aggregation, normaliser).astype(dtype)
            return weights[0]

        if rollouts.mask is not None and self.settings.is_ragged:
            return jax.vmap(of_group)(rollouts.mask)
        same = of_group(jnp.ones(self.group_size, bool) if self.present is None else self.present)
        return jnp.broadcast_to(same, (len(rollouts.rewards), *same.shape))

    def gradients(
        self, coefficients: Float[Array, "P G T D"], batch: Batch, state: State, policies: Any
    ) -> Float[Array, "P ..."]:
        """The gradient of each prompt's objective with respect to its logits."""
        settings, numbers = self.settings, self.numbers

        def one(places: Places, coefficients: Array, weights: Array, drawn: Drawn, pulls: tuple[Any, Any]) -> Array:
            first, demonstrator = pulls
            policy, group, temperature = drawn.policies, drawn.groups, numbers.temperature
            gradient: Array = policy.score_gradient(coefficients, group, drawn.candidates, settings.update_rule)
            gradient /= temperature
            if settings.uses_entropy_bonus:
                gradient += numbers.entropy_bonus * (policy.entropy_gradient(group, weights) / temperature)
            if settings.uses_kl:
                initial = first.logp_everywhere(places)
                gradient -= numbers.kl * (policy.kl_gradient(initial, group, weights) / temperature)
            if settings.uses_supervised:
                answers = self.storage.filled(demonstrator.everywhere(places).p, 0, places)
                gradient += numbers.supervised * (policy.likelihood_gradient(answers) / temperature)
            return gradient

        first = self.of_batch(self.initial, batch.prompts) if settings.uses_kl else None
        demonstrators = self.of_batch(self.demonstrators, batch.prompts) if settings.uses_supervised else None
        places = self.rows(state.places, batch.prompts)
        drawn = batch.drawn._replace(policies=policies)
        weights = self.averaging(batch.rollouts, coefficients.dtype)
        gradients: Array = self.each(one)(places, coefficients, weights, drawn, (first, demonstrators))
        return gradients

    def move(self, gradient: Any, state: State) -> State:
        """The state after the optimiser has taken its step."""
        change, moments = self.optimizer.update(jax.tree.map(jnp.negative, gradient), state.moments, state.parameters)
        if self.settings.fixes_update_norm:
            change = with_norm(change, self.numbers.update_norm, self.members(change, state.places), self.storage)
        return state._replace(parameters=jax.tree.map(jnp.add, state.parameters, change), moments=moments)

    def members(self, parameters: Array, places: Places) -> Float[Array, "..."] | float:
        """How many actions each entry of the parameters stands for."""
        if places is None:
            return 1.0
        found: Array = self.by_prompt(lambda places: self.storage.members(places, parameters.dtype))(places)
        return found.reshape(*found.shape, *[1] * (parameters.ndim - found.ndim))

    def has_room(self, state: State) -> Bool[Array, ""]:
        """Whether the storage has a place for every action that the next step may draw."""
        return jnp.asarray(self.storage.has_room(self, state))

    def before_last_step(self, parameters: Any, places: Places, state: State) -> Any:
        """Parameters before the step to a state, with a place for every action that the step drew."""
        if places is None:
            return parameters
        return self.by_prompt(self.storage.at_last_step)(parameters, places, state.places)

    # What is noticed

    def noticed(self, fault: Fault, what: int, values: Array, number: Int[Array, " P"], batch: Batch) -> Fault:
        """What has been noticed, and of which prompt, when something of a batch was looked at."""
        finite = all_true(jnp.isfinite(values), range(1, values.ndim))
        return fault.noticed(what, finite, number, None if self.problem.prompts == 1 else batch.prompts)

    def drawn_logits(self, state: State, batch: Batch) -> Float[Array, "P ..."]:
        """The logits of what groups drew: a step that breaks one logit breaks those, or the next does."""
        return self.problem.drawn_logits(state.parameters, batch.prompts, batch.drawn.groups, self)

    def looked_over(self, state: State) -> State:
        """The state with what shows in all its parameters and moments, where something is recorded."""
        fault = state.fault
        for what, part in ((LOGIT, state.parameters), (MOMENT, state.moments)):
            leaves = [leaf for leaf in jax.tree.leaves(part) if leaf.ndim]
            if leaves:
                check = self.by_prompt(self.storage.is_finite)
                finite = all_true(jnp.stack([all_true(check(leaf, state.places)) for leaf in leaves]))
                fault = fault.noticed(what, finite[None])
        return state._replace(fault=fault)


def _own_words(key: PRNGKeyArray, stream: int, prompts: Int[Array, " P"]) -> tuple[Shaped[Array, " P"], ...]:
    """Two random words of each prompt."""
    own = prompts.astype(jnp.uint32)
    return threefry(key, jnp.full_like(own, stream), own)
