"""The cases that every array library must get right: the library's input, and the references' answers."""

import math
import random
from typing import Any

import numpy as np
from references import REFERENCES, Step

from simlab import Rollouts, estimator
from simlab.estimators import REGISTRY

# Parameters of each estimator beside its defaults, which are a case of their own.
PARAMETERS: dict[str, list[dict[str, Any]]] = {
    "grpo": [{"ddof": 1}, {"ddof": 1, "eps": 0.0}, {"eps": 0.25}],
    "w_reinforce": [{"success": 0.5}],
    "f_grpo": [
        {"gamma": 0.5, "base": "dr_grpo"}, {"gamma": 2.0, "base": "rloo"}, {"gamma": 0.0},
        {"gamma": 0.5, "base": "cw_grpo"}, {"base": "entropy_advantage"},
    ],
    "reject_easy": [
        {"threshold": 0.0, "base": "nsr"}, {"threshold": 0.3333333333333333, "base": "rloo"},
        {"threshold": 0.6, "base": "cw_grpo"}, {"threshold": 1.0, "base": "maxrl"},
    ],
    "bbg": [{"k": 1, "tau": 0.0, "base": "rloo"}, {"k": 3, "tau": 0.3, "base": "nsr"}, {"k": 2, "base": "cw_grpo"}],
    "least_variance": [{"base": "maxrl", "successes": 0.0, "failures": 0.0}, {"base": "pkpo", "failures": 3.0}],
    "asym_grpo": [{"delta": 0.5}, {"delta": 2.0}],
    "power_alpha": [{"alpha": 3.5}],
    "a_grae": [{"alpha": 0.5, "easy_term": "code"}, {"alpha": 0.25, "ddof": 1, "eps": 0.0}],
    "fade": [
        {"beta": 0.98}, {"beta": 0.5, "baseline": "batch_mean"},
        {"beta": 0.5, "target_entropy": 1.5, "alpha_max": 1.5, "delta_min": 0.5},
    ],
    "fade_logarithmic": [{"last": 2.0}],
    "fade_entropy": [{"beta": 0.5, "alpha_max": 2.0, "delta_min": 0.9}],
    "running_mean": [{"decay": 0.25, "initial": 0.5}, {"decay": 1.0, "initial": 0.3}],
    "asym_rl": [{"delta": 0.25}, {"delta": -0.3}],
    "quantile": [{"tau": 0.0}, {"tau": 0.3}, {"tau": 1.0}],
    "mc_grpo": [{"scale": "mad"}, {"scale": "mad", "eps": 0.0}, {"scale": "mad", "eps": 0.5}],
    "skew_r": [{"ddof": 1}],
    "power_norm": [{"gamma": 0.0}, {"gamma": 1.5}],
    "easy_power": [{"alpha": 1.0}, {"alpha": 3.5}],
    "asym_power": [{"alpha_success": 1.0, "alpha_failure": 3.5}, {"alpha_success": 2.5, "alpha_failure": 1.0}],
    "hard_focused": [{"gamma": 2.0, "ddof": 1, "eps": 0.25}],
    "easy_focused": [{"gamma": 2.0, "ddof": 1, "eps": 0.25}],
    "positive_dominant": [{"factor": 0.5, "ddof": 1, "eps": 0.25}],
    "negative_dominant": [{"factor": 0.5, "ddof": 1, "eps": 0.25}],
    "pass_at_k_chen": [{"k": 1}, {"k": 2}, {"k": 9}],
    "mix": [{"k": 1}, {"k": 2}, {"k": 9}],
    "pkpo": [
        {"baseline": "none"}, {"k": 1, "baseline": "leave_one_out"}, {"k": 1, "baseline": "none"},
        {"k": 2, "baseline": "leave_one_out"}, {"k": 2, "baseline": "none"}, {"k": 9, "baseline": "leave_one_out"},
        {"k": 9, "baseline": "none"},
    ],
    "softmax": [{"beta": 5.0}],
    "rs_grpo": [{"beta": 0.5}],
    "a_star_po": [{"beta": 0.125}, {"beta": 4.0}],
    "log_mean_exp": [{"beta": 5.0}],
    "ha_dw": [
        {"scale": 2.0, "decay": 0.25, "initial": 0.3, "base": "maxrl"},
        {"decay": 0.5, "initial": 0.0, "base": "dr_grpo"},
    ],
    "ds_grpo": [{"success": 0.5, "failure": 0.0, "ddof": 1, "eps": 0.25}, {"success": 0.0, "failure": 0.25}],
    "unlikeliness": [
        {"ranking": "code"}, {"beta": 0.75, "ddof": 1, "eps": 0.25},
        {"beta": 0.9, "ranking": "code", "ddof": 1, "eps": 0.0},
    ],
    "t2t": [{"alpha": 0.7, "ddof": 1, "eps": 0.25}],
    "linked": [
        {"baseline": "none", "difficulty": "easy", "gamma": 0.5},
        {"baseline": "leave_one_out", "scale": "times_std", "difficulty": "asymmetric"},
        {"baseline": "batch_mean", "scale": "mean", "sign": "divide_failures", "delta": 0.25},
        {"baseline": "median", "difficulty": "focal", "gamma": 2.0, "sign": "relu"},
        {"scale": "std", "difficulty": "history", "sign": "divide_failures"},
        {"scale": "mean", "difficulty": "shift", "sign": "attenuate"},
        {"baseline": "leave_one_out", "scale": "std_of_others"},
        {"scale": "pass_at_k", "k": 2, "difficulty": "sqrt_hard"}, {"scale": "std", "difficulty": "sqrt_easy"},
    ],
    "cw_grpo": [{"base": "dr_grpo"}, {"scope": "batch"}, {"scope": "batch", "base": "dr_grpo"}],
    "entropy_advantage": [{"alpha": 0.1, "kappa": 5.0}, {"kappa": 0.5, "base": "dr_grpo"}],
    "gdpo": [{"code": "verl"}, {"code": "nemo_rl"}],
    "rae": [{"decay": 0.25, "roles": 3}, {"roles": 1}],
    "reinforce_pp": [{"ddof": 1, "eps": 0.25}],
    "reinforce_pp_baseline": [{"ddof": 1, "eps": 0.25}],
    "bnpo": [{"most": 0.75}],
    "grpo_lead": [
        {"alpha": 0.5, "penalty": 0.25, "low": 0.25, "high": 2.0, "midpoint": 0.5, "steepness": 3.0},
        {"alpha": 1.0, "ddof": 1, "eps": 0.25},
    ],
    "optimal_token_baseline": [{"eps": 0.25}],
    "opd": [{"gamma": 0.5}, {"gamma": 2.0, "bound": 0.5}],
    "tempered_grpo": [{"beta": 1.0}, {"beta": 0.25, "eps": 0.0}],
    "advantage_reweighting": [{"alpha": 0.75, "base": "dr_grpo"}, {"alpha": 1.0, "base": "entropy_advantage"}],
    "aem": [
        {"strength": 3.0, "least_spread": 0.4, "base": "w_reinforce"},
        {"least_spread": 1.5, "base": "advantage_reweighting"},
    ],
}  # fmt: skip
CASES = [(name, parameters) for name in REGISTRY for parameters in [{}, *PARAMETERS.get(name, [])]]

