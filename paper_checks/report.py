"""Print the verdicts as a table for a terminal, or as JSON."""

import json
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, zip_longest

from paper_checks.claim import INFERRED, TITLES
from paper_checks.evidence import Evidence
from paper_checks.summary import Summary
from paper_checks.verdict import HOLDS_IF, OURS, UNDECIDED, VERDICTS, Verdict
from simlab.files import WRITER

HEADINGS = ("tag", "claim", "verdict", "evidence")
SIGNS = {True: "+", False: "-", None: "?"}
LEGEND = "+ stands, - refuted, ? cannot tell"
AMENDED = ", amended"
NARROWEST = 24  # of the claim's column, whatever the terminal's width
LONGEST_TAG = 30
EVIDENCE = 13
GAP = "  "


def table(verdicts: Sequence[Verdict], width: int) -> str:
    """Tag, claim, verdict and evidence by paper, in the paper's own order; below a claim, what goes with its verdict.

    Args:
        verdicts: those of a paper beside one another.
        width: of the terminal, in characters.
    """
    widths = _widths(verdicts, width)
    indent = " " * (widths[0] + len(GAP))
    lines = list(_row(HEADINGS, widths))
    for _, of_paper in groupby(verdicts, key=lambda verdict: verdict.paper):
        lines.append("")
        for verdict in of_paper:
            lines += _row((verdict.tag, verdict.claim, verdict.verdict, "\n".join(_short(verdict.evidence))), widths)
            for name, text in remarks(verdict):
                lines += textwrap.wrap(
                    f"{name}: {text}",
                    sum(widths) + len(GAP) * (len(widths) - 1),
                    initial_indent=indent,
                    subsequent_indent=indent + GAP,
                )
    return "\n".join([*lines, "", LEGEND])


def remarks(verdict: Verdict) -> list[tuple[str, str]]:
    """The remarks on a verdict, by name: why a claim does not hold, what does, how much it matters, and the caveat."""
    texts = {
        "needs" if verdict.verdict == UNDECIDED else "if": verdict.condition,
        "met in the paper": verdict.met,
        "ours" if verdict.verdict == OURS else "counterexample": verdict.counterexample,
        "computed": verdict.computed,
        "instead": verdict.correction,
        "severity": verdict.severity,
        "same error as": verdict.same_error_as,
        "caveat": verdict.caveat,
        "whose": verdict.whose if verdict.whose == INFERRED else "",
    }
    return [(name, text) for name, text in texts.items() if text]


def findings(of_papers: Mapping[str, Summary], width: int) -> str:
    """The findings of each paper in plain words, with their tags.

    Args:
        of_papers: the summaries of those to show.
        width: of the terminal, in characters.
    """
    lines = []
    for paper, of_paper in of_papers.items():
        lines += ["", TITLES[paper]]
        ranked = [(f"{rank}. ", sentence) for rank, sentence in enumerate(of_paper.findings, 1)]
        for mark, sentence in [*ranked, *(("stands: ", sentence) for sentence in of_paper.stands)]:
            told = ", ".join(f"{tag} {worth}" for tag, worth in sentence.verdicts.items())
            lines += textwrap.wrap(f"{mark}{sentence.text} [{told}]", width, subsequent_indent=" " * len(mark))
    return "\n".join(lines)


def summary(verdicts: Iterable[Verdict]) -> str:
    """Count the claims by verdict.

    >>> summary([])
    '0 claims'
    """
    counts = Counter(verdict.verdict for verdict in verdicts)
    total = f"{counts.total()} claim{'' if counts.total() == 1 else 's'}"
    listed = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict])
    return f"{total}: {listed}" if listed else total


def as_json(verdicts: Iterable[Verdict]) -> str:
    """Return a JSON object whose ``verdicts`` are in the order of the report."""
    content = {"writer": WRITER, "verdicts": [verdict.as_json() for verdict in verdicts]}
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def methods(evidence: Iterable[Evidence]) -> Iterator[tuple[str, bool | None]]:
    """Each method that tested the printed statement, and what it found: refuted if any of its tests refutes."""
    by_method: dict[str, list[bool | None]] = {}
    for piece in evidence:
        if not piece.method.endswith(AMENDED):
            by_method.setdefault(piece.method, []).append(piece.stands)
    for method, answers in by_method.items():
        yield method, False if False in answers else (True if True in answers else None)


def _widths(verdicts: Sequence[Verdict], width: int) -> tuple[int, int, int, int]:
    """The four columns' widths; the claim gets what the others leave, and a verdict may break between words."""
    tag = min(LONGEST_TAG, max(map(len, ["tag", *(verdict.tag for verdict in verdicts)])))
    words = [HOLDS_IF, *(word for verdict in verdicts for word in verdict.verdict.split())]
    worth = max(map(len, words))
    return tag, max(NARROWEST, width - tag - worth - EVIDENCE - 3 * len(GAP)), worth, EVIDENCE


def _short(evidence: Iterable[Evidence]) -> list[str]:
    return [f"{SIGNS[stands]} {method}" for method, stands in methods(evidence)]


def _row(cells: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    """The lines of one row, each cell wrapped to its column."""
    wrapped = [
        [line for text in cell.split("\n") for line in textwrap.wrap(text, width)]
        for cell, width in zip(cells, widths, strict=True)
    ]
    for line in zip_longest(*wrapped, fillvalue=""):
        yield GAP.join(f"{text:<{width}}" for text, width in zip(line, widths, strict=True)).rstrip()
