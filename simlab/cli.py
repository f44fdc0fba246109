"""Parse and run the ``simlab`` command. Each subcommand imports the heavy libraries that it needs."""

import argparse
import functools
import io
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from simlab.errors import InputError, check_range, one_line


class _Parser(argparse.ArgumentParser):
    """A parser whose complaints are one line."""

    def __init__(self, *arguments: Any, **options: Any):
        super().__init__(*arguments, **options)
        # As Python 3.14 has it: "-1,0" is a value and no option, so that a complaint can say what is wrong with it.
        self._negative_number_matcher = re.compile(r"-\.?\d")

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing usage and exiting."""
        raise InputError(f"{message} (see {self.prog} --help)")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """End after --help, once that is written: Python would complain in several lines if it cannot be."""
        sys.stdout.flush()
        super().exit(status, message)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; its exit code: 0, 1 for verdicts other than recorded, 2 for bad input, 130 when interrupted."""
    try:
        _check_streams()
        options = _parser().parse_args(_checked(sys.argv[1:] if arguments is None else arguments))
        code = int(options.run(options))
        sys.stdout.flush()
        return code
    except InputError as error:
        return _complain(str(error), 2)
    except MemoryError:
        return _complain("the machine has too little memory for this; use fewer actions or a smaller group", 2)
    except KeyboardInterrupt:
        return _complain("interrupted; finished parts are kept, the same command goes on from them", 130)
    except OSError as error:
        _give_up_output()
        return 0 if isinstance(error, BrokenPipeError) else _complain(str(error), 2)


def _check_streams() -> None:
    """Refuse to work for nobody, and give standard streams that were closed a place to write to.

    Otherwise the next file to be opened, perhaps the result, would take the closed stream's number, and what a library
    prints there would be written into it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free, which is this one
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115  # it stays open
    if sys.stdout is None:
        raise InputError("standard output is closed; allowed: a terminal, a file, a pipe or /dev/null")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a path may have letters that the terminal has not


def _give_up_output() -> None:
    """Forget what cannot be written: it could not be when Python exits either."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(message: str, code: int) -> int:
    print(f"simlab: {one_line(message)}", file=sys.stderr)
    return code


def _checked(arguments: Sequence[str]) -> Sequence[str]:
    """The arguments, none of which gives an option the value ``--``: argparse would make a list of it."""
    for argument in arguments:
        name, _, value = argument.partition("=")
        if name.startswith("--") and value == "--":
            raise InputError(f"argument {name}: '--' is no value")
    return arguments


def _path(text: str) -> Path:
    try:
        named = bool(text) and b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        named = False
    if not named:
        raise argparse.ArgumentTypeError(f"{text!r} is no path; allowed: the name of a file or folder")
    return Path(text)


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} cannot be read; allowed: a whole number") from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} cannot be read; allowed: a number") from None


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="simlab", description="A laboratory for policy-gradient weights in RLVR.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)
    _add_sweep(commands.add_parser("sweep", help="simulate a grid of runs", formatter_class=_Wide))
    _add_merge(commands.add_parser("merge", help="join the shards of a sweep into one result"))
    _add_fit(commands.add_parser("fit", help="ceiling or clock: fit sigmoids to a sweep's curves against compute"))
    _add_estimators(commands.add_parser("estimators", help="list the estimators"))
    _add_where(commands.add_parser("where", help="find the code of an equation, lemma or claim"))
    _add_check(commands.add_parser("check", help="judge the claims of the papers"))
    _add_figures(commands.add_parser("figures", help="draw the papers' figures and the project's own"))
    _add_explore(commands.add_parser("explore", help="a page to look and drag", formatter_class=_Wide))
    _add_train(commands.add_parser("train", help="train language models", formatter_class=_Wide))
    _add_compare(commands.add_parser("compare", help="compare training runs: a table and a figure"))
    _add_rollouts(commands.add_parser("rollouts", help="show rollouts of a training run, token by token"))
    _add_diagnose(commands.add_parser("diagnose", help="what the logs of a training run tell", formatter_class=_Wide))
    _add_notebooks(commands.add_parser("notebooks", help="open the notebooks in marimo"))
    return parser


class _Wide(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str):
        super().__init__(prog, max_help_position=32, width=110)


