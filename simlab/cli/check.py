"""``simlab check``: judge the claims of the papers."""

import argparse
import shutil
from typing import Any

from simlab.cli.options import add_html, add_json
from simlab.cli.parser import add_command
from simlab.cli.streams import complain
from simlab.cli.values import read_whole
from simlab.errors import InputError, check_range


def add_to(commands: Any) -> None:
    """Add the subcommand."""
    parser = add_command(
        commands,
        "check",
        summary="judge the claims of the papers",
        about=(
            "Judge what the papers claim, and compare the verdicts with the recorded ones. The exit code is 1 if they\n"
            "differ."
        ),
        examples=[
            "simlab check --paper casp",
            "simlab check --tag f-grpo:lemma-3.1",
            "simlab check --html report.html   (all claims: minutes)",
        ],
        run=_check,
    )
    parser.add_argument(
        "--paper", metavar="PAPER", help="f-grpo, a-grae, cw-grpo, fade, casp or simlab (default all of them)"
    )
    parser.add_argument("--tag", metavar="TAG", help="one claim: f-grpo:lemma-3.1, or lemma-3.1 beside --paper")
    add_json(parser, "write the verdicts and their evidence")
    add_html(parser, "write a report to read, one self-contained file")
    parser.add_argument("--jobs", type=read_whole, metavar="N", help="processes (default one a core)")


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
        return complain("interrupted; nothing was written", 130)
    width = shutil.get_terminal_size((100, 24)).columns
    judged = {} if options.tag else {verdict.paper for verdict in verdicts}
    told = {paper: summary for paper, summary in summaries().items() if paper in judged}
    print(report.table(verdicts, width))
    print(report.findings(told, width))
    print(f"\n{report.summary(verdicts)}")
    kept = "the verdicts are those printed"
    if options.json:
        write_output(options.json, report.as_json(verdicts).encode(), kept)
        print(f"json    {options.json}")
    if options.html:
        write_output(options.html, page(verdicts, claims, told).encode(), kept)
        print(f"report  {options.html}")
    found = {verdict.tag: verdict.verdict for verdict in verdicts}
    changed = differences(found, recorded(), everything=not (options.paper or options.tag))
    if changed:
        print("not as recorded in paper_checks/verdicts.json:", *changed, sep="\n  ")
    return 1 if changed else 0
