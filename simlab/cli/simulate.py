"""``simlab sweep``, ``merge`` and ``fit``: simulate a grid of runs, join its parts, and fit its curves."""

import shlex
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from simlab.cli.parser import NUMBERS, WORDS, Command, argument, option, read_by, read_file, switch
from simlab.errors import InputError, package

DEFAULT_OUT = Path("sweep.nc")
ARMS, TOTAL = read_by("simlab.sweeps.parameters:arm_texts"), read_by("simlab.sweeps.grid:read_total")
SIZE, SHARD = read_by("simlab.sweeps.options:parse_size"), read_by("simlab.sweeps.options:parse_shard")
OTHER_RESULT = "replace the result of another sweep at OUT"


class SweepCommand(Command):
    """Simulate a grid of runs and write one NetCDF file, a table and a figure.
    Without arguments: a small sweep of group size and gamma that shows the three regimes of F-GRPO. Options that name
    no method, problem or parameter change that sweep; the first line of the output says what ran.

    LIST is comma-separated: 2,4,...,1024 continues a geometric sequence, 0,0.5,...,2 an arithmetic one.
    ARMS are methods: grpo, "f_grpo(gamma=0.5)+clip_higher", maxrl@token_mean (see simlab train --help).
    FILE.py:NAME stands for an estimator, surrogate, method or problem that you have written yourself.
    Finished work is kept in OUT.parts; after a kill, run the same command to resume.
    """

    summary = "simulate a grid of runs"
    examples = (
        "simlab sweep --seeds 2",
        "simlab sweep --estimator grpo,f_grpo --gamma 0.5,1 --group-size 2,8 --steps 200",
        "simlab sweep --preset league --out league.nc",
    )
    headings = (("preset", "grid"), ("problem", "setting"), ("out", "work"))
    exclusive = (("steps", "total"), ("shard", "scheduler"))

    preset: str | None = option("start from it, other options override; a wrong name lists all", "NAME")
    arms: tuple[str, ...] | None = option("methods, in place of the next two options", "ARMS", read=ARMS)
    estimators: tuple[str, ...] | None = option("see simlab estimators", "LIST", read=WORDS, flag="estimator")
    surrogates: tuple[str, ...] | None = option("a wrong name lists all", "LIST", read=WORDS, flag="surrogate")
    group_sizes: tuple[int, ...] | None = option("rollouts of a group, G", "LIST", read=NUMBERS, flag="group-size")
    gamma: str | None = option("focal exponent; short for --param gamma=LIST", "LIST")
    learning_rate: str | None = option("short for --param learning_rate=LIST", "LIST")
    seeds: int | None = option("number of seeds", "N")
    param: tuple[str, ...] = option("any parameter that --parameters lists", "NAME=LIST", ())
    parameters: bool = switch("list the parameters of this sweep with their defaults, and exit")

    problem: str | None = option(
        "anchored (F-GRPO App. J), custom (logits=,correct=), prompt_bank, linear_softmax, interference, network, tree",
        "NAME",
    )
    optimizer: str | None = option("adam, adamw, momentum, muon or sgd", "NAME")
    record_every: int | None = option("steps between two records", "N")
    steps: int | None = option("steps of each run", "N")
    total: float | None = option(
        "rollouts of each run, or their cost: larger groups take fewer steps; such as 2^18",
        "COST",
        read=TOTAL,
        flag="budget",
    )
    rollout_cost: float | None = option("cost of one rollout, including its verification (default 1)", "X")
    update_cost: float | None = option("cost of one gradient step (default 0)", "X")
    records: int | None = option("records of each run of a budget, at equal costs (default 20)", "N")
    pass_at_k: tuple[int, ...] | None = option("k of the recorded pass@k", "LIST", read=NUMBERS)
    top_n: int | None = option("how many top log-probabilities to record", "N")
    dtype: str | None = option("float32 or float64", "NAME")
    storage: str | None = option(
        "how actions are kept: auto (default, the cheaper one), dense (every action), lumped (those sampled, and "
        "classes of the others: up to 10^18 actions) or sharded (every action, spread over devices)",
        "NAME",
    )

    out: Path | None = option(
        f"result (default {DEFAULT_OUT}, sweep-2.nc, sweep-3.nc, ...: the first name not taken by another sweep)",
        "FILE",
        read=read_file,
    )
    figure: Path | None = option("figure: .png, .svg or .pdf (default OUT with .png)", "FILE", read=read_file)
    memory: int = option("of this process, and of each worker (default 2GB)", "SIZE", 2 * 2**30, read=SIZE)
    shard: tuple[int, int] = option("run only the I-th of N parts; join with merge", "I/N", (1, 1), read=SHARD)
    scheduler: str | None = option(
        "simulate on workers of a Dask scheduler: tcp://HOST:PORT, tls://HOST:PORT, or local:N, N processes here",
        "WHERE",
    )
    shard_actions: int | None = option("devices that share a run of sharded storage (default as few as hold it)", "N")
    overwrite: bool = switch(OTHER_RESULT)

    def run(self) -> None:
        from simlab.sweeps.options import build_sweeps
        from simlab.sweeps.parameters import parameter_table

        sweeps = build_sweeps(self)
        if self.parameters:
            print(*(parameter_table(sweep) for sweep in sweeps.values()), sep="\n\n")
            return
        paths = {name: self._paths(name, sweep) for name, sweep in sweeps.items()}
        if len(paths) > 1:
            print(f"{len(paths)} sweeps: {', '.join(str(out) for out, _ in paths.values())}")
        with self._workers() as workers:
            for name, sweep in sweeps.items():
                if name:
                    print(f"\n{name}:")
                self._run(sweep, *paths[name], workers)
                if self.out is None and (default := _named(DEFAULT_OUT, name)) != paths[name][0]:
                    print(f"{default} holds the result of another sweep; this one's is {paths[name][0]}")

    def _paths(self, name: str, sweep: Any) -> tuple[Path, Path]:
        from simlab.files import check_outputs
        from simlab.plotting import check_figure
        from simlab.sweeps.run import free_path

        out = _named(self.out or DEFAULT_OUT, name)
        if self.out is None and not self.overwrite:
            out = free_path(out, sweep)
        figure = _named(self.figure, name) if self.figure else out.with_suffix(".png")
        check_figure(figure)
        check_outputs(out, figure)
        return out, figure

    def _run(self, sweep: Any, out: Path, figure: Path, workers: Any) -> None:
        from simlab.plotting import final_states, save_figure
        from simlab.sweeps.plan import Plan
        from simlab.sweeps.run import parts_folder, run
        from simlab.sweeps.table import describe_storages, describe_sweep, final_table

        plan = Plan(sweep)
        work = {name: getattr(self, name) for name in ("memory", "shard", "overwrite", "shard_actions")}
        dataset = run(plan, out, workers=workers, **work)
        if dataset is None:
            print("shard {}/{} is finished; when all are: simlab merge {}".format(*self.shard, shlex.quote(str(out))))
            return
        ran = describe_sweep(dataset)
        print(ran, *describe_storages(plan), "", final_table(dataset), sep="\n")
        save_figure(final_states({"": dataset}, ran), figure)
        print(f"\nparts   {parts_folder(out)} (more seeds or cells of this sweep reuse them; may be deleted)")
        print(f"result  {out}\nfigure  {figure}")

    def _workers(self) -> Any:
        if self.scheduler is None:
            return nullcontext()
        if self.shard_actions is not None:
            raise InputError("--shard-actions is for the devices of this process; allowed: without --scheduler")
        for name in ("dask", "distributed"):
            package(name, "dask")
        from simlab.sweeps.cluster import connected

        return connected(self.scheduler)