def _add_sweep(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Simulate a grid of runs and write one NetCDF file, a table and a figure.\n"
        "Without arguments: a small sweep of group size and gamma that shows the three regimes of F-GRPO.\n\n"
        "LIST is comma-separated; 2,4,...,1024 goes on geometrically, 0,0.5,...,2 arithmetically.\n"
        'ARMS are methods: grpo, "f_grpo(gamma=0.5)+clip_higher", maxrl@token_mean (see simlab train --help).\n'
        "FILE.py:NAME stands for an estimator, surrogate, method or problem that you have written yourself.\n"
        "Finished work lies in OUT.parts: the same command, run again after a kill, goes on from there."
    )
    parser.set_defaults(run=_sweep)
    grid = parser.add_argument_group("grid")
    grid.add_argument("--preset", metavar="NAME", help="start from a preset; other options override it")
    grid.add_argument("--arms", metavar="ARMS", help="methods, separated by commas, in place of the next two options")
    grid.add_argument("--estimator", metavar="LIST", help="estimators: names (see simlab estimators) or FILE.py:NAME")
    grid.add_argument(
        "--surrogate",
        metavar="LIST",
        help="ppo_clip, cispo, casp, reinforce, ... (a wrong name lists all) or FILE.py:NAME; each with each estimator",
    )
    grid.add_argument("--group-size", metavar="LIST", help="rollouts of a group, G")
    grid.add_argument("--gamma", metavar="LIST", help="focal exponent; short for --param gamma=LIST")
    grid.add_argument("--learning-rate", metavar="LIST", help="short for --param learning_rate=LIST")
    grid.add_argument("--seeds", type=_whole, metavar="N", help="number of seeds")
    grid.add_argument(
        "--param",
        action="append",
        default=[],
        metavar="NAME=LIST",
        help="any parameter of the problem, the optimizer or the methods (of those that have it and do not fix it), or "
        "temperature, kl, entropy_bonus, supervised (coefficient of the log-likelihood of the correct "
        "answers of the base model), update_norm (of every update; 0: as it comes), epochs (passes "
        "over a batch), minibatches (of the prompts of a batch), false_positive and false_negative (rates of the "
        "verifier's errors), errors_of (rollout, answer, prompt), verifier_correction (none, backward, forward), "
        "lag (steps that the sampler is old), sampler (exact, bfloat16, float16, top_p, top_k), top_p and top_k (what "
        "those samplers keep: a share of probability, a number of actions; 1 and 0 for all), correction (none, "
        "ratio, decoupled, truncated, masked), correction_unit (token, sequence), correction_bound, "
        "allocation (of a step's rollouts: even, knapsack, variance, learnable, dynamic), allocation_by (estimate, "
        "exact), smallest_group, largest_group, "
        "update_rule (simulator, simulator_literal, theorem), prompts_per_step (of a bank; 0: all), aggregation (of a "
        "tree's tokens, without --arms: token_mean, sequence_mean, constant)",
    )
    setting = parser.add_argument_group("setting")
    setting.add_argument(
        "--problem",
        metavar="NAME",
        help="anchored (F-GRPO App. J), custom (logits=, correct=), prompt_bank, linear_softmax, interference, tree, "
        "or FILE.py:NAME",
    )
    setting.add_argument("--optimizer", metavar="NAME", help="adam, adamw or sgd")
    setting.add_argument("--steps", type=_whole, metavar="N", help="steps of each run")
    setting.add_argument("--record-every", type=_whole, metavar="N", help="steps between two records")
    setting.add_argument(
        "--budget",
        type=_number,
        metavar="COST",
        help="what each run may spend, in place of --steps: the larger its groups and batches, the fewer its steps. In "
        "rollouts, unless one costs other than 1",
    )
    setting.add_argument("--rollout-cost", type=_number, metavar="X", help="of one rollout, sampled and judged (1)")
    setting.add_argument("--update-cost", type=_number, metavar="X", help="of one gradient step (0)")
    setting.add_argument(
        "--records", type=_whole, metavar="N", help="records of each run of a budget, at equal costs (20)"
    )
    setting.add_argument("--pass-at-k", metavar="LIST", help="k of the recorded pass@k")
    setting.add_argument("--top-n", type=_whole, metavar="N", help="how many of the top log-probabilities to record")
    setting.add_argument("--dtype", metavar="NAME", help="float32 or float64")
    setting.add_argument(
        "--storage",
        "--engine",
        metavar="NAME",
        help="how actions are kept: auto (default, the cheaper one), dense (every action), lumped (those sampled, and "
        "classes of the others: up to 10^18 actions) or sharded (every action, spread over devices); --engine is its "
        "former name",
    )
    work = parser.add_argument_group("work")
    work.add_argument("--out", type=_path, default=Path("sweep.nc"), metavar="FILE", help="result (default sweep.nc)")
    work.add_argument("--figure", type=_path, metavar="FILE", help="figure (default: OUT with .png)")
    work.add_argument(
        "--memory", default="2GB", metavar="SIZE", help="of this process, and of each worker (default 2GB)"
    )
    work.add_argument("--shard", default="1/1", metavar="I/N", help="run only the I-th of N parts; join with merge")
    work.add_argument(
        "--scheduler",
        metavar="WHERE",
        help="simulate on workers of a Dask scheduler: tcp://HOST:PORT, tls://HOST:PORT, or local:N, N processes here",
    )
    work.add_argument(
        "--shard-actions",
        type=_whole,
        metavar="N",
        help="devices over which sharded storage spreads each run (default: as few as hold it)",
    )
    work.add_argument("--overwrite", action="store_true", help="replace the result of another sweep at OUT")


