"""Compute the expected path of prompts that share a head or a network, under plain steps and under Adam.

One group moves the logits of its prompt by g_a = (n_a A_a - p_a S) / G, with n_a draws of action a, advantages A and
their sum S. The path follows E g, without noise: the limit of small learning rates. Adam has both moments of each
coordinate, from E g g' in closed form: the binomial number of successes, and multinomial failures.
"""

from typing import Any

import numpy as np

from figures.shared.condensed import at_equal_mass
from simlab.arms import parse
from simlab.problems.network import Network
from simlab.theory.interference import _binomial
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
        chances = _binomial(self.size, rates)
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
        scatter = f**2 / np.maximum(self.failures, 1)  # of failures over the wrong actions
        crossed = right * wrong * mean(s * f) - right * every * mean(s * total) - wrong * every * mean(f * total)
        own = right**2 * mean(s * s) + wrong**2 * mean(f * f) + every**2 * mean(total * total)
        return np.asarray((own + 2 * crossed + mean(scatter) * (wrong_squared - wrong**2)) / self.size**2)


def orthogonal(size: int, seed: int) -> np.ndarray:
    """Draw an orthogonal matrix."""
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((size, size)))[0]


def flow(  # noqa: PLR0912, PLR0915
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
    counts, correct = np.asarray(problem.counts, float), np.asarray(problem.correct)
    is_network, prompts = isinstance(problem, Network), len(correct)
    if is_network:
        inputs = np.asarray(problem.inputs, float)
        theta = {"hidden": problem.hidden["weights_1"].T, "head": problem.head.T}
        biases, base = {"hidden": problem.hidden["biases_1"], "head": problem.head_biases}, 0.0
    else:
        inputs = np.asarray(problem.features)[:, problem.learned]
        theta, biases = {"head": np.zeros((inputs.shape[1], len(counts)))}, {}
        base = np.asarray(problem.tabular.logits)
    answers = None
    if turned:  # an entry for each action
        each = np.repeat(np.arange(len(counts)), counts.astype(int))
        counts, correct = np.ones(len(each)), correct[:, each]
        theta["head"], base = theta["head"][:, each], base[:, each] if not is_network else 0.0
        biases = biases | ({"head": biases["head"][each]} if is_network else {})
        answers, basis = orthogonal(len(each), 2), orthogonal(inputs.shape[1], 1)
        inputs, first = inputs @ basis.T, "hidden" if is_network else "head"
        theta[first] = basis @ theta[first]
        theta["head"] = theta["head"] @ answers.T
        biases = biases | ({"head": biases["head"] @ answers.T} if is_network else {})
    if is_network:
        inputs = np.hstack([inputs, np.ones((prompts, 1))])
        theta = {name: np.vstack([values, biases[name]]) for name, values in theta.items()}
    groups = Groups(methods, group_size, correct, counts)
    theta = {name: np.repeat(values[None], len(methods), 0) for name, values in theta.items()}
    first_moments, second_moments = ({name: 0 * values for name, values in theta.items()} for _ in range(2))
    pass_at_1, pass_at_256 = [], []
    for step in range(1, steps + 1):
        units = np.repeat(inputs[None], len(methods), 0)
        if is_network:
            units = np.tanh(units @ theta["hidden"])
            units = np.concatenate([units, np.ones((*units.shape[:2], 1))], axis=2)
        head = theta["head"] if answers is None else theta["head"] @ answers
        logits = units @ head + base
        policies = np.exp(logits - logits.max(axis=-1, keepdims=True))
        policies /= (policies @ counts)[..., None]
        rates = np.clip((policies * correct).sum(-1), 1e-12, 1 - 1e-12)
        pass_at_1.append(rates.mean(1))
        pass_at_256.append((1 - (1 - rates) ** 256).mean(1))
        if np.min(np.max(pass_at_1, axis=0)) >= max(levels):
            break
        mean = groups.mean(policies, rates)
        seen = mean if answers is None else mean @ answers.T
        gradients = {"head": np.einsum("nmu,nmc->nuc", units, seen) / prompts}
        if is_network:
            directions, slopes = head.transpose(0, 2, 1)[..., :-1], 1 - units[..., :-1] ** 2
            back = (mean * counts) @ directions
            gradients["hidden"] = np.einsum("mk,nmu->nku", inputs, back * slopes) / prompts
        if not adam:
            change = units @ (gradients["head"] if answers is None else gradients["head"] @ answers)
            if is_network:
                change = change + ((inputs @ gradients["hidden"]) * slopes) @ head[:, :-1]
            length = LOGIT_STEP / np.maximum(np.abs(change).max((1, 2)), 1e-12)
            theta = {name: values + length[:, None, None] * gradients[name] for name, values in theta.items()}
            continue
        every = None if answers is None else np.repeat(answers.T[None], len(methods), 0)
        spread = groups.square(policies, rates, every) - seen**2
        squares = {"head": gradients["head"] ** 2 + np.einsum("nmu,nmc->nuc", units**2, spread) / prompts**2}
        if is_network:
            spread = (groups.square(policies, rates, directions) - back**2) * slopes**2
            squares["hidden"] = gradients["hidden"] ** 2 + np.einsum("mk,nmu->nku", inputs**2, spread) / prompts**2
        for name, values in theta.items():
            square = np.maximum(squares[name], 0)
            if one_moment:
                shares = np.broadcast_to(counts if name == "head" else 1.0, square.shape)
                square = (square * shares).sum((1, 2), keepdims=True) / shares.sum((1, 2), keepdims=True)
            first_moments[name] = B1 * first_moments[name] + (1 - B1) * gradients[name]
            second_moments[name] = B2 * second_moments[name] + (1 - B2) * square
            root = np.sqrt(second_moments[name] / (1 - B2**step)) + EPS
            theta[name] = values + adam * first_moments[name] / (1 - B1**step) / root
    records = np.array(pass_at_1).T, np.array(pass_at_256).T
    return at_equal_mass(*records, np.array(levels)).T
