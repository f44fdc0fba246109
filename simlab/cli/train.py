"""``simlab train``: train language models."""

import argparse
import functools
from typing import Any

from simlab.cli import options as shared
from simlab.cli.parser import Parser, add_command
from simlab.cli.values import read_number, read_path, read_whole

_ABOUT = """Train a language model by group-sampled policy gradients, several methods from the same start.
Without arguments: addition from scratch, a supervised warm start and then GRPO against F-GRPO.

ARMS are methods, separated by commas: an estimator, perhaps with parameters, another surrogate or a penalty
(+), another aggregation (@), and after @ settings of rl for itself:
  grpo   f_grpo(gamma=0.5)   maxrl+clip_higher@token_mean   grpo+kl_penalty   grpo@learning_rate=1e-4
FILE.py:NAME stands for one that you have written yourself.
After a kill, run the same command to resume from the last checkpoints in OUT. With --resume, it never begins
a new run."""


def add_to(commands: Any) -> None:
    """Add the subcommand."""
    parser = add_command(
        commands,
        "train",
        summary="train language models",
        about=_ABOUT,
        examples=[
            "simlab train --arms grpo,maxrl --seeds 4",
            "simlab train --preset maze --out maze",
            "simlab train --data mine.jsonl --model glassllm --verifier number",
        ],
        run=_train,
    )
    _add_what(parser)
    _add_data(parser)
    _add_work(parser)


def _add_what(parser: Parser) -> None:
    what = parser.add_argument_group("what")
    presets = (
        "addition (default), countdown, countdown-conflict, fewshot, maze; of the papers' tables, on countdown: "
        "f-grpo-table-2, f-grpo-tables-1-3, a-grae-tables-5-6, casp-table-6, cw-grpo-table-3, fade-fig-9"
    )
    shared.add_preset(what, presets)
    what.add_argument("--config", type=read_path, metavar="FILE", help="settings of another run (its run.json)")
    shared.add_arms(what, "methods to compare, see above")
    shared.add_seeds(what)
    what.add_argument("--task", metavar="NAME", help="addition, countdown, maze, fewshot, reasoning_gym or data")
    what.add_argument("--model", metavar="SOURCE", help="scratch, smollm2, glassllm, a .gguf file, or a folder")
    shared.add_steps(what, "policy-gradient steps")
    what.add_argument("--prompts", type=read_whole, metavar="N", help="prompts of a step, P")
    what.add_argument("--group-size", type=read_whole, metavar="N", help="rollouts of a group, G")
    what.add_argument(
        "--learning-rate", type=read_number, metavar="X", help="learning rate of the policy-gradient steps"
    )
    shared.add_param(
        what,
        "SECTION.NAME=VALUE",
        "any other setting: of the task (task.digits=3), model, warm_start, rl, evaluation or record; a wrong "
        "name lists all",
    )


def _add_data(parser: Parser) -> None:
    data = parser.add_argument_group("data of your own (docs/train.md)")
    data.add_argument("--data", metavar="FILE", help="prompts and answers to train on: .jsonl, .csv or .parquet")
    shared.add_columns(data, "names of its columns, as prompt=question,answer=gold")
    data.add_argument(
        "--evaluate",
        action="append",
        metavar="NAME=FILE",
        help="an evaluation set; repeat for several; the first is shown by default (default: one prompt in eight of "
        "--data is held out)",
    )
    data.add_argument(
        "--verifier", metavar="NAME", help="exact, number, boxed, math-verify or regex:PATTERN of RE2 (default exact)"
    )
    data.add_argument(
        "--reward", metavar="FILE.py:NAME", help="a function of prompt, completion and answer, in place of a verifier"
    )
    data.add_argument(
        "--max-new-tokens", type=read_whole, metavar="N", help="longest completion, in tokens (default 256)"
    )


def _add_work(parser: Parser) -> None:
    work = parser.add_argument_group("work")
    work.add_argument(
        "--engine", metavar="NAME", help="training engine: simlab, or trl for TRL's GRPOTrainer (default simlab)"
    )
    shared.add_out(work, "FOLDER", "run", "run folder")
    shared.add_figure(work, "OUT/comparison.png")
    work.add_argument("--tensorboard", action="store_true", help="write files for TensorBoard too")
    work.add_argument("--wandb", action="store_true", help="write files for W&B too, offline, for wandb sync")
    begun = work.add_mutually_exclusive_group()
    begun.add_argument(
        "--resume", action="store_true", help="only go on with the run at OUT: the same command without a new run"
    )
    shared.add_overwrite(begun, "replace a run of other settings or code at OUT")
    work.add_argument(
        "--other-code",
        action="store_true",
        help="go on with a run that other code, versions or another platform began; run.json and compare say so",
    )


def _train(options: argparse.Namespace) -> int:
    from simlab.files import check_replaceable, make_folder
    from simlab.llm.compare import comparison_table, draw_comparison, of_set, read_run, set_names
    from simlab.llm.training.options import build_settings
    from simlab.llm.training.run import train
    from simlab.plotting import check_figure

    settings = build_settings(options)
    figure = options.figure or options.out / "comparison.png"
    check_figure(figure)
    check_replaceable(figure)
    make_folder(figure.parent)
    train(
        settings,
        options.out,
        resume=options.resume,
        overwrite=options.overwrite,
        other_code=options.other_code,
        tensorboard=options.tensorboard,
        wandb=options.wandb,
        say=functools.partial(print, flush=True),
    )
    found = read_run(options.out)
    draw_comparison([found], figure)
    for name in set_names(found):
        print(f"evaluation set {name}:", comparison_table([of_set(found, name)]), "", sep="\n")
    if not set_names(found):
        print(comparison_table([found]), "", sep="\n")
    print(f"run     {options.out}\nfigure  {figure}")
    return 0
