"""Write README.md: for each paper five findings in plain words, and what stands."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from paper_checks.claim import PACKAGES, TITLES, Claim, load
from paper_checks.markdown import counts_table
from paper_checks.run import recorded
from paper_checks.summary import Sentence, Summary, summaries
from paper_checks.verdict import FAILS, HOLDS_IF, SLIP, VERDICTS
from simlab.files import write_whole

README = Path(__file__).with_name("README.md")
HEAD = """\
# A referee report that you can run

Five papers argue about the weight of a rollout in the policy gradient. `simlab check` judges their claims by a
derivation, the samples of small policies, 50-digit arithmetic or a seeded simulation, or says why it cannot.
[INDEX.md](INDEX.md) lists every claim; `simlab check --html report.html` shows evidence and code. Coq has checked the
core, such as [Lemma 3.1](proofs/tail_miss.v), for every policy, group size and number of actions.

A claim is a paper's own sentence; *our inferences* are marked and counted apart. An identity is a definition or a line
of algebra. Entries that fail for one reason are one error. A test compares these sentences with the verdicts.
"""


def readme(claims: Sequence[Claim], verdicts: Mapping[str, str], of_papers: Mapping[str, Summary]) -> str:
    """The text of README.md.

    Args:
        claims: all of them.
        verdicts: recorded, by tag.
        of_papers: the summaries.
    """
    by_paper = {paper: [claim for claim in claims if claim.paper == paper] for paper in PACKAGES}
    sections = [HEAD, counts_table(by_paper, verdicts)]
    by_tag = {claim.tag: claim for claim in claims}
    sections += [_section(paper, summary, by_tag) for paper, summary in of_papers.items()]
    return "\n".join(sections)


def main() -> None:
    """Write README.md anew from the record, as after a change of wording."""
    write_whole(README, readme(list(load().values()), recorded(), summaries()).encode())


def _section(paper: str, summary: Summary, claims: Mapping[str, Claim]) -> str:
    findings = "\n".join(f"{rank}. {_said(sentence, claims)}" for rank, sentence in enumerate(summary.findings, 1))
    stands = " ".join(_said(sentence, claims) for sentence in summary.stands)
    told: dict[str, str] = {}
    for sentence in (*summary.findings, *summary.stands):
        told |= sentence.verdicts
    return f"## {TITLES[paper]}\n\n{findings}\n\nWhat stands: {stands}\n\n{_folded(told)}\n"


def _said(sentence: Sentence, claims: Mapping[str, Claim]) -> str:
    """The sentence, and whether what it says against a paper is about our inference from it."""
    against = [claims[tag].inferred for tag, verdict in sentence.verdicts.items() if verdict in (FAILS, HOLDS_IF, SLIP)]
    if not any(against):
        return sentence.text
    return f"{sentence.text} *{'Our inference' if all(against) else 'Partly our inference'}.*"


def _folded(told: Mapping[str, str]) -> str:
    """The tags by verdict, out of the way of who reads the sentences."""
    listed = "; ".join(
        f"{verdict}: {' '.join(f'`{tag}`' for tag in told if told[tag] == verdict)}"
        for verdict in VERDICTS
        if verdict in told.values()
    )
    return f"<details><summary>Claims</summary>\n\n{listed}\n\n</details>"


if __name__ == "__main__":
    main()
