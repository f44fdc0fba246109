"""A step of any problem once more, loop by loop in float64: what the simulator must agree with.

A problem has parameters, a function that makes logits of them, and correct outcomes, all in NumPy. A rollout is a word,
the tuple of the actions that it takes at the nodes on its way; where it takes one alone, the root is the only node. It
shares nothing with the library: estimators come from references.py, surrogates from naive_tokens.py, and optimisers
from naive_simulator.py.
"""

import functools
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import naive_simulator
import naive_tokens
import numpy as np
from naive_simulator import Memory, Setting, probabilities
from naive_tokens import Batch, Policies, Table, Word, entropy, tokens_logp
from references import REFERENCES, Step

BOUNDS = (0.001, 0.01, 0.1)
Groups = dict[int, list[Word]]  # the rollouts of each prompt of a batch
LeftOut = dict[int, list[list[bool]]]  # True for each token that a gradient step does not learn from


@dataclass(frozen=True)
class Naive:
    """A problem and how one learns on it.

    Attributes:
        parameters: at the start.
        logits_of: makes (M, nodes, B) logits of parameters, and is linear in them unless there are ``derivatives``.
        correct, target: each prompt's outcomes, counted as in a dictionary of words.
        setting: its logits, correct and target actions stand for nothing.
        depth: how many actions a rollout takes.
        aggregation: of tokens in the loss.
        learned: 1 for parameters that gradients move, 0 for the others.
        derivatives: makes of parameters (entries, M, nodes, B), the derivatives of the logits.
    """

    parameters: np.ndarray
    logits_of: Callable[[np.ndarray], np.ndarray]
    correct: tuple[frozenset[int], ...]
    target: tuple[frozenset[int], ...]
    setting: Setting
    depth: int = 1
    aggregation: str = "token_mean"
    learned: np.ndarray | float = 1.0
    derivatives: Callable[[np.ndarray], np.ndarray] | None = None

    @functools.cached_property
    def initial(self) -> np.ndarray:
        return self.logits_of(self.parameters)

    @property
    def branching(self) -> int:
        return self.initial.shape[2]

    @functools.cached_property
    def nodes(self) -> list[Word]:
        return [node for level in range(self.depth) for node in itertools.product(range(self.branching), repeat=level)]

    @functools.cached_property
    def words(self) -> list[Word]:
        return list(itertools.product(range(self.branching), repeat=self.depth))

    @functools.cached_property
    def jacobian(self) -> np.ndarray:
        """(entries, M, nodes, B), what each parameter adds to each logit."""
        units = np.eye(self.parameters.size).reshape(-1, *self.parameters.shape)
        return np.array([self.logits_of(unit) for unit in units])

    def jacobian_at(self, parameters: np.ndarray) -> np.ndarray:
        return self.jacobian if self.derivatives is None else self.derivatives(parameters)

    def of_prompt(self, prompt: int) -> Setting:
        """The setting of one prompt of one token."""
        logits = tuple(self.initial[prompt, 0].tolist())
        return replace(self.setting, logits=logits, correct=self.correct[prompt], target=self.target[prompt])


class Ascent(NamedTuple):
    """A gradient step on some prompts: each token's log(now / on record), and the moves that a surrogate gives it."""

    log_ratio: dict[int, Table]
    moves: dict[int, list[list[list[tuple[int, float]]]]]
    left_out: LeftOut


class Taken(NamedTuple):
    """A step that was taken: where from, where to, by which groups, and their advantages token by token.

    ``gradients`` are those of each prompt's objective with respect to its logits, at the policies that drew;
    ``samplers`` are the policies that drew.
    """

    before: Memory
    after: Memory
    groups: Groups
    advantages: dict[int, Table]
    gradients: dict[int, np.ndarray]
    ascents: list[Ascent]
    samplers: list[Policies]

    def actions(self, prompt: int) -> list[int]:
        """The actions that a prompt's rollouts drew, if each is one action."""
        return [action for (action,) in self.groups[prompt]]


def of_one_prompt(setting: Setting) -> Naive:
    """The naive problem of a setting itself: one prompt of one token."""
    parameters = np.array(setting.logits)
    return Naive(parameters, lambda logits: logits[None, None], (setting.correct,), (setting.target,), setting)


def step_of_one_prompt(naive: Naive, memory: Memory, actions: list[int]) -> Memory:
    """One group of sampled actions, weighed and learned from."""
    return step(naive, memory, {0: [(action,) for action in actions]}, {0: [[0.0]] * len(actions)}).after


