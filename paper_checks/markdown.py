"""Write the tables of INDEX.md and README.md: lines, escaped text, and how many claims got which verdict."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from paper_checks.claim import TITLES, Claim
from paper_checks.counts import errors, verdicts_of
from paper_checks.verdict import VERDICTS


def counts_table(of_papers: Mapping[str, Sequence[Claim]], verdicts: Mapping[str, str]) -> str:
    """Count the claims of each paper by verdict, and the errors behind those that fail."""
    lines = [line("", *VERDICTS[:-1], "in all", "errors"), line("---", *["---:"] * (len(VERDICTS) + 1))]
    for paper, claims in of_papers.items():
        counts = verdicts_of(claims, verdicts, inferred=False)
        lines.append(_counts_line(TITLES[paper], counts, errors(claims, verdicts)))
    everything = [claim for claims in of_papers.values() for claim in claims]
    lines.append(_counts_line("*our inferences from the papers*", verdicts_of(everything, verdicts, inferred=True), 0))
    return "\n".join(lines) + "\n"


def line(*cells: str) -> str:
    """A line of a table."""
    return "| " + " | ".join(cells) + " |"


def escaped(text: str) -> str:
    """Text in a cell, with what Markdown would take for markup escaped.

    >>> print(escaped("|A| * B < C"))
    \\|A\\| \\* B \\< C
    """
    return re.sub(r"([\\`*<|$])", r"\\\1", " ".join(text.split()))


def _counts_line(name: str, counts: Counter[str], faults: int) -> str:
    numbers = [*(counts[verdict] for verdict in VERDICTS[:-1]), counts.total(), faults]
    return line(name, *(str(number or "") for number in numbers))
