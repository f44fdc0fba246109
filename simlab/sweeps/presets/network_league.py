"""Preset ``network-league``: weights, surrogates and rivals where prompts share a linear head or a network.

Each sweep has one representation and one optimiser in its name. At its learning rates most methods come to
pass@1 = .45 within 400 steps, some slowly and some fast; they were tried on the fastest and on the slowest methods.
"""

from typing import Any

from simlab.surrogates import SURROGATES
from simlab.sweeps.presets.base import (
    BY_ENTROPY,
    PENALISED,
    RATE,
    UNTIL_SOLVED,
    WEIGHTS,
    Preset,
    SweepSettings,
    Values,
    fixed,
    names,
    over,
)

REPRESENTATIONS: dict[str, tuple[str, Values]] = {
    "linear": ("interference", {}),
    "one": ("network", fixed("problem", layers=1)),
    "two": ("network", fixed("problem", layers=2)),
}
_IN_A_NETWORK = {
    "sgd": (0.01, 0.03, 0.3),
    "adam": (0.0005, 0.001, 0.004),
    "momentum": (0.001, 0.003, 0.03),
    "adamw": (0.0005, 0.001, 0.004),
    "muon": (0.003, 0.01),
}
_IN_A_HEAD = {
    "sgd": (0.25, 1.0, 4.0),
    "adam": (0.004, 0.016, 0.032),
    "momentum": (0.025, 0.1, 0.4),
    "adamw": (0.004, 0.016, 0.032),
    "muon": (0.01, 0.04),
}
METHODS = names(
    "grpo f_grpo(gamma=1) f_grpo(gamma=2) maxrl power_alpha(alpha=3) easy_power(alpha=3) psr nsr a_grae fade "
    "pass_at_k_chen reject_easy(threshold=0.25)"
)
HARD_RATES = (0.003, 0.01, 0.03, 0.1, 0.3)


def league(representation: str, optimizer: str, methods: tuple[str, ...], parameters: Values) -> SweepSettings:
    """Return methods under the plain policy gradient, on one representation with one optimiser, in groups of 8."""
    problem, base = REPRESENTATIONS[representation]
    rates = (_IN_A_HEAD if representation == "linear" else _IN_A_NETWORK)[optimizer]
    arms = tuple(name if "+" in name else f"{name}+reinforce" for name in methods)
    return {
        **dict(problem=problem, optimizer=optimizer, arms=arms, group_sizes=(8,), seeds=8),
        **dict(steps=400, record_every=10, pass_at_k=(1, 16, 256), top_n=0),
        "parameters": base | {RATE: rates} | parameters,
    }


def _sweeps(representation: str, optimizer: str) -> Preset:
    """Return all sweeps of one representation and optimiser."""

    def sweep(methods: tuple[str, ...], parameters: Values, **changes: Any) -> SweepSettings:
        return over(league(representation, optimizer, methods, parameters), {}, **changes)

    surrogates = (*(f"grpo+{name}" for name in SURROGATES), *PENALISED)
    sweeps = {
        "methods": sweep(METHODS, {"problem.hard_rate": HARD_RATES}, group_sizes=(8, 16)),
        "groups": sweep(METHODS, {"problem.hard_rate": (0.003, 0.01, 0.1)}, group_sizes=(4, 32, 64)),
        "log-uniform": sweep(METHODS, fixed("problem", solve_rates="log-uniform"), group_sizes=(8, 16)),
        "prompts": sweep(METHODS, {"problem.prompts": (8, 96)}),  # each hard one has an answer of its own, of 64
        "minibatch": sweep(METHODS, fixed("run", prompts_per_step=8), steps=1600, record_every=40),
        "weights": sweep(WEIGHTS, {}),
        # With one gradient step a batch the ratio is 1 and no clip acts.
        "surrogates": sweep(surrogates, fixed("run", epochs=4)),
        "entropy": sweep(("grpo",), {"run.entropy_bonus": (0.03, 0.1, 0.3)}),
        "adaptive-entropy": sweep(BY_ENTROPY, {}),
        "tempering": sweep(("grpo",), {"run.tempering": (1.5, 3.0)}),
        "until-solved": sweep(("grpo",), UNTIL_SOLVED),
        "kl": sweep(("grpo",), {"run.kl": (0.03, 0.1, 0.3)}),
        "supervised": sweep(("grpo",), {"run.supervised": (0.1, 0.3, 1.0)}),
    }
    return {f"{name}-{representation}-{optimizer}": settings for name, settings in sweeps.items()}


# ``network``: a small grid of the same, in minutes.
NETWORK: Preset = {
    f"{representation}-{optimizer}": league(representation, optimizer, names("grpo f_grpo(gamma=2) maxrl nsr"), {})
    | {"group_sizes": (8, 16), "seeds": 4}
    for representation in REPRESENTATIONS
    for optimizer in ("sgd", "adam")
}

# ``network-law``: the cells of the law's prediction, figures/data/network_law_prediction.json.
_LAW_RATES = {
    ("linear", "sgd"): (1.0, 4.0),
    ("linear", "adam"): (0.004, 0.016),
    ("one", "sgd"): (0.03, 0.3),
    ("one", "adam"): (0.0005, 0.001),
}
NETWORK_LAW: Preset = {
    f"{representation}-{optimizer}-{group_size}-{hard_rate:g}": over(
        league(representation, optimizer, METHODS[:8], fixed("problem", hard_rate=hard_rate)),
        {RATE: rates},
        group_sizes=(group_size,),
        seeds=6,
    )
    for group_size, hard_rate in ((8, 0.02), (12, 0.005), (24, 0.01), (24, 0.003))
    for (representation, optimizer), rates in _LAW_RATES.items()
}

# ``network-paths``: what the explorer shows before its own runs (``figures.shared.explorer_paths``). At these rates
# fast methods take many records to come to pass@1 = .45, and slow ones come near it.
PATH_RATES = {("linear", "sgd"): 1.0, ("linear", "adam"): 0.016, ("one", "sgd"): 0.03, ("one", "adam"): 0.0005}
PATH_METHODS = (*METHODS[:8], *METHODS[10:])
NETWORK_PATHS: Preset = {
    f"{representation}-{optimizer}": over(
        league(representation, optimizer, PATH_METHODS, {"problem.hard_rate": HARD_RATES[:4]}),
        {RATE: (rate,)},
        **dict(group_sizes=(8, 32), seeds=4, record_every=5, pass_at_k=(1, 4, 16, 64, 256, 1024, 4096)),
    )
    for (representation, optimizer), rate in PATH_RATES.items()
}

NETWORK_LEAGUE: Preset = {}
for _representation in REPRESENTATIONS:
    for _optimizer in ("sgd", "adam"):
        NETWORK_LEAGUE |= _sweeps(_representation, _optimizer)
    for _optimizer in ("momentum", "adamw", "muon"):
        _settings = league(_representation, _optimizer, METHODS, {}) | {"group_sizes": (8, 16)}
        NETWORK_LEAGUE[f"methods-{_representation}-{_optimizer}"] = _settings
