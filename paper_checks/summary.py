"""Say in a few sentences what was found about each paper; every sentence is tied to the verdicts that it tells."""

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from paper_checks.claim import PACKAGES


@dataclass(frozen=True)
class Sentence:
    """A finding in plain words.

    Attributes:
        text: one or two short sentences.
        verdicts: the tags that it tells of, and the verdict of each; a test compares these with the record.
    """

    text: str
    verdicts: Mapping[str, str]


@dataclass(frozen=True)
class Summary:
    """The summary of one paper for its readers.

    Attributes:
        findings: what changes what a reader does, the most important first; five for each paper.
        stands: what of the paper stands.
    """

    findings: Sequence[Sentence]
    stands: Sequence[Sentence]


def summaries() -> dict[str, Summary]:
    """The summary of each paper, and of the laboratory's own findings: ``SUMMARY`` of the package's ``summary``."""
    return {
        paper: importlib.import_module(f"paper_checks.{package}.summary").SUMMARY for paper, package in PACKAGES.items()
    }
