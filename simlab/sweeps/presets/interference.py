"""The preset ``interference``: where pass@k falls below the base model's while pass@1 rises, by one thing at a time."""

from typing import Any

from simlab.sweeps.presets.settings import Settings

OVERLAPS = (-0.3, -0.1, 0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)

# 16 easy prompts and 16 hard ones for which the answer of the easy ones is wrong; plain steps on all of them.
_USUAL: Settings = {
    "estimators": ("grpo",),
    "group_sizes": (8,),
    "seeds": 16,
    "steps": 400,
    "record_every": 10,
    "problem": "interference",
    "surrogates": ("reinforce",),
    "optimizer": "sgd",
    "pass_at_k": tuple(2**power for power in range(13)),
    "top_n": 0,
}


def _over(name: str = "", values: tuple[Any, ...] = (), **changes: Any) -> Settings:
    """The usual setting at all overlaps, over the values of one parameter."""
    fixed = {"problem.overlap": OVERLAPS, "optimizer.learning_rate": (1.0,)}
    return _USUAL | changes | {"parameters": fixed | ({name: values} if name else {})}


INTERFERENCE: dict[str, Settings] = {
    "conflict": _over("problem.conflict", (0.0, 0.25, 0.5, 0.75, 1.0)),
    "group-size": _over(group_sizes=(2, 4, 8, 16, 32, 64, 256)),
    "hard-rate": _over("problem.hard_rate", (1e-4, 1e-3, 0.01, 0.03, 0.1)),
    "temperature": _over("run.temperature", (0.5, 0.7, 1.0, 1.4)),
    "learning-rate": _over("optimizer.learning_rate", (0.1, 0.3, 1.0, 3.0, 10.0)),
    "adam": _over("optimizer.learning_rate", (0.01, 0.03, 0.1, 0.3), optimizer="adam"),
}