@contextmanager
def _workers(options: argparse.Namespace) -> Iterator[Any]:
    """Who simulates in place of this process; nobody if the options name no scheduler."""
    if options.scheduler is None:
        yield None
        return
    if options.shard != "1/1":
        raise InputError(f"--scheduler and --shard {options.shard} both spread a sweep; allowed: one of them")
    if options.shard_actions is not None:
        raise InputError("--shard-actions is for the devices of this process; allowed: without --scheduler")
    try:
        from simlab.sweeps.cluster import connected
    except ModuleNotFoundError as error:
        missing = str(error.name).partition(".")[0]
        if missing not in {"dask", "distributed"}:
            raise
        raise InputError(f'--scheduler needs {missing}; install it with: pip install "simlab[dask]"') from None
    with connected(options.scheduler) as workers:
        yield workers


def _sweep(options: argparse.Namespace) -> int:
    from simlab.files import check_replaceable, make_folder
    from simlab.plotting import check_figure, save_final_state
    from simlab.sweeps.options import build_sweeps, parse_shard, parse_size
    from simlab.sweeps.plan import Plan
    from simlab.sweeps.run import run
    from simlab.sweeps.storages import storages_in_words
    from simlab.sweeps.table import final_table

    shard, memory = parse_shard(options.shard), parse_size(options.memory)
    sweeps = build_sweeps(options)
    check_replaceable(options.out)
    figure = options.figure or options.out.with_suffix(".png")
    if figure.resolve() == options.out.resolve():
        raise InputError(f"--out {options.out} is the figure's path too; allowed: a path of its own, such as sweep.nc")
    check_figure(figure)
    for name in sweeps:
        check_replaceable(_of_sweep(figure, name))
    make_folder(figure.parent)
    with _workers(options) as workers:
        for name, sweep in sweeps.items():
            out, drawn = _of_sweep(options.out, name), _of_sweep(figure, name)
            if name:
                print(f"\n{name}:")
            plan = Plan(sweep)
            dataset = run(
                plan,
                out,
                memory=memory,
                shard=shard,
                workers=workers,
                overwrite=options.overwrite,
                shard_actions=options.shard_actions,
            )
            if dataset is None:
                print(f"shard {options.shard} is finished; when all are: simlab merge {out}")
                continue
            print(final_table(dataset), *storages_in_words(plan), sep="\n")
            save_final_state(dataset, drawn)
            print(f"\nresult  {out}\nfigure  {drawn}")
    return 0


def _of_sweep(path: Path, name: str) -> Path:
    """The path of one of several sweeps: its name is put after the stem."""
    return path.with_stem(f"{path.stem}-{name}") if name else path


