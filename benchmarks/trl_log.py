"""A log of TRL's own trainer on countdown, with its completion files: for ``benchmarks.diagnose_validation``.

    python -m benchmarks.trl_log RUN/start/seed-0/model trl-log

The model is the start of a run of ``simlab train --preset countdown-conflict``; the loss, and all settings but those
below, are TRL's. It needs the extra ``trl`` and some minutes. ``trl-log/origin.json`` says what made it.
"""

import argparse
import json
from pathlib import Path
from random import Random

from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from simlab.identity import commit, versions
from simlab.llm.tasks.countdown import Countdown, CountdownProblem

STEPS, PROMPTS, GROUP_SIZE = 60, 16, 16
LEARNING_RATE = 2e-4
TASK: dict[str, int] = {"numbers": 3, "largest": 20, "least_solutions": 1}
LIBRARIES = ("simlab", "trl", "transformers", "torch", "numpy")


def origin() -> dict[str, object]:
    """Settings, commit and versions."""
    return {
        "settings": {
            "task": {"name": "countdown", **TASK},
            "rl": {
                "engine": "TRL's GRPOTrainer", "steps": STEPS, "prompts": PROMPTS, "group_size": GROUP_SIZE,
                "learning_rate": LEARNING_RATE,
            },
        },
        "commit": commit(),
        "versions": versions(LIBRARIES),
        "platform": "cpu",
    }  # fmt: skip


def main() -> None:
    """Train, and leave the completion files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a model of countdown, as simlab train leaves it")
    parser.add_argument("out", help="folder of TRL's output")
    options = parser.parse_args()
    task, random = Countdown(**TASK), Random(0)
    problems: dict[str, CountdownProblem] = {}
    while len(problems) < STEPS * PROMPTS:
        problem = task.draw(random)
        problems[problem.prompt] = problem

    def solved(prompts: list[str], completions: list[str], **others: object) -> list[float]:
        pairs = zip(prompts, completions, strict=True)
        return [float(task.solution(problems[prompt], text.strip()) is not None) for prompt, text in pairs]

    trainer = GRPOTrainer(
        options.model,
        reward_funcs=solved,
        args=GRPOConfig(
            output_dir=options.out, max_steps=STEPS, per_device_train_batch_size=PROMPTS * GROUP_SIZE,
            num_generations=GROUP_SIZE, max_completion_length=task.max_new_tokens, learning_rate=LEARNING_RATE,
            beta=0.0, bf16=False, use_cpu=True, report_to=[], save_strategy="no", logging_steps=1,
            log_completions=True, num_completions_to_print=0, gradient_checkpointing=False, disable_tqdm=True,
        ),
        train_dataset=Dataset.from_dict({"prompt": list(problems)}),
    )  # fmt: skip
    trainer.train()
    (Path(options.out) / "origin.json").write_text(json.dumps(origin(), indent=1) + "\n")


if __name__ == "__main__":
    main()
