"""Methods: an estimator, a surrogate and an aggregation that are used together under one name."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from array_api_compat import array_namespace

from simlab import surrogates
from simlab.errors import InputError, build, check_choice, check_range
from simlab.estimators import Estimator, estimator, f_grpo
from simlab.estimators.base import State
from simlab.estimators.tokens import of_tokens
from simlab.rollouts import Array, Rollouts, Scalar, check_shapes, token_weights, tokens_of
from simlab.surrogates import AGGREGATIONS, Surrogate, aggregation_weights, clip_higher, ppo_clip, sequence_clip


@dataclass(frozen=True)
class Method:
    """A method: it turns rollouts into the coefficients of grad log pi in a loss; ``InputError`` for unfitting parts.

    Attributes:
        estimator: turns rollouts into advantages.
        surrogate: turns ratios and advantages into coefficients.
        aggregation: the weight of each token, see ``aggregation_weights``.
        normaliser: tokens that ``"constant"`` divides by; None for the length of the token axis.
    """

    estimator: Estimator
    surrogate: Surrogate
    aggregation: str = "token_mean"
    normaliser: Scalar | None = None

    def __post_init__(self) -> None:
        for name, kind in (("estimator", Estimator), ("surrogate", Surrogate)):
            if not isinstance(value := getattr(self, name), kind):
                raise InputError(f"{name} is a {type(value).__name__}; allowed: {kind.__name__}, as {name}() builds it")
        check_choice("aggregation", self.aggregation, AGGREGATIONS)
        if self.normaliser is not None:
            check_range("normaliser", self.normaliser, 0, open_low=True)

    @property
    def needs(self) -> frozenset[str]:
        """Fields of ``Rollouts`` that an engine must supply."""
        return self.estimator.needs | self.surrogate.needs

    def coefficients(self, ratio: Array, rollouts: Rollouts, state: State) -> tuple[Array, State]:
        """Compute the coefficients of grad log pi in the aggregated objective, and the estimator's next state.

        Args:
            ratio: (P, G, T) pi over the sampling policy at each sampled token.
            rollouts: the batch; ``check_rollouts`` checks its values.
            state: the estimator's, ``estimator.init()`` at first.

        Returns:
            (P, G, T), or (P, G, T, 1 + C) for a surrogate of C candidates, see ``Surrogate``; 0 where no token is.

        Raises: InputError: for fields that are missing or do not fit together.
        """
        check_shapes(rollouts, self.needs)
        advantages, state = self.estimator.update(rollouts, state)
        return self.from_advantages(ratio, advantages, rollouts), state

    def at(self, state: State) -> "Method":
        """Method for a batch, from the memory of its surrogate after that batch: see ``Surrogate.follow``."""
        return self if self.surrogate.schedule is None else replace(self, surrogate=self.surrogate.at(state))

    def from_advantages(self, ratio: Array, advantages: Array, rollouts: Rollouts) -> Array:
        """Compute the ``coefficients`` from advantages, (P, G) or (P, G, T): for several updates on one batch."""
        xp = array_namespace(ratio)
        check_shapes(rollouts, self.surrogate.needs)
        tokens = tokens_of(rollouts)
        allowed = (*rollouts.rewards.shape, tokens or ratio.shape[-1])
        if ratio.ndim != 3 or tuple(ratio.shape) != allowed:
            shown = ", ".join(map(str, (*rollouts.rewards.shape, tokens or "tokens")))
            raise InputError(f"ratio has shape {tuple(ratio.shape)}; allowed: ({shown})")
        values = self.surrogate(ratio, of_tokens(advantages), rollouts)
        present = token_weights(ratio, rollouts) > 0
        longest = ratio.shape[-1] if self.normaliser is None else self.normaliser
        weights = aggregation_weights(present, self.aggregation, longest, ratio.dtype)
        if self.surrogate.candidates:
            weights, present = weights[..., None], present[..., None]
        return xp.where(present, values * weights, xp.zeros_like(values))


def grpo() -> Method:
    """GRPO: PPO clip, averaged over the tokens of each rollout and then over rollouts ``[f-grpo:eq-14]``."""
    return Method(estimator("grpo"), ppo_clip(), "sequence_mean")


def dr_grpo(max_tokens: Scalar | None = None) -> Method:
    """Dr. GRPO: no std, and lengths replaced by ``max_tokens``, or by the token axis ``[fade:dr-grpo]``."""
    if max_tokens is not None:
        check_range("max_tokens", max_tokens, 0, open_low=True)
    return Method(estimator("dr_grpo"), ppo_clip(), "constant", max_tokens)


def dapo() -> Method:
    """DAPO: GRPO with clip-higher, averaged over all tokens; engines draw anew ``[f-grpo:app-b-clip-higher]``."""
    return Method(estimator("grpo"), clip_higher())


def cispo() -> Method:
    """CISPO: GRPO with the clipped ratio as a constant weight, averaged over all tokens ``[f-grpo:eq-16]``."""
    return Method(estimator("grpo"), surrogates.cispo())


def gspo() -> Method:
    """GSPO: GRPO with the ratio and the clip of whole sequences ``[casp:gspo]``."""
    return Method(estimator("grpo"), sequence_clip(), "sequence_mean")


def cw_grpo() -> Method:
    """CW-GRPO: tokens of extreme covariance tamed, no clip, averaged as GRPO does ``[cw-grpo:kernel]``."""
    return Method(estimator("cw_grpo"), surrogates.unclipped(), "sequence_mean")


def clip_cov() -> Method:
    """Clip-Cov: GRPO without the gradient of a few tokens of large covariance ``[cw-grpo:clip-cov]``."""
    return Method(estimator("grpo"), surrogates.clip_cov())


def kl_cov() -> Method:
    """KL-Cov: GRPO with a KL penalty at the tokens of largest covariance ``[cw-grpo:clip-cov]``."""
    return Method(estimator("grpo"), surrogates.kl_cov())


def casp() -> Method:
    """CaSP: GRPO that shares its successes with the likeliest candidates ``[casp:eq-4]``."""
    return Method(estimator("grpo"), surrogates.casp(), "sequence_mean")


def luspo() -> Method:
    """LUSPO: GSPO summed over the tokens of a rollout, not averaged (arXiv 2602.05261); the bounds are TRL's."""
    return Method(estimator("grpo"), sequence_clip(2e-3, 2.5e-3), "constant", 1.0)


