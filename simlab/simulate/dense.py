"""The dense engine: every action's logit is carried, stepped and updated.

One lane is one seed with one set of numbers; its trajectory is a scan over recorded windows of steps.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from simlab.errors import InputError, check_choice, check_range
from simlab.estimators import Estimator, estimator
from simlab.rollouts import Rollouts
from simlab.simulate.metrics import Row, join, policy_metrics, update_metrics
from simlab.simulate.optimizers import optimizer
from simlab.simulate.policy import Policy, softmax
from simlab.simulate.sampling import draw
from simlab.simulate.update import UPDATE_RULES, entropy_gradient, kl_gradient, logit_gradient, rule_factor
from simlab.surrogates import Surrogate, aggregation_weights, surrogate

SUPPLIED = frozenset({"rewards", "old_logp", "entropy", "noise"})
SUPPLIED_TO_SURROGATES = SUPPLIED | {"topn_logp"}  # as many candidates as the surrogate moves
NOISE_STREAM = 1  # folded into the key of a step, which itself draws the group
DTYPES = ("float32", "float64")
Choices = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Program:
    """What shapes the compiled program. Two runs that differ only in numbers (``Numbers``) share one compilation.

    Attributes:
        group_size: G.
        estimator: a registered name, or an estimator.
        estimator_choices: its parameters that are not floats, as sorted pairs.
        surrogate: a registered name, or a surrogate.
        surrogate_choices: its parameters that are not floats, as sorted pairs.
        optimizer: an optimiser's name.
        update_rule: see ``rule_factor``.
        gradient_steps: gradient steps per sampled group.
        uses_kl, uses_entropy_bonus: whether those terms are computed at all.
        pass_at_k: the k whose pass@k is recorded.
        top_n: how many of the largest log-probabilities are recorded.
        dtype: "float32" or "float64".

    Raises:
        InputError: for a value outside its range, or an estimator or surrogate that needs what this engine cannot
            supply.
    """

    group_size: int
    estimator: str | Estimator = "grpo"
    estimator_choices: Choices = ()
    surrogate: str | Surrogate = "ppo_clip"
    surrogate_choices: Choices = ()
    optimizer: str = "adam"
    update_rule: str = "simulator"
    gradient_steps: int = 1
    uses_kl: bool = False
    uses_entropy_bonus: bool = False
    pass_at_k: tuple[int, ...] = ()
    top_n: int = 0
    dtype: str = "float32"

    def __post_init__(self) -> None:
        check_range("group_size", self.group_size, 1, 2**24)
        check_range("gradient_steps", self.gradient_steps, 1)
        check_range("top_n", self.top_n, 0)
        check_choice("update_rule", self.update_rule, UPDATE_RULES)
        check_choice("dtype", self.dtype, DTYPES)
        for k in self.pass_at_k:
            check_range("pass_at_k", k, 1)
        moves = self.build_surrogate({})
        self._check_supply("estimator", self.build_estimator({}).needs, SUPPLIED)
        self._check_supply("surrogate", moves.needs, SUPPLIED_TO_SURROGATES)
        if moves.candidates and self.update_rule != "simulator":
            raise InputError(f"update_rule = {self.update_rule!r} with a surrogate of candidates; allowed: simulator")

    @staticmethod
    def _check_supply(kind: str, needs: frozenset[str], supplied: frozenset[str]) -> None:
        if missing := needs - supplied:
            raise InputError(f"this {kind} needs {sorted(missing)}; the simulator supplies {sorted(supplied)}")

    def build_estimator(self, floats: Mapping[str, Any]) -> Estimator:
        """The estimator with its float parameters, which may be traced."""
        if isinstance(self.estimator, Estimator):
            return self.estimator
        return estimator(self.estimator, **dict(self.estimator_choices), **floats)

    def build_surrogate(self, floats: Mapping[str, Any]) -> Surrogate:
        """The surrogate with its float parameters, which may be traced."""
        if isinstance(self.surrogate, Surrogate):
            return self.surrogate
        return surrogate(self.surrogate, **dict(self.surrogate_choices), **floats)


class Numbers(NamedTuple):
    """The float parameters of a run, which may differ between the lanes of one compiled program.

    ``estimator``, ``surrogate`` and ``optimizer`` map parameter names to values; the others are scalars. ``run_lanes``
    takes the problem's rewards where none are given.
    """

    estimator: dict[str, Any]
    surrogate: dict[str, Any]
    optimizer: dict[str, Any]
    reward_correct: Any = None
    reward_incorrect: Any = None
    temperature: Any = 1.0
    kl: Any = 0.0
    entropy_bonus: Any = 0.0


class Landscape(NamedTuple):
    """The arrays of a problem on the device: initial logits, correct and target actions, each (N,)."""

    logits: Float[Array, " N"]
    correct: Bool[Array, " N"]
    target: Bool[Array, " N"]


class State(NamedTuple):
    """What a lane carries from step to step; the last group and two counters serve the records."""

    logits: Float[Array, " N"]
    optimizer: Any
    estimator: Any
    actions: Int[Array, " G"]
    active: Float[Array, ""]
    tail_missed: Float[Array, ""]


class Group(NamedTuple):
    """One sampled group, P = 1 and T = 1, the likeliest actions when it was sampled, and its advantages."""

    actions: Int[Array, " G"]
    candidates: Int[Array, " C"]
    rollouts: Rollouts
    advantages: Float[Array, "1 G 1"]


def trajectory(program: Program, place: Landscape, steps: Int[Array, " R"], key: PRNGKeyArray, numbers: Numbers) -> Row:
    """Simulate one lane and return its records, each (R + 1, ...): step 0 and the steps in ``steps``."""
    lane = Lane(program, place, key, numbers)

    def window(state: State, bounds: Int[Array, " 2"]) -> tuple[State, Row]:
        first, last = bounds[0], bounds[1]
        state = state._replace(active=jnp.zeros_like(state.active), tail_missed=jnp.zeros_like(state.active))
        # Two loops over one body, so that recording does not change the arithmetic of a step.
        state = jax.lax.fori_loop(first, last - 1, lane.step, state)
        before = state.logits
        state = jax.lax.fori_loop(last - 1, last, lane.step, state)
        return state, lane.record(before, state, last - first)

    bounds = jnp.stack([jnp.concatenate([jnp.zeros_like(steps[:1]), steps[:-1]]), steps], axis=1)
    _, rows = jax.lax.scan(window, lane.start(), bounds)
    return join(lane.policy_metrics(place.logits), rows)


class Lane:
    """One seed with one set of numbers: how it starts, steps, and what it records."""

    def __init__(self, program: Program, place: Landscape, key: PRNGKeyArray, numbers: Numbers):
        self.program, self.place, self.key, self.numbers = program, place, key, numbers
        self.initial = softmax(place.logits, numbers.temperature)
        self.estimator = program.build_estimator(numbers.estimator)
        self.surrogate = program.build_surrogate(numbers.surrogate)
        self.optimizer = optimizer(program.optimizer, **numbers.optimizer)

    def start(self) -> State:
        """The state before the first step."""
        zero = jnp.zeros_like(self.initial.total)
        return State(
            logits=self.place.logits,
            optimizer=self.optimizer.init(self.place.logits),
            estimator=jax.tree.map(lambda value: zero + value, self.estimator.init()),
            actions=jnp.zeros(self.program.group_size, jnp.int32),
            active=zero,
            tail_missed=zero,
        )

    def step(self, index: Int[Array, ""], state: State) -> State:
        """Sample a group, weigh it, and take the gradient steps it pays for."""
        policy = softmax(state.logits, self.numbers.temperature)
        key = jax.random.fold_in(self.key, index)
        actions = draw(key, policy.weights, self.program.group_size)
        correct = self.place.correct[actions]
        top_logp, candidates = policy.top(self.surrogate.candidates)
        rollouts = self.rollouts(policy, actions, correct, key)
        if "topn_logp" in self.surrogate.needs:
            everyone = (*rollouts.rewards.shape, 1, self.surrogate.candidates)
            rollouts = rollouts._replace(topn_logp=jnp.broadcast_to(top_logp, everyone))
        advantages, memory = self.estimator.update(rollouts, state.estimator)
        group = Group(actions, candidates, rollouts, advantages.reshape(1, -1, 1))
        logits, moments = self.ascend(group, state.logits, state.optimizer, policy, jnp.ones_like(group.advantages))
        if self.program.gradient_steps > 1:
            logits, moments = jax.lax.fori_loop(
                1, self.program.gradient_steps, lambda _, carry: self.ascend_again(group, *carry), (logits, moments)
            )
        active = jnp.any(correct) & ~jnp.all(correct)
        missed = active & ~jnp.any(self.place.target[actions])
        return State(logits, moments, memory, actions, state.active + active, state.tail_missed + missed)

    def rollouts(
        self, policy: Policy, actions: Int[Array, " G"], correct: Bool[Array, " G"], key: PRNGKeyArray
    ) -> Rollouts:
        """The record of one group, with what the estimator or a later gradient step reads."""
        rewards = jnp.where(correct, self.numbers.reward_correct, self.numbers.reward_incorrect)
        needs, shape = self.estimator.needs | self.surrogate.needs, (1, self.program.group_size, 1)
        needs_logp = "old_logp" in needs or self.program.gradient_steps > 1
        return Rollouts(
            rewards.astype(self.program.dtype)[None],
            old_logp=policy.logp_of(actions).reshape(shape) if needs_logp else None,
            entropy=jnp.broadcast_to(policy.entropy, shape) if "entropy" in needs else None,
            noise=jax.random.uniform(jax.random.fold_in(key, NOISE_STREAM), shape, self.program.dtype)
            if "noise" in needs
            else None,
        )

    def ascend_again(self, group: Group, logits: Float[Array, " N"], moments: Any) -> tuple[Float[Array, " N"], Any]:
        """A further gradient step on a group that an older policy sampled."""
        policy = softmax(logits, self.numbers.temperature)
        old_logp = group.rollouts.old_logp
        assert old_logp is not None
        ratio = jnp.exp(policy.logp_of(group.actions).reshape(old_logp.shape) - old_logp)
        return self.ascend(group, logits, moments, policy, ratio)

    def ascend(
        self, group: Group, logits: Float[Array, " N"], moments: Any, policy: Policy, ratio: Float[Array, "1 G 1"]
    ) -> tuple[Float[Array, " N"], Any]:
        """One gradient step on the group, at ``policy``, whose probabilities are ``ratio`` times the sampler's."""
        numbers = self.numbers
        coefficients = self.surrogate.coefficient(ratio, group.advantages, group.rollouts)
        coefficients = coefficients.reshape(self.program.group_size, -1)
        coefficients = coefficients * aggregation_weights(jnp.ones(ratio.shape, bool)).astype(ratio.dtype).reshape(
            -1, 1
        )
        coefficients = coefficients * rule_factor(self.program.update_rule, policy, group.actions)[:, None]
        moved = jnp.concatenate([group.actions, jnp.tile(group.candidates, self.program.group_size)])
        each = jnp.concatenate([coefficients[:, 0], coefficients[:, 1:].reshape(-1)])
        gradient = logit_gradient(each, moved, policy, numbers.temperature)
        if self.program.uses_entropy_bonus:
            gradient += numbers.entropy_bonus * entropy_gradient(policy, numbers.temperature)
        if self.program.uses_kl:
            gradient -= numbers.kl * kl_gradient(policy, self.initial.logp, numbers.temperature)
        change, moments = self.optimizer.update(-gradient, moments, logits)
        return logits + change, moments

    def policy_metrics(self, logits: Float[Array, " N"]) -> Row:
        """The records of a policy."""
        policy = softmax(logits, self.numbers.temperature)
        return policy_metrics(policy, self.initial, self.place.correct, self.program.pass_at_k, self.program.top_n)

    def record(self, before: Float[Array, " N"], state: State, length: Int[Array, ""]) -> Row:
        """The records after a window of ``length`` steps, the last of which started at logits ``before``."""
        steps = length.astype(before.dtype)
        rates = {"active_rate": state.active / steps, "tail_miss_rate": state.tail_missed / steps}
        update = update_metrics(before, state.logits, state.actions, self.place.correct, self.numbers.temperature)
        return rates | update | self.policy_metrics(state.logits)
