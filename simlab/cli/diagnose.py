"""``simlab diagnose``: say what the logs of a training run tell."""

import argparse
import json
from typing import Any

from simlab.cli import options as shared
from simlab.cli.parser import Parser, add_command
from simlab.cli.values import read_number, read_path, read_whole
from simlab.errors import check_range

_ABOUT = """Read what a trainer has logged, and report what the logs say about prompts, groups and solutions.

It reads TRL's completion files (log_completions=True), verl's rollout dumps (trainer.rollout_data_dir),
an arm's seed in a run of simlab train, and tables with one rollout per row: .parquet (extra logs), .jsonl,
.csv or .tsv. A row that cannot be read is left out, and named."""


def add_to(commands: Any) -> None:
    """Add the subcommand."""
    parser = add_command(
        commands,
        "diagnose",
        summary="what the logs of a training run say",
        about=_ABOUT,
        examples=[
            "simlab diagnose completions/",
            "simlab diagnose rollouts.jsonl --columns prompt=question,reward=score --html report.html",
        ],
        run=_diagnose,
    )
    _add_log(parser)
    _add_estimates(parser)


def _add_log(parser: Parser) -> None:
    parser.add_argument("logs", type=read_path, nargs="+", metavar="LOGS", help="files, or a folder of them")
    parser.add_argument("--format", metavar="NAME", help="trl, verl, simlab or table (default told by the columns)")
    shared.add_columns(
        parser,
        "columns by their roles: prompt, reward, step, completion, answer, log_probability (of the whole rollout, in "
        "nats), length (in tokens)",
    )
    parser.add_argument("--reward", metavar="NAME", help="column of the reward (default the sum of several)")
    parser.add_argument(
        "--threshold", type=read_number, metavar="X", help="least reward of a correct rollout, if not all are 0 or 1"
    )
    parser.add_argument(
        "--answer",
        metavar="FILE.py:NAME",
        help="your function of a completion that gives the canonical form of its answer (default column answer, or the "
        "last \\boxed{}, or the last number)",
    )


def _add_estimates(parser: Parser) -> None:
    parser.add_argument("--estimator", default="grpo", metavar="ARM", help="weight in use (default grpo)")
    parser.add_argument(
        "--rollouts",
        type=read_whole,
        default=2048,
        metavar="N",
        help="budget of a step, to split into prompts x G (default 2048)",
    )
    parser.add_argument(
        "--holdout",
        type=read_number,
        default=0.0,
        metavar="SHARE",
        help="score predictions on this last part of the steps (default 0: none)",
    )
    parser.add_argument(
        "--simulate", action="store_true", help="simulate difficulty weights on the fitted prompts (minutes)"
    )
    parser.add_argument("--seed", type=read_whole, default=0, metavar="N", help="of the bootstrap (default 0)")
    parser.add_argument("--contents", action="store_true", help="only say what the files hold")
    shared.add_html(parser, "write a report with plots, one self-contained file")
    shared.add_json(parser, "write all estimates")


def _diagnose(options: argparse.Namespace) -> int:
    from simlab.diagnose.contents import as_entries, in_words
    from simlab.diagnose.diagnosis import check_options, diagnosis
    from simlab.diagnose.estimate import as_json
    from simlab.diagnose.reading import read_log
    from simlab.diagnose.reading.layouts import named_columns
    from simlab.diagnose.report import report
    from simlab.diagnose.summary import summary
    from simlab.files import check_replaceable, make_folder, write_output

    if options.threshold is not None:
        check_range("threshold", options.threshold)
    check_options(options.estimator, rollouts=options.rollouts, holdout=options.holdout, seed=options.seed)
    for path in filter(None, (options.json, options.html)):
        check_replaceable(path)
        make_folder(path.parent)
    reading = read_log(
        options.logs,
        form=options.format,
        columns=named_columns(options.columns),
        reward=options.reward,
        threshold=options.threshold,
        answer=options.answer,
    )
    entries = {"contents": as_entries(reading)}
    if options.contents:
        print(*in_words(reading), sep="\n")
    else:
        found = diagnosis(
            reading.log,
            estimator=options.estimator,
            rollouts=options.rollouts,
            holdout=options.holdout,
            simulate=options.simulate,
            seed=options.seed,
        )
        print(*summary(reading, found), sep="\n")
        entries["diagnosis"] = as_json(found)
        if options.html:
            write_output(options.html, report(reading, found).encode(), "a summary is printed above")
            print(f"\nreport    {options.html}")
    if options.json:
        write_output(options.json, json.dumps(entries, indent=1).encode(), "a summary is printed above")
        print(f"\njson      {options.json}")
    return 0