def _named(path: Path, name: str) -> Path:
    return path.with_stem(f"{path.stem}-{name}") if name else path


class MergeCommand(Command):
    """Join the shards of a sweep, from one machine or several, into one result."""

    summary = "join the shards of a sweep into one result"
    examples = ("simlab sweep --shard 1/2; simlab sweep --shard 2/2; simlab merge sweep.nc",)

    out: Path = argument("OUT", "result to write", read=read_file)
    folders: tuple[Path, ...] = argument("PARTS", "folders of parts (default OUT.parts)", ())
    overwrite: bool = switch(OTHER_RESULT)

    def run(self) -> None:
        from simlab.files import check_replaceable
        from simlab.sweeps.run import merge, parts_folder
        from simlab.sweeps.table import describe_sweep, final_table

        check_replaceable(self.out)
        dataset = merge(self.out, [*self.folders] or [parts_folder(self.out)], overwrite=self.overwrite)
        print(describe_sweep(dataset), "", final_table(dataset), f"\nresult  {self.out}", sep="\n")


class FitCommand(Command):
    """Fit ScaleRL's sigmoid to a metric of each cell against rollouts: asymptote A, exponent B and midpoint
    C_mid, with 95 % intervals over seeds. A curve that does not tell its asymptote is refused.
    """

    summary = "ceiling or clock: fit sigmoids to a sweep's curves against compute"
    examples = (
        "simlab fit long-weights.nc",
        "simlab fit long-weights.nc --metric pass@1,pass@64 --from 4096 --baseline grpo",
    )

    result: Path = argument("RESULT", "result that simlab sweep wrote")
    metric: str = option("pass@K, or another share; a wrong name lists all (default pass@1)", "LIST", "pass@1")
    first: float = option(
        "ignore records before this many rollouts, as ScaleRL does with the first epoch (default 0)",
        "ROLLOUTS",
        0.0,
        flag="from",
    )
    baseline: str | None = option("compare the other cells with this one, paired by seed", "CELL")

    def run(self) -> None:
        from simlab.scaling import scaling_tables
        from simlab.sweeps.result import read
        from simlab.sweeps.table import curves

        dataset = read(self.result)
        for number, metric in enumerate(self.metric.split(",")):
            arms = {name: curve.between(self.first) for name, curve in curves(dataset, metric).items()}
            print(*[""] * (number > 0), *scaling_tables(metric, "rollouts", arms, self.baseline), sep="\n")
