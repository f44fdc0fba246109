"""``simlab estimators``, ``where``, ``check`` and ``figures``: what the library offers, and what the papers claim."""

import json
import shutil
from pathlib import Path

from simlab.cli.parser import Command, argument, option, read_file, switch
from simlab.errors import InputError, check_range, missing_extra


class EstimatorsCommand(Command):
    """List the estimators: names for --estimator, parameters for --param, and what each does."""

    summary = "list the estimators"
    examples = ("simlab estimators", "simlab estimators --markdown > estimators.md")

    json: bool = switch("as JSON")
    markdown: bool = switch("as a table with formulas, masses, signs and peaks")

    def run(self) -> None:
        """Print the list."""
        from simlab.estimators_table import as_entries, markdown_table, plain_list

        if self.json and self.markdown:
            raise InputError("--json with --markdown; allowed: one of them")
        if self.json:
            print(json.dumps(as_entries(), indent=1))
        else:
            print(markdown_table() if self.markdown else plain_list())


class WhereCommand(Command):
    """List the lines of code, checks, figures and tests that carry the tag of an equation, lemma or claim."""

    summary = "find the code of an equation, lemma or claim"
    examples = ("simlab where f-grpo lemma-3.1", "simlab where fade eq-7")

    paper: str = argument("PAPER", "f-grpo, a-grae, cw-grpo, fade, casp, brorl or simlab")
    tag: str = argument("TAG", "such as eq-12, lemma-3.1, app-j; a wrong one names the nearest")

    def run(self) -> None:
        """Print the lines."""
        from simlab.find_tag import describe, find, roots

        print(describe(find(self.paper, self.tag, roots())))


class CheckCommand(Command):
    """Judge what the papers claim, and compare the verdicts with the recorded ones. The exit code is 1 if they
    differ.
    """

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
        """Judge, and print and write the verdicts."""
        from simlab.bundled import make_importable

        make_importable()
        with missing_extra("check", "check", {"sympy", "mpmath", "latex2mathml", "pygments"}):
            from paper_checks import report
            from paper_checks.claim import load
            from paper_checks.page import page
            from paper_checks.run import differences, judge_all, recorded, select
            from paper_checks.summary import summaries
        from simlab.files import check_replaceable, make_folder, write_output

        if self.jobs is not None:
            check_range("jobs", self.jobs, 1)
        if self.json and self.html and self.json.resolve() == self.html.resolve():
            raise InputError(f"--json and --html are both {self.html}; allowed: a path each")
        for path in filter(None, (self.json, self.html)):
            check_replaceable(path)
            make_folder(path.parent)
        claims = load()
        verdicts = judge_all(select(claims, self.paper, self.tag), self.jobs)
        papers = {} if self.tag else {verdict.paper for verdict in verdicts}
        findings = {paper: summary for paper, summary in summaries().items() if paper in papers}
        print(report.table(verdicts, shutil.get_terminal_size((100, 24)).columns))
        print(report.findings(findings, shutil.get_terminal_size((100, 24)).columns))
        print(f"\n{report.summary(verdicts)}")
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
    rerun: bool = switch(
        "compute the figure's numbers again, in OUT/NAME.rerun; the same command, run again, continues there"
    )
    out: Path = option("folder of the images (default figures/images)", "FOLDER", Path("figures/images"))

    def run(self) -> int:
        """Draw, list or compute the figures again."""
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
        scripts = [script(name) for name in ([self.name] if self.name not in (None, "all") else names())]
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
