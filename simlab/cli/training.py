"""``simlab train``, ``compare``, ``rollouts`` and ``diagnose``: train language models, and look at runs and logs."""

import functools
import json
from pathlib import Path
from typing import Any

from simlab.bundled import SAMPLE_LOG
from simlab.cli.parser import NUMBERS, WORDS, Command, argument, option, read_by, read_file, read_path, switch
from simlab.errors import InputError, check_range


class TrainCommand(Command):
    """Train a language model by group-sampled policy gradients, several methods from the same start.
    Without arguments: addition from scratch, a supervised warm start and then GRPO against F-GRPO.

    ARMS are methods, separated by commas: an estimator, perhaps with parameters, another surrogate or a penalty
    (+), another aggregation (@), and after @ settings of rl for itself:
      grpo   f_grpo(gamma=0.5)   maxrl+clip_higher@token_mean   grpo+kl_penalty   grpo@learning_rate=1e-4
    FILE.py:NAME stands for one that you have written yourself.
    After a kill, run the same command to resume from the last checkpoints in OUT. With --resume, it never begins
    a new run.
    """

    summary = "train language models"
    examples = (
        "simlab train --arms grpo,maxrl --seeds 4",
        "simlab train --preset maze --out maze",
        "simlab train --data mine.jsonl --model smollm2 --verifier number",
    )
    headings = (("preset", "what"), ("data", "data of your own (docs/train.md)"), ("engine", "work"))
    exclusive = (("resume", "overwrite"),)

    preset: str | None = option(
        "addition (default), countdown, countdown-conflict, weights-by-optimizer, fewshot, maze; of the papers' "
        "tables, on countdown: f-grpo-table-2, f-grpo-tables-1-3, a-grae-tables-5-6, casp-table-6, "
        "cw-grpo-table-3, fade-fig-9",
        "NAME",
    )
    config: Path | None = option("settings of another run (its run.json)", "FILE")
    arms: str | None = option("methods to compare, see above", "ARMS")
    seeds: int | None = option("number of seeds", "N")
    task: str | None = option("addition, countdown, maze, fewshot, reasoning_gym or data", "NAME")
    model: str | None = option("scratch, smollm2, a .gguf file, or a folder", "SOURCE")
    steps: int | None = option("policy-gradient steps", "N")
    prompts: int | None = option("prompts of a step, P", "N")
    group_size: int | None = option("rollouts of a group, G", "N")
    learning_rate: float | None = option("learning rate of the policy-gradient steps", "X")
    optimizer: str | None = option("adamw, or sgd for plain steps", "NAME")
    param: tuple[str, ...] = option(
        "any other setting: of the task (task.digits=3), model, warm_start, rl, evaluation, record or probe; a wrong "
        "name lists all",
        "SECTION.NAME=VALUE",
        (),
    )

    data: str | None = option("prompts and answers to train on: .jsonl, .csv or .parquet", "FILE")
    columns: str | None = option("names of its columns, as prompt=question,answer=gold", "ROLE=NAME,...")
    evaluate: tuple[str, ...] = option(
        "an evaluation set; repeat for several; the first is shown by default (default: one prompt in eight of --data "
        "is held out)",
        "NAME=FILE",
        (),
    )
    verifier: str | None = option("exact, number, boxed, math-verify or regex:PATTERN of RE2 (default exact)", "NAME")
    reward: tuple[str, ...] = option(
        "a function of prompt, completion and answer, in place of a verifier; repeat for several, of which the first "
        "says what is correct; `verifier` is the verifier; a function may return parts by name, weighed as "
        "FILE.py:NAME@PART=WEIGHT,...",
        "FILE.py:NAME[@WEIGHT]",
        (),
    )
    max_new_tokens: int | None = option("longest completion, in tokens (default 256)", "N")

    engine: str | None = option("training engine: simlab, or trl for TRL's GRPOTrainer (default simlab)", "NAME")
    out: Path = option("run folder (default run)", "FOLDER", Path("run"))
    figure: Path | None = option("figure: .png, .svg or .pdf (default OUT/comparison.png)", "FILE", read=read_file)
    tensorboard: bool = switch("write files for TensorBoard too")
    wandb: bool = switch("write files for W&B too, offline, for wandb sync")
    resume: bool = switch("only go on with the run at OUT: the same command without a new run")
    overwrite: bool = switch("replace a run of other settings or code at OUT")
    other_code: bool = switch(
        "go on with a run that other code, versions or another platform began; run.json and compare say so"
    )

    def run(self) -> None:
        from simlab.files import check_replaceable, make_folder
        from simlab.llm.compare import comparison_figure, comparison_table, read_run, select_set, set_names
        from simlab.llm.training.options import build_settings
        from simlab.llm.training.run import train
        from simlab.plotting import check_figure, save_figure

        settings = build_settings(self)
        figure = self.figure or self.out / "comparison.png"
        check_figure(figure)
        check_replaceable(figure)
        if figure.parent != self.out:  # which a refused run does not leave behind
            make_folder(figure.parent)
        choices = ("resume", "overwrite", "other_code", "tensorboard", "wandb")
        chosen = {name: getattr(self, name) for name in choices}
        inputs = [] if self.config is None else [self.config]
        train(settings, self.out, **chosen, inputs=inputs, say=functools.partial(print, flush=True))
        run = read_run(self.out)
        save_figure(comparison_figure([run]), figure)
        for name in set_names(run):
            print(f"evaluation set {name}:", comparison_table([select_set(run, name)]), "", sep="\n")
        if not set_names(run):
            print(comparison_table([run]), "", sep="\n")
        print(f"run     {self.out}\nfigure  {figure}")