# Formulas that are defined for rewards 0 and 1 only.
BINARY_ONLY = {"binary_contrastive", "least_variance", "pass_at_k_chen", "mix", "t2t", "grpo_lead"}

# Rewards are eighths and log-probabilities 64ths, exact in float32. Ragged groups hold all right, all wrong, and one.
RAGGED_BINARY = [
    [[1, 0, 0, 0, 0], [1, 1, 1, 1, 0], [0, 0, 0], [1, 1], [1]],
    [[0, 1], [1, 0, 0], [1, 1, 0, 0, 0], [0], [1, 1, 0, 1]],
    [[1, 1, 1, 0, 0], [0, 1, 0], [1, 0, 1, 1, 1], [0, 0], [1, 1, 1, 1]],
]
RAGGED_GRADED = [
    [[0.125, 0.75, 0, 0], [0.5, 0.5, 0.5, 0.5], [1, 0.25], [0.375, 0.125, 0.25, 0.5, 0.75], [0.625]],
    [[0, 0, 0.875], [1, 1, 1, 0.5], [0.25, 0.75, 0, 1, 0.5], [0.125, 0.375], [0, 0]],
    [[0.75], [0, 0.5, 0.5, 1], [0.875, 1], [0.25, 0, 0.125, 0.5, 0], [1, 0.75, 0]],
]
FULL_BINARY = [
    [[1, 0, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0]],
    [[1, 1, 0, 0], [0, 1, 0, 0], [1, 1, 1, 0]],
    [[0, 1, 1, 1], [1, 1, 1, 1], [0, 0, 1, 0]],
]
FULL_GRADED = [
    [[0.125, 0.75, 0, 0.5], [0.5, 0.5, 0.5, 0.5], [1, 0.25, 0.875, 0.375]],
    [[0, 0, 0.875, 0.25], [0.25, 1, 0.25, 0.5], [0.625, 0.125, 0, 0.75]],
    [[0.75, 1, 0, 0], [0.5, 0.375, 0.875, 1], [0, 0, 0, 0]],
]
# The entropy falls from step to step, so that FADE's delta leaves 1.
MEAN_ENTROPY = (2.0, 0.75, 0.25)
SIXTYFOURTHS = range(1, 128)
FEW_VALUES = range(1, 128, 42)  # so that rollouts tie in the sum and in the mean of their log-probabilities