def start(naive: Naive) -> Memory:
    zeros = np.zeros_like(naive.parameters)
    return Memory(naive.parameters, zeros, zeros)


def policies(naive: Naive, parameters: np.ndarray) -> list[Policies]:
    """The policies of each prompt's nodes."""
    return [
        {node: probabilities(row, naive.setting.temperature) for node, row in zip(naive.nodes, logits, strict=True)}
        for logits in naive.logits_of(parameters)
    ]


def chance(policy: Policies, word: Word) -> float:
    return math.prod(policy[word[:t]][action] for t, action in enumerate(word))


def advantages_of(
    naive: Naive, memory: Memory, on_record: list[Policies], groups: Groups
) -> tuple[Step, dict[int, Table]]:
    """The batch as estimators see it, and the advantage of each token."""
    now, setting = policies(naive, memory.logits), naive.setting
    right = {m: {naive.words[outcome] for outcome in naive.correct[m]} for m in groups}
    rewards = [[setting.rewards[0 if word in right[m] else 1] for word in groups[m]] for m in groups]
    logp = [[tokens_logp(on_record[m], word) for word in groups[m]] for m in groups]
    entropies = [[[entropy(now[m][word[:t]]) for t in range(naive.depth)] for word in groups[m]] for m in groups]
    drawing = samplers(naive, memory)
    greedy = [setting.rewards[0 if right[m] & set(greedy_words(naive, drawing[m])) else 1] for m in groups]
    squares = [
        [[float(np.sum(now[m][word[:t]] ** 2)) for t in range(naive.depth)] for word in groups[m]] for m in groups
    ]
    told = [teachers_logp(naive, m, groups[m]) if naive.depth == 1 else [] for m in groups]
    alone = [[[reward] for reward in group] for group in rewards]  # one part, of weight 1
    batch = Step(rewards, logp, entropies, greedy, alone, (1.0,), list(groups), squares, told)
    weights = REFERENCES[setting.estimator]([*memory.batches, batch], **setting.estimator_parameters)[-1]
    return batch, {
        m: [weight if isinstance(weight, list) else [weight] * naive.depth for weight in group]
        for m, group in zip(groups, weights, strict=True)
    }


def teachers_logp(naive: Naive, prompt: int, words: list[Word]) -> Table:
    """A teacher's log-probability of each rollout: the start's, with ``teacher`` added to logits of correct actions."""
    initial, setting = policies(naive, naive.parameters)[prompt][()], naive.setting
    raised = [p * math.exp(setting.teacher * (a in naive.correct[prompt])) for a, p in enumerate(initial)]
    return [[math.log(raised[action] / sum(raised))] for (action,) in words]


def samplers(naive: Naive, memory: Memory) -> list[Policies]:
    """The policies that draw: older by some steps, in another precision."""
    setting = naive.setting
    parameters = memory.logits
    if setting.lag:
        parameters = memory.older[setting.lag - 1] if len(memory.older) >= setting.lag else naive.parameters
    if setting.sampler == "exact":
        return policies(naive, parameters)
    if setting.sampler in ("top_p", "top_k"):
        return [{node: truncated(setting, p) for node, p in policy.items()} for policy in policies(naive, parameters)]
    rounded = naive.logits_of(parameters).astype(setting.sampler).astype(float)
    return [
        {node: probabilities(row, setting.temperature) for node, row in zip(naive.nodes, logits, strict=True)}
        for logits in rounded
    ]


def greedy_words(naive: Naive, policy: Policies) -> list[Word]:
    """The likeliest token at each node from the root on; several words where tokens are as likely as others."""
    words: list[Word] = [()]
    for _ in range(naive.depth):
        words = [
            (*word, action)
            for word in words
            for action, p in enumerate(policy[word])
            if round(p, 6) == round(max(policy[word]), 6)
        ]
    return words


def truncated(setting: Setting, p: np.ndarray) -> np.ndarray:
    """The likeliest actions one after the other, until they are enough; the first of equal ones first.

    What differs by rounding alone counts as equal.
    """
    nucleus, mass = np.zeros_like(p), 0.0
    for number, action in enumerate(sorted(range(len(p)), key=lambda i: -round(p[i], 12))):
        if (setting.sampler == "top_k" and number == setting.top_k) or mass >= setting.top_p:
            break
        nucleus[action] = p[action]
        mass += p[action]
    return nucleus / nucleus.sum()