class CompareCommand(Command):
    """Print a table and draw a figure of the arms of training runs, which may still be going; or of the cells of
    sweeps, with the differences to the first, paired by seed. With --at pass@1=NUMBER, cells are read where each
    seed first has that pass@1.
    """

    summary = "compare training runs, or sweeps: a table and a figure"
    examples = (
        "simlab compare run other-run --baseline grpo",
        "simlab compare run --at rollouts=20000",
        "simlab compare a.nc b.nc --figure both.png",
        "simlab compare sweep.nc --at pass@1=0.38 --metric pass@256,entropy --figure pk.pdf",
    )

    runs: tuple[Path, ...] = argument("RUN", "folder that simlab train wrote, or result of simlab sweep")
    figure: Path = option(
        "figure: .png, .svg or .pdf (default compare.png)", "FILE", Path("compare.png"), read=read_file
    )
    at: str | int = option(
        "evaluation to compare: last, best (highest pass@1), a step number, or the arms at equal cost or equal pass@1: "
        "rollouts=NUMBER, pass@1=NUMBER (default last)",
        "MOMENT",
        "last",
        read=read_by("simlab.llm.compare.run_arms:read_moment"),
    )
    pass_at_k: tuple[int, ...] | None = option(
        "k of pass@k (default 1,4,16,... up to the samples)", "LIST", read=NUMBERS
    )
    metric: tuple[str, ...] | None = option(
        "of sweeps: pass@K or any recorded metric (a wrong name lists all)", "LIST", read=WORDS
    )
    set: str | None = option("which evaluation set, of runs with several (default the first)", "NAME")
    baseline: str | None = option(
        "add the differences to this arm, paired by seed and problem, to table and figure", "ARM"
    )
    histograms: Path | None = option(
        "another figure: tokens by entropy, and candidates by probability (of record.top_n)", "FILE", read=read_file
    )
    fit: float | None = option(
        "ceiling or clock: fit ScaleRL's sigmoid to pass@k from so many rollouts on (default 0)", "ROLLOUTS", bare=0.0
    )

    def run(self) -> None:
        if all(path.suffix == ".nc" for path in self.runs):
            self._compare_sweeps()
        else:
            self._compare_runs()

    def _compare_sweeps(self) -> None:
        from simlab.plotting import check_figures, final_states, save_figure
        from simlab.sweeps.equal_level import compare_at, figure_at
        from simlab.sweeps.table import compared, read_results

        moment, _, number = str(self.at).partition("=")
        for name in ("pass_at_k", "set", "fit", "histograms", *["baseline"] * (moment != "pass@1")):
            if getattr(self, name) is not None:
                flag = name.replace("_", "-")
                raise InputError(
                    f"--{flag} is for training runs; allowed with results of sweeps: --figure, --metric, and --at "
                    "pass@1=NUMBER with --baseline"
                )
        if moment not in ("last", "pass@1"):
            raise InputError(f"--at {self.at} is for training runs; allowed with results of sweeps: pass@1=NUMBER")
        check_figures(self.figure)
        results = read_results(self.runs)
        if number:
            print(compare_at(results, float(number), self.metric, self.baseline))
            drawn = figure_at(results, float(number), self.metric, self.baseline)
        else:
            print(compared(results, self.metric))
            drawn = final_states(results, metrics=self.metric)
        save_figure(drawn, self.figure)
        print(f"\nfigure  {self.figure}")

    def _compare_runs(self) -> None:
        from simlab.llm import compare
        from simlab.plotting import check_figures, save_figure

        if self.metric is not None:
            raise InputError("--metric is for results of sweeps; allowed with training runs: --pass-at-k")
        if self.fit is not None:
            check_range("--fit", self.fit, 0)
        drawn: Any = functools.partial(compare.comparison_figure, baseline=self.baseline)
        figures = [(self.figure, drawn)]
        if self.histograms is not None:
            figures.append((self.histograms, compare.histogram_figure))
        check_figures(*(path for path, _ in figures))
        runs = [compare.read_run(folder) for folder in self.runs]
        if self.set is not None:
            runs = [compare.select_set(run, self.set) for run in runs]
        print(compare.comparison_table(runs, at=self.at, pass_at_k=self.pass_at_k, baseline=self.baseline))
        if self.fit is not None:
            print("", *compare.fit_tables(runs, self.fit, pass_at_k=self.pass_at_k, baseline=self.baseline), sep="\n")
        print()
        for path, draw in figures:
            save_figure(draw(runs, at=self.at), path)
            print(f"figure  {path}")


