"""Easy and hard prompts that share a small network, all of whose layers are learned."""

import dataclasses
import functools
import inspect
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from array_api_compat import array_namespace
from jax.scipy.special import logsumexp
from jaxtyping import Array, Bool, Float, Int

from simlab.errors import InputError, check_choice, check_range, check_whole
from simlab.problems.base import AnyArray, Problem
from simlab.problems.interference import KINDS, OWN, interference
from simlab.problems.prompt_bank import PromptBank, Rates, check_prompts

Layers = Mapping[str, Any]  # matrices and vectors by name
ACTIVATIONS = ("gelu", "relu", "tanh")
MOST_LAYERS, LARGEST_WIDTH = 2, 4096
LEAST_VARIANCE = 1e-5  # added to the variance that layer norm divides by
FIT_RATE, FIT_HALVING, FIT_STEPS = 0.01, 500, 4000  # of Adam: half the first rate after so many steps
KEPT_FITS = 64

_fits: dict[Any, "Network"] = {}


class NetworkHistory(NamedTuple):
    """The gradients of the last batch, with a first axis of actions."""

    gradients: Float[Array, "A P"]  # of each prompt's objective at the policy that drew its group


@dataclass(frozen=True, eq=False)
class Network(Problem):
    """M prompts with inputs of their own and one network for all: logits = U f(... f(V_1 x_i + b_1) ...) + c.

    All matrices and biases are learned, by exact gradients. The parameters are a dictionary: ``weights_1`` (width, d)
    and ``biases_1`` (width,) of the first hidden layer, ``weights_2`` (width, width) and ``biases_2`` of the second,
    ``head`` (A, width) and ``head_biases`` (A,). Layer norm, if there is any, comes before the activation, with
    ``gains_1`` and ``shifts_1`` (width,) that are learned. ``InputError`` for arrays that make no problem.

    Attributes:
        inputs: (M, d) the input x_i of each prompt, which is not learned.
        hidden: the initial parameters of the hidden layers, by name.
        head: (A, width) the initial output head U, or a row for each class of actions where there are ``counts``.
        head_biases: (A,) its biases c, likewise.
        correct: (M, A) true for correct actions.
        target: (M, A) true for the target set of the tail-miss rate, of each prompt a subset of its correct actions.
        hard: (M,) true for hard prompts, the others being easy.
        activation: f, "tanh", "relu" or "gelu" (in its tanh form, arXiv 1606.08415).
    """

    inputs: Float[np.ndarray, "M d"]
    hidden: Layers
    head: Float[np.ndarray, "A width"]
    head_biases: Float[np.ndarray, " A"]
    correct: Bool[np.ndarray, "M A"]
    target: Bool[np.ndarray, "M A"]
    hard: Bool[np.ndarray, " M"]
    activation: str = "tanh"

    over_actions: ClassVar[Mapping[str, int]] = {"head": 0, "head_biases": 0, "correct": 1, "target": 1}
    metrics_at = "simlab.simulator.head_metrics:NETWORK_METRICS"
    lumps = shards = False

    def __post_init__(self) -> None:
        check_choice("activation", self.activation, ACTIVATIONS)
        check_prompts(outputs(self.parameters, self.inputs, self.activation), self.correct, self.target)
        super().__post_init__()

    @property
    def prompts(self) -> int:
        """M."""
        return len(self.inputs)

    @property
    def parameters(self) -> Layers:
        """All layers, by name."""
        return {"head": self.head, "head_biases": self.head_biases, **self.hidden}

    @property
    def parameters_an_action(self) -> float:
        """The number of parameters over the number of actions."""
        rows = self.head.shape[1] + 1
        return float(rows + sum(np.size(values) for values in self.hidden.values()) / self.actions)

    @property
    def numbers(self) -> int:
        """Number of parameters, of inputs, and of the logits of all prompts."""
        return int(self.actions * (self.parameters_an_action + self.prompts)) + np.size(self.inputs)

    @functools.cached_property
    def tabular(self) -> PromptBank:
        """The bank of the same policies, but with logits of its own for each prompt."""
        logits = outputs(self.parameters, self.inputs, self.activation)
        return PromptBank(logits, self.correct, self.target, counts=self.counts, **self.stated_rewards)

    @property
    def solve_rates(self) -> Rates:
        """(M,) the initial probability of a correct action of each prompt."""
        return self.tabular.solve_rates

    def labels(self) -> Mapping[str, Sequence[Any]]:
        """Labels of a bank, and of the kinds of prompts: those that are moved, and those that move them."""
        return {**self.tabular.labels(), "kind": KINDS, "source": KINDS}

    def logits_of(self, parameters: Any, prompts: Int[Array, " P"] | None = None) -> Float[Array, "P A"]:
        """The outputs of the network for some prompts, or for all, in full precision on a GPU too."""
        inputs: Any = self.inputs if prompts is None else self.inputs[prompts]
        with jax.default_matmul_precision("highest"):
            logits: Array = outputs(parameters, inputs, self.activation)
        return logits

    def moved_logits(
        self, parameters: Any, direction: Any, length: Float[Array, ""]
    ) -> tuple[Float[Array, "M A"], Float[Array, "M A"]]:
        """The derivative of the logits along a direction of the parameters, and the logits after so long a way."""
        _, derivative = jax.jvp(self.logits_of, (parameters,), (direction,))
        moved = jax.tree.map(lambda values, towards: values + length * towards, parameters, direction)
        return derivative, self.logits_of(moved)

    def drawn_logits(self, parameters: Any, prompts: Any, groups: Any, look_up: Any) -> Float[Array, " P"]:
        """The largest parameter, for each prompt of the batch: their logits all come from these."""
        largest = [jnp.max(jnp.abs(values)) for values in parameters.values()]
        return jnp.broadcast_to(functools.reduce(jnp.maximum, largest), prompts.shape)

    def first_history(self, parameters: Any, prompts_per_step: int) -> NetworkHistory:
        """Return gradients of 0."""
        head = parameters["head"]
        return NetworkHistory(jnp.zeros((len(head), prompts_per_step), head.dtype))

    def next_history(
        self, history: NetworkHistory, prompts: Int[Array, " P"], gradients: Float[Array, "P A"], parameters: Any
    ) -> NetworkHistory:
        """Remember the gradients of a batch."""
        return NetworkHistory(gradients.T)


