"""Compute the expected path of prompts that share a head or a network, under plain steps and under Adam.

One group moves the logits of its prompt by g_a = (n_a A_a - p_a S) / G, with n_a draws of action a, advantages A and
their sum S. The path follows E g, without noise: the limit of small learning rates. Adam has both moments of each
coordinate, from E g g' in closed form: the binomial number of successes, and multinomial failures.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from simlab.arms import parse
from simlab.columns import at_equal_mass
from simlab.problems.network import Network
from simlab.theory.interference import binomial_chances
from simlab.theory.masses import masses

LOGIT_STEP = 0.03  # the largest change of a logit in a plain step: the scale of a weight is only its clock
B1, B2, EPS = 0.9, 0.999, 1e-8
Layers = dict[str, np.ndarray]


class Groups:
    """Moments of the gradient of a group by the logits of its prompt, for N weights at once.

    ``counts`` says how many actions a class has; moments are of one action of each.
    """

    def __init__(self, methods: tuple[str, ...], size: int, correct: np.ndarray, counts: np.ndarray) -> None:
        """Take the advantages of a success and of a failure in groups of 0 to G successes."""
        every = [masses(parse(method).build().estimator, size) for method in methods]
        self.size, self.correct, self.counts = size, correct.astype(float), counts
        self.success = size * np.array([mass.success for mass in every])  # sums over a group, (N, G + 1)
        self.failure = -size * np.array([mass.failure for mass in every])
        self.failures = size - np.arange(size + 1)

    def _means(self, rates: np.ndarray) -> Any:
        chances = binomial_chances(self.size, rates)
        return lambda values: np.einsum("nmx,nx->nm", chances, values)[..., None]

    def _failing(self, policies: np.ndarray, rates: np.ndarray) -> np.ndarray:
        wrong: np.ndarray = np.where(self.correct, 0, policies) / np.maximum(1 - rates, 1e-12)[..., None]
        return wrong

    def mean(self, policies: np.ndarray, rates: np.ndarray) -> np.ndarray:
        """E g_a, (N, M, C)."""
        mean, total = self._means(rates), self.success + self.failure
        drawn = self.correct * mean(self.success) + self._failing(policies, rates) * mean(self.failure)
        return np.asarray((drawn - policies * mean(total)) / self.size)

    def square(self, policies: np.ndarray, rates: np.ndarray, directions: np.ndarray | None = None) -> np.ndarray:
        """E (sum_a w_au g_a)^2 for ``directions`` w (N, C, U), as (N, M, U); without them E g_a^2 of one action."""
        mean, total, failing = self._means(rates), self.success + self.failure, self._failing(policies, rates)
        if directions is None:
            right, wrong, every, wrong_squared = self.correct, failing, policies, failing
        else:
            right = np.einsum("mc,ncu->nmu", self.correct, directions)
            wrong, every = (failing * self.counts) @ directions, (policies * self.counts) @ directions
            wrong_squared = (failing * self.counts) @ directions**2
        s, f = self.success, self.failure
        scatter = f**2 / np.maximum(self.failures, 1)  # failures scatter over the wrong actions
        crossed = right * wrong * mean(s * f) - right * every * mean(s * total) - wrong * every * mean(f * total)
        squares = right**2 * mean(s * s) + wrong**2 * mean(f * f) + every**2 * mean(total * total)
        return np.asarray((squares + 2 * crossed + mean(scatter) * (wrong_squared - wrong**2)) / self.size**2)


def orthogonal(size: int, seed: int) -> np.ndarray:
    """Draw an orthogonal matrix."""
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((size, size)))[0]


@dataclass
class Start:
    """A problem in the coordinates in which it is learned; layers have their biases as a last row.

    ``answers`` turns logits into coordinates of the head, None where these are the same; ``base`` is not learned.
    """

    inputs: np.ndarray
    layers: Layers
    base: Any
    counts: np.ndarray
    correct: np.ndarray
    answers: np.ndarray | None = None

    @property
    def head(self) -> Any:
        """A function of the last layer: the head whose outputs are logits."""
        return (lambda values: values) if self.answers is None else (lambda values: values @ self.answers)

    @property
    def seen(self) -> Any:
        """A function of gradients by logits: those by the coordinates of answers."""
        return (lambda values: values) if self.answers is None else (lambda values: values @ self.answers.T)

    def turned(self) -> "Start":
        """Return the same functions, with inputs and answers in random orthogonal bases, an entry for each action."""
        each = np.repeat(np.arange(len(self.counts)), self.counts.astype(int))
        learned = next(iter(self.layers.values())).shape[0] - self.has_biases
        basis, answers = orthogonal(learned, 1), orthogonal(len(each), 2)
        layers = {name: values.copy() for name, values in self.layers.items()}
        layers["head"] = layers["head"][:, each] @ answers.T
        first = next(iter(layers))
        layers[first][:learned] = basis @ layers[first][:learned]
        inputs = self.inputs.copy()
        inputs[:, :learned] = inputs[:, :learned] @ basis.T
        base = self.base[:, each] if np.ndim(self.base) else self.base
        return Start(inputs, layers, base, np.ones(len(each)), self.correct[:, each], answers)

    @property
    def has_biases(self) -> bool:
        """True for a network."""
        return "hidden" in self.layers


def start_of(problem: Any) -> Start:
    """Return ``interference``, or ``network`` with one hidden tanh layer, as its parameters are at first."""
    counts, correct = np.asarray(problem.counts, float), np.asarray(problem.correct)
    if not isinstance(problem, Network):
        features = np.asarray(problem.features)[:, problem.learned]
        head = np.zeros((features.shape[1], len(counts)))
        return Start(features, {"head": head}, np.asarray(problem.tabular.logits), counts, correct)
    hidden = np.vstack([problem.hidden["weights_1"].T, problem.hidden["biases_1"]])
    layers = {"hidden": hidden, "head": np.vstack([problem.head.T, problem.head_biases])}
    return Start(np.hstack([problem.inputs, np.ones((len(correct), 1))]), layers, 0.0, counts, correct)


class State(NamedTuple):
    """The state of N weights: the units that the head sees, the head by logits, the policies and the solve rates."""

    units: np.ndarray
    head: np.ndarray
    policies: np.ndarray
    rates: np.ndarray


def state_of(start: Start, layers: Layers) -> State:
    """Compute the policies of layers (N, ...)."""
    units = np.repeat(start.inputs[None], len(layers["head"]), 0)
    if start.has_biases:
        units = np.tanh(units @ layers["hidden"])
        units = np.concatenate([units, np.ones((*units.shape[:2], 1))], axis=2)
    head = start.head(layers["head"])
    logits = units @ head + start.base
    policies = np.exp(logits - logits.max(axis=-1, keepdims=True))
    policies /= (policies @ start.counts)[..., None]
    return State(units, head, policies, np.clip((policies * start.correct).sum(-1), 1e-12, 1 - 1e-12))


def moments(start: Start, state: State, groups: Groups, *, squares: bool) -> tuple[Layers, Layers]:
    """Return the expected gradient of the mean over prompts by each layer, and if asked its expected square."""
    prompts, (units, head, policies, rates) = len(start.inputs), state
    mean = groups.mean(policies, rates)
    seen = start.seen(mean)
    first, second = {"head": np.einsum("nmu,nmc->nuc", units, seen) / prompts}, {}
    if start.has_biases:
        directions, slopes = head.transpose(0, 2, 1)[..., :-1], 1 - units[..., :-1] ** 2
        back = (mean * start.counts) @ directions
        first["hidden"] = np.einsum("mk,nmu->nku", start.inputs, back * slopes) / prompts
    if squares:
        turns = None if start.answers is None else np.repeat(start.answers.T[None], len(head), 0)
        spread = groups.square(policies, rates, turns) - seen**2
        second["head"] = first["head"] ** 2 + np.einsum("nmu,nmc->nuc", units**2, spread) / prompts**2
    if squares and start.has_biases:
        spread = (groups.square(policies, rates, directions) - back**2) * slopes**2
        second["hidden"] = first["hidden"] ** 2 + np.einsum("mk,nmu->nku", start.inputs**2, spread) / prompts**2
    return first, {name: np.maximum(values, 0) for name, values in second.items()}


def plain_length(start: Start, state: State, gradients: Layers) -> np.ndarray:
    """Return the length (N, 1, 1) of a step that changes a logit by ``LOGIT_STEP`` at the most."""
    change = state.units @ start.head(gradients["head"])
    if start.has_biases:
        slopes = 1 - state.units[..., :-1] ** 2
        change = change + ((start.inputs @ gradients["hidden"]) * slopes) @ state.head[:, :-1]
    return np.asarray(LOGIT_STEP / np.maximum(np.abs(change).max((1, 2), keepdims=True), 1e-12))


def of_matrix(start: Start, name: str, square: np.ndarray) -> np.ndarray:
    """Return one second moment for each matrix, the mean over its coordinates."""
    shares = np.broadcast_to(start.counts if name == "head" else 1.0, square.shape)
    return np.asarray((square * shares).sum((1, 2), keepdims=True) / shares.sum((1, 2), keepdims=True))


def flow(
    problem: Any,
    methods: tuple[str, ...],
    group_size: int,
    levels: tuple[float, ...],
    *,
    adam: float = 0.0,
    turned: bool = False,
    one_moment: bool = False,
    steps: int = 6000,
) -> np.ndarray:
    """(methods, levels) pass@256 where pass@1 first reaches each level; NaN where it does not within the steps.

    Args:
        problem: ``interference``, or ``network`` with one hidden tanh layer.
        adam: its learning rate; 0 for plain steps, each as long as a change of logits allows.
        turned: express the coordinates of inputs and answers in random orthogonal bases; the functions stay the same.
        one_moment: give Adam one second moment for each matrix.
    """
    start = start_of(problem).turned() if turned else start_of(problem)
    groups = Groups(methods, group_size, start.correct, start.counts)
    layers = {name: np.repeat(values[None], len(methods), 0) for name, values in start.layers.items()}
    first, second = ({name: 0 * values for name, values in layers.items()} for _ in range(2))
    pass_at_1, pass_at_256 = [], []
    for step in range(1, steps + 1):
        state = state_of(start, layers)
        pass_at_1.append(state.rates.mean(1))
        pass_at_256.append((1 - (1 - state.rates) ** 256).mean(1))
        if np.min(np.max(pass_at_1, axis=0)) >= max(levels):
            break
        gradients, squares = moments(start, state, groups, squares=bool(adam))
        for name, values in layers.items():
            if not adam:
                layers[name] = values + plain_length(start, state, gradients) * gradients[name]
                continue
            square = of_matrix(start, name, squares[name]) if one_moment else squares[name]
            first[name] = B1 * first[name] + (1 - B1) * gradients[name]
            second[name] = B2 * second[name] + (1 - B2) * square
            root = np.sqrt(second[name] / (1 - B2**step)) + EPS
            layers[name] = values + adam * first[name] / (1 - B1**step) / root
    records = np.array(pass_at_1).T, np.array(pass_at_256).T
    return at_equal_mass(*records, np.array(levels)).T