class RolloutsCommand(Command):
    """Show what a training run has kept of its rollouts: prompt, rewards, advantages and texts of a group.
    With --rollout, one of them token by token. With --evaluation, completions of an evaluation instead.
    With --parquet, write all of an arm and seed to a file.
    """

    summary = "show rollouts of a training run, token by token"
    examples = (
        "simlab rollouts run",
        "simlab rollouts run --step 20 --rollout 0",
        "simlab rollouts run --evaluation evaluation --step 0",
        "simlab rollouts run --parquet kept.parquet",
        "simlab rollouts run --evaluation evaluation --parquet completions.parquet",
    )

    folder: Path = argument("RUN", "folder that simlab train wrote")
    arm: str | None = option("which method (default the first)", "ARM")
    seed: int = option("which seed (default 0)", "N", 0)
    evaluation: str | None = option("completions of this evaluation set, not rollouts; step 0 is the start", "SET")
    step: int | None = option("which step (default the last)", "N")
    prompt: int | None = option(
        "which group of the step, from 0 (default one of unequal rewards; of an evaluation all prompts)", "N"
    )
    rollout: int | None = option("which rollout of the group, from 0, to see by token", "N")
    parquet: Path | None = option(
        "write them there, rollouts in TRL's columns, for simlab diagnose; all steps, unless --step says which",
        "FILE",
        read=read_file,
    )

    def run(self) -> None:
        from simlab.files import check_replaceable
        from simlab.llm.compare import read_run
        from simlab.llm.kept_texts import show_completions, show_rollouts, write_texts

        for one, other in (("evaluation", "rollout"), ("parquet", "prompt"), ("parquet", "rollout")):
            if getattr(self, one) is not None and getattr(self, other) is not None:
                raise InputError(f"--{one} with --{other}; allowed: one of them")
        if self.parquet is not None:
            if self.parquet.suffix != ".parquet":
                raise InputError(f"--parquet {self.parquet} has the suffix {self.parquet.suffix!r}; allowed: .parquet")
            check_replaceable(self.parquet)
        run = read_run(self.folder)
        where: dict[str, Any] = {"arm": self.arm, "seed": self.seed, "step": self.step}
        if self.parquet is not None:
            kind = "rollouts" if self.evaluation is None else "completions"
            print(f"{write_texts(run, self.parquet, self.evaluation, **where)} {kind} in {self.parquet}")
        elif self.evaluation is None:
            print(show_rollouts(run, **where, prompt=self.prompt, rollout=self.rollout))
        else:
            print(show_completions(run, self.evaluation, **where, prompt=self.prompt))


def read_log_path(text: str) -> Path:
    """Read the name of a log; ``sample`` is the one that comes with simlab, where there is no other."""
    path = read_path(text)
    return SAMPLE_LOG if text == "sample" and not path.exists() else path


