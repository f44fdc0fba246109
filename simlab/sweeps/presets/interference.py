"""Presets on prompts that share features, a head or a network: where pass@k falls, and every weight there."""

from typing import Any

from simlab.surrogates import SURROGATES
from simlab.sweeps.presets.base import (
    BANK,
    BY_ENTROPY,
    ON_BANK,
    ON_INTERFERENCE,
    PENALISED,
    PRESETS,
    RATE,
    UNTIL_SOLVED,
    WEIGHTS,
    Preset,
    SweepSettings,
    Values,
    fixed,
    names,
    over,
    powers,
)
from simlab.theory.weight_variance import focal_scale

# ``interference``: where pass@k falls below the base model's while pass@1 rises, by one thing at a time. 16 easy
# prompts and 16 hard ones for which the answer of the easy ones is wrong; plain steps on all of them.
_MAP: SweepSettings = ON_INTERFERENCE | {
    **dict(estimators=("grpo",), surrogates=("reinforce",), seeds=16, steps=400, record_every=10),
    "pass_at_k": powers(0, 12),
    "parameters": {"problem.overlap": (-0.3, -0.1, 0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5), RATE: (1.0,)},
}
PRESETS["interference"] = {
    "conflict": over(_MAP, {"problem.conflict": (0.0, 0.25, 0.5, 0.75, 1.0)}),
    "group-size": _MAP | {"group_sizes": (2, 4, 8, 16, 32, 64, 256)},
    "hard-rate": over(_MAP, {"problem.hard_rate": (1e-4, 1e-3, 0.01, 0.03, 0.1)}),
    "temperature": over(_MAP, {"run.temperature": (0.5, 0.7, 1.0, 1.4)}),
    "learning-rate": over(_MAP, {RATE: (0.1, 0.3, 1.0, 3.0, 10.0)}),
    "adam": over(_MAP, {RATE: (0.01, 0.03, 0.1, 0.3)}, optimizer="adam"),
}

# ``interference-league``: every weight, and rivals that cost nothing to add, compared where their pass@1 is the same: a
# longer or shorter step alone makes no difference. The problem at its defaults: 32 prompts, overlap .3, full conflict.
_LEAGUE: SweepSettings = ON_INTERFERENCE | {
    **dict(surrogates=("reinforce",), seeds=24, steps=600, record_every=10, pass_at_k=(1, 16, 256)),
    "parameters": {RATE: (0.25, 0.5, 1.0, 2.0, 4.0)},
}
_ALL = _LEAGUE | {"estimators": WEIGHTS}
_GRPO = _LEAGUE | {"estimators": ("grpo",)}
_PAIR = _LEAGUE | {"estimators": ("grpo", "maxrl")}
_PAIR_ADAM = over(_PAIR, {RATE: (0.001, 0.002, 0.004, 0.008)}, optimizer="adam")
# Features of no preferred basis, for Adam divides every coordinate by the size of its own gradients.
_ROTATED = fixed("problem", features="random", dimension=256)
INTERFERENCE_LEAGUE: Preset = {
    "rate": _ALL,
    "norm": over(_ALL, {RATE: (1.0,), "run.update_norm": (0.05, 0.1, 0.2)}),
    # With one gradient step a batch the ratio is 1 and no clip acts.
    "surrogates": over(_GRPO, {"run.epochs": (4,)}, surrogates=tuple(SURROGATES)),
    "penalties": over(_LEAGUE, {"run.epochs": (4,)}, surrogates=None, arms=PENALISED),
    "groups": _LEAGUE | {"estimators": ("grpo", "f_grpo", "maxrl"), "group_sizes": (2, 32, 128)},
    "kl": over(_GRPO, {"run.kl": (0.01, 0.03, 0.1, 0.3)}),
    "entropy": over(_GRPO, {"run.entropy_bonus": (0.01, 0.03, 0.1, 0.3)}),
    "adaptive-entropy": _LEAGUE | {"surrogates": None, "arms": BY_ENTROPY},
    "tempering": over(_GRPO, {"run.tempering": (1.5, 3.0)}),
    "until-solved": over(_GRPO, UNTIL_SOLVED),
    "supervised": over(_GRPO, {"run.supervised": (0.03, 0.1, 0.3, 1.0)}),
    "easy": over(_LEAGUE, {"estimator.threshold": (0.25, 0.5, 0.75), "estimator.base": ("grpo", "maxrl")})
    | {"estimators": ("reject_easy",)},
    "rotated": over(_PAIR, _ROTATED, seeds=12),
    "adam": _PAIR_ADAM,
    "adam-rotated": over(_PAIR_ADAM, _ROTATED, seeds=12),
}
PRESETS["interference-league"] = INTERFERENCE_LEAGUE

