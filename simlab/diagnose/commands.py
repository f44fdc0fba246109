"""What to run next, as the trainer that wrote the log takes it: the recommended split, and a weight where one is."""

from simlab.arms import parse
from simlab.diagnose.difficulty import Weighing
from simlab.diagnose.recommend import Recommendation


def commands(form: str, advice: Recommendation, weights: Weighing | None = None) -> tuple[str, ...]:
    """The options for TRL's, verl's or simlab's trainer, one string each; none where nothing is recommended.

    A weight is one that the simulation surely finds better in pass@1, which is what the split is advice for.

    Args:
        form: what wrote the log, ``Log.format``; for any but ``trl`` and ``verl`` the options are simlab's.
        advice: which split is recommended.
        weights: what was simulated; None for nothing.
    """
    weight = weights.for_pass_at_1.weight if weights and weights.for_pass_at_1 else None
    found = {"trl": _trl, "verl": _verl}.get(form, _simlab)(advice, weight)
    return tuple(found)


def _trl(advice: Recommendation, weight: str | None) -> list[str]:
    best, found = advice.recommended, []
    if best is not None:
        rollouts = best.prompts * best.group_size
        found.append(f"GRPOConfig(num_generations={best.group_size}, generation_batch_size={rollouts})")
    if weight is not None:
        found.append(f'SimlabGRPOTrainer(..., method="{weight}")')
    return found


def _verl(advice: Recommendation, weight: str | None) -> list[str]:
    best, options = advice.recommended, []
    if best is not None:
        options += [f"data.train_batch_size={best.prompts}", f"actor_rollout_ref.rollout.n={best.group_size}"]
    if weight is not None:
        own = parse(weight).base
        options.append(f"algorithm.adv_estimator=simlab_{own.name}")
        options += [f"+algorithm.simlab.{name}={value}" for name, value in dict(own.parameters).items()]
    return [" ".join(options)] if options else []


def _simlab(advice: Recommendation, weight: str | None) -> list[str]:
    best, options = advice.recommended, []
    if best is not None:
        options += [f"--prompts {best.prompts}", f"--group-size {best.group_size}"]
    if weight is not None:
        options.append(f'--arms "{weight}"')
    return [f"simlab train {' '.join(options)}"] if options else []
