"""Write the verdicts as one self-contained HTML page."""

import functools
import html
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from paper_checks.claim import PACKAGES, TITLES, Claim
from paper_checks.formula import typeset
from paper_checks.report import remarks
from paper_checks.source import source_of
from paper_checks.verdict import FAILS, HOLDS_IF, SLIP, UNDECIDED, VERDICTS, Verdict
from simlab.identity.versions import commit, versions

FOLDER = Path(__file__).parent
SIGNS = {True: ("stands", "\N{CHECK MARK}"), False: ("refuted", "\N{BALLOT X}"), None: ("open", "?")}
HEADINGS = {
    "if": "Holds if",
    "needs": "What it would take",
    "ours": "Where our methods disagree",
    "counterexample": "Counterexample",
    "instead": "Instead",
}
PLAIN = re.compile(r'<span class="(?:n|p|w)">([^<]*)</span>')  # names, brackets and blanks are of one colour
LIBRARIES = ("simlab", "sympy", "mpmath", "numpy", "jax")


def page(verdicts: Sequence[Verdict], claims: Mapping[str, Claim]) -> str:
    """The page: how verdicts come about, how many there are, what does not hold, and a card for each claim.

    Args:
        verdicts: in the order of the report.
        claims: at least theirs, by tag.
    """
    of_papers = {paper: [verdict for verdict in verdicts if verdict.paper == paper] for paper in PACKAGES}
    of_papers = {paper: found for paper, found in of_papers.items() if found}
    return Template(_read("page.html")).substitute(
        style=_read("page.css") + _code_style(),
        script=_read("page.js"),
        counts=_counts(of_papers),
        findings=_findings(of_papers),
        papers="".join(f'<option value="{paper}">{_text(TITLES[paper])}</option>' for paper in of_papers),
        verdicts="".join(f"<option>{verdict}</option>" for verdict in _present(verdicts)),
        total=len(verdicts),
        cards="".join(_section(paper, found, claims) for paper, found in of_papers.items()),
        provenance=_provenance(),
    )