def _add_merge(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_merge)
    parser.add_argument("out", type=_path, metavar="OUT", help="result to write")
    parser.add_argument(
        "folders",
        type=_path,
        nargs="*",
        metavar="PARTS",
        help="folders of parts, perhaps of several machines (OUT.parts)",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace the result of another sweep at OUT")


def _merge(options: argparse.Namespace) -> int:
    from simlab.files import check_replaceable
    from simlab.sweeps.run import merge, parts_folder
    from simlab.sweeps.table import final_table

    check_replaceable(options.out)
    dataset = merge(options.out, options.folders or [parts_folder(options.out)], overwrite=options.overwrite)
    print(final_table(dataset))
    print(f"\nresult  {options.out}")
    return 0


def _add_fit(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Fit ScaleRL's sigmoid to a metric of each cell against rollouts: asymptote A, exponent B and midpoint C_mid, "
        "with 95 % intervals over seeds. A curve that does not tell its asymptote is refused."
    )
    parser.set_defaults(run=_fit)
    parser.add_argument("result", type=_path, metavar="RESULT", help="result that simlab sweep wrote")
    parser.add_argument(
        "--metric",
        default="pass@1",
        metavar="LIST",
        help="pass@K, or another share (default pass@1); a wrong name lists all",
    )
    parser.add_argument(
        "--from",
        dest="first",
        type=_number,
        default=0.0,
        metavar="ROLLOUTS",
        help="leave out what lies before, as ScaleRL does with the first epoch (default 0)",
    )
    parser.add_argument("--baseline", metavar="CELL", help="compare the other cells with this one, paired by seed")


def _fit(options: argparse.Namespace) -> int:
    from simlab.scaling import scaling_tables
    from simlab.sweeps.curves import UNIT, curves
    from simlab.sweeps.result import read

    dataset = read(options.result)
    for place, metric in enumerate(options.metric.split(",")):
        arms = {name: own.between(options.first) for name, own in curves(dataset, metric).items()}
        print(*[""] * (place > 0), *scaling_tables(metric, UNIT, arms, options.baseline), sep="\n")
    return 0


def _add_estimators(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_estimators)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="as JSON")
    form.add_argument("--markdown", action="store_true", help="as a table with formulas, masses, signs and peaks")


def _estimators(options: argparse.Namespace) -> int:
    from simlab.estimators_table import as_entries, markdown_table, plain_list

    if options.json:
        print(json.dumps(as_entries(), indent=1))
    else:
        print(markdown_table() if options.markdown else plain_list())
    return 0


def _add_where(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_where)
    parser.add_argument("paper", metavar="PAPER", help="f-grpo, a-grae, cw-grpo, fade, casp, brorl or simlab")
    parser.add_argument("tag", metavar="TAG", help="for example eq-12, lemma-3.1, app-j")


def _where(options: argparse.Namespace) -> int:
    from simlab.find_tag import describe, find, roots

    print(describe(find(options.paper, options.tag, roots())))
    return 0


def _add_check(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Judge what the papers claim, and compare the verdicts with the recorded ones (1 if they differ)."
    )
    parser.set_defaults(run=_check)
    parser.add_argument("--paper", metavar="PAPER", help="f-grpo, a-grae, cw-grpo, fade, casp or simlab (default all)")
    parser.add_argument("--tag", metavar="TAG", help="one claim: f-grpo:lemma-3.1, or with --paper lemma-3.1")
    parser.add_argument("--json", type=_path, metavar="FILE", help="write the verdicts and their evidence")
    parser.add_argument("--html", type=_path, metavar="FILE", help="write a report to read, one self-contained file")
    parser.add_argument("--jobs", type=_whole, metavar="N", help="processes (default: one a core)")


