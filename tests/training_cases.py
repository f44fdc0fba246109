"""A task and a model so small that a step takes milliseconds, and a run of them as a program of its own.

The prompt is a sum such as ``3+4=``, and a completion is right if it begins with a small digit: an untrained model is
right about once in three times, so that most groups are mixed.
"""

import json
import sys
from pathlib import Path

import jax
import numpy as np
from quick_compilation import quick_compilation

from simlab.arms import parse
from simlab.llm.model import shapes
from simlab.llm.tasks.base import TaskProblem
from simlab.llm.tasks.from_callable import CallableTask, from_callable
from simlab.llm.training.folder import TrainerState, read_lines
from simlab.llm.training.optimizer import first_state
from simlab.llm.training.policy_gradient import Trainer
from simlab.llm.training.run import train
from simlab.llm.training.settings import TrainingSettings, merge_layers
from simlab.llm.training.setup import VERIFIER_KEY, Setup, step_key
from simlab.llm.vocabulary import characters

TINY = {
    "model": {
        "hidden_size": 16, "intermediate_size": 16, "num_layers": 1, "num_heads": 2, "num_kv_heads": 1,
        "max_positions": 16,
    },
    "warm_start": {"batch": 8, "max_norm": 0.5, "eps": 1e-3},
    "rl": {
        "steps": 2, "prompts": 4, "group_size": 4, "learning_rate": 1e-2, "microbatch": 8, "max_norm": 0.5, "eps": 1e-3,
    },
    "evaluation": {"every": 100, "samples": 4, "rollouts": 16},
    "record": {"checkpoint_every": 100, "instruments_every": 1000},
    "arms": ["grpo"],
}  # fmt: skip
# Sixteen, so that the arms of every seed begin with the first of them.
TRAINING = [f"{first}+{second}=" for second in range(1, 5) for first in range(1, 5)]
EVALUATION = [f"{first}+9=" for first in range(1, 5)]


def reward(prompt, completion):
    """1 where the first character is a digit below 5."""
    return float(completion[:1] in set("01234"))


PART_WEIGHTS = {"correct": 1.0, "size": 0.25}


def in_parts(prompt, completion):
    """Correctness, and a length that is missing where the first character is one of 5 to 8."""
    return {"correct": reward(prompt, completion), "size": None if completion[:1] in set("5678") else len(completion)}


def task(rewards=reward, training=TRAINING, evaluation=EVALUATION, **others):
    choices = {"vocabulary": characters("0123456789+="), "demonstration": lambda prompt: "0" + prompt[0]}
    return from_callable(rewards, training, evaluation, 3, **choices | others)


def settings(*layers):
    return TrainingSettings.from_data(merge_layers(TINY, *layers))


def parameters_of(config, scale=0.4, seed=1):
    random = np.random.default_rng(seed)
    return jax.tree.map(
        lambda shape: jax.numpy.asarray(scale * random.normal(size=shape), "float32"),
        shapes(config),
        is_leaf=lambda shape: isinstance(shape, tuple),
    )


def trainer_and_state(name, rl=None, *, own_task=None, model=None, record=None, seed=1):
    asked = settings({"rl": rl or {}, "model": model or {}, "record": record or {}, "arms": [name]})
    setup = Setup(asked, task() if own_task is None else own_task)
    start, method = parameters_of(setup.loaded.config, seed=seed), parse(name).build()
    verifier = step_key(seed, VERIFIER_KEY)
    trainer = Trainer(setup.policy(), setup.reader, method, asked.rl, start, 0, asked.record.top_n, verifier)
    states = (jax.tree.map(np.float32, stage.init()) for stage in (method.estimator, method.surrogate))
    return trainer, TrainerState(start, first_state(asked.rl, start), *states)._replace(older=(start,) * asked.rl.lag)


def contents(out):
    """All that a run has left, by file, without the seconds that steps took, and so without sizes of metrics."""
    files = {}
    for path in sorted(path for path in out.rglob("*") if path.is_file() and path.parent.name != "tensorboard"):
        content = path.read_bytes()
        if path.name == "metrics.jsonl":
            content = [{**line, "seconds": 0} for line in read_lines(path)]
        elif path.name == "state.npz":
            with np.load(path) as arrays:
                content = {name: (str(arrays[name].dtype), arrays[name].tobytes()) for name in arrays.files}
                content["record"] = json.loads(str(arrays["record"]))
                content["record"]["sizes"].pop("metrics.jsonl", None)
        files[str(path.relative_to(out))] = content
    return files


LONG = {
    "rl": {"steps": 24},
    "evaluation": {"every": 5},
    "record": {"checkpoint_every": 3},
    "arms": ["ha_dw", "grpo"],
}


OFF_POLICY = {
    "lag": 2, "sampler": "bfloat16", "correction": "truncated", "minibatches": 2,
    "false_positive": 0.2, "errors_of": "answer", "verifier_correction": "backward",
}  # fmt: skip


# Arms with settings of their own, evaluated by a truncated distribution.
OWN_SETTINGS = {
    "arms": ["grpo@group_size=2@learning_rate=0.02", "f_grpo@group_size=8@minibatches=2"],
    "evaluation": {"top_p": 0.9, "temperature": 0.7},
}
KINDS = {
    "plain": (),
    "off_policy": ({"rl": OFF_POLICY}, {"arms": ["f_grpo", "grpo"]}),
    "own_settings": (OWN_SETTINGS,),
    "remedy": ({"rl": {"prompts": 8}, "arms": ["grpo@remedy=endangered", "grpo@remedy=project"]},),
    "probe": ({"probe": {"every": 2, "estimator": "both", "panel": 2, "rollouts": 8}},),
}


class TwoSets(CallableTask):
    @property
    def evaluation_sets(self):
        return {"near": self.evaluation, "far": tuple(TaskProblem(f"{first}+8=") for first in range(1, 4))}


def long_run(out, warm_start=0, kind="plain", **options):
    addition = task() if OWN_SETTINGS not in KINDS[kind] else TwoSets(**vars(task()))
    asked = settings(LONG, {"warm_start": {"steps": warm_start}}, *KINDS[kind])
    train(asked, Path(out), own_task=addition, **options)


if __name__ == "__main__":
    with quick_compilation():
        long_run(sys.argv[1], int(sys.argv[2]), sys.argv[3])