# ``interference-papers``: what five papers claim of pass@k, on three banks, each of which differs from the next in one
# thing alone: easy and hard prompts that share features and disagree about the answer; the same with a rare correct
# answer beside each prompt's main one; and these without the features that they share.
GROUPS = (2, 4, 8, 16, 32)
BANKS: dict[str, Values] = {
    "shared": fixed("problem", overlap=0.3, rare_modes=0),
    "rare": fixed("problem", overlap=0.3, rare_modes=1),
    "apart": fixed("problem", overlap=0.0, rare_modes=1),
}
_TWO_RATES = (0.5, 2.0)
_SLOW = (*_TWO_RATES, 16.0)  # for weights that are small where few rollouts are right
_PAPERS: SweepSettings = ON_INTERFERENCE | {"seeds": 24, "steps": 200, "record_every": 10, "pass_at_k": powers(0, 8)}


def _arms(methods: str, rates: tuple[float, ...] = _TWO_RATES, groups: tuple[int, ...] = (8,), **run: Any) -> Preset:
    """Return methods, separated by spaces, on each bank by its name, with parameters of a run."""
    named = {f"run.{name}": value if isinstance(value, tuple) else (value,) for name, value in run.items()}
    settings = _PAPERS | {"arms": names(methods), "group_sizes": groups, "parameters": {RATE: rates} | named}
    return {bank: over(settings, problem) for bank, problem in BANKS.items()}


def _plain(estimators: str, **changes: Any) -> Preset:
    return _arms(" ".join(f"{name}+reinforce" for name in names(estimators)), **changes)


_EXPERIMENTS: dict[str, Preset] = {
    "groups": _plain("grpo f_grpo(gamma=0.5)", groups=GROUPS),
    # Groups at equal cost: 64 rollouts a step, from 32 prompts of 2 to 2 prompts of 32.
    "rollouts-2": _plain("grpo", groups=(2,), prompts_per_step=32),
    "rollouts-8": _plain("grpo", groups=(8,), prompts_per_step=8),
    "rollouts-32": _plain("grpo", groups=(32,), prompts_per_step=2),
    "controls": _plain("f_grpo(gamma=1) ds_grpo"),
    # F-GRPO's control of its step size, App. N.
    "low-rate": _plain("grpo", rates=tuple(focal_scale(0.5) * rate for rate in _TWO_RATES)),
    "kl": _plain("grpo", kl=(0.01, 0.1)),
    "entropy": _plain("grpo", entropy_bonus=(0.01, 0.1)),
    "halves": _plain(
        "linked(scale=std,sign=attenuate) linked(scale=std,difficulty=shift) a_grae positive_dominant "
        "negative_dominant hard_focused easy_focused"
    ),
    "schedules": _plain(
        "fade fade(delta_min=1) fade(alpha_max=1) fade_logarithmic(last=200) fade_entropy", rates=_SLOW
    ),
    "signs": _plain("psr nsr w_reinforce pass_at_k_chen(k=4) entropy_advantage", rates=_SLOW),
    # On policy no clip acts, and KL-Cov has no gradient: these take four gradient steps a batch.
    "clips": _arms("grpo+ppo_clip grpo+clip_cov grpo+kl_cov cw_grpo+ppo_clip grpo+casp(quantile=0)", epochs=4),
}
PRESETS["interference-papers"] = {
    f"{name}-{bank}": settings for name, banks in _EXPERIMENTS.items() for bank, settings in banks.items()
}

# ``network-papers``: the same where prompts share a network of one hidden layer, which Adam trains at a thousandth of
# the rates.
_ADAM: SweepSettings = {"problem": "network", "optimizer": "adam"}
PRESETS["network-papers"] = {
    f"{name}-network": over(shared, {RATE: tuple(rate / 1000 for rate in shared["parameters"][RATE])}, **_ADAM)
    for name, banks in _EXPERIMENTS.items()
    for shared in [banks["shared"]]
}

# ``interference-countdown``: what interference says of countdown before the training preset ``countdown-conflict``: its
# batch, and solve rates of a Beta that was fitted to pass@k of one warm start (k = 1 to 64). How much prompts overlap,
# and what a step of AdamW is in plain steps, is not known: both are swept. (Adam itself hardly lets pass@k fall here,
# for it divides the row of each answer by the size of its own gradients; a network has no such rows.)
_COUNTDOWN: SweepSettings = ON_INTERFERENCE | {
    **dict(arms=("grpo",), seeds=5, steps=40, record_every=1, pass_at_k=powers(0, 6)),
    "parameters": {RATE: (1.0, 3.0, 10.0), "problem.overlap": (0.1, 0.3)}
    | fixed("problem", prompts=256, actions=256, solve_rates="beta", beta_a=0.96, beta_b=6.5)
    | fixed("problem", features="random", dimension=32),
}