def _check(options: argparse.Namespace) -> int:
    from simlab.bundled import make_importable

    make_importable()
    try:
        from paper_checks import report
        from paper_checks.claim import load
        from paper_checks.page import page
        from paper_checks.run import differences, judge_all, recorded, select
        from paper_checks.summary import summaries
    except ModuleNotFoundError as error:
        missing = str(error.name).partition(".")[0]
        if missing not in {"sympy", "mpmath", "latex2mathml", "pygments"}:
            raise
        raise InputError(f'check needs {missing}; install it with: pip install "simlab[check]"') from None
    from simlab.files import check_replaceable, make_folder, write_output

    if options.jobs is not None:
        check_range("jobs", options.jobs, 1)
    if options.json and options.html and options.json.resolve() == options.html.resolve():
        raise InputError(f"--json and --html are both {options.html}; allowed: a path each")
    for path in filter(None, (options.json, options.html)):
        check_replaceable(path)
        make_folder(path.parent)
    claims = load()
    try:
        verdicts = judge_all(select(claims, options.paper, options.tag), options.jobs)
    except KeyboardInterrupt:
        return _complain("interrupted; nothing was written", 130)
    width = shutil.get_terminal_size((100, 24)).columns
    judged = {} if options.tag else {verdict.paper for verdict in verdicts}
    told = {paper: summary for paper, summary in summaries().items() if paper in judged}
    print(report.table(verdicts, width))
    print(report.findings(told, width))
    print(f"\n{report.summary(verdicts)}")
    kept = "the verdicts are those printed"
    if options.json:
        write_output(options.json, report.as_json(verdicts).encode(), kept)
    if options.html:
        write_output(options.html, page(verdicts, claims, told).encode(), kept)
    found = {verdict.tag: verdict.verdict for verdict in verdicts}
    changed = differences(found, recorded(), everything=not (options.paper or options.tag))
    if changed:
        print("not as recorded in paper_checks/verdicts.json:", *changed, sep="\n  ")
    return 1 if changed else 0


def _add_figures(parser: argparse.ArgumentParser) -> None:
    parser.description = "Draw figures: SVG, PDF and PNG, and a JSON of the plotted numbers and what they come from."
    parser.set_defaults(run=_figures)
    parser.add_argument("name", nargs="?", metavar="NAME", help="a figure, or all")
    parser.add_argument("--list", action="store_true", help="name the figures, and say what differs from the papers'")
    parser.add_argument(
        "--out", type=_path, default=Path("figures/images"), metavar="FOLDER", help="default: figures/images"
    )


def _figures(options: argparse.Namespace) -> int:
    from simlab.bundled import make_importable

    make_importable()
    from figures.shared.images import write
    from figures.shared.registry import in_words, names, script
    from simlab.files import make_folder

    if options.list == (options.name is not None):
        raise InputError("figures takes NAME, all, or --list, and one of them alone")
    chosen = names() if options.list or options.name == "all" else [options.name]
    scripts = [script(name) for name in chosen]
    if options.list:
        print(*(in_words(one) for one in scripts), sep="\n")
        return 0
    make_folder(options.out)
    for one in scripts:
        write(one, options.out)
        print(options.out / one.name)
    return 0


def _add_explore(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Serve a page of seven panels on the loopback interface and print its address; no request leaves the machine.\n"
        "Closed forms redraw as you drag; simulations run in a process of their own, compiled at start."
    )
    parser.set_defaults(run=_explore)
    parser.add_argument("--preset", metavar="NAME", help="open a view named after a figure (a wrong name lists all)")
    parser.add_argument("--estimator", metavar="LIST", help="estimators of your own to choose: mine.py:weight")
    parser.add_argument("--port", type=_whole, default=0, metavar="N", help="port (default 0: any free one)")
    parser.add_argument("--no-browser", action="store_true", help="open no browser, also where there is a display")
    parser.add_argument(
        "--export",
        type=_path,
        metavar="FILE",
        help="write the closed forms and the map of interference as one .html file that needs no server",
    )


def _explore(options: argparse.Namespace) -> int:
    from simlab.grammar import split

    check_range("port", options.port, 0, 65535)
    try:
        from simlab.explore.html import export
        from simlab.explore.presets import preset
        from simlab.explore.server import serve
    except ModuleNotFoundError as error:
        missing = str(error.name).partition(".")[0]
        if missing not in {"starlette", "uvicorn"}:
            raise
        raise InputError(f'explore needs {missing}; install it with: pip install "simlab[explore]"') from None
    if options.preset is not None:
        preset(options.preset)
    if options.export is not None:
        if options.preset is not None:
            raise InputError(f"--export takes no --preset; allowed: the file's address with ?preset={options.preset}")
        if options.estimator is not None:
            raise InputError("--export takes no --estimator: its page simulates nothing; allowed: without --export")
        export(options.export)
        print(f"page    {options.export}")
        return 0
    view = f"preset={options.preset}" if options.preset else ""
    own = split(options.estimator) if options.estimator is not None else ()
    serve(options.port, browser=not options.no_browser, view=view, own=own)
    return 0


