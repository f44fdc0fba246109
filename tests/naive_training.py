"""Training as a textbook has it: one sequence at a time, in NumPy, from log-probabilities of whole forward passes."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from simlab.llm.model import forward


@functools.partial(jax.jit, static_argnums=1)
def log_softmax_and_jacobian(parameters, config, tokens, temperature):
    """log pi(. | tokens before) at each position of one sequence, (T, V), and its Jacobian by the parameters."""

    def table(parameters):
        return jax.nn.log_softmax(forward(parameters, config, tokens[None])[0] / temperature)

    return table(parameters), jax.jacrev(table)(parameters)


def sequence_tables(parameters, config, batch, temperature=1.0):
    """For each rollout log pi (T, V) before each token of its completion, and the Jacobian, a tree of (T, V, ...)."""
    size = batch.prompts.shape[1] + batch.tokens.shape[2]
    for p, g in np.ndindex(batch.tokens.shape[:2]):
        length, count = batch.lengths[p], int(batch.mask[p, g].sum())
        whole = np.zeros(size, np.int32)
        whole[:length] = batch.prompts[p, :length]
        whole[length : length + count] = batch.tokens[p, g, :count]
        logp, jacobian = log_softmax_and_jacobian(parameters, config, whole, jnp.float32(temperature))
        logp, jacobian = jax.tree.map(lambda leaf: np.asarray(leaf, float), (logp, jacobian))
        first, last = length - 1, length - 1 + count
        yield (p, g), logp[first:last], jax.tree.map(lambda leaf, a=first, b=last: leaf[a:b], jacobian)


def naive_logp(parameters, config, batch, temperature=1.0):
    """log pi of each token, (P, G, T)."""
    chosen = np.zeros(batch.tokens.shape)
    for (p, g), logp, _ in sequence_tables(parameters, config, batch, temperature):
        for t, values in enumerate(logp):
            chosen[p, g, t] = values[batch.tokens[p, g, t]]
    return chosen


def naive_gradient(parameters, config, batch, coefficients, *, candidates=None, temperature=1.0):
    """The gradient of the sum over rollouts and tokens of coefficient log pi; candidates come behind the token."""
    total, objective = jax.tree.map(lambda leaf: np.zeros(leaf.shape), parameters), 0.0
    targets = batch.tokens[..., None]
    targets = targets if candidates is None else np.concatenate([targets, candidates], axis=-1)
    coefficients = coefficients.reshape(targets.shape)
    for (p, g), logp, jacobian in sequence_tables(parameters, config, batch, temperature):
        for t in range(len(logp)):
            for token, c in zip(targets[p, g, t], coefficients[p, g, t], strict=True):
                objective += float(c * logp[t, token])
                total = jax.tree.map(lambda sum_, d, at=(t, token), c=c: sum_ + c * d[at], total, jacobian)
    return total, objective


def standardised(rewards):
    """The advantages of GRPO, of groups of unequal rewards."""
    return (rewards - rewards.mean(axis=1, keepdims=True)) / (rewards.std(axis=1, keepdims=True, ddof=1) + 1e-6)


def textbook_loss(logp, old_logp, mask, advantages, weights=1.0):
    """-mean over rollouts of mean over tokens of weight min(ratio A, clip(ratio) A)."""
    ratio, a = jnp.exp(logp - old_logp), advantages[..., None]
    bounded = weights * jnp.minimum(ratio * a, jnp.clip(ratio, 0.8, 1.2) * a)
    return -jnp.mean(jnp.sum(bounded * mask, axis=2) / jnp.sum(mask, axis=2))


class NaiveAdamW:
    """AdamW on a gradient clipped by its global norm; norms and biases do not decay."""

    def __init__(self, parameters, settings):
        self.settings = settings
        self.m = {name: 0.0 for name, _ in leaves(parameters)}
        self.v, self.count = dict(self.m), 0

    def descend(self, parameters, loss_gradient, rate):
        """The parameters after a step against the gradient of a loss, and that gradient's norm."""
        self.count += 1
        rule = self.settings
        slopes = dict(leaves(loss_gradient))
        norm = np.sqrt(sum(np.sum(slope**2) for slope in slopes.values()))
        moved = {}
        for name, value in leaves(parameters):
            slope = slopes[name] * min(1.0, rule.max_norm / norm) if norm else slopes[name]
            self.m[name] = rule.b1 * self.m[name] + (1 - rule.b1) * slope
            self.v[name] = rule.b2 * self.v[name] + (1 - rule.b2) * slope**2
            m = self.m[name] / (1 - rule.b1**self.count)
            v = self.v[name] / (1 - rule.b2**self.count)
            decay = 0.0 if name.endswith(("norm", "bias")) else rule.weight_decay
            moved[name] = value - rate * (m / (np.sqrt(v) + rule.eps) + decay * value)
        tree = {name: value for name, value in moved.items() if "." not in name}
        inner = {name.split(".")[1]: value for name, value in moved.items() if "." in name}
        return tree | {"layers": inner}, norm


def leaves(parameters):
    """Each array with its name, in float64."""
    for name, value in parameters.items():
        inner = value.items() if name == "layers" else [(None, value)]
        yield from ((name if key is None else f"layers.{key}", np.asarray(leaf, float)) for key, leaf in inner)


def assert_trees_agree(actual, wanted, rtol):
    """Each array within ``rtol`` of its largest number."""
    for (name, left), (other, right) in zip(sorted(leaves(actual)), sorted(leaves(wanted)), strict=True):
        assert name == other
        np.testing.assert_allclose(left, right, rtol=0, atol=rtol * np.abs(right).max() + 1e-12, err_msg=name)
