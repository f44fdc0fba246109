"""Links, the chain that joins them, and the estimator they make: pure ``init`` and ``update``, as in optax."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from array_api_compat import array_namespace
from jaxtyping import Shaped

from simlab.errors import InputError, check_choice
from simlab.rollouts import (
    FIELDS,
    Array,
    Rollouts,
    Scalar,
    check_made,
    masked,
    needed,
    select_fields,
    token_weights,
    tokens_of,
)

Advantages = Shaped[Array, "P G"] | Shaped[Array, "P G T"]
State = Any
PlainLink = Callable[[Array, Rollouts], Array]

# The rewards for which a formula is defined, from the widest domain to the narrowest.
DOMAINS = {"any": "finite numbers", "unit": "rewards in [0, 1]", "binary": "rewards 0 and 1"}


@dataclass(frozen=True)
class Link:
    """One stage of an estimator.

    Attributes:
        update: ``(advantages, rollouts, state) -> (advantages, state)``.
        init: ``() -> state``, a tuple of floats; ``()`` for a link without memory.
        needs: fields of ``Rollouts`` that the link reads beside the rewards.
        domain: the rewards for which the formula is defined, one of ``DOMAINS``.
        exchangeable: true if absent rollouts and tokens (``mask``, ``token_mask``) change nothing, and reordering the
            rollouts of a group only reorders their advantages. Engines may then pad groups and list rollouts in any
            order, which is faster. Any other link gets full groups, their rollouts in the order of sampling.
    """

    update: Callable[[Array, Rollouts, State], tuple[Array, State]]
    init: Callable[[], State] = tuple
    needs: frozenset[str] = frozenset()
    domain: str = "any"
    exchangeable: bool = False

    def __post_init__(self) -> None:
        check_choice("domain", self.domain, DOMAINS)

    @property
    def name(self) -> str:
        """Name of the link's function, for messages."""
        return getattr(self.update, "__name__", type(self.update).__name__)


def stateless(
    function: PlainLink, *, needs: frozenset[str] = frozenset(), domain: str = "any", exchangeable: bool = False
) -> Link:
    """Make a link without memory from ``function(advantages, rollouts) -> advantages``; see ``Link``."""

    def update(advantages: Array, rollouts: Rollouts, state: State) -> tuple[Array, State]:
        return function(advantages, rollouts), state

    update.__name__ = getattr(function, "__name__", type(function).__name__)
    return Link(update, needs=needs, domain=domain, exchangeable=exchangeable)


def clamp(values: Array, low: Scalar, high: Scalar) -> Array:
    """Limit values to the range from ``low`` to ``high``; NaN stays, so that a broken ratio shows."""
    xp = array_namespace(values)
    values = xp.where(values < low, xp.ones_like(values) * low, values)
    return xp.where(values > high, xp.ones_like(values) * high, values)


def present_rollouts(rollouts: Rollouts) -> Array:
    """Return true where a rollout exists, (P, G)."""
    xp = array_namespace(rollouts.rewards)
    return xp.ones_like(rollouts.rewards, dtype=xp.bool) if rollouts.mask is None else rollouts.mask


def read_tokens(rollouts: Rollouts, name: str) -> tuple[Array, Array]:
    """Return a field of tokens, 0 where no token is, and the weights of tokens, 1 where one is: (P, G, T) each."""
    values = needed(rollouts, name)
    present = token_weights(values, rollouts)
    return masked(values, present > 0), present


def beside(values: Array, advantages: Array) -> Array:
    """Values of each group, (P, 1), or of each rollout, (P, G), with an axis of tokens if the advantages have one."""
    return values if values.ndim == advantages.ndim else values[..., None]


def weigh(advantages: Array, weight: Array) -> Array:
    """Advantages (P, G) or (P, G, T) times a weight of each group, (P, 1), or of each rollout, (P, G)."""
    return advantages * beside(weight, advantages)


def weighing(weight: Callable[[Rollouts], Array], domain: str = "any") -> Link:
    """Make an exchangeable link that multiplies by a weight of each group, (P, 1), or of each rollout, (P, G)."""
    return stateless(lambda advantages, rollouts: weigh(advantages, weight(rollouts)), domain=domain, exchangeable=True)