def outputs(parameters: Layers, inputs: AnyArray, activation: str) -> Any:
    """Compute the outputs (n, A) of a network for inputs (n, d), in the array library of the parameters."""
    xp, values, layer = array_namespace(parameters["head"]), inputs, 1
    while f"weights_{layer}" in parameters:
        values = values @ parameters[f"weights_{layer}"].T + parameters[f"biases_{layer}"]
        if f"gains_{layer}" in parameters:
            values = values - xp.mean(values, axis=1, keepdims=True)
            spread = xp.sqrt(xp.mean(values**2, axis=1, keepdims=True) + LEAST_VARIANCE)
            values = parameters[f"gains_{layer}"] * (values / spread) + parameters[f"shifts_{layer}"]
        values = _activate(xp, values, activation)
        layer += 1
    return values @ parameters["head"].T + parameters["head_biases"]


def _activate(xp: Any, values: Any, activation: str) -> Any:
    if activation == "relu":
        return xp.where(values > 0, values, xp.zeros_like(values))
    if activation == "gelu":
        return 0.5 * values * (1 + xp.tanh((2 / np.pi) ** 0.5 * (values + 0.044715 * values**3)))
    return xp.tanh(values)


def network(
    prompts: int = 0,
    actions: int = 64,
    *,
    layers: int = 1,
    width: int = 64,
    activation: str = "tanh",
    layer_norm: bool = False,
    network_seed: int = 0,
    tolerance: float = 0.01,
    overlap: float = 0.3,
    conflict: float = 1.0,
    features: str = OWN,
    dimension: int = 0,
    feature_seed: int = 0,
    easy_share: float = 0.5,
    easy_rate: float = 0.3,
    hard_rate: float = 0.01,
    solve_rates: Sequence[float] | str = (),
    beta_a: float = 0.5,
    beta_b: float = 0.5,
    second_a: float = 1.0,
    second_b: float = 1.0,
    second_share: float = 0.0,
    margin: float = 0.0,
    rare_modes: int = 0,
    rare_ratio: float = 0.01,
    distractor_share: float = 0.3,
    reward_correct: float = 1.0,
    reward_incorrect: float = 0.0,
) -> Network:
    """The prompts of ``interference``, but sharing a network of one or two hidden layers instead of a linear head.

    The inputs are the features of ``interference``, scaled alike so that the mean square of a coordinate is 1. Those of
    low rank are random ones (``features="random"``) in a small ``dimension``.

    The network starts as a language model does, trained until it has its policies: hidden layers are drawn (a normal
    distribution, of variance 1 / fan-in for tanh and 2 / fan-in otherwise), and all layers are then fitted to the base
    model of ``interference`` by Adam on the squared errors of its logits. The fit ends where the odds of solving each
    prompt, and the probability of each action, are within ``tolerance`` of the stated ones (a relative error). A least
    squares fit of the head on random hidden layers would do for wide networks only, and would leave these layers
    untouched by what they are to represent.

    Args:
        layers: hidden layers, 1 or 2.
        width: units of each.
        activation: "tanh", "relu" or "gelu".
        layer_norm: normalise the inputs of each activation.
        network_seed: of the hidden layers before the fit.
        tolerance: largest relative error of the initial policies; ``InputError`` if the fit does not reach it.

    The others are as in ``interference``.

    >>> problem = network(prompts=4, width=16)
    >>> bool(abs(problem.solve_rates - [0.3, 0.3, 0.01, 0.01]).max() < 0.003)
    True
    """
    arguments = locals()
    prompts_of = {name: arguments[name] for name in inspect.signature(interference).parameters}
    check_whole("layers", layers, 1, MOST_LAYERS)
    check_whole("width", width, 1, LARGEST_WIDTH)
    check_choice("activation", activation, ACTIVATIONS)
    check_whole("network_seed", network_seed, 0)
    check_range("tolerance", tolerance, 0, 1, open_low=True)
    example = interference(**prompts_of)
    key = example.fingerprint, layers, width, activation, layer_norm, network_seed, tolerance
    fitted = _fits.pop(key, None)
    if fitted is None:
        inputs = example.features[:, example.learned]
        hidden = initial_layers([inputs.shape[1], *[width] * layers], activation, layer_norm, network_seed)
        head = np.zeros((example.entries, width))
        arrays = inputs / np.sqrt(np.mean(inputs**2)), hidden, head, head[:, 0], example.correct, example.target
        rewards: dict[str, Any] = {"reward_correct": reward_correct, "reward_incorrect": reward_incorrect}
        start = Network(*arrays, example.hard, activation, counts=example.counts, **rewards)
        fitted = fit(start, example.tabular, tolerance)
    _fits[key] = fitted  # the latest used comes last
    for oldest in list(_fits)[:-KEPT_FITS]:
        _fits.pop(oldest, None)
    return fitted