def _read(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def _text(text: str) -> str:
    return html.escape(text)


def _kind(verdict: str) -> str:
    """A verdict as the name of a style class."""
    return verdict.replace(" ", "-")


def _badge(verdict: str) -> str:
    return f'<span class="badge {_kind(verdict)}">{verdict}</span>'


def _link(tag: str) -> str:
    return f'<a class=tag href="#{_text(tag)}">{_text(tag)}</a>'


def _present(verdicts: Sequence[Verdict]) -> list[str]:
    found = {verdict.verdict for verdict in verdicts}
    return [verdict for verdict in VERDICTS if verdict in found]


def _counts(of_papers: Mapping[str, Sequence[Verdict]]) -> str:
    """How many claims of each paper got which verdict; a number leads to its claims."""
    everything = [verdict for found in of_papers.values() for verdict in found]
    kinds = _present(everything)
    rows = [
        f'<tr><th><a href="#{paper}">{_text(TITLES[paper])}</a></th>{_numbers(paper, found, kinds)}</tr>'
        for paper, found in of_papers.items()
    ]
    heads = "".join(f"<th>{_badge(kind)}</th>" for kind in kinds)
    total = f'<tr class="total"><th>in all</th>{_numbers("", everything, kinds)}</tr>'
    return f"<table class=counts><thead><tr><th></th>{heads}<th>claims</th></tr></thead>{''.join(rows)}{total}</table>"


def _numbers(paper: str, verdicts: Sequence[Verdict], kinds: Sequence[str]) -> str:
    counts = Counter(verdict.verdict for verdict in verdicts)
    cells = [(kind, counts[kind]) for kind in kinds] + [("", len(verdicts))]
    place = f"#{paper or 'claims'}"
    return "".join(
        f'<td><a href="{place}" data-paper="{paper}" data-verdict="{kind}">{count}</a></td>' if count else "<td></td>"
        for kind, count in cells
    )


def _findings(of_papers: Mapping[str, Sequence[Verdict]]) -> str:
    """What there is to tell the authors: claims that do not hold, with their amendment or else a counterexample."""
    lists = []
    for paper, found in of_papers.items():
        wrong = [verdict for kind in (FAILS, SLIP, HOLDS_IF) for verdict in found if verdict.verdict == kind]
        if wrong:
            heading = f"<summary><h3>{_text(TITLES[paper])}</h3> {len(wrong)} of {len(found)}</summary>"
            items = "".join(map(_finding, wrong))
            lists.append(f"<details>{heading}<ul class=findings>{items}</ul></details>")
    return "".join(lists) or "<p>Nothing.</p>"


def _finding(verdict: Verdict) -> str:
    name, text = min(remarks(verdict), key=lambda remark: remark[0] == "counterexample")
    return (
        f"<li>{_badge(verdict.verdict)} {_link(verdict.tag)} <span class=said>{_text(verdict.claim)}</span>"
        f" <strong>{HEADINGS[name]}:</strong> {_text(text)}</li>"
    )


def _section(paper: str, verdicts: Sequence[Verdict], claims: Mapping[str, Claim]) -> str:
    cards = "".join(_card(verdict, claims[verdict.tag]) for verdict in verdicts)
    return f'<section id="{paper}"><h2>{_text(TITLES[paper])}</h2>{cards}</section>'


def _card(verdict: Verdict, claim: Claim) -> str:
    notes = [(HEADINGS[name], text) for name, text in remarks(verdict)]
    if verdict.verdict != UNDECIDED:
        notes.append(("What would refute it", claim.refuted_by))
    notes.append(("Reading", verdict.reading))
    kind = _kind(verdict.verdict)
    return (
        f'<article id="{_text(verdict.tag)}" class="{kind}"'
        f' data-paper="{verdict.paper}" data-verdict="{verdict.verdict}">'
        f"<header>{_link(verdict.tag)} {_badge(verdict.verdict)}"
        f"<span class=where>{_text(verdict.where)}</span></header>"
        f"<p class=says>{_text(verdict.claim)}</p>"
        f"{_formula(verdict.formula)}{_evidence(verdict)}"
        f"<dl>{''.join(f'<dt>{name}</dt><dd>{_text(text)}</dd>' for name, text in notes if text)}</dl>"
        f"{_code(claim)}</article>\n"
    )


def _formula(formula: str) -> str:
    if not formula:
        return ""
    try:
        return f"<div class=formula>{typeset(formula)}</div>"
    except ValueError:
        return f"<div class=formula><code>{_text(formula)}</code></div>"


def _evidence(verdict: Verdict) -> str:
    rows = []
    for piece in verdict.evidence:
        name, sign = SIGNS[piece.stands]
        known = piece.counterexample in ("", verdict.counterexample)
        found = "" if known else f" <span class=example>{_text(piece.counterexample)}</span>"
        rows.append(
            f'<tr class={name}><td title="{name}">{sign}</td><td>{_text(piece.method)}</td>'
            f"<td>{_text(piece.figures)}{found}</td></tr>"
        )
    return f"<table class=evidence>{''.join(rows)}</table>" if rows else ""


def _code(claim: Claim) -> str:
    coloured = "\n".join(map(_coloured, source_of(claim)))
    if not coloured:
        return ""
    summary = "<summary>The code that decided it</summary>"
    return f"<details>{summary}<div class=code><pre>{coloured}</pre></div></details>"


@functools.cache
def _coloured(source: str) -> str:
    return PLAIN.sub(r"\1", highlight(source, PythonLexer(), HtmlFormatter(nowrap=True)))


def _code_style() -> str:
    light, dark = (
        HtmlFormatter(style=style, cssclass="code").get_style_defs(".code") for style in ("xcode", "github-dark")
    )
    return f"@media (prefers-color-scheme: light) {{{light}}}\n@media (prefers-color-scheme: dark) {{{dark}}}\n"


def _provenance() -> str:
    listed = ", ".join(f"{name} {version}" for name, version in versions(LIBRARIES).items())
    return _text(f"Commit {commit(FOLDER)}; {listed}.")