@dataclass(frozen=True)
class Estimator:
    """A chain of links applied to the rewards; build one with ``chain``."""

    links: tuple[Link, ...]

    @property
    def needs(self) -> frozenset[str]:
        """Fields of ``Rollouts`` that an engine must supply."""
        return frozenset({"rewards"}).union(*(link.needs for link in self.links))

    @property
    def domain(self) -> str:
        """The narrowest domain of its links: the rewards for which the formula is defined."""
        return max((link.domain for link in self.links), key=list(DOMAINS).index, default="any")

    @property
    def exchangeable(self) -> bool:
        """True if every link is exchangeable: see ``Link``."""
        return all(link.exchangeable for link in self.links)

    @property
    def remembers(self) -> bool:
        """True if a link carries numbers from one batch to the next."""
        return _holds_numbers(self.init())

    @property
    def name(self) -> str:
        """Names of the links in order, for messages."""
        return f"chain({', '.join(link.name for link in self.links)})"

    def init(self) -> State:
        """The state before the first batch: one entry a link."""
        return tuple(link.init() for link in self.links)

    def update(self, rollouts: Rollouts, state: State) -> tuple[Advantages, State]:
        """Advantages, (P, G) or (P, G, T), 0 of absent rollouts, and the next state; ``InputError`` for unfit links."""
        xp = array_namespace(rollouts.rewards)
        advantages, following = rollouts.rewards, []
        for link, memory in zip(self.links, state, strict=True):
            visible = select_fields(link, rollouts, of_tokens=advantages.ndim == 3)
            advantages, remembered = link.update(advantages, visible, memory)
            _check_advantages(link.name, advantages, rollouts)
            following.append(remembered)
        if rollouts.mask is not None:
            present = rollouts.mask if advantages.ndim == 2 else rollouts.mask[..., None]
            advantages = xp.where(present, advantages, xp.zeros_like(advantages))
        return advantages, tuple(following)


def _holds_numbers(state: State) -> bool:
    return any(map(_holds_numbers, state)) if isinstance(state, tuple) else True


def _check_advantages(name: str, advantages: Array, rollouts: Rollouts) -> None:
    """Raise ``InputError`` unless there is a real number for each rollout or token, as precise as the rewards."""
    rewards, tokens = rollouts.rewards, tokens_of(rollouts)
    shape: tuple[int, ...] = getattr(advantages, "shape", ())
    group = tuple(rewards.shape)
    fits = shape == group or (len(shape) == 3 and shape[:2] == group and shape[2] in {1, tokens or shape[2]})
    allowed = f"{group}, or ({group[0]}, {group[1]}, {tokens or 'tokens'})"
    check_made(f"{name} gave advantages", advantages, rewards, fits, allowed)


def shape_rewards(shape: Callable[[Rollouts], Array], inner: Estimator, **declared: Any) -> Link:
    """Give ``inner``'s advantages for rewards ``shape(rollouts)``, (P, G), whose needs and domain are ``declared``."""

    def update(advantages: Array, rollouts: Rollouts, state: State) -> tuple[Array, State]:
        return inner.update(rollouts._replace(rewards=shape(rollouts)), state)

    update.__name__ = shape.__name__
    link = Link(update, inner.init, **declared)
    both = link.exchangeable and inner.exchangeable
    return replace(link, needs=link.needs | inner.needs, exchangeable=both)


def chain(*stages: Link | Estimator | PlainLink) -> Estimator:
    """Join stages into an estimator; the first receives the rewards.

    A stage is a ``Link``, another estimator (its links are spliced in), or any plain function
    ``(advantages, rollouts) -> advantages``, which needs no registration.

    Raises: InputError: for a stage that is none of these, or a link that needs an unknown field.

    >>> double = chain(lambda advantages, rollouts: 2 * advantages)
    >>> double.update(Rollouts(np.array([[0.0, 1.0]])), double.init())[0]
    array([[0., 2.]])
    """
    links: list[Link] = []
    for stage in stages:
        if isinstance(stage, Estimator):
            links.extend(stage.links)
        elif isinstance(stage, Link):
            links.append(stage)
        elif callable(stage):
            links.append(stateless(stage))
        else:
            raise InputError(f"stage {stage!r} is not a link; allowed: Link, Estimator, or a plain function")
    for link in links:
        if unknown := link.needs - FIELDS:
            raise InputError(f"a link needs {sorted(unknown)}; allowed: {sorted(FIELDS)}")
    return Estimator(tuple(links))