def initial_layers(
    widths: Sequence[int], activation: str, layer_norm: bool, seed: int
) -> dict[str, Float[np.ndarray, "..."]]:
    """Draw hidden layers between so many inputs and units by their fan-in; biases are 0."""
    random = np.random.default_rng(seed)
    hidden: dict[str, np.ndarray] = {}
    for layer, (fan_in, width) in enumerate(itertools.pairwise(widths), 1):
        spread = np.sqrt((1 if activation == "tanh" else 2) / fan_in)
        hidden |= {f"weights_{layer}": spread * random.standard_normal((width, fan_in))}
        hidden |= {f"biases_{layer}": np.zeros(width)}
        if layer_norm:
            hidden |= {f"gains_{layer}": np.ones(width), f"shifts_{layer}": np.zeros(width)}
    return hidden


# The fit of the initial policies


def fit(start: Network, wanted: PromptBank, tolerance: float) -> Network:
    """Train all layers until the policies are those of a bank; ``InputError`` if they do not come to be so."""
    from simlab.simulator.compiled import keep_on_disk  # noqa: PLC0415  # the simulator imports problems

    counts = np.asarray(start.counts)
    logits = wanted.logits - (wanted.logits @ counts / counts.sum())[:, None]
    keep_on_disk()
    # On the CPU, so that a problem is the same whatever device simulates it.
    with jax.enable_x64(True), jax.default_device(jax.local_devices(backend="cpu")[0]):
        parameters, error, steps = jax.tree.map(np.asarray, _train(start, logits, tolerance))
    if not error <= tolerance:
        size = f"{len([name for name in start.hidden if name.startswith('weights')])} x {start.head.shape[1]} units"
        reached = f"a network of {size} fits {start.prompts} prompts with a relative error of {error:.3g}"
        allowed = f"up to tolerance = {tolerance:g}; more width, another network_seed or a larger tolerance may help"
        raise InputError(f"{reached} after {steps} steps; allowed: {allowed}")
    head = {name: parameters.pop(name) for name in ("head", "head_biases")}
    return dataclasses.replace(start, hidden=parameters, **head)


@jax.jit
def _train(
    start: Network, logits: Float[Array, "M C"], tolerance: Float[Array, ""]
) -> tuple[Layers, Float[Array, ""], Int[Array, ""]]:
    """Return the layers whose outputs are these logits within a tolerance of the policies, the error, and the steps."""
    from simlab.simulator.optimizers import adam  # noqa: PLC0415

    counts = jnp.asarray(start.counts)

    def measures(logits: Float[Array, "M C"]) -> tuple[Float[Array, "M C"], Float[Array, " M"]]:
        """Return the log-probability of each action, and the log-odds of success."""
        each = logits + jnp.log(counts)
        right, wrong = (logsumexp(each, 1, where=which) for which in (start.correct, ~start.correct))
        return logits - logsumexp(each, 1, keepdims=True), right - wrong

    def error(parameters: Layers) -> Float[Array, ""]:
        pairs = zip(measures(start.logits_of(parameters)), measures(logits), strict=True)
        largest: Array = jnp.max(jnp.stack([jnp.max(jnp.abs(jnp.expm1(now - wanted))) for now, wanted in pairs]))
        return largest

    def goes_on(carry: Any) -> Bool[Array, ""]:
        parameters, _, steps = carry
        more: Array = (steps < FIT_STEPS) & (error(parameters) > tolerance)
        return more

    def step(carry: Any) -> Any:
        parameters, moments, steps = carry
        now, back = jax.vjp(start.logits_of, parameters)
        (gradient,) = back((now - logits) / logits.size)
        change, moments = adam(FIT_RATE / (1 + steps / FIT_HALVING)).update(gradient, moments, parameters)
        return jax.tree.map(jnp.add, parameters, change), moments, steps + 1

    begin = start.parameters, adam().init(start.parameters), jnp.zeros((), jnp.int32)
    parameters, _, steps = jax.lax.while_loop(goes_on, step, begin)
    return parameters, error(parameters), steps
