"""Commands that list estimators, find and check claims, draw figures, open pages in a browser, and complete a shell."""

import json
import shutil
from pathlib import Path

from simlab.cli.parser import Command, argument, option, read_file, switch
from simlab.errors import InputError, check_choice, check_range, package

NO_BROWSER = "only print the address"


class EstimatorsCommand(Command):
    """List the estimators: names for --estimator, parameters for --param, and what each does."""

    summary = "list the estimators"
    examples = ("simlab estimators", "simlab estimators --markdown > estimators.md")
    exclusive = (("json", "markdown"),)

    json: bool = switch("as JSON")
    markdown: bool = switch("as a table with formulas, masses, signs and peaks")

    def run(self) -> None:
        from simlab.estimators_table import as_entries, markdown_table, plain_list

        print(json.dumps(as_entries(), indent=1) if self.json else markdown_table() if self.markdown else plain_list())


class AlikeCommand(Command):
    """Tell whether a weight is new: every weight of rewards 0 and 1 that ignores the order of the group is
    A_i = c(j) (r_i - b(j)), j of the other rollouts being correct. Prints both curves and the nearest known weight.
    """

    summary = "is a weight new? its normal form beside the known ones"
    examples = ("simlab alike mine.py:weight", "simlab alike pkpo --group-size 16", "simlab alike --all")

    weight: str | None = argument("WEIGHT", "an estimator, such as grpo, pkpo(k=2) or mine.py:weight", None)
    all: bool = switch("all known weights as a table in Markdown, in groups of equal speed")
    group_size: int = option("rollouts of a group, 2 to 64 (default 8)", "G", 8)

    def run(self) -> None:
        from simlab.alike import markdown, report
        from simlab.arms import parse

        check_range("group_size", self.group_size, 2, 64)
        if self.all == (self.weight is not None):
            raise InputError("alike takes WEIGHT or --all, and one of them alone")
        if self.weight is None:
            print(markdown(self.group_size))
        else:
            arm = parse(self.weight)
            print(report(str(arm), arm.build().estimator, self.group_size))


class ChallengeCommand(Command):
    """Place a weight on the frontier of rollouts against pass@256 at pass@1 = .45: on the problem that docs/findings/
    frontier.md shows, and on hidden ones, drawn by a digest of the entry, beside the weights that are the front there.
    From a clone of the repository: an installed package lacks the numbers of the front.
    """

    summary = "a weight of your own on the frontier of rollouts against pass@256"
    examples = ("simlab challenge mine.py:weight", "simlab challenge maxrl --seeds 4")

    entry: str = argument("ENTRY", "an estimator or a method: maxrl, mine.py:weight")
    seeds: int = option("number of seeds, half of which judge (default 8)", "N", 8)
    figure: Path = option("figure: .png, .svg or .pdf", "FILE", Path("challenge.png"), read=read_file)

    def run(self) -> None:
        from simlab.bundled import make_importable
        from simlab.plotting import check_figures, save_figure

        check_figures(self.figure)
        make_importable()
        from figures.shared.challenge import challenge

        placed = challenge(self.entry, self.seeds)
        print(placed.table)
        save_figure(placed.figure(), self.figure)
        print(f"figure  {self.figure}")


class WhereCommand(Command):
    """List the lines of code, checks, proofs, figures and tests that carry the tag of an equation, lemma or claim, or
    tags that begin with it. Without a tag, or with --list, the tags themselves.
    """

    summary = "find the code of an equation, lemma or claim"
    examples = (
        "simlab where f-grpo lemma-3.1",
        "simlab where fade eq-7",
        "simlab where casp",
        "simlab where a-grae table --list",
    )

    paper: str = argument("PAPER", "f-grpo, a-grae, cw-grpo, fade, casp or simlab")
    tag: str | None = argument(
        "TAG", "such as eq-12, lemma-3.1, app-j, or how it begins; a wrong one names the nearest", None
    )
    list: bool = switch("only the tags of the paper, or those that begin with TAG")

    def run(self) -> None:
        from simlab.find_tag import describe, find, labels, roots

        everywhere, tag = roots(), self.tag or ""
        if tag and not self.list:
            print(describe(find(self.paper, tag, everywhere)))
        else:
            print(*labels(self.paper, everywhere, tag), sep="\n")