def importance(setting: Setting, proximal: Policies, sampler: Policies, word: Word) -> list[float]:
    """The importance weight of each token of a rollout."""
    each = [proximal[word[:t]][action] / sampler[word[:t]][action] for t, action in enumerate(word)]
    if setting.correction in ("none", "ratio"):
        return [1.0] * len(word)
    if setting.correction_unit == "sequence":
        each = [math.prod(each)] * len(word)
    if setting.correction == "truncated":
        return [min(weight, setting.correction_bound) for weight in each]
    if setting.correction == "masked":
        return [w if 1 / setting.correction_bound <= w <= setting.correction_bound else 0.0 for w in each]
    return each


def step(naive: Naive, memory: Memory, groups: Groups, noise: dict[int, Table]) -> Taken:
    """A batch, weighed and learned from: the mean over its prompts of each one's objective is ascended."""
    setting, before, proximal, sampler = naive.setting, memory, policies(naive, memory.logits), samplers(naive, memory)
    on_record = sampler if setting.correction == "ratio" else proximal
    batch, advantages = advantages_of(naive, memory, on_record, groups)
    weights = {m: [importance(setting, proximal[m], sampler[m], word) for word in groups[m]] for m in groups}
    naive = replace(naive, setting=naive_tokens.as_of(setting, [*memory.batches, batch]))
    tables = Tables(advantages, noise, weights, nothing(groups))
    first, ascents = gradients(naive, memory.logits, on_record, groups, tables), []
    schedule = minibatches(groups, setting.minibatches) * setting.epochs
    for left_out, minibatch in itertools.product(turns(setting, on_record, groups), schedule):
        masked = tables._replace(left_out=left_out)
        ascents.append(ascent_of(naive, memory.logits, on_record, minibatch, masked))
        each = gradients(naive, memory.logits, on_record, minibatch, masked)
        ascended = sum(
            np.tensordot(naive.jacobian_at(memory.logits)[:, m], gradient, 2) for m, gradient in each.items()
        ) / len(each)
        ascended = ascended.reshape(naive.parameters.shape) * naive.learned
        memory = naive_simulator.optimize(setting, memory, ascended)
    older = (before.logits, *before.older)[: setting.lag]
    after = replace(memory, batches=(*before.batches, batch), older=older)
    return Taken(before, after, groups, advantages, first, ascents, sampler)


class Tables(NamedTuple):
    """By prompt a table of tokens: their advantages, random numbers, importance weights, and True if left out."""

    advantages: dict[int, Table]
    noise: dict[int, Table]
    weights: dict[int, Table]
    left_out: LeftOut


def nothing(groups: Groups) -> LeftOut:
    return {m: [[False] * len(word) for word in group] for m, group in groups.items()}


def turns(setting: Setting, on_record: list[Policies], groups: Groups) -> list[LeftOut]:
    """The tokens that each turn leaves out: none in one turn, or the likely ones in the first and then the others."""
    if not setting.isolation:
        return [nothing(groups)]
    likely = {
        m: [[logp >= math.log(setting.isolation) - 1e-6 for logp in tokens_logp(on_record[m], word)] for word in group]
        for m, group in groups.items()
    }
    return [likely, {m: [[not out for out in row] for row in rows] for m, rows in likely.items()}]


def minibatches(groups: Groups, number: int) -> list[Groups]:
    """The groups in parts of one size, in the order in which they were drawn."""
    prompts, size = list(groups), len(groups) // number
    return [{m: groups[m] for m in prompts[first : first + size]} for first in range(0, len(prompts), size)]


def ascent_of(
    naive: Naive, parameters: np.ndarray, on_record: list[Policies], groups: Groups, tables: Tables
) -> Ascent:
    """A gradient step on some groups, before it is taken."""
    now, moves = policies(naive, parameters), moves_of(naive, parameters, on_record, groups, tables)
    log_ratio = {
        m: [list(np.subtract(tokens_logp(now[m], word), tokens_logp(on_record[m], word))) for word in group]
        for m, group in groups.items()
    }
    rows = iter(moves)
    return Ascent(log_ratio, {m: [next(rows) for _ in group] for m, group in groups.items()}, tables.left_out)


def moves_of(
    naive: Naive, parameters: np.ndarray, on_record: list[Policies], groups: Groups, tables: Tables
) -> list[list[list[tuple[int, float]]]]:
    """The moves that a surrogate gives each token of some groups, rollout by rollout."""
    now = policies(naive, parameters)
    rollouts = [(m, word) for m, group in groups.items() for word in group]
    advantages, noise = ([row for m in groups for row in table[m]] for table in (tables.advantages, tables.noise))
    batch = Batch([word for _, word in rollouts], advantages, noise)
    policies_now, policies_then = ([by_prompt[m] for m, _ in rollouts] for by_prompt in (now, on_record))
    moves = naive_tokens.token_moves(naive.setting, policies_now, policies_then, batch)
    absent = [row for m in groups for row in tables.left_out[m]]
    return [
        [[(a, 0.0 if out else c) for a, c in of_token] for of_token, out in zip(*rows, strict=True)]
        for rows in zip(moves, absent, strict=True)
    ]


