"""CaSP's toy over a grid of what its paper leaves unstated."""

from typing import Any

from simlab.sweeps.presets.settings import Settings

# Plain gradient steps by the sum over a rollout's tokens, averaged over rollouts, from the uniform policy.
_TOY: Settings = {
    "estimators": ("grpo",),
    "group_sizes": (4, 16, 64),
    "seeds": 32,
    "steps": 1000,
    "record_every": 250,
    "problem": "tree",
    "surrogates": ("ppo_clip",),
    "optimizer": "sgd",
    "pass_at_k": (1,),
    "top_n": 0,
}
_RATES = (0.1, 0.3, 1.0, 3.0)
_ADAM_RATES = (0.01, 0.03, 0.1)
_OPEN = {"surrogate.quantile": (0.0,)}  # every token passes the entropy gate


def _toy(parameters: dict[str, tuple[Any, ...]], rates: tuple[float, ...] = _RATES, **changes: Any) -> Settings:
    """The toy with some parameters, at some learning rates."""
    shared = {"run.aggregation": ("constant",), "optimizer.learning_rate": rates}
    return _TOY | changes | {"parameters": shared | parameters}


def _casp(parameters: dict[str, tuple[Any, ...]], rates: tuple[float, ...] = _RATES, **changes: Any) -> Settings:
    """The toy under CaSP."""
    return _toy(parameters, rates, surrogates=("casp",), **changes)


# The three methods over learning rate and group size (the alpha of .5 is far above the paper's .01, which does nothing
# here that GRPO does not); then at G = 16: the halves of CaSP, each also alone (lambda 1
# only smooths, alpha 0 only penalises; both together are GRPO), the entropy gate, Adam, and runs four times as long.
_ONE: Settings = {"group_sizes": (16,)}
_LONG: Settings = _ONE | {"steps": 4000, "record_every": 250}
CASP: dict[str, Settings] = {
    "grpo": _toy({}),
    "entropy": _toy({"run.entropy_bonus": (0.1, 0.5, 1.0)}),
    "casp": _casp(_OPEN | {"surrogate.alpha": (0.5,), "surrogate.candidates": (3, 4)}),
    "halves": _casp(_OPEN | {"surrogate.alpha": (0.0, 0.05, 0.5), "surrogate.top_penalty": (1.0, 1.1)}, **_ONE),
    "gate": _casp({"surrogate.quantile": (0.5, 0.8), "surrogate.alpha": (0.5,)}, **_ONE),
    "adam": _toy({"run.entropy_bonus": (0.0, 0.5, 1.0)}, _ADAM_RATES, optimizer="adam", **_ONE),
    "adam-casp": _casp(
        _OPEN | {"surrogate.alpha": (0.5,), "surrogate.candidates": (3, 4)}, _ADAM_RATES, optimizer="adam", **_ONE
    ),
    "long": _toy({"run.entropy_bonus": (0.0, 0.5)}, (1.0,), **_LONG),
    "long-casp": _casp(_OPEN | {"surrogate.alpha": (0.5,), "surrogate.candidates": (3, 4)}, (1.0,), **_LONG),
}