class CheckCommand(Command):
    """Judge what the papers claim. The exit code is 1 if verdicts differ from the recorded ones."""

    summary = "judge the claims of the papers"
    examples = (
        "simlab check --paper casp",
        "simlab check --tag f-grpo:lemma-3.1",
        "simlab check --html report.html   (all claims: minutes)",
    )
    interrupted = "nothing was written"

    paper: str | None = option("f-grpo, a-grae, cw-grpo, fade, casp or simlab (default all of them)", "PAPER")
    tag: str | None = option("one claim: f-grpo:lemma-3.1, or lemma-3.1 beside --paper", "TAG")
    json: Path | None = option("write the verdicts and their evidence", "FILE", read=read_file)
    html: Path | None = option("write a report to read, one self-contained file", "FILE", read=read_file)
    jobs: int | None = option("processes (default one a core)", "N")

    def run(self) -> int:
        from simlab.bundled import make_importable
        from simlab.files import check_outputs, write_output

        check_outputs(self.json, self.html)
        make_importable()
        for name in ("sympy", "mpmath", "latex2mathml", "pygments"):
            package(name, "check")
        from paper_checks import report
        from paper_checks.claim import load
        from paper_checks.page import page
        from paper_checks.run import differences, judge_all, recorded, select
        from paper_checks.summary import summaries

        if self.jobs is not None:
            check_range("jobs", self.jobs, 1)
        claims = load()
        verdicts = judge_all(select(claims, self.paper, self.tag), self.jobs)
        papers = {} if self.tag else {verdict.paper for verdict in verdicts}
        findings = {paper: summary for paper, summary in summaries().items() if paper in papers}
        width = shutil.get_terminal_size((100, 24)).columns
        print(report.table(verdicts, width), report.findings(findings, width), "", report.summary(verdicts), sep="\n")
        consequence = "the verdicts are those printed"
        if self.json:
            write_output(self.json, report.as_json(verdicts).encode(), consequence)
            print(f"json    {self.json}")
        if self.html:
            write_output(self.html, page(verdicts, claims, findings).encode(), consequence)
            print(f"report  {self.html}")
        by_tag = {verdict.tag: verdict.verdict for verdict in verdicts}
        changed = differences(by_tag, recorded(), everything=not (self.paper or self.tag))
        if changed:
            print("not as recorded in paper_checks/verdicts.json:", *changed, sep="\n  ")
        return 1 if changed else 0


class FiguresCommand(Command):
    """Draw figures: SVG, PDF and PNG, and a JSON of the plotted numbers and what they come from."""

    summary = "draw the papers' figures and the project's own"
    examples = (
        "simlab figures --list",
        "simlab figures f_grpo_fig4 --out images",
        "simlab figures minibatches --rerun --out images",
    )

    name: str | None = argument("NAME", "a figure, or all", None)
    list: bool = switch("name the figures, and say what differs from the papers'")
    rerun: bool = switch("compute its numbers again, in OUT/NAME.rerun; the same command continues there")
    out: Path = option("folder of the images (default figures/images)", "FOLDER", Path("figures/images"))

    def run(self) -> int:
        from simlab.bundled import make_importable

        make_importable()
        from figures.shared.images import write
        from figures.shared.registry import describe, names, script
        from figures.shared.rerun import rerun
        from simlab.cli import main
        from simlab.files import make_folder

        if self.rerun and self.name in (None, "all"):
            raise InputError("--rerun takes minutes to hours a figure; allowed: with the NAME of one")
        if self.list == (self.name is not None):
            raise InputError("figures takes NAME, all, or --list, and one of them alone")
        scripts = [script(name) for name in (names() if self.name in (None, "all") else [self.name])]
        if self.list:
            print(*(describe(each) for each in scripts), sep="\n")
            return 0
        make_folder(self.out)
        if self.rerun and self.name:
            work = self.out / f"{self.name}.rerun"
            if code := rerun(scripts[0], work, main):
                return code
            scripts = [script(self.name, work)]
        for each in scripts:
            write(each, self.out)
            print((self.out / each.name).with_suffix(".png"))
        return 0


class ExploreCommand(Command):
    """Serve a page of panels on the loopback interface and print its address; no request leaves the machine.
    Closed forms redraw as you drag; simulations run in a process of their own, compiled at start.
    """

    summary = "look and drag: weights, tail miss, simulations, on a page"
    examples = (
        "simlab explore",
        "simlab explore --preset f-grpo-fig2",
        "simlab explore --estimator mine.py:weight",
        "simlab explore sweep.nc",
        "simlab explore run/",
        "simlab explore --export page.html",
    )
    exclusive = (("preset", "export"),)

    results: tuple[Path, ...] = argument(
        "RESULT",
        "results to open: a sweep's .nc, the folder of a training run or of a probe, here or in TRL or verl, "
        "the report.json of a diagnosis",
        (),
    )
    estimator: str | None = option("estimators of your own to choose: mine.py:weight", "LIST")
    port: int | None = option("port of the page (default 8737, or any if it is taken; 0: any)", "N")
    no_browser: bool = switch(NO_BROWSER)
    preset: str | None = option("open a view named after a figure; a wrong name lists all", "NAME")
    export: Path | None = option(
        "write closed forms and map as one .html file that needs no server", "FILE", read=read_file
    )

    def run(self) -> None:
        from simlab.grammar import split

        if self.port is not None:
            check_range("port", self.port, 0, 65535)
        for name in ("starlette", "uvicorn"):
            package(name, "explore")
        from simlab.explore.page import export
        from simlab.explore.presets import PRESETS
        from simlab.explore.server import serve

        if self.preset is not None:
            check_choice("preset", self.preset, PRESETS)
        if self.export is not None:
            if self.results or self.estimator:
                raise InputError("--export takes no results and no --estimator: its page has no server")
            export(self.export)
            print(f"page    {self.export}")
            return
        view = f"preset={self.preset}" if self.preset else "panel=results" if self.results else ""
        estimators = split(self.estimator) if self.estimator is not None else ()
        serve(self.port, browser=not self.no_browser, view=view, estimators=estimators, files=self.results)


