"""Write README.md: for each paper five findings in plain words, and what stands."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from paper_checks.claim import PACKAGES, TITLES, Claim, load
from paper_checks.markdown import counts_table
from paper_checks.run import recorded
from paper_checks.summary import Sentence, Summary, summaries
from simlab.files import write_whole

README = Path(__file__).with_name("README.md")
HEAD = """\
# A referee report that you can run

Five papers argue about the weight of a rollout in the policy gradient. `simlab check` puts each of their claims to a
test that does not know the answer: a derivation, the enumeration of all samples of small policies, arithmetic of 50
digits, or a seeded simulation. Below are the findings that matter most to somebody who trains models, and what stands.
[INDEX.md](INDEX.md) lists every claim; `simlab check --html report.html` shows the evidence and the code that decided.
Coq has checked the core, such as [Lemma 3.1](proofs/tail_miss.v), for every policy, group size and number of actions.

The sentences are written by hand and the counts are generated; `python -m paper_checks.record` judges every claim and
writes this page. A test compares each verdict that a sentence tells with the recorded one. A claim is the paper's own
sentence; what we inferred from a paper is counted apart. Entries that fail for one reason count as one error.
"""


def readme(claims: Sequence[Claim], verdicts: Mapping[str, str], of_papers: Mapping[str, Summary]) -> str:
    """The text of README.md.

    Args:
        claims: all of them.
        verdicts: recorded, by tag.
        of_papers: the summaries.
    """
    by_paper = {paper: [claim for claim in claims if claim.paper == paper] for paper in PACKAGES}
    parts = [HEAD, counts_table(by_paper, verdicts)]
    parts += [_section(paper, summary) for paper, summary in of_papers.items()]
    return "\n".join(parts)


def main() -> None:
    """Write README.md anew from the record, as after a change of wording."""
    write_whole(README, readme(list(load().values()), recorded(), summaries()).encode())


def _section(paper: str, summary: Summary) -> str:
    findings = "\n".join(f"{rank}. {_said(sentence)}" for rank, sentence in enumerate(summary.findings, 1))
    stands = "\n".join(f"- {_said(sentence)}" for sentence in summary.stands)
    return f"## {TITLES[paper]}\n\n{findings}\n\nWhat stands:\n\n{stands}\n"


def _said(sentence: Sentence) -> str:
    told = "; ".join(f"`{tag}` {verdict}" for tag, verdict in sentence.verdicts.items())
    return f"{sentence.text} <sub>{told}</sub>"


if __name__ == "__main__":
    main()
