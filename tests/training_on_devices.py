"""A training run on several devices, in a process that has them; see ``several_devices``."""

import importlib
from pathlib import Path

from quick_compilation import quick_compilation
from training_cases import settings, task

gradient, run = (importlib.import_module(f"simlab.llm.training.{name}") for name in ("gradient", "run"))


def train_and_say_where(layers, out):
    """Train a run; returns the numbers of the devices that have computed a gradient, and log-probabilities."""
    names, devices = ("_gradient", "completions_logp"), {}
    computed = {name: getattr(gradient, name) for name in names}

    def noted(name, *arguments, **others):
        result = computed[name](*arguments, **others)
        leaf = result[1] if name == "_gradient" else result
        if hasattr(leaf, "devices") and not isinstance(leaf, gradient.jax.core.Tracer):
            devices.setdefault(name, set()).update(device.id for device in leaf.devices())
        return result

    for name in names:
        setattr(gradient, name, lambda *arguments, name=name, **others: noted(name, *arguments, **others))
    try:
        with quick_compilation():
            run.train(settings(*layers), Path(out), own_task=task())
    finally:
        for name in names:
            setattr(gradient, name, computed[name])
    return {name: sorted(numbers) for name, numbers in devices.items()}