def sapo() -> Method:
    """SAPO: GRPO with a soft gate in place of the clip, averaged as GRPO does (arXiv 2511.20347)."""
    return Method(estimator("grpo"), surrogates.sapo(), "sequence_mean")


def gmpo() -> Method:
    """GMPO: GRPO with the geometric mean of each sequence's clipped ratios (arXiv 2507.20673)."""
    return Method(estimator("grpo"), surrogates.gmpo(), "sequence_mean")


def vespo() -> Method:
    """VESPO: GRPO with a smooth weight of each sequence's ratio, averaged over all tokens (arXiv 2602.10693)."""
    return Method(estimator("grpo"), surrogates.vespo())


def wapo() -> Method:
    """WAPO: rollouts above their group's mean alone, clipped at 10, over a constant length (arXiv 2606.16154).

    As ``loss_type = "wapo"`` of layer6ai-labs/wapo (ca70250, 16 June 2026) with the ``clip_eps`` of its README; that
    divides by the groups that have such a rollout, here all groups count. Of the paper the abstract was read.
    """
    return Method(estimator("relu"), ppo_clip(eps_high=9.0), "constant")


METHODS: dict[str, Callable[..., Method]] = {
    constructor.__name__: constructor
    for constructor in (
        grpo, dr_grpo, dapo, cispo, gspo, cw_grpo, clip_cov, kl_cov, casp, luspo, sapo, gmpo, vespo, wapo,
    )
}  # fmt: skip


def focal(base: Method, gamma: Scalar = 1.0) -> Method:
    """F- over any method: its advantages times (1 - X/G)^gamma ``[f-grpo:eq-13]``.

    >>> focal(dapo(), gamma=0.5).aggregation
    'token_mean'
    """
    return replace(base, estimator=f_grpo(gamma, base.estimator))


def _focal_over(make: Callable[..., Method]) -> Callable[..., Method]:
    """Make the constructor of F- over a method: it takes ``gamma`` beside the method's parameters."""

    def constructor(gamma: Scalar = 1.0, **parameters: Any) -> Method:
        return focal(make(**parameters), gamma)

    gamma, _ = inspect.signature(constructor).parameters.values()
    others = inspect.signature(make).parameters.values()
    constructor.__signature__ = inspect.Signature([gamma, *others])  # type: ignore[attr-defined]
    return constructor


METHODS |= {f"f_{name}": _focal_over(make) for name, make in METHODS.items()}


def method(name: str, **parameters: Any) -> Method:
    """Build a method by name; the prefix ``f_`` puts F-GRPO's focal weight on a method, and adds ``gamma``.

    For other parameters replace a part: ``dataclasses.replace(method("dapo"), surrogate=clip_higher(0.1, 0.3))``.

    >>> sorted(method("f_gspo", gamma=0.5).needs)
    ['rewards']
    """
    built: Method = build("method", name, METHODS, parameters)
    return built