class NotebooksCommand(Command):
    """Open the notebooks in marimo, on this machine alone (127.0.0.1). Those of a checkout are opened where
    they are; an installed package copies them first, and never over a file that is there.
    """

    summary = "open the notebooks in marimo"
    examples = ("simlab notebooks", "simlab notebooks --list", "simlab notebooks --folder copies --no-browser")

    list: bool = switch("say what each is about, and exit")
    folder: Path | None = option("where to work on copies (default the checkout's own, or simlab-notebooks)", "FOLDER")
    port: int | None = option("port of the page (default 2718, or the next that is free)", "N")
    no_browser: bool = switch(NO_BROWSER)

    def run(self) -> None:
        from simlab.bundled import bundled_folder
        from simlab.pages import check_marimo, notebooks, open_in_marimo, place_outputs, working_folder

        if self.list:
            entries = notebooks(bundled_folder("notebooks"))
            print(*(f"{name:26}{about}" for name, about in entries.items()), sep="\n")
            return
        if self.port is not None:
            check_range("port", self.port, 1, 65535)
        check_marimo()
        folder = working_folder(self.folder)
        place_outputs(folder)
        print(
            f"notebooks  {folder}\nThey show an earlier run. Run all (▶ at the lower right) makes their sliders live."
        )
        open_in_marimo(folder, self.port, browser=not self.no_browser)


class DocsCommand(Command):
    """Build the documentation of a checkout, without the network, and show it on this machine alone."""

    summary = "build the documentation and open it"
    examples = ("simlab docs", "simlab docs --out site --no-browser")

    out: Path = option("folder of the pages, whose content is replaced (default site)", "FOLDER", Path("site"))
    port: int | None = option("port of the page (default any that is free)", "N")
    no_browser: bool = switch(NO_BROWSER)

    def run(self) -> None:
        from simlab.pages import build_site, check_docs, claim_folder, serve

        if self.port is not None:
            check_range("port", self.port, 0, 65535)
        check_docs()
        claim_folder(self.out)
        build_site(self.out)
        serve(self.out, self.port, browser=not self.no_browser)


BASH = """_simlab() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} options=
    if [ "$COMP_CWORD" -gt 1 ]; then
        case ${{COMP_WORDS[1]}} in
{cases}
        esac
        case $word in -*) COMPREPLY=($(compgen -W "$options" -- "$word")) ;; *) COMPREPLY=() ;; esac
    else
        COMPREPLY=($(compgen -W "{commands}" -- "$word"))
    fi
}}
complete -o default -F _simlab simlab"""
CASE = '            {name}) options="{flags}" ;;'
ZSH = "autoload -U +X bashcompinit && bashcompinit\n"  # zsh reads bash's
SHELLS = ("bash", "zsh", "fish")


class CompletionCommand(Command):
    """Print what a shell reads to complete simlab's commands and options by the tab key."""

    summary = "print the completion of commands and options for a shell"
    examples = (
        'eval "$(simlab completion bash)"     in ~/.bashrc',
        'eval "$(simlab completion zsh)"      in ~/.zshrc, after compinit',
        "simlab completion fish | source      in ~/.config/fish/config.fish",
    )

    shell: str = argument("SHELL", "bash, zsh or fish")

    def run(self) -> None:
        from simlab.cli import build_parser

        check_choice("shell", self.shell, SHELLS)
        _, parsers = build_parser()
        flags = {name: [flag for flag in parser.flags() if flag[:2] == "--"] for name, parser in parsers.items()}
        if self.shell == "fish":
            print(*(f"complete -c simlab -n __fish_use_subcommand -f -a {name}" for name in flags), sep="\n")
            for name, names in flags.items():
                prefix = f"complete -c simlab -n '__fish_seen_subcommand_from {name}' -l"
                print(*(f"{prefix} {flag.removeprefix('--')}" for flag in names), sep="\n")
            return
        cases = "\n".join(CASE.format(name=name, flags=" ".join(names)) for name, names in flags.items())
        print((ZSH if self.shell == "zsh" else "") + BASH.format(cases=cases, commands=" ".join(flags)))
