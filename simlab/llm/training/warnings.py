"""Warn before a run begins about what will show nothing: equal methods, groups that teach nothing, an idle probe."""

from collections.abc import Iterator, Mapping

import jax
import numpy as np

from simlab.llm.training.settings import PolicyGradientSettings, TrainingSettings
from simlab.methods import Method
from simlab.rollouts import Rollouts

PROMPTS, TOKENS, ACTIONS = 32, 6, 32  # of the synthetic rollouts on which methods are compared


def warnings(settings: TrainingSettings) -> Iterator[str]:
    """Yield warnings, each with a remedy; arms with different overrides are not compared."""
    arms: dict[PolicyGradientSettings, dict[str, Method]] = {}
    for text in settings.arms:
        alone, method = settings.select_arm(text)
        arms.setdefault(alone.rl, {})[text] = method
    for rl, methods in arms.items():
        if settings.probe.every > rl.steps:
            measured = f"probe.every = {settings.probe.every} measures none of the {rl.steps} steps"
            yield f"warning: {measured} of {', '.join(methods)}; probe.every up to {rl.steps} does"
        silent = {text for text, method in methods.items() if not _coefficients(method, rl, 1.0).any()}
        for text in sorted(silent):
            yield f"warning: {text} learns nothing from groups of {rl.group_size}, where all its coefficients are 0"
        others = {text: method for text, method in methods.items() if text not in silent}
        for texts in _group_equal(others, rl, 1.0):
            if texts in _group_equal({text: others[text] for text in texts}, rl, 1.5):
                yield f"warning: {', '.join(texts)} are one method on rewards of 0 and 1"
            elif rl.updates == 1 and not rl.off_policy:
                yield (
                    f"warning: {', '.join(texts)} are one method here: with one update a batch every ratio is 1; "
                    "rl.minibatches or rl.epochs above 1 tell them apart"
                )


def _group_equal(methods: Mapping[str, Method], rl: PolicyGradientSettings, spread: float) -> list[list[str]]:
    """Return the arms that have the same coefficients at such ratios, two or more together."""
    groups: list[tuple[np.ndarray, list[str]]] = []
    for text, method in methods.items():
        coefficients = _coefficients(method, rl, spread)
        for first, texts in groups:
            if coefficients.shape == first.shape and np.allclose(coefficients, first, rtol=1e-5, atol=1e-7):
                texts.append(text)
                break
        else:
            groups.append((coefficients, [text]))
    return [texts for _, texts in groups if len(texts) > 1]


def _coefficients(method: Method, rl: PolicyGradientSettings, spread: float) -> np.ndarray:
    """Return coefficients of two batches of synthetic rollouts, with ratios between 1 / ``spread`` and ``spread``."""
    random = np.random.default_rng(0)
    state, batches = jax.tree.map(np.float32, method.estimator.init()), []
    for _ in range(2):  # a memory has an effect from the second one on
        rollouts = _rollouts(random, (PROMPTS, rl.group_size, TOKENS), max(1, method.surrogate.candidates))
        ratio = spread ** random.uniform(-1, 1, (PROMPTS, rl.group_size, TOKENS))
        coefficients, state = method.coefficients(ratio.astype(np.float32), rollouts, state)
        batches.append(np.asarray(coefficients))
    return np.stack(batches)


def _rollouts(random: np.random.Generator, shape: tuple[int, int, int], candidates: int) -> Rollouts:
    """Draw groups of all solve rates, rollouts of all lengths, and tokens of probabilities from 1e-6 to 1."""
    logp = np.log(random.dirichlet(np.full(ACTIONS, 0.3), shape) + 1e-6)
    old = logp[..., 0].astype(np.float32)
    rewards = (random.random(shape[:2]) < random.random((shape[0], 1))).astype(np.float32)
    return Rollouts(
        rewards=rewards,
        old_logp=old,
        entropy=-np.sum(np.exp(logp) * logp, axis=-1).astype(np.float32),
        topn_logp=-np.sort(-logp, axis=-1)[..., :candidates].astype(np.float32),
        collision=np.sum(np.exp(2 * logp), axis=-1).astype(np.float32),
        teacher_logp=(old - random.exponential(0.3, shape)).astype(np.float32),
        ref_logp=(old + 0.1 * random.standard_normal(shape)).astype(np.float32),
        noise=random.random(shape).astype(np.float32),
        token_mask=np.arange(shape[2]) < random.integers(1, shape[2] + 1, shape[:2])[..., None],
        greedy_reward=np.repeat(np.arange(shape[0])[:, None] % 2, shape[1], axis=1).astype(np.float32),
        parts=rewards[..., None],
    )
