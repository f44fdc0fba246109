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

from paper_checks.claim import INFERRED, OWN, PACKAGES, PRINTED, SEVERITIES, TITLES, Claim
from paper_checks.formula import typeset
from paper_checks.report import remarks
from paper_checks.source import source_of
from paper_checks.summary import Sentence, Summary
from paper_checks.verdict import FAILS, HOLDS_IF, SLIP, UNDECIDED, VERDICTS, Verdict
from simlab.identity import commit, versions

FOLDER = Path(__file__).parent
SIGNS = {True: ("stands", "\N{CHECK MARK}"), False: ("refuted", "\N{BALLOT X}"), None: ("open", "?")}
HEADINGS = {
    "if": "Holds if",
    "met in the paper": "Met in the paper?",
    "needs": "What it would take",
    "ours": "Where our methods disagree",
    "counterexample": "Counterexample",
    "computed": "What the check computes",
    "instead": "Instead",
    "severity": "Severity",
    "same error as": "Same error as",
    "caveat": "Caveat",
    "whose": "Whose sentence",
}
LISTED = ("if", "met in the paper", "instead", "same error as", "caveat")  # beside a claim that does not hold
PLAIN = re.compile(r'<span class="(?:n|p|w)">([^<]*)</span>')  # names, brackets and blanks are of one colour
LIBRARIES = ("simlab", "sympy", "mpmath", "numpy", "jax")


def page(verdicts: Sequence[Verdict], claims: Mapping[str, Claim], told: Mapping[str, Summary]) -> str:
    """The page: the findings, how many verdicts there are, what does not hold, and a card for each claim.

    Args:
        verdicts: in the order of the report.
        claims: at least theirs, by tag.
        told: the summaries of the papers that were judged whole.
    """
    of_papers = {paper: [verdict for verdict in verdicts if verdict.paper == paper] for paper in PACKAGES}
    of_papers = {paper: judged for paper, judged in of_papers.items() if judged}
    return Template(_read("page.html")).substitute(
        style=_read("page.css") + _code_style(),
        script=_read("page.js"),
        counts=_counts(of_papers),
        summaries="".join(_summary(paper, summary) for paper, summary in told.items()),
        findings=_findings(of_papers),
        papers="".join(f'<option value="{paper}">{_text(TITLES[paper])}</option>' for paper in of_papers),
        verdicts="".join(f"<option>{verdict}</option>" for verdict in _present(verdicts)),
        severities="".join(f"<option>{severity}</option>" for severity in SEVERITIES),
        whose="".join(f"<option>{whose}</option>" for whose in (PRINTED, INFERRED, OWN)),
        total=len(verdicts),
        cards="".join(_section(paper, judged, claims) for paper, judged in of_papers.items()),
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
    kinds = {verdict.verdict for verdict in verdicts}
    return [verdict for verdict in VERDICTS if verdict in kinds]


def _counts(of_papers: Mapping[str, Sequence[Verdict]]) -> str:
    """Count the claims of each paper by verdict, our inferences apart; a number leads to its claims."""
    stated = {paper: [entry for entry in judged if entry.whose != INFERRED] for paper, judged in of_papers.items()}
    inferred = [entry for judged in of_papers.values() for entry in judged if entry.whose == INFERRED]
    kinds = _present([entry for judged in of_papers.values() for entry in judged])
    rows = [
        f'<tr><th><a href="#{paper}">{_text(TITLES[paper])}</a></th>{_numbers(paper, "", judged, kinds)}</tr>'
        for paper, judged in stated.items()
    ]
    if inferred:
        rows.append(f"<tr><th>our inferences</th>{_numbers('', INFERRED, inferred, kinds)}</tr>")
    heads = "".join(f"<th>{_badge(kind)}</th>" for kind in kinds)
    return f"<table class=counts><thead><tr><th></th>{heads}<th>claims</th></tr></thead>{''.join(rows)}</table>"


def _numbers(paper: str, whose: str, verdicts: Sequence[Verdict], kinds: Sequence[str]) -> str:
    counts = Counter(verdict.verdict for verdict in verdicts)
    cells = [(kind, counts[kind]) for kind in kinds] + [("", len(verdicts))]
    shown = whose or ("" if paper == "simlab" else PRINTED)
    chosen = f'href="#{paper or "claims"}" data-paper="{paper}" data-whose="{_text(shown)}"'
    return "".join(
        f'<td><a {chosen} data-verdict="{kind}">{count}</a></td>' if count else "<td></td>" for kind, count in cells
    )


def _summary(paper: str, summary: Summary) -> str:
    """The findings of a paper in plain words, and what stands."""
    findings = "".join(f"<li>{_said(sentence)}</li>" for sentence in summary.findings)
    stands = " ".join(map(_said, summary.stands))
    return (
        f"<h3>{_text(TITLES[paper])}</h3><ol class=told>{findings}</ol><p class=stands><b>What stands.</b> {stands}</p>"
    )


def _said(sentence: Sentence) -> str:
    told = " ".join(f"{_link(tag)} {_badge(worth)}" for tag, worth in sentence.verdicts.items())
    return f"{_text(sentence.text)} <span class=tags>{told}</span>"


def _findings(of_papers: Mapping[str, Sequence[Verdict]]) -> str:
    """List, for the authors, the papers' own sentences that do not hold as printed, the gravest first."""
    lists = []
    for paper, judged in of_papers.items():
        wrong = [row for row in judged if row.verdict in (FAILS, SLIP, HOLDS_IF) and row.whose != INFERRED]
        if wrong:
            graded = [(severity, [row for row in wrong if row.severity == severity]) for severity in (*SEVERITIES, "")]
            items = "".join(_graded(severity, group) for severity, group in graded if group)
            lists.append(f"<h3>{_text(TITLES[paper])}: {len(wrong)} of {len(judged)}</h3>{items}")
    return "".join(lists) or "<p>Nothing.</p>"


def _graded(severity: str, verdicts: Sequence[Verdict]) -> str:
    return f"<h4>{severity.capitalize()}</h4><ul class=findings>{''.join(map(_finding, verdicts))}</ul>"


def _finding(verdict: Verdict) -> str:
    known = dict(remarks(verdict))
    shown = [name for name in LISTED if name in known] or ["counterexample"]
    notes = " ".join(f"<strong>{HEADINGS[name]}:</strong> {_text(known.get(name, ''))}" for name in shown)
    return (
        f"<li>{_badge(verdict.verdict)} {_link(verdict.tag)} <span class=place>{_text(verdict.where)}</span>"
        f" <span class=said>{_text(verdict.claim)}</span> {notes}</li>"
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
        f' data-paper="{verdict.paper}" data-verdict="{verdict.verdict}"'
        f' data-severity="{verdict.severity}" data-whose="{_text(verdict.whose)}">'
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
        example = "" if known else f" <span class=example>{_text(piece.counterexample)}</span>"
        rows.append(
            f'<tr class={name}><td title="{name}">{sign}</td><td>{_text(piece.method)}</td>'
            f"<td>{_text(piece.figures)}{example}</td></tr>"
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
