"""Run remedies for interference, and the methods they are compared with, on problems of the frontier.

python -m figures.shared.remedy_runs remedies.nc [SWEEP ...]      (goes on where it was stopped)
"""

import sys
from pathlib import Path
from typing import Any

from simlab.errors import check_choice
from simlab.sweeps.grid import Budget, Sweep
from simlab.sweeps.presets.frontier import NORM
from simlab.sweeps.run import run

RATE = "optimizer.learning_rate"
PLAIN = ("grpo+reinforce",)
REWARDS = (*PLAIN, "reject_easy(threshold=0.25)+reinforce", "pass_at_k_tang+reinforce")
SHARED: dict[str, Any] = {"group_sizes": (8,), "pass_at_k": (1, 64, 256), "budget": Budget(2.0**15, records=128)}
NORMS = {NORM: (0.2, 0.4, 0.8, 1.6, 3.2)}
PROBLEMS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "linear": ({"problem": "interference", "optimizer": "sgd"}, NORMS, {"problem.overlap": (0.3,), RATE: (1.0,)}),
    "linear-adam": ({"problem": "interference", "optimizer": "adam"}, {RATE: (0.004, 0.016, 0.064)}, {}),
    "network": ({"problem": "network", "optimizer": "adam"}, {RATE: (0.001, 0.004, 0.016)}, {"problem.layers": (2,)}),
}


def _sweeps(name: str) -> dict[str, dict[str, Any]]:
    """Return the settings of the sweeps on one problem."""
    base, lengths, values = PROBLEMS[name]
    full = name == "linear"
    strengths = {"run.remedy_strength": (0.5, 1.0) if full else (1.0,)}

    def sweep(arms: tuple[str, ...], **parameters: Any) -> dict[str, Any]:
        every = {**values, **lengths, **{key.replace("_", ".", 1): chosen for key, chosen in parameters.items()}}
        return {**SHARED, **base, "arms": arms, "parameters": every, "seeds": 12 if full else 8}

    remedies = ("damp", "drop", "project")
    kinds = {
        "rewards": sweep(REWARDS),
        "entropy": sweep(PLAIN, run_entropy_bonus=(0.1, 0.3)),
        "memory": sweep(PLAIN, run_remedy=remedies, run_remedy_by=("memory",)),
        "oracle": sweep(PLAIN, run_remedy=remedies, run_remedy_by=("exact",)),
    }
    for kind in ("memory", "oracle"):
        kinds[kind]["parameters"] |= strengths
    if full:
        kinds["step"] = sweep(PLAIN, run_remedy=("project",), run_remedy_by=("step",))
        kinds["with-tang"] = sweep(REWARDS[-1:], run_remedy=("project",), run_remedy_by=("memory",))
        kinds["half"] = sweep(PLAIN, run_prompts_per_step=(16,))
        by = ("memory", "exact")
        kinds["batch"] = sweep(PLAIN, run_prompts_per_step=(16,), run_remedy=("endangered",), run_remedy_by=by)
        kinds["batch"]["parameters"] |= {"run.remedy_strength": (0.5,)}
    return {f"{kind}-{name}": settings for kind, settings in kinds.items()}


SWEEPS = {key: settings for name in PROBLEMS for key, settings in _sweeps(name).items()}


def path_of(out: Path, name: str) -> Path:
    """Return where a sweep's result is."""
    return out.with_stem(f"{out.stem}-{name}")


def main(arguments: list[str]) -> None:
    """Run the sweeps that are named, or all."""
    out, asked = Path(arguments[0]), arguments[1:] or list(SWEEPS)
    for name in asked:
        check_choice("sweep", name, SWEEPS)
        if not path_of(out, name).exists():
            print(name, flush=True)
            run(Sweep(**SWEEPS[name]), path_of(out, name))


if __name__ == "__main__":
    main(sys.argv[1:])