def gradients(
    naive: Naive, parameters: np.ndarray, on_record: list[Policies], groups: Groups, tables: Tables
) -> dict[int, np.ndarray]:
    """The gradient of each prompt's objective with respect to its logits, token by token."""
    now, initial, setting = policies(naive, parameters), policies(naive, naive.parameters), naive.setting
    rollouts = [(m, word) for m, group in groups.items() for word in group]
    weights = [row for m in groups for row in tables.weights[m]]
    moves = moves_of(naive, parameters, on_record, groups, tables)
    totals = {m: {node: np.zeros(naive.branching) for node in naive.nodes} for m in groups}
    for (m, word), of_rollout, of_tokens in zip(rollouts, moves, weights, strict=True):
        size = len(groups[m]) * (1 if naive.aggregation == "constant" else naive.depth)
        for t, (of_token, weight) in enumerate(zip(of_rollout, of_tokens, strict=True)):
            node, p = word[:t], now[m][word[:t]]
            jacobian = (np.diag(p) - np.outer(p, p)) / setting.temperature  # dp_i / dz_j
            for action, coefficient in of_token:
                share = rule(setting.update_rule, p[action], groups[m].count(word))
                totals[m][node] += weight * coefficient * share / size / p[action] * jacobian[action]
            totals[m][node] += setting.entropy_bonus / size * -(np.log(p) + 1) @ jacobian
            totals[m][node] -= setting.kl / size * (np.log(p / initial[m][node]) + 1) @ jacobian
    if setting.supervised:
        for m, by_node in totals.items():
            p = now[m][()]
            jacobian = (np.diag(p) - np.outer(p, p)) / setting.temperature
            for action, share in naive_simulator.demonstrations(naive.of_prompt(m)).items():
                by_node[()] += setting.supervised * share / p[action] * jacobian[action]
    return {m: np.array([by_node[node] for node in naive.nodes]) for m, by_node in totals.items()}


def rule(name: str, p: float, count: int) -> float:
    """The weight that an update rule gives a rollout."""
    return {"simulator": 1.0, "simulator_literal": p, "theorem": p / count}[name]


def ascent_record(naive: Naive, taken: Taken) -> dict[str, Any]:
    """Sums over the gradient steps of a batch, of means over its prompts; splits are NaN if it is on policy."""
    row: dict[str, Any] = {"ratio_drift": drift(taken.ascents[-1])}
    names = [f"{what}_{outcome}" for what in ("clipped", "drawn") for outcome in ("correct", "wrong")]
    row |= {name: np.zeros(len(BOUNDS) + 1) for name in names}
    for ascent in taken.ascents:
        for m, moves in ascent.moves.items():
            tokens = len(moves) * naive.depth * len(ascent.moves) * len(taken.ascents)
            rollouts = zip(taken.groups[m], moves, taken.advantages[m], ascent.left_out[m], strict=True)
            for word, of_rollout, advantages, left_out in rollouts:
                outcome = "correct" if naive.words.index(word) in naive.correct[m] else "wrong"
                chances = [math.exp(logp) for logp in tokens_logp(taken.samplers[m], word)]
                for chance, of_token, advantage, out in zip(chances, of_rollout, advantages, left_out, strict=True):
                    decade = sum(chance >= bound for bound in BOUNDS)
                    row[f"drawn_{outcome}"][decade] += 1 / tokens
                    if advantage and not out and not any(coefficient for _, coefficient in of_token):
                        row[f"clipped_{outcome}"][decade] += 1 / tokens
    row["clipped_share"] = sum(row["clipped_correct"]) + sum(row["clipped_wrong"])
    is_on_policy = len(taken.ascents) == 1 and naive.setting.lag == 0 and naive.setting.sampler == "exact"
    return row | (dict.fromkeys(names, np.full(len(BOUNDS) + 1, np.nan)) if is_on_policy else {})


def drift(ascent: Ascent) -> float:
    """The mean |log ratio| of the tokens of a gradient step."""
    return float(np.mean([abs(value) for rows in ascent.log_ratio.values() for row in rows for value in row]))