def _add_train(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Train a language model by group-sampled policy gradients, several methods from the same start.\n"
        "Without arguments: addition from scratch, a supervised warm start and then GRPO against F-GRPO.\n\n"
        "An arm is an estimator or a method, perhaps with parameters, another surrogate (+) or aggregation (@):\n"
        "grpo  f_grpo(gamma=0.5)  grpo+casp(alpha=0.05)  maxrl+clip_higher@token_mean  grpo+kl_penalty\n"
        "Your own is named by its file: mine.py:weight, or mine.py:weight(power=2) where it has that parameter.\n"
        "Behind @ an arm may have settings of rl for itself: grpo@group_size=4@learning_rate=1e-4.\n"
        "The same command, run again after a kill, goes on from the last checkpoints in OUT."
    )
    parser.set_defaults(run=_train)
    what = parser.add_argument_group("what")
    what.add_argument(
        "--preset", metavar="NAME", help="addition (default), countdown, countdown-conflict, fewshot, maze"
    )
    what.add_argument("--config", type=_path, metavar="FILE", help="settings of another run (its run.json)")
    what.add_argument("--arms", metavar="LIST", help="what is compared, separated by commas (see above)")
    what.add_argument("--seeds", type=_whole, metavar="N", help="number of seeds")
    what.add_argument("--task", metavar="NAME", help="addition, countdown, maze, fewshot, reasoning_gym or data")
    what.add_argument("--model", metavar="SOURCE", help="scratch, smollm2, glassllm, a .gguf file, or a folder")
    what.add_argument("--steps", type=_whole, metavar="N", help="steps of the policy gradient")
    what.add_argument("--prompts", type=_whole, metavar="N", help="prompts of a step, P")
    what.add_argument("--group-size", type=_whole, metavar="N", help="rollouts of each, G")
    what.add_argument("--learning-rate", type=_number, metavar="X", help="of the policy gradient")
    what.add_argument(
        "--param",
        action="append",
        default=[],
        metavar="SECTION.NAME=VALUE",
        help="any other setting: of the task (task.digits=3), model, warm_start, rl, evaluation or record; a wrong "
        "name lists all",
    )
    data = parser.add_argument_group("data of your own (docs/train.md)")
    data.add_argument("--data", metavar="FILE", help="prompts and answers to train on: .jsonl, .csv or .parquet")
    data.add_argument("--columns", metavar="PAIRS", help="names of its columns, as prompt=question,answer=gold")
    data.add_argument(
        "--evaluate",
        action="append",
        metavar="NAME=FILE",
        help="an evaluation set, as often as there are some; the first is the one that is followed. Without any, one "
        "prompt in eight of --data is held out",
    )
    data.add_argument(
        "--verifier", metavar="NAME", help="exact (default), number, boxed, math-verify or regex:PATTERN (of RE2)"
    )
    data.add_argument(
        "--reward", metavar="FILE.py:NAME", help="a function of prompt, completion and answer, in place of a verifier"
    )
    data.add_argument("--max-new-tokens", type=_whole, metavar="N", help="tokens of a completion, at most (256)")
    work = parser.add_argument_group("work")
    work.add_argument("--engine", metavar="NAME", help="what trains: simlab (default), or trl for TRL's GRPOTrainer")
    work.add_argument("--out", type=_path, default=Path("run"), metavar="FOLDER", help="run folder (default run)")
    work.add_argument("--figure", type=_path, metavar="FILE", help="figure (default: OUT/comparison.png)")
    work.add_argument("--tensorboard", action="store_true", help="write files for TensorBoard too")
    work.add_argument("--overwrite", action="store_true", help="replace a run of other settings or code at OUT")
    work.add_argument(
        "--other-code",
        action="store_true",
        help="go on with a run that other code, versions or another platform began; run.json and compare say so",
    )