def _batch(group_size: int = 16, **run: float) -> SweepSettings:
    """Return GRPO with 512 rollouts a step in groups of one size."""
    return over(_COUNTDOWN, fixed("run", prompts_per_step=512 // group_size, **run), group_sizes=(group_size,))


PRESETS["interference-countdown"] = {
    "weights": _batch() | {"arms": names("grpo f_grpo maxrl a_grae fade cw_grpo casp nsr pass_at_k_chen(k=4)")},
    "kl": _batch(kl=0.1),
    "entropy": _batch(entropy_bonus=0.03),
    **{f"group-{size}": _batch(size) for size in (2, 4, 8, 32)},
}

# ``network-league``: weights, surrogates and rivals where prompts share a linear head or a network. Each sweep has one
# representation and one optimiser in its name. At its learning rates most methods come to pass@1 = .45 within 400
# steps, some slowly and some fast; they were tried on the fastest and on the slowest methods.
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

    def sweep(methods: tuple[str, ...], parameters: Values, **changes: Any) -> SweepSettings:
        return over(league(representation, optimizer, methods, parameters), {}, **changes)

    sweeps = {
        "methods": sweep(METHODS, {"problem.hard_rate": HARD_RATES}, group_sizes=(8, 16)),
        "groups": sweep(METHODS, {"problem.hard_rate": (0.003, 0.01, 0.1)}, group_sizes=(4, 32, 64)),
        "log-uniform": sweep(METHODS, fixed("problem", solve_rates="log-uniform"), group_sizes=(8, 16)),
        "prompts": sweep(METHODS, {"problem.prompts": (8, 96)}),  # each hard one has an answer of its own, of 64
        "minibatch": sweep(METHODS, fixed("run", prompts_per_step=8), steps=1600, record_every=40),
        "entropy": sweep(("grpo",), {"run.entropy_bonus": (0.03, 0.1, 0.3)}),
        "adaptive-entropy": sweep(BY_ENTROPY, {}),
        "tempering": sweep(("grpo",), {"run.tempering": (1.5, 3.0)}),
        "until-solved": sweep(("grpo",), UNTIL_SOLVED),
        "kl": sweep(("grpo",), {"run.kl": (0.03, 0.1, 0.3)}),
        "supervised": sweep(("grpo",), {"run.supervised": (0.1, 0.3, 1.0)}),
    }
    # On the head ``interference`` has all of them with plain steps, and ``frontier`` with Adam.
    if representation != "linear":
        surrogates = (*(f"grpo+{name}" for name in SURROGATES), *PENALISED)
        sweeps["weights"] = sweep(WEIGHTS, {})
        # With one gradient step a batch the ratio is 1 and no clip acts.
        sweeps["surrogates"] = sweep(surrogates, fixed("run", epochs=4))
    return {f"{name}-{representation}-{optimizer}": settings for name, settings in sweeps.items()}


# ``network``: a small grid of the same, in minutes.
PRESETS["network"] = {
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
PRESETS["network-law"] = {
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
PRESETS["network-paths"] = {
    f"{representation}-{optimizer}": over(
        league(representation, optimizer, PATH_METHODS, {"problem.hard_rate": HARD_RATES[:4]}),
        {RATE: (rate,)},
        **dict(group_sizes=(8, 32), seeds=4, record_every=5, pass_at_k=(1, 4, 16, 64, 256, 1024, 4096)),
    )
    for (representation, optimizer), rate in PATH_RATES.items()
}

PRESETS["network-league"] = {}
for _representation in REPRESENTATIONS:
    for _optimizer in ("sgd", "adam"):
        PRESETS["network-league"] |= _sweeps(_representation, _optimizer)
    for _optimizer in ("momentum", "adamw", "muon"):
        _settings = league(_representation, _optimizer, METHODS, {}) | {"group_sizes": (8, 16)}
        PRESETS["network-league"][f"methods-{_representation}-{_optimizer}"] = _settings

# ``least-variance``: each weight beside the baseline of least variance for its speed, in three places. A weight and its
# rival have the same expected update, and so one learning rate for both. Groups of 4 are the smallest that a weight of
# pass@4 takes; there the noise is largest.
BASES = ("reinforce", "nsr", "rloo", "grpo", "maxrl", "pkpo")
ARMS = tuple(f"{name}+reinforce" for base in BASES for name in (base, f"least_variance(base={base})"))
_SETTINGS: SweepSettings = dict(arms=ARMS, group_sizes=(4, 16), seeds=16, steps=400, record_every=5)

PRESETS["least-variance"] = {
    "bank-sgd": ON_BANK | _SETTINGS | {"pass_at_k": (1, 16, 256), "parameters": BANK | {RATE: (4.0, 16.0)}},
    "linear-sgd": league("linear", "sgd", (), {RATE: (1.0, 4.0)}) | _SETTINGS,
    "network-adam": league("one", "adam", (), {RATE: (0.001, 0.004)}) | _SETTINGS,
}