def steps(batches, tokens, seed, values=SIXTYFOURTHS):
    """One step a batch, each rollout given random log-probabilities and entropies for one of the numbers of ``tokens``.

    Each of the two has its own draw; other tokens count as 1, 2 or 8 equal ones in the sum of squared probabilities.
    """
    draw, draw_entropy, draw_parts = random.Random(seed), random.Random(100 + seed), random.Random(200 + seed)
    draw_others = random.Random(300 + seed)

    def collision(logp):
        p = math.exp(logp)
        return p * p + (1 - p) ** 2 / draw_others.choice([1, 2, 8])

    def logp(scale):
        return [-scale * draw.choice(values) / 64 for _ in range(draw.choice(tokens))]

    def step(groups, scale):
        drawn = [[logp(scale) for _ in group] for group in groups]
        entropy = [[[draw_entropy.randrange(128) / 64 for _ in x] for x in group] for group in drawn]
        indices = range(len(groups))
        parts = [[[r, draw_parts.randrange(3) / 8, draw_parts.choice([None, 0.5, -0.25])] for r in x] for x in groups]
        greedy, weights = [index % 3 / 2 for index in indices], (1.0, 0.5, -2.0)
        squares = [[[collision(x) for x in row] for row in group] for group in drawn]
        teacher = [[[x - draw_others.randrange(-64, 128) / 64 for x in row] for row in group] for group in drawn]
        roles = [index % 3 for index in indices]
        return Step(groups, drawn, entropy, greedy, parts, weights, roles, squares, teacher)

    return [step(groups, scale) for groups, scale in zip(batches, MEAN_ENTROPY, strict=True)]


SHAPES = ("ragged", "full")

# Sequences of steps by shape of their batches; those of one shape can be stacked and run under vmap.
BINARY: dict[str, list[list[Step]]] = {
    "ragged": [steps(RAGGED_BINARY, (1, 2, 3), 0), steps(RAGGED_BINARY[::-1], (1, 2, 3), 1)],
    "full": [steps(FULL_BINARY, (2,), 3), steps(FULL_BINARY[::-1], (2,), 4)],
}
GRADED: dict[str, list[list[Step]]] = {
    "ragged": [steps(RAGGED_GRADED, (1, 2, 3), 2), steps(RAGGED_GRADED[::-1], (1, 2, 3), 5, FEW_VALUES)],
    "full": [steps(FULL_GRADED, (2,), 6)],
}


def sequences(name, shape):
    """The sequences whose rewards the formula is defined for."""
    return BINARY[shape] if name in BINARY_ONLY else BINARY[shape] + GRADED[shape]


TOLERANCE = {"float32": 1e-6, "float64": 1e-12}
OF_LOGARITHMS = {"bnpo"}  # in float32 right to 4e-6: sums of logarithms, raised to an exponential
# These subtract numbers as large as the group's largest advantage, and lose a few of its last digits.
SUBTRACTING = {
    "softmax", "rs_grpo", "log_mean_exp", "running_mean", "ds_grpo", "unlikeliness", "cw_grpo", "entropy_advantage",
    "grpo_lead", "gdpo", "rae", "a_star_po", "tempered_grpo", "optimal_token_baseline",
}  # fmt: skip
LOST = 4  # units in the last place of the largest
CENTRED_TWICE = {"gdpo"}  # in groups, then in the batch: what is 0 in one order of adding is its rounding in another
NOTHING = float("nan")  # stands where no rollout or token exists; the library must not read it