def _train(options: argparse.Namespace) -> int:
    from simlab.files import check_replaceable, folders_for
    from simlab.llm.compare import comparison_table, draw_comparison, of_set, read_run, set_names
    from simlab.llm.training.options import build_settings
    from simlab.llm.training.run import train
    from simlab.plotting import check_figure

    settings = build_settings(options)
    figure = options.figure or options.out / "comparison.png"
    check_figure(figure)
    check_replaceable(figure)
    with folders_for(options.out, figure.parent):
        train(
            settings,
            options.out,
            overwrite=options.overwrite,
            other_code=options.other_code,
            tensorboard=options.tensorboard,
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


def _add_compare(parser: argparse.ArgumentParser) -> None:
    parser.description = "A table and a figure of the arms of training runs; runs may still be going."
    parser.set_defaults(run=_compare)
    parser.add_argument("runs", type=_path, nargs="+", metavar="RUN", help="folder that simlab train wrote")
    parser.add_argument(
        "--figure",
        type=_path,
        default=Path("compare.png"),
        metavar="FILE",
        help="figure: .png, .svg or .pdf (default compare.png)",
    )
    parser.add_argument(
        "--at",
        type=_moment,
        default="last",
        metavar="MOMENT",
        help="which evaluation: last (default); best, that of the highest pass@1; a step; or the arms at equal cost or "
        "equal success: rollouts=NUMBER, pass@1=NUMBER",
    )
    parser.add_argument(
        "--pass-at-k", type=_whole_list, metavar="LIST", help="k of pass@k (default 1,4,16,... up to the samples)"
    )
    parser.add_argument("--set", metavar="NAME", help="which evaluation set, of runs with several (default: the first)")
    parser.add_argument("--baseline", metavar="ARM", help="add the differences to this arm, paired by seed, and tests")
    parser.add_argument(
        "--fit",
        type=_number,
        nargs="?",
        const=0.0,
        metavar="ROLLOUTS",
        help="ceiling or clock: fit ScaleRL's sigmoid to pass@k (default 1 and the samples), from so many rollouts on",
    )


def _moment(text: str) -> str | int:
    from simlab.llm.compare.moments import read_moment

    try:
        return read_moment(text)
    except InputError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _whole_list(text: str) -> tuple[int, ...]:
    from simlab.sweeps.options import expand

    try:
        return tuple(_whole(item) for item in expand(text))
    except InputError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _compare(options: argparse.Namespace) -> int:
    from simlab.files import check_replaceable, make_folder
    from simlab.llm.compare import comparison_table, draw_comparison, fit_tables, of_set, read_run
    from simlab.plotting import check_figure

    check_figure(options.figure)
    check_replaceable(options.figure)
    runs = [read_run(folder) for folder in options.runs]
    if options.set is not None:
        runs = [of_set(run, options.set) for run in runs]
    print(comparison_table(runs, at=options.at, pass_at_k=options.pass_at_k, baseline=options.baseline))
    if options.fit is not None:
        print("", *fit_tables(runs, options.fit, pass_at_k=options.pass_at_k, baseline=options.baseline), sep="\n")
    make_folder(options.figure.parent)
    draw_comparison(runs, options.figure, at=options.at)
    print(f"\nfigure  {options.figure}")
    return 0


def _add_rollouts(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Show what a training run has kept of its rollouts: prompt, rewards, advantages and texts of a group.\n"
        "With --rollout, one of them token by token. Example: simlab rollouts run --step 20 --rollout 0"
    )
    parser.set_defaults(run=_rollouts)
    parser.add_argument("folder", type=_path, metavar="RUN", help="folder that simlab train wrote")
    parser.add_argument("--arm", metavar="ARM", help="default: the first")
    parser.add_argument("--seed", type=_whole, default=0, metavar="N", help="default: 0")
    parser.add_argument("--step", type=_whole, metavar="N", help="default: the last")
    parser.add_argument(
        "--prompt", type=_whole, metavar="N", help="which group of the step, from 0 (default: one of unequal rewards)"
    )
    parser.add_argument(
        "--rollout", type=_whole, metavar="N", help="which rollout of the group, from 0, to see by token"
    )


def _rollouts(options: argparse.Namespace) -> int:
    from simlab.llm.compare import read_run
    from simlab.llm.rollouts_view import show_rollouts

    chosen = {name: getattr(options, name) for name in ("arm", "seed", "step", "prompt", "rollout")}
    print(show_rollouts(read_run(options.folder), **chosen))
    return 0


def _add_diagnose(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Read what a trainer has logged, and say what it tells of prompts, groups and solutions.\n\n"
        "Read are TRL's completion files (log_completions=True), verl's rollout dumps (trainer.rollout_data_dir),\n"
        "an arm's seed in a run of simlab train, and tables with a rollout a row: .parquet (extra logs), .jsonl, .csv\n"
        "or .tsv. A row that cannot be read is left out, and named."
    )
    parser.set_defaults(run=_diagnose)
    parser.add_argument("logs", type=_path, nargs="+", metavar="LOGS", help="files, or a folder of them")
    parser.add_argument("--format", metavar="NAME", help="trl, verl, simlab or table (default: told by the columns)")
    parser.add_argument(
        "--columns",
        metavar="ROLE=NAME,...",
        help="columns by their roles: prompt, reward, step, completion, answer, log_probability (of the whole "
        "rollout, in nats), length (in tokens)",
    )
    parser.add_argument("--reward", metavar="NAME", help="column of the reward (default: the sum of several)")
    parser.add_argument(
        "--threshold", type=_number, metavar="X", help="least reward of a correct rollout, if not all are 0 or 1"
    )
    parser.add_argument(
        "--answer",
        metavar="FILE.py:NAME",
        help="your function of a completion that gives the canonical form of its answer (default: column answer, or "
        "the last \\boxed{}, or the last number)",
    )
    parser.add_argument("--estimator", default="grpo", metavar="ARM", help="weight in use (default: grpo)")
    parser.add_argument(
        "--rollouts", type=_whole, default=2048, metavar="N", help="budget of a step, to be split anew (default: 2048)"
    )
    parser.add_argument(
        "--holdout",
        type=_number,
        default=0.0,
        metavar="SHARE",
        help="score predictions on this last part of the steps",
    )
    parser.add_argument(
        "--simulate", action="store_true", help="simulate difficulty weights on the fitted prompts (minutes)"
    )
    parser.add_argument("--seed", type=_whole, default=0, metavar="N", help="of the bootstrap (default: 0)")
    parser.add_argument("--contents", action="store_true", help="only say what the files hold")
    parser.add_argument("--html", type=_path, metavar="FILE", help="write a report with plots, one file")
    parser.add_argument("--json", type=_path, metavar="FILE", help="write all estimates")


def _diagnose(options: argparse.Namespace) -> int:
    from simlab.diagnose.contents import as_entries, in_words
    from simlab.diagnose.diagnosis import diagnosis
    from simlab.diagnose.estimate import as_json
    from simlab.diagnose.reading import read_log
    from simlab.diagnose.reading.layouts import named_columns
    from simlab.diagnose.report import report
    from simlab.diagnose.summary import summary
    from simlab.files import check_replaceable, make_folder, write_output

    if options.threshold is not None:
        check_range("threshold", options.threshold)
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


def _add_notebooks(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Open the notebooks in marimo, on this machine alone (127.0.0.1). Those of a checkout are opened where they "
        "are; an installed package copies them first, and never over a file that is there."
    )
    parser.set_defaults(run=_notebooks)
    parser.add_argument("--list", action="store_true", help="say what each is about, and end")
    parser.add_argument(
        "--folder",
        type=_path,
        metavar="FOLDER",
        help="where to work on copies (default: the checkout's own, or simlab-notebooks)",
    )
    parser.add_argument("--port", type=_whole, metavar="N", help="default: 2718, or the next that is free")
    parser.add_argument("--no-browser", action="store_true", help="only print the address")


def _notebooks(options: argparse.Namespace) -> int:
    from simlab.bundled import bundled_folder
    from simlab.notebooks import check_marimo, check_port, notebooks, open_in_marimo, working_folder

    if options.list:
        listed = notebooks(bundled_folder("notebooks"))
        print(*(f"{name:26}{about}" for name, about in listed.items()), sep="\n")
        return 0
    if options.port is not None:
        check_port(options.port)
    check_marimo()
    folder = working_folder(options.folder)
    print(f"notebooks  {folder}")
    open_in_marimo(folder, options.port, browser=not options.no_browser)


if __name__ == "__main__":
    sys.exit(main())