class DiagnoseCommand(Command):
    r"""Read what a trainer has logged, and report what the logs say about prompts, groups and solutions.

    It reads rollouts of any trainer or evaluation, and metrics over steps: JSON, JSONL, CSV, parquet (extra logs),
    TensorBoard's events, also packed; a file, several, or a folder. Which column is what is told by names and
    contents, and said (docs/diagnose.md). A row that cannot be read is left out and named; the exit code is 1
    where most are.
    """

    summary = "what the logs of a training run say"
    examples = (
        "simlab diagnose sample",
        "simlab diagnose completions/",
        "simlab diagnose rollouts.jsonl --columns prompt=question,reward=score --html report.html",
        "simlab diagnose trained.jsonl --against base.jsonl",
        "simlab diagnose trainer_state.json",
    )

    logs: tuple[Path, ...] = argument(
        "LOGS", "files, or a folder of them; sample is a log that comes with simlab", read=read_log_path
    )
    columns: str | None = option(
        "columns by their roles, where another is meant than the one that was read: prompt, group (an id), step, "
        "reward, correct, completion, answer, length (in tokens), truncated, advantage, log_probability and "
        "sampler_log_probability (of the whole rollout, in nats), entropy, task",
        "ROLE=NAME,...",
    )
    reward: str | None = option("column of the reward", "NAME")
    threshold: float | None = option("least reward of a correct rollout, where no column says which are correct", "X")
    answer: str | None = option(
        "your function of a completion that gives the canonical form of its answer (default a column of answers, or "
        "the last \\boxed{}, or the last number)",
        "FILE.py:NAME",
    )
    against: Path | None = option(
        "an earlier log, or that of another run, read alike: pass@k is compared, from that log to this",
        "LOG",
        read=read_log_path,
    )
    estimator: str = option("weight in use (default grpo)", "ARM", "grpo")
    rollouts: int | None = option("budget of a step, to split into prompts x G (default that of the log)", "N")
    holdout: float = option("score predictions on this last part of the steps (default 0: none)", "SHARE", 0.0)
    simulate: bool = switch("simulate difficulty weights on the fitted prompts (minutes)")
    seed: int = option("of the bootstrap (default 0)", "N", 0)
    contents: bool = switch("only say what the files hold")
    html: Path | None = option("write a report with plots, one self-contained file", "FILE", read=read_file)
    json: Path | None = option("write all estimates", "FILE", read=read_file)

    def run(self) -> int:
        from simlab.diagnose.against import compare_logs, log_names
        from simlab.diagnose.diagnosis import check_options, diagnose
        from simlab.diagnose.estimate import as_json
        from simlab.diagnose.metrics_report import report_metrics
        from simlab.diagnose.questions import list_findings
        from simlab.diagnose.reading import MOST_REFUSED, Metrics, read_log, read_logs
        from simlab.diagnose.reading.columns import named_columns
        from simlab.diagnose.reading.files import find_files
        from simlab.diagnose.report import report
        from simlab.diagnose.summary import contents_json, contents_lines, summary
        from simlab.files import WRITER, check_outputs, write_output

        for name in ("simulate", "html", "holdout"):
            if self.contents and getattr(self, name):
                raise InputError(f"--contents with --{name}; allowed: one of them")
        if self.threshold is not None:
            check_range("threshold", self.threshold)
        check_options(self.estimator, rollouts=self.rollouts, holdout=self.holdout, seed=self.seed)
        earlier = [] if self.against is None else [self.against]
        named: dict[str, Any] = {name: getattr(self, name) for name in ("reward", "threshold", "answer")}
        named["columns"] = named_columns(self.columns)
        check_outputs(self.json, self.html, inputs=find_files([*self.logs, *earlier]))
        reading = (read_log if earlier else read_logs)(self.logs, **named)
        if isinstance(reading, Metrics):
            table = report_metrics(reading)
            print(*table.lines(), sep="\n")
            if self.html:
                write_output(self.html, table.page().encode(), "a summary is printed above")
            if self.json:
                text = json.dumps({"writer": WRITER, **table.as_json()}, indent=1)
                write_output(self.json, text.encode(), "a summary is printed above")
            return 0
        entries: dict[str, Any] = {"writer": WRITER, "contents": contents_json(reading)}
        if self.contents:
            print(*contents_lines(reading), sep="\n")
        else:
            choices = ("estimator", "rollouts", "holdout", "simulate", "seed")
            numbers = {name: getattr(self, name) for name in choices}
            result = diagnose(reading.log, **numbers, probed=bool(reading.probe))
            findings = list_findings(reading, result)
            if earlier:
                names = log_names(earlier[0], self.logs[0])
                findings.insert(0, compare_logs(reading, read_log(earlier, **named), names, result.level))
            print(*summary(reading, result, findings), sep="\n")
            entries |= {"findings": findings, "diagnosis": result}
            if self.html:
                write_output(self.html, report(reading, result, findings).encode(), "a summary is printed above")
                print(f"\nreport    {self.html}")
        if self.json:
            write_output(self.json, json.dumps(as_json(entries), indent=1).encode(), "a summary is printed above")
            print(f"\njson      {self.json}")
        return int(reading.refused_share > MOST_REFUSED)