def record(step, shape, xp, dtype):
    """The library's record of a step: arrays as they are when ``shape`` is "full", else padded to (5, 5, 3)."""
    weighed = [
        [[(r or 0.0, weight * (r is not None)) for r, weight in zip(row, step.weights, strict=True)] for row in group]
        for group in step.parts
    ]
    parts, weights = ([[[pair[k] for pair in row] for row in group] for group in weighed] for k in (0, 1))
    greedy, role = (
        [[value] * len(group) for value, group in zip(each, step.rewards, strict=True)]
        for each in (step.greedy, step.roles)
    )
    fields = {"rewards": step.rewards, "greedy_reward": greedy, "role": role}
    lists = {"old_logp": step.logp, "entropy": step.entropy, "collision": step.collision, "teacher_logp": step.teacher}
    lists |= {"parts": parts, "part_weights": weights}
    masks = {}
    if shape == "ragged":
        fields = {name: [pad(group, 5, NOTHING) for group in values] for name, values in fields.items()}
        lists = {name: pad_tokens(values) for name, values in lists.items()}
        masks = {"mask": fields["rewards"], "token_mask": lists["old_logp"]}
    arrays = {name: xp.asarray(values, dtype=getattr(xp, dtype)) for name, values in (fields | lists).items()}
    return Rollouts(**arrays, **{name: xp.asarray((~np.isnan(values)).tolist()) for name, values in masks.items()})


def pad_tokens(groups):
    return [pad([pad(tokens, 3, NOTHING) for tokens in group], 5, [NOTHING] * 3) for group in groups]


def pad(values, length, filler):
    return values + [filler] * (length - len(values))


def run(chosen, batches):
    """Advantages of each batch in turn, the state carried from one to the next."""
    state, history = chosen.init(), []
    for batch in batches:
        advantages, state = chosen.update(batch, state)
        history.append(advantages)
    return history


def check_against_reference(name, parameters, shape, xp, dtype):
    """Every sequence of a shape, in one array library: right to the tolerance of the dtype, which is kept."""
    for sequence in sequences(name, shape):
        history = run(estimator(name, **parameters), [record(step, shape, xp, dtype) for step in sequence])
        assert all(advantages.dtype == getattr(xp, dtype) for advantages in history)
        assert_close(name, parameters, history, sequence, dtype)


def assert_close(name, parameters, history, sequence, dtype):
    """Advantages equal the reference's element by element, and are exactly 0 where there is no rollout or token."""
    expected, names = REFERENCES[name](sequence, **parameters), {name, parameters.get("base")}
    relative = 4e-6 if dtype == "float32" and names & OF_LOGARITHMS else TOLERANCE[dtype]
    lost = LOST * float(np.finfo(dtype).eps) if names & SUBTRACTING else 0.0
    for advantages, batch in zip(history, expected, strict=True):
        for group, ragged in zip(np.asarray(advantages), batch, strict=True):
            largest = np.max(np.abs(group))
            if name in CENTRED_TWICE:
                largest = np.max(np.abs(np.asarray(advantages)))
                rounding = TOLERANCE[dtype] * largest
                group = np.where(np.abs(group) < rounding, 0, group)  # noqa: PLW2901
                ragged = [0.0 if abs(a) < rounding else a for a in ragged]  # noqa: PLW2901
            assert_padded(group, ragged, relative, lost * largest)


def assert_padded(padded, ragged, relative, absolute):
    """Every list is where it belongs along the last axis, with exact zeros after its end; a 0 stays exact."""
    present = padded[: len(ragged)]
    np.testing.assert_array_equal(padded[len(ragged) :], 0)
    if padded.ndim == 1:
        np.testing.assert_allclose(present, ragged, rtol=relative, atol=absolute)
        np.testing.assert_array_equal(present == 0, np.asarray(ragged) == 0)
        return
    for row, inner in zip(present, ragged, strict=True):
        assert_padded(row, inner, relative, absolute)
